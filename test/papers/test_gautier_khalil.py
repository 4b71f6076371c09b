# SPDX-License-Identifier: Apache-2.0
"""Gautier and Khalil's three-joint robot: their page in small."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.excitation.sequence import WaypointSearchConstants

from benchmarks.papers import gautier_khalil as page
from benchmarks.papers import gautier_khalil_robot as paper


@pytest.fixture(scope='module', autouse=True)
def hasty():
    """Let searches end with hardly any polish."""
    hasty = WaypointSearchConstants(
        selection=((2.0, 60, 3), (8.0, 100, 2), (40.0, 100, 1)), finish=((100.0, 100, 1),)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('robot_identification.excitation.sequence.WAYPOINTS', hasty)
        yield


@pytest.fixture(scope='module')
def short():
    return paper.optimum(30, starts=12, rounds=0)


def test_15_base_parameters_with_the_papers_groupings():
    assert paper.base().n_base == 15
    np.testing.assert_allclose(paper.base().regrouping, paper.paper_regrouping(), atol=1e-12)
    projected = paper.base().project(paper.robot().prior).values
    np.testing.assert_allclose(projected, paper.true_base(), atol=1e-12)
    expressions = dict(zip(paper.base().names, paper.base().expressions, strict=True))
    assert expressions['link_2.Ixx'] == 'link_2.Ixx - link_2.Iyy - 0.25 link_3.m'
    assert expressions['link_2.Ixz'] == 'link_2.Ixz - 0.1 link_3.m - 0.5 link_3.mz'


def test_energies_have_a_constant_that_their_differences_have_not():
    rows = {row.quantity: row for row in page._structure().rows}
    assert rows['rank of energy differences'].met
    assert rows['rank of energies themselves'].met


def test_random_sequences_are_as_in_table_2():
    for r, (_, mean, _, _) in list(page.TABLE_2.items())[:5]:
        median = np.median(paper.random_conditions(r, 40))
        assert mean / 3.0 < median < 3.0 * mean


def test_a_short_search_comes_near_the_papers_optimum(short):
    # the page holds a long one to 11 and 9.5
    assert short.condition < 20.0
    assert short.scaled_condition < 20.0


def test_scaled_columns_are_told_apart_while_the_estimate_gets_worse(short):
    trap = paper.optimum_of_scaled_columns(30, starts=6, rounds=0)
    assert trap.scaled_condition < 0.6 * short.scaled_condition
    assert paper.spread(trap.sequence) > 1.5 * paper.spread(short.sequence)


@pytest.mark.parametrize('k', [0.001, 0.01])
def test_errors_are_what_the_covariance_predicts(short, k):
    random = paper.random_sequence(30, page.RANDOM[30])
    good, poor = (
        paper.noise_study(sequence, k, of_work=True, of_matrix=False)
        for sequence in (short.sequence, random)
    )
    for study in (good, poor):
        assert study.deviation == pytest.approx(1.0, abs=0.1)
    assert poor.parameter > 8.0 * good.parameter
    both = paper.noise_study(short.sequence, k, of_work=True, of_matrix=True, seeds=30)
    assert both.parameter > good.parameter


def test_peak_accelerations_are_not_monotone_in_a_share_of_segments():
    shares = paper.random_segments(60)
    assert 0.1 < shares.not_monotone < 0.4
    assert 0.03 < shares.outside < 0.3


def test_the_appendix_is_reproduced():
    assert all(row.met for row in page._appendix().rows)
