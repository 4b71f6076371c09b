"""Descents from many starts: to the minimum, each on its own, and never up."""

import numpy as np
import pytest
from robot_identification.excitation.descent import descend_all
from scipy.optimize import minimize, rosen, rosen_der


def rosenbrock(x):
    return np.array([rosen(row) for row in x]), np.array([rosen_der(row) for row in x])


def test_it_finds_what_scipy_finds():
    starts = np.random.default_rng(0).uniform(-2.0, 2.0, (8, 6))
    found = descend_all(rosenbrock, starts, 2000, tolerance=1e-14)
    for x, value, start in zip(found.x, found.values, starts, strict=True):
        reference = minimize(rosen, start, jac=rosen_der, method='BFGS', options={'gtol': 1e-10})
        # Rosenbrock's function has a second minimum in these dimensions
        assert value < 1e-9 or value == pytest.approx(reference.fun, rel=1e-6)
        if value < 1e-9:
            np.testing.assert_allclose(x, 1.0, atol=1e-3)
    assert (found.values < 1e-9).sum() >= 4


def test_the_starts_do_not_know_of_each_other():
    starts = np.random.default_rng(1).uniform(-2.0, 2.0, (5, 4))
    together = descend_all(rosenbrock, starts, 60)
    for k in range(5):
        alone = descend_all(rosenbrock, starts[k : k + 1], 60)
        np.testing.assert_array_equal(alone.x[0], together.x[k])
        assert alone.values[0] == together.values[k]


def test_kinks_and_walls_are_lived_with():
    def edged(x):
        value = np.abs(x).sum(axis=1) + 0.1 * (x**2).sum(axis=1)
        # a region in which the function does not exist
        value[x[:, 0] > 3.0] = np.nan
        return value, np.sign(x) + 0.2 * x

    starts = np.random.default_rng(2).uniform(-3.0, 3.0, (10, 3))
    found = descend_all(edged, starts, 300)
    assert (found.values <= edged(starts)[0]).all()
    assert np.median(found.values) < 0.2


def test_work_ends_when_it_has_to():
    calls = []

    def counted(x):
        calls.append(len(x))
        return rosenbrock(x)

    starts = np.random.default_rng(3).uniform(-2.0, 2.0, (4, 5))
    descend_all(counted, starts, 17)
    assert len(calls) == 17
    calls.clear()
    descend_all(counted, starts, 1000, go_on=lambda: len(calls) < 5)
    assert len(calls) == 5
    calls.clear()
    # who has arrived is not asked again
    descend_all(counted, np.ones((4, 5)), 1000)
    assert len(calls) == 1
