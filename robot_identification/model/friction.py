# SPDX-License-Identifier: Apache-2.0
"""
Terms of friction: all that the suite knows of each.

`FRICTION` is the only place.  Regressors, constraints, checks, simulation and exports go through
it, so that a term which is added here is identified, held to its sign, simulated and exported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SMOOTH, DRY, STATIC, CONSTANT = 'smooth', 'dry', 'static', 'constant'
"""Kinds of terms: by the velocity; by its direction alone; dry with a slope; neither."""

POSITIVE, FALLING, FREE = 'positive', 'falling', 'free'
"""Signs of coefficients: takes power; what dry friction falls by, at most all of it; any."""


@dataclass(frozen=True)
class FrictionState:
    """
    State of joints that friction is a function of.

    Attributes
    ----------
    velocity:
        Of the joints [rad/s or m/s]; all others have its shape.
    direction:
        Of dry friction, from -1 to 1, which may hold at rest.
    sign:
        Of the velocity, from -1 to 1.
    slope:
        How steeply terms with a slope rise [s/rad or s/m].
    load:
        Efforts that the joints transmit [N m or N].

    """

    velocity: np.ndarray
    direction: np.ndarray
    sign: np.ndarray
    slope: np.ndarray | float = 0.0
    load: np.ndarray | float = 0.0


Function = Callable[[FrictionState], np.ndarray]


@dataclass(frozen=True)
class FrictionTerm:
    """
    A term of friction: the effort is a coefficient times a function of the state.

    Attributes
    ----------
    name, symbol:
        In settings, and of the coefficient: the parameter of a joint is ``<joint>.<symbol>``.
    title, formula:
        In words and as text.
    units:
        Of the coefficient, for joints that turn and for those that slide.
    kind:
        `SMOOTH`, `DRY`, `STATIC` or `CONSTANT`.
    sign:
        Of the coefficient: `POSITIVE`, `FALLING` or `FREE`.
    function:
        Effort for a coefficient of 1.
    c_code:
        The effort as C, of arrays in capitals at ``i``: the symbol, ``STICTION_SLOPE`` and
        ``REVERSAL_SPEED``; of ``v``, ``load`` and the function ``direction``.
    derivative:
        Of the function by the velocity, for smooth terms; used where it is not 0 only.
    mjcf:
        Attribute of a joint in MJCF that has the coefficient; empty for none.
    gear_power:
        Power of the gear ratio by which the coefficient is smaller at the motor.
    slope, usual_slope:
        Setting that shapes the function, and its value where none is given [s/rad or s/m].
    selected:
        Whether it is tried where the settings of a model are chosen by the recordings.

    """

    name: str
    symbol: str
    title: str
    formula: str
    units: tuple[str, str]
    kind: str
    sign: str
    function: Function
    c_code: str
    derivative: Function | None = None
    mjcf: str = ''
    gear_power: float = 1.0
    slope: str = ''
    usual_slope: float = 0.0
    selected: bool = False

    @property
    def signed(self) -> bool:
        """True if the C code needs the direction of the velocity."""
        return 'direction(' in self.c_code


def arctan_shape(velocity: np.ndarray, slope: np.ndarray | float) -> np.ndarray:
    """Return 2/pi atan(slope velocity), from -1 to 1; Szabo and Szadeczky-Kardoss, eq. (8)."""
    return (2.0 / np.pi) * np.arctan(slope * velocity)


def _static(state: FrictionState) -> np.ndarray:
    return arctan_shape(state.velocity, state.slope)


_FORCE = 'N m', 'N'

_TERMS = (
    FrictionTerm(
        'viscous',
        'fv',
        'viscous friction',
        'fv dq',
        ('N m s/rad', 'N s/m'),
        SMOOTH,
        POSITIVE,
        lambda state: state.velocity,
        'FV[i] * v[i]',
        derivative=lambda state: np.ones_like(state.velocity),
        mjcf='damping',
        gear_power=2.0,
    ),
    FrictionTerm(
        'coulomb',
        'fc',
        'Coulomb friction',
        'fc sign dq',
        _FORCE,
        DRY,
        POSITIVE,
        lambda state: state.direction,
        'FC[i] * direction(v[i], REVERSAL_SPEED[i])',
        mjcf='frictionloss',
    ),
    FrictionTerm(
        'stiction',
        'ts',
        'stiction',
        'ts 2/pi atan(stiction_slope dq), in place of coulomb',
        _FORCE,
        STATIC,
        POSITIVE,
        _static,
        'TS[i] * M_2_PI * atan(STICTION_SLOPE[i] * v[i])',
        mjcf='frictionloss',
        slope='stiction_slope',
        usual_slope=100.0,
    ),
    FrictionTerm(
        'stribeck',
        'tsc',
        'Stribeck friction',
        'tsc 2/pi atan(stribeck_slope dq)',
        _FORCE,
        STATIC,
        FALLING,
        _static,
        'TSC[i] * M_2_PI * atan(STRIBECK_SLOPE[i] * v[i])',
        mjcf='frictionloss',
        slope='stribeck_slope',
        usual_slope=5.0,
    ),
    FrictionTerm(
        'offset',
        'off',
        'offset',
        'off',
        _FORCE,
        CONSTANT,
        FREE,
        lambda state: np.ones_like(state.velocity),
        'OFF[i]',
    ),
    FrictionTerm(
        'root',
        'fr',
        'friction by the cube root of the speed',
        'fr |dq|^(1/3) sign dq, which grows less and less',
        ('N m (s/rad)^(1/3)', 'N (s/m)^(1/3)'),
        SMOOTH,
        POSITIVE,
        lambda state: np.cbrt(state.velocity) * np.abs(state.sign),
        'FR[i] * cbrt(v[i]) * fabs(direction(v[i], REVERSAL_SPEED[i]))',
        derivative=lambda state: np.abs(state.velocity) ** (-2.0 / 3.0) / 3.0,
        gear_power=4.0 / 3.0,
        selected=True,
    ),
    FrictionTerm(
        'load',
        'fl',
        'load-dependent friction',
        'fl |tau| sign dq, of gears under load; tau is the effort of the bodies of the URDF',
        ('1', '1'),
        DRY,
        POSITIVE,
        lambda state: state.direction * np.abs(state.load),
        'FL[i] * fabs(load[i]) * direction(v[i], REVERSAL_SPEED[i])',
        gear_power=0.0,
        selected=True,
    ),
)

FRICTION = {term.name: term for term in _TERMS}
"""Terms by their names, in the order of a joint's parameters."""

FRICTION_SYMBOLS = tuple(term.symbol for term in _TERMS)
"""Symbols of all coefficients."""

SLOPES = {term.name: term.slope for term in _TERMS if term.slope}
"""Terms with a constant that shapes them, and the setting that gives it."""

SELECTED = tuple(
    term.name for kind in (DRY, SMOOTH) for term in _TERMS if term.selected and term.kind == kind
)
"""Terms that are tried where a model's settings are chosen, dry ones first."""


def friction_symbols(*, kind: str = '', sign: str = '', mjcf: str = '') -> tuple[str, ...]:
    """Return the symbols of the terms of a kind, of a sign, and with an attribute of MJCF."""
    return tuple(
        term.symbol
        for term in FRICTION.values()
        if kind in ('', term.kind) and sign in ('', term.sign) and mjcf in ('', term.mjcf)
    )
