# SPDX-License-Identifier: Apache-2.0
"""Result of a fleet: parameters of each robot, summary, file and report, one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import numpy as np
import yaml

from ..config.experiment import FleetSettings
from ..config.problem import IdentificationProblem
from ..estimation.estimate import Estimate, Fit
from ..estimation.factor import QRFactor
from ..estimation.tables import number, percent, rule, wrapped
from ..figures import page
from ..figures.figure import (
    BELOW,
    CARD,
    escaped,
    Figure,
    headline,
    MEASURED,
    PALE,
    PREDICTED,
    raised,
    RESIDUAL,
    ROW,
    TEXT,
)
from ..options.document import plain
from ..options.fields import to_mapping
from ..regressor.base_parameters import BaseStructure
from ..version import __version__
from .comparison import DAY, Difference, Drift, FleetComparison
from .store import FleetRecording

FORMAT = 1
"""Number of the file's format; it changes when an older version could not read it."""

_SHOWN = 30
"""Robots and parameters that the summary lists; the report has all."""

_DRAWN = 24
"""Drifts that are drawn; the table has all."""

_LIMIT = 10.0
"""Differences of more standard deviations have the same colour."""

_MOST_ROBOTS = 60  # that are drawn: those that differ most


@dataclass(frozen=True)
class Timing:
    """
    Run times [s]: start of the workers, recordings, and all else.

    ``work`` is the sum over the workers' time on recordings.
    """

    opening: float
    reducing: float
    comparing: float
    work: float
    workers: int


@dataclass(frozen=True)
class RobotResult:
    """
    Result of one robot, from its recordings in order of time.

    ``estimate`` is None if they do not identify the parameters, for the reason ``failure``;
    ``by_fleet`` is the fit of its recordings by the fleet's parameters.
    """

    serial: str
    recordings: tuple[FleetRecording, ...]
    samples: int
    estimate: Estimate | None
    by_fleet: Fit
    failure: str = ''

    @property
    def began(self) -> float:
        """Time of the first recording [s since 1970]."""
        return self.recordings[0].stamp

    @property
    def ended(self) -> float:
        """Time of the last recording [s since 1970]."""
        return self.recordings[-1].stamp


