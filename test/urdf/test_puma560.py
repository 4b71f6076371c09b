# SPDX-License-Identifier: Apache-2.0
"""The PUMA 560 has the bodies of Zollo et al., and as many base parameters as it should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.model.consistency import check
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    ElasticJoints,
    ModelSettings,
    prior,
)
from robot_identification.regressor.base_search import structure

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'puma560.urdf'
HALF_PI = np.pi / 2.0
# standard Denavit-Hartenberg: alpha, a, d
DH = (
    (HALF_PI, 0.0, 0.0),
    (0.0, 0.4318, 0.0),
    (-HALF_PI, 0.0203, 0.15005),
    (HALF_PI, 0.0, 0.4318),
    (-HALF_PI, 0.0, 0.0),
    (0.0, 0.0, 0.0),
)
# Tables 3 to 6: m, c, then Ixx Iyy Izz Ixy Ixz Iyz, at the frame at the link's end and along it
MASSES = (0.10, 17.4, 4.80, 0.82, 0.34, 0.09)
FIRST_MOMENTS = (
    (0.0, 0.0, 0.0),
    (-6.3301, 0.1044, 3.9585),
    (-0.0974, -0.0677, 0.336),
    (0.0, 0.0156, 0.0),
    (0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0029),
)
INERTIAS = (
    (0.0, 0.35, 2e-5, 0.0, 0.0, 0.0),
    (1.031, 3.727, 2.842, 0.037, 1.440, -0.023),
    (0.090, 0.111, 0.015, -0.0013, 0.0068, 0.0047),
    (0.0021, 0.0013, 0.0021, 0.0, 0.0, 0.0),
    (3e-5, 4e-5, 3e-5, 0.0, 0.0, 0.0),
    (2e-4, 2e-4, 4e-5, 0.0, 0.0, 0.0),
)
REPAIRED = {(1, 0): 0.2, (1, 2): 0.2, (3, 2): 0.0235}  # by link and place in the row
STATIC = (0.395, 0.126, 0.132, 0.0112, 0.0093, 0.0039)
VISCOUS = (0.0014, 0.0008, 0.0014, 7.12e-5, 8.26e-5, 3.67e-5)
GEARS = (62.6111, 107.815, 53.7063, 76.0364, 71.923, 76.686)


def load(**arguments) -> Robot:
    return Robot.from_urdf(URDF, **arguments)


def to_end(alpha: float, a: float, d: float) -> pin.SE3:
    """Frame at a link's end in the frame at its beginning."""
    return pin.SE3(pin.utils.rotate('x', alpha), np.array([a, 0.0, d]))


def at_end(robot: Robot, link: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, first moment and inertia about the origin, as the paper gives them."""
    body = pin.Inertia.FromDynamicParameters(robot.prior.inertial(f'link_{link}'))
    moved = to_end(*DH[link - 1]).actInv(body)
    values = moved.toDynamicParameters()
    return values[0], values[1:4], values[[4, 6, 9, 5, 7, 8]]


@pytest.mark.parametrize('link', range(1, 7))
def test_links_have_the_parameters_of_the_tables(link):
    mass, first, inertia = at_end(load(), link)
    assert mass == pytest.approx(MASSES[link - 1])
    assert first == pytest.approx(FIRST_MOMENTS[link - 1], abs=1e-9)
    printed = [REPAIRED.get((link, i), v) for i, v in enumerate(INERTIAS[link - 1])]
    assert inertia == pytest.approx(printed, abs=1e-9)


def test_frames_are_those_of_the_dh_table():
    robot = load()
    position = np.random.default_rng(1).uniform(-2.0, 2.0, 6)
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, position)
    expected = pin.SE3.Identity()
    for joint, row, theta in zip(robot.joint_ids, DH, position, strict=True):
        expected = expected * pin.SE3(pin.utils.rotate('z', theta), np.zeros(3)) * to_end(*row)
        assert (data.oMi[joint] * to_end(*row)).homogeneous == pytest.approx(expected.homogeneous)


def test_friction_is_the_motors():
    values = prior(load(), ModelSettings(elastic=ElasticJoints()))
    for i in range(6):
        assert values[f'joint_{i + 1}_motor.fc'] == STATIC[i]
        assert values[f'joint_{i + 1}_motor.fv'] == VISCOUS[i]


def test_link_3_as_printed_is_no_body():
    robot = load()
    name = 'link_3.Iyy'  # the paper's I_zz of link 3: its frame is turned about x
    report = check(robot.prior.updated({name: robot.prior[name] - 0.0085}))
    assert not report.physical
    assert check(robot.prior).physical


@pytest.mark.parametrize('gears', [GEARS, (1.0,) * 6])
@pytest.mark.parametrize(
    ('gravity', 'count'),
    [((0.0, 0.0, -9.81), 60), ((0.0, -9.81, 0.0), 62), ((3.0, 0.0, -9.0), 62), ((0, 0, 0), 58)],
)
def test_number_of_elastic_base_parameters(gears, gravity, count):
    robot = load(gravity=gravity)
    settings = ModelSettings(
        friction=('viscous', 'coulomb'), elastic=ElasticJoints(gear_ratios=gears)
    )
    regressor = build(robot, settings)
    base = structure(regressor, robot)
    assert (len(regressor.layout), regressor.n_joints) == (84, 12)
    assert base.n_base == count
    assert base.gap > 1e9
    assert base.warnings == ()
