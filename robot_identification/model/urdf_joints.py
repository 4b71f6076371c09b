# SPDX-License-Identifier: Apache-2.0
"""Joints of a URDF: types, parents, limits and mimics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lxml import etree
import numpy as np
import pinocchio as pin

from ..errors import ModelError, one_of
from .urdf_limits import (
    check_document,
    MAX_JOINTS,
    UNLIMITED,
)

Joints = dict[str, etree._Element]
"""Elements of joints by name."""

MOVING_TYPES = ('revolute', 'continuous', 'prismatic')
"""Types of joints that can be identified."""


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


def parse(text: str, where: str) -> etree._Element:
    """Return the document of a URDF; ``where`` names it in errors, here and below."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        document = etree.fromstring(text.encode(), parser)
    except (etree.XMLSyntaxError, UnicodeEncodeError) as error:
        raise ModelError(
            f'{where} is not well-formed XML: {error}', file=where, remedy='correct this place'
        ) from error
    if document.tag != 'robot':
        raise ModelError(
            f"{where} is not a URDF: its root is '<{document.tag}>', expected '<robot>'",
            file=where,
        )
    check_document(document, where)
    return document


def build(text: str, where: str) -> pin.Model:
    """Return Pinocchio's model of all joints."""
    try:
        return pin.buildModelFromXML(text)
    except Exception as error:
        raise ModelError(
            f'{where} cannot be read as a robot: {error}', file=where, remedy='correct the URDF'
        ) from error


def moving_joints(document: etree._Element) -> Joints:
    """Return the joints that are not fixed."""
    return {
        joint.get('name'): joint
        for joint in document.iterfind('joint')
        if joint.get('type') not in ('fixed', None)
    }


def identified_joints(
    full: pin.Model, moving: Joints, joints: Sequence[str] | None, where: str
) -> tuple[str, ...]:
    """Check the joints to identify; None takes all that can be, in the order of the tree."""
    if joints is None:
        order = [name for name in full.names[1:] if name in moving]
        joints = [name for name in order if moving[name].get('type') in MOVING_TYPES]
    joints = tuple(joints)
    for joint in moving:
        if not full.existJointName(joint):
            raise ModelError(
                f"joint '{joint}' in {where} does not hang on the robot's base",
                joint=joint,
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
    moving: Joints,
    joints: Sequence[str],
    locked: Mapping[str, float],
    passive: Sequence[str] | None,
    where: str,
) -> tuple[str, ...]:
    """Check the passive joints; None takes all that are left, in the order of the tree."""
    if passive is None:
        others = [name for name in full.names[1:] if name in moving]
        passive = [name for name in others if name not in joints and name not in locked]
    passive = tuple(passive)
    for joint in passive:
        if joint in joints:
            raise ModelError(
                f"joint '{joint}' is both identified and passive",
                joint=joint,
                remedy='take it out of one of the two lists',
            )
    return identified_joints(full, moving, passive, where) if passive else ()


def locked_joints(
    moving: Joints, joints: Sequence[str], locked: Mapping[str, float], where: str
) -> tuple[dict[str, float], list[str]]:
    """Return where the other joints are held, and what a user should know about them."""
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
    places = {**_mimicked(moving, locked), **locked}
    silent = [joint for joint in moving if joint not in joints and joint not in places]
    notes = []
    if silent:
        notes.append(f'held at 0 because they are neither identified nor locked: {one_of(silent)}')
    mimics = [j for j in joints if moving[j].find('mimic') is not None]
    if mimics:
        notes.append(
            f'taken for joints with drives of their own although they mimic others: '
            f'{one_of(mimics)}; lock them together with those if they have none'
        )
    held = {joint: float(places.get(joint, 0.0)) for joint in moving if joint not in joints}
    return held, notes


def _mimicked(moving: Joints, locked: Mapping[str, float]) -> dict[str, float]:
    """Return where joints that mimic locked ones are."""
    places = {}
    for name, joint in moving.items():
        mimic = joint.find('mimic')
        if mimic is not None and mimic.get('joint') in locked:
            ratio, offset = float(mimic.get('multiplier', 1.0)), float(mimic.get('offset', 0.0))
            places[name] = ratio * locked[mimic.get('joint')] + offset
    return places


def reduced(full: pin.Model, held: Mapping[str, float]) -> pin.Model:
    """Return the model with joints held where they are, and what hangs on them lumped."""
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


def require_inertias(
    document: etree._Element,
    joints: Sequence[str],
    links: Sequence[str],
    where: str,
    *,
    massless: Sequence[str] = (),
) -> list[str]:
    """
    Every identified joint has to move some inertia; note the links that have none of it.

    The joints ``massless`` need not, and their links are not noted.
    """
    children: dict[str, list[tuple[str, bool]]] = {}
    for joint in document.iterfind('joint'):
        parent, child = (joint.find(end).get('link') for end in ('parent', 'child'))
        children.setdefault(parent, []).append((child, joint.get('name') in joints))
    inertial = set()
    for element in document.iterfind('link/inertial'):
        link = element.getparent().get('name')
        inertial.add(link)
        _require_numbers(element, link, where)
    bare = []
    for joint, link in zip(joints, links, strict=True):
        if joint in massless:
            continue
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


def _require_numbers(inertial: etree._Element, link: str, where: str) -> None:
    """Refuse an <inertial> with something else than numbers: the parser would drop all of it."""
    needed = {
        'mass': ('value',),
        'inertia': ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'),
        'origin': ('xyz', 'rpy'),
    }
    for tag, attributes in needed.items():
        element = inertial.find(tag)
        if element is None and tag != 'origin':
            raise ModelError(
                f"<inertial> of link '{link}' in {where} has no <{tag}>",
                link=link,
                file=where,
                remedy='add it: without it the link would have no inertia at all',
            )
        for name in attributes if element is not None else ():
            text = element.get(name, '0 0 0' if tag == 'origin' else '')
            if not _numbers(text, 3 if tag == 'origin' else 1):
                raise ModelError(
                    f"{name} of <{tag}> of link '{link}' in {where} is '{text}'",
                    link=link,
                    value=text,
                    file=where,
                    remedy='give finite numbers: without them the link would have no inertia',
                )


def _numbers(text: str, count: int) -> bool:
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        return False
    return len(values) == count and bool(np.isfinite(values).all())


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


def joint_limits(moving: Joints, joints: Sequence[str]) -> JointLimits:
    """Return the limits of ``joints``."""
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
        beyond = np.abs(array) >= UNLIMITED
        array[beyond] = np.copysign(np.inf, array[beyond])
        array.setflags(write=False)
    return JointLimits(lower, upper, velocity, effort)
