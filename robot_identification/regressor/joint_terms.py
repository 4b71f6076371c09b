# SPDX-License-Identifier: Apache-2.0
"""
Columns that belong to one joint: rotor inertia, friction and other functions of its state.

Rotor inertia, friction, springs and coupled drives are of that form: ``sum_f c_f f(q, dq, ddq)``
with the functions ``ddq_j``, ``dq_j``, ``sign(dq_j)`` (sign(0) is 0), 1, the signs of a motor's
speeds ``sign(sum_k r_k dq_k)``, ``cos q_j``, ``sin q_j``, and what else a term brings.

The effort of a joint beside its rigid bodies is ``Ia ddq + fv dq + fc sign(dq) + off``, as in
Gautier and Venture (2013), equation (2); sign(0) is 0.

In place of Coulomb friction there may be the static friction of Szabo and Szadeczky-Kardoss (Acta
IMEKO 10(3), 2021), equation (9): ``ts 2/pi atan(K dq) + tsc 2/pi atan(d dq)``.  It rises to the
stiction ts within a velocity of a few 1/K and, as tsc is negative, falls to the Coulomb friction
ts + tsc within a few 1/d (the Stribeck effect).  K and d are the slopes of `slopes_of`; the model
is linear in all else.

Dry friction that holds at rest follows Dahl's model: its direction z takes the place of sign(dq)
and changes with the displacement, ``dz/dt = dq/x0 (1 - z sign dq)``.  While a joint moves one way,
z comes nearer to the sign of dq by 1/e of the rest within every breakaway displacement x0; at rest
it stays.  x0 of 2 to 50 mrad is usual for harmonic drives.  It takes the motion before, so that it
is a signal of the samples (`Motion.friction_state`).

The friction of a gear grows with the torque that it transmits: ``fl |tau| sign(dq)``, in which tau
is the effort of the URDF's bodies at the joint.  The coefficient fl, 0.02 to 0.2 of harmonic
drives, takes up what the URDF's masses are off by as a whole, so that tau needs no iteration.

Columns of springs, cables and counterweights at single joints.

What hangs or pulls at one joint gives it an effort that depends on its own position; the first
harmonic is ``kc cos q + ks sin q``.  A counterweight has that and nothing else.  A spring between
two points beside the axis has it as its leading part, a bundle of cables that is twisted as the
first order of a Fourier series; the constant part is the offset.  The coefficients are of any
sign.

Gravity on the bodies has the same form at a joint that no joint before it tilts.  There kc and ks
are in sums with first moments, which the base parameters show; only a prior takes them apart.

Columns of motors that turn with several joints (Gautier and Venture 2013, section IV).

A motor whose speed, seen at the joints, is ``w = sum_k r_k dq_k`` has the kinetic energy
``Iam w^2 / 2``, so joint j feels ``r_j (Iam dw/dt + fvm w + fcm sign(w))``.  The part of the
inertia torque that goes with joint j's own acceleration, ``r_j^2 Iam ddq_j``, cannot be told from
the joint's own rotor inertia and belongs to its ``Ia``, as in their equation (35):
``Ia_j = own rotor + r_j^2 Iam``.  What remains is the coupling, ``r_j Iam sum_{k != j} r_k
ddq_k``. For the motor's own joint nothing but this motor is in ``Ia``; ``tied`` uses that it is
the same number and ``separate`` leaves both free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from ..data.recording import Motion
from ..errors import one_of, SettingsError
from ..model.parameters import ParameterLayout
from .settings import CoupledDrive, ModelSettings, SLOPES

_BLOCK = 512  # samples whose rigid-body columns exist at once

ACCELERATION, VELOCITY, SIGN, ONE, SPEED_SIGN, OTHER, COSINE, SINE = range(8)
"""Kinds of functions; joint j's, but for 1, and for the j-th speed or other of the term."""


