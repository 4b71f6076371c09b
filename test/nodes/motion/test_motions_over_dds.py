# SPDX-License-Identifier: Apache-2.0
"""
Motions over DDS on a path at 95 % of the limits, what goes wrong with them, and deaths.

One simulated arm and one excitation node serve all tests.  The node's joint states pass through
this process, which may spoil them, but for the deaths: there none is late where a busy machine
holds this process up.  The arm's true motion is held to the limits in every test.
What a motion does in its time is tested on a driven clock, in the other files here.
"""

from __future__ import annotations

from functools import partial
import os
import resource
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from control_msgs.action import FollowJointTrajectory
from controller_manager_msgs.msg import ControllerState as StateMessage
from controller_manager_msgs.srv import ListControllers
import rclpy
from rclpy.action import ActionClient
from rclpy.serialization import serialize_message
from robot_identification.data.bag import bag_info, joint_state_messages
from robot_identification.errors import IdentificationWarning, RecordingError
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.trajectories import point_to_point, to_points
from robot_identification.nodes.common.messages import message_of, seconds
from robot_identification.nodes.common.receive_buffers import profile_variables
from robot_identification.nodes.common.requests import SERVICES
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.srv import StartRecording, StopRecording
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from benchmarks.driven_arm import ARM, Arm, SETTINGS, wave
from benchmarks.false_states import changed

CONTROLLER = '/joint_trajectory_controller'
ACTION = f'{CONTROLLER}/follow_joint_trajectory'
VELOCITY, ACCELERATION = SETTINGS.velocity_limits[0], SETTINGS.acceleration_limits[0]
DECELERATION = 10.0
TOLERANCE = 1.05
RATE = 125.0

CLIENT = """
import sys
import rclpy
from rclpy.action import ActionClient
from rclpy.serialization import deserialize_message
from robot_identification_msgs.action import Excite
from trajectory_msgs.msg import JointTrajectory

rclpy.init()
node = rclpy.create_node('short_lived')
client = ActionClient(node, Excite, 'excitation/excite')
client.wait_for_server()
trajectory = deserialize_message(bytes.fromhex(sys.stdin.readline()), JointTrajectory)
sending = client.send_goal_async(Excite.Goal(trajectory=trajectory, speed=0.2))
rclpy.spin_until_future_complete(node, sending)
rclpy.spin(node)
"""

QUICK_LEASE = """<?xml version="1.0" encoding="UTF-8"?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <participant profile_name="mortal" is_default_profile="true">
    <rtps><builtin><discovery_config>
      <leaseDuration><sec>2</sec></leaseDuration>
      <leaseAnnouncement><sec>0</sec><nanosec>500000000</nanosec></leaseAnnouncement>
    </discovery_config></builtin></rtps>
  </participant>
</profiles>
"""


def missed_soon(folder):
    """Return what a process needs in its environment to be missed soon once it is killed."""
    profile = folder / 'lease.xml'
    profile.write_text(QUICK_LEASE)
    return dict.fromkeys(profile_variables(), str(profile))


class Motion:
    """A motion that the node was asked for."""

    def __init__(self, cell, **fields):
        self.ros, self.feedback = cell.ros, []
        self.client = cell.ros._client(
            lambda action, name: ActionClient(cell.ros.node, action, name),
            Excite,
            'excitation/excite',
        )
        cell.ros.wait_until(self.client.server_is_ready, 60.0, 'the action')
        sending = self.client.send_goal_async(
            Excite.Goal(**fields), feedback_callback=lambda m: self.feedback.append(m.feedback)
        )
        cell.ros.wait_until(sending.done, 60.0, 'acceptance')
        self.goal = sending.result()
        self.future = self.goal.get_result_async()

    @property
    def done(self):
        return self.future.done()

    @property
    def progress(self):
        return self.feedback[-1].progress if self.feedback else 0.0

    def cancel(self):
        self.goal.cancel_goal_async()

    def end(self):
        """Wait for the end; return status and result."""
        self.ros.wait_until(self.future.done, 120.0, 'the end of the motion')
        return self.future.result().status, self.future.result().result


