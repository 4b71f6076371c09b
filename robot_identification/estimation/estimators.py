# SPDX-License-Identifier: Apache-2.0
"""The settings of an estimation, made from the table of estimators, and the rows it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from ..errors import one_of, SettingsError
from ..options.fields import option, with_fields
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.energy import energy_of
from ..signals import RecordingSource, SignalSettings
from .bootstrap import BootstrapSettings
from .energy import ENERGY, energy_blocks, EnergySettings
from .estimate import Estimate
from .irls import IrlsSettings
from .link_constraints import PhysicalSettings
from .recursive.rls import RecursiveSettings
from .row_block import RowBlock
from .rows import Repair, row_blocks
from .table import BOUNDS, estimate_by, EstimationTask, ESTIMATORS

ROLLOUT = 'rollout'
"""Method for recordings of commands (`servo`), which is none of the estimators."""

SERVO_METHODS = (ROLLOUT, 'ols')
"""Methods for recordings of commands."""

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
@with_fields(
    {
        name: (each.settings, option(factory=each.settings, doc=f'Settings of method {name}'))
        for name, each in ESTIMATORS.items()
        if each.settings
    }
)
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
        doc='How parameters are estimated: '
        + '; '.join(f'{each.doc} ({name})' for name, each in ESTIMATORS.items())
        + '; for servos (robot.effort_kind servo_command) from rollouts in a simulator (rollout), '
        'or ols on the efforts that their gains imply; left out, ols where no simulator is named',
        choices=(*ESTIMATORS, ROLLOUT),
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
        'stretches of the recordings again; null gives the classical ones, which take rows for '
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
    if TYPE_CHECKING:
        # sections of the table's members, for those who read them by name
        irls: IrlsSettings = IrlsSettings()
        mrls: RecursiveSettings = RecursiveSettings()
        physical: PhysicalSettings = PhysicalSettings()

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
    kept = () if settings.method == ROLLOUT else ESTIMATORS[settings.method].bounds
    return [
        f'estimation.{key}'
        for key in BOUNDS
        if key not in kept and (value := attrgetter(key)(settings)) and value != 'free'
    ]


@dataclass(frozen=True)
class RowBuilder:
    """Builder of rows from recordings: inverse dynamics or energy equations, as settings say."""

    settings: EstimationSettings

    @property
    def by_energy(self) -> bool:
        """True if the rows are energy equations."""
        return self.settings.equations == 'energy'

    def require(self, regressor: Regressor) -> None:
        """Raise SettingsError where a regressor has no such rows."""
        if self.by_energy:
            energy_of(regressor)

    def blocks(
        self,
        source: RecordingSource,
        regressor: Regressor,
        structure: BaseStructure,
        signals: SignalSettings,
        repair: Repair | None = None,
    ) -> Iterator[RowBlock]:
        """
        Iterate over the rows of a recording, see `row_blocks` and `energy_blocks`.

        A repair of the efforts sample by sample is for inverse dynamics: over an interval, a spike
        is one part of a sum.
        """
        if self.by_energy:
            return energy_blocks(source, regressor, structure, signals, self.settings.energy)
        return row_blocks(source, regressor, structure, signals, repair=repair)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the rows of a sample: one, whose effort is work [J]; None for the joints."""
        return (ENERGY,) if self.by_energy else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the figures of the fit."""
        if not self.by_energy:
            return ()
        return (
            f'rows are energy equations over {self.settings.energy.interval:g} s: what the fit '
            'calls effort is the work of all joints [J]',
        )


def resolve_method_conflict(
    settings: EstimationSettings,
) -> tuple[EstimationSettings, tuple[str, ...]]:
    """
    Return settings that can be met together, and remarks on what had to give way.

    Method physical, the default, finds standard parameters itself; where other ones are asked
    for, weighted least squares takes its place.
    """
    if settings.method != 'physical' or settings.standard == 'nearest':
        return settings, ()
    remark = (
        f"'estimation.standard' is {settings.standard}, which method physical does not have: "
        'weighted least squares (wls) takes its place'
    )
    return replace(settings, method='wls'), (remark,)


def run_estimator(task: EstimationTask) -> Estimate:
    """Return the estimate by the method of the settings, with its standard deviations."""
    if task.settings.method == ROLLOUT:
        raise SettingsError(
            "'estimation.method' is rollout, but the recordings have efforts",
            key='estimation.method',
            value=ROLLOUT,
            remedy=f'set it to one of {one_of(ESTIMATORS)}, or robot.effort_kind to servo_command',
        )
    return estimate_by(task.settings.method, task)