@dataclass(frozen=True)
class Entry:
    """
    An entry of the rows: a sum of functions of the state.

    Attributes
    ----------
    row:
        Place of the joint in all data.
    column:
        Place of the parameter in the whole vector.
    parts:
        Kind, place and coefficient of each function.

    """

    row: int
    column: int
    parts: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class Combination:
    """
    The entries of a term.

    Attributes
    ----------
    entries:
        Those that are not zero for every motion.
    speeds:
        For each speed whose sign is a function: joints and ratios that it is the sum of.
    other:
        Gives (m, x) values of the term's own functions for m states; None for no such functions.

    """

    entries: tuple[Entry, ...]
    speeds: tuple[tuple[tuple[int, float], ...], ...] = ()
    other: Callable[[Motion], np.ndarray] | None = None

    def speed_signs(self, velocity: np.ndarray) -> np.ndarray:
        """Return (m, s) signs of the speeds for velocities (m, n)."""
        speeds = [sum(ratio * velocity[:, k] for k, ratio in speed) for speed in self.speeds]
        return np.sign(np.array(speeds).reshape(len(speeds), len(velocity))).T


def fill(combination: Combination, motion: Motion, out: np.ndarray) -> None:
    """
    Add entries to rows.

    Parameters
    ----------
    combination:
        The entries.
    motion:
        States of n_samples.
    out:
        (n_samples, n_joints, n_parameters).

    """
    velocity = motion.velocity
    other = None if combination.other is None else combination.other(motion)
    signs = combination.speed_signs(velocity)
    for entry in combination.entries:
        for kind, place, coefficient in entry.parts:
            values = signs[:, place] if kind == SPEED_SIGN else _values(kind, place, motion, other)
            out[:, entry.row, entry.column] += coefficient * values


def _values(kind: int, place: int, motion: Motion, other: np.ndarray | None) -> np.ndarray | float:
    if kind == ACCELERATION:
        return np.asarray(motion.acceleration[:, place])
    if kind == VELOCITY:
        return np.asarray(motion.velocity[:, place])
    if kind == SIGN:
        return np.asarray(np.sign(motion.velocity[:, place]))
    if kind == ONE:
        return 1.0
    if kind in (COSINE, SINE):
        position = motion.position[:, place]
        return np.asarray(np.cos(position) if kind == COSINE else np.sin(position))
    assert other is not None
    return np.asarray(other[:, place])


SYMBOLS = {
    'rotor_inertia': 'Ia',
    'viscous': 'fv',
    'coulomb': 'fc',
    'stiction': 'ts',
    'stribeck': 'tsc',
    'offset': 'off',
    'root': 'fr',
    'load': 'fl',
}
"""Symbol of each term, in the order of the columns."""

_DRY = ('fc', 'ts', 'tsc', 'off')
REVOLUTE_UNITS = {
    'Ia': 'kg m^2',
    'fv': 'N m s/rad',
    'fr': 'N m (s/rad)^(1/3)',
    **dict.fromkeys(_DRY, 'N m'),
    'fl': '1',
}
PRISMATIC_UNITS = {
    'Ia': 'kg',
    'fv': 'N s/m',
    'fr': 'N (s/m)^(1/3)',
    **dict.fromkeys(_DRY, 'N'),
    'fl': '1',
}

USUAL_SLOPES = {'stiction': 100.0, 'stribeck': 5.0}
"""
Slopes [s/rad or s/m] where none are given and no recording has told them yet.

Which parameters can be identified does not depend on them.
"""


def joint_terms(settings: ModelSettings) -> tuple[str, ...]:
    """Terms of every joint that the settings ask for, in the order of the columns."""
    wanted = {*settings.friction, *(('rotor_inertia',) if settings.rotor_inertia else ())}
    return tuple(term for term in SYMBOLS if term in wanted)


def unit_of(symbol: str, *, revolute: bool) -> str:
    """Return the unit of a joint's parameter."""
    return (REVOLUTE_UNITS if revolute else PRISMATIC_UNITS)[symbol]