@dataclass(frozen=True)
class FleetResult:
    """
    Result of a fleet.

    Attributes
    ----------
    name:
        Name of the experiment.
    factor, estimate:
        Of all recordings, as of one robot.
    robots:
        In the order of their serial numbers.
    comparison:
        Between robots and over time; None if nothing can be compared.
    rejected:
        Reasons by path of recordings that cannot be used.
    kept:
        Number of recordings that were finished by an earlier run.
    scheduler:
        Name of the executor.

    """

    name: str
    problem: IdentificationProblem
    settings: FleetSettings
    structure: BaseStructure
    factor: QRFactor
    estimate: Estimate
    robots: tuple[RobotResult, ...]
    comparison: FleetComparison | None
    rejected: Mapping[str, str] = field(default_factory=dict)
    kept: int = 0
    scheduler: str = ''
    timing: Timing = field(default_factory=lambda: Timing(0.0, 0.0, 0.0, 0.0, 1))
    warnings: tuple[str, ...] = ()

    @property
    def n_recordings(self) -> int:
        """Recordings that were used."""
        return sum(len(robot.recordings) for robot in self.robots)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Significant differences, by robot, the most certain ones first."""
        return () if self.comparison is None else self.comparison.differences

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """Significant changes over time, by robot, the most certain ones first."""
        return () if self.comparison is None else self.comparison.drifts

    @property
    def different(self) -> tuple[str, ...]:
        """Serial numbers of robots that differ."""
        return tuple(dict.fromkeys(one.serial for one in self.differences))

    @property
    def drifting(self) -> tuple[str, ...]:
        """Serial numbers of robots that change over time."""
        return tuple(dict.fromkeys(one.serial for one in self.drifts))

    def remarks(self, robot: RobotResult) -> list[str]:
        """Return words on a robot that differs, drifts or is not identified."""
        words = {
            'differs': robot.serial in self.different,
            'drifts': robot.serial in self.drifting,
            'not identified': robot.estimate is None,
        }
        return [word for word, holds in words.items() if holds]

    def summary(self) -> str:
        """Return header, robots, differences, drifts, warnings; 100 columns wide."""
        estimate, lost = self.estimate, len(self.rejected)
        error = f'{percent(estimate.fit.relative_error)} %'
        lines = [
            rule(f'Fleet {self.name}', '='),
            f'{"recordings":<17}{self.n_recordings:<38}{"robots":<20}{len(self.robots)}',
            f'{"rejected":<17}{lost:<38}{"relative error":<20}{error}',
            f'{"samples":<17}{self.factor.raw_rows:<38}{"base parameters":<20}{len(estimate)}',
        ]
        lines += ['', *_robots(self), '', *_differences(self), '', *_drifts(self)]
        if self.warnings:
            lines += ['', 'Warnings']
            for count, text in enumerate(self.warnings, 1):
                lines += wrapped(text, f'[{count}] ')
        return '\n'.join(line.rstrip() for line in lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists in the order of the file."""
        return plain(
            {
                'robot_identification_fleet': {'version': __version__, 'format': FORMAT},
                'name': self.name,
                'recordings': self.n_recordings,
                'rejected': len(self.rejected),
                'samples': self.factor.raw_rows,
                'significance': self.settings.significance,
                'different': list(self.different),
                'drifting': list(self.drifting),
                'differences': [vars(one) for one in self.differences],
                'drifts': [vars(one) for one in self.drifts],
                'fleet': _estimate(self.estimate),
                'robots': [self._robot(robot) for robot in self.robots],
                'warnings': list(self.warnings),
                'settings': {
                    'fleet': to_mapping(self.settings),
                    'effort_kind': self.problem.effort_kind,
                    'model': to_mapping(self.problem.model),
                    'signals': to_mapping(self.problem.signals),
                    'estimation': to_mapping(self.problem.estimation),
                },
                'timing': {**vars(self.timing), 'scheduler': self.scheduler, 'kept': self.kept},
            }
        )

    def _robot(self, robot: RobotResult) -> dict[str, Any]:
        return {
            'serial': robot.serial,
            'different': robot.serial in self.different,
            'drifting': robot.serial in self.drifting,
            'samples': robot.samples,
            'from': date(robot.began),
            'to': date(robot.ended),
            'relative_error_by_fleet': robot.by_fleet.relative_error,
            'failure': robot.failure or None,
            **({} if robot.estimate is None else _estimate(robot.estimate)),
            'recordings': [
                {'file': one.path, 'time': date(one.stamp), 'samples': one.samples}
                for one in robot.recordings
            ],
        }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    keys = ('name', 'unit', 'value', 'std', 'state')
    return {
        'method': estimate.method,
        'rows': estimate.rows.count,
        'condition_number': estimate.rows.condition_number,
        **estimate.fit.to_dict(),
        'parameters': [{key: entry.to_dict()[key] for key in keys} for entry in estimate],
    }


def date(stamp: float) -> str:
    """Return a time since 1970 as text, to the second, in UTC."""
    return datetime.fromtimestamp(stamp, timezone.utc).strftime('%Y-%m-%d %H:%M:%S')


def _robots(result: FleetResult) -> list[str]:
    # those that stand out first
    standing_out = {*result.different, *result.drifting}
    robots = sorted(result.robots, key=lambda robot: robot.serial not in standing_out)
    rows = []
    for robot in robots[:_SHOWN]:
        own = '-' if robot.estimate is None else percent(robot.estimate.fit.relative_error)
        dates = (date(stamp)[:10] for stamp in (robot.began, robot.ended))
        by_fleet = percent(robot.by_fleet.relative_error)
        remarks = ', '.join(result.remarks(robot))
        rows.append((robot.serial, f'{len(robot.recordings)}', *dates, own, by_fleet, remarks))
    heads = ('serial', 'recordings', 'first', 'last', 'own error %', 'fleet error %', '')
    return _table('Robots', heads, rows, len(robots))


def _differences(result: FleetResult) -> list[str]:
    if result.comparison is None or len(result.robots) < 2:
        return []
    if not result.differences:
        return [f'No robot differs significantly ({result.settings.significance:g}).']
    heads = ('serial', 'parameter', 'usual', 'value', 'difference', 'std', 'unit')
    rows = [
        (d.serial, d.parameter, *map(number, (d.usual, d.value, d.difference, d.std)), d.unit)
        for d in result.differences[:_SHOWN]
    ]
    title = 'Parameters that differ from the rest of the fleet'
    return _table(title, heads, rows, len(result.differences), left=2)


