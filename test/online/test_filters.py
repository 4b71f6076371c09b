# SPDX-License-Identifier: Apache-2.0
"""Streams that are not even: jitter, lost samples, gaps, clocks that go back, NaN, other rates."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.data.sampling import GAP, on_grid
from robot_identification.estimation.rows import row_blocks
from robot_identification.online import identifier_of
from robot_identification.online.filters import OnlineGrid

PERIOD = 1e-3


def offline(time, values, rate):
    """Return the rows of the offline grid, with their stamps, stretch by stretch."""
    n = values.shape[1] // 2
    recording = Recording(time, values[:, :n], values[:, n:], tuple('abcdef'[:n]))
    for part in recording.split(GAP * PERIOD):
        stretch = on_grid(part, rate)
        yield stretch.time, np.hstack([stretch.position, stretch.effort])


def online(time, values, rate):
    grid = OnlineGrid(values.shape[1], PERIOD, 1.0 / rate)
    rows = []
    for stamp, sample in zip(time, values, strict=True):
        rows += [(r.stamp, r.values.copy(), r.first) for r in grid.push(stamp, sample)]
    return grid, rows


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    jitter=st.sampled_from([0.0, 1e-4, 0.2, 0.45]),
    lost=st.sampled_from([0.0, 0.05]),
    gaps=st.integers(0, 2),
    drift=st.sampled_from([1.0, 1.0003]),
    rate=st.sampled_from([1000.0, 500.0, 1700.0]),
)
def test_rows_are_those_of_the_offline_grid(seed, jitter, lost, gaps, drift, rate):
    random = np.random.default_rng(seed)
    time = np.arange(400) * PERIOD * drift + jitter * PERIOD * random.uniform(-1.0, 1.0, 400)
    for at in random.integers(50, 350, gaps):
        time[at:] += random.uniform(6.0, 40.0) * PERIOD
    kept = random.uniform(size=400) >= lost
    time = time[kept]
    values = np.stack([np.sin(9.0 * time), np.cos(7.0 * time)], axis=1)
    grid, found = online(time, values, rate)
    place = 0
    for stamps, rows in offline(time, values, rate):
        stop = place + 1
        while stop < len(found) and not found[stop][2]:
            stop += 1
        part = found[place:stop] if place < len(found) and len(rows) > 2 else []
        # what the last two samples before a gap settle is not waited for
        missing = len(rows) - len(part)
        assert 0 <= missing <= 2 + 10 * max(1.0, rate * PERIOD)
        np.testing.assert_allclose([p[0] for p in part], stamps[: len(part)], rtol=0, atol=1e-9)
        if part:
            np.testing.assert_allclose([p[1] for p in part], rows[: len(part)], atol=1e-9)
            place = stop
    assert place == len(found) == grid.counts.rows
    if jitter == 0.0 and drift == 1.0 and lost == 0.0 and rate == 1000.0:
        assert grid.counts.interpolated == 0 or gaps
    assert grid.counts.stretches >= 1 + gaps * (gaps < 2)


def test_samples_that_cannot_be_used_are_left_out_and_counted():
    grid = OnlineGrid(2, PERIOD, PERIOD)
    pushed = [(k * PERIOD, np.array([k, 1.0])) for k in range(20)]
    pushed[7] = (pushed[7][0], np.array([7.0, np.nan]))
    pushed[12] = (np.nan, pushed[12][1])
    pushed.insert(10, (0.0085, np.array([99.0, 99.0])))  # out of order
    pushed.insert(16, pushed[15])  # twice
    rows = [row.values.copy() for p in pushed for row in grid.push(*p)]
    assert (grid.counts.invalid, grid.counts.late, grid.counts.stretches) == (2, 2, 1)
    np.testing.assert_allclose(rows, [[k, 1.0] for k in range(18)], atol=1e-9)
    assert grid.counts.interpolated > 0 and grid.counts.samples == 22


@pytest.mark.parametrize('jump', [-5.0, 0.02, 1e6])
def test_a_clock_that_jumps_starts_a_new_stretch(jump):
    grid = OnlineGrid(1, PERIOD, PERIOD)
    stamps = np.arange(20) * PERIOD
    stamps[10:] += jump
    rows = [row for k, t in enumerate(stamps) for row in grid.push(t, np.array([float(k)]))]
    assert grid.counts.stretches == 2 and grid.counts.late == 0
    assert [row.first for row in rows] == [k in (0, 8) for k in range(16)]


def test_an_identification_goes_on_after_a_gap(case):
    """The filters fill again, and what was learned stays."""
    whole = case.recording
    time = whole.time.copy()
    time[1000:] += 0.5
    gapped = replace(whole, time=time)
    online = case.online()
    first = len(case.run(online, gapped.rows(0, 1000)))
    rows, values = online.rows, online.values
    second = case.run(online, gapped.rows(1000, None))
    assert online.counts.stretches == 2
    assert first == len(second) and second[0].stamp > time[1000]
    assert online.rows > 1.5 * rows and (online.values != values).any()
    blocks = list(row_blocks(gapped, case.regressor, case.base, case.problem.signals))
    matrix = np.concatenate([b.matrix for b in blocks if b.segment == 1])
    found = online.pattern.expand(np.array([u.entries for u in second]).T)
    np.testing.assert_allclose(found, matrix[: len(second)], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize('rate', [100.0, 250.0, 1000.0])
def test_it_runs_at_the_rates_of_robots(case, rate):
    """A window has six samples at least; Coulomb friction is found at all of them."""
    every = round(1000.0 / rate)
    window = replace(case.problem.signals.polynomial_approximation, window=max(0.044, 6.0 / rate))
    case = case.with_signals(polynomial_approximation=window)
    online = identifier_of(case.problem, 1.0 / rate, base=case.base)
    signals = (case.recording.time, case.recording.position, case.recording.effort)
    for sample in zip(*(signal[::every] for signal in signals), strict=True):
        online.push(*sample)
    assert online.counts.interpolated == 0
    friction = case.base.names.index('joint_1.fc')
    assert online.values[friction] == pytest.approx(3.0, abs=0.5)
