# SPDX-License-Identifier: Apache-2.0
"""Latest joint states: their age, their efforts, and whether the robot is at rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
import time

import numpy as np

from ..data.joint_state_stream import JointStateStream, JointValues
from ..errors import RecordingError


@dataclass(frozen=True)
class LatestStatesConstants:
    """Constants by which silence and rest are found."""

    silent_looks: int = 3
    """Looks without a message that are silence; after fewer, one may wait in the queue."""
    silent_periods: float = 5.0
    """Usual periods of the joint states that one may take longer without being silent."""
    kept_periods: int = 9
    """Periods of late, the least of which is the usual one."""
    longest_period: float = 1.0
    """Longest period of the joint states that counts as usual [s]."""
    set_seconds: float = 1.0
    """Step of the stamps after which time goes on from there, as when a clock was set [s]."""
    quickest_time: float = 100.0
    """Rate of a simulation's time, relative to the wall's, up to which it is no such step."""
    rest_seconds: float = 0.15
    """Time over which positions are compared to distinguish rest from motion [s]."""
    slowest_time: float = 0.005
    """Rate of a simulation's time, relative to the wall's, down to which it is waited for."""
    kept: int = 4096
    """Most positions, and efforts, that are kept."""


LATEST = LatestStatesConstants()


class LatestStates:
    """
    The latest joint states.

    Messages are taken by `fetch` alone: an idle node spends no time on them.  Those without news
    of all joints are passed over, so that a driver that repeats itself, sends NaN or loses a joint
    counts as silent.

    Nothing that is commanded depends on them: they begin a motion and give reasons to end it.
    Times are those of their stamps, as long as these go on: those of a slow simulation, for one.

    Parameters
    ----------
    topic_name:
        Of the joint states, for messages.
    taken:
        Takes the serialised joint states that have arrived, each with how long ago that was [s].

    Attributes
    ----------
    joints:
        Names of the joints, in the order of all arrays.
    count:
        Joint states that were taken so far.

    """

    def __init__(
        self, topic_name: str, taken: Callable[[], Iterable[tuple[bytes, float]]]
    ) -> None:
        self.topic_name, self._taken = topic_name, taken
        self.watch(())

    def watch(self, joints: tuple[str, ...]) -> None:
        """Look at ``joints``, in this order, from now on."""
        self.joints = joints
        self._stream = JointStateStream(joints, needs_effort=False)
        self.count = 0
        self._sample: JointValues | None = None
        self._received = -np.inf
        self._periods: deque[float] = deque(maxlen=LATEST.kept_periods)
        self._looks = 0
        self._fault: RecordingError | None = None
        self._time = self._shift = 0.0
        self._past: deque[tuple[float, float, np.ndarray]] = deque(maxlen=LATEST.kept)
        self._efforts: deque[tuple[float, np.ndarray]] = deque(maxlen=LATEST.kept)

    def fetch(self) -> None:
        """Take the joint states that have arrived."""
        for message, since in self._taken():
            if self.joints:
                self._take(message, since)

    def _take(self, message: bytes, since: float) -> None:
        try:
            sample = self._stream.read(message)
        except RecordingError as error:
            self._fault = error
            return
        if not np.isfinite(sample.position).all():
            self._fault = RecordingError(
                'the joint states have no finite positions', remedy='repair the driver'
            )
        elif self._sample is None or not sample.stamp or sample.stamp != self._sample.stamp:
            received = time.monotonic() - since
            passed = max(received - self._received, 0.0)
            self._periods.append(min(passed, LATEST.longest_period))
            self._sample, self._received, self._fault = sample, received, None
            self.count += 1
            self._looks = 0
            self._remember(sample, passed)

    def _remember(self, sample: JointValues, passed: float) -> None:
        """Keep position and efforts; a clock that was set while ``passed`` [s] counts as none."""
        when = self._shift + (1e-9 * sample.stamp if sample.stamp else self._received)
        ahead = LATEST.set_seconds + LATEST.quickest_time * passed
        if not -LATEST.set_seconds <= when - self._time <= ahead:
            self._shift += self._time - when
            when = self._time
        self._time = max(self._time, when)
        self._past.append((self._time, self._received, sample.position))
        # one of the time before is kept
        while len(self._past) > 2 and self._rests(self._past[1]):
            self._past.popleft()
        if sample.effort.size:
            self._efforts.append((self._time, sample.effort))

    def _rests(self, past: tuple[float, float, np.ndarray]) -> bool:
        """Return whether a joint state is so old that rest shows since then."""
        latest = self._past[-1]
        return min(latest[0] - past[0], latest[1] - past[1]) >= LATEST.rest_seconds

    @property
    def age(self) -> float:
        """Time since the latest joint state arrived [s]; infinite where none has."""
        return time.monotonic() - self._received

    def is_silent(self, seconds: float) -> bool:
        """
        Return whether no joint state has arrived for ``seconds``, or some usual periods.

        Messages from while this process was held up are still to be read: hence `silent_looks`.
        """
        usual = min(self._periods) if len(self._periods) == LATEST.kept_periods else 0.0
        late = self.age > max(seconds, LATEST.silent_periods * usual)
        return late and self._looks >= LATEST.silent_looks

    @property
    def fault(self) -> str:
        """Fault of the messages that arrive; '' without one."""
        return '' if self._fault is None else str(self._fault)

    @property
    def time(self) -> float:
        """Time of the latest joint state by the stamps so far; it does not go back [s]."""
        return self._time

    def sample(self) -> JointValues:
        """
        Return the latest joint state.

        Raises
        ------
        RecordingError
            where none has arrived that has all joints.

        """
        if self._sample is None:
            raise self._fault or RecordingError(
                f"no joint states have arrived on '{self.topic_name}'",
                remedy='start the driver or the joint_state_broadcaster, or remap the topic',
            )
        return self._sample

    def look(self) -> None:
        """Fetch; called 100 times a second."""
        self._looks += 1
        self.fetch()

    def at_rest(self, tolerance: float) -> bool:
        """Return whether no joint has moved by more than ``tolerance`` for `rest_seconds`."""
        if not self._past or not self._rests(self._past[0]):
            return False
        positions = [position for _, _, position in self._past]
        return float(np.ptp(positions, axis=0).max()) <= tolerance

    def effort(self, seconds: float) -> np.ndarray | None:
        """
        Return the mean of the latest efforts, of ``seconds`` (n_joints,); None without any.

        One that is not finite makes the mean so.
        """
        if not self._efforts:
            return None
        since = self._efforts[-1][0] - seconds
        latest_first = takewhile(lambda item: item[0] >= since, reversed(self._efforts))
        with np.errstate(invalid='ignore'):
            return np.mean([effort for _, effort in latest_first], axis=0)

    def forget(self) -> None:
        """Forget the past positions and efforts, so that `at_rest` looks again."""
        self.fetch()  # messages up to now are of the past
        self._past.clear()
        self._efforts.clear()


class WaitLimit:
    """
    Bound on a wait for a robot whose clock may be slower than the wall's, or stand still.

    It is over after ``seconds`` by the joint states' time, of which one look counts a tenth at
    most since a clock may leap, after 1 / `slowest_time` as long by the wall's, or where no joint
    state has come for ``still`` seconds.
    """

    def __init__(self, states: LatestStates, seconds: float, still: float) -> None:
        self._states, self._still = states, still
        self._left, self._longest, self._time = seconds, 0.1 * seconds, states.time
        self._wall = time.monotonic()
        self._latest = self._wall + seconds / LATEST.slowest_time

    @property
    def over(self) -> bool:
        """True if nothing more is to be waited for; looked at again and again."""
        states, wall = self._states, time.monotonic()
        self._left -= min(states.time - self._time, self._longest)
        self._time = states.time
        silence = min(states.age, wall - self._wall)
        return wall > self._latest or self._left <= 0.0 or silence > self._still
