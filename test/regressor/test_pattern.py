# SPDX-License-Identifier: Apache-2.0
"""Entries of a regressor's rows that are not zero for every motion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ElasticJoints,
    ModelSettings,
)
from robot_identification.regressor.pattern import (
    entries,
    row_pattern,
    RowPattern,
)

URDF = Path(__file__).resolve().parents[2] / 'urdf'


def test_expand_puts_entries_where_they_belong():
    pattern = RowPattern((np.array([0, 2]), np.array([], dtype=int), np.array([1])), 3)
    assert pattern.offsets.tolist() == [0, 2, 2, 3]
    assert pattern.width == 3
    dense = pattern.expand(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert dense.tolist() == [
        [[1, 0, 3], [0, 0, 0], [0, 5, 0]],
        [[2, 0, 4], [0, 0, 0], [0, 6, 0]],
    ]
    nothing = RowPattern((), 0)
    assert nothing.width == 0
    assert nothing.expand(np.empty((0, 4))).shape == (4, 0, 0)


@pytest.mark.parametrize(
    'settings',
    [
        ModelSettings(),
        ModelSettings(friction=(), rotor_inertia=False),
        ModelSettings(coupled_drives=(CoupledDrive('joint_6', ('joint_5', 'joint_6')),)),
        ModelSettings(elastic=ElasticJoints()),
    ],
)
def test_entries_are_those_of_the_dense_rows(settings):
    robot = Robot.from_urdf(URDF / 'tx40.urdf')
    regressor = build(robot, settings)
    random = np.random.default_rng(2)
    columns = np.sort(random.permutation(len(regressor.layout))[:40])
    motion = Motion(*random.uniform(-3.0, 3.0, (3, 70, regressor.n_joints)))
    dense = regressor.rows(motion).reshape(70, regressor.n_joints, -1)[:, :, columns]
    pattern = row_pattern(regressor, columns)
    found = entries(regressor, motion, columns, pattern)
    assert found.shape == (pattern.width, 70)
    assert found.flags.c_contiguous
    assert pattern.size == 40
    assert np.abs(pattern.expand(found) - dense).max() <= 1e-12 * np.abs(dense).max()
    assert pattern.width < 0.7 * dense[0].size
    out = np.empty_like(found)
    assert entries(regressor, motion, columns, pattern, out) is out
    assert np.array_equal(out, found)


def test_product_and_gather_are_those_of_whole_rows():
    random = np.random.default_rng(3)
    pattern = RowPattern((np.array([0, 2]), np.array([], dtype=int), np.array([1])), 3)
    found, values = random.normal(size=(3, 5)), random.normal(size=3)
    rows = pattern.expand(found)
    np.testing.assert_allclose(pattern.product(found, values), rows @ values, rtol=1e-14)
    np.testing.assert_array_equal(pattern.gather(rows), found)
    assert RowPattern.full(3, 3).gather(rows).shape == (9, 5)
    assert pattern.same(RowPattern(tuple(pattern.columns), 3))
    assert not pattern.same(RowPattern(tuple(pattern.columns), 4))
    assert not pattern.same(RowPattern((*pattern.columns[1:], np.array([0, 2])), 3))
