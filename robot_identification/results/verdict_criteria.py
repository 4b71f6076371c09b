# SPDX-License-Identifier: Apache-2.0
"""
Criteria of the verdict: reasons against a result, from the figures of an identification.

Each criterion gives reasons with their figure, the threshold, the uses that are ruled out, and the
next step.  Coloured residuals alone are a remark: those of real robots always are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import one_of
from ..estimation.estimate import Estimate
from ..estimation.plot_samples import PlotSamples
from ..model.plausibility import PlausibilityFinding
from .result import Result
from .verdict_errors import (
    COLOURED,
    fit,
    friction_step,
    REVERSALS,
    speed,
    speed_ratios,
    times,
    unseen,
    validation,
)
from .verdict_reason import ALL, ANOTHER, COLLISIONS, CONTROL, Reason, SIMULATION

POOR_CONDITION = 1000.0
"""Condition number, column-scaled: relative errors of the effort may grow by as much."""

FAIR_CONDITION = 200.0
"""The same for a remark: planned motions have tens."""

KNOWN = 30.0
"""Relative standard deviation [%] up to which a parameter is known, as of essential ones."""

FEW_KNOWN = 0.25
"""Share of known base parameters: motions planned for identification reach 40 to 60 %."""

LONG_DELAY = 0.015
"""Delay of most joints [s] that biases the parameters: at 2 Hz it turns efforts by 11 degrees."""

DELAYED_SHARE = 0.05
"""Share of a joint's effort that its delay moves; less is lost in the error of the fit."""

SURE = 3.0
"""Standard deviations from which on a delay differs from zero."""

_PARTLY: dict[str, tuple[str, ...]] = {
    'missing_samples': (),
    'late_samples': (),
    'range': (),
    'velocity': (),
    'saturation': (COLLISIONS,),
    'still_joint': (CONTROL, COLLISIONS),
    'negative_friction': (CONTROL, COLLISIONS, SIMULATION),
}
"""Findings with which the model holds for some uses; all others make it wrong altogether."""

_MASSES = ('mass', 'total_mass')
"""Quantities of the plausibility that a simulator's motions depend on most."""


def reasons(result: Result) -> Iterator[Reason]:
    """Iterate over the reasons of all criteria against a result."""
    for criterion in CRITERIA:
        yield from criterion(result)


def figures(result: Result) -> dict[str, Any]:
    """Return the figures that the criteria look at."""
    estimate, late = result.estimate, result.effort_delay
    speeds = speed_ratios(result.system.highest_speed, unseen(result))
    return {
        'fit_error': estimate.relative_error,
        'validation_errors': [seen.relative_error for seen in result.validations],
        'condition_number': estimate.condition_number,
        'base_parameters': len(estimate),
        'excited': int(np.count_nonzero(estimate.excited)),
        'known': _known(estimate),
        'physical': result.consistency.physical,
        'plausible': result.plausible,
        'speed_ratio': _by_joint(result.robot.joints, speeds),
        'delay': {} if late is None else _by_joint(late.joints, late.delay),
        'residuals': {} if result.residuals is None else result.residuals.to_dict(),
    }


# --------------------------------------------------------------------------------------- criteria


def consistency(result: Result) -> Iterator[Reason]:
    """Physical consistency: simulators refuse bodies that cannot exist."""
    report = result.consistency
    if report.physical:
        return
    links = [link.link for link in report.links if not link.pseudo_inertia_positive_definite]
    where = _named(links) if links else 'a joint'
    yield Reason(
        'consistency',
        f'the parameters of {where} are physically inconsistent',
        rules_out=(CONTROL, SIMULATION),
        next_step='identify physically consistent parameters with estimation.method: physical',
        key='estimation.method',
    )


