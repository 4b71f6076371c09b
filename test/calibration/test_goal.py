# SPDX-License-Identifier: Apache-2.0
"""Goals of a calibration by closed form: information adds up, deviations fall with its root."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from robot_identification.calibration.goal import (
    CalibrationProgress,
    CalibrationSettings,
    first_duration,
    needed_duration,
    sufficient_share,
    unreachable_targets,
)
from robot_identification.excitation.criteria import PredictedDeviations


def standings(std, target=5.0, motions=4):
    """Return standings of parameters of value 1 that make up all of the effort."""
    settings = CalibrationSettings(target=target, motions=motions)
    std = np.atleast_2d(std)
    names = tuple('abcdefgh'[: std.shape[1]])
    one = np.ones(std.shape[1])
    return [
        CalibrationProgress(names, one, row, one, 100.0 * one, one > 0.0, None, settings)
        for row in std
    ]


@pytest.mark.parametrize(
    ('first', 'second', 'expected'),
    [
        # 4 equal motions halve the deviation of the first
        (0.1, 0.1 / np.sqrt(2.0), False),
        (0.2, 0.2 / np.sqrt(2.0), True),
        # the second motion brought much more than the first
        (0.4, 0.08, False),
        # nothing came with the second, but the mean of both suffices, and then it does not
        (0.1, 0.1, False),
        (0.2, 0.2, True),
        (np.nan, np.nan, True),
    ],
)
def test_a_parameter_is_given_up_where_the_budget_does_not_suffice(first, second, expected):
    found = unreachable_targets(standings([[first], [second]]))
    assert found.tolist() == [expected]


def test_nothing_is_given_up_after_one_motion():
    assert not unreachable_targets(standings([[1.0]])).any()


def test_a_term_that_the_model_has_since_the_latest_motion_is_not_given_up():
    first, second = (standings([row])[0] for row in ([0.2], [0.2, 0.1]))
    assert unreachable_targets([first, second]).tolist() == [True, False]


def test_what_is_essential_is_told_by_the_first_motion():
    # one joint, two parameters: 0.5 % of the first motion's effort come from the second one
    first = np.array([[[1.0, 0.0, 1.0], [0.0, 0.005, 0.005], [0.0, 0.0, 0.0]]])
    later = np.array([[[1.0, 0.0, 1.0], [0.0, 0.1, 0.1], [0.0, 0.0, 0.0]]])
    values, std = np.ones(2), np.array([0.01, 0.2])
    uncertainty = SimpleNamespace(classical_std=None)
    estimate = SimpleNamespace(
        base=SimpleNamespace(values=values), std=std, uncertainty=uncertainty
    )
    structure = SimpleNamespace(names=('a', 'b'))
    result = SimpleNamespace(estimate=estimate, structure=structure, validations=())
    settings = CalibrationSettings(least_share=1.0)
    assert CalibrationProgress.from_result(result, first, settings).essential.tolist() == [
        True,
        False,
    ]
    assert CalibrationProgress.from_result(result, later, settings).essential.tolist() == [
        True,
        True,
    ]


def test_small_parameters_are_not_essential():
    settings = CalibrationSettings(least_share=1.0)
    share, std = np.array([50.0, 0.9, 1.1]), np.array([0.04, 9.0, 0.2])
    one = np.ones(3)
    standing = CalibrationProgress(
        ('a', 'b', 'c'), one, std, one, share, one > 0.0, None, settings
    )
    assert standing.essential.tolist() == [True, False, True]
    assert list(standing.targets) == ['c'] and not standing.met
    assert standing.targets['c'] == pytest.approx(0.05)
    # where coloured noise doubles the deviations, the classical ones have to be half as large
    coloured = replace(standing, inflation=2.0 * one)
    assert coloured.targets['c'] == pytest.approx(0.025)
    others = replace(standing, wanted=np.array([True, True, False]))
    assert others.essential.tolist() == [True, False, False] and others.met
    assert '1 of 2 essential parameters' in standing.summary() and 'c (20 %)' in standing.summary()


@pytest.mark.parametrize(
    ('std', 'expected'),
    [
        # deviations fall with the root of the time: sqrt(2) times too large after 6 s takes 6 s
        ([0.05 * np.sqrt(2.0), 0.01], 6.0),
        ([0.05 * np.sqrt(1.1)], 2.0),
        ([0.5], 10.0),
        ([np.nan], 10.0),
    ],
)
def test_the_next_motion_is_as_long_as_is_needed(std, expected):
    standing = standings([std])[0]
    assert needed_duration(standing, 6.0, 10.0) == pytest.approx(expected)


@pytest.mark.parametrize(('longest', 'expected'), [(20.0, 10.0), (0.8, 0.5)])
def test_the_first_motion_is_shorter_unless_no_planner_would_take_it(longest, expected):
    assert first_duration(longest) == expected


@pytest.mark.parametrize(
    ('before', 'after', 'target', 'expected'),
    [
        # information 100, 400 with the motion, 200 wanted: a third of the motion brings it
        (0.1, 0.05, 0.1 / np.sqrt(2.0), 1.0 / 3.0),
        (np.nan, 0.05, 0.05, 1.0),
        (0.1, 0.1, 0.05, np.inf),
        (0.1, 0.05, 0.025, 5.0),
    ],
)
def test_the_share_of_a_motion_that_suffices_is_by_its_information(
    before, after, target, expected
):
    standing = standings([[before, 1.0]])[0]
    both = np.array([after, 1.0])
    planned = PredictedDeviations(('a', 'b'), ('kg', 'kg'), both, np.ones(2))
    assert sufficient_share(standing, {'a': target}, planned) == pytest.approx(expected)
    # coloured noise: targets and predictions are classical deviations
    coloured = replace(standing, std=2.0 * standing.std, inflation=2.0 * standing.inflation)
    assert sufficient_share(coloured, {'a': target}, planned) == pytest.approx(expected)
    assert sufficient_share(standing, {}, planned) == 0.0
