# SPDX-License-Identifier: Apache-2.0
"""
Identified robots as MJCF, for MuJoCo.

Inertias, rotor inertia (``armature``), viscous and Coulomb friction (``damping``,
``frictionloss``), coupled drives (fixed tendons with the same three) and closed loops (equality
constraints) have elements in MuJoCo.  Its ``frictionloss`` is a soft constraint: it is the Coulomb
friction while the joint moves, and lets it creep at rest.  All other terms of the model are listed
in a comment, and a warning names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
import warnings

from lxml import etree
import numpy as np
import pinocchio as pin

from ..errors import ConsistencyError, IdentificationWarning, importing, ModelError, one_of
from ..model.consistency import inertia_at_com
from ..model.floating_base import BASE_JOINTS
from ..model.friction import friction_symbols, STATIC
from ..model.mechanisms import LoopSettings
from ..model.mujoco_model import mechanism, numbers
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..model.urdf_elements import centre_of_mass, set_comment
from ..regressor import ModelSettings
from ..regressor.closed_chain import ClosedBodies
from ..results.exported_files import JointDynamics, MJCF
from .formats import dynamics_of, require_kind
from .urdf_export import fitted_lines, terms_without_element

with importing('mujoco'):
    import mujoco

SMALLEST = 2e-14
"""Mass and inertia of a body without any [kg, kg m^2]; MuJoCo refuses less."""

ADDED_INERTIA = 1e-12
"""Share of a body's inertia that is added where rounding breaks the triangle inequality."""

_DRIVE = {'armature': ('Iam',), 'damping': ('fvm',), 'frictionloss': ('fcm',)}
_FRICTION = {name: friction_symbols(mjcf=name) for name in ('damping', 'frictionloss')}
_JOINT = {'armature': ('Ia',), **_FRICTION}
_APPROXIMATE = friction_symbols(kind=STATIC)
_WRITTEN = tuple(
    symbol
    for names in (*_JOINT.values(), *_DRIVE.values())
    for symbol in names
    if symbol not in _APPROXIMATE
)


def result_mjcf(result: Any) -> str:
    """Return the MJCF of a result."""
    return mjcf(
        result.robot,
        result.standard,
        result.settings.model,
        dynamics=dynamics_of(result, MJCF),
    )


def mjcf(
    robot: Robot,
    parameters: ParameterSet,
    model: ModelSettings | None = None,
    *,
    dynamics: JointDynamics | None = None,
) -> str:
    """
    Return an identified robot as MJCF, with a motor at each identified joint.

    Parameters
    ----------
    robot:
        Gives kinematics, limits, gravity and the joints that are locked.
    parameters:
        Standard parameters; links that they do not name keep the inertia of the URDF.
    model:
        What the parameters belong to.
    dynamics:
        Friction in place of the model's, of joints that it names; None for the model's.

    Returns
    -------
    str
        The document.  MuJoCo's inverse dynamics of it has the efforts of the model's rigid bodies,
        rotors, coupled drives and, for joints that move, viscous and Coulomb friction.  Loops are
        closed at its key frame.  There are no shapes, and so no contacts.

    Raises
    ------
    SettingsError
        for a delta robot.
    ConsistencyError
        naming the links whose inertia no body can have.
    ModelError
        if MuJoCo refuses the robot.

    Warns
    -----
    IdentificationWarning
        naming what MuJoCo has no element for, and negative friction, which is written as 0.

    """
    model, dynamics = model or ModelSettings(), dynamics or JointDynamics()
    require_kind('mjcf', robot, model)
    document = mechanism(robot)
    bodies = {body.get('name'): body for body in document.iter('body')}
    joints = {joint.get('name'): joint for joint in document.iter('joint')}
    _write_bodies(robot.opened, parameters, bodies)
    driven = owners = robot.opened.driven_joints
    if model.elastic is not None:
        owners = (*model.elastic.motor_names(robot.joints), *owners[robot.n_joints :])
    for joint, owner in zip(driven, owners, strict=True):
        joints[joint].attrib.update(_values(owner, _JOINT, parameters))
        joints[joint].attrib.update(_fitted(owner, dynamics))
    _add_drives(document, parameters, model)
    actuators = etree.SubElement(document, 'actuator')
    for joint, effort in zip(robot.joints, robot.limits.effort, strict=True):
        if joint in BASE_JOINTS:
            continue
        limit = {'ctrlrange': numbers((-effort, effort))} if np.isfinite(effort) else {}
        etree.SubElement(actuators, 'motor', name=joint, joint=joint, **limit)
    if model.loops:
        _add_loops(document, robot, model)
    lines = fitted_lines(dynamics)
    lines += terms_without_element(
        owners, robot.n_joints, parameters, model, _WRITTEN, dynamics=dynamics
    )
    if model.elastic is not None:
        lines.append('the joints are stiff: motors turn with them')
    set_comment(document, 'robot_identification: parameters without an element in MJCF', lines)
    unmodelled = _unmodelled(parameters)
    if unmodelled:
        _warn(f'MuJoCo has no element for {one_of(unmodelled)}: they are in a comment alone')
    etree.indent(document)
    _compile(document, robot)
    return str(etree.tostring(document, encoding='unicode')) + '\n'


