# SPDX-License-Identifier: Apache-2.0
"""
Least squares on pseudo-efforts, the efforts that the servos' gains imply, for many delays at once.

The pseudo-effort ``kp (command(t - delay) - q) + kd (command_velocity - v) + feedforward`` less
the rigid bodies' effort is regressed on columns of the product's regressor: rotor inertia, viscous
and Coulomb friction and offset of each joint, and the changes of inertial parameters by displaced
centres of mass.  Rows are divided by kp, so that residuals are positions.  The delay acts on the
right-hand side alone, and one QR factor serves all delays.

The delay of the least sum of squares depends on the filter, and gains cannot be estimated this
way: the residual is smallest for none.  So this is the start of the rollouts' fit, and no answer
by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import signal
from scipy.optimize import lsq_linear

from ..data.commands import CommandRecording
from ..data.recording import Motion
from ..errors import IdentifiabilityError
from ..model.parameters import INERTIAL_SYMBOLS, ParameterLayout
from ..regressor import build, ModelSettings
from .model import interpolated, ServoModel
from .parameters import (
    CORRELATION_TIME,
    displaced,
    FreeParameters,
    ServoParameters,
    typical_changes,
)
from .settings import ServoSettings

CUTOFF = 10.0
"""Cut-off of the zero-phase low-pass [Hz]; at most a fifth of the sampling rate."""

CREEP = 0.02
"""Share of a joint's root mean square velocity below which friction has no direction."""

DELAYS = np.round(np.arange(-0.02, 0.1201, 0.0025), 6)
"""Delays for which there are estimates [s]."""

ROWS = 6000
"""Samples of all recordings that enter; of more, every k-th does."""

SYMBOLS = {'armature': 'Ia', 'viscous': 'fv', 'coulomb': 'fc', 'slope': 'fc', 'offset': 'off'}
"""The regressor's symbols of kinds that have a column of each joint there."""


@dataclass(frozen=True)
class PseudoEffortFits:
    """
    Least-squares estimates by the delay.

    Attributes
    ----------
    free:
        The free parameters; gains and the delay are not estimated.
    triangle:
        (p + k, p + n_delays) upper triangle of the columns and of the right-hand sides.
    prior:
        (p,) weights of the priors, by the norm of the residual.
    changes:
        Changes of parameters that change efforts by a tenth, by kind.

    """

    free: FreeParameters
    triangle: np.ndarray
    prior: np.ndarray
    changes: Mapping[str, np.ndarray]

    @property
    def residuals(self) -> np.ndarray:
        """(n_delays,) norms of the residuals, without priors and bounds."""
        return np.asarray(
            np.linalg.norm(self.triangle[self.prior.size :, self.prior.size :], axis=0)
        )

    def parameters(self, k: int) -> ServoParameters:
        """Return the estimate for the k-th of `DELAYS`."""
        p = self.prior.size
        columns, right = self.triangle[:p, :p], self.triangle[:p, p + k]
        with_prior = np.vstack((columns, np.diag(self.residuals[k] * self.prior)))
        vector = bounded(with_prior, np.append(right, np.zeros(p)), *self.free.bounds())
        delay = np.full(len(self.free.joints), DELAYS[k])
        return replace(self.free.parameters(vector), delay=delay)


