# SPDX-License-Identifier: Apache-2.0
"""
Repaired bodies against closed forms and against all others of the same mass.

Plausibility against bodies whose density, size and centre of mass are known.
"""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.estimation.physical_fit import reference_bodies
from robot_identification.model.consistency import from_pseudo_inertia, pseudo_inertia
from robot_identification.model.link_geometry import link_shapes, LinkShape
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.plausibility import (
    DENSITY,
    joined_links,
    nearest_body,
    plausibility,
    PlausibilityBounds,
    repaired_body,
    robot_reach,
    robot_shapes,
    shape_body,
    small_body,
    Spread,
)
from robot_identification.model.robot import Robot

URDF = Path(__file__).parents[2] / 'urdf'
SIZE = np.array([0.4, 0.1, 0.05])
BOX = 0.5 * SIZE * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
CENTRE = np.array([0.2, 0.0, 0.0])
SHAPES = {'a': LinkShape(CENTRE + BOX, float(SIZE.prod()))}
MASS = 2000.0 * SIZE.prod()


def body_of(mass, centre, spread):
    matrix = np.empty((4, 4))
    matrix[:3, :3] = spread + mass * np.outer(centre, centre)
    matrix[:3, 3] = matrix[3, :3] = mass * np.asarray(centre)
    matrix[3, 3] = mass
    return from_pseudo_inertia(matrix)


def test_a_box_is_filled_with_the_inertia_of_a_box():
    pose = pin.SE3(pin.rpy.rpyToMatrix(0.3, -0.5, 0.7), np.array([0.1, 0.2, -0.3]))
    points = BOX @ pose.rotation.T + pose.translation
    found = shape_body(LinkShape(points, float(SIZE.prod())), 2000.0)
    mass = 2000.0 * SIZE.prod()
    box = pin.Inertia(mass, np.zeros(3), mass / 12.0 * np.diag(SIZE @ SIZE - SIZE**2))
    np.testing.assert_allclose(found, pose.act(box).toDynamicParameters(), atol=1e-12)


def test_a_pyramid_has_its_centre_a_quarter_up():
    """Its corners' mean is a fifth up."""
    side, height = 0.4, 0.3
    base = [(x, y, 0.0) for x in (-side / 2, side / 2) for y in (-side / 2, side / 2)]
    points = np.array([*base, (0.0, 0.0, height)])
    volume = side**2 * height / 3.0
    found = shape_body(LinkShape(points, volume), 1000.0)
    mass = 1000.0 * volume
    across = mass * (side**2 / 20.0 + 3.0 * height**2 / 80.0)
    pyramid = pin.Inertia(
        mass, np.array([0.0, 0.0, height / 4.0]), np.diag([across, across, mass * side**2 / 10.0])
    )
    np.testing.assert_allclose(found, pyramid.toDynamicParameters(), atol=1e-12)


def test_a_flat_shape_is_not_filled():
    assert shape_body(LinkShape(BOX * [1.0, 1.0, 0.0], 0.0)) is None


def test_the_nearest_body_keeps_mass_and_centre_and_no_other_is_nearer():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    spread = axes @ np.diag([0.3, 0.2, -0.1]) @ axes.T
    centre = np.array([0.1, -0.2, 0.3])
    found = Spread.from_parameters(nearest_body(body_of(2.0, centre, spread)))
    assert found.mass == pytest.approx(2.0) and found.physical
    np.testing.assert_allclose(found.centre, centre)
    floor = np.linalg.eigvalsh(found.spread)[0]
    assert 0.0 < floor < 0.02 * np.linalg.eigvalsh(found.spread)[-1]
    least = np.linalg.norm(found.spread - spread)
    for _ in range(500):  # all others are at least as thick
        change = rng.normal(size=(3, 3)) * rng.choice([1e-3, 1e-2, 0.1])
        values, turned = np.linalg.eigh(found.spread + change + change.T)
        other = turned @ np.diag(np.maximum(values, floor)) @ turned.T
        assert np.linalg.norm(other - spread) >= least - 1e-12


def test_a_body_that_is_possible_is_its_own_nearest():
    body = body_of(2.0, [0.1, 0.0, 0.0], np.diag([0.3, 0.2, 0.1]))
    np.testing.assert_allclose(nearest_body(body), body, atol=1e-12)


