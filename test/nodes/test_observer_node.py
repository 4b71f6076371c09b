# SPDX-License-Identifier: Apache-2.0
"""External efforts over DDS: a simulated robot is moved, pushed, and reported wrongly."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from robot_identification import identify
from robot_identification.data.recording import Motion
from robot_identification.nodes.common.messages import nanoseconds
from robot_identification.regressor import build, ModelSettings, predict
from robot_identification.results.result import write_result
from robot_identification.simulation import Plant
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Header

STEP, SUBSTEPS = 0.004, 4
PUSH_FROM, PUSH_TO = 2.0, 3.0
TOPICS = ('predicted_effort', 'measured_effort', 'external_effort', 'external_effort_threshold')


def message(names, stamp, position, effort):
    header = Header(stamp=Time(sec=stamp // 10**9, nanosec=stamp % 10**9))
    return JointState(header=header, name=names, position=list(position), effort=list(effort))


def simulated(arm, push, duration=4.5):
    """Return stamps [ns], positions and mean efforts of a controlled robot that is pushed."""
    plant = Plant(arm.robot, arm.truth, STEP / SUBSTEPS)
    regressor, held, rows = build(arm.robot, ModelSettings()), np.zeros(3), []
    for k in range(round(duration / STEP)):
        t = k * STEP
        swing = 0.4 * np.array([np.cos(2.0 * t), 2.0 * np.sin(2.0 * t), 4.0 * np.cos(2.0 * t)])
        wanted, speed, acceleration = (0.4, 0.0, 0.0) - swing * (1, -1, -1)
        plan = Motion(*(np.full((1, 3), x) for x in (wanted, speed, acceleration)))
        effort = predict(regressor, plan, arm.truth)[0]
        effort += 200.0 * (wanted - plant.position) + 20.0 * (speed - plant.velocity)
        rows.append((round(1e9 * t), plant.position.copy(), 0.5 * (held + effort)))
        held = effort
        plant.external[:] = push if PUSH_FROM <= t < PUSH_TO else 0.0
        for _ in range(SUBSTEPS):
            plant.step(effort)
    return rows


@pytest.fixture(scope='module')
def result(arm, tmp_path_factory):
    """Identify from a recording with noise; return the file."""
    time, position, _, effort = arm.states(1)
    settings = {
        'robot': {'effort_kind': 'joint_torque'},
        'signals': {'cutoff': 20.0, 'decimate_to': 50.0, 'dead_zone': 0.05},
        'auto': False,
    }
    found = identify(
        arm.robot, {'time': time, 'position': position, 'effort': effort}, settings=settings
    )
    path = tmp_path_factory.mktemp('observer') / 'result.yaml'
    write_result(found, path)
    return path


def start(ros, result, namespace=''):
    received = {name: [] for name in (*TOPICS, 'contact', 'diagnostics')}
    process = ros.start('observer', parameters={'result': str(result)}, namespace=namespace)
    for name in TOPICS:
        ros.node.create_subscription(
            JointState, f'{namespace}/observer/{name}', received[name].append, 2000
        )
    received['contact'] = ros.latched(Bool, f'{namespace}/observer/contact')
    received['diagnostics'] = ros.subscribe(DiagnosticArray, '/diagnostics')
    publisher = ros.publisher(
        JointState, f'{namespace}/joint_states', 1000, wait_for_subscribers=1
    )
    return process, received, publisher


def play(ros, publisher, received, messages):
    """Publish, never far ahead of what the node has done: it drops what waits for too long."""
    done = received['external_effort_threshold']

    def caught_up(stamp):
        # half a window back, and a period
        return done and -45_000_000 < nanoseconds(done[-1].header.stamp) - stamp <= 0

    for sent, each in enumerate(messages):
        publisher.publish(each)
        stamp = nanoseconds(each.header.stamp)
        if stamp < 300_000_000 + nanoseconds(messages[0].header.stamp):
            # no answer shows yet what is done, and the node's queue is short
            if sent % 5 == 4:
                ros.spin(0.05)
        elif sent % 15 == 14 or sent + 1 == len(messages):
            ros.wait_until(lambda s=stamp: caught_up(s), what='the observation')


def columns(messages):
    stamps = np.array([nanoseconds(each.header.stamp) for each in messages]) * 1e-9
    return stamps, np.array([each.effort for each in messages])


def test_a_push_is_measured_and_reported_and_false_joint_states_are_not(ros, arm, result):
    names, push = list(arm.robot.joints), np.array([0.0, 9.0, -5.0])
    process, received, publisher = start(ros, result)
    ros.wait_until(lambda: received['contact'], what='the first state of the contact')
    messages = []
    for k, (stamp, position, effort) in enumerate(simulated(arm, push)):
        messages.append(message(names, stamp, position, effort))
        if k % 100 == 50:  # what is wrong comes in between, and is left out
            nothing = [float('nan')] * 3
            messages += [
                JointState(),
                message(names, stamp, position, []),
                message(names, stamp, position, nothing),
                message(names, stamp, nothing, effort),
                message(names[:2], stamp, position[:2], effort[:2]),
                message(names, stamp, [1e300] * 3, effort),
                message(names, -1, position, effort),
                message(['gripper'], stamp, [0.1], [0.1]),
            ]
    play(ros, publisher, received, messages)
    ros.wait_until(lambda: len({len(received[name]) for name in TOPICS}) == 1, what='all topics')
    stamps, external = columns(received['external_effort'])
    # the window reaches to both sides
    before, during = (
        (stamps > begin) & (stamps < end)
        for begin, end in ((0.0, PUSH_FROM - 0.05), (PUSH_FROM + 0.4, PUSH_TO - 0.05))
    )
    threshold = columns(received['external_effort_threshold'])[1]
    assert during.sum() > 100 and before.sum() > 300
    # friction at reversals is that of a simulation with contacts, not of the model
    assert np.abs(external[during] - push).max() < 0.15 * np.abs(push).max()
    assert (np.abs(external[before]) < threshold[before]).mean() > 0.95
    measured, predicted = (columns(received[n])[1] for n in ('measured_effort', TOPICS[0]))
    np.testing.assert_allclose(
        np.median(predicted[during] - measured[during], axis=0), push, atol=0.5
    )
    assert received['predicted_effort'][0].name == names
    assert len(received['predicted_effort'][0].velocity) == 3
    ros.wait_until(lambda: len(received['contact']) >= 3, what='the end of the contact')
    assert [each.data for each in received['contact']] == [False, True, False]
    assert f'contact at {names[1]}' in process.output
    assert process.returncode is None


def test_a_robot_that_nobody_pushes_has_no_contact_and_a_clock_that_begins_anew_is_followed(
    ros, arm, result
):
    names = list(arm.robot.joints)
    process, received, publisher = start(ros, result, '/calm')
    messages = [message(names, *row) for row in simulated(arm, np.zeros(3), 1.5)]
    for _ in range(2):
        for name in TOPICS:
            received[name].clear()
        play(ros, publisher, received, messages)
        assert len(received['external_effort']) > 300
    assert [each.data for each in received['contact']] == [False]

    def status(part):
        every = (one for each in received['diagnostics'] for one in each.status)
        return [one.message for one in every if one.name == 'calm/observer: contact'][part:]

    ros.wait_until(
        lambda: any('no joint states for' in text for text in status(-1)), what='the silence'
    )
    publisher.publish(message(names, 10**12, [0.0] * 3, []))
    ros.wait_until(
        lambda: any('3 names but 0 values of effort' in text for text in status(-1)),
        what='the reason',
    )
    assert process.stop() == 0


def test_without_a_result_the_node_says_so_and_a_wrong_one_is_one_line(ros, tmp_path):
    received = ros.subscribe(DiagnosticArray, '/diagnostics')
    ros.start('observer', namespace='/empty')
    ros.wait_until(
        lambda: any(
            'start the node with the parameter result' in one.message
            for each in received
            for one in each.status
        ),
        what='the diagnostics',
    )
    (tmp_path / 'result.yaml').write_text('robot: 1\n')
    for path, reason in (
        (tmp_path, 'is not the result of an identification'),
        (tmp_path / 'none.yaml', 'cannot read result file'),
    ):
        process = ros.start(
            'observer', parameters={'result': str(path)}, namespace='/wrong', wait=False
        )
        assert process.wait() == 2
        assert len(process.lines) == 1
        assert process.lines[0].startswith('error: ') and reason in process.lines[0]