def _unmodelled(parameters: ParameterSet) -> list[str]:
    """Return the names of parameters other than 0 that have no element."""
    inertial = set(parameters.layout.links)
    return [
        name
        for name, value in parameters.as_dict().items()
        if value != 0.0
        and name.rpartition('.')[0] not in inertial
        and name.rpartition('.')[2] not in (*_WRITTEN, *_APPROXIMATE)
    ]


def _write_bodies(
    opened: Robot, parameters: ParameterSet, bodies: dict[str, etree._Element]
) -> None:
    """Write the inertia of each link, with all that moves rigidly with it, into its body."""
    impossible = []
    for link, body in ((link, bodies[link]) for link in opened.layout.links):
        known = f'{link}.m' in parameters.layout
        vector = (parameters if known else opened.prior).inertial(link)
        mass = float(vector[0])
        tensor = inertia_at_com(vector) if mass > 0.0 else np.zeros((3, 3))
        if vector.any() and (
            mass <= 0.0 or _violation(tensor) > 1e-9 * np.trace(tensor) + SMALLEST
        ):
            impossible.append(link)
            continue
        if _violation(tensor) > -SMALLEST:
            tensor = tensor + (ADDED_INERTIA * np.trace(tensor) + SMALLEST) * np.eye(3)
        inertial = {
            'pos': numbers(centre_of_mass(vector)),
            'mass': numbers((max(mass, SMALLEST),)),
            'fullinertia': numbers(tensor[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]),
        }
        body.insert(0, etree.Element('inertial', inertial))
    if impossible:
        raise ConsistencyError(
            f'physically inconsistent inertia is identified for {one_of(impossible)}, which '
            'MuJoCo refuses',
            link=impossible[0],
            remedy='use estimation.method: physical',
        )


def _violation(tensor: np.ndarray) -> float:
    """Return by how much principal moments fall short of 0 and of the triangle inequality."""
    moments = np.linalg.eigvalsh(tensor)
    return float(max(-moments[0], moments[2] - moments[0] - moments[1]))


def _values(
    owner: str, elements: Mapping[str, tuple[str, ...]], parameters: ParameterSet
) -> dict[str, str]:
    """Return the attributes of a joint or drive."""
    attributes = {}
    for attribute, symbols in elements.items():
        value = sum(parameters.get(f'{owner}.{symbol}') for symbol in symbols)
        if value < 0.0:
            _warn(f"{attribute} of '{owner}' is {value:.4g}; MuJoCo takes none below 0: written 0")
        if value > 0.0:
            attributes[attribute] = numbers((value,))
    return attributes


def _fitted(owner: str, dynamics: JointDynamics) -> dict[str, str]:
    """Return the attributes of a joint whose friction was fitted for the file."""
    fitted = (('damping', dynamics.damping), ('frictionloss', dynamics.friction))
    return {name: numbers((values[owner],)) for name, values in fitted if owner in values}


def _add_drives(document: etree._Element, parameters: ParameterSet, model: ModelSettings) -> None:
    """
    Add a fixed tendon for each coupled drive.

    ``Ia`` of each coupled joint has ``ratio^2 Iam`` in it (`regressor.joint_terms`), which is the
    tendon's, and so leaves the joint's armature.
    """
    joints = {joint.get('name'): joint for joint in document.iter('joint')}
    for drive in model.coupled_drives:
        own = drive.ratios[drive.joints.index(drive.motor)]
        attributes = _values(drive.motor, _DRIVE, parameters)
        inertia = parameters.get(f'{drive.motor}.Iam')
        if drive.inertia == 'tied':
            inertia = parameters.get(f'{drive.motor}.Ia') / own**2
        tendon = {'name': f'{drive.motor}_coupled_drive', **attributes}
        if inertia > 0.0:
            tendon['armature'] = numbers((inertia,))
        fixed = etree.SubElement(_section(document, 'tendon'), 'fixed', tendon)
        for joint, ratio in zip(drive.joints, drive.ratios, strict=True):
            etree.SubElement(fixed, 'joint', joint=joint, coef=numbers((ratio,)))
            rest = float(joints[joint].get('armature', 0.0)) - ratio**2 * max(inertia, 0.0)
            joints[joint].set('armature', numbers((rest,)))


