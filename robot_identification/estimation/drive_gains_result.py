# SPDX-License-Identifier: Apache-2.0
"""Identified drive gains with their uncertainty, and the load that they were identified with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pinocchio as pin

from ..model.robot import Robot
from .estimate import plain


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

    def __post_init__(self) -> None:
        array = np.array(self.parameters, dtype=float)
        if array.shape != (10,) or not np.isfinite(array).any():
            raise ValueError('a load has ten parameters, one of them known at least')
        array.setflags(write=False)
        object.__setattr__(self, 'parameters', array)

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
        Carries it.
    mass:
        [kg].
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
        the load does not tell it.
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

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class DriveGains:
    """
    Gains of all drives.

    Attributes
    ----------
    drives:
        Names of the n drives.
    factors:
        (n,) true gain of each drive over the assumed one; NaN where the load does not tell it.
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
    warnings: tuple[str, ...] = field(default=())
    reference: str = ''
    scale: str = ''
    scale_std: float = float('nan')
    growth: float = 1.0

    def __post_init__(self) -> None:
        for name in ('factors', 'covariance', 'assumed'):
            array = np.array(getattr(self, name), dtype=float)
            array.setflags(write=False)
            object.__setattr__(self, name, array)

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
        """(n, n) matrix T with the identified gains; a gain that is not told stays as assumed."""
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
            'gains': [gain.to_dict() for gain in self],
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
        lines = [
            'Drive gains',
            f'{"drive":<{width}}{"assumed":>13}{"identified":>13}{"std":>13}{"change %":>12}',
        ]
        for gain in self:
            cells = f'{gain.assumed:>13.5g}{gain.gain:>13.5g}{gain.std:>13.2g}'
            lines.append(f'{gain.drive:<{width}}{cells}{gain.relative_change:>+12.2f}')
        return '\n'.join(lines).replace('nan', '  -')

    def _ratio_table(self) -> str:
        """Return a table of gains and of their ratios to that of the reference drive."""
        width = max(5, *(len(drive) for drive in self.drives))
        known = f' (to {100.0 * self.scale_std:.2g} %)' if self.scale_std >= 0.0 else ''
        whole = self.gains[self.drives.index(self.reference)]
        return '\n'.join(
            [
                f'Drive gains, by their ratios; their scale is that of {self.scale}{known}',
                f'{"drive":<{width}}{"gain":>13}{"ratio":>13}{"std of it":>13}',
                *(
                    f'{drive:<{width}}{gain:>13.5g}{gain / whole:>13.4f}'
                    f'{abs(gain / whole) * std:>13.2g}'
                    for drive, gain, std in zip(self.drives, self.gains, self.std, strict=True)
                ),
            ]
        )