def slopes_of(settings: ModelSettings, joints: tuple[str, ...]) -> dict[str, np.ndarray]:
    """
    Return the slopes that shape stiction and Stribeck friction.

    Parameters
    ----------
    settings:
        Give them, or leave them to `USUAL_SLOPES`.
    joints:
        Names of the joints.

    Returns
    -------
    dict of str to np.ndarray
        (n_joints,) for each of the two terms [s/rad or s/m], whether the settings have it or not.

    Raises
    ------
    SettingsError
        where there is neither one slope nor one a joint, or Stribeck friction is to rise as
        steeply as stiction.

    """
    steep, slow = settings.stiction_slope, settings.stribeck_slope
    # a slope that is not given keeps clear of the one that is
    usual = {
        'stiction': np.maximum(USUAL_SLOPES['stiction'], 20.0 * np.max(slow or 0.0)),
        'stribeck': np.minimum(USUAL_SLOPES['stribeck'], 0.05 * np.min(steep or np.inf)),
    }
    slopes = {}
    for term, key in SLOPES.items():
        given = getattr(settings, key)
        values = np.atleast_1d(usual[term] if given is None else given)
        if values.size not in (1, len(joints)):
            raise SettingsError(
                f"'{key}' has {values.size} values, but the robot has {len(joints)} joints",
                key=key,
                value=given,
                remedy=f'give one value for each of {one_of(joints)}, or one for all',
            )
        slopes[term] = np.broadcast_to(values, len(joints)).astype(float)
    if {*SLOPES} <= {*settings.friction}:
        _require_order(slopes, joints)
    return slopes


def _require_order(slopes: dict[str, np.ndarray], joints: tuple[str, ...]) -> None:
    for joint, steep, slow in zip(joints, slopes['stiction'], slopes['stribeck'], strict=True):
        if steep <= slow:
            raise SettingsError(
                f"'stribeck_slope' of joint '{joint}' is {slow:g}, 'stiction_slope' {steep:g}",
                joint=joint,
                key='stribeck_slope',
                value=slow,
                remedy='stiction has to rise more steeply than the Stribeck effect takes it away',
            )


def arctan_shape(velocity: np.ndarray, slope: np.ndarray | float) -> np.ndarray:
    """Return 2/pi atan(slope velocity), from -1 to 1; Szabo and Szadeczky-Kardoss, eq. (8)."""
    return (2.0 / np.pi) * np.arctan(slope * velocity)


class DryFriction:
    """
    Direction of dry friction along a motion, sample by sample, by Dahl's model.

    Parameters
    ----------
    breakaway:
        (n_joints,) displacement x0 [rad or m]; 0 for the sign of the velocity.
    step:
        Time between samples [s].

    """

    def __init__(self, breakaway: np.ndarray, step: float) -> None:
        self._breakaway, self._step = breakaway, step
        self._has = breakaway > 0.0
        self._rate = np.divide(step, breakaway, out=np.zeros(breakaway.size), where=self._has)
        self._state = np.zeros(breakaway.size)

    def restart(self) -> None:
        """Forget the motion before, as after a gap."""
        self._state = np.zeros(self._breakaway.size)

    def step(self, velocity: np.ndarray) -> np.ndarray:
        """Return the directions at the next sample, both (n_joints,)."""
        way = np.sign(velocity)
        # exact for a velocity that is constant over the step
        self._state = way + (self._state - way) * np.exp(-np.abs(velocity) * self._rate)
        return np.where(self._has, self._state, way)

    def push(self, velocity: np.ndarray) -> np.ndarray:
        """Return the directions at the next samples, both (n_samples, n_joints)."""
        direction = np.sign(velocity)
        moved = np.abs(velocity) * self._step
        for joint in np.flatnonzero(self._breakaway):
            sign = direction[:, joint].copy()
            bounds = np.flatnonzero(np.diff(sign)) + 1
            for start, stop in zip([0, *bounds], [*bounds, len(sign)], strict=True):
                way = sign[start] if start < stop else 0.0
                rest = np.exp(-np.cumsum(moved[start:stop, joint]) / self._breakaway[joint])
                values = way + (self._state[joint] - way) * rest
                direction[start:stop, joint] = values
                if values.size:
                    self._state[joint] = values[-1]
        return np.asarray(direction)


