# SPDX-License-Identifier: Apache-2.0
"""Channel of recorded efforts: against its frequency response, whatever the blocks."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.signals import channel_kernel, EffortChannel

RATE = 50.0


@pytest.mark.parametrize('delay', [0.0, 0.005, 0.013, 0.09])
@pytest.mark.parametrize('low_pass', [0.0, 8.0, 4.0, 1.0])
def test_kernel_has_the_response_of_the_equation(delay, low_pass):
    taps = channel_kernel(delay, low_pass, RATE)
    places = np.arange(taps.size) - taps.size // 2
    for frequency in (0.0, 0.5, 2.0, 8.0, 15.0, 19.0):
        found = taps @ np.exp(-2j * np.pi * frequency * places / RATE)
        wanted = np.exp(-2j * np.pi * frequency * delay)
        if low_pass:
            wanted /= 1.0 + (frequency / low_pass) ** 2
        assert abs(found - wanted) < 2e-3


def test_no_delay_and_no_filter_is_one_tap():
    np.testing.assert_array_equal(channel_kernel(0.0, 0.0, RATE), [1.0])


def _passed(signals, sizes):
    kernels = [channel_kernel(0.013, 4.0, RATE), np.ones(1), channel_kernel(0.09, 1.0, RATE)]
    channel = EffortChannel(kernels, np.array([0, 1, 2, 2, -1]))
    bounds = np.cumsum([0, *sizes])
    parts = [channel.push(signals[:, a:b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    return np.hstack([*parts, channel.finish()])


@pytest.mark.parametrize('sizes', [[400], [1] * 400, [7] * 57 + [1], [0, 3, 397], [120, 280]])
def test_outputs_do_not_depend_on_the_blocks(sizes):
    signals = np.random.default_rng(0).standard_normal((5, 400))
    found = _passed(signals, sizes)
    assert found.shape == signals.shape
    np.testing.assert_allclose(found, _passed(signals, [400]), atol=1e-13)
    # groups without a channel stay as they are, in step with the others
    np.testing.assert_array_equal(found[[1, 4]], signals[[1, 4]])


def test_a_sine_comes_out_late_and_smaller():
    time = np.arange(1000) / RATE
    signals = np.tile(np.sin(2 * np.pi * 2.0 * time), (5, 1))
    found = _passed(signals, [1000])[0, 200:-200]
    wanted = np.sin(2 * np.pi * 2.0 * (time - 0.013)) / (1.0 + (2.0 / 4.0) ** 2)
    np.testing.assert_allclose(found, wanted[200:-200], atol=2e-3)


def test_a_constant_stays_up_to_both_ends():
    np.testing.assert_allclose(_passed(np.full((5, 300), 3.0), [300]), 3.0, rtol=1e-12)


@pytest.mark.parametrize('delay', [0.02, 0.4])
def test_the_first_row_stands_for_those_before_the_stretch(delay):
    """A whole number of rows late, few or more than the kernel's reach."""
    signal = np.random.default_rng(1).standard_normal(60)
    channel = EffortChannel([channel_kernel(delay, 0.0, RATE)], np.array([0]))
    found = np.hstack([channel.push(signal[None]), channel.finish()])[0]
    late = round(delay * RATE)
    wanted = np.concatenate([np.full(late, signal[0]), signal[:-late]])
    np.testing.assert_allclose(found, wanted, atol=1e-13)
