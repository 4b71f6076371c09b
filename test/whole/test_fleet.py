# SPDX-License-Identifier: Apache-2.0
"""The command ``fleet`` as a process: killed, stopped, twice at once, without Dask, on bags."""

from __future__ import annotations

import os
from pathlib import Path
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from robot_identification.cli import main
from robot_identification.data.bag_writer import BagWriter, Topic
from robot_identification.fleet.store import open_store
from robot_identification.untrusted.files import load_yaml

ROOT = Path(__file__).resolve().parents[2]
DAY = 86400

EXPERIMENT = """\
robot:
  urdf: {urdf}
  joints: [joint_1, joint_2, joint_3]
  friction: [viscous, coulomb, offset]
  effort_kind: joint_torque
data:
  identification:
    - {entry}
signals: {{method: butterworth, cutoff: 15.0, decimate_to: 40.0, dead_zone: 0.05}}
output: out of the fleet
"""
CSV = '{file: not_there.csv, time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]}'


@pytest.fixture(scope='module')
def table(make_workspace, tmp_path_factory):
    """Give a recording's numbers: time, three positions, three efforts."""
    return make_workspace(tmp_path_factory.mktemp('made')).table()[:2000]


@pytest.fixture
def folder(tmp_path, table):
    """Give a folder with an experiment file and six recordings of two robots."""
    experiment = tmp_path / 'experiment.yaml'
    experiment.write_text(EXPERIMENT.format(urdf=ROOT / 'urdf' / 'szabo_3r.urdf', entry=CSV))
    rng = np.random.default_rng(0)
    for serial in ('Ärm 1', 'arm #2'):
        for number in range(3):
            values = table.copy()
            values[:, 4:] += 0.05 * rng.standard_normal((len(table), 3))
            path = tmp_path / 'rec' / serial / f'run {number}.csv'
            path.parent.mkdir(parents=True, exist_ok=True)
            header = 't,q1,q2,q3,tau1,tau2,tau3'
            np.savetxt(path, values, '%.10g', ',', header=header, comments='')
    return tmp_path


@pytest.fixture
def long_folder(folder):
    """Give the folder with so many recordings that there is time to stop the command."""
    first = folder / 'rec' / 'Ärm 1' / 'run 0.csv'
    for number in range(6):
        os.link(first, first.with_name(f'again {number}.csv'))
    return folder


@pytest.fixture(scope='module')
def cluster(tmp_path_factory):
    """Give the address of a Dask worker, which several commands share."""
    distributed = pytest.importorskip('distributed')
    folder = tmp_path_factory.mktemp('worker')
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, local_directory=folder
    ) as made:
        yield made.scheduler_address


def command(folder, *arguments):
    return [
        sys.executable, '-m', 'robot_identification.cli', 'fleet', 'rec',
        '--experiment', 'experiment.yaml', '--workers', '2',
        *arguments,
    ]  # fmt: skip


def environment():
    return {**os.environ, 'PYTHONPATH': str(ROOT)}


