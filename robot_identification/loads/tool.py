# SPDX-License-Identifier: Apache-2.0
"""
The inertial parameters of a tool behind a force-torque sensor at the wrist.

The wrench that moves a rigid body is linear in its ten parameters p.  With the spatial velocity
and acceleration less gravity of the sensor's frame by the robot's kinematics,

    wrench = sign R (Y(q, v, a) p) + offset,

six rows a sample; ``sign`` is -1 for sensors that report what the tool exerts on them, and R is
the rotation of the sensor's axes from those of its frame in the URDF, 1 unless it is asked for.
Along with p the six offsets are estimated.  Gravity in a few poses determines mass, centre of mass
and offsets; inertia takes accelerations (Kubus, Kröger and Wahl, "On-line estimation of inertial
parameters using a recursive total least-squares approach", IROS 2008).

R enters by Gauss-Newton steps: turned by a small d, the wrench changes by ``d x (Y p)``.  They
start from the rotation nearest to the matrix that takes the measured force to gravity and
acceleration at the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pinocchio as pin

from ..data.recording import Recording, Samples
from ..errors import IdentifiabilityError, RecordingError
from ..estimation.bootstrap import part_scores, sum_covariance
from ..estimation.estimate import Fit
from ..estimation.least_squares import evaluate, joint_weights, range_basis
from ..estimation.plot_samples import read_only
from ..estimation.row_block import RowBlock
from ..estimation.rows import time_step
from ..estimation.system import accumulate, LinearSystem
from ..estimation.time_blocks import BlockCollector
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout
from ..model.robot import Robot
from ..model.robot_size import RobotSize
from ..options.document import plain
from ..regressor.base_parameters import BaseStructure
from ..signals import (
    decimation_factor,
    independence,
    ParallelDecimator,
    SignalSettings,
    stretches,
)
from .payload import load_of, Payload

CHANNELS = ('force_x', 'force_y', 'force_z', 'torque_x', 'torque_y', 'torque_z')
"""Names of the six values of a wrench, in its order."""

UNITS = ('N', 'N', 'N', 'N m', 'N m', 'N m')

_SIZE = len(INERTIAL_SYMBOLS)


@dataclass(frozen=True)
class ToolFitConstants:
    """Constants of the fit of a tool."""

    steps: int = 10
    """Largest number of Gauss-Newton steps of the sensor's rotation."""
    convergence: float = 1e-6
    """Step that is none [rad]."""
    directions_share: float = 0.03
    """Share of the largest singular value below which a direction of gravity was not seen."""
    unknown_std: float = 0.3
    """Deviation of a moment of inertia, as a share of the largest, from which none is known."""
    far: float = 40.0
    """Squared distance of the body from what was found beyond which noise does not explain it."""


FIT = ToolFitConstants()


_KINDS = (slice(0, 3), slice(3, 6))


