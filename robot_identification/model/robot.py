# SPDX-License-Identifier: Apache-2.0
"""
A robot's kinematics, prior inertias and limits, read from its URDF and reduced to its joints.

The identified joints stand in the order that the caller gives; Pinocchio's own order stays inside
this module (`Robot.configuration`, `Robot.columns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
import os
from pathlib import Path
import warnings

import numpy as np
import pinocchio as pin

from ..errors import LOCKED, ModelError, Omission, one_of
from .floating_base import BASE_JOINTS, has_floating_base, UNREAL_LINKS, with_floating_base
from .joint_choice import (
    bodies_alike,
    build_model,
    identified_joints,
    locked_joints,
    passive_joints,
    reduced_model,
    remarks_on_numbers,
    require_inertias,
    require_locked,
    UrdfLimits,
)
from .mimic_joints import followers, MimicJoints
from .parameters import INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from .urdf import parse_urdf, Urdf, without_blanks
from .urdf_files import read_urdf

MAX_GRAVITY = 1e6
"""Largest absolute component of the gravity [m/s^2]."""


@dataclass(frozen=True)
class Robot:
    """
    A URDF reduced to the joints that are identified; made by `Robot.from_urdf`.

    Attributes
    ----------
    urdf:
        The URDF document as text (after xacro).
    joints:
        Identified joints, in the order of all data.
    links:
        The link that each identified joint carries; names its inertial parameters.
    locked:
        The other moving joints and the position they are held at [rad or m].
    gravity:
        (3,) in the base frame [m/s^2].
    model:
        Pinocchio's model with the other joints locked and fixed links lumped.
    limits:
        Limits of the identified joints.
    mimics:
        Joints that follow identified ones, by the URDF's ``<mimic>``.
    contents:
        Links and joints of the URDF.
    path:
        The file that the URDF was read from, if any.
    opened:
        The same robot with its passive joints, or those that mimic others, among the identified
        ones, after these: a tree whose loops are cut open, and whose joints are free.  The robot
        itself where it has neither.

    """

    name: str
    urdf: str
    joints: tuple[str, ...]
    links: tuple[str, ...]
    locked: Mapping[str, float]
    gravity: np.ndarray
    model: pin.Model
    limits: UrdfLimits
    mimics: MimicJoints
    contents: Urdf = field(repr=False, compare=False)
    path: Path | None = None
    warnings: tuple[str, ...] = field(default=())
    opened: Robot = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.opened is None:
            object.__setattr__(self, 'opened', self)

    @classmethod
    def from_urdf(
        cls,
        source: str | os.PathLike,
        joints: Sequence[str] | None = None,
        *,
        locked: Mapping[str, float] | None = None,
        passive: Sequence[str] | None = (),
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
        xacro_arguments: Mapping[str, str] | None = None,
        massless: bool = False,
        floating: bool = False,
    ) -> Robot:
        """
        Read a robot from a URDF.

        Parameters
        ----------
        source:
            URDF text, a path to a URDF or xacro file, or ``package://<package>/<path>``.
        joints:
            Joints to identify, in the order of the data; None takes every moving joint that mimics
            no other, in the order of Pinocchio's tree.
        locked:
            Other moving joints and the position to hold them at [rad or m].  Moving joints that
            are named nowhere are held at 0 and give a warning, but those that mimic a locked one
            follow it.
        passive:
            Joints without a drive that closed loops move; they keep moving in `model`.  None
            takes all that are neither in ``joints`` nor in ``locked``.
        gravity:
            (3,) acceleration of free fall in the base frame [m/s^2].
        xacro_arguments:
            Arguments for a xacro file.
        massless:
            Whether joints may move no inertia at all; else they are refused.
        floating:
            Whether the root link is free: then `BASE_JOINTS` are the first ones.  They may stand
            in ``joints`` instead.

        Raises
        ------
        ModelError
            naming the file, joint or link that is wrong.

        """
        text, path = read_urdf(source, xacro_arguments)
        where = str(path) if path else 'URDF'
        text, blanks = without_blanks(text)
        contents = parse_urdf(text, where)
        whole, joints = _with_base(text, joints, floating, where)
        contents = contents if whole is text else parse_urdf(whole, where)
        full = build_model(whole, where)
        joints = identified_joints(full, contents, joints, where)
        locked = dict(locked or {})
        passive = passive_joints(full, contents, joints, locked, passive, where)
        require_locked(contents, (*joints, *passive), locked, where)
        # loops say themselves how the joints depend on each other
        mimics, places, notes = followers(contents, (*joints, *passive), locked, where)
        if passive:
            mimics = MimicJoints((*joints, *passive), {})
        free = (*joints, *passive, *mimics.names)
        held, remarks = locked_joints(contents, free, locked, places)
        for remark in remarks:
            warnings.warn(Omission(remark, LOCKED, tuple(held)), stacklevel=2)
        checked = _gravity(gravity)
        model = reduced_model(full, held)
        model.gravity.linear = checked
        others = notes + require_inertias(
            contents, free, where, massless=(*passive, *BASE_JOINTS), required=not massless
        )
        others += remarks_on_numbers(contents, free, blanks)
        for remark in others:
            warnings.warn(remark, Omission, stacklevel=2)
        remarks += others
        moving = [contents.joints[joint] for joint in free]
        opened = cls(
            name=contents.name,
            urdf=text,
            joints=free,
            links=tuple(joint.child for joint in moving),
            locked=held,
            gravity=checked,
            model=model,
            limits=UrdfLimits.from_joints(moving),
            mimics=MimicJoints(free, {}),
            contents=contents,
            path=path,
            warnings=tuple(remarks),
        )
        return opened if len(joints) == len(free) else _followed(opened, joints, mimics)

    @property
    def n_joints(self) -> int:
        """Number of identified joints."""
        return len(self.joints)

    @property
    def floating(self) -> bool:
        """True if the root link is free, and the first joints are those of its base."""
        return has_floating_base(self.joints)

    @property
    def tree_urdf(self) -> str:
        """The URDF document, with the joints of a floating base."""
        return with_floating_base(self.urdf) if self.floating else self.urdf

    @property
    def driven_joints(self) -> tuple[str, ...]:
        """Identified joints that are none of a floating base."""
        return self.joints[len(BASE_JOINTS) :] if self.floating else self.joints

    @property
    def effort_units(self) -> tuple[str, ...]:
        """Unit of each identified joint's effort."""
        kinds = (self.model.joints[i].shortname() for i in self.joint_ids)
        return tuple('N' if 'JointModelP' in kind else 'N m' for kind in kinds)

    @property
    def passive(self) -> tuple[str, ...]:
        """Joints that closed loops move, in the order of the tree."""
        return () if self.mimics.followed else self.opened.joints[self.n_joints :]

    @property
    def carriers(self) -> Robot:
        """The robot with all joints that carry its bodies: `opened` if some follow others."""
        return self.opened if self.mimics.followed else self

    @cached_property
    def joint_ids(self) -> tuple[int, ...]:
        """Pinocchio's index of each identified joint in `model`."""
        return tuple(self.model.getJointId(joint) for joint in self.joints)

    @cached_property
    def columns(self) -> np.ndarray:
        """(n_joints,) place of each identified joint in Pinocchio's velocity vector."""
        return np.array([self.model.joints[i].idx_v for i in self.joint_ids], dtype=int)

    @cached_property
    def layout(self) -> ParameterLayout:
        """
        Inertial parameters of the links, in the order of the joints that carry them.

        Those of joints that mimic others come last.
        """
        links = self.carriers.links
        return ParameterLayout.inertial(link for link in links if link not in UNREAL_LINKS)

    @cached_property
    def prior(self) -> ParameterSet:
        """Inertial parameters that the URDF gives, fixed and locked links lumped."""
        pairs = zip(self.carriers.joint_ids, self.carriers.links, strict=True)
        ids = [i for i, link in pairs if link not in UNREAL_LINKS]
        values = [self.model.inertias[i].toDynamicParameters() for i in ids]
        return ParameterSet(self.layout, np.concatenate(values))

    def with_gravity(self, gravity: Sequence[float]) -> Robot:
        """Return the robot with another gravity (3,), as `from_urdf` takes it."""
        checked = _gravity(gravity)
        model = self.model.copy()
        model.gravity.linear = checked
        alone = replace(self, gravity=checked, model=model)
        opened = alone if self.opened is self else self.opened.with_gravity(gravity)
        object.__setattr__(alone, 'opened', opened)
        return alone

    def joint_index(self, joint: str) -> int:
        """Place of ``joint`` among the identified ones; raises `ModelError` where it is not."""
        try:
            return self.joints.index(joint)
        except ValueError:
            raise ModelError(
                f"joint '{joint}' is not among the identified joints",
                joint=joint,
                remedy=f'they are {one_of(self.joints)}',
            ) from None

    @property
    def gripper_joints(self) -> tuple[str, ...]:
        """Identified joints that move bodies of a gripper alone; none if there are no others."""
        fingers = {*self.contents.gripper_joints}
        found = tuple(joint for joint in self.joints if joint in fingers)
        return found if len(found) < self.n_joints else ()

    @property
    def tip(self) -> str:
        """Link of the last identified joint that is none of a gripper: it carries what is held."""
        pairs = zip(self.joints, self.links, strict=True)
        return [link for joint, link in pairs if joint not in self.gripper_joints][-1]

    @property
    def end_joints(self) -> tuple[str, ...]:
        """Moving joints that no other one is behind, passive ones and followers among them."""
        opened = self.opened
        inner = {int(self.model.parents[i]) for i in opened.joint_ids}
        pairs = zip(opened.joints, opened.joint_ids, strict=True)
        return tuple(joint for joint, i in pairs if i not in inner)

    @property
    def end_links(self) -> tuple[str, ...]:
        """Links that `end_joints` carry."""
        return tuple(self.contents.joints[joint].child for joint in self.end_joints)

    @property
    def bodies_alike(self) -> bool:
        """True if the URDF has one and the same ball for all links, which are three or more."""
        return bodies_alike(self.contents, self.joints)

    @property
    def link_frames(self) -> dict[str, pin.Frame]:
        """Pinocchio's frames of all links of the URDF in `model`, by name."""
        return {f.name: f for f in self.model.frames if f.type == pin.FrameType.BODY}

    def attachment(self, frame: str | None = None) -> tuple[str, pin.SE3]:
        """
        Return the identified link that carries a link of the URDF, and the pose of that one in it.

        ``frame`` None stands for `tip`.  Raises ModelError if the URDF has no such link, or no
        identified joint moves it.
        """
        if frame is None:
            return self.tip, pin.SE3.Identity()
        body = self.link_frames.get(frame)
        if body is None:
            raise ModelError(
                f"the URDF has no link '{frame}'",
                link=frame,
                remedy=f'links are {one_of(self.link_frames)}',
            )
        carriers = self.carriers
        if body.parentJoint not in carriers.joint_ids:
            raise ModelError(
                f"no identified joint moves link '{frame}'",
                link=frame,
                remedy=f'name one of {one_of(self.links)}, or a link that is fixed to one of them',
            )
        return carriers.links[carriers.joint_ids.index(body.parentJoint)], body.placement

    def configuration(self, position: np.ndarray) -> np.ndarray:
        """
        Return Pinocchio's configuration vectors (n_samples, nq) or (nq,).

        Positions are (n_samples, n_joints) or (n_joints,), in the order of `joints` [rad or m].  A
        continuous joint takes two entries (cosine, sine).
        """
        self.require_tree()
        position = self.mimics.positions(np.asarray(position, dtype=float))
        q = np.empty((*position.shape[:-1], self.model.nq))
        entries, continuous = self._entries
        q[..., entries] = position
        if continuous.any():
            angle = position[..., continuous]
            q[..., entries[continuous]] = np.cos(angle)
            q[..., entries[continuous] + 1] = np.sin(angle)
        return q

    @cached_property
    def _entries(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) first entry of each joint in a configuration; bool, true if it has two."""
        joints = [self.model.joints[index] for index in self.carriers.joint_ids]
        return np.array([j.idx_q for j in joints]), np.array([j.nq == 2 for j in joints])

    def tangent(self, vectors: np.ndarray) -> np.ndarray:
        """Return Pinocchio's velocities or accelerations (..., nv) from those of the joints."""
        self.require_tree()
        vectors = self.mimics.rates(np.asarray(vectors, dtype=float))
        reordered = np.empty_like(vectors)
        reordered[..., self.carriers.columns] = vectors
        return reordered

    def cotangent(self, vectors: np.ndarray) -> np.ndarray:
        """
        Return the joints' efforts (..., n_joints) from Pinocchio's (..., nv).

        It is `tangent` transposed, which serves rows of Jacobians, too.
        """
        self.require_tree()
        return self.mimics.efforts(np.asarray(vectors)[..., self.carriers.columns])

    def require_tree(self) -> None:
        """Raise `ModelError` where the robot has passive joints, hence more than its own."""
        if self.passive:
            raise ModelError(
                f"robot '{self.name}' has passive joints: their positions follow from its loops",
                joint=self.passive[0],
                remedy='robots with closed loops can be identified from recordings, by inverse '
                'dynamics; plan and simulate their motions elsewhere',
            )

    def with_parameters(self, parameters: ParameterSet) -> pin.Model:
        """
        Return a copy of `model` with the inertial parameters of ``parameters``.

        Links that ``parameters`` does not name keep what the URDF gives.  Friction and rotor
        inertia are not part of Pinocchio's rigid-body model.
        """
        model = self.model.copy()
        carriers = self.carriers
        for index, link in zip(carriers.joint_ids, carriers.links, strict=True):
            if f'{link}.{INERTIAL_SYMBOLS[0]}' in parameters.layout:
                vector = parameters.inertial(link)
                # without a body, as a frame between joints is, the centre would be 0 / 0
                made = pin.Inertia.FromDynamicParameters(vector) if vector.any() else None
                model.inertias[index] = made or pin.Inertia.Zero()
        return model


