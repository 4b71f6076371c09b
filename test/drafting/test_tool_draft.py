# SPDX-License-Identifier: Apache-2.0
"""Drafts for a tool behind a force-torque sensor: wrenches are found by name, and identified."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from robot_identification.cli.main import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.drafting.settings import DraftSettings
from robot_identification.drafting.tool_draft import draft_tool, wrench_columns
from robot_identification.errors import IdentifiabilityError, IdentificationError, RecordingError
from robot_identification.identification.tool_pipeline import identify_tool
from robot_identification.model.robot import Robot
import yaml

PLACE = Path(__file__).parents[1] / 'loads' / 'test_tool.py'
SPEC = importlib.util.spec_from_file_location('tool_wrenches', PLACE)
wrenches = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wrenches)


@pytest.mark.parametrize(
    'names',
    [
        ['fx', 'fy', 'fz', 'tx', 'ty', 'tz'],
        ['Fx [N]', 'Fy [N]', 'Fz [N]', 'Tx [Nm]', 'Ty [N m]', 'Tz (N.m)'],
        ['f_x_N', 'f_y_N', 'f_z_N', 'm_x_Nm', 'm_y_Nm', 'm_z_Nm'],
        ['ft_fx', 'ft_fy', 'ft_fz', 'ft_mx', 'ft_my', 'ft_mz'],
        [f'wrench.{kind}.{axis}' for kind in ('force', 'torque') for axis in 'xyz'],
        [f'/sensor/wrench/{kind}/{axis}' for kind in ('force', 'torque') for axis in 'xyz'],
        [f'actual_TCP_force_{k}' for k in range(6)],
    ],
)
def test_names_of_a_wrench(names):
    others = ['t', *(f'q{k}' for k in range(6)), *(f'qd_{k}' for k in range(6)), 'temperature']
    every = [(name, None) for name in [*others[:4], *names, *others[4:]]]
    assert wrench_columns(every) == tuple(names)
    shuffled = [(name, None) for name in [*others, *sorted(names, reverse=True)]]
    if '_TCP_' not in names[0]:
        assert wrench_columns(shuffled) == tuple(names)
    assert wrench_columns([(name, None) for name in [*others, *names[:5]]]) is None
    in_mm = [(f'{name} [Nmm]', None) for name in names[3:]]
    assert wrench_columns([*((name, None) for name in names[:3]), *in_mm]) is None


def test_an_array_of_wrenches():
    assert wrench_columns([('q', (100, 6)), ('wrench', (100, 6))]) == 'wrench'
    assert wrench_columns([('q', (100, 6)), ('tau', (100, 6))]) is None
    # a left arm has no sensor by its name
    assert wrench_columns([('left_q', (100, 6))]) is None
    assert wrench_columns([(f'left_{k}', None) for k in range(6)]) is None


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Give a folder with a URDF and a table whose stamps are in milliseconds."""
    folder = tmp_path_factory.mktemp('draft')
    text = wrenches.URDF.read_text().replace('</robot>', wrenches.SENSOR)
    (folder / 'arm.urdf').write_text(text)
    run = wrenches.recording(Robot.from_urdf(text), 1)
    n = run.position.shape[1] - 6
    table = np.column_stack([1e3 * run.time, run.position[:, :n], run.effort[:, n:]])
    names = ['time', *(f'joint_{i + 1}.position' for i in range(n))]
    names += [f'wrench.{kind}.{axis}' for kind in ('force', 'torque') for axis in 'xyz']
    np.savetxt(folder / 'swing.csv', table, delimiter=',', header=','.join(names), comments='')
    return folder


def test_a_table_makes_an_experiment_that_is_identified(folder, capsys):
    file = folder / 'experiment.yaml'
    words = [
        'init',
        str(folder / 'arm.urdf'),
        str(folder / 'swing.csv'),
        '--tool',
        '-o',
        str(file),
    ]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert 'wrench.force.x' in printed and "taken to be at link 'sensor'" in printed
    assert f'next: robot-identification tool {file}' in printed
    section = yaml.safe_load(file.read_text())['data']['tool']
    assert section['frame'] == 'sensor' and section['recordings'][0]['time_unit'] == 'ms'
    assert main(['tool', str(file), '--out', str(folder)]) == 0
    body = yaml.safe_load((folder / 'tool.yaml').read_text())['payload']['body']
    assert body['mass'] == pytest.approx(wrenches.TOOL.mass, rel=0.02)


def test_without_the_option_they_are_noticed(folder, capsys):
    words = ['init', str(folder / 'arm.urdf'), str(folder / 'swing.csv')]
    assert main([*words, '-o', str(folder / 'other.yaml')]) != 0  # it has no efforts
    told = capsys.readouterr()
    assert 'init --tool' in told.out and 'no columns of effort' in told.err