@dataclass(frozen=True)
class Tool:
    """
    A tool, identified from wrenches.

    Attributes
    ----------
    load:
        Its parameters, as of a payload; ``fit_without`` is of the offsets alone.
    sign:
        1 for a sensor that reports what it exerts on the tool, -1 for what the tool exerts on it.
    offset, offset_std:
        (6,) what the sensor reports without any load, at its own axes [N, N m].
    rotation:
        (3, 3) the sensor's axes in the frame's: ``force_in_frame = rotation @ force_measured``.
    rotation_std:
        (3,) standard deviations of it about the frame's axes [rad]; None where it was not asked
        for.

    """

    load: Payload
    sign: int
    offset: np.ndarray
    offset_std: np.ndarray
    rotation: np.ndarray
    rotation_std: np.ndarray | None = None

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def inertia_known(self) -> bool:
        """True if the recordings determine all ten parameters."""
        return bool(self.load.determined.all())

    @property
    def known_body(self) -> np.ndarray:
        """(10,) mass, centre of mass, ixx, ixy, ixz, iyy, iyz, izz about it; NaN if not known."""
        values, body = np.full(10, np.nan), self.load.body
        if body is not None and self.load.determined[:4].all():
            values[:4] = body.mass, *body.center_of_mass
        if body is not None and self.inertia_known:
            values[4:] = body.inertia[np.triu_indices(3)]
        return values

    @property
    def error(self) -> float:
        """Residual by that of the offsets alone, of forces or torques, the larger one [%]."""
        fits = (self.load.fit, self.load.fit_without)
        rmse, alone = (np.array([joint.rmse for joint in fit.joints]) for fit in fits)
        shares = [np.linalg.norm(rmse[k]) / np.linalg.norm(alone[k]) for k in _KINDS]
        return 100.0 * float(max(shares))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists."""
        return {
            'error': self.error,
            'frame': self.load.frame,
            'sign': self.sign,
            'offset': self.offset.tolist(),
            'offset_std': plain(self.offset_std),
            'rotation': self.rotation.tolist(),
            'rotation_std': plain(self.rotation_std),
            'inertia_known': self.inertia_known,
        }


def wrench_rows(
    robot: Robot,
    frame: str,
    position: np.ndarray,
    velocity: np.ndarray,
    acceleration: np.ndarray,
) -> np.ndarray:
    """
    Return what unit parameters of a body at a link's frame take to move, (n_samples, 6, 10).

    Positions, velocities and accelerations are (n_samples, n_joints).
    """
    model, data = robot.model, robot.model.createData()
    body = robot.link_frames[frame]
    joint, placement = body.parentJoint, body.placement
    rows = np.empty((len(position), 6, _SIZE))
    states = zip(
        robot.configuration(position),
        robot.tangent(velocity),
        robot.tangent(acceleration),
        strict=True,
    )
    for row, (q, v, a) in zip(rows, states, strict=True):
        pin.rnea(model, data, q, v, a)  # leaves accelerations less gravity
        row[:] = pin.bodyRegressor(
            placement.actInv(data.v[joint]), placement.actInv(data.a_gf[joint])
        )
    return rows


@dataclass(frozen=True)
class _Rows:
    """Rows of a gap-free stretch: (m,) stamps [s], (m, 6, 10) columns, (m, 6) wrenches."""

    time: np.ndarray
    columns: np.ndarray
    wrench: np.ndarray
    independence: float

    @classmethod
    def from_samples(
        cls, samples: Samples, robot: Robot, frame: str, signals: SignalSettings
    ) -> _Rows:
        """Return decimated rows of samples whose last six columns are wrenches."""
        n, step = robot.n_joints, time_step(samples)
        motion = (samples.position, samples.velocity, samples.acceleration)
        columns = wrench_rows(robot, frame, *(signal[:, :n] for signal in motion))
        factor = decimation_factor(signals, 1.0 / step) if step > 0.0 else 1
        joined = np.hstack([columns.reshape(len(columns), -1), samples.effort[:, n:]])
        decimator = ParallelDecimator(factor)
        kept = np.hstack([decimator.push(joined.T), decimator.finish()]).T
        time = samples.time[0] + factor * step * np.arange(len(kept))
        return cls(time, kept[:, :-6].reshape(-1, 6, _SIZE), kept[:, -6:], independence(factor))


def tool(
    recordings: Sequence[Recording],
    robot: Robot,
    signals: SignalSettings,
    *,
    frame: str | None = None,
    rotation: bool = False,
) -> Tool:
    """
    Identify a tool and the offsets of the sensor before it.

    Parameters
    ----------
    recordings:
        Made by `with_wrench`: behind the robot's joints they have the six channels.
    robot:
        The robot.
    signals:
        Filter and decimation, of motion and wrench alike.
    frame:
        Link of the URDF that is the sensor's frame; None for the last identified joint's link.
    rotation:
        Whether the rotation of the sensor's axes is estimated.

    Raises
    ------
    ModelError
        if the URDF has no such link, or no identified joint moves it.
    IdentifiabilityError
        if the recordings determine nothing, or not the rotation.
    RecordingError
        if there are too few rows.

    """
    frame = frame or robot.tip
    link, _ = robot.attachment(frame)
    driven = np.arange(robot.n_joints + 6) >= robot.n_joints
    rows = []
    for recording in recordings:
        for samples in stretches(recording, signals, driven=driven):
            rows.append(_Rows.from_samples(samples, robot, frame, signals))
    if not rows:
        raise RecordingError('there is no recording of a wrench', remedy='give at least one')
    columns = np.concatenate([each.columns for each in rows])
    wrench = np.concatenate([each.wrench for each in rows])
    gravity = columns[:, :3, 0]
    turned = np.linalg.norm(gravity - gravity.mean(axis=0), 2)
    if turned < FIT.directions_share * np.linalg.norm(gravity):
        raise IdentifiabilityError(
            f"the sensor on '{link}' keeps one orientation to gravity",
            link=link,
            remedy='turn it about two axes, and swing it for the inertia',
        )
    sign, turn = _rotation(columns, wrench, link) if rotation else (_sign(columns, wrench), None)
    names = tuple(recording.source for recording in recordings)
    size = RobotSize.from_robot(robot)

    def solved() -> tuple[_ToolRuns, Payload]:
        runs = _ToolRuns.from_system(_system(rows, sign, turn, columns, wrench))
        remedy = 'turn the sensor about two axes, and swing it'
        return runs, load_of(
            runs, np.eye(_SIZE), link=link, frame=frame, remedy=remedy, recordings=names,
            robot_size=size,
        )  # fmt: skip

    runs, load = solved()
    if load.determined.all() and not _swung(load):
        # accelerations are too small, or those of the encoders' noise: they would only add theirs
        columns[:, :, 4:] = 0.0
        runs, load = solved()
    found, std = runs.others(load)
    axes = np.eye(3) if turn is None else turn
    at_sensor = np.kron(np.eye(2), axes.T)
    spread = np.sqrt(np.diag(at_sensor @ std[:6, :6] @ at_sensor.T))
    return Tool(
        load=load,
        sign=sign,
        offset=sign * (at_sensor @ found[:6]),
        offset_std=spread,
        rotation=axes,
        rotation_std=None if turn is None else np.sqrt(np.diag(std[6:, 6:])),
    )


def _swung(load: Payload) -> bool:
    """Return whether the inertia found is certain, and that of a body within its deviations."""
    places = load.base.layout.indices(f'load.{symbol}' for symbol in INERTIAL_SYMBOLS)
    values, std = load.base.values[places], load.std[places]
    moments = np.array([4, 6, 9])
    if std[moments].max() > FIT.unknown_std * np.abs(values[moments]).max():
        return False
    error = load.standard - values
    covariance = load.covariance[np.ix_(places, places)]
    return bool(error @ np.linalg.lstsq(covariance, error, rcond=None)[0] < FIT.far)


def with_wrench(recording: Recording, wrench: np.ndarray) -> Recording:
    """Return a recording with wrenches, (n_samples, 6), as six channels behind its joints."""
    still = np.zeros_like(wrench)
    velocity = recording.velocity
    return Recording(
        time=recording.time,
        position=np.hstack([recording.position, still]),
        effort=np.hstack([np.zeros_like(recording.position), wrench]),
        joints=(*recording.joints, *CHANNELS),
        velocity=None if velocity is None else np.hstack([velocity, still]),
        source=recording.source,
    )


def _system(
    rows: Sequence[_Rows],
    sign: int,
    turn: np.ndarray | None,
    columns: np.ndarray,
    wrench: np.ndarray,
) -> LinearSystem:
    """Return the system of [parameters | offsets | rotation], wrenches turned into the frame."""
    wrench = sign * _turned(wrench, turn)
    added = [np.broadcast_to(np.eye(6), (len(columns), 6, 6))]
    names = tuple(f'{channel}.off' for channel in CHANNELS)
    layout = ParameterLayout.inertial(('load',)) + ParameterLayout(names, UNITS)
    if turn is not None:
        added.append(_turning(columns, _fitted(columns, wrench)[:_SIZE]))
        layout += ParameterLayout(tuple(f'sensor.r{axis}' for axis in 'xyz'), ('rad',) * 3)
    matrix = np.concatenate([columns, *added], axis=2)
    size = len(layout)
    structure = BaseStructure(
        layout=layout,
        independent=np.arange(size),
        dependent=np.zeros(0, dtype=int),
        unidentifiable=np.zeros(0, dtype=int),
        regrouping=np.eye(size),
        singular_values=np.ones(size),
        gap=np.inf,
        expressions=layout.names,
    )
    collector, blocks, first = BlockCollector(), [], 0
    for segment, each in enumerate(rows):
        part = slice(first, first + len(each.time))
        first = part.stop
        still = np.linspace(0.0, 1.0, len(each.time))[:, None] * np.ones(6)
        blocks.append(
            RowBlock.from_matrix(
                matrix[part],
                time=each.time,
                position=still,
                velocity=np.full(still.shape, np.nan),
                effort=wrench[part],
                keep=np.ones(still.shape, dtype=bool),
                raw_effort=wrench[part],
                segment=segment,
                independence=each.independence,
            )
        )
    system = accumulate(collector.watched(blocks), structure, CHANNELS)
    return replace(system, blocks=collector.blocks())


@dataclass(frozen=True)
class _ToolRuns:
    """The rows of [parameters | others] by their R factor, weighted; see `payload.LoadRuns`."""

    system: LinearSystem
    weights: np.ndarray
    load: np.ndarray
    rest: np.ndarray
    effort: np.ndarray

    @classmethod
    def from_system(cls, system: LinearSystem) -> _ToolRuns:
        weights = joint_weights(system)
        stacked = system.stacked(weights)
        return cls(system, weights, stacked[:, :_SIZE], stacked[:, _SIZE:-1], stacked[:, -1])

    @property
    def timed(self) -> bool:
        """True if the rows came with time."""
        return self.system.blocks is not None

    def projected(self) -> tuple[np.ndarray, float]:
        """Return R of [load | effort] beside the others, and its independent rows."""
        basis = range_basis(self.rest)
        left = np.column_stack([self.load, self.effort])
        for _ in range(2):
            left = left - basis @ (basis.T @ left)
        independent = self.system.factor.n_independent - basis.shape[1]
        return np.asarray(np.linalg.qr(left, mode='r')), independent

    def covariance(self, columns: np.ndarray, determined: np.ndarray) -> np.ndarray:
        """Return the covariance of the load's parameters ``determined``, by blocks of time."""
        return self._covariance(determined)[: determined.size, : determined.size]

    def _covariance(self, determined: np.ndarray) -> np.ndarray:
        """Return that of the load's parameters ``determined`` and of the others."""
        chosen = [*determined.tolist(), *range(_SIZE, self.system.factor.n_base)]
        design = np.hstack([self.load, self.rest])[:, chosen]
        norms = np.linalg.norm(design, axis=0)
        inverse = np.linalg.pinv(design / norms) / norms[:, None]
        scores = part_scores(
            self.system, self.weights, inverse @ self.effort, lambda rows: rows[:, chosen]
        )
        return sum_covariance(scores @ inverse @ inverse.T)

    def fits(self, load: np.ndarray, added: np.ndarray) -> tuple[Fit, Fit]:
        """Return the fits with the load's parameters, and of the others alone."""
        values = [
            np.append(given, np.linalg.lstsq(self.rest, self.effort - self.load @ given)[0])
            for given in (load, np.zeros(_SIZE))
        ]
        return evaluate(self.system, values[0]), evaluate(self.system, values[1])

    def others(self, load: Payload) -> tuple[np.ndarray, np.ndarray]:
        """Return the other parameters beside a load's, and their covariance."""
        given = np.zeros(_SIZE)
        names = [f'load.{symbol}' for symbol in INERTIAL_SYMBOLS]
        given[[names.index(name) for name in load.base.layout]] = load.base.values
        found = np.linalg.lstsq(self.rest, self.effort - self.load @ given)[0]
        reasons = dict(zip(load.base.layout, load.reasons, strict=True))
        determined = np.array(
            [i for i, name in enumerate(names) if reasons.get(name) == ''], dtype=int
        )
        return found, self._covariance(determined)[determined.size :, determined.size :]


