# SPDX-License-Identifier: Apache-2.0
"""Some of the inputs of `make fuzz`, and that it finds what it looks for."""

from pathlib import Path
from random import Random
import subprocess
import sys
import time

import pytest
from robot_identification.errors import ModelError

from fuzz import workers
from fuzz.messages import prepare
from fuzz.mutations import mutate_bytes, mutate_text
from fuzz.targets import Target, TARGETS

ROOT = Path(__file__).resolve().parents[1]
FILES = [name for name, target in TARGETS.items() if target.prepare is not prepare]


def run_fuzz(*arguments):
    done = subprocess.run(
        [sys.executable, '-m', 'fuzz', '--jobs', '1', *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


@pytest.mark.soak
def test_mutated_files_are_used_or_refused():
    assert ' inputs in ' in run_fuzz('--inputs', 240, '--targets', *FILES)


@pytest.mark.ros
def test_mutated_requests_and_joint_states_are_answered(ros_domain):
    run_fuzz('--inputs', 20, '--targets', 'requests', 'joint_states')


@pytest.mark.parametrize('name', FILES)
def test_sound_files_are_used(name, tmp_path):
    """Mutations of what is refused anyway would find little."""
    target, random = TARGETS[name], Random(name)
    for number, case in enumerate(target.seeds()):
        folder = tmp_path / str(number)
        folder.mkdir()
        case.write(folder)
        target.run(folder, random)


def test_an_input_is_made_of_its_number_alone():
    for name in ('csv', 'mcap', 'experiment'):
        (case, *_) = TARGETS[name].seeds()
        data = case.files[case.main]
        for mutate in (mutate_bytes, mutate_text):
            made = [mutate(data, Random(f'{name}:{number}')) for number in range(20)]
            assert made == [mutate(data, Random(f'{name}:{number}')) for number in range(20)]
            assert len(set(made)) > 15


def faulty(folder, random):
    """Do what the number in the file says."""
    number = int((folder / 'number').read_text())
    if number == 1:
        raise ModelError('of the package')
    if number == 2:
        raise ValueError('of Python')
    if number == 3:
        while True:
            pass
    if number == 4:
        bytearray(3 << 30)
    if number == 5:
        import ctypes

        ctypes.string_at(0)


def test_every_kind_of_finding_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, 'CPU_LIMIT', 0.5)

    class Numbered(Target):
        def run_input(self, number, folder):
            (folder / 'number').write_text(str(number))
            try:
                self.run(folder, Random(0))
            except ModelError as error:
                return self.refused(error)
            return None

    target = Numbered('faulty', tuple, tuple, faulty, mutate_text, 1.0)
    monkeypatch.setitem(workers.TARGETS, 'faulty', target)
    log, end = tmp_path / 'log', time.monotonic() + 120.0
    outcomes = workers.run({'faulty': list(range(8))}, 1, log, end)
    assert {outcome.number: outcome.kind for outcome in outcomes} == {
        0: 'used', 1: 'refused', 2: 'traceback', 3: 'hang', 4: 'memory', 5: 'crash',
        6: 'used', 7: 'used',
    }  # fmt: skip