def plausibility(result: Result) -> Iterator[Reason]:
    """Plausibility of masses, centres of mass and radii of gyration beside prior and shapes."""
    findings = result.plausibility.findings
    masses = [finding for finding in findings if finding.quantity in _MASSES]
    shapes = [finding for finding in findings if finding.quantity not in _MASSES]
    if masses:
        first = max(masses, key=lambda finding: finding.quantity == 'total_mass')
        yield Reason(
            rules_out=(CONTROL, SIMULATION) if first.quantity == 'total_mass' else (SIMULATION,),
            next_step='check the gains of the efforts (robot.effort_kind, data.known_load), or '
            'state masses that are known in estimation.physical.links',
            key='robot.effort_kind',
            **_implausible(first, len(masses)),
        )
    if shapes:
        yield Reason(next_step=ANOTHER, key='', **_implausible(shapes[0], len(shapes)))


def _implausible(first: PlausibilityFinding, count: int) -> dict[str, Any]:
    more = f', and {count - 1} more' if count > 1 else ''
    return {
        'criterion': 'plausibility',
        'text': f'implausible beside prior and shapes: {first.message}{more}',
        'value': first.value,
        'threshold': first.upper if first.value > first.upper else first.lower,
        'unit': first.unit,
    }


def diagnosis(result: Result) -> Iterator[Reason]:
    """Faults of the recordings."""
    compensated = np.any(np.asarray(result.signals.effort_delay) > 0.0)
    for code in dict.fromkeys(finding.code for finding in result.diagnosis):
        alike = [finding for finding in result.diagnosis if finding.code == code]
        first, more = alike[0], f', and {len(alike) - 1} more' if len(alike) > 1 else ''
        mended = code == 'effort_delay' and compensated
        note = '; signals.effort_delay makes up for it' if mended else ''
        yield Reason(
            'diagnosis',
            f'the recordings are at fault ({code}): {first.evidence}{more}{note}',
            rules_out=() if mended else _PARTLY.get(code, ALL),
            joints=tuple(joint for finding in alike for joint in finding.joints),
            value=first.improvement,
            next_step=first.remedy,
        )


def excitation(result: Result) -> Iterator[Reason]:
    """Excitation: the parameters that the motion determines."""
    estimate = result.estimate
    count, known = len(estimate), _known(estimate)
    condition = estimate.condition_number
    poor = condition > POOR_CONDITION
    few = known < FEW_KNOWN * count
    if poor or few:
        yield Reason(
            'excitation',
            f'the motion determines {known} of {count} base parameters to {KNOWN:g} % '
            f'(condition number {condition:.3g})',
            rules_out=() if unseen(result) else ALL,
            value=condition if poor else known / max(count, 1),
            threshold=POOR_CONDITION if poor else FEW_KNOWN,
            next_step=ANOTHER,
            key='data.identification',
        )
    elif condition > FAIR_CONDITION:
        yield Reason(
            'excitation',
            f'the condition number is {condition:.3g}: a planned motion has tens',
            value=condition,
            threshold=FAIR_CONDITION,
            next_step=ANOTHER,
            key='data.identification',
            remark=True,
        )
    missing = count - int(np.count_nonzero(estimate.excited))
    if missing:
        yield Reason(
            'excitation',
            f'{missing} of {count} base parameters are not excited and keep the value of the '
            'prior',
            value=float(missing),
            threshold=0.0,
            next_step=ANOTHER,
            key='data.identification',
            remark=True,
        )


def delay(result: Result) -> Iterator[Reason]:
    """Delay of efforts behind positions that is left."""
    late = result.effort_delay
    if late is None or any(finding.code == 'effort_delay' for finding in result.diagnosis):
        return
    with np.errstate(invalid='ignore'):
        sure = np.abs(late.delay) > SURE * late.std
    lag = np.where(sure, np.abs(late.delay), 0.0)
    moved = lag * _effort_rates(result.system.analysed, result.estimate)
    typical = float(np.median(lag)) if lag.size else 0.0
    joints = tuple(j for j, share in zip(late.joints, moved) if share > DELAYED_SHARE)
    step, key = (
        'identify with signals.effort_delay, which `auto` chooses, or record efforts and '
        'positions with the same stamps',
        'signals.effort_delay',
    )
    if typical > LONG_DELAY:
        yield Reason(
            'delay',
            f'efforts and positions are {1e3 * typical:.2g} ms apart (median of the joints): '
            'inertia and friction are biased',
            rules_out=ALL,
            value=typical,
            threshold=LONG_DELAY,
            unit='s',
            next_step=step,
            key=key,
        )
    elif joints:
        yield Reason(
            'delay',
            f'efforts and positions are up to {1e3 * float(lag.max()):.2g} ms apart at '
            f'{one_of(joints)}',
            joints=joints,
            value=float(lag.max()),
            unit='s',
            next_step=step,
            key=key,
        )


