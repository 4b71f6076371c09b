# SPDX-License-Identifier: Apache-2.0
"""The excitation node over DDS: plans, refusals, and motions of the simulated arm."""

from pathlib import Path
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from robot_identification.excitation.points import point_to_point, to_points
from robot_identification.nodes.common import LATCHED
from robot_identification.nodes.motion_messages import (
    time_message,
    trajectory_message,
    trajectory_points,
)
from robot_identification_msgs.action import Excite, PlanExcitation
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

URDF = Path(__file__).resolve().parents[2] / 'urdf'
PLANAR = str(URDF / 'zollo_planar_2r.urdf')
ARM = str(URDF / 'demo_arm.urdf')
JOINTS = tuple(f'joint_{i}' for i in range(1, 7))
QUICK = {'planner.duration': 4.0, 'planner.harmonics': 4, 'planner.max_iterations': 3}


def move(goal, start=None, speed=1.0):
    """Message of a quintic motion, from zero unless said otherwise."""
    joints = JOINTS[: len(goal)]
    start = np.zeros(len(goal)) if start is None else start
    limits = np.full(len(goal), 1.5 * speed), np.full(len(goal), 4.0 * speed)
    points = to_points(point_to_point(joints, start, goal, *limits), 50.0)
    m = points.motion
    return trajectory_message(joints, points.time, m.position, m.velocity, m.acceleration)


def place_at_end(message):
    return message.points[-1].positions[0]


def excite(ros, **fields):
    return ros.act(Excite, 'excitation/excite', **fields)


@pytest.fixture
def arm(ros, request):
    """Start a simulated arm; `arm` is its process, `states` are its joint states so far."""
    urdf = getattr(request, 'param', PLANAR)
    ros.arm = ros.start('simulation', parameters={'robot_description': urdf, 'rate': 200.0})
    ros.states = ros.subscribe(JointState, 'joint_states')
    ros.wait_until(lambda: ros.states, what='joint states')
    return ros


def start_node(ros, **parameters):
    node = ros.start(
        'excitation',
        parameters={
            'use_sim_time': True,
            'execute': True,
            'move_speed': 0.8,
            # a busy machine may hold up a simulation; the driver that dies is told all the same
            'stale_timeout': 1.0,
            **QUICK,
            **parameters,
        },
    )
    ros.wait_until(lambda: 'with joints' in node.output, what='the robot in excitation')
    return node


def is_at_rest(ros):
    ros.states.clear()
    ros.wait_until(lambda: len(ros.states) > 40, what='joint states')
    positions = np.array([state.position for state in ros.states])
    return float(np.ptp(positions, axis=0).max()) < 2e-3


# ------------------------------------------------------------------------------------------ plans


def test_a_plan_is_made_within_the_limits_and_its_progress_told(ros):
    ros.start('excitation', parameters={'robot_description': PLANAR, 'planner.duration': 5.0})
    status, result, feedback = ros.act(
        PlanExcitation, 'excitation/plan', harmonics=5, max_iterations=20, margin=0.2
    )
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, '')
    points = trajectory_points(result.trajectory, ('joint_1', 'joint_2'))
    assert points.time[-1] == pytest.approx(5.0)
    assert np.abs(points.velocity).max() <= 0.8 * 3.0
    assert not points.velocity[[0, -1]].any() and not points.acceleration[[0, -1]].any()
    assert 1.0 < result.condition_number < 20.0
    assert list(result.criterion_history) == sorted(result.criterion_history, reverse=True)
    assert feedback[-1].iteration == len(result.criterion_history)
    again = ros.act(PlanExcitation, 'excitation/plan', harmonics=5, max_iterations=20, margin=0.2)[
        1
    ]
    assert again.plan_id != result.plan_id
    assert again.trajectory.points == result.trajectory.points


