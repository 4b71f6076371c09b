# SPDX-License-Identifier: Apache-2.0
"""The identification node's state as rqt_robot_monitor and its like show it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from ...results.result import Result


@dataclass(frozen=True)
class Latest:
    """
    The latest estimate.

    Attributes
    ----------
    result:
        Everything that was found.
    stamp:
        When.
    folder:
        Where its files are.

    """

    result: Result
    stamp: Time
    folder: Path


@dataclass(frozen=True)
class State:
    """
    State of the node.

    Attributes
    ----------
    busy:
        The request that is worked on, or empty.
    progress, step:
        How far it is (0 to 1) and with what.
    failure:
        Why the latest request failed; empty where it did not.

    """

    busy: str = ''
    progress: float = 0.0
    step: str = ''
    failure: str = ''


def status_message(name: str, state: State, latest: Latest | None) -> DiagnosticStatus:
    """
    Return the state of the node and of its latest estimate.

    The level is WARN where the latest request failed, or the estimate has a warning or is not
    physically consistent; else OK.
    """
    level, text = DiagnosticStatus.OK, 'no estimate yet'
    values: dict[str, str] = {}
    if latest is not None:
        level, text, values = _estimate(latest)
    if state.failure:
        level, text = DiagnosticStatus.WARN, f'the latest request failed: {state.failure}'
    if state.busy:
        text = f'{state.busy}: {state.step} ({100.0 * state.progress:.0f} %)'
    return DiagnosticStatus(
        level=level,
        name=f'{name.lstrip("/")}: estimate',
        message=text,
        hardware_id=values.get('robot', ''),
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )


def _estimate(latest: Latest) -> tuple[bytes, str, dict[str, str]]:
    result = latest.result
    estimate = result.estimate
    values: dict[str, Any] = {
        'robot': result.robot.name,
        'recordings': ', '.join(result.recordings),
        'method': estimate.method,
        'time': f'{latest.stamp.sec}.{latest.stamp.nanosec:09d}',
        'base parameters': result.structure.n_base,
        'relative error [%]': f'{estimate.relative_error:.3g}',
        'condition number': f'{estimate.condition_number:.4g}',
        'physically consistent': 'yes' if result.consistency.physical else 'no',
        'plausible': 'yes' if result.plausible else 'no',
        'results': latest.folder,
    }
    for validation in result.validations:
        sources = ', '.join(validation.sources)
        values[f'relative error on {sources} [%]'] = f'{validation.relative_error:.3g}'
    for number, warning in enumerate(result.warnings, 1):
        values[f'warning {number}'] = warning
    level, text = DiagnosticStatus.OK, f'relative error {estimate.relative_error:.3g} %'
    if not result.consistency.physical:
        level, text = DiagnosticStatus.WARN, f'{text}, not physically consistent'
    elif not result.plausible:
        level, text = DiagnosticStatus.WARN, f'{text}, not plausible'
    if result.warnings:
        level, text = DiagnosticStatus.WARN, f'{text}, {len(result.warnings)} warnings'
    return level, text, {key: str(value) for key, value in values.items()}
