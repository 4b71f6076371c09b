# SPDX-License-Identifier: Apache-2.0
"""Accelerations that efforts allow: a pendulum in closed form, an arm against Pinocchio."""

from dataclasses import replace

import numpy as np
import pinocchio
import pytest
from robot_identification.errors import IdentificationError
from robot_identification.exports import joint_limits
from robot_identification.exports.formats import export
from robot_identification.exports.joint_limits import (
    moveit_limits,
    read_accelerations,
    report_on,
    workspace,
)
from robot_identification.model.parameters import ParameterSet
from robot_identification.regressor import ElasticJoints
import yaml


@pytest.fixture(scope='module')
def physical(result):
    """Return a result with bodies that there may be, rotors, no friction, and efforts enough."""
    values = {
        **{'m': 2.0, 'mx': 0.1, 'my': -0.2, 'mz': 0.3, 'Ixx': 0.5, 'Iyy': 0.6, 'Izz': 0.7},
        **{'Ixy': 0.01, 'Ixz': -0.02, 'Iyz': 0.03, 'Ia': 0.2},
    }
    layout = result.standard.layout
    symbols = [name.rpartition('.')[2] for name in layout.names]
    standard = ParameterSet(layout, np.array([values.get(s, 0.0) for s in symbols]))
    robot = result.robot
    limits = replace(robot.limits, effort=np.array([200.0, 150.0, 60.0]), velocity=np.full(3, 1.0))
    return replace(result, robot=replace(robot, limits=limits), standard=standard)


def rigid(result):
    """Return Pinocchio's model with the result's bodies and rotors."""
    model, standard = result.robot.model.copy(), result.standard
    for link in {name.rpartition('.')[0] for name in standard.layout.names if '.Izz' in name}:
        symbols = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')
        values = np.array([standard[f'{link}.{symbol}'] for symbol in symbols])
        joint = model.frames[model.getFrameId(link)].parentJoint
        model.inertias[joint] = pinocchio.Inertia.FromDynamicParameters(values)
    model.armature = np.array([standard[f'{joint}.Ia'] for joint in result.robot.joints])
    return model


def test_efforts_suffice_in_the_asked_share_of_other_states(physical):
    """The corners of the box of accelerations, in states that were not drawn, by Pinocchio."""
    limits = physical.robot.limits
    found = workspace(physical).acceleration_limits(80.0, 90.0)
    model = rigid(physical)
    data, rng = model.createData(), np.random.default_rng(5)
    corners = found * (1 - 2 * ((np.arange(8)[:, None] >> np.arange(3)) & 1))
    enough = []
    for _ in range(8000):
        q, v = rng.uniform(limits.lower, limits.upper), rng.uniform(-1.0, 1.0, 3) * limits.velocity
        efforts = np.array([pinocchio.rnea(model, data, q, v, corner) for corner in corners])
        enough.append((np.abs(efforts) <= 0.8 * limits.effort).all())
    # a share of 90 % of 8000 states is known to 0.34 %, and the limits rest on 4000
    assert np.mean(enough) == pytest.approx(0.9, abs=0.02)


def test_no_acceleration_can_be_raised_alone(physical):
    space = workspace(physical)
    found = space.acceleration_limits()
    assert space.sufficient(found).all(axis=1).mean() == pytest.approx(0.95, abs=0.002)
    for joint in range(3):
        more = found * np.where(np.arange(3) == joint, 1.05, 1.0)
        assert space.sufficient(more).all(axis=1).mean() < 0.95


def test_a_name_of_two_lines_stays_in_the_comment(physical):
    named = replace(physical, robot=replace(physical.robot, name='arm\njoint_limits: {}'))
    assert yaml.safe_load(moveit_limits(named)) == yaml.safe_load(moveit_limits(physical))


def test_a_file_of_moveit_is_written_and_read_again(physical, tmp_path):
    text = export(physical, 'moveit')
    assert text == moveit_limits(physical)
    own = yaml.safe_load(text)['joint_limits']
    assert list(own) == list(physical.robot.joints)
    first = own[physical.robot.joints[0]]
    assert first['has_acceleration_limits'] is True and first['max_velocity'] == 1.0
    path = tmp_path / 'joint_limits.yaml'
    path.write_text(text)
    found = workspace(physical).acceleration_limits()
    np.testing.assert_allclose(read_accelerations(path, physical.robot.joints), found, rtol=1e-3)
    table, suffices = report_on(physical, path)
    assert suffices and '80 % of the efforts suffice in 95.' in table
    path.write_text(text.replace('max_acceleration: ', 'max_acceleration: 9'))
    table, suffices = report_on(physical, path)
    assert not suffices and physical.robot.joints[0] in table


def test_efforts_that_do_not_hold_the_arm_name_the_joint(physical):
    robot = physical.robot
    limits = replace(robot.limits, effort=np.array([200.0, 1.0, 60.0]))
    weak = replace(physical, robot=replace(robot, limits=limits))
    with pytest.raises(IdentificationError, match=f"joint '{robot.joints[1]}' does not suffice"):
        moveit_limits(weak)
    for effort in (np.inf, 0.0):
        some = replace(robot.limits, effort=np.array([200.0, effort, 60.0]))
        with pytest.raises(IdentificationError, match=f'efforts of {robot.joints[1]}: give'):
            moveit_limits(replace(physical, robot=replace(robot, limits=some)))
    elastic = replace(physical.settings.model, elastic=ElasticJoints())
    settings = replace(physical.settings, model=elastic)
    with pytest.raises(IdentificationError, match='robots with elastic joints bound'):
        moveit_limits(replace(physical, settings=settings))
    with pytest.raises(IdentificationError, match='at most 100'):
        moveit_limits(physical, share=120.0)


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('[1', 'joint_limits.yaml'),
        ('a: 1', 'has no joint_limits'),
        ('joint_limits: {joint_1: {max_acceleration: 2}}', "no acceleration of joint 'joint_1'"),
        *(
            (
                'joint_limits: {joint_1: {has_acceleration_limits: true, max_acceleration: '
                f'{value}}}}}',
                "no acceleration of joint 'joint_1'",
            )
            for value in ('.nan', '.inf', '-1.0', 'fast')
        ),
    ],
)
def test_a_file_without_accelerations_is_refused(physical, tmp_path, text, words):
    path = tmp_path / 'joint_limits.yaml'
    path.write_text(text)
    with pytest.raises(IdentificationError, match=words) as caught:
        read_accelerations(path, physical.robot.joints)
    assert caught.value.remedy


def test_the_states_are_the_same_each_time(physical, monkeypatch):
    first = workspace(physical)
    assert np.array_equal(first.without, workspace(physical).without)
    monkeypatch.setattr(joint_limits, 'STATES', 50)
    assert len(workspace(physical).without) == 50
