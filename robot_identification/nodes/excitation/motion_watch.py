# SPDX-License-Identifier: Apache-2.0
"""
Watch on a motion and on its client: the reasons for which it has to end.

Where the motion is, the controller reports: the state that it wants is a place on the trajectory
that was sent.  So no clock is compared with another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
import time

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_msgs.msg import Empty

from ..common.joint_states import names_of
from .controller_state import ControllerState
from .joint_state_watch import StateWatch
from .motion_checks import CheckedMotion
from .options import Code, ExecutionOptions, MotionError, Report


@dataclass(frozen=True)
class WatchConstants:
    """Constants of the watch on a motion."""

    feedback_seconds: float = 2.0
    """Longest time without the controller's feedback [s]."""
    repair_seconds: float = 4.0
    """
    Time after which a process that was held up has got what was lost meanwhile [s]: reliable
    writers send it again with their next heartbeat, which Fast DDS sends every 3 s.
    """
    path_distance: float = 0.02
    """How far from the trajectory the state that the controller wants may be [rad or m]."""
    search_seconds: float = 10.0
    """Time ahead in which a state that the controller wants is looked for first [s]."""
    search_rate: float = 200.0
    """Instants a second at which the trajectory is compared with such a state [Hz]."""
    most_instants: int = 200_000
    """Most instants of a search."""
    report_seconds: float = 0.2
    """Longest time between two reports for velocities to be compared [s]."""
    velocity_seconds: float = 0.25
    """Time off to one side after which measured velocities are not trusted [s]."""
    velocity_shares: tuple[float, float] = 0.05, 0.3
    """Shares of the velocity limit and of the velocity by which true ones may differ."""
    filter_seconds: float = 0.15
    """Time over which a driver may filter velocities: three time constants of 50 ms [s]."""
    step_share: float = 0.25
    """Share of the velocity limits by which a stop may begin with another velocity."""
    end_seconds: float = 0.5
    """How long before the end of a motion its last position may be wanted [s]."""
    late_seconds: float = 0.5
    """Difference of the delays of joint states and feedback that is no contradiction [s]."""
    contradictions: int = 3
    """Joint states which contradict the feedback that end a motion."""
    contradiction_seconds: tuple[float, float] = 0.2, 1.0
    """Least time between them, since the controller may notice it itself, and most [s]."""
    slower_share: float = 0.9
    """Rate of the motion's time below which it is slower than planned."""
    effort_lag: float = 0.1
    """Delay of efforts and drives behind the trajectory that is normal [s]."""
    contact_share: float = 0.1
    """Growth of the unpredicted effort, as a share of its limit, that is a contact, no drive's."""
    contact_seconds: float = 0.5
    """Time within which it has grown [s]."""
    held_up_seconds: float = 0.1
    """Time between two looks after which this process has been held up [s]."""
    catch_up_seconds: float = 0.5
    """Time for what was sent meanwhile to be read [s]."""


WATCH = WatchConstants()

GONE_SECONDS = 1.0
"""Time for which a client has to be missing in the graph to be gone: discovery may flicker [s]."""

LOOK_SECONDS = 0.1
"""Time between two looks at the graph [s]."""


