# SPDX-License-Identifier: Apache-2.0
"""
Node ``recorder``: joint states and wrenches into rosbag2 (mcap) files.

The serialised messages go unchanged to `BagRecorder`; see there for what is lost when the process
is killed.  A thread fetches them from the middleware, several at a time: an executor would be
woken by each of them, and would fall behind on a busy machine.
"""

from __future__ import annotations

from collections.abc import Sequence
import contextlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
import sys
import threading

from geometry_msgs.msg import WrenchStamped
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import QoSProfile
from robot_identification_msgs.msg import RecorderStatus
from robot_identification_msgs.srv import StartRecording, StopRecording
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from ..data.bag_recorder import BagRecorder, RecordingStatus
from ..data.bag_writer import Qos, Topic
from ..data.joint_state import JOINT_STATE
from ..data.sensor_messages import WRENCH_STAMPED
from ..errors import RecordingError, SettingsError
from ..online.counts import LostMessageCounter
from ..options.fields import option
from ..support.processes import prioritise
from ..untrusted.directories import given_path
from ..untrusted.files import plain_name
from .common import (
    declare_options,
    FetchedMessages,
    LATCHED,
    now,
    read_options,
    run,
    serve,
    steady_timer,
)
from .common.receive_buffers import enlarge_receive_buffers, overflowed_packets, prefer_sockets
from .common.requests import data_directories

_CLASSES = {JOINT_STATE: JointState, WRENCH_STAMPED: WrenchStamped}

COUNTS = (
    'messages', 'dropped', 'lost', 'overflowed', 'waiting', 'disordered', 'gaps', 'rate',
    'jitter', 'longest_gap', 'duration',
)  # fmt: skip
"""Fields of a recording's status that the message has, too."""

_FETCH_SECONDS = 0.01  # between two looks into the queue

ACKNOWLEDGE_SECONDS = 2.0
"""Longest wait for those who listen to the status to have that of an ended recording [s]."""

_DEPTH = 10_000
"""Messages that may wait in the middleware: ten seconds at 1 kHz."""


@dataclass(frozen=True)
class RecorderOptions:
    """Parameters of the recorder."""

    topics: tuple[str, ...] = option(
        ('joint_states',),
        doc='Topics of type sensor_msgs/JointState to record; a second one may have motor states',
        read_only=True,
    )
    wrench_topics: tuple[str, ...] = option(
        (),
        doc='Topics of type geometry_msgs/WrenchStamped to record beside them, of force-torque '
        'sensors; empty for none',
        read_only=True,
    )
    output: str = option('recordings', doc='Folder in which the recordings are made')
    queue: int = option(
        100_000,
        doc='Messages that may wait for the disk before some are dropped',
        minimum=1,
        maximum=10_000_000,
    )
    flush_period: float = option(
        0.5,
        doc='Time between two hand-overs to the operating system: what a killed recorder loses',
        unit='s',
        minimum=0.0,
        maximum=60.0,
    )
    sync_period: float = option(
        1.0,
        doc='Time between two waits until the disk has what was handed over: what a power loss '
        'takes; 0 leaves that to the system',
        unit='s',
        minimum=0.0,
        maximum=60.0,
    )
    priority: int = option(
        10,
        doc='Real-time priority (SCHED_FIFO) of the recorder, where the system allows it; 0 for '
        'the usual scheduling',
        minimum=0,
        maximum=99,
        read_only=True,
    )

    def __post_init__(self) -> None:
        every = (*self.topics, *self.wrench_topics)
        if not self.topics or len(set(every)) != len(every) or '' in every:
            own = '' not in self.topics and len(set(self.topics)) == len(self.topics) > 0
            key = 'wrench_topics' if own else 'topics'
            raise SettingsError(
                f"'{key}' is {list(getattr(self, key))}",
                key=key,
                value=getattr(self, key),
                remedy='name one topic or several different ones',
            )


