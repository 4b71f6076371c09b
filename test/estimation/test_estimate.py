# SPDX-License-Identifier: Apache-2.0
"""The tables: everything that matters is in them, and they fit the width of a terminal."""

from dataclasses import replace
import math

import numpy as np
import pytest
from robot_identification.estimation.estimate import Uncertainty
from robot_identification.estimation.least_squares import essential, ols, wls
from robot_identification.pages.estimate_text import estimate_summary


def test_everything_is_in_the_summary(problem_of):
    matrix = np.random.default_rng(0).normal(size=(100, 2, 4))
    matrix[:, :, 2] = 0.0
    case = problem_of(matrix, np.array([1.5, -2.5, 0.0, 1e-3]), np.array([0.01, 1.0]))
    estimate = wls(case.system, robot='tester')
    reduced = essential(case.system, estimate, 30.0)
    text = estimate_summary(estimate, 'weighted least squares')
    assert 'Identification of tester' in text and 'weighted least squares' in text
    assert f'{estimate.fit.relative_error:.2f} %' in text
    assert f'{estimate.rows.condition_number:.4g} (column-scaled)' in text
    for j, fit in enumerate(estimate.fit.joints):
        line = next(line for line in text.splitlines() if line.startswith(fit.joint))
        assert f'{fit.rmse:.5g}' in line and f'{estimate.rows.weights[j]:.5g}' in line
    for parameter in estimate:
        line = next(line for line in text.splitlines() if line.startswith(parameter.name))
        assert f'{parameter.value:.5g}' in line and 'kg' in line
        known = math.isfinite(parameter.std)
        assert (f'{parameter.std:.5g}' in line) == known
        assert ('not excited' in line) == (not known)
    assert '[1] link.p2 is not identified' in text
    assert 'essential' in estimate_summary(reduced) and 'dropped' in estimate_summary(reduced)
    marked = estimate_summary(replace(estimate, essential=reduced.essential))
    assert 'not essential' in marked


def test_notes_stand_before_the_warnings(problem):
    estimate = replace(wls(problem().system), notes=('found this', 'and that'), warnings=('mind',))
    lines = estimate_summary(estimate).splitlines()
    assert lines[-6:] == ['Notes', '[1] found this', '[2] and that', '', 'Warnings', '[1] mind']


def test_lines_fit_a_terminal_and_long_sums_are_wrapped(problem):
    estimate = ols(problem(b=4).system)
    long = ' + '.join(f'0.0506 forearm_link_{i}.Izz' for i in range(30))
    estimate = replace(estimate, expressions=(*estimate.expressions[:3], long))
    lines = estimate_summary(estimate).splitlines()
    assert max(len(line) for line in lines) <= 100
    assert all(line == line.rstrip() for line in lines)
    text = ' '.join(' '.join(lines).split())
    assert f'link.p3 = {long}' in text


def test_weights_are_shown_where_there_are_some(problem):
    case = problem()
    assert 'weight ' not in estimate_summary(ols(case.system)).split('Fit of the effort')[1]
    assert 'weight' in estimate_summary(wls(case.system)).split('Fit of the effort')[1]


def test_plain_values(problem_of):
    matrix = np.random.default_rng(0).normal(size=(100, 2, 4))
    matrix[:, :, 2] = 0.0
    estimate = wls(problem_of(matrix, np.ones(4), 0.1).system)
    values = estimate.to_dict()
    assert [p['value'] for p in values['parameters']] == estimate.base.values.tolist()
    assert values['parameters'][2]['std'] is None
    assert values['parameters'][2]['state'] == 'NOT_EXCITED'
    assert set(values['joints']['joint_0']) == {
        'rows',
        'rmse',
        'relative_error',
        'raw_relative_error',
        'bias',
    }
    assert values['weights']['joint_1'] == estimate.rows.weights[1]


def test_parts_of_different_sizes_are_refused(problem):
    estimate = ols(problem().system)
    short = Uncertainty(np.eye(2), np.ones(2))
    with pytest.raises(ValueError, match='uncertainty is of 2 parameters, expected 8'):
        replace(estimate, uncertainty=short)
    with pytest.raises(ValueError, match='rows.weights is of 2 joints, expected 3'):
        replace(estimate, rows=replace(estimate.rows, weights=np.ones(2)))
    with pytest.raises(ValueError, match='rows.factor is of 4 parameters, expected 8'):
        replace(estimate, rows=replace(estimate.rows, factor=np.eye(5)))
    with pytest.raises(ValueError, match=r'covariance has shape \(3, 3\), expected \(2, 2\)'):
        replace(short, covariance=np.eye(3))
    with pytest.raises(ValueError, match='read-only'):
        estimate.std[0] = 1.0


def test_bias_that_is_rounding_error_is_zero(problem):
    estimate = ols(problem().system)
    joints = tuple(
        replace(joint, bias=b)
        for joint, b in zip(estimate.fit.joints, (3e-16, 0.012, -4e-17), strict=True)
    )
    fit = replace(estimate.fit, joints=joints)
    lines = estimate_summary(replace(estimate, fit=fit)).splitlines()
    start = next(i for i, line in enumerate(lines) if 'Fit of the effort' in line) + 2
    assert [line.split()[3] for line in lines[start : start + 3]] == ['0', '0.012', '0']
