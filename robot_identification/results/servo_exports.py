# SPDX-License-Identifier: Apache-2.0
"""Exports of identified servos: MJCF with actuators, Isaac Lab, and the page of a result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
import warnings

from lxml import etree
import numpy as np

from ..errors import IdentificationWarning, one_of, SettingsError
from ..options.document import dump
from ..servo.model import FRICTION_STIFFNESS
from ..untrusted.writing import write_whole
from .figure import Figure, headline, MEASURED, PREDICTED, RESIDUAL, SOFT
from .mjcf_export import mjcf
from .report import write_figures
from .servo_result import MotionTrace, ServoResult, StoredServoResult
from .urdf_export import identified_urdf, set_comment

AnyServoResult = ServoResult | StoredServoResult

_INTEGRATORS = {'euler': 'Euler', 'rk4': 'RK4'}
"""Names in MJCF that differ from the settings'."""


def servo_mjcf(result: AnyServoResult) -> str:
    """
    Return the robot as MJCF with its servos: step, friction, gains and limits as identified.

    The control of an actuator is the commanded position, which acts later by the delay in the
    file's comment; MuJoCo's own rollouts of it have the errors of the result.
    """
    robot, servo, parameters = result.robot, result.servo, result.parameters
    with warnings.catch_warnings():
        # the offset is in the actuators below
        warnings.simplefilter('ignore', IdentificationWarning)
        document = etree.fromstring(mjcf(robot, result.standard()).encode())
    for comment in document.xpath('//comment()'):
        comment.getparent().remove(comment)
    timestep, integrator = result.simulator.require()
    option = document.find('option')
    option.set('timestep', repr(timestep))
    option.set('integrator', _INTEGRATORS.get(integrator, integrator))
    stiff = f'{FRICTION_STIFFNESS * timestep!r} 1'
    for joint in document.iter('joint'):
        if joint.get('frictionloss') is not None:
            joint.set('solreffriction', stiff)
    actuators = document.find('actuator')
    actuators.clear()
    kp = servo.per_joint('stiffness', robot.joints) * parameters.stiffness
    kd = servo.per_joint('damping', robot.joints) * parameters.damping
    limits = None if servo.limit is None else servo.per_joint('limit', robot.joints)
    for j, joint in enumerate(robot.joints):
        attributes = {'name': joint, 'joint': joint}
        if limits is not None:
            attributes |= {'forcelimited': 'true', 'forcerange': f'{-limits[j]!r} {limits[j]!r}'}
        if parameters.offset[j]:
            # of a position actuator's form, with a constant
            numbers = (-float(parameters.offset[j]), -float(kp[j]), -float(kd[j]))
            attributes |= {
                'gainprm': repr(float(kp[j])),
                'biastype': 'affine',
                'biasprm': ' '.join(map(repr, numbers)),
            }
            etree.SubElement(actuators, 'general', attributes)
            continue
        attributes |= {'kp': repr(float(kp[j])), 'kv': repr(float(kd[j]))}
        etree.SubElement(actuators, 'position', attributes)
    lines = [f'commands act {parameters.delay!r} s later than they are sent']
    if parameters.slope.any():
        lines += [
            f'{joint}: Coulomb friction changes by {slope:.6g} N m/rad from position {at:.6g}'
            for joint, slope, at in zip(
                robot.joints, parameters.slope, _reference(result), strict=True
            )
        ]
        warnings.warn(
            'MJCF has no friction that depends on the position: it is in a comment alone, and '
            'rollouts of the file are worse than the result',
            IdentificationWarning,
            stacklevel=2,
        )
    set_comment(document, 'robot_identification: parameters without an element in MJCF', lines)
    etree.indent(document)
    return str(etree.tostring(document, encoding='unicode')) + '\n'


def _reference(result: AnyServoResult) -> np.ndarray:
    return result.model.reference if isinstance(result, ServoResult) else result.reference


def servo_urdf(result: AnyServoResult) -> str:
    """Return the URDF with the identified centres of mass and joint friction."""
    return identified_urdf(result.robot, result.standard())


def isaaclab(result: AnyServoResult) -> str:
    """
    Return a Python file with an actuator of Isaac Lab for each joint.

    Delays are whole steps there; that of the commands is rounded.
    """
    robot, servo, parameters = result.robot, result.servo, result.parameters
    kp = servo.per_joint('stiffness', robot.joints) * parameters.stiffness
    kd = servo.per_joint('damping', robot.joints) * parameters.damping
    timestep, _ = result.simulator.require()
    steps = max(0, round(parameters.delay / timestep))
    limits = None if servo.limit is None else servo.per_joint('limit', robot.joints)
    lines = [
        f'"""Servos of {robot.name}, identified from commands by robot_identification."""',
        '',
        '# In Isaac Lab, viscous friction of a joint is a setting of newer releases; here it is',
        '# added to the damping, with which it acts alike as long as no velocity is commanded.',
        f'# The delay is {1e3 * parameters.delay:.3g} ms, {steps} steps of {1e3 * timestep:g} ms.',
        '',
        'from isaaclab.actuators import DelayedPDActuatorCfg',
        '',
        'ACTUATORS = {',
    ]
    if parameters.slope.any():
        lines.insert(4, '# Friction that depends on the position is left out.')
    for j, joint in enumerate(robot.joints):
        settings = {
            'joint_names_expr': [joint],
            'stiffness': float(kp[j]),
            'damping': float(kd[j] + parameters.viscous[j]),
            'armature': float(parameters.armature[j]),
            'friction': float(parameters.coulomb[j]),
            'min_delay': steps,
            'max_delay': steps,
        }
        if limits is not None:
            settings['effort_limit'] = float(limits[j])
        lines.append(f'    {joint!r}: DelayedPDActuatorCfg(')
        lines += [f'        {name}={value!r},' for name, value in settings.items()]
        lines.append('    ),')
    return '\n'.join([*lines, '}', ''])


SERVO_FORMATS: dict[str, Callable[[AnyServoResult], str]] = {
    'mjcf': servo_mjcf,
    'urdf': servo_urdf,
    'isaaclab': isaaclab,
}
"""Writers of servo results by the name of their format."""


def export_servo(result: AnyServoResult, name: str) -> str:
    """
    Return identified servos as text in a format.

    Raises SettingsError for a format that servos do not have.
    """
    if name not in SERVO_FORMATS:
        raise SettingsError(
            f"'{name}' is no format of servos that were identified from commands",
            key='format',
            value=name,
            remedy=f'give one of {one_of(SERVO_FORMATS)}',
        )
    return SERVO_FORMATS[name](result)


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


def save_servo_result(result: ServoResult, folder: Path) -> tuple[Path, ...]:
    """
    Write ``result.yaml``, ``identified.xml``, ``identified.urdf`` and ``report.html``.

    Raises OSError where the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in (
        ('result.yaml', dump(result.to_document())),
        ('identified.xml', servo_mjcf(result)),
        ('identified.urdf', servo_urdf(result)),
    ):
        write_whole(folder / name, text)
        written.append(folder / name)
    title = f'Servos of {result.robot.name} from commands'
    figures = motion_figures(result.traces, result.robot.joints)
    written.append(
        write_figures(folder / 'report.html', title, result.verdict().sentence, figures)
    )
    return tuple(written)