def _drifts(result: FleetResult) -> list[str]:
    if result.comparison is None:
        return []
    if not result.drifts:
        return [f'No robot changes significantly over time ({result.settings.significance:g}).']
    heads = ('serial', 'parameter', 'a day', 'std', 'days', 'in all', 'unit')
    rows = [
        (d.serial, d.parameter, number(d.per_day), number(d.std), f'{d.days:.1f}',
         number(d.change), d.unit)
        for d in result.drifts[:_SHOWN]
    ]  # fmt: skip
    return _table('Parameters that change over time', heads, rows, len(result.drifts), left=2)


def _table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], count: int, left: int = 1
) -> list[str]:
    """Return the first rows of so many as a table; the first columns and the last are texts."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [rule(title)]
    for cells in (heads, *rows):
        padded = [
            cell.ljust(width) if i < left else cell.rjust(max(width, 9))
            for i, (cell, width) in enumerate(zip(cells[:-1], widths, strict=False))
        ]
        lines.append('  '.join([*padded, cells[-1]]))
    return lines + ([f'... and {count - _SHOWN} more'] if count > _SHOWN else [])


# ---------------------------------------------------------------------------------------- report


def fleet_html(result: FleetResult) -> str:
    """Return the report as an HTML document."""
    figures, missing = page.figure_store()
    return page.render(
        'fleet.html',
        result=result,
        warnings=(*result.warnings, *missing),
        tiles=list(_tiles(result)),
        robots=list(_robot_rows(result)),
        parameters=list(_parameter_rows(result)),
        figures=figures,
        drawn=_figures(result) if figures else {},
        settings=_settings_text(result),
        efficiency=_efficiency(result),
        date=date,
    )


def _tiles(result: FleetResult) -> Iterator[page.Tile]:
    yield page.Tile(
        'recordings',
        f'{result.n_recordings}',
        f'{result.factor.raw_rows:,} samples'.replace(',', '\u202f'),
    )
    yield page.Tile(
        'robots', f'{len(result.robots)}', f'{len(result.estimate)} base parameters each'
    )
    rejected = len(result.rejected)
    note = 'recordings that cannot be used' if rejected else 'every recording was used'
    yield page.Tile('rejected', f'{rejected}', note, 'poor' if rejected else 'good')
    yield page.Tile(
        'relative error',
        f'{page.percent(result.estimate.fit.relative_error)} %',
        'with the same parameters for all',
    )
    if result.comparison is None:
        return
    for label, serials in (('differ', result.different), ('drift', result.drifting)):
        note = f'significance {result.settings.significance:g}, all tests together'
        yield page.Tile(label, f'{len(serials)}', note, 'poor' if serials else 'good')


def _robot_rows(result: FleetResult) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of the table of robots."""
    for robot in result.robots:
        words = result.remarks(robot)
        state, text = 'poor', ', '.join(words)
        if robot.estimate is None:
            state, text = 'weak', 'not identified'
        elif not words:
            state, text = ('', '') if result.comparison is None else ('good', 'like the others')
        yield {'robot': robot, 'state': state, 'word': text}


def _parameter_rows(result: FleetResult) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of the table of the fleet's parameters."""
    usual: Mapping[str, float] = {}
    if result.comparison is not None:
        reference = result.comparison.tests.reference.tolist()
        usual = dict(zip(result.comparison.layout.names, reference, strict=True))
    for parameter in result.estimate:
        yield {'parameter': parameter, 'usual': usual.get(parameter.name)}


def _figures(result: FleetResult) -> dict[str, Any]:
    """Return the figures of the comparison by name."""
    comparison = result.comparison
    if comparison is None:
        return {}
    return {
        'differences': difference_figure(comparison) if len(result.robots) > 1 else None,
        'drifts': [drift_figure(comparison, drift) for drift in result.drifts[:_DRAWN]],
    }


def _efficiency(result: FleetResult) -> str:
    """Return text on the run times."""
    timing = result.timing
    fresh = result.n_recordings + len(result.rejected) - result.kept
    text = f'{fresh} recordings in {page.seconds(timing.reducing)} by {result.scheduler}'
    if result.kept:
        text += f', {result.kept} kept from an earlier run'
    opening, comparing = page.seconds(timing.opening), page.seconds(timing.comparing)
    return f'{text}; workers {opening}, comparison {comparing}'


def _settings_text(result: FleetResult) -> str:
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


