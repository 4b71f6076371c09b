# SPDX-License-Identifier: Apache-2.0
"""Settings of the signal processing: the keys of ``signals`` in the experiment file."""

from __future__ import annotations

from dataclasses import dataclass
import math
import warnings

import numpy as np

from ..errors import IdentificationWarning
from ..options.fields import key_error, option
from ..version import page
from .polynomial_approximation import admissible_delays, KEY, PolynomialOperator, wrong_value

PROJECTIONS = ('composition', 'products')
"""The ways in which the regressor is projected."""

HIGHEST_DERIVATIVE = 2
"""Of the positions, in inverse dynamics."""

_SHARE = 8  # of a window, by which windows of products are apart
_MET = 1e-4  # windows: a delay that is printed with this precision is admissible


@dataclass(frozen=True)
class PolynomialApproximation:
    """
    Parameters of the method polynomial_approximation (Lomakin and Deutscher).

    Raises
    ------
    SettingsError
        naming the key, where a derivative cannot be had or the delay is outside the window.

    """

    window: float = option(
        0.044,
        doc='Length T of the window over which signals are approximated',
        unit='s',
        minimum=1e-6,
        maximum=10.0,
    )
    degree: int = option(1, doc='Degree N of the approximating polynomials', minimum=0, maximum=10)
    alpha: float = option(
        3.0,
        doc='Exponent of the weight at the newest end of the window, at least 2, the order of the '
        'acceleration',
        maximum=30.0,
    )
    beta: float = option(
        3.0,
        doc='Exponent of the weight at the oldest end of the window, at least 2',
        maximum=30.0,
    )
    delay: float | None = option(
        None,
        doc="Time t_d before the window's end that the approximation is for; null takes the "
        'smallest zero of the polynomial of degree N + 1; another time loses an order of accuracy',
        unit='s',
        minimum=0.0,
    )
    projection: str = option(
        'composition',
        doc='How the rigid-body columns are projected: composition evaluates them at the '
        'projected motion; products expands their factors within the window, which is more '
        'accurate and takes longer',
        choices=PROJECTIONS,
    )
    product_degree: int = option(
        2, doc='Degree N* to which products expand their first factors', minimum=0, maximum=10
    )
    stride: int | None = option(
        None,
        doc='Samples from one window to the next; null: 1 for composition, an eighth of the '
        'window for products',
        minimum=1,
        maximum=1_000_000,
    )
    effort_hold: bool = option(
        False,
        doc='Whether an effort acts from its sample until the next one (a commanded effort, held '
        'by the drive) instead of being a sample of a continuous signal',
    )

    def __post_init__(self) -> None:
        for name in ('alpha', 'beta'):
            if not getattr(self, name) >= HIGHEST_DERIVATIVE:
                remedy = f'an acceleration takes {HIGHEST_DERIVATIVE} or more'
                raise wrong_value(name, getattr(self, name), remedy)
        if self.delay is not None and not 0.0 <= self.delay <= self.window:
            remedy = f'it has to lie in the window of {self.window:g} s'
            raise wrong_value('delay', self.delay, remedy, 's')

    def operator(self, rate: float) -> PolynomialOperator:
        """
        Return the operator for a sampling rate [Hz].

        Raises SettingsError if the window is too short for the rate; warns if the delay is no zero
        of the polynomial of degree N + 1.
        """
        if self.delay is not None:
            delays = admissible_delays(self.degree, self.window, self.alpha, self.beta)
            if np.abs(delays - self.delay).min() > _MET * self.window:
                listed = ', '.join(f'{delay:.6g}' for delay in delays)
                warnings.warn(
                    IdentificationWarning(
                        f"'{KEY}.delay' is {self.delay:g} s, which loses an order of accuracy: "
                        f'admissible are {listed} s, or null for the first of them'
                    ),
                    stacklevel=2,
                )
        return PolynomialOperator(
            self.window, 1.0 / rate, self.degree, self.alpha, self.beta, self.delay
        )

    def step(self, taps: int) -> int:
        """Return how many samples one window of ``taps`` samples is from the next."""
        if self.stride is not None:
            return self.stride
        return 1 if self.projection == 'composition' else max(1, math.floor(taps / _SHARE))


METHODS = ('butterworth', 'measured_velocity', 'savitzky_golay', 'polynomial_approximation')
"""The ways in which velocities and accelerations are found."""


ONE_SIDED = 1.5
"""Periods of the cut-off frequency over which a filter has samples of one side only."""

