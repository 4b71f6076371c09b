# SPDX-License-Identifier: Apache-2.0
"""Columns of tables are found by name, or by content, in conventions of several sources."""

import numpy as np
import pytest
from robot_identification.data.column_names import (
    guess_by_content,
    guess_by_name,
    named_by_cells,
)

UR = (
    'shoulder_pan_joint',
    'shoulder_lift_joint',
    'elbow_joint',
    'wrist_1_joint',
    'wrist_2_joint',
    'wrist_3_joint',
)
ARM = tuple(f'joint_{k}' for k in range(1, 8))


def several(pattern, count, first=1):
    return [pattern.format(k) for k in range(first, first + count)]


CONVENTIONS = {
    'letters': (ARM, 't', several('q{}', 7), several('dq{}', 7), several('tau{}', 7)),
    'from zero': (
        ARM,
        'time',
        several('pos_{}', 7, 0),
        several('vel_{}', 7, 0),
        several('eff_torque_{}', 7, 0),
    ),
    'brackets': (
        ARM,
        'time [s]',
        several('q[{}] (rad)', 7, 0),
        several('dq[{}] (rad/s)', 7, 0),
        several('tau_J[{}] (Nm)', 7, 0),
    ),
    'PlotJuggler': (
        UR,
        '__time',
        [f'/joint_states/{joint}/position' for joint in UR],
        [f'/joint_states/{joint}/velocity' for joint in UR],
        [f'/joint_states/{joint}/effort' for joint in UR],
    ),
    'joint names': (
        ARM,
        'stamp',
        [f'{joint}_pos' for joint in ARM],
        [f'{joint}_vel' for joint in ARM],
        [f'{joint}_torque' for joint in ARM],
    ),
    'camel case': (
        ARM,
        'Timestamp',
        several('JointPosition{}', 7),
        several('JointVelocity{}', 7),
        several('JointTorque{}', 7),
    ),
    'dots': (ARM, 'sec', several('q_{}', 7), several('q_dot_{}', 7), several('tau_{}', 7)),
}


@pytest.mark.parametrize('name', CONVENTIONS)
def test_conventions_are_understood(name):
    joints, time, *signals = CONVENTIONS[name]
    names = [time, *(column for signal in signals for column in signal)]
    # no order of the columns is taken for granted
    shuffled = list(np.random.default_rng(0).permutation(names))
    for order in (names, shuffled):
        guess = guess_by_name(order, joints)
        assert guess.time == time
        assert guess.joints == joints
        assert [list(guess.columns[s]) for s in ('position', 'velocity', 'effort')] == signals
        assert guess.complete and not guess.by_content


def test_measured_columns_are_taken_before_commanded_ones():
    """The columns of Universal Robots' RTDE, with those that look alike."""
    patterns = [
        'target_q_{}',
        'target_qd_{}',
        'target_qdd_{}',
        'target_current_{}',
        'target_moment_{}',
        'actual_q_{}',
        'actual_qd_{}',
        'actual_current_{}',
        'actual_current_window_{}',
        'joint_control_output_{}',
        'actual_TCP_pose_{}',
        'actual_TCP_speed_{}',
        'actual_TCP_force_{}',
        'joint_temperatures_{}',
        'joint_mode_{}',
    ]
    names = ['timestamp', *(column for p in patterns for column in several(p, 6, 0))]
    guess = guess_by_name(names, UR)
    assert guess.columns == {
        'position': tuple(several('actual_q_{}', 6, 0)),
        'velocity': tuple(several('actual_qd_{}', 6, 0)),
        'effort': tuple(several('actual_current_{}', 6, 0)),
    }
    assert guess.effort_name == 'current'


def test_commanded_columns_give_way_to_those_without_a_word():
    names = [name for p in ('q_des_{}', 'q_{}', 'tau_cmd_{}', 'tau_{}') for name in several(p, 7)]
    columns = guess_by_name(names, ARM).columns
    assert columns == {
        'position': tuple(several('q_{}', 7)),
        'effort': tuple(several('tau_{}', 7)),
    }


