# SPDX-License-Identifier: Apache-2.0
"""Data of the experiment file through the service: loads and gains; delta robots."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.results.result import read_result

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')

ROOT = Path(__file__).resolve().parents[3]
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
