# SPDX-License-Identifier: Apache-2.0
"""Criteria of an arm's efforts: errors of fit and validation, and their speeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import one_of
from ..estimation.estimate import Fit
from ..estimation.predicted_errors import MOTIONS
from ..estimation.validation import Validation
from ..results.exported_files import RecordingErrors, URDF
from ..results.result import Result
from .joints_apart import JointsApart
from .reason import ALL, COLLISIONS, CONTROL, in_times, MORE, PLAN, Reason, Step
from .residual_criteria import fit_step

LARGE_ERROR = 15.0
"""Share of the effort [%] that a feedforward may miss: feedback corrects 10 %, not 30 %."""
USELESS_ERROR = 50.0
"""Share of the effort [%] above which the model explains less than it misses."""
JOINT_ERROR = 30.0
"""The same for one joint, whose residual then hides a contact; those of wrists reach 20 %."""
FEWEST_ROWS = 50
"""Rows of a joint below which a validation shows nothing: a second or two."""
SMALL_ERROR = 5.0
"""Error [%] below which it does not matter how many times that of the fit it is."""
OVERFIT_RATIO = 2.0
"""Ratio of validation to fit error: runs of one robot on different days differ by half."""
EXTRAPOLATING_SPEED = MOTIONS.faster
"""Ratio to the identified speeds above which a validation extrapolates."""
WEAK_SPEED = 0.5
"""Ratio to the identified speeds below which a validation is a weak test of the dynamics."""
STILL_SPEED = 0.05
"""The same below which it tests nothing: uses hold for the other joints."""
MOVING_SPEED = 0.03
"""Highest speed above which a joint moves [rad/s or m/s]."""

NONE_APART = JointsApart()
"""Judges all joints together."""


def fit(result: Result) -> Iterator[Reason]:
    """Iterate over what the error of the fit itself rules out."""
    for reason in _errors(result.estimate.fit, fit_step(result), 'the fit', apart=_apart(result)):
        yield _of_model(result, reason)


def _apart(result: Result) -> JointsApart:
    return JointsApart.from_fit(result.robot, result.estimate.fit)


def validation(result: Result) -> Iterator[Reason]:
    """Iterate over errors on recordings that the identification has not seen."""
    fitted, seen = result.estimate.fit, unseen(result)
    step = fit_step(result) if any(_errors(fitted, MORE, 'the fit')) else MORE
    speeds, apart = result.system.factor.highest_speed, _apart(result)
    for reason in validation_reasons(fitted, speeds, seen, step, apart):
        yield _of_model(result, reason)
    if not seen:
        yield Reason(
            short='validated on what it was identified from'
            if result.validations
            else 'not seen on another motion',
            text='the validation recording is that of the identification'
            if result.validations
            else 'nothing shows that it holds on other motions',
            rules_out=(CONTROL, COLLISIONS),
            next_step='record a second motion and name it in data.validation',
            key='data.validation',
        )


def _of_model(result: Result, reason: Reason) -> Reason:
    """Return a reason of the full model's error, without what files are judged for."""
    judged = () if result.files is None else result.files.recordings
    return of_model(reason, judged)


