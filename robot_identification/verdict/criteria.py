# SPDX-License-Identifier: Apache-2.0
"""
Criteria of the verdict: reasons against a result, from the figures of an identification.

Each criterion gives reasons with their figure, the threshold, the uses that are ruled out, and the
next step.  Coloured residuals alone are a remark: those of real robots always are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ..diagnosis.hypotheses import CANDIDATES
from ..diagnosis.recording_faults import LIMITS, revolute
from ..errors import one_of
from ..estimation.estimate import Estimate, Fit
from ..estimation.plot_samples import PlotSamples
from ..estimation.validation import Validation
from ..model.plausibility import PlausibilityFinding
from ..results.result import Result
from ..version import page

USES = {
    'effort_prediction': 'prediction of efforts',
    'computed_torque': 'computed torque',
    'collision_detection': 'collision detection',
    'simulation': 'simulation',
}
"""Uses of a result, and what they are called."""

PREDICTION, CONTROL, COLLISIONS, SIMULATION = USES
ALL = tuple(USES)


class Step(TypedDict):
    """Next step, and the key of the experiment file that it is about."""

    next_step: str
    key: str


MORE = Step(
    next_step='identify from several recordings, or from a faster or longer motion that moves '
    f'every joint ({page("explanation/excitation")})',
    key='data.identification',
)


@dataclass(frozen=True)
class VerdictThresholds:
    """Thresholds of the criteria, each with its reason."""

    poor_condition: float = 1000.0
    """Condition number, column-scaled: relative errors of the effort may grow by as much."""
    fair_condition: float = 200.0
    """The same for a remark: planned motions have tens."""
    known_std: float = 30.0
    """Relative standard deviation [%] up to which a parameter is known, as of essential ones."""
    known_share: float = 0.25
    """Share of known base parameters: motions planned for identification reach 40 to 60 %."""
    long_delay: float = 0.015
    """Delay of most joints [s] that biases parameters: at 2 Hz it turns efforts by 11 degrees."""
    delayed_share: float = 0.05
    """Share of a joint's effort that its delay moves; less is lost in the error of the fit."""
    significant_stds: float = 3.0
    """Standard deviations from which on a delay differs from zero."""
    delay_improvement: float = 1.01
    """Ratio of residuals without and with delays above which these count, as terms of `auto`."""
    large_error: float = 15.0
    """Share of the effort [%] that a feedforward may miss: feedback corrects 10 %, not 30 %."""
    useless_error: float = 50.0
    """Share of the effort [%] from which on the model explains less than it misses."""
    joint_error: float = 30.0
    """The same for one joint, whose residual then hides a contact; those of wrists reach 20 %."""
    fewest_rows: int = 50
    """Rows of a joint below which a validation shows nothing: a second or two."""
    small_error: float = 5.0
    """Error [%] below which it does not matter how many times that of the fit it is."""
    overfit_ratio: float = 2.0
    """Ratio of validation to fit error: runs of one robot on different days differ by half."""
    extrapolating_speed: float = 1.2
    """Ratio to the identified speeds from which on a validation extrapolates."""
    weak_speed: float = 0.5
    """Ratio to the identified speeds below which a validation is a weak test of the dynamics."""
    moving_speed: float = 0.03
    """Highest speed from which on a joint moves [rad/s or m/s]."""
    coloured_rows: float = 10.0
    """Rows that residuals stay alike for; a filter and decimation alone give two or three."""
    alike_rows: float = 2.0
    """The same from which on classical standard deviations are said to be too small."""
    reversal_ratio: float = 2.0
    """Ratio of residuals at reversals to others that friction which the model lacks makes."""
    unconfirmed_scale: float = 0.1
    """Relative deviation of a scale that nothing confirms: makers' gains are off by a tenth."""
    large_offset: float = 0.5
    """Share of a slide's effort that a drive makes as a constant beside friction and gravity."""
    large_tilt: float = 0.035
    """Tilt of the base [rad] that no floor has: two degrees move a thirtieth of the weight."""
    known_gains: float = 0.05
    """Relative deviation of gains up to which nothing is said: masses are not known better."""


