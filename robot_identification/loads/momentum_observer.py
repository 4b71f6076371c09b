# SPDX-License-Identifier: Apache-2.0
"""
External efforts on the joints, by a generalised momentum observer.

De Luca and Mattone (ICRA 2005) observe the momentum p = M(q) dq, whose rate needs no acceleration.
With the model ``M ddq + b(q, dq) = tau + tau_ext``,

    r = K (p - integral of (tau - b + dM/dt dq + r) dt - p(0)),

follows tau_ext like a first-order low-pass filter of the bandwidth K.  M and b are predictions of
the identified model, so all of its terms count: friction, rotors, coupled drives, closed loops.

An effort is a contact if it exceeds what the model may be off by, z sqrt(w C w' + s^2), with the
row w of the regressor, the covariance C of the parameters and the standard deviation s of the
identification's residuals, for longer than ``hold``: at a reversal or a sudden stop the model is
wrong for a moment only.  Near rest the direction of friction is unknown: the model leaves it out
there, and its size is added to what the model may be off by.

z follows from the rate f of false alarms that is wanted.  A first-order low-pass of bandwidth K
has the correlation time 2 / K, so n joints give n K / 2 independent values in a unit of time, of
which f are expected beyond z where 2 Q(z) = 2 f / (n K), with the normal distribution's tail Q.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..data.recording import Motion
from ..model.parameters import ParameterSet
from ..options.fields import option
from ..regressor import Regressor
from ..signals.windows import LocalFit, LocalState

LONGEST_STEP = 0.1
"""Time between samples after which the observer starts again [s]."""


@dataclass(frozen=True)
class ObserverSettings:
    """Settings of the observer of external efforts."""

    bandwidth: float = option(
        20.0,
        doc='Bandwidth of the observer, at most that of the filters of the identification',
        unit='1/s',
        minimum=0.1,
        maximum=1000.0,
        read_only=True,
    )
    false_alarms: float = option(
        1e-4,
        doc='How often, at most, a contact is to be reported where there is none, by the '
        'uncertainty of the parameters and the residuals of the identification; 1e-4 is about '
        'once a year',
        unit='1/h',
        minimum=1e-12,
        maximum=1e4,
        read_only=True,
    )
    hold: float = option(
        0.15,
        doc='Time for which an effort has to be beyond the threshold to be a contact',
        unit='s',
        minimum=0.0,
        read_only=True,
    )
    rest: float = option(
        0.05,
        doc='Speed below which friction, whose direction is not known there, is added to the '
        'threshold',
        unit='rad/s or m/s',
        minimum=1e-6,
        read_only=True,
    )

    def deviations(self, n_joints: int) -> float:
        """Return z: standard deviations above which an effort is an external one."""
        values = 3600.0 * 0.5 * n_joints * self.bandwidth  # independent ones in an hour
        return float(-ndtri(0.5 * min(self.false_alarms / values, 1.0)))


@dataclass(frozen=True)
class ExternalEffort:
    """
    External efforts at a sample.

    Attributes
    ----------
    stamp:
        Time of the sample [s].
    effort, threshold:
        (n_joints,) effort, and by how much the model may be off [N m or N].
    predicted:
        (n_joints,) effort by the model; NaN without an acceleration [N m or N].
    contact:
        (n_joints,) bool, whether the effort has been beyond the threshold for long enough.

    """

    stamp: float
    effort: np.ndarray
    threshold: np.ndarray
    predicted: np.ndarray
    contact: np.ndarray


class MomentumObserver:
    """
    Observer of external efforts on the joints, sample by sample.

    Parameters
    ----------
    regressor:
        The model.
    base:
        Base parameters of an estimate; names are those of the regressor's columns.
    covariance:
        (b, b) of their errors; NaN and infinity count as 0.
    residual:
        (n_joints,) standard deviation of the identification's residuals [N m or N].
    settings:
        Bandwidth and threshold.

    Raises
    ------
    ValueError
        if a base parameter is not a column of the regressor.

    """

    def __init__(
        self,
        regressor: Regressor,
        base: ParameterSet,
        covariance: np.ndarray,
        residual: np.ndarray,
        settings: ObserverSettings = ObserverSettings(),
    ) -> None:
        n = regressor.n_joints
        self._regressor = regressor
        self._columns = regressor.layout.indices(base.layout.names)
        self._values = np.zeros(len(regressor.layout))
        self._values[self._columns] = base.values
        self._covariance = np.nan_to_num(covariance, posinf=0.0, neginf=0.0)
        self._residual = np.broadcast_to(np.nan_to_num(residual), n)
        self._settings, self._deviations = settings, settings.deviations(n)
        # unit accelerations from rest, rest, b, the edges of what counts as rest, the motion
        edge = np.full((1, n), settings.rest)
        still = np.zeros((n + 1, n))
        self._speeds = np.vstack([still, still[:1], edge, -edge, still[:1]])
        self._accelerations = np.vstack([np.eye(n), np.zeros((5, n))])
        self.reset()

    def reset(self) -> None:
        """Start again with the next sample."""
        n = self._regressor.n_joints
        self._stamp: float | None = None
        self._mass = np.zeros((n, n))
        self._velocity, self._net, self._left, self._observed = np.zeros((4, n))
        self._beyond = np.full(n, np.inf)  # stamp since which the threshold is exceeded

    def push(
        self,
        stamp: float,
        position: np.ndarray,
        velocity: np.ndarray,
        effort: np.ndarray,
        acceleration: np.ndarray | None = None,
    ) -> ExternalEffort | None:
        """
        Take a sample.

        Parameters
        ----------
        stamp:
            Its time [s].
        position, velocity, effort:
            (n_joints,) at the joints.
        acceleration:
            (n_joints,) for ``predicted``, which alone needs it [rad/s^2 or m/s^2].

        Returns
        -------
        ExternalEffort or None
            None for the first sample, also after a gap or a clock that goes back, and for a sample
            that comes late or twice.

        """
        step = np.inf if self._stamp is None else stamp - self._stamp
        if -LONGEST_STEP <= step <= 0.0:
            return None
        if not -LONGEST_STEP <= step <= LONGEST_STEP:
            self.reset()
        resting = np.abs(velocity) < self._settings.rest
        moving = np.where(resting, 0.0, velocity)
        if acceleration is None:
            acceleration = np.full_like(position, np.nan)
        mass, bias, friction, predicted, rows = self._model(
            position, moving, velocity, acceleration
        )
        net = effort - bias
        if self._stamp is not None:
            # p - p(0) - integral of (tau - b + dM/dt dq) over the step, by trapezoids; the change
            # of M dq less that of M along the mean velocity is the mean M by the change of dq
            self._left += 0.5 * (mass + self._mass) @ (velocity - self._velocity)
            self._left -= 0.5 * step * (net + self._net)
            # less the integral of r, by the implicit rule, which is stable for any step
            self._observed = self._left / (1.0 / self._settings.bandwidth + step)
            self._left -= step * self._observed
        first, self._stamp = self._stamp is None, stamp
        self._mass, self._velocity, self._net = mass, velocity.copy(), net
        if first:
            return None
        model = np.einsum('ij,ij->i', rows @ self._covariance, rows)
        threshold = self._deviations * np.sqrt(np.maximum(model, 0.0) + self._residual**2)
        threshold += np.where(resting, friction, 0.0)
        beyond = np.abs(self._observed) > threshold
        self._beyond = np.where(beyond, np.minimum(self._beyond, stamp), np.inf)
        contact = stamp - self._beyond >= self._settings.hold
        return ExternalEffort(stamp, self._observed, threshold, predicted, contact)

    def _model(
        self,
        position: np.ndarray,
        moving: np.ndarray,
        velocity: np.ndarray,
        acceleration: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """
        Return M, b at the speeds ``moving``, the size of friction near rest, and the prediction.

        The rows of b in base columns are last.
        """
        n = position.size
        speeds, accelerations = self._speeds, self._accelerations
        speeds[n + 1], speeds[n + 4], accelerations[n + 4] = moving, velocity, acceleration
        motion = Motion(np.tile(position, (n + 5, 1)), speeds, accelerations)
        rows = self._regressor.rows(motion)
        efforts = (rows @ self._values).reshape(n + 5, n)
        mass = (efforts[:n] - efforts[n]).T
        friction = 0.5 * np.abs(efforts[n + 2] - efforts[n + 3])
        bias = rows[(n + 1) * n : (n + 2) * n, self._columns]
        return mass, efforts[n + 1], friction, efforts[n + 4], bias


@dataclass(frozen=True)
class Observation:
    """Motion, (n_joints,) measured effort [N m or N] and what the observer finds at a moment."""

    state: LocalState
    measured: np.ndarray
    external: ExternalEffort


class EffortWatch:
    """
    Predicted and external efforts along positions and efforts that come in one by one.

    Motion and effort are those of a `LocalFit`, half a window before the newest sample, since
    delays of velocities that drivers report are unknown; ``window`` is that of the fit [s].
    """

    def __init__(self, observer: MomentumObserver, window: float) -> None:
        self._observer, self._fit = observer, LocalFit(window)

    def push(self, stamp: int, position: np.ndarray, effort: np.ndarray) -> Observation | None:
        """
        Take a sample: stamp [ns], (n_joints,) finite positions [rad or m] and efforts [N m or N].

        Returns None until the window is full and the observer has begun.
        """
        self._fit.push(stamp, position, effort)
        state = self._fit.state()
        if state is None or state.effort is None:
            return None
        external = self._observer.push(
            1e-9 * state.stamp, state.position, state.velocity, state.effort, state.acceleration
        )
        return None if external is None else Observation(state, state.effort, external)
