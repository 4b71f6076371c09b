# SPDX-License-Identifier: Apache-2.0
"""The keys of ``signals.polynomial_approximation`` in the experiment file."""

from __future__ import annotations

from dataclasses import dataclass
import math
import warnings

import numpy as np

from ..errors import IdentificationWarning, SettingsError
from ..options import option
from .polynomial_approximation import admissible_delays, KEY, PolynomialOperator

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
        maximum=60.0,
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
    )
    effort_hold: bool = option(
        False,
        doc='Whether an effort acts from its sample until the next one (a commanded effort, held '
        'by the drive) instead of being a sample of a continuous signal',
    )

    def __post_init__(self) -> None:
        for name in ('alpha', 'beta'):
            if not getattr(self, name) >= HIGHEST_DERIVATIVE:
                raise SettingsError(
                    f"'{KEY}.{name}' is {getattr(self, name):g}",
                    key=f'{KEY}.{name}',
                    value=getattr(self, name),
                    remedy=f'an acceleration takes {HIGHEST_DERIVATIVE} or more',
                )
        if self.delay is not None and not 0.0 <= self.delay <= self.window:
            raise SettingsError(
                f"'{KEY}.delay' is {self.delay:g} s",
                key=f'{KEY}.delay',
                value=self.delay,
                remedy=f'it has to lie in the window of {self.window:g} s',
            )

    def operator(self, rate: float) -> PolynomialOperator:
        """
        Return the operator for a sampling rate [Hz].

        Raises
        ------
        SettingsError
            where the window is too short for the rate.

        Warns
        -----
        IdentificationWarning
            where the delay is no zero of the polynomial of degree N + 1.

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
