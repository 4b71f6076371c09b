# SPDX-License-Identifier: Apache-2.0
"""
Recordings through the recursive estimator, block by block, as it would run beside the robot.

The estimator itself is in `recursive`; here its course over the recordings becomes an `Estimate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ...errors import IdentifiabilityError, one_of
from ...model.parameters import ParameterSet
from ...regressor.base_parameters import BaseStructure
from ..bounds import base_box, stated_boxes
from ..estimate import Estimate
from ..least_squares import (
    assemble,
    Identifiability,
    joint_weights,
    prior_base,
    require_motion,
    solve,
)
from ..row_block import RowBlock
from ..system import LinearSystem
from .elimination import ACCEPTED
from .rls import RecursiveEstimate, RecursiveLeastSquares, RecursiveSettings

GRAM_CONDITION = 1e4
"""Column-scaled condition number up to which a Gram matrix decides an estimate."""


def mrls(
    system: LinearSystem,
    blocks: Iterable[RowBlock],
    settings: RecursiveSettings | None = None,
    *,
    prior: ParameterSet | None = None,
    robot: str = '',
) -> Estimate:
    """
    Estimate by modified recursive least squares from a prior.

    Rows count all alike, as in the paper, unless ``settings.weights`` says otherwise.

    Parameters
    ----------
    system:
        The folded rows, for the fit and, where asked for, the weights.
    blocks:
        The same rows one by one.
    settings:
        Thresholds, blocks and bounds.
    prior:
        Standard or base parameters to start from; zeros without.
    robot:
        Name for the summary.

    Raises
    ------
    IdentifiabilityError
        where the rows determine no parameter at all, and as `least_squares.ols`.
    RecordingError
        where there are too few independent rows for the parameters.
    SettingsError
        naming a threshold or bound of a parameter that does not exist, or a prior out of bounds.

    """
    require_motion(system)
    settings = RecursiveSettings() if settings is None else settings
    structure = system.structure
    learner = learner_of(structure, settings, prior)
    weighted = settings.weights == 'wls'
    weights = joint_weights(system) if weighted else np.ones(system.factor.n_joints)
    course = _EstimateHistory(structure.n_base)
    for matrix, effort, independence in _pieces(blocks, weights, settings.block):
        learner.update(matrix, effort, independence)
        if learner.rows % settings.block == 0:
            course.add(learner.estimate())
    last = learner.estimate()
    course.add(last)
    if not (last.flags == ACCEPTED).any():
        raise IdentifiabilityError(
            'the recording determines none of the base parameters',
            remedy='record a motion that moves every joint with changing acceleration, or lower '
            'estimation.mrls.threshold',
        )
    identified = last.flags == ACCEPTED
    free = solve(system.stacked(weights), identified, learner.initial, system.factor.n_independent)
    # the Gram matrix has lost digits that count
    lost = settings.formulation == 'gram' and free.condition_number > GRAM_CONDITION
    solution = free
    if last.at_bound.any() or not lost:
        solution = replace(
            free, base=last.values, covariance=last.covariance, residual_std=last.residual_std
        )
    estimate = assemble(
        system,
        solution,
        Identifiability(identified, learner.reasons()),
        weights=weights,
        method='mrls',
        robot=robot,
    )
    warnings = estimate.warnings
    if lost:
        instead = (
            'bounds are met with what is left of them'
            if last.at_bound.any()
            else 'the estimate is that of the R factor'
        )
        warnings += (
            f'the condition number {free.condition_number:.0f} (column-scaled) is too high for '
            f'estimation.mrls.formulation gram, which squares it; {instead}: take formulation '
            'factor',
        )
    notes = _notes(course, last, settings, structure.base_layout.names)
    return replace(estimate, notes=notes, warnings=warnings)


def learner_of(
    structure: BaseStructure, settings: RecursiveSettings, prior: ParameterSet | None = None
) -> RecursiveLeastSquares:
    """
    Return the recursive estimator of base parameters, without rows yet.

    It starts from standard or base parameters, or from zeros.  `SettingsError` names a threshold
    or bound of a parameter that does not exist, or a prior out of bounds.
    """
    lower, upper = base_box(structure, stated_boxes(settings.bounds, settings.bounds_file), prior)
    initial = prior_base(structure, prior)
    return RecursiveLeastSquares(
        structure.base_layout, initial, settings, lower=lower, upper=upper
    )


def _pieces(
    blocks: Iterable[RowBlock], weights: np.ndarray, size: int
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Cut the kept rows, sample by sample, so that every ``size``-th row ends a piece."""
    room = size
    for block in blocks:
        matrix = (block.matrix * weights[:, None])[block.keep]
        effort = (block.effort * weights)[block.keep]
        start = 0
        while start < effort.size:
            stop = min(start + room, effort.size)
            independence = float(np.mean(block.independence))
            yield matrix[start:stop], effort[start:stop], independence
            room = size if stop - start == room else room - (stop - start)
            start = stop


class _EstimateHistory:
    """History of the estimate, block by block."""

    def __init__(self, n_base: int) -> None:
        self.blocks, self.step = 0, np.inf
        self.identified_since = np.zeros(n_base, dtype=int)
        self._before: RecursiveEstimate | None = None

    def add(self, now: RecursiveEstimate) -> None:
        """Take in the estimate at the end of a block."""
        before = self._before
        if before is not None and now.rows == before.rows:
            return
        identified = now.flags == ACCEPTED
        again = identified if before is None else identified & (before.flags != ACCEPTED)
        self.identified_since[again] = now.rows
        if before is not None:
            change = np.abs(now.values - before.values)[identified] / now.std[identified]
            known = change[np.isfinite(change)]
            self.step = float(known.max()) if known.size else 0.0
        self.blocks += 1
        self._before = now


def _notes(
    course: _EstimateHistory,
    last: RecursiveEstimate,
    settings: RecursiveSettings,
    names: tuple[str, ...],
) -> tuple[str, ...]:
    identified = last.flags == ACCEPTED
    notes = [
        f'the recursion took {last.rows} rows in {course.blocks} blocks; from row '
        f'{course.identified_since[identified].max()} on it identified the same '
        f'{identified.sum()} of {identified.size} base parameters'
    ]
    if np.isfinite(course.step):
        notes.append(
            f'the last block moved no parameter by more than {course.step:.2g} standard deviations'
        )
    held = [name for name, at in zip(names, last.at_bound, strict=True) if at]
    if held:
        how = 'cut at' if settings.bounded == 'clip' else 'held at'
        notes.append(
            f'{len(held)} of the base parameters are {how} the ends of their bounds: '
            f'{one_of(held, 6)}'
        )
    return tuple(notes)
