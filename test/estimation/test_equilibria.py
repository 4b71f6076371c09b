# SPDX-License-Identifier: Apache-2.0
"""Rows without effort, such as those of links on elastic joints: their weights and figures."""

import numpy as np
import pytest
from robot_identification.errors import RecordingError
from robot_identification.estimation.least_squares import evaluate, joint_weights, ols, wls
from robot_identification.estimation.system import from_rows
from robot_identification.pages.estimate_text import estimate_summary

TRUTH = np.array([1.5, -2.0, 0.7, 3.0])
NOISE = np.array([0.002, 0.05, 0.01])
DRIVEN = np.array([False, False, True])
JOINTS = ('link_a', 'link_b', 'motor')


def rows(seed=0, m=4000):
    """Rows (m, 3, 4) whose effort is `TRUTH`'s with noise, and exactly 0 where none drives."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(m, 3, 4))
    effort = matrix @ TRUTH + NOISE * rng.normal(size=(m, 3))
    for j in np.flatnonzero(~DRIVEN):
        # the error of an equilibrium is in its terms, here in the third one
        matrix[:, j, 2] -= effort[:, j] / TRUTH[2]
        effort[:, j] = 0.0
    return matrix, effort


@pytest.fixture
def system(structure_of):
    matrix, effort = rows()
    return from_rows(structure_of(4), JOINTS, matrix, effort, driven=DRIVEN)


def test_they_are_weighed_by_what_the_fit_of_all_rows_leaves_of_them(system):
    np.testing.assert_allclose(joint_weights(system), 1.0 / NOISE, rtol=0.05)


def test_the_weights_are_worth_it(structure_of):
    """Over many recordings, the errors are as the covariance says, and smaller than with ols."""
    scaled, others = [], []
    for seed in range(40):
        matrix, effort = rows(seed, 400)
        system = from_rows(structure_of(4), JOINTS, matrix, effort, driven=DRIVEN)
        estimate = wls(system)
        scaled.append((estimate.base.values - TRUTH) / estimate.std)
        others.append((ols(system).base.values - TRUTH) / estimate.std)
    # four standard errors of the mean of 40
    assert np.abs(np.mean(scaled, axis=0)).max() < 4.0 / np.sqrt(40.0)
    assert np.mean(np.square(others)) > 10.0 * np.mean(np.square(scaled))
    assert np.sqrt(np.mean(np.square(scaled))) == pytest.approx(1.0, abs=0.15)


def test_relative_errors_leave_them_out(system):
    fit = evaluate(system, TRUTH)
    assert np.isnan([joint.relative_error for joint in fit.joints[:2]]).all()
    assert np.isnan([joint.raw_relative_error for joint in fit.joints[:2]]).all()
    np.testing.assert_allclose([joint.rmse for joint in fit.joints], NOISE, rtol=0.05)
    assert fit.relative_error == pytest.approx(fit.joints[2].relative_error)
    assert fit.raw_relative_error == pytest.approx(fit.joints[2].raw_relative_error)


def test_the_estimate_says_so_and_shows_no_nan(system):
    estimate = wls(system)
    assert 'link_a, link_b have no effort' in estimate.notes[0]
    assert 'nan' not in estimate_summary(estimate)
    joints = estimate.to_dict()['joints']
    assert joints['link_a']['relative_error'] is None


def test_a_zero_effort_of_what_is_driven_is_still_refused(structure_of):
    matrix, effort = rows()
    effort[:, 2] = 0.0
    with pytest.raises(RecordingError, match="effort of joint 'motor' is zero"):
        from_rows(structure_of(4), JOINTS, matrix, effort, driven=DRIVEN)