def bounded(
    columns: np.ndarray,
    right: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    damping: float = 0.0,
) -> np.ndarray:
    """Return the least-squares solution within bounds; damping is by the columns' squares."""
    norms = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    damped = np.vstack((columns / norms, np.sqrt(damping) * np.eye(norms.size)))
    right = np.append(right, np.zeros(norms.size))
    found = lsq_linear(damped, right, (lower * norms, upper * norms), method='bvls')
    return np.asarray(found.x / norms)


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
        naming a joint that does not move, or for fewer positions than parameters.

    """
    robot = model.robot
    wanted = tuple(kind for kind in kinds if kind in SYMBOLS or kind == 'center')
    neutral = ServoParameters.with_neutral(robot.n_joints)
    free = FreeParameters(wanted, neutral, robot.joints, settings.bus_numbers(robot.joints))
    stride = -(-sum(map(len, recordings)) // ROWS)
    found = [_equations(model, recording, free, stride) for recording in recordings]
    rows, *motions, effort = (np.concatenate(parts) for parts in zip(*found, strict=True))
    motion = Motion(*motions)
    still = motion.velocity.std(axis=0) < 1e-6
    if still.any():
        joint = robot.joints[int(np.argmax(still))]
        raise IdentifiabilityError(
            f"joint '{joint}' does not move in the recordings",
            joint=joint,
            remedy='command a motion of it, or lock it (robot.locked)',
        )
    size = len(free.names)
    if len(rows) < size:
        raise IdentifiabilityError(
            f'the recordings have {len(rows)} positions of joints in motion for {size} parameters',
            remedy='record longer',
        )
    alike = max(1.0, CORRELATION_TIME / (recordings[0].period * stride))
    prior = np.sqrt(alike / len(rows)) / free.prior_std(settings)
    triangle = np.asarray(np.linalg.qr(rows, mode='r'))
    return PseudoEffortFits(free, triangle, prior, typical_changes(motion, effort))


def _equations(
    model: ServoModel, recording: CommandRecording, free: FreeParameters, stride: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """
    Return equations, and filtered motion and efforts, at every ``stride``-th sample.

    Rows are p columns and n_delays right-hand sides in positions, of joints that move; position,
    velocity, acceleration and the pseudo-effort without delay are (k, n).
    """
    robot, n = model.robot, model.robot.n_joints
    period = recording.period
    time = np.arange(recording.time[0], recording.time[-1], period)
    sections = signal.butter(4, min(CUTOFF, 0.2 / period), fs=1.0 / period, output='sos')
    pad = min(len(time) - 1, round(0.75 / period))

    def filtered(values: np.ndarray) -> np.ndarray:
        uniform = interpolated(time[:, None], recording.time, values)
        return np.asarray(signal.sosfiltfilt(sections, uniform, axis=0, padlen=pad))

    position = filtered(recording.position)
    velocity = np.gradient(position, period, axis=0)
    acceleration = np.gradient(velocity, period, axis=0)
    commanded = filtered(model.commanded(recording))
    thin = slice(None, None, stride)
    motion = Motion(position[thin], velocity[thin], acceleration[thin])
    own = model.stiffness * motion.position + model.damping * motion.velocity

    def pseudo_effort(delay: float) -> np.ndarray:
        # a held command is half a period later than an interpolated one
        late = time[thin, None] - delay - (0.5 * period if model.held else 0.0)
        return interpolated(late, time, commanded) - own

    regressor = build(robot, ModelSettings())
    entries = regressor.rows(motion).reshape(len(own), n, -1)
    rigid = entries @ np.array([robot.prior.get(name) for name in regressor.layout])
    columns = [_columns(model, regressor.layout, entries, motion, kind) for kind in free.kinds]
    columns += [(pseudo_effort(delay) - rigid)[..., None] for delay in DELAYS]
    equations = np.concatenate(columns, axis=2) / model.stiffness[:, None]
    speed = np.sqrt((motion.velocity**2).mean(axis=0))
    counted = np.interp(time[thin], recording.time, recording.counted()) > 0.5
    used = (np.abs(motion.velocity) > CREEP * speed) & counted[:, None]
    effort = pseudo_effort(0.0)
    return equations[used], motion.position, motion.velocity, motion.acceleration, effort


def _columns(
    model: ServoModel, layout: ParameterLayout, entries: np.ndarray, motion: Motion, kind: str
) -> np.ndarray:
    """Return (k, n, p_kind) columns of a kind of parameter."""
    robot = model.robot
    if kind == 'center':
        parts = []
        for link in robot.links:
            at = layout.indices(f'{link}.{symbol}' for symbol in INERTIAL_SYMBOLS)
            parts.append(entries[:, :, at] @ _by_displacement(robot.prior.inertial(link)))
        return np.concatenate(parts, axis=2)
    own = entries[:, :, layout.indices(f'{joint}.{SYMBOLS[kind]}' for joint in robot.joints)]
    if kind == 'slope':
        own = own * (motion.position - model.reference)[:, None, :]
    return np.asarray(own)


def _by_displacement(inertial: np.ndarray) -> np.ndarray:
    """Return (10, 3) changes of a link's inertial parameters by its centre's displacement."""
    # they are quadratic, for which central differences are exact
    ahead, behind = (
        np.column_stack([displaced(inertial, shift) for shift in sign * np.eye(3)])
        for sign in (1.0, -1.0)
    )
    return np.asarray(0.5 * (ahead - behind))
