# SPDX-License-Identifier: Apache-2.0
"""The example experiments: they are valid, and the TX-40's give the known figures."""

from pathlib import Path
import shutil

import numpy as np
import pytest
from robot_identification.config.experiment_file import experiment_from, load_experiment
from robot_identification.errors import IdentificationError
from robot_identification.options.document import read_document

EXAMPLES = Path(__file__).resolve().parents[2] / 'examples'
TX40 = EXAMPLES / 'tx40'


@pytest.mark.parametrize(
    'path', sorted(EXAMPLES.rglob('experiment*.yaml')), ids=lambda p: f'{p.parent.name}-{p.stem}'
)
def test_settings_are_valid(path, stand_in, tmp_path):
    document = read_document(path)
    urdf = stand_in(path.parent.name)
    if urdf is not None:
        assert document.content['robot']['urdf'] == 'robot.urdf'  # as saved from the driver
        document.content['robot']['urdf'] = str(tmp_path / 'robot.urdf')
        (tmp_path / 'robot.urdf').write_text(urdf, encoding='utf-8')
    experiment = experiment_from(document, path.parent, check_data=False)
    assert experiment.data.identification
    robot = experiment.build_robot()
    assert robot.joints == experiment.robot.joints or robot.floating


def test_tx40_drives_are_the_gears():
    """Matrices of the file against the gear ratios, with motor 6 turned by joint 5, too."""
    experiment = experiment_from(read_document(TX40 / 'experiment.yaml'), TX40, check_data=False)
    drives = experiment.robot.drives
    gears = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
    positions, efforts = gears.copy(), gears.copy()
    positions[5, 4] = efforts[4, 5] = 32.0
    np.testing.assert_allclose(drives.position.matrix, np.linalg.inv(positions), atol=1e-15)
    np.testing.assert_array_equal(drives.effort.matrix, efforts)
    # power at the joints is power at the motors: T^T A = 1
    np.testing.assert_allclose(
        np.array(drives.effort.matrix).T @ drives.position.matrix, np.eye(6), atol=1e-14
    )
    quarter = np.pi / 2
    np.testing.assert_allclose(drives.position.offset, [0.0, -quarter, quarter, 0.0, 0.0, 0.0])


def test_tx40_files_differ_in_the_dead_zone_alone():
    plain, zone = (
        read_document(TX40 / name).content
        for name in ('experiment.yaml', 'experiment_dead_zone.yaml')
    )
    plain['signals'].pop('dead_zone')
    assert len(zone['signals'].pop('dead_zone')) == 6
    assert plain.pop('output') != zone.pop('output')
    assert plain == zone


@pytest.mark.parametrize(
    ('name', 'overrides', 'base', 'largest_error'),
    [
        ('experiment.yaml', {}, 61, 7.4),
        ('experiment_dead_zone.yaml', {}, 61, 5.1),
        ('experiment.yaml', {'robot.coupled_drives[0].inertia': 'tied'}, 60, 7.4),
    ],
)
def test_tx40_figures(name, overrides, base, largest_error):
    from robot_identification.identification import pipeline

    result = pipeline.identify(load_experiment(TX40 / name, overrides))
    assert result.structure.n_base == base
    assert 4.0 < result.estimate.fit.relative_error <= largest_error
    certain = np.count_nonzero(result.estimate.relative_std < 30.0)
    assert 28 <= certain <= 40
    assert result.estimate.identifiability.excited.all()


def test_missing_recordings_are_named(tmp_path):
    """The experiment file alone, beside its robot."""
    path = tmp_path / 'examples' / 'demo_arm' / 'experiment.yaml'
    path.parent.mkdir(parents=True)
    shutil.copy(EXAMPLES / 'demo_arm' / path.name, path)
    shutil.copytree(EXAMPLES.parent / 'urdf', tmp_path / 'urdf')
    with pytest.raises(IdentificationError, match='recordings/identification'):
        load_experiment(path)
