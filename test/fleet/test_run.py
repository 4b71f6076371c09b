# SPDX-License-Identifier: Apache-2.0
"""A fleet from recordings to verdicts: what is found, and that nothing else changes it."""

from dataclasses import replace
import os
from pathlib import Path
import shutil
import signal
import sys

import numpy as np
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.sources import open_recording
from robot_identification.errors import (
    IdentificationError,
    IdentificationWarning,
    RecordingError,
    SettingsError,
)
from robot_identification.estimation.factor_file import read_factor
from robot_identification.fleet import identify_fleet, save_fleet
from robot_identification.fleet import result as fleet_result
from robot_identification.fleet import tasks as fleet_tasks
from robot_identification.fleet.tasks import ReductionPlan
from robot_identification.identification.pipeline import identify_sources
from robot_identification.untrusted.files import load_yaml


@pytest.fixture
def run(cluster):
    """Give the function that identifies a fleet."""

    def identify(fleet, out, recordings=None, **options):
        options = {'scheduler': cluster, **options}
        return identify_fleet(
            fleet.experiment, recordings or [fleet.recordings], fleet.folder / out, **options
        )

    return identify


def merged(fleet, out):
    """Read what depends on every recording and on the order of merging."""
    folder = fleet.folder / out
    files = folder / 'fleet.factor', *sorted(folder.glob('r*/*'))
    return [read_factor(file).factor for file in files]


