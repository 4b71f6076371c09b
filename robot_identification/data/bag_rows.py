# SPDX-License-Identifier: Apache-2.0
"""
Joint states of rosbag2 recordings as rows.

The header's stamp is the time of a row, counted from the first message.  Messages with the same
stamp become one row, in which the last value of each joint counts: this merges publishers that
have some joints each, and repeated messages.  Messages with none of the joints are ignored, rows
with only some of them are left out with a warning.

joint_state_publisher repeats positions without efforts, or sends zeros, also under the driver's
stamps.  Such messages count only where no other message with the same stamp has a value; between
those of a driver, zeros are passed over.

Messages that were delivered late are passed over (`delivery_order`).

Publishers of some joints each that have stamps of their own are joined by time: the others are
interpolated at the stamps of the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
import warnings

import numpy as np

from ..errors import Omission, one_of, RecordingError
from ..options.fields import key_error
from .alignment import Follower
from .bag import joint_state_messages, publisher_names
from .columns import Wanted
from .delivery_order import DeliveryOrder
from .joint_state import decode, JointStates, Messages
from .recording import recording_error, SIGNALS, Table

_NANOSECOND = 1e-9  # s
_NEEDED = ('position', 'effort')


@dataclass(frozen=True)
class PublisherConstants:
    """Constants by which publishers are distinguished."""

    surveyed: int = 4096
    """Messages from whose beginning it is seen who publishes what."""
    rare_share: float = 0.5
    """Share of the rows with all joints, below which their publishers have stamps of their own."""
    often: int = 10
    """Changes between zeros and a driver's states from which zeros are a second publisher's."""
    alternating_ratio: float = 10.0
    """Ratio of steps to what is left of them soon after, of two states in alternation."""
    alternating_step: float = 1e-3
    """Size of their steps [rad or m]."""
    alternating_share: float = 0.05
    """Share of such steps, above which there are two states."""
    soon: int = 5
    """Messages within which a publisher sends again."""
    back_share: float = 0.1
    """Share of steps of the sequence number that do not count up, above which two count."""


PUBLISHERS = PublisherConstants()


_ONE_OF_THEM = 'stop one of them, or record it on a topic of its own'

ColumnsBySignal = dict[str, tuple[str, ...]]
"""Names of the columns by signal."""


def read_rosbag(recording: Wanted, size: int) -> Iterator[Table]:
    """
    Read a recording from a bag in blocks of up to ``size`` rows.

    Raises
    ------
    RecordingError
        naming the bag and the faulty or missing part: topic, joint, effort, stamps.
    SettingsError
        if the names of the drives' signals are needed and not given.

    """
    bag, topic = recording.files['position'], recording.topic
    wanted = _wanted(recording)
    parts, zeros = _publishers(bag, topic, wanted)
    if len(parts) == 1:
        yield from _read(bag, topic, wanted, size, zeros)
        return
    names = [one_of(dict.fromkeys(part['position'] + part['effort'])) for part in parts]
    warnings.warn(
        Omission(
            f"{bag}: topic '{topic}' has {len(parts)} publishers with stamps of their own; "
            f'{"; ".join(names[1:])} are interpolated at the stamps of {names[0]}'
        ),
        stacklevel=2,
    )
    yield from _by_time(bag, topic, wanted, parts, size)


def _publishers(
    bag: Path, topic: str, wanted: ColumnsBySignal
) -> tuple[list[ColumnsBySignal], bool]:
    """
    Return what each publisher has of all that is wanted, or all if it comes together.

    The second value is true if a publisher sends zeros between the states of another one.
    """
    messages = next(joint_state_messages(bag, topic), None)
    if messages is None:
        return [wanted], False
    surveyed = messages.select(slice(0, PUBLISHERS.surveyed))
    states = _decoded(bag, topic, surveyed, wanted, 0)
    senders = _senders(bag, states, surveyed.senders)
    states = states.select(np.argsort(states.stamp, kind='stable'))
    zero = _are_zero(states)
    zeros = int(np.count_nonzero(np.diff(zero))) >= PUBLISHERS.often
    if zeros:
        states = states.select(~zero)
    if not _report_alternation(bag, topic, states) and senders and not zeros:
        warnings.warn(
            Omission(
                f"{bag}: topic '{topic}' has two publishers of the same joints, by {senders}; "
                f'{_ONE_OF_THEM}'
            ),
            stacklevel=2,
        )
    starts = np.flatnonzero(np.diff(states.stamp, prepend=states.stamp[0] - 1))
    merged = _merged(states, starts)[0]
    there = np.hstack([merged.present[name] for name in _NEEDED])
    whole = there.all(axis=1)
    some = there[there.any(axis=1) & ~whole]
    patterns, counts = np.unique(some, axis=0, return_counts=True)
    if not patterns.any(axis=0).all() or whole.sum() >= PUBLISHERS.rare_share * max(counts):
        return [wanted], zeros
    parts: list[ColumnsBySignal] = []
    left = np.ones(patterns.shape[1], dtype=bool)
    while left.any():
        gained = (patterns & left).sum(axis=1)
        best = int(np.lexsort((counts, gained))[-1])
        parts.append(_needed_names(wanted, patterns[best] & left))
        left &= ~patterns[best]
    return parts, zeros


def _are_zero(states: JointStates) -> np.ndarray:
    """Return for each message whether it has positions, and nothing but zeros."""
    there = states.present['position'].any(axis=1)
    moved = [np.nan_to_num(states.values[name], nan=0.0).any(axis=1) for name in SIGNALS]
    return np.asarray(there & ~np.any(moved, axis=0))


def _senders(bag: Path, states: JointStates, senders: np.ndarray | None) -> str:
    """Return by what more than one publisher of the same joints is seen; empty for one."""
    there = states.present['position']
    if senders is None or not there.any():
        return ''
    kinds, kind, counts = np.unique(there, axis=0, return_inverse=True, return_counts=True)
    most = np.argmax(np.where(kinds.any(axis=1), counts, 0))
    channel, sequence = senders[kind.ravel() == most].T
    channels, counts = np.unique(channel, return_counts=True)
    if np.count_nonzero(counts >= PUBLISHERS.often) > 1:
        names = publisher_names(bag, channels.tolist())
        return f'the nodes {one_of(names)}' if names else 'their channels in the file'
    # one publisher counts up; recorders that know no numbers write 0
    back = np.count_nonzero(np.diff(sequence) <= 0)
    two = sequence.any() and back >= PUBLISHERS.back_share * len(sequence)
    return 'their sequence numbers' if two else ''


def _report_alternation(bag: Path, topic: str, states: JointStates) -> bool:
    """Warn if two publishers send states of the same joints in turn; return whether they do."""
    whole = states.present['position'].all(axis=1) & states.present['effort'].all(axis=1)
    position = states.values['position'][whole]
    position = position[np.diff(states.stamp[whole], prepend=-1) > 0]
    if len(position) < PUBLISHERS.often:
        return False
    n = len(position) - PUBLISHERS.soon
    step, *later = (
        np.abs(position[k : n + k] - position[:n]) for k in range(1, 1 + PUBLISHERS.soon)
    )
    left = np.min(later, axis=0)
    large = step > PUBLISHERS.alternating_step
    typical_step = np.array(
        [np.median(part[at]) if at.any() else 0.0 for part, at in zip(left.T, large.T)]
    )
    large &= step > PUBLISHERS.alternating_ratio * np.maximum(left, typical_step)
    found = bool((large.mean(axis=0) > PUBLISHERS.alternating_share).any())
    if found:
        warnings.warn(
            Omission(
                f"{bag}: the positions in topic '{topic}' alternate between two states: two "
                f'publishers send the same joints; {_ONE_OF_THEM}'
            ),
            stacklevel=3,
        )
    return found


def _needed_names(wanted: ColumnsBySignal, needed: np.ndarray) -> ColumnsBySignal:
    """Return the names of chosen columns of position and effort, and of their velocities."""
    n = len(wanted['position'])
    position = tuple(name for name, of in zip(wanted['position'], needed[:n], strict=True) if of)
    effort = tuple(name for name, of in zip(wanted['effort'], needed[n:], strict=True) if of)
    velocity = tuple(name for name in wanted['velocity'] if name in position)
    return {'position': position, 'velocity': velocity, 'effort': effort}


def _by_time(
    bag: Path, topic: str, wanted: ColumnsBySignal, parts: Sequence[ColumnsBySignal], size: int
) -> Iterator[Table]:
    """Interpolate what the other publishers have at the stamps of the first one."""
    tables = [_read(bag, topic, part, size) for part in parts]
    try:
        others = [Follower(part) for part in tables[1:]]
    except ValueError as error:
        text = f"topic '{topic}' has a publisher with fewer than two messages"
        raise recording_error(bag, text, 'record it again') from error
    count = 0
    for table in tables[0]:
        start = 0
        while start < len(table):
            ahead = (other.advance(table.time[start:], table.origin) for other in others)
            stop = start + min(ahead)
            rows = table.select(np.arange(start, stop))
            at = [other.interpolated(rows.time, table.origin)[:2] for other in others]
            known = np.all([each for _, each in at], axis=0)
            chosen = [rows.select(known)]
            chosen += [each.select(known[its]) for each, its in at]
            start = stop
            if known.any():
                yield _beside(chosen, parts, wanted, np.arange(count, count + known.sum()))
                count += int(known.sum())
    if not count:
        text = f"the publishers of topic '{topic}' have no time in common"
        raise recording_error(bag, text, 'record them at the same time, with one clock')


def _beside(
    tables: Sequence[Table],
    parts: Sequence[ColumnsBySignal],
    wanted: ColumnsBySignal,
    rows: np.ndarray,
) -> Table:
    """Return rows with the columns of several tables in the order that is wanted."""
    signals: dict[str, Any] = {}
    for name in SIGNALS:
        arrays = [getattr(table, name) for table in tables]
        if any(array is None for array in arrays) or not wanted[name]:
            signals[name] = None if name == 'velocity' else np.empty((len(rows), 0))
            continue
        order = [column for part in parts for column in part[name]]
        places = [order.index(column) for column in wanted[name]]
        signals[name] = np.hstack(arrays)[:, places]
    labels = {**wanted, 'time': ('header.stamp',)}
    return replace(tables[0], rows=rows, labels=labels, **signals)


def _read(
    bag: Path, topic: str, wanted: ColumnsBySignal, size: int, zeros: bool = False
) -> Iterator[Table]:
    """Read columns that come together, in blocks; ``zeros`` are those of another publisher."""
    rows = _StampedRows(str(bag), topic, wanted, zeros)
    pending: list[JointStates] = []
    number = waiting = 0
    for messages in joint_state_messages(bag, topic):
        for start in range(0, len(messages), size):
            part = messages.select(slice(start, start + size))
            if waiting + len(part) > size:
                yield from rows.push(pending)
                pending, waiting = [], 0
            pending.append(_decoded(bag, topic, part, wanted, number))
            number += len(part)
            waiting += len(part)
    yield from rows.push(pending)
    yield from rows.finish()


def _decoded(
    bag: Path, topic: str, messages: Messages, wanted: ColumnsBySignal, number: int
) -> JointStates:
    try:
        return decode(messages, wanted, number)
    except ValueError as error:
        text = f"topic '{topic}': {error}"
        raise recording_error(
            bag, text, 'the bag is damaged; cut it before this message'
        ) from error


def _wanted(recording: Wanted) -> ColumnsBySignal:
    wanted: ColumnsBySignal = {}
    for name in SIGNALS:
        count = recording.counts[name]
        if count == 0:
            wanted[name] = ()
            continue
        columns = recording.columns.get(name)
        if columns is None:
            columns = wanted['position'] if name == 'velocity' else recording.joints
        names = tuple(map(str, columns))
        if len(names) != count:
            text = f'of {recording.source} has {len(names)} names, expected {count}'
            remedy = "list the messages' names in the order of the drives' matrix columns"
            raise key_error(name, text, remedy, value=names)
        wanted[name] = names
    return wanted


class _StampedRows:
    """Conversion of joint states to rows; keeps those whose stamp may occur again."""

    def __init__(self, source: str, topic: str, wanted: ColumnsBySignal, zeros: bool) -> None:
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
        self._zeros = zeros
        self._passed_over = self._differing = 0
        self._order = DeliveryOrder(source, topic)

    def push(self, several: Sequence[JointStates]) -> Iterator[Table]:
        """Take the next joint states; yields the rows that they complete."""
        parts = [] if self._held is None else [self._held]
        for states in several:
            self._names.update(dict.fromkeys(states.names))
            self._messages += len(states.stamp)
            if self._zeros:
                zero = _are_zero(states)
                self._passed_over += int(zero.sum())
                states = states.select(~zero)
            for name in SIGNALS:
                self._ever[name] |= states.present[name].any(axis=0)
            if not all(states.present[name].all() for name in _NEEDED):
                concerned = np.any([states.present[name].any(axis=1) for name in _NEEDED], axis=0)
                states = states.select(concerned)
            in_time = self._order.take(states.stamp, states.received)
            parts.append(states if in_time.all() else states.select(in_time))
        if not any(len(part.stamp) for part in parts):
            return
        states = parts[0] if len(parts) == 1 else JointStates.concatenate(parts)
        # runs of equal stamps; the last one may go on in the next block
        starts = np.flatnonzero(np.diff(states.stamp, prepend=states.stamp[0] - 1))
        self._held = states.select(slice(starts[-1], None))
        yield from self._table(states.select(slice(0, starts[-1])), starts[:-1])

    def finish(self) -> Iterator[Table]:
        """Yield the last row, and check that there were any."""
        self._order.finish()
        if self._held is not None:
            yield from self._table(self._held, np.array([0]))
        if self._count == 0:
            raise self._empty()
        if self._passed_over:
            warnings.warn(
                Omission(
                    f"{self._source}: {self._passed_over} messages of topic '{self._topic}' with "
                    'zeros or without effort are passed over beside others with effort: they are '
                    'of a second publisher, such as joint_state_publisher'
                ),
                stacklevel=2,
            )
        if self._differing:
            warnings.warn(
                Omission(
                    f"{self._source}: {self._differing} messages of topic '{self._topic}' have "
                    'other positions than a later one with the same stamp, which counts: are '
                    'there two publishers of the same joints?'
                ),
                stacklevel=2,
            )
        if self._incomplete:
            warnings.warn(
                Omission(
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
        merged, passed_over, differing = _merged(states, starts)
        self._passed_over += passed_over
        self._differing += differing
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


def _merged(states: JointStates, starts: np.ndarray) -> tuple[JointStates, int, int]:
    """
    Merge each run of equal stamps to one row of the last values present.

    Values of messages without effort, or with zeros alone, count only where no other message of
    the run has one.  The other values are the numbers of messages that count nowhere for that, and
    of messages with other positions than a later one of their run.
    """
    if len(starts) == len(states.stamp):
        return states, 0, 0
    lengths = np.diff(starts, append=len(states.stamp))
    ends = starts + lengths - 1
    row = np.arange(len(states.stamp))[:, None]
    of_driver = ~_are_zero(states)
    if states.present['effort'].shape[1]:
        of_driver &= states.present['effort'].any(axis=1)
    values, present = {}, {}
    used = of_driver | ~states.present['position'].any(axis=1)
    for name in SIGNALS:
        there = states.present[name]
        latest = np.maximum.accumulate(np.where(there, row, -1), axis=0)[ends]
        of_run = np.where(there & of_driver[:, None], row, -1)
        driver = np.maximum.accumulate(of_run, axis=0)[ends]
        latest = np.where(driver >= starts[:, None], driver, latest)
        present[name] = latest >= starts[:, None]
        used[latest[present[name]]] = True
        columns = np.arange(latest.shape[1])
        picked = states.values[name][np.maximum(latest, 0), columns]
        values[name] = np.where(present[name], picked, np.nan)
    later = np.repeat(values['position'], lengths, axis=0)
    other = states.present['position'] & (np.abs(states.values['position'] - later) > 0.0)
    differing = int((other.any(axis=1) & of_driver).sum())
    times = states.stamp[starts], states.received[starts]
    merged = JointStates(*times, values, present, states.names)
    return merged, int((~used).sum()), differing
