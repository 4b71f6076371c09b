# SPDX-License-Identifier: Apache-2.0
"""A tool over DDS: joint states and wrenches recorded, and identified on request."""

from __future__ import annotations

import importlib.util
from pathlib import Path
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from robot_identification.identification.tool_pipeline import read_tool_result
from robot_identification.model.robot import Robot

PLACE = Path(__file__).parents[1] / 'loads' / 'test_tool.py'
SPEC = importlib.util.spec_from_file_location('tool_wrenches', PLACE)
wrenches = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wrenches)

COMMAND = [sys.executable, '-m', 'robot_identification.cli', 'node']
WRENCH = 'force_torque_sensor_broadcaster/wrench'


def test_what_the_recorder_heard_gives_the_tool(ros, tmp_path):
    from builtin_interfaces.msg import Time
    from geometry_msgs.msg import Vector3, Wrench, WrenchStamped
    from robot_identification_msgs.msg import RecorderStatus
    from robot_identification_msgs.srv import IdentifyTool, StartRecording, StopRecording
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Header

    urdf = wrenches.URDF.read_text().replace('</robot>', wrenches.SENSOR)
    robot = Robot.from_urdf(urdf)
    run = wrenches.recording(robot, 1)
    n, some = robot.n_joints, slice(None, None, 2)
    ros.start('recorder', parameters={'output': str(tmp_path / 'runs'), 'wrench_topics': [WRENCH]})
    output = tmp_path / 'results'
    parameters = {
        'robot_description': urdf, 'output': str(output), 'recordings': str(tmp_path / 'runs'),
        'signals.cutoff': 10.0, 'signals.decimate_to': 50.0, 'robot.effort_kind': 'joint_torque',
    }  # fmt: skip
    ros.start('identification', parameters=parameters)
    service = '/identification/identify_tool'

    refused = ros.call(IdentifyTool, service)
    assert not refused.success and 'no recording of wrenches is known' in refused.message

    states = ros.publisher(JointState, 'joint_states', 5000, wait_for_subscribers=1)
    sensor = ros.publisher(WrenchStamped, WRENCH, 5000, wait_for_subscribers=1)
    status = ros.latched(RecorderStatus, 'recorder/status')
    assert ros.call(StartRecording, 'recorder/start', name='swing').success
    time, count = run.time[some], len(run.time[some])
    rows = zip(time, run.position[some, :n], run.effort[some, n:], strict=True)
    for moment, position, values in rows:
        whole, part = divmod(round(1e9 * moment), 1_000_000_000)
        header = Header(stamp=Time(sec=whole, nanosec=part))
        zeros = [0.0] * n
        states.publish(
            JointState(
                header=header, name=robot.joints, position=position, velocity=zeros, effort=zeros
            )
        )
        force, torque = (
            Vector3(**dict(zip('xyz', half, strict=True)))
            for half in values.reshape(2, 3).tolist()
        )
        sensor.publish(WrenchStamped(header=header, wrench=Wrench(force=force, torque=torque)))
    ros.wait_until(lambda: status[-1].messages >= 2 * count, what='all messages in the recording')
    ended = ros.call(StopRecording, 'recorder/stop')
    assert ended.success and ended.messages == 2 * count, ended.message
    ros.wait_until(lambda: not status[-1].recording, what='the end of the recording')

    answer = ros.call(IdentifyTool, service, frame='sensor')
    assert answer.success, answer.message
    assert answer.level == 'good' and answer.verdict.startswith('Good for'), answer.verdict
    assert answer.frame == 'sensor' and answer.inertia_known and answer.sign == -1
    assert abs(answer.body.m - wrenches.TOOL.mass) < 5.0 * answer.mass_std
    found, centre = answer.body, wrenches.TOOL.lever
    np.testing.assert_allclose([found.com.x, found.com.y, found.com.z], centre, atol=2e-3)
    moments = [found.ixx, found.ixy, found.ixz, found.iyy, found.iyz, found.izz]
    np.testing.assert_allclose(moments, wrenches.TOOL.inertia[np.triu_indices(3)], atol=1e-3)
    force = answer.offset.force
    np.testing.assert_allclose([force.x, force.y, force.z], wrenches.OFFSET[:3], atol=0.1)
    path = Path(answer.result_path)
    assert path == output / 'swing_tool' / 'tool.yaml'
    assert read_tool_result(path).document['payload']['body']['mass'] == pytest.approx(found.m)

    words = ['tool', str(tmp_path / 'runs' / 'swing'), '--frame', 'sensor']
    client = ros.start_command('client', [*COMMAND, *words], wait=False)
    assert client.wait(60.0) == 0
    assert client.output.startswith('level: good\nverdict: Good for'), client.output

    for fields, text in (
        ({'frame': 'nowhere'}, "'nowhere'"),
        ({'source': str(tmp_path / 'runs' / 'other')}, 'does not exist'),
    ):
        wrong = ros.call(IdentifyTool, service, **fields)
        assert not wrong.success and text in wrong.message, wrong.message