def residuals(result: Result) -> Iterator[Reason]:
    """Colour of the residuals."""
    colour = result.residuals
    if colour is None:
        return
    rows = colour.correlated_rows
    coloured = [j for j, count in zip(colour.joints, rows) if count > COLOURED]
    if result.estimate.growth is None and np.nanmax(rows, initial=0.0) > 2.0:
        most = float(np.sqrt(np.nanmax(rows)))
        yield Reason(
            'residuals',
            f'residuals are coloured: classical standard deviations are up to {times(most)} '
            'times too small',
            value=most,
            next_step='take standard deviations by the block bootstrap (estimation.bootstrap)',
            key='estimation.bootstrap',
            remark=True,
        )
    if coloured:
        longest = float(np.nanmax(colour.correlation_time))
        yield Reason(
            'residuals',
            f'residuals stay alike for up to {longest:.2g} s at {one_of(coloured)}: the model '
            'lacks something slow there, such as friction, a cable or a spring',
            joints=tuple(coloured),
            value=float(np.nanmax(rows)),
            threshold=COLOURED,
            remark=True,
        )
    back = [j for j, ratio in zip(colour.joints, colour.reversal_ratio) if ratio > REVERSALS]
    if back:
        most = float(np.nanmax(colour.reversal_ratio))
        yield Reason(
            'residuals',
            f'residuals near reversals are up to {times(most)} times as large as elsewhere at '
            f'{one_of(back)}: friction at rest is not modelled',
            joints=tuple(back),
            value=most,
            threshold=REVERSALS,
            next_step=friction_step(result),
            key='signals.dead_zone',
            remark=True,
        )


def gains(result: Result) -> Iterator[Reason]:
    """Gains of currents that nothing confirms."""
    if result.effort_kind == 'motor_current' and result.drive_gains is None:
        yield Reason(
            'gains',
            'efforts are currents times gains that no recording confirms: an error of a gain goes '
            'one to one into the masses',
            next_step='record the same motion with a known load (data.known_load, '
            'docs/how_to/currents.md)',
            key='data.known_load',
            remark=True,
        )


CRITERIA: tuple[Callable[[Result], Iterator[Reason]], ...] = (
    diagnosis,
    delay,
    validation,
    fit,
    excitation,
    consistency,
    plausibility,
    speed,
    residuals,
    gains,
)
"""All criteria; of two reasons that rule out as many uses the earlier one is named first."""


def _named(names: Sequence[str]) -> str:
    """Return a few names, or how many there are."""
    return ', '.join(names) if len(names) <= 3 else f'{len(names)} links'


def _effort_rates(trace: PlotSamples, estimate: Estimate) -> np.ndarray:
    """Return (n,) root mean square rate of change of the predicted effort by the effort [1/s]."""
    fitted = trace.fit(estimate.base.values)
    within = np.diff(trace.segment) == 0
    steps = np.diff(trace.time)[within]
    rates = np.diff(fitted.predicted, axis=0)[within] / steps[:, None]
    size = np.sqrt((fitted.measured**2).mean(axis=0))
    rate = np.sqrt((rates**2).mean(axis=0))
    return np.asarray(np.divide(rate, size, out=np.zeros_like(rate), where=size > 0.0))


def _known(estimate: Estimate) -> int:
    """Count base parameters that the recording determines."""
    with np.errstate(invalid='ignore'):
        return int(np.count_nonzero(estimate.relative_std <= KNOWN))


def _by_joint(joints: Sequence[str], values: np.ndarray) -> dict[str, float]:
    return dict(zip(joints, np.asarray(values, dtype=float).tolist(), strict=False))
