# SPDX-License-Identifier: Apache-2.0
"""A result in one line, and its figures by name, for answers and diagnostics of nodes."""

from __future__ import annotations

from typing import Any

from ..results.result import Result


def figures_of(result: Result) -> tuple[str, dict[str, Any]]:
    """Return how good the estimate is, in some words, and its figures by name."""
    estimate = result.estimate
    values: dict[str, Any] = {
        'robot': result.robot.name,
        'recordings': ', '.join(result.recorded.names),
        'method': estimate.method,
        'base parameters': result.structure.n_base,
        'relative error [%]': f'{estimate.fit.relative_error:.3g}',
        'condition number': f'{estimate.rows.condition_number:.4g}',
        'physically consistent': 'yes' if result.consistency.physical else 'no',
        'plausible': 'yes' if result.plausible else 'no',
    }
    for validation in result.validations:
        sources = ', '.join(validation.sources)
        values[f'relative error on {sources} [%]'] = f'{validation.relative_error:.3g}'
    for number, warning in enumerate(result.warnings, 1):
        values[f'warning {number}'] = warning
    text = f'relative error {estimate.fit.relative_error:.3g} %'
    if not result.consistency.physical:
        text += ', not physically consistent'
    elif not result.plausible:
        text += ', not plausible'
    if result.warnings:
        text += f', {len(result.warnings)} warnings'
    return text, values


def headline(result: Result) -> str:
    """Return what was identified from what, and how well, in one line."""
    estimate = result.estimate
    text = (
        f'{result.structure.n_base} base parameters of {result.robot.name} by {estimate.method} '
        f'from {", ".join(result.recorded.names)}: '
        f'relative error {estimate.fit.relative_error:.3g} %, '
        f'condition number {estimate.rows.condition_number:.3g}'
    )
    if result.essential is not None and result.essential.essential is not None:
        text += f', {int(result.essential.essential.sum())} essential'
    if result.drive_gains is not None:
        changes = ', '.join(f'{gain.relative_change:+.1f}' for gain in result.drive_gains)
        text += f'; drive gains differ from the assumed ones by {changes} %'
    if result.payload is not None and result.payload.body is not None:
        text += f'; payload of {result.payload.body.mass:.4g} kg'
    if not result.consistency.physical:
        text += '; the standard parameters are not physically consistent'
    elif not result.plausible:
        text += '; the standard parameters are not plausible'
    return text
