# SPDX-License-Identifier: Apache-2.0
"""A load in the frame of a link, against Pinocchio's bodies."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ModelError
from robot_identification.estimation.drive_gains import Load, load_on
from robot_identification.model.robot import Robot

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf')


def test_a_load_on_a_fixed_link_acts_as_a_body_that_is_added_there(robot):
    """Efforts of the robot with the load's parameters added to the carrier's, by appendBodyTo."""
    mass, centre = 2.5, np.array([0.03, -0.02, 0.08])
    inertia = (0.01, 0.001, 0.012, -0.002, 0.0005, 0.009)
    load = load_on(robot, mass, centre, inertia, frame='tool_flange')
    assert load.link == 'link_6' and load.known.all()
    xx, xy, yy, xz, yz, zz = inertia
    body = pin.Inertia(mass, centre, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    with_body = robot.model.copy()
    frame = with_body.frames[with_body.getFrameId('tool_flange')]
    with_body.appendBodyToJoint(frame.parentJoint, body, frame.placement)
    total = robot.prior.values.copy()
    total[robot.layout.of(load.link)] += load.parameters
    model = robot.with_parameters(type(robot.prior)(robot.layout, total))
    rng = np.random.default_rng(0)
    for _ in range(5):
        q, v, a = rng.normal(size=(3, 6))
        expected = pin.rnea(with_body, with_body.createData(), q, v, a)
        np.testing.assert_allclose(pin.rnea(model, model.createData(), q, v, a), expected)


def test_what_is_not_known_stays_open(robot):
    assert load_on(robot, 2.0).known.tolist() == [True] + [False] * 9
    half = load_on(robot, 2.0, (0.0, 0.0, 0.1))
    assert half.known.tolist() == [True] * 4 + [False] * 6
    np.testing.assert_allclose(half.parameters[:4], [2.0, 0.0, 0.0, 0.2])
    with pytest.raises(ValueError, match='ten parameters'):
        Load('link_6', np.full(10, np.nan))


def test_a_frame_that_does_not_exist_or_does_not_move_is_named(robot):
    with pytest.raises(ModelError, match="no link 'gripper'") as caught:
        load_on(robot, 1.0, frame='gripper')
    assert caught.value.link == 'gripper'
    with pytest.raises(ModelError, match="no identified joint moves link 'base_link'"):
        load_on(robot, 1.0, frame='base_link')
