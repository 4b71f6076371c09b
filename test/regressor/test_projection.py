# SPDX-License-Identifier: Apache-2.0
"""Projected regressors, held against the operator applied to the regressor of the exact motion."""

import numpy as np
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    DeltaSettings,
    ModelSettings,
    projection,
)
from robot_identification.regressor.delta import delta_robot
from robot_identification.regressor.elastic import build_elastic, ElasticJoints
from robot_identification.regressor.projection import forms, Projection
from robot_identification.signals import SignalSettings, stretches
from robot_identification.signals.polynomial_approximation import apply
from robot_identification.signals.settings import PolynomialApproximation

RATE = 1000.0

BODY = """<inertial><origin xyz="0.1 0.02 0.03" rpy="0.1 0.2 0.3"/><mass value="2"/>
    <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/></inertial>"""

# a branch with a sliding joint, and an arm of turning joints with skew axes
TREE = f"""
<robot name="tree">
  <link name="base"/>
  <link name="trunk">{BODY}</link><link name="rod">{BODY}</link>
  <link name="arm">{BODY}</link><link name="hand">{BODY}</link>
  <joint name="turn" type="continuous"><parent link="base"/><child link="trunk"/>
    <origin rpy="0.2 0.1 0"/><axis xyz="0 0 1"/></joint>
  <joint name="slide" type="prismatic"><parent link="trunk"/><child link="rod"/>
    <origin xyz="0.1 0 0.2" rpy="0.3 0.2 0"/><axis xyz="1 0 0"/>
    <limit effort="1" velocity="1" lower="-1" upper="1"/></joint>
  <joint name="swing" type="continuous"><parent link="trunk"/><child link="arm"/>
    <origin xyz="0 0.2 0.3" rpy="0.4 0 0.2"/><axis xyz="0 1 0"/></joint>
  <joint name="bend" type="continuous"><parent link="arm"/><child link="hand"/>
    <origin xyz="0.3 0 0.1" rpy="0 0.5 0.1"/><axis xyz="0.6 0 0.8"/></joint>
</robot>
"""

MODEL = ModelSettings(
    friction=('viscous', 'coulomb', 'offset', 'stribeck'),
    stribeck_slope=3.0,
    coupled_drives=(CoupledDrive(motor='bend', joints=('swing', 'bend')),),
)


@pytest.fixture(scope='module')
def regressor():
    return build(Robot.from_urdf(TREE), MODEL)


def motion_at(time, n, middle=0.0, size=0.6):
    """Give a motion of n coordinates and its derivatives."""
    omega = 2 * np.pi * np.linspace(0.6, 1.4, n)
    angle = omega * time[:, None] + np.linspace(0.3, 4.0, n)
    sine, cosine = size * np.sin(angle), size * np.cos(angle)
    return Motion(middle + sine, omega * cosine, -(omega**2) * sine)


def projected(regressor, n, duration=0.4, middle=0.0, size=0.6, **parameters):
    """Rows of `Projection`, and P of the rows of the exact motion; (m, rows, columns) each."""
    time = np.arange(round(duration * RATE)) / RATE
    exact = motion_at(time, n, middle, size)
    names = tuple(f'joint_{i}' for i in range(n))
    recording = Recording(time, exact.position, exact.velocity, names)
    settings = SignalSettings(
        method='polynomial_approximation',
        trim=0.0,
        polynomial_approximation=PolynomialApproximation(**parameters),
    )
    (samples,) = stretches(recording, settings)
    columns = np.arange(len(regressor.layout))
    rows = Projection(regressor, columns).rows(samples)
    operator, stride = samples.operator, samples.stride
    start = round((samples.time[0] + operator.instant) * RATE) - operator.taps + 1
    flat = regressor.rows(exact).reshape(len(time), -1)[start : start + len(samples.raw)]
    wanted = apply(operator.value(), flat, stride=stride)
    return rows, wanted.reshape(rows.shape)


def error(regressor, n, places, **parameters):
    """Largest error of some columns, as a share of their largest entry."""
    rows, wanted = projected(regressor, n, **parameters)
    places = np.asarray(places)
    return np.abs(rows - wanted)[:, :, places].max() / np.abs(wanted[:, :, places]).max()


def names_of(regressor, places):
    return {regressor.layout.names[i] for i in places}


def test_forms_of_the_columns_are_found(regressor):
    found = forms(regressor, np.arange(len(regressor.layout)))
    other = names_of(regressor, found.other)
    joints = ('turn', 'slide', 'swing', 'bend')
    assert other == {f'{j}.{s}' for j in joints for s in ('fc', 'tsc')} | {'bend.fcm'}
    linear = names_of(regressor, found.linear)
    assert linear >= {f'{j}.{s}' for j in joints for s in ('Ia', 'fv', 'off')}
    assert linear >= {'bend.Iam', 'bend.fvm'}
    quadratic = names_of(regressor, found.quadratic)
    assert {'hand.Ixx', 'arm.mz', 'rod.m'} <= quadratic
    assert not quadratic & linear
    # the branches do not touch
    for term in found.terms:
        assert not {1, 2} <= set(term.joints)
        assert not {1, 3} <= set(term.joints)


