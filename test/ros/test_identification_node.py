# SPDX-License-Identifier: Apache-2.0
"""The identification node over DDS: identified against known parameters, and bad requests."""

from pathlib import Path

import numpy as np
import pytest
from robot_identification.errors import IdentificationError
from robot_identification.recording import Motion

pytest.importorskip('rclpy')
rosbags = pytest.importorskip('rosbags')

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
RATE, DURATION = 250.0, 12.0


@pytest.fixture(scope='module')
def robot():
    from robot_identification.robot import Robot

    return Robot.from_urdf(URDF)


@pytest.fixture(scope='module')
def truth(robot):
    """Return standard parameters that are not the URDF's, with friction and rotor inertia."""
    from robot_identification.parameters import ParameterSet
    from robot_identification.regressors import ModelSettings, prior

    before = prior(robot, ModelSettings())
    values = before.values.copy()
    symbols = np.array([name.rpartition('.')[2] for name in before.layout])
    for link in robot.links:
        values[before.layout.of(link)] *= 1.2  # a body of 1.2 times the density is physical
    for symbol, value in {'Ia': 0.05, 'fv': 1.5, 'fc': 0.8, 'off': 0.1}.items():
        values[symbols == symbol] = value
    return ParameterSet(before.layout, values)


def efforts(robot, truth, motion):
    """Inverse dynamics by Pinocchio, plus joint terms written out."""
    import pinocchio as pin

    model = robot.with_parameters(truth)
    data = model.createData()
    q = robot.configuration(motion.position)
    v, a = robot.tangent(motion.velocity), robot.tangent(motion.acceleration)
    tau = np.array([pin.rnea(model, data, *row) for row in zip(q, v, a, strict=True)])
    tau = np.ascontiguousarray(tau[:, robot.columns])
    for j, joint in enumerate(robot.joints):
        tau[:, j] += truth[f'{joint}.Ia'] * motion.acceleration[:, j]
        tau[:, j] += truth[f'{joint}.fv'] * motion.velocity[:, j]
        tau[:, j] += truth[f'{joint}.fc'] * np.sign(motion.velocity[:, j]) + truth[f'{joint}.off']
    return tau


def sines(robot, seed):
    random = np.random.default_rng(seed)
    time = np.arange(int(RATE * DURATION)) / RATE
    position, velocity, acceleration = np.zeros((3, time.size, robot.n_joints))
    for j in range(robot.n_joints):
        for k in range(1, 5):
            w = 2.0 * np.pi * 0.25 * k
            amplitude, phase = random.uniform(0.1, 0.35), random.uniform(0.0, 2.0 * np.pi)
            position[:, j] += amplitude * np.sin(w * time + phase)
            velocity[:, j] += amplitude * w * np.cos(w * time + phase)
            acceleration[:, j] -= amplitude * w**2 * np.sin(w * time + phase)
    return time, Motion(position, velocity, acceleration)


def write_bag(path, robot, truth, seed, topic='/joint_states', joints=None, noise=0.02):
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import get_typestore, Stores

    types = get_typestore(Stores.ROS2_JAZZY)
    kind = types.types['sensor_msgs/msg/JointState']
    stamp_type = types.types['builtin_interfaces/msg/Time']
    header_type = types.types['std_msgs/msg/Header']
    time, motion = sines(robot, seed)
    tau = efforts(robot, truth, motion)
    tau += noise * np.random.default_rng(seed + 99).standard_normal(tau.shape)
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(topic, kind.__msgtype__, typestore=types)
        for i, t in enumerate(time):
            nanoseconds = 1_000_000_000 + round(t * 1e9)
            message = kind(
                header=header_type(
                    stamp=stamp_type(*divmod(nanoseconds, 1_000_000_000)), frame_id=''
                ),
                name=list(joints or robot.joints),
                position=motion.position[i],
                velocity=motion.velocity[i],
                effort=tau[i],
            )
            writer.write(connection, nanoseconds, types.serialize_cdr(message, kind.__msgtype__))
    return path


@pytest.fixture(scope='module')
def bags(tmp_path_factory, robot, truth):
    folder = tmp_path_factory.mktemp('bags')
    return {
        'first': write_bag(folder / 'first', robot, truth, seed=1),
        'second': write_bag(folder / 'second', robot, truth, seed=2),
        'foreign': write_bag(folder / 'foreign', robot, truth, seed=1, joints=['a', 'b', 'c']),
    }


