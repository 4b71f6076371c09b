# SPDX-License-Identifier: Apache-2.0
"""Bounds that settings state for one method, in the others: kept, refused or left out by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

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
    for key in _unkept(settings):
        raise SettingsError(
            f"'{key}' is given, and method {settings.method} does not keep it",
            key=key,
            value=settings.method,
            remedy='leave it out, or set estimation.method to physical, which keeps all bounds',
        )


def without_unkept_bounds(
    settings: EstimationSettings, asked: Collection[str] = ()
) -> tuple[EstimationSettings, tuple[str, ...]]:
    """
    Leave out the bounds that the method does not keep.

    Parameters
    ----------
    settings:
        Settings for several requests with methods of their own, such as a node's parameters.
    asked:
        Dotted keys of a single request; bounds among them stay, for `require_bounds_kept` to
        refuse.

    Returns
    -------
    tuple
        The settings, and a remark for each key that is left out.

    """
    remarks = []
    for key in _unkept(settings):
        if any(f'{key}.'.startswith(f'{one}.') or one.startswith(f'{key}.') for one in asked):
            continue
        _, section, name = key.split('.')
        values = getattr(settings, section)
        values = replace(values, **{name: getattr(type(values)(), name)})
        settings = replace(settings, **{section: values})
        remarks.append(f"'{key}' is not used: method {settings.method} does not keep it")
    return settings, tuple(remarks)


def _unkept(settings: EstimationSettings) -> list[str]:
    """Return the keys of bounds that are stated and that the method does not keep."""
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
    return stated
