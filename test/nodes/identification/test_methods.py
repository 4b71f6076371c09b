# SPDX-License-Identifier: Apache-2.0
"""Every method through the service `identify`, with options of its own; wrong ones are named."""

from pathlib import Path

import pytest
import yaml

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')

METHODS = yaml.safe_load((Path(__file__).parents[2] / 'methods.yaml').read_text())


@pytest.mark.parametrize('name', METHODS['reached'])
def test_a_method_is_reached(node, identify, bags, name):
    from robot_identification.results.result import read_result

    case = METHODS['reached'][name]
    answer = identify(node, bags['short'], options=case['options'].items())
    assert answer.success, answer.message
    assert answer.relative_error < 5.0
    method = case['options'].get('estimation.method', 'physical')
    assert answer.result_path.endswith(f'short_{method}')
    result = read_result(Path(answer.result_path) / 'result.yaml')
    assert result.estimation.method == method
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
    from robot_identification_msgs.srv import Identify

    numbers = {
        Identify.Request.IRLS: 'irls',
        Identify.Request.MRLS: 'mrls',
        Identify.Request.PHYSICAL: 'physical',
    }
    for number, method in numbers.items():
        answer = identify(node, bags['short'], [('estimation.method', 'ols')], method=number)
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