def test_a_point_mass_becomes_a_ball_of_the_common_density():
    found = nearest_body(body_of(3.0, [0.1, 0.0, 0.0], np.zeros((3, 3))))
    radius = (3.0 * 3.0 / (4.0 * np.pi * DENSITY)) ** (1.0 / 3.0)
    central = Spread.from_parameters(found).spread  # 2/5 m r^2 is the sum of two of these
    np.testing.assert_allclose(central, 0.2 * 3.0 * radius**2 * np.eye(3), atol=1e-12)


def test_a_small_body_is_a_tenth_of_its_neighbours_and_as_dense():
    near = body_of(4.0, [0.1, 0.0, 0.0], 4.0 * 0.04 * np.eye(3))
    found = Spread.from_parameters(small_body([near, near]))
    assert found.mass == pytest.approx(0.4)
    assert found.square**1.5 / 0.04**1.5 == pytest.approx(0.1)
    assert Spread.from_parameters(small_body([])).mass == 1.0


def test_what_is_missing_is_made_of_shapes_or_of_neighbours():
    shape = LinkShape(BOX, float(SIZE.prod()))
    near = body_of(4.0, np.zeros(3), np.eye(3))
    body, words = repaired_body(np.zeros(10), shape, [near])
    assert body[0] == pytest.approx(DENSITY * SIZE.prod()) and '1200 kg/m^3' in words
    body, words = repaired_body(np.zeros(10), None, [near])
    assert body[0] == pytest.approx(0.4) and 'neighbours' in words
    impossible = body_of(2.0, np.zeros(3), np.diag([0.3, 0.2, -0.1]))
    body, words = repaired_body(impossible, shape, [near])
    assert body[0] == pytest.approx(2.0) and 'nearest' in words


def test_links_are_joined_along_the_tree():
    joined = joined_links(Robot.from_urdf(URDF / 'szabo_3r.urdf'))
    assert joined == {'link_1': ('link_2',), 'link_2': ('link_1', 'link_3'), 'link_3': ('link_2',)}


def test_reference_bodies_say_what_stands_in_place_of_which_link():
    text = (URDF / 'szabo_3r.urdf').read_text()
    robot = Robot.from_urdf(text)
    impossible = robot.prior.updated({'link_2.Ixx': -1.0})
    assert np.linalg.eigvalsh(pseudo_inertia(impossible.inertial('link_2')))[0] < 0.0
    first, second, third = reference_bodies(robot, impossible)
    assert not first.remark and not third.remark
    assert 'nearest' in second.remark
    assert second.mass == pytest.approx(robot.prior['link_2.m'])


def box(mass=MASS, centre=CENTRE, size=SIZE):
    """Return the parameters of a homogeneous box."""
    inertia = mass / 12.0 * np.diag(size @ size - size**2)
    return pin.Inertia(mass, np.asarray(centre, dtype=float), inertia).toDynamicParameters()


def robot_of(**bodies):
    return ParameterSet(ParameterLayout.inertial(bodies), np.concatenate(list(bodies.values())))


def findings(parameters, *arguments, **settings):
    report = plausibility(parameters, *arguments, **settings)
    assert report.plausible == (not report.findings)
    return {(found.link, found.quantity): found for found in report.findings}


def test_a_box_in_its_own_shape_is_plausible():
    for density in (500.0, 8000.0):
        exact = robot_of(a=box((1.0 - 1e-9 + 2e-9 * (density < 1e3)) * density * SIZE.prod()))
        assert not findings(exact, None, SHAPES)
    assert not findings(robot_of(a=box()), robot_of(a=box()), SHAPES)


@pytest.mark.parametrize('density', [499.0, 8001.0])
def test_a_density_beyond_the_bounds_is_found_with_its_number(density):
    found = findings(robot_of(a=box(density * SIZE.prod())), None, SHAPES)['a', 'density']
    assert found.value == pytest.approx(density)
    assert (found.lower, found.upper, found.unit) == (500.0, 8000.0, 'kg/m^3')
    assert f'{density:g}' in found.message and '8000' in found.message


