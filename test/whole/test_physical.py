# SPDX-License-Identifier: Apache-2.0
"""`method: physical` gives robots that simulators take, and that explain the effort as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.cli import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.estimation import PhysicalSettings, wls
from robot_identification.estimation.interior_point import minimise
from robot_identification.estimation.physical import physical_problem
from robot_identification.model.consistency import check
from robot_identification.pipeline import identify
from robot_identification.results.result import read_result
import yaml

from benchmarks.papers.beyond import processor_time
from benchmarks.papers.beyond_robots import least_eigenvalues, rotor_matrix

ROOT = Path(__file__).resolve().parents[2]
TX40 = ROOT / 'examples' / 'tx40' / 'experiment.yaml'
DATA = ROOT.parent / 'shared' / 'data' / 'tx40'
UR10E = ROOT.parent / 'shared' / 'data' / 'ur10e'
UR10E_JOINTS = [
    'shoulder_pan_joint',
    'shoulder_lift_joint',
    'elbow_joint',
    'wrist_1_joint',
    'wrist_2_joint',
    'wrist_3_joint',
]

needs_recording = pytest.mark.skipif(
    not DATA.is_dir(), reason='the recording of the TX-40 is not beside the repository'
)

needs_ur10e = pytest.mark.skipif(
    not UR10E.is_dir(), reason='the recordings of the UR10e are not beside the repository'
)


def loss_of(found, divergence):
    """Return the loss at the optimum, in standard deviations, and the bound on the error."""
    settings = PhysicalSettings(divergence=divergence)
    problem = physical_problem(
        found.system, wls(found.system, prior=found.prior), found.robot, found.prior, settings,
        found.model, found.estimation.distance,
    )  # fmt: skip
    minimum = minimise(problem.program, 1e-6)
    return problem.program.loss(minimum.z), minimum.error


def test_the_command_line_gives_a_robot_that_simulators_take(workspace):
    """With so much noise that the unconstrained parameters are none."""
    noisy = workspace.table()
    noisy[:, 4:] += 2.0 * np.random.default_rng(0).standard_normal(noisy[:, 4:].shape)
    workspace.write(noisy)
    workspace.run('identify', 'experiment.yaml', '--require-physical', expect=3)
    done = workspace.run(
        'identify', 'experiment.yaml', '--require-physical', '--set', 'estimation.method=physical'
    )
    assert 'least squares over physical bodies' in done.stdout
    assert 'on the boundary of what is physical' in done.stdout
    stored = read_result(workspace.folder / 'results' / 'result.yaml')
    urdf = (workspace.folder / 'results' / 'identified.urdf').read_text()
    bare, whole, apart = least_eigenvalues(urdf, rotor_matrix(stored))
    assert bare > 0.0 and whole > 0.0 and apart < 1e-6


OPTIMA = {
    ('tx40', 'euclidean'): 2017.5225893558218,
    ('tx40', 'entropic'): 2013.7730462355262,
    ('ur10e', 'euclidean'): 2603.4998057202815,
    ('ur10e', 'entropic'): 2602.6801567586344,
}
"""Losses at the optimum by the conic solver Clarabel 0.11.1, to 1e-10 or better."""


@needs_recording
@pytest.mark.parametrize('divergence', ['euclidean', 'entropic'])
def test_the_tx40_is_explained_as_well_as_without_constraints(tmp_path, divergence):
    overrides = {'estimation.physical.divergence': divergence}
    results = {
        method: identify(load_experiment(TX40, {**overrides, 'estimation.method': method}))
        for method in ('wls', 'physical')
    }
    free, found = results['wls'].estimate, results['physical'].estimate
    assert not results['wls'].consistency.physical
    assert results['physical'].consistency.physical
    assert found.relative_error < 1.02 * free.relative_error
    assert processor_time(results['physical']) < 1.0
    loss, error = loss_of(results['physical'], divergence)
    assert loss == pytest.approx(OPTIMA['tx40', divergence], rel=1e-7)
    assert error < 1e-3


@needs_ur10e
def test_the_ur10e_has_the_loss_of_a_conic_solver(tmp_path):
    columns = {kind: [f'{kind}{i}' for i in range(1, 7)] for kind in 'qvi'}
    gains = np.diag([14.87, 13.26, 11.13, 10.62, 11.03, 11.47])
    document = {
        'robot': {
            'urdf': str(UR10E / 'ur10e.urdf'),
            'joints': UR10E_JOINTS,
            'friction': ['viscous', 'coulomb', 'offset'],
            'rotor_inertia': True,
            'effort_kind': 'motor_current',
            'drives': {'effort': {'matrix': gains.tolist()}},
        },
        'data': {
            'identification': [
                {
                    'file': str(UR10E / 'excite_30s_a.csv'),
                    'format': 'csv',
                    'time': 't',
                    'position': columns['q'],
                    'velocity': columns['v'],
                    'effort': columns['i'],
                }
            ]
        },
        'signals': {'cutoff': 7.5, 'decimate_to': 20.0},
        'estimation': {'method': 'physical', 'prior': 'urdf'},
    }
    path = tmp_path / 'experiment.yaml'
    path.write_text(yaml.safe_dump(document))
    found = identify(load_experiment(path))
    assert found.consistency.physical
    for divergence in ('euclidean', 'entropic'):
        loss, error = loss_of(found, divergence)
        assert loss == pytest.approx(OPTIMA['ur10e', divergence], rel=1e-7)
        assert error < 1e-3


@needs_recording
def test_the_tx40_is_taken_by_simulators(tmp_path):
    arguments = ['--set', 'estimation.method=physical', '--require-physical', '--quiet']
    assert main(['identify', str(TX40), '--out', str(tmp_path), *arguments]) == 0
    stored = read_result(tmp_path / 'result.yaml')
    assert check(stored.standard).physical
    urdf = (tmp_path / 'identified.urdf').read_text()
    bare, whole, apart = least_eigenvalues(urdf, rotor_matrix(stored))
    assert bare > 0.0 and whole > 0.0 and apart < 1e-6


def test_settings_of_the_file_reach_the_method(workspace):
    workspace.edit(
        'method: wls',
        'method: physical\n  physical: {margin: 0.01, center_of_mass: free, total_mass: 30.0}',
    )
    result = identify(load_experiment(workspace.experiment))
    assert result.estimation.physical == PhysicalSettings(margin=0.01, total_mass=30.0)
    total = sum(result.standard[f'{link}.m'] for link in result.robot.links)
    assert total == pytest.approx(30.0)


@pytest.mark.parametrize(
    ('setting', 'key'),
    [
        ('margin=2.0', 'estimation.physical.margin'),
        ('total_mass=0.001', 'estimation.physical.total_mass'),
        ('center_of_mass=hull', 'estimation.physical.center_of_mass'),
        ('divergence=riemannian', 'estimation.physical.divergence'),
    ],
)
def test_settings_that_cannot_be_met_are_named_in_one_line(workspace, setting, key):
    arguments = ['--set', 'estimation.method=physical', '--set', f'estimation.physical.{setting}']
    if 'center_of_mass' in setting:
        bare = workspace.robot.urdf
        for kind in ('collision', 'visual'):
            while f'<{kind}' in bare:
                start = bare.index(f'<{kind}')
                end = bare.index(f'</{kind}>', start) + len(f'</{kind}>')
                bare = bare[:start] + bare[end:]
        (workspace.folder / 'bare.urdf').write_text(bare)
        arguments += ['--set', 'robot.urdf=bare.urdf']
    done = workspace.run('identify', 'experiment.yaml', *arguments, expect=2)
    lines = done.stderr.strip().splitlines()
    assert len([line for line in lines if line.startswith('error: ')]) == 1
    assert key in done.stderr