def _turned(wrench: np.ndarray, turn: np.ndarray | None) -> np.ndarray:
    """Return wrenches (m, 6) in the frame's axes."""
    if turn is None:
        return wrench
    return (wrench.reshape(-1, 2, 3) @ turn.T).reshape(-1, 6)


def _turning(columns: np.ndarray, load: np.ndarray) -> np.ndarray:
    """Return (m, 6, 3) changes of a load's wrench in the frame by rotations of the sensor."""
    predicted = (columns @ load).reshape(-1, 2, 3)
    crossed = [np.cross(axis, predicted).reshape(-1, 6) for axis in np.eye(3)]
    return np.stack(crossed, axis=2)


def _fitted(columns: np.ndarray, wrench: np.ndarray, load: np.ndarray | None = None) -> np.ndarray:
    """
    Return weighted least squares of [columns | offsets | rotation], the smallest where many fit.

    The rotation is that of the wrench of a ``load``, (10,); None for none.
    """
    parts = [columns, np.broadcast_to(np.eye(6), (len(columns), 6, 6))]
    if load is not None:
        parts.append(_turning(columns, load))
    matrix, weights = np.concatenate(parts, axis=2), np.ones(6)
    for _ in range(2):  # weights are those of the residuals without any
        rows = (matrix * weights[:, None]).reshape(-1, matrix.shape[2])
        norms = np.linalg.norm(rows, axis=0)
        norms[norms == 0.0] = 1.0
        target = (wrench * weights).ravel()
        found = np.linalg.lstsq(rows / norms, target, rcond=1e-6)[0] / norms
        residual = np.sqrt(np.mean((wrench - matrix @ found) ** 2, axis=0))
        weights = 1.0 / np.maximum(residual, 1e-12 * np.abs(wrench).max(initial=1e-12))
    return np.asarray(found)


