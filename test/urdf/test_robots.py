# SPDX-License-Identifier: Apache-2.0
"""The robots that come with the package say what their papers say, and tools can read them."""

from __future__ import annotations

from pathlib import Path

from lxml import etree
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.model.consistency import check
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ModelSettings,
    prior,
)
from robot_identification.regressor.base_search import structure

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'
NAMES = ('demo_arm', 'gautier_khalil_3r', 'puma560', 'szabo_3r', 'tx40', 'zollo_planar_2r')
RIGID = ModelSettings(friction=(), rotor_inertia=False)
HALF_PI = np.pi / 2.0

# Gautier and Venture (2013), Table II, column chi_ref, per link:
# XX XY XZ YY YZ ZZ MX MY MZ M; None is not printed
TX40_LINKS = {
    1: (None, None, None, None, None, 0.0392, None, None, None, None),
    2: (0.0163, 0.000785, -0.0157, 0.0881, 0.000324, 0.0828, 0.392, -0.0072, 0.162, None),
    3: (0.0223, -0.000195, -0.0116, 0.0224, -0.00222, 0.00441, 0.0326, 0.0244, 0.265, 4.07),
    4: (0.109, 2.9e-05, 0.00135, 0.108, -0.00117, 0.00407, 0.0145, -0.00724, -0.586, 3.62),
    5: (0.00101, 0.0, 0.0, 0.001, -3.06e-06, 0.00101, 0.0, -0.00306, -0.00102, 1.02),
    6: (0.000353, 0.0, 0.0, 0.000353, 0.0, 0.0, 0.0, 0.0, 0.0084, 0.2),
}
TX40_SYMBOLS = ('Ixx', 'Ixy', 'Ixz', 'Iyy', 'Iyz', 'Izz', 'mx', 'my', 'mz', 'm')
TX40_REPAIRED = {'link_3.Ixz': -0.00116, 'link_6.Izz': 2e-7}
TX40_FV = (7.96, 5.92, 1.98, 1.06, 1.24, 0.694)
TX40_FC = (6.79, 7.38, 6.43, 2.72, 2.62, 0.0)
# alpha, d, r of Table I (modified Denavit-Hartenberg); the angle is the joint's position
TX40_MDH = (
    (0.0, 0.0, 0.0),
    (-HALF_PI, 0.0, 0.0),
    (0.0, 0.225, 0.035),
    (HALF_PI, 0.0, 0.225),
    (-HALF_PI, 0.0, 0.0),
    (HALF_PI, 0.0, 0.0),
)
# Gautier and Khalil (1992), Table 1
GAUTIER_KHALIL_MDH = ((0.0, 0.0, 0.0), (-HALF_PI, 0.0, 0.0), (0.0, 0.5, 0.2))


def load(name: str) -> Robot:
    return Robot.from_urdf(FOLDER / f'{name}.urdf')


