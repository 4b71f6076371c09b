# SPDX-License-Identifier: Apache-2.0
"""Elastic joints over DDS: simulated, recorded on two topics, identified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.results.stored_result import read_result
from rosbags.highlevel import AnyReader
from scipy.interpolate import CubicSpline

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')
pytest.importorskip('mujoco')

GEARS = [80.0, 60.0, -50.0]
ELASTIC = {'enabled': True, 'gear_ratios': GEARS, 'motor_position': 'motor'}
ROBOT = 'package://robot_identification/urdf/szabo_3r.urdf'
SECONDS = 6.0
TRUTH = {
    'stiffness': [2500.0, 2500.0, 1500.0],
    'rotor_inertia': [0.3, 0.2, 0.1],
    'viscous': [1.5, 1.0, 0.5],
    'coulomb': [2.0, 1.5, 1.0],
    'offset': [0.2, -0.1, 0.1],
}
SIMULATION = {
    'urdf': ROBOT,
    'elastic': ELASTIC,
    **TRUTH,
    'rate': 250.0,
    'effort_noise_std': [0.05],
    'real_time_factor': 3.0,
    'clock_rate': 50.0,
}


def trajectory():
    """Return a motion from rest to rest, as points 20 ms apart."""
    from robot_identification.nodes.common.messages import time_message
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    time = np.linspace(0.0, SECONDS, 301)
    rng = np.random.default_rng(5)
    position = np.zeros((time.size, 3))
    for k in (1, 2, 3, 4):
        a, b = rng.uniform(-0.25, 0.25, (2, 3))
        angle = 2.0 * np.pi * k * time[:, None] / SECONDS
        position += a * np.sin(angle) + b * np.cos(angle)
    ramp = np.clip(time, 0.0, 1.0) * np.clip(SECONDS - time, 0.0, 1.0)
    position *= (ramp**3 * (10.0 - 15.0 * ramp + 6.0 * ramp**2))[:, None]
    spline = CubicSpline(time, position, bc_type='clamped')
    message = JointTrajectory(joint_names=['joint_1', 'joint_2', 'joint_3'])
    rows = zip(time, spline(time), spline(time, 1), spline(time, 2), strict=True)
    for t, q, v, a in rows:
        point = JointTrajectoryPoint(
            positions=q.tolist(), velocities=v.tolist(), accelerations=a.tolist()
        )
        duration = time_message(round(1e9 * t))
        point.time_from_start.sec, point.time_from_start.nanosec = duration.sec, duration.nanosec
        message.points.append(point)
    return message


def seconds(message):
    """Return the stamp of a message [s]."""
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def hears_both(statuses):
    """Return whether the latest messages of a recording are more than one topic has."""
    if len(statuses) < 2:
        return False
    before, now = statuses[-2:]
    messages, duration = now.messages - before.messages, now.duration - before.duration
    return duration > 0.0 and messages > 1.5 * SIMULATION['rate'] * duration


@pytest.fixture
def recorded(ros, tmp_path):
    """Let the simulation move while both topics are recorded; return the bag."""
    from robot_identification_msgs.msg import RecorderStatus
    from robot_identification_msgs.srv import StartRecording, StopRecording
    from sensor_msgs.msg import JointState

    simulation = ros.start('simulation', parameters=SIMULATION)
    parameters = {'output': str(tmp_path / 'bags'), 'topics': ['joint_states', 'motor_states']}
    ros.start('recorder', parameters=parameters)
    started = ros.call(StartRecording, '/recorder/start', name='both')
    assert started.success, started.message
    statuses = ros.latched(RecorderStatus, '/recorder/status')
    ros.wait_until(lambda: hears_both(statuses), 60.0, 'records of both topics')
    states = ros.subscribe(JointState, 'joint_states')
    ros.wait_until(lambda: states, what='joint states')
    assert ros.follow(trajectory()).accepted
    end = seconds(states[-1]) + SECONDS + 1.0
    # by the simulation's own clock: on a busy machine it is slower than asked for
    ros.wait_until(lambda: seconds(states[-1]) > end, 60.0, 'end of the motion')
    stopped = ros.call(StopRecording, '/recorder/stop')
    assert stopped.success and stopped.dropped == 0, stopped.message
    assert simulation.stop() == 0
    return stopped.path


def test_both_sides_are_recorded_and_identified(ros, recorded, identify, tmp_path):
    from robot_identification_msgs.srv import ExportUrdf, Validate

    with AnyReader([Path(recorded)]) as reader:
        counts = {c.topic: c.msgcount for c in reader.connections}
        names = {
            c.topic: list(reader.deserialize(data, c.msgtype).name)
            for c, _, data in reader.messages()
        }
    assert set(counts) == {'/joint_states', '/motor_states'}
    assert min(counts.values()) > 250 * SECONDS
    assert names['/motor_states'] == [f'joint_{i}_motor' for i in (1, 2, 3)]

    parameters = {
        'robot_description': ROBOT,
        'robot.elastic': ELASTIC,
        'signals.cutoff': 30.0,
        'signals.dead_zone': 0.05,
        'output': str(tmp_path / 'results'),
    }
    ros.start('identification', parameters=parameters)
    answer = identify(ros, recorded)
    assert answer.success, answer.message
    found = {p.name: p for p in answer.base.parameters}
    for i, joint in enumerate(('joint_1', 'joint_2', 'joint_3')):
        for name, key in (
            (f'{joint}.k', 'stiffness'),
            (f'{joint}_motor.Ia', 'rotor_inertia'),
            (f'{joint}_motor.fv', 'viscous'),
            (f'{joint}_motor.fc', 'coulomb'),
        ):
            p = found[name]
            assert abs(p.value - TRUTH[key][i]) < 5.0 * p.std + 0.01 * TRUTH[key][i], name
    assert [fit.joint for fit in answer.joints] == [
        *names['/joint_states'],
        *names['/motor_states'],
    ]
    assert np.isnan([fit.relative_error for fit in answer.joints[:3]]).all()
    assert answer.relative_error < 2.0
    stored = read_result(Path(answer.result_path) / 'result.yaml')
    assert stored.settings.model.elastic.gear_ratios == tuple(GEARS)

    validated = ros.call(Validate, 'identification/validate', timeout=60.0, source=recorded)
    assert validated.success, validated.message
    assert validated.relative_error == pytest.approx(answer.relative_error, rel=0.05)
    exported = ros.call(ExportUrdf, 'identification/export_urdf')
    assert exported.success and 'joint_1.k = ' in exported.urdf

    # options of one request; a topic that is not there; stiff joints need no motors
    answer = identify(ros, recorded, options=[('robot.elastic.motors', '[a, b, c]')])
    assert not answer.success and "'a'" in answer.message
    assert ros.set_parameter('identification', 'motor_topic', 'motors')[0]
    answer = identify(ros, recorded)
    assert not answer.success
    assert '/motors' in answer.message and '/motor_states' in answer.message
    options = [('robot.elastic', 'null'), ('estimation.method', 'ols')]
    answer = identify(ros, recorded, options=options)
    assert answer.success, answer.message
    assert len(answer.joints) == 3


def test_the_excitation_of_elastic_joints_is_as_ever(ros, tmp_path):
    """A plan is carried out on the joints; the motors' topic does not disturb it."""
    from robot_identification_msgs.action import Excite, PlanExcitation

    ros.start('simulation', parameters={**SIMULATION, 'real_time_factor': 2.0}, wait=False)
    ros.start(
        'excitation',
        parameters={
            'execute': True,
            'use_sim_time': True,
            'stale_timeout': 1.0,
            'move_speed': 0.8,
            'planner': {'duration': 3.0, 'max_iterations': 1},
        },
    )
    _, plan, _ = ros.act(PlanExcitation, '/excitation/plan')
    assert plan.error_code == 0, plan.error_msg
    _, done, _ = ros.act(Excite, '/excitation/excite', plan_id=plan.plan_id)
    assert done.error_code == 0, done.error_msg
