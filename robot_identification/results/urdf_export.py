# SPDX-License-Identifier: Apache-2.0
"""
Inertias and friction written into the robot's own URDF: identified ones, or repaired ones.

Comments, foreign elements (ros2_control, gazebo, transmissions), the order of attributes and the
white space between tags stay as they are.  Tags get one form: on one line, in double quotes.

Bodies are vectors ``m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`` at the origin of their frame.

One file: identified and repaired URDFs are written by the same steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
import math
import re
from typing import Any
import warnings

from lxml import etree
import numpy as np

from ..errors import ConsistencyError, IdentificationWarning, Omission, one_of
from ..model.consistency import check, inertia_at_com
from ..model.friction import friction_symbols, SLOPES
from ..model.parameters import ParameterLayout, ParameterSet
from ..model.plausibility import joined_links, nearest_body, repaired_body, robot_shapes
from ..model.robot import link_inertias, lumped_inertias, Robot
from ..model.urdf import parse_tree
from ..regressor import ModelSettings
from ..regressor.joint_terms import slopes_of, SPRING_SYMBOLS

_MARK = 'robot_identification: identified parameters that URDF has no element for'
_EXACT = 1e-10  # of a body, which the rounding of its Steiner part may take
_SMALLEST_SHARE = 2.0**-20  # of a fixed body, down to which it is taken off
_SCALED = ('value', 'ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')

Attributes = Mapping[str, str]


def identified_urdf(
    robot: Robot, parameters: ParameterSet, model: ModelSettings | None = None
) -> str:
    """
    Return the robot's URDF with identified inertials and friction.

    The parameters of a link are those of all that moves rigidly with its joint.  What hangs on the
    link by fixed or locked joints keeps its own ``<inertial>``, and the link gets the rest; where
    that rest would be no physical body although the whole is one, theirs are scaled down.
    ``<dynamics>`` gets ``fv`` as ``damping`` and ``fc`` as ``friction``, or the Coulomb friction
    ``ts + tsc`` that stiction falls to.  Rotor inertia, offsets and other parameters that URDF has
    no element for are listed in a comment at the top.

    Parameters
    ----------
    robot:
        Its URDF text (for a xacro file the expanded text) is what is edited.
    parameters:
        Standard parameters; links and joints that they do not name are left alone.
    model:
        What the parameters belong to, where it has elastic joints or slopes of friction.  The
        friction of motors behind elastic joints, which is reduced to the joints, goes to the
        joints' ``<dynamics>``, as it acts there in a model with stiff joints; their rotor inertias
        and the stiffnesses are among those in the comment, and so are slopes.

    Returns
    -------
    str
        The document.  Read by Pinocchio it has the inertial parameters that were given.

    Raises
    ------
    ConsistencyError
        naming a link with a first moment but no positive mass, which URDF readers cannot take.

    Warns
    -----
    IdentificationWarning
        naming links and joints whose parameters no physical body has; most simulators refuse them,
        and negative friction is written as 0; and joints with springs, which URDF has no place
        for.

    """
    n_driven = robot.n_joints
    robot = robot.opened
    root = parse_tree(robot.urdf)
    links = {element.get('name'): element for element in root.iterfind('link')}
    joints = {element.get('name'): element for element in root.iterfind('joint')}
    impossible = [
        link
        for link in robot.links
        if f'{link}.m' in parameters.layout
        and not _write_link(robot, link, parameters.inertial(link), links)
    ]
    if impossible:
        _warn(
            f'physically inconsistent inertia is identified for {one_of(impossible)}; '
            'simulators such as MuJoCo and Gazebo refuse the URDF; use estimation.method: '
            'physical'
        )
    elastic = None if model is None else model.elastic
    owners = robot.joints if elastic is None else elastic.motor_names(robot.joints)
    for joint, owner in zip(robot.joints, owners, strict=True):
        _write_friction(owner, parameters, joints[joint])
    _report_springs(parameters)
    set_comment(root, _MARK, terms_without_element(owners, n_driven, parameters, model))
    return document_text(root, robot.urdf)


def _write_link(
    robot: Robot, link: str, identified: np.ndarray, links: Mapping[str, etree._Element]
) -> bool:
    """Write a link's share of what its joint carries; return whether a body can have it."""
    lumped = lumped_inertias(robot, link)
    fixed = sum(lumped.values(), np.zeros(10))
    # bodies form a convex cone: the rest of a physical whole is physical for a small enough share
    share = 1.0
    if _physical(identified):
        while share > _SMALLEST_SHARE and not _physical(identified - share * fixed):
            share /= 2.0
    if share < 1.0:
        for name in lumped:
            _scale_inertial(links[name], share)
        _warn(
            f"the identified inertia of link '{link}' leaves no room for what hangs on it by "
            f'fixed or locked joints; {one_of(lumped)} got {100 * share:.3g} % of their own '
            '(pinned in estimation.physical.links they keep it)'
        )
    rest = identified - share * fixed
    if not rest.any() and links[link].find('inertial') is None:
        # a frame without a body stays one: readers divide by a mass of 0
        return True
    _require_expressible(rest, link)
    _write_inertial(links[link], rest)
    return _physical(rest)


