# SPDX-License-Identifier: Apache-2.0
"""Robots in MJCF, against MuJoCo's inverse dynamics of the same file."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.cli.main import main
from robot_identification.errors import IdentificationError, IdentificationWarning, ModelError
from robot_identification.model import mjcf
from robot_identification.model.mjcf import mjcf_facts, urdf_of_mjcf
from robot_identification.model.robot import Robot

mujoco = pytest.importorskip('mujoco')

ARM = """
<!-- <sdf> in a comment -->
<mujoco model="arm">
  <compiler angle="radian"/>
  <option><flag contact="disable"/></option>
  <worldbody>
    <body name="base" pos="0.1 0 0.3" euler="0.2 0 0.1">
      <geom type="box" size="0.1 0.1 0.1" mass="3"/>
      <body name="shoulder" pos="0 0.1 0.2" quat="0.8 0.2 -0.3 0.1">
        <joint name="pan" axis="0 0 1" pos="0.05 0.02 -0.1" range="-2 2" limited="true"
               damping="0.7" frictionloss="0.3" armature="0.1"/>
        <joint name="tilt" axis="1 0.5 0" pos="-0.03 0.04 0.02" ref="0.4"/>
        <inertial pos="0.1 0.02 0" quat="0.9 0.1 0.2 0" mass="2" diaginertia="0.03 0.02 0.04"/>
        <geom type="capsule" size="0.03 0.1" pos="0 0 0.1"/>
        <body name="slider" pos="0.3 0 0.1" euler="0 0.5 0">
          <joint name="slide" type="slide" axis="0 1 1" ref="0.2" range="-0.5 0.5"/>
          <inertial pos="0 0.1 0.05" mass="1.2" diaginertia="0.01 0.02 0.015"/>
          <body name="plate" pos="0 0 0.1">
            <inertial pos="0.02 0 0.01" mass="0.4" diaginertia="0.001 0.002 0.0015"/>
            <body name="wrist" pos="0.1 0.1 0">
              <joint name="roll" axis="0 1 0" pos="0.1 0 0"/>
              <inertial pos="0 0 0.2" mass="0.8" diaginertia="0.01 0.008 0.003"/>
            </body>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="pan" gear="50" forcerange="-2 2" forcelimited="true"/></actuator>
</mujoco>
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / 'arm.xml'
    path.write_text(ARM)
    return path


def test_inverse_dynamics_are_those_of_mujoco(file):
    """Anchors off the body's origin, two joints on a body, reference positions, fixed bodies."""
    with pytest.warns(IdentificationWarning, match='armature of pan has no element'):
        robot = Robot.from_urdf(file)
    assert robot.joints == ('pan', 'tilt', 'slide', 'roll')
    model = mujoco.MjModel.from_xml_path(str(file))
    for term in (model.dof_damping, model.dof_frictionloss, model.dof_armature):
        term[:] = 0.0
    model.jnt_limited[:] = 0
    data, own = mujoco.MjData(model), robot.model.createData()
    random = np.random.default_rng(2)
    for _ in range(5):
        q, v, a = random.uniform(-1.0, 1.0, (3, 4))
        data.qpos[:], data.qvel[:], data.qacc[:] = q, v, a
        mujoco.mj_inverse(model, data)
        tau = pin.rnea(
            robot.model, own, robot.configuration(q), robot.tangent(v), robot.tangent(a)
        )
        np.testing.assert_allclose(tau[robot.columns], data.qfrc_inverse, atol=1e-9)


def test_limits_friction_and_shapes_are_kept(file):
    with pytest.warns(IdentificationWarning):
        robot = Robot.from_urdf(file)
    np.testing.assert_allclose(robot.limits.lower, [-2.0, -np.inf, -0.5, -np.inf])
    np.testing.assert_allclose(robot.limits.effort, [100.0, np.inf, np.inf, np.inf])
    assert np.isinf(robot.limits.velocity).all()
    pan = robot.contents.joints['pan']
    assert (pan.damping, pan.friction) == (0.7, 0.3)
    # a capsule as the cylinder around it
    assert '<cylinder radius="0.03" length="0.26"/>' in robot.urdf


@pytest.mark.parametrize(
    ('old', 'new', 'reason'),
    [
        ('name="roll"', 'name="roll" type="ball"', "joint 'roll' of body 'wrist' is a ball joint"),
        ('<joint name="roll" axis="0 1 0" pos="0.1 0 0"/>', '<bad/>', 'XML Error'),
        ('<worldbody>', '<worldbody><body><freejoint/><geom size="1"/></body>', 'body float'),
    ],
)
def test_what_cannot_be_converted_is_named_in_one_line(file, old, new, reason):
    file.write_text(ARM.replace(old, new))
    with pytest.raises(ModelError, match=reason) as found:
        Robot.from_urdf(file)
    assert str(file) in str(found.value) and '\n' not in str(found.value)


