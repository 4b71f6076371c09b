# SPDX-License-Identifier: Apache-2.0
"""The delta robot of Lomakin and Deutscher, with less data than the page of the papers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers import lomakin_deutscher as paper


@pytest.fixture(scope='module')
def clean():
    return paper.clean_recording(5000)


@pytest.fixture(scope='module')
def held():
    return paper.held_recordings(40, 125)


def mean_error(values):
    return paper.errors(values)['all']


def test_clean_data_give_the_parameters_where_the_sign_is_a_signal(clean):
    assert mean_error(paper.approximated(clean)) < 1e-3
    assert mean_error(paper.approximated(clean, projection='products')) < 1e-6
    assert mean_error(paper.savitzky_golay(clean)) > 1e-2
    literal = paper.errors(paper.composed(clean))
    assert literal['fc'] < -0.05 < 0.05 < literal['fv']


def test_held_efforts_are_taken_as_such(held):
    wanted = paper.errors(paper.approximated(held, effort_hold=True))
    forgotten = paper.errors(paper.approximated(held))
    assert wanted['all'] < 2e-2
    assert abs(forgotten['J']) > 0.05 > 5 * abs(wanted['J'])


@pytest.mark.soak
def test_the_recursive_estimate_is_the_batch_one_in_all_digits(held):
    plain = paper.approximated(held, effort_hold=True)
    recursive = paper.approximated(held, 'mrls', effort_hold=True)
    np.testing.assert_allclose(recursive, plain, rtol=1e-10)


def test_the_window_matters_less_than_that_of_savitzky_golay(clean):
    lengths = (9, 15, 21)
    filtered = [paper.savitzky_golay(clean, length) for length in lengths]
    projected = [paper.approximated(clean, window=paper.PERIOD * length) for length in lengths]
    assert paper.spread(projected) < 0.02 * paper.spread(filtered)


@pytest.mark.soak
def test_forward_simulation_comes_nearer_to_the_measured_positions(held):
    sets = [
        paper.table_1().values,
        paper.savitzky_golay(held),
        paper.approximated(held, effort_hold=True),
    ]
    truth, filtered, projected = paper.position_errors(held, sets, seconds=0.3)
    assert truth <= projected < 0.6 * filtered


def test_sampled_kernels_are_as_wrong_as_the_specification_says():
    assert paper.sampled_gain() == pytest.approx(-593, abs=1)


@pytest.mark.parametrize('derivative', [0, 1, 2])
def test_derivatives_come_with_the_order_of_the_paper(derivative):
    assert paper.order_of_error(derivative) == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize(('degree', 'expanded', 'order'), [(1, 2, 5), (1, 1, 3), (2, 2, 4)])
def test_products_come_with_the_order_of_the_paper(degree, expanded, order):
    assert paper.order_of_product(degree, expanded) == pytest.approx(order, abs=0.05)
