# SPDX-License-Identifier: Apache-2.0
"""The settings of an estimation, as the experiment file and the nodes' parameters give them."""

from __future__ import annotations

from dataclasses import dataclass

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