PARAMETERS = {
    'robot_description': str(URDF),
    'signals.cutoff': 20.0,
    'signals.decimate_to': 50.0,
    'signals.dead_zone': 0.05,
    'signals.trim': 0.3,
}


@pytest.fixture(scope='module')
def output(tmp_path_factory):
    return tmp_path_factory.mktemp('results')


@pytest.fixture(scope='module')
def running(request, ros_domain, output):
    """Start one node for all tests that leave it as they found it, but for its estimate."""
    pytest.importorskip('rclpy')
    plugins = request.config.pluginmanager.get_plugins()
    ros = next(plugin.Ros for plugin in plugins if hasattr(plugin, 'Ros'))()
    try:
        ros.start('identification', parameters={**PARAMETERS, 'output': str(output)})
        yield ros
    finally:
        ros.close()


@pytest.fixture
def node(running):
    """Give the running node without an estimate."""
    from std_srvs.srv import Trigger

    assert running.call(Trigger, 'identification/reset').success
    return running


def identify(ros, source='', method=255, options=(), namespace=''):
    from diagnostic_msgs.msg import KeyValue
    from robot_identification_msgs.srv import Identify

    pairs = [KeyValue(key=key, value=value) for key, value in options]
    return ros.call(
        Identify,
        f'{namespace}/identification/identify',
        timeout=60.0,
        source=str(source),
        method=method,
        options=pairs,
    )


def base_truth(robot, truth):
    from robot_identification.base_parameters import structure
    from robot_identification.regressors import build, ModelSettings

    return structure(build(robot, ModelSettings()), robot).project(truth).as_dict()


def test_whole_round(node, bags, robot, truth, output, tmp_path):
    """Identify, publish, check, validate, export and reset, as one after the other."""
    from robot_identification_msgs.msg import Fit, ParameterSet
    from robot_identification_msgs.srv import CheckConsistency, ExportUrdf, Validate
    from std_srvs.srv import Trigger

    answer = identify(node, bags['first'], method=1)
    assert answer.success, answer.message
    assert answer.message.count('\n') == 0
    expected = base_truth(robot, truth)
    assert [p.name for p in answer.base.parameters] == list(expected)
    for p in answer.base.parameters:
        assert abs(p.value - expected[p.name]) < 5.0 * p.std + 1e-3, p.name
    assert answer.rank == len(expected)
    assert answer.relative_error < 2.0
    assert [fit.joint for fit in answer.joints] == list(robot.joints)
    assert len(answer.standard.parameters) == len(truth.layout)
    folder = Path(answer.result_path)
    assert folder == output / 'first_wls'
    assert {p.name for p in folder.iterdir()} == {'result.yaml', 'identified.urdf', 'report.html'}

    # latched: who subscribes after the fact gets them, too
    published = node.latched(ParameterSet, 'identification/parameters')
    fits = node.latched(Fit, 'identification/fit')
    node.wait_until(lambda: published and fits, what='latched results')
    assert published[-1] == answer.base
    assert fits[-1].method == 'wls'
    assert fits[-1].relative_error == answer.relative_error

    checked = node.call(CheckConsistency, 'identification/check_consistency')
    assert checked.success
    assert [link.link for link in checked.links] == list(robot.links)

    before = (folder / 'report.html').stat().st_size
    validated = node.call(
        Validate, 'identification/validate', timeout=60.0, source=str(bags['second'])
    )
    assert validated.success, validated.message
    assert validated.relative_error < 3.0
    assert (folder / 'report.html').stat().st_size > before

    exported = node.call(
        ExportUrdf, 'identification/export_urdf', path=str(tmp_path / 'sub' / 'new.urdf')
    )
    assert exported.success, exported.message
    assert Path(exported.path).read_text() == exported.urdf
    check_export(exported.urdf, robot, truth)

    assert node.call(Trigger, 'identification/reset').success
    node.wait_until(lambda: not published[-1].parameters, what='empty parameters')
    assert not node.call(CheckConsistency, 'identification/check_consistency').success


def check_export(urdf, robot, truth):
    """Compare what the exported document says about friction with the truth."""
    from robot_identification.regressors import ModelSettings, prior
    from robot_identification.robot import Robot

    exported = Robot.from_urdf(urdf)
    assert exported.joints == robot.joints
    identified = prior(exported, ModelSettings())
    for joint in robot.joints:
        assert identified[f'{joint}.fv'] == pytest.approx(truth[f'{joint}.fv'], rel=0.05)


