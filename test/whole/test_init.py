# SPDX-License-Identifier: Apache-2.0
"""Command ``init``: from a URDF and recordings to an experiment file that ``identify`` takes."""

from __future__ import annotations

from pathlib import Path
import shutil

import numpy as np
import pytest
from robot_identification.cli.init import KINDS
from robot_identification.config.experiment_file import load_experiment
from robot_identification.data.drives import EFFORT_KINDS
from robot_identification.results.stored_result import read_result

ROOT = Path(__file__).resolve().parents[2]
URDF = ROOT / 'urdf' / 'szabo_3r.urdf'
UR10E = ROOT.parent / 'shared' / 'data' / 'ur10e'
BAG = ROOT / 'examples' / 'demo_arm' / 'recordings' / 'validation'
TX40 = ROOT / 'examples' / 'tx40'


@pytest.fixture
def fresh(workspace):
    workspace.experiment.unlink()
    return workspace


def test_the_file_that_is_written_identifies_the_robot(fresh):
    """Parameters within four standard deviations of the true ones."""
    done = fresh.run('init', URDF, 'first.csv', 'second.csv', '--effort-kind', 'joint_torque')
    assert done.stdout.splitlines()[-1] == 'next: robot-identification identify experiment.yaml'
    settings = ('--no-auto', '--set', 'signals.cutoff=20', '--set', 'signals.dead_zone=0.05')
    fresh.run('identify', 'experiment.yaml', *settings, '--set', 'estimation.method=wls')
    result = read_result(fresh.folder / 'results' / 'result.yaml')
    pairs = zip(result.expressions, result.base.layout.names, strict=True)
    # those that are no combinations
    alone = [place for place, (expression, name) in enumerate(pairs) if expression == name]
    truth = np.array([fresh.truth[result.expressions[place]] for place in alone])
    off = np.abs(result.base.values[alone] - truth) / result.base_std[alone]
    assert len(alone) > 5 and off.max() < 4.0


def test_the_kind_of_effort_is_never_guessed(fresh):
    assert KINDS == EFFORT_KINDS
    done = fresh.run('init', URDF, 'first.csv', expect=2)
    assert 'suggests joint_torque' in done.stdout
    assert done.stderr.count('\n') == 1 and '--effort-kind' in done.stderr
    assert not fresh.experiment.exists()


def test_terms_that_the_target_lacks_are_not_estimated(fresh):
    command = ('init', URDF, 'first.csv', '--effort-kind', 'joint_torque', '--for', 'mjcf')
    fresh.run(*command)
    experiment = load_experiment(fresh.folder / 'experiment.yaml')
    assert experiment.robot.friction == ('viscous', 'coulomb', 'offset')
    assert experiment.simulation.target == 'mjcf'
    done = fresh.run('identify', 'experiment.yaml', '--no-auto', '--for', 'isaaclab')
    assert 'actuators.py' in done.stdout


@pytest.mark.parametrize(
    ('given', 'said', 'right'),
    [
        (('first.csv', 'robot.urdf'), "'first.csv' is a table of numbers", 'robot.urdf first.csv'),
        (('first.csv', 'second.csv'), 'table', 'ROBOT.urdf first.csv second.csv'),
        (('robot.urdf', 'robot.urdf'), 'is a URDF or xacro file', 'robot.urdf RECORDING'),
        (('experiment.yaml', 'robot.urdf'), 'is an experiment file', 'robot.urdf RECORDING'),
        ((str(BAG), 'robot.urdf'), 'is a rosbag2 recording', f'robot.urdf {BAG}'),
        (('a.csv.gz', 'robot.urdf'), "'a.csv.gz' is a compressed table", 'robot.urdf a.csv.gz'),
    ],
)
def test_files_in_another_order_are_named_by_what_they_are(workspace, given, said, right):
    shutil.copy(URDF, workspace.folder / 'robot.urdf')
    (workspace.folder / 'a.csv.gz').write_bytes(b'\x1f\x8b')
    error = workspace.run('init', *given, '--out', 'new.yaml', expect=2).stderr
    assert error.startswith('error: ') and len(error.splitlines()) == 1
    assert said in error and error.endswith(f'robot-identification init {right}\n')


def test_a_file_is_not_replaced_unless_it_is_asked_for(workspace):
    before = workspace.experiment.read_text()
    command = ('init', URDF, 'first.csv', '--effort-kind', 'joint_torque')
    done = workspace.run(*command, expect=2)
    assert 'exists already' in done.stderr and workspace.experiment.read_text() == before
    workspace.run(*command, '--force')
    assert workspace.experiment.read_text() != before


def test_the_tx40_is_identified_by_its_gears_and_zeros(fresh):
    files = [TX40 / 'pos_read_data.csv.gz', TX40 / 'curr_data.csv.gz']
    done = fresh.run(
        'init', ROOT / 'urdf' / 'tx40.urdf', *files, '--rate', 5000,
        '--effort-kind', 'motor_torque', '--gear-ratios', 32, 32, 45, -48, 45, 32,
        '--position-offsets', 0, -1.5707963, 1.5707963, 0, 0, 0,
    )  # fmt: skip
    # the recorded torques are those of motors, whatever the file's name says
    assert 'which may be wrong' in done.stdout
    settings = (
        '--no-auto',
        '--set',
        'estimation.method=ols',
        '--set',
        'estimation.bootstrap=null',
    )
    fresh.run('identify', 'experiment.yaml', *settings)
    assert (
        read_result(fresh.folder / 'results' / 'result.yaml').identification.relative_error < 10.0
    )


@pytest.mark.skipif(not UR10E.is_dir(), reason='the recordings of the UR10e are not at hand')
def test_the_ur10e_needs_nothing_but_the_kind_of_effort(fresh):
    files = [UR10E / 'ur10e.urdf', UR10E / 'excite_30s_a.csv', UR10E / 'point_to_point.csv']
    done = fresh.run('init', *files, '--effort-kind', 'motor_current')
    assert 'suggests motor_current' in done.stdout
    fresh.run('identify', 'experiment.yaml')
    assert 'identified.urdf' in {path.name for path in (fresh.folder / 'results').iterdir()}
    assert (
        read_result(fresh.folder / 'results' / 'result.yaml').identification.relative_error < 5.0
    )
