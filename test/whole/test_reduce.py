# SPDX-License-Identifier: Apache-2.0
"""Identification from factors gives what identification from the recordings gives."""

from dataclasses import replace
import shutil

import numpy as np
import pytest
from robot_identification.errors import IdentificationError, ModelError, SettingsError
from robot_identification.estimation import EstimationSettings
from robot_identification.io.experiment import load_experiment
from robot_identification.io.factors import merge_stored, pack, read_factor, unpack, write_factor
from robot_identification.io.results import result_document
from robot_identification.pipeline import identify, identify_factors
from robot_identification.problem import Problem
from robot_identification.reduction import problem_of, Reducer

EXACT = 1e-9
"""Relative difference of what differs by rounding, after solving."""


def same(one, two, path='', rtol=EXACT):
    """Hold two result documents together; say where they differ."""
    if isinstance(one, dict):
        assert list(one) == list(two), path
        for key in one:
            if key not in ('timing', 'file'):
                same(one[key], two[key], f'{path}.{key}', rtol)
    elif isinstance(one, list):
        if one and all(isinstance(value, float) for value in one):
            assert np.allclose(one, two, rtol=rtol, atol=rtol * np.abs(one).max()), path
            return
        assert len(one) == len(two), path
        for i, pair in enumerate(zip(one, two, strict=True)):
            same(*pair, f'{path}[{i}]', rtol)
    elif isinstance(one, float):
        assert one == pytest.approx(two, rel=rtol, abs=rtol), path
    else:
        assert one == two, path


@pytest.fixture
def reduced(workspace):
    """Return the reducer of the workspace's experiment, and its first recording's factor."""
    experiment = load_experiment(workspace.experiment)
    reducer = Reducer.of(Problem.of(experiment))
    return experiment, reducer, reducer.reduce(experiment.sources()[0])


def test_factor_gives_the_recordings_result(workspace, reduced):
    experiment, _, stored = reduced
    path = workspace.folder / 'first.factor'
    write_factor(stored, path)
    workspace.edit('file: first.csv, time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]',
                   'file: first.factor')
    same(
        result_document(identify(experiment)),
        result_document(identify(load_experiment(workspace.experiment))),
    )
