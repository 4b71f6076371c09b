# SPDX-License-Identifier: Apache-2.0
"""Closed chains through the service `identify`: the example of a delta robot, both ways."""

from __future__ import annotations

import importlib.util
from pathlib import Path
import shutil

import numpy as np
import pytest

pytest.importorskip('rclpy')

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp('suite')
    folder = root / 'examples' / 'delta'
    shutil.copytree(
        ROOT / 'examples' / 'delta', folder, ignore=shutil.ignore_patterns('*.csv', 'results*')
    )
    shutil.copytree(ROOT / 'urdf', root / 'urdf')
    spec = importlib.util.spec_from_file_location('record', folder / 'record.py')
    record = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(record)
    record.main(folder, seconds=3.0)
    return folder


@pytest.mark.parametrize(
    ('name', 'parameters'),
    [
        pytest.param('experiment.yaml', 13, marks=pytest.mark.soak),
        ('experiment_loops.yaml', 16),
    ],
)
def test_the_service_identifies_a_delta_robot(ros, folder, identify, tmp_path, name, parameters):
    settings = {'experiment': str(folder / name), 'output': str(tmp_path)}
    ros.start('identification', parameters=settings, namespace='/delta')
    answer = identify(ros, '', namespace='/delta')
    assert answer.success, answer.message
    assert len(answer.base.parameters) == parameters
    assert answer.relative_error < 8.0
    values = {p.name: p.value for p in answer.base.parameters}
    mass = values.get('platform.m4', values.get('platform.m'))
    assert mass == pytest.approx(0.4802, rel=0.05)
    refused = identify(
        ros, '', options=[('robot.delta.forearm_length', '0.1')], namespace='/delta'
    )
    assert not refused.success and 'delta' in refused.message


GEOMETRY = {
    'robot.delta.enabled': True,
    'robot.delta.base_radius': 0.14,
    'robot.delta.platform_radius': 0.04,
    'robot.delta.arm_length': 0.2,
    'robot.delta.forearm_length': 0.46,
    'robot.friction': ['viscous', 'coulomb'],
}
LOOPS = {
    'robot_description': str(ROOT / 'urdf' / 'delta.urdf'),
    'joints': ['arm_1', 'arm_2', 'arm_3'],
    'robot.rotor_inertia': False,
    'robot.friction': ['viscous', 'coulomb'],
    'robot.loops.names': ['one', 'two', 'three'],
}
for number, name in enumerate(LOOPS['robot.loops.names']):
    angle = 2.0 * np.pi * number / 3.0
    LOOPS |= {
        f'robot.loops.{name}.kind': 'rod',
        f'robot.loops.{name}.link_a': f'arm_{number + 1}_link',
        f'robot.loops.{name}.link_b': 'platform',
        f'robot.loops.{name}.point_a': [0.2, 0.0, 0.0],
        f'robot.loops.{name}.point_b': (
            0.04 * np.array([np.cos(angle), np.sin(angle), 0.0])
        ).tolist(),
        f'robot.loops.{name}.length': 0.46,
    }


def test_the_regressor_node_has_both_models(ros):
    from robot_identification_msgs.srv import GetRegressor

    state = {
        'position': [0.1, -0.2, 0.3],
        'velocity': [1.0, -2.0, 0.5],
        'acceleration': [3.0, 4.0, -5.0],
    }
    columns = {}
    for namespace, parameters in (('/lengths', GEOMETRY), ('/loops', LOOPS)):
        ros.start('regressor', parameters=parameters, namespace=namespace)
        answer = ros.call(GetRegressor, f'{namespace}/regressor/get_regressor', **state)
        assert answer.success, answer.message
        message = answer.regressor
        rows = np.array(message.data).reshape(-1, len(message.columns))
        columns[namespace] = dict(zip(message.columns, rows.T, strict=True))
    one, other = columns['/lengths'], columns['/loops']
    assert len(one) == 13
    np.testing.assert_allclose(one['platform.m4'], other['platform.m'], atol=1e-12)
    np.testing.assert_allclose(one['arm_2.mr'], other['arm_2_link.mx'], atol=1e-12)
    refused = ros.call(
        GetRegressor, '/lengths/regressor/get_regressor', **{**state, 'position': [9.0, 0.0]}
    )
    assert not refused.success
