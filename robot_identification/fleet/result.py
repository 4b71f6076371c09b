# SPDX-License-Identifier: Apache-2.0
"""Result of a fleet: parameters of each robot, differences, changes over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

import numpy as np

from ..base_parameters import BaseStructure
from ..config.experiment import FleetSettings
from ..config.problem import IdentificationProblem
from ..estimation import Estimate, Fit, QRFactor
from ..estimation.tables import number, percent, rule, wrapped
from ..model.parameters import ParameterLayout
from ..options.document import plain
from ..options.fields import to_mapping
from ..version import __version__
from .comparison import Series, significant, Tests
from .store import FleetRecording

FORMAT = 1
"""Number of the file's format; it changes when an older version could not read it."""

DAY = 86400.0
"""Seconds."""

_SHOWN = 30
"""Robots and parameters that the summary lists; the report has all."""


@dataclass(frozen=True)
class Difference:
    """
    A parameter of a robot that differs from the fleet.

    ``usual`` is the fleet's value, ``std`` the standard deviation of the difference,
    ``probability`` that equal robots show such a difference anywhere.
    """

    serial: str
    parameter: str
    unit: str
    usual: float
    value: float
    difference: float
    std: float
    probability: float


@dataclass(frozen=True)
class Drift:
    """
    A parameter of a robot that changes over time.

    ``per_day`` and ``std`` are the slope and its standard deviation [unit/day], ``change`` is that
    over the ``days`` from the first to the last recording, by the straight line [unit], and
    ``probability`` that a fleet without drift shows such a one anywhere.
    """

    serial: str
    parameter: str
    unit: str
    per_day: float
    std: float
    days: float
    change: float
    probability: float


@dataclass(frozen=True)
class FleetComparison:
    """
    Tests of all robots.

    Attributes
    ----------
    layout:
        The e essential parameters.
    serials, series:
        The r robots and their values by recording.
    tests:
        Results of `compare`.
    significance:
        Probability below which a result is reported.

    """

    layout: ParameterLayout
    serials: tuple[str, ...]
    series: tuple[Series, ...]
    tests: Tests
    significance: float

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Significant differences, by robot, the most certain ones first."""
        t = self.tests
        columns = (t.value, t.difference, t.difference_std, t.difference_probability)
        return tuple(
            Difference(*names, float(t.reference[p]), *(float(column[r, p]) for column in columns))
            for r, p, names in self._found(t.difference / t.difference_std, columns[-1])
        )

    @cached_property
    def drifts(self) -> tuple[Drift, ...]:
        """Significant changes over time, by robot, the most certain ones first."""
        t, found = self.tests, []
        for r, p, names in self._found(t.slope / t.slope_std, t.slope_probability):
            days = float(np.ptp(self.series[r].stamps)) / DAY
            slope, std = float(t.slope[r, p]) * DAY, float(t.slope_std[r, p]) * DAY
            found.append(
                Drift(*names, slope, std, days, slope * days, float(t.slope_probability[r, p]))
            )
        return tuple(found)

    def _found(
        self, score: np.ndarray, probability: np.ndarray
    ) -> Iterator[tuple[int, int, tuple[str, str, str]]]:
        """Iterate over row, column and names of significant results, by robot and score."""
        for r, columns in significant(probability, self.significance).items():
            for p in sorted(columns, key=lambda p: -abs(score[r, p])):
                yield r, p, (self.serials[r], self.layout.names[p], self.layout.units[p])


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
        error = f'{percent(estimate.relative_error)} %'
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
        'rows': estimate.rows,
        'condition_number': estimate.condition_number,
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
        own = '-' if robot.estimate is None else percent(robot.estimate.relative_error)
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
