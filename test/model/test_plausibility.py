# SPDX-License-Identifier: Apache-2.0
"""Plausibility against bodies whose density, size and centre of mass are known."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.model.link_geometry import link_shapes, LinkShape
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.plausibility import (
    plausibility,
    PlausibilityBounds,
    robot_shapes,
)
from robot_identification.model.robot import Robot

URDF = Path(__file__).parents[2] / 'urdf'

SIZE = np.array([0.4, 0.1, 0.05])
CENTRE = np.array([0.2, 0.0, 0.0])
CORNERS = CENTRE + 0.5 * SIZE * np.array(
    [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
)
SHAPES = {'a': LinkShape(CORNERS, float(SIZE.prod()))}
MASS = 2000.0 * SIZE.prod()


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
