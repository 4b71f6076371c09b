# SPDX-License-Identifier: Apache-2.0
"""
Errors of efforts that are to be expected on motions that were not recorded.

An error has two parts.  Those of the parameters, with covariance C, make efforts err by
``sqrt(diag(Y C Y'))``, with Y the rows of the motion.  What the model lacks stays as it is in the
residuals: those of the identification, or of a validation where they are larger.

Standard deviations count noise alone; what of C is the data's is multiplied by the square of
`spread`, by which parts of the recordings contradict them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.recording import Motion
from ..model.robot import Robot
from ..options.document import plain
from ..regressor.inverse_dynamics import Regressor
from .estimate import Estimate, Fit
from .spread import inflated_covariance, spread
from .system import LinearSystem
from .validation import Validation


@dataclass(frozen=True)
class MotionConstants:
    """Constants of the motions that errors are predicted for."""

    samples: int = 400
    """States that are drawn."""
    least_share: float = 0.3
    """Least amplitude of a joint, as a share of half of its range."""
    widest: float = 1.5
    """Largest amplitude of a joint [rad or m]."""
    contact: float = 3.0
    """Root mean square errors from which an effort is a contact."""
    faster: float = 1.2
    """Ratio to the identified speeds above which a validation says nothing of them."""
    wide: float = 1.3
    """Errors that are stated by those that are expected: nine of ten motions stay below."""


MOTIONS = MotionConstants()


@dataclass(frozen=True)
class PredictedErrors:
    """
    Errors of predicted efforts that nine of ten motions stay below.

    Attributes
    ----------
    joints:
        Names of the n joints.
    speeds:
        (n,) highest speeds of the motions: those of the identification, within the URDF's limits
        [rad/s or m/s].
    relative:
        (n,) root mean square error by that of the effort, on motions within all of the joints'
        limits or on the recorded one, of which the larger [%].
    relative_error:
        The same over all joints [%].
    by_parameters:
        The share of it that errors of the parameters make, over all joints [%].
    contact:
        (n,) efforts that are larger than the error of the prediction: contacts [N m or N].
    gravity:
        Standard deviation of gravity's efforts by their size, over all joints [%].
    gravity_size:
        Size of gravity's efforts by that of the prior, without what is constant; NaN where the
        prior has none.
    inertia:
        (n,) standard deviation of the inertia that a joint feels, by its size [%].
    spread:
        By how much halves of the recordings, and joints, differ more than their deviations say;
        NaN where there is one part alone.
    undetermined:
        Number of base parameters without a deviation: their errors are not in it.
    effort:
        (n,) root mean square effort of the motion that the error over all joints is of [N m or N].

    """

    joints: tuple[str, ...]
    speeds: tuple[float, ...]
    relative: tuple[float, ...]
    relative_error: float
    by_parameters: float
    contact: tuple[float, ...]
    gravity: float
    gravity_size: float
    inertia: tuple[float, ...]
    spread: float
    undetermined: int
    effort: tuple[float, ...] = ()

    def over(self, joints: Collection[str]) -> float:
        """Return the error over some of the joints [%]; that over all where none is left."""
        chosen = np.isin(self.joints, list(joints))
        if not self.effort or chosen.all() or not chosen.any():
            return self.relative_error
        effort = np.asarray(self.effort)[chosen]
        return _share(np.asarray(self.relative)[chosen] / 100.0 * effort, effort)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name; NaN becomes None."""
        return {name: plain(value) for name, value in vars(self).items()}


