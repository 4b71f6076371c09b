# SPDX-License-Identifier: Apache-2.0
"""A load in the experiment file: into the result, its file, the report and what is printed."""

from __future__ import annotations

import json

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.errors import SettingsError
from robot_identification.exports.saving import save
from robot_identification.identification.pipeline import identify
from robot_identification.verdicts.verdict import verdict
import yaml

from .conftest import make_recording

LOAD = pin.Inertia(2.0, np.array([0.05, -0.02, 0.1]), np.diag([0.01, 0.012, 0.008]))
SECTION = """\
  payload:
    recordings:
      - {file: loaded.csv, time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]}
signals:
"""


@pytest.fixture
def loaded(workspace):
    """Give a folder in which there is a recording with two kilograms on the last link."""
    link = workspace.robot.links[-1]
    body = pin.Inertia.FromDynamicParameters(workspace.truth.inertial(link)) + LOAD
    part = workspace.truth.layout.slice_of(link)
    names = workspace.truth.layout.names[part]
    heavier = workspace.truth.updated(dict(zip(names, body.toDynamicParameters(), strict=True)))
    table = make_recording(workspace.robot, heavier, 3, 0.05)
    workspace.write(table, 'loaded.csv')
    workspace.edit('signals:\n', SECTION)
    return workspace


def test_the_load_is_in_the_result_its_file_and_the_report(loaded):
    result = identify(load_experiment(loaded.experiment))
    found = result.payload
    assert found.recordings == ('loaded.csv',)
    assert abs(found.mass - 2.0) < 3.0 * found.mass_std < 0.1
    for parameter in found:
        if parameter.expression == parameter.name and parameter.state == 'IDENTIFIED':
            place = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz').index(
                parameter.name.removeprefix('load.')
            )
            error = parameter.value - LOAD.toDynamicParameters()[place]
            assert abs(error) < 4.0 * parameter.std, parameter.name
    # and the robot's own parameters are those without it
    error = result.estimate.base.values - result.structure.project(loaded.truth).values
    assert (np.abs(error) < 5.0 * result.estimate.std).all()
    saved = save(result, loaded.folder / 'out')
    document = yaml.safe_load(saved.result.read_text())
    assert document['payload']['body']['mass'] == pytest.approx(2.0, rel=0.03)
    report = saved.report.read_text()
    assert 'id="payload"' in report and 'load.mx' in report
    judged = json.loads(saved.verdict.read_text())['payload']
    assert judged['level'] == 'good' and judged['uses'] == ['gravity_compensation', 'dynamics']
    assert judged['sentence'] == verdict(found).sentence and judged['sentence'] in report


def test_the_command_line_prints_it(loaded):
    done = loaded.run('identify', 'experiment.yaml')
    assert any(line.startswith('payload ') for line in done.stdout.splitlines())
    done = loaded.run('identify', 'experiment.yaml', '--verbose')
    assert "Payload in the frame of 'link_3'" in done.stdout
    assert 'load.m ' in done.stdout


def test_without_the_section_there_is_none(workspace):
    assert identify(load_experiment(workspace.experiment)).payload is None


@pytest.mark.parametrize(
    ('old', 'new', 'key'),
    [
        ('payload:\n', 'payload:\n    frame: hand\n', 'data.payload.frame'),
        ('loaded.csv', 'absent.csv', 'data.payload.recordings[0].file'),
        ('payload:\n', 'payload:\n    own_fricton: true\n', 'data.payload.own_fricton'),
    ],
)
def test_what_is_wrong_is_named(loaded, old, new, key):
    loaded.edit(old, new)
    with pytest.raises(SettingsError) as caught:
        load_experiment(loaded.experiment)
    assert caught.value.key == key


def test_a_section_without_recordings_is_named(loaded):
    overrides = {'data.payload.recordings': '[]'}
    with pytest.raises(SettingsError) as caught:
        load_experiment(loaded.experiment, overrides)
    assert caught.value.key == 'data.payload.recordings'
