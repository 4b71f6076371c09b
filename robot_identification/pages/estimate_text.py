# SPDX-License-Identifier: Apache-2.0
"""Estimates and validations as text, in the manner of a statistics package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import math

from ..estimation.bootstrap import Bootstrap
from ..estimation.estimate import Estimate, Fit, IDENTIFIED, NOT_COVERED, ParameterEstimate
from ..estimation.tables import number, percent, rule, wrapped
from ..estimation.validation import Validation
from ..model.floating_base import row_name, row_titles


def estimate_summary(estimate: Estimate, method: str = '') -> str:
    """
    Return tables of an estimate for people, 100 columns wide.

    ``method`` is the title of the estimator; without it, its name stands there.
    """
    return '\n'.join(line.rstrip() for line in _summary(estimate, method or estimate.method))


def validation_summary(validation: Validation) -> str:
    """Return a table of a validation for people, 100 columns wide."""
    sources = ', '.join(validation.sources)
    title = f'Validation on {sources}' if sources else 'Validation'
    return '\n'.join([title, *_fit_table(validation)])


def _fit_table(fit: Fit, weights: dict[str, float] | None = None) -> list[str]:
    """Return the lines of the table of residuals per joint."""
    title, whole = row_titles([joint.joint for joint in fit.joints])
    width = max([len(whole), *(len(row_name(joint.joint)) for joint in fit.joints)])
    heads = ['rows', 'rmse', 'bias', 'error %', 'raw error %', *(['weight'] if weights else [])]
    lines = [rule('Fit of the effort'), _row(title, width, heads, 13)]
    for joint in fit.joints:
        cells = [
            str(joint.rows),
            number(joint.rmse),
            # the offset takes all of it but rounding errors
            number(0.0 if abs(joint.bias) <= 1e-9 * joint.rmse else joint.bias),
            percent(joint.relative_error),
            percent(joint.raw_relative_error),
            *([number(weights[joint.joint])] if weights else []),
        ]
        lines.append(_row(row_name(joint.joint), width, cells, 13))
    rows = sum(joint.rows for joint in fit.joints)
    cells = [str(rows), '', '', percent(fit.relative_error), percent(fit.raw_relative_error)]
    lines.append(_row(whole, width, cells, 13))
    return [line.rstrip() for line in lines]


def _row(name: str, width: int, cells: Iterable[str], each: int) -> str:
    return f'{name:<{width}}' + ''.join(f'{cell:>{each}}' for cell in cells)


def _summary(estimate: Estimate, method: str) -> Iterator[str]:
    """Iterate over header, parameters, expressions, fit, notes, warnings, a line each."""
    yield rule(f'Identification of {estimate.robot}' if estimate.robot else 'Identification', '=')
    third = ('base parameters', str(len(estimate)))
    if estimate.essential is not None:
        third = ('essential', f'{int(estimate.essential.sum())} of {len(estimate)} parameters')
    for (a, b), (c, d) in zip(
        (
            ('method', method),
            ('rows', str(estimate.rows.count)),
            third,
            ('estimated', str(estimate.rank)),
        ),
        (
            ('relative error', f'{estimate.fit.relative_error:.2f} %'),
            ('raw relative error', f'{estimate.fit.raw_relative_error:.2f} %'),
            ('condition number', f'{estimate.rows.condition_number:.4g} (column-scaled)'),
            ('', f'{estimate.rows.raw_condition_number:.4g} (raw)'),
        ),
        strict=True,
    ):
        yield f'{a:<17}{b:<42}{c:<20}{d}'
    parameters = list(estimate)
    yield from ('', *_parameter_table(parameters), '')
    if (drawn := estimate.uncertainty.bootstrap) is not None:
        yield from (*_bootstrap_table(parameters, drawn), '')
    sums = [p for p in parameters if p.expression != p.name]
    yield from [rule('Definitions of the base parameters')] if sums else []
    for p in sums:
        yield from wrapped(p.expression, f'{p.name} = ')
    weights = estimate.to_dict()['weights'] if estimate.method != 'ols' else None
    yield from ('', *_fit_table(estimate.fit, weights))
    for title, texts in (('Notes', estimate.notes), ('Warnings', estimate.warnings)):
        yield from ('', title) if texts else ()
        for i, text in enumerate(texts, 1):
            yield from wrapped(text, f'[{i}] ')


def _parameter_table(parameters: list[ParameterEstimate]) -> Iterator[str]:
    width = max([len('parameter'), *(len(p.name) for p in parameters)])
    unit = max([10, *(len(p.unit) for p in parameters)]) + 2
    yield rule('Base parameters')
    yield f'{"parameter":<{width}}{"value":>14}{"std":>13}{"std %":>9}  unit'
    for p in parameters:
        note = ''
        if p.state != IDENTIFIED:
            note = 'not excited'
        elif p.essential is False:
            note = 'dropped' if math.isnan(p.std) else 'not essential'
        yield (
            f'{p.name:<{width}}{number(p.value):>14}{number(p.std):>13}'
            f'{percent(p.relative_std):>9}  {p.unit:<{unit}}{note}'
        )


def _bootstrap_table(parameters: list[ParameterEstimate], drawn: Bootstrap) -> Iterator[str]:
    known = [p for p in parameters if not math.isnan(p.std)]
    width = max([len('parameter'), *(len(p.name) for p in known)])
    yield rule('Uncertainty')
    yield from wrapped(f'{drawn.described}. {NOT_COVERED}', '')
    yield _row('parameter', width, ('classical std', 'std by it', 'low', 'high'), 14)
    for p in known:
        growth = p.std / p.classical_std if p.classical_std > 0.0 else math.nan
        cells = (p.classical_std, growth, p.bootstrap_low, p.bootstrap_high)
        yield _row(p.name, width, map(number, cells), 14)