def predicted_errors(
    estimate: Estimate,
    system: LinearSystem,
    regressor: Regressor,
    robot: Robot,
    prior: np.ndarray,
    validations: tuple[Validation, ...] = (),
    seed: int = 0,
) -> PredictedErrors | None:
    """
    Predict errors on random motions as fast as those of the identification.

    Parameters
    ----------
    estimate:
        The parameters and their covariance.
    system:
        The rows that they are of.
    regressor:
        Rows of a motion.
    robot:
        Gives the limits.
    prior:
        (p,) standard parameters before the identification.
    validations:
        On recordings that the identification has not seen; faster ones do not count.
    seed:
        Of the motions.

    Returns
    -------
    PredictedErrors or None
        None where rows are not those of joints, or the speeds are not known.

    """
    n, highest = robot.n_joints, np.asarray(system.factor.highest_speed, dtype=float)
    if regressor.n_joints != n or system.factor.n_joints != n or highest.shape != (n,):
        return None
    if not np.isfinite(highest).all():
        return None
    speeds = np.minimum(highest, robot.limits.velocity)
    motion = random_motion(robot, speeds, np.random.default_rng(seed))
    inflation = spread(system, estimate)
    covariance, undetermined = _covariance(estimate, system, max(1.0, np.nan_to_num(inflation)))
    base, columns = np.asarray(estimate.base.values), system.structure.independent

    def rows(motion: Motion) -> np.ndarray:
        """Return (m, n, b) rows of base parameters."""
        return regressor.rows(motion).reshape(-1, n, len(regressor.layout))[:, :, columns]

    def deviations(of: np.ndarray) -> np.ndarray:
        """Return (m, n) standard deviations of products with the parameters."""
        return np.sqrt(np.maximum(np.einsum('mni,ij,mnj->mn', of, covariance, of), 0.0))

    moving = rows(motion)
    effort, by_parameters = rms(moving @ base), rms(deviations(moving))
    still = np.zeros_like(motion.position)
    weights = rows(Motion(motion.position, still, still, friction_state=still))
    residual = _residuals(estimate.fit, _no_faster(validations, highest))
    # the residual is a larger share of the effort where a motion takes less
    motions = [(by_parameters, effort), _recorded(system, covariance)]
    shares = [_relative(*each, residual) for each in motions]
    larger = max(range(len(shares)), key=lambda place: shares[place][1])
    _, relative_error, share = shares[larger]
    weight = rms(weights @ base)
    inertia = [_inertia(rows, motion.position, weights, joint) for joint in range(n)]
    felt = np.array([rms(each @ base) for each in inertia])
    feel = np.array([rms(deviations(each[:, None])[:, 0]) for each in inertia])
    return PredictedErrors(
        joints=tuple(robot.joints),
        speeds=tuple(speeds.tolist()),
        relative=tuple(np.max([each for each, *_ in shares], axis=0).tolist()),
        relative_error=relative_error,
        by_parameters=share,
        contact=tuple((MOTIONS.contact * np.hypot(by_parameters, residual)).tolist()),
        gravity=_share(rms(deviations(weights)), weight),
        gravity_size=_size(weights @ base, weights @ (system.structure.regrouping @ prior)),
        inertia=tuple((100.0 * feel / np.maximum(felt, 1e-300)).tolist()),
        spread=inflation,
        undetermined=undetermined,
        effort=tuple(motions[larger][1].tolist()),
    )


def random_motion(robot: Robot, speeds: np.ndarray, random: np.random.Generator) -> Motion:
    """
    Draw states of sines within the position limits, whose speed reaches ``speeds``.

    Parameters
    ----------
    robot:
        Gives the limits; a joint without any turns by half a turn either way.
    speeds:
        (n,) highest speeds [rad/s or m/s].
    random:
        Source of random numbers.

    """
    lower, upper = (
        np.clip(limit, -np.pi, np.pi) for limit in (robot.limits.lower, robot.limits.upper)
    )
    shape = (MOTIONS.samples, len(speeds))
    half = 0.5 * (upper - lower)
    amplitude = half * random.uniform(MOTIONS.least_share, 1.0, shape)
    amplitude = np.clip(amplitude, 1e-6, MOTIONS.widest)
    middle = 0.5 * (lower + upper) + (half - amplitude).clip(0.0) * random.uniform(-1, 1, shape)
    phase = random.uniform(0.0, 2.0 * np.pi, shape)
    return Motion(
        middle + amplitude * np.sin(phase),
        speeds * np.cos(phase),
        -(speeds**2) / amplitude * np.sin(phase),
    )


