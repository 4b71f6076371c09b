# SPDX-License-Identifier: Apache-2.0
"""The objective and its penalties: gradients, and pairs that never come far apart."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.excitation.bases import FourierBasis
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.distance_penalty import DistancePenalty, PENALTY
from robot_identification.excitation.families import MotionFamily
from robot_identification.excitation.objective import Objective, wanted_parameters
from robot_identification.excitation.planner import plan_limits, start_poses
from robot_identification.excitation.settings import PlannerSettings, with_floor
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf'


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF / 'demo_arm.urdf')


@pytest.mark.parametrize('criterion', ['deviations', 'log_det'])
@pytest.mark.parametrize(
    ('distances', 'step', 'tolerance'),
    # distances come out of an iteration that ends at 1e-6 m
    [(False, 1e-6, 1e-4), (True, 1e-4, 2e-2)],
)
def test_the_gradient_holds_with_its_penalties(arm, criterion, distances, step, tolerance):
    settings = PlannerSettings(duration=6.0, criterion=criterion)
    collisions = collision_model(arm, 0.2, with_floor((), 0.0)) if distances else None
    limits, _ = plan_limits(arm, settings)
    start = start_poses(arm, settings, limits, None)[0]
    goal = wanted_parameters(arm, settings, ModelSettings(), limits, None, None)
    objective = Objective(
        family=MotionFamily(FourierBasis(6.0, 1 / 6, 5), limits, start, np.arange(6), True),
        goal=goal,
        time=np.linspace(0.1, 5.9, 100),
        # efforts that are sure to be exceeded
        effort=0.3 * limits.effort,
        distances=DistancePenalty(collisions, 0.5 * limits.acceleration) if collisions else None,
        buffer=0.23,
    )
    rng = np.random.default_rng(1)
    x = objective.family.random(rng)
    value, gradient = objective.gradient(x)
    without = replace(objective, distances=None)
    assert without.value(x).penalty > 0.01
    assert (value.penalty > without.value(x).penalty + 0.01) == distances
    assert value.total == pytest.approx(objective.value(x).total)
    change = rng.standard_normal(x.shape)
    ahead, behind = (objective.value(x + s * change).total for s in (step, -step))
    assert (gradient * change).sum() == pytest.approx((ahead - behind) / (2 * step), rel=tolerance)


LINK = """
<link name="l{0}"><inertial><mass value="1"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="{1} 0 0"/><geometry><sphere radius="{2}"/></geometry></collision></link>
"""
JOINT = """
<joint name="j{0}" type="revolute"><parent link="l{1}"/><child link="l{0}"/>
  <origin xyz="{2} 0 0"/><axis xyz="0 0 1"/>
  <limit lower="-3.1" upper="3.1" velocity="1" effort="1000"/></joint>
"""


def chain(radius):
    """Return links of 1 m in a row, with balls at the base and at the end of each."""
    links = [LINK.format(i, min(i, 1), radius) for i in range(4)]
    joints = [JOINT.format(i, i - 1, int(i > 1)) for i in (1, 2, 3)]
    return collision_model(
        Robot.from_urdf(f'<robot name="chain">{"".join(links + joints)}</robot>'), 0.01
    )


def test_the_gradient_is_that_of_the_penalty():
    penalty = DistancePenalty(chain(0.1))
    rng = np.random.default_rng(3)
    position = np.array([0.3, 2.8, 2.9]) + 0.2 * rng.standard_normal((20, 3))
    value, gradient = penalty.at_positions(position, 0.5)
    assert value > 0.0
    step = 1e-6
    for row in range(20):
        for joint in range(3):
            ahead, behind = position.copy(), position.copy()
            ahead[row, joint] += step
            behind[row, joint] -= step
            difference = (
                penalty.at_positions(ahead, 0.5)[0] - penalty.at_positions(behind, 0.5)[0]
            ) / (2.0 * step)
            assert gradient[row, joint] == pytest.approx(difference, abs=1e-5 * max(1.0, value))


def test_a_pair_that_never_comes_far_apart_may_come_closer_than_the_buffer():
    # the balls of l0 and l2 are 2 m apart at most, so 0.2 m between their surfaces
    model = chain(0.9)
    buffers = dict(zip(model.pairs, DistancePenalty(model).buffers(0.2), strict=True))
    assert buffers['l0', 'l2'] == pytest.approx(0.01 + PENALTY.room_share * 0.19, abs=2e-3)
    assert buffers['l0', 'l3'] == 0.2


@pytest.mark.parametrize('size', [0.003, 0.03, 0.3])
def test_motions_before_change_nothing(size):
    rng = np.random.default_rng(5)
    model, used = chain(0.2), DistancePenalty(chain(0.2))
    position = rng.uniform(-3.0, 3.0, (60, 3))
    values = []
    for _ in range(30):
        position = position + size * rng.standard_normal(position.shape)
        value, gradient = used.at_positions(position, 0.1)
        expected, slope = DistancePenalty(model).at_positions(position, 0.1)
        assert value == pytest.approx(expected, rel=1e-6)
        assert gradient == pytest.approx(slope, abs=1e-6)
        values.append(value)
    # some motions are close enough to count, and not all alike
    assert np.ptp(values) > 0.0
