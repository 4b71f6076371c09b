# SPDX-License-Identifier: Apache-2.0
"""Messages keep what objects of the core hold, in the order asked for, or are refused."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given, strategies
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from builtin_interfaces.msg import Time
from robot_identification.errors import ExcitationError, IdentificationError
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.model.consistency import check
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.nodes.common import messages
from robot_identification_msgs.msg import LinkConsistency, Parameter

NOW = Time(sec=12, nanosec=345)


@given(strategies.integers(-(2**31) * 10**9, (2**31 - 1) * 10**9))
def test_times_go_there_and_back(value):
    assert messages.nanoseconds(messages.time_message(value)) == value


@given(strategies.floats(0.0, 1e5))
def test_durations_are_rounded_to_a_nanosecond(value):
    message = messages.duration_message(value)
    assert abs(messages.seconds(message) - value) <= 0.6e-9 + 1e-15 * value
    assert 0 <= message.nanosec < 10**9


def test_a_trajectory_comes_back_in_the_order_that_is_asked_for():
    time = np.array([0.0, 0.5, 1.25])
    rows = np.arange(9.0).reshape(3, 3)
    message = messages.message_of(
        PointTrajectory(('a', 'b', 'c'), time, rows, rows + 10, rows + 20), NOW
    )
    assert message.header.stamp == NOW
    points = messages.trajectory_points(message, ('c', 'a', 'b'))
    assert points.time.tolist() == time.tolist()
    assert points.position.tolist() == rows[:, [2, 0, 1]].tolist()
    assert points.velocity.tolist() == (rows + 10)[:, [2, 0, 1]].tolist()
    assert points.acceleration.tolist() == (rows + 20)[:, [2, 0, 1]].tolist()


def spoil_empty(message):
    message.points = []


def spoil_joints(message):
    message.joint_names = ['a', 'x']


def spoil_twice(message):
    message.joint_names = ['a', 'b', 'a']


def spoil_time(message):
    message.points[1].time_from_start = messages.duration_message(0.0)


def spoil_length(message):
    message.points[1].velocities = [1.0]


def spoil_value(message):
    message.points[1].positions = [0.0, float('nan')]


def spoil_positions(message):
    for point in message.points:
        point.positions = []


def spoil_velocities(message):
    for point in message.points:
        point.velocities = []


@pytest.mark.parametrize(
    ('spoil', 'text'),
    [
        (spoil_empty, 'has no points'),
        (spoil_joints, 'the trajectory does not have joints b: the robot has a, b'),
        (spoil_twice, 'the trajectory names twice joints a'),
        (spoil_time, 'time of point 1 is 0 s after 0 s'),
        (spoil_length, 'point 1 of the trajectory has 1 velocities, expected 2'),
        (spoil_value, "position of joint 'b' in point 1 is nan"),
        (spoil_positions, 'the trajectory has no positions'),
        (spoil_velocities, 'the trajectory has no velocities'),
    ],
)
def test_a_wrong_trajectory_is_refused_with_the_reason(spoil, text):
    zeros = np.zeros((2, 2))
    message = messages.message_of(
        PointTrajectory(('a', 'b'), np.array([0.0, 1.0]), zeros, zeros, zeros)
    )
    spoil(message)
    with pytest.raises(ExcitationError, match=text):
        messages.trajectory_points(message, ('a', 'b'))


@pytest.fixture
def parameters():
    layout = ParameterLayout.inertial(['link_1', 'link_2'])
    bodies = [2.0, 0.1, 0.0, 0.2, 0.5, 0.0, 0.5, 0.0, 0.0, 0.3]
    return ParameterSet(layout, np.array([*bodies, *(-b for b in bodies)]))


def standard_message(parameters):
    """Return the message of parameters that are all known."""
    structure = SimpleNamespace(category=lambda name: 'alone')
    std = np.full(len(parameters.values), 0.01)
    return messages.standard_parameters_message(parameters, NOW, 'arm', std, structure)


def test_parameters_go_there_and_back(parameters):
    message = standard_message(parameters)
    assert (message.robot, message.header.stamp) == ('arm', NOW)
    assert {p.state for p in message.parameters} == {Parameter.IDENTIFIED}
    back = messages.parameters_from_message(message)
    assert back.layout == parameters.layout
    assert back.values.tolist() == parameters.values.tolist()


def test_states_of_standard_parameters_follow_structure_and_excitation(parameters):
    categories = dict.fromkeys(parameters.layout, 'alone')
    categories['link_1.m'] = 'combined'
    categories['link_1.mx'] = 'unidentifiable'
    structure = SimpleNamespace(category=categories.get)
    std = np.full(20, 0.01)
    std[:3] = np.nan
    message = messages.standard_parameters_message(parameters, NOW, 'arm', std, structure)
    states = [p.state for p in message.parameters]
    assert states[:4] == [
        Parameter.DEPENDENT,
        Parameter.DEPENDENT,
        Parameter.NOT_EXCITED,
        Parameter.IDENTIFIED,
    ]
    assert message.parameters[3].relative_std == pytest.approx(5.0)
    assert np.isnan(message.parameters[0].std)


def test_wrong_parameters_are_refused(parameters):
    message = standard_message(parameters)
    message.parameters[3].value = float('inf')
    with pytest.raises(IdentificationError, match=r"parameter 'link_1.mz' is inf"):
        messages.parameters_from_message(message)
    message.parameters[3].name = 'link_1.m'
    with pytest.raises(IdentificationError, match=r'parameters occur twice: link_1.m'):
        messages.parameters_from_message(message)


def test_the_consistency_of_each_link_is_told(parameters):
    report = check(parameters)
    good, bad = messages.messages_of(LinkConsistency, report.links)
    assert good.link == 'link_1' and good.pseudo_inertia_positive_definite
    assert good.message == ''
    assert not bad.mass_positive and bad.smallest_eigenvalue < 0.0
    assert bad.message == report.links[1].message


def test_an_estimate_is_told_with_its_uncertainty():
    from robot_identification.estimation.estimate import (
        Estimate,
        Fit,
        Identifiability,
        JointFit,
        Uncertainty,
        WeightedRows,
    )

    layout = ParameterLayout(('link_1.mx', 'joint_1.fv'), ('kg m', 'N m s/rad'))
    estimate = Estimate(
        base=ParameterSet(layout, np.array([2.0, 0.5])),
        expressions=('link_1.mx + 0.2 link_2.m', 'joint_1.fv'),
        method='wls',
        identifiability=Identifiability(np.array([True, False]), ('', 'the joint does not move')),
        uncertainty=Uncertainty(np.diag([0.01, np.nan]), np.array([0.1, np.nan])),
        rows=WeightedRows(100, np.ones(1), 0.5, 20.0, 30.0),
        fit=Fit((JointFit('joint_1', 100, 0.5, 4.0, 5.0, 0.01),), 4.0, 5.0),
        robot='arm',
    )
    message = messages.base_parameters_message(estimate, NOW)
    first, second = message.parameters
    assert (first.name, first.expression) == ('link_1.mx', 'link_1.mx + 0.2 link_2.m')
    assert (first.unit, first.value, first.std, first.relative_std) == ('kg m', 2.0, 0.1, 5.0)
    assert (first.state, second.state) == (Parameter.IDENTIFIED, Parameter.NOT_EXCITED)
    assert np.isnan(second.std)
    fit = messages.fit_message(estimate, NOW)
    assert (fit.method, fit.rank, fit.condition_number) == ('wls', 1, 20.0)
    assert (fit.relative_error, fit.raw_relative_error) == (4.0, 5.0)
    joint = fit.joints[0]
    assert (joint.joint, joint.rmse, joint.relative_error) == ('joint_1', 0.5, 4.0)
    assert (joint.raw_relative_error, joint.bias) == (5.0, 0.01)


def test_a_regressor_goes_there_and_back():
    layout = ParameterLayout(('a.x', 'a.y'), ('1', '1'))
    rows = np.arange(6.0).reshape(2, 3).T  # not contiguous
    message = messages.regressor_message(rows, ['a'], layout, NOW, np.array([7.0, 8.0, 9.0]))
    assert (message.rows, message.cols, list(message.columns)) == (3, 2, ['a.x', 'a.y'])
    assert np.reshape(message.data, (message.rows, message.cols)).tolist() == rows.tolist()
    assert list(message.joints) == ['a']
    assert list(message.effort) == [7.0, 8.0, 9.0]
    assert list(messages.regressor_message(rows, ['a'], layout, NOW).effort) == []