class Cell:
    """
    A simulated robot, its excitation node, and what happens to the joint states between them.

    Attributes
    ----------
    path:
        At 95 % of the limits.
    spoil:
        Makes of a true joint state those that the node gets; None passes it on.

    """

    def __init__(self, ros, folder):
        self.ros, self.spoil, self._arm = ros, None, Arm()
        self.path = wave(motion_limits(ARM, SETTINGS, margin=0.0), 0.95)
        self.start = self.path.position[0]
        self.message = message_of(self.path)
        self.urdf = folder / 'arm.urdf'
        self.urdf.write_text(ARM.urdf)
        self.states = []
        ros.node.create_subscription(JointState, 'joint_states', self._relay, 100)
        self._passed = ros.node.create_publisher(JointState, 'passed', 100)
        parameters = {
            'robot_description': str(self.urdf),
            'rate': RATE,
            'servo_rate': 250.0,
            'clock_rate': 25.0,
            'perturbation': 0.02,
            'friction_perturbation': 0.0,
            'initial_position': self.start.tolist(),
            'constraints.decelerate_on_cancel': True,
            'constraints.max_deceleration_on_cancel': [DECELERATION],
        }
        self.robot = ros.start('simulation', parameters=parameters, wait=False)
        self.node = self.start_node()

    def listen_directly(self):
        """Have a node that gets the joint states from the robot itself."""
        if not self.direct:
            self.node.stop()
            self.node = self.start_node(direct=True)

    def start_node(self, direct=False, **environment):
        self.direct = direct
        limits = 'velocity_limits', 'acceleration_limits', 'lower_limits', 'upper_limits'
        values = {
            'robot_description': str(self.urdf),
            'use_sim_time': True,
            'execute': True,
            # any of the processes may be held up
            'stale_timeout': 5.0,
            'settle_time': 20.0,
            'effort_share': 0.0,
            'effort_tolerance': 0.0,
            'move_speed': 0.9,
            'planner.duration': 3.0,
            'planner.harmonics': 3,
            'planner.max_iterations': 1,
            **{f'planner.{name}': list(getattr(SETTINGS, name)) for name in limits},
        }
        node = self.ros.start(
            'excitation',
            *([] if direct else ['-r', 'joint_states:=passed']),
            parameters=values,
            wait=False,
            **environment,
        )
        self.ros.wait_until(
            lambda: 'with joints' in node.output or node.returncode is not None, 60.0, 'the robot'
        )
        self._meet()
        assert node.returncode is None, node.output
        return node

    def _relay(self, message):
        self.states.append(message)
        for each in [message] if self.spoil is None else self.spoil(message):
            self._passed.publish(each)

    def _meet(self):
        """Ask until an answer comes: it is lost where the node has not discovered this client."""
        client = ActionClient(self.ros.node, Excite, 'excitation/excite')
        self.ros.wait_until(client.server_is_ready, 60.0, 'the action')
        end = time.monotonic() + 60.0
        answer = None
        while answer is None or not answer.done():
            assert time.monotonic() < end, 'no answer'
            answer = client.send_goal_async(Excite.Goal(dry_run=True))
            soon = time.monotonic() + 5.0
            while not answer.done() and time.monotonic() < soon:
                self.ros.spin(0.05)
        handle = answer.result()
        if handle.accepted:
            self.ros.wait_until(handle.get_result_async().done, 60.0, 'the end of a dry run')
        client.destroy()

    def begin(self, progress=0.05, **fields):
        """Have the path followed; return the motion once it has come so far."""
        fields.setdefault('trajectory', self.message)
        begun = Motion(self, **fields)
        self.ros.wait_until(lambda: begun.done or begun.progress > progress, 120.0, 'the motion')
        assert not begun.done, begun.future.result().result.error_msg
        return begun

    def dry_run_until(self, code):
        """Ask for dry runs until one ends with a code: the node's graph may be late."""
        end = time.monotonic() + 60.0
        while Motion(self, trajectory=self.message, dry_run=True).end()[1].error_code != code:
            assert time.monotonic() < end

    def require_rest(self, bound=60.0):
        """Wait until the robot rests, for half a second of its own time."""
        count = round(0.5 * RATE)

        def rests():
            late = np.array([state.position for state in self.states[-count:]])
            return len(self.states) >= since + count and np.ptp(late, axis=0).max() < 2e-3

        since = len(self.states)
        self.ros.wait_until(rests, bound, 'rest')

    def require_distances(self):
        """Hold the distances on the arm's true way to the clearance, which walls just leave."""
        positions = np.array([state.position for state in self.states[::2]])
        assert self._arm.distance(positions) >= SETTINGS.clearance - 1e-3

    def require_limits(self):
        """Hold all that the arm has truly done to the limits."""
        stamps = np.array([seconds(state.header.stamp) for state in self.states])
        velocity = np.array([state.velocity for state in self.states])
        position = np.array([state.position for state in self.states])
        assert np.abs(velocity).max() <= TOLERANCE * VELOCITY
        # between two that follow each other; some may be lost
        step = np.diff(stamps)
        whole = (step > 0.0) & (step < 3.0 / RATE)
        acceleration = np.diff(velocity, axis=0)[whole] / step[whole, None]
        assert np.abs(acceleration).max() <= TOLERANCE * ACCELERATION
        assert (position >= SETTINGS.lower_limits).all()
        assert (position <= SETTINGS.upper_limits).all()


