# SPDX-License-Identifier: Apache-2.0
"""
Joints that follow others, by ``<mimic>`` of a URDF: the fingers of one gripper, on one drive.

With the identified joints q, all joints of the tree are at ``G q + o``, and move at ``G dq``; G is
the identity, with a row ``multiplier`` for each joint that follows.  By the principle of virtual
work the efforts of the drives are ``G^T`` times those of the joints, so that a row of the
regressor is ``W_master + multiplier W_follower``.

A chain, a joint that follows one that follows, is resolved: its multiplier is the product.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..errors import ModelError, one_of
from .urdf import Mimic, Urdf

FOLLOWING_TYPES = ('revolute', 'continuous', 'prismatic')
"""Types of joints that can follow others, and be followed."""


@dataclass(frozen=True, eq=False)
class MimicJoints:
    """
    Joints that follow identified ones.

    Attributes
    ----------
    joints:
        The ``n`` identified joints.
    followed:
        Identified joint, multiplier and offset of each joint that follows, by name.

    """

    joints: tuple[str, ...]
    followed: Mapping[str, Mimic]

    @property
    def names(self) -> tuple[str, ...]:
        """The joints that follow, which come after the identified ones in the opened robot."""
        return tuple(self.followed)

    @cached_property
    def masters(self) -> np.ndarray:
        """(n_followers,) place of the identified joint that each follows."""
        return np.array([self.joints.index(m.joint) for m in self.followed.values()], dtype=int)

    @cached_property
    def multipliers(self) -> np.ndarray:
        """(n_followers,) [rad or m by rad or m]."""
        return np.array([m.multiplier for m in self.followed.values()])

    @cached_property
    def offsets(self) -> np.ndarray:
        """(n_followers,) [rad or m]."""
        return np.array([m.offset for m in self.followed.values()])

    def positions(self, position: np.ndarray) -> np.ndarray:
        """Return the positions of all joints from those of the identified ones, (..., n)."""
        if not self.followed:
            return position
        followers = position[..., self.masters] * self.multipliers + self.offsets
        return np.concatenate([position, followers], axis=-1)

    def rates(self, rate: np.ndarray) -> np.ndarray:
        """Return velocities or accelerations of all joints from the identified ones' (..., n)."""
        if not self.followed:
            return rate
        return np.concatenate([rate, rate[..., self.masters] * self.multipliers], axis=-1)

    def efforts(self, effort: np.ndarray) -> np.ndarray:
        """Return the efforts of the drives, (..., n), from those of all joints; `rates` turned."""
        if not self.followed:
            return effort
        own = np.array(effort[..., : len(self.joints)])
        for i, (master, multiplier) in enumerate(zip(self.masters, self.multipliers, strict=True)):
            own[..., master] += multiplier * effort[..., len(self.joints) + i]
        return own

    def bounds(self, each: np.ndarray) -> np.ndarray:
        """Return what joints change a value by at most, (..., n), from that of all joints."""
        absolute = {n: replace(m, multiplier=abs(m.multiplier)) for n, m in self.followed.items()}
        return MimicJoints(self.joints, absolute).efforts(each)

    def __str__(self) -> str:
        return one_of(
            f'{name} follows {mimic_text(mimic)}' for name, mimic in self.followed.items()
        )


def mimic_text(mimic: Mimic) -> str:
    """Return what a joint follows as a formula."""
    factor = {1.0: '', -1.0: '-'}.get(mimic.multiplier, f'{mimic.multiplier:g} ')
    return f'{factor}{mimic.joint}' + (f' {mimic.offset:+g}' if mimic.offset else '')


def followers(
    urdf: Urdf, joints: Sequence[str], locked: Mapping[str, float], where: str
) -> tuple[MimicJoints, dict[str, float], list[str]]:
    """
    Return the joints that follow identified ones, and the places of those that follow held ones.

    Parameters
    ----------
    urdf:
        Links and joints.
    joints:
        Identified joints.  Where one of them follows a joint that is not, that one follows it.
    locked:
        Places of locked joints [rad or m]; they follow nothing.
    where:
        Name of the URDF for messages.

    Returns
    -------
    tuple
        The joints that follow; places [rad or m] of those that follow joints that stand still or
        have multiplier 0; remarks for the user.

    Raises
    ------
    ModelError
        naming joints that follow each other in a circle.

    """
    roots = {
        name: _root(urdf, name, {*joints, *locked}, where)
        for name, joint in urdf.moving.items()
        if joint.type in FOLLOWING_TYPES
    }
    drivers = {roots[name].joint: name for name in joints if name in roots}
    drivers |= {name: name for name in joints}
    found: dict[str, Mimic] = {}
    places: dict[str, float] = {}
    remarks: list[str] = []
    apart = [
        name for name in joints if name in roots and roots[name].joint in (set(joints) - {name})
    ]
    if apart:
        remarks.append(
            'taken for joints with drives of their own although they mimic others: '
            f'{one_of(apart)}; leave them out of robot.joints if they have none'
        )
    for name, root in roots.items():
        if name in joints or name in locked:
            continue
        driver = None if root.joint in locked else drivers.get(root.joint)
        own = _ITSELF if driver in (None, root.joint) else roots[driver]
        if driver is not None and root.multiplier != 0.0 and own.multiplier != 0.0:
            ratio = root.multiplier / own.multiplier
            found[name] = Mimic(driver, ratio, root.offset - ratio * own.offset)
        elif name != root.joint:
            master = urdf.joints.get(root.joint)
            places[name] = root.multiplier * locked.get(root.joint, 0.0) + root.offset
            if master is None or master.type not in FOLLOWING_TYPES:
                kind = 'which there is not' if master is None else f'which is {master.type}'
                text = f"held at {places[name]:.4g}, since it mimics '{root.joint}', {kind}"
                remarks.append(f'{text}: {name}')
    return MimicJoints(tuple(joints), found), places, remarks


_ITSELF = Mimic('', 1.0, 0.0)
"""What a joint follows that follows none."""


def _root(urdf: Urdf, name: str, ends: Collection[str], where: str) -> Mimic:
    """Return the joint that ``name`` follows in the end: the first one of ``ends``, or of all."""
    joint, multiplier, offset, seen = name, 1.0, 0.0, {name}
    while (found := urdf.joints.get(joint)) is not None and found.mimic is not None:
        if found.type not in FOLLOWING_TYPES or (joint in ends and joint != name):
            break
        offset += multiplier * found.mimic.offset
        multiplier *= found.mimic.multiplier
        joint = found.mimic.joint
        if joint in seen:
            raise ModelError(
                f"joint '{name}' in {where} mimics itself, by {one_of(seen)}",
                joint=name,
                file=where,
                remedy='correct <mimic>: one of these joints follows none',
            )
        seen.add(joint)
    return Mimic(joint, multiplier, offset)
