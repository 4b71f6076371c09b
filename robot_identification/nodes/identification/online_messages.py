# SPDX-License-Identifier: Apache-2.0
"""Messages of the online identification: parameters, status, diagnostics."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
import math

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
import numpy as np
from robot_identification_msgs.msg import OnlineStatus, Parameter, ParameterSet
from std_msgs.msg import Header

from ...base_parameters import BaseStructure
from ...estimation.elimination import ACCEPTED, WEAK
from ...online.change_detector import PAYLOAD
from ..common.motion_messages import time_message
from .online_follower import (
    Account,
    ChangeWatch,
    Follower,
    Snapshot,
)

STATES = {
    OnlineStatus.OFF: 'off',
    OnlineStatus.STARTING: 'starting',
    OnlineStatus.WAITING: 'waiting for joint states',
    OnlineStatus.LEARNING: 'learning',
    OnlineStatus.FROZEN: 'frozen',
}
"""States in words."""

_OTHER_RATE = 0.2
_OFTEN_LATE = 0.1  # of the updates, from which on late ones are warned of


class ParameterMessages:
    """
    Estimates as messages; what stays the same from one to the next is made once.

    Parameters
    ----------
    base:
        The base parameters.
    robot:
        The robot's name.

    """

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
    The stream at one moment; two of them tell what happened in between.

    Attributes
    ----------
    clock:
        Steady time [s].
    processor:
        Processor time of the process [s].
    messages, lost, refused, foreign, invalid, disordered, gaps, jumps, updates, late:
        Counts so far; late are updates.
    stamp:
        Of the newest joint state [ns]; None before the first.

    """

    clock: float
    processor: float
    messages: int = 0
    lost: int = 0
    refused: int = 0
    foreign: int = 0
    invalid: int = 0
    disordered: int = 0
    gaps: int = 0
    jumps: int = 0
    updates: int = 0
    late: int = 0
    stamp: int | None = None

    @classmethod
    def at(cls, follower: Follower, clock: float, processor: float) -> StatusSample:
        """Look at a follower."""
        account, counts = follower.account, follower.counts
        return cls(
            clock,
            processor,
            account.messages,
            account.lost,
            account.refused,
            account.foreign,
            counts.invalid,
            counts.late,
            max(0, counts.stretches - 1),
            account.jumps,
            account.updates,
            account.late,
            follower.last_stamp,
        )


def status_message(
    follower: Follower, before: StatusSample, now: StatusSample, stale: float, since_message: float
) -> OnlineStatus:
    """
    Return the status.

    Parameters
    ----------
    follower:
        Who follows the robot.
    before, now:
        What was seen last time, and what is seen now.
    stale:
        Time without joint states that is too long [s].
    since_message:
        How long ago the newest joint state came [s].

    """
    account, durations, latencies = follower.account, follower.durations, follower.latencies
    rate = _rate(before, now)
    flowing = now.messages > 0 and since_message < stale and account.updates > 0
    delay, delay_std = _effort_delay(follower)
    state = OnlineStatus.FROZEN if follower.frozen else OnlineStatus.LEARNING
    return OnlineStatus(
        header=Header(stamp=time_message(0 if now.stamp is None else now.stamp)),
        state=state if flowing else OnlineStatus.WAITING,
        message='; '.join(_troubles(follower, before, now, rate, stale, since_message)),
        messages=account.messages,
        lost=account.lost,
        refused=account.refused + account.foreign + now.invalid,
        disordered=now.disordered,
        gaps=now.gaps,
        updates=account.updates,
        late_updates=account.late,
        rows=follower.rows,
        rate=rate,
        jitter=follower.stamps.jitter,
        longest_gap=follower.longest_gap,
        joints=follower.joints,
        effort_delay=delay,
        effort_delay_std=delay_std,
        update_median=durations.below(0.5),
        update_99=durations.below(0.99),
        update_999=durations.below(0.999),
        update_longest=durations.longest,
        latency_median=latencies.below(0.5),
        latency_999=latencies.below(0.999),
        delay=follower.delay,
        load=(now.processor - before.processor) / max(now.clock - before.clock, 1e-9),
    )


def _effort_delay(follower: Follower) -> tuple[np.ndarray, np.ndarray]:
    """(n,) delays of efforts and their standard deviations [s]; NaN where they are not known."""
    found = None if follower.delays is None else follower.delays.found
    if found is None:
        return np.full(len(follower.joints), np.nan), np.full(len(follower.joints), np.nan)
    return found.delay, found.std


