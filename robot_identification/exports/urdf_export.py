# SPDX-License-Identifier: Apache-2.0
"""
Identified inertias and friction, written into the robot's own URDF.

Comments, foreign elements (ros2_control, gazebo, transmissions), the order of attributes and the
white space between tags stay as they are.  Tags get one form: on one line, in double quotes.

Bodies are vectors ``m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`` at the origin of their frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
import math
import warnings

from lxml import etree
import numpy as np
import pinocchio as pin

from ..errors import ConsistencyError, IdentificationWarning, one_of
from ..model.consistency import inertia_at_com
from ..model.friction import friction_symbols, SLOPES
from ..model.link_inertias import joint_placement, lumped_inertias
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..model.urdf import parse_tree
from ..model.urdf_elements import (
    document_text,
    insert_child,
    number_text,
    remove_repeated,
    set_comment,
    write_inertial,
)
from ..regressor import ModelSettings
from ..regressor.joint_terms import slopes_of, SPRING_SYMBOLS
from ..results.exported_files import JointDynamics

_MARK = 'robot_identification: identified parameters that URDF has no element for'
_EXACT = 1e-10  # of a body, which the rounding of its Steiner part may take
_SMALLEST_SHARE = 2.0**-20  # of a fixed body, down to which it is taken off
_SCALED = ('value', 'ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')

Attributes = Mapping[str, str]


FITTED = (
    'damping and friction of {joints} are fitted with these bodies in place of all terms below'
)
"""First line of the comment where friction is not that of the model."""


def identified_urdf(
    robot: Robot,
    parameters: ParameterSet,
    model: ModelSettings | None = None,
    *,
    dynamics: JointDynamics | None = None,
    tilt: Sequence[float] = (0.0, 0.0, 0.0),
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
    dynamics:
        Friction in place of the model's, of joints that it names; None for the model's.
    tilt:
        (3,) by which gravity is turned in the base, a rotation vector [rad]: the joints on the
        root link are turned back by it, so that gravity can be what it was without a tilt.

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
    n_driven, mimics = robot.n_joints, robot.mimics.names
    robot = robot.opened
    root = parse_tree(robot.urdf)
    if repeated := remove_repeated(root):
        _warn(
            f'elements of {one_of(repeated)} that URDF has once are there again, which simulators '
            'such as MuJoCo refuse; the first ones, which were identified with, are kept'
        )
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
    owners = robot.joints
    if elastic is not None:
        owners = (*elastic.motor_names(owners[:n_driven]), *owners[n_driven:])
    dynamics = dynamics or JointDynamics()
    for joint, owner in zip(robot.joints, owners, strict=True):
        if joint in joints:  # none of a floating base
            _write_friction(owner, parameters, joints[joint], dynamics)
    for joint in mimics:
        # the friction of all that is on a drive is at the joint that is followed
        for drawn in joints[joint].iterfind('dynamics'):
            drawn.attrib.update(dict.fromkeys({*drawn.attrib} & {'damping', 'friction'}, '0'))
    _report_springs(parameters)
    if any(tilt):
        _turn_base(robot, joints.values(), np.asarray(pin.exp3(-np.array(tilt))))
    lines = fitted_lines(dynamics)
    lines += terms_without_element(owners, n_driven, parameters, model, dynamics=dynamics)
    set_comment(root, _MARK, lines)
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
    write_inertial(links[link], rest)
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
            element.set(name, number_text(share * float(element.get(name))))


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


def _write_friction(
    owner: str, parameters: ParameterSet, element: etree._Element, dynamics: JointDynamics
) -> None:
    attributes = {}
    for attribute, mjcf, fitted in (
        ('damping', 'damping', dynamics.damping),
        ('friction', 'frictionloss', dynamics.friction),
    ):
        if owner in fitted:
            attributes[attribute] = number_text(fitted[owner])
            continue
        own = (f'{owner}.{symbol}' for symbol in friction_symbols(mjcf=mjcf))
        names = [name for name in own if name in parameters.layout]
        if not names:
            continue
        value, name = sum(parameters[name] for name in names), ' + '.join(names)
        if value < 0.0:
            _warn(
                f"'{name}' is {value:.4g}; a URDF's friction cannot be negative, so 0 is written"
            )
        attributes[attribute] = number_text(max(0.0, value))
    if not attributes:
        return
    drawn = element.find('dynamics')
    if drawn is None:
        insert_child(element, 'dynamics', attributes)
    else:
        drawn.attrib.update(attributes)


def _turn_base(robot: Robot, joints: Iterable[etree._Element], rotation: np.ndarray) -> None:
    """Turn what hangs on the root link about its origin."""
    for element in joints:
        drawn = robot.contents.joints[element.get('name')]
        if drawn.parent != robot.contents.root_link:
            continue
        placement = pin.SE3(rotation, np.zeros(3)) * joint_placement(drawn)
        values = {
            'xyz': ' '.join(map(number_text, placement.translation)),
            'rpy': ' '.join(map(number_text, pin.rpy.matrixToRpy(placement.rotation))),
        }
        origin = element.find('origin')
        if origin is None:
            insert_child(element, 'origin', values, first=True)
        else:
            origin.attrib.update(values)


def fitted_lines(dynamics: JointDynamics) -> list[str]:
    """Return lines of a comment on friction that was fitted for a file."""
    names = tuple(dict.fromkeys((*dynamics.damping, *dynamics.friction)))
    lines = [FITTED.format(joints=one_of(names))] if names else []
    if dynamics.one_way:
        lines.append(
            f'friction of {one_of(dynamics.one_way)}, turning one way only, may hold an offset'
        )
    return lines


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
    *,
    dynamics: JointDynamics | None = None,
) -> list[str]:
    """
    Return lines for parameters, other than inertial ones, that a robot description cannot have.

    ``owners`` are the joints, or their motors, that the parameters are named after, the first
    ``n_driven`` of which have drives; ``written`` are symbols that the description has elements
    for; parameters, model and dynamics are those of `identified_urdf`.
    """
    done = {f'{owner}.{symbol}' for owner in owners for symbol in written}
    if dynamics is not None:
        for mjcf, fitted in (('damping', dynamics.damping), ('frictionloss', dynamics.friction)):
            done -= {
                f'{name}.{symbol}' for name in fitted for symbol in friction_symbols(mjcf=mjcf)
            }
    layout = parameters.layout
    inertial = {name for link in layout.links for name in layout.names[layout.slice_of(link)]}
    lines = [
        f'{name} = {number_text(parameters[name])} {unit}'.rstrip()
        for name, unit in zip(layout.names, layout.units, strict=True)
        if name not in done and name not in inertial
    ]
    if model is not None:
        # passive joints, which come last, have no friction with a slope
        driven = owners[:n_driven]
        slopes = slopes_of(model, driven)
        lines += [
            f'{SLOPES[term]} of {owner} = {number_text(slope)}'
            for term in SLOPES
            if term in model.friction
            for owner, slope in zip(driven, slopes[term], strict=True)
        ]
    return lines


def _warn(text: str) -> None:
    # the caller of identified_urdf is the one to look at
    warnings.warn(text, IdentificationWarning, stacklevel=5)
