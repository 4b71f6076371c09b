# SPDX-License-Identifier: Apache-2.0
"""
Columns that belong to joints: rotor inertia, friction, springs and coupled drives.

Their entries are of the form ``sum_f c_f f(q, dq, ddq)``, with functions of the state that are,
joint by joint, the positions, their cosines and sines, the velocities and the accelerations; then
1; then the signs of the velocities (sign(0) is 0), the signs of motors' speeds
``sign(sum_k r_k dq_k)``, and whatever else a term brings.

**Friction.**  The effort of a joint beside its rigid bodies is ``Ia ddq + fv dq + fc sign(dq) +
off``, as in Gautier and Venture (2013), equation (2).

In place of Coulomb friction there may be the static friction of Szabo and Szadeczky-Kardoss (Acta
IMEKO 10(3), 2021), equation (9): ``ts 2/pi atan(K dq) + tsc 2/pi atan(d dq)``.  It rises to the
stiction ts within a velocity of a few 1/K and, as tsc is negative, falls to the Coulomb friction
ts + tsc within a few 1/d (the Stribeck effect).  K and d are the slopes of `slopes_of`; the model
is linear in all else.

Dry friction that holds at rest follows Dahl's model: its direction z takes the place of sign(dq)
and changes with the displacement, ``dz/dt = dq/x0 (1 - z sign dq)``.  While a joint moves one way,
z comes nearer to the sign of dq by 1/e of the rest within every breakaway displacement x0; at rest
it stays.  x0 of 2 to 50 mrad is usual for harmonic drives.  It takes the motion before, so that it
is a signal of the samples (`Motion.friction_state`).  Without the motion before, a joint that
hardly moves is as likely at either sign: below a reversal speed v0 the direction is dq/v0, so that
predictions at rest do not chatter with the noise of the velocity.

The friction of a gear grows with the torque that it transmits: ``fl |tau| sign(dq)``, in which tau
is the effort of the URDF's bodies at the joint.  The coefficient fl, 0.02 to 0.2 of harmonic
drives, takes up what the URDF's masses are off by as a whole, so that tau needs no iteration.

**Springs, cables and counterweights** at one joint give it an effort that depends on its own
position; the first harmonic is ``kc cos q + ks sin q``.  A counterweight has that and nothing
else.  A spring between two points beside the axis has it as its leading part, a bundle of cables
that is twisted as the first order of a Fourier series; the constant part is the offset.  The
coefficients are of any sign.  Gravity on the bodies has the same form at a joint that no joint
before it tilts.  There kc and ks are in sums with first moments, which the base parameters show;
only a prior takes them apart.

**Coupled drives** (Gautier and Venture 2013, section IV).  A motor whose speed, seen at the
joints, is ``w = sum_k r_k dq_k`` has the kinetic energy ``Iam w^2 / 2``, so joint j feels
``r_j (Iam dw/dt + fvm w + fcm sign(w))``.  The part of the inertia torque that goes with joint j's
own acceleration, ``r_j^2 Iam ddq_j``, acts as the joint's own rotor inertia does and
belongs to its ``Ia``, as in their equation (35): ``Ia_j = own rotor + r_j^2 Iam``.  What remains
is the coupling, ``r_j Iam sum_{k != j} r_k ddq_k``.  For the motor's own joint nothing but this
motor is in ``Ia``; ``tied`` uses that it is the same number and ``separate`` leaves both free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from ..data.recording import Motion
from ..errors import one_of, SettingsError
from ..model.friction import FRICTION, FrictionState, SLOPES
from ..model.parameters import ParameterLayout
from .settings import CoupledDrive, ModelSettings

_BLOCK = 512  # samples whose rigid-body columns exist at once

COSINE, SINE, VELOCITY, ACCELERATION, ONE, SIGN, SPEED_SIGN, OTHER = range(1, 9)
"""Kinds of functions; joint j's, but for 1, and for the j-th speed or other of the term."""