class RecorderNode(Node):
    """Adapter between the topics and services of the node and `BagRecorder`."""

    def __init__(self) -> None:
        super().__init__('recorder')
        self._recorder: BagRecorder | None = None
        self._fetching = threading.RLock()  # whoever changes the recorder has it
        self._ended = threading.Event()
        self._failed = False
        self._silent: set[int] = set()
        self._overflowed = 0
        self._sim_time = False
        self._status = self.create_publisher(RecorderStatus, '~/status', LATCHED)
        options = declare_options(self, RecorderOptions)
        self._files = data_directories(self, [given_path(options.output, 'output')])
        named = dict.fromkeys(options.topics, JOINT_STATE)
        named.update(dict.fromkeys(options.wrench_topics, WRENCH_STAMPED))
        self._kinds = tuple(named.values())
        self._inputs = [
            FetchedMessages(self, topic, _CLASSES[kind], depth=_DEPTH)
            for topic, kind in named.items()
        ]
        self._topics = [subscription.topic_name for subscription in self._inputs]
        self._sequences = [LostMessageCounter() for _ in self._inputs]
        self._alone = [True] * len(self._inputs)
        serve(self, StartRecording, '~/start', lambda q, r: self._start(q.name, r))
        serve(self, StopRecording, '~/stop', lambda q, r: self._stop(r, q.mark.strip()))
        # by the wall: a simulation that stands still has to show in the status
        steady_timer(self, 1.0, self._on_timer)
        self._last = RecordingStatus(Path())
        self._publish(recording=False)
        notes = prioritise(options.priority, 'priority'), enlarge_receive_buffers()
        for note in filter(None, notes):
            self.get_logger().warning(note)
        self._thread = threading.Thread(target=self._run, name='fetch', daemon=True)
        self._thread.start()

    def on_shutdown(self) -> None:
        """Close the bag of a running recording."""
        try:
            if self._recorder is not None:
                self.get_logger().info(self._stop(StopRecording.Response()))
        finally:
            self._ended.set()
            self._thread.join()

    # ------------------------------------------------------------------------------- messages in

    def _run(self) -> None:
        while not self._ended.wait(_FETCH_SECONDS):
            with self._fetching:
                self._fetch()
                failed = self._recorder is not None and self._recorder.error is not None
            if failed and not self._failed:
                self._failed = True
                self._on_timer()

    def _fetch(self) -> None:
        """Take the messages that have arrived, and record them while a recording runs."""
        recorder = self._recorder
        for place, subscription in enumerate(self._inputs):
            # as rosbag2 does: the time of reception, in the robot's clock where it is simulated
            received = now(self).nanoseconds if self._sim_time else 0
            for data, info in subscription.taken():
                number = info['publication_sequence_number']
                lost = self._sequences[place].missing_before(number, self._alone[place])
                if recorder is None:
                    continue
                recorder.lost += lost
                if place in self._silent:
                    self._silent.discard(place)
                    recorder.offered(place, self._offered(self._topics[place]))
                log = received or info['received_timestamp']
                recorder.offer(place, log, info['source_timestamp'], data)

    # ---------------------------------------------------------------------------------- requests

    def _start(self, name: str, response: StartRecording.Response) -> str:
        if self._recorder is not None and self._recorder.error is None:
            raise RecordingError(
                f"'{self._recorder.folder}' is being recorded",
                file=str(self._recorder.folder),
                remedy='stop that recording first',
            )
        options = read_options(self, RecorderOptions)
        self._sim_time = self.get_parameter('use_sim_time').value
        topics = [
            Topic(topic, kind, self._offered(topic))
            for topic, kind in zip(self._topics, self._kinds, strict=True)
        ]
        folder = self._files.resolve(given_path(options.output, 'output'), 'output')
        name = plain_name(name, "the recording's name")
        recorder = BagRecorder.in_new_folder(
            folder / (name or f'recording_{datetime.now():%Y%m%d_%H%M%S}'),
            topics,
            capacity=options.queue,
            flush_period=options.flush_period,
            sync_period=options.sync_period,
        )
        self._overflowed = overflowed_packets()
        with self._fetching:
            self._recorder = None
            self._fetch()  # what came before does not belong to the recording
            # their publishers are asked again when they are there
            self._silent = {place for place, topic in enumerate(topics) if not topic.qos}
            self._failed = False
            self._recorder = recorder
        self._watch_publishers()
        response.path = str(recorder.folder)
        self.get_logger().info(f"recording into '{response.path}'")
        self._last = recorder.status()
        self._publish(recording=True)
        silent = ', '.join(self._topics[place] for place in sorted(self._silent))
        return f'nothing publishes on {silent} yet' if silent else ''

    def _stop(self, response: StopRecording.Response, mark: str = '') -> str:
        with self._fetching:
            self._fetch()  # what came until now belongs to the recording
            recorder, self._recorder = self._recorder, None
        if recorder is None:
            raise RecordingError('nothing is being recorded', remedy='start a recording first')
        try:
            self._last = recorder.stop(mark)
        except RecordingError:
            self._last = recorder.status()
            raise
        finally:
            response.path = str(self._last.path)
            for name in ('messages', 'dropped', 'duration'):
                setattr(response, name, getattr(self._last, name))
            self._publish(recording=False)
            # who has this answer asks others for the recording: they have the status by then
            with contextlib.suppress(RuntimeError):  # of a middleware without acknowledgments
                self._status.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_SECONDS))
        return '; '.join(filter(None, (_summary(self._last), self._reception())))

    def _offered(self, topic: str) -> tuple[Qos, ...]:
        infos = self.get_publishers_info_by_topic(topic)
        return tuple(_qos(info.qos_profile) for info in infos)

    # ------------------------------------------------------------------------------------ status

    def _on_timer(self) -> None:
        self._watch_publishers()
        recorder = self._recorder
        if recorder is None:
            return
        self._last = recorder.status()
        if recorder.error is not None:
            self.get_logger().error(str(recorder.error), throttle_duration_sec=10.0)
        self._publish(recording=recorder.error is None)

    def _reception(self) -> str:
        """Return a remark on packets of this recording that found no room in the system."""
        count = overflowed_packets() - self._overflowed
        return f'{count} packets found the receive buffers full' if count > 0 else ''

    def _watch_publishers(self) -> None:
        """Hear publishers of any QoS; see whether they are alone on their topics."""
        with self._fetching:
            for subscription in self._inputs:
                subscription.follow_publishers()
            self._alone = [self.count_publishers(topic) <= 1 for topic in self._topics]

    def _publish(self, recording: bool) -> None:
        last = self._last
        self._status.publish(
            RecorderStatus(
                header=Header(stamp=now(self).to_msg()),
                recording=recording,
                path=str(last.path) if last.path.name else '',
                bytes=last.size,
                **{name: getattr(last, name) for name in COUNTS},
                message='; '.join(filter(None, (last.message, self._reception()))),
            )
        )


def _summary(status: RecordingStatus) -> str:
    text = f'{status.messages} messages in {status.duration:.2f} s ({status.rate:.1f} Hz)'
    return f'{text}; {status.message}' if status.message else text


def _qos(profile: QoSProfile) -> Qos:
    return Qos(
        history=profile.history.name.lower(),
        depth=profile.depth,
        reliability=profile.reliability.name.lower(),
        durability=profile.durability.name.lower(),
        liveliness=profile.liveliness.name.lower(),
        deadline=profile.deadline.nanoseconds,
        lifespan=profile.lifespan.nanoseconds,
        liveliness_lease_duration=profile.liveliness_lease_duration.nanoseconds,
    )


def main(args: Sequence[str] | None = None) -> int:
    """Run the node ``recorder``."""
    prefer_sockets()
    return run(RecorderNode, args)


if __name__ == '__main__':
    sys.exit(main())
