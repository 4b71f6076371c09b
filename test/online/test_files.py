# SPDX-License-Identifier: Apache-2.0
"""Round trip of an online identifier's state through a file."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.errors import (
    IdentificationError,
    ModelError,
    SettingsError,
)
from robot_identification.model.robot import Robot


def test_an_identifier_goes_on_where_another_has_stopped(case, tmp_path):
    whole, first, second = case.online(), case.online(), case.online()
    case.run(first, case.recording.rows(0, 900))
    first.save(tmp_path / 'state.npz')
    second.load(tmp_path / 'state.npz')
    assert second.rows == first.rows
    rounding = 1e-12 * np.abs(first.values).max()
    np.testing.assert_allclose(second.values, first.values, rtol=0.0, atol=rounding)
    np.testing.assert_allclose(second.estimate().std, first.estimate().std, rtol=1e-12)
    case.run(whole, case.recording.rows(0, 900))
    whole.restart()
    for online in (whole, second):
        case.run(online, case.recording.rows(900, 1200))
    np.testing.assert_array_equal(second.values, whole.values)
    assert [path.name for path in tmp_path.iterdir()] == ['state.npz']


def test_a_state_of_another_problem_is_refused(case, tmp_path):
    file = tmp_path / 'state.npz'
    online = case.online()
    case.run(online, case.recording.rows(0, 300))
    online.save(file)
    other = Robot.from_urdf(case.urdf.with_name('szabo_3r.urdf'))
    with pytest.raises(ModelError, match='another model'):
        IdentificationProblem(other, signals=case.problem.signals).online(1e-3).load(file)
    with pytest.raises(SettingsError, match='weighted differently'):
        case.online(weights=np.full(6, 2.0)).load(file)
    for change in ({'rotor_inertia': not case.problem.model.rotor_inertia}, {'breakaway': 0.01}):
        model = replace(case.problem.model, **change)
        with pytest.raises(ModelError, match='another model'):
            replace(case.problem, model=model).online(1e-3).load(file)


def test_files_that_are_no_states_are_refused(case, tmp_path):
    online = case.online()
    for name, content in (('text', b'hello'), ('empty', b''), ('zip', b'PK\x03\x04 no')):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(IdentificationError, match=f"cannot read '.*{name}'"):
            online.load(file)
    np.savez(tmp_path / 'other.npz', format='other')
    for name in ('other.npz', 'missing'):
        with pytest.raises(IdentificationError, match='cannot read'):
            online.load(tmp_path / name)
    with pytest.raises(IdentificationError, match='cannot write'):
        online.save(tmp_path / 'no' / 'state.npz')
    assert online.rows == 0