@pytest.fixture(scope='module')
def running(request, ros_domain, tmp_path_factory):
    """Start the cell once for all tests; the last ones kill its node."""
    plugins = request.config.pluginmanager.get_plugins()
    ros = next(plugin.Ros for plugin in plugins if hasattr(plugin, 'Ros'))()
    try:
        yield Cell(ros, tmp_path_factory.mktemp('arm'))
    finally:
        ros.close()


@pytest.fixture
def cell(running):
    """Give the cell, with the robot at rest, and hold its motion to the limits afterwards."""
    running.spoil = None
    running.ros.wait_until(lambda: running.states, 60.0, 'joint states')
    del running.states[:-1]
    yield running
    running.spoil = None
    running.require_rest()
    running.require_limits()


def test_a_client_that_is_killed_is_missed(cell, tmp_path):
    """The first test, since a client of this process would be taken for its client, too."""
    environment = {**os.environ, **missed_soon(tmp_path)}
    with subprocess.Popen(
        [sys.executable, '-c', CLIENT], stdin=subprocess.PIPE, text=True, env=environment
    ) as client:
        try:
            client.stdin.write(serialize_message(cell.message).hex() + '\n')
            client.stdin.flush()
            cell.ros.wait_until(
                lambda: np.abs(cell.states[-1].position - cell.start).max() > 0.03,
                120.0,
                'the motion',
            )
        finally:
            client.kill()
    words = 'the client is gone (/short_lived'
    cell.ros.wait_until(lambda: words in cell.node.output, 60.0, 'the loss')


def test_a_plan_is_executed_and_recorded_and_a_motion_that_ends_early_is_marked(cell, tmp_path):
    ros = cell.ros
    recorder = ros.start('recorder', parameters={'use_sim_time': True, 'output': str(tmp_path)})
    begun = cell.begin(record=True, recording_name='short')
    begun.cancel()
    status, result = begun.end()
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Excite.Result.CANCELED)
    assert result.error_msg == 'canceled; the robot is at rest' and result.at_rest
    assert result.recording_path == str(tmp_path / 'short')
    mark = bag_info(tmp_path / 'short').mark
    assert 'CANCELED' in mark and 'of the motion' in mark and 'canceled' in mark

    plan = ros.act(PlanExcitation, 'excitation/plan')[1]
    assert plan.error_code == 0, plan.error_msg
    begun = Motion(cell, plan_id=plan.plan_id, record=True, recording_name='whole')
    status, result = begun.end()
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, '')
    assert result.recording_path == str(tmp_path / 'whole') and result.at_rest
    assert bag_info(tmp_path / 'whole').mark == ''
    with AnyReader([tmp_path / 'whole']) as bag:
        states = [bag.deserialize(data, link.msgtype) for link, _, data in bag.messages()]
    stamps = [state.header.stamp.sec + 1e-9 * state.header.stamp.nanosec for state in states]
    assert stamps[-1] - stamps[0] > plan.planned_duration
    phases = {feedback.phase for feedback in begun.feedback}
    assert {'moving_to_start', 'exciting'} <= phases
    assert recorder.stop() == 0


