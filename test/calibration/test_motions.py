# SPDX-License-Identifier: Apache-2.0
"""Planning of a calibration's motions, and closed forms of how long they have to be."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from robot_identification.calibration import (
    CalibrationSettings,
    first_duration,
    needed_duration,
    next_motion,
    Standing,
    sufficient_share,
)
from robot_identification.config.problem import IdentificationProblem
from robot_identification.excitation.criteria import PredictedDeviations
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf'
PLANNER = PlannerSettings(duration=3.0, harmonics=4, max_iterations=60)


@pytest.fixture(scope='module')
def problem():
    return IdentificationProblem(Robot.from_urdf(URDF))


def standing_after(std):
    """Return the standing after a motion, of parameters of value 1 that make all of the effort."""
    std = np.asarray(std)
    one = np.ones(len(std))
    names = tuple('abcdefgh'[: len(std)])
    return Standing(
        names, one, std, one, 100.0 * one, one > 0.0, None, CalibrationSettings(target=5.0)
    )


def test_progress_goes_to_the_planner(problem):
    told = []
    planned = partial(next_motion, progress=lambda share, text: told.append(share))
    planned(problem, PLANNER, [], {})
    assert told[-1] == 1.0


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
    standing = standing_after(std)
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
    standing = standing_after([before, 1.0])
    both = np.array([after, 1.0])
    planned = PredictedDeviations(('a', 'b'), ('kg', 'kg'), both, np.ones(2))
    assert sufficient_share(standing, {'a': target}, planned) == pytest.approx(expected)
    # coloured noise: targets and predictions are classical deviations
    coloured = replace(standing, std=2.0 * standing.std, inflation=2.0 * standing.inflation)
    assert sufficient_share(coloured, {'a': target}, planned) == pytest.approx(expected)
    assert sufficient_share(standing, {}, planned) == 0.0
