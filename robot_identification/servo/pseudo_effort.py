# SPDX-License-Identifier: Apache-2.0
"""
Least squares on pseudo-efforts, the efforts that the servos' gains imply, for many delays at once.

The pseudo-effort ``kp (command(t - delay) - q) + kd (command_velocity - v) + feedforward`` less
the rigid bodies' effort is regressed on columns of the product's regressor: rotor inertia, viscous
and Coulomb friction and offset of each joint, and the changes of inertial parameters by displaced
centres of mass.  Rows are divided by kp, so that residuals are positions.  The delay acts on the
right-hand side alone, and one QR factor serves all delays.

The delay of the least sum of squares depends on the filter, and gains cannot be estimated this
way: the residual is smallest for none.  So this is the start of the rollouts' fit, and an answer
only where no simulator is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import signal
from scipy.optimize import lsq_linear

from ..data.commands import CommandRecording
from ..data.recording import Motion
from ..errors import IdentifiabilityError
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout
from ..regressor import build, ModelSettings
from .model import interpolated, ServoModel
from .parameters import CORRELATION_TIME, FreeParameters, Scales, ServoParameters
from .settings import ServoSettings

CUTOFF = 10.0
"""Cut-off of the zero-phase low-pass [Hz]; at most a fifth of the sampling rate."""

CREEP = 0.02
"""Share of a joint's root mean square velocity below which friction has no direction."""

DELAYS = np.round(np.arange(-0.02, 0.1201, 0.0025), 6)
"""Delays for which there are estimates [s]."""

ROWS = 6000
"""Samples of all recordings that enter; of more, every k-th does."""

SYMBOLS = {'armature': 'Ia', 'viscous': 'fv', 'coulomb': 'fc', 'offset': 'off'}
"""The regressor's symbols of kinds that have a column of each joint there."""


@dataclass(frozen=True)
class PseudoEffortFits:
    """
    Least-squares estimates by the delay.

    Attributes
    ----------
    free:
        The free parameters; gains and the delay are not estimated.
    scales:
        Sizes of efforts and motions.
    factor:
        (p + 1, p + n_delays) upper triangle of the columns and of the right-hand sides.
    priors:
        (p,) standard deviations of the priors.
    rows:
        Number of rows of the factor.
    alike:
        Rows of a joint within which errors are alike.

    """

    free: FreeParameters
    scales: Scales
    factor: np.ndarray
    priors: np.ndarray
    rows: int
    alike: float

    @property
    def best(self) -> float:
        """Delay of the least sum of squares [s]."""
        costs = {float(delay): self._solved(float(delay))[1] for delay in DELAYS}
        return min(costs, key=lambda delay: costs[delay])

    def parameters(self, delay: float) -> ServoParameters:
        """Return the estimate for one of `DELAYS` [s]."""
        return replace(
            self.free.parameters(self._solved(delay)[0]),
            delay=np.full(len(self.free.joints), delay),
        )

    @cached_property
    def _solutions(self) -> dict[float, tuple[np.ndarray, float]]:
        return {}

    def _solved(self, delay: float) -> tuple[np.ndarray, float]:
        """Return the vector and the sum of squares for a delay."""
        if delay in self._solutions:
            return self._solutions[delay]
        p = self.priors.size
        columns = self.factor[:, :p]
        target = self.factor[:, p + int(np.flatnonzero(delay == DELAYS)[0])]
        known = np.isfinite(self.priors)
        vector = np.zeros(p)
        cost = 0.0
        weight = np.zeros(p)
        # without the priors' columns first, which gives the error that weights them
        for used in (~known, np.ones(p, bool)) if known.any() else (~known,):
            scaled = np.vstack((columns[:, used], np.diag(weight[used])))
            right = np.concatenate((target, np.zeros(used.sum())))
            low, high = (side[used] for side in self.free.bounds())
            norms = np.linalg.norm(scaled, axis=0)
            norms[norms == 0.0] = 1.0
            found = lsq_linear(scaled / norms, right, (low * norms, high * norms), method='bvls')
            vector[used] = found.x / norms
            rest = columns @ vector - target
            cost = float(rest @ rest)
            weight[known] = np.sqrt(cost / self.rows * self.alike) / self.priors[known]
        self._solutions[delay] = vector, cost
        return vector, cost


