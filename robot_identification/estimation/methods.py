# SPDX-License-Identifier: Apache-2.0
"""The estimators by name, all called alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..parameters import ParameterSet
from ..regressors.settings import ModelSettings
from ..robot import Robot
from .estimate import Estimate
from .irls import irls
from .least_squares import ols, wls
from .mrls import mrls
from .outliers import Repair
from .physical import physical
from .rows import RowBlock
from .settings import EstimationSettings
from .system import LinearSystem


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
        Starts a pass with other efforts at some samples, see `outliers`; None where rows are not
        made of samples.
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
    return physical(
        task.system,
        task.robot,
        task.prior,
        task.settings.physical,
        model=task.model,
        distance=task.settings.distance,
    )


ESTIMATORS: dict[str, Callable[[Task], Estimate]] = {
    'ols': _ols,
    'wls': _wls,
    'irls': _irls,
    'mrls': _mrls,
    'physical': _physical,
}
"""Estimators by the name that `EstimationSettings.method` gives them."""
