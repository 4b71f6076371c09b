# SPDX-License-Identifier: Apache-2.0
"""The result of an identification from commands, its verdict and its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import IdentificationError
from ..estimation.estimators import ROLLOUT
from ..estimation.tables import rule, wrapped
from ..model.parameters import ParameterSet
from ..model.robot import read_robot, Robot, robot_document
from ..options.document import plain
from ..options.fields import from_mapping, to_mapping
from ..regressor import prior
from ..results.result import FORMAT, MARK
from ..servo.fit import ServoFit
from ..servo.parameter_sets import Coverage
from ..servo.parameters import displaced, KINDS, ServoParameters
from ..servo.settings import ServoSettings, SimulatorSettings
from ..untrusted.files import load_yaml, read_text
from ..version import __version__
from .criteria import COLLISIONS, CONTROL, PREDICTION, Reason, SIMULATION, THRESHOLDS
from .verdict import Verdict, verdict_from_reasons

SERVO = 'servo'
"""Kind of these results in their files."""

CORRELATED = 0.9
"""Absolute correlation from which on two parameters are hardly distinguished."""

LARGE_SHARE = 0.1
"""Error of a joint's position by its motion that rules out simulation."""

COLUMNS = (
    ('Ia', 'armature', 'armature'),
    ('fv', 'viscous', 'viscous'),
    ('fc', 'coulomb', 'Coulomb'),
)


@dataclass(frozen=True)
class MotionTrace:
    """
    Motion of a recording, measured and simulated.

    Attributes
    ----------
    time:
        (n_samples,) [s].
    command, measured, before, after:
        (n_samples, n_joints) positions [rad or m]: as commanded, measured, and simulated with the
        nominal and the identified parameters.
    held_out:
        (n_samples,) True where the identification has not seen the positions; None for nowhere.

    """

    time: np.ndarray
    command: np.ndarray
    measured: np.ndarray
    before: np.ndarray
    after: np.ndarray
    held_out: np.ndarray | None = None