def test_plans_that_cannot_be_made_are_answered_with_the_reason(ros):
    ros.start('excitation', parameters={'robot_description': PLANAR, **QUICK})
    codes = PlanExcitation.Result
    for code, words, fields in (
        (codes.INVALID_SETTINGS, ("'criterion'", 'condition_number'), {'criterion': 'beauty'}),
        (codes.INVALID_SETTINGS, ("'margin'",), {'margin': 1.5}),
        (codes.INVALID_SETTINGS, ("'duration'", 'finite'), {'duration': float('nan')}),
    ):
        status, result, _ = ros.act(PlanExcitation, 'excitation/plan', **fields)
        assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, code)
        assert all(word in result.error_msg for word in words)
    assert ros.set_parameter('excitation', 'planner.velocity_limits', [1.0, 0.0])[0]
    _, result, _ = ros.act(PlanExcitation, 'excitation/plan')
    assert result.error_code == codes.INFEASIBLE
    assert "velocity limit of joint 'joint_2' is 0" in result.error_msg
    assert ros.set_parameter('excitation', 'planner.velocity_limits', [1.0, 1.0])[0]
    assert ros.act(PlanExcitation, 'excitation/plan')[1].error_code == codes.NONE


def test_planning_needs_a_robot_and_can_be_canceled(ros):
    ros.start('excitation')
    codes = PlanExcitation.Result
    _, result, _ = ros.act(PlanExcitation, 'excitation/plan')
    assert result.error_code == codes.NO_MODEL
    assert '/robot_description' in result.error_msg
    ros.publish_description(Path(ARM).read_text())
    ros.wait_until(
        lambda: 'with joints' in ros.processes[-1].output, what='the robot in excitation'
    )
    begin = time.monotonic()
    status, result, _ = ros.act(
        PlanExcitation, 'excitation/plan', cancel_when=bool, max_iterations=100000
    )
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, codes.CANCELED)
    assert time.monotonic() - begin < 20.0
    # a node that plans ends as quickly
    client = ActionClient(ros.node, PlanExcitation, 'excitation/plan')
    ros.wait_until(client.server_is_ready)
    sending = client.send_goal_async(PlanExcitation.Goal(max_iterations=100000))
    ros.wait_until(sending.done, what='acceptance of the plan')
    ros.spin(0.5)
    begin = time.monotonic()
    assert ros.processes[-1].stop() == 0
    assert time.monotonic() - begin < 5.0
    client.destroy()


# --------------------------------------------------------------------------------------- refusals


def test_nothing_moves_unless_allowed(arm):
    node = start_node(arm, execute=False)
    goal = move(np.full(2, 0.3))
    status, result, _ = excite(arm, trajectory=goal)
    assert (status, result.error_code) == (
        GoalStatus.STATUS_ABORTED,
        Excite.Result.EXECUTION_DISABLED,
    )
    long = move(np.full(2, 0.3))
    long.points[-1].time_from_start.sec = 100_000_000
    _, result, _ = excite(arm, trajectory=long, dry_run=True)
    assert result.error_code == Excite.Result.INVALID_TRAJECTORY
    assert 'the trajectory takes 1e+08 s' in result.error_msg
    sent = arm.subscribe(JointTrajectory, 'joint_trajectory')
    status, result, _ = excite(arm, trajectory=goal, dry_run=True)
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, '')
    assert is_at_rest(arm) and np.abs(arm.states[-1].position).max() < 0.02
    assert not sent
    assert node.stop() == 0


