# SPDX-License-Identifier: Apache-2.0
"""
Player for the joint states of a rosbag2 recording, where ``ros2 bag play`` is not installed.

Messages are published as they were recorded, byte by byte, with the spacing of their reception,
together with `/clock`.  A message that is due while another one is published is late, never lost.
A live identification takes some seconds to start, and messages published before are not repeated
for it: its latched status has the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
import contextlib
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from pathlib import Path
import signal
import subprocess
import threading
import time

from rclpy.duration import Duration
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from robot_identification_msgs.msg import OnlineStatus
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from ..data.replay import part_length, part_of_bag
from ..errors import IdentificationError, SettingsError
from ..support.processes import terminate_with_parent
from ..support.progress import no_progress, Progress
from .client import ServiceCaller
from .common import LATCHED
from .common.joint_states import names_of
from .common.messages import time_message
from .common.processes import client_node, stop_signals

READY = (OnlineStatus.WAITING, OnlineStatus.LEARNING, OnlineStatus.FROZEN)

STATES = 'sensor_msgs/msg/JointState'

_DEPTH = 5000  # messages: 5 s at 1 kHz
_ACKNOWLEDGED_SECONDS = 10.0  # for the last message to be acknowledged
_PROGRESS_SECONDS = 0.2  # between two reports
_POLL = 0.1  # s, between two looks at a command
_SETTLING = 0.5  # s, in which publisher and subscribers find each other, one after the other


@dataclass(frozen=True)
class Played:
    """Numbers of joint states and subscribers; time taken, and largest delay of a message [s]."""

    messages: int
    seconds: float
    latest: float
    subscribers: int


def play(
    bag: Path,
    *,
    topic: str = '/joint_states',
    to: str | None = None,
    rate: float = 1.0,
    clock_rate: float = 250.0,
    clock_topic: str = '/clock',
    wait: float = 5.0,
    follower: str | None = None,
    start_offset: float = 0.0,
    duration: float | None = None,
    loop: bool = False,
    progress: Progress = no_progress,
) -> Played:
    """
    Play a recording, until SIGINT or SIGTERM; initialises and shuts down ROS.

    Parameters
    ----------
    bag, topic:
        The recording, and the topic of the joint states in it.
    to:
        Topic to publish them to; None for the same.
    rate:
        Seconds of the recording in a second.
    clock_rate, clock_topic:
        Rate of the clock in the recording's time [Hz], 0 for none, and its topic; nodes of several
        robots that are played at once need one each.
    wait:
        Time to wait for a first subscriber before playing all the same [s].
    follower:
        Full name of an identification node whose live identification has to be ready, or off,
        before anything is played; None for none.
    start_offset, duration:
        Part of the recording that is left out at its start, and that is played from there on [s].
    loop:
        Whether to begin again at the end, until a signal; the clock goes back then.
    progress:
        Called with the share that is played.

    Raises
    ------
    RecordingError
        where the bag is missing, cannot be read or has no message.
    SettingsError
        where the rate is not above 0, or the offset is beyond the recording's end.
    IdentificationError
        where the follower is not ready in time.

    """
    if not rate > 0.0 or clock_rate < 0.0:
        raise SettingsError(
            f'rate {rate:g} and clock rate {clock_rate:g} cannot be played',
            value=rate,
            remedy='give a rate above 0; 0 stands for no clock',
        )
    part = partial(part_of_bag, bag, topic, start_offset, duration)
    length = part_length(Path(bag), topic, start_offset, duration)
    with stop_signals() as stopped, client_node('player') as node:
        player = _Player(node, to or topic, rate, clock_rate, clock_topic, stopped)
        if follower is not None:
            player.wait_for_follower(Readiness(ServiceCaller(node), follower, stopped), wait)
        return player.run(repeat(part) if loop else [part], wait, length, progress)


class _Player:
    def __init__(
        self,
        node: Node,
        topic: str,
        rate: float,
        clock_rate: float,
        clock_topic: str,
        stopped: threading.Event,
    ) -> None:
        self._node, self._stopped = node, stopped
        self._states: Publisher = node.create_publisher(
            JointState, topic, QoSProfile(depth=_DEPTH)
        )
        best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._clock: Publisher | None = None
        self._tick = 0
        if clock_rate:
            self._clock = node.create_publisher(Clock, clock_topic, best_effort)
            self._tick = max(1, round(1e9 / clock_rate))
        self._publishers = [p for p in (self._states, self._clock) if p is not None]
        self._rate = rate

    def wait_for_follower(self, readiness: Readiness, seconds: float) -> None:
        """Wait until a live identification is ready and connected to the publisher."""

        def is_connected() -> bool:
            found = self._node.get_subscriptions_info_by_topic(self._states.topic_name)
            is_there = readiness.follower in names_of(found) or not readiness.is_followed
            # the count is of those that the middleware has connected, whoever they are
            return is_there and self._states.get_subscription_count() >= len(found)

        readiness.wait(seconds, is_connected)

    def run(
        self,
        parts: Iterable[Callable[[], Iterator[tuple[int, bytes]]]],
        wait: float,
        length: float,
        progress: Progress,
    ) -> Played:
        """Publish the messages of all parts, and wait until subscribers have them."""
        subscribers = self._wait_for_subscriber(wait)
        start = time.perf_counter()
        count, latest, due = 0, 0.0, start
        for place, (moment, message) in chain.from_iterable(enumerate(part()) for part in parts):
            if place == 0:
                self._zero = self._next_tick = moment
                self._begin = time.perf_counter()
            self._run_clock(moment)
            latest = max(latest, self._sleep_until(moment))
            if self._stopped.is_set():
                break
            self._states.publish(message)
            count += 1
            if time.perf_counter() > due:
                due = time.perf_counter() + _PROGRESS_SECONDS
                since = 1e-9 * (moment - self._zero)
                progress(since / length if length else 0.0, f'{since:.1f} s played')
        seconds = time.perf_counter() - start
        with contextlib.suppress(RuntimeError):  # not every middleware can
            self._states.wait_for_all_acked(Duration(seconds=_ACKNOWLEDGED_SECONDS))
        return Played(count, seconds, latest, subscribers)

    def _wait_for_subscriber(self, seconds: float) -> int:
        """Wait for a subscriber, and a moment longer for others of its process."""
        now = time.monotonic()
        end, settled = now + seconds, now + _SETTLING
        counts: tuple[int, ...] = ()
        while (now := time.monotonic()) < end and not self._stopped.wait(0.02):
            known = tuple(publisher.get_subscription_count() for publisher in self._publishers)
            if known != counts:
                counts, settled = known, now + _SETTLING
            if counts[0] and now > settled:
                break
        return counts[0] if counts else 0

    def _run_clock(self, moment: int) -> None:
        """Publish the clock's ticks before a moment, each when it is due."""
        while self._clock is not None and self._next_tick <= moment:
            self._sleep_until(self._next_tick)
            if self._stopped.is_set():
                return
            self._clock.publish(Clock(clock=time_message(self._next_tick)))
            self._next_tick += self._tick

    def _sleep_until(self, moment: int) -> float:
        """Sleep until a moment of the recording or a signal; return how late it is already [s]."""
        due = self._begin + 1e-9 * (moment - self._zero) / self._rate
        left = due - time.perf_counter()
        if left > 0.0:
            self._stopped.wait(left)
        return max(0.0, -left)


