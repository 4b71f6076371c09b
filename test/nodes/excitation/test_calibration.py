# SPDX-License-Identifier: Apache-2.0
"""Calibrations of the simulated robot: action ``~/calibrate``, and the command."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest
import yaml

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from robot_identification_msgs.action import Calibrate
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

ROOT = Path(__file__).resolve().parents[3]
PLANAR = str(ROOT / 'urdf' / 'zollo_planar_2r.urdf')
CODES = Calibrate.Result
NAME = 'excitation/calibrate'


@pytest.fixture
def robot(ros, tmp_path):
    """Give the nodes with a simulated robot that moves."""
    clock = {'use_sim_time': True}
    robot = {'robot_description': PLANAR, 'rate': 200.0, 'servo_rate': 200.0, 'clock_rate': 50.0}
    robot['real_time_factor'] = 2.0
    ros.start('simulation', parameters=robot, wait=False)
    bags = {**clock, 'output': str(tmp_path / 'bags')}
    ros.start('recorder', parameters=bags, wait=False)
    ros.start(
        'excitation',
        parameters={
            **clock, 'execute': True, 'planner.max_iterations': 40,
            'planner.duration': 6.0, 'calibration.output': str(tmp_path / 'calibrations'),
            # a busy machine may hold up any of the processes
            'stale_timeout': 5.0,
        },
    )  # fmt: skip
    return ros


@pytest.mark.timeout(300)
def test_a_calibration_moves_once_it_is_confirmed_and_goes_on_in_its_folder(robot, tmp_path):
    answers = []

    def confirm(feedback):
        asked = [f.phase for f in feedback if 'waits for ~/confirm' in f.phase]
        if len(set(asked)) > len(answers):
            answers.append(robot.call(SetBool, 'excitation/confirm', data=not answers))
        return False

    goal = {'folder': 'first', 'motions': 2, 'target': 0.01, 'confirm': True}
    status, result, feedback = robot.act(Calibrate, NAME, 200.0, confirm, **goal)
    assert [answer.success for answer in answers] == [True, True]
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, CODES.DECLINED)
    assert result.motions == 1 and result.duration == pytest.approx(3.0, abs=0.01)
    assert result.level and result.verdict
    assert 0 < len(result.open) <= result.essential
    phases = {f.phase for f in feedback}
    assert {'motion_1: planning', 'motion_1: executing 3 s'} <= phases
    folder = tmp_path / 'calibrations' / 'first'
    found = yaml.safe_load((folder / 'results' / 'result.yaml').read_text())
    assert found['identification']['relative_error'] < 5.0
    # what there is counts: no motion is executed
    status, result, feedback = robot.act(Calibrate, NAME, 100.0, folder='first', motions=1)
    assert result.motions == 1 and 'motion_1: planning' not in {f.phase for f in feedback}
    assert (status, result.error_code) in (
        (GoalStatus.STATUS_SUCCEEDED, CODES.NONE),
        (GoalStatus.STATUS_ABORTED, CODES.SPENT),
    )


@pytest.mark.timeout(200)
def test_a_canceled_calibration_brings_the_robot_to_rest(robot):
    states = []
    robot.node.create_subscription(JointState, 'joint_states', states.append, 10)

    def moving(feedback):
        executing = any('executing' in f.phase for f in feedback)
        return executing and states and max(map(abs, states[-1].velocity)) > 0.3

    status, result, _ = robot.act(Calibrate, NAME, 100.0, moving)
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, CODES.CANCELED)
    robot.spin(0.5)
    assert max(map(abs, states[-1].velocity)) < 0.01


def test_refusals_name_the_reason(ros, tmp_path):
    ros.start('excitation', parameters={'robot_description': PLANAR, 'planner.max_iterations': 5})
    assert not ros.call(SetBool, 'excitation/confirm', data=True).success
    for goal, code, words in (
        ({'folder': '../outside'}, CODES.INVALID_SETTINGS, "folder is '../outside'"),
        ({'speed': 2.0}, CODES.INVALID_SETTINGS, "'speed' is 2"),
        ({'target': -1.0}, CODES.INVALID_SETTINGS, 'target'),
        ({'duration': 0.1}, CODES.INVALID_SETTINGS, 'duration'),
        ({}, CODES.FAILED, 'execute is false'),
    ):
        ros.set_parameter('excitation', 'calibration.output', str(tmp_path))
        _, result, _ = ros.act(Calibrate, NAME, **goal)
        assert result.error_code == code and words in result.error_msg, result.error_msg
    ros.set_parameter('excitation', 'calibration.experiment', 'none.yaml')
    _, result, _ = ros.act(Calibrate, NAME)
    assert result.error_code == CODES.INVALID_SETTINGS and 'none.yaml' in result.error_msg
    # the command plans, and says in one line why the node does not move
    done = calibrate(tmp_path / 'out', iterations=5)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith('error: ')]
    assert len(errors) == 1 and 'execute is false' in errors[0]


def calibrate(folder, iterations=60):
    """Run the command, whose nodes are those in the test's own domain."""
    command = [
        sys.executable, '-m', 'robot_identification.cli', 'calibrate', PLANAR,
        '--out', str(folder), '--duration', '3', '--motions', '1',
        '--set', f'planner.max_iterations={iterations}',
    ]  # fmt: skip
    return subprocess.run(
        command,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
        timeout=150,
    )


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_motion_is_executed_recorded_and_identified(robot, tmp_path):
    done = calibrate(tmp_path / 'out')
    assert 'Traceback' not in done.stderr
    assert done.returncode in (0, 4), done.stderr
    assert 'motion_1: executing 3 s' in done.stdout
    entry = yaml.safe_load((tmp_path / 'out' / 'motion_1' / 'recording.yaml').read_text())
    bag = Path(entry['file'])
    assert bag.parent == tmp_path / 'bags' and list(bag.glob('*.mcap'))
    result = yaml.safe_load((tmp_path / 'out' / 'results' / 'result.yaml').read_text())
    assert result['identification']['relative_error'] < 5.0
