# SPDX-License-Identifier: Apache-2.0
"""
The table of estimators, `ESTIMATORS`.

Whoever adds an estimator enters it here, with its settings, and nowhere else: the settings of an
estimation (`estimators`) are made from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor.settings import ModelSettings
from .bootstrap import BootstrapSettings, with_bootstrap
from .bounds import stated_boxes
from .estimate import Estimate
from .irls import irls, IrlsSettings
from .least_squares import ols, wls
from .link_constraints import PhysicalSettings
from .physical import physical
from .recursive.mrls import mrls
from .recursive.rls import RecursiveSettings
from .row_block import RowBlock
from .system import LinearSystem

BOUNDS = (
    *('mrls.bounds', 'mrls.bounds_file'),
    *('physical.total_mass', 'physical.relative_mass', 'physical.links'),
    'physical.center_of_mass',
)
"""Keys of `EstimationSettings` that state bounds."""

DRAWN, SCALED, OWN = 'drawn', 'scaled', 'own'
"""Ways to the bootstrap's standard deviations, see `Estimator`."""


class MethodSettings(Protocol):
    """Part of `EstimationSettings` that all methods read; their own are sections of it."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def bootstrap(self) -> BootstrapSettings | None:
        """Settings of the bootstrap, if there is to be one."""


@dataclass(frozen=True)
class EstimationTask:
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
        How to estimate: `EstimationSettings`.
    rows:
        Starts a fresh pass over the same rows, recording by recording, for estimators that have to
        see them one by one; given a `Repair`, with other efforts at some samples.
    model:
        Terms of the dynamic model.

    """

    system: LinearSystem
    robot: Robot
    prior: ParameterSet
    settings: MethodSettings
    rows: Callable[..., Iterator[RowBlock]] = field(default=lambda repair=None: iter(()))
    model: ModelSettings = field(default_factory=ModelSettings)

    def section(self, method: str) -> Any:
        """Return the settings of a method."""
        return getattr(self.settings, method)


@dataclass(frozen=True)
class Estimator:
    """
    Member of the table of estimators.

    Its settings, if it has any, are the section of `EstimationSettings` of its name.

    Attributes
    ----------
    title:
        Its name in full, for summaries and reports.
    doc:
        What it does, for the description of `EstimationSettings.method`.
    run:
        Returns the estimate, with classical standard deviations unless ``bootstrap`` is `OWN`.
    settings:
        Options dataclass with its settings; None for none.
    from_factors:
        True if the factors of recordings are enough for it, without their rows one by one.
    bounds:
        The `BOUNDS` that it keeps.
    bootstrap:
        Where its standard deviations come from if a bootstrap is asked for: `DRAWN`, for the least
        squares solution by the weights of the joints; `SCALED`, its classical ones by what those
        of weighted least squares grow by; `OWN`, its function does that itself.

    """

    title: str
    doc: str
    run: Callable[[EstimationTask], Estimate]
    settings: type | None = None
    from_factors: bool = False
    bounds: tuple[str, ...] = ()
    bootstrap: str = SCALED


def _irls(task: EstimationTask) -> Estimate:
    return irls(
        task.system,
        task.rows,
        task.section('irls'),
        prior=task.prior,
        robot=task.robot.name,
        repaired=task.rows,
    )


def _mrls(task: EstimationTask) -> Estimate:
    return mrls(
        task.system, task.rows(), task.section('mrls'), prior=task.prior, robot=task.robot.name
    )


def _physical(task: EstimationTask) -> Estimate:
    recursive = task.section('mrls')
    try:
        return physical(
            task.system,
            task.robot,
            task.prior,
            task.section('physical'),
            model=task.model,
            boxes=stated_boxes(recursive.bounds, recursive.bounds_file),
            drawing=task.settings.bootstrap,
        )
    except np.linalg.LinAlgError as error:
        estimate = estimate_by('wls', task)
        remark = f'the physical fit fails ({error}): weighted least squares takes its place'
        notes, warnings = (*estimate.notes, remark), (*estimate.warnings, remark)
        return replace(estimate, notes=notes, warnings=warnings)


ESTIMATORS: dict[str, Estimator] = {
    'ols': Estimator(
        'ordinary least squares',
        'least squares with all rows alike',
        lambda task: ols(task.system, prior=task.prior, robot=task.robot.name),
        from_factors=True,
        bootstrap=DRAWN,
    ),
    'wls': Estimator(
        'weighted least squares',
        'least squares with the rows of each joint weighted by its residual',
        lambda task: wls(task.system, prior=task.prior, robot=task.robot.name),
        from_factors=True,
        bootstrap=DRAWN,
    ),
    'irls': Estimator(
        'iteratively reweighted least squares',
        'least squares with each row weighted by its own residual, robust against outliers',
        _irls,
        settings=IrlsSettings,
    ),
    'mrls': Estimator(
        'modified recursive least squares',
        'recursively from the prior',
        _mrls,
        settings=RecursiveSettings,
        bounds=('mrls.bounds', 'mrls.bounds_file'),
    ),
    'physical': Estimator(
        'maximum a posteriori over physical bodies',
        'the most probable parameters that real bodies can have, from recordings and prior',
        _physical,
        settings=PhysicalSettings,
        from_factors=True,
        bounds=BOUNDS,
        bootstrap=OWN,
    ),
}
"""Estimators by the name that `EstimationSettings.method` gives them."""


def estimate_by(method: str, task: EstimationTask) -> Estimate:
    """Return the estimate by a member of the table, with its standard deviations."""
    estimator, drawing = ESTIMATORS[method], task.settings.bootstrap
    estimate = estimator.run(task)
    if drawing is None or estimator.bootstrap == OWN:
        return estimate
    return with_bootstrap(task.system, estimate, drawing, drawn=estimator.bootstrap == DRAWN)
