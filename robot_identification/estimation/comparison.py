# SPDX-License-Identifier: Apache-2.0
"""
Test of the hypothesis that two QR factors have the same parameters.

The general linear hypothesis (Seber and Lee, Linear Regression Analysis, 2nd ed., section 4.3;
with it Chow's test, Econometrica 28, 1960): the residual of one common set of parameters against
those of two separate sets.  With S the sums of squares of residuals in units of their standard
deviation, r the ranks and N the numbers of independent rows,

    F = ((S_0 - S_1 - S_2) / (r_1 + r_2 - r_0)) / ((S_1 + S_2) / (N_1 + N_2 - r_1 - r_2)).

Only what both factors tell is compared, so that motions may differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import IdentifiabilityError
from .factor import QRFactor
from .least_squares import joint_weights, ROUNDING, TOLERANCE
from .plot_samples import read_only

_ALIASED = 1e-10
"""Share of a parameter (squared) that the rows may leave open while it counts as identified."""


@dataclass(frozen=True)
class FTest:
    """
    A statistic that follows an F distribution where the parameters are the same.

    Attributes
    ----------
    statistic:
        About 1 where they are; NaN where nothing can be compared.
    freedom, residual_freedom:
        Degrees of freedom of numerator and denominator.
    p_value:
        Probability of a statistic this large where the parameters are the same.

    """

    statistic: float
    freedom: int
    residual_freedom: float
    p_value: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """
    Two factors held together.

    Attributes
    ----------
    names:
        (b,) of the base parameters.
    test:
        Of all joints' rows together.
    joints:
        Of each joint's rows alone, by its name: where the robots differ.
    values, std:
        (2, b) weighted least squares of either factor and its standard deviations; NaN where its
        rows do not tell the parameter.

    """

    names: tuple[str, ...]
    test: FTest
    joints: Mapping[str, FTest]
    values: np.ndarray
    std: np.ndarray

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def difference(self) -> np.ndarray:
        """(b,) the second factor's parameters minus the first's."""
        return self.values[1] - self.values[0]

    @property
    def difference_std(self) -> np.ndarray:
        """(b,) standard deviations of `difference`."""
        return np.hypot(self.std[0], self.std[1])

    @property
    def score(self) -> np.ndarray:
        """(b,) differences in standard deviations."""
        return self.difference / self.difference_std

    def differs(self, significance: float = 0.01) -> bool:
        """
        Tell whether the parameters differ significantly.

        Parameters
        ----------
        significance:
            Share of pairs with the same parameters that are taken for different ones.

        """
        return self.test.p_value < significance


@dataclass(frozen=True)
class _Told:
    """Information on scaled parameters: ``diag(singular) @ directions @ x = values`` and noise."""

    singular: np.ndarray  # (r,)
    directions: np.ndarray  # (r, k)
    values: np.ndarray  # (r,)
    squares: float  # sum of squares of the residual
    rows: float  # independent ones

    @classmethod
    def of(cls, triangle: np.ndarray, rows: float) -> _Told:
        u, s, vt = np.linalg.svd(triangle[:, :-1], full_matrices=False)
        known = s > TOLERANCE * s.max(initial=0.0)
        u, s, vt = u[:, known], s[known], vt[known]
        values = u.T @ triangle[:, -1]
        residual = triangle[:, -1] - u @ values
        return cls(s, vt, values, float(residual @ residual), rows)

    @property
    def matrix(self) -> np.ndarray:
        return self.singular[:, None] * self.directions

    def estimates(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and standard deviations of the parameters; NaN where they are not identified."""
        values = self.directions.T @ (self.values / self.singular)
        variance = self.squares / max(self.rows - self.singular.size, 1e-300)
        half = self.directions / self.singular[:, None]
        std = np.sqrt(variance * np.einsum('rk,rk->k', half, half))
        told = np.einsum('rk,rk->k', self.directions, self.directions) > 1.0 - _ALIASED
        return np.where(told, values, np.nan), np.where(told, std, np.nan)


def compare(one: QRFactor, two: QRFactor) -> Comparison:
    """
    Test whether two factors come from the same parameters.

    The rows of each joint are weighed by the standard deviation of their own least squares'
    residual, in either factor by its own: the noise may differ, as long as the parameters do not.

    Parameters
    ----------
    one, two:
        Factors of the same problem.

    Raises
    ------
    SettingsError, ModelError
        naming in what the problems differ, as `QRFactor.merge`.
    RecordingError
        naming a joint with too few rows to tell its noise.
    IdentifiabilityError
        where the two tell nothing in common.

    """
    difference = one.fingerprint.difference(two.fingerprint)
    if difference is not None:
        raise difference
    pair, weights = (one, two), (joint_weights(one), joint_weights(two))
    stacked = [factor.stacked(weight) for factor, weight in zip(pair, weights, strict=True)]
    told, seen, scale = _told(stacked, [factor.n_independent for factor in pair])
    test = _test(*told)
    if test.freedom == 0:
        raise IdentifiabilityError(
            'the two factors determine no parameters in common',
            remedy='compare recordings of similar motions',
        )
    estimates = np.full((2, 2, one.n_base), np.nan)
    for i, part in enumerate(told):
        estimates[:, i, seen] = np.array(part.estimates()) / scale
    joints = {}
    for j, joint in enumerate(one.joints):
        triangles = [w[j] * factor.triangles[j] for w, factor in zip(weights, pair, strict=True)]
        rows = [float(factor.independent_rows[j]) for factor in pair]
        joints[joint] = _test(*_told(triangles, rows)[0])
    return Comparison(one.fingerprint.base, test, joints, *estimates)


def _told(
    triangles: list[np.ndarray], rows: list[float]
) -> tuple[list[_Told], np.ndarray, np.ndarray]:
    """Return what two triangles tell, the (b,) columns with entries, and these columns' scale."""
    norms = np.linalg.norm(np.concatenate([t[:, :-1] for t in triangles]), axis=0)
    seen = norms > ROUNDING * norms.max(initial=0.0)
    scale = np.append(norms[seen], 1.0)
    scaled = [triangle[:, np.append(seen, True)] / scale for triangle in triangles]
    told = [_Told.of(triangle, count) for triangle, count in zip(scaled, rows, strict=True)]
    return told, seen, norms[seen]


def _test(one: _Told, two: _Told) -> FTest:
    """Test whether the same parameters explain both."""
    from scipy.stats import f

    # what a common set of parameters cannot explain beyond the noise, without a difference of
    # large sums
    u, s, _ = np.linalg.svd(np.concatenate([one.matrix, two.matrix]), full_matrices=False)
    u = u[:, s > TOLERANCE * s.max(initial=0.0)]
    values = np.append(one.values, two.values)
    left = values - u @ (u.T @ values)
    freedom = values.size - u.shape[1]
    rest = one.rows + two.rows - values.size
    if freedom == 0 or rest <= 0.0:
        return FTest(np.nan, freedom, rest, np.nan)
    noise = (one.squares + two.squares) / rest
    statistic = float(left @ left / freedom / noise) if noise > 0.0 else np.inf
    return FTest(statistic, freedom, rest, float(f.sf(statistic, freedom, rest)))
