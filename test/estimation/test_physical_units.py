# SPDX-License-Identifier: Apache-2.0
"""Physically consistent fit in other units of length: the same, to the documented tolerance."""

from pathlib import Path

from lxml import etree
import numpy as np
import pytest
from robot_identification.base_parameters import structure
from robot_identification.data.recording import Motion
from robot_identification.estimation import from_rows
from robot_identification.estimation.link_constraints import PhysicalSettings
from robot_identification.estimation.physical import physical
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor import prior as urdf_prior

URDF = Path(__file__).parents[2] / 'urdf' / 'szabo_3r.urdf'
TOLERANCE = 1e-3
"""What docs/explanation/physical.md promises [standard deviations]."""

POWERS = {'m': 0, 'mx': 1, 'my': 1, 'mz': 1}
"""Of the unit of length, by parameter; all others, moments of inertia and efforts, have 2."""


def described_in(unit):
    """Return the robot with lengths counted in another unit, and efforts in kg unit^2/s^2."""
    document = etree.parse(str(URDF))
    for element in document.iter():
        for name, power in (
            *(('xyz', 1),) * (element.tag != 'axis'),
            *((entry, 2) for entry in ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')),
            ('damping', 2),
            ('friction', 2),
        ):
            if element.get(name) is not None:
                values = (f'{float(x) / unit**power:.17g}' for x in element.get(name).split())
                element.set(name, ' '.join(values))
    text = etree.tostring(document).decode()
    return Robot.from_urdf(text, gravity=np.array([0.0, 0.0, -9.81 / unit]))


def found_in(unit, noise=1.0, samples=200):
    """Identify from the same motion and the same relative noise."""
    robot, model = described_in(unit), ModelSettings()
    regressor = build(robot, model)
    prior = urdf_prior(robot, model)
    base = structure(regressor, robot)
    rng = np.random.default_rng(3)
    motion = Motion(*rng.normal(size=(3, samples, robot.n_joints)))
    rows = regressor.rows(motion)
    effort = (rows @ prior.values).reshape(samples, -1)
    effort += noise * np.sqrt(np.mean(effort**2, axis=0)) * rng.normal(size=effort.shape)
    columns = rows[:, base.independent].reshape(samples, robot.n_joints, -1)
    system = from_rows(base, robot.joints, columns, effort)
    estimate = physical(system, robot, prior, PhysicalSettings(), model=model)
    powers = [POWERS.get(name.rpartition('.')[2], 2) for name in prior.layout]
    in_metres = estimate.standard.values * unit ** np.array(powers, dtype=float)
    whitened = system.stacked(estimate.weights)[:, :-1] / estimate.residual_std
    base_powers = [POWERS.get(name.rpartition('.')[2], 2) for name in base.base_layout]
    return in_metres, estimate.base.values, whitened, np.array(base_powers, dtype=float)


@pytest.fixture(scope='module')
def metres():
    return found_in(1.0)


@pytest.mark.parametrize('unit', [1e-3, 0.0254, 1e3])
def test_the_unit_of_length_does_not_matter(metres, unit):
    expected, base, whitened, powers = metres
    found, other, *_ = found_in(unit)
    moved = np.linalg.norm(whitened @ (other * unit**powers - base))
    assert moved < TOLERANCE
    # and of what the data leave open, a thousandth of the parameters' own sizes
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max(), rtol=1e-2)


def test_the_prior_matters_in_it(metres):
    """Else it would say nothing of the fit: least squares alone would do."""
    expected, *_ = metres
    assert np.isfinite(expected).all()
    free = found_in(1.0, noise=0.0)[0]
    assert np.linalg.norm(free - expected) > 0.1 * np.linalg.norm(free)
