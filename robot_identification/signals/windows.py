# SPDX-License-Identifier: Apache-2.0
"""
Recordings to windows for the polynomial approximation.

The position with its derivatives and the effort are what one operator P (Lomakin and Deutscher)
makes of them, and belong to the moment t_d before their window's end.  Columns of the regressor
that are no polynomials of velocity and acceleration, such as Coulomb friction, take another way:
``sign(P{v})`` would have its step where ``P{tau}`` has a slope, and bias the friction by up to a
fifth, so they are evaluated sample by sample and then filtered by P.  What they are evaluated at,
a motion without phase shift, is kept beside the windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
import math

import numpy as np

from ..data.recording import Motion, Samples
from .polynomial_approximation import apply, PolynomialOperator
from .settings import PolynomialApproximation

_ON_SAMPLE = 1e-6  # periods
_LONGER = 1.5  # times the window, for the motion without phase shift


@dataclass(frozen=True)
class WindowedSamples(Samples):
    """
    Samples that the operator P made, with what it saw.

    Attributes
    ----------
    raw:
        Motion at the samples of all windows: measured position, velocity and acceleration without
        phase shift, ``(m - 1) stride + taps`` rows for m windows.
    operator:
        P.
    stride:
        Samples from one window to the next.
    settings:
        How regressors are projected.

    """

    raw: Motion
    operator: PolynomialOperator
    stride: int
    settings: PolynomialApproximation

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = (len(self) - 1) * self.stride + self.operator.taps if len(self) else 0
        if len(self.raw) != wanted:
            raise ValueError(f'{len(self)} windows take {wanted} samples, not {len(self.raw)}')

    def rows(self, start: int | None, stop: int | None) -> WindowedSamples:
        """Return the part from window ``start`` to before window ``stop``."""
        first, last, _ = slice(start, stop).indices(len(self))
        end = (last - 1) * self.stride + self.operator.taps if last > first else first
        part = slice(first, last)
        return replace(
            self,
            position=self.position[part],
            velocity=self.velocity[part],
            acceleration=self.acceleration[part],
            time=self.time[part],
            effort=self.effort[part],
            measured_effort=self.measured_effort[part],
            raw=self.raw.rows(first * self.stride, end if last > first else first * self.stride),
        )


@dataclass(frozen=True)
class Windows:
    """
    The method polynomial_approximation, for one sampling rate.

    Attributes
    ----------
    settings:
        Its parameters.
    operator:
        P.
    centred:
        The operator of the motion without phase shift: its window has a sample in its middle, and
        the delay ends there.  Its degree is higher, because it matters when a velocity changes its
        sign, and its window longer by as much as makes it no noisier.

    """

    settings: PolynomialApproximation
    operator: PolynomialOperator
    centred: PolynomialOperator

    @classmethod
    def design(cls, settings: PolynomialApproximation, rate: float) -> Windows:
        """
        Make the operators for a sampling rate [Hz].

        Raises
        ------
        SettingsError
            where the window is too short for the rate.

        """
        operator = settings.operator(rate)
        half = math.ceil(0.5 * _LONGER * (operator.taps - 1))
        exponent = max(settings.alpha, settings.beta)
        # of even degree, because the middle of the window is a zero of odd polynomials
        centred = PolynomialOperator(
            2.0 * half / rate,
            1.0 / rate,
            settings.degree + settings.degree % 2 + 2,
            exponent,
            exponent,
            half / rate,
        )
        return cls(settings, operator, centred)

    @property
    def stride(self) -> int:
        """Samples from one window to the next."""
        return self.settings.step(self.operator.taps)

    @property
    def lead(self) -> float:
        """Time from a stretch's first sample to the first moment that is approximated [s]."""
        before = self._margin + self.operator.taps - 1
        return before * self.operator.period - self.operator.instant

    @property
    def tail(self) -> float:
        """Time from the last moment that is approximated to a stretch's last sample [s]."""
        return self._margin * self.operator.period + self.operator.instant

    @property
    def shortest(self) -> int:
        """Smallest number of rows that it can work on."""
        return 2 * self._margin + self.operator.taps

    def cuts(self, trim: float) -> tuple[int, int]:
        """Rows to leave out at both ends of a stretch, so that a time ``trim`` [s] is."""
        return tuple(  # type: ignore[return-value]
            max(0, math.ceil((trim - left) / self.operator.period - _ON_SAMPLE))
            for left in (self.lead, self.tail)
        )

    def samples(
        self,
        blocks: Iterator[np.ndarray],
        start: float,
        joints: tuple[str, ...],
        *,
        trim: float = 0.0,
        block: int = 16384,
    ) -> Iterator[WindowedSamples]:
        """
        Turn the rows of a stretch into windows.

        Parameters
        ----------
        blocks:
            (n_rows, 2 n_joints) consecutive rows, position and effort side by side.
        start:
            Time of the first row [s].
        joints:
            Names of the joints.
        trim:
            Time without windows at both ends [s].
        block:
            Rows that the windows of a block are apart in all; the last one may be shorter.

        """
        first, last = self.cuts(trim)
        start += first * self.operator.period + self.lead
        reach = 2 * self._margin + self.operator.taps - self.stride
        size = max(1, block // self.stride)
        held: np.ndarray | None = None
        count = 0
        for rows in _between(blocks, first, last):
            held = rows if held is None else np.concatenate((held, rows))
            while len(held) >= reach + size * self.stride:
                yield self._block(held[: reach + size * self.stride], start, count, joints)
                held, count = held[size * self.stride :], count + size
        if held is None:
            return
        windows = (len(held) - reach) // self.stride
        if windows > 0:
            yield self._block(held[: reach + windows * self.stride], start, count, joints)

    @property
    def _margin(self) -> int:
        """Rows that a motion without phase shift takes on both sides."""
        return (self.centred.taps - 1) // 2

    def _block(
        self, rows: np.ndarray, start: float, count: int, joints: tuple[str, ...]
    ) -> WindowedSamples:
        n, margin, operator = len(joints), self._margin, self.operator
        inner = rows[margin : len(rows) - margin]
        # what remains of the first row keeps a large constant part out of the rounding
        offset = rows[0, :n]
        shifted = rows[:, :n] - offset
        smooth = apply(np.array([self.centred.derivative(k) for k in (1, 2)]), shifted)
        kernels = np.array([operator.derivative(k) for k in range(3)])
        position, velocity, acceleration = apply(
            kernels, shifted[margin : len(rows) - margin], stride=self.stride
        )
        efforts = np.array([operator.value(hold=self.settings.effort_hold), self._measuring()])
        effort, measured = apply(efforts, inner[:, n:], stride=self.stride)
        moments = (count + np.arange(len(effort))) * (self.stride * operator.period)
        return WindowedSamples(
            position=position + offset,
            velocity=velocity,
            acceleration=acceleration,
            time=start + moments,
            effort=effort,
            measured_effort=measured,
            joints=joints,
            raw=Motion(inner[:, :n], smooth[0], smooth[1]),
            operator=operator,
            stride=self.stride,
            settings=self.settings,
        )

    def _measuring(self) -> np.ndarray:
        """Weights that interpolate the measured effort at the moment that is approximated."""
        operator = self.operator
        weights = np.zeros(operator.taps)
        place = operator.taps - 1 - operator.instant / operator.period
        if self.settings.effort_hold:
            weights[max(0, math.floor(place + _ON_SAMPLE))] = 1.0
            return weights
        first = min(max(0, math.floor(place) - 1), operator.taps - 4)
        near = np.arange(first, first + 4)
        for i in near:
            others = near[near != i]
            weights[i] = np.prod((place - others) / (i - others))
        return weights


def _between(blocks: Iterator[np.ndarray], first: int, last: int) -> Iterator[np.ndarray]:
    """Leave out the first and the last rows."""
    held: np.ndarray | None = None
    for block in blocks:
        skipped = min(first, len(block))
        first -= skipped
        rows = block[skipped:]
        held = rows if held is None else np.concatenate((held, rows))
        if len(held) > last:
            yield held[: len(held) - last]
            held = held[len(held) - last :]
