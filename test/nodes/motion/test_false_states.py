# SPDX-License-Identifier: Apache-2.0
"""
The true motion of an arm whose joint states are false, on a clock of its own.

The path uses 95 % of the limits.  `make test` runs one fault of four, `make soak` all of them at
random instants; `benchmarks.false_states` makes the table of docs/explanation/motion.md.
"""

from dataclasses import replace
from pathlib import Path
import re

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification.excitation.collisions import planned_collisions
from robot_identification.excitation.constraints import CollisionError
from robot_identification.excitation.stops import check_stops
from robot_identification.nodes.excitation.contract import Contract

from benchmarks import driven_arm
from benchmarks.driven_arm import Arm, CONSTRAINTS, SETTINGS
from benchmarks.driven_world import DrivenController
from benchmarks.false_states import FAULTS, within_bounds, worst


@pytest.fixture(scope='module')
def arm():
    return Arm()


def require_bounds(outcome):
    assert within_bounds(outcome), outcome


HARMLESS = (
    '+0.05 rad',
    '+1 rad on every 60th message',
    'noise of 0.01 rad',
    'positions of half a second ago',
    'states that come ever later',
    'velocities of 1000 rad/s',
    'stamps with +-0.03 s of jitter',
    'stamps with +-0.3 s of jitter',
    'stamps 0.3 s ahead',
    'stamps 0.3 s behind',
    'stamps 30 s ahead',
    'stamps 30 s behind',
    'stamps at half speed',
    'stamps that slide by 0.5 s',
    'stamps of 0',
)
"""Faults that need not end a motion: nothing depends on them."""


@pytest.mark.parametrize('name', list(FAULTS)[::4])
def test_false_states_do_not_make_the_arm_leap(arm, name):
    outcome = arm.run(FAULTS[name], np.random.default_rng(len(name)).uniform(0.05, 0.6), seed=1)
    require_bounds(outcome)
    assert outcome.code or name in HARMLESS


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize('name', FAULTS)
def test_false_states_at_random_instants_do_not_make_the_arm_leap(arm, name, request):
    outcome = worst(arm, FAULTS[name], request.config.getoption('--instants'))
    require_bounds(outcome)
    assert outcome.code != 'NONE' or name in HARMLESS


def true(spoiler, message):
    return [(message, 0)]


def test_true_states_end_no_motion(arm):
    outcome = arm.run(true, 0.1, seed=0)
    assert outcome.code == '' and outcome.off_path < 0.02
    require_bounds(outcome)
    # it uses what the limits allow
    shares = (
        outcome.velocity / SETTINGS.velocity_limits[0],
        outcome.acceleration / SETTINGS.acceleration_limits[0],
    )
    assert max(shares) > 0.93


def test_the_walls_are_so_near_that_stops_just_keep_the_clearance(arm):
    deceleration = CONSTRAINTS.max_deceleration_on_cancel * 3
    kept = planned_collisions(arm.robot, SETTINGS)
    check_stops(arm.robot, arm.path, arm.limits, deceleration, kept)
    for moved in range(3):
        walls = list(SETTINGS.obstacles)
        x, y, z = walls[moved].position
        nearer = x - 1e-3 * np.sign(x), y - 1e-3 * np.sign(y), z
        walls[moved] = replace(walls[moved], position=nearer)
        model = planned_collisions(arm.robot, replace(SETTINGS, obstacles=tuple(walls)))
        with pytest.raises(CollisionError, match='a stop from'):
            check_stops(arm.robot, arm.path, arm.limits, deceleration, model)


@pytest.mark.parametrize(('deceleration', 'kept'), [(10.0, True), (5.0, False)])
def test_a_stop_that_is_weaker_than_the_checked_one_comes_too_close(
    arm, monkeypatch, deceleration, kept
):
    """The distance that is held to the clearance is that of the true motion."""

    async def told(*_):
        return Contract(np.full(3, 10.0), '', True, '')

    true = replace(CONSTRAINTS, max_deceleration_on_cancel=(deceleration,))
    monkeypatch.setattr(driven_arm, 'CONSTRAINTS', true)
    monkeypatch.setattr(DrivenController, 'prepare', told)
    outcome = arm.run(FAULTS['efforts of infinity'], 0.4, seed=0)
    assert outcome.code == 'UNTRUSTED_STATE'
    assert (outcome.distance >= SETTINGS.clearance - 1e-3) is kept
    assert within_bounds(outcome) is kept


def test_a_contact_is_called_one(arm):
    start, farthest = arm.path.position[0, 0], arm.path.position[:, 0].max()
    place = start + 0.6 * (farthest - start)
    outcome = arm.run(true, 0.05, seed=0, obstacle=place)
    assert outcome.code == 'CONTACT'


@pytest.mark.parametrize('offset', [0.15, -0.6, 1.0])
def test_states_that_were_false_before_the_first_motion_begin_none(arm, offset):
    def fault(spoiler, message):
        message.position = [q + offset for q in message.position]
        return [(message, 0)]

    outcome = arm.run(fault, -10.0, seed=1, displaced=-offset)
    assert outcome.code == 'UNTRUSTED_STATE'
    assert outcome.velocity < 0.01


def test_the_documentation_says_how_many_faults_were_tried():
    text = (Path(__file__).resolve().parents[3] / 'docs' / 'explanation' / 'motion.md').read_text()
    assert re.findall(r'for each of (\d+)\s+faults', text) == [str(len(FAULTS))]
