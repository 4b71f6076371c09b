# SPDX-License-Identifier: Apache-2.0
"""Comparisons of a result with the true parameters of a simulated robot."""

import numpy as np
from robot_identification.simulation.truth_comparison import MassComparison, TruthComparison

COMPARISON = TruthComparison(
    expressions=('link_1.Izz + 0.5 link_2.m', 'joint_1.fv', 'x' * 60),
    units=('kg m^2', 'N m s/rad', 'kg m'),
    true=np.array([2.0, 0.5, 0.0]),
    identified=np.array([2.1, 0.8, 0.1]),
    std=np.array([0.1, 0.1, np.nan]),
)


def test_intervals_of_95_percent_hold_what_lies_within_1_96_deviations():
    np.testing.assert_allclose(COMPARISON.deviation, [1.0, 3.0, np.nan])
    assert COMPARISON.outside.tolist() == [False, True, False]
    assert COMPARISON.significant.tolist() == [True, False, False]


def test_the_table_marks_what_is_significant_and_what_is_outside():
    _, first, second, third = COMPARISON.table().splitlines()
    assert first.startswith('  * link_1.Izz + 0.5 link_2.m') and first.endswith('1.0 std')
    assert second.startswith('  ! joint_1.fv') and second.endswith('3.0 std')
    assert '...' in third and 'nan' not in third


def test_masses_are_marked_where_their_interval_misses_the_truth():
    masses = MassComparison(
        ('link_1', 'link_2'),
        np.ones(2),
        np.array([1.0, 2.0]),
        np.array([1.1, 3.0]),
        np.ones(2) / 4,
    )
    assert masses.within.tolist() == [True, False]
    _, first, second = masses.table().splitlines()
    assert first.startswith('    link_1') and second.startswith('  ! link_2')