@dataclass(frozen=True)
class ServoResult:
    """
    Everything that an identification from commands found.

    Attributes
    ----------
    name:
        Name of the experiment.
    robot, servo, simulator:
        The robot, the servos, and the simulator that the parameters are for.
    nominal:
        Parameters of the robot's file.
    fit:
        Estimate of the parameters, with deviations.
    method:
        That of the estimate, of `SERVO_METHODS`.
    rmse:
        (n,) errors of simulated positions on the identification recordings [rad or m].
    errors:
        (n,) errors of unseen positions [rad or m] by parameters: ``nominal``, ``start`` (least
        squares, where rollouts are the method), ``fit``.
    held_out:
        Whether the unseen motion is every second block of the identification recordings.
    coverage:
        Shares of unseen motion that parameter sets cover.
    motion:
        (n,) root mean squares of the unseen positions about their means [rad or m].
    traces:
        Motion of the first recording.
    recordings:
        Names of the recordings.
    seconds:
        Duration of the identification.
    warnings:
        What the user should know, one sentence each.

    """

    name: str
    robot: Robot
    servo: ServoSettings
    simulator: SimulatorSettings
    nominal: ServoParameters
    fit: ServoFit
    method: str
    rmse: np.ndarray
    errors: Mapping[str, np.ndarray]
    held_out: bool
    coverage: Coverage
    motion: np.ndarray
    traces: MotionTrace
    recordings: tuple[str, ...]
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def parameters(self) -> ServoParameters:
        """The identified parameters."""
        return self.fit.parameters

    def total_error(self, which: str = 'fit') -> float:
        """Return the error of unseen positions over all joints [rad or m]."""
        return float(np.sqrt((self.errors[which] ** 2).mean()))

    def correlated(self) -> list[tuple[str, str, float]]:
        """Return pairs of parameters with a large correlation, the largest first."""
        names, matrix = self.fit.free.names, self.fit.correlation
        pairs = [
            (names[i], names[j], float(matrix[i, j]))
            for i, j in zip(*np.triu_indices(len(names), 1), strict=True)
            if abs(matrix[i, j]) > CORRELATED
        ]
        return sorted(pairs, key=lambda pair: -abs(pair[2]))

    def standard(self) -> ParameterSet:
        """Return the parameters of links and joints as those of the URDF, for exports."""
        return standard_parameters(self.robot, self.parameters)

    def verdict(self) -> Verdict:
        """Return the verdict, which rests on the error of unseen motion."""
        seen = 'every second block of the recordings' if self.held_out else 'other recordings'
        at = '' if self.simulator.named else f' at an assumed step of {self._step()}'
        return verdict_from_reasons(self._reasons(), f'validated on {seen}, by rollouts{at}')

    def _step(self) -> str:
        model = self.fit.model
        return f'{1e3 * model.timestep:g} ms with {model.integrator}'

    def _reasons(self) -> list[Reason]:
        errors, nominal = self.errors['fit'], self.errors['nominal']
        share = errors / np.maximum(self.motion, 1e-9)
        joints = self.robot.joints
        reasons = [
            Reason(
                'efforts',
                'no efforts were recorded: masses are those of the robot file, and efforts are '
                'right only up to an error of the gains',
                (PREDICTION, CONTROL, COLLISIONS),
            )
        ]
        bad = [j for j, s in zip(joints, share, strict=True) if s > LARGE_SHARE]
        if bad:
            reasons.append(
                Reason(
                    'rollout',
                    f'rollouts miss up to {100 * share.max():.3g} % of the motion at '
                    f'{", ".join(bad[:4])}',
                    (SIMULATION,),
                    tuple(bad),
                    100 * float(share.max()),
                    100 * LARGE_SHARE,
                    '%',
                    next_step='check robot.servo (gains, limit) and try friction: '
                    'coulomb_by_position or gains: scale',
                    key='robot.servo',
                )
            )
        if self.total_error() > self.total_error('nominal'):
            reasons.append(
                Reason(
                    'rollout',
                    f'rollouts miss unseen motion by {1e3 * self.total_error():.3g} mrad, those '
                    f'of the robot file by {1e3 * self.total_error("nominal"):.3g}',
                    (SIMULATION,),
                    next_step='record a longer motion with fast and slow parts',
                    key='data.identification',
                )
            )
        worse = [j for j, a, b in zip(joints, errors, nominal, strict=True) if a > 1.2 * b]
        if worse and not bad:
            text = f'worse than the robot file on unseen motion: {", ".join(worse[:4])}'
            reasons.append(Reason('rollout', text, (), tuple(worse), remark=True))
        return [*reasons, *self._remarks()]

    def _remarks(self) -> list[Reason]:
        """Return what the recordings do not determine."""
        free, remarks = self.fit.free, []
        if self.method != ROLLOUT:
            text = f'least squares on the efforts of the servos, simulated at {self._step()}'
            step = 'leave estimation.method out: parameters are fitted to simulated motion then'
            key = 'estimation.method'
            if not self.simulator.named:
                text = f'no simulator was named: {text}'
                step = (
                    'name a simulator (simulation.timestep, simulation.integrator) for parameters '
                    'that belong to it'
                )
                key = 'simulation.timestep'
            remarks.append(Reason('method', text, remark=True, next_step=step, key=key))
        edges = [n for n, at in zip(free.names, self.fit.at_bound, strict=True) if at]
        if edges:
            text = f'at their bounds: {", ".join(edges[:8])}'
            text += f' and {len(edges) - 8} more' if len(edges) > 8 else ''
            remarks.append(Reason('bounds', text, remark=True))
        pairs = self.correlated()
        if pairs:
            first, second, value = pairs[0]
            others = f' (other pairs above {CORRELATED:g}: {len(pairs) - 1})' if pairs[1:] else ''
            text = (
                f'{first} and {second} are correlated by {value:+.2f}{others}: their sum or ratio '
                'is known better than each'
            )
            remarks.append(Reason('correlation', text, remark=True))
        remarks += self._delay_remarks()
        moved = float(np.abs(self.parameters.centers).max())
        share = moved / self.servo.center_of_mass_std
        if share > THRESHOLDS.significant_stds:
            text = (
                f'centres of mass are moved by up to {1e3 * moved:.0f} mm, {share:.0f} times '
                'center_of_mass_std: masses or gains may be wrong'
            )
            step = 'check kp and the masses of the robot file, or try gains: scale'
            remarks.append(Reason('bodies', text, remark=True, next_step=step, key='robot.servo'))
        if 'damping' not in free.kinds and self.servo.gains == 'scale':
            text = 'no velocity is commanded: only the sum of kd and viscous friction is known'
            remarks.append(Reason('gains', text, remark=True))
        if 'slope' in free.kinds:
            text = 'MJCF has no friction that depends on the position: a simulator has to set it'
            remarks.append(Reason('friction', text, remark=True))
        return remarks

    def _delay_remarks(self) -> list[Reason]:
        """Return remarks on delays that cannot be, and on what is confused with a delay."""
        fit, remarks = self.fit, []
        early = [
            f'the delay of {joints} is {1e3 * delay:.3g} +- {1e3 * std:.2g} ms'
            for joints, delay, std in self._delays()
            if delay < -THRESHOLDS.significant_stds * std
        ]
        if early:
            text = f'{"; ".join(early)}: they act before their stamps'
            step = 'stamp commands when they are sent, by the clock of the positions'
            key = 'data.identification'
            remarks.append(Reason('delay', text, remark=True, next_step=step, key=key))
        # a motion that is early by a time has so much more of kp as viscous friction, and of kd
        # and viscous friction as armature
        std, model, parameters = fit.std[fit.free.places['delay']], fit.model, self.parameters
        kp, kd = model.stiffness * parameters.stiffness, model.damping * parameters.damping
        shares = {}
        for kind, change in (('viscous', kp), ('armature', kd + parameters.viscous)):
            inside = ~fit.at_bound[fit.free.places[kind]]
            values = parameters.values(kind)[inside]
            shares[kind] = 100 * np.median((change * std)[inside] / values) if inside.any() else 0
        if max(shares.values()) > THRESHOLDS.known_std:
            text = (
                f'the delay is known to {1e3 * std.max():.2g} ms, which are '
                f'{shares["armature"]:.0f} % of the armature and {shares["viscous"]:.0f} % of the '
                'viscous friction (medians of the joints): only together are they known better'
            )
            step = 'record faster motion: slow motion confuses delay, viscous friction, armature'
            key = 'data.identification'
            remarks.append(Reason('delay', text, remark=True, next_step=step, key=key))
        return remarks

    def table(self) -> str:
        """Return a table of the joints: parameters with deviations and before, and errors."""
        std = dict(zip(self.fit.free.names, self.fit.std, strict=True))
        at_bound = dict(zip(self.fit.free.names, self.fit.at_bound, strict=True))
        width = max(6, *(len(joint) for joint in self.robot.joints))
        titles = ''.join(f'{title:>9}{"+-":>8}{"before":>8}' for *_, title in COLUMNS)
        lines = [rule('Joints'), f'{"joint":{width}}{titles}{"error":>7}{"before":>7}']
        errors, nominal = self.errors['fit'], self.errors['nominal']
        for j, joint in enumerate(self.robot.joints):
            line = f'{joint:{width}}'
            for symbol, kind, _ in COLUMNS:
                name = f'{joint}.{symbol}'
                value, before = self.parameters.values(kind)[j], self.nominal.values(kind)[j]
                deviation = 'bound' if at_bound[name] else f'{std[name]:.2g}'
                line += f'{value:9.3g}{deviation:>8}{before:8.3g}'
            lines.append(f'{line}{1e3 * errors[j]:7.2f}{1e3 * nominal[j]:7.2f}')
        units = (
            'armature kg m^2, viscous N m s/rad, Coulomb N m, error of unseen positions mrad '
            '(slides: kg, N s/m, N, mm)'
        )
        return '\n'.join([*lines, *wrapped(units, '')])

    def summary(self) -> str:
        """Return verdict, table and what the numbers rest on, as text."""
        free, parameters = self.fit.free, self.parameters
        others = {'nominal': 'robot file', 'start': 'least squares alone'}
        beside = [
            f'{title} {1e3 * self.total_error(name):.2f}'
            for name, title in others.items()
            if name in self.errors
        ]
        lines = [
            *(
                f'delay of {joints} {1e3 * delay:.2f} +- {1e3 * std:.2g} ms'
                for joints, delay, std in self._delays()
            ),
            f'error of unseen motion {1e3 * self.total_error():.2f} mrad; {", ".join(beside)}',
            f'for a step of {self._step()}: parameters hold for no other; '
            f'{self.fit.rollouts} rollouts, {self.seconds:.1f} s'
            if self.method == ROLLOUT
            else f'least squares; errors are simulated at {self._step()}, {self.seconds:.1f} s',
            f'{self.coverage.count} sets from the spread over blocks cover '
            f'{100 * self.coverage.sets:.0f} % of unseen positions where 90 % are wanted, with '
            f"each joint's residual as noise {100 * self.coverage.with_residual:.0f} %",
        ]
        if 'center' in free.kinds:
            moved = 1e3 * np.abs(parameters.centers).max(axis=1)
            most = sorted(zip(moved, self.robot.links, strict=True), reverse=True)[:3]
            lines.append(
                'centres of mass are moved by up to '
                + ', '.join(f'{distance:.0f} mm ({link})' for distance, link in most)
                + '; masses are as in the robot file'
            )
        for kind, title in (('stiffness', 'factor on kp'), ('damping', 'factor on kd')):
            if kind in free.kinds:
                symbol = KINDS[kind].symbol
                values = [
                    f'{joint} {parameters.values(kind)[j]:.3f} +- '
                    f'{self.fit.std[free.names.index(f"{joint}.{symbol}")]:.2g}'
                    for j, joint in enumerate(self.robot.joints)
                ]
                lines.append(f'{title}: {", ".join(values)}')
        texts = [line for text in lines for line in wrapped(text, '')]
        return '\n\n'.join([self.verdict().summary(), self.table(), '\n'.join(texts)])

    def _delays(self) -> list[tuple[str, float, float]]:
        """Return the joints of each bus in words, its delay [s], and the delay's deviation."""
        found, fit, joints = [], self.fit, self.robot.joints
        for (kind, acting, _), delay, std in zip(fit.free, fit.vector, fit.std, strict=True):
            if kind == 'delay':
                names = ', '.join(joints[j] for j in acting)
                whole = len(acting) == len(joints)
                found.append(('the commands' if whole else names, float(delay), float(std)))
        return found

    def to_document(self) -> dict[str, Any]:
        """Return plain numbers, texts, lists and mappings, in the order of the file."""
        fit = self.fit
        document = {
            MARK: {'version': __version__, 'format': FORMAT, 'kind': SERVO},
            'name': self.name,
            'verdict': self.verdict().to_dict(),
            'delay': delay_document(fit.parameters, self.robot.joints),
            'joints': {
                joint: self._joint_document(j) for j, joint in enumerate(self.robot.joints)
            },
            'parameters': [
                {
                    'name': name,
                    'value': float(value),
                    'std': None if at else float(std),
                    'at_bound': bool(at),
                }
                for name, value, std, at in zip(
                    fit.free.names, fit.vector, fit.std, fit.at_bound, strict=True
                )
            ],
            'correlated': [
                {'parameters': [first, second], 'correlation': value}
                for first, second, value in self.correlated()
            ],
            'unseen_error': {which: self.total_error(which) for which in self.errors},
            'coverage': {
                'sets': self.coverage.sets,
                'with_residual': self.coverage.with_residual,
                'count': self.coverage.count,
            },
            'fit': {
                'method': self.method,
                'rmse': self.rmse,
                'rollouts': fit.rollouts,
                'condition': fit.condition,
                'kinds': fit.free.kinds,
                'blocks': fit.blocks,
            },
            'held_out': self.held_out,
            'recordings': self.recordings,
            'reference': self.fit.model.reference,
            'settings': {
                'servo': to_mapping(self.servo),
                'simulation': to_mapping(self.simulator),
            },
            'robot': robot_document(self.robot),
            'seconds': self.seconds,
            'warnings': self.warnings,
        }
        return dict(plain(document))

    def _joint_document(self, j: int) -> dict[str, Any]:
        before = {kind: float(self.nominal.values(kind)[j]) for _, kind, _ in COLUMNS}
        each = {
            kind: float(self.parameters.values(kind)[j])
            for kind in KINDS
            if kind not in ('delay', 'center')
        }
        return {
            **each,
            'center': self.parameters.centers[j],
            'before': before,
            'unseen_error': float(self.errors['fit'][j]),
            'unseen_error_before': float(self.errors['nominal'][j]),
        }


