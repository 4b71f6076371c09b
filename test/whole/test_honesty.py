# SPDX-License-Identifier: Apache-2.0
"""Nothing but a URDF and recordings given: a physical robot, and intervals that hold the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.identification.pipeline import identify_sources

from benchmarks import honesty


@pytest.mark.parametrize(
    ('name', 'seeds'),
    [
        ('szabo_3r', 2),
        *(
            pytest.param(*case, marks=pytest.mark.soak)
            for case in (('szabo_3r', 4), ('demo_arm, 4 joints', 3), ('demo_arm', 2), ('panda', 2))
        ),
    ],
)
def test_defaults_give_a_physical_robot_whose_intervals_hold(name, seeds):
    robot = honesty.arms()[name]
    held = []
    for seed in range(1, seeds + 1):
        recorded, masses = honesty.recording(robot, seed)
        result = honesty.identified(robot, recorded)
        assert result.settings.estimation.method == 'physical' and result.consistency.physical
        held += honesty.within(result, masses)
    assert np.mean(held) >= 0.9


@pytest.mark.soak
def test_classical_deviations_do_not_hold():
    """So the model's errors of the test above are not too small to matter."""
    robot = honesty.arms()['demo_arm']
    problem = honesty.problem(robot)
    plain = replace(problem, estimation=EstimationSettings(method='wls', bootstrap=None))
    off = []
    for seed in range(1, 3):
        recorded, _ = honesty.recording(robot, seed)
        known = honesty.true_parameters(robot, seed)
        for chosen in (plain, replace(plain, estimation=EstimationSettings(method='wls'))):
            result = identify_sources(chosen, [recorded])
            true = result.structure.project(known).values
            away = np.abs(result.estimate.base.values - true) / result.estimate.std
            off.append(np.mean(away > 1.96))
    classical, drawn = np.mean(off[::2]), np.mean(off[1::2])
    assert classical > 0.3 and drawn < classical - 0.1


def test_settings_that_physical_does_not_have_are_met_by_wls_with_a_remark():
    robot = honesty.arms()['szabo_3r']
    settings = EstimationSettings(standard='base_columns')
    problem = replace(honesty.problem(robot), estimation=settings)
    result = identify_sources(problem, [honesty.recording(robot, 1)[0]])
    assert result.estimate.method == result.settings.estimation.method == 'wls'
    assert any('takes its place' in text for text in result.warnings)


@pytest.mark.skipif(not honesty.UR10E.is_dir(), reason=honesty.NO_UR10E)
def test_the_spread_over_real_runs_is_as_stated():
    ratio = honesty.real_spread()
    assert 0.7 <= ratio['bootstrap'] <= 1.5
    assert ratio['classical'] > 1.5
