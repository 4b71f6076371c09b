# SPDX-License-Identifier: Apache-2.0
"""Criteria of the verdict on the errors of fit and validations, and on their speeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import one_of
from ..estimation.estimate import Fit
from ..estimation.validation import Validation
from .result import Result
from .verdict_reason import ALL, ANOTHER, COLLISIONS, CONTROL, Reason, SEVERAL

LARGE_ERROR = 15.0
"""Share of the effort [%] that a feedforward may miss: feedback corrects a tenth, not a third."""

USELESS_ERROR = 50.0
"""Share of the effort [%] from which on the model explains less than it misses."""

JOINT_ERROR = 30.0
"""The same for one joint, whose residual then hides a contact; those of wrists reach 20 %."""

SMALL_ERROR = 5.0
"""Error [%] below which it does not matter how many times that of the fit it is."""

OVERFIT = 2.0
"""Ratio of validation to fit error: runs of one robot on different days differ by half."""

FASTER = 1.2
"""Ratio to the identified speeds from which on a validation extrapolates."""

SLOWER = 0.5
"""Ratio to the identified speeds below which a validation is a weak test of the dynamics."""

MOVING = 0.03
"""Highest speed from which on a joint moves [rad/s or m/s]."""

COLOURED = 10.0
"""Rows that residuals stay alike for; a filter and decimation alone give two or three."""

REVERSALS = 2.0
"""Ratio of residuals at reversals to others that friction which the model lacks makes."""


def fit(result: Result) -> Iterator[Reason]:
    """Error of the fit itself."""
    step, key = _fit_step(result)
    yield from _errors(result.estimate.fit, 'fit', 'the fit', step, key)


def validation(result: Result) -> Iterator[Reason]:
    """Error on recordings that the identification has not seen."""
    fitted = result.estimate.fit
    seen = unseen(result)
    poor = any(True for _ in _errors(fitted, 'fit', '', '', ''))
    step, key = _fit_step(result) if poor else (SEVERAL, 'data.identification')
    yield from validation_reasons(fitted, result.system.highest_speed, seen, step, key)
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
    """Tell if a validation is on the rows of the identification."""
    same = {*seen.sources} <= {*result.recordings}
    fits = zip(seen.joints, result.estimate.joints, strict=True)
    alike = (a.rows == b.rows and np.isclose(a.rmse, b.rmse, rtol=1e-9) for a, b in fits)
    return bool(seen.sources) and same and all(alike)


def validation_reasons(
    fitted: Fit,
    speeds: np.ndarray,
    validations: Sequence[Validation],
    step: str,
    key: str,
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
    step, key:
        What to do where a validation within the identified speeds has a large error.

    """
    ratios = [np.nan_to_num(speed_ratios(speeds, [each])) for each in validations]
    beyond = [bool(ratio.size) and float(ratio.max()) > FASTER for ratio in ratios]
    for seen, ratio, faster in zip(validations, ratios, beyond, strict=True):
        name = ', '.join(Path(source).name for source in seen.sources) or 'the validation'
        where, way, of = name, step, key
        if faster:
            where = f'{name} (up to {times(ratio.max())} times the identified speeds)'
            way, of = 'identify from a motion as fast as that of the use', 'data.identification'
        found = list(_errors(seen, 'validation', where, way, of))
        more = seen.relative_error / max(fitted.relative_error, 1e-9)
        if not found and seen.relative_error > SMALL_ERROR and more > OVERFIT:
            yield Reason(
                'validation',
                f'the error on {where} is {seen.relative_error:.3g} %, {times(more)} times that '
                f'of the fit ({fitted.relative_error:.3g} %)',
                value=more,
                threshold=OVERFIT,
                next_step=way if faster else SEVERAL,
                key=of if faster else 'data.identification',
            )
        for reason in found:
            # within the speeds of the identification another recording shows that it holds
            out = () if faster and not all(beyond) else reason.rules_out
            yield replace(reason, rules_out=out)


def speed(result: Result) -> Iterator[Reason]:
    """Speeds of the validation beside those of the identification."""
    if not result.validations:
        return
    ratios = speed_ratios(result.system.highest_speed, unseen(result))
    slow = [j for j, ratio in zip(result.robot.joints, ratios) if ratio < SLOWER]
    if slow:
        low = float(np.nanmin(ratios))
        yield Reason(
            'speed',
            f'validated at no more than {times(low)} times the identified speed: {one_of(slow)}',
            joints=tuple(slow),
            value=low,
            threshold=SLOWER,
            next_step='validate on a motion as fast as that of the identification',
            key='data.validation',
            remark=True,
        )