THRESHOLDS = VerdictThresholds()

_PARTLY: dict[str, tuple[str, ...]] = {
    'locked_joint': (),
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


@dataclass(frozen=True)
class Reason:
    """
    Statement of a criterion about a result.

    Attributes
    ----------
    criterion:
        Its name, one of those in docs/reference/verdict.md.
    text:
        In words, with the figures.
    rules_out:
        Uses, of `USES`, that it excludes.
    joints:
        That it concerns; empty for all.
    value, threshold, unit:
        The figure and its bound; None where there is none.
    next_step:
        What to do; empty where nothing.
    key:
        Of the experiment file, that the step is about; empty where none.
    remark:
        True where it excludes none.

    """

    criterion: str
    text: str
    rules_out: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    value: float | None = None
    threshold: float | None = None
    unit: str = ''
    next_step: str = ''
    key: str = ''
    remark: bool = False


def reasons(result: Result) -> Iterator[Reason]:
    """Iterate over the reasons of all criteria against a result."""
    for criterion in CRITERIA:
        yield from criterion(result)


def figures(result: Result) -> dict[str, Any]:
    """Return the figures that the criteria look at."""
    estimate, late = result.estimate, result.recorded.effort_delay
    speeds = speed_ratios(result.system.factor.highest_speed, unseen(result))
    return {
        'fit_error': estimate.fit.relative_error,
        'validation_errors': [seen.relative_error for seen in result.validations],
        'condition_number': estimate.rows.condition_number,
        'base_parameters': len(estimate),
        'excited': int(np.count_nonzero(estimate.identifiability.excited)),
        'known': _known(estimate),
        'physical': result.consistency.physical,
        'plausible': result.plausible,
        'speed_ratio': _by_joint(result.robot.joints, speeds),
        'delay': {} if late is None else _by_joint(late.joints, late.delay),
        'residuals': {}
        if result.recorded.residuals is None
        else result.recorded.residuals.to_dict(),
    }


# --------------------------------------------------------------------------------------- criteria


def consistency(result: Result) -> Iterator[Reason]:
    """Physical consistency: simulators refuse bodies that cannot exist."""
    report = result.consistency
    if report.physical:
        return
    links = [link.link for link in report.links if not link.pseudo_inertia_positive_definite]
    where = ', '.join(links) if len(links) <= 3 else f'{len(links)} links'
    yield Reason(
        'consistency',
        f'the parameters of {where or "a joint"} are physically inconsistent',
        rules_out=(CONTROL, SIMULATION),
        next_step='identify physically consistent parameters with estimation.method: physical',
        key='estimation.method',
    )


def plausibility(result: Result) -> Iterator[Reason]:
    """Plausibility of masses, centres of mass and radii of gyration beside prior and shapes."""
    findings = result.plausibility.findings
    masses = [finding for finding in findings if finding.quantity in _MASSES]
    shapes = [finding for finding in findings if finding.quantity not in _MASSES]
    if result.robot.bodies_alike and result.settings.estimation.physical.total_mass is None:
        total = result.link_table().after
        yield Reason(
            'plausibility',
            f'nothing confirms the masses, {total:.3g} kg together: the URDF has one and the same '
            'placeholder for all links',
            value=total,
            unit='kg',
            next_step="compare with the maker's figure; state it in "
            'estimation.physical.total_mass',
            key='estimation.physical.total_mass',
        )
    if masses:
        first = max(masses, key=lambda finding: finding.quantity == 'total_mass')
        yield replace(
            _implausible(first, len(masses)),
            rules_out=(CONTROL, SIMULATION) if first.quantity == 'total_mass' else (SIMULATION,),
            next_step='check the gains of the efforts (robot.effort_kind, data.known_load), or '
            'state masses that are known in estimation.physical.links',
            key='robot.effort_kind',
        )
    if shapes:
        yield replace(_implausible(shapes[0], len(shapes)), next_step=MORE['next_step'])


def _implausible(first: PlausibilityFinding, count: int) -> Reason:
    return Reason(
        'plausibility',
        f'implausible beside prior and shapes: {first.message}{_more(count)}',
        value=first.value,
        threshold=first.upper if first.value > first.upper else first.lower,
        unit=first.unit,
    )


def _more(count: int) -> str:
    return f', and {count - 1} more' if count > 1 else ''


def diagnosis(result: Result) -> Iterator[Reason]:
    """Faults of the recordings."""
    compensated = np.any(np.asarray(result.settings.signals.effort_delay) > 0.0)
    for code in dict.fromkeys(finding.code for finding in result.recorded.diagnosis):
        alike = [finding for finding in result.recorded.diagnosis if finding.code == code]
        first, mended = alike[0], code == 'effort_delay' and compensated
        note = '; signals.effort_delay makes up for it' if mended else ''
        slight = first.slight
        if code == 'payload':  # the parameters are those of the robot with it
            note = '; the parameters are those of the robot with what it carries'
        elif slight:
            note = (
                f'; all efforts together are fitted {first.whole:.3g} times as well, so that the '
                'model may lack something there instead'
            )
        says = (
            'something may be wrong with the recordings'
            if slight
            else 'the recordings are at fault'
        )
        yield Reason(
            'diagnosis',
            f'{says} ({code}): {first.statement}{_more(len(alike))}{note}',
            rules_out=() if mended or slight else _PARTLY.get(code, ALL),
            joints=tuple(joint for finding in alike for joint in finding.joints),
            value=first.improvement,
            next_step=first.remedy,
        )


def excitation(result: Result) -> Iterator[Reason]:
    """Excitation: the parameters that the motion determines."""
    estimate = result.estimate
    count, known, condition = len(estimate), _known(estimate), estimate.rows.condition_number
    poor = condition > THRESHOLDS.poor_condition
    if poor or known < THRESHOLDS.known_share * count:
        yield Reason(
            'excitation',
            f'the motion determines {known} of {count} base parameters to '
            f'{THRESHOLDS.known_std:g} % (condition number {condition:.3g})',
            rules_out=() if unseen(result) else ALL,
            value=condition if poor else known / max(count, 1),
            threshold=THRESHOLDS.poor_condition if poor else THRESHOLDS.known_share,
            **MORE,
        )
    elif condition > THRESHOLDS.fair_condition:
        yield Reason(
            'excitation',
            f'the condition number is {condition:.3g}: a planned motion has tens',
            value=condition,
            threshold=THRESHOLDS.fair_condition,
            remark=True,
            **MORE,
        )
    if missing := count - int(np.count_nonzero(estimate.identifiability.excited)):
        yield Reason(
            'excitation',
            f'{missing} of {count} base parameters are not excited and keep the value of the '
            'prior',
            value=float(missing),
            threshold=0.0,
            remark=True,
            **MORE,
        )


def delay(result: Result) -> Iterator[Reason]:
    """Delay of efforts behind positions that is left, or that was chosen."""
    yield from _chosen_delay(result)
    late = result.recorded.effort_delay
    if late is None or any(
        finding.code == 'effort_delay' for finding in result.recorded.diagnosis
    ):
        return
    if not late.gain > THRESHOLDS.delay_improvement:  # with these delays nothing fits better
        return
    with np.errstate(invalid='ignore'):
        sure = np.abs(late.delay) > THRESHOLDS.significant_stds * late.std
        # what lags longer than any effort is another error of the model
        sure &= (late.delay > min(LIMITS.delays)) & (late.delay < max(LIMITS.delays))
    lag = np.where(sure, np.abs(late.delay), 0.0)
    moved = lag * _effort_rates(result.system.analysed, result.estimate)
    typical, largest = float(np.median(lag)) if lag.size else 0.0, float(lag.max(initial=0.0))
    joints = tuple(j for j, share in zip(late.joints, moved) if share > THRESHOLDS.delayed_share)
    remedy = 'record efforts and positions with the same stamps'
    if result.selection is None:
        remedy += ', or let `auto` choose signals.effort_delay'
    step = Step(next_step=remedy, key='signals.effort_delay')
    falls = f'corrected, the residual falls by {100.0 * (1.0 - 1.0 / late.gain):.2g} %'
    if typical > THRESHOLDS.long_delay:
        slight = late.gain < LIMITS.whole_factor
        effect = falls if slight else 'inertia and friction are biased'
        yield Reason(
            'delay',
            f'efforts and positions are {_milliseconds(typical)} apart (median of the joints): '
            f'{effect}',
            rules_out=() if slight else ALL,
            value=typical,
            threshold=THRESHOLDS.long_delay,
            unit='s',
            **step,
        )
    elif joints:
        yield Reason(
            'delay',
            f'efforts and positions are up to {_milliseconds(largest)} apart at {one_of(joints)}: '
            f'{falls}',
            joints=joints,
            value=largest,
            unit='s',
            **step,
        )


def _chosen_delay(result: Result) -> Iterator[Reason]:
    """Delay of efforts that `auto` has found and makes up for: recordings are not as they seem."""
    choices = () if result.selection is None else result.selection.choices
    largest = float(np.max(result.settings.signals.effort_delay))
    if largest > THRESHOLDS.long_delay and 'signals.effort_delay' in {c.key for c in choices}:
        yield Reason(
            'delay',
            f'the recorded efforts are up to {1e3 * largest:.3g} ms later than the positions, by '
            'the recordings themselves; signals.effort_delay makes up for it',
            value=largest,
            threshold=THRESHOLDS.long_delay,
            unit='s',
            key='signals.effort_delay',
            remark=True,
        )


def _milliseconds(time: float) -> str:
    """Return a time [s] in words, with two digits and no exponent."""
    return f'{1e3 * time:.0f} ms' if time >= 0.01 else f'{1e3 * time:.2g} ms'


def fit(result: Result) -> Iterator[Reason]:
    """Error of the fit itself."""
    yield from _errors(result.estimate.fit, 'fit', 'the fit', _fit_step(result))


def validation(result: Result) -> Iterator[Reason]:
    """Error on recordings that the identification has not seen."""
    fitted = result.estimate.fit
    seen = unseen(result)
    poor = any(True for _ in _errors(fitted, 'fit', '', MORE))
    step = _fit_step(result) if poor else MORE
    yield from validation_reasons(fitted, result.system.factor.highest_speed, seen, step)
    if not seen:
        same = bool(result.validations)
        yield Reason(
            'validation',
            'the validation recording is that of the identification'
            if same
            else 'nothing shows that it holds on other motions',
            rules_out=(CONTROL, COLLISIONS),
            next_step='record a second motion and name it in data.validation',
            key='data.validation',
        )


def unseen(result: Result) -> tuple[Validation, ...]:
    """Return the validations that are not on the rows of the identification."""
    return tuple(each for each in result.validations if not _repeats(each, result))


def _repeats(seen: Validation, result: Result) -> bool:
    """Return whether a validation is on the rows of the identification."""
    same = {*seen.sources} <= {*result.recorded.names}
    fits = zip(seen.joints, result.estimate.fit.joints, strict=True)
    alike = (a.rows == b.rows and np.isclose(a.rmse, b.rmse, rtol=1e-9) for a, b in fits)
    return bool(seen.sources) and same and all(alike)


def validation_reasons(
    fitted: Fit, speeds: np.ndarray, validations: Sequence[Validation], step: Step = MORE
) -> Iterator[Reason]:
    """
    Iterate over the reasons of validations against parameters.

    Parameters
    ----------
    fitted:
        The fit of the identification.
    speeds:
        (n,) its highest speeds [rad/s or m/s]; NaN where not known.
    validations:
        Of these parameters.
    step:
        What to do where a validation within the identified speeds has a large error.

    """
    ratios = [np.nan_to_num(speed_ratios(speeds, [each])) for each in validations]
    beyond = [float(ratio.max(initial=0.0)) > THRESHOLDS.extrapolating_speed for ratio in ratios]
    for seen, ratio, faster in zip(validations, ratios, beyond, strict=True):
        where = ', '.join(Path(source).name for source in seen.sources) or 'the validation'
        way, more_data = step, MORE
        if rows := _rows_missing(seen, where):
            yield rows
            if rows.joints == ():
                continue
        if faster:
            where = f'{where} (up to {_times(ratio.max())} times the identified speeds)'
            way = more_data = Step(
                next_step='identify from a motion as fast as that of the use',
                key='data.identification',
            )
        found = list(_errors(seen, 'validation', where, way))
        growth = seen.relative_error / max(fitted.relative_error, 1e-9)
        large = seen.relative_error > THRESHOLDS.small_error
        if not found and large and growth > THRESHOLDS.overfit_ratio:
            yield Reason(
                'validation',
                f'the error on {where} is {seen.relative_error:.3g} %, {_times(growth)} times '
                f'that of the fit ({fitted.relative_error:.3g} %)',
                value=growth,
                threshold=THRESHOLDS.overfit_ratio,
                **more_data,
            )
        for reason in found:
            # within the speeds of the identification another recording shows that it holds
            yield replace(reason, rules_out=()) if faster and not all(beyond) else reason
        errors = dict(zip((joint.joint for joint in seen.joints), seen.all_rows, strict=False))
        named = {joint for reason in found for joint in reason.joints}
        bound = THRESHOLDS.joint_error
        slow = [j for j, error in errors.items() if error > bound and j not in named]
        if slow:
            worst = max(slow, key=lambda joint: errors[joint])
            yield Reason(
                'validation',
                f'with the rows of the dead zone the prediction misses {errors[worst]:.3g} % of '
                f'the effort of {worst} on {where}',
                rules_out=(COLLISIONS,),
                joints=tuple(slow),
                value=errors[worst],
                threshold=bound,
                unit='%',
                **more_data,
            )


def _rows_missing(seen: Validation, where: str) -> Reason | None:
    """Return what a validation with few rows, or with joints without any, does not show."""
    rows = {joint.joint: joint.rows for joint in seen.joints}
    most, without = max(rows.values(), default=0), [j for j, count in rows.items() if not count]
    fewest = THRESHOLDS.fewest_rows
    if most >= fewest and not without:
        return None
    longer = Step(next_step='validate on a longer motion of all joints', key='data.validation')
    if most < fewest:
        text = f'{where} has {most} rows a joint at most, too few to judge by'
        return Reason('validation', text, (CONTROL, COLLISIONS), (), most, fewest, **longer)
    text = f'{where} has no rows of {one_of(without)} outside the dead zone: not judged'
    return Reason('validation', text, (COLLISIONS,), tuple(without), **longer)


def speed(result: Result) -> Iterator[Reason]:
    """Speeds of the validation beside those of the identification."""
    if not result.validations:
        return
    ratios = speed_ratios(result.system.factor.highest_speed, unseen(result))
    slow = [j for j, ratio in zip(result.robot.joints, ratios) if ratio < THRESHOLDS.weak_speed]
    if slow:
        low = float(np.nanmin(ratios))
        yield Reason(
            'speed',
            f'validated at no more than {_times(low)} times the identified speed: {one_of(slow)}',
            joints=tuple(slow),
            value=low,
            threshold=THRESHOLDS.weak_speed,
            next_step='validate on a motion as fast as that of the identification',
            key='data.validation',
            remark=True,
        )


def scope(speeds: np.ndarray, validations: Sequence[Validation]) -> str:
    """Return up to which of the identified speeds (n,) a result was validated, in words."""
    if not validations:
        return 'not validated'
    ratios = speed_ratios(speeds, validations)
    known = ratios[np.isfinite(ratios)]
    if not known.size:
        return 'validated at speeds that are not known'
    low, high = (_times(value) for value in (known.min(), known.max()))
    least = '' if low == high else f' ({low} times at the joint where that is least)'
    return f'validated up to {high} times the identified speeds{least}'


def speed_ratios(speeds: np.ndarray, validations: Sequence[Validation]) -> np.ndarray:
    """Return (n,) highest speed of validations by that of the identification; NaN for unknown."""
    seen = [np.asarray(each.highest_speed) for each in validations if each.highest_speed]
    speeds = np.where(np.asarray(speeds) > THRESHOLDS.moving_speed, speeds, np.nan)
    if not seen or any(each.shape != speeds.shape for each in seen):
        return np.full(speeds.shape, np.nan)
    return np.asarray(np.max(seen, axis=0) / speeds)


def _errors(fitted: Fit, criterion: str, where: str, step: Step) -> Iterator[Reason]:
    """Iterate over what relative errors of all joints, and of single ones, rule out."""

    def reason(error: float, of: str, threshold: float, *out: str, joints: Any = ()) -> Reason:
        share = f'{error:.3g}' if error < 1000.0 else 'more than 1000'
        text = f'misses {share} % of the effort{of}'
        text = f'{where} {text}' if criterion == 'fit' else f'the prediction {text} on {where}'
        return Reason(criterion, text, out, joints, error, threshold, '%', **step)

    most, most_of_one = THRESHOLDS.useless_error, THRESHOLDS.joint_error
    error = fitted.relative_error
    if error > most:
        yield reason(error, '', most, *ALL)
    elif error > THRESHOLDS.large_error:
        yield reason(error, '', THRESHOLDS.large_error, CONTROL, COLLISIONS)
    elif large := [joint for joint in fitted.joints if joint.relative_error > most_of_one]:
        worst = max(large, key=lambda joint: joint.relative_error)
        names = tuple(joint.joint for joint in large)
        of = f' of {worst.joint}'
        # a feedforward that misses more than half of a joint's effort is none for that joint
        useless = worst.relative_error > most
        bound, out = (most, (CONTROL,)) if useless else (most_of_one, ())
        yield reason(worst.relative_error, of, bound, *out, COLLISIONS, joints=names)


def _times(ratio: float) -> str:
    """Return a ratio in words."""
    return f'{ratio:.1f}' if ratio >= 0.95 else f'{ratio:.2g}'


def _fit_step(result: Result) -> Step:
    """Return what lowers a large error, by the colour of the residuals."""
    colour = result.recorded.residuals
    if colour is None:
        return MORE
    rows, back = colour.correlated_rows, colour.reversal_ratio
    if np.nanmax(back, initial=0.0) > THRESHOLDS.reversal_ratio:
        return _friction_step(result)
    if np.nanmax(rows, initial=0.0) > THRESHOLDS.coloured_rows:
        return Step(
            next_step=f'{_explained(result)}check gains and gear ratios (robot.drives), cables '
            'and springs',
            key='robot.drives',
        )
    if np.isfinite(rows).any():
        step = 'record longer: what is left is noise'
        if result.selection is None:
            step += ', or let `auto` choose the filter'
        return Step(next_step=step, key='signals.cutoff')
    return MORE


def _explained(result: Result) -> str:
    """Return what the diagnosis has to say on a poor fit, as the beginning of a sentence."""
    tree = not (
        result.robot.passive or result.settings.model.elastic or result.settings.model.delta
    )
    if tree and not any(finding.whole for finding in result.recorded.diagnosis):
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


def residuals(result: Result) -> Iterator[Reason]:
    """Colour of the residuals."""
    colour = result.recorded.residuals
    if colour is None:
        return
    rows = colour.correlated_rows
    coloured = [j for j, count in zip(colour.joints, rows) if count > THRESHOLDS.coloured_rows]
    if (
        result.estimate.uncertainty.growth is None
        and np.nanmax(rows, initial=0.0) > THRESHOLDS.alike_rows
    ):
        most = float(np.sqrt(np.nanmax(rows)))
        yield Reason(
            'residuals',
            f'residuals are coloured: classical standard deviations are up to {_times(most)} '
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
            threshold=THRESHOLDS.coloured_rows,
            remark=True,
        )
    bound, ratios = THRESHOLDS.reversal_ratio, colour.reversal_ratio
    back = [joint for joint, ratio in zip(colour.joints, ratios) if ratio > bound]
    if back:
        most = float(np.nanmax(ratios))
        yield Reason(
            'residuals',
            f'residuals near reversals are up to {_times(most)} times as large as elsewhere at '
            f'{one_of(back)}: friction at rest is not modelled',
            joints=tuple(back),
            value=most,
            threshold=bound,
            remark=True,
            **_friction_step(result),
        )


def offsets(result: Result) -> Iterator[Reason]:
    """Constant efforts of slides, at which they take up a gravity along another direction."""
    standard = result.estimate.standard
    if standard is None:
        return
    # at a joint that turns, gravity is not constant
    turning = dict(zip(result.robot.joints, revolute(result.robot)))
    sizes = np.sqrt((result.system.analysed.effort**2).mean(axis=0))
    for joint, size in zip(result.estimate.fit.joints, sizes):
        share = 100.0 * abs(standard.get(f'{joint.joint}.off')) / max(size, 1e-300)
        if share > 100.0 * THRESHOLDS.large_offset and not turning.get(joint.joint, True):
            yield Reason(
                'offsets',
                f'a constant effort of {joint.joint} is {share:.4g} % of its effort: gravity may '
                'act along another direction there, or a spring pulls',
                joints=(joint.joint,),
                value=share,
                threshold=100.0 * THRESHOLDS.large_offset,
                unit='%',
                next_step='check robot.gravity, and the mounting of the robot',
                key='robot.gravity',
            )


def mounting(result: Result) -> Iterator[Reason]:
    """Tilt of the base that `auto` has found: what gives the gravity of the URDF lacks it."""
    choices = () if result.selection is None else result.selection.choices
    key = 'robot.base_tilt'
    tilts: list[Any] = [choice.value for choice in choices if choice.key == key]
    tilt = float(np.linalg.norm(tilts))
    if tilt > THRESHOLDS.large_tilt:
        yield Reason(
            'mounting',
            f'the base is tilted by {np.degrees(tilt):.2g} degrees against robot.gravity, by the '
            'recordings themselves; robot.base_tilt makes up for it here, the URDF does not',
            value=tilt,
            threshold=THRESHOLDS.large_tilt,
            unit='rad',
            next_step='check the mounting, and set robot.gravity or mend the base of the URDF',
            key='robot.gravity',
            remark=True,
        )


def gains(result: Result) -> Iterator[Reason]:
    """Gains of the drives that are not known well, with what that makes of the masses."""
    if result.settings.effort_kind != 'motor_current':
        return
    found, mass = result.drive_gains, result.link_table().after
    common, worst, drive = THRESHOLDS.unconfirmed_scale, 0.0, ''
    if found is not None:
        # a drive that the load does not determine keeps the gain that was assumed
        spread = np.nan_to_num(found.std / (1.0 if found.reference else found.factors), nan=1.0)
        worst, drive = float(spread.max()), found.drives[int(spread.argmax())]
        scale = found.scale_std if found.reference else float(np.median(spread))
        common = scale if np.isfinite(scale) else THRESHOLDS.unconfirmed_scale
    if max(common, worst) <= THRESHOLDS.known_gains:
        return
    text = (
        f'the scale of the gains is known to {100.0 * common:.2g} %, and so are the masses: '
        f'{common * mass:.2g} of {mass:.3g} kg'
    )
    if common == THRESHOLDS.unconfirmed_scale:
        text += ", as of makers' gains and masses, since no recording confirms it"
    if worst > max(common, THRESHOLDS.known_gains):
        text += f'; the gain of {drive}, and its efforts, to {100.0 * worst:.2g} %'
    yield Reason(
        'gains',
        text,
        (COLLISIONS,) if worst > THRESHOLDS.joint_error / 100.0 else (),
        (drive,) if worst > THRESHOLDS.known_gains else (),
        value=common * mass,
        unit='kg',
        next_step='record the same motion with a known load (data.known_load, '
        f'{page("how_to/currents")})',
        key='data.known_load',
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
    offsets,
    mounting,
    gains,
)
"""All criteria; of two reasons that rule out as many uses the earlier one is named first."""


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
        return int(np.count_nonzero(estimate.relative_std <= THRESHOLDS.known_std))


def _by_joint(joints: Sequence[str], values: np.ndarray) -> dict[str, float]:
    return dict(zip(joints, np.asarray(values, dtype=float).tolist(), strict=False))
