# SPDX-License-Identifier: Apache-2.0
"""Loads between two results, against loads that were put on a simulated robot."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import IdentificationError
from robot_identification.identification.load_between import load_between
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result
from robot_identification.signals import SignalSettings
from robot_identification.simulation import SimulationSettings
from robot_identification.simulation.truth import truth

ROBOT = Robot.from_urdf(Path(__file__).parents[2] / 'urdf' / 'demo_arm.urdf')
MODEL = ModelSettings()
TRUTH = truth(ROBOT, SimulationSettings(seed=4, perturbation=0.2))
CENTRE, MASS = np.array([0.02, -0.01, 0.08]), 2.5


def _loaded(mass=MASS):
    """Return the robot's parameters with a load on the last link."""
    values, place = np.array(TRUTH.values), TRUTH.layout.slice_of('link_6')
    inertia = mass * (CENTRE @ CENTRE * np.eye(3) - np.outer(CENTRE, CENTRE)) + 4e-3 * np.eye(3)
    rows, columns = [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]
    values[place] += np.concatenate([[mass], mass * CENTRE, inertia[rows, columns]])
    return values


def _stored(values, folder, seed):
    """Identify a robot with these parameters; return its result file."""
    rng = np.random.default_rng(seed)
    time = np.arange(2500) / 100.0
    q, v, a = np.zeros((3, time.size, ROBOT.n_joints))
    for k in range(1, 5):
        angle = 0.7 * k * time[:, None] + rng.uniform(0.0, 6.3, ROBOT.n_joints)
        q += 0.5 / k * np.sin(angle)
        v += 0.35 * np.cos(angle)
        a -= 0.245 * k * np.sin(angle)
    effort = (build(ROBOT, MODEL).rows(Motion(q, v, a)) @ values).reshape(q.shape)
    effort += 0.03 * effort.std(axis=0) * rng.standard_normal(q.shape)
    problem = IdentificationProblem(
        ROBOT, model=MODEL, signals=SignalSettings(cutoff=10.0, decimate_to=25.0)
    )
    result = identify_sources(problem, [Recording(time, q, effort, ROBOT.joints)])
    write_result(result, folder / f'{seed}.yaml')
    return read_result(folder / f'{seed}.yaml')


@pytest.fixture(scope='module')
def bare(tmp_path_factory):
    return _stored(np.array(TRUTH.values), tmp_path_factory.mktemp('bare'), 1)


def test_a_load_is_found_with_its_mass_whichever_result_has_it(bare, tmp_path):
    loaded = _stored(_loaded(), tmp_path, 2)
    found, back = load_between(bare, loaded), load_between(loaded, bare)
    assert found.link == 'link_6' and found.explained > 0.8
    assert abs(found.mass - MASS) < 3.0 * found.std and found.std < 0.1 * MASS
    assert back.mass == pytest.approx(-found.mass, rel=1e-6)
    assert 'kg more at link_6' in str(found) and 'kg less at link_6' in str(back)
    assert 'gains' not in str(found)
    by_current = replace(loaded, settings=replace(loaded.settings, effort_kind='motor_current'))
    assert 'gains of the drives' in str(load_between(bare, by_current))


def test_no_load_is_found_where_there_is_none(bare, tmp_path):
    assert load_between(bare, _stored(np.array(TRUTH.values), tmp_path, 3)) is None
    # an upper arm that is heavier is no load at the flange
    other = np.array(TRUTH.values)
    other[TRUTH.layout.slice_of('link_2')] *= 1.5
    assert load_between(bare, _stored(other, tmp_path, 4)) is None


def test_last_links_carry_no_others(bare):
    assert bare.robot.end_links == ('link_6',)


def test_results_without_covariances_are_compared_all_the_same(bare):
    document = {key: value for key, value in bare.document.items() if key != 'covariance'}
    assert load_between(bare, replace(bare, document=document)) is None


@pytest.mark.parametrize('combination', [None, 'a text', {'link_1.m': 'much'}])
def test_a_damaged_combination_is_named(bare, combination):
    parameters = [{**entry, 'combination': combination} for entry in bare.document['parameters']]
    damaged = replace(bare, document={**bare.document, 'parameters': parameters})
    with pytest.raises(IdentificationError, match='combination of standard parameters'):
        load_between(damaged, bare)
