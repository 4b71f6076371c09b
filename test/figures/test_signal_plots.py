# SPDX-License-Identifier: Apache-2.0
"""Signals of recordings, thinned for drawing."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.figures.signal_plots import Band, envelope, signal_figures


def test_a_smooth_signal_is_drawn_without_steps():
    time = np.linspace(0.0, 20.0, 20_001)
    position = np.stack([np.sin(time), -time], axis=1)
    found = envelope(Recording(time, position, position, ('a', 'b')), most=400)
    assert len(found.time) == 400
    for drawn, true in zip(found.signals['position'].T, position.T, strict=True):
        # steps would be off by a stretch, 0.1 s
        assert np.interp(time, found.time, drawn) == pytest.approx(true, abs=0.02)


def test_words_stand_once_where_they_would_cover_each_other():
    time = np.linspace(0.0, 20.0, 200)
    signal = np.sin(time)[:, None]
    bands = (
        Band(6.0, 6.5, 'in the air'),
        Band(7.0, 8.0, 'in the air'),
        Band(15.0, 16.0, 'in the air'),
    )
    marked = replace(envelope(Recording(time, signal, signal, ('one',))), bands=bands)
    (figure,) = signal_figures([marked], ['rad'])
    shades = figure.layout['shapes']
    assert [each['x0'] for each in shades] == [6.0, 7.0, 15.0]
    assert ['label' in each for each in shades] == [True, False, True]
