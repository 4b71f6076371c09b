# SPDX-License-Identifier: Apache-2.0
"""Reference bodies and the constraints of physical consistency."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.estimation.physical_fit import (
    centre_bounds,
    drive_signs,
    reference_bodies,
    signed_start,
)
from robot_identification.model.consistency import from_pseudo_inertia, pseudo_inertia
from robot_identification.model.parameters import body_links, ParameterLayout, ParameterSet
from robot_identification.model.plausibility import Spread
from robot_identification.model.robot import Robot
from robot_identification.regressor import CoupledDrive, ModelSettings
from robot_identification.regressor import prior as urdf_prior

URDF = Path(__file__).parents[2] / 'urdf'


@pytest.fixture(scope='module')
def arm():
    robot = Robot.from_urdf(URDF / 'demo_arm.urdf')
    return robot, urdf_prior(robot)


def test_a_decent_body_is_its_own_reference(arm):
    robot, prior = arm
    for body in reference_bodies(robot, prior):
        own = prior.inertial(body.link)
        assert not body.remark and body.mass == own[0]
        if np.linalg.eigvalsh(body.relative(own)).min() > 0.999:
            np.testing.assert_allclose(body.pseudo_inertia, pseudo_inertia(own), atol=1e-12)
        # thickened at most, never thinned
        assert np.linalg.eigvalsh(body.pseudo_inertia - pseudo_inertia(own)).min() > -1e-12


def test_bodies_that_cannot_be_are_replaced_by_the_urdfs_or_a_ball(arm):
    robot, prior = arm
    wrong = prior.updated({'link_2.m': -1.0, 'link_3.Ixx': -5.0})
    bodies = {body.link: body for body in reference_bodies(robot, wrong)}
    assert [link for link, body in bodies.items() if body.remark] == ['link_2', 'link_3']
    assert bodies['link_2'].mass == prior['link_2.m']
    for body in bodies.values():
        assert np.linalg.eigvalsh(body.pseudo_inertia)[0] > 0.0


def test_a_point_mass_gets_a_size():
    robot = Robot.from_urdf(URDF / 'tx40.urdf')
    prior = urdf_prior(robot).updated({'link_6.Izz': 0.0})
    tip = reference_bodies(robot, prior)[-1]
    about = Spread.from_parameters(from_pseudo_inertia(tip.pseudo_inertia))
    assert np.sqrt(np.trace(about.spread) / tip.mass) > 0.005
    assert tip.mass == 0.2


def test_relative_inertia_does_not_depend_on_the_frame(arm):
    robot, prior = arm
    turn = pin.SE3(pin.rpy.rpyToMatrix(0.3, -0.5, 0.7), np.array([0.1, 0.2, -0.3]))
    other = pin.Inertia(1.7, np.array([0.1, 0.0, 0.2]), np.diag([0.1, 0.2, 0.15]))
    body = reference_bodies(robot, prior)[1]
    here = np.linalg.eigvalsh(body.relative(other.toDynamicParameters()))
    transform = turn.homogeneous
    moved = pseudo_inertia(turn.act(other).toDynamicParameters())
    there = np.linalg.eigvals(
        np.linalg.solve(transform @ body.pseudo_inertia @ transform.T, moved)
    )
    np.testing.assert_allclose(np.sort(there.real), here, rtol=1e-7)


def test_signs_of_drives_and_what_coupled_motors_leave():
    joints = ('joint_5', 'joint_6')
    layout = ParameterLayout(
        ('joint_5.Ia', 'joint_5.off', 'joint_6.Ia', 'joint_6.fc', 'joint_6.Iam'), ('',) * 5
    )
    drive = CoupledDrive(motor='joint_6', joints=joints, ratios=(1.0, 2.0))
    rows = drive_signs(layout, ModelSettings(coupled_drives=(drive,)))
    np.testing.assert_array_equal(rows[:4], np.eye(5)[[0, 2, 3, 4]])
    good, bad = np.array([1.0, -9.0, 5.0, 0.0, 1.0]), np.array([1.0, -9.0, 3.0, 0.0, 1.0])
    assert (rows @ good >= 0.0).all()
    np.testing.assert_array_equal(np.sign(rows[np.argmin(rows @ bad)]), [0, 0, 1, 0, -1])
    assert (rows @ bad).min() < 0.0
    # the motor's own joint has nothing else where they are tied
    tied = CoupledDrive(motor='joint_6', joints=joints, inertia='tied', ratios=(1.0, 2.0))
    shorter = layout.select(range(4))
    rows = drive_signs(shorter, ModelSettings(coupled_drives=(tied,)))
    assert len(rows) == 4
    assert (rows @ np.array([1.0, 0.0, 4.0, 0.0]))[-1] == pytest.approx(0.0)


def test_signs_of_stribeck_friction():
    layout = ParameterLayout(('a.ts', 'a.tsc', 'b.fc', 'b.tsc', 'c.tsc'), ('N m',) * 5)
    rows = drive_signs(layout, ModelSettings())
    assert len(rows) == 7
    assert (rows @ np.array([2.0, -0.6, 1.0, -1.0, 0.1]) >= 0.0).all()
    for wrong in (
        [2.0, 0.1, 1, 0, 0],
        [2.0, -2.1, 1, 0, 0],
        [2.0, 0, 1, -1.1, 0],
        [1, 0, 1, 0, -1],
    ):
        assert (rows @ np.array(wrong)).min() < 0.0
    everything = np.ones(5, dtype=bool)
    inside = signed_start(rows, np.array([-3.0, 4.0, 0.0, -9.0, 0.0]), np.full(5, 0.1), everything)
    assert (rows @ inside > 0.0).all()


def test_centre_of_mass(arm):
    _, prior = arm
    centre = prior.inertial('link_2')[1:4] / prior['link_2.m']
    # a plane 1 cm beyond the centre of mass, and one 1 cm before it
    for distance, sign in ((0.01, 1.0), (-0.01, -1.0)):
        faces = np.array([[1.0, 0.0, 0.0, -(centre[0] + distance)]])
        value = centre_bounds('link_2', faces, prior.layout).rows @ prior.values
        assert np.sign(value[0]) == sign


def test_links_without_all_ten_parameters_are_passed_over():
    layout = ParameterLayout.inertial(('a',)) + ParameterLayout(('b.m', 'b.mx'), ('kg', 'kg m'))
    assert body_links(layout) == ('a',)
    assert ParameterSet(layout, np.zeros(12))['b.m'] == 0.0
