# SPDX-License-Identifier: Apache-2.0
"""Sets inside the cone of bodies, against rejection of plain normal draws."""

import numpy as np
import pytest
from robot_identification.estimation.cone_sets import drawn_sets, PhysicalCone
from robot_identification.model.consistency import check, pseudo_inertia
from robot_identification.model.parameters import INERTIAL_SYMBOLS, ParameterLayout, ParameterSet
from robot_identification.regressor import ModelSettings

BODY = np.array([2.0, 0.1, -0.06, 0.2, 0.06, 0.003, 0.05, -0.01, 0.006, 0.03])
COUNT = 3000


def standard(links=1):
    names = [f'link_{k}.{symbol}' for k in range(links) for symbol in INERTIAL_SYMBOLS]
    layout = ParameterLayout((*names, 'joint.Ia', 'joint.fc'), ('1',) * (10 * links + 2))
    return ParameterSet(layout, np.array([*np.tile(BODY, links), 0.5, 0.3]))


def drawn(mean, covariance, count=COUNT):
    cone = PhysicalCone.around(mean, ModelSettings())
    return drawn_sets(cone, mean.values, covariance, count, np.random.default_rng(3))


def covariance_of(mean, relative):
    """Return a covariance with correlations, its deviations a share of the values."""
    root = np.random.default_rng(4).standard_normal((len(mean.values), 12))
    root *= (relative * np.abs(mean.values) / np.linalg.norm(root, axis=1))[:, None]
    return root @ root.T


def test_far_from_the_bounds_sets_have_the_mean_and_the_covariance():
    mean = standard()
    covariance = covariance_of(mean, 0.02)
    found = drawn(mean, covariance)
    size = np.sqrt(np.diag(covariance))
    assert np.abs((found.mean(axis=0) - mean.values) / size).max() < 4.0 / np.sqrt(COUNT)
    correlated = covariance / size[:, None] / size
    errors = np.cov(found.T) / size[:, None] / size - correlated
    assert np.abs(errors).max() < 5.0 / np.sqrt(COUNT)


def test_at_the_bounds_sets_are_those_of_rejection():
    mean = standard()
    covariance = covariance_of(mean, 0.35)
    plain = np.random.default_rng(5).multivariate_normal(mean.values, covariance, 40000)
    bodies = np.array([pseudo_inertia(each) for each in plain[:, :10]])
    inside = (np.linalg.eigvalsh(bodies)[:, 0] > 0.0) & (plain[:, 10:] >= 0.0).all(axis=1)
    kept = plain[inside]
    assert 0.02 < inside.mean() < 0.5  # the bounds cut most of it off
    found = drawn(mean, covariance)
    spread = kept.std(axis=0)
    error = np.sqrt(1.0 / len(kept) + 1.0 / COUNT)
    assert np.abs((found.mean(axis=0) - kept.mean(axis=0)) / spread).max() < 5.0 * error
    np.testing.assert_allclose(found.std(axis=0), spread, rtol=5.0 * error)


def test_a_sum_stays_as_well_known_as_it_is():
    mean = standard(links=2)
    covariance = np.zeros((22, 22))
    each, of_sum = 0.2**2, 0.04**2
    shared = 0.5 * of_sum - each
    covariance[np.ix_([0, 10], [0, 10])] = [[each, shared], [shared, each]]
    found = drawn(mean, covariance)
    mass = found[:, [0, 10]]
    assert mass.std(axis=0) == pytest.approx(0.2, rel=0.1)
    assert mass.sum(axis=1).std() == pytest.approx(0.04, rel=0.05)


def test_every_set_can_exist():
    mean = standard(links=2)
    for values in drawn(mean, covariance_of(mean, 1.0), 100):
        assert check(ParameterSet(mean.layout, values)).physical


@pytest.mark.parametrize(('name', 'value'), [('link_0.Ixx', 0.01), ('joint.fc', -0.1)])
def test_there_is_no_cone_around_what_cannot_exist(name, value):
    assert PhysicalCone.around(standard().updated({name: value}), ModelSettings()) is None
