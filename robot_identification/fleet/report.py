# SPDX-License-Identifier: Apache-2.0
"""The report of a fleet: one HTML file that needs nothing beside it, no network and no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from ..options.keys import to_mapping
from ..results.report.html import (
    image,
    percent,
    render,
    seconds,
    Tile,
)
from .result import date, FleetResult

_DRAWN = 24
"""Drifts that are drawn; the table has all."""


def html(result: FleetResult) -> str:
    """Return the report of ``result`` as the text of an HTML document."""
    return render(
        'fleet.html',
        result=result,
        tiles=list(_tiles(result)),
        robots=list(_robots(result)),
        parameters=list(_parameters(result)),
        figures=_figures(result),
        settings=_settings(result),
        efficiency=_efficiency(result),
        date=date,
    )


def _tiles(result: FleetResult) -> Iterator[Tile]:
    yield Tile(
        'recordings',
        f'{result.n_recordings}',
        f'{result.factor.raw_rows:,} samples'.replace(',', '\u202f'),
    )
    yield Tile('robots', f'{len(result.robots)}', f'{len(result.estimate)} base parameters each')
    aside = len(result.set_aside)
    yield Tile(
        'set aside',
        f'{aside}',
        'recordings that cannot be used' if aside else 'every recording was used',
        'poor' if aside else 'good',
    )
    yield Tile(
        'relative error',
        f'{percent(result.estimate.relative_error)} %',
        'with the same parameters for all',
    )
    if result.comparison is None:
        return
    for label, serials in (('differ', result.different), ('drift', result.drifting)):
        note = f'significance {result.settings.significance:g}, all tests together'
        yield Tile(label, f'{len(serials)}', note, 'poor' if serials else 'good')


def _robots(result: FleetResult) -> Iterator[dict[str, Any]]:
    """Rows of the table of robots."""
    for robot in result.robots:
        differs, drifts = robot.serial in result.different, robot.serial in result.drifting
        words = [word for word, is_so in (('differs', differs), ('drifts', drifts)) if is_so]
        state, text = 'good', 'like the others'
        if words:
            state, text = 'poor', ', '.join(words)
        elif result.comparison is None:
            state, text = '', ''
        if robot.estimate is None:
            state, text = 'weak', 'not identified'
        yield {'robot': robot, 'state': state, 'word': text}


def _parameters(result: FleetResult) -> Iterator[dict[str, Any]]:
    """Rows of the table of the fleet's parameters."""
    usual: Mapping[str, float] = {}
    if result.comparison is not None:
        reference = result.comparison.tests.reference.tolist()
        usual = dict(zip(result.comparison.layout.names, reference, strict=True))
    for parameter in result.estimate:
        yield {'parameter': parameter, 'usual': usual.get(parameter.name)}


def _figures(result: FleetResult) -> dict[str, str]:
    """Return the figures as images that HTML can hold."""
    # matplotlib takes long to import
    from . import plots

    comparison = result.comparison
    if comparison is None:
        return {}
    drawn = {}
    if len(result.robots) > 1:
        drawn['differences'] = plots.difference_figure(comparison, result.settings.significance)
    if result.drifts:
        drawn['drifts'] = plots.drift_figure(comparison, result.drifts[:_DRAWN])
    return {name: image(figure) for name, figure in drawn.items()}


def _efficiency(result: FleetResult) -> str:
    """Say in words where the time went."""
    timing = result.timing
    fresh = result.n_recordings + len(result.set_aside) - result.kept
    text = f'{fresh} recordings in {seconds(timing.reducing)} by {result.scheduler}'
    if result.kept:
        text += f', {result.kept} kept from an earlier run'
    return f'{text}; workers {seconds(timing.opening)}, comparison {seconds(timing.comparing)}'


def _settings(result: FleetResult) -> str:
    problem = result.problem
    document = {
        'robot': {
            'urdf': problem.robot.name,
            'joints': list(problem.robot.joints),
            'effort_kind': problem.effort_kind,
            'drives': to_mapping(problem.drives),
            **to_mapping(problem.model),
        },
        'signals': to_mapping(problem.signals),
        'estimation': to_mapping(problem.estimation),
        'fleet': to_mapping(result.settings),
    }
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=88)