# --------------------------------------------------------------------------------------- refusals


def refused(cell, code, *words, **fields):
    """Require that neither a dry run nor a motion begins."""
    for dry_run in (True, False):
        status, result = Motion(cell, trajectory=cell.message, dry_run=dry_run, **fields).end()
        assert status == GoalStatus.STATUS_ABORTED
        assert result.error_code == code, result.error_msg
        assert all(word in result.error_msg for word in words), result.error_msg


def test_who_else_may_command_the_controller_is_refused_by_name(cell):
    node, code = cell.ros.node, Excite.Result.CONTROLLER_SHARED
    publisher = node.create_publisher(JointTrajectory, f'{CONTROLLER}/joint_trajectory', 1)
    cell.dry_run_until(code)
    refused(cell, code, '/test_client', f"the topic '{CONTROLLER}/joint_trajectory'")
    node.destroy_publisher(publisher)
    cell.dry_run_until(0)
    namesake = rclpy.create_node('excitation', context=cell.ros.context)
    cell.dry_run_until(code)
    refused(cell, code, "another node is '/excitation', too")
    namesake.destroy_node()
    cell.dry_run_until(0)


def test_a_goal_that_is_active_is_refused_and_its_clients_are_named(cell):
    client = ActionClient(cell.ros.node, FollowJointTrajectory, ACTION)
    cell.ros.wait_until(client.server_is_ready, 60.0, 'the controller')
    here = np.array(cell.states[-1].position)
    there = point_to_point(cell.path.joints, here, here + 0.5, [0.05] * 3, [1.0] * 3)
    sent = client.send_goal_async(
        FollowJointTrajectory.Goal(trajectory=message_of(to_points(there, 10.0)))
    )
    cell.ros.wait_until(sent.done, 60.0, 'its goal')
    words = f"active on the action '{ACTION}'", '/test_client'
    refused(cell, Excite.Result.CONTROLLER_SHARED, *words)
    ended = sent.result().get_result_async()
    sent.result().cancel_goal_async()
    cell.ros.wait_until(ended.done, 60.0, 'its end')
    client.destroy()
    cell.require_rest()
    assert Motion(cell, trajectory=cell.message, dry_run=True).end()[1].error_code == 0


def test_joint_states_that_are_not_the_controllers_are_refused_with_both_values(cell):
    cell.spoil = lambda m: [changed(m, np.array(m.position) + [0.0, 0.2, 0.0])]
    cell.ros.spin(0.5)
    refused(
        cell,
        Excite.Result.UNTRUSTED_STATE,
        f"joint '{cell.path.joints[1]}' at",
        f"'{CONTROLLER}/controller_state' at",
        'they come from /test_client',
    )


def test_neither_a_dry_run_nor_a_motion_takes_an_inactive_controller(cell):
    states = {CONTROLLER[1:]: 'inactive'}

    def answer(_, response):
        response.controller = [StateMessage(name=n, state=s) for n, s in states.items()]
        return response

    name = '/controller_manager/list_controllers'
    service = cell.ros.node.create_service(ListControllers, name, answer)
    try:
        refused(
            cell, Excite.Result.NO_CONTROLLER, f"the controller '{CONTROLLER}' is inactive",
            'ros2 control switch_controllers --activate',
        )  # fmt: skip
        states[CONTROLLER[1:]] = 'active'
        result = Motion(cell, trajectory=cell.message, dry_run=True).end()[1]
        assert result.error_msg == ''
    finally:
        cell.ros.node.destroy_service(service)