@pytest.mark.parametrize('arm', [ARM], indirect=True)
def test_what_must_not_be_executed_is_refused_with_the_reason(arm):
    start_node(arm, **{'planner.floor': 0.0, 'move_to_start': False})
    sent = arm.subscribe(JointTrajectory, 'joint_trajectory')
    codes = Excite.Result
    fast = move(np.full(6, 1.0), speed=2.5)
    wrong_joint = move(np.full(6, 0.3))
    wrong_joint.joint_names[2] = 'elbow'
    late = move(np.full(6, 0.3))
    late.points[-1].velocities[0] = 0.5
    # reaching down to the floor, and lying on it
    down = move(np.array([0.0, 2.0, 0.0, 0.0, 0.0, 0.0]))
    away = move(np.full(6, 0.3), start=np.full(6, 0.1))
    for code, words, fields in (
        (codes.UNKNOWN_PLAN, ("'plan_9'",), {'plan_id': 'plan_9'}),
        (codes.INVALID_TRAJECTORY, ('neither',), {'trajectory': JointTrajectory()}),
        (codes.INVALID_TRAJECTORY, ('joint_3',), {'trajectory': wrong_joint}),
        (codes.INVALID_TRAJECTORY, ("'joint_1'", 'end'), {'trajectory': late}),
        (codes.LIMITS_VIOLATED, ("velocity of joint 'joint_2'", '2.2'), {'trajectory': fast}),
        (codes.COLLISION, ("'floor'", 'tool_flange'), {'trajectory': down}),
        (codes.NOT_AT_START, ('joint_', 'move_to_start'), {'trajectory': away}),
    ):
        status, result, _ = excite(arm, **fields)
        assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, code), result.error_msg
        assert all(word in result.error_msg for word in words), result.error_msg
    assert is_at_rest(arm) and not sent


def test_without_joint_states_nothing_begins(ros):
    ros.start('excitation', parameters={'robot_description': ARM, 'execute': True})
    _, result, _ = excite(ros, trajectory=move(np.full(6, 0.3)))
    assert result.error_code == Excite.Result.STALE_STATE
    assert '/joint_states' in result.error_msg


# ---------------------------------------------------------------------------------------- motions


def test_a_plan_is_executed_from_planning_to_recording(arm, tmp_path):
    start_node(arm, **{'planner.start': [0.3, -0.2]})
    arm.start('recorder', parameters={'use_sim_time': True, 'output': str(tmp_path)})
    plan = arm.act(PlanExcitation, 'excitation/plan')[1]
    assert plan.error_code == 0, plan.error_msg
    arm.states.clear()
    status, result, feedback = excite(
        arm, plan_id=plan.plan_id, record=True, recording_name='motion'
    )
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, '')
    phases = [message.phase for message in feedback]
    assert phases.index('moving_to_start') < phases.index('exciting')
    progress = [message.progress for message in feedback if message.phase == 'exciting']
    assert progress == sorted(progress) and progress[-1] > 0.9
    assert 0.0 < result.max_tracking_error < 0.1
    assert Path(result.recording_path).parent == tmp_path
    assert list(Path(result.recording_path).glob('*.mcap'))
    # what the arm did is what was planned
    stamps = np.array([s.header.stamp.sec + 1e-9 * s.header.stamp.nanosec for s in arm.states])
    measured = np.array([s.position for s in arm.states])
    points = trajectory_points(plan.trajectory, JOINTS[:2])
    moving = stamps > stamps[-1] - 5.0
    for joint in range(2):
        assert measured[moving, joint].max() == pytest.approx(
            points.position[:, joint].max(), abs=0.03
        )


def test_a_plan_through_points_is_played(arm):
    start_node(
        arm,
        **{
            'planner.method': 'points',
            'planner.points.equations': 10,
            'planner.points.starts': 4,
            'planner.points.rounds': 0,
        },
    )
    status, plan, _ = arm.act(PlanExcitation, 'excitation/plan')
    assert (status, plan.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    status, result, feedback = excite(arm, plan_id=plan.plan_id)
    assert (status, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, '')
    assert max(message.tracking_error for message in feedback) < 0.1
    assert is_at_rest(arm)


def test_cancel_brings_the_arm_to_rest_along_the_path(arm):
    start_node(arm, **{'planner.duration': 8.0})
    plan = arm.act(PlanExcitation, 'excitation/plan')[1]
    status, result, feedback = arm.act(
        Excite,
        'excitation/excite',
        plan_id=plan.plan_id,
        cancel_when=lambda feedback: feedback and feedback[-1].progress > 0.4,
    )
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Excite.Result.CANCELED)
    assert feedback[-1].progress < 0.8
    assert is_at_rest(arm)
    path = trajectory_points(plan.trajectory, JOINTS[:2]).position
    place = np.array(arm.states[-1].position)
    assert np.abs(path - place).max(axis=1).min() < 0.05
    assert np.abs(path[0] - place).max() > 0.1
    # and the node goes on: the next motion begins with the way back to the start
    status, result, feedback = excite(arm, plan_id=plan.plan_id)
    assert result.error_code == 0, result.error_msg
    assert 'moving_to_start' in [message.phase for message in feedback]


