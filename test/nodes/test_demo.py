# SPDX-License-Identifier: Apache-2.0
"""The demonstration as a process: the whole way, and what happens when a node is killed on it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import threading
import time
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from robot_identification import demo as demonstration
from robot_identification.config.sources import open_recording
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.demo import run_demo
from robot_identification.support.processes import NodeStoppedError
import yaml

ROOT = Path(__file__).resolve().parents[2]
JOINTS = tuple(f'joint_{i}' for i in range(1, 7))
NODES = ('simulation', 'recorder', 'regressor', 'identification', 'excitation')

ENOUGH = 400_000
"""Size of a bag with more than a second of joint states at 1 kHz [bytes]."""


class Demo:
    """A running demonstration."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        command = [sys.executable, '-m', 'robot_identification.cli', 'demo', '--out', str(folder)]
        self.process = subprocess.Popen(
            [*command, *arguments],
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip('\n'))

    @property
    def output(self) -> str:
        return '\n'.join(self.lines)

    def wait_for(self, pattern: str, seconds: float = 90.0) -> re.Match:
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.output)) is None:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < end, f'no {pattern} in\n{self.output}'
            time.sleep(0.05)
        return found

    def pids(self) -> dict[str, int]:
        """Process numbers of the nodes, as the demonstration prints them."""
        self.wait_for(r'excitation \(\d+\)')
        return {name: int(pid) for name, pid in re.findall(r'(\w+) \((\d+)\)', self.output)}

    def finish(self, seconds: float = 60.0) -> int:
        code = self.process.wait(seconds)
        self._reader.join(5.0)
        return code


@pytest.fixture
def demo(ros, tmp_path):
    """Start a demonstration in the test's own domain; leave nothing of it behind."""
    started = []

    def start(*arguments: str) -> Demo:
        started.append(Demo(tmp_path / 'demo', *arguments))
        return started[-1]

    yield start
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_whole_way(demo):
    running = demo('--duration', '6', '--max-iterations', '10')
    assert running.finish(380) == 0, running.output
    text = running.output
    assert re.search(r'(\d+) base parameters from the recording', text)
    rows = re.findall(r'joint_\d +relative error +([\d.]+) %', text)
    assert len(rows) == 6
    assert max(map(float, rows)) < 3.0
    # the truth, from the file that the simulation wrote, against what the table says
    off = [float(value) for value in re.findall(r'^  [*!] .* ([\d.]+) std$', text, re.MULTILINE)]
    assert len(off) > 20
    assert sum(value > 3.0 for value in off) <= 2
    assert max(off) < 4.5
    masses = re.findall(r'^  ([ !-]) link_\d +[\d.]+ +[\d.]+ +[\d.]+', text, re.MULTILINE)
    assert len(masses) == 6 and masses.count('!') <= 1
    (result,) = running.folder.glob('results/*/result.yaml')
    document = yaml.safe_load(result.read_text())
    assert document['validation']
    assert document['identification']['method'] == 'physical'
    assert document['consistency']['physical']
    assert {path.name for path in result.parent.iterdir()} == {
        'result.yaml',
        'identified.urdf',
        'report.html',
        'verdict.json',
    }
    assert 'Verdict:\n\nGood for' in text or 'Verdict:\n\nUsable for' in text
    assert not any(alive(pid) for pid in running.pids().values())


@pytest.mark.soak
@pytest.mark.parametrize('node', NODES)
def test_killing_a_node_ends_the_rest_with_a_clear_message(demo, node):
    running = demo('--duration', '5')
    pids = running.pids()
    os.kill(pids[node], signal.SIGKILL)
    require_end(running, node, pids)


def require_end(running, node, pids):
    """Require that the demonstration says which node was killed, and ends the others."""
    assert running.finish() == 1
    errors = [line for line in running.lines if line.startswith('error: ')]
    assert len(errors) == 1
    assert f"'{node}'" in errors[0]
    assert 'SIGKILL' in errors[0]
    assert 'Traceback' not in running.output
    assert not any(alive(pid) for pid in pids.values())


@pytest.mark.soak
@pytest.mark.timeout(200)
@pytest.mark.parametrize('node', ('recorder', 'simulation'))
def test_nothing_recorded_is_lost_when_a_node_is_killed_in_motion(demo, node):
    running = demo('--duration', '5', '--max-iterations', '10')
    pids = running.pids()
    running.wait_for(r'\[3/8\]', 150)
    bag = running.folder / 'recordings' / 'identification'
    while sum(file.stat().st_size for file in bag.glob('*.mcap')) < ENOUGH:
        assert all(map(alive, pids.values()))
        time.sleep(0.05)
    os.kill(pids[node], signal.SIGKILL)
    require_end(running, node, pids)
    assert 'kept: ' in running.output
    assert str(bag) in running.output
    source = open_recording(RecordingEntry(file=str(bag), format='rosbag2'), JOINTS)
    with pytest.warns(UserWarning) if node == 'recorder' else contextlib.nullcontext():
        time_stamps = np.concatenate([block.time for block in source.blocks()])
    assert len(time_stamps) > 1000
    assert np.diff(time_stamps).max() < 0.01


@pytest.mark.soak
def test_interrupting_it_ends_the_nodes(demo):
    running = demo()
    pids = running.pids()
    running.process.send_signal(signal.SIGTERM)
    assert running.finish() == 130
    # a signal may come between a step's duration and the end of its line
    assert 'error: interrupted' in running.lines[-1]
    assert not any(alive(pid) for pid in pids.values())


def test_a_folder_that_cannot_be_written_to(tmp_path, capsys):
    (tmp_path / 'demo').write_text('a file where the folder should be')
    assert run_demo(tmp_path / 'demo') == 1
    assert capsys.readouterr().err.startswith('error: cannot write to')


def test_what_stops_it_is_said_with_what_is_kept(ros_domain, tmp_path, capsys, monkeypatch):
    (tmp_path / 'recordings' / 'identification').mkdir(parents=True)

    def stopped(self):
        raise NodeStoppedError("the node 'recorder' stopped", remedy='see its log')

    said = []

    @contextlib.contextmanager
    def client_node(name):
        # the guarded one may end the process where the node leaves
        yield Mock(context=None)
        said.append(capsys.readouterr().err)

    monkeypatch.setattr(demonstration, 'client_node', client_node)
    monkeypatch.setattr(demonstration, 'ServiceCaller', Mock())

    def interrupted(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10.0)

    monkeypatch.setattr(demonstration.Demonstration, 'run', interrupted)
    handler = signal.getsignal(signal.SIGTERM)
    assert run_demo(tmp_path) == 130
    assert said.pop().startswith('error: interrupted\n')
    assert signal.getsignal(signal.SIGTERM) == handler
    monkeypatch.setattr(demonstration.Demonstration, 'run', stopped)
    assert run_demo(tmp_path) == 1
    told = said.pop()
    assert "error: the node 'recorder' stopped: see its log\n" in told
    assert f'kept: {tmp_path / "recordings" / "identification"}' in told
