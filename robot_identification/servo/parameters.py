# SPDX-License-Identifier: Apache-2.0
"""
Parameters of servo joints: kinds with their units, bounds and priors, and vectors of free ones.

With the position error ``e`` and all lengths at the joint, the effort of a servo joint is

    kp stiffness e - kd damping v = bodies(q, v, a) + armature a + viscous v
                                    + (coulomb + slope (q - reference)) sign(v) + offset

where ``stiffness`` and ``damping`` are factors on the gains that were given, and ``bodies`` has
the centres of mass of the links moved by ``center``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from .settings import ServoSettings


@dataclass(frozen=True)
class ServoParameters:
    """
    Parameters of the n joints of a robot with position servos.

    Attributes
    ----------
    armature:
        (n,) rotor inertia at the joint [kg m^2 or kg].
    viscous:
        (n,) viscous friction [N m s/rad or N s/m].
    coulomb:
        (n,) Coulomb friction at the reference position [N m or N].
    delay:
        (n,) time by which commands act later than their stamps [s]; negative delays occur.
    center:
        (3 n,) displacements of the centres of mass in the links' frames [m], link by link.
    offset:
        (n,) constant effort that the servo has to overcome [N m or N].
    stiffness, damping:
        (n,) factors on the gains.
    slope:
        (n,) change of the Coulomb friction with the position [N m/rad or N/m].

    """

    armature: np.ndarray
    viscous: np.ndarray
    coulomb: np.ndarray
    delay: np.ndarray
    center: np.ndarray
    offset: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray
    slope: np.ndarray

    @classmethod
    def with_neutral(cls, n_joints: int, **values: np.ndarray | float) -> ServoParameters:
        """Return parameters that are 0, factors that are 1, but for those given."""
        return cls(
            **{
                name: np.full(n_joints * kind.width, values.get(name, kind.neutral), dtype=float)
                for name, kind in KINDS.items()
            }
        )

    @property
    def centers(self) -> np.ndarray:
        """(n, 3) displacements of the centres of mass [m]."""
        return self.center.reshape(-1, 3)

    def values(self, kind: str) -> np.ndarray:
        """Return the values of a kind as a vector."""
        return np.atleast_1d(np.asarray(getattr(self, kind), dtype=float))


@dataclass(frozen=True)
class Kind:
    """
    Kind of parameter.

    Attributes
    ----------
    symbol:
        As in the names of the product's parameters.
    unit:
        Of revolute joints.
    lower, upper:
        Bounds.
    neutral:
        Value of a parameter that is not free.
    width:
        Number of values a joint.

    """

    symbol: str
    unit: str
    lower: float
    upper: float
    neutral: float = 0.0
    width: int = 1


KINDS = {
    'armature': Kind('Ia', 'kg m^2', 0.0, inf),
    'viscous': Kind('fv', 'N m s/rad', 0.0, inf),
    'coulomb': Kind('fc', 'N m', 0.0, inf),
    'delay': Kind('delay', 's', -0.05, 0.25),
    'center': Kind('c', 'm', -inf, inf, width=3),
    'offset': Kind('off', 'N m', -inf, inf),
    'stiffness': Kind('kp', '', 0.1, 10.0, neutral=1.0),
    'damping': Kind('kd', '', 0.0, 10.0, neutral=1.0),
    'slope': Kind('fcq', 'N m/rad', -inf, inf),
}
"""All kinds, by the name of their attribute."""

AXES = 'xyz'

CORRELATION_TIME = 0.1
"""Time within which errors of positions count as one, where priors are weighted [s]."""

GAIN_STD = 0.5
"""Standard deviation of the prior of a factor on a gain."""


def free_kinds(settings: ServoSettings, velocity_commanded: bool) -> tuple[str, ...]:
    """Return the kinds of parameters that settings leave free."""
    kinds = ['armature', 'viscous', 'coulomb', 'delay']
    if settings.bodies == 'first_moments':
        kinds.append('center')
    if settings.offset:
        kinds.append('offset')
    if settings.gains == 'scale':
        kinds += ['stiffness', 'damping'] if velocity_commanded else ['stiffness']
    if settings.friction == 'coulomb_by_position':
        kinds.append('slope')
    return tuple(kinds)


@dataclass(frozen=True)
class Scales:
    """
    Typical sizes of a recording's efforts and motions, by which parameters are scaled.

    Attributes
    ----------
    effort, position, velocity, acceleration:
        (n,) root mean squares of each joint, the position about its mean.

    """

    effort: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray

    def of_kind(self, kind: str) -> np.ndarray:
        """Return the change of each parameter of a kind that changes efforts by a tenth."""
        tenth = 0.1 * self.effort
        if kind in ('delay', 'center'):
            return np.full(tenth.size * KINDS[kind].width, 0.003 if kind == 'delay' else 0.02)
        by = {
            'armature': self.acceleration,
            'viscous': self.velocity,
            'slope': self.position,
            'coulomb': np.ones_like(tenth),
            'offset': np.ones_like(tenth),
        }
        return tenth / by[kind] if kind in by else np.full(tenth.size, 0.1)


@dataclass(frozen=True)
class FreeParameters:
    """
    Vector of the free parameters among those of a robot.

    Attributes
    ----------
    kinds:
        Free kinds, in the order of the vector.
    base:
        All parameters; those of other kinds keep these values.
    joints:
        Names of the joints.
    bus:
        (n,) number of the bus of each joint, from 0 in their order: those of one have one delay.

    """

    kinds: tuple[str, ...]
    base: ServoParameters
    joints: tuple[str, ...]
    bus: np.ndarray

    def __iter__(self) -> Iterator[tuple[str, np.ndarray, int]]:
        """Iterate over kind, joints that it acts on, and component of the vector's entries."""
        for kind in self.kinds:
            if kind == 'delay':
                for k in range(self.bus.max() + 1):
                    yield kind, np.flatnonzero(self.bus == k), 0
                continue
            for j in range(len(self.joints)):
                for component in range(KINDS[kind].width):
                    yield kind, np.array([j]), component

    @property
    def names(self) -> tuple[str, ...]:
        """Names ``<joint>.<symbol>``, a delay's by the first joint of its bus if it has others."""
        names = []
        for kind, joints, component in self:
            symbol = KINDS[kind].symbol
            symbol += AXES[component] if KINDS[kind].width == 3 else ''
            alone = kind == 'delay' and not self.bus.any()
            names.append(symbol if alone else f'{self.joints[joints[0]]}.{symbol}')
        return tuple(names)

    def vector(self, parameters: ServoParameters) -> np.ndarray:
        """Return the free entries of parameters."""
        return np.concatenate([self.entries(kind, parameters.values(kind)) for kind in self.kinds])

    def entries(self, kind: str, values: np.ndarray) -> np.ndarray:
        """Return the entries of the vector of a kind whose values are given."""
        return values[np.unique(self.bus, return_index=True)[1]] if kind == 'delay' else values

    def parameters(self, vector: np.ndarray) -> ServoParameters:
        """Return all parameters with the free ones from a vector."""
        values: dict[str, Any] = {}
        start = 0
        for kind in self.kinds:
            size = self.entries(kind, self.base.values(kind)).size
            part = np.array(vector[start : start + size])
            values[kind] = part[self.bus] if kind == 'delay' else part
            start += size
        return replace(self.base, **values)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds of the vector."""
        low, high = (
            np.array([getattr(KINDS[kind], side) for kind, _, _ in self])
            for side in ('lower', 'upper')
        )
        return low, high

    def prior_std(self, settings: ServoSettings) -> np.ndarray:
        """Return standard deviations of the entries' priors; infinite for none."""
        known = {'center': settings.center_of_mass_std, 'stiffness': GAIN_STD, 'damping': GAIN_STD}
        return np.array([known.get(kind, inf) for kind, _, _ in self])