# ---------------------------------------------------------------------------------------- attacks


def hold_up(process, duration):
    """Stop a process for a time."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(duration)
    os.kill(process.pid, signal.SIGCONT)


def attack_by_holding_up(process, duration, cell, share):
    motion = cell.begin(share)
    some = np.random.default_rng(round(1e6 * share)).uniform(0.05, 2.5)
    hold_up(getattr(cell, process), duration or some)
    return motion.end()[1]


def attack_by_late_states(cell, share):
    """Let true states come ever later, as those of a relay whose queue grows by 40 %."""
    begun, queue = cell.begin(share), []
    passed = [0, 0]

    def late(message):
        queue.append(message)
        passed[0] += 1
        due = passed[1] < passed[0] / 1.4
        passed[1] += due
        return [queue.pop(0)] if due else []

    cell.spoil = late
    return begun.end()[1]


def attack_by(change, cell, share):
    begun = cell.begin(share)
    first = cell.states[-1]
    cell.spoil = lambda message: [change(message, first)]
    return begun.end()[1]


def stuck(message, first):
    position = np.array(message.position)
    position[1] = first.position[1]
    return changed(message, position)


def half_speed(message, first):
    passed = seconds(message.header.stamp) - seconds(first.header.stamp)
    return changed(message, stamp=-0.5 * passed)


def attack_by_cancel_storm(cell, share):
    """Let many cancel again and again, all of both actions' goals."""
    begun = cell.begin(share)
    clients = [
        cell.ros.node.create_client(CancelGoal, f'{action}/_action/cancel_goal')
        for action in (ACTION, '/excitation/excite')
        for _ in range(3)
    ]
    for _ in range(20):
        for client in clients:
            client.call_async(CancelGoal.Request())
        cell.ros.spin(0.01)
    return begun.end()[1]


def attack_by_second_client(cell, share):
    """Let another client's goal take the place of the node's, from where the arm is."""
    begun = cell.begin(share)
    client = cell.ros._client(
        lambda action, name: ActionClient(cell.ros.node, action, name),
        FollowJointTrajectory,
        ACTION,
    )
    cell.ros.wait_until(client.server_is_ready, 60.0, 'the controller')
    there = point_to_point(cell.path.joints, cell.start, cell.start + 0.1, [0.1] * 3, [1.0] * 3)
    message = message_of(to_points(there, 10.0))
    for point in message.points:
        point.time_from_start.sec += 4
    sent = client.send_goal_async(FollowJointTrajectory.Goal(trajectory=message))
    cell.ros.wait_until(sent.done, 60.0, 'its goal')
    ended = sent.result().get_result_async()
    result = begun.end()[1]
    cell.ros.wait_until(ended.done, 60.0, 'its end')
    assert ended.result().status == GoalStatus.STATUS_SUCCEEDED
    return result


ATTACKS = {
    'the node is stopped for 0.05 s': (partial(attack_by_holding_up, 'node', 0.05), 'NONE'),
    'the node is stopped for 2.5 s': (partial(attack_by_holding_up, 'node', 2.5), 'NONE'),
    'the arm is stopped for 0.5 s': (partial(attack_by_holding_up, 'robot', 0.5), 'NONE'),
    'the arm is stopped for 2.5 s': (
        partial(attack_by_holding_up, 'robot', 2.5),
        'NONE CONTROLLER_FAILED STALE_STATE',
    ),
    'the node is stopped for some time': (partial(attack_by_holding_up, 'node', None), 'NONE'),
    'the arm is stopped for some time': (
        partial(attack_by_holding_up, 'robot', None),
        'NONE CONTROLLER_FAILED STALE_STATE',
    ),
    'true states that come ever later': (attack_by_late_states, 'NONE UNTRUSTED_STATE'),
    "one joint's reading is stuck": (partial(attack_by, stuck), 'UNTRUSTED_STATE'),
    'stamps at half speed': (partial(attack_by, half_speed), 'NONE'),
    'a storm of cancels': (attack_by_cancel_storm, 'CANCELED CONTROLLER_FAILED'),
    'a second client of the controller': (attack_by_second_client, 'CONTROLLER_FAILED'),
}
"""What is done to a motion, and the codes with which it may end."""


