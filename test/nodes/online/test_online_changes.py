# SPDX-License-Identifier: Apache-2.0
"""Changes of the robot on /diagnostics, from played joint states."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy')

from std_srvs.srv import SetBool


def test_a_payload_is_told(live):
    """While the estimate is frozen: with the link that carries it and its mass."""
    load = np.array([1.0, 0.0, 0.0, 0.0, 0.01, 0.0, 0.01, 0.0, 0.0, 0.01])
    empty, loaded = live.states(seconds=12.0), live.states(seconds=14.0, load=load)
    live.play(empty[:1500])
    assert live.call(SetBool, 'freeze', data=True).success
    try:
        live.play(empty[1500:] + loaded[3000:])
        link = live.arm.robot.links[-1]
        status = live.diagnostic('change', f"payload at '{link}'")
        values = {pair.key: pair.value for pair in status.values}
        assert values['unit'] == 'kg'
        assert float(values['size']) == pytest.approx(1.0, rel=0.2)
        since = float(values['since, by the stamps [s]'])
        assert 12.5 < since < 13.5
    finally:
        assert live.call(SetBool, 'freeze', data=False).success
