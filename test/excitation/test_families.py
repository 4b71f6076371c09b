# SPDX-License-Identifier: Apache-2.0
"""Families of motions: no variables lead out of the limits, and gradients are pulled back."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.excitation.bases import FourierBasis, SplineBasis
from robot_identification.excitation.extremes import extremes
from robot_identification.excitation.families import MotionFamily
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf'


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF / 'szabo_3r.urdf')


def family_of(robot, basis, *, free, start=None, **limits):
    found = motion_limits(robot, PlannerSettings(**limits))
    middle = 0.5 * (found.lower + found.upper) if start is None else start
    return MotionFamily(basis, found, middle, np.array([0, 2]), free_start=free)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    size=st.floats(0.01, 1e3),
    duration=st.floats(2.0, 30.0),
    periods=st.floats(0.6, 4.0),
    harmonics=st.integers(3, 10),
    free=st.booleans(),
)
def test_no_variables_lead_out_of_the_limits(seed, size, duration, periods, harmonics, free):
    robot = Robot.from_urdf(URDF / 'szabo_3r.urdf')
    basis = FourierBasis(duration, periods / duration, harmonics)
    family = family_of(robot, basis, free=free, margin=0.05, jerk_time=0.3)
    limits = family.limits
    x = size * family.random(np.random.default_rng(seed))
    trajectory = family.trajectory(x)
    motion = trajectory.sample(np.linspace(0, duration, 4001))
    assert (motion.position <= limits.upper + 1e-12).all()
    assert (motion.position >= limits.lower - 1e-12).all()
    assert (np.abs(motion.velocity) <= limits.velocity + 1e-12).all()
    assert (np.abs(motion.acceleration) <= limits.acceleration + 1e-12).all()
    assert (np.abs(extremes(trajectory, 500.0).largest(3)[0]) <= limits.jerk * (1 + 1e-9)).all()
    # the joint that is not asked to move stays
    assert np.ptp(motion.position[:, 1]) == 0.0


@pytest.mark.parametrize('basis', [FourierBasis(10.0, 0.1, 5), SplineBasis(10.0, 12)])
def test_large_variables_use_the_limits_nearly_up(robot, basis):
    family = family_of(robot, basis, free=False)
    limits = family.limits
    x = 50.0 * family.random(np.random.default_rng(0))
    motion = family.trajectory(x).sample(np.linspace(0, 10, 2001))
    use = np.max(
        [
            np.abs(motion.velocity / limits.velocity).max(axis=0),
            np.abs(motion.acceleration / limits.acceleration).max(axis=0),
            (motion.position / limits.upper).max(axis=0),
            (motion.position / limits.lower).max(axis=0),
        ],
        axis=0,
    )
    assert (use[[0, 2]] > 0.85).all() and (use < 1.03).all()


@pytest.mark.parametrize('basis', [FourierBasis(10.0, 0.13, 5), SplineBasis(10.0, 12)])
def test_matrices_are_those_of_the_trajectory(robot, basis):
    family = family_of(robot, basis, free=True)
    x = family.random(np.random.default_rng(1))
    time = np.linspace(0.0, 10.0, 57)
    motion = family.trajectory(x).sample(time)
    states = family.motion(x, basis.matrices(time))
    for found, expected in zip(
        states, (motion.position, motion.velocity, motion.acceleration), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize('free', [False, True])
@pytest.mark.parametrize('basis', [FourierBasis(10.0, 0.1, 5), SplineBasis(10.0, 12)])
def test_a_gradient_is_pulled_back_through_the_scaling(robot, basis, free):
    family = family_of(robot, basis, free=free)
    rng = np.random.default_rng(4)
    x = 1.5 * family.random(rng)
    matrices = basis.matrices(np.linspace(0.0, 10.0, 40))
    weights = rng.standard_normal((3, 40, 3))
    change = rng.standard_normal(x.shape)

    def value(x):
        return (np.stack(family.motion(x, matrices)) * weights).sum()

    step = 1e-6
    difference = (value(x + step * change) - value(x - step * change)) / (2.0 * step)
    slope = (family.pull_back(x, matrices, tuple(weights)) * change).sum()
    assert slope == pytest.approx(difference, rel=1e-5)
