# SPDX-License-Identifier: Apache-2.0
"""
Gains of current-controlled drives from runs with and without a load that was weighed.

The model is linear in the parameters and in the efforts alike, so that parameters and gains share
one unknown factor: only something of known size settles it.  Gautier and Briot, "Global
identification of joint drive gains and dynamic parameters" (J. Dyn. Sys. Meas. Control 136(5),
2014), take a load of known mass.  With the efforts as they were assumed, tau = sum_k T_k c_k over
the drives' currents c and the columns T_k of the assumed gains, and the true gains x_k T_k,

    sum_k x_k T_k c_k = W beta            without the load,
    sum_k x_k T_k c_k = W beta + W_L p    with it,

where W_L are the columns of the link that carries the load.  Parameters p of the load that are
known make the right-hand side; the others are unknown like beta and x.  The noise is in the
currents, hence in the columns of x: least squares (``constrained``) shrinks x, the more the weaker
the load is beside the noise; total least squares (``total``) does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pinocchio as pin
import scipy
from scipy.linalg import eigh

from ..errors import IdentifiabilityError, SettingsError
from ..model.robot import Robot
from ..options.document import plain
from ..regressor.base_parameters import BaseStructure
from .factor import GrowingTriangle
from .least_squares import range_basis
from .plot_samples import read_only
from .row_block import RowBlock

METHODS = ('total', 'constrained')
"""Total least squares, or least squares with gains as unknowns and the load on the right."""


@dataclass(frozen=True)
class DriveGainConstants:
    """Constants of least squares for gains."""

    unidentified_std: float = 0.25
    """Relative standard deviation from which a gain counts as not identified."""
    least_factor: float = 0.05
    """Smallest factor on a gain; smaller ones are not identified."""
    rounds: int = 6
    """Times that gains and the noise of the runs are found in turn."""
    rank_tolerance: float = 1e-9
    """Relative singular value below which columns are dependent."""
    separable_share: float = 1e-6
    """Share of the load's effort that the robot's parameters have to leave."""
    least_noise: float = 1e-12
    """Least variance of the noise, by the mean square of the effort: that of rounding."""


GAINS = DriveGainConstants()


@dataclass(frozen=True)
class Load:
    """
    A load on one of the links, as far as it is known.

    Attributes
    ----------
    link:
        The identified link that carries it.
    parameters:
        (10,) its inertial parameters at the link's joint frame, in the order of
        `parameters.INERTIAL_SYMBOLS` [kg, kg m, kg m^2]; NaN for those that are not known.

    """

    link: str
    parameters: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """(10,) bool, which parameters are known."""
        return np.isfinite(self.parameters)


def load_on(
    robot: Robot,
    mass: float,
    center_of_mass: Sequence[float] | None = None,
    inertia: Sequence[float] | None = None,
    frame: str | None = None,
) -> Load:
    """
    Make a `Load` of what is known of it.

    Parameters
    ----------
    robot:
        Robot that carries it.
    mass:
        Its mass [kg].
    center_of_mass:
        (3,) in ``frame`` [m]; None where it is not known.
    inertia:
        (6,) Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the centre of mass along the axes of ``frame``
        [kg m^2]; None where it is not known.
    frame:
        A link of the URDF; None for the last identified joint's.

    Raises
    ------
    ModelError
        where the URDF has no such link, or no identified joint moves it.

    """
    link, placement = robot.attachment(frame)
    parameters = np.full(10, np.nan)
    parameters[0] = mass
    if center_of_mass is not None:
        centre = placement.act(np.array(center_of_mass, dtype=float))
        parameters[1:4] = mass * centre
        if inertia is not None:
            xx, xy, yy, xz, yz, zz = inertia
            about = placement.rotation @ [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
            body = pin.Inertia(mass, centre, np.array(about) @ placement.rotation.T)
            parameters = body.toDynamicParameters()
    return Load(link, parameters)


@dataclass(frozen=True)
class DriveGain:
    """
    The gain of one drive.

    Attributes
    ----------
    drive:
        Its name: that of the joint in the same place.
    assumed, gain:
        Joint effort for one unit of the recorded effort, as assumed and as identified.
    std, classical_std:
        Standard deviation of ``gain``, and that of independent rows; NaN, like ``gain``, where
        the load does not determine it.
    relative_change, relative_std:
        100 (gain / assumed - 1) and 100 std / assumed [%].

    """

    drive: str
    assumed: float
    gain: float
    std: float
    relative_change: float
    relative_std: float
    classical_std: float


@dataclass(frozen=True)
class DriveGains:
    """
    Gains of all drives.

    Attributes
    ----------
    drives:
        Names of the n drives.
    factors:
        (n,) true gain of each drive over the assumed one; NaN where the load leaves it open.
    covariance:
        (n, n) of the factors.
    assumed:
        (n, n) matrix T of tau = T c that was assumed.
    method:
        One of `METHODS`, or ``ratios``.
    recordings:
        Names of the recordings with the load, or of those that the ratios are from.
    warnings:
        In words, what a user should know.
    reference:
        For ``ratios``: the drive relative to whose gain ``covariance`` is; else empty.
    scale:
        For ``ratios``: what the common factor of all gains is from; else empty.
    scale_std:
        Relative standard deviation of the common factor; NaN where it is not known.
    growth:
        By how much standard deviations exceed those of independent rows.

    """

    drives: tuple[str, ...]
    factors: np.ndarray
    covariance: np.ndarray
    assumed: np.ndarray
    method: str
    recordings: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    reference: str = ''
    scale: str = ''
    scale_std: float = float('nan')
    growth: float = 1.0

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def std(self) -> np.ndarray:
        """(n,) standard deviations of the factors."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def gains(self) -> np.ndarray:
        """(n,) identified gains; NaN where they are not identified."""
        return np.diag(self.assumed) * self.factors

    @property
    def matrix(self) -> np.ndarray:
        """(n, n) matrix T with the identified gains; one that is unknown stays as assumed."""
        return self.assumed * np.where(np.isfinite(self.factors), self.factors, 1.0)

    def __iter__(self) -> Iterator[DriveGain]:
        for k, drive in enumerate(self.drives):
            assumed, factor, std = self.assumed[k, k], self.factors[k], self.std[k]
            yield DriveGain(
                drive=drive,
                assumed=float(assumed),
                gain=float(assumed * factor),
                std=float(abs(assumed) * std),
                relative_change=float(100.0 * (factor - 1.0)),
                relative_std=float(100.0 * std),
                classical_std=float(abs(assumed) * std / self.growth),
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists in the shape of the result file."""
        return {
            'method': self.method,
            'recordings': list(self.recordings),
            'gains': [asdict(gain) for gain in self],
            'matrix': self.matrix.tolist(),
            'covariance': self.covariance.tolist(),
            'reference': self.reference or None,
            'scale': self.scale or None,
            'scale_std': plain(self.scale_std),
        }

    def summary(self) -> str:
        """Return a table for people."""
        if self.reference:
            return self._ratio_table()
        width = max(5, *(len(drive) for drive in self.drives))
        head = f'{"drive":<{width}}{"assumed":>13}{"identified":>13}{"std":>13}{"change %":>12}'
        rows = (
            f'{gain.drive:<{width}}{gain.assumed:>13.5g}{gain.gain:>13.5g}{gain.std:>13.2g}'
            f'{gain.relative_change:>+12.2f}'
            for gain in self
        )
        return '\n'.join(['Drive gains', head, *rows]).replace('nan', '  -')

    def _ratio_table(self) -> str:
        """Return a table of gains and of their ratios to that of the reference drive."""
        width = max(5, *(len(drive) for drive in self.drives))
        known = f' (to {100.0 * self.scale_std:.2g} %)' if self.scale_std >= 0.0 else ''
        ratios = self.gains / self.gains[self.drives.index(self.reference)]
        head = f'{"drive":<{width}}{"gain":>13}{"ratio":>13}{"std of it":>13}'
        rows = (
            f'{drive:<{width}}{gain:>13.5g}{ratio:>13.4f}{abs(ratio) * std:>13.2g}'
            for drive, gain, ratio, std in zip(
                self.drives, self.gains, ratios, self.std, strict=True
            )
        )
        title = f'Drive gains, by their ratios; their scale is that of {self.scale}{known}'
        return '\n'.join([title, head, *rows])


def drive_gains(
    without: Iterable[RowBlock],
    loaded: Iterable[RowBlock],
    load: Load,
    structure: BaseStructure,
    drives: Sequence[str],
    assumed: np.ndarray,
    *,
    method: str = 'total',
    recordings: Sequence[str] = (),
    inflation: float = 1.0,
) -> DriveGains:
    """
    Identify drive gains, in one pass over the rows and in constant memory.

    Parameters
    ----------
    without, loaded:
        Rows of the runs without and with the load, with efforts by the assumed gains.
    load:
        What is known of it.
    structure:
        The base parameters of the rows.
    drives:
        Names of the drives.
    assumed:
        (n, n) matrix T of tau = T c.
    method:
        One of `METHODS`.
    recordings:
        Names of the runs with the load.
    inflation:
        By how much variances are larger than with independent rows, see `bootstrap`.

    Raises
    ------
    SettingsError
        where T has no inverse.
    IdentifiabilityError
        where what is known of the load cannot be distinguished from what is not.

    """
    n, b = len(drives), structure.n_base
    runs = _GainRuns.from_rows((without, loaded), load, structure, assumed)
    factors, shrinkage = np.full((2, n), np.nan)
    covariance = np.full((n, n), np.nan)
    identified = np.ones(n, dtype=bool)
    while identified.any():
        # a drive that is not determined is noise in all rows that it acts on
        joints = ~(assumed[:, ~identified] != 0.0).any(axis=1)
        identified &= (assumed[joints] != 0.0).any(axis=0)
        if not identified.any():
            break
        found = _iterated(
            runs.subset(joints, identified, b), assumed[np.ix_(joints, identified)], method
        )
        spread = inflation * found.covariance
        relative = np.sqrt(np.diag(spread)) / np.maximum(found.factors, 1e-9)
        if relative.max() > GAINS.unidentified_std or found.factors.min() < GAINS.least_factor:
            identified[np.flatnonzero(identified)[relative.argmax()]] = False
            continue
        factors[identified], shrinkage[identified] = found.factors, found.shrinkage
        covariance[np.ix_(identified, identified)] = spread
        break
    return DriveGains(
        drives=tuple(drives),
        factors=factors,
        covariance=covariance,
        assumed=assumed,
        method=method,
        recordings=tuple(recordings),
        warnings=_warnings(drives, factors, np.sqrt(np.diag(covariance)), shrinkage),
        growth=float(np.sqrt(inflation)),
    )


@dataclass(frozen=True)
class _GainRuns:
    """Rows without and with the load, and what the load adds to the base parameters."""

    factors: np.ndarray  # (2, n, b + n, b + n) R of [W_j | T_jk c_k] of each joint j
    rows: np.ndarray  # (2, n)
    independent_rows: np.ndarray  # (2, n)
    known: np.ndarray  # (b,) what the known parameters of the load add
    unknown: np.ndarray  # (b, u) what each of the others adds for one unit of it
    link: str  # the carrier, for messages

    @classmethod
    def from_rows(
        cls,
        runs: Sequence[Iterable[RowBlock]],
        load: Load,
        structure: BaseStructure,
        assumed: np.ndarray,
    ) -> _GainRuns:
        """Fold the rows of each kind of run."""
        n, b = len(assumed), structure.n_base
        to_drives = _inverse(assumed).T
        triangles = [[GrowingTriangle(b + n) for _ in range(n)] for _ in runs]
        independent = np.zeros((len(runs), n))
        for r, blocks in enumerate(runs):
            for block in blocks:
                drives = (block.effort @ to_drives)[:, None, :] * assumed
                joined = np.concatenate([block.matrix, drives], axis=2)
                independent[r] += block.independence * block.keep.sum(axis=0)
                for j, triangle in enumerate(triangles[r]):
                    triangle.push(joined[block.keep[:, j], j])
        columns = structure.regrouping[:, structure.layout.slice_of(load.link)]
        return cls(
            np.array([[each.result() for each in run] for run in triangles]),
            np.array([[each.rows for each in run] for run in triangles]),
            independent,
            columns[:, load.known] @ load.parameters[load.known],
            columns[:, ~load.known],
            load.link,
        )

    def subset(self, joints: np.ndarray, drives: np.ndarray, b: int) -> _GainRuns:
        """Return the rows of some joints with the columns of some drives, (n,) bool each."""
        columns = np.append(np.ones(b, dtype=bool), drives)
        return replace(
            self,
            factors=self.factors[:, joints][..., columns],
            rows=self.rows[:, joints],
            independent_rows=self.independent_rows[:, joints],
        )


@dataclass(frozen=True)
class _Solution:
    """Gains of n drives."""

    factors: np.ndarray  # (n,)
    covariance: np.ndarray  # (n, n)
    shrinkage: np.ndarray  # (n,) by how much noise has shrunk the factors


def _iterated(runs: _GainRuns, assumed: np.ndarray, method: str) -> _Solution:
    """Solve again and again with the noise in the rows as it is at the gains found so far."""
    n = assumed.shape[1]
    found = _Solution(np.ones(n), np.eye(n), np.zeros(n))
    for _ in range(GAINS.rounds):
        gains = np.maximum(found.factors, GAINS.least_factor)
        # each kind of run has its own noise: a heavy load makes gears and currents rougher
        spreads = (_row_spread(runs, run, gains) for run in range(2))
        noise = np.array([_drive_noise(spread, assumed * gains) for spread in spreads])
        found = _weighted(runs, assumed, noise, gains, method)
        if method == 'constrained':
            # shrunk gains would give their rows more and more weight
            break
    return found


def _weighted(
    runs: _GainRuns, assumed: np.ndarray, noise: np.ndarray, gains: np.ndarray, method: str
) -> _Solution:
    """Solve with rows weighted by the currents' (2, n) noise, without and with load."""
    # what the currents' noise amounts to in the rows of each run and joint
    variances = (noise * gains**2) @ (assumed**2).T
    nuisance, right, efforts = _stack(runs, 1.0 / np.sqrt(variances))
    right, efforts, rank = _projected(nuisance, right, efforts, runs.link)
    weights = runs.rows / variances
    C = np.diag((noise * (weights @ assumed**2)).sum(axis=0))
    x, inverse, shrinkage = _solve(efforts, right, C, method)
    residual = efforts @ x - right
    scale = float(residual @ residual) / max(runs.independent_rows.sum() - rank - x.size, 1.0)
    return _Solution(x, scale * inverse, shrinkage)


def _inverse(assumed: np.ndarray) -> np.ndarray:
    if assumed.shape[0] != assumed.shape[1] or np.linalg.cond(assumed) > 1e8:
        raise SettingsError(
            f"'robot.drives.effort.matrix' has the shape {assumed.shape} or no inverse",
            key='robot.drives.effort.matrix',
            remedy='drive gains need one recorded effort for each joint; give a square matrix',
        )
    return np.asarray(np.linalg.inv(assumed))


def _row_spread(runs: _GainRuns, run: int, gains: np.ndarray) -> np.ndarray:
    """(n,) residual variance of each joint's own least squares at given gains."""
    b, variances = len(runs.known), []
    for factor, rows, independent in zip(
        runs.factors[run], runs.rows[run], runs.independent_rows[run], strict=True
    ):
        effort, basis = factor[:, b:] @ gains, range_basis(factor[:, :b], GAINS.rank_tolerance)
        residual = effort - basis @ (basis.T @ effort)
        freedom = max(1.0, independent - basis.shape[1])
        floor = GAINS.least_noise * (effort @ effort) / max(1, rows)
        variances.append(max(residual @ residual / freedom, floor))
    return np.array(variances)


def _drive_noise(spread: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """(n,) variances of the drives' efforts c that explain those of the rows ``matrix @ c``."""
    size = np.abs(matrix).max(axis=0)
    noise, _ = scipy.optimize.nnls((matrix / size) ** 2, spread)
    # no drive is without noise of its own because its neighbour's explains all
    return np.maximum(noise, 1e-3 * spread.min()) / size**2


def _stack(runs: _GainRuns, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of beta and the load's unknown parameters; effort of the known ones; drives'."""
    b = len(runs.known)
    light, heavy = (weights[..., None, None] * runs.factors).reshape(2, -1, runs.factors.shape[-1])
    nuisance = np.block(
        [
            [light[:, :b], np.zeros((len(light), runs.unknown.shape[1]))],
            [heavy[:, :b], heavy[:, :b] @ runs.unknown],
        ]
    )
    right = np.concatenate([np.zeros(len(light)), heavy[:, :b] @ runs.known])
    return nuisance, right, np.concatenate([light[:, b:], heavy[:, b:]])


def _projected(
    nuisance: np.ndarray, right: np.ndarray, efforts: np.ndarray, link: str
) -> tuple[np.ndarray, np.ndarray, int]:
    """Take away what parameters that are not asked for can explain; return how many there are."""
    basis = range_basis(nuisance, GAINS.rank_tolerance)
    left = right - basis @ (basis.T @ right)
    if np.linalg.norm(left) <= GAINS.separable_share * np.linalg.norm(right):
        raise IdentifiabilityError(
            f"the known parameters of the load on '{link}' cannot be separated from the "
            'unknown ones',
            link=link,
            remedy='give its centre of mass (data.known_load.center_of_mass), or move more joints '
            'in the recordings with and without it',
        )
    return left, efforts - basis @ (basis.T @ efforts), basis.shape[1]


def _solve(
    efforts: np.ndarray, right: np.ndarray, C: np.ndarray, method: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Solve ``efforts @ x = right`` with errors of covariance C in the columns of ``efforts``.

    With the smallest eigenvalue lambda of what is left of the efforts beside the right-hand side,
    total least squares is (A - lambda C) x = efforts^T right, A = efforts^T efforts; the
    right-hand side and all columns projected away are exact (Van Huffel and Vandewalle, "The Total
    Least Squares Problem", SIAM 1991, section 3.6).

    Returns
    -------
    tuple
        (n,) x; the (n, n) inverse of A - lambda C, which its covariance is proportional to; and
        (n,) by how much the errors make x too small.

    """
    A, product = efforts.T @ efforts, efforts.T @ right
    alone = A - np.outer(product, product) / (right @ right)
    smallest = float(eigh(alone, C, eigvals_only=True, subset_by_index=(0, 0))[0])
    exact = A - max(0.0, smallest) * C
    size = np.sqrt(np.diag(A))
    values, vectors = np.linalg.eigh(exact / np.outer(size, size))
    # a direction with less than rounding in it has a huge variance, not a negative one
    vectors /= size[:, None]
    inverse = (vectors / np.maximum(values, GAINS.rank_tolerance)) @ vectors.T
    total = inverse @ product
    if method == 'total':
        return total, inverse, np.zeros(total.size)
    x = np.linalg.lstsq(efforts / size, right, rcond=None)[0] / size
    return x, inverse, total - x


def _warnings(
    drives: Sequence[str], factors: np.ndarray, std: np.ndarray, shrinkage: np.ndarray
) -> tuple[str, ...]:
    notes = []
    for k, drive in enumerate(drives):
        if np.isnan(factors[k]):
            notes.append(
                f"the load does not determine the gain of drive '{drive}': take a heavier one, or "
                'a motion that loads this drive'
            )
            continue
        change = factors[k] - 1.0
        if abs(change) > max(0.01, 3.0 * std[k]):
            notes.append(
                f"the gain of drive '{drive}' differs by {100.0 * change:+.1f} % from the assumed "
                'one, and so do the parameters: put the matrix of drive_gains into '
                'robot.drives.effort.matrix and identify again'
            )
        if shrinkage[k] > std[k]:
            notes.append(
                f"noise makes the gain of drive '{drive}' about {100.0 * shrinkage[k]:.1f} % "
                'too small in the constrained fit: use data.known_load.method: total'
            )
    return tuple(notes)
