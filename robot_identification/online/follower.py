# SPDX-License-Identifier: Apache-2.0
"""
Serialised joint states into the online identifier, with counts of messages and run times.

The estimate follows from the messages' stamps alone, so that a replay gives the same one; clocks
are read for run times only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import math
from pathlib import Path
import time
from typing import Any, NamedTuple

import numpy as np

from ..config.problem import IdentificationProblem
from ..data.drives import Drives
from ..data.joint_state_stream import (
    ForeignStateError,
    JointStateStream,
    JointValues,
    MissingEffortError,
    require_numbers,
)
from ..data.sampling import GAP, StampStatistics
from ..errors import RecordingError
from ..estimation.recursive.rls import RecursiveEstimate
from ..estimation.residuals import EffortDelay
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import structure
from . import Change, ChangeDetector, DelayWatch, OnlineIdentifier, StreamCounts, Update
from .change_detector import PAYLOAD
from .counts import Durations, LostMessageCounter, MessageCounts
from .filters import BEYOND
from .identifier import identifier_of
from .settings import online_signals, OnlineOptions, require_live

_FIRST_SAMPLES = 200  # from which the usual period is taken, if it is not given
_BELIEVABLE = 10.0  # s, beyond which a stamp is not of this machine's clock
_RECENT = 10.0  # s, for which a change is warned of
_WARM_SAMPLES = 300  # of noise, with which code is compiled before the first sample
_SATURATED = 0.99  # of an effort limit


@dataclass
class ChangeWatch:
    """
    Changes of the robot so far.

    Attributes
    ----------
    detector, origin:
        None where changes are not looked for; stamp that its times count from [s].
    found, newest, found_at:
        How many there have been, the newest of them, and when that was found, as its times [s].
    recent:
        Whether it lasts, or was within the last ten seconds.

    """

    detector: ChangeDetector | None
    origin: float = 0.0
    found: int = 0
    newest: Change | None = None
    found_at: float = math.nan
    recent: bool = False

    def push(self, update: Update) -> None:
        """Add an update."""
        if self.detector is None:
            return
        change = self.detector.push(update)
        if change is not None:
            self.found += 1
            self.newest, self.found_at = change, change.stamp
        elif self.detector.change is not None:
            self.newest = self.detector.change
        if self.newest is not None:
            self.recent = update.stamp - self.newest.stamp < _RECENT

    def described(self) -> tuple[str, dict[str, Any]]:
        """Return what is known about changes, in words, and its values by name."""
        values: dict[str, Any] = {'found': self.found}
        change, detector = self.newest, self.detector
        if detector is None:
            return 'changes are looked for once joint states arrive', values
        if detector.settling:
            text = 'the estimate settles; to look for changes against it as it is, ~/online/freeze'
            return text, values
        if detector.baseline is None:
            return f'learning what is usual ({100.0 * detector.learning:.0f} %)', values
        if change is None:
            return 'no change', values
        unit = 'kg' if change.kind == PAYLOAD else 'N m or N'
        earlier = '' if self.recent else 'no change any more; the last was '
        values |= {
            'kind': change.kind,
            'joint or link': change.name,
            'size': f'{change.size:.6g}',
            'standard deviation': f'{change.std:.3g}',
            'unit': unit,
            'since, by the stamps [s]': f'{self.origin + change.since:.3f}',
            'found, by the stamps [s]': f'{self.origin + self.found_at:.3f}',
        }
        pairs = zip(change.parameters, change.values, strict=True)
        values |= {name: f'{value:.6g}' for name, value in pairs}
        return f"{earlier}{change.kind} at '{change.name}': {change.size:.4g} {unit}", values


class Snapshot(NamedTuple):
    """
    The live estimate with all that its file has.

    The stamp [ns] is the moment of the estimate, the period [s] the usual one between samples, the
    clock has jitter and the longest step [s], the delay of efforts is None where it is not known.
    """

    estimate: RecursiveEstimate
    structure: BaseStructure
    stamp: int
    account: MessageCounts
    counts: StreamCounts
    period: float
    clock: dict[str, float]
    delay: EffortDelay | None


class Follower:
    """
    Identification of one robot from its joint states.

    Parameters
    ----------
    problem, options:
        The robot, and how it is identified.
    system_stamps:
        Whether stamps are times of this machine's clock, to be compared with it.

    Raises
    ------
    SettingsError
        where the settings ask for what cannot be had live.

    Attributes
    ----------
    joints, structure, options:
        Names of the joints, the base parameters, and the options.
    account, durations, latencies:
        Counts of the messages; times of updates, and from the stamp to the end of the update.
    identifier, delays, changes:
        The identifier, the delays of efforts (None before the first sample) and changes.
    stamps, period:
        Statistics of the stamps, and the usual time between samples [s], NaN before it is known.
    trouble, foreigner:
        What was wrong with the newest message of those left out, in words; also for foreign ones.
    frozen:
        Whether the estimate is frozen.

    """

    def __init__(
        self, problem: IdentificationProblem, options: OnlineOptions, system_stamps: bool
    ) -> None:
        require_live(problem)
        self.options, self._system_stamps = options, system_stamps
        self.joints = problem.robot.joints
        self._effort_limits = _SATURATED * problem.robot.limits.effort
        self._effort_limits[~(self._effort_limits > 0.0)] = np.inf
        self._problem = replace(problem, signals=online_signals(problem.signals))
        self._drives = Drives() if problem.drives is None else problem.drives
        self.structure = structure(
            problem.regressor(), problem.robot, grouping=problem.model.grouping
        )
        self.frozen = False
        self.trouble = self.foreigner = ''
        self.reset()

    def reset(self) -> None:
        """Forget everything but the robot, the usual period included."""
        rate = self.options.state_rate
        self.period = math.nan if rate is None else 1.0 / rate
        self._stream, self._sequences = JointStateStream(self.joints), LostMessageCounter()
        self._first: list[tuple[int, np.ndarray, np.ndarray]] = []
        self.identifier: OnlineIdentifier | None = None
        self.delays: DelayWatch | None = None
        self.changes = ChangeWatch(None)
        self._origin = self._invalid = 0
        self.stamps, self.account = StampStatistics(), MessageCounts()
        self.durations, self.latencies = Durations(), Durations()
        self._newest: Update | None = None

    def warm_up(self) -> None:
        """Run everything once on made-up samples, so that the first real ones find it compiled."""
        rate = self.options.state_rate
        period = 0.001 if rate is None else 1.0 / rate
        identifier = self._make(period)
        random = np.random.default_rng(0)
        for k in range(_WARM_SAMPLES):
            identifier.push(k * period, *random.normal(size=(2, len(self.joints))))
        identifier.estimate()

    # ------------------------------------------------------------------------------------ messages

    def take(self, message: bytes, sequence: int | None, start: float) -> None:
        """
        Add a message, a serialised joint state.

        ``sequence`` is its number by the middleware, counted by its publisher, None where that is
        not known; ``start`` is `time.perf_counter` when the message was taken [s].
        """
        account = self.account
        account.messages += 1
        account.lost += self._sequences.missing_before(sequence)
        account.missed = self._sequences.before
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
        passed = 1e-9 * (values.stamp - self.stamps.last) if self.stamps.count else 0.0
        if passed < -GAP * self.period:
            account.jumps += 1
            self.trouble = f'the stamps went back by {-passed:.3g} s'
        self.stamps.add(values.stamp)
        position, effort = self._at_joints(values)
        account.saturated += bool((np.abs(effort) >= self._effort_limits).any())
        if self.identifier is None:
            self._begin(values.stamp, position, effort)
            return
        update = self._push(self.identifier, values.stamp, position, effort)
        if update is not None:
            self.changes.push(update)
            assert self.delays is not None
            self.delays.push(update)
        self._count(time.perf_counter() - start, values, self.identifier)

    def _push(
        self, identifier: OnlineIdentifier, stamp: int, position: np.ndarray, effort: np.ndarray
    ) -> Update | None:
        update = identifier.push(1e-9 * (stamp - self._origin), position, effort)
        self._newest = update or self._newest
        return update

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
        account.late += took > self.options.deadline
        self.durations.add(took)
        if invalid != self._invalid:
            self._invalid = invalid
            self.trouble = self._not_finite(values)
        if self._system_stamps:
            latency = time.time() - 1e-9 * values.stamp
            if 0.0 <= latency < _BELIEVABLE:
                self.latencies.add(latency)

    def _not_finite(self, values: JointValues) -> str:
        for name, numbers in (('position', values.position), ('effort', values.effort)):
            try:
                require_numbers(numbers, name, self.joints, BEYOND)
            except RecordingError as error:
                self.account.without_effort += name == 'effort'
                return error.message
        return 'a number in the joint states is none that a robot has'

    # --------------------------------------------------------------------------------------- start

    def _begin(self, stamp: int, position: np.ndarray, effort: np.ndarray) -> None:
        """Keep the first samples until the period is known, then push all of them."""
        self._first.append((stamp, position, effort))
        if math.isnan(self.period):
            if len(self._first) < _FIRST_SAMPLES:
                return
            steps = np.diff(np.array([stamp for stamp, *_ in self._first], dtype=np.int64))
            steps = steps[steps > 0]
            if steps.size <= _FIRST_SAMPLES // 2:
                self._first.clear()
                self.trouble = f'the stamps of {_FIRST_SAMPLES} joint states do not go on'
                return
            self.period = 1e-9 * float(np.median(steps))
        self._origin = self._first[0][0]
        self.identifier = self._make(self.period)
        self.delays = DelayWatch(self.identifier)
        for sample in self._first:
            self._push(self.identifier, *sample)
        self._invalid = self.identifier.counts.invalid
        self._first.clear()
        self._look_for_changes()

    def _make(self, period: float) -> OnlineIdentifier:
        identifier = identifier_of(
            self._problem, period, base=self.structure, memory=self.options.memory
        )
        if self.options.state:
            identifier.load(Path(self.options.state).expanduser())
        identifier.frozen = self.frozen
        return identifier

    # ------------------------------------------------------------------------------------- control

    def freeze(self, frozen: bool) -> None:
        """Keep the estimate as it is, or learn again."""
        self.frozen = frozen
        if self.identifier is not None:
            self.identifier.frozen = frozen
        self._look_for_changes()

    def _look_for_changes(self) -> None:
        """Look for changes, if that is enabled, against the current estimate."""
        settings, detector = self.options.changes, None
        if settings is not None and self.identifier is not None:
            tip = self._problem.robot.tip
            link = tip if f'{tip}.m' in self.identifier.structure.layout else None
            detector = ChangeDetector(self.identifier, settings, link=link)
        self.changes = ChangeWatch(detector, 1e-9 * self._origin)

    def save_state(self, path: Path) -> None:
        """Write what has been learned, for the option ``state`` of a later run."""
        if self.identifier is not None:
            self.identifier.save(path)

    @property
    def counts(self) -> StreamCounts:
        """Counts of the samples."""
        return StreamCounts() if self.identifier is None else self.identifier.counts

    @property
    def longest_gap(self) -> float:
        """Longest time between successive stamps [s]."""
        return 1e-9 * self.stamps.longest

    @property
    def effort_delay(self) -> EffortDelay | None:
        """Delay of the efforts; None before it is known."""
        return None if self.delays is None else self.delays.found

    def snapshot(self) -> Snapshot | None:
        """Return the estimate; None before the first update."""
        if self.identifier is None or self._newest is None:
            return None
        return Snapshot(
            self.identifier.estimate(),
            self.structure,
            self._origin + round(1e9 * self._newest.stamp),
            self.account,
            self.counts,
            self.period,
            {'jitter': self.stamps.jitter, 'longest_gap': self.longest_gap},
            self.effort_delay,
        )
