# SPDX-License-Identifier: Apache-2.0
"""Result of a fleet: parameters of each robot, differences, changes over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

import numpy as np

from ..base_parameters import BaseStructure
from ..config.fleet import FleetSettings
from ..config.problem import IdentificationProblem
from ..estimation import (
    Estimate,
    Fit,
    QRFactor,
)
from ..model.parameters import ParameterLayout
from ..options.keys import to_mapping
from ..results.result_yaml import plain
from ..version import __version__
from .comparison import (
    Series,
    Tests,
    told,
)
from .factors import FleetRecording

DAY = 86400.0
"""Seconds."""

FORMAT = 1
"""Number of the file's format; it changes when an older version could not read it."""


@dataclass(frozen=True)
class Timing:
    """
    Run times of the stages.

    Attributes
    ----------
    opening, reducing, comparing:
        Until the workers were there, for the recordings, and for all else [s].
    work:
        What the workers spent on recordings, together [s].
    workers:
        How many they were.

    """

    opening: float
    reducing: float
    comparing: float
    work: float
    workers: int


@dataclass(frozen=True)
class RobotResult:
    """
    Result of one robot.

    Attributes
    ----------
    serial:
        Its serial number.
    recordings:
        Its recordings, in order of time.
    samples:
        In all of them.
    estimate:
        Its own parameters; None where its recordings do not tell them.
    by_fleet:
        How well the fleet's parameters explain its recordings.
    failure:
        Why there is no estimate; empty where there is one.

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
class FleetComparison:
    """
    The tests of all robots.

    Attributes
    ----------
    layout:
        The e essential parameters.
    serials:
        Of the r robots.
    series:
        Their values by recording.
    tests:
        What came out.

    """

    layout: ParameterLayout
    serials: tuple[str, ...]
    series: tuple[Series, ...]
    tests: Tests


@dataclass(frozen=True)
class Difference:
    """
    A parameter of a robot that is not as in the rest of the fleet.

    Attributes
    ----------
    serial, parameter, unit:
        Which.
    usual, value:
        In the fleet, and of the robot.
    difference, std:
        Between the two, and its standard deviation.
    probability:
        That a fleet of equal robots shows such a difference anywhere.

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

    Attributes
    ----------
    serial, parameter, unit:
        Which.
    per_day, std:
        Its change a day, and the standard deviation of that [unit/day].
    days:
        From the first to the last recording.
    change:
        Over these days, by the straight line [unit].
    probability:
        That a fleet without drift shows such a one anywhere.

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
class FleetResult:
    """
    Everything that was found about a fleet.

    Attributes
    ----------
    name:
        The experiment's.
    problem, settings:
        What was to be found and how.
    structure:
        The base parameters.
    factor:
        Of all recordings together.
    estimate:
        Parameters of the fleet as if it were one robot.
    robots:
        Each robot, by serial number.
    comparison:
        Between robots and over time; None where nothing can be compared.
    set_aside:
        Reasons by path, of recordings that cannot be used.
    kept:
        How many recordings were finished by an earlier run.
    scheduler:
        Who did the work.
    timing:
        Where the time went.
    warnings:
        In words, what a user should know.

    """

    name: str
    problem: IdentificationProblem
    settings: FleetSettings
    structure: BaseStructure
    factor: QRFactor
    estimate: Estimate
    robots: tuple[RobotResult, ...]
    comparison: FleetComparison | None
    set_aside: Mapping[str, str] = field(default_factory=dict)
    kept: int = 0
    scheduler: str = ''
    timing: Timing = field(default_factory=lambda: Timing(0.0, 0.0, 0.0, 0.0, 1))
    warnings: tuple[str, ...] = ()

    @property
    def n_recordings(self) -> int:
        """Recordings that were used."""
        return sum(len(robot.recordings) for robot in self.robots)

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Significant differences, by robot, the most certain ones first."""
        if self.comparison is None:
            return ()
        found, tests = [], self.comparison.tests
        limit = self.settings.significance
        for row, columns in told(tests.difference_probability, limit).items():
            certainty = -np.abs(tests.difference[row] / tests.difference_std[row])
            found += [
                Difference(
                    serial=self.comparison.serials[row],
                    parameter=self.comparison.layout.names[p],
                    unit=self.comparison.layout.units[p],
                    usual=float(tests.reference[p]),
                    value=float(tests.value[row, p]),
                    difference=float(tests.difference[row, p]),
                    std=float(tests.difference_std[row, p]),
                    probability=float(tests.difference_probability[row, p]),
                )
                for p in sorted(columns, key=lambda p: certainty[p])
            ]
        return tuple(found)

    @cached_property
    def drifts(self) -> tuple[Drift, ...]:
        """Significant changes over time, by robot, the most certain ones first."""
        if self.comparison is None:
            return ()
        found, tests = [], self.comparison.tests
        for row, columns in told(tests.slope_probability, self.settings.significance).items():
            certainty = -np.abs(tests.slope[row] / tests.slope_std[row])
            days = float(np.ptp(self.comparison.series[row].stamps)) / DAY
            found += [
                Drift(
                    serial=self.comparison.serials[row],
                    parameter=self.comparison.layout.names[p],
                    unit=self.comparison.layout.units[p],
                    per_day=float(tests.slope[row, p]) * DAY,
                    std=float(tests.slope_std[row, p]) * DAY,
                    days=days,
                    change=float(tests.slope[row, p]) * DAY * days,
                    probability=float(tests.slope_probability[row, p]),
                )
                for p in sorted(columns, key=lambda p: certainty[p])
            ]
        return tuple(found)

    @property
    def different(self) -> tuple[str, ...]:
        """Serial numbers of robots that differ."""
        return tuple(dict.fromkeys(one.serial for one in self.differences))

    @property
    def drifting(self) -> tuple[str, ...]:
        """Serial numbers of robots that change over time."""
        return tuple(dict.fromkeys(one.serial for one in self.drifts))

    def summary(self) -> str:
        """Return a table for people, 100 columns wide."""
        from .summary import fleet_summary

        return fleet_summary(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists in the order of the file."""
        return plain(
            {
                'robot_identification_fleet': {'version': __version__, 'format': FORMAT},
                'name': self.name,
                'recordings': self.n_recordings,
                'set_aside': len(self.set_aside),
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
                {'file': one.path, 'time': date(one.stamp), 'samples': one.finished.samples}
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
    """Return a time since 1970 in words, to the second, in UTC."""
    return datetime.fromtimestamp(stamp, timezone.utc).strftime('%Y-%m-%d %H:%M:%S')
