# SPDX-License-Identifier: Apache-2.0
"""Tests of identifiability on motions that excite only a part."""

import numpy as np
import pytest
from robot_identification.errors import IdentifiabilityError
from robot_identification.estimation import (
    essential,
    from_rows,
    ols,
    standard_covariance,
    wls,
)
from robot_identification.model.parameters import ParameterSet


def rows(seed=0, m=200, n=2, b=5):
    return np.random.default_rng(seed).normal(size=(m, n, b))


def test_everything_is_told_by_a_rich_motion(problem):
    estimate = wls(problem().system)
    assert estimate.excited.all() and set(estimate.reasons) == {''} and not estimate.warnings


@pytest.mark.parametrize('method', [ols, wls])
def test_column_of_zeros_keeps_the_prior(problem_of, method):
    matrix = rows()
    matrix[:, :, 2] = 0.0
    case = problem_of(matrix, np.arange(1.0, 6.0), 0.1)
    prior = ParameterSet(case.system.structure.layout, np.full(5, 7.0))
    estimate = method(case.system, prior=prior)
    assert estimate.excited.tolist() == [True, True, False, True, True]
    assert estimate.base.values[2] == 7.0 and np.isnan(estimate.std[2])
    assert np.isnan(estimate.covariance[2]).all() and np.isnan(estimate.covariance[:, 2]).all()
    assert np.isfinite(np.delete(np.delete(estimate.covariance, 2, 0), 2, 1)).all()
    assert estimate.rank == 4 and np.isfinite(estimate.condition_number)
    assert 'link.p2 is not identified' in estimate.warnings[0]
    assert [p.state for p in estimate][2] == 'NOT_EXCITED'
    without = method(case.system)
    assert without.base.values[2] == 0.0
    others = [0, 1, 3, 4]
    assert np.allclose(without.base.values[others], estimate.base.values[others])


def test_column_that_is_almost_zero_does_not_get_an_absurd_value(problem_of):
    matrix = rows()
    matrix[:, :, 2] *= 1e-7
    estimate = ols(problem_of(matrix, np.arange(1.0, 6.0), 0.1).system)
    assert estimate.excited.tolist() == [True, True, False, True, True]
    assert estimate.base.values[2] == 0.0


def test_of_two_equal_columns_the_later_is_given_up(problem_of):
    # Coulomb friction and offset of a joint that turns one way only
    matrix = rows()
    matrix[:, :, 4] = matrix[:, :, 1]
    case = problem_of(matrix, np.array([1.0, 2.0, 3.0, 4.0, 0.5]), 0.1)
    estimate = ols(case.system)
    assert estimate.excited.tolist() == [True] * 4 + [False]
    assert 'separate it from link.p1' in estimate.reasons[4]
    assert estimate.base.values[1] == pytest.approx(2.5, abs=0.05)
    prior = ParameterSet(case.system.structure.layout, [0, 0, 0, 0, 0.5])
    informed = ols(case.system, prior=prior)
    assert informed.base.values[1] == pytest.approx(2.0, abs=0.05)
    assert informed.relative_error == pytest.approx(estimate.relative_error)
    assert np.isnan(standard_covariance(estimate, case.system.structure)[4]).all()


def test_dependence_under_noise_in_the_columns_is_seen(problem_of):
    # a velocity that is constant but for noise: viscous friction is no longer told from Coulomb's
    rng = np.random.default_rng(1)
    matrix = rows()
    matrix[:, :, 4] = 0.3 * matrix[:, :, 1] * (1 + 1e-6 * rng.normal(size=(200, 2)))
    case = problem_of(matrix, np.ones(5), 0.1)
    estimate = ols(case.system)
    assert estimate.excited.tolist() == [True] * 4 + [False]
    # without noise in the effort the same rows do tell
    exact = ols(problem_of(matrix, np.ones(5), 0.0).system)
    assert exact.excited.all() and np.allclose(exact.base.values, 1.0, rtol=1e-6)


def test_parameter_of_value_zero_is_excited(problem_of):
    truth = np.array([1.0, 0.0, 3.0, 4.0, 5.0])
    estimate = ols(problem_of(rows(), truth, 0.1).system)
    assert estimate.excited.all() and estimate.relative_std[1] > 30


def test_small_units_are_not_taken_for_zero(problem_of):
    matrix = rows() * np.array([1.0, 1e-5, 1.0, 1e-4, 1.0])
    truth = np.array([1.0, 2e5, 3.0, 4e4, 5.0])
    estimate = ols(problem_of(matrix, truth, 0.1).system)
    assert estimate.excited.all() and np.allclose(estimate.base.values, truth, rtol=0.05)


def test_essential_leaves_what_is_not_excited_alone(problem_of):
    matrix = rows()
    matrix[:, :, 2] = 0.0
    case = problem_of(matrix, np.array([1.0, 0.0, 3.0, 4.0, 5.0]), 0.1)
    prior = ParameterSet(case.system.structure.layout, np.full(5, 7.0))
    estimate = wls(case.system, prior=prior)
    reduced = essential(case.system, estimate)
    assert reduced.base.values[2] == 7.0 and reduced.base.values[1] == 0.0
    assert reduced.essential.tolist() == [True, False, False, True, True]
    assert reduced.excited.tolist() == [True, True, False, True, True]


def test_joint_that_stands_still_is_named(problem, structure_of):
    from dataclasses import replace

    system = problem().system
    ranges = np.array([1.0, 5e-5, 1.0])
    still = replace(system, factor=replace(system.factor, position_range=ranges))
    with pytest.raises(IdentifiabilityError, match="joint 'joint_1' does not move") as error:
        wls(still)
    assert error.value.joint == 'joint_1' and 'lock' in error.value.remedy


def test_nothing_at_all_is_told(structure_of):
    effort = np.ones((50, 1))
    system = from_rows(structure_of(3), ('a',), np.zeros((50, 1, 3)), effort)
    with pytest.raises(IdentifiabilityError, match='none of the base parameters'):
        ols(system)
