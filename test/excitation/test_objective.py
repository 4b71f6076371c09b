# SPDX-License-Identifier: Apache-2.0
"""The planner's objective: its gradient is that of differences, penalties included."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from robot_identification.base_parameters import structure
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.criteria import by_information, CRITERIA
from robot_identification.excitation.distance_penalty import DistancePenalty
from robot_identification.excitation.families import FourierBasis, MotionFamily
from robot_identification.excitation.objective import Objective
from robot_identification.excitation.obstacles import with_floor
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.start_poses import plan_limits, start_poses
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, prior

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
    settings = PlannerSettings(duration=6.0)
    collisions = collision_model(arm, 0.2, with_floor((), 0.0)) if distances else None
    limits, _ = plan_limits(arm, settings)
    start = start_poses(arm, settings, limits, None)[0]
    regressor = build(arm)
    base = structure(regressor, arm)
    places = np.arange(base.n_base)
    objective = Objective(
        family=MotionFamily(FourierBasis(6.0, 1 / 6, 5), limits, start, np.arange(6), True),
        regressor=regressor,
        columns=base.independent,
        prior=prior(arm),
        criterion=partial(by_information, places=places, function=CRITERIA[criterion]),
        noise=0.01 * arm.limits.effort,
        earlier=np.zeros((base.n_base, base.n_base)),
        time=np.linspace(0.1, 5.9, 100),
        # efforts that are sure to be exceeded
        effort=0.3 * limits.effort,
        distances=DistancePenalty(collisions) if collisions else None,
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
