# SPDX-License-Identifier: Apache-2.0
"""The estimators by name, all called alike, and the equations that they solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..base_parameters import BaseStructure
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..progress import Progress
from ..regressor import Regressor
from ..regressor.settings import ModelSettings
from ..signals import RecordingSource, SignalSettings
from .bounds import stated_boxes
from .energy import energy_blocks, energy_system
from .estimate import Estimate
from .irls import irls, Repair
from .least_squares import ols, wls
from .mrls import mrls
from .physical import physical
from .plot_samples import TRACE_ROWS
from .row_block import RowBlock
from .rows import row_blocks, system_of
from .settings import EstimationSettings
from .system import LinearSystem
from .uncertainty import with_bootstrap


@dataclass(frozen=True)
class Equations:
    """
    Builder of rows from recordings: inverse dynamics or energy equations.

    Attributes
    ----------
    settings:
        Say which.

    """

    settings: EstimationSettings

    @property
    def by_energy(self) -> bool:
        """True if the rows are energy equations."""
        return self.settings.equations == 'energy'

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

    def system(
        self,
        sources: RecordingSource | Sequence[RecordingSource],
        regressor: Regressor,
        structure: BaseStructure,
        signals: SignalSettings,
        *,
        progress: Progress | None = None,
        trace_points: int = TRACE_ROWS,
        moving: bool = True,
    ) -> LinearSystem:
        """Return the linear system of recordings, see `system_of` and `energy_system`."""
        if self.by_energy:
            return energy_system(
                sources,
                regressor,
                structure,
                signals,
                self.settings.energy,
                progress=progress,
                trace_points=trace_points,
                timed=True,
                moving=moving,
            )
        return system_of(
            sources,
            regressor,
            structure,
            signals,
            progress=progress,
            trace_points=trace_points,
            timed=True,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the figures of the fit."""
        if not self.by_energy:
            return ()
        return (
            f'rows are energy equations over {self.settings.energy.interval:g} s: what the fit '
            'calls effort is the work of all joints [J]',
        )


@dataclass(frozen=True)
class Task:
    """
    Input of an estimator.

    Attributes
    ----------
    system:
        The rows of all recordings, folded into factors; enough for most estimators.
    robot:
        The robot, for its name and the sizes of its links.
    prior:
        Standard parameters, over the layout of ``system.structure``.
    settings:
        How to estimate.
    rows:
        Starts a fresh pass over the same rows, recording by recording, for estimators that have to
        see them one by one.
    repaired:
        Starts a pass with other efforts at some samples, see `SpikeRepair`; None where rows are
        not made of samples.
    model:
        Terms of the dynamic model.

    """

    system: LinearSystem
    robot: Robot
    prior: ParameterSet
    settings: EstimationSettings = field(default_factory=EstimationSettings)
    rows: Callable[[], Iterator[RowBlock]] = field(default=lambda: iter(()))
    repaired: Callable[[Repair], Iterator[RowBlock]] | None = None
    model: ModelSettings = field(default_factory=ModelSettings)


def _ols(task: Task) -> Estimate:
    return ols(task.system, prior=task.prior, robot=task.robot.name)


def _wls(task: Task) -> Estimate:
    return wls(task.system, prior=task.prior, robot=task.robot.name)


def _irls(task: Task) -> Estimate:
    return irls(
        task.system,
        task.rows,
        task.settings.irls,
        prior=task.prior,
        robot=task.robot.name,
        repaired=task.repaired,
    )


def _mrls(task: Task) -> Estimate:
    return mrls(
        task.system, task.rows(), task.settings.mrls, prior=task.prior, robot=task.robot.name
    )


def _physical(task: Task) -> Estimate:
    try:
        return physical(
            task.system,
            task.robot,
            task.prior,
            task.settings.physical,
            model=task.model,
            boxes=stated_boxes(task.settings.mrls.bounds, task.settings.mrls.bounds_file),
            drawing=task.settings.bootstrap,
        )
    except (np.linalg.LinAlgError, ValueError) as error:
        estimate = _wls(task)
        remark = f'the physical fit fails ({error}): weighted least squares takes its place'
        return replace(estimate, warnings=(*estimate.warnings, remark))


def applicable(settings: EstimationSettings) -> tuple[EstimationSettings, tuple[str, ...]]:
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


def estimated(task: Task) -> Estimate:
    """Return the estimate by the method of the settings, with its standard deviations."""
    estimate = ESTIMATORS[task.settings.method](task)
    drawing = task.settings.bootstrap
    if estimate.method == 'physical' or drawing is None:
        return estimate
    return with_bootstrap(task.system, estimate, drawing)


ESTIMATORS: dict[str, Callable[[Task], Estimate]] = {
    'ols': _ols,
    'wls': _wls,
    'irls': _irls,
    'mrls': _mrls,
    'physical': _physical,
}
"""Estimators by the name that `EstimationSettings.method` gives them."""
