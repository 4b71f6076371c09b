# SPDX-License-Identifier: Apache-2.0
"""Closed chains through the service `identify`: the example of a delta robot, both ways."""

from __future__ import annotations

import importlib.util
from pathlib import Path
import shutil

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
    ('name', 'parameters'), [('experiment.yaml', 13), ('experiment_loops.yaml', 16)]
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