class Term(Protocol):
    """A group of columns of a regressor."""

    @property
    def layout(self) -> ParameterLayout:
        """Names and units of the columns that the term brings."""

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Add the term's columns of a motion.

        ``out`` is (n_samples, n_joints, n_parameters) and has zeros there; entries that are zero
        for every motion are left alone.
        """


class Entry(NamedTuple):
    """
    An entry of the rows: a sum of functions of the state.

    It is at the joint's ``row`` and the parameter's ``column`` in the whole vector; ``parts`` are
    kind, place and coefficient of each function.
    """

    row: int
    column: int
    parts: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class JointTerm:
    """
    Columns whose entries are sums of functions of the state.

    Attributes
    ----------
    layout:
        Names and units of the columns that the term brings.
    entries:
        Those that are not zero for every motion.
    speeds:
        For each speed whose sign is a function: joints and ratios that it is the sum of.
    reversal:
        Reversal speed of these signs [rad/s or m/s]; 0 for none.
    other:
        Gives (m, n_other) values of the term's own functions for m states.
    n_other:
        Number of these functions.
    breakaway:
        (n_joints,) displacement of dry friction [rad or m]; None for the sign of the velocity.

    """

    layout: ParameterLayout
    entries: tuple[Entry, ...]
    speeds: tuple[tuple[tuple[int, float], ...], ...] = ()
    reversal: float = 0.0
    other: Callable[[Motion], np.ndarray] | None = None
    n_other: int = 0
    breakaway: np.ndarray | None = None

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """Add the columns of a motion, as `Term` asks."""
        states = state_functions([self], motion)
        for (row, column), parts in summands([self], motion.position.shape[1]).items():
            for function, coefficient in parts:
                out[:, row, column] += coefficient * states[function]


def state_functions(terms: Sequence[JointTerm], motion: Motion) -> np.ndarray:
    """Return the functions of the state (f, m), in the order of the module's head."""
    q, dq, ddq = motion.position.T, motion.velocity.T, motion.acceleration.T
    one = np.ones((1, len(motion)))
    parts = [q, np.cos(q), np.sin(q), dq, ddq, one, np.sign(dq), further_functions(terms, motion)]
    return np.concatenate(parts)


def further_functions(terms: Sequence[JointTerm], motion: Motion) -> np.ndarray:
    """Return the last functions of the state (·, m): signs of speeds, and the terms' own."""
    dq = motion.velocity.T
    parts = [
        direction(np.asarray(sum(r * dq[k] for k, r in speed)), term.reversal)[None]
        for term in terms
        for speed in term.speeds
    ]
    parts += [term.other(motion).T for term in terms if term.other is not None]
    return np.concatenate([np.empty((0, len(motion))), *parts])


def summands(terms: Sequence[JointTerm], n: int) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """
    Return functions and coefficients that add up to the entry of each row and column.

    Functions are places in what `state_functions` gives for n joints.
    """
    first = {kind: kind * n for kind in (COSINE, SINE, VELOCITY, ACCELERATION, ONE)}
    first[SIGN] = 5 * n + 1
    first[SPEED_SIGN] = 6 * n + 1
    first[OTHER] = first[SPEED_SIGN] + sum(len(term.speeds) for term in terms)
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for term in terms:
        for entry in term.entries:
            for kind, place, coefficient in entry.parts:
                parts = found.setdefault((entry.row, entry.column), [])
                parts.append((first[kind] + place, coefficient))
        first[SPEED_SIGN] += len(term.speeds)
        first[OTHER] += term.n_other
    return found


SYMBOLS = {'rotor_inertia': 'Ia', **{name: term.symbol for name, term in FRICTION.items()}}
"""Symbol of each term, in the order of the columns."""

_UNITS = {'Ia': ('kg m^2', 'kg'), **{term.symbol: term.units for term in FRICTION.values()}}
"""Units of each symbol for joints that turn, and for those that slide."""

