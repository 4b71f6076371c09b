# SPDX-License-Identifier: Apache-2.0
"""Messages of the node and of its live identification: parameters, status, diagnostics."""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass, replace
import math
from pathlib import Path
import time
from typing import Any

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
import numpy as np
from robot_identification_msgs.msg import OnlineStatus, Parameter, ParameterSet
from std_msgs.msg import Header

from ...base_parameters import BaseStructure
from ...estimation.elimination import ACCEPTED, WEAK
from ...online import StreamCounts
from ...online.change_detector import PAYLOAD
from ...results.result import Result
from ..common.messages import diagnostic_status, time_message
from .online_follower import Account, ChangeWatch, Follower, Snapshot

STATES = {
    OnlineStatus.OFF: 'off',
    OnlineStatus.STARTING: 'starting',
    OnlineStatus.WAITING: 'waiting for joint states',
    OnlineStatus.LEARNING: 'learning',
    OnlineStatus.FROZEN: 'frozen',
}
"""States in words."""

_OTHER_RATE = 0.2  # share by which a rate may differ
_OFTEN_LATE = 0.1  # share of late updates from which on they are warned of


class ParameterMessages:
    """Messages of estimates; names, units and expressions are filled in once."""

    def __init__(self, base: BaseStructure, robot: str) -> None:
        layout = base.base_layout
        self._entries = [
            Parameter(name=name, unit=unit, expression=words)
            for name, unit, words in zip(layout.names, layout.units, base.expressions, strict=True)
        ]
        self._message = ParameterSet(robot=robot, parameters=self._entries)

    def of(self, snapshot: Snapshot) -> ParameterSet:
        """Return the message of an estimate; it is changed by the next call."""
        estimate = snapshot.estimate
        with np.errstate(divide='ignore', invalid='ignore'):
            relative = 100.0 * estimate.std / np.abs(estimate.values)
        for entry, value, std, share, flag in zip(
            self._entries,
            estimate.values.tolist(),
            estimate.std.tolist(),
            relative.tolist(),
            estimate.flags.tolist(),
        ):
            entry.value, entry.std, entry.relative_std = value, std, share
            entry.state = _state_of(flag)
        self._message.header.stamp = time_message(snapshot.stamp)
        self._message.covariance = array('d', estimate.covariance.tobytes())
        return self._message


def _state_of(flag: int) -> int:
    if flag == ACCEPTED:
        return int(Parameter.IDENTIFIED)
    return int(Parameter.NOT_EXCITED if flag == WEAK else Parameter.DEPENDENT)


@dataclass(frozen=True)
class StatusSample:
    """
    State of the stream at one moment; the difference of two is what happened in between.

    Clock and processor are steady time and processor time of the process [s]; the stamp is that of
    the newest joint state [ns], None before the first.
    """

    clock: float
    processor: float
    stamp: int | None
    account: Account
    counts: StreamCounts

    @classmethod
    def of(cls, follower: Follower) -> StatusSample:
        """Return the present state."""
        return cls(
            time.monotonic(),
            time.process_time(),
            follower.stamps.last if follower.stamps.count else None,
            replace(follower.account),
            replace(follower.counts),
        )


def status_message(
    follower: Follower, before: StatusSample, now: StatusSample, since_message: float
) -> OnlineStatus:
    """Return the status; ``since_message`` is how long ago the newest joint state came [s]."""
    account, counts, identifier = now.account, now.counts, follower.identifier
    durations, latencies, delay = follower.durations, follower.latencies, follower.effort_delay
    unknown = np.full(len(follower.joints), np.nan)
    rate = _rate(before, now)
    flowing = account.messages and since_message < follower.options.stale and account.updates
    state = OnlineStatus.FROZEN if follower.frozen else OnlineStatus.LEARNING
    return OnlineStatus(
        header=Header(stamp=time_message(0 if now.stamp is None else now.stamp)),
        state=state if flowing else OnlineStatus.WAITING,
        message='; '.join(_troubles(follower, before, now, rate, since_message)),
        messages=account.messages,
        lost=account.lost,
        refused=account.refused + account.foreign + counts.invalid,
        disordered=counts.late,
        gaps=max(0, counts.stretches - 1),
        updates=account.updates,
        late_updates=account.late,
        rows=0 if identifier is None else identifier.rows,
        rate=rate,
        jitter=follower.stamps.jitter,
        longest_gap=follower.longest_gap,
        joints=follower.joints,
        effort_delay=unknown if delay is None else delay.delay,
        effort_delay_std=unknown if delay is None else delay.std,
        update_median=durations.below(0.5),
        update_99=durations.below(0.99),
        update_999=durations.below(0.999),
        update_longest=durations.longest,
        latency_median=latencies.below(0.5),
        latency_999=latencies.below(0.999),
        delay=math.nan if identifier is None else identifier.delay,
        load=(now.processor - before.processor) / max(now.clock - before.clock, 1e-9),
    )


def _rate(before: StatusSample, now: StatusSample) -> float:
    if before.stamp is None or now.stamp is None or now.stamp <= before.stamp:
        return math.nan
    new, old = now.account, before.account
    own = new.messages - new.foreign - old.messages + old.foreign
    return 1e9 * own / (now.stamp - before.stamp)


