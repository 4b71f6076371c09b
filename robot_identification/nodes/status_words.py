# SPDX-License-Identifier: Apache-2.0
"""Messages of the nodes' topics in words; None is a message that has not come."""

from __future__ import annotations

from typing import Any

MOST_PARAMETERS = 40
"""Parameters of the online estimate that are shown."""


def recorder_words(status: Any) -> str:
    """Return the state of the recorder in words."""
    if status is None:
        return 'no recorder is heard'
    head = 'recording' if status.recording else 'not recording'
    if not status.path:
        return head
    last = '' if status.recording else '; the last one: '
    counts = f'{status.messages} messages in {status.duration:.1f} s, {status.dropped} missing'
    return f'{head}{last} {status.path}: {counts}' + (status.message and f'; {status.message}')


def online_words(status: Any) -> str:
    """Return the state of the online identification in words."""
    if status is None:
        return 'no identification node is heard'
    names = ('OFF', 'STARTING', 'WAITING', 'LEARNING', 'FROZEN')
    state = next((name for name in names if getattr(status, name) == status.state), '?').lower()
    counts = f'{status.updates} updates at {status.rate:.0f} Hz, {status.lost} lost'
    return f'{state}: {counts}' + (status.message and f'; {status.message}')


def parameter_lines(parameters: Any) -> str:
    """Return the parameters of the online estimate, those known best first."""
    if parameters is None:
        return 'no estimate has come'
    known = [each for each in parameters.parameters if each.std == each.std]
    known.sort(key=lambda each: each.relative_std)
    lines = [f'{e.name:24} {e.value:11.4g} ± {e.std:.2g} {e.unit}' for e in known]
    more = [f'and {len(lines) - MOST_PARAMETERS} more'] if len(lines) > MOST_PARAMETERS else []
    return '\n'.join([*lines[:MOST_PARAMETERS], *more])


def observer_words(latest: dict[str, Any]) -> str:
    """Return what the observer has found, in words."""
    contact, external = latest.get('contact'), latest.get('external_effort')
    if contact is None:
        return 'no observer is heard'
    words = 'contact' if contact.data else 'no contact'
    if external is None or not external.effort:
        return words
    efforts = ', '.join(
        f'{n} {e:.3g}' for n, e in zip(external.name, external.effort, strict=True)
    )
    return f'{words}; efforts from outside [N m or N]: {efforts}'


def motion_words(feedback: Any) -> str:
    """Return the state of a motion that is under way in words."""
    if feedback is None:
        return ''
    return (
        f'{feedback.phase.replace("_", " ")}, {100.0 * feedback.progress:.0f} %; tracking error '
        f'{feedback.tracking_error:.3g}, share of effort limits {feedback.effort_share:.2g}'
    )
