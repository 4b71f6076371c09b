# SPDX-License-Identifier: Apache-2.0
"""
Robots as MJCF, for MuJoCo: the bare mechanism, and an identified robot.

Inertias, rotor inertia (``armature``), viscous and Coulomb friction (``damping``,
``frictionloss``), coupled drives (fixed tendons with the same three) and closed loops (equality
constraints) have elements in MuJoCo.  Its ``frictionloss`` is a soft constraint: it is the Coulomb
friction while the joint moves, and lets it creep at rest.  All other terms of the model are listed
in a comment, and a warning names them.

`replay` plays recorded efforts to the identified robot and tells how far it moves from what was
recorded.  Inverse dynamics is what an identification fits; this is forward dynamics.  Without
control, any model leaves the recording in time, so the robot is put back onto the recorded motion
after every horizon.  What MuJoCo has no element for is left out, but for offsets, which are taken
off the efforts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
import warnings

from lxml import etree
import mujoco
from mujoco import rollout
import numpy as np
import pinocchio as pin

from ..data.recording import RecordingSource, Samples, source_name
from ..errors import (
    ConsistencyError,
    IdentificationWarning,
    ModelError,
    one_of,
    RecordingError,
)
from ..estimation.tables import number, rule
from ..model.consistency import inertia_at_com
from ..model.mechanisms import LoopSettings
from ..model.parameters import ParameterSet
from ..model.robot import joint_placement, Robot
from ..model.urdf import UrdfJoint
from ..regressor import ModelSettings
from ..regressor.closed_chain import ClosedBodies
from ..results.result import Result, StoredResult
from ..results.urdf_export import centre_of_mass, set_comment, terms_without_element
from ..signals import SignalSettings, stream

SMALLEST = 2e-14
"""Mass and inertia of a body without any [kg, kg m^2]; MuJoCo refuses less."""

ROUNDING = 1e-12
"""Share of a body's inertia that is added where rounding breaks the triangle inequality."""

LONGEST_STEP = 1e-3
"""Longest step of the simulation [s]."""

_DRIVE = {'armature': ('Iam',), 'damping': ('fvm',), 'frictionloss': ('fcm',)}
_JOINT = {'armature': ('Ia',), 'damping': ('fv',), 'frictionloss': ('fc', 'ts', 'tsc')}
_WRITTEN = ('Ia', 'fv', 'fc', 'Iam', 'fvm', 'fcm')


def mechanism(robot: Robot) -> etree._Element:
    """
    Return MJCF of the links and joints of a robot's URDF.

    Every link is a body, fixed ones and the base included (a root link ``world`` is MuJoCo's own);
    passive joints move, the other joints
    that are not identified are locked as in ``robot``.  Numbers have all their digits.
    """
    document = etree.Element('mujoco', model=robot.name)
    etree.SubElement(document, 'compiler', angle='radian')
    etree.SubElement(document, 'option', gravity=numbers(robot.gravity))
    children: dict[str, list[UrdfJoint]] = {}
    for joint in robot.contents.joints.values():
        children.setdefault(joint.parent, []).append(joint)
    world = etree.SubElement(document, 'worldbody')
    root = robot.contents.root_link
    # MuJoCo's own base is called so, and many URDFs' root link is
    base = world if root == 'world' else etree.SubElement(world, 'body', name=root)
    # a stack, not a recursion: chains of links may be long
    waiting = [(root, base)]
    while waiting:
        name, parent = waiting.pop()
        for joint in children.get(name, ()):
            waiting.append((joint.child, _body(parent, joint, robot)))
    return document


def _body(parent: etree._Element, joint: UrdfJoint, robot: Robot) -> etree._Element:
    """Add the body that a joint carries."""
    placement = joint_placement(joint, robot.locked.get(joint.name, 0.0))
    turn = pin.Quaternion(placement.rotation).normalized()
    body = etree.SubElement(
        parent,
        'body',
        name=joint.child,
        pos=numbers(placement.translation),
        quat=numbers((turn.w, turn.x, turn.y, turn.z)),
    )
    if joint.name not in robot.opened.joints:
        return body
    attributes = {'type': 'slide' if joint.type == 'prismatic' else 'hinge'}
    if joint.lower < joint.upper and np.isfinite([joint.lower, joint.upper]).any():
        attributes |= {'limited': 'true', 'range': numbers((joint.lower, joint.upper))}
    etree.SubElement(body, 'joint', name=joint.name, axis=numbers(joint.axis), **attributes)
    return body


