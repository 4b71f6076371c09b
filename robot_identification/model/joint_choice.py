# SPDX-License-Identifier: Apache-2.0
"""Joints of a URDF that are identified, passive or locked, with their limits; models of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..errors import ModelError, one_of
from .urdf import Urdf, UrdfJoint

MOVING_TYPES = ('revolute', 'continuous', 'prismatic')
"""Types of joints that can be identified."""

MAX_JOINTS = 128
"""Identified joints of a robot; memory grows with their square."""


@dataclass(frozen=True)
class UrdfLimits:
    """
    Limits of the identified joints as the URDF gives them; infinite where it gives none.

    ``lower`` and ``upper`` (n_joints,) bound the position [rad or m], ``velocity`` and ``effort``
    (n_joints,) are the largest absolute ones [rad/s or m/s, N m or N].
    """

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray

    @classmethod
    def from_joints(cls, joints: Sequence[UrdfJoint]) -> UrdfLimits:
        """Return the limits of joints of a URDF."""
        rows = [(j.lower, j.upper, j.velocity, j.effort) for j in joints]
        columns = [column.copy() for column in np.array(rows).reshape(-1, 4).T]
        for column in columns:
            column.setflags(write=False)
        return cls(*columns)


def identified_joints(
    full: pin.Model, urdf: Urdf, joints: Sequence[str] | None, where: str
) -> tuple[str, ...]:
    """
    Check the joints to identify; None takes all that can be, in the order of the tree.

    Joints that mimic others are not among all that can be.
    """
    moving = urdf.moving
    if joints is None:
        able = [n for n in full.names if n in moving and moving[n].type in MOVING_TYPES]
        joints = [n for n in able if moving[n].mimic is None] or able
    joints = tuple(joints)
    loose = next((joint for joint in moving if not full.existJointName(joint)), None)
    if loose is not None:
        raise ModelError(
            f"joint '{loose}' in {where} does not hang on the robot's base",
            joint=loose,
            file=where,
            remedy='correct the parents: links and joints have to form one tree',
        )
    if not joints:
        raise ModelError(
            f'{where} has no joint to identify',
            file=where,
            remedy='name at least one moving joint',
        )
    for joint in joints:
        _require_moving(moving, joint, where)
        if moving[joint].type not in MOVING_TYPES:
            raise ModelError(
                f"joint '{joint}' in {where} is of type '{moving[joint].type}'",
                joint=joint,
                file=where,
                remedy=f'identified joints have to be {", ".join(MOVING_TYPES)}',
            )
    if len(joints) > MAX_JOINTS:
        raise ModelError(
            f'{len(joints)} joints of {where} are to be identified',
            file=where,
            value=len(joints),
            remedy=f'name at most {MAX_JOINTS} of them and lock the others',
        )
    if len(set(joints)) != len(joints):
        twice = next(joint for joint in joints if joints.count(joint) > 1)
        raise ModelError(f"joint '{twice}' is listed twice", joint=twice, remedy='name it once')
    return joints


def passive_joints(
    full: pin.Model,
    urdf: Urdf,
    joints: Sequence[str],
    locked: Mapping[str, float],
    passive: Sequence[str] | None,
    where: str,
) -> tuple[str, ...]:
    """Check the passive joints; None takes all that are left, in the order of the tree."""
    if passive is None:
        passive = [
            n for n in full.names if n in urdf.moving and n not in joints and n not in locked
        ]
    for joint in passive:
        _require_apart(joint, joints, 'passive')
    return identified_joints(full, urdf, passive, where) if passive else ()


def require_locked(
    urdf: Urdf, joints: Sequence[str], locked: Mapping[str, float], where: str
) -> None:
    """Require that locked joints are joints, and not among those that move."""
    for joint in locked:
        _require_moving(urdf.moving, joint, where, ' to lock')
        _require_apart(joint, joints, 'locked')


def locked_joints(
    urdf: Urdf, joints: Sequence[str], locked: Mapping[str, float], places: Mapping[str, float]
) -> tuple[dict[str, float], list[str]]:
    """
    Return the other joints' positions [rad or m], and remarks on them for the user.

    ``places`` are those of joints that mimic joints that stand still.
    """
    moving = urdf.moving
    positions = {**places, **locked}
    remarks = []
    silent = [joint for joint in moving if joint not in joints and joint not in positions]
    free = [joint for joint in moving if moving[joint].type in ('floating', 'planar')]
    plain = [joint for joint in silent if joint not in free]
    if plain:
        remarks.append(
            f'held at 0 because they are neither identified nor locked: {one_of(plain)}; name '
            'them in robot.joints, or their positions in robot.locked'
        )
    if free:
        remarks.append(
            f'held still although they are {one_of(dict.fromkeys(moving[j].type for j in free))}: '
            f'{one_of(free)}; the base is taken as fixed, and recordings in which it moves are '
            'not explained'
        )
    held = {joint: float(positions.get(joint, 0.0)) for joint in moving if joint not in joints}
    return held, remarks


def _require_moving(
    moving: Mapping[str, UrdfJoint], joint: str, where: str, purpose: str = ''
) -> None:
    if joint not in moving:
        raise ModelError(
            f"{where} has no moving joint '{joint}'{purpose}",
            joint=joint,
            file=where,
            remedy=f'its moving joints are {one_of(moving)}',
        )


def _require_apart(joint: str, joints: Sequence[str], kind: str) -> None:
    if joint in joints:
        raise ModelError(
            f"joint '{joint}' is both identified and {kind}",
            joint=joint,
            remedy='take it out of one of the two lists',
        )


def require_inertias(
    urdf: Urdf,
    joints: Sequence[str],
    where: str,
    *,
    massless: Sequence[str] = (),
    required: bool = True,
) -> list[str]:
    """
    Require that every identified joint moves some inertia; return remarks on links without any.

    The joints ``massless`` need not, and their links are not remarked on.  If inertia is not
    ``required``, links without any are remarked on, too.
    """
    bare = []
    for joint in joints:
        if joint in massless:
            continue
        link = urdf.joints[joint].child
        if required and not _has_inertia(urdf, link, stop_at=()):
            raise ModelError(
                f"link '{link}' (moved by joint '{joint}') in {where} has no <inertial>",
                joint=joint,
                link=link,
                file=where,
                remedy='add one, a rough estimate is enough: it is the prior and is written back; '
                'robot-identification check --repair makes one',
            )
        if not _has_inertia(urdf, link, stop_at=joints):
            bare.append(link)
    return [f'no <inertial>, so their prior is zero: {one_of(bare)}'] if bare else []


_SNAPPED = 1e-3
"""Distance of an angle from a multiple of a quarter turn below which it is a rounded one [rad]."""


def remarks_on_numbers(urdf: Urdf, joints: Sequence[str], blanks: Sequence[str]) -> list[str]:
    """Return remarks on numbers that other readers drop, on placeholders and on rounded angles."""
    remarks = []
    if blanks:
        remarks.append(
            f'tabs or blanks behind the numbers of {one_of(blanks)}: they are read here; urdfdom, '
            'which RViz and robot_state_publisher use, leaves such an <inertial> or joint out'
        )
    dummies = [
        link
        for (_, moment), links in _balls(urdf, joints).items()
        if moment > 0.0 and (len(links) > 1 or _is_power_of_ten(moment))
        for link in links
    ]
    if dummies:
        rest = ', and no mass is compared with it' if bodies_alike(urdf, joints) else ''
        remarks.append(
            f'a placeholder in <inertial> (equal moments): {one_of(dummies)}; parameters that no '
            f'motion shows keep its values{rest}'
        )
    rounded = [joint for joint in joints if _is_rounded(urdf.joints[joint].rpy)]
    if rounded:
        remarks.append(
            f'rounded angles (1.5708 for pi/2) in the origins of {one_of(rounded)}: parameters '
            'that nothing but the rounding distinguishes are grouped, as for exact angles'
        )
    return remarks


def bodies_alike(urdf: Urdf, joints: Sequence[str]) -> bool:
    """Return whether three or more joints move one and the same ball: a URDF without masses."""
    balls = _balls(urdf, joints)
    return len(balls) == 1 and sum(map(len, balls.values())) == len(joints) > 2


def _balls(urdf: Urdf, joints: Sequence[str]) -> dict[tuple[float, float], list[str]]:
    """Return the moved links with equal moments of inertia, by mass [kg] and moment [kg m^2]."""
    balls: dict[tuple[float, float], list[str]] = {}
    for joint in (joint for name, joint in urdf.moving.items() if name in joints):
        body = urdf.links[joint.child]
        if body is not None and (body.inertia == body.inertia[0, 0] * np.eye(3)).all():
            balls.setdefault((body.mass, float(body.inertia[0, 0])), []).append(joint.child)
    return balls


def _is_power_of_ten(value: float) -> bool:
    return bool(abs(np.log10(value) - np.rint(np.log10(value))) < 1e-12)


def _is_rounded(angles: np.ndarray) -> bool:
    """Return whether an angle is nearly, and not to float32, a multiple of a quarter turn."""
    off = np.abs(angles - 0.5 * np.pi * np.rint(angles / (0.5 * np.pi)))
    return bool(((off > 1e-7) & (off < _SNAPPED)).any())


def _has_inertia(urdf: Urdf, link: str, stop_at: Sequence[str]) -> bool:
    """Return whether a link, or one behind it without these joints between, has inertia."""
    pending = [link]
    while pending:
        current = pending.pop()
        if urdf.links[current] is not None:
            return True
        pending += [
            joint.child
            for joint in urdf.joints.values()
            if joint.parent == current and joint.name not in stop_at
        ]
    return False


def build_model(text: str, where: str) -> pin.Model:
    """Return Pinocchio's model of all joints."""
    try:
        return pin.buildModelFromXML(text)
    except (ValueError, RuntimeError, IndexError) as error:  # Boost.Python's of C++ exceptions
        raise ModelError(
            f'{where} cannot be read as a robot: {error}', file=where, remedy='correct the URDF'
        ) from error