def _rate(before: StatusSample, now: StatusSample) -> float:
    if before.stamp is None or now.stamp is None or now.stamp <= before.stamp:
        return math.nan
    own = now.messages - now.foreign - before.messages + before.foreign
    return 1e9 * own / (now.stamp - before.stamp)


def _troubles(
    follower: Follower,
    before: StatusSample,
    now: StatusSample,
    rate: float,
    stale: float,
    since: float,
) -> list[str]:
    """Say what went wrong between two looks."""
    found = []
    if now.messages == 0:
        return ['no joint states have arrived']
    if since >= stale:
        return [f'no joint states for {since:.1f} s']
    foreign = now.foreign - before.foreign
    if foreign and foreign == now.messages - before.messages:
        return [follower.foreigner]
    refused = now.refused - before.refused + now.invalid - before.invalid
    jumps = now.jumps - before.jumps
    if refused or jumps:
        found.append(follower.trouble)
    if refused:
        found.append(f'{refused} joint states left out')
    if now.lost > before.lost:
        found.append(f'{now.lost - before.lost} joint states lost on the way')
    if now.disordered > before.disordered:
        found.append(f'{now.disordered - before.disordered} joint states not in order of time')
    if now.gaps > before.gaps and not jumps:
        found.append(f'{now.gaps - before.gaps} gaps: the filters filled anew')
    late = now.late - before.late
    if late > _OFTEN_LATE * (now.updates - before.updates):
        deadline = _ms(follower.deadline)
        found.append(f'{late} updates took longer than {deadline} ms (online.deadline)')
    expected = 1.0 / follower.period if follower.period == follower.period else rate
    if abs(rate - expected) > _OTHER_RATE * expected and now.gaps == before.gaps:
        found.append(
            f'joint states come at {rate:.4g} Hz, at the start it was {expected:.4g} Hz: if that '
            'stays so, call ~/online/reset'
        )
    return found


def diagnostic(
    node: str, robot: str, status: OnlineStatus, account: Account | None = None
) -> DiagnosticStatus:
    """Return the status as rqt_robot_monitor and its like show it; with an account, if any."""
    account = Account() if account is None else account
    words = STATES[status.state]
    healthy = status.state in (OnlineStatus.LEARNING, OnlineStatus.FROZEN)
    level = DiagnosticStatus.OK if healthy and not status.message else DiagnosticStatus.WARN
    text = f'{words}, {status.rate:.4g} Hz' if healthy else words
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
        told = 'not known' if math.isnan(delay) else f'{_ms(delay)} +- {_ms(std)}'
        values[f'effort of {joint} late by [ms]'] = told
    return DiagnosticStatus(
        level=level,
        name=f'{node.lstrip("/")}: online',
        message=text,
        hardware_id=robot,
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
    )


def change_diagnostic(node: str, robot: str, watch: ChangeWatch) -> DiagnosticStatus:
    """Return what is known about changes of the robot; WARN where there has been one."""
    level, values = DiagnosticStatus.OK, {'found': str(watch.found)}
    change = watch.newest
    if watch.detector is None:
        text = 'changes are looked for once joint states arrive'
    elif watch.detector.settling:
        text = 'the estimate settles; to look for changes against it as it is, ~/online/freeze'
    elif watch.detector.baseline is None:
        text = f'learning what is usual ({100.0 * watch.detector.learning:.0f} %)'
    elif change is None:
        text = 'no change'
    else:
        level = DiagnosticStatus.WARN if watch.recent else DiagnosticStatus.OK
        unit = 'kg' if change.kind == PAYLOAD else 'N m or N'
        earlier = '' if watch.recent else 'no change any more; the last was '
        text = f"{earlier}{change.kind} at '{change.name}': {change.size:.4g} {unit}"
        values |= {
            'kind': change.kind,
            'joint or link': change.name,
            'size': f'{change.size:.6g}',
            'standard deviation': f'{change.std:.3g}',
            'unit': unit,
            'since, by the stamps [s]': f'{watch.origin + change.since:.3f}',
            'found, by the stamps [s]': f'{watch.origin + watch.told:.3f}',
        }
        values |= {
            name: f'{value:.6g}'
            for name, value in zip(change.parameters, change.values, strict=True)
        }
    return DiagnosticStatus(
        level=level,
        name=f'{node.lstrip("/")}: change',
        message=text,
        hardware_id=robot,
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )


def _ms(seconds: float) -> str:
    return f'{1e3 * seconds:.3f}'
