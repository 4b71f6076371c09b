# SPDX-License-Identifier: Apache-2.0
"""
Errors of pseudo-efforts, the efforts that the servos' gains imply.

The pseudo-effort ``kp (command(t - delay) - q) + kd (command_velocity - v) + feedforward`` less
the rigid bodies' effort is regressed on rotor inertia, viscous and Coulomb friction and offset of
each joint, and on the changes of inertial parameters by displaced centres of mass, through the
product's regressor.  Rows are divided by kp, so that errors are positions.  The delay acts on the
right-hand side alone; all else is linear.

Efforts and Coulomb friction have the same low-pass.  Rows within its reach of a reversal are left
out, and those of joints that may stick: the delay would make up for a direction that is wrong.

Gains cannot be estimated this way: the residual is smallest for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import signal

from ..data.commands import CommandRecording
from ..data.recording import Motion
from ..errors import IdentifiabilityError
from ..regressor import build, ModelSettings
from .fit import FIT, PositionErrors
from .model import interpolated, ServoModel
from .parameters import displaced, FreeParameters, ServoParameters, typical_changes
from .settings import ServoSettings


@dataclass(frozen=True)
class PseudoEffortConstants:
    """Constants of the rows of pseudo-efforts."""

    cutoff: float = 20.0
    """Cut-off of the zero-phase low-pass [Hz]; at most a fifth of the sampling rate."""
    creep_share: float = 0.02
    """Share of a joint's root mean square velocity below which it may stick."""
    sure_direction: float = 0.9
    """Absolute filtered direction of friction above which a reversal does not disturb a row."""
    delays: tuple[float, float, float] = (-0.02, 0.121, 0.01)
    """Delays of all commands, of which the best one is the start: first, end and step [s]."""
    delay_step: float = 0.001
    """Finite differences of a delay [s]."""


PSEUDO_EFFORT = PseudoEffortConstants()