def reduced_model(full: pin.Model, held: Mapping[str, float]) -> pin.Model:
    """Return the model with joints held where they are, and what hangs on them lumped."""
    if not held:
        return full
    with links_apart(full) as apart:
        model = pin.buildReducedModel(apart, *locked_configuration(apart, held))
        for frame in model.frames:
            if frame.type == pin.FrameType.BODY:
                frame.name = frame.name.removeprefix(_LINK)
    return model


_LINK = 'link '


@contextmanager
def links_apart(model: pin.Model) -> Iterator[pin.Model]:
    """
    Give a model in which no link has the name of a joint, as a URDF may have it.

    Pinocchio looks for frames of joints to hold by the name alone.
    """
    same = [
        frame
        for frame in model.frames
        if frame.type == pin.FrameType.BODY and model.existJointName(frame.name)
    ]
    for frame in same:
        frame.name = _LINK + frame.name
    try:
        yield model
    finally:
        for frame in same:
            frame.name = frame.name.removeprefix(_LINK)


def locked_configuration(
    full: pin.Model, held: Mapping[str, float]
) -> tuple[list[int], np.ndarray]:
    """Return Pinocchio's indices of locked joints, and a configuration with them in place."""
    configuration = pin.neutral(full)
    ids = []
    for name, position in held.items():
        index = full.getJointId(name)
        joint = full.joints[index]
        if joint.nq == 1:
            configuration[joint.idx_q] = position
        elif joint.nv == 1:
            configuration[joint.idx_q : joint.idx_q + 2] = np.cos(position), np.sin(position)
        elif position != 0.0:
            raise ModelError(
                f"joint '{name}' has several degrees of freedom and is held at its neutral place",
                joint=name,
                value=position,
                remedy='lock it at 0',
            )
        ids.append(index)
    return ids, configuration