def _sign(columns: np.ndarray, wrench: np.ndarray) -> int:
    """Return the sign that makes the mass positive."""
    return -1 if _fitted(columns, wrench)[0] < 0.0 else 1


def _rotation(columns: np.ndarray, wrench: np.ndarray, link: str) -> tuple[int, np.ndarray]:
    """Return the sign and the rotation of the sensor's axes."""
    moving, force = columns[:, :3, 0], wrench[:, :3]  # acceleration of the frame less gravity
    moving, force = moving - moving.mean(axis=0), force - force.mean(axis=0)
    size = np.linalg.svd(moving, compute_uv=False)
    if size[-1] < FIT.directions_share * size[0]:
        raise IdentifiabilityError(
            f"the recordings do not determine the rotation of the sensor on '{link}': gravity "
            'stays in one plane of it',
            link=link,
            remedy='turn the sensor about two axes',
        )
    matrix = np.linalg.lstsq(force, moving, rcond=None)[0].T
    sign = 1 if np.linalg.det(matrix) > 0.0 else -1
    u, _, vt = np.linalg.svd(sign * matrix)
    turn = u @ vt
    for _ in range(FIT.steps):
        here = sign * _turned(wrench, turn)
        step = _fitted(columns, here, _fitted(columns, here)[:_SIZE])[-3:]
        # the measured wrench is that in the frame, turned by the step
        turn = pin.exp3(-step) @ turn
        if np.linalg.norm(step) < FIT.convergence:
            break
    return sign, np.asarray(turn)
