# SPDX-License-Identifier: Apache-2.0
"""The state of a window and its steps, without a browser and without the extra."""

import asyncio
from dataclasses import replace
from pathlib import Path
import re
import time

import numpy as np
import pytest
from robot_identification.cli import main
from robot_identification.data.recording import Recording
from robot_identification.excitation.robot_page import robot_html
from robot_identification.figures.signal_plots import Band, envelope, signal_figures
from robot_identification.figures.static_figures import StaticFigureStore
from robot_identification.model.robot import Robot
from robot_identification.model.robot_check import check_robot
from robot_identification.window.session import Session, Sessions
from robot_identification.window.values import Given

ROOT = Path(__file__).resolve().parents[2]
URDF = str(ROOT / 'urdf' / 'demo_arm.urdf')
RUNS = tuple(
    str(ROOT / 'examples/demo_arm/recordings' / name) for name in ('identification', 'validation')
)


@pytest.fixture
def session(tmp_path):
    session = Session(tmp_path / 'window', Given(URDF, list(RUNS)))
    yield session
    session.close()


def test_stages_open_one_after_the_other(session):
    def opened():
        return [stage for stage in session.versions if session.is_open(stage) and stage != 'live']

    async def walk():
        assert opened() == ['robot']
        await session.open_robot()
        assert (
            opened() == ['robot', 'recordings', 'motion']
            and session.found.robot.name == 'demo_arm'
        )
        await session.draft()
        # no recording shows what its efforts are for certain
        assert session.found.drafted.text == '' and 'identify' not in opened()
        session.given.facts['effort_kind'] = 'joint_torque'
        await session.draft()
        assert opened()[-1] == 'identify' and session.found.signals.count('samples') == 2
        session.given.text = session.given.text.replace('joint_torque', 'joint_tork')
        await session.save_text()
        assert 'identify' not in opened()
        assert "'robot.effort_kind'" in session.errors['recordings']
        assert 'joint_torque' in session.experiment.read_text()
        session.given.text = session.given.text.replace('joint_tork', 'joint_torque')
        await session.save_text()
        assert opened()[-1] == 'identify' and not session.errors
        session.given.settings = 'signals.cutoff=12'
        await session.identify()
        assert opened()[-1] == 'use' and session.found.identified.screen.startswith(
            'Good for all uses'
        )
        assert '--set signals.cutoff=12' in '\n'.join(session.commands())
        await session.export('c')
        await session.export('npz', '3')
        await session.export('npz', 'some')
        assert session.errors['use'].startswith("'--samples some' is no number of sets")
        assert [Path(path).exists() for path in session.found.exported] == [True, True]
        session.given.urdf = 'none.urdf'
        await session.open_robot()
        assert opened() == ['robot']

    asyncio.run(walk())


@pytest.mark.parametrize(
    ('urdf', 'files', 'facts', 'words'),
    [
        ('none.urdf', RUNS, {}, ('check', 'none.urdf')),
        (URDF, ('none.csv',), {}, ('init', URDF, 'none.csv')),
        (URDF, (URDF,), {}, ('init', URDF, URDF)),
        (
            URDF,
            RUNS,
            {'effort_kind': 'joint_torque', 'gains': '1 2'},
            ('init', URDF, *RUNS, '--effort-kind', 'joint_torque', '--gains', '1', '2'),
        ),
    ],
)
def test_bad_input_is_the_line_of_the_command_line(
    tmp_path, monkeypatch, capsys, urdf, files, facts, words
):
    monkeypatch.chdir(tmp_path)
    session = Session(Path('window'), Given(urdf, list(files)))
    session.given.facts.update(facts)
    try:
        asyncio.run(session.open_all())
        (line,) = session.errors.values()
        assert main(words) == 2
        assert capsys.readouterr().err == f'error: {line}\n'
    finally:
        session.close()


