# SPDX-License-Identifier: Apache-2.0
"""
A robot's kinematics, prior inertias and limits, read from its URDF and reduced to its joints.

The identified joints stand in the order that the caller gives; Pinocchio's own order stays inside
this module (`Robot.configuration`, `Robot.columns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
import os
from pathlib import Path
import warnings

from lxml import etree
import numpy as np
import pinocchio as pin

from .errors import IdentificationWarning, ModelError, one_of
from .packages import read_urdf
from .parameters import INERTIAL_SYMBOLS, ParameterLayout, ParameterSet

_Joints = dict[str, etree._Element]  # the URDF's moving joints by name

MOVING_TYPES = ('revolute', 'continuous', 'prismatic')


@dataclass(frozen=True)
class JointLimits:
    """
    Limits of the identified joints as the URDF gives them; infinite where it gives none.

    Attributes
    ----------
    lower, upper:
        (n_joints,) position [rad or m].
    velocity:
        (n_joints,) largest absolute velocity [rad/s or m/s].
    effort:
        (n_joints,) largest absolute effort [N m or N].

    """

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray


@dataclass(frozen=True)
class Robot:
    """
    A URDF reduced to the joints that are identified; made by `Robot.from_urdf`.

    Attributes
    ----------
    name:
        The URDF's robot name.
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
    path:
        The file that the URDF was read from, if any.

    """

    name: str
    urdf: str
    joints: tuple[str, ...]
    links: tuple[str, ...]
    locked: Mapping[str, float]
    gravity: np.ndarray
    model: pin.Model
    limits: JointLimits
    path: Path | None = None
    warnings: tuple[str, ...] = field(default=())

    @classmethod
    def from_urdf(
        cls,
        source: str | os.PathLike,
        joints: Sequence[str] | None = None,
        *,
        locked: Mapping[str, float] | None = None,
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
        xacro_arguments: Mapping[str, str] | None = None,
    ) -> Robot:
        """
        Read a robot from a URDF.

        Parameters
        ----------
        source:
            URDF text, a path to a URDF or xacro file, or ``package://<package>/<path>``.
        joints:
            Joints to identify, in the order of the data; None takes every moving joint, in the
            order of Pinocchio's tree.
        locked:
            Other moving joints and the position to hold them at [rad or m].  Moving joints that
            are named nowhere are held at 0 and give a warning.
        gravity:
            (3,) acceleration of free fall in the base frame [m/s^2].
        xacro_arguments:
            Arguments for a xacro file.

        Raises
        ------
        ModelError
            naming the file, joint or link that is wrong.

        """
        text, path = read_urdf(source, xacro_arguments)
        where = str(path) if path else 'URDF'
        document = _parse(text, where)
        full = _build(text, where)
        moving = _moving_joints(document)
        joints = _identified(full, moving, joints, where)
        held, notes = _locked(moving, joints, dict(locked or {}), where)
        checked_gravity = _gravity(gravity)
        model = _reduce(full, held)
        model.gravity.linear = checked_gravity
        links = tuple(moving[joint].find('child').get('link') for joint in joints)
        notes += _require_inertias(document, joints, links, where)
        for note in notes:
            warnings.warn(note, IdentificationWarning, stacklevel=2)
        return cls(
            name=document.get('name', 'robot'),
            urdf=text,
            joints=joints,
            links=links,
            locked=held,
            gravity=checked_gravity,
            model=model,
            limits=_limits(moving, joints),
            path=path,
            warnings=tuple(notes),
        )

    @property
    def n_joints(self) -> int:
        """Number of identified joints."""
        return len(self.joints)

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
        """Inertial parameters of the links, in the order of the joints that carry them."""
        return ParameterLayout.inertial(self.links)

    @cached_property
    def prior(self) -> ParameterSet:
        """Inertial parameters that the URDF gives, fixed and locked links lumped."""
        values = [self.model.inertias[i].toDynamicParameters() for i in self.joint_ids]
        return ParameterSet(self.layout, np.concatenate(values))

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

    def configuration(self, position: np.ndarray) -> np.ndarray:
        """
        Turn joint positions into Pinocchio's configuration vectors.

        Parameters
        ----------
        position:
            (n_samples, n_joints) or (n_joints,), in the order of `joints` [rad or m].

        Returns
        -------
        np.ndarray
            (n_samples, nq) or (nq,); a continuous joint takes two entries (cosine, sine).

        """
        position = np.asarray(position, dtype=float)
        q = np.empty((*position.shape[:-1], self.model.nq))
        for column, index in enumerate(self.joint_ids):
            joint = self.model.joints[index]
            if joint.nq == 1:
                q[..., joint.idx_q] = position[..., column]
            else:
                q[..., joint.idx_q] = np.cos(position[..., column])
                q[..., joint.idx_q + 1] = np.sin(position[..., column])
        return q

    def tangent(self, vectors: np.ndarray) -> np.ndarray:
        """Reorder (..., n_joints) velocities, accelerations or efforts into Pinocchio's order."""
        vectors = np.asarray(vectors, dtype=float)
        reordered = np.empty_like(vectors)
        reordered[..., self.columns] = vectors
        return reordered

    def with_parameters(self, parameters: ParameterSet) -> pin.Model:
        """
        Return a copy of `model` with the inertial parameters of ``parameters``.

        Links that ``parameters`` does not name keep what the URDF gives.  Friction and rotor
        inertia are not part of Pinocchio's rigid-body model.
        """
        model = self.model.copy()
        for index, link in zip(self.joint_ids, self.links, strict=True):
            if f'{link}.{INERTIAL_SYMBOLS[0]}' in parameters.layout:
                vector = parameters.inertial(link)
                model.inertias[index] = pin.Inertia.FromDynamicParameters(vector)
        return model


