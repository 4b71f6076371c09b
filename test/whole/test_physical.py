# SPDX-License-Identifier: Apache-2.0
"""`method: physical` gives robots that simulators take, and that explain the effort as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.cli import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.estimation.link_constraints import PhysicalSettings
from robot_identification.identification.pipeline import identify
from robot_identification.model.consistency import check
from robot_identification.results.stored_result import read_result
import yaml

from benchmarks.papers.beyond_robots import least_eigenvalues, rotor_matrix

ROOT = Path(__file__).resolve().parents[2]
TX40 = ROOT / 'examples' / 'tx40' / 'experiment.yaml'
UR10E = ROOT.parent / 'shared' / 'data' / 'ur10e'
UR10E_JOINTS = [
    'shoulder_pan_joint',
    'shoulder_lift_joint',
    'elbow_joint',
    'wrist_1_joint',
    'wrist_2_joint',
    'wrist_3_joint',
]

needs_ur10e = pytest.mark.skipif(
    not UR10E.is_dir(), reason='the recordings of the UR10e are not beside the repository'
)


def test_the_command_line_gives_a_robot_that_simulators_take(workspace):
    """With so much noise that the unconstrained parameters are none."""
    noisy = workspace.table()
    noisy[:, 4:] += 2.0 * np.random.default_rng(0).standard_normal(noisy[:, 4:].shape)
    workspace.write(noisy)
    workspace.run('identify', 'experiment.yaml', '--require-physical', expect=3)
    done = workspace.run(
        'identify', 'experiment.yaml', '--require-physical', '--verbose',
        '--set', 'estimation.method=physical',
    )  # fmt: skip
    assert 'maximum a posteriori over physical bodies' in done.stdout
    assert 'before' in done.stdout and 'all links' in done.stdout
    assert 'strength of the prior' in done.stdout and 'found by cross-validation' in done.stdout
    stored = read_result(workspace.folder / 'results' / 'result.yaml')
    urdf = (workspace.folder / 'results' / 'identified.urdf').read_text()
    bare, whole, apart = least_eigenvalues(urdf, rotor_matrix(stored))
    assert bare > 0.0 and whole > 0.0 and apart < 1e-6


def test_the_tx40_is_explained_as_well_as_without_constraints():
    results = {
        method: identify(load_experiment(TX40, {'estimation.method': method}))
        for method in ('wls', 'physical')
    }
    free, found = results['wls'].estimate, results['physical'].estimate
    assert not results['wls'].consistency.physical
    assert results['physical'].consistency.physical
    assert found.fit.relative_error < 1.05 * free.fit.relative_error
    standard, prior = results['physical'].standard, results['physical'].prior
    for link in results['physical'].robot.links:
        assert 0.4 < standard[f'{link}.m'] / prior[f'{link}.m'] < 2.5


def ur10e(tmp_path, **estimation):
    """Identify the UR10e by currents and published gains, and validate it on another motion."""
    columns = {kind: [f'{kind}{i}' for i in range(1, 7)] for kind in 'qvi'}
    gains = np.diag([14.87, 13.26, 11.13, 10.62, 11.03, 11.47])

    def run(name):
        return {
            'file': str(UR10E / f'{name}.csv'),
            'format': 'csv',
            'time': 't',
            'position': columns['q'],
            'velocity': columns['v'],
            'effort': columns['i'],
        }

    document = {
        'robot': {
            'urdf': str(UR10E / 'ur10e.urdf'),
            'joints': UR10E_JOINTS,
            'friction': ['viscous', 'coulomb', 'offset'],
            'rotor_inertia': True,
            'effort_kind': 'motor_current',
            'drives': {'effort': {'matrix': gains.tolist()}},
        },
        'data': {'identification': [run('excite_30s_a')], 'validation': [run('point_to_point')]},
        'signals': {'method': 'measured_velocity', 'cutoff': 7.5, 'decimate_to': 20.0},
        'estimation': estimation,
    }
    path = tmp_path / 'experiment.yaml'
    path.write_text(yaml.safe_dump(document))
    return identify(load_experiment(path))


@needs_ur10e
def test_the_ur10e_has_plausible_masses_and_predicts_better_than_plain_least_squares(tmp_path):
    free, found = (ur10e(tmp_path, method=method) for method in ('wls', 'physical'))
    assert found.consistency.physical and not free.consistency.physical
    maker = [7.778, 12.93, 3.87, 1.96, 1.96, 0.202]
    masses = [found.standard[f'{link}.m'] for link in found.robot.links]
    for mass, true in zip(masses, maker, strict=True):
        assert 0.4 < mass / true < 2.5
    assert sum(masses) == pytest.approx(sum(maker), rel=0.15)
    errors = [result.validations[0].relative_error for result in (free, found)]
    assert errors[1] < errors[0]
    # what drives reflect is found on the motors' side of the gears, not in the links
    rotors = [found.standard[f'{joint}.Ia'] for joint in UR10E_JOINTS]
    assert rotors[0] > 5.0 and all(rotor > 0.2 for rotor in rotors)


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
        'method: physical\n  physical: {weight: 10.0, center_of_mass: free, total_mass: 30.0}',
    )
    result = identify(load_experiment(workspace.experiment))
    assert result.settings.estimation.physical == PhysicalSettings(weight=10.0, total_mass=30.0)
    total = sum(result.standard[f'{link}.m'] for link in result.robot.links)
    assert total == pytest.approx(30.0, rel=0.02)


def test_a_prior_whose_name_no_file_can_have_is_named_in_one_line(workspace):
    setting = f'estimation.prior={"x" * 5000}.yaml'
    done = workspace.run('identify', 'experiment.yaml', '--set', setting, expect=2)
    assert 'estimation.prior' in done.stderr and 'Traceback' not in done.stderr


@pytest.mark.parametrize(
    ('setting', 'key'),
    [
        ('weight=-2.0', 'estimation.physical.weight'),
        ('total_mass=-1.0', 'estimation.physical.total_mass'),
        ('total_mass=0.0', 'estimation.physical.total_mass'),
        ('center_of_mass=hull', 'estimation.physical.center_of_mass'),
        ('divergence=entropic', 'estimation.physical.divergence'),
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