def _breakaway(settings: ModelSettings, joints: tuple[str, ...]) -> np.ndarray | None:
    """Spread the breakaway displacement over the joints; None where there is none."""
    values = np.atleast_1d(np.asarray(settings.breakaway, dtype=float))
    if values.size not in (1, len(joints)):
        raise SettingsError(
            f"'breakaway' has {values.size} values, but the robot has {len(joints)} joints",
            key='breakaway',
            value=settings.breakaway,
            remedy=f'give one value for each of {one_of(joints)}, or one for all',
        )
    return np.broadcast_to(values, len(joints)).astype(float) if values.any() else None


class Bodies(Protocol):
    """Rigid-body columns of a regressor."""

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """Write the columns of a motion to (n_samples, n_joints, >= p), zero before."""


@dataclass(frozen=True)
class PriorEffort:
    """
    Effort of bodies with known parameters.

    Attributes
    ----------
    bodies:
        The rigid-body columns.
    values:
        (p,) parameters of the bodies.
    n_joints:
        Joints of a motion.

    """

    bodies: Bodies
    values: np.ndarray
    n_joints: int

    def __call__(self, motion: Motion) -> np.ndarray:
        """Return (n_samples, n_joints) [N m or N]."""
        effort = np.empty((len(motion), self.n_joints))
        for start in range(0, len(motion), _BLOCK):
            part = motion.rows(start, start + _BLOCK)
            columns = np.zeros((len(part), self.n_joints, self.values.size))
            self.bodies.fill(part, columns)
            effort[start : start + len(part)] = columns @ self.values
        return effort


@dataclass(frozen=True)
class JointTerms:
    """
    Columns of rotor inertia and friction, joint by joint.

    Attributes
    ----------
    layout:
        ``<joint>.Ia``, ``.fv``, ``.fc``, ``.ts``, ``.tsc``, ``.off``, as far as they are asked
        for.
    terms:
        Which these are.
    start:
        Place of the first of them in the whole vector.
    slopes:
        As `slopes_of` gives them.
    effort:
        Of the bodies whose load adds to friction; None without that term.
    breakaway:
        (n_joints,) displacement of dry friction [rad or m]; None for the sign of the velocity.

    """

    layout: ParameterLayout
    terms: tuple[str, ...]
    start: int
    slopes: Mapping[str, np.ndarray]
    effort: PriorEffort | None = None
    breakaway: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        joints: tuple[str, ...],
        revolute: tuple[bool, ...],
        settings: ModelSettings,
        start: int,
        effort: PriorEffort | None = None,
    ) -> JointTerms:
        """Make the columns for joints of the given kinds."""
        terms = joint_terms(settings)
        if 'load' not in terms:
            effort = None
        elif effort is None:
            raise SettingsError(
                "friction has 'load', which robots with elastic joints do not have",
                key='robot.friction',
                value=settings.friction,
                remedy="leave 'load' out",
            )
        pairs = [
            (f'{joint}.{SYMBOLS[term]}', unit_of(SYMBOLS[term], revolute=turns))
            for joint, turns in zip(joints, revolute, strict=True)
            for term in terms
        ]
        names, units = zip(*pairs, strict=True) if pairs else ((), ())
        return cls(
            ParameterLayout(names, units),
            terms,
            start,
            slopes_of(settings, joints),
            effort,
            _breakaway(settings, joints),
        )

    @cached_property
    def combination(self) -> Combination:
        """The entries as functions of the state."""
        others = tuple(term for term in self.terms if self._function(term) is None)
        count = len(self.layout) // max(1, len(self.terms))
        entries = []
        for joint in range(count):
            for i, term in enumerate(self.terms):
                column = self.start + len(self.terms) * joint + i
                kind = self._function(term)
                if kind is not None:
                    part = kind, joint, 1.0
                else:
                    part = OTHER, count * others.index(term) + joint, 1.0
                entries.append(Entry(joint, column, (part,)))
        return Combination(tuple(entries), other=partial(self._other, others) if others else None)

    def _other(self, terms: tuple[str, ...], motion: Motion) -> np.ndarray:
        """Values of terms that are no functions of their own, (m, n_joints of each)."""
        state = motion.friction_state
        direction = np.sign(motion.velocity) if state is None else state
        values = []
        for term in terms:
            if term == 'root':
                values.append(np.cbrt(motion.velocity))
            elif term in SLOPES:
                values.append(arctan_shape(motion.velocity, self.slopes[term]))
            elif term == 'load' and self.effort is not None:
                values.append(direction * np.abs(self.effort(motion)))
            else:
                values.append(direction)
        return np.hstack(values)

    def _function(self, term: str) -> int | None:
        """Kind of the function of a term; None for one that is not in the kernel."""
        if term == 'coulomb' and self.breakaway is not None:
            return None
        return _FUNCTIONS.get(term)

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Write the columns of a motion; entries that are zero for every motion are left alone.

        Parameters
        ----------
        motion:
            States of n_samples.
        out:
            (n_samples, n_joints, n_parameters), zero in these columns.

        """
        fill(self.combination, motion, out)


_FUNCTIONS = {
    'rotor_inertia': ACCELERATION,
    'viscous': VELOCITY,
    'coulomb': SIGN,
    'offset': ONE,
}


SPRING_SYMBOLS = ('kc', 'ks')
"""Symbols of the coefficients of the cosine and the sine of a joint's position [N m]."""