class Readiness:
    """
    Subscription to the status of a live identification.

    Attributes
    ----------
    is_ready:
        Whether it takes joint states, or is switched off, so that there is nothing to wait for.
    is_followed:
        Whether it takes joint states.
    follower:
        Full name of the node that takes them.
    publishers:
        Publishers of joint states that it is connected to.

    """

    def __init__(
        self, caller: ServiceCaller, identification: str, stopped: threading.Event
    ) -> None:
        self._caller, self._node, self._stopped = caller, caller.node, stopped
        self.identification = f'/{identification.strip("/")}'
        self.follower = follower_name(self.identification)
        self.is_ready = self.is_followed = False
        self.publishers = 0
        self._trouble = 'it has not published its status'
        self._topic = f'{self.identification}/online/status'
        self._node.create_subscription(OnlineStatus, self._topic, self._on_status, LATCHED)

    def wait(self, seconds: float, also: Callable[[], bool] = lambda: True) -> None:
        """
        Wait until it is ready, and until ``also`` holds, or until a signal.

        Raises `IdentificationError` where that is not so within this time [s].
        """

        def is_over() -> bool:
            return self._stopped.is_set() or (self.is_ready and also())

        self._caller.spin(is_over, seconds)
        if not is_over():
            raise IdentificationError(
                f"'{self.identification}' is not ready for joint states after {seconds:g} s: "
                f'{self._trouble}',
                value=seconds,
                remedy=f'look at {self._topic} and at the log of the node, or wait longer',
            )

    def hears(self, player: str) -> bool:
        """Return whether it is connected to all publishers of what a node publishes for it."""
        place, name = self.follower.rsplit('/', 1)
        try:
            published = self._node.get_publisher_names_and_types_by_node(player, '/')
            heard = self._node.get_subscriber_names_and_types_by_node(name, place or '/')
        except NodeNameNonExistentError:
            return False
        kinds = dict(published)
        topics = [topic for topic, kind in heard if STATES in kind and topic in kinds]
        counts = [self._node.count_publishers(topic) for topic in topics]
        return bool(counts) and self.publishers >= max(counts)

    def _on_status(self, status: OnlineStatus) -> None:
        # the node and the process that it starts both publish it, each its own part
        if status.state in READY:
            self.is_ready = self.is_followed = True
            self.publishers = status.publishers
            self._trouble = 'it has not discovered the publisher yet'
        elif status.state == OnlineStatus.OFF and not status.message:
            self.is_ready = True
        elif not self.is_ready:
            self._trouble = status.message or 'its process is being started'


