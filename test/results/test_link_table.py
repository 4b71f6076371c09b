# SPDX-License-Identifier: Apache-2.0
"""Masses and centres of mass in words that a mechanic understands."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import prior as urdf_prior
from robot_identification.results.link_table import link_table

URDF = Path(__file__).parents[2] / 'urdf' / 'demo_arm.urdf'


@dataclass
class Found:
    """Result as far as the table needs it."""

    standard: ParameterSet
    prior: ParameterSet
    standard_std: np.ndarray | None


@pytest.fixture
def prior():
    return urdf_prior(Robot.from_urdf(URDF))


def row(text, link):
    return next(line for line in text.splitlines() if line.startswith(link)).split()


def test_a_link_has_its_mass_its_deviation_its_prior_and_its_centre(prior):
    before = prior['link_2.m']
    found = prior.updated({'link_2.m': 1.25 * before, 'link_2.mx': 0.5 * before})
    std = np.full(len(prior.layout), 0.125)
    text = link_table(Found(found, prior, std))
    cells = row(text, 'link_2')
    assert float(cells[1]) == pytest.approx(1.25 * before, rel=1e-4)
    assert float(cells[2]) == 0.125 and float(cells[3]) == pytest.approx(before, rel=1e-4)
    assert cells[4] == '+25.0'
    assert float(cells[5]) == pytest.approx(0.5 / 1.25, abs=1e-4)
    assert row(text, 'link_1')[4] == '+0.0'


def test_the_total_is_that_of_all_links(prior):
    masses = [prior[f'link_{i}.m'] for i in range(1, 7)]
    cells = row(link_table(Found(prior, prior, None)), 'all links')
    assert float(cells[2]) == pytest.approx(sum(masses), rel=1e-4)


def test_what_is_not_known_is_a_dash(prior):
    text = link_table(Found(prior.updated({'link_3.m': 0.0}), prior, None))
    assert row(text, 'link_1')[2] == '-'
    assert 'nan' in row(text, 'link_3')


def test_all_lines_fit_and_a_robot_without_whole_links_has_none(prior):
    assert max(map(len, link_table(Found(prior, prior, None)).splitlines())) <= 100
    layout = ParameterLayout(('a.m', 'a.mx'), ('kg', 'kg m'))
    bare = ParameterSet(layout, np.ones(2))
    assert link_table(Found(bare, bare, None)) == ''
