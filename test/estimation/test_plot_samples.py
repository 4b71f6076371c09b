# SPDX-License-Identifier: Apache-2.0
"""Traces: bounded, evenly thinned, from the first row on."""

from dataclasses import replace
import weakref

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.estimation.plot_samples import (
    EMPTY_TRACE,
    PlotSamples,
    TraceCollector,
)
from robot_identification.estimation.row_block import RowBlock
from robot_identification.estimation.system import combine


def block(first: int, count: int, segment: int = 0) -> RowBlock:
    time = np.arange(first, first + count, dtype=float)
    return RowBlock.from_matrix(
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


@settings(max_examples=100)
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


@settings(max_examples=50)
@given(count=st.integers(1, 900), limit=st.integers(2, 50))
def test_thinning_leaves_what_a_smaller_collector_holds(count, limit):
    collector = TraceCollector(limit)
    collector.push(block(0, count))
    assert np.array_equal(traced(count).thinned(limit).time, collector.trace().time)


def test_memory_is_bounded_where_there_are_many_columns(monkeypatch):
    monkeypatch.setattr('robot_identification.estimation.plot_samples.TRACE_BYTES', 64_000)
    collector = TraceCollector(20_000)
    for first in range(0, 20_000, 1000):
        collector.push(block(first, 1000))
    # two columns of eight bytes each
    assert len(collector.trace()) == 2500


def traced(*lengths: int) -> PlotSamples:
    """Return the trace of a recording with segments of these lengths."""
    collector = TraceCollector(10_000)
    for segment, length in enumerate(lengths):
        collector.push(block(0, length, segment))
    return collector.trace()


def test_segments_of_traces_are_numbered_on():
    collector = TraceCollector(100)
    for trace in (EMPTY_TRACE, traced(3, 3), EMPTY_TRACE, traced(3)):
        collector.follow(trace)
    assert collector.trace().segment.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@settings(max_examples=100)
@given(
    recordings=st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=4), max_size=12),
    limit=st.integers(2, 80),
)
def test_traces_of_many_recordings_are_thinned_alike(recordings, limit):
    collector = TraceCollector(limit)
    for lengths in recordings:
        collector.follow(traced(*lengths))
    trace = collector.trace()
    segments = [n for lengths in recordings for n in lengths]
    total, stride = sum(segments), 1
    while -(-total // stride) > limit:
        stride *= 2
    expected = np.repeat(np.arange(len(segments)), segments)[::stride]
    assert trace.segment.tolist() == expected.tolist()
    times = np.concatenate([np.arange(n) for n in (*segments, 0)])[::stride]
    assert np.array_equal(trace.time, times)


def test_memory_does_not_grow_with_the_number_of_recordings(problem, monkeypatch):
    monkeypatch.setattr('robot_identification.estimation.system.TRACE_ROWS', 500)
    part = problem(m=200).system
    alive: list[weakref.ref] = []
    most = 0

    def systems():
        nonlocal most
        for _ in range(64):
            system = replace(part, factor=replace(part.factor), trace=replace(part.trace))
            alive.extend([weakref.ref(system.factor), weakref.ref(system.trace)])
            yield system
            del system
            most = max(most, sum(each() is not None for each in alive))

    together = combine(systems())
    assert together.factor.rows.tolist() == (64 * part.factor.rows).tolist()
    assert 250 < len(together.trace) <= 500
    assert set(together.trace.segment) == set(range(64))
    # a tree of factors, six deep, and the system that is being taken in
    assert most <= 10


def test_arrays_cannot_be_written_to(problem):
    system = problem().system
    for array in (
        system.factor.triangles,
        system.factor.rows,
        system.trace.matrix,
        system.trace.keep,
    ):
        with pytest.raises(ValueError, match='read-only'):
            array[0] = 0
