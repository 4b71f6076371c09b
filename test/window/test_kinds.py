# SPDX-License-Identifier: Apache-2.0
"""Servos, tools and robots on their feet in the window, as the command line has them."""

import asyncio
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from robot_identification.cli import main
from robot_identification.config.experiment import RobotSettings
from robot_identification.data.floating_recording import FloatingRecording
from robot_identification.errors import SettingsError
from robot_identification.identification.signal_page import feet_lifted
from robot_identification.model.mechanisms import ContactSettings
from robot_identification.model.robot import Robot
from robot_identification.support.progress import no_progress
from robot_identification.window.session import Session
from robot_identification.window.steps import plan_motion, Running
from robot_identification.window.values import Given
import yaml

from benchmarks.two_legs import COULOMB, JOINTS, KD, KP, recorded, urdf

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location('tools', ROOT / 'test' / 'loads' / 'test_tool.py')
tools = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tools)


def walked(folder, robot, recording, facts, format):
    """Go from files to an export in a window; return its screen, and require that lines repeat."""
    session = Session(folder / 'window', Given(str(robot), [str(recording)]))
    session.given.facts.update(facts)

    async def walk():
        await session.open_all()
        await session.identify()
        await session.export(format)

    try:
        asyncio.run(walk())
        assert not session.errors
        lines = [line.split()[1:] for line in session.commands()]
    finally:
        session.close()
    made = {path: path.read_text() for path in (folder / 'window').glob('*.*')}
    for path in made:
        path.unlink()
    assert lines[2][0] == ('tool' if 'tool' in facts else 'identify')
    for words in lines[1::2]:  # init and export
        assert main(words) == 0
    assert {path: path.read_text() for path in made} == made
    return session.found


def test_servos_from_commands(tmp_path):
    (tmp_path / 'legs.urdf').write_text(urdf())
    run = recorded(3.0, seed=0)
    file = tmp_path / 'a.npz'
    np.savez(file, t=run.time, position=run.position, command=run.command)
    facts = {'kp': f'{KP}', 'kd': f'{KD}'}
    found = walked(tmp_path, tmp_path / 'legs.urdf', file, facts, 'urdf')
    assert found.signals.endswith(f'{len(run)} samples')
    assert [each.name for each in found.identified.exports if each.sets] == ['yaml']
    joints = yaml.safe_load(Path(found.identified.files[0]).read_text())['joints']
    known = [joints[joint]['coulomb'] for joint in JOINTS]
    np.testing.assert_allclose(known, COULOMB, rtol=0.1, atol=0.01)
    source = str(tmp_path / 'window' / 'experiment.yaml')
    fields = {'duration': '4', 'time_budget': '0.2', 'floor': ''}
    with pytest.raises(SettingsError, match="'--rate' is missing"):
        planned(source, tmp_path, fields)
    files, words = planned(source, tmp_path, {**fields, 'rate': '200'})
    assert 'commands.csv' in files and words[2:6] == [
        '--rate',
        '200',
        '--set',
        'planner.duration=4',
    ]


def test_a_motion_on_the_feet_is_planned_by_the_same_fields(tmp_path):
    source = str(ROOT / 'examples' / 'quadruped' / 'experiment.yaml')
    files, words = planned(source, tmp_path, {'duration': '6', 'rate': ''}, 'standing.lift=0')
    assert files == ['trajectory.csv', 'trajectory.yaml']
    assert words[2:6] == ['--set', 'standing.duration=6', '--set', 'standing.lift=0']
    table = np.loadtxt(tmp_path / 'plan' / 'trajectory.csv', delimiter=',', skiprows=1)
    assert (
        table[-1, 0] == pytest.approx(6.0, abs=0.02) and not np.ptp(table[[0, -1], 1:13], 0).any()
    )


def planned(source, folder, fields, settings=''):
    """Plan a motion; return the names of its files, and the command line."""
    given = Given(planner=fields, planner_settings=settings)
    run = Running(no_progress, lambda: False)
    made = plan_motion(run, given, source, str(folder / 'plan'))
    return [Path(file).name for file in made.files], list(made.command)


def test_a_tool_at_a_wrist_sensor(tmp_path):
    text = tools.URDF.read_text().replace('</robot>', tools.SENSOR)
    (tmp_path / 'arm.urdf').write_text(text)
    run = tools.recording(Robot.from_urdf(text), 1)
    n = run.position.shape[1] - 6
    names = ['time', *(f'joint_{i + 1}.position' for i in range(n))]
    names += [f'{kind}.{axis}' for kind in ('wrench.force', 'wrench.torque') for axis in 'xyz']
    table = np.column_stack([run.time, run.position[:, :n], run.effort[:, n:]])
    np.savetxt(tmp_path / 'a.csv', table, delimiter=',', header=','.join(names), comments='')
    found = walked(tmp_path, tmp_path / 'arm.urdf', tmp_path / 'a.csv', {'tool': True}, 'ur')
    assert 'urdf' not in [each.name for each in found.identified.exports]
    body = yaml.safe_load(Path(found.identified.files[0]).read_text())['payload']['body']
    assert body['mass'] == pytest.approx(tools.TOOL.mass, rel=0.02)
    assert 'load.m ' in found.identified.details
    # the wrenches are among the signals
    assert found.signals.endswith(f'{len(run.time)} samples')


def test_feet_are_marked_while_they_are_lifted():
    contacts = tuple(ContactSettings(frame=f'{leg}_foot') for leg in ('FL', 'FR', 'RL', 'RR'))
    robot = RobotSettings(
        urdf=str(ROOT / 'urdf' / 'quadruped.urdf'), base='floating', effort_kind='joint_torque'
    ).build()
    stance = np.ones((100, 4), dtype=bool)
    stance[20:31, 1] = stance[60:64, 1] = stance[90:, 3] = False
    still = np.zeros((100, robot.n_joints))
    recording = FloatingRecording(
        np.arange(100) / 10.0, still, still, robot.joints, stance=stance,
        gyroscope=np.zeros((100, 3)), accelerometer=np.zeros((100, 3)),
    )  # fmt: skip
    experiment = SimpleNamespace(robot=SimpleNamespace(contacts=contacts))
    found = [
        (each.first, each.last, each.text, each.joints[0], len(each.joints))
        for each in feet_lifted(recording, robot, experiment)
    ]
    assert found == [
        (2.0, 3.0, 'FR_foot lifted', 'FR_hip_joint', 3),
        (6.0, 6.3, '', 'FR_hip_joint', 3),
        (9.0, 9.9, 'RR_foot lifted', 'RR_hip_joint', 3),
    ]
