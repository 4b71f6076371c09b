# SPDX-License-Identifier: Apache-2.0
"""Standard deviations that a motion promises, and the information of earlier recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ExcitationError
from .criteria import covariance

ROW_RATE = 100.0
"""Rows per second that count as independent of each other [Hz]."""

NOISELESS = 1e-9
"""Least noise by the size of the efforts."""

UNKNOWN = 1.0
"""Relative deviation from which on a motion says little about a parameter."""


@dataclass(frozen=True)
class PredictedDeviations:
    """
    Predicted standard deviations of the base parameters after a motion.

    Attributes
    ----------
    names, units:
        Of the base parameters.
    std:
        (b,) standard deviations, those of earlier recordings included.
    values:
        (b,) values by the URDF.

    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    std: np.ndarray
    values: np.ndarray

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        units: tuple[str, ...],
        values: np.ndarray,
        information: np.ndarray,
    ) -> PredictedDeviations:
        """Return the deviations that a (b, b) information leaves."""
        return cls(names, units, np.sqrt(np.diagonal(covariance(information))), values)

    @property
    def relative(self) -> np.ndarray:
        """(b,) deviations by the size of the values; infinite where the value is 0."""
        with np.errstate(divide='ignore'):
            return self.std / np.abs(self.values)

    def repetitions(self, target: np.ndarray | float) -> np.ndarray:
        """Return how often (b,) the motion has to run for wanted deviations."""
        return np.ceil((self.std / target) ** 2)

    def summary(self) -> str:
        """Return a line: their geometric mean, and how many parameters are told apart from 0."""
        known = self.values != 0.0
        told = int((self.relative[known] < UNKNOWN).sum())
        mean = float(np.exp(np.log(self.std).mean()))
        return (
            f'predicted deviations: {mean:.3g} in geometric mean; {told} of {int(known.sum())} '
            'parameters that the URDF has below 100 % of their value'
        )


@dataclass(frozen=True)
class EarlierInformation:
    """
    Information of earlier recordings of the same problem.

    Attributes
    ----------
    names:
        Of the base parameters.
    information:
        (b, b) of the recordings.
    noise:
        (n_joints,) standard deviation of the residual of one of `ROW_RATE` rows per second.

    """

    names: tuple[str, ...]
    information: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        triangles: np.ndarray,
        rows: np.ndarray,
        independent_rows: np.ndarray,
        duration: float,
    ) -> EarlierInformation:
        """
        Return the information of QR factors, weighed by their own residuals.

        Parameters
        ----------
        names:
            Of the base parameters.
        triangles:
            (n, b + 1, b + 1) R of [W_j | tau_j] of each joint.
        rows, independent_rows:
            (n,) rows of each joint, and how many independent ones they count for.
        duration:
            Of the recordings [s].

        """
        b = triangles.shape[-1] - 1
        noise = np.ones(len(triangles))
        for _ in range(2):
            weighed = triangles / noise[:, None, None]
            stacked = np.concatenate(list(weighed))
            base, *_ = np.linalg.lstsq(stacked[:, :b], stacked[:, b], rcond=1e-12)
            residuals = np.linalg.norm(triangles @ np.append(base, -1.0), axis=1)
            # recordings without noise have residuals of rounding, or none
            least = NOISELESS * max(float(np.abs(triangles[..., b]).max()), 1e-9)
            noise = np.maximum(residuals / np.sqrt(np.maximum(rows, 1)), least)
        shares = np.sqrt(independent_rows / np.maximum(rows, 1)) / noise
        weighed = np.concatenate(list(triangles[..., :b] * shares[:, None, None]))
        per_second = np.maximum(independent_rows, 1.0) / duration
        return cls(tuple(names), weighed.T @ weighed, noise * np.sqrt(ROW_RATE / per_second))

    def require(self, names: tuple[str, ...]) -> None:
        """Raise `ExcitationError` where the base parameters are others than the plan's."""
        if self.names != names:
            raise ExcitationError(
                f'the earlier recordings tell of {len(self.names)} base parameters, the plan of '
                f'{len(names)}, and they are not the same',
                key='earlier',
                remedy='plan with the robot and the model (friction, rotor inertia) that the '
                'recordings were reduced with',
            )
