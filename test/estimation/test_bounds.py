# SPDX-License-Identifier: Apache-2.0
"""Boxes of standard parameters and what they say of base parameters."""

from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import SettingsError
from robot_identification.estimation.bounds import (
    base_box,
    read_boxes,
    standard_box,
)
from robot_identification.estimation.recursive.elimination import within
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from scipy.optimize import nnls

LAYOUT = ParameterLayout(
    ('a.m', 'a.mx', 'b.m', 'b.mx', 'c.fv'), ('kg', 'kg m', 'kg', 'kg m', 'N m s/rad')
)


@pytest.fixture
def grouped(structure_of):
    """Return a maker of structures with a given regrouping."""

    def make(C):
        return replace(
            structure_of(C.shape[1]), layout=LAYOUT, regrouping=C, independent=np.arange(len(C))
        )

    return make


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_a_base_parameters_interval_is_that_of_all_corners(seed):
    from robot_identification.regressor.base_parameters import BaseStructure

    rng = np.random.default_rng(seed)
    C = rng.normal(size=(3, 5)) * (rng.random((3, 5)) < 0.7)
    base = BaseStructure(
        LAYOUT, np.arange(3), np.empty(0, int), np.empty(0, int), C, np.ones(3), np.inf, ()
    )
    ends = np.sort(rng.normal(size=(5, 2)), axis=1)
    boxes = {name: tuple(pair) for name, pair in zip(LAYOUT, ends, strict=True)}
    lower, upper = base_box(base, boxes)
    corners = np.array([C @ corner for corner in product(*ends)])
    np.testing.assert_allclose(lower, corners.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(upper, corners.max(axis=0), atol=1e-12)


def test_open_ends_stay_open_in_the_right_direction(grouped):
    C = np.array([[1.0, 0.0, -2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    lower, upper = base_box(grouped(C), {'m': (0.0, None), 'fv': (None, 3.0)})
    assert lower.tolist() == [-np.inf, -np.inf] and upper.tolist() == [np.inf, 3.0]
    lower, upper = base_box(grouped(C), {'a.m': (0.0, None), 'b.m': (1.0, 2.0)})
    assert lower.tolist() == [-4.0, -np.inf] and upper.tolist() == [np.inf, np.inf]


def test_a_parameters_own_entry_goes_before_its_symbols():
    lower, upper = standard_box(LAYOUT, {'b.m': (1.0, 2.0), 'm': (0.0, 5.0)})
    assert lower[[0, 2]].tolist() == [0.0, 1.0] and upper[[0, 2]].tolist() == [5.0, 2.0]


@pytest.mark.parametrize(
    ('boxes', 'key'), [({'d.m': (0.0, 1.0)}, 'd.m'), ({'a.m': (2.0, 1.0)}, 'a.m')]
)
def test_wrong_boxes_are_named(boxes, key):
    with pytest.raises(SettingsError, match=rf'estimation\.mrls\.bounds\.{key}') as caught:
        standard_box(LAYOUT, boxes)
    assert caught.value.key == f'estimation.mrls.bounds.{key}'


def test_a_prior_outside_its_box_is_named(grouped):
    prior = ParameterSet(LAYOUT, np.array([3.0, 0.0, 1.0, 0.0, 0.0]))
    with pytest.raises(SettingsError, match=r"prior of 'a\.m' is 3, outside its bounds \[0, 2\]"):
        base_box(grouped(np.eye(5)), {'m': (0.0, 2.0)}, prior)


def test_files(tmp_path):
    file = tmp_path / 'bounds.yaml'
    file.write_text('m: [0, 30]\na.mx: [null, 0.5]\n')
    assert read_boxes(str(file)) == {'m': (0.0, 30.0), 'a.mx': (None, 0.5)}
    for text, about in (('m: 3', "'m' is 3"), ('- 1', 'not a mapping'), ('m: [1', 'cannot read')):
        file.write_text(text)
        with pytest.raises(SettingsError, match=about) as caught:
            read_boxes(str(file))
        assert caught.value.file == str(file)
    with pytest.raises(SettingsError, match='cannot read'):
        read_boxes(str(tmp_path / 'missing.yaml'))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 8))
def test_least_squares_within_a_box_agrees_with_another_solver(seed, k):
    """Non-negative least squares of SciPy, by another algorithm."""
    rng = np.random.default_rng(seed)
    triangle = np.triu(rng.normal(size=(k, k))) + 2.0 * np.eye(k)
    right = rng.normal(size=k)
    found = within(triangle, right, np.zeros(k), np.full(k, np.inf))
    np.testing.assert_allclose(found, nnls(triangle, right)[0], atol=1e-9)