def test_a_table_without_wrenches_is_named(folder, capsys):
    lines = (folder / 'swing.csv').read_text().splitlines()
    (folder / 'bare.csv').write_text('\n'.join(line.rsplit(',', 6)[0] for line in lines))
    words = ['init', str(folder / 'arm.urdf'), str(folder / 'bare.csv'), '--tool']
    assert main([*words, '-o', str(folder / 'other.yaml')]) != 0
    assert 'bare.csv' in (error := capsys.readouterr().err)
    assert 'no columns of forces and torques' in error and error.count('\n') == 1


def test_degrees_are_refused_until_they_are_named(folder, tmp_path, capsys):
    with (folder / 'swing.csv').open() as file:
        names = file.readline()
        table = np.loadtxt(file, delimiter=',')
    table[:, 1:7] = np.degrees(table[:, 1:7])
    path = tmp_path / 'deg.csv'
    np.savetxt(path, table, delimiter=',', header=names.strip(), comments='')
    words = ['init', str(folder / 'arm.urdf'), str(path), '--tool', '-o', str(tmp_path / 'e.yaml')]
    assert main(words) != 0
    assert 'times its range in the URDF: give --degrees' in capsys.readouterr().err
    assert main([*words, '--degrees']) == 0


def test_a_slow_recording_is_filtered_below_half_its_rate(folder, tmp_path, capsys):
    """At 20 Hz there is nothing at the default cut-off frequency."""
    lines = (folder / 'swing.csv').read_text().splitlines()
    path, file = tmp_path / 'slow.csv', tmp_path / 'e.yaml'
    path.write_text('\n'.join([lines[0], *lines[1::10]]))
    assert main(['init', str(folder / 'arm.urdf'), str(path), '--tool', '-o', str(file)]) == 0
    assert yaml.safe_load(file.read_text())['signals'] == {'cutoff': 5.0}
    assert main(['tool', str(file), '--out', str(tmp_path)]) == 0
    body = yaml.safe_load((tmp_path / 'tool.yaml').read_text())['payload']['body']
    assert body['mass'] == pytest.approx(wrenches.TOOL.mass, rel=0.05)


@pytest.fixture(scope='module')
def swing(folder):
    """Return stamps, positions and wrenches of 12 s at 125 Hz, as the robot has them."""
    robot = Robot.from_urdf((folder / 'arm.urdf').read_text())
    run = wrenches.recording(robot, 1)
    n = run.position.shape[1] - 6
    return run.time, run.position[:, :n], run.effort[:, n:]


def spoiled(swing, random):
    """Return the same at any rate and length, with gaps, joints at rest, steps, other stamps."""
    time, position, wrench = swing
    chosen = time <= random.choice([0.2, 1.0, 4.0, 12.0])
    chosen &= np.arange(len(time)) % random.choice([1, 2, 6, 25]) == 0
    if random.random() < 0.3:
        chosen[len(time) // 9 : len(time) // 6] = False
    time, position, wrench = time[chosen], position[chosen], wrench[chosen]
    still = random.random(position.shape[1]) < random.choice([0.0, 0.2, 1.0])
    position = np.where(still, position[0], position)
    wrench = np.round(wrench, random.choice([1, 6])) * random.choice([1.0, 1.0, -1.0, 1e3])
    time = (time + random.choice([0.0, 1.7e9])) * random.choice([1.0, 1e3, 1e9])
    return time, position, wrench


@pytest.mark.parametrize('seed', range(8))
@pytest.mark.filterwarnings('ignore')
def test_what_init_writes_for_a_tool_is_read(folder, swing, tmp_path, seed):
    time, position, wrench = spoiled(swing, np.random.default_rng(seed))
    names = [f'joint_{i + 1}.position' for i in range(position.shape[1])]
    if seed % 2:
        path = tmp_path / 'swing.npz'
        np.savez(path, time=time, position=position, wrench=wrench)
    else:
        path = tmp_path / 'swing.csv'
        names = ['time', *names, *(f'wrench.{k}.{a}' for k in ('force', 'torque') for a in 'xyz')]
        rows = np.column_stack([time, position, wrench])
        np.savetxt(path, rows, '%.12g', delimiter=',', header=','.join(names), comments='')
    try:
        found = draft_tool(folder / 'arm.urdf', [path], DraftSettings())
    except IdentificationError as refused:
        assert refused.remedy, refused
        return
    file = tmp_path / 'experiment.yaml'
    file.write_text(found.text(folder / 'arm.urdf', tmp_path))
    try:
        identify_tool(load_experiment(file, check_data=False))
    except IdentifiabilityError as still:
        assert 'orientation' in str(still)  # the motion shows too little, not the file
    except RecordingError as short:
        assert 'longer' in str(short)