def test_one_motion_at_a_time(arm):
    start_node(arm)
    goal = Excite.Goal(trajectory=move(np.full(2, 0.8), speed=0.5))
    client = ActionClient(arm.node, Excite, 'excitation/excite')
    arm.wait_until(client.server_is_ready)
    sending = client.send_goal_async(goal)
    arm.wait_until(sending.done)
    first = sending.result().get_result_async()
    arm.spin(0.3)
    _, second, _ = excite(arm, trajectory=move(np.full(2, 0.1)))
    assert second.error_code == Excite.Result.BUSY
    arm.wait_until(first.done, 20.0)
    assert first.result().result.error_code == Excite.Result.NONE
    client.destroy()


def test_a_driver_that_dies_ends_the_motion(arm):
    start_node(arm, stale_timeout=0.4)
    killed = []

    def kill(feedback):
        if not killed and feedback and feedback[-1].phase == 'exciting':
            killed.append(arm.arm.stop(signal.SIGKILL))
        return False

    stops = arm.subscribe(JointTrajectory, 'joint_trajectory')
    status, result, _ = arm.act(
        Excite, 'excitation/excite', trajectory=move(np.full(2, 2.0), speed=0.4), cancel_when=kill
    )
    assert killed
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Excite.Result.STALE_STATE)
    # the stop was sent all the same: a controller may live where its state publisher does not
    ends = [place_at_end(message) for message in stops]
    assert ends[-1] < max(ends) < 2.0


def test_joint_states_that_tell_nothing_count_as_none(ros):
    ros.start('excitation', parameters={'robot_description': PLANAR, 'execute': True})
    driver = ros.publisher(JointState, 'joint_states', wait_for_subscribers=1)
    goal = move(np.full(2, 0.3))
    stamp = ros.node.get_clock().now().to_msg()
    for words, fields in (
        ("'joint_2' is not in the joint states", {'name': ['joint_1'], 'position': [0.0]}),
        ('no finite positions', {'name': ['joint_1', 'joint_2'], 'position': [0.0, np.nan]}),
    ):
        message = JointState(**fields)
        message.header.stamp = stamp
        timer = ros.node.create_timer(0.02, lambda m=message: driver.publish(m))
        _, result, _ = excite(ros, trajectory=goal)
        assert result.error_code == Excite.Result.STALE_STATE
        assert words in result.error_msg
        ros.node.destroy_timer(timer)
    # a driver that counts something else: no motion of days, and no check of it
    far = JointState(name=['joint_1', 'joint_2'], position=[1e9, 0.0])
    ros.node.create_timer(0.02, lambda: driver.publish(far))
    _, result, _ = excite(ros, trajectory=goal)
    assert result.error_code == Excite.Result.NOT_AT_START
    assert "joint 'joint_1' is 1e+09 away" in result.error_msg


def test_a_robot_that_does_not_follow_is_stopped(arm):
    start_node(arm, tracking_tolerance=1e-4, tracking_lag=0.0)
    status, result, _ = excite(arm, trajectory=move(np.full(2, 1.0)))
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Excite.Result.TRACKING_ERROR)
    assert 'tracking_tolerance' in result.error_msg
    assert is_at_rest(arm)