_KEY = 'robot.joint_springs'


@dataclass(frozen=True)
class SpringTerms:
    """
    Columns of the cosine and the sine of joint positions.

    Attributes
    ----------
    layout:
        ``<joint>.kc``, ``<joint>.ks`` for each joint that has a spring.
    places:
        Places of these joints in all data.
    start:
        Place of the first column in the whole vector.

    """

    layout: ParameterLayout
    places: tuple[int, ...]
    start: int

    @classmethod
    def of(
        cls,
        springs: tuple[str, ...],
        joints: tuple[str, ...],
        revolute: tuple[bool, ...],
        start: int,
    ) -> SpringTerms:
        """
        Make the columns for the joints ``springs`` among ``joints`` of the given kinds.

        Raises
        ------
        SettingsError
            if a joint is not identified, or slides.

        """
        for joint in springs:
            if joint not in joints:
                problem, value = f"joint '{joint}' of joint_springs is not identified", joint
                remedy = f'identified are {one_of(joints)}'
            elif not revolute[joints.index(joint)]:
                problem, value = f"joint '{joint}' of joint_springs slides", joint
                remedy = 'leave it out: cosine and sine are of joints that turn'
            else:
                continue
            raise SettingsError(problem, joint=joint, key=_KEY, value=value, remedy=remedy)
        names = tuple(f'{joint}.{symbol}' for joint in springs for symbol in SPRING_SYMBOLS)
        layout = ParameterLayout(names, ('N m',) * len(names))
        return cls(layout, tuple(joints.index(joint) for joint in springs), start)

    @cached_property
    def combination(self) -> Combination:
        """The entries as functions of the state."""
        return Combination(
            tuple(
                Entry(joint, self.start + 2 * i + k, ((kind, joint, 1.0),))
                for i, joint in enumerate(self.places)
                for k, kind in enumerate((COSINE, SINE))
            )
        )

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """Write the columns of a motion to ``out`` (n_samples, n_joints, n_parameters)."""
        fill(self.combination, motion, out)


