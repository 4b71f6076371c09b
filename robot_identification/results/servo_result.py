# SPDX-License-Identifier: Apache-2.0
"""The result of an identification from commands, and its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import IdentificationError
from ..estimation.coverage import Coverage
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..model.robot_document import read_robot, robot_document
from ..options.document import plain
from ..options.fields import from_mapping, to_mapping
from ..regressor import prior
from ..servo.fit import ServoFit
from ..servo.parameters import displaced, KINDS, PLAY, ServoParameters
from ..servo.settings import ServoSettings, SimulatorSettings
from ..untrusted.files import load_yaml, read_text
from ..version import __version__
from .result import FORMAT, MARK

SERVO = 'servo'
"""Kind of these results in their files."""

CORRELATED = 0.9
"""Absolute correlation above which two parameters are hardly distinguished."""

FITTED = ('armature', 'viscous', 'coulomb')
"""Kinds of parameters that the robot's file has, too."""


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
        (n,) errors of unseen positions over whole motions [rad or m] by parameters: ``nominal``,
        ``start`` (least squares, where rollouts are the method), ``fit``, and ``without_play``
        (``fit`` as in files without a place for it, where there is play).
    anew:
        (n,) those of ``fit`` in rollouts that begin anew after each gap, and do not count while
        the start is forgotten [rad or m].
    starts:
        Number of stretches without a gap of the unseen recordings.
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
    anew: np.ndarray
    starts: int
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

    @property
    def filed(self) -> str:
        """Name of the errors of what files for simulators hold, by which uses are judged."""
        return 'without_play' if 'without_play' in self.errors else 'fit'

    def total_error(self, which: str = 'fit') -> float:
        """Return the error of unseen positions over all joints, over whole motions [rad or m]."""
        return total(self.errors[which])

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

    def delays(self) -> list[tuple[str, float, float]]:
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
            'unseen_error': {
                **{which: self.total_error(which) for which in self.errors},
                'begun_anew': total(self.anew),
                'starts': self.starts,
            },
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
        before = {kind: float(self.nominal.values(kind)[j]) for kind in FITTED}
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


def total(errors: np.ndarray) -> float:
    """Return the root mean square of the joints' errors [rad or m]."""
    return float(np.sqrt((errors**2).mean()))


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
    values = {kind: np.array([float(j[kind]) for j in known]) for kind in FITTED}
    return ServoParameters.with_neutral(len(known), **values)


def _value(joint: Mapping[str, Any], kind: str) -> Any:
    return joint.get(kind, 0.0) if kind in PLAY else joint[kind]


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
            # results of versions without play have none
            kind: np.array([_value(joint, kind) for joint in joints], dtype=float).ravel()
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