_KINDS = {'rotor_inertia': ACCELERATION, 'viscous': VELOCITY, 'coulomb': SIGN, 'offset': ONE}
"""Terms whose function of the state stands for other columns, too; all others have their own."""


def joint_terms(settings: ModelSettings) -> tuple[str, ...]:
    """Terms of every joint that the settings ask for, in the order of the columns."""
    wanted = {*settings.friction, *(('rotor_inertia',) if settings.rotor_inertia else ())}
    return tuple(term for term in SYMBOLS if term in wanted)


def unit_of(symbol: str, *, revolute: bool) -> str:
    """Return the unit of a joint's parameter."""
    return _UNITS[symbol][not revolute]


def slopes_of(settings: ModelSettings, joints: tuple[str, ...]) -> dict[str, np.ndarray]:
    """
    Return the slopes (n_joints,) [s/rad or s/m] that shape stiction and Stribeck friction.

    Both terms have some, whether the settings have the term or not; usual ones, on which no
    parameter's identifiability depends, stand for those that are not given.  Raises SettingsError
    if there is neither one slope nor one a joint, or Stribeck friction is to rise as steeply as
    stiction.
    """
    steep, slow = settings.stiction_slope, settings.stribeck_slope
    # a slope that is not given keeps clear of the one that is
    usual = {
        'stiction': np.maximum(FRICTION['stiction'].usual_slope, 20.0 * np.max(slow or 0.0)),
        'stribeck': np.minimum(FRICTION['stribeck'].usual_slope, 0.05 * np.min(steep or np.inf)),
    }
    slopes = {term: _by_joint(settings, key, joints, usual[term]) for term, key in SLOPES.items()}
    if {*SLOPES} <= {*settings.friction}:
        pairs = zip(joints, slopes['stiction'], slopes['stribeck'], strict=True)
        for joint, high, low in pairs:
            if high <= low:
                raise SettingsError(
                    f"'stribeck_slope' of joint '{joint}' is {low:g}, 'stiction_slope' {high:g}",
                    joint=joint,
                    key='stribeck_slope',
                    value=low,
                    remedy='stiction has to rise more steeply than the Stribeck effect takes it '
                    'away',
                )
    return slopes


def _by_joint(
    settings: ModelSettings, key: str, joints: tuple[str, ...], usual: float = 0.0
) -> np.ndarray:
    """Return a setting that is one number or one a joint as (n_joints,)."""
    given = getattr(settings, key)
    values = np.atleast_1d(np.asarray(usual if given is None else given, dtype=float))
    if values.size not in (1, len(joints)):
        raise SettingsError(
            f"'{key}' has {values.size} values, but the robot has {len(joints)} joints",
            key=key,
            value=given,
            remedy=f'give one value for each of {one_of(joints)}, or one for all',
        )
    return np.broadcast_to(values, len(joints)).astype(float)


def direction(velocity: np.ndarray, reversal: np.ndarray | float) -> np.ndarray:
    """Return velocities by the reversal speed, from -1 to 1; their signs where that is 0."""
    share = np.divide(velocity, reversal, out=np.sign(velocity), where=np.asarray(reversal) > 0.0)
    return np.clip(share, -1.0, 1.0)


