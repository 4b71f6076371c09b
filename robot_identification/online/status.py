# SPDX-License-Identifier: Apache-2.0
"""State of the stream of joint states at one moment, and what happened between two of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
import math
import time

from . import StreamCounts
from .counts import MessageCounts
from .follower import Follower

_OTHER_RATE = 0.2  # share by which a rate may differ
_OFTEN_LATE = 0.1  # share of late updates above which they are warned of


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
    account: MessageCounts
    counts: StreamCounts

    @classmethod
    def from_follower(cls, follower: Follower) -> StatusSample:
        """Return the present state."""
        return cls(
            time.monotonic(),
            time.process_time(),
            follower.stamps.last if follower.stamps.count else None,
            replace(follower.account),
            replace(follower.counts),
        )


def rate_between(before: StatusSample, now: StatusSample) -> float:
    """Return the rate of the robot's joint states by their stamps [Hz]; NaN without any."""
    if before.stamp is None or now.stamp is None or now.stamp <= before.stamp:
        return math.nan
    new, old = now.account, before.account
    own = new.messages - new.foreign - old.messages + old.foreign
    return 1e9 * own / (now.stamp - before.stamp)


def troubles_between(
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
        found.append(f'{gaps} gaps: the filters filled again')
    if new['late'] > _OFTEN_LATE * new['updates']:
        deadline = 1e3 * follower.options.deadline
        found.append(f'{new["late"]} updates took longer than {deadline:.3f} ms (online.deadline)')
    expected = rate if math.isnan(follower.period) else 1.0 / follower.period
    if abs(rate - expected) > _OTHER_RATE * expected and not gaps:
        found.append(
            f'joint states come at {rate:.4g} Hz, at the start it was {expected:.4g} Hz: if that '
            'stays so, call ~/online/reset'
        )
    return found


def _difference(
    now: MessageCounts | StreamCounts, before: MessageCounts | StreamCounts
) -> dict[str, int]:
    later = asdict(now)
    return {name: later[name] - count for name, count in asdict(before).items()}