def fit_pseudo_efforts(
    model: ServoModel,
    recordings: Sequence[CommandRecording],
    settings: ServoSettings,
    kinds: Sequence[str],
) -> PseudoEffortFits:
    """
    Fold recordings into least squares on pseudo-efforts.

    Parameters
    ----------
    model:
        The robot with its gains, as they are given.
    recordings:
        Stretches without gaps.
    settings:
        Of the servos, with the priors.
    kinds:
        Kinds of free parameters; the delay is searched, and factors on gains are left at 1.

    Raises
    ------
    IdentifiabilityError
        naming a joint that does not move.

    """
    robot = model.robot
    wanted = tuple(kind for kind in kinds if kind in SYMBOLS or kind in ('center', 'slope'))
    free = FreeParameters(
        wanted,
        ServoParameters.with_neutral(robot.n_joints),
        robot.joints,
        settings.bus_numbers(robot.joints),
    )
    total = sum(len(recording) for recording in recordings)
    stride = max(1, -(-total // ROWS))
    size = len(free.names)
    factor = np.zeros((0, size + len(DELAYS)))
    motions, efforts, rows = [], [], 0
    for recording in recordings:
        motion, columns, right, effort = _equations(model, recording, free, stride)
        motions.append(motion)
        efforts.append(effort)
        moving = _moving(motion, stride)
        moving &= _counted(recording)[::stride, None]
        block = np.concatenate((columns, right), axis=2)[moving]
        rows += len(block)
        factor = np.asarray(np.linalg.qr(np.vstack((factor, block)), mode='r'))
    scales = _scales(motions, efforts)
    still = scales.velocity < 1e-6
    if still.any() or not rows:
        joint = robot.joints[int(np.argmax(still))]
        raise IdentifiabilityError(
            f"joint '{joint}' does not move in the recordings",
            joint=joint,
            remedy='command a motion of it, or lock it (robot.locked)',
        )
    period = recordings[0].period * stride
    alike = max(1.0, CORRELATION_TIME / period)
    return PseudoEffortFits(free, scales, factor, free.prior_std(settings), rows, alike)


def _equations(
    model: ServoModel, recording: CommandRecording, free: FreeParameters, stride: int
) -> tuple[Motion, np.ndarray, np.ndarray, np.ndarray]:
    """
    Return the filtered motion, and equations at every ``stride``-th sample.

    These are (k, n, p) columns and (k, n, n_delays) right-hand sides in positions, and the
    (k, n) pseudo-effort without delay.
    """
    robot, n = model.robot, model.robot.n_joints
    period = recording.period
    time = np.arange(recording.time[0], recording.time[-1], period)
    cutoff = min(CUTOFF, 0.2 / period)
    sections = signal.butter(4, cutoff, fs=1.0 / period, output='sos')

    def filtered(values: np.ndarray) -> np.ndarray:
        pad = min(len(values) - 1, round(0.75 / period))
        return np.asarray(signal.sosfiltfilt(sections, values, axis=0, padlen=pad))

    q = filtered(interpolated(time[:, None], recording.time, recording.position))
    v = np.gradient(q, period, axis=0)
    a = np.gradient(v, period, axis=0)
    motion = Motion(q, v, a)
    thin = Motion(q[::stride], v[::stride], a[::stride])
    regressor = build(robot, ModelSettings())
    rows = regressor.rows(thin).reshape(len(thin), n, -1)
    prior = np.array([robot.prior.get(name) for name in regressor.layout])
    columns = [_columns(model, regressor.layout, rows, thin, kind) for kind in free.kinds]

    def pseudo_effort(delay: float) -> np.ndarray:
        # a held command is half a period later than an interpolated one
        late = time - delay - (0.5 * period if model.held else 0.0)

        def commanded(values: np.ndarray) -> np.ndarray:
            return filtered(interpolated(late[:, None], recording.time, values))[::stride]

        effort = model.stiffness * (commanded(recording.command) - thin.position)
        effort -= model.damping * thin.velocity
        if recording.command_velocity is not None:
            effort += model.damping * commanded(recording.command_velocity)
        if recording.feedforward is not None:
            effort += commanded(recording.feedforward)
        return np.asarray(effort)

    rigid = rows @ prior
    right = np.stack([pseudo_effort(float(delay)) - rigid for delay in DELAYS], axis=2)
    per = model.stiffness[:, None]
    return motion, np.concatenate(columns, axis=2) / per, right / per, pseudo_effort(0.0)


def _columns(
    model: ServoModel, layout: ParameterLayout, rows: np.ndarray, motion: Motion, kind: str
) -> np.ndarray:
    """Return (k, n, p_kind) columns of a kind of parameter."""
    robot = model.robot
    if kind == 'center':
        parts = []
        for link in robot.links:
            at = layout.indices(f'{link}.{symbol}' for symbol in INERTIAL_SYMBOLS[1:])
            parts.append(rows[:, :, at] @ _by_displacement(robot.prior.inertial(link)))
        return np.concatenate(parts, axis=2)
    symbol = SYMBOLS['coulomb' if kind == 'slope' else kind]
    own = rows[:, :, layout.indices(f'{joint}.{symbol}' for joint in robot.joints)]
    if kind == 'slope':
        own = own * (motion.position - model.reference)[:, None, :]
    return np.asarray(own)


def _by_displacement(inertial: np.ndarray) -> np.ndarray:
    """
    Return (9, 3) changes of a link's first moments and inertia by its centre's displacement.

    The inertia about the centre of mass stays, so that of ``I = I_c + m (c.c 1 - c c^T)`` the
    second term changes, to first order.
    """
    mass, h = inertial[0], inertial[1:4]
    changes = np.zeros((9, 3))
    changes[:3] = mass * np.eye(3)
    for axis in range(3):
        e = np.eye(3)[axis]
        tensor = 2.0 * h[axis] * np.eye(3) - np.outer(h, e) - np.outer(e, h)
        changes[3:, axis] = tensor[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return changes


def _moving(motion: Motion, stride: int) -> np.ndarray:
    """Return (k, n) True where a joint moves; a fifth of a second at the ends is left out."""
    speed = np.sqrt((motion.velocity**2).mean(axis=0))
    moving = np.abs(motion.velocity[::stride]) > CREEP * speed
    edge = min(5, len(moving) // 10)
    moving[:edge] = moving[len(moving) - edge :] = False
    return np.asarray(moving)


def _counted(recording: CommandRecording) -> np.ndarray:
    """Return (n_grid,) True where a recording counts, on its uniform grid."""
    time = np.arange(recording.time[0], recording.time[-1], recording.period)
    at = np.searchsorted(recording.time, time, side='right') - 1
    return np.asarray(recording.counted()[at])


def _scales(motions: Sequence[Motion], efforts: Sequence[np.ndarray]) -> Scales:
    """Return sizes of efforts and motions over all recordings."""
    signals: Mapping[str, np.ndarray] = {
        name: np.concatenate([getattr(motion, name) for motion in motions])
        for name in ('position', 'velocity', 'acceleration')
    }
    effort = np.sqrt((np.concatenate(efforts) ** 2).mean(axis=0))
    return Scales(
        np.maximum(effort, 1e-9),
        *(np.maximum(signals[name].std(axis=0), 1e-9) for name in signals),
    )