def _covariance(
    estimate: Estimate, system: LinearSystem, inflation: float
) -> tuple[np.ndarray, int]:
    """Return (b, b) of the base parameters, and how many have no deviation: 0 is theirs."""
    covariance = np.asarray(estimate.uncertainty.covariance)
    known = np.isfinite(np.diag(covariance))
    standard = inflated_covariance(estimate, inflation)
    if standard is not None:  # with the prior's spread where nothing is seen
        return system.structure.regrouping @ standard @ system.structure.regrouping.T, 0
    covariance = np.where(np.outer(known, known), inflation**2 * covariance, 0.0)
    return covariance, int(np.count_nonzero(~known))


def rms(efforts: np.ndarray) -> np.ndarray:
    """Return the root mean square over samples, the first axis."""
    return np.asarray(np.sqrt(np.mean(np.square(efforts), axis=0)))


def _recorded(system: LinearSystem, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) deviations by parameters and efforts of the recorded motion."""
    count = np.maximum(1, system.factor.rows)[:, None, None]
    rows, effort = np.split(system.factor.triangles / np.sqrt(count), [-1], axis=2)
    variance = np.einsum('jki,il,jkl->j', rows, covariance, rows, optimize=True)
    return np.sqrt(np.maximum(variance, 0.0)), np.linalg.norm(effort, axis=(1, 2))


def _relative(
    deviation: np.ndarray, effort: np.ndarray, residual: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Return errors by the effort, of joints and all together, and parameters' share [%]."""
    error = MOTIONS.wide * np.hypot(deviation, residual)
    each = 100.0 * error / np.maximum(effort, 1e-300)
    return each, _share(error, effort), _share(MOTIONS.wide * deviation, effort)


def _share(error: np.ndarray, effort: np.ndarray) -> float:
    """Return an error over all joints by the effort [%]."""
    return float(100.0 * np.linalg.norm(error) / max(float(np.linalg.norm(effort)), 1e-300))


def _size(efforts: np.ndarray, others: np.ndarray) -> float:
    """Return the size of (m, n) efforts by that of others, both without their means."""
    first, second = (each - each.mean(axis=0) for each in (efforts, others))
    square = float((second**2).sum())
    return float((first * second).sum() / square) if square > 0.0 else np.nan


def _no_faster(validations: Sequence[Validation], highest: np.ndarray) -> list[Validation]:
    """Return those whose motions were no faster than the (n,) highest speeds."""
    bound = MOTIONS.faster * np.maximum(highest, 1e-9)
    return [each for each in validations if not (np.asarray(each.highest_speed) > bound).any()]


def _residuals(fit: Fit, validations: Sequence[Fit]) -> np.ndarray:
    """Return the larger residual of each joint, of the fit or of all validations (n,)."""
    own = np.array([joint.rmse for joint in fit.joints])
    if not validations:
        return np.nan_to_num(own)
    rows = np.array([[joint.rows for joint in each.joints] for each in validations])
    squares = np.array([[joint.rmse**2 for joint in each.joints] for each in validations])
    unseen = (np.nan_to_num(squares) * rows).sum(axis=0) / np.maximum(1, rows.sum(axis=0))
    return np.maximum(np.nan_to_num(own), np.sqrt(unseen))


def _inertia(rows: Any, position: np.ndarray, weights: np.ndarray, joint: int) -> np.ndarray:
    """Return (m, b) rows of the inertia that a joint feels."""
    still, unit = np.zeros_like(position), np.zeros_like(position)
    unit[:, joint] = 1.0
    moved = rows(Motion(position, still, unit, friction_state=still))
    return np.asarray((moved - weights)[:, joint])