def _troubles(
    follower: Follower, before: StatusSample, now: StatusSample, rate: float, since: float
) -> list[str]:
    """Return what went wrong between two samples, in words."""
    if now.account.messages == 0:
        return ['no joint states have arrived']
    if since >= follower.options.stale:
        return [f'no joint states for {since:.1f} s']
    new, counts = _difference(now.account, before.account), _difference(now.counts, before.counts)
    if new['foreign'] and new['foreign'] == new['messages']:
        return [follower.foreigner]
    found = []
    refused = new['refused'] + counts['invalid']
    # the first stretch is no gap
    gaps = max(0, now.counts.stretches - 1) - max(0, before.counts.stretches - 1)
    if refused or new['jumps']:
        found.append(follower.trouble)
    if refused:
        found.append(f'{refused} joint states left out')
    if new['lost'] > 0:
        found.append(f'{new["lost"]} joint states lost on the way')
    if counts['late'] > 0:
        found.append(f'{counts["late"]} joint states not in order of time')
    if gaps > 0 and not new['jumps']:
        found.append(f'{gaps} gaps: the filters filled anew')
    if new['late'] > _OFTEN_LATE * new['updates']:
        deadline = _ms(follower.options.deadline)
        found.append(f'{new["late"]} updates took longer than {deadline} ms (online.deadline)')
    expected = rate if math.isnan(follower.period) else 1.0 / follower.period
    if abs(rate - expected) > _OTHER_RATE * expected and not gaps:
        found.append(
            f'joint states come at {rate:.4g} Hz, at the start it was {expected:.4g} Hz: if that '
            'stays so, call ~/online/reset'
        )
    return found


def _difference(now: Account | StreamCounts, before: Account | StreamCounts) -> dict[str, int]:
    later = asdict(now)
    return {name: later[name] - count for name, count in asdict(before).items()}


def diagnostic(
    node: str, robot: str, status: OnlineStatus, account: Account | None = None
) -> DiagnosticStatus:
    """Return the status as rqt_robot_monitor and its like show it; with an account, if any."""
    account = Account() if account is None else account
    text = STATES[status.state]
    healthy = status.state in (OnlineStatus.LEARNING, OnlineStatus.FROZEN)
    if healthy:
        text = f'{text}, {status.rate:.4g} Hz'
    if status.message:
        text = f'{text}: {status.message}'
    values = {
        'joint states': status.messages,
        'rate [Hz]': f'{status.rate:.6g}',
        'jitter [ms]': _ms(status.jitter),
        'lost': status.lost,
        'left out': status.refused,
        'without effort': account.without_effort,
        'with an effort at its limit': account.saturated,
        'not in order': status.disordered,
        'gaps': status.gaps,
        'longest gap [s]': f'{status.longest_gap:.6g}',
        'updates': status.updates,
        'late updates': status.late_updates,
        'update, median [ms]': _ms(status.update_median),
        'update, 99.9 % [ms]': _ms(status.update_999),
        'update, longest [ms]': _ms(status.update_longest),
        'stamp to done, median [ms]': _ms(status.latency_median),
        'stamp to done, 99.9 % [ms]': _ms(status.latency_999),
        'load [%]': f'{100.0 * status.load:.1f}',
    }
    for joint, delay, std in zip(
        status.joints, status.effort_delay, status.effort_delay_std, strict=True
    ):
        shown = 'not known' if math.isnan(delay) else f'{_ms(delay)} +- {_ms(std)}'
        values[f'effort of {joint} late by [ms]'] = shown
    warned = not healthy or bool(status.message)
    return diagnostic_status(node, 'online', text, values, robot=robot, warned=warned)


def change_diagnostic(node: str, robot: str, changes: ChangeWatch) -> DiagnosticStatus:
    """Return what is known about changes of the robot; WARN where there has been one."""
    values: dict[str, Any] = {'found': changes.found}
    change, detector, warned = changes.newest, changes.detector, False
    if detector is None:
        text = 'changes are looked for once joint states arrive'
    elif detector.settling:
        text = 'the estimate settles; to look for changes against it as it is, ~/online/freeze'
    elif detector.baseline is None:
        text = f'learning what is usual ({100.0 * detector.learning:.0f} %)'
    elif change is None:
        text = 'no change'
    else:
        warned = changes.recent
        unit = 'kg' if change.kind == PAYLOAD else 'N m or N'
        earlier = '' if changes.recent else 'no change any more; the last was '
        text = f"{earlier}{change.kind} at '{change.name}': {change.size:.4g} {unit}"
        values |= {
            'kind': change.kind,
            'joint or link': change.name,
            'size': f'{change.size:.6g}',
            'standard deviation': f'{change.std:.3g}',
            'unit': unit,
            'since, by the stamps [s]': f'{changes.origin + change.since:.3f}',
            'found, by the stamps [s]': f'{changes.origin + changes.found_at:.3f}',
        }
        pairs = zip(change.parameters, change.values, strict=True)
        values |= {name: f'{value:.6g}' for name, value in pairs}
    return diagnostic_status(node, 'change', text, values, robot=robot, warned=warned)


def _ms(seconds: float) -> str:
    return f'{1e3 * seconds:.3f}'


# ------------------------------------------------------------------------- state of the node


@dataclass(frozen=True)
class Latest:
    """The latest estimate, its time and the folder of its files."""

    result: Result
    stamp: Time
    folder: Path


@dataclass(frozen=True)
class State:
    """State of the node: request that is worked on, progress (0 to 1) and step; latest failure."""

    busy: str = ''
    progress: float = 0.0
    step: str = ''
    failure: str = ''


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
        warned = warned or bool(latest.result.warnings) or not latest.result.plausible
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
        'plausible': 'yes' if result.plausible else 'no',
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
    elif not result.plausible:
        text += ', not plausible'
    if result.warnings:
        text += f', {len(result.warnings)} warnings'
    return text, values