class DryFriction:
    """
    Direction of dry friction along a motion, sample by sample, by Dahl's model.

    ``breakaway`` (n_joints,) is the displacement x0 [rad or m], 0 for the sign of the velocity;
    ``step`` the time between samples [s].
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
        ways = np.sign(velocity)
        moved = np.abs(velocity) * self._step
        for joint in np.flatnonzero(self._breakaway):
            sign = ways[:, joint].copy()
            bounds = np.flatnonzero(np.diff(sign)) + 1
            for start, stop in zip([0, *bounds], [*bounds, len(sign)], strict=True):
                way = sign[start] if start < stop else 0.0
                rest = np.exp(-np.cumsum(moved[start:stop, joint]) / self._breakaway[joint])
                values = way + (self._state[joint] - way) * rest
                ways[start:stop, joint] = values
                if values.size:
                    self._state[joint] = values[-1]
        return np.asarray(ways)


def friction_term(
    joints: tuple[str, ...],
    revolute: tuple[bool, ...],
    settings: ModelSettings,
    start: int,
    effort: Callable[[Motion], np.ndarray] | None = None,
) -> JointTerm:
    """
    Return the columns of rotor inertia and friction, joint by joint.

    Parameters
    ----------
    joints, revolute:
        Names of the joints, and whether they turn.
    settings:
        With the terms that are asked for.
    start:
        Place of the first column in the whole vector.
    effort:
        Of the bodies (m, n_joints), whose load adds to friction; None if the model has no such
        term.

    """
    terms = joint_terms(settings)
    if 'load' in terms and effort is None:
        raise SettingsError(
            "friction has 'load', which robots with elastic joints do not have",
            key='robot.friction',
            value=settings.friction,
            remedy="leave 'load' out",
        )
    breakaway, reversal = (_by_joint(settings, k, joints) for k in ('breakaway', 'reversal_speed'))
    kinds = dict(_KINDS)
    if np.any(breakaway) or np.any(reversal):
        del kinds['coulomb']
    others = tuple(term for term in terms if term not in kinds)
    names: list[str] = []
    units, entries = [], []
    for row, (joint, turns) in enumerate(zip(joints, revolute, strict=True)):
        for term in terms:
            kind, place = kinds.get(term, OTHER), row
            if kind == OTHER:
                place += len(joints) * others.index(term)
            part = kind, 0 if kind == ONE else place, 1.0
            entries.append(Entry(row, start + len(names), (part,)))
            names.append(f'{joint}.{SYMBOLS[term]}')
            units.append(unit_of(SYMBOLS[term], revolute=turns))
    return JointTerm(
        ParameterLayout(tuple(names), tuple(units)),
        tuple(entries),
        other=partial(
            _own_functions,
            others,
            slopes_of(settings, joints),
            effort if 'load' in terms else None,  # costs as much as all other columns
            breakaway > 0.0,
            reversal,
        )
        if others
        else None,
        n_other=len(others) * len(joints),
        breakaway=breakaway if np.any(breakaway) else None,
    )


def _own_functions(
    terms: tuple[str, ...],
    slopes: Mapping[str, np.ndarray],
    effort: Callable[[Motion], np.ndarray] | None,
    holds: np.ndarray,
    reversal: np.ndarray,
    motion: Motion,
) -> np.ndarray:
    """Values of terms that are no functions of their own, (m, n_joints of each)."""
    state, way = motion.friction_state, direction(motion.velocity, reversal)
    dry = way if state is None else np.where(holds, state, way)
    load = 0.0 if effort is None else effort(motion)
    states = (FrictionState(motion.velocity, dry, way, slopes.get(t, 0.0), load) for t in terms)
    return np.hstack([FRICTION[t].function(s) for t, s in zip(terms, states, strict=True)])


def body_effort(bodies: Term, values: np.ndarray, motion: Motion) -> np.ndarray:
    """Return the effort (m, n_joints) [N m or N] of bodies with parameters ``values``."""
    effort = np.empty(motion.position.shape)
    for start in range(0, len(motion), _BLOCK):
        part = motion.rows(start, start + _BLOCK)
        columns = np.zeros((*part.position.shape, values.size))
        bodies.fill(part, columns)
        effort[start : start + len(part)] = columns @ values
    return effort


SPRING_SYMBOLS = ('kc', 'ks')
"""Symbols of the coefficients of the cosine and the sine of a joint's position [N m]."""