def _followed(opened: Robot, joints: tuple[str, ...], mimics: MimicJoints) -> Robot:
    """Return a robot without the passive joints, or those that mimic others, of its open tree."""
    n = len(joints)
    return replace(
        opened,
        joints=joints,
        links=opened.links[:n],
        limits=UrdfLimits.from_joints([opened.contents.joints[joint] for joint in joints]),
        mimics=MimicJoints(joints, mimics.followed),
        opened=opened,
    )


def _with_base(
    text: str, joints: Sequence[str] | None, floating: bool, where: str
) -> tuple[str, Sequence[str] | None]:
    """Return a URDF and the joints to identify, with those of a floating base if asked for."""
    if not floating and BASE_JOINTS[0] not in (joints or ()):
        return text, joints
    driven = joints and tuple(joint for joint in joints if joint not in BASE_JOINTS)
    return with_floating_base(text, where), driven and (*BASE_JOINTS, *driven)


def joint_inertia(robot: Robot, data: pin.Data, configuration: np.ndarray) -> np.ndarray:
    """Return the inertia (n_joints,) that each joint alone moves in a configuration."""
    upper = np.triu(pin.crba(robot.model, data, configuration))
    inertia = upper + np.triu(upper, 1).T
    return np.asarray(np.diagonal(robot.cotangent(robot.cotangent(inertia).T)))


def tilted_gravity(gravity: Sequence[float], tilt: Sequence[float]) -> tuple[float, float, float]:
    """Turn gravity by a rotation vector; (3,) [m/s^2], (3,) [rad]."""
    if not any(tilt):
        return tuple(gravity)  # type: ignore[return-value]
    x, y, z = (pin.exp3(np.array(tilt)) @ np.array(gravity)).tolist()
    return x, y, z


def _gravity(values: Sequence[float]) -> np.ndarray:
    gravity = np.array(values, dtype=float)
    if gravity.shape != (3,) or not (np.abs(gravity) <= MAX_GRAVITY).all():
        raise ModelError(
            f'gravity is {gravity.tolist()}, expected three finite numbers',
            value=gravity,
            remedy=f'give three numbers of at most {MAX_GRAVITY:g} m/s^2',
        )
    gravity.setflags(write=False)
    return gravity
