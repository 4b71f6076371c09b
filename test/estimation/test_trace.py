# SPDX-License-Identifier: Apache-2.0
"""Traces: bounded, evenly thinned, from the first row on."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.estimation.rows import RowBlock
from robot_identification.estimation.trace import EMPTY_TRACE, TraceCollector


def block(first: int, count: int, segment: int = 0) -> RowBlock:
    time = np.arange(first, first + count, dtype=float)
    return RowBlock.of(
        np.stack([time, np.ones(count)], axis=1)[:, None, :],
        np.empty((0, 1, 2)),
        time=time,
        position=np.zeros((count, 1)),
        velocity=np.zeros((count, 1)),
        effort=3.0 * time[:, None],
        keep=np.ones((count, 1), dtype=bool),
        raw_effort=np.empty((0, 1)),
        segment=segment,
    )


@settings(max_examples=100, deadline=None)
@given(counts=st.lists(st.integers(0, 300), max_size=12), limit=st.integers(2, 50))
def test_even_bounded_and_complete_where_short(counts, limit):
    collector = TraceCollector(limit)
    first = 0
    for count in counts:
        collector.push(block(first, count))
        first += count
    trace = collector.trace()
    assert len(trace) <= limit
    if first:
        assert trace.time[0] == 0.0
        assert len(trace) == first if first <= limit else len(trace) > limit // 2 - 1
        steps = np.diff(trace.time)
        assert steps.size == 0 or (steps == steps[0]).all()
        fit = trace.fit(np.array([2.0, 1.0]))
        assert np.array_equal(fit.measured[:, 0], 3.0 * trace.time)
        assert np.array_equal(fit.predicted[:, 0], 2.0 * trace.time + 1.0)
        assert np.array_equal(fit.residual, fit.measured - fit.predicted)
    else:
        assert len(trace) == 0


def test_segments_of_traces_are_numbered_on():
    parts = []
    for segments in ((0, 1), (0,)):
        collector = TraceCollector(100)
        for segment in segments:
            collector.push(block(0, 3, segment))
        parts.append(collector.trace())
    together = parts[0].followed_by(parts[1])
    assert together.segment.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert EMPTY_TRACE.followed_by(parts[0]) is parts[0]
    assert parts[0].followed_by(EMPTY_TRACE) is parts[0]


def test_arrays_cannot_be_written_to(problem):
    system = problem().system
    for array in (system.factors, system.rows, system.trace.matrix, system.trace.keep):
        with pytest.raises(ValueError, match='read-only'):
            array[0] = 0