def difference_figure(comparison: FleetComparison) -> Figure:
    """Return parameters' differences in standard deviations, of 60 robots at most."""
    tests = comparison.tests
    with np.errstate(divide='ignore', invalid='ignore'):
        score = tests.difference / tests.difference_std
    rows = _shown(score)
    names = [escaped(comparison.serials[r]) for r in rows]
    columns = [escaped(name) for name in comparison.layout.names]
    marks = np.argwhere(tests.difference_probability[rows] <= comparison.significance)
    traces = [
        {
            'type': 'heatmap', 'x': columns, 'y': names, 'z': score[rows], 'xgap': 1, 'ygap': 1,
            'zmin': -_LIMIT, 'zmax': _LIMIT,
            'colorscale': [[0.0, RESIDUAL], [0.5, CARD], [1.0, PREDICTED]],
            'colorbar': {'orientation': 'h', 'y': 1.0, 'yanchor': 'bottom', 'thickness': 10,
                         'len': 0.6, 'outlinewidth': 0,
                         'title': {'text': 'standard deviations from the median', 'side': 'top'}},
            'hovertemplate': '%{y}: %{x}<br>%{z:.3g} standard deviations<extra></extra>',
        },
        {
            'x': [columns[p] for _, p in marks], 'y': [names[r] for r, _ in marks],
            'mode': 'markers', 'marker': {'color': TEXT, 'size': 5}, 'hoverinfo': 'skip',
        },
    ]  # fmt: skip
    below = 16 + 7 * max(map(len, columns), default=0)
    layout = {
        'height': 100 + ROW * max(len(names), 3) + below,
        'margin': {'l': 56, 'r': 12, 't': 84, 'b': below}, 'showlegend': False,
        'xaxis': {'tickangle': -90, 'dtick': 1, 'showgrid': False, 'type': 'category'},
        'yaxis': {'autorange': 'reversed', 'dtick': 1, 'showgrid': False, 'type': 'category'},
    }  # fmt: skip
    return Figure('Difference of each parameter of each robot from the median', traces, layout)


def drift_figure(comparison: FleetComparison, drift: Drift) -> Figure:
    """Return a parameter over time with its straight line and the other robots' values."""
    row = comparison.serials.index(drift.serial)
    p = comparison.layout.names.index(drift.parameter)
    series, tests = comparison.series[row], comparison.tests
    start = series.stamps.min()
    days = (series.stamps - start) / DAY
    others: list[tuple[float, float]] = []
    for other, values in enumerate(comparison.series):
        at = (values.stamps - start) / DAY
        near = (at >= days.min() - 1.0) & (at <= days.max() + 1.0) & (other != row)
        others += zip(at[near].tolist(), values.values[near, p].tolist(), strict=True)
    own, std = series.values[:, p], tests.scatter[row, p] * series.std[:, p]
    hover = {'hovertemplate': 'day %{x:.3g}: %{y:.4g}<extra></extra>'}
    traces = [
        {'x': np.array([x for x, _ in others]), 'y': np.array([y for _, y in others]),
         'mode': 'markers', 'name': 'other robots', 'marker': {'color': PALE, 'size': 5}, **hover},
        {'x': days, 'y': own, 'mode': 'markers', 'name': 'by recording, ± std', **hover,
         'marker': {'color': MEASURED, 'size': 6},
         'error_y': {'type': 'data', 'array': std, 'color': MEASURED, 'thickness': 1, 'width': 0}},
        {**_line(days, own, series.std[:, p], drift), 'mode': 'lines', 'name': 'straight line',
         'line': {'color': PREDICTED, 'width': 1.5}, 'hoverinfo': 'skip'},
    ]  # fmt: skip
    name = f'{escaped(drift.serial)}: {escaped(drift.parameter)}'
    layout = {
        'height': 320, 'title': headline(name), 'legend': BELOW,
        'xaxis': {'title': {'text': 'days since its first recording'}},
        'yaxis': {'title': {'text': f'[{raised(drift.unit)}]'}},
    }  # fmt: skip
    return Figure(f'{drift.parameter} of {drift.serial} over time', traces, layout)


def _line(days: np.ndarray, values: np.ndarray, std: np.ndarray, drift: Drift) -> dict[str, Any]:
    """Return the straight line through values."""
    known = np.isfinite(values)
    weights = 1.0 / std[known] ** 2
    middle = np.average(days[known], weights=weights)
    height = np.average(values[known], weights=weights)
    ends = np.array([days[known].min(), days[known].max()])
    return {'x': ends, 'y': height + drift.per_day * (ends - middle)}


def _shown(score: np.ndarray) -> np.ndarray:
    """Return the indices of the robots to draw."""
    if len(score) <= _MOST_ROBOTS:
        return np.arange(len(score))
    largest = np.nanmax(np.abs(np.nan_to_num(score)), axis=1)
    return np.sort(np.argsort(-largest, kind='stable')[:_MOST_ROBOTS])
