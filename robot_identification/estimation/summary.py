# SPDX-License-Identifier: Apache-2.0
"""Tables for people: an estimate and its fit as text of 100 columns."""

from __future__ import annotations

from collections.abc import Iterable
import math
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .bootstrap import Bootstrap
    from .estimate import Estimate, Fit, ParameterEstimate

WIDTH = 100
METHOD_TITLES = {
    'ols': 'ordinary least squares',
    'wls': 'weighted least squares',
    'irls': 'iteratively reweighted least squares',
    'mrls': 'modified recursive least squares',
    'physical': 'least squares over physical bodies',
}
"""What the methods are called in full."""


def estimate_summary(estimate: Estimate) -> str:
    """Return the table of an estimate: header, parameters, expressions, fit, notes, warnings."""
    lines = _header(estimate)
    lines += ['', *_parameter_table(list(estimate))]
    if estimate.bootstrap is not None:
        lines += ['', *_bootstrap_table(estimate, estimate.bootstrap)]
    lines += ['', *_expressions(list(estimate))]
    lines += ['', *fit_table(estimate.fit, dict(_weights(estimate)))]
    for title, texts in (('Notes', estimate.notes), ('Warnings', estimate.warnings)):
        if texts:
            lines += ['', title]
            for number, text in enumerate(texts, 1):
                lines += wrapped(text, f'[{number}] ')
    return '\n'.join(line.rstrip() for line in lines)


def fit_table(fit: Fit, weights: dict[str, float] | None = None) -> list[str]:
    """Return the lines of the table of residuals per joint."""
    width = max([len('all joints'), *(len(joint.joint) for joint in fit.joints)])
    heads = ['rows', 'rmse', 'bias', 'error %', 'raw error %']
    heads += ['weight'] if weights else []
    lines = [
        rule('Fit of the effort'),
        f'{"joint":<{width}}' + ''.join(f'{h:>13}' for h in heads),
    ]
    for joint in fit.joints:
        cells = [
            str(joint.rows),
            number(joint.rmse),
            # the offset takes all of it but rounding errors
            number(joint.bias if abs(joint.bias) > 1e-9 * joint.rmse else 0.0),
            percent(joint.relative_error),
            percent(joint.raw_relative_error),
        ]
        cells += [number(weights[joint.joint])] if weights else []
        lines.append(f'{joint.joint:<{width}}' + ''.join(f'{cell:>13}' for cell in cells))
    rows = sum(joint.rows for joint in fit.joints)
    cells = [str(rows), '', '', percent(fit.relative_error), percent(fit.raw_relative_error)]
    lines.append(f'{"all joints":<{width}}' + ''.join(f'{cell:>13}' for cell in cells))
    return [line.rstrip() for line in lines]


def number(value: float | None) -> str:
    """Return a number in at most 11 characters with five significant digits."""
    if value is None or math.isnan(value):
        return '-'
    return f'{value:.5g}'


def percent(value: float) -> str:
    """Return a percentage in at most 9 characters."""
    if math.isnan(value):
        return '-'
    return f'{value:.2f}' if value < 1e4 else '>9999'


def _header(estimate: Estimate) -> list[str]:
    title = f'Identification of {estimate.robot}' if estimate.robot else 'Identification'
    left = [
        ('method', METHOD_TITLES.get(estimate.method, estimate.method)),
        ('rows', str(estimate.rows)),
        ('base parameters', str(len(estimate))),
        ('estimated', str(estimate.rank)),
    ]
    right = [
        ('relative error', f'{estimate.relative_error:.2f} %'),
        ('raw relative error', f'{estimate.raw_relative_error:.2f} %'),
        ('condition number', f'{estimate.condition_number:.4g} (column-scaled)'),
        ('', f'{estimate.raw_condition_number:.4g} (raw)'),
    ]
    if estimate.essential is not None:
        left[2] = ('essential', f'{int(estimate.essential.sum())} of {len(estimate)} parameters')
    lines = [rule(title, '=')]
    for (a, b), (c, d) in zip(left, right, strict=True):
        lines.append(f'{a:<17}{b:<38}{c:<20}{d}'.rstrip())
    return lines


def _parameter_table(parameters: list[ParameterEstimate]) -> list[str]:
    width = max([len('parameter'), *(len(p.name) for p in parameters)]) if parameters else 9
    lines = [
        rule('Base parameters'),
        f'{"parameter":<{width}}{"value":>14}{"std":>13}{"std %":>9}  {"unit":<12}',
    ]
    for p in parameters:
        note = _note(p)
        lines.append(
            f'{p.name:<{width}}{number(p.value):>14}{number(p.std):>13}'
            f'{percent(p.relative_std):>9}  {p.unit:<12}{note}'.rstrip()
        )
    return lines


def _bootstrap_table(estimate: Estimate, bootstrap: Bootstrap) -> list[str]:
    parameters = [p for p in estimate if not math.isnan(p.std)]
    width = max([len('parameter'), *(len(p.name) for p in parameters)])
    heads = ('bootstrap std', 'by std', 'low', 'high')
    lines = [
        rule('Bootstrap'),
        *wrapped(bootstrap.described, ''),
        f'{"parameter":<{width}}' + ''.join(f'{head:>14}' for head in heads),
    ]
    for p in parameters:
        assert p.bootstrap_std is not None
        growth = p.bootstrap_std / p.std if p.std > 0.0 else math.nan
        cells = (p.bootstrap_std, growth, p.bootstrap_low, p.bootstrap_high)
        lines.append(f'{p.name:<{width}}' + ''.join(f'{number(cell):>14}' for cell in cells))
    return lines


def _note(p: ParameterEstimate) -> str:
    if p.state != 'IDENTIFIED':
        return 'not excited'
    if p.essential is False:
        return 'dropped' if math.isnan(p.std) else 'not essential'
    return ''


def _expressions(parameters: list[ParameterEstimate]) -> list[str]:
    sums = [p for p in parameters if p.expression != p.name]
    if not sums:
        return []
    lines = [rule('What the sums are made of')]
    for p in sums:
        lines += wrapped(p.expression, f'{p.name} = ')
    return lines


def _weights(estimate: Estimate) -> Iterable[tuple[str, float]]:
    if estimate.method == 'ols':
        return ()
    return zip((fit.joint for fit in estimate.joints), estimate.weights.tolist(), strict=True)


def wrapped(text: str, head: str) -> list[str]:
    """Return a text as lines of the table's width, the first one behind ``head``."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=' ' * min(len(head), 24),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]


def rule(title: str, mark: str = '-') -> str:
    """Return a title in a line across the table."""
    return f'{mark * 2} {title} '.ljust(WIDTH, mark)