@dataclass(frozen=True)
class DriveTerms:
    """
    Columns of one coupled drive.

    Attributes
    ----------
    layout:
        ``<motor>.Iam`` (where it is separate), ``<motor>.fvm``, ``<motor>.fcm``.
    places:
        (k,) places of the coupled joints in all data.
    ratios:
        (k,) speed of the motor for a unit speed of each.
    inertia, viscous, coulomb:
        Places of the columns in the whole vector, None for those that are switched off.
        ``inertia`` of a tied drive is the column of its joint's ``Ia``.
    inertia_scale:
        Iam for a unit of the parameter in the column ``inertia``.

    """

    layout: ParameterLayout
    places: np.ndarray
    ratios: np.ndarray
    inertia: int | None
    viscous: int | None
    coulomb: int | None
    inertia_scale: float = 1.0

    @classmethod
    def of(
        cls,
        drive: CoupledDrive,
        joints: tuple[str, ...],
        revolute: tuple[bool, ...],
        settings: ModelSettings,
        before: ParameterLayout,
    ) -> DriveTerms:
        """
        Make the columns of ``drive``, to stand after the parameters ``before``.

        Raises
        ------
        SettingsError
            if a coupled joint is not identified, or joints that turn are coupled with joints
            that slide.

        """
        places = _places(drive, joints)
        kinds = {revolute[i] for i in places}
        if len(kinds) > 1:
            raise SettingsError(
                f"the coupled drive of '{drive.motor}' couples joints that turn and that slide",
                joint=drive.motor,
                key='coupled_drives',
                value=drive.joints,
                remedy='couple joints of one kind',
            )
        own_ratio = drive.ratios[drive.joints.index(drive.motor)]
        separate = settings.rotor_inertia and drive.inertia == 'separate'
        symbols = [
            (symbol, model)
            for symbol, model, on in (
                ('Iam', 'Ia', separate),
                ('fvm', 'fv', 'viscous' in settings.friction),
                ('fcm', 'fc', not {'coulomb', 'stiction'}.isdisjoint(settings.friction)),
            )
            if on
        ]
        turns = kinds.pop()
        names = tuple(f'{drive.motor}.{symbol}' for symbol, _ in symbols)
        units = tuple(unit_of(model, revolute=turns) for _, model in symbols)
        column = {symbol: len(before) + i for i, (symbol, _) in enumerate(symbols)}
        if settings.rotor_inertia and not separate:
            column['Iam'] = before.index(f'{drive.motor}.Ia')
        return cls(
            layout=ParameterLayout(names, units),
            places=places,
            ratios=np.array(drive.ratios),
            inertia=column.get('Iam'),
            viscous=column.get('fvm'),
            coulomb=column.get('fcm'),
            inertia_scale=1.0 if separate else 1.0 / own_ratio**2,
        )

    @cached_property
    def combination(self) -> Combination:
        """The entries as functions of the state."""
        coupled = list(zip(self.places.tolist(), self.ratios.tolist(), strict=True))
        entries = []
        for joint, ratio in coupled:
            if self.inertia is not None:
                scale = self.inertia_scale
                parts = tuple(
                    (ACCELERATION, k, ratio * r * scale) for k, r in coupled if k != joint
                )
                entries.append(Entry(joint, self.inertia, parts))
            if self.viscous is not None:
                parts = tuple((VELOCITY, k, ratio * r) for k, r in coupled)
                entries.append(Entry(joint, self.viscous, parts))
            if self.coulomb is not None:
                entries.append(Entry(joint, self.coulomb, ((SPEED_SIGN, 0, ratio),)))
        return Combination(tuple(entries), () if self.coulomb is None else (tuple(coupled),))

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Add the columns of a motion to ``out`` (n_samples, n_joints, n_parameters).

        Added rather than written because a tied inertia shares its joint's column.
        """
        fill(self.combination, motion, out)


def _places(drive: CoupledDrive, joints: tuple[str, ...]) -> np.ndarray:
    for joint in drive.joints:
        if joint not in joints:
            raise SettingsError(
                f"joint '{joint}' of the coupled drive of '{drive.motor}' is not identified",
                joint=joint,
                key='coupled_drives',
                value=drive.joints,
                remedy=f'identified are {one_of(joints)}',
            )
    return np.array([joints.index(joint) for joint in drive.joints])
