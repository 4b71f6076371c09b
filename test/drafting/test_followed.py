# SPDX-License-Identifier: Apache-2.0
"""Files that `init` writes are taken by the commands that follow, whatever the recording."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from robot_identification.cli.main import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.errors import IdentifiabilityError, IdentificationError
from robot_identification.identification.pipeline import identify

from fuzz.mutations import mutate_text
from fuzz.seeds import csv_file, npz_file, urdf

TABLE = csv_file(rows=300).replace(b'e1,e2', b'tau1,tau2')
GIVEN = ('--effort-kind', 'joint_torque', '--gains', '1', '1')


def followed(folder: Path, recording: str, **settings: object) -> bool:
    """Draft from a recording and identify; false where the draft is refused."""
    file = folder / 'experiment.yaml'
    words = ['init', folder / 'arm.urdf', folder / recording, '-o', file, '--force', *GIVEN]
    if main(list(map(str, words))) != 0:
        return False
    identify(load_experiment(file, {'estimation.method': 'ols', **settings}))
    return True


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'arm.urdf').write_bytes(urdf())
    return tmp_path


@pytest.mark.parametrize(
    'numbers', [range(5), pytest.param(range(5, 60), marks=pytest.mark.soak)], ids=['few', 'many']
)
def test_mutated_tables_are_refused_by_init_or_by_nothing(folder, capsys, numbers):
    """But for what efforts show in an identification alone."""
    used = 0
    for number in numbers:
        data = mutate_text(TABLE, Random(f'followed:{number}'))
        (folder / 'run.csv').write_bytes(data)
        try:
            used += followed(folder, 'run.csv', auto=False)
        except IdentifiabilityError:
            continue
        except IdentificationError as error:
            raise AssertionError(f'input {number}: {error}') from error
    assert used


def motion(rows: int, rate: float) -> np.ndarray:
    time = np.arange(rows) / rate
    angle = min(0.2 * rate, 6.0) * np.column_stack([time, 0.65 * time])
    return np.column_stack([time, np.sin(angle), np.cos(angle)])


@pytest.mark.parametrize('rate', [8.0, 33.0, 60.0, 2000.0])
def test_recordings_of_any_rate_are_followed(folder, rate):
    names = 't,q1,q2,tau1,tau2'
    table = motion(max(600, round(4.0 * rate)), rate)
    np.savetxt(folder / 'run.csv', table, delimiter=',', comments='', header=names)
    assert followed(folder, 'run.csv')


def test_arrays_with_a_joint_that_stands_still_are_followed(folder):
    table = motion(600, 100.0)
    table[:, 2] = 0.4
    np.savez(folder / 'run.npz', t=table[:, 0], q=table[:, 1:3], tau=table[:, 3:])
    assert followed(folder, 'run.npz')
    (folder / 'run.npz').write_bytes(npz_file())
    assert followed(folder, 'run.npz')