def _gravity(values: Sequence[float]) -> np.ndarray:
    gravity = np.array(values, dtype=float)
    if gravity.shape != (3,) or not np.isfinite(gravity).all():
        raise ModelError(
            f'gravity is {gravity.tolist()}, expected three finite numbers', value=gravity
        )
    gravity.setflags(write=False)
    return gravity


def _parse(text: str, where: str) -> etree._Element:
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        document = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise ModelError(
            f'{where} is not well-formed XML: {error}', file=where, remedy='correct this place'
        ) from error
    if document.tag != 'robot':
        raise ModelError(
            f"{where} is not a URDF: its root is '<{document.tag}>', expected '<robot>'",
            file=where,
        )
    return document


def _build(text: str, where: str) -> pin.Model:
    try:
        return pin.buildModelFromXML(text)
    except Exception as error:
        raise ModelError(
            f'{where} cannot be read as a robot: {error}', file=where, remedy='correct the URDF'
        ) from error


def _moving_joints(document: etree._Element) -> _Joints:
    return {
        joint.get('name'): joint
        for joint in document.iterfind('joint')
        if joint.get('type') not in ('fixed', None)
    }


def _identified(
    full: pin.Model, moving: _Joints, joints: Sequence[str] | None, where: str
) -> tuple[str, ...]:
    if joints is None:
        order = [name for name in full.names[1:] if name in moving]
        joints = [name for name in order if moving[name].get('type') in MOVING_TYPES]
    joints = tuple(joints)
    if not joints:
        raise ModelError(
            f'{where} has no joint to identify',
            file=where,
            remedy='name at least one moving joint',
        )
    for joint in joints:
        if joint not in moving:
            raise ModelError(
                f"{where} has no moving joint '{joint}'",
                joint=joint,
                file=where,
                remedy=f'its moving joints are {one_of(moving)}',
            )
        kind = moving[joint].get('type')
        if kind not in MOVING_TYPES:
            raise ModelError(
                f"joint '{joint}' in {where} is of type '{kind}'",
                joint=joint,
                file=where,
                remedy=f'identified joints have to be {", ".join(MOVING_TYPES)}',
            )
    if len(set(joints)) != len(joints):
        twice = next(joint for joint in joints if joints.count(joint) > 1)
        raise ModelError(f"joint '{twice}' is listed twice", joint=twice, remedy='name it once')
    return joints


