# SPDX-License-Identifier: Apache-2.0
"""
Parameters of servo joints: kinds with their units, bounds and priors, and vectors of free ones.

With the position error ``e`` and all lengths at the joint, the effort of a servo joint is

    kp stiffness e - kd damping v = bodies(q, v, a) + armature a + viscous v
                                    + (coulomb + slope (q - reference)) sign(v) + offset

where ``stiffness`` and ``damping`` are factors on the gains that were given, and ``bodies`` has
the centres of mass of the links moved by ``center``.

A joint with play has its rotor (armature and friction) before it and its link behind it.  Between
the ends of the play, in which ``play_damping`` acts, neither moves the other.  The position that
is measured and controlled is the link's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
import pinocchio as pin

from ..data.recording import Motion
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
    play:
        (n,) play between motor and link, behind which the position is measured [rad or m].
    play_damping:
        (n,) viscous friction between motor and link within it [N m s/rad or N s/m].

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
    play: np.ndarray
    play_damping: np.ndarray

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

    @property
    def playing(self) -> tuple[int, ...]:
        """Numbers of the joints with play."""
        return tuple(np.flatnonzero(self.play > 0.0).tolist())

    def with_play(self, joints: Sequence[int]) -> ServoParameters:
        """Return them with the play of some joints alone, by their numbers."""
        there = np.isin(np.arange(self.play.size), joints)
        return replace(
            self,
            play=np.where(there, self.play, 0.0),
            play_damping=np.where(there, self.play_damping, 0.0),
        )

    def without_play(self) -> ServoParameters:
        """Return them without play, as of files that have no place for it."""
        return self.with_play(())

    def values(self, kind: str) -> np.ndarray:
        """Return the values of a kind as a vector."""
        return np.asarray(getattr(self, kind), dtype=float)


@dataclass(frozen=True)
class Kind:
    """
    Kind of parameter of a joint, such as its rotor inertia.

    Attributes
    ----------
    symbol:
        As in the names of the product's parameters.
    lower, upper:
        Bounds of its values, in their unit.
    neutral:
        Value of a parameter that is not free.
    width:
        Number of values a joint.

    """

    symbol: str
    lower: float
    upper: float
    neutral: float = 0.0
    width: int = 1


KINDS = {
    'armature': Kind('Ia', 0.0, inf),
    'viscous': Kind('fv', 0.0, inf),
    'coulomb': Kind('fc', 0.0, inf),
    'delay': Kind('delay', -0.05, 0.25),
    'center': Kind('c', -inf, inf, width=3),
    'offset': Kind('off', -inf, inf),
    'stiffness': Kind('kp', 0.1, 10.0, neutral=1.0),
    'damping': Kind('kd', 0.0, 10.0, neutral=1.0),
    'slope': Kind('fcq', -inf, inf),
    'play': Kind('play', 1e-4, 0.3),
    'play_damping': Kind('fplay', 0.0, inf),
}
"""All kinds, by the name of their attribute."""

PLAY = ('play', 'play_damping')
"""Kinds that joints with play have."""

AXES = 'xyz'

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


def typical_changes(motion: Motion, effort: np.ndarray) -> dict[str, np.ndarray]:
    """
    Return changes of parameters, by kind, that change (n_samples, n) efforts by a tenth.

    Those of delays, centres of mass and factors are of the size that such parameters have.
    """
    tenth = 0.1 * np.maximum(np.sqrt((effort**2).mean(axis=0)), 1e-9)
    by = {'armature': motion.acceleration, 'viscous': motion.velocity, 'slope': motion.position}
    sizes = {kind: np.maximum(values.std(axis=0), 1e-9) for kind, values in by.items()}
    fixed = {'delay': 0.003, 'center': 0.02, 'stiffness': 0.1, 'damping': 0.1, 'play': 0.005}
    by['play_damping'] = by['viscous']
    return {
        kind: np.full(tenth.size * KINDS[kind].width, fixed[kind])
        if kind in fixed
        else tenth / sizes.get(kind, 1.0)
        for kind in KINDS
    }


def displaced(inertial: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return (10,) inertial parameters with the centre of mass moved by (3,) [m]."""
    if inertial[0] <= 0.0:
        return np.array(inertial)
    body = pin.Inertia.FromDynamicParameters(inertial)
    body.lever = body.lever + shift
    return np.asarray(body.toDynamicParameters())


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
    playing:
        Numbers of the joints that have kinds of play.

    """

    kinds: tuple[str, ...]
    base: ServoParameters
    joints: tuple[str, ...]
    bus: np.ndarray
    playing: tuple[int, ...] = ()

    def entries(self, kind: str) -> np.ndarray:
        """Return the numbers of the free values among those of a kind."""
        if kind in PLAY:
            return np.array(self.playing, dtype=int)
        return np.arange(len(self.joints) * KINDS[kind].width)

    @cached_property
    def places(self) -> dict[str, np.ndarray]:
        """Place in the vector of each free value of the free kinds."""
        places, size = {}, 0
        for kind in self.kinds:
            each = np.arange(self.entries(kind).size)
            places[kind] = size + (self.bus if kind == 'delay' else each)
            size = int(places[kind].max()) + 1
        return places

    def __iter__(self) -> Iterator[tuple[str, np.ndarray, int]]:
        """Iterate over kind, joints that it acts on, and component of the vector's entries."""
        for kind, places in self.places.items():
            for place in np.unique(places):
                numbers = self.entries(kind)[places == place]
                joints, components = np.divmod(numbers, KINDS[kind].width)
                yield kind, joints, int(components[0])

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

    def vector(self, values: Callable[[str], np.ndarray | float]) -> np.ndarray:
        """Return the vector of the values, or of the one value, that each kind has."""
        parts = []
        for kind, places in self.places.items():
            first = np.unique(places, return_index=True)[1]
            size = len(self.joints) * KINDS[kind].width
            parts.append(np.broadcast_to(values(kind), size)[self.entries(kind)[first]])
        return np.concatenate(parts)

    def parameters(self, vector: np.ndarray) -> ServoParameters:
        """Return all parameters with the free ones from a vector."""
        found = {}
        for kind, at in self.places.items():
            values = self.base.values(kind).copy()
            values[self.entries(kind)] = vector[at]
            found[kind] = values
        return replace(self.base, **found)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds of the vector."""
        lower = self.vector(lambda kind: KINDS[kind].lower)
        return lower, self.vector(lambda kind: KINDS[kind].upper)

    def prior_std(self, settings: ServoSettings) -> np.ndarray:
        """Return standard deviations of the entries' priors; infinite for none."""
        known = {'center': settings.center_of_mass_std, 'stiffness': GAIN_STD, 'damping': GAIN_STD}
        return self.vector(lambda kind: known.get(kind, inf))
