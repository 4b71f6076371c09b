# SPDX-License-Identifier: Apache-2.0
"""The excitation node over DDS: plans, and why there is none."""

from pathlib import Path
import threading
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from robot_identification.nodes.common import LATCHED
from robot_identification.nodes.common.messages import trajectory_points
from robot_identification_msgs.action import PlanExcitation
from std_msgs.msg import String

URDF = Path(__file__).resolve().parents[3] / 'urdf'
PLANAR = str(URDF / 'zollo_planar_2r.urdf')
ARM = str(URDF / 'demo_arm.urdf')
QUICK = {'planner.duration': 4.0, 'planner.harmonics': 4, 'planner.max_iterations': 3}


def test_a_plan_is_made_within_the_limits_and_its_progress_told(ros):
    ros.start('excitation', parameters={'robot_description': PLANAR, 'planner.duration': 5.0})
    asked = {'harmonics': 5, 'max_iterations': 20, 'margin': 0.2, 'return_points': True}
    status, result, feedback = ros.act(PlanExcitation, 'excitation/plan', **asked)
    assert (status, result.error_code, result.error_msg) == (GoalStatus.STATUS_SUCCEEDED, 0, '')
    points = trajectory_points(result.trajectory, ('joint_1', 'joint_2'))
    assert points.time[-1] == result.planned_duration == pytest.approx(5.0)
    assert np.abs(points.velocity).max() <= 0.8 * 3.0
    assert not points.velocity[[0, -1]].any() and not points.acceleration[[0, -1]].any()
    assert 1.0 < result.condition_number < 20.0
    # its links are joined to each other: there are no distances to check
    assert (result.level, result.verdict.partition(':')[0]) == (
        'weak',
        'Within all limits, collisions checked in part',
    )
    assert list(result.criterion_history) == sorted(result.criterion_history, reverse=True)
    assert feedback[-1].iteration == len(result.criterion_history)
    again = ros.act(PlanExcitation, 'excitation/plan', **asked)[1]
    assert again.plan_id != result.plan_id
    assert again.trajectory.points == result.trajectory.points


def test_a_plan_is_answered_by_its_name_and_file_unless_the_points_are_asked_for(ros, tmp_path):
    node = ros.start('excitation', parameters={'robot_description': PLANAR, **QUICK})
    assert ros.set_parameter('excitation', 'output', str(tmp_path / 'here' / 'plans'))[0]
    full = ros.act(PlanExcitation, 'excitation/plan', return_points=True)[1]
    short = ros.act(PlanExcitation, 'excitation/plan')[1]
    assert not short.trajectory.points
    assert short.trajectory.joint_names == ['joint_1', 'joint_2']
    assert short.planned_duration == pytest.approx(4.0)
    path = Path(short.path)
    assert path.parent == tmp_path / 'here' / 'plans' and path.name.startswith('plan_2_')
    assert [file.suffix for file in path.parent.iterdir()] == ['.csv', '.csv']
    lines = path.read_text().splitlines()
    assert lines[0].split(',')[::2] == [
        'time', 'joint_2.position', 'joint_2.velocity', 'joint_2.acceleration'
    ]  # fmt: skip
    points = trajectory_points(full.trajectory, ('joint_1', 'joint_2'))
    told = np.column_stack([points.time, points.position, points.velocity, points.acceleration])
    np.testing.assert_allclose(np.loadtxt(lines[1:], delimiter=','), told, atol=1e-8)

    # without the file the plan is as good
    (tmp_path / 'file').touch()
    for output, words in ((str(tmp_path / 'file'), 'plan_3 is not on disk'), ('', 'plan_4')):
        assert ros.set_parameter('excitation', 'output', output)[0]
        result = ros.act(PlanExcitation, 'excitation/plan')[1]
        assert (result.error_code, result.path) == (0, '')
        node.wait_for_output(words)
    assert 'correct the parameter output' in node.output
    assert 'plan_4 is not' not in node.output


def test_plans_that_cannot_be_made_are_answered_with_the_reason(ros):
    ros.start('excitation', parameters={'robot_description': PLANAR, **QUICK})
    codes = PlanExcitation.Result
    for code, words, fields in (
        (codes.INVALID_SETTINGS, ("'criterion'", 'deviations'), {'criterion': 'beauty'}),
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


def test_planning_can_be_canceled(ros):
    ros.start('excitation')
    codes = PlanExcitation.Result
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
    assert ros.processes[-1].stop() == 0
    assert 'could not finish' not in ros.processes[-1].output
    client.destroy()


def test_a_description_that_arrives_just_after_the_goal_is_waited_for(ros):
    publisher = ros.publisher(String, 'robot_description', LATCHED)
    ros.start('excitation', parameters=QUICK)
    description = String(data=Path(PLANAR).read_text())
    timer = threading.Timer(1.0, publisher.publish, [description])
    timer.start()
    _, result, _ = ros.act(PlanExcitation, 'excitation/plan')
    timer.join()
    assert result.error_code == PlanExcitation.Result.NONE, result.error_msg