def test_methods(node, bags):
    """Each number means its method; those that are not there yet say which are."""
    from robot_identification_msgs.srv import Identify

    for method, name in ((Identify.Request.OLS, 'ols'), (Identify.Request.DEFAULT, 'wls')):
        answer = identify(node, bags['first'], method=method)
        assert answer.success
        assert answer.result_path.endswith(f'first_{name}')
    for method in (Identify.Request.IRLS, Identify.Request.MRLS, Identify.Request.PHYSICAL, 77):
        answer = identify(node, bags['first'], method=method)
        assert not answer.success
        assert 'ols' in answer.message and 'wls' in answer.message


def start_identifying(ros, source, namespace=''):
    """Send a request and return its future without waiting."""
    from robot_identification_msgs.srv import Identify

    client = ros.node.create_client(Identify, f'{namespace}/identification/identify')
    ros.wait_until(client.service_is_ready, what='service identify')
    return client.call_async(Identify.Request(source=str(source), method=255))


def test_answers_others_while_it_works(node, bags):
    future = start_identifying(node, bags['first'])
    values = node.get_parameters('identification', 'signals.cutoff')
    assert values == {'signals.cutoff': 20.0}
    assert not future.done()
    node.wait_until(future.done, 60.0, 'the answer')
    assert future.result().success


def test_options_are_for_one_request(node, bags):
    plain = identify(node, bags['first'])
    fewer = identify(node, bags['first'], options=[('robot.friction', '[viscous]')])
    assert fewer.success, fewer.message
    assert fewer.rank < plain.rank
    assert not [p for p in fewer.base.parameters if p.name.endswith('.fc')]
    assert identify(node, bags['first']).rank == plain.rank


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        ([('signals.cutof', '3')], ['signals.cutof', "did you mean 'signals.cutoff'"]),
        ([('signals.cutoff', 'high')], ['signals.cutoff', 'expected a number']),
        ([('signals.dead_zone', '[0.1]')], ['signals.dead_zone', '3 joints']),
        ([('robot.joints', '[joint_9]')], ['joint_9', 'robot.joints[0]']),
        ([('output', '/elsewhere')], ['output']),
    ],
)
def test_wrong_options(node, bags, options, words):
    answer = identify(node, bags['first'], options=options)
    assert not answer.success
    assert '\n' not in answer.message
    for word in words:
        assert word in answer.message


def test_failing_requests_and_life_goes_on(node, bags, tmp_path):
    """Whatever is asked, the node says what is wrong in one line, and works afterwards."""
    from robot_identification_msgs.srv import ExportUrdf, Validate

    corrupt = tmp_path / 'corrupt'
    corrupt.mkdir()
    (corrupt / 'metadata.yaml').write_text('rosbag2_bagfile_information: {version: 9}\n')
    (corrupt / 'corrupt_0.mcap').write_bytes(b'\x89MCAP0\r\nnot really')
    table = tmp_path / 'run.csv'
    table.write_text('1,2,3\n')
    wrong = {
        '': 'no recording is known',
        str(tmp_path / 'nothing'): 'does not exist',
        str(corrupt): 'corrupt',
        str(bags['foreign']): 'joint',
        str(table): 'columns',
        '/etc/hostname': 'hostname',
    }
    for source, words in wrong.items():
        answer = identify(node, source)
        assert not answer.success, source
        assert words in answer.message
        assert '\n' not in answer.message
        assert 'internal error' not in answer.message, answer.message
    for kind, name in ((Validate, 'validate'), (ExportUrdf, 'export_urdf')):
        answer = node.call(kind, f'identification/{name}')
        assert not answer.success
        assert 'no estimate yet' in answer.message
    assert identify(node, bags['first']).success
    assert not node.call(ExportUrdf, 'identification/export_urdf', path='/proc/new.urdf').success
    assert node.call(ExportUrdf, 'identification/export_urdf').success


def test_latest_recording_and_its_state(node, bags):
    """An empty source means what the recorder recorded last, once it is closed."""
    from robot_identification.nodes.common import LATCHED
    from robot_identification_msgs.msg import RecorderStatus

    publisher = node.publisher(RecorderStatus, 'recorder/status', LATCHED, wait_for_subscribers=1)
    publisher.publish(RecorderStatus(recording=True, path=str(bags['first'])))
    node.wait_until(
        lambda: 'still being recorded' in identify(node).message, what='the status to arrive'
    )
    publisher.publish(RecorderStatus(recording=False, path=str(bags['first'])))
    node.wait_until(lambda: identify(node).success, what='the status to arrive')


