# SPDX-License-Identifier: Apache-2.0
"""
Identified parameters written into the robot's own URDF.

Comments, foreign elements (ros2_control, gazebo, transmissions), the order of attributes and the
white space between tags stay as they are.  Tags get one form: on one line, in double quotes.
"""

from __future__ import annotations

from collections.abc import Mapping
import math
import warnings

from lxml import etree
import numpy as np

from ..errors import (
    ConsistencyError,
    IdentificationWarning,
    one_of,
)
from ..model.parameters import ParameterSet
from ..model.robot import lumped_inertias, Robot
from ..model.urdf import parse_tree
from ..regressor import ModelSettings
from ..regressor.joint_terms import slopes_of, SPRING_SYMBOLS
from ..regressor.settings import SLOPES
from .urdf_edit import (
    document_text,
    insert_child,
    RigidBody,
    set_comment,
)

_MARK = 'robot_identification: identified parameters that URDF has no element for'
_EXACT = 1e-10
_SMALLEST_SHARE = 2.0**-20
_SCALED = ('value', 'ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')


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
    robot: Robot,
    link: str,
    identified: np.ndarray,
    links: Mapping[str, etree._Element],
) -> bool:
    """Write a link's share of what its joint carries; return whether a body can have it."""
    lumped = lumped_inertias(robot, link)
    share = _share(identified, sum(lumped.values(), np.zeros_like(identified)))
    if share < 1.0:
        for name in lumped:
            _scale_inertial(links[name], share)
        _warn(
            f"the identified inertia of link '{link}' leaves no room for what hangs on it by "
            f'fixed or locked joints; {one_of(lumped)} got {100 * share:.3g} % of their own '
            '(pinned in estimation.physical.links they keep it)'
        )
    rest = identified - share * sum(lumped.values(), np.zeros(10))
    if not rest.any() and links[link].find('inertial') is None:
        # a frame without a body stays one: readers divide by a mass of 0
        return True
    own = RigidBody.from_vector(rest)
    _require_expressible(own, link)
    write_inertial(links[link], own)
    return own.physical


def _share(identified: np.ndarray, lumped: np.ndarray) -> float:
    """
    Return the largest share of inertia the lumped links may keep so that the rest is physical.

    Physical bodies form a convex cone: what is left of a physical whole is physical for a small
    enough share.  All of it, 1, where the whole itself is not physical.
    """
    if not RigidBody.from_vector(identified).physical:
        return 1.0
    share = 1.0
    while (
        share > _SMALLEST_SHARE and not RigidBody.from_vector(identified - share * lumped).physical
    ):
        share /= 2.0
    return share


def _scale_inertial(link: etree._Element, share: float) -> None:
    inertial = link.find('inertial')
    for element in () if inertial is None else inertial.iterfind('*'):
        scaled = {
            name: _number(share * float(value))
            for name, value in element.attrib.items()
            if name in _SCALED
        }
        element.attrib.update(scaled)


def _require_expressible(body: RigidBody, link: str) -> None:
    """Check that mass, centre and inertia at the centre give back the parameters when read."""
    moment = float(np.linalg.norm(body.first_moment))
    if moment == 0.0:
        return
    # the reader adds the parallel-axis term m c c^T again: its rounding must not exceed what the
    # inertia itself carries; and readers that add up bodies cannot take a negative mass
    steiner = math.inf if body.mass <= 0.0 else moment**2 / body.mass
    size = max(np.abs(body.inertia).max(), moment, body.mass)
    if not steiner * np.finfo(float).eps < _EXACT * size:
        raise ConsistencyError(
            f"link '{link}' has a mass of {body.mass:.3g} kg and a first moment of {moment:.3g} "
            'kg m, which a URDF cannot express',
            link=link,
            value=body.mass,
            remedy='use estimation.prior: urdf with a realistic mass in the URDF, because masses '
            'that the motion does not determine stay near the prior',
        )


def write_inertial(link: etree._Element, body: RigidBody) -> None:
    """Write a body in its link's frame into the ``<inertial>`` of a link."""
    origin = {'xyz': _numbers(body.centre), 'rpy': '0 0 0'}
    mass = {'value': _number(body.mass)}
    inertia = {f'i{axes}': _number(value) for axes, value in body.central_entries()}
    values = {'origin': origin, 'mass': mass, 'inertia': inertia}
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
    for attribute, symbols in (('damping', ('fv',)), ('friction', ('fc', 'ts', 'tsc'))):
        names = [name for s in symbols if (name := f'{owner}.{s}') in parameters.layout]
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

    Parameters
    ----------
    owners:
        Joints, or their motors, that the parameters are named after.
    n_driven:
        How many of these have drives; they come first.
    parameters, model:
        As in `identified_urdf`.
    written:
        Symbols that the description has elements for.

    """
    done = {f'{owner}.{symbol}' for owner in owners for symbol in written}
    layout = parameters.layout
    inertial = {name for link in layout.links for name in layout.names[layout.of(link)]}
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


def _numbers(values: np.ndarray) -> str:
    return ' '.join(_number(value) for value in values)


def _number(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return repr(float(value) + 0.0)


def _warn(text: str) -> None:
    # the caller of identified_urdf is the one to look at
    warnings.warn(text, IdentificationWarning, stacklevel=5)
