# SPDX-License-Identifier: Apache-2.0
"""Parts of a recording: whatever way rows come, none is lost, doubled or in the wrong part."""

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from robot_identification.estimation import time_blocks
from robot_identification.estimation.row_block import RowBlock
from robot_identification.estimation.time_blocks import (
    BlockCollector,
    TimeBlockConstants,
    TimeBlocks,
)
from robot_identification.regressor.inverse_dynamics import RowPattern

PATTERN = RowPattern((np.array([0, 1, 3]), np.array([2]), np.array([1, 2])), 4)


def rows_of(time, seed, pattern=PATTERN):
    """Return entries, efforts and which rows are kept."""
    rng = np.random.default_rng(seed)
    n = len(pattern.columns)
    keep = rng.random((time.size, n)) < 0.7
    return rng.normal(size=(pattern.width, time.size)), rng.normal(size=(time.size, n)), keep


def collected(time, rows, parts=(), segments=None, pattern=PATTERN) -> TimeBlocks:
    entries, effort, keep = rows
    segments = np.zeros(time.size, dtype=int) if segments is None else segments
    collector = BlockCollector()
    cuts = sorted({*np.flatnonzero(np.diff(segments)) + 1, *parts, time.size})
    start = 0
    for stop in cuts:
        which = slice(start, stop)
        block = RowBlock(
            time=time[which],
            position=np.zeros_like(effort[which]),
            velocity=np.zeros_like(effort[which]),
            pattern=pattern,
            entries=entries[:, which],
            effort=effort[which],
            keep=keep[which],
            raw_entries=entries[:, :0],
            raw_effort=effort[:0],
            segment=int(segments[start]) if start < time.size else 0,
        )
        assert list(collector.watched([block])) == [block]
        start = stop
    return collector.blocks()


def gram(part, j, size=4):
    """Return [W | tau]^T [W | tau] of a joint's rows in a part."""
    whole = np.zeros((len(part[j].rows), size + 1))
    whole[:, np.append(part[j].columns, size)] = part[j].rows
    return whole.T @ whole


def expected(time, rows, which, j, pattern=PATTERN):
    """Return the same of rows that are in memory."""
    entries, effort, keep = rows
    matrix = np.concatenate([pattern.expand(entries), effort[:, :, None]], axis=2)
    kept = matrix[which & keep[:, j], j]
    return kept.T @ kept


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 400),
    rate=st.sampled_from([3.0, 20.0, 100.0, 1000.0]),
    begin=st.sampled_from([0.0, 17.3, 1.7e9]),
    parts=st.lists(st.integers(1, 400), max_size=4),
)
def test_every_row_is_in_the_part_of_its_time(seed, count, rate, begin, parts):
    time = begin + np.arange(count) / rate
    rows = rows_of(time, seed)
    blocks = collected(time, rows, [part for part in parts if part < count])
    assert blocks.duration == time_blocks.BLOCKS.first_duration
    place = ((np.arange(count) / rate) / blocks.duration + 1e-4).astype(int)
    told = [p for p in np.unique(place) if rows[2][place == p].any()]
    assert len(blocks) == len(told)
    for part, p in zip(blocks.parts, told, strict=True):
        for j in range(3):
            np.testing.assert_allclose(
                gram(part, j), expected(time, rows, place == p, j), atol=1e-9
            )
            assert len(part[j].rows) <= part[j].columns.size + 1


def test_a_part_ends_with_its_segment():
    segments = np.repeat([0, 1], 5)
    for later in (0.05, 7.0, -3.0):  # within what a part lasts, beyond, and before
        time = np.concatenate([np.arange(5) * 0.01, later + np.arange(5) * 0.01])
        rows = rows_of(time, 1)
        blocks = collected(time, rows, segments=segments)
        assert len(blocks) == 2
        for segment, part in enumerate(blocks.parts):
            for j in range(3):
                exact = expected(time, rows, segments == segment, j)
                np.testing.assert_allclose(gram(part, j), exact, atol=1e-9)


def test_many_parts_are_merged_and_nothing_is_lost():
    time = np.arange(20_000) / 20.0
    rows = rows_of(time, 2)
    blocks = collected(time, rows, range(500, 20_000, 500))
    assert time_blocks.BLOCKS.merged_parts / 2 <= len(blocks) < time_blocks.BLOCKS.merged_parts
    assert blocks.duration == 3.2
    place = (time / blocks.duration + 1e-9).astype(int)
    for p in (0, 100, len(blocks) - 1):
        for j in range(3):
            np.testing.assert_allclose(
                gram(blocks.parts[p], j), expected(time, rows, place == p, j), atol=1e-8
            )


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(time_blocks, 'BLOCKS', TimeBlockConstants(memory=200_000))
    pattern = RowPattern.full(3, 30)
    time = np.arange(30_000) / 100.0
    blocks = collected(time, rows_of(time, 3, pattern), range(500, 30_000, 500), pattern=pattern)
    assert blocks.nbytes > 200_000  # so few of them are kept all the same
    assert time_blocks.BLOCKS.least_parts < len(blocks) <= 2 * time_blocks.BLOCKS.least_parts


def test_recordings_of_different_lengths_get_parts_of_one_length():
    long, short = np.arange(6000) / 20.0, np.arange(300) / 20.0
    first, second = collected(long, rows_of(long, 4)), collected(short, rows_of(short, 5))
    assert first.duration > second.duration
    for both in (first.followed_by(second), second.followed_by(first)):
        assert both.duration == first.duration
        assert len(both) == len(first) + np.ceil(15.0 / first.duration)
        for j in range(3):
            total = sum(gram(part, j) for part in both.parts)
            apart = sum(gram(part, j) for part in (*first.parts, *second.parts))
            np.testing.assert_allclose(total, apart, atol=1e-8)
    assert TimeBlocks.concatenate([first, None]) is None
    assert len(TimeBlocks.concatenate([second, second])) == 2 * len(second)
    assert len(first.at_most(7)) <= 7


def test_parts_do_not_depend_on_when_recordings_are_joined():
    """As they are read, or each reduced to fewer parts before, as in files of factors."""
    recordings = []
    for seed, count in enumerate((117, 330, 41)):
        time = np.arange(count) / 10.0
        recordings.append(collected(time, rows_of(time, seed)))
    direct = TimeBlocks.concatenate(recordings).at_most(100)
    stored = TimeBlocks.concatenate([each.at_most(50) for each in recordings]).at_most(100)
    assert direct.duration == stored.duration and len(direct) == len(stored) <= 100
    assert direct.recordings == stored.recordings and len(direct.recordings) == 3
    for one, other in zip(direct.parts, stored.parts, strict=True):
        for j in range(3):
            np.testing.assert_allclose(gram(one, j), gram(other, j), atol=1e-9)
    # more recordings than parts: then those of different ones are merged
    assert len(TimeBlocks.concatenate([recordings[2].at_most(1)] * 9).at_most(4)) <= 4
