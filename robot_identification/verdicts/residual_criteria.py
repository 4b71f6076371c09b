# SPDX-License-Identifier: Apache-2.0
"""Criterion of an arm's residuals: their colour, and what lowers them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..diagnosis.hypotheses import CANDIDATES
from ..errors import one_of
from ..regressor.kinds import kind_of
from ..results.result import Result
from .reason import DIAGNOSE, in_times, MORE, Reason, Step

COLOURED_ROWS = 10.0
"""Rows that residuals stay alike for; a filter and decimation alone give two or three."""
ALIKE_ROWS = 2.0
"""The same above which classical standard deviations are said to be too small."""
WHITE_ROWS = 3.0
"""Rows up to which residuals are those of noise behind a filter."""
REVERSAL_RATIO = 2.0
"""Ratio of residuals at reversals to others that friction which the model lacks makes."""


def residuals(result: Result) -> Iterator[Reason]:
    """Iterate over the colour of the residuals: remarks, since those of real robots have one."""
    colour = result.recorded.residuals
    if colour is None:
        return
    rows, ratios = colour.correlated_rows, colour.reversal_ratio
    if result.estimate.uncertainty.growth is None and np.nanmax(rows, initial=0.0) > ALIKE_ROWS:
        most = float(np.sqrt(np.nanmax(rows)))
        yield Reason(
            text='residuals are coloured: classical standard deviations are up to '
            f'{in_times(most)} times too small',
            value=most,
            next_step='take standard deviations by the block bootstrap (estimation.bootstrap)',
            key='estimation.bootstrap',
            remark=True,
        )
    coloured = [joint for joint, count in zip(colour.joints, rows) if count > COLOURED_ROWS]
    if coloured:
        longest = float(np.nanmax(colour.correlation_time))
        yield Reason(
            text=f'residuals stay alike for up to {longest:.2g} s at {one_of(coloured)}: the '
            'model lacks something slow there, such as friction, a cable or a spring',
            joints=tuple(coloured),
            value=float(np.nanmax(rows)),
            threshold=COLOURED_ROWS,
            remark=True,
        )
    back = [joint for joint, ratio in zip(colour.joints, ratios) if ratio > REVERSAL_RATIO]
    if back:
        most = float(np.nanmax(ratios))
        yield Reason(
            text=f'residuals near reversals are up to {in_times(most)} times as large as '
            f'elsewhere at {one_of(back)}: friction at rest is not modelled',
            joints=tuple(back),
            value=most,
            threshold=REVERSAL_RATIO,
            remark=True,
            **_friction_step(result),
        )


def fit_step(result: Result) -> Step:
    """
    Return what lowers a large error, by the colour of the residuals.

    What is left is said to be noise only where residuals are white and no fault was found.
    """
    colour = result.recorded.residuals
    if colour is None:
        return MORE
    rows, back = colour.correlated_rows, colour.reversal_ratio
    if np.nanmax(back, initial=0.0) > REVERSAL_RATIO:
        return _friction_step(result)
    if np.nanmax(rows, initial=0.0) > COLOURED_ROWS:
        return Step(
            next_step=f'{_explained(result)}check gains and gear ratios (robot.drives), cables '
            'and springs',
            key='robot.drives',
            command=DIAGNOSE,
        )
    white = np.isfinite(rows).all() and rows.max(initial=0.0) <= WHITE_ROWS
    if white and not result.recorded.diagnosis:
        step = 'record longer: what is left is noise'
        if result.selection is None:
            step += ', or let `auto` choose the filter'
        return Step(next_step=step, key='signals.cutoff')
    return MORE


def _explained(result: Result) -> str:
    """Return what the diagnosis has to say on a poor fit, as the beginning of a sentence."""
    kind = kind_of(result.robot, result.settings.model)
    if not kind.diagnosed:
        return ''
    if kind.stiff_tree and not any(
        finding.improvement_of_all for finding in result.recorded.diagnosis
    ):
        many = len(result.robot.joints) > CANDIDATES.many
        untried = ' (exchanges of joints far apart are not tried on so many)' if many else ''
        return f'none of the faults that the diagnosis knows explains it{untried}: '
    return 'see robot-identification diagnose, and '


def _friction_step(result: Result) -> Step:
    """Return what lowers errors at reversals."""
    zone = np.any(np.asarray(result.settings.signals.dead_zone) > 0.0)
    step = 'widen the dead zone' if zone else 'leave out rows near reversals'
    step += ' (signals.dead_zone)'
    if result.selection is None:
        step += ', or let `auto` choose the friction model'
    return Step(next_step=step, key='signals.dead_zone')
