# SPDX-License-Identifier: Apache-2.0
"""The simulation node over DDS: what it publishes, takes and refuses, and how it ends."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

JOINTS = [f'joint_{i}' for i in range(1, 7)]
START = 1.0
"""Simulated time at the start [s]."""


def stamp(message):
    return message.header.stamp.sec + message.header.stamp.nanosec * 1e-9


def nanoseconds(message):
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def joint_states(ros, topic='joint_states'):
    from robot_identification.nodes.common import JOINT_STATES
    from sensor_msgs.msg import JointState

    messages = ros.subscribe(JointState, topic, JOINT_STATES)
    ros.wait_until(lambda: messages, 60.0, 'joint states')
    return messages


def trajectory(target, seconds=0.5, joints=JOINTS, start=None, **extra):
    """One point with zero velocity and acceleration."""
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    point = JointTrajectoryPoint(
        positions=list(target),
        velocities=[0.0] * len(target),
        accelerations=[0.0] * len(target),
    )
    point.time_from_start.sec = int(seconds)
    point.time_from_start.nanosec = round((seconds - int(seconds)) * 1e9)
    message = JointTrajectory(joint_names=list(joints), points=[point])
    if start is not None:
        message.header.stamp.sec = int(start)
        message.header.stamp.nanosec = round((start - int(start)) * 1e9)
    for name, value in extra.items():
        setattr(point, name, value)
    return message


def test_it_publishes_states_description_and_clock(ros):
    from rclpy.qos import qos_profile_sensor_data
    from rosgraph_msgs.msg import Clock
    from std_msgs.msg import String

    begun = time.monotonic()
    ros.start('simulation', parameters={'rate': 250.0})
    descriptions = ros.latched(String, 'robot_description')
    clocks = ros.subscribe(Clock, '/clock', qos_profile_sensor_data)
    states = joint_states(ros)
    ros.wait_until(lambda: descriptions and clocks and len(states) > 500, 60.0, 'two seconds')
    # a busy machine slows the simulated time, and nothing makes it go ahead
    assert stamp(states[-1]) - START < time.monotonic() - begun + 0.1

    assert '<robot name="demo_arm">' in descriptions[-1].data
    steps = np.diff([nanoseconds(m) for m in states])
    assert (steps == 4_000_000).all()  # none is lost, none is early
    message = states[-1]
    assert list(message.name) == JOINTS
    assert [len(message.position), len(message.velocity), len(message.effort)] == [6, 6, 6]
    assert abs(message.effort[1]) > 1e-3  # gravity on a slightly wrong model, and noise
    ticks = np.diff([m.clock.sec * 10**9 + m.clock.nanosec for m in clocks])
    assert (ticks > 0).all()
    assert np.median(ticks) == 4_000_000

    def together():
        now = clocks[-1].clock.sec + clocks[-1].clock.nanosec * 1e-9
        return now == pytest.approx(stamp(states[-1]), abs=0.2)

    ros.wait_until(together, 60.0, 'one time of clock and states')


def test_it_follows_trajectories_and_refuses_bad_ones(ros):
    process = ros.start('simulation', parameters={'seed': 3})
    states = joint_states(ros)
    target = [0.3, -0.2, 0.25, 0.1, -0.3, 0.2]

    assert ros.follow(trajectory(target[::-1], joints=JOINTS[::-1])).accepted
    ros.wait_until(lambda: abs(states[-1].position[0] - 0.3) < 0.005, 60.0, 'the target')
    ros.spin(0.5)
    np.testing.assert_allclose(states[-1].position, target, atol=0.01)
    steps = np.diff([stamp(m) for m in states])[:, None]
    assert np.abs(np.diff([m.position for m in states], axis=0) / steps).max() < 5.0  # no jump

    wrong = {
        "no joint 'elbow'": trajectory([1.0] * 6, joints=[*JOINTS[:5], 'elbow']),
        "joint 'joint_6' is missing": trajectory([1.0] * 5, joints=JOINTS[:5]),
        "position of joint 'joint_2' in point 0 is nan": trajectory([1.0, np.nan, 1, 1, 1, 1]),
        'it has no points': type(trajectory(target))(joint_names=JOINTS),
        'has 1 velocities': trajectory([1.0] * 6, velocities=[0.0]),
        'it is over': trajectory([1.0] * 6, start=0.001),
    }
    for reason, message in wrong.items():
        assert not ros.follow(message).accepted
        process.wait_for_output(reason, 60.0)
    ros.spin(0.3)
    np.testing.assert_allclose(states[-1].position, target, atol=0.01)
    assert process.returncode is None
    assert 'Traceback' not in process.output

    later = stamp(states[-1]) + 1.5
    assert ros.follow(trajectory([0.0] * 6, start=later)).accepted
    ros.wait_until(lambda: stamp(states[-1]) > later + 1.0, 60.0, 'the later trajectory')
    times = np.array([stamp(m) for m in states])
    before, after = (states[int(np.abs(times - later - t).argmin())] for t in (-0.01, 0.9))
    assert before.position[0] > 0.01
    assert after.position[0] == pytest.approx(0.0, abs=0.01)


def test_reset_and_truth(ros, tmp_path):
    from robot_identification.model.robot import Robot
    from robot_identification.nodes.simulation_node import DEMO_ARM
    from robot_identification.simulation import SimulationSettings, truth
    from std_srvs.srv import Trigger
    import yaml

    path = tmp_path / 'new' / 'truth.yaml'
    parameters = {'truth_file': str(path), 'seed': 5, 'perturbation': 0.2, 'coulomb': [2.0]}
    ros.start('simulation', parameters=parameters)
    states = joint_states(ros)
    settings = SimulationSettings(seed=5, perturbation=0.2, coulomb=(2.0,))
    expected = truth(Robot.from_urdf(DEMO_ARM), settings).as_dict()
    assert yaml.safe_load(path.read_text()) == pytest.approx(expected)

    assert ros.follow(trajectory([0.4] * 6)).accepted
    ros.wait_until(lambda: states[-1].position[0] > 0.2, 60.0, 'the motion')
    before = stamp(states[-1])
    answer = ros.call(Trigger, 'simulation/reset')
    assert answer.success
    # states of before may still be on their way
    ros.wait_until(lambda: np.abs(states[-1].position).max() < 5e-3, 60.0, 'the start')
    assert stamp(states[-1]) > before
    assert (np.diff([nanoseconds(m) for m in states]) > 0).all()


def test_terms_of_real_drives_are_parameters(ros, tmp_path):
    """Numbers for all joints, and lists of one a joint."""
    import yaml

    drives = {
        'load': [0.1],
        'breakaway': [0.02],
        'spring_sine': [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        'effort_delay': [0.0, 0.01, 0.02, 0.0, 0.0, 0.0],
        'effort_low_pass': 8.0,
        'base_tilt': [0.05, 0.0, 0.0],
    }
    file = tmp_path / 'truth.yaml'
    ros.start('simulation', parameters={'rate': 250.0, 'truth_file': str(file), **drives})
    joint_states(ros)
    values = yaml.safe_load(file.read_text())
    assert values['joint_3.fl'] == 0.1 and values['joint_3.ks'] == 3.0


def test_names_are_relative_and_parameters_are_read_only(ros):
    parameters = {'rate': 100, 'real_time_factor': 0.5, 'use_sim_time': True}
    begun = time.monotonic()
    ros.start('simulation', namespace='/cell', parameters=parameters)
    states = joint_states(ros, '/cell/joint_states')
    ros.spin(1.0)
    # at most; a busy machine is slower
    assert stamp(states[-1]) - START < 0.5 * (time.monotonic() - begun) + 0.1
    assert set(np.diff([nanoseconds(m) for m in states])) == {10_000_000}
    values = ros.get_parameters('/cell/simulation', 'rate', 'effort_noise', 'joints')
    assert values['rate'] == 100.0
    assert ros.set_parameter('/cell/simulation', 'rate', 50.0)[0] is False


def test_two_robots_in_one_domain_keep_to_themselves(ros):
    from rosgraph_msgs.msg import Clock
    from sensor_msgs.msg import JointState

    private = ('-r', '/clock:=clock')
    received = {}
    for name, start in (('left', 0.3), ('right', -0.4)):
        parameters = {
            'robot_description': 'package://robot_identification/urdf/zollo_planar_2r.urdf',
            'rate': 100.0,
            'initial_position': [start, 0.0],
        }
        ros.start('simulation', *private, parameters=parameters, namespace=f'/{name}')
        received[name] = (
            ros.subscribe(JointState, f'/{name}/joint_states', 1000),
            ros.subscribe(Clock, f'/{name}/clock', 1000),
        )
    ros.wait_until(lambda: all(len(m) > 20 for pair in received.values() for m in pair), 60.0)
    for name, place in (('left', 0.3), ('right', -0.4)):
        states, clock = received[name]
        assert all(abs(state.position[0] - place) < 0.1 for state in states)
        ticks = [message.clock.sec + 1e-9 * message.clock.nanosec for message in clock]
        assert ticks == sorted(ticks)
    assert ros.node.count_publishers('/clock') == 0


def test_without_real_time_it_still_answers(ros):
    from std_srvs.srv import Trigger

    ros.start('simulation', parameters={'real_time_factor': 0.0, 'rate': 100.0})
    states = joint_states(ros)
    first = stamp(states[-1])
    ros.wait_until(lambda: stamp(states[-1]) > first + 2.0, 60.0, 'two simulated seconds')
    assert ros.call(Trigger, 'simulation/reset').success


def test_the_pace_is_that_of_real_time_and_long_delays_are_lost(monkeypatch):
    from robot_identification.simulation.pace import CATCH_UP, Pace

    wall = [100.0]
    monkeypatch.setattr(time, 'monotonic', lambda: wall[0])
    monkeypatch.setattr(time, 'sleep', lambda seconds: wall.__setitem__(0, wall[0] + seconds))
    pace = Pace(0.002)

    def passed(periods):
        begin = wall[0]
        for _ in range(periods):
            pace.wait()
        return wall[0] - begin

    assert passed(1000) == pytest.approx(2.0)
    # a short delay is made up for, not at once
    wall[0] += 0.2
    assert passed(150) == pytest.approx(0.3 / CATCH_UP, rel=0.1)
    assert passed(1000) == pytest.approx(2.0 - 0.1, abs=0.01)
    assert pace.lost == 0.0
    wall[0] += 3.0
    passed(1000)
    assert pace.lost == pytest.approx(3.0, abs=0.01)
    assert passed(1000) == pytest.approx(2.0)


def test_a_machine_that_is_too_slow_slows_the_time_and_loses_nothing(ros):
    # so few that this process, which shares the slow machine, is not the one that loses them
    process = ros.start('simulation', parameters={'real_time_factor': 1000.0, 'rate': 5.0})
    states = joint_states(ros)
    ros.wait_until(lambda: 'too slow' in process.output, 60.0, 'the warning')
    since = len(states)
    ros.wait_until(lambda: len(states) > since + 3, 60.0, 'states after it')
    assert set(np.diff([nanoseconds(m) for m in states])) == {200_000_000}
    assert process.output.count('too slow') == 1


@pytest.mark.parametrize('parameter', ['urdf', 'robot_description'])
def test_a_robot_of_ones_own(ros, parameter):
    from std_msgs.msg import String

    arguments = {parameter: 'package://robot_identification/urdf/szabo_3r.urdf'}
    ros.start('simulation', parameters=arguments)
    states = joint_states(ros)
    assert list(states[-1].name) == JOINTS[:3]
    descriptions = ros.latched(String, 'robot_description')
    ros.wait_until(lambda: descriptions, 60.0, 'description')
    assert '<robot name="szabo_3r">' in descriptions[0].data


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly(ros, number):
    process = ros.start('simulation')
    joint_states(ros)
    assert process.stop(number, timeout=30.0) == 0
    assert 'Traceback' not in process.output


def test_wrong_parameters_end_it_with_one_line(ros):
    cases = [
        ({'rate': 300.0}, 'a rate of 300 Hz does not divide the servo rate'),
        ({'robot_description': '/nowhere.urdf'}, "URDF file '/nowhere.urdf' does not exist"),
        ({'viscous': [1.0, 2.0]}, "'viscous' has 2 values, but the robot has 6 joints"),
        ({'initial_position': [9.0]}, "'initial_position' of joint 'joint_1' is 9"),
        ({'joints': ['elbow']}, "no moving joint 'elbow'"),
        ({'truth_file': '/proc/none/x.yaml'}, "cannot write truth_file '/proc/none/x.yaml'"),
    ]
    processes = [ros.start('simulation', parameters=each, wait=False) for each, _ in cases]
    for process, (_, reason) in zip(processes, cases, strict=True):
        assert process.wait(60.0) == 2
        errors = [line for line in process.lines if line.startswith('error: ')]
        assert len(errors) == 1
        assert reason in errors[0]
        assert 'Traceback' not in process.output
