# SPDX-License-Identifier: Apache-2.0
"""
Serialised joint states into the online identifier, with counts of messages and run times.

Nothing here depends on when a message is handled: the estimate follows from the messages' stamps
alone, so that a replay gives what the live run gave.  Clocks are read for the account only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import itertools
import math
from pathlib import Path
import time
from typing import NamedTuple

import numpy as np

from ...base_parameters import BaseStructure, structure
from ...data.clock import StampStatistics
from ...data.drives import Drives
from ...data.joint_state import (
    ForeignStateError,
    JointStateStream,
    JointValues,
    MissingEffortError,
)
from ...data.sampling import GAP
from ...errors import RecordingError
from ...estimation import EffortDelay, RecursiveEstimate
from ...online import (
    Change,
    ChangeDetector,
    DelayWatch,
    OnlineIdentifier,
    StreamCounts,
    Update,
)
from ...online.resampler import BEYOND
from .online_options import (
    online_signals,
    OnlineTask,
    require_live,
)

_SHORTEST, _LONGEST = 1e-7, 1e2  # [s]
_BINS_PER_FACTOR_OF_E = 50  # edges 2 % apart
_BINS = math.ceil(_BINS_PER_FACTOR_OF_E * math.log(_LONGEST / _SHORTEST))


class Durations:
    """Counts durations; percentiles come out 2 % too long at most, never too short."""

    def __init__(self) -> None:
        self._counts = [0] * (_BINS + 1)
        self.total = 0
        self.longest = math.nan

    def add(self, seconds: float) -> None:
        """Count a duration [s]."""
        place = 0
        if seconds > _SHORTEST:
            place = math.ceil(_BINS_PER_FACTOR_OF_E * math.log(seconds / _SHORTEST))
        self._counts[min(place, _BINS)] += 1
        self.total += 1
        if not seconds <= self.longest:
            self.longest = seconds

    def below(self, share: float) -> float:
        """Return the duration that this share of them does not exceed [s]; NaN without any."""
        if self.total == 0:
            return math.nan
        so_far = itertools.accumulate(self._counts)
        place = next(i for i, count in enumerate(so_far) if count >= share * self.total)
        return min(_SHORTEST * math.exp(place / _BINS_PER_FACTOR_OF_E), self.longest)


class Sequences:
    """
    Tells from the numbers that publishers give their messages how many are missing.

    Which publisher a message is from is not known: it belongs to the one whose newest number is
    the nearest below its own.
    """

    _PUBLISHERS = 8
    _LONGEST = 5_000  # more are not missing: somebody else has begun to publish

    def __init__(self) -> None:
        self._newest: list[int] = []

    def missing_before(self, number: int) -> int:
        """Return how many messages were lost between the one before and this one."""
        newest = self._newest
        if newest and newest[-1] == number - 1:
            newest[-1] = number
            return 0
        below = [other for other in newest if number - self._LONGEST <= other < number]
        missing = 0
        if below:
            missing = number - max(below) - 1
            newest.remove(max(below))
        newest.append(number)
        del newest[: -self._PUBLISHERS]
        return missing


FIRST_SAMPLES = 200
"""Samples that the usual period is taken from, where it is not told."""

_BELIEVABLE = 10.0  # s, beyond which a stamp is not of this machine's clock
_RECENT = 10.0  # s, for which a change is warned of
_WARM_SAMPLES = 300
_SATURATED = 0.99  # of an effort limit


@dataclass
class Account:
    """
    Counts of the messages so far.

    Attributes
    ----------
    messages, lost, refused, foreign:
        Joint states taken, lost by the middleware, left out for what they hold, and left out
        because they have none of the joints, as those of a gripper on the same topic.
    without_effort:
        Joint states whose effort is missing or not finite.
    saturated:
        Joint states with an effort at the joint's limit.
    updates, late:
        Those that went through the filters, and the ones of them that took too long.
    jumps:
        Times at which the stamps went back by more than a gap.

    """

    messages: int = 0
    lost: int = 0
    refused: int = 0
    foreign: int = 0
    without_effort: int = 0
    saturated: int = 0
    updates: int = 0
    late: int = 0
    jumps: int = 0


@dataclass
class ChangeWatch:
    """
    Looks for changes of the robot.

    Attributes
    ----------
    detector:
        None where changes are not looked for.
    found:
        How many there have been.
    newest:
        The newest of them.
    origin:
        Stamp that the detector's times count from [s].
    told:
        When the newest of them was found, on the same scale as its times [s].
    recent:
        Whether the newest one lasts, or was within the last ten seconds.

    """

    detector: ChangeDetector | None
    origin: float = 0.0
    found: int = 0
    newest: Change | None = None
    told: float = math.nan
    recent: bool = False

    def push(self, update: Update) -> None:
        """Take an update."""
        if self.detector is None:
            return
        change = self.detector.push(update)
        if change is not None:
            self.found += 1
            self.newest, self.told = change, change.stamp
        elif self.detector.change is not None:
            self.newest = self.detector.change
        if self.newest is not None:
            self.recent = update.stamp - self.newest.stamp < _RECENT


@dataclass
class Delays:
    """
    Delays of efforts.

    Attributes
    ----------
    watch:
        Keeps the rows that tell.
    found:
        What they told last; None before.

    """

    watch: DelayWatch
    found: EffortDelay | None = None


class Snapshot(NamedTuple):
    """
    The live estimate with all that is needed to write it down.

    Attributes
    ----------
    estimate:
        Values, states and covariance.
    structure:
        What the base parameters are.
    stamp:
        Moment that the estimate is for [ns].
    account, counts:
        What came in, and what became of it.
    period:
        Usual time between samples [s].
    clock:
        What the stamps tell: jitter and the longest step [s].
    delay:
        How late efforts are; None where that is not known yet.

    """

    estimate: RecursiveEstimate
    structure: BaseStructure
    stamp: int
    account: Account
    counts: StreamCounts
    period: float
    clock: dict[str, float]
    delay: EffortDelay | None


class Follower:
    """
    Follows one robot.

    Parameters
    ----------
    task:
        The robot, and how it is identified.

    Raises
    ------
    SettingsError
        where the settings ask for what cannot be had live.

    """

    def __init__(self, task: OnlineTask) -> None:
        problem = task.problem
        require_live(problem)
        self._task = task
        self.joints = problem.robot.joints
        self._effort_limits = _SATURATED * problem.robot.limits.effort
        self._effort_limits[~(self._effort_limits > 0.0)] = np.inf
        self._problem = replace(problem, signals=online_signals(problem.signals))
        self._drives = Drives() if problem.drives is None else problem.drives
        self.structure = structure(
            problem.regressor(), problem.robot, grouping=problem.model.grouping
        )
        self._frozen = False
        self.trouble = self.foreigner = ''
        self.reset()

    def reset(self) -> None:
        """Forget everything but the robot, the usual period included."""
        self._stream = JointStateStream(self.joints)
        self._first: list[tuple[int, np.ndarray, np.ndarray]] = []
        self._identifier: OnlineIdentifier | None = None
        self._origin = self._invalid = 0
        self.stamps = StampStatistics()
        self.delays: Delays | None = None
        self._sequences = Sequences()
        self._period = math.nan
        self.account = Account()
        self.durations, self.latencies = Durations(), Durations()
        self.newest: Update | None = None
        self.watch = ChangeWatch(None)
        if self._task.options.state_rate is not None:
            self._period = 1.0 / self._task.options.state_rate

    def warm_up(self) -> None:
        """Run everything once on made-up samples, so that the first real ones find it compiled."""
        rate = self._task.options.state_rate
        period = 0.001 if rate is None else 1.0 / rate
        identifier = self._make(period)
        random = np.random.default_rng(0)
        for k in range(_WARM_SAMPLES):
            values = random.normal(size=(2, len(self.joints)))
            identifier.push(k * period, *values)
        identifier.estimate()

    # ------------------------------------------------------------------------------------ messages

    def take(self, message: bytes, sequence: int | None, start: float) -> None:
        """
        Take a message.

        Parameters
        ----------
        message:
            Serialised joint state.
        sequence:
            Its number by the middleware, counted by its publisher; None where that is not known.
        start:
            `time.perf_counter` when the message was taken [s].

        """
        account = self.account
        account.messages += 1
        if sequence is not None:
            account.lost += self._sequences.missing_before(sequence)
        try:
            values = self._stream.read(message)
        except ForeignStateError as error:
            account.foreign += 1
            self.foreigner = str(error)
            return
        except RecordingError as error:
            account.refused += 1
            account.without_effort += isinstance(error, MissingEffortError)
            self.trouble = str(error)
            return
        self._look_at(values.stamp)
        position, effort = self._at_joints(values)
        account.saturated += bool((np.abs(effort) >= self._effort_limits).any())
        identifier = self._identifier
        if identifier is None:
            self._begin(values.stamp, position, effort)
            return
        update = identifier.push(1e-9 * (values.stamp - self._origin), position, effort)
        if update is not None:
            self.newest = update
            self.watch.push(update)
            assert self.delays is not None
            self.delays.watch.push(update)
        took = time.perf_counter() - start
        self._count(took, values, identifier)

    def _look_at(self, stamp: int) -> None:
        """Note gaps between stamps."""
        if self.stamps.count:
            passed = 1e-9 * (stamp - self.stamps.last)
            if passed < -GAP * self._period:
                self.account.jumps += 1
                self.trouble = f'the stamps went back by {-passed:.3g} s'
        self.stamps.add(stamp)

    def _at_joints(self, values: JointValues) -> tuple[np.ndarray, np.ndarray]:
        drives = self._drives
        if drives.position is None and drives.effort is None:
            return values.position, values.effort
        return (
            drives.joint_position(values.position[None])[0],
            drives.joint_effort(values.effort[None])[0],
        )

    def _count(self, took: float, values: JointValues, identifier: OnlineIdentifier) -> None:
        account, invalid = self.account, identifier.counts.invalid
        account.updates += 1
        self.durations.add(took)
        if took > self._task.options.deadline:
            account.late += 1
        if invalid != self._invalid:
            self._invalid = invalid
            self.trouble = self._not_finite(values)
        if self._task.system_stamps:
            latency = time.time() - 1e-9 * values.stamp
            if 0.0 <= latency < _BELIEVABLE:
                self.latencies.add(latency)

    def _not_finite(self, values: JointValues) -> str:
        for name, numbers in (('position', values.position), ('effort', values.effort)):
            wrong = np.flatnonzero(~(np.abs(numbers) < BEYOND))
            if wrong.size:
                self.account.without_effort += name == 'effort'
                joint = self.joints[wrong[0]]
                return f"{name} of joint '{joint}' is {numbers[wrong[0]]} in the joint states"
        return 'a number in the joint states is none that a robot has'

    # --------------------------------------------------------------------------------------- start

    def _begin(self, stamp: int, position: np.ndarray, effort: np.ndarray) -> None:
        """Keep the first samples until they tell the period, then work them all up."""
        self._first.append((stamp, position, effort))
        if math.isnan(self._period):
            if len(self._first) < FIRST_SAMPLES:
                return
            period = _usual_period([stamp for stamp, *_ in self._first])
            if period is None:
                self._first.clear()
                self.trouble = f'the stamps of {FIRST_SAMPLES} joint states do not go on'
                return
            self._period = period
        self._origin = self._first[0][0]
        self._identifier = self._make(self._period)
        self.delays = Delays(DelayWatch(self._identifier))
        for stamp, position, effort in self._first:
            update = self._identifier.push(1e-9 * (stamp - self._origin), position, effort)
            if update is not None:
                self.newest = update
        self._invalid = self._identifier.counts.invalid
        self._first.clear()
        self._watch()

    def _make(self, period: float) -> OnlineIdentifier:
        identifier = self._problem.online(
            period, base=self.structure, memory=self._task.options.memory
        )
        if self._task.options.state:
            identifier.load(Path(self._task.options.state).expanduser())
        if self._frozen:
            identifier.freeze()
        return identifier

    # ------------------------------------------------------------------------------------- control

    @property
    def frozen(self) -> bool:
        """True if the estimate is frozen."""
        return self._frozen

    def freeze(self, frozen: bool) -> None:
        """Keep the estimate as it is, or learn again."""
        self._frozen = frozen
        if self._identifier is not None:
            (self._identifier.freeze if frozen else self._identifier.resume)()
        self._watch()

    def _watch(self) -> None:
        """Look for changes where that is asked for, against the estimate as it is now."""
        settings = self._task.options.changes
        detector = None
        if settings is not None and self._identifier is not None:
            detector = ChangeDetector(self._identifier, settings)
        self.watch = ChangeWatch(detector, 1e-9 * self._origin)

    def save_state(self, path: Path) -> None:
        """Write what has been learned, for the option ``state`` of a later run."""
        if self._identifier is not None:
            self._identifier.save(path)

    @property
    def deadline(self) -> float:
        """Time that an update may take before it counts as late [s]."""
        return self._task.options.deadline

    @property
    def period(self) -> float:
        """Usual time between samples [s]; NaN before it is known."""
        return self._period

    @property
    def delay(self) -> float:
        """Age of the estimate at the newest sample [s]; NaN before the start."""
        return math.nan if self._identifier is None else self._identifier.delay

    @property
    def counts(self) -> StreamCounts:
        """Counts of the samples."""
        return StreamCounts() if self._identifier is None else self._identifier.counts

    @property
    def rows(self) -> int:
        """Rows that the estimate comes from."""
        return 0 if self._identifier is None else self._identifier.rows

    @property
    def longest_gap(self) -> float:
        """Longest time between successive stamps [s]."""
        return 1e-9 * self.stamps.longest

    @property
    def last_stamp(self) -> int | None:
        """Stamp of the newest joint state [ns]; None before the first one."""
        return self.stamps.last if self.stamps.count else None

    def snapshot(self) -> Snapshot | None:
        """Return the estimate; None before the first update."""
        if self._identifier is None or self.newest is None:
            return None
        return Snapshot(
            self._identifier.estimate(),
            self.structure,
            self._origin + round(1e9 * self.newest.stamp),
            self.account,
            self.counts,
            self._period,
            {'jitter': self.stamps.jitter, 'longest_gap': self.longest_gap},
            None if self.delays is None else self.delays.found,
        )


def _usual_period(stamps: list[int]) -> float | None:
    """Return the median step [s]; None where time does not go on."""
    steps = np.diff(np.array(stamps, dtype=np.int64))
    steps = steps[steps > 0]
    return 1e-9 * float(np.median(steps)) if steps.size > len(stamps) // 2 else None
