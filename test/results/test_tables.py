# SPDX-License-Identifier: Apache-2.0
"""Masses, centres of mass and principal inertias in words that a mechanic understands."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.pages.link_text import link_summary
from robot_identification.regressor import prior as urdf_prior
from robot_identification.results.tables import link_table, mass_deviations, MassProperties

URDF = Path(__file__).parents[2] / 'urdf' / 'demo_arm.urdf'
INERTIAL = pin.Inertia(
    3.0, np.array([0.1, -0.2, 0.3]), np.array([[0.5, 0.01, 0.02], [0.01, 0.4, -0.03],
                                               [0.02, -0.03, 0.3]])
)  # fmt: skip


def table_of(standard, prior, covariance=None, unknown=()):
    names = standard.layout.names
    categories = ['unidentifiable' if name in unknown else 'combined' for name in names]
    return link_table(prior, standard, covariance, categories)


@pytest.fixture
def prior():
    return urdf_prior(Robot.from_urdf(URDF))


def lines(text, link):
    """Return the cells before, after and std of a link."""
    rows = text.splitlines()
    first = next(i for i, line in enumerate(rows) if line.startswith(link))
    return [row.removeprefix(link).split() for row in rows[first : first + 3]]


def test_a_body_is_that_of_pinocchio():
    body = MassProperties.from_parameters(INERTIAL.toDynamicParameters())
    assert body.mass == pytest.approx(INERTIAL.mass, rel=1e-12)
    np.testing.assert_allclose(body.centre_of_mass, INERTIAL.lever, atol=1e-12)
    np.testing.assert_allclose(
        body.principal_inertias, np.linalg.eigvalsh(INERTIAL.inertia), atol=1e-12
    )


def test_deviations_are_those_of_bodies_drawn_at_random():
    inertial = INERTIAL.toDynamicParameters()
    random = np.random.default_rng(1)
    root = 1e-4 * random.normal(size=(10, 10))
    drawn = inertial + random.normal(size=(20_000, 10)) @ root.T
    bodies = [MassProperties.from_parameters(row) for row in drawn]
    std = mass_deviations(inertial, root @ root.T)
    assert std.mass == pytest.approx(np.std([body.mass for body in bodies]), rel=0.03)
    for name in ('centre_of_mass', 'principal_inertias'):
        spread = np.std([getattr(body, name) for body in bodies], axis=0)
        np.testing.assert_allclose(getattr(std, name), spread, rtol=0.03)


def test_a_link_has_its_values_before_and_after_with_deviations(prior):
    before = prior['link_2.m']
    found = prior.updated({'link_2.m': 1.25 * before, 'link_2.mx': 0.5 * before})
    table = table_of(found, prior, 0.125**2 * np.eye(len(prior.layout)))
    first, after, std = lines(link_summary(table), 'link_2')
    assert float(first[1]) == pytest.approx(before, rel=1e-3)
    assert float(after[1]) == pytest.approx(1.25 * before, rel=1e-3)
    assert after[2] == '+25.0'
    assert float(after[3]) == pytest.approx(0.5 / 1.25, abs=1e-4)
    assert float(std[1]) == 0.125
    assert lines(link_summary(table), 'link_1')[1][2] == '+0.0'
    assert table.links[1].link == 'link_2' and table.links[1].change == pytest.approx(25.0)


def test_the_total_is_that_of_all_links_and_counts_their_correlation(prior):
    masses = prior.layout.indices([f'link_{i}.m' for i in range(1, 7)])
    covariance = np.eye(len(prior.layout))
    covariance[masses[0], masses[1]] = covariance[masses[1], masses[0]] = -1.0
    table = table_of(prior, prior, covariance)
    assert table.after == table.before == pytest.approx(prior.values[masses].sum(), rel=1e-12)
    assert table.std == pytest.approx(2.0)  # the first two cancel
    first, after, std = lines(link_summary(table), 'all links')
    assert float(first[1]) == pytest.approx(table.after, rel=1e-3)
    assert (after[2], float(std[1])) == ('+0.0', 2.0)


def test_what_is_not_known_is_a_dash(prior):
    table = table_of(prior.updated({'link_3.m': 0.0}), prior)
    text = link_summary(table)
    assert lines(text, 'link_1')[2] == ['std', *'-------']
    assert lines(text, 'link_3')[1][3:] == [*'------']
    assert np.isnan(table.std)


def test_what_no_motion_determines_has_no_deviation_whatever_the_prior_says(prior):
    table = table_of(prior, prior, np.eye(len(prior.layout)), ('link_1.m',))
    first, second = table.links[:2]
    assert np.isnan([first.std.mass, *first.std.centre_of_mass]).all()
    assert np.isfinite(
        [second.std.mass, *second.std.centre_of_mass, *second.std.principal_inertias]
    ).all()


def test_all_lines_fit_and_a_robot_without_whole_links_has_none(prior):
    text = link_summary(table_of(prior, prior))
    assert max(map(len, text.splitlines())) <= 100
    layout = ParameterLayout(('a.m', 'a.mx'), ('kg', 'kg m'))
    bare = ParameterSet(layout, np.ones(2))
    assert link_summary(table_of(bare, bare)) == ''
