# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics of results, efforts of trajectories, and the page on their use."""

from dataclasses import replace
from pathlib import Path
import re
import subprocess

import numpy as np
import pinocchio
import pytest
from robot_identification.errors import IdentificationError, SettingsError
from robot_identification.exports.feedforward import read_trajectory, with_efforts
from robot_identification.model.parameters import ParameterSet
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result
import yaml

PAGE = Path(__file__).resolve().parents[2] / 'docs' / 'how_to' / 'use.md'


@pytest.fixture(scope='module')
def physical(result):
    """Return a result with bodies that there may be, rotors and friction."""
    values = {
        **{'m': 2.0, 'mx': 0.1, 'my': -0.2, 'mz': 0.3, 'Ixx': 0.5, 'Iyy': 0.6, 'Izz': 0.7},
        **{'Ixy': 0.01, 'Ixz': -0.02, 'Iyz': 0.03, 'Ia': 0.2, 'fv': 1.5, 'fc': 2.5, 'off': -0.7},
    }
    layout = result.standard.layout
    symbols = [name.rpartition('.')[2] for name in layout.names]
    return replace(result, standard=ParameterSet(layout, np.array([values[s] for s in symbols])))


@pytest.fixture(scope='module')
def stored(physical, tmp_path_factory):
    folder = tmp_path_factory.mktemp('use') / 'results'
    folder.mkdir()
    write_result(physical, folder / 'result.yaml')
    return read_result(folder / 'result.yaml')


def truth(result, states):
    """Return efforts by Pinocchio's recursive Newton-Euler algorithm, and the joints' terms."""
    robot, standard = result.robot, result.standard
    model = robot.model.copy()
    bodies = {name.rpartition('.')[0] for name in standard.layout.names if name.endswith('.Izz')}
    for link in bodies:
        names = [f'{link}.{s}' for s in
                 ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')]  # fmt: skip
        frame = model.frames[model.getFrameId(link)]
        values = np.array([standard[name] for name in names])
        model.inertias[frame.parentJoint] = pinocchio.Inertia.FromDynamicParameters(values)
    data = model.createData()
    efforts = []
    for q, v, a in zip(*states, strict=True):
        effort = pinocchio.rnea(model, data, q, v, a)
        for i, joint in enumerate(robot.joints):
            effort[i] += (
                standard[f'{joint}.Ia'] * a[i] + standard[f'{joint}.fv'] * v[i]
                + standard[f'{joint}.fc'] * np.sign(v[i]) + standard[f'{joint}.off']
            )  # fmt: skip
        efforts.append(effort)
    return np.array(efforts)


def test_inverse_dynamics_are_those_of_newton_and_euler(result, physical, stored):
    states = np.random.default_rng(1).normal(size=(3, 5, 3))
    expected = truth(result, states)
    np.testing.assert_allclose(result.inverse_dynamics(*states), expected, rtol=1e-9, atol=1e-9)
    one = stored.inverse_dynamics(*states[:, 2].tolist())
    np.testing.assert_allclose(one, truth(physical, states)[2], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('shapes', [(4, 4, 4), (3, 3, 2), ((2, 3), (3,), (2, 3))])
def test_states_of_another_shape_are_refused_with_the_joints(result, shapes):
    with pytest.raises(SettingsError, match='expected') as caught:
        result.inverse_dynamics(*map(np.zeros, shapes))
    assert 'joint_1' in str(caught.value) and 'locked are none' in str(caught.value)


def trajectory(joints, order):
    values = np.random.default_rng(2).normal(size=(2, 3, len(joints)))
    points = [
        {
            'positions': q[order].tolist(),
            'velocities': v[order].tolist(),
            'accelerations': a[order].tolist(),
            'time_from_start': {'sec': i, 'nanosec': 0},
        }
        for i, (q, v, a) in enumerate(values)
    ]
    names = [joints[i] for i in order]
    return values, {'header': {'frame_id': ''}, 'joint_names': names, 'points': points}


def test_efforts_are_in_the_order_of_the_trajectory_and_all_else_stays(result, tmp_path):
    values, document = trajectory(result.robot.joints, [2, 0, 1])
    file = tmp_path / 'trajectory.yaml'
    file.write_text(yaml.safe_dump(document) + '---\n')
    made, _ = with_efforts(result, read_trajectory(file))
    expected = result.inverse_dynamics(*values.transpose(1, 0, 2))
    efforts = np.array([point.pop('effort') for point in made['points']])
    np.testing.assert_allclose(efforts, expected[:, [2, 0, 1]], rtol=1e-12)
    assert made == document


def test_efforts_above_the_limits_are_reported(result):
    _, document = trajectory(result.robot.joints, [0, 1, 2])
    document['points'][0]['accelerations'] = [1e6, 0.0, 0.0]
    _, remarks = with_efforts(result, document)
    assert any("joint 'joint_1' takes up to" in remark for remark in remarks)


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (lambda d: d.update(joint_names=['joint_1', 'joint_2', 'elbow']), 'joints joint_3'),
        (lambda d: d.update(joint_names=None), 'does not have joints joint_1'),
        (lambda d: d.update(joint_names=3), 'does not have joints joint_1'),
        (lambda d: d.update(joint_names=[1, [2], None]), 'does not have joints joint_1, joint_2'),
        (lambda d: d.update(points=[]), 'no points'),
        (lambda d: d['points'][1].pop('accelerations'), 'point 1 of the trajectory has 0 acc'),
        (lambda d: d['points'][1].update(velocities=[0.0]), 'point 1 of the trajectory has 1 vel'),
        (lambda d: d['points'][0].update(positions=[0.0, 'x', 0.0]), 'not all numbers'),
        (lambda d: d['points'][0].update(positions=[0.0, float('nan'), 0.0]), 'not all finite'),
        (lambda d: d.update(points=[3, 4]), 'positions of the trajectory are missing'),
    ],
)
def test_a_trajectory_that_does_not_fit_is_refused(result, change, words):
    _, document = trajectory(result.robot.joints, [0, 1, 2])
    change(document)
    with pytest.raises(IdentificationError, match=words):
        with_efforts(result, document)


@pytest.mark.parametrize('text', ['[1, 2]', 'a: {', 'points: []'])
def test_a_file_that_is_no_trajectory_is_refused(tmp_path, text):
    file = tmp_path / 'x.yaml'
    file.write_text(text)
    with pytest.raises(IdentificationError, match='x.yaml'):
        read_trajectory(file)


def test_the_snippets_of_the_page_run_and_agree(stored, monkeypatch):
    pytest.importorskip('mujoco', reason='needs the extra sim')
    monkeypatch.chdir(stored.path.parent.parent)
    names = {}
    for snippet in re.findall(r'```python\n(.*?)```', PAGE.read_text('utf-8'), re.DOTALL):
        exec(snippet, names)
    np.testing.assert_allclose(names['bodies'] + names['friction'], names['effort'], atol=1e-6)
    offsets = names['values']('off')
    np.testing.assert_allclose(names['data'].qfrc_inverse + offsets, names['effort'], atol=1e-3)


def test_the_functions_of_the_page_are_those_of_the_c_export(stored, tmp_path):
    from robot_identification import export

    code = export(stored, 'c')
    robot = stored.robot.name
    for name in re.findall(r'<robot>_(\w+)\(', PAGE.read_text('utf-8')):
        assert f'{robot}_{name}(' in code
    (tmp_path / 'dynamics.c').write_text(code)
    subprocess.run(['cc', '-std=c99', '-Wall', '-Werror', '-c', 'dynamics.c'], cwd=tmp_path,
                   check=True)  # fmt: skip
