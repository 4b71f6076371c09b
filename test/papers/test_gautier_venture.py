# SPDX-License-Identifier: Apache-2.0
"""The TX-40 of Gautier and Venture: Tables II and III, and the coupling of its wrist."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion
from robot_identification.model.consistency import check
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ModelSettings,
    predict,
    prior,
)
from robot_identification.regressor.base_search import structure

from benchmarks.papers import gautier_venture
from benchmarks.papers import tx40_recording as tx40

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'tx40.urdf'


@pytest.fixture(scope='module')
def result():
    return tx40.run()


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


def coupled(inertia='tied'):
    drive = CoupledDrive(motor='joint_6', joints=('joint_5', 'joint_6'), inertia=inertia)
    return ModelSettings(coupled_drives=(drive,))


def test_the_printed_norms_are_those_of_the_table():
    reference = tx40.column_of('chi_ref')
    assert reference.size == 76
    for name, expected in (('chi_0b', 0.1591), ('chi_0e', 0.0416)):
        change = np.linalg.norm(tx40.column_of(name) - reference)
        assert change / np.linalg.norm(reference) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize('mass', [3.0, 10.0])
def test_the_check_finds_that_the_a_priori_values_are_not_all_physical(robot, mass):
    values = prior(robot, coupled()).updated({**tx40.printed('chi_ref'), 'link_2.m': mass})
    assert gautier_venture.unphysical(values) == ['link_3', 'link_6']
    problems = ' '.join(check(values).problems)
    assert 'link_3: the smallest principal moment' in problems


def test_names_of_the_table_are_ours(robot):
    layout = build(robot, coupled()).layout
    printed = tx40.printed('chi_0e')
    assert all(name in layout for name in printed)
    values = prior(robot, coupled()).updated(printed)
    np.testing.assert_allclose(tx40.as_printed(values), tx40.column_of('chi_0e'), atol=1e-15)
    missing = {*layout.names} - {*printed}
    expected = {f'link_1.{s}' for s in ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz')}
    assert missing == expected | {'link_2.m'}


@pytest.mark.parametrize(('inertia', 'standard', 'base'), [('tied', 86, 60), ('separate', 87, 61)])
def test_counts(robot, inertia, standard, base):
    found = structure(build(robot, coupled(inertia)), robot)
    assert (found.n_standard, found.n_base) == (standard, base)
    assert found.unidentifiable.size == 11
    # Table II leaves these 15, and MZ2 without effect, unchanged in chi_0b: the dependent columns
    unchanged = {
        f'{owner}.{symbol}'
        for owner, symbols in {
            'joint_1': ['Ia'],
            'link_2': ['Iyy'],
            'joint_2': ['Ia'],
            **{f'link_{i}': ['Iyy', 'mz', 'm'] for i in (3, 4, 5, 6)},
        }.items()
        for symbol in symbols
    }
    assert {found.layout.names[i] for i in found.dependent} == unchanged


def test_wrist_coupling_is_that_of_equations_34_and_35(robot):
    """Motor 6 turns with both joints; its rotor is a body with kinetic energy, no more."""
    gears = np.array([[45.0, 0.0], [32.0, 32.0]])
    rotors = np.array([1.2e-5, 0.9e-5])
    regressor = build(robot, coupled())
    motion = Motion(*np.random.default_rng(1).uniform(-2.0, 2.0, (3, 30, 6)))
    at_motors = motion.acceleration[:, 4:] @ gears.T
    expected = (at_motors * rotors) @ gears  # (34): torques by the transpose
    values = dict.fromkeys(regressor.layout, 0.0)
    values['joint_5.Ia'] = 45.0**2 * rotors[0] + 32.0**2 * rotors[1]  # (35)
    values['joint_6.Ia'] = 32.0**2 * rotors[1]
    parameters = ParameterSet(regressor.layout, list(values.values()))
    effort = predict(regressor, motion, parameters)
    np.testing.assert_allclose(effort[:, 4:], expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(effort[:, :4], 0.0, atol=1e-15)


def test_friction_of_the_coupling_spans_what_the_paper_prints(robot):
    """Its equations have Fvm6 with one velocity each, and Fcm6 less the sign of joint 6."""
    regressor = build(robot, coupled('separate'))
    motion = Motion(*np.random.default_rng(2).uniform(-2.0, 2.0, (3, 200, 6)))
    q5, q6 = motion.velocity[:, 4], motion.velocity[:, 5]
    paper = np.zeros((200, 6, 3))
    paper[:, 4, 0], paper[:, 5, 0] = motion.acceleration[:, 5], motion.acceleration[:, 4]
    paper[:, 4, 1], paper[:, 5, 1] = q6, q5
    paper[:, 4, 2], paper[:, 5, 2] = np.sign(q5 + q6), np.sign(q5 + q6) - np.sign(q6)
    names = [f'joint_{j}.{s}' for j in (5, 6) for s in ('Ia', 'fv', 'fc')]
    own = regressor.rows(motion)[:, regressor.layout.indices(names)]
    drive = [f'joint_6.{symbol}' for symbol in ('Iam', 'fvm', 'fcm')]
    ours = np.hstack([own, regressor.rows(motion)[:, regressor.layout.indices(drive)]])
    theirs = np.hstack([own, paper.reshape(-1, 3)])
    assert np.linalg.matrix_rank(ours) == np.linalg.matrix_rank(theirs) == 9
    assert np.linalg.matrix_rank(np.hstack([ours, theirs])) == 9


def test_distances_are_below_the_papers_for_all_columns(result):
    assert gautier_venture.distance(result.standard) < 0.1591
    assert result.structure.n_base == 60
    assert 28 <= result.essential.rank <= 34


def test_the_essential_version_is_plain_least_squares(result):
    plain = gautier_venture.essential_by_least_squares(result)
    written = gautier_venture.essential_by_svd(result)
    np.testing.assert_allclose(written, plain, rtol=1e-9, atol=1e-12)
    changed = np.flatnonzero(plain != result.prior.values)
    assert changed.size == result.essential.rank


def test_closest_parameters_fit_as_well_as_wls_and_the_essential_ones_hardly_worse(result):
    error = gautier_venture.relative_error(result, result.standard)
    assert error == pytest.approx(result.estimate.fit.relative_error, rel=1e-9)
    values = gautier_venture.essential_by_least_squares(result)
    reduced = ParameterSet(result.standard.layout, values)
    assert error < gautier_venture.relative_error(result, reduced) < 1.05 * error < 10.0


def test_the_experiment_file_chooses_the_version(result):
    chosen = tx40.run(standard='essential')
    expected = gautier_venture.essential_by_least_squares(result)
    np.testing.assert_allclose(chosen.standard.values, expected, rtol=1e-9, atol=1e-12)
    counts = gautier_venture.positive(chosen.standard)
    assert counts[0.0] >= gautier_venture.positive(result.prior)[0.0] == 4