def test_sdf_is_refused_with_the_way_out(tmp_path, capsys):
    path = tmp_path / 'arm.sdf'
    path.write_text('<?xml version="1.0"?>\n<sdf version="1.9"><model name="arm"/></sdf>')
    assert main(['check', str(path)]) == 2
    assert 'is an SDF file, which is not read: give the URDF' in capsys.readouterr().err
    with pytest.raises(ModelError, match='is an SDF file, which is not read: give the URDF'):
        Robot.from_urdf(path)


def test_a_missing_library_is_named_with_its_extra(file, monkeypatch):
    monkeypatch.setattr(mjcf, 'answer_of', lambda *_, **__: {'missing': True})
    with pytest.raises(IdentificationError, match=r"robot-identification\[sim\]' brings it"):
        urdf_of_mjcf(file)


def test_a_file_that_never_ends_is_given_up(file, monkeypatch):
    monkeypatch.setattr(mjcf, 'TIME_LIMIT', 2.0)
    file.write_text(
        '<mujoco><worldbody><replicate count="100000"><replicate count="100000"><body><joint/>'
        '<geom size="1"/></body></replicate></replicate></worldbody></mujoco>'
    )
    with pytest.raises(ModelError, match='cannot be converted to URDF'):
        urdf_of_mjcf(file)


@pytest.mark.parametrize('kind', ['relative', 'absolute', 'link', 'nested'])
def test_a_file_outside_of_its_folder_is_not_included(file, kind):
    """Not even where MuJoCo could read it."""
    secret = file.parent.parent / f'secret_{kind}.xml'
    secret.write_text('<mujoco><worldbody/></mujoco>')
    name = f'../{secret.name}'
    if kind == 'absolute':
        name = str(secret)
    elif kind == 'link':
        (file.parent / 'beside.xml').symlink_to(secret)
        name = 'beside.xml'
    elif kind == 'nested':
        (file.parent / 'below').mkdir()
        (file.parent / 'below' / 'part.xml').write_text(
            f'<mujoco><include file="../{secret.name}"/></mujoco>'
        )
        name = 'below/part.xml'
    text = file.read_text()
    file.write_text(text.replace('<worldbody>', f'<include file="{name}"/>\n<worldbody>', 1))
    with pytest.raises(ModelError, match=r'which is outside of its folder') as caught:
        urdf_of_mjcf(file)
    assert secret.name in str(caught.value)


def test_files_in_the_folder_are_included(file):
    below = file.parent / 'below'
    below.mkdir()
    (below / 'part.xml').write_text('<mujoco><include file="below/more.xml"/></mujoco>')
    (below / 'more.xml').write_text('<mujoco><option timestep="0.004"/></mujoco>')
    text = file.read_text()
    file.write_text(text.replace('<worldbody>', '<include file="below/part.xml"/><worldbody>', 1))
    assert mjcf_facts(file).timestep == 0.004


def test_a_file_is_converted_once_until_it_or_a_mesh_changes(tmp_path, monkeypatch):
    asked = []

    def answer_of(*arguments, **limits):
        asked.append(arguments)
        return real(*arguments, **limits)

    real = mjcf.answer_of
    monkeypatch.setattr(mjcf, 'answer_of', answer_of)
    path, mesh = tmp_path / 'arm.xml', tmp_path / 'meshes' / 'body.obj'
    mesh.parent.mkdir()
    corners = [f'v {i & 1} {i >> 1 & 1} {i >> 2}' for i in range(8)]
    mesh.write_text('\n'.join(corners))
    path.write_text(
        '<mujoco><compiler meshdir="meshes"/><asset><mesh name="m" file="body.obj"/></asset>'
        '<worldbody><body><joint name="j"/><geom type="mesh" mesh="m" density="1"/></body>'
        '</worldbody></mujoco>'
    )
    with pytest.warns(IdentificationWarning, match='meshes are left out'):
        light = Robot.from_urdf(path)
        assert not mjcf_facts(path).floating and len(asked) == 1
        mesh.write_text('\n'.join(corners).replace('1', '2'))
        heavy = Robot.from_urdf(path)
    assert len(asked) == 2
    masses = [sum(each.mass for each in robot.model.inertias) for robot in (light, heavy)]
    assert masses == pytest.approx([1.0, 8.0])


def test_init_names_a_urdf_that_is_not_utf_8_in_one_line(tmp_path, capsys):
    urdf = tmp_path / 'latin.urdf'
    urdf.write_bytes('<robot name="r\xe9"/>'.encode('latin-1'))
    assert main(['init', str(urdf), str(tmp_path / 'log.csv')]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert 'give a file in UTF-8 that may be read' in line and str(urdf) in line
