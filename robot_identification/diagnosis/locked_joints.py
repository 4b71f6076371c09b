# SPDX-License-Identifier: Apache-2.0
"""Locked joints held against what recordings have of them, and names left over on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
import re

import numpy as np

from ..errors import one_of
from ..model.mimic_joints import mimic_text
from ..model.robot import Robot
from .recording_faults import RecordingFault

APART = {'rad': 0.05, 'm': 0.01}
"""Movement, or distance from where it is locked, of a joint that counts, by unit."""

_RENAME = (
    'rename it in the URDF, or add the joint to robot.joints and name its columns in '
    'data.*.position and data.*.effort'
)


@dataclass(frozen=True)
class RecordedJoints:
    """
    Position of joints in a recording.

    Attributes
    ----------
    source:
        Name of the recording.
    positions:
        Lowest and highest one by joint [rad or m]; NaN where drives leave their unit open.
    others:
        Names, or columns of positions, that are of no joint of the URDF.
    astray:
        Largest distance of recorded joints that mimic others from where these put them [rad or m].

    """

    source: str
    positions: Mapping[str, tuple[float, float]]
    others: tuple[str, ...]
    astray: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _LockedJoint:
    """
    A joint that is locked, and where recordings have it.

    Attributes
    ----------
    name, unit:
        Its name, and the unit of its position.
    place:
        Where it is locked [rad or m].
    seen:
        Name of a recording, lowest and highest position there [rad or m].

    """

    name: str
    unit: str
    place: float
    seen: tuple[tuple[str, float, float], ...]

    def __str__(self) -> str:
        return f"'{self.name}' at {self.place:.4g} {self.unit}"

    @property
    def known(self) -> bool:
        """True if all positions that were seen have their unit."""
        return all(np.isfinite(low) for _, low, _ in self.seen)


def faults_of_locked(
    robot: Robot, found: Sequence[RecordedJoints]
) -> tuple[list[RecordingFault], list[str]]:
    """Return locked joints that move or stand elsewhere as faults; remarks on all others."""
    joints = list(_locked_joints(robot, found))
    absent = [joint for joint in joints if not joint.seen]
    unknown = [joint for joint in joints if joint.seen and not joint.known]
    compared = [joint for joint in joints if joint.seen and joint.known]
    faults = {joint.name: _moving(joint) or _elsewhere(joint) for joint in compared}
    still = [joint for joint in compared if faults[joint.name] is None]
    renamed, remarks = _left_over(robot, found, absent)
    if unknown:
        remarks.append(
            f'locked, and not compared with the recordings, whose positions are those of drives '
            f'(robot.drives.position): {one_of(unknown)}'
        )
    if still:
        remarks.append(
            f'locked, since it stands still: {one_of(still)}; to identify it, record its motion'
        )
    return [*_astray(robot, found), *filter(None, faults.values()), *renamed], remarks


def _astray(robot: Robot, found: Sequence[RecordedJoints]) -> Iterator[RecordingFault]:
    """Iterate over the faults of joints that are recorded, and do not follow what they mimic."""
    for name, mimic in robot.mimics.followed.items():
        unit = robot.contents.joints[name].unit
        seen = {one.astray[name]: one.source for one in found if name in one.astray}
        if max(seen, default=0.0) > APART[unit]:
            yield RecordingFault(
                code='locked_joint',
                joints=(name,),
                evidence=f"joint '{name}' is up to {max(seen):.4g} {unit} from "
                f'{mimic_text(mimic)}, which it mimics in the URDF, in {seen[max(seen)]}',
                remedy='correct <mimic> in the URDF, or add the joint to robot.joints if it has a '
                'drive of its own',
            )


def remarks_on_locked(robot: Robot, found: Sequence[RecordedJoints]) -> list[str]:
    """Return remarks on locked joints: absent from the recordings, still, elsewhere or moving."""
    faults, remarks = faults_of_locked(robot, found)
    return [*map(str, faults), *remarks]


def _locked_joints(robot: Robot, found: Sequence[RecordedJoints]) -> Iterator[_LockedJoint]:
    """
    Iterate over the locked joints, but those that mimic others of them.

    One that mimics a joint that no recording has is told where it is recorded itself.
    """
    recorded = {name for one in found for name in one.positions}
    for name, place in robot.locked.items():
        joint = robot.contents.joints[name]
        master = '' if joint.mimic is None else joint.mimic.joint
        if master in robot.locked and (master in recorded or name not in recorded):
            continue
        seen = tuple((one.source, *one.positions[name]) for one in found if name in one.positions)
        yield _LockedJoint(name, joint.unit, place, seen)


def _moving(joint: _LockedJoint) -> RecordingFault | None:
    """Return the fault of a joint that moves in a recording."""
    source, low, high = max(joint.seen, key=lambda item: item[2] - item[1])
    if high - low <= APART[joint.unit]:
        return None
    return RecordingFault(
        code='locked_joint',
        joints=(joint.name,),
        evidence=f"joint '{joint.name}' is locked at {joint.place:.4g} {joint.unit} and moves "
        f'from {low:.4g} to {high:.4g} {joint.unit} in {source}',
        remedy='add it to robot.joints, with the columns of its position and effort; '
        'it has to move in a recording to identify from',
    )


def _elsewhere(joint: _LockedJoint) -> RecordingFault | None:
    """Return the fault of a joint that stands where it is not locked."""
    apart = APART[joint.unit]
    far = [max(abs(low - joint.place), abs(high - joint.place)) for _, low, high in joint.seen]
    if max(far) <= apart:
        return None
    places = [0.5 * (low + high) for _, low, high in joint.seen]
    farthest = int(np.argmax(far))
    return RecordingFault(
        code='locked_joint',
        joints=(joint.name,),
        evidence=f"joint '{joint.name}' is locked at {joint.place:.4g} {joint.unit} and stands at "
        f'{places[farthest]:.4g} {joint.unit} in {joint.seen[farthest][0]}',
        remedy='record it at one place in all, or in motion to identify it'
        if max(places) - min(places) > apart
        else 'set robot.locked',
    )


def _left_over(
    robot: Robot, found: Sequence[RecordedJoints], absent: Sequence[_LockedJoint]
) -> tuple[list[RecordingFault], list[str]]:
    """Return what is said of joints that no recording has, and of names that no joint has."""
    others = list(dict.fromkeys(name for each in found for name in each.others))
    if not absent:
        if not others:
            return [], []
        text = 'passed over in the recordings, since the URDF does not have it'
        return [], [f'{text}: {one_of(others)}']
    text = f'locked, since the recordings do not have it: {one_of(absent)}'
    if not others:
        remedy = 'where it does not move in truth, set its position in robot.locked'
        return [], [f'{text}; {remedy}']
    locked = {_simplified(name): name for name in robot.locked}
    alike = [name for name in others if _simplified(name) in locked]
    text += f'; the recordings have {one_of(alike or others)}, which the URDF does not have'
    if not alike:
        return [], [f'{text}: {_RENAME}']
    meant = {_simplified(name) for name in alike}
    names = tuple(joint for joint in robot.locked if _simplified(joint) in meant)
    return [RecordingFault('locked_joint', text, _RENAME, names)], []


def _simplified(name: str) -> str:
    return re.sub(r'[^a-z0-9]', '', name.lower())