@pytest.mark.parametrize(
    ('ratio', 'bad'), [(0.39, True), (0.41, False), (2.4, False), (2.6, True)]
)
def test_masses_are_held_against_the_prior(ratio, bad):
    other = {'b': box(10.0)}
    found = findings(robot_of(a=box(ratio), **other), robot_of(a=box(1.0), **other))
    assert (('a', 'mass') in found) == bad
    if bad:
        assert found['a', 'mass'].value == pytest.approx(ratio)
        assert (found['a', 'mass'].lower, found['a', 'mass'].upper) == (0.4, 2.5)


def test_the_total_mass_is_held_against_the_priors():
    prior = robot_of(a=box(1.0), b=box(1.0))
    found = findings(robot_of(a=box(1.6), b=box(1.6)), prior)
    assert set(found) == {('', 'total_mass')}
    assert found['', 'total_mass'].value == pytest.approx(3.2)
    assert found['', 'total_mass'].upper == pytest.approx(3.0)


def test_what_is_known_stands_in_place_of_the_prior():
    prior, heavy = robot_of(a=box(1.0)), robot_of(a=box(5.0))
    assert set(findings(heavy, prior)) == {('a', 'mass'), ('', 'total_mass')}
    assert not findings(heavy, prior, masses={'a': (4.0, 6.0)}, total_mass=(4.9, 5.1))
    wrong = findings(robot_of(a=box(1.0)), prior, masses={'a': (4.0, 6.0)}, total_mass=(4.9, 5.1))
    assert set(wrong) == {('a', 'mass'), ('', 'total_mass')}


def test_a_centre_of_mass_outside_is_found_with_its_distance():
    found = findings(robot_of(a=box(centre=[0.2, 0.0, 0.1])), None, SHAPES)
    assert found['a', 'centre_of_mass'].value == pytest.approx(0.1 - 0.025)
    slack = PlausibilityBounds().outside * np.linalg.norm(SIZE)
    assert found['a', 'centre_of_mass'].upper == pytest.approx(slack)
    assert not findings(robot_of(a=box(centre=[0.2, 0.0, 0.024])), None, SHAPES)


def test_no_body_has_a_smaller_radius_of_gyration_than_a_ball_of_steel():
    """A steel ball lies on the bound: sqrt(3/5) of its radius."""
    radius = 0.05
    mass = 4.0 / 3.0 * np.pi * radius**3 * 8000.0
    for scale, bad in ((0.99, True), (1.01, False)):
        inertia = 0.4 * mass * (scale * radius) ** 2 * np.eye(3)
        ball = pin.Inertia(mass, np.zeros(3), inertia).toDynamicParameters()
        found = findings(robot_of(a=ball))
        assert (('a', 'radius_of_gyration') in found) == bad
        if bad:
            value = found['a', 'radius_of_gyration']
            assert value.value == pytest.approx(scale * np.sqrt(0.6) * radius)
            assert value.lower == pytest.approx(np.sqrt(0.6) * radius)


def test_mass_beyond_the_farthest_corner_is_found():
    """All mass at the corners is possible; farther away it is not."""
    far = np.linalg.norm(0.5 * SIZE)
    for scale, bad in ((0.99, False), (1.01, True)):
        second = MASS * (scale * far) ** 2 / 3.0 * np.eye(3)
        inertia = np.trace(second) * np.eye(3) - second
        body = pin.Inertia(MASS, CENTRE, inertia).toDynamicParameters()
        assert (('a', 'radius_of_gyration') in findings(robot_of(a=body), None, SHAPES)) == bad


def test_without_shapes_the_radius_of_gyration_is_held_against_the_prior():
    prior = robot_of(a=box())
    assert not findings(robot_of(a=box(size=2.0 * SIZE)), prior)
    assert set(findings(robot_of(a=box(size=3.0 * SIZE)), prior)) == {('a', 'radius_of_gyration')}
    assert 'without shapes' in plausibility(prior, prior).summary()


def test_shapes_that_the_prior_does_not_fit_are_rough():
    """Their bounds are widened around the prior."""
    prior = robot_of(a=box(10000.0 * SIZE.prod(), centre=[0.2, 0.0, 0.1]))
    assert set(findings(prior, None, SHAPES)) == {('a', 'density'), ('a', 'centre_of_mass')}
    near = robot_of(a=box(12000.0 * SIZE.prod(), centre=[0.2, 0.0, 0.11]))
    assert not findings(near, prior, SHAPES)
    farther = robot_of(a=box(12000.0 * SIZE.prod(), centre=[0.2, 0.0, 0.2]))
    assert set(findings(farther, prior, SHAPES)) == {('a', 'centre_of_mass')}