def run(folder, *arguments, expect=0):
    done = subprocess.run(
        command(folder, *arguments),
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == expect, f'{done.stdout}\n{done.stderr}'
    return done


def heed_ctrl_c():
    """Let Ctrl-C be heard also where the tests themselves run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(folder, *arguments):
    return subprocess.Popen(
        command(folder, *arguments),
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True, preexec_fn=heed_ctrl_c,
    )  # fmt: skip


def wait_for_factors(folder, count):
    """Wait until so many factors are kept; return how many there are."""
    end = time.monotonic() + 60.0
    journal = folder / 'out of the fleet' / 'journal.jsonl'
    while time.monotonic() < end:
        lines = journal.read_text().count('\n') if journal.exists() else 0
        if lines >= count:
            return lines
        time.sleep(0.005)
    raise AssertionError('no factors were written')


def in_session(session):
    """List the processes of a session that are still at work."""
    found = []
    for status in Path('/proc').glob('[0-9]*/stat'):
        try:
            state, _, _, its_session = status.read_text().rpartition(')')[2].split()[:4]
        except OSError:
            continue
        if int(its_session) == session and state != 'Z':
            found.append(int(status.parent.name))
    return found


@pytest.mark.soak
def test_killed_as_a_whole_it_goes_on_where_it_was(long_folder):
    process = start(long_folder)
    kept = wait_for_factors(long_folder, 2)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # and had not finished
    end = time.monotonic() + 20.0
    while in_session(process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not in_session(process.pid), 'workers outlive the command'
    out = long_folder / 'out of the fleet'
    done = run(long_folder)
    assert load_yaml((out / 'fleet.yaml').read_text())['timing']['kept'] >= kept
    assert 'Fleet experiment' in done.stdout and 'Ärm 1' in done.stdout
    other = long_folder / 'in one go'
    assert call(long_folder, '--out', str(other), '--quiet') == 0
    assert (out / 'fleet.factor').read_bytes() == (other / 'fleet.factor').read_bytes()


@pytest.mark.soak
def test_ctrl_c_leaves_a_folder_to_go_on_from(long_folder, capsys):
    process = start(long_folder)
    wait_for_factors(long_folder, 1)
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert (process.returncode, text) == (
        130,
        'error: interrupted; the same command goes on with what is left\n',
    )
    assert call(long_folder, '--scheduler', 'processes', '--workers', '1') == 0
    assert capsys.readouterr().err == ''


def test_links_of_others_in_the_temporary_folder_lead_nowhere(folder, tmp_path, monkeypatch):
    pytest.importorskip('distributed')
    own = tmp_path / 'own'
    own.mkdir()
    (own / 'file').write_text('mine')
    shared = tmp_path / 'shared'
    planted = shared / 'dask-scratch-space'
    planted.mkdir(parents=True)
    (planted / 'global.lock').symlink_to(own / 'file')
    (planted / 'purge.lock').symlink_to(own / 'new')
    before = sorted(shared.rglob('*'))
    monkeypatch.setenv('TMPDIR', str(shared))
    run(folder, '--workers', '1')
    assert (own / 'file').read_text() == 'mine'
    assert [path.name for path in own.iterdir()] == ['file']
    assert sorted(shared.rglob('*')) == before


def test_recordings_rejected_give_code_4(folder, capsys, cluster):
    (folder / 'rec' / 'Ärm 1' / 'cut.csv').write_text('t,q1,q2\n0,1')
    assert call(folder, '--scheduler', cluster) == 4
    assert capsys.readouterr().err.startswith('warning: 1 recording is rejected: see')
    (listed,) = load_yaml((folder / 'out of the fleet' / 'rejected.yaml').read_text())['rejected']
    assert listed['recording'] == str(folder / 'rec' / 'Ärm 1' / 'cut.csv')
    assert call(folder, '--scheduler', cluster, '--no-keep-going') == 2
    error = capsys.readouterr().err
    assert error.startswith('error: ') and 'cut.csv' in error


def call(folder, *arguments, recordings='rec'):
    return main(
        [
            'fleet', str(folder / recordings), '--experiment', str(folder / 'experiment.yaml'),
            '--workers', '1', *arguments,
        ]
    )  # fmt: skip


def test_two_at_once_in_one_folder_are_refused(folder, capsys):
    with open_store(folder / 'out of the fleet'):
        assert call(folder) == 2
    assert 'another fleet is at work' in capsys.readouterr().err


def test_regular_expressions_need_not_be_yaml(folder, cluster):
    assert call(folder, '--scheduler', cluster, '--serial', '[: ]#?(.)') == 0
    document = load_yaml((folder / 'out of the fleet' / 'fleet.yaml').read_text())
    assert [robot['serial'] for robot in document['robots']] == ['1', '2']


def test_without_dask_it_does_the_same(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    monkeypatch.setitem(sys.modules, 'dask', None)
    assert call(folder, '--serial', r'rec/(.)') == 0
    report = folder / 'out of the fleet' / 'fleet.html'
    assert 'this process alone, without Dask' in report.read_text()
    document = load_yaml((folder / 'out of the fleet' / 'fleet.yaml').read_text())
    assert [robot['serial'] for robot in document['robots']] == ['a', 'Ä']
    assert call(folder, '--scheduler', 'dask') == 2
    assert (
        "'dask' is not installed: pip install 'robot-identification[fleet]'"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ('arguments', 'text'),
    [
        (('--serial', '('), "'fleet.serial' is no regular expression"),
        (('--scheduler', 'slurm'), "'slurm' is no scheduler"),
        (('--set', 'estimation.method=irls'), "'estimation.method' is irls"),
        (('--set', 'fleet.significance=2'), "'fleet.significance' is 2"),
    ],
)
def test_bad_input_is_told_in_one_line(folder, capsys, arguments, text):
    assert call(folder, *arguments) == 2
    error = capsys.readouterr().err
    assert text in error and error.count('\n') == 1


def test_missing_recordings_are_told(folder, capsys):
    assert call(folder, recordings='nowhere') == 2
    assert 'there is no recording' in capsys.readouterr().err


def write_bag(path, table, start, custom):
    """Write joint states, in an order of the joints that is not the robot's."""
    topic = Topic('/joint_states', 'sensor_msgs/msg/JointState')
    writer = BagWriter(path, [topic], custom)
    names = ('joint_3', 'joint_1', 'joint_2')
    order = [2, 0, 1]
    for row in table:
        stamp = start + round(1e9 * row[0])
        data = b'\0\1\0\0' + struct.pack('<iI', stamp // 10**9, stamp % 10**9)
        data += struct.pack('<I', 1) + b'\0'
        for part in (names, row[1:4][order], (), row[4:7][order]):
            data += b'\0' * (-(len(data) - 4) % 4) + struct.pack('<I', len(part))
            for value in part:
                if isinstance(value, str):
                    data += b'\0' * (-(len(data) - 4) % 4)
                    data += struct.pack('<I', len(value) + 1) + value.encode() + b'\0'
                else:
                    data += b'\0' * (-(len(data) - 4) % 8) + struct.pack('<d', value)
        writer.write(0, stamp, data, publish_time=stamp)
    writer.close()


def test_bags_tell_serial_number_and_time_themselves(folder, table, capsys, cluster):
    begin = 1_760_000_000 * 10**9
    for number, serial in enumerate(('K1', 'K2', 'K1')):
        start = begin + number * DAY * 10**9
        write_bag(folder / 'bags' / f'run{number}', table, start, {'arm': serial})
    experiment = folder / 'experiment.yaml'
    text = experiment.read_text().replace(CSV, '{file: not_there, format: rosbag2}')
    experiment.write_text(text + 'fleet: {serial_key: arm}\n')
    assert call(folder, '--scheduler', cluster, recordings='bags') == 0
    document = load_yaml((folder / 'out of the fleet' / 'fleet.yaml').read_text())
    k1, k2 = document['robots']
    assert (k1['serial'], len(k1['recordings'])) == ('K1', 2)
    assert (k1['from'], k1['to']) == ('2025-10-09 08:53:20', '2025-10-11 08:53:20')
    assert k2['from'] == '2025-10-10 08:53:20'