class PseudoEfforts(PositionErrors):
    """
    Errors of pseudo-efforts by stiffness, of joints that move.

    Parameters
    ----------
    model:
        The robot with its gains, as they are given.
    recordings:
        Stretches without gaps.
    settings:
        Of the servos.
    kinds:
        Kinds of free parameters; factors on gains are left at 1.

    Attributes
    ----------
    changes:
        Sizes of parameters by kind.

    Raises
    ------
    IdentifiabilityError
        naming a joint that does not move, or for fewer positions than parameters.

    """

    tolerance = 1e-3

    def __init__(
        self,
        model: ServoModel,
        recordings: Sequence[CommandRecording],
        settings: ServoSettings,
        kinds: Sequence[str],
    ) -> None:
        robot = model.robot
        free = FreeParameters(
            tuple(kind for kind in kinds if kind not in ('stiffness', 'damping')),
            ServoParameters.with_neutral(robot.n_joints),
            robot.joints,
            settings.bus_numbers(robot.joints),
        )
        stride = -(-sum(map(len, recordings)) // FIT.rows)
        self.parts = [_filtered(model, recording, free, stride) for recording in recordings]
        motion = Motion(*(np.concatenate([p.motion[k] for p in self.parts]) for k in range(3)))
        moves = np.any([part.used.any(axis=0) for part in self.parts], axis=0)
        if not moves.all():
            joint = robot.joints[int(np.argmin(moves))]
            raise IdentifiabilityError(
                f"joint '{joint}' does not move in the recordings, or turns back all the time",
                joint=joint,
                remedy='command a motion of it, or lock it (robot.locked)',
            )
        self.columns = np.concatenate([part.columns for part in self.parts])
        rows, size = self.columns.shape
        if rows < size:
            raise IdentifiabilityError(
                f'the recordings have {rows} positions of joints in motion for {size} parameters',
                remedy='record longer',
            )
        delays = np.tile(np.arange(*PSEUDO_EFFORT.delays)[:, None], robot.n_joints)
        effort = np.concatenate([part.effort(0.0 * delays[0]) for part in self.parts])
        self.changes = typical_changes(motion, effort)
        scale = free.vector(self.changes.__getitem__)
        equations = np.column_stack((self.columns, *map(self._right, delays)))
        triangle = np.asarray(np.linalg.qr(equations, mode='r'))
        residuals = np.linalg.norm(triangle[size:, size:], axis=0)
        base = replace(free.base, delay=delays[int(residuals.argmin())])
        period = stride * recordings[0].period
        super().__init__(model, replace(free, base=base), scale, period, len(effort))

    def _right(self, delay: np.ndarray) -> np.ndarray:
        """Return (n_rows,) right-hand sides for (n,) delays."""
        return np.concatenate([part.right(delay) for part in self.parts])

    def error(self, vector: np.ndarray) -> np.ndarray:
        """Return (n_rows,) errors of positions."""
        values = vector * self.scale
        return np.asarray(self.columns @ values - self._right(self.free.parameters(values).delay))

    def jacobian(self, vector: np.ndarray) -> np.ndarray:
        """Return the (n_rows, p) derivative of `error`."""
        values = vector * self.scale
        delay = self.free.parameters(values).delay
        jacobian = self.columns.copy()
        for column, (kind, joints, _) in enumerate(self.free):
            if kind == 'delay':
                step = PSEUDO_EFFORT.delay_step * np.isin(np.arange(delay.size), joints)
                ahead, behind = self._right(delay + step), self._right(delay - step)
                jacobian[:, column] = (behind - ahead) / (2.0 * PSEUDO_EFFORT.delay_step)
        return np.asarray(jacobian * self.scale)


@dataclass(frozen=True)
class _Filtered:
    """
    Filtered stretch, at its k thinned samples.

    Attributes
    ----------
    motion:
        Position, velocity and acceleration, each (k, n).
    columns:
        (n_rows, p) columns in positions, of joints that move; 0 for delays.
    used:
        (k, n) True for the rows.
    stiffness:
        (n,) by which efforts are divided.
    rigid, own:
        (k, n) efforts of rigid bodies, and those of the servo that positions oppose the command.
    late:
        (k, 1) times of the command without a delay.
    time, commanded:
        (n_samples,) and (n_samples, n) of all samples.

    """

    motion: tuple[np.ndarray, np.ndarray, np.ndarray]
    columns: np.ndarray
    used: np.ndarray
    stiffness: np.ndarray
    rigid: np.ndarray
    own: np.ndarray
    late: np.ndarray
    time: np.ndarray
    commanded: np.ndarray

    def effort(self, delay: np.ndarray) -> np.ndarray:
        """Return (k, n) pseudo-efforts for (n,) delays."""
        return interpolated(self.late - delay, self.time, self.commanded) - self.own

    def right(self, delay: np.ndarray) -> np.ndarray:
        """Return (n_rows,) right-hand sides in positions for (n,) delays."""
        return np.asarray(((self.effort(delay) - self.rigid) / self.stiffness)[self.used])


def _filtered(
    model: ServoModel, recording: CommandRecording, free: FreeParameters, stride: int
) -> _Filtered:
    """Return the equations of every ``stride``-th sample of a recording."""
    robot, n = model.robot, model.robot.n_joints
    period = recording.period
    time = np.arange(recording.time[0], recording.time[-1], period)
    cutoff = min(PSEUDO_EFFORT.cutoff, 0.2 / period)
    sections = signal.butter(4, cutoff, fs=1.0 / period, output='sos')
    pad = min(len(time) - 1, round(0.75 / period))

    def filtered(values: np.ndarray) -> np.ndarray:
        return np.asarray(signal.sosfiltfilt(sections, values, axis=0, padlen=pad))

    position, commanded = (
        filtered(interpolated(time[:, None], recording.time, values))
        for values in (recording.position, model.commanded(recording))
    )
    velocity = np.gradient(position, period, axis=0)
    acceleration = np.gradient(velocity, period, axis=0)
    # friction is filtered as the efforts are
    direction = filtered(np.sign(velocity))
    q, v, a, friction = (x[::stride] for x in (position, velocity, acceleration, direction))
    regressor = build(robot, ModelSettings())
    entries = regressor.rows(Motion(q, v, a)).reshape(len(q), n, -1)
    of_joints = {
        'armature': a,
        'viscous': v,
        'coulomb': friction,
        'slope': friction * (q - model.reference),
        'offset': np.ones_like(q),
    }
    columns = np.zeros((len(q), n, len(free.names)))
    for kind, places in free.places.items():
        if kind in of_joints:
            columns[:, np.arange(n), places] = of_joints[kind]
        if kind == 'center':
            for link, at in zip(robot.links, places.reshape(-1, 3), strict=True):
                by = _by_displacement(robot.prior.inertial(link))
                columns[..., at] = entries[..., regressor.layout.slice_of(link)] @ by
    counted = np.interp(time[::stride], recording.time, recording.counted()) > 0.5
    moving = np.abs(v) > PSEUDO_EFFORT.creep_share * np.sqrt((v**2).mean(axis=0))
    used = moving & (np.abs(friction) > PSEUDO_EFFORT.sure_direction) & counted[:, None]
    # a held command is half a period later than an interpolated one
    late = time[::stride, None] - (0.5 * period if model.held else 0.0)
    return _Filtered(
        motion=(q, v, a),
        columns=(columns / model.stiffness[:, None])[used],
        used=used,
        stiffness=model.stiffness,
        rigid=entries @ np.array([robot.prior.get(name) for name in regressor.layout]),
        own=model.stiffness * q + model.damping * v,
        late=late,
        time=time,
        commanded=commanded,
    )


def _by_displacement(inertial: np.ndarray) -> np.ndarray:
    """Return (10, 3) changes of a link's inertial parameters by its centre's displacement."""
    # they are quadratic, for which central differences are exact
    ahead, behind = (
        np.column_stack([displaced(inertial, shift) for shift in sign * np.eye(3)])
        for sign in (1.0, -1.0)
    )
    return np.asarray(0.5 * (ahead - behind))