def test_frames_without_a_body_and_negative_masses():
    empty, prior = np.zeros(10), robot_of(a=box(), b=np.zeros(10))
    assert not findings(robot_of(a=box(), b=empty), prior)
    found = findings(robot_of(a=-box(), b=empty), prior)
    assert set(found) == {('a', 'mass'), ('', 'total_mass')}
    assert not findings(robot_of(a=box()), robot_of(c=box()))


def test_shapes_of_robots_are_read_with_their_volumes():
    demo = Robot.from_urdf(URDF / 'demo_arm.urdf')
    assert plausibility(demo.prior, None, link_shapes(demo)).plausible
    text = (
        '<robot name="one"><link name="base"/><link name="a"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>{}</link>'
        '<joint name="j" type="continuous"><parent link="base"/><child link="a"/></joint></robot>'
    )
    part = (
        '<collision><origin xyz="{} 0 0"/>'
        '<geometry><box size="0.2 0.1 0.1"/></geometry></collision>'
    )
    apart = Robot.from_urdf(text.format(part.format(0.0) + part.format(1.0)))
    assert link_shapes(apart)['a'].volume == pytest.approx(0.004)
    same = Robot.from_urdf(text.format(part.format(0.0) + part.format(0.0)))
    assert link_shapes(same)['a'].volume == pytest.approx(0.002)
    torn = text.format(
        part.format(0.0).replace('box size="0.2 0.1 0.1"', 'mesh filename="none.stl"')
    )
    assert robot_shapes(Robot.from_urdf(torn)) == {}


def test_without_shapes_the_radius_of_gyration_is_bounded_by_the_reach():
    """An inertia in g mm^2 is 1e9 times too large, a radius of gyration 3e4 times."""
    robot = Robot.from_urdf(URDF / 'szabo_3r.urdf')
    reach = robot_reach(robot)
    places = [placement.translation for placement in robot.model.jointPlacements]
    stretched = sum(np.linalg.norm(place) for place in places[2:])
    last = np.linalg.norm(robot.model.inertias[3].lever)
    assert reach == pytest.approx(stretched + 2.0 * last)
    assert not findings(robot.prior, reach=reach)
    moments = {
        f'link_2.I{axis}': 1e9 * robot.prior[f'link_2.I{axis}'] for axis in ('xx', 'yy', 'zz')
    }
    wrong = robot.prior.updated(moments)
    assert set(findings(wrong, reach=reach)) == {('link_2', 'radius_of_gyration')}
    assert "robot's reach" in plausibility(wrong, reach=reach).summary()


def test_a_slide_reaches_as_far_as_its_range():
    text = """<robot name="gantry"><link name="base"/><link name="a"><inertial><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
      <joint name="x" type="{}"><parent link="base"/><child link="a"/>
      <limit lower="-1" upper="2" effort="1" velocity="1"/></joint></robot>"""
    assert robot_reach(Robot.from_urdf(text.format('prismatic'))) == pytest.approx(3.0)
    assert robot_reach(Robot.from_urdf(text.format('revolute'))) == np.inf


def test_a_shape_that_stands_in_for_one_is_no_evidence():
    """A cube of a millimetre for a link of 0.5 kg whose inertia is that of a box of 40 cm."""
    cube = LinkShape(CENTRE + 0.0005 * BOX / (0.5 * SIZE), 1e-9)
    report = plausibility(robot_of(a=box()), None, {'a': cube})
    assert report.plausible and 'too small' in report.summary()
    # a mass in g within its own shape is as dense, and found
    grams = box(1000.0 * MASS) * np.where(np.arange(10) > 3, 1e-3, 1.0)
    assert ('a', 'density') in findings(robot_of(a=grams), None, SHAPES)


def test_intervals_are_never_inverted():
    """A ball of the mass, as dense as steel, is larger than the shape."""
    small = LinkShape(CENTRE + 0.35 * BOX, float(SIZE.prod()) * 0.35**3)
    body = box(20000.0 * small.volume, size=0.3 * SIZE)
    for found in findings(robot_of(a=body), None, {'a': small}).values():
        assert found.lower <= found.upper