def _add_loops(document: etree._Element, robot: Robot, model: ModelSettings) -> None:
    """Add the loops as equality constraints, and a key frame at which they are closed."""
    closure = ClosedBodies.from_robot(robot, model).closure
    closed = robot.opened.configuration(closure.assembly)
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, closed)

    def turned(link: str, axis: np.ndarray) -> np.ndarray:
        return np.asarray(data.oMf[robot.model.getFrameId(link)].rotation @ axis)

    for loop in model.loops:
        _add_loop(document, loop, turned)
    compiled = _compile(document, robot)
    _set_lengths(document, model, compiled)
    position = np.zeros(compiled.nq)
    for joint, value in zip(robot.opened.joints, closure.assembly, strict=True):
        position[compiled.joint(joint).qposadr[0]] = value
    key = etree.SubElement(_section(document, 'keyframe'), 'key', name='closed')
    key.set('qpos', numbers(position))


def _add_loop(
    document: etree._Element, loop: LoopSettings, turned: Callable[[str, np.ndarray], np.ndarray]
) -> None:
    points = [('', loop.point_a, loop.point_b)]
    if loop.kind == 'revolute':
        # a second point on the common axis; the axes may be given in opposite directions
        axes = np.array([loop.axis_a, loop.axis_b], dtype=float)
        a, b = axes / np.linalg.norm(axes, axis=1, keepdims=True)
        b = np.copysign(1.0, turned(loop.link_a, a) @ turned(loop.link_b, b)) * b
        points.append((' axis', loop.point_a + a, loop.point_b + b))
    if loop.kind == 'universal':
        _warn(
            f"loop '{loop.name}' is written as a ball joint: MuJoCo has no constraint that keeps "
            'two axes at right angles'
        )
    bodies = {body.get('name'): body for body in document.iter('body')}
    for suffix, *ends in points:
        names = [f'{loop.name}{suffix} {side}' for side in 'ab']
        for name, link, point in zip(names, (loop.link_a, loop.link_b), ends, strict=True):
            etree.SubElement(bodies[link], 'site', name=name, pos=numbers(point))
        if loop.kind == 'rod':
            rod = etree.SubElement(_section(document, 'tendon'), 'spatial', name=loop.name)
            for name in names:
                etree.SubElement(rod, 'site', site=name)
            equality = etree.SubElement(_section(document, 'equality'), 'tendon', name=loop.name)
            equality.set('tendon1', loop.name)
            continue
        connect = etree.SubElement(_section(document, 'equality'), 'connect')
        for key, value in zip(('name', 'site1', 'site2'), (loop.name + suffix, *names)):
            connect.set(key, value)


def _set_lengths(document: etree._Element, model: ModelSettings, compiled: mujoco.MjModel) -> None:
    """Give the rods their lengths, which MuJoCo counts from those at joint positions of 0."""
    lengths = {loop.name: loop.length for loop in model.loops if loop.length is not None}
    for equality in document.iterfind('equality/tendon'):
        name = equality.get('name')
        longer = lengths[name] - compiled.tendon_length0[compiled.tendon(name).id]
        equality.set('polycoef', numbers((longer, 0.0, 0.0, 0.0, 0.0)))


def _section(document: etree._Element, tag: str) -> etree._Element:
    found = document.find(tag)
    return etree.SubElement(document, tag) if found is None else found


def _compile(document: etree._Element, robot: Robot) -> mujoco.MjModel:
    """Let MuJoCo read the document."""
    try:
        return mujoco.MjModel.from_xml_string(etree.tostring(document, encoding='unicode'))
    except ValueError as error:
        raise ModelError(
            f"MuJoCo refuses robot '{robot.name}': {error}", remedy='correct the URDF'
        ) from error


def _warn(text: str) -> None:
    warnings.warn(text, IdentificationWarning, stacklevel=4)