def test_given_parameters_are_checked(node):
    from robot_identification_msgs.msg import Parameter, ParameterSet
    from robot_identification_msgs.srv import CheckConsistency

    values = {'m': 2.0, 'Ixx': 0.1, 'Iyy': 0.1, 'Izz': 0.3}
    symbols = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')
    given = [Parameter(name=f'arm.{s}', value=values.get(s, 0.0)) for s in symbols]
    service = 'identification/check_consistency'
    answer = node.call(CheckConsistency, service, parameters=ParameterSet(parameters=given))
    assert answer.success and not answer.physical
    (link,) = answer.links
    assert link.mass_positive and link.inertia_positive_definite
    assert not link.triangle_inequality  # 0.3 > 0.1 + 0.1
    assert not node.call(CheckConsistency, service, tolerance=-1.0).success
    answer = node.call(CheckConsistency, service, parameters=ParameterSet(parameters=given[:3]))
    assert not answer.success


def test_experiment_file_gives_the_defaults(ros, bags, tmp_path, robot):
    """Parameters beat the file; CSV recordings take their columns from it."""
    file = tmp_path / 'experiment.yaml'
    file.write_text(
        f'robot: {{urdf: {URDF}, friction: [viscous], effort_kind: joint_torque}}\n'
        'data:\n'
        '  identification: [{file: run.csv, time: t, position: [q1, q2, q3], '
        'effort: [e1, e2, e3]}]\n'
        'signals: {cutoff: 7.0, decimate_to: null}\n'
        'estimation: {method: ols, essential: null}\n'
        'output: out\n'
    )
    time, motion = sines(robot, 3)
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
        'joints': list(robot.joints),
    }
    answer = identify(ros, tmp_path / 'other.csv', namespace='/file')
    assert answer.success, answer.message
    assert answer.result_path == str(tmp_path / 'out' / 'other_ols')
    answer = identify(ros, namespace='/file')
    assert not answer.success
    assert 'run.csv' in answer.message


@pytest.mark.parametrize(
    ('parameters', 'words'),
    [
        ({'experiment': '/nowhere.yaml'}, "'/nowhere.yaml' does not exist"),
        ({'signals.cutoff': -1.0}, 'signals.cutoff'),
        ({'robot.effort_kind': 'torque'}, 'robot.effort_kind'),
        ({'robot_description': '<robot'}, 'XML'),
    ],
)
def test_wrong_parameters_stop_the_start(ros, parameters, words):
    process = ros.start('identification', parameters=parameters, wait=False)
    assert process.wait() == 2
    assert words in process.output
    assert 'Traceback' not in process.output


def test_description_from_the_topic_and_diagnostics(ros, bags, tmp_path):
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

    parameters = {k: v for k, v in PARAMETERS.items() if k != 'robot_description'}
    parameters |= {'output': str(tmp_path), 'topic': '/joint_states'}
    process = ros.start('identification', parameters=parameters, namespace='/arm')
    messages = ros.subscribe(DiagnosticArray, '/diagnostics')

    def state():
        found = [m.status[0] for m in messages if m.status[0].name.startswith('arm/')]
        return found[-1] if found else DiagnosticStatus()

    answer = identify(ros, bags['first'], namespace='/arm')
    assert not answer.success
    assert '/arm/robot_description' in answer.message
    ros.wait_until(lambda: state().level == DiagnosticStatus.WARN, what='WARN')
    publisher = ros.publish_description(URDF.read_text(), '/arm/robot_description')
    process.wait_for_output('szabo')
    assert identify(ros, bags['first'], namespace='/arm').success
    ros.wait_until(lambda: 'relative error' in state().message, what='diagnostics')
    assert {pair.key: pair.value for pair in state().values}['method'] == 'wls'
    # a signal in the midst of a request ends both in good order
    start_identifying(ros, bags['second'], '/arm')
    ros.spin(0.2)
    assert process.stop() == 0
    assert 'Traceback' not in process.output
    assert publisher is not None


def test_errors_have_attributes():
    """Method numbers are names; the error keeps the one that is not there."""
    from robot_identification.nodes.identification_node import METHODS
    from robot_identification.nodes.identification_settings import method_name

    assert method_name(1, METHODS, ('ols', 'wls')) == 'wls'
    assert method_name(255, METHODS, ('ols', 'wls')) is None
    with pytest.raises(IdentificationError) as caught:
        method_name(2, METHODS, ('ols', 'wls'))
    assert caught.value.value == 'irls'