def test_a_draft_takes_the_columns_that_were_corrected(tmp_path):
    time = np.arange(1000) / 100.0
    rates = np.array([1.1, 0.7, 1.7])
    position, effort = np.sin(np.outer(time, rates)), 9.0 * np.cos(np.outer(time, rates))
    names = ['time', *(f'{word}{k}' for word in ('q', 'tau', 'odd') for k in (1, 2, 3))]
    file = str(tmp_path / 'run.csv')
    rows = np.column_stack([time, position, effort, 2.0 * effort])
    np.savetxt(file, rows, delimiter=',', header=','.join(names), comments='')
    urdf = str(ROOT / 'urdf' / 'szabo_3r.urdf')
    session = Session(tmp_path / 'window', Given(urdf, [file]))
    session.given.facts['effort_kind'] = 'joint_torque'
    try:
        asyncio.run(session.draft())
        assert 'effort: [tau1, tau2, tau3]' in session.given.text
        (found,) = session.found.columns
        assert found.columns['effort']['joint_2'] == 'tau2' and 'odd2' in found.choices
        session.correct(found, 'effort', 'joint_2', 'odd2')
        asyncio.run(session.draft())
        assert 'effort: [tau1, odd2, tau3]' in session.given.text and session.edited
        assert 'columns (as given)' in session.found.drafted.summary
        # stamps in another unit than they seem to be
        assert 'time_unit: s\n' in session.given.text
        session.correct(session.found.columns[0], 'time_unit', '', 'ms')
        asyncio.run(session.draft())
        assert 'has 1000 samples in 0.00999 s' in session.errors['recordings']
        session.correct(session.found.columns[0], 'time_unit', '', '')
        # a joint that lacks one of the signals is left out
        session.correct(session.found.columns[0], 'effort', 'joint_1', None)
        asyncio.run(session.draft())
        assert 'effort: [odd2, tau3]' in session.given.text
    finally:
        session.close()


def test_a_step_that_is_stopped_leaves_the_window_as_it_was(session):
    async def walk():
        await session.open_robot()
        session.given.planner['time_budget'] = '200'
        session.start(session.plan)
        while session.job is None or session.job.share == 0.0:
            await asyncio.sleep(0.02)
        session.start(session.identify)  # left out: a step is running
        begin = time.monotonic()
        session.stop()
        await session._task
        assert session.errors == {'motion': 'stopped'} and time.monotonic() - begin < 5.0
        assert session.job is None and session.found.robot is not None
        session.given.planner.update(time_budget='0.1', duration='4')
        await session.plan()
        assert not session.errors and session.found.planned.files[-1].endswith('plan.html')
        assert '--set planner.duration=4' in '\n'.join(session.commands())

    asyncio.run(walk())


def test_windows_have_folders_of_their_own(tmp_path):
    (tmp_path / 'window').mkdir()
    (tmp_path / 'window' / 'result.yaml').touch()
    sessions = Sessions(tmp_path / 'window')
    try:
        first = sessions.new()
        assert sessions.unattended() == first
        sessions.all[first].pages.add('a page')
        second = sessions.unattended()
        names = [sessions.all[number].folder.name for number in (first, second)]
        assert names == ['window_2', 'window_3']
        sessions.all[first].pages.clear()
        assert sessions.unattended() == first
    finally:
        sessions.close()


def test_thinned_signals_keep_their_peaks():
    time = np.arange(200_000) / 1e3
    position = np.sin(time)[:, None]
    effort = np.zeros_like(position)
    effort[123_456] = 7.0
    source = Recording(time, position, effort, ('a',), source='run')
    found = envelope(source)
    assert found.rows == 200_000 and len(found.time) <= 6_000
    assert found.signals['effort'].max() == 7.0 and 'velocity' not in found.signals
    (figure,) = signal_figures([found], ['rad'])
    assert [trace['name'] for trace in figure.traces] == ['position', 'effort']
    bands = Band(20.0, 30.0, 'no effort'), Band(40.0, 50.0, 'at 7', ('b',))
    (marked,) = signal_figures([replace(found, bands=bands)], ['rad'])
    named = [shape for shape in marked.layout['shapes'] if 'label' in shape]
    assert [(each['x0'], each['x1'], each['label']['text']) for each in named] == [
        (20.0, 30.0, 'no effort')
    ]
    assert StaticFigureStore().markup(marked)
    peak = figure.traces[1]
    assert peak['x'][np.argmax(peak['y'])] == pytest.approx(123.456, abs=0.2)


def test_the_page_of_a_robot_has_its_joints_and_findings():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'tx40.urdf')
    check = check_robot(robot)
    page = robot_html(robot, check)
    assert page.count('type="range"') == 6
    assert all(text.replace('>', '&gt;') in page for _, text in check.findings())
    marked = set(re.findall(r'"link":"(\w+)","marked":true', page))
    assert (
        marked
        == {link for link, _ in check.findings()}
        == {'link_2', 'link_3', 'link_4', 'link_6'}
    )