def _locked(
    moving: _Joints, joints: Sequence[str], locked: Mapping[str, float], where: str
) -> tuple[dict[str, float], list[str]]:
    for joint in locked:
        if joint not in moving:
            raise ModelError(
                f"{where} has no moving joint '{joint}' to lock",
                joint=joint,
                file=where,
                remedy=f'its moving joints are {one_of(moving)}',
            )
        if joint in joints:
            raise ModelError(
                f"joint '{joint}' is both identified and locked",
                joint=joint,
                remedy='take it out of one of the two lists',
            )
    silent = [joint for joint in moving if joint not in joints and joint not in locked]
    notes = []
    if silent:
        notes.append(f'held at 0 because they are neither identified nor locked: {one_of(silent)}')
    held = {joint: float(locked.get(joint, 0.0)) for joint in moving if joint not in joints}
    return held, notes


def _reduce(full: pin.Model, held: Mapping[str, float]) -> pin.Model:
    if not held:
        return full
    reference = pin.neutral(full)
    ids = []
    for name, position in held.items():
        index = full.getJointId(name)
        joint = full.joints[index]
        if joint.nq == 1:
            reference[joint.idx_q] = position
        elif joint.nv == 1:
            reference[joint.idx_q : joint.idx_q + 2] = np.cos(position), np.sin(position)
        elif position != 0.0:
            raise ModelError(
                f"joint '{name}' has several degrees of freedom and is held at its neutral place",
                joint=name,
                value=position,
                remedy='lock it at 0',
            )
        ids.append(index)
    return pin.buildReducedModel(full, ids, reference)


def _require_inertias(
    document: etree._Element, joints: Sequence[str], links: Sequence[str], where: str
) -> list[str]:
    """Every identified joint has to move some inertia; note the links that have none of it."""
    children: dict[str, list[tuple[str, bool]]] = {}
    for joint in document.iterfind('joint'):
        parent, child = (joint.find(end).get('link') for end in ('parent', 'child'))
        children.setdefault(parent, []).append((child, joint.get('name') in joints))
    inertial = {
        link.get('name') for link in document.iterfind('link') if link.find('inertial') is not None
    }
    bare = []
    for joint, link in zip(joints, links, strict=True):
        if not _reached(link, children, across_joints=True) & inertial:
            raise ModelError(
                f"link '{link}' (moved by joint '{joint}') in {where} has no <inertial>",
                joint=joint,
                link=link,
                file=where,
                remedy='add one, a rough estimate is enough: it is the prior and is written back',
            )
        if not _reached(link, children, across_joints=False) & inertial:
            bare.append(link)
    return [f'no <inertial>, so their prior is zero: {one_of(bare)}'] if bare else []


def _reached(link: str, children: Mapping, *, across_joints: bool) -> set[str]:
    """Links that hang on ``link``: those lumped with it, or those behind identified joints too."""
    reached, pending = set(), [link]
    while pending:
        current = pending.pop()
        reached.add(current)
        pending += [
            child
            for child, identified in children.get(current, ())
            if (across_joints or not identified) and child not in reached
        ]
    return reached


def _limits(moving: _Joints, joints: Sequence[str]) -> JointLimits:
    lower, upper, velocity, effort = (np.full(len(joints), np.inf) for _ in range(4))
    lower = -lower
    for i, joint in enumerate(joints):
        limit = moving[joint].find('limit')
        if limit is None:
            continue
        if moving[joint].get('type') != 'continuous':
            # URDF's own default for a missing bound is 0, which nobody means by leaving it out
            lower[i] = float(limit.get('lower', -np.inf))
            upper[i] = float(limit.get('upper', np.inf))
        velocity[i] = float(limit.get('velocity') or np.inf) or np.inf
        effort[i] = float(limit.get('effort') or np.inf) or np.inf
    for array in (lower, upper, velocity, effort):
        array.setflags(write=False)
    return JointLimits(lower, upper, velocity, effort)