def _physical(body: np.ndarray) -> bool:
    """Return whether mass and moments are positive; unlike `check` it takes flat bodies."""
    if body[0] <= 0.0:
        return False
    moments = np.linalg.eigvalsh(inertia_at_com(body))
    return bool(moments[0] > 0.0 and moments[0] + moments[1] >= moments[2])


def _scale_inertial(link: etree._Element, share: float) -> None:
    for element in link.iterfind('inertial/*'):
        for name in {*_SCALED} & {*element.attrib}:
            element.set(name, _number(share * float(element.get(name))))


def _require_expressible(body: np.ndarray, link: str) -> None:
    """Check that mass, centre and inertia at the centre give back the parameters when read."""
    mass, moment = body[0], float(np.linalg.norm(body[1:4]))
    if moment == 0.0:
        return
    # the reader adds the parallel-axis term m c c^T again: its rounding must not exceed what the
    # inertia itself carries; and readers that add up bodies cannot take a negative mass
    steiner = math.inf if mass <= 0.0 else moment**2 / mass
    size = max(np.abs(body[4:]).max(), moment, mass)
    if not steiner * np.finfo(float).eps < _EXACT * size:
        raise ConsistencyError(
            f"link '{link}' has a mass of {mass:.3g} kg and a first moment of {moment:.3g} "
            'kg m, which a URDF cannot express',
            link=link,
            value=float(mass),
            remedy='use estimation.prior: urdf with a realistic mass in the URDF, because masses '
            'that the motion does not determine stay near the prior',
        )


def centre_of_mass(body: np.ndarray) -> np.ndarray:
    """Return the centre of mass (3,) [m]; the origin where there is no first moment."""
    return body[1:4] / body[0] if body[1:4].any() else np.zeros(3)


def _write_inertial(link: etree._Element, body: np.ndarray) -> None:
    """Write a body in its link's frame into the ``<inertial>`` of a link."""
    tensor = inertia_at_com(body)
    values = {
        'origin': {'xyz': ' '.join(map(_number, centre_of_mass(body))), 'rpy': '0 0 0'},
        'mass': {'value': _number(body[0])},
        'inertia': {
            f'i{"xyz"[i]}{"xyz"[j]}': _number(tensor[i, j]) for i in range(3) for j in range(i, 3)
        },
    }
    inertial = link.find('inertial')
    if inertial is None:
        insert_child(link, 'inertial', values, first=True)
        return
    for tag, attributes in values.items():
        element = inertial.find(tag)
        if element is None:
            insert_child(inertial, tag, attributes, first=tag == 'origin')
        else:
            element.attrib.update(attributes)


def _write_friction(owner: str, parameters: ParameterSet, element: etree._Element) -> None:
    attributes = {}
    for attribute, mjcf in (('damping', 'damping'), ('friction', 'frictionloss')):
        own = (f'{owner}.{symbol}' for symbol in friction_symbols(mjcf=mjcf))
        names = [name for name in own if name in parameters.layout]
        if not names:
            continue
        value, name = sum(parameters[name] for name in names), ' + '.join(names)
        if value < 0.0:
            _warn(
                f"'{name}' is {value:.4g}; a URDF's friction cannot be negative, so 0 is written"
            )
        attributes[attribute] = _number(max(0.0, value))
    if not attributes:
        return
    dynamics = element.find('dynamics')
    if dynamics is None:
        insert_child(element, 'dynamics', attributes)
    else:
        dynamics.attrib.update(attributes)