@pytest.mark.parametrize('way', ['composition', 'products'])
def test_columns_with_constant_coefficients_are_exact(regressor, way):
    found = forms(regressor, np.arange(len(regressor.layout)))
    assert error(regressor, 4, found.linear, projection=way) < 1e-8


@pytest.mark.parametrize('way', ['composition', 'products'])
def test_friction_is_filtered_as_a_signal(regressor, way):
    found = forms(regressor, np.arange(len(regressor.layout)))
    assert error(regressor, 4, found.other, projection=way) < 1e-4


@pytest.mark.parametrize(
    ('way', 'order', 'size'), [('composition', 3.0, 1e-2), ('products', 5.0, 1e-5)]
)
def test_rigid_bodies_are_projected_with_the_order_of_their_rule(regressor, way, order, size):
    found = forms(regressor, np.arange(len(regressor.layout)))
    windows = (0.04, 0.03, 0.02)
    errors = [
        error(regressor, 4, found.quadratic, window=T, projection=way, stride=1) for T in windows
    ]
    assert np.polyfit(np.log(windows), np.log(errors), 1)[0] == pytest.approx(order, abs=0.1)
    assert errors[0] < size


def test_a_higher_product_degree_is_more_accurate(regressor):
    found = forms(regressor, np.arange(len(regressor.layout)))
    two, three = (
        error(regressor, 4, found.quadratic, window=0.12, projection='products', product_degree=d)
        for d in (2, 3)
    )
    assert three < 0.1 * two


def test_pieces_and_strides_make_no_difference(regressor, monkeypatch):
    whole, _ = projected(regressor, 4, projection='products', stride=1)
    strided, _ = projected(regressor, 4, projection='products', stride=7)
    scale = np.abs(whole).max(axis=(0, 1)) + 1e-9
    assert np.abs((whole[::7] - strided) / scale).max() < 1e-9
    monkeypatch.setattr(projection, '_PIECE', 60)
    pieces, _ = projected(regressor, 4, projection='products', stride=7)
    assert np.abs((pieces - strided) / scale).max() < 1e-9


def test_elastic_joints_are_projected_too():
    robot = Robot.from_urdf(TREE, ('turn', 'swing'), locked={'slide': 0.1, 'bend': 0.2})
    settings = ModelSettings(elastic=ElasticJoints(gear_ratios=(10.0, 10.0)))
    elastic = build_elastic(robot, settings)
    found = forms(elastic, np.arange(len(elastic.layout)))
    assert {name.rpartition('.')[2] for name in names_of(elastic, found.other)} == {'fc'}
    for places in (found.linear, found.quadratic):
        assert error(elastic, 4, places, projection='products', stride=1) < 3e-5


def test_a_closed_chain_is_projected_too():
    # three coordinates about 0.35 rad, where the forearms are far from straight
    geometry = DeltaSettings(
        base_radius=0.14, platform_radius=0.04, arm_length=0.2, forearm_length=0.46
    )
    friction = ('viscous', 'coulomb')
    delta = build(delta_robot(geometry), ModelSettings(friction, delta=geometry))
    found = forms(delta, np.arange(len(delta.layout)))
    symbols = [
        {name.rpartition('.')[2] for name in names_of(delta, places)}
        for places in (found.linear, found.quadratic, found.other)
    ]
    assert symbols == [{'fv', 'J'}, {'mr', 'm4'}, {'fc'}]
    composed, expanded = (
        error(delta, 3, found.quadratic, middle=0.35, size=0.3, projection=way, stride=1)
        for way in ('composition', 'products')
    )
    assert expanded < 1e-5
    assert composed < 3e-3


def test_samples_without_windows_are_evaluated_as_they_are(regressor):
    motion = motion_at(np.arange(50) / RATE, 4)
    samples = next(
        iter(
            stretches(
                Recording(np.arange(50) / RATE, motion.position, motion.velocity, tuple('abcd')),
                SignalSettings(method='savitzky_golay', cutoff=60.0, trim=0.0),
            )
        )
    )
    columns = np.array([3, 11, 40])
    rows = Projection(regressor, columns).rows(samples)
    plain = regressor.rows(Motion(samples.position, samples.velocity, samples.acceleration))
    np.testing.assert_array_equal(rows, plain.reshape(len(samples), 4, -1)[:, :, columns])
