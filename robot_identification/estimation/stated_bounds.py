# SPDX-License-Identifier: Apache-2.0
"""Bounds that settings state for one method, in the others: kept, or refused by name."""

from __future__ import annotations

from ..errors import SettingsError
from .settings import EstimationSettings


def require_bounds_kept(settings: EstimationSettings) -> None:
    """
    Check that the method keeps all bounds that the settings state.

    Raises
    ------
    SettingsError
        naming the key of bounds that the method does not keep.

    """
    stated = []
    if settings.method not in ('mrls', 'physical'):
        stated += [
            f'estimation.mrls.{name}'
            for name in ('bounds', 'bounds_file')
            if getattr(settings.mrls, name)
        ]
    if settings.method != 'physical':
        physical = settings.physical
        stated += [
            f'estimation.physical.{name}'
            for name in ('total_mass', 'relative_mass', 'links')
            if getattr(physical, name)
        ]
        if physical.center_of_mass != 'free':
            stated.append('estimation.physical.center_of_mass')
    if stated:
        raise SettingsError(
            f"'{stated[0]}' is given, and method {settings.method} does not keep it",
            key=stated[0],
            value=settings.method,
            remedy='leave it out, or set estimation.method to physical, which keeps all bounds',
        )
