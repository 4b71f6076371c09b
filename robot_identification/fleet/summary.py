# SPDX-License-Identifier: Apache-2.0
"""A fleet as text of 100 columns."""

from __future__ import annotations

from ..estimation.tables import (
    number,
    percent,
    rule,
    wrapped,
)
from .result import date, FleetResult

_SHOWN = 30
"""Robots and parameters that are told one by one on a terminal; the report has all."""


def fleet_summary(result: FleetResult) -> str:
    """Return the table of a fleet: header, robots, differences, drifts, warnings."""
    estimate, aside = result.estimate, len(result.set_aside)
    lines = [
        rule(f'Fleet {result.name}', '='),
        f'{"recordings":<17}{result.n_recordings:<38}{"robots":<20}{len(result.robots)}',
        f'{"set aside":<17}{aside:<38}{"relative error":<20}{percent(estimate.relative_error)} %',
        f'{"samples":<17}{result.factor.raw_rows:<38}{"base parameters":<20}{len(estimate)}',
    ]
    lines += ['', *_robots(result), '', *_differences(result), '', *_drifts(result)]
    if result.warnings:
        lines += ['', 'Warnings']
        for count, text in enumerate(result.warnings, 1):
            lines += wrapped(text, f'[{count}] ')
    return '\n'.join(line.rstrip() for line in lines)


def _robots(result: FleetResult) -> list[str]:
    # those that stand out first
    standing_out = {*result.different, *result.drifting}
    robots = sorted(result.robots, key=lambda robot: robot.serial not in standing_out)
    width = _width('serial', [robot.serial for robot in robots[:_SHOWN]])
    lines = [
        rule('Robots'),
        f'{"serial":<{width}}{"recordings":>11}{"first":>12}{"last":>12}{"own error %":>13}'
        f'{"fleet error %":>15}',
    ]
    for robot in robots[:_SHOWN]:
        own = '-' if robot.estimate is None else percent(robot.estimate.relative_error)
        notes = [
            word
            for word, serials in (('differs', result.different), ('drifts', result.drifting))
            if robot.serial in serials
        ]
        notes += ['not identified'] if robot.estimate is None else []
        lines.append(
            f'{robot.serial:<{width}}{len(robot.recordings):>11}{date(robot.began)[:10]:>12}'
            f'{date(robot.ended)[:10]:>12}{own:>13}{percent(robot.by_fleet.relative_error):>15}  '
            f'{", ".join(notes)}'
        )
    return lines + _more(len(robots))


def _differences(result: FleetResult) -> list[str]:
    if result.comparison is None or len(result.robots) < 2:
        return []
    if not result.differences:
        return [f'No robot differs significantly ({result.settings.significance:g}).']
    width = _width('serial', [one.serial for one in result.differences[:_SHOWN]])
    name = _width('parameter', [one.parameter for one in result.differences[:_SHOWN]])
    lines = [
        rule('Parameters that differ from the rest of the fleet'),
        f'{"serial":<{width}}{"parameter":<{name}}{"usual":>12}{"value":>12}{"difference":>12}'
        f'{"std":>11}  {"unit":<12}',
    ]
    for one in result.differences[:_SHOWN]:
        lines.append(
            f'{one.serial:<{width}}{one.parameter:<{name}}{number(one.usual):>12}'
            f'{number(one.value):>12}{number(one.difference):>12}{number(one.std):>11}  {one.unit}'
        )
    return lines + _more(len(result.differences))


def _drifts(result: FleetResult) -> list[str]:
    if result.comparison is None:
        return []
    if not result.drifts:
        return [f'No robot changes significantly over time ({result.settings.significance:g}).']
    width = _width('serial', [one.serial for one in result.drifts[:_SHOWN]])
    name = _width('parameter', [one.parameter for one in result.drifts[:_SHOWN]])
    lines = [
        rule('Parameters that change over time'),
        f'{"serial":<{width}}{"parameter":<{name}}{"a day":>12}{"std":>11}{"days":>9}'
        f'{"in all":>12}  {"unit":<12}',
    ]
    for one in result.drifts[:_SHOWN]:
        lines.append(
            f'{one.serial:<{width}}{one.parameter:<{name}}{number(one.per_day):>12}'
            f'{number(one.std):>11}{one.days:>9.1f}{number(one.change):>12}  {one.unit}'
        )
    return lines + _more(len(result.drifts))


def _width(title: str, names: list[str]) -> int:
    return max(len(title), *(len(name) for name in names)) + 1


def _more(count: int) -> list[str]:
    return [f'... and {count - _SHOWN} more'] if count > _SHOWN else []