def test_a_robot_that_is_put_elsewhere_is_halted_there(arm):
    start_node(arm)
    reset = arm.node.create_client(Trigger, 'simulation/reset')
    sent = arm.subscribe(JointTrajectory, 'joint_trajectory')
    asked = []

    def put_back(feedback):
        if not asked and feedback and feedback[-1].progress > 0.6:
            asked.append(reset.call_async(Trigger.Request()))
        return False

    _, result, _ = arm.act(
        Excite, 'excitation/excite', trajectory=move(np.full(2, 2.0)), cancel_when=put_back
    )
    assert asked and result.error_code == Excite.Result.TRACKING_ERROR
    # a stop along the path would begin with a leap to where the robot should have been
    places = np.array([point.positions for point in sent[-1].points])
    assert np.abs(places).max() < 0.5
    assert is_at_rest(arm)


def test_the_clock_of_the_driver_is_set_back(ros):
    ros.start('excitation', parameters={'robot_description': PLANAR, 'execute': True})
    driver = ros.publisher(JointState, 'joint_states', wait_for_subscribers=1)
    sent = ros.subscribe(JointTrajectory, 'joint_trajectory')
    begin = time.monotonic()

    def publish():
        stamp = 1000.0 + time.monotonic() - begin - (500.0 if sent else 0.0)
        message = JointState(name=['joint_1', 'joint_2'], position=[0.0, 0.0])
        message.header.stamp = time_message(round(1e9 * stamp))
        driver.publish(message)

    ros.node.create_timer(0.01, publish)
    _, result, _ = excite(ros, trajectory=move(np.full(2, 0.3)))
    assert result.error_code == Excite.Result.STALE_STATE
    assert 'jump by -' in result.error_msg
    assert sent[-1].header.stamp.sec < 600
    assert not np.array([point.positions for point in sent[-1].points]).any()


def test_the_node_leaves_a_robot_at_rest_and_tells_its_client(arm):
    node = start_node(arm)
    feedback = []
    client = ActionClient(arm.node, Excite, 'excitation/excite')
    arm.wait_until(client.server_is_ready)
    sending = client.send_goal_async(
        Excite.Goal(trajectory=move(np.full(2, 1.0), speed=0.5)),
        feedback_callback=lambda message: feedback.append(message.feedback),
    )
    arm.wait_until(sending.done)
    future = sending.result().get_result_async()
    arm.wait_until(lambda: feedback and feedback[-1].progress > 0.3, 20.0)
    assert node.stop(signal.SIGINT) == 0
    arm.wait_until(future.done)
    assert future.result().result.error_code == Excite.Result.CANCELED
    assert 'node ends' in future.result().result.error_msg
    assert is_at_rest(arm)
    assert 0.1 < arm.states[-1].position[0] < 0.95
    client.destroy()


def test_without_a_robot_description_nothing_is_checked_and_the_code_says_so(ros):
    ros.start('excitation', parameters=QUICK)
    _, plan, _ = ros.act(PlanExcitation, 'excitation/plan')
    assert plan.error_code == PlanExcitation.Result.NO_MODEL
    _, result, _ = excite(ros, plan_id='plan_1', dry_run=True)
    assert result.error_code == Excite.Result.NO_MODEL
    assert 'robot_description' in result.error_msg


def test_without_a_controller_nothing_is_sent_and_the_code_says_so(arm):
    start_node(arm, controller_topic='nobody/joint_trajectory')
    _, result, _ = excite(arm, trajectory=move([0.2, 0.1]))
    assert result.error_code == Excite.Result.NO_CONTROLLER
    assert '/nobody/joint_trajectory' in result.error_msg


def test_a_description_that_arrives_just_after_the_goal_is_waited_for(ros):
    publisher = ros.publisher(String, 'robot_description', LATCHED)
    ros.start('excitation', parameters=QUICK)
    description = String(data=Path(PLANAR).read_text())
    timer = threading.Timer(1.0, publisher.publish, [description])
    timer.start()
    _, result, _ = ros.act(PlanExcitation, 'excitation/plan')
    timer.join()
    assert result.error_code == PlanExcitation.Result.NONE, result.error_msg
