# SPDX-License-Identifier: Apache-2.0
"""Comparison of results: differences, their probabilities, and the tables."""

from types import SimpleNamespace

import numpy as np
import pytest
from robot_identification.errors import IdentificationError
from robot_identification.identification.revalidation import compare_results, holm
from scipy.stats import norm


def test_holm_by_hand():
    corrected = holm(np.array([[0.04, 0.01], [np.nan, 0.03]]))
    assert corrected[0] == pytest.approx([0.06, 0.03])
    assert np.isnan(corrected[1, 0])
    assert corrected[1, 1] == pytest.approx(0.06)


def result(values, std, expressions=('a.m + b.m', 'b.mx', 'j.fv'), joints=('j',)):
    layout = SimpleNamespace(names=expressions, units=('kg', 'kg m', 'N m s')[: len(expressions)])
    base = SimpleNamespace(layout=layout, values=np.array(values))
    robot = SimpleNamespace(joints=joints, end_links=())
    return SimpleNamespace(
        expressions=expressions,
        base=base,
        base_std=np.array(std),
        covariance=np.diag(np.square(std)),
        document={'covariance': [[1.0]]},
        combinations=tuple({} for _ in expressions),
        robot=robot,
    )


def test_differences_are_tested_with_the_deviations_of_both():
    first = result([1.0, 2.0, 3.0], [0.3, 0.1, 0.1])
    second = result([2.0, 2.01, 3.2], [0.4, 0.1, 0.0])
    found = compare_results([first, second], ['A.yaml', 'B.yaml'])
    z = np.array([1.0 / 0.5, 0.01 / np.hypot(0.1, 0.1), 0.2 / 0.1])
    p = 2.0 * norm.sf(z)
    # Holm: the smallest times 3, the next times 2, never falling, at most 1
    order = np.argsort(p)
    expected = np.empty(3)
    expected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * [3, 2, 1]))
    np.testing.assert_allclose(found.probability[1], expected, rtol=1e-3)
    assert not found.different.any()


def test_a_difference_is_marked_and_counted():
    first, second = (result([1.0, 2.0, value], [0.1, 0.1, 0.1]) for value in (3.0, 4.0))
    found = compare_results([first, second], ['A.yaml', 'B.yaml'])
    assert found.different.tolist() == [[False] * 3, [False, False, True]]
    summary = found.summary()
    assert '1 of 3 base parameters differ' in summary
    (line,) = (line for line in summary.splitlines() if line.startswith('j.fv'))
    assert line.split() == ['j.fv', '3', '+-', '0.2', '4', '+-', '0.2', '*', 'N', 'm', 's']
    # a combination is named after its first term, and spelled out below
    assert 'a.m + b.m' in summary


def test_parameters_that_one_result_has_alone_are_not_tested():
    first = result([1.0, 2.0], [0.1, 0.1], ('a.m + b.m', 'b.mx'))
    second = result([9.0, 2.0], [0.1, np.nan], ('a.m + 2 b.m', 'b.mx'))
    found = compare_results([first, second], ['A.yaml', 'B.yaml'])
    assert found.labels == ('a.m', 'b.mx', 'a.m [2]')
    assert np.isnan(found.values[1, 0]) and np.isnan(found.values[0, 2])
    assert not found.different.any()


def test_results_of_other_joints_are_refused():
    first, second = result([1, 2, 3], [1, 1, 1]), result([1, 2, 3], [1, 1, 1], joints=('k',))
    with pytest.raises(IdentificationError, match=r"'B\.yaml' is of the joints k"):
        compare_results([first, second], ['A.yaml', 'B.yaml'])