def attack(cell, name, share):
    run, codes = ATTACKS[name]
    result = run(cell, share)
    allowed = [getattr(Excite.Result, code) for code in codes.split()]
    assert result.error_code in allowed, result.error_msg
    cell.spoil = None
    cell.require_rest()
    cell.require_limits()
    if name != 'a second client of the controller':  # whose motion nobody has checked
        cell.require_distances()


@pytest.mark.parametrize(
    'name',
    [
        'the node is stopped for 2.5 s',
        'the arm is stopped for 0.5 s',
        'true states that come ever later',
        'a second client of the controller',
    ],
)
def test_nothing_makes_the_arm_leap(cell, name):
    attack(cell, name, np.random.default_rng(len(name)).uniform(0.1, 0.6))


@pytest.mark.soak
@pytest.mark.parametrize('name', ATTACKS)
def test_nothing_makes_the_arm_leap_at_random_instants(cell, name, request):
    instants = request.config.getoption('--instants')
    for share in np.random.default_rng(1).uniform(0.02, 0.8, instants):
        del cell.states[:-1]
        attack(cell, name, share)


# ----------------------------------------------------------------------------------------- deaths


def test_a_node_that_is_asked_to_end_cancels_and_leaves_a_robot_at_rest(cell):
    cell.listen_directly()
    begun = cell.begin(0.2)
    os.kill(cell.node.pid, signal.SIGTERM)
    result = begun.end()[1]
    assert result.error_code == Excite.Result.CANCELED
    assert result.error_msg == 'the node ends; the robot is at rest'
    assert cell.node.wait(60.0) == 0
    cell.node = cell.start_node(direct=True)


def test_a_goal_that_the_controller_takes_late_is_canceled_by_a_node_that_has_to_end(cell):
    """The arm's process stands still from before the goal is sent until long after."""
    node = cell.ros.node

    def start(_, response):
        os.kill(cell.robot.pid, signal.SIGSTOP)
        response.success = True
        return response

    def stop(_, response):
        response.success = True
        return response

    services = [
        node.create_service(StartRecording, 'recorder/start', start, qos_profile=SERVICES),
        node.create_service(StopRecording, 'recorder/stop', stop, qos_profile=SERVICES),
    ]
    try:
        begun = Motion(cell, trajectory=cell.message, record=True)
        cell.ros.wait_until(
            lambda: 'USE THE EMERGENCY STOP' in cell.node.output, 120.0, 'the first cancels'
        )
        os.kill(cell.node.pid, signal.SIGTERM)
        cell.ros.wait_until(
            lambda: 'this node does not end before' in cell.node.output, 60.0, 'its reason'
        )
        cell.ros.spin(1.0)
        assert not begun.done and cell.node.returncode is None
    finally:
        os.kill(cell.robot.pid, signal.SIGCONT)
        for service in services:
            node.destroy_service(service)
    result = begun.end()[1]
    assert result.error_code == Excite.Result.CONTROLLER_FAILED
    assert 'has not answered within 5 s' in result.error_msg
    assert cell.node.wait(60.0) == 0
    cell.require_rest()
    places = np.array([state.position for state in cell.states])
    assert np.abs(places - places[0]).max() < 0.1
    cell.node = cell.start_node(direct=True)