LEAST_TRIM = 0.05
"""Least time that is cut where none is given [s]."""


@dataclass(frozen=True)
class SignalSettings:
    """
    Filtering, differentiation, decimation and selection of the recorded signals.

    The attributes are described by `robot_identification.options.fields.describe`.

    """

    method: str = option(
        'butterworth',
        doc='How velocity and acceleration are found: butterworth low-passes the position and '
        'differentiates it twice; measured_velocity low-passes position and recorded velocity and '
        'differentiates the velocity once; savitzky_golay differentiates local polynomials; '
        'polynomial_approximation projects regressor and effort alike onto local polynomials',
        choices=METHODS,
    )
    cutoff: float = option(
        25.0,
        doc='Cut-off frequency of each of the two passes of the low-pass filter, which has -3 dB '
        'there; of the smoothing polynomial for savitzky_golay; not for '
        'polynomial_approximation, which has a window instead',
        unit='Hz',
        minimum=1e-3,
        maximum=1e6,
    )
    order: int = option(
        4,
        doc='Order of the low-pass filter in each pass; degree of the polynomial for '
        'savitzky_golay',
        minimum=1,
        maximum=10,
    )
    sample_rate: float | None = option(
        None,
        doc="Rate of the uniform time grid; null keeps the recording's own",
        unit='Hz',
        minimum=1e-3,
        maximum=20_000.0,
    )
    decimate_to: float | None = option(
        50.0,
        doc='Rate to which regressor columns and efforts are decimated by one and the same '
        'filter; the nearest whole factor is taken; null keeps all samples',
        unit='Hz',
        minimum=1e-3,
        maximum=1e6,
    )
    dead_zone: float | tuple[float, ...] = option(
        0.0,
        doc='Rows of a joint that moves slower than this are left out, because friction is not '
        'known there; one number, or one a joint',
        unit='rad/s or m/s',
        minimum=0.0,
    )
    effort_delay: float | tuple[float, ...] = option(
        0.0,
        doc='How much later than the motion efforts are recorded; the columns of the regressor '
        'are delayed as much; one number, or one a joint',
        unit='s',
        minimum=0.0,
        maximum=0.5,
    )
    effort_low_pass: float | tuple[float, ...] = option(
        0.0,
        doc='Cut-off frequency of the smoothing that recorded efforts have been through, which '
        'the columns of the regressor go through, too (order 2, without phase); 0 for none; one '
        'number, or one a joint',
        unit='Hz',
        minimum=0.0,
        maximum=1e6,
    )
    trim: float | None = option(
        None,
        doc='Time cut from both ends of every gap-free stretch after filtering, where the '
        'filter has samples of one side only; null: 1.5 periods of the cut-off frequency, at '
        'least 0.05 s, and 0.05 s with polynomial_approximation',
        unit='s',
        minimum=0.0,
        maximum=1e6,
    )
    polynomial_approximation: PolynomialApproximation = option(
        doc='Parameters of the method polynomial_approximation; how to choose them: '
        f'{page("explanation/filters")}',
        factory=PolynomialApproximation,
    )

    @property
    def ends(self) -> float:
        """Time that is cut from both ends of a stretch [s]."""
        if self.trim is not None:
            return self.trim
        one_sided = self.method != 'polynomial_approximation'
        return max(LEAST_TRIM, ONE_SIDED / self.cutoff if one_sided else 0.0)


def by_joint(settings: SignalSettings, key: str, joints: tuple[str, ...]) -> np.ndarray:
    """
    Return a setting that is one number or one a joint for all joints, (n_joints,) in its unit.

    ``key`` is ``dead_zone``, ``effort_delay`` or ``effort_low_pass``.  Raises SettingsError if the
    list has another length than ``joints``.
    """
    given = getattr(settings, key)
    values = np.atleast_1d(np.asarray(given, dtype=float))
    if isinstance(given, tuple) and values.size != len(joints):
        text = f'has {values.size} entries for {len(joints)} joints'
        remedy = 'give one number, or one for each joint'
        raise key_error(f'signals.{key}', text, remedy, value=given)
    return np.broadcast_to(values, (len(joints),)).copy()


def decimation_factor(settings: SignalSettings, rate: float) -> int:
    """
    Whole number by which samples at ``rate`` are decimated to come nearest to ``decimate_to``.

    It is 1 for no decimation.
    """
    if settings.decimate_to is None:
        return 1
    return max(1, round(rate / settings.decimate_to))