def follower_name(identification: str) -> str:
    """Return the full name of the node in which an identification node follows the robot."""
    return f'{identification}_online'


PLAYER, RESUME = 'rosbag2_player', '/rosbag2_player/resume'
"""Node of ``ros2 bag play``, and its service."""

PAUSED = '--start-paused'


def run_when_ready(identification: str, seconds: float, command: Sequence[str]) -> int:
    """
    Run a command when a live identification is ready; initialises and shuts down ROS.

    ``ros2 bag play --start-paused`` is resumed when the identification is connected to it, so that
    no message is published before.

    Parameters
    ----------
    identification:
        Full name of the identification node.
    seconds:
        Time in which it has to be ready, and connected to a paused player.
    command:
        Words of the command; none only waits.

    Returns
    -------
    int
        The command's exit code; 0 where SIGINT or SIGTERM has ended it.

    Raises
    ------
    IdentificationError
        where it is not ready by then, the command cannot be run, or a player ends before.

    """
    with stop_signals() as stopped, client_node('wait') as node:
        caller = ServiceCaller(node)
        readiness = Readiness(caller, identification, stopped)
        readiness.wait(seconds)
        if stopped.is_set() or not command:
            return 0
        try:
            # ends with this process, however that ends
            process = subprocess.Popen(command, preexec_fn=terminate_with_parent)
        except OSError as error:
            raise IdentificationError(
                f"cannot run '{command[0]}': {error.strerror}",
                value=command[0],
                remedy='name a program that is installed and on PATH',
            ) from error
        try:
            if PAUSED in command and readiness.is_followed:
                readiness.wait(
                    seconds, lambda: process.poll() is not None or readiness.hears(PLAYER)
                )
                # whether the player, too, knows the identification is seen by the player alone
                if not stopped.wait(_SETTLING):
                    _resume(caller, process, seconds)
            while process.poll() is None and not stopped.wait(_POLL):
                pass
            return 0 if stopped.is_set() else process.wait()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait()


def _resume(caller: ServiceCaller, process: subprocess.Popen, seconds: float) -> None:
    """Have a player that was started paused play, once it offers that."""
    from rosbag2_interfaces.srv import Resume

    client = caller.node.create_client(Resume, RESUME)
    caller.spin(lambda: client.service_is_ready() or process.poll() is not None, seconds)
    if not client.service_is_ready():
        raise IdentificationError(
            f"the player offers no service '{RESUME}'",
            value=seconds,
            remedy=f'leave {PAUSED} out where the command is no ros2 bag play',
        )
    caller.spin(client.call_async(Resume.Request()).done, seconds)
