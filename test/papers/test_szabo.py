# SPDX-License-Identifier: Apache-2.0
"""The three-joint robot of Szabo and Szadeczky-Kardoss, Table 2, in small."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers import szabo_robot as robot
from benchmarks.papers import szabo_study as study


@pytest.fixture(scope='module')
def paper():
    return robot.PaperRegressor()


@pytest.fixture(scope='module')
def excitation(paper):
    return robot.excitation(paper, 2, iterations=40)


def test_24_parameters_with_the_expressions_of_table_2(paper):
    base = paper.base
    assert base.n_base == 24
    assert [base.layout.names[i] for i in base.unidentifiable] == [
        f'link_1.{symbol}' for symbol in ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Ixz', 'Iyz', 'Izz')
    ]
    assert {*base.names} == {*robot.TABLE_2}
    for name, row in zip(base.names, base.regrouping, strict=True):
        found = {base.layout.names[i]: row[i] for i in np.flatnonzero(row)}
        assert found == pytest.approx(robot.combination(name), abs=1e-12), name


def test_exact_values_of_table_2(paper):
    for name, entry in robot.TABLE_2.items():
        assert paper.exact[name] == pytest.approx(entry[1], abs=5e-4), name


def test_excitation_within_limits_halves_the_condition_number(paper, excitation):
    trajectory, condition, begun = excitation
    assert condition < 0.7 * np.median(begun)
    motion = trajectory.sample(np.linspace(0.0, robot.DURATION, 20001))
    assert np.abs(motion.position).max() < np.pi
    assert np.abs(motion.velocity).max() < 3.0
    assert np.abs(motion.acceleration).max() < 10.0
    for state in (motion.position, motion.velocity, motion.acceleration):
        np.testing.assert_allclose(state[[0, -1]], 0.0, atol=1e-9)
    # the value by plain algebra, over the samples
    rows = robot.base_rows(paper, trajectory).reshape(-1, 24)
    gram = rows.T @ rows
    assert condition == pytest.approx(np.linalg.norm(gram) * np.linalg.norm(np.linalg.inv(gram)))


def test_means_and_variances_of_ls_and_wls(paper, excitation):
    runs = 25
    studies = study.noise_study(paper, excitation[0], range(runs))
    low, high = study.spread_bounds(runs, 24, 0.999)
    for found in studies:
        assert np.abs(found.z).max() < study.largest_z(24, 0.999)
        assert low < found.spread.min()
        assert found.spread.max() < high
    plain, weighted = studies
    np.testing.assert_allclose(weighted.reported_variance, weighted.theory, rtol=0.05)
    # friction gains least from weights, what gravity shows most
    ratio = dict(zip(paper.base.names, weighted.theory / plain.theory, strict=True))
    assert max(ratio.values()) < 1.0
    assert max(ratio['link_2.m'], ratio['link_3.m']) < min(
        ratio[f'joint_{j}.{symbol}'] for j in (1, 2, 3) for symbol in ('ts', 'tsc')
    )


def test_wrong_slopes_bias_friction_alone(paper, excitation):
    errors = study.shape_errors(paper, excitation[0])
    names = paper.base.names
    friction = np.array([name.startswith('joint') for name in names])
    for slopes, error in errors.items():
        assert np.abs(error[~friction]).max() < 0.03, slopes
    at = [names.index(f'joint_1.{symbol}') for symbol in ('ts', 'tsc', 'fv')]
    # what the curve of the friction alone makes of other slopes, at the velocities of the motion
    exact = [robot.FRICTION[names[i]] for i in at]
    effort = friction_curve(robot.STICTION_SLOPE, robot.STRIBECK_SLOPE, excitation[0]) @ exact
    for slopes, error in errors.items():
        alone = np.linalg.lstsq(friction_curve(*slopes, excitation[0]), effort, rcond=None)[0]
        np.testing.assert_allclose(error[at], alone - exact, atol=0.08, err_msg=str(slopes))
    # an independent implementation, with another motion, found +0.49, -0.67; -0.52, +0.78
    for slopes, sign in (((50.0, 5.0), 1.0), ((1000.0, 5.0), -1.0)):
        stiction, stribeck, _ = errors[slopes][at]
        assert sign * stiction > 0.35
        assert sign * stribeck < -0.5


def friction_curve(stiction_slope, stribeck_slope, trajectory):
    """Return what 1 N m of stiction and Stribeck effect and viscosity are at joint 1, (m, 3)."""
    time = np.arange(0.0, robot.DURATION, 1.0 / robot.RATE)
    velocity = trajectory.sample(time).velocity[:, 0]
    dry = [2.0 / np.pi * np.arctan(k * velocity) for k in (stiction_slope, stribeck_slope)]
    return np.column_stack([*dry, velocity])


def test_the_search_finds_the_slopes_of_the_robot(paper, excitation):
    stiff, slow = study.searched_slopes(paper, excitation[0], 0.0)
    np.testing.assert_allclose(stiff, robot.STICTION_SLOPE, rtol=0.01)
    np.testing.assert_allclose(slow, robot.STRIBECK_SLOPE, rtol=0.01)
