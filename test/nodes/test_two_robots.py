# SPDX-License-Identifier: Apache-2.0
"""Two arms in one graph, each in a namespace: moved, recorded and identified at the same time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
import sys

import numpy as np
import pytest
import yaml

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from rclpy.action import ActionClient
from robot_identification.config.sources import open_recording
from robot_identification.data.bag import bag_info
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.results.stored_result import read_result
from robot_identification.simulation.comparison import compare
from robot_identification_msgs.action import Calibrate, Excite, PlanExcitation
from robot_identification_msgs.srv import Identify, StopRecording
from rosbags.highlevel import AnyReader

URDF = Path(__file__).resolve().parents[2] / 'urdf'
ARMS = {
    'left': {'robot_description': str(URDF / 'zollo_planar_2r.urdf'), 'seed': 1},
    'right': {'robot_description': str(URDF / 'zollo_planar_2r.urdf'), 'seed': 2},
}
"""The same joint names on both sides: nothing but the namespaces keeps them apart."""

NODES = ('simulation', 'recorder', 'identification', 'excitation')
OTHER = {'left': 'right', 'right': 'left'}
SHARED = {'/rosout', '/parameter_events', '/diagnostics'}
"""Topics that all nodes of a graph share; what they tell names the node."""


def parameters(side: str, folder: Path) -> dict[str, dict]:
    clock = {'use_sim_time': True}
    return {
        'simulation': {
            **ARMS[side],
            'rate': 200.0,
            'servo_rate': 200.0,
            'clock_rate': 50.0,
            # twice as fast, a busy machine has the motion begin late, with a leap
            'real_time_factor': 1.0,
            'perturbation': 0.2,
            'friction_perturbation': 0.4,
            'truth_file': str(folder / side / 'truth.yaml'),
        },
        'recorder': {**clock, 'output': str(folder / side / 'recordings')},
        'identification': {
            **clock,
            'output': str(folder / side / 'results'),
            'online.enabled': side == 'left',  # its process, too, is below the namespace
            'signals.cutoff': 10.0,
            'signals.dead_zone': 0.1,
        },
        'excitation': {
            **clock,
            'execute': True,
            'move_speed': 0.8,
            # a busy machine may hold up any of the processes, which ends no motion
            'stale_timeout': 10.0,
            'effort_share': 0.0,
            'effort_tolerance': 0.0,
            'settle_time': 20.0,
            'planner.duration': 5.0,
            'planner.harmonics': 4,
            'planner.max_iterations': 40,
        },
    }


class Cell:
    """Both arms with all their nodes, and requests to both at once."""

    def __init__(self, ros, folder: Path) -> None:
        self.ros, self.folder = ros, folder
        self._clients: dict = {}
        started = {}
        for side in ARMS:
            for node, values in parameters(side, folder).items():
                # the simulated time is each cell's own, as simulation.launch.py has it
                started[f'/{side}/{node}'] = ros.start(
                    node, '-r', '/clock:=clock', parameters=values, namespace=f'/{side}',
                    wait=False,
                )  # fmt: skip
        for name, process in started.items():
            ros.wait_for_node(name, process, timeout=90.0)

    def truth(self, side: str) -> dict[str, float]:
        return yaml.safe_load((self.folder / side / 'truth.yaml').read_text())

    def act(
        self, kind, action: str, fields: dict[str, dict], seconds: float = 90.0, meanwhile=None
    ) -> dict:
        """
        Send a goal to both arms, then wait for both; return the results by side.

        ``meanwhile`` is called once both are a tenth on their way.
        """
        goals, progress = {}, dict.fromkeys(ARMS, 0.0)

        def note(side: str, message) -> None:
            progress[side] = message.feedback.progress

        for side in ARMS:
            client = self._client(partial(ActionClient, self.ros.node), kind, f'{side}/{action}')
            self.ros.wait_until(client.server_is_ready, 60.0, f'{side}/{action}')
            goals[side] = client.send_goal_async(
                kind.Goal(**fields[side]), meanwhile and partial(note, side)
            )
        self._wait(goals, seconds, action)
        assert all(goal.result().accepted for goal in goals.values())
        futures = {side: goal.result().get_result_async() for side, goal in goals.items()}
        if meanwhile is not None:
            self.ros.wait_until(lambda: min(progress.values()) > 0.1, seconds, action)
            meanwhile()
        self._wait(futures, seconds, action)
        return {side: future.result().result for side, future in futures.items()}

    def call(self, kind, service: str, fields: dict[str, dict], seconds: float = 90.0) -> dict:
        """Call a service of both arms, then wait for both; return the responses by side."""
        futures = {}
        for side in ARMS:
            client = self._client(self.ros.node.create_client, kind, f'{side}/{service}')
            self.ros.wait_until(client.service_is_ready, 60.0, f'{side}/{service}')
            futures[side] = client.call_async(kind.Request(**fields[side]))
        self._wait(futures, seconds, service)
        return {side: future.result() for side, future in futures.items()}

    def _client(self, make, kind, name: str):
        # a client that is destroyed with an answer on its way can bring this process down
        if name not in self._clients:
            self._clients[name] = make(kind, name)
        return self._clients[name]

    def _wait(self, futures: dict, seconds: float, what: str) -> None:
        self.ros.wait_until(lambda: all(f.done() for f in futures.values()), seconds, what)


@pytest.fixture(scope='module')
def cell(module_ros, tmp_path_factory):
    """Start both arms once for all tests here."""
    return Cell(module_ros, tmp_path_factory.mktemp('cell'))


@pytest.fixture(scope='module')
def motions(cell):
    """Plan for both arms and move both at once; return what ``excite`` answered, by side."""
    plans = cell.act(PlanExcitation, 'excitation/plan', {s: {'seed': 3} for s in ARMS})
    assert [plan.error_msg for plan in plans.values()] == ['', '']
    # they are started in one folder, and may plan in the same second
    assert [Path(plan.path).parent.name for plan in plans.values()] == list(ARMS)
    goals = {
        side: {'plan_id': plan.plan_id, 'record': True, 'recording_name': side}
        for side, plan in plans.items()
    }
    return cell.act(Excite, 'excitation/excite', goals)


@pytest.fixture(scope='module')
def answers(cell, motions):
    """Identify both arms at the same time; return the responses by side."""
    sources = {side: {'source': done.recording_path} for side, done in motions.items()}
    return cell.call(Identify, 'identification/identify', sources)


def test_both_arms_move_at_once_and_each_is_recorded_by_its_own_recorder(cell, motions):
    assert {side: done.error_msg for side, done in motions.items()} == {'left': '', 'right': ''}
    recordings = {}
    for side, done in motions.items():
        assert Path(done.recording_path).parent == cell.folder / side / 'recordings'
        topic = f'/{side}/joint_states'
        with AnyReader([Path(done.recording_path)]) as reader:
            assert [connection.topic for connection in reader.connections] == [topic]
        entry = RecordingEntry(file=done.recording_path, format='rosbag2', topic=topic)
        recordings[side] = list(open_recording(entry, ('joint_1', 'joint_2')).blocks())
    for blocks in recordings.values():
        assert blocks[-1].time[-1] - blocks[0].time[0] > 5.0
    left, right = (recordings[side][0].effort[:100] for side in ARMS)
    assert not np.array_equal(left, right)


def test_each_arm_is_identified_as_itself_and_not_as_the_other(cell, answers):
    for side, answer in answers.items():
        assert answer.success, answer.message
        assert Path(answer.result_path).parent == cell.folder / side / 'results'
        result = read_result(Path(answer.result_path) / 'result.yaml')
        own = compare(result, cell.truth(side))
        other = compare(result, cell.truth(OTHER[side]))
        # three standard deviations and what so short a motion leaves of systematic errors
        assert np.median(own.deviation) < 3.0
        assert error(own) < 0.05 < 0.15 < error(other)


def stop_by_command(ros):
    words = [sys.executable, '-m', 'robot_identification.cli', 'node', 'stop']
    assert ros.start_command('stop', [*words, '--namespace', 'left'], wait=False).wait() == 0


def stop_the_recording(ros):
    assert ros.call(StopRecording, 'left/recorder/stop').success


@pytest.mark.parametrize(
    ('end', 'code'),
    [
        (stop_by_command, 'CONTROLLER_FAILED'),
        pytest.param(stop_the_recording, 'RECORDER_FAILED', marks=pytest.mark.soak),
    ],
)
def test_what_ends_the_motion_of_one_arm_leaves_that_of_the_other_alone(
    cell, motions, answers, end, code
):
    plans = cell.act(PlanExcitation, 'excitation/plan', {side: {'seed': 4} for side in ARMS})
    goals = {side: {'plan_id': plan.plan_id, 'record': True} for side, plan in plans.items()}
    done = cell.act(Excite, 'excitation/excite', goals, meanwhile=lambda: end(cell.ros))
    assert done['left'].error_code == getattr(Excite.Result, code), done['left'].error_msg
    assert done['left'].at_rest
    assert (done['right'].error_code, done['right'].error_msg) == (0, '')
    marks = {side: bag_info(Path(result.recording_path)).mark for side, result in done.items()}
    assert marks['right'] == '' and bool(marks['left']) == (end is stop_by_command)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_both_arms_are_calibrated_at_once_each_by_its_own_recordings(cell, answers):
    """Into the folder that is so by default, which is the same for all nodes of one shell."""
    goal = {'motions': 1, 'duration': 5.0, 'target': 10.0}
    done = cell.act(Calibrate, 'excitation/calibrate', dict.fromkeys(ARMS, goal), 240.0)
    for side, result in done.items():
        assert result.motions == 1, result.error_msg
        folder = Path(result.path).parent
        assert folder.parent.name == side
        entry = yaml.safe_load((folder / 'motion_1' / 'recording.yaml').read_text())
        assert entry['topic'] == f'/{side}/joint_states'
        assert Path(entry['file']).parent == cell.folder / side / 'recordings'
        result = read_result(folder / 'results' / 'result.yaml')
        own, other = (compare(result, cell.truth(each)) for each in (side, OTHER[side]))
        assert error(own) < error(other)


def error(comparison) -> float:
    """Return the relative error of the vector of base parameters."""
    difference = comparison.identified - comparison.true
    return float(np.linalg.norm(difference) / np.linalg.norm(comparison.true))


# ------------------------------------------------------------------------------------ the graph


def endpoints(node, name: str, namespace: str) -> set[str]:
    """Full names of all topics, services and actions of one node."""
    queries = (
        node.get_publisher_names_and_types_by_node,
        node.get_subscriber_names_and_types_by_node,
        node.get_service_names_and_types_by_node,
        node.get_client_names_and_types_by_node,
    )
    return {topic for query in queries for topic, _ in query(name, namespace)}


def nodes_of(node, side: str) -> list[str]:
    return [name for name, space in node.get_node_names_and_namespaces() if space == f'/{side}']


def test_everything_that_a_node_has_is_below_its_namespace(cell, answers):
    node = cell.ros.node
    for side in ARMS:
        # discovery may be late
        cell.ros.wait_until(lambda s=side: set(nodes_of(node, s)) >= set(NODES), 60.0, side)
        names = nodes_of(node, side)
        assert len(names) == len(set(names))
        for name in names:
            found = endpoints(node, name, f'/{side}')
            strangers = {one for one in found if not one.startswith(f'/{side}/')} - SHARED
            assert not strangers, f'/{side}/{name}'
            # an action is services and topics below its own name
            if name == 'excitation':
                assert {f'/{side}/excitation/excite/_action/send_goal'} <= found


def test_nobody_listens_to_the_other_arm(cell, answers):
    node = cell.ros.node
    topics = [name for name, _ in node.get_topic_names_and_types() if name not in SHARED]
    checked = 0
    for topic in topics:
        side = topic.split('/')[1]

        def spaces(t=topic):
            ends = node.get_publishers_info_by_topic(t) + node.get_subscriptions_info_by_topic(t)
            return {end.node_namespace for end in ends if end.node_name != node.get_name()}

        cell.ros.wait_until(
            lambda f=spaces: '_NODE_NAMESPACE_UNKNOWN_' not in f(), 60.0, 'discovery'
        )
        found = spaces()
        assert found <= {f'/{side}'}, topic
        checked += bool(found)
    assert checked >= 2 * 8
    for side in ARMS:
        (sender,) = node.get_publishers_info_by_topic(f'/{side}/joint_states')
        assert (sender.node_name, sender.node_namespace) == ('simulation', f'/{side}')
        heard = {end.node_name for end in node.get_subscriptions_info_by_topic(
            f'/{side}/joint_states'
        )}  # fmt: skip
        assert heard >= {'recorder', 'excitation'}


def test_diagnostics_tell_the_arms_apart(cell, answers):
    from diagnostic_msgs.msg import DiagnosticArray

    messages = cell.ros.subscribe(DiagnosticArray, '/diagnostics', 10)
    names: set[str] = set()

    def both() -> bool:
        names.update(status.name for message in messages for status in message.status)
        return {side for side in ARMS if any(n.startswith(f'{side}/') for n in names)} == set(ARMS)

    cell.ros.wait_until(both, 60.0, 'diagnostics of both arms')
    assert all(name.startswith(('left/', 'right/')) for name in names)
