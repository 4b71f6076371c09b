# SPDX-License-Identifier: Apache-2.0
"""The identification node over DDS: every method and kind of data, and bad requests."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import yaml

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')

from robot_identification.pages.first_screen import STATES
from robot_identification.results.stored_result import read_result
from robot_identification.verdicts.reason import USES


def base_truth(robot, truth):
    from robot_identification.regressor import build, ModelSettings
    from robot_identification.regressor.base_search import structure

    return structure(build(robot, ModelSettings()), robot).project(truth).as_dict()


def test_whole_round(ros, identify, arm, tmp_path):
    """Identify, publish, check, validate, export and reset, one after the other; with reports."""
    bags, robot, truth = arm.bags, arm.robot, arm.truth
    from robot_identification_msgs.msg import Fit, ParameterSet
    from robot_identification_msgs.srv import CheckConsistency, ExportUrdf, Validate
    from std_srvs.srv import Trigger

    output = tmp_path / 'results'
    parameters = {**arm.parameters, 'output': str(output), 'topic': '/joint_states'}
    ros.start('identification', parameters=parameters, namespace='/round', DRAWS_REPORTS='1')
    answer = identify(ros, bags['first'], method='wls', namespace='/round')
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
    files = {'result.yaml', 'verdict.json', 'identified.urdf', 'report.html'}
    assert {p.name for p in folder.iterdir()} == files

    stored = json.loads((folder / 'verdict.json').read_text())
    assert answer.level == stored['level']
    # the first screen of the command line: the headline, then a line for each use
    assert ' '.join(answer.verdict.split()).startswith(stored['headline'])
    assert len(lines := answer.verdict.splitlines()) <= 15
    for use in USES.values():
        (line,) = (line for line in lines if line.startswith('  ') and use in line)
        assert line.split()[0] in STATES

    # latched: who subscribes after the fact gets them, too
    published = ros.latched(ParameterSet, '/round/identification/parameters')
    fits = ros.latched(Fit, '/round/identification/fit')
    ros.wait_until(lambda: published and fits, what='latched results')
    assert published[-1] == answer.base
    assert fits[-1].method == 'wls'
    assert fits[-1].relative_error == answer.relative_error

    checked = ros.call(CheckConsistency, '/round/identification/check_consistency')
    assert checked.success
    assert [link.link for link in checked.links] == list(robot.links)

    before = (folder / 'report.html').stat().st_size
    validated = ros.call(
        Validate, '/round/identification/validate', timeout=60.0, source=str(bags['second'])
    )
    assert validated.success, validated.message
    assert validated.relative_error < 3.0
    assert validated.level == 'good'
    assert validated.verdict.startswith('Good for ')
    assert (folder / 'report.html').stat().st_size > before

    exported = ros.call(
        ExportUrdf, '/round/identification/export_urdf', path=str(tmp_path / 'sub' / 'new.urdf')
    )
    assert exported.success, exported.message
    assert Path(exported.path).read_text() == exported.urdf
    check_export(exported.urdf, robot, truth)

    assert ros.call(Trigger, '/round/identification/reset').success
    ros.wait_until(lambda: not published[-1].parameters, what='empty parameters')
    assert not ros.call(CheckConsistency, '/round/identification/check_consistency').success


def check_export(urdf, robot, truth):
    """Compare what the exported document says about friction with the truth."""
    from robot_identification.model.robot import Robot
    from robot_identification.regressor import ModelSettings, prior

    exported = Robot.from_urdf(urdf)
    assert exported.joints == robot.joints
    identified = prior(exported, ModelSettings())
    for joint in robot.joints:
        assert identified[f'{joint}.fv'] == pytest.approx(truth[f'{joint}.fv'], rel=0.05)


def test_a_request_names_its_method(node, identify, bags):
    for method, name in (('ols', 'ols'), ('', 'physical')):
        answer = identify(node, bags['first'], method=method)
        assert answer.success
        assert answer.result_path.endswith(f'first_{name}')
    answer = identify(node, bags['first'], method='best')
    assert not answer.success
    assert "'estimation.method'" in answer.message and 'best' in answer.message
    assert 'ols' in answer.message and 'wls' in answer.message


def test_options_are_for_one_request(node, identify, bags):
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
def test_wrong_options(node, identify, bags, options, words):
    answer = identify(node, bags['first'], options=options)
    assert not answer.success
    assert '\n' not in answer.message
    for word in words:
        assert word in answer.message


def test_failing_requests_and_life_goes_on(node, identify, bags, tmp_path):
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


def test_latest_recording_and_its_state(node, identify, bags):
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


METHODS = yaml.safe_load((Path(__file__).parents[1] / 'methods.yaml').read_text())


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(name, marks=[pytest.mark.soak] if place else [])
        for place, name in enumerate(METHODS['reached'])
    ],
)
def test_a_method_is_reached(node, identify, bags, name):
    from robot_identification.results.stored_result import read_result

    case = METHODS['reached'][name]
    answer = identify(node, bags['short'], options=case['options'].items())
    assert answer.success, answer.message
    assert answer.relative_error < 5.0
    method = case['options'].get('estimation.method', 'physical')
    assert answer.result_path.endswith(f'short_{method}')
    result = read_result(Path(answer.result_path) / 'result.yaml')
    assert result.settings.estimation.method == method
    assert case.get('notes', '') in ' '.join(result.notes)
    assert case.get('parameter', 'link_1.m') in {p.name for p in answer.standard.parameters}
    if case.get('physical'):
        from robot_identification_msgs.srv import CheckConsistency

        assert node.call(CheckConsistency, 'identification/check_consistency').physical


@pytest.mark.parametrize('case', METHODS['refused'], ids=lambda case: ' '.join(case['options']))
def test_what_cannot_be_is_named(node, identify, bags, case):
    answer = identify(node, bags['short'], options=case['options'].items())
    assert not answer.success
    assert '\n' not in answer.message
    assert 'internal error' not in answer.message
    for word in case['names']:
        assert word in answer.message


def test_the_request_s_own_field_goes_before_the_options(node, identify, bags):
    for method in ('irls', 'mrls', 'physical'):
        answer = identify(node, bags['short'], [('estimation.method', 'ols')], method=method)
        assert answer.success, answer.message
        assert answer.result_path.endswith(f'short_{method}')


def test_methods_are_parameters_of_the_node(ros, identify, arm, tmp_path):
    """Nested settings and optional ones, at the start and later."""
    parameters = {
        **arm.parameters,
        'output': str(tmp_path),
        'topic': '/joint_states',
        'estimation.method': 'irls',
        'estimation.irls.loss': 'tukey',
        'estimation.physical.weight': 4.0,
        'estimation.physical.total_mass': 9.0,
        'signals.polynomial_approximation.stride': 3,
        'robot.friction': ['viscous', 'stiction', 'offset'],
        'robot.stiction_slope': [100.0, 200.0, 300.0],
    }
    ros.start('identification', parameters=parameters, namespace='/set')
    node = '/set/identification'
    assert ros.get_parameters(node, 'estimation.irls.loss') == {'estimation.irls.loss': 'tukey'}
    answer = identify(ros, arm.bags['short'], namespace='/set')
    assert answer.success, answer.message
    assert answer.result_path.endswith('short_irls')
    unused = "'estimation.physical.total_mass' is not used: method irls does not keep it"
    assert unused in answer.message
    settings = yaml.safe_load((Path(answer.result_path) / 'result.yaml').read_text())['settings']
    assert settings['model']['stiction_slope'] == [100.0, 200.0, 300.0]
    assert settings['signals']['polynomial_approximation']['stride'] == 3
    assert settings['estimation']['physical']['weight'] == 4.0

    assert ros.set_parameter(node, 'estimation.method', 'ols')[0]
    assert ros.set_parameter(node, 'estimation.physical.weight', float('nan'))[0]
    done, reason = ros.set_parameter(node, 'estimation.irls.loss', 'bisquare')
    assert not done and 'estimation.irls.loss' in reason
    answer = identify(ros, arm.bags['short'], namespace='/set')
    assert answer.result_path.endswith('short_ols')
    settings = yaml.safe_load((Path(answer.result_path) / 'result.yaml').read_text())['settings']
    assert settings['estimation']['physical']['weight'] is None


ROOT = Path(__file__).resolve().parents[2]
MASS, CENTRE = 1.5, np.array([0.1, 0.05, -0.02])
LOAD = pin.Inertia(MASS, CENTRE, np.diag([0.004, 0.005, 0.006])).toDynamicParameters()
GAINS = np.array([11.0, 9.0, 5.0])
SIGNALS = 'signals: {cutoff: 20.0, decimate_to: 50.0, dead_zone: 0.05, trim: 0.3}\n'


def start(ros, file, namespace):
    parameters = {'experiment': str(file), 'output': str(file.parent / 'results')}
    ros.start('identification', parameters=parameters, namespace=namespace)


def document(answer):
    assert answer.success, answer.message
    return read_result(Path(answer.result_path) / 'result.yaml').document


def test_a_payload_of_the_experiment_file(ros, identify, arm, tmp_path):
    arm.write(tmp_path / 'loaded', 7, load=LOAD)
    file = tmp_path / 'payload.yaml'
    file.write_text(
        f'robot: {{urdf: {arm.urdf}, effort_kind: joint_torque}}\n'
        'data:\n'
        f'  identification: [{{file: {arm.bags["first"]}}}]\n'
        '  payload: {recordings: [{file: loaded}]}\n' + SIGNALS
    )
    start(ros, file, '/payload')
    found = document(identify(ros, namespace='/payload'))['payload']
    assert found['link'] == arm.robot.links[-1]
    values = {entry['name']: (entry['value'], entry['std']) for entry in found['parameters']}
    # no motion of this arm tells all of a body at its last link, but its first moments it does
    for name, expected in zip(('load.mx', 'load.my'), MASS * CENTRE, strict=False):
        value, std = values[name]
        assert abs(value - expected) < 5.0 * std + 1e-3


def test_drive_gains_of_the_experiment_file(ros, identify, arm, tmp_path):
    arm.write(tmp_path / 'free', 8, gains=GAINS)
    arm.write(tmp_path / 'loaded', 9, load=LOAD, gains=GAINS)
    file = tmp_path / 'gains.yaml'
    file.write_text(
        f'robot:\n  urdf: {arm.urdf}\n  effort_kind: motor_current\n'
        '  drives: {effort: {matrix: [[10, 0, 0], [0, 10, 0], [0, 0, 6]]}}\n'
        'data:\n'
        '  identification: [{file: free}]\n'
        f'  known_load: {{mass: {MASS}, recordings: [{{file: loaded}}]}}\n' + SIGNALS
    )
    start(ros, file, '/gains')
    found = document(identify(ros, namespace='/gains'))['drive_gains']
    assert np.diag(found['matrix']) == pytest.approx(GAINS, rel=0.05)


def test_a_delta_robot_needs_no_description(ros, identify, write_states, tmp_path):
    spec = importlib.util.spec_from_file_location('record', ROOT / 'examples/delta/record.py')
    record = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(record)
    record.main(tmp_path, seconds=3.0)
    table = np.loadtxt(tmp_path / 'identification.csv', delimiter=',', skiprows=1)
    joints = ['arm_1', 'arm_2', 'arm_3']
    bag = write_states(
        tmp_path / 'bag', joints, table[:, 0], table[:, 1:4], 0.0 * table[:, 1:4], table[:, 4:]
    )
    geometry = {'base_radius': 0.14, 'platform_radius': 0.04}
    geometry |= {'arm_length': 0.2, 'forearm_length': 0.46}
    parameters = {
        'robot.delta': {'enabled': True, **geometry},
        'robot.friction': ['viscous', 'coulomb'],
        'joints': joints,
        'topic': '/joint_states',
        'output': str(tmp_path / 'results'),
    }
    ros.start('identification', parameters=parameters, namespace='/bare')
    answer = identify(ros, bag, namespace='/bare')
    assert answer.success, answer.message
    assert len(answer.base.parameters) == 13
