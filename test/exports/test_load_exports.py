# SPDX-License-Identifier: Apache-2.0
"""Loads as calls of robots' controllers: read back by plain numpy, each gives the same body."""

from pathlib import Path
import re
from types import SimpleNamespace

import numpy as np
import pytest
from robot_identification import export
from robot_identification.errors import ModelError, SettingsError
from robot_identification.model.robot import Robot
import yaml

TOOL = """
  <link name="flange"/>
  <joint name="to_flange" type="fixed">
    <parent link="link_6"/><child link="flange"/>
    <origin xyz="0.01 0.02 0.1" rpy="0 0 1.5707963267948966"/>
  </joint>
</robot>"""
MASS, CENTRE = 2.0, np.array([0.02, -0.01, 0.08])
INERTIA = np.array([[8e-3, 1e-3, -5e-4], [1e-3, 9e-3, 7e-4], [-5e-4, 7e-4, 5e-3]])
NUMBER = r'-?\d+\.?\d*(?:e-?\d+)?'


def numbers(text):
    return np.array([float(value) for value in re.findall(NUMBER, text)])


def turn(axis, degrees):
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    rotation = np.eye(3)
    a, b = [(1, 2), (2, 0), (0, 1)][axis]
    rotation[[a, b], [a, b]] = c
    rotation[a, b], rotation[b, a] = -s, s
    return rotation


@pytest.fixture(scope='module')
def robot():
    text = (Path(__file__).parents[2] / 'urdf' / 'demo_arm.urdf').read_text()
    return Robot.from_urdf(text.replace('</robot>', TOOL))


@pytest.fixture
def result(robot):
    """Give a result with the body above, its ten parameters about the frame's origin."""
    about = INERTIA + MASS * (CENTRE @ CENTRE * np.eye(3) - np.outer(CENTRE, CENTRE))
    values = [MASS, *(MASS * CENTRE), *about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
    names = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')
    found = {
        'link': 'link_6',
        'frame': 'link_6',
        'physical': True,
        'standard_parameters': [
            {'name': f'load.{name}', 'value': float(value), 'determined': name != 'Iyz'}
            for name, value in zip(names, values, strict=True)
        ],
    }
    return SimpleNamespace(robot=robot, to_document=lambda: {'payload': found}, found=found)


def test_ur_takes_the_inertia_about_the_centre(result):
    call = next(line for line in export(result, 'ur').splitlines() if line.startswith('set_'))
    mass, *rest = numbers(call)
    assert call.startswith('set_target_payload(') and mass == MASS
    np.testing.assert_allclose(rest[:3], CENTRE)
    order = INERTIA[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    np.testing.assert_allclose(rest[3:], order, atol=1e-9)


def test_franka_takes_columns(result):
    text = export(result, 'franka')
    request = yaml.safe_load(re.search(r'"(\{.*\})"', text)[1])
    assert request['mass'] == MASS
    np.testing.assert_allclose(request['center_of_mass'], CENTRE)
    columns = np.reshape(request['load_inertia'], (3, 3)).T
    np.testing.assert_allclose(columns, INERTIA, atol=1e-9)
    np.testing.assert_allclose(
        numbers(text.splitlines()[-1].partition('setLoad')[2]),
        [MASS, *CENTRE, *request['load_inertia']],
    )


def test_xarm_takes_millimetres(result):
    mass, *centre = numbers(export(result, 'xarm').splitlines()[-1])
    assert mass == MASS
    np.testing.assert_allclose(centre, 1000.0 * CENTRE)


def test_kuka_takes_principal_moments_and_their_axes(result):
    line = export(result, 'kuka').splitlines()[-1]
    _, mass, x, y, z, a, b, c, *moments = numbers(line)
    assert line.startswith('LOAD_DATA[1]={M 2,CM {X 20,') and mass == MASS
    np.testing.assert_allclose([x, y, z], 1000.0 * CENTRE)
    axes = turn(2, a) @ turn(1, b) @ turn(0, c)
    np.testing.assert_allclose(axes @ np.diag(moments) @ axes.T, INERTIA, atol=1e-9)


def test_another_link_may_be_the_flange(result):
    """The flange is turned by 90 degrees about z and lies beside the link's origin."""
    text = export(result, 'ur', frame='flange')
    line = next(line for line in text.splitlines() if line.startswith('set_'))
    _, *rest = numbers(line)
    rotation = turn(2, 90.0)
    np.testing.assert_allclose(rest[:3], rotation.T @ (CENTRE - [0.01, 0.02, 0.1]), atol=1e-9)
    inertia = rotation.T @ INERTIA @ rotation
    np.testing.assert_allclose(
        rest[3:], inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]], atol=1e-9
    )
    assert "link 'flange' is taken for the flange frame" in text
    assert 'not determined, assumed: load.Iyz' in text


def test_what_cannot_be_written_is_named(result):
    with pytest.raises(SettingsError, match="link 'link_2' moves with 'link_2'"):
        export(result, 'kuka', frame='link_2')
    with pytest.raises(SettingsError, match="'urdf' is no format of a load"):
        export(result, 'urdf', frame='flange')
    result.found['physical'] = False
    with pytest.raises(ModelError, match='no physical body'):
        export(result, 'ur')
    result.to_document = lambda: {'payload': None}
    with pytest.raises(SettingsError, match='has no load') as caught:
        export(result, 'ur')
    assert caught.value.key == 'data.payload'
