# SPDX-License-Identifier: Apache-2.0
"""
The settings of an estimation, as the experiment file and the nodes' parameters give them.

Bounds that settings state for one method are kept, refused or left out by name in the others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ..errors import SettingsError
from ..options.fields import option
from .bootstrap import BootstrapSettings
from .energy import EnergySettings
from .irls import IrlsSettings
from .physical_settings import PhysicalSettings
from .recursive import RecursiveSettings

METHODS = ('ols', 'wls', 'irls', 'mrls', 'physical')
"""Names of the estimators that `EstimationSettings.method` takes."""

FROM_FACTORS = ('ols', 'wls', 'physical')
"""
Those that see rows through factors alone: the factors of recordings are enough for them.
"""

STANDARD = ('nearest', 'base_columns', 'essential')
"""Ways from base parameters to standard ones, as `EstimationSettings.standard` names them."""


@dataclass(frozen=True)
class EssentialSettings:
    """Settings of the elimination of uncertain base parameters."""

    max_relative_std: float = option(
        30.0,
        doc='Parameters are dropped one by one until no relative standard deviation exceeds this',
        unit='%',
        minimum=0.0,
    )


@dataclass(frozen=True)
class EstimationSettings:
    """
    Settings of the estimation of base parameters.

    Raises
    ------
    SettingsError
        where standard parameters are asked for in a way that the other settings do not allow.

    """

    method: str = option(
        'physical',
        doc='How parameters are estimated: the most probable ones that real bodies can have, from '
        'recordings and prior (physical); least squares with all rows alike (ols), or those of '
        'each joint by its residual (wls), or each row by its own, robust against outliers '
        '(irls); recursively from the prior (mrls)',
        choices=METHODS,
    )
    equations: str = option(
        'inverse_dynamics',
        doc='What the rows are: inverse_dynamics, the efforts of all joints at each instant; '
        'energy, the work of all efforts over intervals, which takes no accelerations',
        choices=('inverse_dynamics', 'energy'),
    )
    energy: EnergySettings = option(
        factory=EnergySettings, doc='Of the energy equations, where equations is energy'
    )
    essential: EssentialSettings | None = option(
        doc='How to find the essential parameters; null keeps all base parameters',
        factory=EssentialSettings,
    )
    bootstrap: BootstrapSettings | None = option(
        factory=BootstrapSettings,
        doc='Standard deviations and intervals that hold where noise is coloured, by drawing '
        'stretches of the recordings anew; null gives the classical ones, which take rows for '
        'independent',
    )
    prior: str = option(
        'urdf',
        doc='Where standard parameters start from: none (zero), urdf, or a YAML of parameters',
    )
    distance: str = option(
        'body',
        doc="How far standard parameters are from the prior: body measures each link's in its own "
        'mass and radius of gyration, si counts kg, kg m and kg m^2 alike, as Gautier and Venture '
        'do',
        choices=('body', 'si'),
    )
    standard: str = option(
        'nearest',
        doc='What the data change in the prior: nearest, all standard parameters as little as '
        'possible (30); base_columns, only those that base parameters are named after; essential, '
        'only those of essential parameters (32). With the last two, method physical gives way '
        'to wls',
        choices=STANDARD,
    )
    irls: IrlsSettings = option(
        factory=IrlsSettings, doc='Of the reweighted least squares, for method irls'
    )
    mrls: RecursiveSettings = option(
        factory=RecursiveSettings, doc='Of the recursive estimator, for method mrls'
    )
    physical: PhysicalSettings = option(
        factory=PhysicalSettings, doc='Of the fit that real bodies can have, for method physical'
    )

    def __post_init__(self) -> None:
        if self.standard == 'essential' and self.essential is None:
            raise SettingsError(
                "standard is 'essential', but essential parameters are not asked for",
                key='standard',
                value=self.standard,
                remedy='give estimation.essential, or another estimation.standard',
            )


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
