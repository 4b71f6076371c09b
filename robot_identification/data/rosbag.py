# SPDX-License-Identifier: Apache-2.0
"""
Recordings in rosbag2 files: joint states as rows.

The header's stamp is the time, counted from the first message.  Messages with the same stamp
become one row, in which the last value of each joint counts: this merges publishers that have some
joints each, and repeated messages.  Messages with none of the joints are ignored, rows with only
some of them are left out with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
import warnings

import numpy as np

from ..errors import IdentificationWarning, one_of, RecordingError, SettingsError
from .bag import joint_state_messages
from .joint_state import decode, JointStates
from .recording import recording_error, SIGNALS, Table
from .recording_config import columns_of, Counts, RecordingEntry

_NANOSECOND = 1e-9
_NEEDED = ('position', 'effort')


def read_rosbag(
    entry: RecordingEntry, joints: tuple[str, ...], counts: Counts, base: Path, size: int
) -> Iterator[Table]:
    """
    Read a recording from a bag in blocks; parameters as for `readers.read_tables`.

    Raises
    ------
    RecordingError
        naming the bag and the faulty or missing part: topic, joint, effort, stamps.
    SettingsError
        if the names of the drives' signals are needed and not given.

    """
    bag = entry.files(base)['position']
    wanted = _wanted(entry, joints, counts)
    rows = _StampedRows(str(bag), entry.topic, wanted)
    pending: list[JointStates] = []
    number = waiting = 0
    for messages in joint_state_messages(bag, entry.topic):
        for start in range(0, len(messages), size):
            part = messages.select(slice(start, start + size))
            if waiting + len(part) > size:
                yield from rows.push(pending)
                pending, waiting = [], 0
            try:
                pending.append(decode(part, wanted, number))
            except ValueError as error:
                text = f"topic '{entry.topic}': {error}"
                remedy = 'the bag is damaged; cut it before this message'
                raise recording_error(bag, text, remedy) from error
            number += len(part)
            waiting += len(part)
    yield from rows.push(pending)
    yield from rows.finish()


def _wanted(
    entry: RecordingEntry, joints: tuple[str, ...], counts: Counts
) -> dict[str, tuple[str, ...]]:
    wanted: dict[str, tuple[str, ...]] = {}
    for name in SIGNALS:
        if counts[name] == 0:
            wanted[name] = ()
            continue
        columns = columns_of(getattr(entry, name))
        if columns is None:
            columns = wanted['position'] if name == 'velocity' else joints
        names = tuple(map(str, columns))
        if len(names) != counts[name]:
            raise SettingsError(
                f"'{name}' of {entry.name} has {len(names)} names, expected {counts[name]}",
                key=name,
                value=names,
                remedy="list the messages' names in the order of the drives' matrix columns",
            )
        wanted[name] = names
    return wanted


class _StampedRows:
    """Conversion of joint states to rows; keeps those whose stamp may occur again."""

    def __init__(self, source: str, topic: str, wanted: dict[str, tuple[str, ...]]) -> None:
        self._source = source
        self._topic = topic
        self._labels = {**wanted, 'time': ('header.stamp',)}
        self._wanted = wanted
        self._held: JointStates | None = None
        self._names: dict[str, None] = {}
        self._origin: int | None = None
        self._count = 0
        self._ever = {name: np.zeros(len(wanted[name]), dtype=bool) for name in SIGNALS}
        self._incomplete = 0
        self._first_incomplete = 0
        self._messages = 0

    def push(self, several: Sequence[JointStates]) -> Iterator[Table]:
        """Take the next joint states; yields the rows that they complete."""
        parts = [] if self._held is None else [self._held]
        for states in several:
            self._names.update(dict.fromkeys(states.names))
            self._messages += len(states.stamp)
            for name in SIGNALS:
                self._ever[name] |= states.present[name].any(axis=0)
            if not all(states.present[name].all() for name in _NEEDED):
                concerned = np.any([states.present[name].any(axis=1) for name in _NEEDED], axis=0)
                states = states.select(concerned)
            parts.append(states)
        if not any(len(part.stamp) for part in parts):
            return
        states = parts[0] if len(parts) == 1 else JointStates.joined(parts)
        # runs of equal stamps; the last one may go on in the next block
        starts = np.flatnonzero(np.diff(states.stamp, prepend=states.stamp[0] - 1))
        self._held = states.select(slice(starts[-1], None))
        yield from self._table(states.select(slice(0, starts[-1])), starts[:-1])

    def finish(self) -> Iterator[Table]:
        """Yield the last row, and check that there were any."""
        if self._held is not None:
            yield from self._table(self._held, np.array([0]))
        if self._count == 0:
            raise self._empty()
        if self._incomplete:
            warnings.warn(
                IdentificationWarning(
                    f"{self._source}: {self._incomplete} stamps of topic '{self._topic}' have "
                    'only some of the joints or no effort and are left out, the first one at '
                    f'{self._first_incomplete * _NANOSECOND:.9f} s'
                ),
                stacklevel=2,
            )
        if self._count == 1 and self._messages > 2 and self._origin is not None:
            text = (
                f"all messages of topic '{self._topic}' have the same stamp "
                f'{self._origin * _NANOSECOND:.9g} s'
            )
            remedy = 'the driver has to set header.stamp; record again'
            raise recording_error(self._source, text, remedy)

    def _table(self, states: JointStates, starts: np.ndarray) -> Iterator[Table]:
        if len(starts) == 0:
            return
        merged = states if len(starts) == len(states.stamp) else _merged(states, starts)
        if not all(merged.present[name].all() for name in _NEEDED):
            complete = np.all([merged.present[name].all(axis=1) for name in _NEEDED], axis=0)
            if not self._incomplete and not complete.all():
                self._first_incomplete = int(merged.stamp[~complete][0])
            self._incomplete += int((~complete).sum())
            merged = merged.select(complete)
        n_rows = len(merged.stamp)
        if n_rows == 0:
            return
        if self._origin is None:
            self._origin = int(merged.stamp[0])
        rows = np.arange(self._count, self._count + n_rows)
        self._count += n_rows
        velocity = merged.values['velocity']
        # drivers that do not measure velocity leave it out or send NaN; not every method needs it
        measured = merged.present['velocity'].all() and not np.isnan(velocity).any()
        yield Table(
            rows=rows,
            time=(merged.stamp - self._origin) * _NANOSECOND,
            position=merged.values['position'],
            velocity=velocity if measured else None,
            effort=merged.values['effort'],
            labels=self._labels,
            origin=self._origin,
        )

    def _empty(self) -> RecordingError:
        """Return the error for a topic without any row: what it lacks."""
        topic = f"topic '{self._topic}'"
        if not self._names:
            return recording_error(self._source, f'{topic} has no messages', 'record it again')
        for name in _NEEDED:
            for joint, ever in zip(self._wanted[name], self._ever[name], strict=True):
                text = f"has no {name} of joint '{joint}'"
                remedy = 'the driver does not report it: record a robot state that has it'
                if joint not in self._names:
                    text = f"has no joint '{joint}'"
                    remedy = f'its joints are {one_of(self._names)}'
                if not ever:
                    return recording_error(self._source, f'{topic} {text}', remedy, joint=joint)
        text = f'{topic} never has all joints at one stamp'
        return recording_error(self._source, text, 'record one publisher that has them all')


def _merged(states: JointStates, starts: np.ndarray) -> JointStates:
    """Merge each run of equal stamps to one row of the last values present."""
    ends = np.append(starts[1:], len(states.stamp)) - 1
    row = np.arange(len(states.stamp))[:, None]
    values, present = {}, {}
    for name in SIGNALS:
        latest = np.maximum.accumulate(np.where(states.present[name], row, -1), axis=0)[ends]
        present[name] = latest >= starts[:, None]
        columns = np.arange(latest.shape[1])
        picked = states.values[name][np.maximum(latest, 0), columns]
        values[name] = np.where(present[name], picked, np.nan)
    return JointStates(states.stamp[starts], values, present, states.names)
