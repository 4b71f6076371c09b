# SPDX-License-Identifier: Apache-2.0
"""
IMU and contacts of a robot on its feet, recognised in tables by names and in bags by types.

``gyro``, ``imu_angular_velocity.x`` and ``imu_state.gyroscope[0]`` are a gyroscope's; ``acc`` and
``linear_acceleration`` with three axes an accelerometer's; ``stance``, ``foot_force[2]`` and
``FL_foot_contact`` say which feet stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
import re

from ..data.columns import Signal
from ..data.formats.arrays import column_name
from ..data.recording_config import ImuColumns, RecordingEntry
from .entry_guess import signal_names

_WORDS = {
    'gyroscope': 'gyro, gyros, gyroscope, angular velocity, ang vel',
    'accelerometer': 'acc, accel, accelerometer, imu acceleration, linear acceleration',
    'orientation': 'quat, quaternion, orientation',
    'contacts': 'contact, contacts, stance, foot force, feet force',
}
_KINDS = tuple(
    (kind, set(alternative.split()))
    for kind, words in _WORDS.items()
    for alternative in words.split(', ')
)
"""Signals by words that are all in a name; the first counts."""

_OF_FEET = {'contact', 'contacts', 'stance', 'force'}
"""Words beside the name of a foot."""

_WIDTH = {'gyroscope': 3, 'accelerometer': 3, 'orientation': 4}
_AXES = ('x', 'y', 'z', 'w')
_AXIS = re.compile(r'^(.*?)[_.\[/ ]*(?:([xyzwXYZW])|(\d+))\]?$')


@dataclass(frozen=True)
class FloatingSignals:
    """
    Signals beside those of the joints.

    Attributes
    ----------
    imu:
        Columns or topic of the IMU; None where none is recognised.
    contacts:
        Columns or topics of contacts; None for none.
    feet:
        Links that these name, in their order; empty where they count.
    frame:
        Frame that the IMU's messages name.
    named_axes:
        Whether the entries of the orientation have names; counted ones may begin with w.

    """

    imu: ImuColumns | None = None
    contacts: Signal = None
    feet: tuple[str, ...] = ()
    frame: str = ''
    named_axes: bool = True


@dataclass
class _Group:
    """Columns of one signal by place, or an array of several."""

    columns: dict[int, str] = field(default_factory=dict)
    named: bool = False
    array: str = ''


def floating_signals(file: Path, links: Sequence[str]) -> FloatingSignals:
    """Return what a recording of a robot with ``links`` has; raises as its reader does."""
    if RecordingEntry(file=str(file)).file_format().topics:
        return _of_bag(file, links)
    return signals_by_name(signal_names(file), links)


def signals_by_name(
    names: Mapping[str, tuple[int, ...] | None], links: Sequence[str]
) -> FloatingSignals:
    """Return the signals among columns, or arrays with their shapes, by their names."""
    found: dict[str, _Group] = {}
    feet: dict[str, str] = {}
    for name, shape in names.items():
        if foot := _named(name, links):
            words = set(_words(name.replace(foot, ' ')))
            if words & _OF_FEET and not words & set(_AXES) and not _wide(shape):
                feet.setdefault(foot, name)
            continue
        if _wide(shape):
            assert shape is not None
            kind = _kind(name)
            if kind and shape[1] == _WIDTH.get(kind, shape[1]) and kind not in found:
                places = {k: column_name(name, k) for k in range(shape[1])}
                found[kind] = _Group(places, array=name)
            continue
        if (parts := _AXIS.match(name)) and (kind := _kind(parts[1])):
            group = found.setdefault(kind, _Group())
            if not group.array:
                place = _AXES.index(parts[2].lower()) if parts[2] else int(parts[3])
                group.named |= parts[2] is not None
                group.columns.setdefault(place, name)
    signals: dict[str, Signal] = {}
    for kind, group in found.items():
        count = len(group.columns)
        if sorted(group.columns) == list(range(count)) and count == _WIDTH.get(kind, count):
            columns = tuple(group.columns[k] for k in range(count))
            signals[kind] = group.array or columns
    contacts = signals.pop('contacts', None)
    if len(feet) > 1:
        contacts = tuple(feet.values())
    imu = None
    if {'gyroscope', 'accelerometer'} <= set(signals):
        imu = replace(ImuColumns(), **signals)  # type: ignore[arg-type]
    of = tuple(feet) if len(feet) > 1 else ()
    turned = found.get('orientation')
    return FloatingSignals(imu, contacts, of, '', turned is None or turned.named)


def _of_bag(bag: Path, links: Sequence[str]) -> FloatingSignals:
    """Return topics of an IMU and of contacts in a bag."""
    from ..data.bag import bag_topics  # libraries of bags: slow
    from ..data.sensor_messages import CONTACT_KINDS, IMU, message_frame

    topics = bag_topics(bag)
    imus = sorted(
        (name for name, kind in topics.items() if kind == IMU),
        key=lambda name: ('data' not in name, len(name)),
    )
    if not imus:
        return FloatingSignals()
    frame = message_frame(bag, imus[0], IMU).lstrip('/')
    feet: dict[str, str] = {}
    whole = None
    for name, kind in topics.items():
        if kind not in CONTACT_KINDS:
            continue
        if foot := _named(name, links):
            feet.setdefault(foot, name)
        elif kind.endswith('MultiArray') and _kind(name) == 'contacts':
            whole = name
    contacts: Signal = whole if len(feet) < 2 else tuple(feet.values())
    return FloatingSignals(
        ImuColumns(topic=imus[0]), contacts, tuple(feet) if len(feet) > 1 else (), frame
    )


def _wide(shape: tuple[int, ...] | None) -> bool:
    return shape is not None and len(shape) == 2


def _words(name: str) -> list[str]:
    return [word for word in re.split(r'[^a-z]+', name.lower()) if word]


def _kind(name: str) -> str:
    words = set(_words(name))
    return next((kind for kind, needed in _KINDS if needed <= words), '')


def _named(name: str, links: Sequence[str]) -> str:
    """Return the longest link whose name is in that of a column; empty for none."""
    return max((link for link in links if link in name), key=len, default='')