def numbers(values: Iterable[float]) -> str:
    """Return numbers as text that reads back as the same numbers."""
    return ' '.join(repr(float(value) + 0.0) for value in values)


def mjcf(robot: Robot, parameters: ParameterSet, model: ModelSettings | None = None) -> str:
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

    Returns
    -------
    str
        The document.  MuJoCo's inverse dynamics of it has the efforts of the model's rigid bodies,
        rotors, coupled drives and, for joints that move, viscous and Coulomb friction.  Loops are
        closed at its key frame.  There are no shapes, and so no contacts.

    Raises
    ------
    ConsistencyError
        naming the links whose inertia no body can have.
    ModelError
        if the robot has no URDF (a delta robot's own model), or MuJoCo refuses it.

    Warns
    -----
    IdentificationWarning
        naming what MuJoCo has no element for, and negative friction, which is written as 0.

    """
    model = model or ModelSettings()
    if model.delta is not None:
        raise ModelError(
            f"robot '{robot.name}' is identified by the delta robot's own model, which has no "
            'links to export',
            remedy='identify it by its URDF and robot.loops',
        )
    document = mechanism(robot)
    bodies = {body.get('name'): body for body in document.iter('body')}
    joints = {joint.get('name'): joint for joint in document.iter('joint')}
    _write_bodies(robot.opened, parameters, bodies)
    owners = robot.opened.joints
    if model.elastic is not None:
        owners = model.elastic.motor_names(robot.joints)
    for joint, owner in zip(robot.opened.joints, owners, strict=True):
        joints[joint].attrib.update(_values(owner, _JOINT, parameters))
    _add_drives(document, parameters, model)
    actuators = etree.SubElement(document, 'actuator')
    for joint, effort in zip(robot.joints, robot.limits.effort, strict=True):
        limit = {'ctrlrange': numbers((-effort, effort))} if np.isfinite(effort) else {}
        etree.SubElement(actuators, 'motor', name=joint, joint=joint, **limit)
    if model.loops:
        _add_loops(document, robot, model)
    lines = terms_without_element(owners, robot.n_joints, parameters, model, _WRITTEN)
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
        and name.rpartition('.')[2] not in (*_WRITTEN, 'ts', 'tsc')
    ]


def _write_bodies(
    opened: Robot, parameters: ParameterSet, bodies: dict[str, etree._Element]
) -> None:
    """Write the inertia of each link, with all that moves rigidly with it, into its body."""
    impossible = []
    for link, body in ((link, bodies[link]) for link in opened.links):
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
            tensor = tensor + (ROUNDING * np.trace(tensor) + SMALLEST) * np.eye(3)
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
    closure = ClosedBodies.of(robot, model).closure
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


@dataclass(frozen=True)
class Replay:
    """
    Root mean square distances from the recorded motion at the end of the horizon [s].

    (n_joints,) each [rad or m], over all ``windows`` of that length: ``moved`` of a robot that
    stays where it is, ``before`` of the robot by its prior, ``after`` as identified.
    """

    joints: tuple[str, ...]
    horizon: float
    windows: int
    moved: np.ndarray
    before: np.ndarray
    after: np.ndarray

    def summary(self) -> str:
        """Return a table for people."""
        width = max(map(len, ('joint', *self.joints)))
        heads = ('recorded way', 'before', 'after')
        lines = [
            rule(f'Error of the position after {self.horizon:g} s by efforts alone [rad or m]'),
            f'{"joint":<{width}}' + ''.join(f'{head:>14}' for head in heads),
        ]
        for joint, *values in zip(self.joints, self.moved, self.before, self.after, strict=True):
            cells = ''.join(f'{number(value):>14}' for value in values)
            lines.append(f'{joint:<{width}}{cells}')
        return '\n'.join([*lines, f'root mean squares of {self.windows} starts'])


def replay(
    result: Result | StoredResult,
    sources: Sequence[RecordingSource],
    *,
    signals: SignalSettings | None = None,
    horizon: float = 0.5,
) -> Replay:
    """
    Play recorded efforts to the robot before and after its identification.

    Parameters
    ----------
    result:
        The identification.
    sources:
        Recordings with the robot's joints.
    signals:
        How positions and velocities are filtered; None takes the result's own settings.
    horizon:
        Time after which the robot is put back onto the recorded motion [s].

    Raises
    ------
    ModelError
        if the robot has closed loops or elastic joints, or MuJoCo refuses it.
    ConsistencyError
        if an inertia is physically inconsistent.
    RecordingError
        if no recording is as long as the horizon.

    """
    result.robot.require_tree()
    if result.model.elastic is not None or result.model.delta is not None:
        raise ModelError(
            f"efforts are not played to robot '{result.robot.name}', whose joints are elastic or "
            'in loops',
            remedy='compare efforts by robot-identification validate',
        )
    robots = [_Robot.of(result, values) for values in (result.prior, result.standard)]
    squares, windows = np.zeros((3, result.robot.n_joints)), 0
    for source in sources:
        for samples in stream(source, signals or result.signals):
            steps = round(horizon * _rate(samples)) if len(samples) > 1 else 0
            starts = np.arange(0, len(samples) - steps, max(steps, 1))
            if not steps or not starts.size:
                continue
            reached = samples.position[starts + steps]
            ends = [samples.position[starts], *(r.play(samples, starts, steps) for r in robots)]
            squares += np.square(np.array(ends) - reached).sum(axis=1)
            windows += len(starts)
    if not windows:
        name = source_name(sources[0]) if sources else 'recordings'
        raise RecordingError(
            f'{name}: no stretch is longer than the horizon of {horizon:g} s',
            file=name,
            value=horizon,
            remedy='give a shorter horizon',
        )
    moved, before, after = np.sqrt(squares / windows)
    return Replay(result.robot.joints, horizon, windows, moved, before, after)


def _rate(samples: Samples) -> float:
    return float(1.0 / (samples.time[1] - samples.time[0]))


@dataclass(frozen=True)
class _Robot:
    """A robot in MuJoCo, where its joints are in the state, and (n_joints,) its offsets."""

    model: mujoco.MjModel
    places: np.ndarray
    offset: np.ndarray

    @classmethod
    def of(cls, result: Result | StoredResult, parameters: ParameterSet) -> _Robot:
        robot = result.robot
        offsets = {f'{joint}.off': parameters.get(f'{joint}.off') for joint in robot.joints}
        without = parameters.updated({n: 0.0 for n in offsets if n in parameters.layout})
        model = mujoco.MjModel.from_xml_string(mjcf(robot, without, result.model))
        # recorded efforts are what they are
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL
        places = np.array([model.joint(joint).qposadr[0] for joint in robot.joints])
        return cls(model, places, np.array(list(offsets.values())))

    def play(self, samples: Samples, starts: np.ndarray, steps: int) -> np.ndarray:
        """Return the positions (n_starts, n_joints) after a number of samples."""
        period = 1.0 / _rate(samples)
        substeps = ceil(period / LONGEST_STEP - 1e-9)
        self.model.opt.timestep = period / substeps
        state = np.zeros((len(starts), 1 + 2 * self.model.nv))  # time, positions, velocities
        state[:, 1 + self.places] = samples.position[starts]
        state[:, 1 + self.model.nq + self.places] = samples.velocity[starts]
        efforts = samples.measured_effort - self.offset
        # held from sample to sample as the mean of both ends
        held = 0.5 * (efforts[:-1] + efforts[1:])
        rows = starts[:, None] + np.arange(steps)
        control = np.repeat(held[rows], substeps, axis=1)
        states, _ = rollout.rollout(self.model, mujoco.MjData(self.model), state, control)
        return np.asarray(states[:, -1, 1 + self.places])