@pytest.mark.soak
def test_a_motion_whose_recorder_is_killed_is_canceled(cell, tmp_path):
    parameters = {'use_sim_time': True, 'output': str(tmp_path)}
    recorder = cell.ros.start('recorder', parameters=parameters)
    cell.listen_directly()
    begun = cell.begin(record=True, recording_name='lost', speed=0.2)
    recorder.stop(signal.SIGKILL)
    _, result = begun.end()
    assert result.error_code == Excite.Result.RECORDER_FAILED
    assert 'has published no status' in result.error_msg and result.at_rest
    assert result.recording_path == str(tmp_path / 'lost')


def readable(bag):
    """Return whether an unfinished bag has messages on disk."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        try:
            return any(map(len, joint_state_messages(bag, '/joint_states')))
        except RecordingError:
            return False


def test_a_motion_whose_recorder_has_no_room_is_canceled(cell, tmp_path):
    """The recording stays readable, and the next one is whole once there is room."""
    parameters = {'use_sim_time': True, 'output': str(tmp_path)}
    recorder = cell.ros.start('recorder', parameters=parameters)
    cell.listen_directly()
    begun = cell.begin(record=True, recording_name='full', speed=0.2)
    # a busy machine may be slow to write the first chunk
    cell.ros.wait_until(lambda: readable(tmp_path / 'full'), 60.0, 'the first chunk')
    endless = resource.RLIM_INFINITY
    resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (0, endless))
    try:
        result = begun.end()[1]
    finally:
        resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (endless, endless))
    assert result.error_code == Excite.Result.RECORDER_FAILED
    assert 'has ended the recording: cannot write' in result.error_msg and result.at_rest
    assert result.recording_path == str(tmp_path / 'full')
    with pytest.warns(IdentificationWarning, match='mcap recover'):
        assert sum(map(len, joint_state_messages(tmp_path / 'full', '/joint_states')))
    begun = cell.begin(record=True, recording_name='next')
    begun.cancel()
    assert begun.end()[1].error_code == Excite.Result.CANCELED
    assert bag_info(tmp_path / 'next').mark
    assert recorder.stop() == 0


def kill(cell, share, **fields):
    """Kill the node at a share of a motion; hold the arm to the path, and to rest at its end."""
    before = len(cell.states)
    begun = cell.begin(share, **fields)
    cell.node.stop(signal.SIGKILL)
    cell.require_rest()
    assert not begun.done
    np.testing.assert_allclose(cell.states[-1].position, cell.path.position[-1], atol=5e-3)
    track = cell.path.sample(np.linspace(0.0, cell.path.duration, 1000)).position
    places = np.array([state.position for state in cell.states[before:]])
    away = np.abs(track[None] - places[:, None]).max(axis=2).min(axis=1)
    # on the path, once it was at its start
    on_path = int(np.argmax(np.abs(places - track[0]).max(axis=1) < 0.01))
    assert away[on_path:].max() < 0.03


@pytest.mark.soak
def test_a_node_that_is_killed_at_random_instants_leaves_the_arm_on_its_path(
    cell, tmp_path, request
):
    cell.node.stop()
    for share in np.random.default_rng(2).uniform(
        0.01, 0.85, request.config.getoption('--instants')
    ):
        # a node that was killed is its namesake until it is missed
        cell.node = cell.start_node(direct=True, **missed_soon(tmp_path))
        cell.dry_run_until(0)
        del cell.states[:-1]
        kill(cell, share)
        cell.require_limits()
        cell.require_distances()
    cell.node = cell.start_node(direct=True)
    cell.dry_run_until(0)


def test_a_node_that_is_killed_leaves_a_controller_that_finishes_the_path(cell, tmp_path):
    parameters = {'use_sim_time': True, 'output': str(tmp_path)}
    recorder = cell.ros.start('recorder', parameters=parameters)
    cell.listen_directly()
    kill(cell, 0.2, record=True, recording_name='cut', speed=0.5)
    # nobody stops the recorder, so it goes on until it is ended itself
    assert recorder.stop() == 0
    with AnyReader([tmp_path / 'cut']) as bag:
        states = [bag.deserialize(data, link.msgtype) for link, _, data in bag.messages()]
    np.testing.assert_allclose(states[-1].position, cell.path.position[-1], atol=5e-3)