def spring_term(
    springs: tuple[str, ...], joints: tuple[str, ...], revolute: tuple[bool, ...], start: int
) -> JointTerm:
    """
    Return the columns of springs at the joints ``springs`` among ``joints``.

    Raises SettingsError if a joint is not identified, or slides.
    """
    for joint in springs:
        if joint not in joints:
            problem, remedy = 'is not identified', f'identified are {one_of(joints)}'
        elif not revolute[joints.index(joint)]:
            problem, remedy = 'slides', 'leave it out: cosine and sine are of joints that turn'
        else:
            continue
        raise SettingsError(
            f"joint '{joint}' of joint_springs {problem}",
            joint=joint,
            key='robot.joint_springs',
            value=joint,
            remedy=remedy,
        )
    names = tuple(f'{joint}.{symbol}' for joint in springs for symbol in SPRING_SYMBOLS)
    entries = tuple(
        Entry(joints.index(joint), start + 2 * i + k, ((kind, joints.index(joint), 1.0),))
        for i, joint in enumerate(springs)
        for k, kind in enumerate((COSINE, SINE))
    )
    return JointTerm(ParameterLayout(names, ('N m',) * len(names)), entries)


def drive_term(
    drive: CoupledDrive,
    joints: tuple[str, ...],
    revolute: tuple[bool, ...],
    settings: ModelSettings,
    before: ParameterLayout,
) -> JointTerm:
    """
    Return the columns of a coupled drive, to stand after the parameters ``before``.

    They are ``<motor>.Iam`` (where it is separate), ``.fvm`` and ``.fcm``; a tied inertia adds to
    the column of its joint's ``Ia``.  Raises SettingsError if a coupled joint is not identified,
    or joints that turn are coupled with joints that slide.
    """
    coupled = [
        (_coupled_place(drive, joint, joints), ratio)
        for joint, ratio in zip(drive.joints, drive.ratios, strict=True)
    ]
    kinds = {revolute[place] for place, _ in coupled}
    if len(kinds) > 1:
        raise SettingsError(
            f"the coupled drive of '{drive.motor}' couples joints that turn and that slide",
            joint=drive.motor,
            key='coupled_drives',
            value=drive.joints,
            remedy='couple joints of one kind',
        )
    turns = kinds.pop()
    separate = settings.rotor_inertia and drive.inertia == 'separate'
    dry = not {'coulomb', 'stiction'}.isdisjoint(settings.friction)
    wanted = {'Iam': separate, 'fvm': 'viscous' in settings.friction, 'fcm': dry}
    symbols = [symbol for symbol, on in wanted.items() if on]
    column = {symbol: len(before) + i for i, symbol in enumerate(symbols)}
    scale = 1.0  # Iam for a unit of the parameter in its column
    if settings.rotor_inertia and not separate:
        column['Iam'] = before.index(f'{drive.motor}.Ia')
        scale = 1.0 / drive.ratios[drive.joints.index(drive.motor)] ** 2
    entries = []
    for joint, ratio in coupled:
        parts = {
            'Iam': tuple((ACCELERATION, k, ratio * r * scale) for k, r in coupled if k != joint),
            'fvm': tuple((VELOCITY, k, ratio * r) for k, r in coupled),
            'fcm': ((SPEED_SIGN, 0, ratio),),
        }
        entries += [Entry(joint, column[symbol], parts[symbol]) for symbol in column]
    return JointTerm(
        ParameterLayout(
            tuple(f'{drive.motor}.{symbol}' for symbol in symbols),
            tuple(unit_of(symbol[:2], revolute=turns) for symbol in symbols),
        ),
        tuple(entries),
        speeds=(tuple(coupled),) if dry else (),
        reversal=float(_by_joint(settings, 'reversal_speed', joints)[joints.index(drive.motor)]),
    )


def _coupled_place(drive: CoupledDrive, joint: str, joints: tuple[str, ...]) -> int:
    if joint not in joints:
        raise SettingsError(
            f"joint '{joint}' of the coupled drive of '{drive.motor}' is not identified",
            joint=joint,
            key='coupled_drives',
            value=drive.joints,
            remedy=f'identified are {one_of(joints)}',
        )
    return joints.index(joint)