@dataclass
class MotionWatch:
    """
    Watch on a robot that follows a checked motion.

    The report gets progress, tracking error and the share of the effort limits; ``log`` is called
    once with a text on what cannot be watched.
    """

    states: StateWatch
    options: ExecutionOptions
    report: Report
    log: Callable[[str], object]
    elapsed: float = field(default=0.0, init=False)
    """Time on the motion by the latest feedback [s]."""
    _logged: bool = field(default=False, init=False)

    def begin(self, motion: CheckedMotion) -> None:
        """Begin a motion of a robot that rests at its start."""
        self._motion = motion
        self.elapsed = 0.0
        self._since = self._looked = time.monotonic()
        self._resumed, self._slower = -np.inf, False
        self._progress: ControllerState | None = None
        self._lost = self._false = ''
        self._off = self._beyond = np.full(len(motion.trajectory.joints), np.nan)
        self._changes: deque[tuple[int, np.ndarray]] = deque()
        self._counted = self.states.count
        self._contradictions: deque[float] = deque()
        effort = self.states.effort(self.options.effort_time)
        none = np.zeros(len(motion.trajectory.joints), dtype=bool)
        self._watched = none if effort is None else np.isfinite(effort)
        self._zero = True
        # growth of the unpredicted efforts, as shares of their limits
        self._strain: deque[tuple[float, np.ndarray]] = deque()

    def reason(self, progress: ControllerState | None) -> MotionError | None:
        """Return why the motion has to end, or None; called at each look."""
        now = time.monotonic()
        if now - self._looked > WATCH.held_up_seconds:
            self._resumed = now
        self._looked = now
        if progress is not None and progress is not self._progress:
            self._advance(progress)
        caught_up = now - self._resumed > WATCH.catch_up_seconds
        return (
            self._effort(caught_up)
            or self._off_path()
            or self._false_velocities()
            or self._stale()
            or (self._silence(now) or self._contradiction(now) if caught_up else None)
        )

    # -------------------------------------------------------------------- by the controller

    def _advance(self, progress: ControllerState) -> None:
        """Find the place on the motion that the controller has come to."""
        before, self._progress = self._progress, progress
        self._judge_velocities(before, progress)
        motion, result, feedback = self._motion, self.report.result, self.report.feedback
        error = float(np.abs(progress.error).max())
        feedback.tracking_error = error
        result.max_tracking_error = max(result.max_tracking_error, error)
        place = self._place(progress)
        if place is not None:
            passed = 0.0 if before is None else 1e-9 * (progress.stamp - before.stamp)
            self._slower = place - self.elapsed < WATCH.slower_share * passed
            self.elapsed = max(self.elapsed, place)
        feedback.progress = min(self.elapsed / motion.trajectory.duration, 1.0)
        feedback.phase = 'moving_to_start' if self.elapsed < motion.approach else 'exciting'

    def _place(self, progress: ControllerState) -> float | None:
        """Return the time on the motion of the state that the controller wants; None if off it."""
        trajectory = self._motion.trajectory
        reported = min(progress.elapsed, trajectory.duration)
        planned = trajectory.sample(np.array([reported])).position[0]
        if reported > 0.0 and np.abs(planned - progress.reference).max() <= WATCH.path_distance:
            self._lost = ''
            return reported
        for ahead in (WATCH.search_seconds, trajectory.duration):
            end = min(self.elapsed + ahead, trajectory.duration)
            count = int(min((end - self.elapsed) * WATCH.search_rate, WATCH.most_instants)) + 2
            times = np.linspace(self.elapsed, end, count)
            away = np.abs(trajectory.sample(times).position - progress.reference).max(axis=1)
            found = np.flatnonzero(away <= WATCH.path_distance)
            if found.size:
                # the nearest one around the first that is near
                rises = np.flatnonzero(np.diff(away[found[0] :]) > 0.0)
                near = found[0] + (rises[0] if rises.size else len(away) - found[0] - 1)
                self._lost = ''
                return float(times[near])
        joint = int(np.abs(trajectory.sample(np.array([self.elapsed])).position[0]
                           - progress.reference).argmax())  # fmt: skip
        self._lost = (
            f"the controller follows another motion: it wants joint '{trajectory.joints[joint]}' "
            f'at {progress.reference[joint]:.4g}, which the one that was sent does not; see who '
            'else commands it'
        )
        return None

    def _judge_velocities(self, before: ControllerState | None, now: ControllerState) -> None:
        """Note whether measured velocities, which stops begin with, are those of positions."""
        before_beyond, limits = self._beyond, self._motion.limits
        passed = 0.0 if before is None else 1e-9 * (now.stamp - before.stamp)
        if before is None or not 0.0 < passed < WATCH.report_seconds or not self._motion.stop:
            self._off = self._beyond = np.full(len(now.velocity), np.nan)
            self._true = np.full(len(now.velocity), now.stamp)
            self._changes.clear()
            return
        change = (now.measured - before.measured) / passed
        self._off = now.velocity - change
        # what a low-pass filter returns lies between what has gone into it, and the velocity in
        # the moment of a report between the mean ones before and after it
        self._changes.append((now.stamp, change))
        while 1e-9 * (before.stamp - self._changes[0][0]) > WATCH.filter_seconds:
            self._changes.popleft()
        changes = np.array([each for _, each in self._changes])
        nearest = before.velocity.clip(changes.min(axis=0), changes.max(axis=0))
        self._beyond = before.velocity - nearest
        noise, share = WATCH.velocity_shares
        bound = noise * limits.velocity + share * np.abs(nearest)
        true = (np.abs(self._beyond) <= bound) | (self._beyond * before_beyond < 0.0)
        self._true = np.where(true, now.stamp, self._true)
        j = int(self._true.argmin())
        if not self._false and 1e-9 * (now.stamp - self._true[j]) >= WATCH.velocity_seconds:
            unit = limits.units[j]
            self._false = (
                f"the controller measures joint '{limits.joints[j]}' at {now.velocity[j]:.3g} "
                f'{unit}/s, while its position changes by {change[j]:.3g} {unit}/s, and would '
                'begin a stop with that: see the driver, or set constraints.decelerate_on_cancel '
                'to false'
            )

    @property
    def distrust(self) -> MotionError | None:
        """Error for measured velocities that have been false, or None."""
        return MotionError(Code.CONTROLLER_FAILED, self._false) if self._false else None

    def _false_velocities(self) -> MotionError | None:
        """Return `distrust` once a stop would begin with a small step only."""
        bound = WATCH.step_share * self._motion.limits.velocity
        return self.distrust if (np.abs(self._off) <= bound).all() else None

    @property
    def arrived(self) -> bool:
        """True if the controller wants the end of the motion."""
        if self._progress is None:
            return False
        trajectory = self._motion.trajectory
        away = np.abs(self._progress.reference - trajectory.position[-1])
        late = self.elapsed >= trajectory.duration - WATCH.end_seconds
        return bool(late and away.max() <= self.options.rest_tolerance)

    def _off_path(self) -> MotionError | None:
        """Return an error where the controller goes elsewhere, or the robot does not follow."""
        if self._lost:
            return MotionError(Code.CONTROLLER_FAILED, self._lost)
        if self._progress is None:
            return None
        away = np.abs(self._progress.error) - self._motion.tolerance
        return self.untracked() if (away > 0.0).any() else None

    def untracked(self, words: str = '') -> MotionError:
        """Return the error of a robot that is too far from its path, by what is known of it."""
        contact = self._contact()
        if contact is not None:
            return contact
        motion, joints = self._motion, self._motion.trajectory.joints
        words = words and f'; the controller says {words}'
        if self._progress is None:
            text = f'the robot does not follow{words}'
            return MotionError(Code.TRACKING_ERROR, f'{text}: see the controller')
        error = np.maximum(np.abs(self._progress.error), self._away())
        worst = int(np.argmax(error / np.maximum(motion.tolerance, 1e-9)))
        begin, end = motion.trajectory.sample(np.array([0.0, self.elapsed])).position
        moved = np.abs(self._progress.measured - begin).max() > self.options.rest_tolerance
        if not moved and np.abs(end - begin).max() > self.options.rest_tolerance:
            cause = 'see whether its drives are on and its brakes open: it has not moved at all'
        else:
            cause = (
                'see whether the robot is blocked or its drives too weak, plan a slower motion, '
                'or raise planner.tracking_tolerance; a controller that its computer holds up '
                'finds itself behind, too'
            )
        bound = f'planner.tracking_tolerance is {motion.tolerance[worst]:g}{words}'
        if (error <= motion.tolerance).all():
            # between two of its reports
            text = (
                'a joint was too far from its path, which one is in the log of the controller; '
                f"joint '{joints[worst]}' was seen {error[worst]:.4g} away; {bound}"
            )
        else:
            text = f"joint '{joints[worst]}' is {error[worst]:.4g} away from its path; {bound}"
        return MotionError(Code.TRACKING_ERROR, f'{text}: {cause}')

    def missed(self) -> MotionError | None:
        """Return an error for a robot that rests elsewhere than where the motion ends."""
        away = np.abs(self.states.sample().position - self._motion.trajectory.position[-1])
        # joint states may be off by a bound of their own
        bound = self._motion.tolerance + self.options.start_tolerance
        return self.untracked('it has reached its goal') if (away > bound).any() else None

    def _silence(self, now: float) -> MotionError | None:
        """Return an error where the controller reports nothing."""
        since = self._since if self._progress is None else self._progress.received
        if now - max(since, self._resumed + WATCH.repair_seconds) <= WATCH.feedback_seconds:
            return None
        return MotionError(
            Code.CONTROLLER_FAILED,
            f'the controller has given no feedback on its goal for {now - since:.3g} s: see '
            'whether it still runs',
        )

    # -------------------------------------------------------------------- by the joint states

    def _stale(self) -> MotionError | None:
        states, timeout = self.states, self.options.stale_timeout
        if not states.is_silent(timeout):
            return None
        return MotionError(
            Code.STALE_STATE,
            f'no joint states for {states.age:.2f} s (stale_timeout is {timeout:g} s): '
            f'{states.fault or "see whether the driver still runs"}',
        )

    def _contradiction(self, now: float) -> MotionError | None:
        """Return an error where joint states are not those of the motion that goes on."""
        states, motion = self.states, self._motion
        if states.count == self._counted or self._progress is None:
            return None
        self._counted = states.count
        if now - self._progress.received > WATCH.late_seconds:
            return None  # nothing to compare with
        position = states.sample().position
        away = self._away() - motion.tolerance
        worst = int(away.argmax())
        if away[worst] <= 0.0:
            return None
        number, (least, most) = WATCH.contradictions, WATCH.contradiction_seconds
        self._contradictions.append(now)
        while now - self._contradictions[0] > most:
            self._contradictions.popleft()
        if len(self._contradictions) < number or now - self._contradictions[0] < least:
            return None
        text = (
            f"the joint states have joint '{motion.trajectory.joints[worst]}' at "
            f'{position[worst]:.4g}, and the controller at {self._progress.measured[worst]:.4g}'
        )
        behind = self._behind(position)
        if behind is None:
            text += f': see who publishes them; they come from {states.publishers}'
        else:
            text += (
                f'; all joints are where the motion was {behind:.1f} s before: see whether the '
                f'computer or the network is too busy, or the readings of {states.publishers} '
                'stand still'
            )
        return MotionError(Code.UNTRUSTED_STATE, text)

    def _behind(self, position: np.ndarray) -> float | None:
        """Return how long ago the motion was at a position (n_joints,) [s]; None if never."""
        count = int(min(self.elapsed * WATCH.search_rate, WATCH.most_instants)) + 2
        times = np.linspace(0.0, self.elapsed, count)
        planned = self._motion.trajectory.sample(times).position
        there = (np.abs(planned - position) <= self._motion.tolerance).all(axis=1)
        return float(self.elapsed - times[there.nonzero()[0][-1]]) if there.any() else None

    def _away(self) -> np.ndarray:
        """Return how far (n_joints,) joint states are from all places of the motion of late."""
        ahead = self._ahead() + WATCH.effort_lag
        times = np.linspace(self.elapsed - WATCH.late_seconds, self.elapsed + ahead, 30)
        planned = self._motion.trajectory.sample(times).position
        position = self.states.sample().position
        return _outside(position, planned.min(axis=0), planned.max(axis=0))

    def _ahead(self) -> float:
        """Return how far the motion may have gone on since the latest feedback [s]."""
        if self._progress is None:
            return WATCH.late_seconds
        waited = min(time.monotonic() - self._progress.received, WATCH.late_seconds)
        # a busy controller may send it late: by how much is in the stamps, where they agree
        behind = 1e-9 * (self.states.sample().stamp - self._progress.stamp)
        return max(waited, behind) if behind <= WATCH.late_seconds else waited

    # ------------------------------------------------------------------------------- by efforts

    def _effort(self, caught_up: bool) -> MotionError | None:
        """Return an error where an effort is near its limit, not as predicted, or no number."""
        measured = self._efforts()
        if measured is None:
            self.report.feedback.effort_share = np.nan
            return None
        motion, options = self._motion, self.options
        joints, limit = motion.trajectory.joints, motion.effort_limit
        bad = ~np.isfinite(measured) & (np.isinf(measured) | self._watched)
        if bad.any():
            worst = int(bad.argmax())
            return MotionError(
                Code.UNTRUSTED_STATE,
                f"the effort of joint '{joints[worst]}' is {measured[worst]}: see the driver",
            )
        share = np.abs(measured) / limit
        worst = int(np.nanargmax(share))
        self.report.feedback.effort_share = float(share[worst])
        self.report.result.max_effort_share = float(
            np.fmax(self.report.result.max_effort_share, share[worst])
        )
        contact = self._unpredicted(measured) if caught_up and self._progress else None
        if contact is not None or not 0.0 < options.effort_share < share[worst]:
            return contact
        unit = motion.limits.unit('effort', worst)
        return MotionError(
            Code.EFFORT_EXCEEDED,
            f"joint '{joints[worst]}' takes {measured[worst]:.4g} {unit}, {share[worst]:.0%} of "
            f'its limit of {limit[worst]:.4g} {unit}, more than effort_share '
            f'({options.effort_share:g}): see whether the robot is blocked, or plan a slower '
            'motion',
        )

    def _unpredicted(self, measured: np.ndarray) -> MotionError | None:
        """Note how far efforts are from the predicted ones; return an error where too far."""
        motion, options = self._motion, self.options
        begin = self.elapsed - options.effort_time - WATCH.effort_lag
        low, high = motion.effort_range(begin, self.elapsed + self._ahead(), self._slower)
        away = np.nan_to_num(_outside(measured, low, high) / motion.effort_limit)
        now = time.monotonic()
        self._strain.append((now, away))
        while now - self._strain[0][0] > WATCH.contact_seconds:
            self._strain.popleft()
        worst = int(away.argmax())
        if options.effort_tolerance == 0.0 or away[worst] <= options.effort_tolerance:
            return None
        joint, unit = motion.trajectory.joints[worst], motion.limits.unit('effort', worst)
        near = low[worst] if measured[worst] < low[worst] else high[worst]
        return MotionError(
            Code.CONTACT,
            f"joint '{joint}' takes {measured[worst]:.4g} {unit} instead of {near:.4g} predicted "
            f'by the URDF, off by {away[worst]:.0%} of its limit, more than effort_tolerance '
            f'({options.effort_tolerance:g}): see whether the robot touches something; where the '
            'URDF is that wrong, raise the tolerance',
        )

    def _contact(self) -> MotionError | None:
        """Return the error for a robot off its path whose unpredicted efforts have grown."""
        if not self._strain:
            return None
        away = np.array([shares for _, shares in self._strain])
        grown = away.max(axis=0) - away[0]
        worst = int(grown.argmax())
        if grown[worst] <= WATCH.contact_share:
            return None
        joint = self._motion.trajectory.joints[worst]
        return MotionError(
            Code.CONTACT,
            f"the robot has left its path, and the effort of joint '{joint}' has come off the "
            f'predicted one by {grown[worst]:.0%} of its limit: see whether it touches something; '
            'plan with more clearance, or a higher planner.floor',
        )

    def _efforts(self) -> np.ndarray | None:
        """Return the mean of the latest efforts (n_joints,); None where there are none."""
        if self.options.effort_kind != 'joint_torque':
            self._log_once(
                f'efforts are not watched: the joint states have {self.options.effort_kind} '
                '(effort_kind), which has no limit in the URDF'
            )
            return None
        effort = self.states.effort(self.options.effort_time)
        if effort is None and self.states.sample().effort.size:
            return None  # those of before the motion are forgotten, and its first is on its way
        watched = self._watched
        if effort is None or not (watched | np.isinf(effort)).any():
            self._log_once('efforts are not watched: the joint states have none')
            return None
        # mock hardware sends zeros for good, which show no contact
        self._zero &= bool(watched.any() and (effort[watched] == 0.0).all())
        if self._zero:
            self._log_once('efforts are not watched as long as all of them are 0')
            return None
        if not watched.all():
            self._log_once('efforts are watched of some joints only: the others have none')
        return effort

    def _log_once(self, text: str) -> None:
        if not self._logged:
            self._logged = True
            self.log(text)


