# SPDX-License-Identifier: Apache-2.0
"""
Efforts on the joints from outside, by a generalised momentum observer.

De Luca and Mattone (ICRA 2005) observe the momentum p = M(q) dq, whose rate needs no acceleration.
With the model ``M ddq + b(q, dq) = tau + tau_ext``,

    r = K (p - integral of (tau - b + dM/dt dq + r) dt - p(0)),

follows tau_ext like a first-order low-pass filter of the bandwidth K.  M and b are predictions of
the identified model, so all of its terms count: friction, rotors, coupled drives, closed loops.

An effort is taken for an outer one where it exceeds what the model may be off by: a multiple of
``sqrt(w C w' + s^2)``, of the row w of the regressor, the covariance C of the parameters and the
standard deviation s of the identification's residuals, and, for a joint near rest, the dry
friction too, whose direction is not known there.  It is a contact where it does so for a while: at
a reversal or a sudden stop the model is wrong for a moment only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.recording import Motion
from ..model.parameters import ParameterSet
from ..regressor import Regressor

LONGEST_STEP = 0.1
"""Time between samples after which the observer starts anew [s]."""

_CREEP = 1e-6  # speed of which friction is dry friction alone [rad/s or m/s]


@dataclass(frozen=True)
class ExternalEffort:
    """
    Efforts from outside at a sample.

    Attributes
    ----------
    stamp:
        Time of the sample [s].
    effort, threshold:
        (n_joints,) effort, and by how much the model may be off [N m or N].
    contact:
        (n_joints,) bool, whether the effort has been beyond the threshold for long enough.

    """

    stamp: float
    effort: np.ndarray
    threshold: np.ndarray
    contact: np.ndarray


class MomentumObserver:
    """
    Observer of efforts on the joints from outside, sample by sample.

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
    bandwidth:
        K [1/s].
    multiple:
        Standard deviations from which on an effort is from outside.
    hold:
        Time for which an effort has to be beyond the threshold to be a contact [s].
    rest:
        (n_joints,) speed below which the direction of dry friction is not known [rad/s or m/s].

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
        *,
        bandwidth: float = 20.0,
        multiple: float = 6.0,
        hold: float = 0.15,
        rest: np.ndarray | float = 0.05,
    ) -> None:
        n = regressor.n_joints
        self._regressor, self._base = regressor, np.asarray(base.values)
        self._columns = regressor.layout.indices(base.layout.names)
        self._covariance = np.nan_to_num(covariance, posinf=0.0, neginf=0.0)
        self._residual = np.broadcast_to(np.nan_to_num(residual), n)
        self._bandwidth, self._multiple, self._hold = bandwidth, multiple, hold
        self._rest = np.broadcast_to(np.asarray(rest, dtype=float), n)
        self.reset()

    def reset(self) -> None:
        """Start anew with the next sample."""
        n = self._regressor.n_joints
        self._stamp: float | None = None
        self._mass = np.zeros((n, n))
        self._velocity, self._net, self._left, self._observed = np.zeros((4, n))
        self._beyond = np.full(n, np.inf)  # stamp from which on the threshold is exceeded

    def push(
        self, stamp: float, position: np.ndarray, velocity: np.ndarray, effort: np.ndarray
    ) -> ExternalEffort | None:
        """
        Take a sample.

        Parameters
        ----------
        stamp:
            Its time [s].
        position, velocity, effort:
            (n_joints,) at the joints.

        Returns
        -------
        ExternalEffort or None
            None for the first sample, after a gap, and for a stamp that does not increase.

        """
        step = np.inf if self._stamp is None else stamp - self._stamp
        if step <= 0.0:
            return None
        if step > LONGEST_STEP:
            self.reset()
        mass, bias, dry, rows = self._model(position, velocity)
        net = effort - bias
        if self._stamp is not None:
            # p - p(0) - integral of (tau - b + dM/dt dq) over the step, by trapezoids; the change
            # of M dq less that of M along the mean velocity is the mean M by the change of dq
            self._left += 0.5 * (mass + self._mass) @ (velocity - self._velocity)
            self._left -= 0.5 * step * (net + self._net)
            # less the integral of r, by the implicit rule, which is stable for any step
            self._observed = self._left / (1.0 / self._bandwidth + step)
            self._left -= step * self._observed
        first, self._stamp = self._stamp is None, stamp
        self._mass, self._velocity, self._net = mass, velocity.copy(), net
        if first:
            return None
        model = np.einsum('ij,jk,ik->i', rows, self._covariance, rows)
        threshold = self._multiple * np.sqrt(np.maximum(model, 0.0) + self._residual**2)
        threshold += np.where(np.abs(velocity) < self._rest, dry, 0.0)
        beyond = np.abs(self._observed) > threshold
        self._beyond = np.where(beyond, np.minimum(self._beyond, stamp), np.inf)
        contact = stamp - self._beyond >= self._hold
        return ExternalEffort(stamp, self._observed, threshold, contact)

    def _model(
        self, position: np.ndarray, velocity: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return M, b, the size of dry friction, and the rows of b in base columns."""
        n = position.size
        # unit accelerations from rest, rest, the sample, and creeping both ways
        speeds = np.vstack(
            [np.zeros((n + 1, n)), velocity, np.full(n, _CREEP), -np.full(n, _CREEP)]
        )
        accelerations = np.vstack([np.eye(n), np.zeros((4, n))])
        motion = Motion(np.tile(position, (n + 4, 1)), speeds, accelerations)
        rows = self._regressor.rows(motion).reshape(n + 4, n, -1)[:, :, self._columns]
        efforts = rows @ self._base
        mass = (efforts[:n] - efforts[n]).T
        dry = 0.5 * np.abs(efforts[n + 2] - efforts[n + 3])
        return mass, efforts[n + 1], dry, rows[n + 1]