def test_columns_that_name_joints_alone_take_the_signal_of_the_file():
    joints = ARM[:6]
    names = several('Joint_{}', 6)
    assert set(guess_by_name(names, joints, 'pos_read_data.csv').columns) == {'position'}
    assert set(guess_by_name(names, joints, 'curr_data.csv').columns) == {'effort'}
    assert not guess_by_name(names, joints, 'data.csv').columns


def test_joints_that_are_not_recorded_are_left_out():
    guess = guess_by_name([*several('q{}', 6), *several('tau{}', 6)], (*ARM, 'finger'))
    assert guess.joints == ARM[:6]
    guess = guess_by_name([f'{j}/{s}' for j in UR[1:3] for s in ('position', 'effort')], UR)
    assert guess.joints == UR[1:3]


def test_a_joint_whose_name_begins_as_another_ones_is_another_joint():
    joints = ('joint_1', 'joint_10')
    names = ['joint_10_pos', 'joint_1_pos', 'joint_10_effort', 'joint_1_effort']
    assert guess_by_name(names, joints).columns['position'] == ('joint_1_pos', 'joint_10_pos')


@pytest.mark.parametrize('acceleration', [False, True])
def test_columns_without_names_are_told_apart_by_content(acceleration):
    time = np.arange(500) / 100.0
    phase = np.array([0.3, 1.1, 2.0])
    position = np.sin(1.7 * time[:, None] + phase)
    velocity = 1.7 * np.cos(1.7 * time[:, None] + phase)
    effort = np.random.default_rng(0).normal(size=(500, 3))
    more = [-(1.7**2) * position] if acceleration else []
    table = np.column_stack([time, velocity, position, *more, effort])
    guess = guess_by_content(table, range(table.shape[1]), ARM[:3])
    last = table.shape[1]
    assert guess.time == 0 and guess.by_content
    assert guess.columns == {
        'velocity': (1, 2, 3),
        'position': (4, 5, 6),
        'effort': tuple(range(last - 3, last)),
    }


def test_content_that_says_nothing_is_not_guessed():
    table = np.random.default_rng(0).normal(size=(100, 8))
    assert not guess_by_content(table, range(8), ARM[:3]).columns
    assert not guess_by_content(table, range(8), ARM).columns


@pytest.mark.parametrize(
    ('names', 'time'),
    [
        (('sec', 'nanosec', 'q1', 'tau1'), ('sec', 'nanosec')),
        (
            ('header.stamp.sec', 'header.stamp.nanosec'),
            ('header.stamp.sec', 'header.stamp.nanosec'),
        ),
        (('secs', 'nsecs', 'q1', 'tau1'), ('secs', 'nsecs')),
        (('time [s]', 'q1', 'tau1'), 'time [s]'),
        (('sec', 'q1', 'tau1'), 'sec'),
    ],
)
def test_stamps_in_one_column_or_in_two(names, time):
    assert guess_by_name(names, ('a',)).time == time


def test_joints_in_the_cells_of_rostopic_echo():
    """The order is that of the driver, not of the URDF."""
    names = ['%time', *(f'field.{s}{k}' for s in ('name', 'position', 'effort') for k in (0, 1))]
    cells = ['1700000000000000000', 'elbow', 'base', '0.1', '0.2', '3', '4']
    named = named_by_cells(names, cells)
    guess = guess_by_name(named, ('base', 'elbow'))
    columns = {s: [names[named.index(c)] for c in found] for s, found in guess.columns.items()}
    assert columns == {
        'position': ['field.position1', 'field.position0'],
        'effort': ['field.effort1', 'field.effort0'],
    }
    assert guess.time == '%time'
    assert named_by_cells(['t', 'q0'], ['0', '1']) == ['t', 'q0']