def _outside(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Distance of each value from its range."""
    return np.maximum(np.maximum(low - values, values - high), 0.0)


class ClientWatch:
    """
    Watch on the clients of an action in the graph, and on their signs of life.

    A goal does not name its client.  Those that listen to the action's feedback when a motion
    begins may be it; once none of them is left, it is gone.  For a client that was killed this
    takes as long as the middleware trusts it.  A sign of life on ``~/alive`` is quicker: who sends
    one during a motion has to go on.
    """

    def __init__(self, node: Node, action: str, group: CallbackGroup) -> None:
        self._node = node
        self._topic = node.resolve_topic_name(f'{action}/_action/feedback')
        self.restart()
        node.create_subscription(Empty, '~/alive', self._lives, 10, callback_group=group)

    def restart(self) -> None:
        """Forget the last motion's client."""
        self._known: set[bytes] = set()
        self._looked = -1.0
        self._seen = time.monotonic()
        self._alive: float | None = None

    def _lives(self, _: Empty) -> None:
        self._alive = time.monotonic()

    def reason(self, options: ExecutionOptions) -> MotionError | None:
        """Return the error for a client that is gone, or None."""
        now = time.monotonic()
        if self._alive is not None and now - self._alive > options.alive_timeout:
            return MotionError(
                Code.CLIENT_LOST,
                f'no sign of life on ~/alive for {now - self._alive:.2f} s (alive_timeout is '
                f'{options.alive_timeout:g} s)',
            )
        if not options.stop_when_client_leaves:
            return None
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            if self._present():
                self._seen = now
        if now - self._seen <= GONE_SECONDS:
            return None
        names = ', '.join(dict.fromkeys(self._names))
        return MotionError(
            Code.CLIENT_LOST,
            f'the client is gone ({names}): to go on without one, set stop_when_client_leaves to '
            'false',
        )

    def _present(self) -> bool:
        """Return whether one of the clients of the beginning is still there."""
        found = self._node.get_subscriptions_info_by_topic(self._topic)
        listeners = {bytes(info.endpoint_gid) for info in found}
        if not self._known:
            # discovery may be later than the goal; without any listener nobody is missed
            self._known, self._names = listeners, names_of(found)
            return True
        return not self._known.isdisjoint(listeners)
