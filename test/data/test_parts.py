# SPDX-License-Identifier: Apache-2.0
"""Parts of recordings: nothing lost, nothing twice, whatever the blocks that are read."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.data.parts import head, in_memory, KeptRecording, read_parts
from robot_identification.data.recording import Recording


def made(n_rows, velocity=True):
    time = np.arange(n_rows) / 100.0
    position = np.column_stack([time, -time])
    return Recording(time, position, 2.0 * position, ('a', 'b'), position if velocity else None)


@dataclass
class Blocks:
    """A recording that comes in blocks of given sizes, over and over, whatever is asked for."""

    whole: Recording
    sizes: list

    @property
    def joints(self):
        return self.whole.joints

    def blocks(self, size):
        start, turn = 0, 0
        while start < len(self.whole):
            count = self.sizes[turn % len(self.sizes)]
            yield self.whole.rows(start, start + count)
            start, turn = start + count, turn + 1


@given(
    n_rows=st.integers(1, 900),
    size=st.integers(1, 300),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=5),
)
def test_parts_are_the_recording_whatever_the_blocks(n_rows, size, sizes):
    whole = made(n_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('robot_identification.data.parts.PART_POSITIONS', 2 * size)
        found, alone = list(read_parts(Blocks(whole, [*sizes, 1]))), list(read_parts(whole))
    for name in ('time', 'position', 'velocity', 'effort'):
        joined = np.concatenate([getattr(part, name) for part in found])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    assert list(map(len, found)) == list(map(len, alone))
    assert all(len(part) == size for part in found[:-1])
    # what is left is no part of its own where it is short
    assert len(found) == 1 or 0.1 * size - 0.5 <= len(found[-1]) <= 1.1 * size + 0.5


def test_a_recording_that_is_a_part_is_not_copied():
    whole = made(500)
    (part,) = read_parts(whole)
    assert np.shares_memory(part.position, whole.position)


@pytest.mark.parametrize('rows', [1, 70, 200, 500])
def test_the_head_of_a_recording(rows):
    whole = made(200)
    found = head(Blocks(whole, [30, 1]), rows)
    np.testing.assert_array_equal(found.time, whole.time[:rows])
    assert head(whole.rows(0, 0), rows) is None


@pytest.mark.parametrize(('room', 'kept'), [(200 * 8 * 7, True), (200 * 8 * 7 - 1, False)])
def test_recordings_are_read_into_memory_if_there_is_room(room, kept):
    source = Blocks(made(200), [70])
    found = in_memory(source, room)
    assert isinstance(found, KeptRecording) == kept
    if kept:
        np.testing.assert_array_equal(found.effort, source.whole.effort)
        found.filtered['a filter'] = []
        again = in_memory(found, room)
        assert isinstance(again, KeptRecording) and not again.filtered


def test_a_part_without_velocity_leaves_none():
    first, second = made(10), made(10, velocity=False)
    assert Recording.concatenate([first]).velocity is not None
    later = Recording(second.time + 1.0, second.position, second.effort, second.joints)
    assert Recording.concatenate([first, later]).velocity is None


def test_stretches_are_split_where_steps_are_long():
    time = np.array([0.0, 1.0, 2.0, 5.0, 6.0, 10.0])
    recording = Recording(time, time[:, None], time[:, None], ('a',))
    assert [part.time.tolist() for part in recording.split(2.9)] == [[0, 1, 2], [5, 6], [10]]
    assert len(list(recording.split(4.0))) == 1
