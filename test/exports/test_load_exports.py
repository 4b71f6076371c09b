# SPDX-License-Identifier: Apache-2.0
"""Loads as calls of robots' controllers: read back by plain numpy, each gives the same body."""

import json
from pathlib import Path
import re
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
from robot_identification import export
from robot_identification.errors import IdentificationWarning, ModelError, SettingsError
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


def test_franka_desk_takes_the_same_body_as_json(result):
    with pytest.warns(IdentificationWarning) as warned:
        found = json.loads(export(result, 'franka_desk'))
    # keys and sizes of the maker's example
    sizes = {name: np.size(value) for name, value in found.items()}
    assert sizes == {'mass': 1, 'centerOfMass': 3, 'transformation': 16, 'inertia': 9}
    assert found['mass'] == MASS and found['centerOfMass'] == CENTRE.tolist()
    np.testing.assert_allclose(np.reshape(found['inertia'], (3, 3)).T, INERTIA, atol=1e-9)
    np.testing.assert_array_equal(np.reshape(found['transformation'], (4, 4)), np.eye(4))
    texts = ' '.join(str(each.message) for each in warned)
    assert 'not determined, assumed: load.Iyz' in texts and 'set the one of your tool' in texts


def test_mujoco_ros2_control_takes_the_weight_off_its_sensor(result):
    """By what the plugin adds to a sensor of MuJoCo, as its source has it, nothing is left."""
    document = yaml.safe_load(export(result, 'mujoco_ros2_control', frame='flange'))
    plugin = document['/**']['ros__parameters']['mujoco_plugins']['fts_grav_comp_plugin']
    assert plugin.pop('type') == 'mujoco_ros2_control_plugins/FtsGravCompPlugin'
    ((_, sensor),) = plugin.items()
    assert sensor['frame_id'] == 'flange' and isinstance(sensor['CoG']['mass'], float)
    rotation = turn(2, 90.0)
    pose = 'pos="0.01 0.02 0.1" quat="0.7071067811865476 0 0 0.7071067811865476"'
    entries = ' '.join(map(repr, INERTIA[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]].tolist()))
    model = mujoco.MjModel.from_xml_string(f'''
      <mujoco><worldbody><body euler="20 30 40"><geom size="0.1"/><body>
        <inertial mass="{MASS}" pos="{' '.join(map(str, CENTRE))}" fullinertia="{entries}"/>
        <site name="flange" {pose}/></body></body></worldbody>
      <sensor><force site="flange"/><torque site="flange"/></sensor></mujoco>''')
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    axes = data.site_xmat[0].reshape(3, 3)
    assert not np.allclose(axes, rotation)  # the arm has turned it
    weight = sensor['CoG']['mass'] * axes.T @ model.opt.gravity
    np.testing.assert_allclose(data.sensordata[:3] + weight, 0.0, atol=1e-9)
    torque = np.cross(sensor['CoG']['pos'], weight)
    np.testing.assert_allclose(data.sensordata[3:] + torque, 0.0, atol=1e-9)


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