@dataclass(frozen=True)
class StoredServoResult:
    """
    Robot, servos and parameters of a result file, for exports and replays.

    Attributes are those of `ServoResult` and `ServoFit`; ``rmse`` are the errors of unseen
    positions, ``nominal`` is None in files of version 0.1.
    """

    name: str
    robot: Robot
    servo: ServoSettings
    simulator: SimulatorSettings
    parameters: ServoParameters
    nominal: ServoParameters | None
    reference: np.ndarray
    rmse: np.ndarray
    kinds: tuple[str, ...]
    blocks: np.ndarray
    coverage: Coverage

    def standard(self) -> ParameterSet:
        """Return the parameters of links and joints as those of the URDF, for exports."""
        return standard_parameters(self.robot, self.parameters)


def standard_parameters(robot: Robot, parameters: ServoParameters) -> ParameterSet:
    """Return link and joint parameters; the inertia about a moved centre of mass stays."""
    values: dict[str, float] = {}
    for j, (joint, link) in enumerate(zip(robot.joints, robot.links, strict=True)):
        values |= {
            f'{joint}.Ia': parameters.armature[j],
            f'{joint}.fv': parameters.viscous[j],
            f'{joint}.fc': parameters.coulomb[j],
            f'{joint}.off': parameters.offset[j],
        }
        inertial = robot.prior.inertial(link)
        moved = displaced(inertial, parameters.centers[j])
        names = [name for name in robot.prior.layout.names if name.rpartition('.')[0] == link]
        values |= dict(zip(names, moved, strict=True))
    return prior(robot).updated(values)