def modified_dh(alpha, d, theta, r) -> np.ndarray:
    """Khalil and Kleinfinger's transform, from its closed form."""
    ca, sa, ct, st = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
    return np.array(
        [
            [ct, -st, 0.0, d],
            [ca * st, ca * ct, -sa, -r * sa],
            [sa * st, sa * ct, ca, r * ca],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def standard_dh(theta, d, a, alpha) -> np.ndarray:
    ca, sa, ct, st = np.cos(alpha), np.sin(alpha), np.cos(theta), np.sin(theta)
    return np.array(
        [
            [ct, -st * ca, st * sa, a * ct],
            [st, ct * ca, -ct * sa, a * st],
            [0.0, sa, ca, d],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def frames(robot: Robot, position: np.ndarray) -> list[np.ndarray]:
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, position)
    return [data.oMi[i].homogeneous for i in robot.joint_ids]


@pytest.mark.parametrize('name', NAMES)
def test_every_joint_has_limits_and_every_moving_link_inertia(name):
    robot = load(name)
    n = robot.n_joints
    assert robot.name == name
    assert robot.warnings == ()
    assert robot.joints == tuple(f'joint_{i}' for i in range(1, n + 1))
    assert robot.links == tuple(f'link_{i}' for i in range(1, n + 1))
    for limit in (robot.limits.velocity, robot.limits.effort):
        assert np.isfinite(limit).all()
        assert (limit > 0.0).all()
    assert (robot.limits.lower < 0.0).all()
    assert (robot.limits.upper > 0.0).all()
    document = etree.parse(str(FOLDER / f'{name}.urdf'))
    for link in robot.links:
        assert document.find(f'link[@name="{link}"]/inertial') is not None
        assert document.find(f'link[@name="{link}"]/collision') is not None


@pytest.mark.parametrize('name', NAMES)
def test_links_are_physical_bodies(name):
    report = check(load(name).prior)
    unphysical = {link.link for link in report.links if not link.physical}
    # the published base parameters of this robot belong to no physical bodies
    expected = {'link_2', 'link_3'} if name == 'gautier_khalil_3r' else set()
    assert unphysical == expected


@pytest.mark.parametrize(
    ('name', 'count'),
    [
        ('tx40', 36),
        ('demo_arm', 36),  # six turning joints, the first one upright: as the TX-40
        ('gautier_khalil_3r', 15),
        ('puma560', 36),
        ('szabo_3r', 15),
        ('zollo_planar_2r', 6),
    ],
)
def test_number_of_rigid_base_parameters(name, count):
    robot = load(name)
    assert structure(build(robot, RIGID), robot).n_base == count


@pytest.mark.parametrize(('inertia', 'count'), [('separate', 61), ('tied', 60)])
def test_number_of_base_parameters_of_the_tx40_with_its_drives(inertia, count):
    robot = load('tx40')
    drive = CoupledDrive('joint_6', ('joint_5', 'joint_6'), inertia)
    regressor = build(robot, ModelSettings(coupled_drives=(drive,)))
    assert len(regressor.layout) == (87 if inertia == 'separate' else 86)
    assert structure(regressor, robot).n_base == count


@pytest.mark.parametrize('name', [name for name in NAMES if name != 'gautier_khalil_3r'])
def test_mujoco_opens_it_and_agrees_with_pinocchio(name):
    robot = load(name)
    model = mujoco.MjModel.from_xml_path(str(FOLDER / f'{name}.urdf'))
    model.dof_damping = 0.0
    model.dof_frictionloss = 0.0
    data, reference = mujoco.MjData(model), robot.model.createData()
    mujoco.mj_forward(model, data)
    assert data.ncon == 0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    random = np.random.default_rng(3)
    for _ in range(20):
        data.qpos, data.qvel, data.qacc = random.uniform(-2.0, 2.0, (3, robot.n_joints))
        mujoco.mj_inverse(model, data)
        expected = pin.rnea(robot.model, reference, data.qpos, data.qvel, data.qacc)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(data.qfrc_inverse, expected, rtol=0.0, atol=1e-9 * scale)


def test_mujoco_refuses_the_robot_that_no_bodies_can_have():
    with pytest.raises(ValueError, match='inertia'):
        mujoco.MjModel.from_xml_path(str(FOLDER / 'gautier_khalil_3r.urdf'))


@pytest.mark.parametrize(
    ('name', 'table'), [('tx40', TX40_MDH), ('gautier_khalil_3r', GAUTIER_KHALIL_MDH)]
)
def test_frames_are_those_of_the_modified_dh_table(name, table):
    robot = load(name)
    position = np.random.default_rng(1).uniform(-3.0, 3.0, robot.n_joints)
    expected = np.eye(4)
    for frame, (alpha, d, r), theta in zip(frames(robot, position), table, position, strict=True):
        expected = expected @ modified_dh(alpha, d, theta, r)
        np.testing.assert_allclose(frame, expected, atol=1e-11)


def test_tx40_has_the_parameters_of_the_table():
    parameters = prior(load('tx40'))
    for i, row in TX40_LINKS.items():
        for symbol, printed in zip(TX40_SYMBOLS, row, strict=True):
            name = f'link_{i}.{symbol}'
            if printed is not None:
                expected = TX40_REPAIRED.get(name, printed)
                assert parameters[name] == pytest.approx(expected, rel=1e-9, abs=1e-11), name
    assert [parameters[f'joint_{i}.fv'] for i in range(1, 7)] == pytest.approx(TX40_FV)
    assert [parameters[f'joint_{i}.fc'] for i in range(1, 7)] == pytest.approx(TX40_FC)


def test_tx40_needs_its_two_repairs():
    printed = {'link_3.Ixz': -0.0116, 'link_6.Izz': 0.0}
    robot = load('tx40')
    for name, value in printed.items():
        report = check(robot.prior.updated({name: value}))
        assert not report.physical
        assert {link.link for link in report.links if not link.physical} == {name[:6]}


def test_gautier_khalil_has_the_base_parameters_of_the_paper():
    p = load('gautier_khalil_3r').prior
    d3, r3 = 0.5, 0.2

    def link(i):
        return {symbol: p[f'link_{i}.{symbol}'] for symbol in TX40_SYMBOLS}

    one, two, three = link(1), link(2), link(3)
    # the regroupings of the paper's section 2.2, its values from Table 6
    expected = {
        one['Izz'] + two['Iyy'] + three['Iyy'] + 2.0 * r3 * three['mz']
        + (d3**2 + r3**2) * three['m']: 5.0186,
        two['Ixx'] - two['Iyy'] - d3**2 * three['m']: -2.05,
        two['Ixy']: 0.70,
        two['Ixz'] - d3 * three['mz'] - d3 * r3 * three['m']: -1.07,
        two['Iyz']: 0.65,
        two['Izz'] + d3**2 * three['m']: 6.55,
        two['mx'] + d3 * three['m']: 4.30,
        two['my']: 0.60,
        three['Ixx'] - three['Iyy']: 0.7634,
        three['Ixy']: 0.6872,
        three['Ixz']: 0.55,
        three['Iyz']: -0.60,
        three['Izz']: 0.9646,
        three['mx']: 0.528,
        three['my']: 1.14,
    }  # fmt: skip
    assert len(expected) == 15
    for value, printed in expected.items():
        assert value == pytest.approx(printed, rel=1e-9)


def test_szabo_frames_are_those_of_the_standard_dh_table():
    robot = load('szabo_3r')
    q = np.random.default_rng(2).uniform(-3.0, 3.0, 3)
    table = ((q[0], 0.3, 0.0, HALF_PI), (q[1] + HALF_PI, 0.0, 0.5, 0.0), (q[2], 0.0, 0.5, 0.0))
    expected = np.eye(4)
    ours = frames(robot, q)
    for i, row in enumerate(table):
        expected = expected @ standard_dh(*row)
        if i == 0:
            continue
        # the paper's frame is ours moved to the end of the link
        end = ours[i] @ np.block([[np.eye(3), np.array([[0.5], [0], [0]])], [np.zeros(3), 1.0]])
        np.testing.assert_allclose(end, expected, atol=1e-11)


def moved(robot: Robot, link: str, x: float) -> dict[str, float]:
    """Inertial parameters about a point moved by ``x`` along the link's x axis."""
    shift = pin.SE3(np.eye(3), np.array([-x, 0.0, 0.0]))
    inertia = pin.Inertia.FromDynamicParameters(robot.prior.inertial(link))
    values = shift.act(inertia).toDynamicParameters()
    return dict(
        zip(('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz'), values, strict=True)
    )


def test_szabo_has_the_exact_values_of_the_paper():
    robot = load('szabo_3r')
    two, three = moved(robot, 'link_2', 0.5), moved(robot, 'link_3', 0.5)
    # upright axis of joint 1, which is y in the paper's frame 1
    one = robot.prior['link_1.Izz']
    printed = {
        two['Ixx'] - two['Iyy'] - two['mx'] / 2: 0.059,
        three['Ixx'] - three['Iyy'] - three['mx'] / 2: 0.059,
        one + two['Iyy'] + three['Iyy'] + two['mx'] / 2 + three['mx'] / 2: -0.117,
        two['Izz'] + two['mx'] / 2: -0.059,
        three['Izz'] + three['mx'] / 2: -0.059,
        two['m'] + 2 * two['mx'] - 2 * three['mx']: 1.414,
        three['m'] + 2 * three['mx']: 0.707,
    }
    for value, exact in printed.items():
        assert value == pytest.approx(exact, abs=5e-4)
    for i in (1, 2, 3):
        parameters = prior(robot)
        assert parameters[f'joint_{i}.fc'] == pytest.approx((1.7, 0.8, 1.7)[i - 1])
        assert parameters[f'joint_{i}.fv'] == pytest.approx((0.5, 0.277, 0.030)[i - 1])


def test_zollo_has_the_bodies_of_the_paper():
    robot = load('zollo_planar_2r')
    one, two = moved(robot, 'link_1', 0.5), moved(robot, 'link_2', 0.5)
    assert one['m'] == pytest.approx(21.0)
    assert one['mx'] == pytest.approx(-5.0)
    assert one['Izz'] == pytest.approx(13.8167, abs=5e-5)
    assert two['m'] == pytest.approx(10.0)
    assert two['mx'] == pytest.approx(-2.5)
    assert two['Izz'] == pytest.approx(0.8583, abs=5e-5)
    # gravity acts against y_0, as the paper has it: arm stretched out level, closed form
    data = robot.model.createData()
    effort = pin.rnea(robot.model, data, np.zeros(2), np.zeros(2), np.zeros(2))
    elbow = 9.81 * 10.0 * 0.25
    shoulder = 9.81 * (20.0 * 0.25 + 1.0 * 0.5 + 10.0 * 0.75)
    np.testing.assert_allclose(effort, [shoulder, elbow], rtol=1e-9)


# ------------------------------------------------------------------------- the demonstration arm

DENSITIES = {
    'base_link': (2700, 1500),
    'link_1': (1500, 1700),
    'link_2': (1500, 1100, 1500),
    'link_3': (1700, 1200),
    'link_4': (1500,),
    'link_5': (1700, 1700),
    'link_6': (2700,),
    'tool_flange': (2700,),
}


def demo_document():
    return etree.parse(str(FOLDER / 'demo_arm.urdf'))


def numbers(element, attribute):
    return np.array([float(x) for x in element.get(attribute, '0 0 0').split()])


@pytest.mark.parametrize('link', DENSITIES)
def test_inertials_of_the_demo_arm_are_those_of_its_shapes(link):
    element = demo_document().find(f'link[@name="{link}"]')
    total = pin.Inertia.Zero()
    shapes = element.findall('collision')
    for shape, density in zip(shapes, DENSITIES[link], strict=True):
        cylinder = shape.find('geometry/cylinder')
        radius, length = float(cylinder.get('radius')), float(cylinder.get('length'))
        origin = shape.find('origin')
        place = pin.SE3(pin.rpy.rpyToMatrix(numbers(origin, 'rpy')), numbers(origin, 'xyz'))
        mass = density * np.pi * radius**2 * length
        total += place.act(pin.Inertia.FromCylinder(mass, radius, length))
    inertial = element.find('inertial')
    given = inertial.find('inertia')
    assert float(inertial.find('mass').get('value')) == pytest.approx(total.mass, rel=1e-9)
    np.testing.assert_allclose(numbers(inertial.find('origin'), 'xyz'), total.lever, atol=1e-10)
    tensor = [float(given.get(k)) for k in ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')]
    expected = total.inertia[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    np.testing.assert_allclose(tensor, expected, atol=1e-9)


def test_shapes_of_the_demo_arm_are_seen_as_they_collide():
    for link in demo_document().findall('link'):
        seen, colliding = (
            [
                [
                    etree.tostring(part, method='c14n', with_tail=False)
                    for part in (shape.find('origin'), shape.find('geometry'))
                ]
                for shape in link.findall(kind)
            ]
            for kind in ('visual', 'collision')
        )
        assert seen == colliding
        assert seen


def collision_model(name):
    """Pinocchio's collision model with every pair of bodies that share no joint."""
    path = str(FOLDER / f'{name}.urdf')
    model = pin.buildModelFromUrdf(path)
    geometry = pin.buildGeomFromUrdf(model, path, pin.GeometryType.COLLISION)
    bodies = [g.parentJoint for g in geometry.geometryObjects]
    for i, a in enumerate(bodies):
        for j, b in list(enumerate(bodies))[:i]:
            if a != b and model.parents[a] != b and model.parents[b] != a:
                geometry.addCollisionPair(pin.CollisionPair(i, j))
    return model, geometry


@pytest.mark.parametrize('name', NAMES)
def test_nothing_touches_at_zero_nor_in_most_of_the_space(name):
    model, geometry = collision_model(name)
    data, geometry_data = model.createData(), geometry.createData()

    def collides(q):
        return pin.computeCollisions(model, data, geometry, geometry_data, q, True)

    assert not collides(np.zeros(model.nq))
    random = np.random.default_rng(5)
    places = random.uniform(model.lowerPositionLimit, model.upperPositionLimit, (200, model.nq))
    share = np.mean([collides(q) for q in places])
    assert share < 0.15
    if name == 'demo_arm':
        assert share > 0.0  # there is something to check


def test_demo_arm_is_of_the_announced_size():
    robot = load('demo_arm')
    data = robot.model.createData()
    pin.framesForwardKinematics(robot.model, data, np.zeros(6))
    shoulder = data.oMi[2].translation
    tip = data.oMf[robot.model.getFrameId('tool_flange')].translation
    assert 1.05 < np.linalg.norm(tip - shoulder) < 1.25
    masses = [float(m.get('value')) for m in demo_document().findall('link/inertial/mass')]
    assert 25.0 < sum(masses) < 40.0


def test_demo_arm_can_hold_itself_everywhere_with_half_its_effort():
    robot = load('demo_arm')
    data = robot.model.createData()
    random = np.random.default_rng(6)
    places = random.uniform(robot.limits.lower, robot.limits.upper, (500, 6))
    holding = [pin.computeGeneralizedGravity(robot.model, data, q) for q in places]
    assert (np.abs(holding).max(axis=0) < 0.5 * robot.limits.effort).all()
