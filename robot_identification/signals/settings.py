# SPDX-License-Identifier: Apache-2.0
"""Settings of the signal processing: the keys of ``signals`` in the experiment file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import SettingsError
from ..options import option
from .polynomial_settings import PolynomialApproximation

METHODS = ('butterworth', 'measured_velocity', 'savitzky_golay', 'polynomial_approximation')
"""The ways in which velocities and accelerations are found."""


@dataclass(frozen=True)
class SignalSettings:
    """
    Filtering, differentiation, decimation and selection of the recorded signals.

    The attributes are described by `robot_identification.options.describe`.

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
    trim: float = option(
        0.05,
        doc='Time cut from both ends of every gap-free stretch after filtering, where the '
        'filter knows only one side',
        unit='s',
        minimum=0.0,
        maximum=1e6,
    )
    polynomial_approximation: PolynomialApproximation = option(
        doc='Parameters of the method polynomial_approximation (docs/filters.md tells how to '
        'choose them)',
        factory=PolynomialApproximation,
    )


def dead_zones(settings: SignalSettings, joints: tuple[str, ...]) -> np.ndarray:
    """
    Spread the dead zone over the joints.

    Parameters
    ----------
    settings:
        Their ``dead_zone`` is one number or one a joint.
    joints:
        Names of the joints.

    Returns
    -------
    (n_joints,) smallest speed at which a joint's row is used [rad/s or m/s].

    Raises
    ------
    SettingsError
        where the list has another length than ``joints``.

    """
    zone = np.atleast_1d(np.asarray(settings.dead_zone, dtype=float))
    if isinstance(settings.dead_zone, tuple) and zone.size != len(joints):
        raise SettingsError(
            f"'signals.dead_zone' has {zone.size} entries for {len(joints)} joints",
            key='signals.dead_zone',
            value=settings.dead_zone,
            remedy='give one number, or one for each joint',
        )
    return np.broadcast_to(zone, (len(joints),)).copy()


def decimation_factor(settings: SignalSettings, rate: float) -> int:
    """
    Whole number by which samples at ``rate`` are decimated to come nearest to ``decimate_to``.

    Parameters
    ----------
    settings:
        Their ``decimate_to`` is the rate wanted, or None for no decimation.
    rate:
        Rate of the samples [Hz].

    Returns
    -------
    Factor, 1 or more; 1 stands for no decimation.

    """
    if settings.decimate_to is None:
        return 1
    return max(1, round(rate / settings.decimate_to))
