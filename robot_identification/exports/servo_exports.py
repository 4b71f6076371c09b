# SPDX-License-Identifier: Apache-2.0
"""Exports of identified servos: MJCF with actuators, Isaac Lab, mjlab, and a result's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
import warnings

from lxml import etree
import numpy as np

from ..errors import IdentificationWarning, SettingsError
from ..figures.figure import Figure, headline, MEASURED, PREDICTED, RESIDUAL, SOFT
from ..figures.page import write_figures
from ..model.urdf_elements import set_comment
from ..options.document import dump, plain
from ..pages.first_screen import Places
from ..pages.summary import screen, summary
from ..results.result import MARK
from ..results.servo_result import delay_document, MotionTrace, ServoResult, StoredServoResult
from ..servo.parameter_sets import parameter_sets
from ..servo.parameters import FreeParameters, ServoParameters
from ..servo.settings import FRICTION_STIFFNESS
from ..untrusted.writing import write_whole
from ..verdicts.verdict import verdict
from .actuators import actuator_file, EFFORT_LIMIT, ISAACLAB
from .urdf_export import identified_urdf

AnyServoResult = ServoResult | StoredServoResult

_INTEGRATORS = {'euler': 'Euler', 'rk4': 'RK4'}
"""Names in MJCF that differ from the settings'."""


def servo_mjcf(result: AnyServoResult) -> str:
    """
    Return the robot as MJCF with its servos: step, friction, gains and limits as identified.

    The control of an actuator is the commanded position, which acts later by the delay in the
    file's comment; MuJoCo's own rollouts of it have the errors of the result.
    """
    from .mjcf_export import mjcf  # MuJoCo is an extra

    with warnings.catch_warnings():
        # the offset is in the actuators below
        warnings.simplefilter('ignore', IdentificationWarning)
        document = etree.fromstring(mjcf(result.robot, result.standard()).encode())
    for comment in document.xpath('//comment()'):
        comment.getparent().remove(comment)
    _set_step(document, result)
    _set_servos(document.find('actuator'), result)
    if result.parameters.slope.any():
        warnings.warn(
            'MJCF has no friction that depends on the position: it is in a comment alone, and '
            'rollouts of the file are worse than the result',
            IdentificationWarning,
            stacklevel=2,
        )
    if result.parameters.playing:
        names = ', '.join(result.robot.joints[j] for j in result.parameters.playing)
        warnings.warn(
            f'MJCF has no servo that measures behind a play: that of {names} is in a comment '
            'alone, and rollouts of the file are worse than the result',
            IdentificationWarning,
            stacklevel=2,
        )
    title = 'robot_identification: parameters without an element in MJCF'
    set_comment(document, title, _without_element(result))
    etree.indent(document)
    return str(etree.tostring(document, encoding='unicode')) + '\n'


def _set_step(document: etree._Element, result: AnyServoResult) -> None:
    """Set the step of the simulation, and joints' friction as stiff as it allows."""
    timestep, integrator = result.simulator.step()
    option = document.find('option')
    option.set('timestep', repr(timestep))
    option.set('integrator', _INTEGRATORS.get(integrator, integrator))
    stiff = f'{FRICTION_STIFFNESS * timestep!r} 1'
    for joint in document.iter('joint'):
        if joint.get('frictionloss') is not None:
            joint.set('solreffriction', stiff)


def _set_servos(actuators: etree._Element, result: AnyServoResult) -> None:
    """Replace the actuators by position servos with gains, limits and constant efforts."""
    actuators.clear()
    kp, kd, limits = _gains(result)
    offset = result.parameters.offset
    for j, joint in enumerate(result.robot.joints):
        attributes = {'name': joint, 'joint': joint}
        if limits is not None:
            bound = float(limits[j])
            attributes |= {'forcelimited': 'true', 'forcerange': f'{-bound!r} {bound!r}'}
        if offset[j]:
            # of a position actuator's form, with a constant
            numbers = (-float(offset[j]), -float(kp[j]), -float(kd[j]))
            attributes |= {
                'gainprm': repr(float(kp[j])),
                'biastype': 'affine',
                'biasprm': ' '.join(map(repr, numbers)),
            }
            etree.SubElement(actuators, 'general', attributes)
            continue
        attributes |= {'kp': repr(float(kp[j])), 'kv': repr(float(kd[j]))}
        etree.SubElement(actuators, 'position', attributes)


