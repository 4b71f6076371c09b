# SPDX-License-Identifier: Apache-2.0
"""Signals of recordings, thinned for drawing."""

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.figures.signal_plots import envelope


def test_a_smooth_signal_is_drawn_without_steps():
    time = np.linspace(0.0, 20.0, 20_001)
    position = np.stack([np.sin(time), -time], axis=1)
    found = envelope(Recording(time, position, position, ('a', 'b')), most=400)
    assert len(found.time) == 400
    for drawn, true in zip(found.signals['position'].T, position.T, strict=True):
        # steps would be off by a stretch, 0.1 s
        assert np.interp(time, found.time, drawn) == pytest.approx(true, abs=0.02)
