# SPDX-License-Identifier: Apache-2.0
"""Drive gains by the experiment file: recordings of currents, with and without a load."""

from __future__ import annotations

import numpy as np
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.errors import SettingsError
from robot_identification.estimation.drive_gains import load_on
from robot_identification.identification.pipeline import identify
from robot_identification.model.parameters import INERTIAL_SYMBOLS
import yaml

from .conftest import make_recording, Workspace

ASSUMED = np.array([10.0, 20.0, 5.0])
TRUE = np.array([1.15, 0.9, 1.04])
"""Gains of the drives over the assumed ones."""

MASS, CENTRE = 3.0, (0.05, 0.02, 0.1)


@pytest.fixture
def currents(workspace) -> Workspace:
    """Make recordings of currents, and one with a load."""
    load = load_on(workspace.robot, MASS, CENTRE, (0.01, 0.0, 0.012, 0.001, 0.0, 0.009))
    link = workspace.robot.links[-1]
    body = dict(zip(INERTIAL_SYMBOLS, load.parameters, strict=True))
    heavy = workspace.truth.updated(
        {f'{link}.{s}': workspace.truth[f'{link}.{s}'] + value for s, value in body.items()}
    )
    for file, seed, truth in (
        ('first.csv', 1, workspace.truth),
        ('second.csv', 2, workspace.truth),
        ('loaded.csv', 3, heavy),
    ):
        table = make_recording(workspace.robot, truth, seed, 0.0)
        table[:, 4:] /= ASSUMED * TRUE
        table[:, 4:] += 0.1 / ASSUMED * np.random.default_rng(seed).normal(size=(len(table), 3))
        workspace.write(table, file)
    workspace.edit(
        'effort_kind: joint_torque',
        'effort_kind: motor_current\n'
        f'  drives: {{effort: {{matrix: {np.diag(ASSUMED).tolist()}}}}}',
    )
    workspace.edit(
        '  validation:\n',
        '  known_load:\n    recordings:\n      - {file: loaded.csv, time: t, '
        'position: [q1, q2, q3], effort: [tau1, tau2, tau3]}\n'
        f'    mass: {MASS}\n    center_of_mass: {list(CENTRE)}\n  validation:\n',
    )
    return workspace


@pytest.mark.parametrize(
    ('method', 'centre'),
    [
        ('total', True),
        ('constrained', False),
        *(
            pytest.param(method, centre, marks=pytest.mark.soak)
            for method, centre in (('constrained', True), ('total', False))
        ),
    ],
)
def test_gains_are_found_within_one_percent_and_their_uncertainty(currents, method, centre):
    overrides = {'data.known_load.method': method}
    if not centre:
        overrides['data.known_load.center_of_mass'] = None
    result = identify(load_experiment(currents.experiment, overrides))
    gains = result.drive_gains
    assert gains.drives == result.robot.joints and gains.recordings == ('loaded.csv',)
    error = gains.factors - TRUE
    assert (np.abs(error) < 0.01 * TRUE).all() and (gains.std < 0.005).all()
    if method == 'total':
        assert (np.abs(error) < 3.0 * gains.std).all()
    assert sum('differs by' in warning for warning in result.warnings) == 3


def test_with_the_identified_gains_the_parameters_are_the_true_ones(currents):
    """The matrix that the warning gives goes into the experiment file."""
    overrides = {'auto': False}
    first = identify(load_experiment(currents.experiment, overrides))
    overrides['robot.drives.effort.matrix'] = first.drive_gains.matrix.tolist()
    second = identify(load_experiment(currents.experiment, overrides))
    np.testing.assert_allclose(second.drive_gains.factors, 1.0, atol=1e-4)
    assert not any('differs by' in warning for warning in second.warnings)
    truth = second.structure.project(currents.truth).values
    misfit = [
        np.linalg.norm(result.estimate.base.values - truth) / np.linalg.norm(truth)
        for result in (first, second)
    ]
    assert misfit[1] < 0.02 < 0.05 < misfit[0]


def test_they_are_printed_and_in_the_files(currents):
    done = currents.run('identify', 'experiment.yaml', '--verbose')
    assert 'Drive gains' in done.stdout and '+15.' in done.stdout
    document = yaml.safe_load((currents.folder / 'results' / 'result.yaml').read_text())
    stored = document['drive_gains']
    assert [gain['drive'] for gain in stored['gains']] == ['joint_1', 'joint_2', 'joint_3']
    np.testing.assert_allclose(np.diag(stored['matrix']), ASSUMED * TRUE, rtol=0.01)
    assert 'id="gains"' in (currents.folder / 'results' / 'report.html').read_text()


@pytest.mark.parametrize(
    ('key', 'value', 'about'),
    [
        ('data.known_load.mass', 0.0, r"known_load\.mass' is 0\.0"),
        ('data.known_load.recordings', [], r"known_load\.recordings' lists no recording"),
        ('data.known_load.frame', 'gripper', r"known_load\.frame': the URDF has no link"),
        ('data.known_load.method', 'best', r"known_load\.method' is 'best'"),
        ('data.known_load.recordings[0].file', 'no.csv', r'known_load\.recordings\[0\]\.file'),
        (
            'robot.drives.effort.matrix',
            [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]],
            'one recorded effort for each joint|has 3 columns, expected 4',
        ),
    ],
)
def test_wrong_settings_are_named(currents, key, value, about):
    with pytest.raises(SettingsError, match=about):
        load_experiment(currents.experiment, {key: value})


def test_inertia_without_its_centre_is_refused(currents):
    keys = {
        'data.known_load.center_of_mass': None,
        'data.known_load.inertia': [0.01, 0, 0.01, 0, 0, 0.01],
    }
    with pytest.raises(SettingsError, match='without'):
        load_experiment(currents.experiment, keys)