def _report_springs(parameters: ParameterSet) -> None:
    """Warn of efforts of springs, which a URDF has no place for."""
    values = parameters.as_dict().items()
    owners = [name.rpartition('.') for name, value in values if value != 0.0]
    joints = dict.fromkeys(joint for joint, _, symbol in owners if symbol in SPRING_SYMBOLS)
    if joints:
        _warn(
            f'the springs of {one_of(joints)} are in a comment alone: a URDF has no place for '
            'kc cos q + ks sin q, and efforts by it are without them'
        )


def terms_without_element(
    owners: tuple[str, ...],
    n_driven: int,
    parameters: ParameterSet,
    model: ModelSettings | None,
    written: tuple[str, ...] = ('fv', 'fc'),
) -> list[str]:
    """
    Return lines for parameters, other than inertial ones, that a robot description cannot have.

    ``owners`` are the joints, or their motors, that the parameters are named after, the first
    ``n_driven`` of which have drives; ``written`` are symbols that the description has elements
    for; parameters and model are those of `identified_urdf`.
    """
    done = {f'{owner}.{symbol}' for owner in owners for symbol in written}
    layout = parameters.layout
    inertial = {name for link in layout.links for name in layout.names[layout.slice_of(link)]}
    lines = [
        f'{name} = {_number(parameters[name])} {unit}'.rstrip()
        for name, unit in zip(layout.names, layout.units, strict=True)
        if name not in done and name not in inertial
    ]
    if model is not None:
        # passive joints, which come last, have no friction with a slope
        driven = owners[:n_driven]
        slopes = slopes_of(model, driven)
        lines += [
            f'{SLOPES[term]} of {owner} = {_number(slope)}'
            for term in SLOPES
            if term in model.friction
            for owner, slope in zip(driven, slopes[term], strict=True)
        ]
    return lines