def delay_document(parameters: ServoParameters, joints: Sequence[str]) -> float | dict[str, float]:
    """Return the delay of all commands [s], or that of each joint where they differ."""
    if np.ptp(parameters.delay) == 0.0:
        return float(parameters.delay[0])
    return dict(zip(joints, parameters.delay.tolist(), strict=True))


def _nominal(joints: Sequence[Mapping[str, float] | None]) -> ServoParameters | None:
    """Return the parameters of the robot file; None where a result has none."""
    known = [joint for joint in joints if joint is not None]
    if len(known) != len(joints):
        return None
    values = {kind: np.array([float(j[kind]) for j in known]) for _, kind, _ in COLUMNS}
    return ServoParameters.with_neutral(len(known), **values)


def is_servo_result(path: str | os.PathLike) -> bool:
    """Return whether a file is the result of an identification from commands."""
    try:
        head = load_yaml(read_text(Path(path), 1 << 28)).get(MARK, {})
        return bool(head.get('kind') == SERVO)
    except Exception:  # whatever else it is, the reader of results says
        return False


def read_servo_result(path: str | os.PathLike) -> StoredServoResult:
    """
    Read the robot and parameters of a result file.

    Raises IdentificationError naming a file that is damaged.
    """
    document = load_yaml(read_text(Path(path), 1 << 28))
    try:
        joints = tuple(document['joints'].values())
        values: dict[str, Any] = {
            kind: np.array([joint[kind] for joint in joints], dtype=float).ravel()
            for kind in KINDS
            if kind != 'delay'
        }
        late = document['delay']
        late = late if isinstance(late, Mapping) else dict.fromkeys(document['joints'], late)
        delay = np.array([late[joint] for joint in document['joints']], dtype=float)
        return StoredServoResult(
            name=document['name'],
            robot=read_robot(document['robot']),
            servo=from_mapping(ServoSettings, document['settings']['servo'], 'robot.servo'),
            simulator=from_mapping(
                SimulatorSettings, document['settings']['simulation'], 'simulation'
            ),
            parameters=ServoParameters(delay=delay, **values),
            nominal=_nominal([joint.get('before') for joint in joints]),
            reference=np.array(document['reference'], dtype=float),
            rmse=np.array([joint['unseen_error'] for joint in joints], dtype=float),
            kinds=tuple(document['fit']['kinds']),
            blocks=np.array(document['fit']['blocks'], dtype=float),
            coverage=Coverage(**document['coverage']),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise IdentificationError(
            f"'{path}' is damaged: {error}", file=str(path), remedy='identify again'
        ) from error