def _gains(result: AnyServoResult) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return stiffness and damping of the joints, and the largest efforts where there are any."""
    servo, joints, parameters = result.servo, result.robot.joints, result.parameters
    return (
        servo.per_joint('stiffness', joints) * parameters.stiffness,
        servo.per_joint('damping', joints) * parameters.damping,
        None if servo.limit is None else servo.per_joint('limit', joints),
    )


def _without_element(result: AnyServoResult) -> list[str]:
    """Say what MJCF has no element for, a line each."""
    joints, parameters = result.robot.joints, result.parameters
    late = delay_document(parameters, joints)
    delays = (
        {f'of {joint} ': delay for joint, delay in late.items()}
        if isinstance(late, dict)
        else {'': late}
    )
    lines = [
        f'commands {of}act {delay!r} s later than they are sent' for of, delay in delays.items()
    ]
    if not result.simulator.named:
        lines.append('no simulator was named: the step is that of the errors in the result')
    if parameters.slope.any():
        lines += [
            f'{joint}: Coulomb friction changes by {slope:.6g} N m/rad from position {at:.6g}'
            for joint, slope, at in zip(joints, parameters.slope, _reference(result), strict=True)
        ]
    lines += [
        f'{joints[j]}: play of {parameters.play[j]:.6g} rad or m before the measured position, '
        f'with a damping of {parameters.play_damping[j]:.6g} N m s/rad or N s/m in it'
        for j in parameters.playing
    ]
    return lines


def _reference(result: AnyServoResult) -> np.ndarray:
    return result.fit.model.reference if isinstance(result, ServoResult) else result.reference


def servo_urdf(result: AnyServoResult) -> str:
    """Return the URDF with the identified centres of mass and joint friction."""
    with warnings.catch_warnings():
        # inertia about the moved centres is that of the robot's file
        warnings.filterwarnings('ignore', 'physically inconsistent inertia')
        return identified_urdf(result.robot, result.standard())


def isaaclab(result: AnyServoResult) -> str:
    """
    Return a Python file with an actuator of Isaac Lab for each joint.

    Delays are whole steps there; that of the commands is rounded.
    """
    fields = {
        'limit': EFFORT_LIMIT,
        'armature': 'armature',
        'coulomb': 'friction',
        'dynamic': 'dynamic_friction',
        'viscous': 'viscous_friction',
        'least': 'min_delay',
        'most': 'max_delay',
    }
    names = 'isaaclab.actuators', 'DelayedPDActuatorCfg', 'joint_names_expr'
    return _actuators(result, names, fields, ISAACLAB)


def mjlab(result: AnyServoResult) -> str:
    """
    Return a Python file with an actuator of mjlab for each joint.

    Delays are whole steps there; that of the commands is rounded.
    """
    head = (
        '# Fields of mjlab.actuator of mjlab 1.6; give the joints solreffriction as in the MJCF',
        '# of `robot-identification export --format mjcf`.',
    )
    fields = {
        'limit': 'effort_limit',
        'armature': 'armature',
        'coulomb': 'frictionloss',
        'viscous': 'viscous_damping',
        'least': 'delay_min_lag',
        'most': 'delay_max_lag',
    }
    names = 'mjlab.actuator', 'BuiltinPositionActuatorCfg', 'target_names_expr'
    return _actuators(result, names, fields, head)


def _actuators(
    result: AnyServoResult,
    names: tuple[str, str, str],
    fields: Mapping[str, str],
    head: Sequence[str],
) -> str:
    """Return a file of actuators; names are module, class, and its field for joints."""
    robot, parameters = result.robot, result.parameters
    kp, kd, limits = _gains(result)
    if not result.simulator.named:
        raise SettingsError(
            f'{names[0]} counts delays in steps, and the parameters are for no simulator',
            key='simulation.timestep',
            remedy='identify again with its simulation.timestep and simulation.integrator',
        )
    timestep, integrator = result.simulator.require()
    steps = [max(0, round(delay / timestep)) for delay in parameters.delay.tolist()]
    delays = sorted(set(zip(parameters.delay.tolist(), steps, strict=True)))
    lines = [
        *head,
        f'# Identified for a step of {1e3 * timestep:g} ms with {integrator}. The delay is '
        + ', '.join(f'{1e3 * delay:.3g} ms: {count} steps' for delay, count in delays)
        + '.',
    ]
    lacking = {'friction that depends on the position': parameters.slope.any()}
    lacking['a constant effort'] = parameters.offset.any()
    lacking['play'] = parameters.play.any()
    for what in (what for what, there in lacking.items() if there):
        lines.append(f'# Left out: {what}.')
        text = f'{names[0]} has no place for {what}: it is left out'
        warnings.warn(text, IdentificationWarning, stacklevel=3)
    joints = {}
    for j, joint in enumerate(robot.joints):
        known = {
            'armature': float(parameters.armature[j]),
            'coulomb': float(parameters.coulomb[j]),
            'dynamic': float(parameters.coulomb[j]),
            'viscous': float(parameters.viscous[j]),
            'least': steps[j],
            'most': steps[j],
        }
        if limits is not None:
            known['limit'] = float(limits[j])
        values: dict[str, object] = {'stiffness': float(kp[j]), 'damping': float(kd[j])}
        values |= {field: known[key] for key, field in fields.items() if key in known}
        joints[joint] = values
    title = f'Servos of {robot.name}, identified from commands by robot_identification'
    module, name, joint_field = names
    return actuator_file(title, module, name, lines, joint_field, joints)


def sets_document(result: StoredServoResult, count: int) -> str:
    """
    Return sets of parameters for domain randomisation as YAML, the same ones in every run.

    Beside them are the errors of unseen positions, as noise, and the coverage that was measured.
    """
    robot = result.robot
    bus = result.servo.bus_numbers(robot.joints)
    free = FreeParameters(
        result.kinds, result.parameters, robot.joints, bus, result.parameters.playing
    )
    vector = free.vector(result.parameters.values)
    random = np.random.default_rng(0)
    sets = parameter_sets(free, vector, result.blocks, count, random)
    kinds = [kind for kind in result.kinds if kind != 'delay']

    def joint_values(parameters: ServoParameters, j: int) -> dict[str, Any]:
        values: dict[str, Any] = {
            kind: parameters.centers[j] if kind == 'center' else float(parameters.values(kind)[j])
            for kind in kinds
        }
        return values

    document = {
        'robot': robot.name,
        'noise': dict(zip(robot.joints, result.rmse, strict=True)),
        'coverage': asdict(result.coverage),
        'sets': [
            {
                'delay': delay_document(each, robot.joints),
                'joints': {joint: joint_values(each, j) for j, joint in enumerate(robot.joints)},
            }
            for each in sets
        ],
    }
    return dump(plain(document))


def motion_figures(traces: MotionTrace, joints: tuple[str, ...]) -> list[Figure]:
    """Return a figure of each joint: commanded, measured and simulated positions."""
    figures = []
    for j, joint in enumerate(joints):
        lines = []
        for values, name, colour, width in (
            (traces.command, 'command', SOFT, 1.0),
            (traces.measured, 'measured', MEASURED, 2.0),
            (traces.before, 'robot file', RESIDUAL, 1.0),
            (traces.after, 'identified', PREDICTED, 1.5),
        ):
            lines.append(
                {
                    'x': traces.time,
                    'y': values[:, j],
                    'name': name,
                    'mode': 'lines',
                    'line': {'color': colour, 'width': width},
                }
            )
        layout = {
            'height': 300,
            'title': headline(joint),
            'xaxis': {'title': {'text': 'time [s]'}},
            'yaxis': {'title': {'text': 'position [rad or m]'}},
        }
        text = f'Commanded, measured and simulated position of {joint} over time'
        figures.append(Figure(text, lines, layout, time='motion', joint=joint))
    return figures


PLACES = Places(
    experiment='experiment.yaml',
    result='result.yaml',
    product='identified.xml',
    details='the details below',
)
"""Files as the page names them: those of its own folder."""


def save_servo_result(result: ServoResult, folder: Path) -> tuple[Path, ...]:
    """
    Write ``result.yaml``, ``identified.xml``, ``identified.urdf`` and ``report.html``.

    For a target that is set up in Python, ``actuators.py``, too.  Raises OSError where the folder
    cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    files = [
        ('result.yaml', dump(_with_verdict(result))),
        ('identified.xml', servo_mjcf(result)),
        ('identified.urdf', servo_urdf(result)),
    ]
    for target, write in (('isaaclab', isaaclab), ('mjlab', mjlab)):
        if result.simulator.target == target:
            files.append(('actuators.py', write(result)))
    for name, text in files:
        write_whole(folder / name, text)
        written.append(folder / name)
    title = f'Servos of {result.robot.name} from commands'
    figures = motion_figures(result.traces, result.robot.joints)
    written.append(
        write_figures(
            folder / 'report.html',
            title,
            'Commanded, measured and simulated motion',
            figures,
            summary(result),
            screen(result, PLACES, warnings=len(result.warnings)),
        )
    )
    return tuple(written)


def _with_verdict(result: ServoResult) -> dict[str, Any]:
    """Return the content of the result's file with the verdict behind its name."""
    document = result.to_document()
    head = {MARK: document[MARK], 'name': document['name']}
    return {**head, 'verdict': plain(verdict(result).to_dict()), **document}
