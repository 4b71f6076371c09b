# SPDX-License-Identifier: Apache-2.0
"""The identification node's settings and life: files, parameters, topics, other requests."""

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')


def start_identifying(ros, source, namespace=''):
    """Send a request and return its future without waiting."""
    from robot_identification_msgs.srv import Identify

    client = ros.node.create_client(Identify, f'{namespace}/identification/identify')
    ros.wait_until(client.service_is_ready, what='service identify')
    return client.call_async(Identify.Request(source=str(source)))


def test_answers_others_while_it_works(node, bags):
    future = start_identifying(node, bags['first'])
    values = node.get_parameters('identification', 'signals.cutoff')
    assert values == {'signals.cutoff': 20.0}
    assert not future.done()
    node.wait_until(future.done, 60.0, 'the answer')
    assert future.result().success


def test_experiment_file_gives_the_defaults(ros, identify, arm, tmp_path):
    """Parameters beat the file; CSV recordings take their columns from it."""
    file = tmp_path / 'experiment.yaml'
    file.write_text(
        f'robot: {{urdf: {arm.urdf}, friction: [viscous], effort_kind: joint_torque}}\n'
        'data:\n'
        '  identification: [{file: run.csv, time: t, position: [q1, q2, q3], '
        'effort: [e1, e2, e3]}]\n'
        'signals: {cutoff: 7.0, decimate_to: null}\n'
        'estimation: {method: ols, essential: null}\n'
        'output: out\n'
    )
    time, motion = arm.sines(3)
    table = np.column_stack([time, motion.position, np.cos(motion.position)])
    np.savetxt(
        tmp_path / 'other.csv', table, delimiter=',', header='t,q1,q2,q3,e1,e2,e3', comments=''
    )
    parameters = {'experiment': str(file), 'signals.cutoff': 9.0}
    ros.start('identification', parameters=parameters, namespace='/file')
    values = ros.get_parameters(
        '/file/identification',
        'signals.cutoff',
        'estimation.method',
        'robot.friction',
        'joints',
    )
    assert values == {
        'signals.cutoff': 9.0,
        'estimation.method': 'ols',
        'robot.friction': ['viscous'],
        'joints': list(arm.robot.joints),
    }
    answer = identify(ros, tmp_path / 'other.csv', namespace='/file')
    assert answer.success, answer.message
    assert answer.result_path == str(tmp_path / 'out' / 'other_ols')
    answer = identify(ros, namespace='/file')
    assert not answer.success
    assert 'run.csv' in answer.message


def test_wrong_parameters_stop_the_start(ros):
    cases = [
        ({'experiment': '/nowhere.yaml'}, "'/nowhere.yaml' does not exist"),
        ({'signals.cutoff': -1.0}, 'signals.cutoff'),
        ({'robot.effort_kind': 'torque'}, 'robot.effort_kind'),
        ({'robot_description': '<robot'}, 'XML'),
    ]
    processes = [ros.start('identification', parameters=each, wait=False) for each, _ in cases]
    for process, (_, words) in zip(processes, cases, strict=True):
        assert process.wait(60.0) == 2
        assert words in process.output
        assert 'Traceback' not in process.output


def test_description_from_the_topic_and_diagnostics(ros, identify, arm, tmp_path):
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

    parameters = {k: v for k, v in arm.parameters.items() if k != 'robot_description'}
    parameters |= {'output': str(tmp_path), 'topic': '/joint_states'}
    process = ros.start('identification', parameters=parameters, namespace='/arm')
    messages = ros.subscribe(DiagnosticArray, '/diagnostics')

    def state():
        found = [m.status[0] for m in messages if m.status[0].name.startswith('arm/')]
        return found[-1] if found else DiagnosticStatus()

    answer = identify(ros, arm.bags['first'], namespace='/arm')
    assert not answer.success
    assert '/arm/robot_description' in answer.message
    ros.wait_until(lambda: state().level == DiagnosticStatus.WARN, what='WARN')
    publisher = ros.publish_description(arm.urdf.read_text(), '/arm/robot_description')
    process.wait_for_output('szabo')
    assert identify(ros, arm.bags['first'], namespace='/arm').success
    ros.wait_until(lambda: 'relative error' in state().message, what='diagnostics')
    assert {pair.key: pair.value for pair in state().values}['method'] == 'physical'
    # a signal in the midst of a request ends both in good order
    start_identifying(ros, arm.bags['second'], '/arm')
    ros.spin(0.2)
    assert process.stop() == 0
    assert 'Traceback' not in process.output
    assert publisher is not None


def test_a_description_that_is_on_its_way_is_waited_for(ros, arm, tmp_path):
    parameters = {k: v for k, v in arm.parameters.items() if k != 'robot_description'}
    ros.start('identification', parameters={**parameters, 'output': str(tmp_path)})
    future = start_identifying(ros, arm.bags['short'], '')
    publisher = ros.publish_description(arm.urdf.read_text(), '/robot_description')
    ros.wait_until(future.done, 60.0, 'the answer')
    assert future.result().success, future.result().message
    assert publisher is not None