def _number(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return repr(float(value) + 0.0)


def _warn(text: str) -> None:
    # the caller of identified_urdf is the one to look at
    warnings.warn(text, IdentificationWarning, stacklevel=5)


# ----------------------------------------------------------------------------------------- repair


def repaired_urdf(robot: Robot) -> tuple[str, tuple[str, ...]]:
    """
    Return a robot's URDF with physical bodies throughout, and a remark for each changed link.

    A link with an impossible ``<inertial>`` gets the nearest possible one, a link that a joint
    moves and that has none, with all that is fixed to it, one of its shapes or of its neighbours.

    Parameters
    ----------
    robot:
        Read with ``massless=True`` where links at the ends may have no inertia.

    """
    robot = robot.opened
    bodies = link_inertias(robot)
    layout = ParameterLayout.inertial(('link',))
    wrong = {
        link
        for link, body in bodies.items()
        if body.any() and not check(ParameterSet(layout, body)).physical
    }
    missing = {link for link in robot.links if not robot.prior.inertial(link).any()}
    return _repaired(robot, bodies, wrong | missing)


def robot_with_inertia(source: Any, joints: Any = None, **settings: Any) -> Robot:
    """
    Read a robot as `Robot.from_urdf` does; joints at the ends that move no inertia get some.

    Raises ModelError as `Robot.from_urdf`, whose parameters it takes.

    Warns
    -----
    IdentificationWarning
        naming the links and what stands in place of the inertia that they lack.

    """
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        robot = Robot.from_urdf(source, joints, massless=True, **settings)
        if bare := _bare(robot):
            text, remarks = _repaired(robot.opened, link_inertias(robot), bare)
            whole = Robot.from_urdf(text, joints, **settings)
            notes = (*whole.warnings, *remarks)
            robot = _with(whole, path=robot.path, warnings=notes)
    for note in robot.warnings:
        warnings.warn(note, Omission, stacklevel=2)
    return robot


def _with(robot: Robot, **changes: Any) -> Robot:
    """Return a robot with attributes changed, those of the opened tree, too."""
    # a robot without passive joints is its own opened tree
    tree = replace(robot.opened, opened=None, **changes)  # type: ignore[arg-type]
    return tree if robot.opened is robot else replace(robot, opened=tree, **changes)


def _repaired(
    robot: Robot, bodies: Mapping[str, np.ndarray], wrong: set[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the URDF with other bodies for some links, and a remark for each of them."""
    if not wrong:
        return robot.urdf, ()
    root, remarks, shapes, joined = (
        parse_tree(robot.urdf), [], robot_shapes(robot), joined_links(robot)
    )  # fmt: skip
    priors = {link: nearest_body(robot.prior.inertial(link)) for link in robot.links}
    sound = {link: body for link, body in priors.items() if body is not None}
    for element in root.iterfind('link'):
        link = element.get('name')
        if link not in wrong:
            continue
        vector = bodies.get(link, np.zeros(10))
        near = [sound[other] for other in joined.get(link, ()) if other in sound]
        body, words = repaired_body(vector, shapes.get(link), near or list(sound.values()))
        _write_inertial(element, body)
        fault = 'is no physical body' if vector.any() else 'has no inertia'
        remarks.append(f"link '{link}' {fault}: {words} stands in its place")
    return document_text(root, robot.urdf), tuple(remarks)


def _bare(robot: Robot) -> set[str]:
    """Return links whose joints move no inertia, neither theirs nor that of links behind them."""
    tree = robot.opened
    moved = [bool(inertia.toDynamicParameters().any()) for inertia in tree.model.inertias]
    for index in range(len(moved) - 1, 0, -1):
        moved[tree.model.parents[index]] |= moved[index]
    return {
        link
        for joint, link, index in zip(tree.joints, tree.links, tree.joint_ids, strict=True)
        if not moved[index] and joint not in robot.passive
    }


# --------------------------------------------------------------------------------------- elements


def document_text(root: etree._Element, original: str) -> str:
    """Return an edited document, with the XML declaration of the original text."""
    before = [*root.itersiblings(preceding=True)]
    nodes = [*reversed(before), root, *root.itersiblings()]
    lines = [etree.tostring(node, encoding='unicode', with_tail=False) for node in nodes]
    if original.startswith('<?xml'):
        lines.insert(0, original[: original.index('?>') + 2])
    return '\n'.join(lines) + '\n'


def insert_child(
    parent: etree._Element,
    tag: str,
    content: Attributes | Mapping[str, Attributes],
    *,
    first: bool = False,
) -> None:
    """
    Add a child element, the first or the last one, indented as its siblings are.

    Its content is its attributes, or its own children with theirs.
    """
    child = etree.Element(tag)
    _place(parent, child, first)
    for name, value in content.items():
        if isinstance(value, str):
            child.set(name, value)
        else:
            insert_child(child, name, value)


def set_comment(root: etree._Element, mark: str, lines: list[str]) -> None:
    """
    Write a comment at the beginning of an element, in place of one with the same first line.

    ``mark`` is its first line, ``lines`` are the others; there is no comment without them.
    """
    for earlier in root.iterchildren(etree.Comment):
        if earlier.text.strip().startswith(mark):
            root.remove(earlier)
    if lines:
        body = '\n'.join([mark, *(f'    {line}' for line in lines)])
        # XML allows no two hyphens in a row within a comment
        _place(root, etree.Comment(f' {re.sub("-(?=-)", "- ", body)}\n  '), first=True)


def _place(parent: etree._Element, child: etree._Element, first: bool) -> None:
    """Insert a child with the white space that its siblings have."""
    if len(parent) == 0:
        margin = _margin(parent)
        if margin:
            unit = _margin(parent.getroottree().getroot()[0]).strip('\n') or '  '
            parent.text, child.tail = margin + unit, margin
    elif first:
        child.tail = parent.text
    else:
        child.tail, parent[-1].tail = parent[-1].tail, _margin(parent[0])
    parent.insert(0 if first else len(parent), child)


def _margin(element: etree._Element) -> str:
    """Return the line break and the indentation before an element; empty without a line break."""
    before = element.getprevious()
    space = (element.getparent().text if before is None else before.tail) or ''
    return str(space[space.rfind('\n') :]) if '\n' in space else ''