def require_equal(found, expected):
    """Require that factors are those of another run, to the last bit."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.fingerprint.difference(other.fingerprint) is None
        assert one.raw_rows == other.raw_rows
        for name in ('rows', 'triangles', 'column_sums', 'effort_sums', 'raw_gram'):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.fixture(scope='module')
def reference(small):
    """Reduce the small fleet by one process, without any trouble."""
    out = small.folder / 'reference'
    result = identify_fleet(small.experiment, [small.recordings], out, workers=1)
    assert not result.rejected
    return merged(small, 'reference')


def copied(small, name):
    """Copy what `reference` has made of the small fleet, which takes less time than to make it."""
    shutil.copytree(small.folder / 'reference', small.folder / name)


def test_a_heavy_robot_and_a_drifting_one_are_found_and_no_other(fleet, run):
    heavier = {'link_3.m': 0.3, 'link_3.mx': 0.05, 'link_3.Izz': 0.004}
    for serial in ('A1', 'A2', 'heavy', 'B1', 'B2', 'worn'):
        for number in range(6):
            drift = 0.02 * (number - 2.5)
            changes = {'heavy': heavier, 'worn': {'joint_2.fv': drift}}.get(serial)
            fleet.record(serial, number, changes)
    result = run(fleet, 'out')
    assert result.different == ('heavy',)
    assert result.drifting == ('worn',)
    (drift,) = result.drifts
    assert drift.parameter == 'joint_2.fv'
    assert abs(drift.per_day - 0.02) < 4.0 * drift.std
    assert drift.days == pytest.approx(5.0)
    # the difference of each parameter is what the change of the link makes of it
    project = result.structure.project
    values = {name: fleet.truth[name] + more for name, more in heavier.items()}
    change = project(fleet.truth.updated(values)).values - project(fleet.truth).values
    expected = dict(zip(result.structure.names, change, strict=True))
    for one in result.differences:
        assert abs(one.difference - expected[one.parameter]) < 5.0 * one.std
    told = {one.parameter for one in result.differences}
    assert {name for name, much in expected.items() if abs(much) > 0.02} <= told


def test_each_robot_is_identified_as_from_its_recordings(small, run):
    result = run(small, 'reference')
    plan = ReductionPlan.from_experiment(small.experiment)
    for robot in result.robots:
        opened = [
            open_recording(replace(plan.entry, file=one.path), small.robot.joints)
            for one in robot.recordings
        ]
        alone = identify_sources(plan.problem, opened)
        assert robot.estimate.base.values == pytest.approx(
            alone.estimate.base.values, rel=1e-7, abs=1e-9
        )
        assert robot.estimate.std == pytest.approx(alone.estimate.std, rel=1e-6)


def test_order_and_number_of_workers_change_nothing(small, reference, run, cluster):
    files = sorted(map(str, small.recordings.rglob('*.npz')))
    result = run(small, 'two', files[::-1])
    assert result.scheduler == f'Dask on {cluster}, 2 at a time'
    require_equal(merged(small, 'two'), reference)


@pytest.mark.soak
def test_a_worker_killed_half_way_changes_nothing(small, reference, run):
    others, killed = set(children()), []

    def kill(fraction, text):
        if text == 'recording 5 of 12' and not killed:
            killed.append(min(set(children()) - others))
            os.kill(killed[0], signal.SIGKILL)

    result = run(small, 'killed', progress=kill, scheduler='dask', workers=2)
    assert killed and not result.rejected
    assert result.scheduler == 'Dask on this machine, 2 at a time'
    require_equal(merged(small, 'killed'), reference)


def children():
    """Return the Dask workers of this process."""
    psutil = pytest.importorskip('psutil')
    found = psutil.Process().children(recursive=True)
    return [each.pid for each in found if 'spawn_main' in ' '.join(each.cmdline())]


@pytest.mark.soak
def test_a_recording_that_kills_its_worker_each_time_is_rejected(fleet, tasks, monkeypatch):
    for number in range(6):
        fleet.record('A', number, seconds=3.0)
    deadly = fleet.recordings / 'A' / 'deadly.npz'
    shutil.copy(fleet.recordings / 'A' / 'run2.npz', deadly)
    monkeypatch.setattr(fleet_tasks, 'reduce_recording', tasks.reduce_or_die)
    out = fleet.folder / 'out'
    result = identify_fleet(fleet.experiment, [fleet.recordings], out, workers=2, retries=1)
    assert result.n_recordings == 6
    assert list(result.rejected) == [str(deadly)]
    assert 'was killed, each time' in result.rejected[str(deadly)]


def test_without_dask_the_result_is_the_same(small, reference, monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    out = small.folder / 'without dask'
    result = identify_fleet(small.experiment, [small.recordings], out)
    assert result.scheduler == 'this process alone, without Dask'
    require_equal(merged(small, 'without dask'), reference)


def test_finished_factors_are_kept_and_damaged_ones_made_anew(small, reference, run):
    copied(small, 'kept')
    files = sorted((small.folder / 'kept' / 'factors').glob('*.factor'))
    times = {file: file.stat().st_mtime_ns for file in files}
    files[0].write_bytes(files[0].read_bytes()[:-7])
    files[1].unlink()
    result = run(small, 'kept')
    assert result.kept == 10
    require_equal(merged(small, 'kept'), reference)
    again = {file for file in files if file.stat().st_mtime_ns != times[file]}
    assert again == set(files[:2])


def test_other_settings_make_other_factors(small, reference, cluster):
    experiment = load_experiment(small.file, {'signals.cutoff': '12'})
    copied(small, 'settings')
    result = identify_fleet(
        experiment, [small.recordings], small.folder / 'settings', scheduler=cluster
    )
    assert result.kept == 0
    assert len(list((small.folder / 'settings' / 'factors').iterdir())) == 24


def test_what_cannot_be_used_is_rejected_with_its_reason(fleet, run):
    good = [fleet.record('Ärm 1', number, seconds=3.0) for number in range(2)]
    folder = good[0].parent
    whole = good[0].read_bytes()
    (folder / 'cut.npz').write_bytes(whole[: len(whole) // 2])
    (folder / 'empty.npz').write_bytes(b'')
    (folder / 'text.npz').write_text('no archive')
    np.savez(folder / 'two joints.npz', t=np.arange(9.0), q=np.ones((9, 2)), tau=np.ones((9, 2)))
    values = dict(np.load(good[1]))
    values['tau'][7, 1] = np.nan
    np.savez(folder / 'nan.npz', **values)
    (folder / 'photo.mcap').write_bytes(b'\x89PNG\r\n')
    result = run(fleet, 'out')
    assert result.n_recordings == 2
    reasons = {Path(path).name: reason for path, reason in result.rejected.items()}
    assert set(reasons) == {
        'cut.npz', 'empty.npz', 'text.npz', 'two joints.npz', 'nan.npz', 'photo.mcap',
    }  # fmt: skip
    assert "'tau[:, 1]' is nan in row 7" in reasons['nan.npz']
    assert 'expected 3 columns' in reasons['two joints.npz']
    listed = load_yaml((fleet.folder / 'out' / 'rejected.yaml').read_text())['rejected']
    assert {one['recording']: one['reason'] for one in listed} == dict(result.rejected)
    # repaired recordings are taken in, and the list goes when it is empty
    for name in reasons:
        (folder / name).unlink()
    (folder / 'cut.npz').write_bytes(whole)
    result = run(fleet, 'out')
    assert (result.n_recordings, result.kept) == (3, 2)
    assert not (fleet.folder / 'out' / 'rejected.yaml').exists()


def test_stopping_at_the_first_that_cannot_be_used(fleet, run):
    (fleet.record('A', 0, seconds=3.0).parent / 'x.npz').write_bytes(b'')
    with pytest.raises(RecordingError, match=r'x\.npz'):
        run(fleet, 'out', keep_going=False)


def test_no_recording_that_can_be_used(fleet, run):
    fleet.record('A', 0).write_bytes(b'')
    with pytest.raises(IdentificationError, match='no recording can be used; the first: .*run0'):
        run(fleet, 'out')


def test_one_recording_of_one_robot_is_enough(fleet, run):
    fleet.record('A', 0)
    result = run(fleet, 'out')
    assert result.robots[0].estimate is not None
    assert not result.different and not result.drifting
    save_fleet(result, fleet.folder / 'out')
    assert 'There is one robot alone' in (fleet.folder / 'out' / 'fleet.html').read_text()


def test_a_robot_that_does_not_move_is_told_and_the_others_go_on(fleet, run):
    for serial in ('A', 'B'):
        for number in range(3):
            fleet.record(serial, number)
    still = dict(np.load(fleet.record('still', 0)))
    still['q'] = np.zeros_like(still['q'])
    np.savez(fleet.recordings / 'still' / 'run0.npz', **still)
    result = run(fleet, 'out')
    robots = {robot.serial: robot for robot in result.robots}
    assert robots['still'].estimate is None
    assert 'joint_1' in robots['still'].failure
    assert robots['A'].estimate is not None
    assert 'still' not in result.different
    save_fleet(result, fleet.folder / 'out')
    assert load_yaml((fleet.folder / 'out' / 'fleet.yaml').read_text())['robots'][2]['failure']


def test_factors_made_elsewhere_are_recordings_too(small, reference, run):
    factors = small.folder / 'reference' / 'robots'
    result = run(small, 'second', [str(factors / '*.factor')])
    assert len(result.robots) == 1  # all are in one folder
    total = read_factor(small.folder / 'second' / 'fleet.factor').factor
    expected = read_factor(small.folder / 'reference' / 'fleet.factor').factor
    assert total.raw_rows == expected.raw_rows
    gram = [each.stacked().T @ each.stacked() for each in (total, expected)]
    assert gram[0] == pytest.approx(gram[1], rel=1e-10, abs=1e-10 * gram[1].max())


def test_methods_that_need_the_rows_are_refused(small):
    experiment = load_experiment(small.file, {'estimation.method': 'mrls'})
    with pytest.raises(SettingsError, match="'estimation.method' is mrls"):
        identify_fleet(experiment, [small.recordings], small.folder / 'mrls')


def test_the_files_tell_what_the_result_says(small, reference, run):
    copied(small, 'files')
    result = run(small, 'files')
    folder = small.folder / 'files'
    yaml, html = save_fleet(result, folder)
    document = load_yaml(yaml.read_text())
    assert document['recordings'] == 12
    assert [robot['serial'] for robot in document['robots']] == ['A1', 'A2', 'B1', 'B2']
    assert document['different'] == document['drifting'] == []
    text = html.read_text()
    for part in ('A1', 'No robot differs significantly', 'data-figure="0"'):
        assert part in text
    assert 'No robot differs significantly' in result.summary()
    assert all(len(line) <= 100 for line in result.summary().splitlines())


def test_the_numbers_are_kept_where_the_page_cannot_be_drawn(small, monkeypatch, run):
    result = run(small, 'files')
    # a serial number is no markup
    serials = ('<b>A', *result.comparison.serials[1:])
    strange = replace(result.comparison, serials=serials)
    assert fleet_result.difference_figure(strange).traces[0]['y'][0] == '&lt;b&gt;A'

    def fail(*_):
        raise ValueError('no ink')

    monkeypatch.setattr(fleet_result, 'difference_figure', fail)
    with pytest.warns(IdentificationWarning, match='fleet.html is not written: ValueError'):
        files = save_fleet(result, small.folder / 'files')
    assert files == (small.folder / 'files' / 'fleet.yaml',)
    assert load_yaml(files[0].read_text())['recordings'] == 12
    assert not (small.folder / 'files' / 'fleet.html').exists()