def of_model(reason: Reason, judged: Sequence[RecordingErrors]) -> Reason:
    """Return a reason of the full model's error, without what the URDF is judged for alone."""
    apart = any(recording.of(URDF) is not None for recording in judged)
    if not apart or reason.unit != '%' or {*ALL} <= {*reason.rules_out}:
        return reason
    return replace(reason, rules_out=tuple(use for use in reason.rules_out if use != CONTROL))


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
    fitted: Fit,
    speeds: np.ndarray,
    validations: Sequence[Validation],
    step: Step = MORE,
    apart: JointsApart = NONE_APART,
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
    apart:
        Joints that are judged by themselves.

    """
    ratios = [np.nan_to_num(speed_ratios(speeds, [each])) for each in validations]
    highest = [float(ratio.max(initial=0.0)) for ratio in ratios]
    within = any(ratio <= EXTRAPOLATING_SPEED for ratio in highest)
    for seen, ratio in zip(validations, highest, strict=True):
        where = ', '.join(Path(source).name for source in seen.sources) or 'the validation'
        missing = _rows_missing(seen, where)
        if missing is not None:
            yield missing
            if not missing.joints:
                continue
        if ratio > EXTRAPOLATING_SPEED:
            where = f'{where} (up to {in_times(ratio)} times the identified speeds)'
            faster = Step(
                next_step='identify from a motion as fast as that of the use',
                key='data.identification',
                command=PLAN,
            )
            # within the speeds of the identification another recording shows that it holds
            steps = faster, faster
            yield from _seen_errors(fitted, seen, where, *steps, apart, harmless=within)
        else:
            yield from _seen_errors(fitted, seen, where, step, MORE, apart)


def _seen_errors(
    fitted: Fit,
    seen: Validation,
    where: str,
    step: Step,
    more: Step,
    apart: JointsApart,
    *,
    harmless: bool = False,
) -> Iterator[Reason]:
    """Iterate over errors of a validation; ``harmless`` large ones are mere reservations."""
    found = list(_errors(seen, step, 'the prediction', f' on {where}', apart))
    growth = seen.relative_error / max(fitted.relative_error, 1e-9)
    for reason in found:
        yield replace(reason, rules_out=()) if harmless else reason
    if not found and seen.relative_error > SMALL_ERROR and growth > OVERFIT_RATIO:
        yield Reason(
            short=f'{where}: {seen.relative_error:.3g} %, {in_times(growth)} times the fit',
            text=f'the error on {where} is {seen.relative_error:.3g} %, {in_times(growth)} times '
            f'that of the fit ({fitted.relative_error:.3g} %)',
            value=growth,
            threshold=OVERFIT_RATIO,
            **more,
        )
    errors = dict(zip((joint.joint for joint in seen.joints), seen.all_rows, strict=False))
    named = {joint for reason in found for joint in reason.joints}
    large = tuple(j for j, error in errors.items() if error > JOINT_ERROR and j not in named)
    for slow in filter(None, apart.groups(large)):
        worst = max(slow, key=lambda joint: errors[joint])
        yield Reason(
            short=f'{worst}: misses {errors[worst]:.3g} % with slow rows',
            text=f'with the rows of the dead zone the prediction misses {errors[worst]:.3g} % of '
            f'the effort of {worst} on {where}',
            rules_out=(COLLISIONS,),
            joints=slow,
            value=errors[worst],
            threshold=JOINT_ERROR,
            unit='%',
            **more,
        )


def shows_nothing(seen: Validation) -> bool:
    """Return whether a validation has too few rows of each joint to judge by."""
    return max((joint.rows for joint in seen.joints), default=0) < FEWEST_ROWS


def _rows_missing(seen: Validation, where: str) -> Reason | None:
    """Return what a validation with few rows, or with joints without any, does not show."""
    rows = {joint.joint: joint.rows for joint in seen.joints}
    most, without = max(rows.values(), default=0), [j for j, count in rows.items() if not count]
    if most >= FEWEST_ROWS and not without:
        return None
    longer = Step(next_step='validate on a longer motion of all joints', key='data.validation')
    if shows_nothing(seen):
        return Reason(
            short=f'{where}: too few rows to judge by',
            text=f'{where} has {most} rows a joint at most, too few to judge by',
            rules_out=(CONTROL, COLLISIONS),
            value=most,
            threshold=FEWEST_ROWS,
            **longer,
        )
    return Reason(
        short=f'not judged at {one_of(without)}',
        text=f'{where} has no rows of {one_of(without)} outside the dead zone: not judged',
        rules_out=(COLLISIONS,),
        joints=tuple(without),
        **longer,
    )


def _errors(
    fitted: Fit, step: Step, who: str, where: str = '', apart: JointsApart = NONE_APART
) -> Iterator[Reason]:
    """Iterate over what relative errors of all joints, or else of single ones, rule out."""
    error = fitted.relative_error
    if error > USELESS_ERROR:
        yield _missed(error, step, who, where, ALL, USELESS_ERROR)
        return
    if error > LARGE_ERROR:
        yield _missed(error, step, who, where, (CONTROL, COLLISIONS), LARGE_ERROR)
        return
    errors = {joint.joint: joint.relative_error for joint in fitted.joints}
    large = tuple(joint for joint, error in errors.items() if error > JOINT_ERROR)
    for joints in filter(None, apart.groups(large)):
        worst = max(joints, key=lambda joint: errors[joint])
        bound, out = JOINT_ERROR, [COLLISIONS]
        if errors[worst] > USELESS_ERROR:
            # a feedforward that misses more than half of a joint's effort is none for that joint
            bound, out = USELESS_ERROR, [CONTROL, COLLISIONS]
        at = f' of {worst}{where}'
        yield _missed(errors[worst], step, who, at, tuple(out), bound, joints)


def _missed(
    error: float,
    step: Step,
    who: str,
    where: str,
    out: tuple[str, ...],
    bound: float,
    joints: tuple[str, ...] = (),
) -> Reason:
    share = f'{error:.3g}' if error < 1000.0 else 'more than 1000'
    return Reason(
        short=f'{who} misses {share} %{where.partition(" on ")[0]}',
        text=f'{who} misses {share} % of the effort{where}',
        rules_out=out,
        joints=joints,
        value=error,
        threshold=bound,
        unit='%',
        **step,
    )


def speed(result: Result) -> Iterator[Reason]:
    """Iterate over joints that the validations move more slowly than the identification."""
    if not result.validations:
        return
    ratios = speed_ratios(result.system.factor.highest_speed, unseen(result))
    named = list(zip(result.robot.joints, ratios))
    still = [joint for joint, ratio in named if ratio < STILL_SPEED]
    slow = [joint for joint, ratio in named if STILL_SPEED <= ratio < WEAK_SPEED]
    step = Step(
        next_step='validate on a motion as fast as that of the identification',
        key='data.validation',
    )
    if still:
        none = len(still) == len(named)
        low = min(ratio for joint, ratio in named if joint in still)
        yield Reason(
            text=f'{one_of(still)} {"hardly moves" if len(still) == 1 else "hardly move"} in the '
            f'validation ({in_times(low)} times the identified speed)',
            rules_out=(CONTROL, COLLISIONS) if none else (),
            joints=tuple(still),
            value=low,
            threshold=STILL_SPEED,
            remark=not none,
            excepted=not none,
            **step,
        )
    if slow:
        low = float(np.nanmin([ratio for joint, ratio in named if joint in slow]))
        yield Reason(
            text=f'validated at no more than {in_times(low)} times the identified speed: '
            f'{one_of(slow)}',
            joints=tuple(slow),
            value=low,
            threshold=WEAK_SPEED,
            remark=True,
            **step,
        )


def validated_speeds(speeds: np.ndarray, validations: Sequence[Validation]) -> str:
    """Return up to which of the identified speeds (n,) a result was validated, in words."""
    if not validations:
        return 'not validated'
    ratios = speed_ratios(speeds, validations)
    known = ratios[np.isfinite(ratios)]
    if not known.size:
        return 'validated at speeds that are not known'
    low, high = (in_times(value) for value in (known.min(), known.max()))
    least = '' if low == high else f' ({low} times at the joint where that is least)'
    return f'validated up to {high} times the identified speeds{least}'


def speed_ratios(speeds: np.ndarray, validations: Sequence[Validation]) -> np.ndarray:
    """Return (n,) highest speed of validations by that of the identification; NaN for unknown."""
    seen = [np.asarray(each.highest_speed) for each in validations if each.highest_speed]
    speeds = np.where(np.asarray(speeds) > MOVING_SPEED, speeds, np.nan)
    if not seen or any(each.shape != speeds.shape for each in seen):
        return np.full(speeds.shape, np.nan)
    return np.asarray(np.max(seen, axis=0) / speeds)
