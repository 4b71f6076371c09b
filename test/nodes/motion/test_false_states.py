# SPDX-License-Identifier: Apache-2.0
"""
The true motion of an arm whose joint states are false, each fault once, on a clock of its own.

`benchmarks.false_states` runs each fault many times, and makes the table of
docs/explanation/motion.md.
"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from benchmarks.driven_arm import Arm, CONTROLLERS, SETTINGS
from benchmarks.false_states import changed, FAULTS, worst

TOLERANCE = 1.05
STREAMED = (
    'positions freeze, stamps go on',
    '+0.15 rad',
    '+1 rad on every 7th message',
    'a drift of 1 rad/s',
    'stamps with +-0.3 s of jitter',
    '0.4 s late, all at once',
)
"""Faults that a stream of commands is tried with; the others come to the same in it."""


@pytest.fixture(scope='module')
def arms():
    return {kind: Arm(kind, speed=0.8) for kind in CONTROLLERS}


def require_bounds(outcome):
    assert outcome.velocity <= TOLERANCE * SETTINGS.velocity_limits[0]
    assert outcome.acceleration <= TOLERANCE * SETTINGS.acceleration_limits[0]
    assert outcome.position <= 0.0
    assert outcome.off_path < 0.2
    assert outcome.at_rest


@pytest.mark.parametrize('number', range(len(FAULTS)))
def test_false_states_do_not_make_the_arm_leap(arms, number):
    name, fault = list(FAULTS.items())[number]
    when = np.random.default_rng(number).uniform(0.05, 0.8)
    outcome = arms['trajectories'].run(fault, when, seed=number)
    require_bounds(outcome)
    harmless = ('+1 rad on every 60th message', 'velocities of 1000 rad/s', 'noise of 0.01 rad')
    assert outcome.code or name in harmless, name


@pytest.mark.soak
@pytest.mark.parametrize('name', FAULTS)
def test_false_states_at_random_instants_do_not_make_the_arm_leap(arms, name):
    outcome = worst(arms['trajectories'], FAULTS[name], 20)
    require_bounds(outcome)


@pytest.mark.parametrize('kind', ['positions', 'velocities'])
@pytest.mark.parametrize('name', STREAMED)
def test_false_states_do_not_make_a_stream_leap(arms, kind, name):
    require_bounds(arms[kind].run(FAULTS[name], 0.4, seed=3))


@pytest.mark.parametrize('kind', list(CONTROLLERS))
def test_true_states_end_no_motion(arms, kind):
    outcome = arms[kind].run(true, 0.1, seed=0)
    assert outcome.code == '' and outcome.off_path < 0.01
    require_bounds(outcome)


def true(spoiler, message):
    return [(message, 0)]


def once(spoiler, message):
    if spoiler.count == 1:
        return [(changed(message, np.array(message.position) + 1.0), 0)]
    return [(message, 0)]


@pytest.mark.parametrize('kind', list(CONTROLLERS))
def test_a_contact_is_given_way_to_only_if_every_state_was_plausible(arms, kind):
    yielding = arms[kind].run(true, 0.05, seed=0, obstacle=0.7)
    doubtful = arms[kind].run(once, 0.05, seed=0, obstacle=0.7)
    assert yielding.code == doubtful.code == 'EFFORT_EXCEEDED'
    assert yielding.at_rest and doubtful.at_rest
    assert yielding.end_off_path > 0.005, 'where the states say that the robot is'
    assert doubtful.end_off_path < 0.001, 'on the checked path'


@pytest.mark.parametrize('offset', [0.15, -0.6, 1.0])
def test_states_that_were_false_before_the_first_motion_do_not_make_the_arm_leap(arms, offset):
    def fault(spoiler, message):
        message.position = [q + offset for q in message.position]
        return [(message, 0)]

    arm = arms['trajectories']
    outcome = arm.run(fault, -10.0, seed=1, displaced=-offset)
    assert outcome.velocity <= TOLERANCE * SETTINGS.velocity_limits[0]
    assert outcome.acceleration <= TOLERANCE * SETTINGS.acceleration_limits[0]


def test_the_table_of_the_documentation_has_every_fault():
    text = (Path(__file__).resolve().parents[3] / 'docs' / 'explanation' / 'motion.md').read_text()
    missing = [name for name in FAULTS if f'| {name} |' not in text]
    assert not missing