def scope(speeds: np.ndarray, validations: Sequence[Validation]) -> str:
    """
    Return up to which speeds a result was validated, in words.

    Parameters
    ----------
    speeds:
        (n,) highest speeds of the identification.
    validations:
        Of the result.

    """
    if not validations:
        return 'not validated'
    ratios = speed_ratios(speeds, validations)
    known = ratios[np.isfinite(ratios)]
    if not known.size:
        return 'validated at speeds that are not known'
    low, high = (times(value) for value in (known.min(), known.max()))
    least = '' if low == high else f' ({low} times at the joint where that is least)'
    return f'validated up to {high} times the identified speeds{least}'


def speed_ratios(speeds: np.ndarray, validations: Sequence[Validation]) -> np.ndarray:
    """Return (n,) highest speed of validations by that of the identification; NaN for unknown."""
    seen = [np.asarray(each.highest_speed) for each in validations if each.highest_speed]
    speeds = np.where(np.asarray(speeds) > MOVING, speeds, np.nan)
    if not seen or any(each.shape != speeds.shape for each in seen):
        return np.full(speeds.shape, np.nan)
    return np.asarray(np.max(seen, axis=0) / speeds)


def _errors(fitted: Fit, criterion: str, where: str, step: str, key: str) -> Iterator[Reason]:
    """Iterate over what relative errors of all joints, and of single ones, rule out."""
    error = fitted.relative_error
    if error > LARGE_ERROR:
        useless = error > USELESS_ERROR
        yield Reason(
            criterion,
            f'{where} misses {_share(error)} % of the effort'
            if criterion == 'fit'
            else f'the prediction misses {_share(error)} % of the effort on {where}',
            rules_out=ALL if useless else (CONTROL, COLLISIONS),
            value=error,
            threshold=USELESS_ERROR if useless else LARGE_ERROR,
            unit='%',
            next_step=step,
            key=key,
        )
        return
    large = [joint for joint in fitted.joints if joint.relative_error > JOINT_ERROR]
    if large:
        worst = max(large, key=lambda joint: joint.relative_error)
        names = tuple(joint.joint for joint in large)
        yield Reason(
            criterion,
            f'{where} misses {_share(worst.relative_error)} % of the effort of {worst.joint}'
            if criterion == 'fit'
            else f'the prediction misses {_share(worst.relative_error)} % of the effort of '
            f'{worst.joint} on {where}',
            rules_out=(COLLISIONS,),
            joints=names,
            value=worst.relative_error,
            threshold=JOINT_ERROR,
            unit='%',
            next_step=step,
            key=key,
        )


def times(ratio: float) -> str:
    """Return a ratio in words."""
    return f'{ratio:.1f}' if ratio >= 0.95 else f'{ratio:.2g}'


def _share(error: float) -> str:
    """Return a percentage with three digits."""
    return f'{error:.3g}' if error < 1000.0 else 'more than 1000'


def _fit_step(result: Result) -> tuple[str, str]:
    """Return what lowers a large error, and its key, by the colour of the residuals."""
    colour = result.residuals
    if colour is None:
        return ANOTHER, 'data.identification'
    rows, back = colour.correlated_rows, colour.reversal_ratio
    if np.nanmax(back, initial=0.0) > REVERSALS:
        return friction_step(result), 'signals.dead_zone'
    if np.nanmax(rows, initial=0.0) > COLOURED:
        step = 'see robot-identification diagnose, and check gains and gear ratios (robot.drives)'
        return step, 'robot.drives'
    if np.isfinite(rows).any():
        step = 'filter the noise: lower signals.cutoff and signals.decimate_to, or record longer'
        return step, 'signals.cutoff'
    return ANOTHER, 'data.identification'


def friction_step(result: Result) -> str:
    """Return what lowers errors at reversals."""
    step = 'leave out rows near reversals (signals.dead_zone)'
    chosen = result.selection is not None
    return step if chosen else f'{step}, or let `auto` choose the friction model'
