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
    """The latest estimate, its time and the folder of its files."""

    result: Result
    stamp: Time
    folder: Path


@dataclass(frozen=True)
class State:
    """
    State of the node.

    Attributes
    ----------
    busy, progress, step:
        The request that is worked on, or empty; how far it is (0 to 1) and with what.
    failure:
        Why the latest request failed; empty where it did not.

    """

    busy: str = ''
    progress: float = 0.0
    step: str = ''
    failure: str = ''


def diagnostic_status(
    node: str, part: str, text: str, values: dict[str, Any], *, robot: str, warned: bool
) -> DiagnosticStatus:
    """Return a status of part of a node, with level WARN or OK."""
    return DiagnosticStatus(
        level=DiagnosticStatus.WARN if warned else DiagnosticStatus.OK,
        name=f'{node.lstrip("/")}: {part}',
        message=text,
        hardware_id=robot,
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
    )


def state_diagnostic(node: str, state: State, latest: Latest | None) -> DiagnosticStatus:
    """
    Return the state of the node and of its latest estimate.

    The level is WARN where the latest request failed, or the estimate has a warning or is not
    physically consistent; else OK.
    """
    values: dict[str, Any] = {}
    text, warned = 'no estimate yet', bool(state.failure)
    if latest is not None:
        text, values = _estimate(latest)
        warned = warned or bool(latest.result.warnings) or not latest.result.consistency.physical
    if state.failure:
        text = f'the latest request failed: {state.failure}'
    if state.busy:
        text = f'{state.busy}: {state.step} ({100.0 * state.progress:.0f} %)'
    robot = values.get('robot', '')
    return diagnostic_status(node, 'estimate', text, values, robot=robot, warned=warned)


def _estimate(latest: Latest) -> tuple[str, dict[str, Any]]:
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
        'results': latest.folder,
    }
    for validation in result.validations:
        sources = ', '.join(validation.sources)
        values[f'relative error on {sources} [%]'] = f'{validation.relative_error:.3g}'
    for number, warning in enumerate(result.warnings, 1):
        values[f'warning {number}'] = warning
    text = f'relative error {estimate.relative_error:.3g} %'
    if not result.consistency.physical:
        text += ', not physically consistent'
    if result.warnings:
        text += f', {len(result.warnings)} warnings'
    return text, values
