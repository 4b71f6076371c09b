# SPDX-License-Identifier: Apache-2.0
"""The experiment file: what is read, and each way in which it can be wrong."""

from dataclasses import replace
from pathlib import Path
import warnings

import numpy as np
import pytest
from robot_identification.config.experiment import Experiment, RobotSettings
from robot_identification.config.experiment_file import experiment_from, load_experiment
from robot_identification.errors import IdentificationWarning, SettingsError
from robot_identification.regressor import ModelSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'

TEXT = """\
robot:
  urdf: robots/arm.urdf
  joints: [joint_2, joint_1]
  locked: {joint_3: 0.5}
  gravity: [0.0, -9.81, 0.0]
  friction: [viscous]
  coupled_drives:
    - {motor: joint_2, joints: [joint_1, joint_2], inertia: tied}
  effort_kind: motor_torque
  drives:
    position: {matrix: [[0.1, 0.0], [0.0, 0.2]], offset: [0.0, 1.0]}
    effort:
      matrix:
        - [10.0, 0.0]
        - [0.0, 5.0]
data:
  identification:
    - file: run.csv
      time: t
      position: [p1, p2]
      effort: [c1, c2]
  validation:
    - {file: other.csv, time: t, position: [p1, p2], effort: [c1, c2], rows: [0, 4]}
signals:
  cutoff: 12.5
  dead_zone: [0.1, 0.2]
estimation:
  method: ols
  essential: null
  prior: prior.yaml
output: results/arm
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'robots').mkdir()
    (tmp_path / 'robots' / 'arm.urdf').write_text(URDF.read_text())
    table = 't,p1,p2,c1,c2\n' + ''.join(f'{i / 10},{i},2,3,{i}\n' for i in range(8))
    (tmp_path / 'run.csv').write_text(table)
    (tmp_path / 'other.csv').write_text(table)
    (tmp_path / 'prior.yaml').write_text('{}\n')
    return tmp_path


def load(folder, *changes, overrides=None):
    """Write the file with some text replaced, and load it."""
    text = TEXT
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    path = folder / 'experiment.yaml'
    path.write_text(text)
    return load_experiment(path, overrides)


def test_everything_is_read(folder):
    experiment = load(folder)
    robot = experiment.robot
    assert robot.model == ModelSettings(('viscous',), True, robot.coupled_drives)
    assert robot.coupled_drives[0].joints == ('joint_1', 'joint_2')
    assert robot.drives.position.offset == (0.0, 1.0)
    assert experiment.signals.cutoff == 12.5
    assert experiment.signals.dead_zone == (0.1, 0.2)
    assert experiment.estimation.essential is None
    assert experiment.data.validation[0].rows == (0, 4)
    assert experiment.name == 'experiment'
    built = experiment.build_robot()
    assert built.joints == ('joint_2', 'joint_1')
    assert built.locked == {'joint_3': 0.5}
    np.testing.assert_array_equal(built.gravity, [0.0, -9.81, 0.0])


def test_relative_paths_start_at_the_file(folder, monkeypatch):
    monkeypatch.chdir('/')
    experiment = load(folder)
    assert experiment.output_folder == folder / 'results' / 'arm'
    assert experiment.estimation.prior == str(folder / 'prior.yaml')
    assert experiment.build_robot().path == folder / 'robots' / 'arm.urdf'
    (source,) = experiment.sources()
    (block,) = source.blocks()
    # motor-side columns, turned to the joints
    assert block.joints == ('joint_2', 'joint_1')
    np.testing.assert_allclose(block.position[:, 0], 0.1 * np.arange(8))
    np.testing.assert_allclose(block.position[:, 1], 0.2 * 2.0 + 1.0)
    np.testing.assert_allclose(block.effort[:, 0], 30.0)
    (source,) = experiment.sources('validation')
    assert sum(len(b) for b in source.blocks()) == 4


def test_reading_a_file_to_its_end_finds_its_clock(folder, monkeypatch):
    (source,), (unread,) = (load(folder).sources() for _ in range(2))
    next(source.blocks(2))
    assert 'clock' not in vars(source)
    list(source.blocks(3))
    assert unread.clock == source.clock
    monkeypatch.setattr(type(source), 'blocks', None)
    assert (source.clock.samples, source.clock.source) == (8, source.source)


def test_defaults_and_the_robot_alone(folder):
    content = {'robot': {'urdf': 'robots/arm.urdf', 'effort_kind': 'joint_torque'}}
    experiment = experiment_from(content, folder, check_data=False)
    assert experiment.build_robot().joints == ('joint_1', 'joint_2', 'joint_3')
    assert experiment.output_folder is None
    assert experiment.sources() == ()
    assert 'data' not in content  # what was given is not changed
    with pytest.raises(SettingsError, match='data.identification'):
        experiment_from(content, folder)


def test_overrides(folder):
    experiment = load(
        folder,
        overrides={
            'signals.cutoff': '30',
            'signals.dead_zone': '0.01',
            'estimation.essential.max_relative_std': '10',
            'data.identification[0].rows': '[2, null]',
            'robot.rotor_inertia': 'false',
            'output': 'elsewhere',
        },
    )
    assert experiment.signals.cutoff == 30.0
    assert experiment.signals.dead_zone == 0.01
    assert experiment.estimation.essential.max_relative_std == 10.0
    assert experiment.data.identification[0].rows == (2, None)
    assert experiment.robot.rotor_inertia is False
    assert experiment.output == 'elsewhere'


EFFORT = '    effort:\n      matrix:\n        - [10.0, 0.0]\n        - [0.0, 5.0]\n'
WRONG = [
    # what is changed, the key at fault, its line, words of the message
    (('cutoff', 'cutof'), 'signals.cutof', 25, ["did you mean 'signals.cutoff'"]),
    (('signals:', 'signal:'), 'signal', 24, ["did you mean 'signals'"]),
    (('    - file', '    - fiel'), 'data.identification[0].fiel', 18, ['identification[0].file']),
    (('  urdf: robots/arm.urdf\n', ''), 'robot.urdf', 1, ['missing']),
    (('  effort_kind: motor_torque\n', ''), 'robot.effort_kind', 1, ['missing', 'motor_current']),
    (('12.5', 'fast'), 'signals.cutoff', 25, ['expected a number']),
    (('12.5', '-1'), 'signals.cutoff', 25, ['Hz']),
    (('12.5', '.inf'), 'signals.cutoff', 25, ['finite']),
    (('cutoff: 12.5', 'order: 2.5'), 'signals.order', 25, ['whole number']),
    (('method: ols', 'method: best'), 'estimation.method', 28, ['ols', 'wls']),
    (('[viscous]', '[viscous, colomb]'), 'robot.friction', 6, ['colomb', 'coulomb']),
    (('[viscous]', '[viscous, viscous]'), 'robot.friction', 6, ['twice']),
    (('[viscous]', 'viscous'), 'robot.friction', 6, ['a list']),
    (('[0.0, -9.81, 0.0]', '[0.0, -9.81]'), 'robot.gravity', 5, ['list of 3']),
    (('robots/arm', 'robots/leg'), 'robot.urdf', 2, ['leg.urdf', 'does not exist']),
    (('[joint_2, joint_1]', '[joint_2, joint_7]'), 'robot.joints[1]', 3, ['joint_7', 'joint_3']),
    (('[joint_2, joint_1]', '[joint_2, joint_2]'), 'robot.joints[0]', 3, ['twice']),
    (('{joint_3: 0.5}', '{joint_9: 0.5}'), 'robot.locked.joint_9', 4, ['joint_9']),
    (('{joint_3: 0.5}', '{joint_1: 0.5}'), 'robot.joints[1]', 3, ['identified and locked']),
    (
        ('joints: [joint_1, joint_2], inertia', 'joints: [joint_3, joint_2], inertia'),
        'robot.coupled_drives[0].joints[0]',
        8,
        ['joint_3', 'not among the identified'],
    ),
    (
        ('joints: [joint_1, joint_2], inertia', 'joints: [joint_2], inertia'),
        'robot.coupled_drives',
        7,
        ['two or more'],
    ),
    (('        - [0.0, 5.0]\n', ''), 'robot.drives.effort.matrix', 13, ['1 rows', '2 rows']),
    (('[0.0, 5.0]', '[5.0]'), 'robot.drives.effort.matrix', 13, ['equal length']),
    (('[0.0, 1.0]}', '[0.0]}'), 'robot.drives.position.offset', 11, ['1 entries', '2 joints']),
    ((EFFORT, ''), 'robot.effort_kind', 9, ['motor_torque', 'robot.drives.effort']),
    (('motor_torque', 'joint_torque'), 'robot.drives.effort.matrix', 13, ['joint_torque', '-1']),
    (('motor_torque', 'amperes'), 'robot.effort_kind', 9, ['motor_current']),
    (('[0.1, 0.2]', '[0.1]'), 'signals.dead_zone', 26, ['1 entries', '2 joints']),
    (('prior.yaml', 'cad.yaml'), 'estimation.prior', 30, ['cad.yaml', 'does not exist']),
    (('run.csv', 'walk.csv'), 'data.identification[0].file', 18, ['walk.csv', 'not exist']),
    (('other.csv', 'none.csv'), 'data.validation[0].file', 23, ['none.csv', 'not exist']),
    (
        ('position: [p1, p2]', 'position: [p1]'),
        'data.identification[0].position',
        20,
        ['1 columns', 'expected 2'],
    ),
    (('      effort: [c1, c2]\n', ''), 'data.identification[0].effort', 18, ['missing']),
    (('      time: t\n', ''), 'data.identification[0].time', 18, ['rate']),
    (('rows: [0, 4]', 'rows: [4, 0]'), 'data.validation[0].rows', 23, ['below']),
    (('robot:\n', 'robot: 3\nrobot_:\n'), 'robot_', 2, ["did you mean 'robot'"]),
    (('signals:\n', 'signals: 5\nx:\n'), 'x', 25, ['unknown key']),
]


@pytest.mark.parametrize(('change', 'key', 'line', 'words'), WRONG, ids=lambda v: str(v)[:30])
def test_one_line_with_place_key_and_remedy(folder, change, key, line, words):
    with pytest.raises(SettingsError) as caught:
        load(folder, change)
    error, message = caught.value, str(caught.value)
    assert error.key == key
    assert message.startswith(f'{folder / "experiment.yaml"}:{line}: ')
    assert f"'{key}'" in message
    assert '\n' not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ('overrides', 'words'),
    [
        ({'signals.cutof': '1'}, ["did you mean 'signals.cutoff'"]),
        ({'signals.cutoff': 'x'}, ["'signals.cutoff' is 'x'"]),
        ({'signals.cutoff': '[1'}, ["'signals.cutoff'", 'YAML']),
        ({'data.identification[7].rows': '[0, 1]'}, ['data.identification[7].rows']),
        ({'signals.cutoff.x': '1'}, ['signals.cutoff']),
        ({'signals..cutoff': '1'}, ['not a key path']),
    ],
)
def test_wrong_overrides_name_no_line(folder, overrides, words):
    with pytest.raises(SettingsError) as caught:
        load(folder, overrides=overrides)
    assert str(caught.value).startswith(f'{folder / "experiment.yaml"}: ')
    for word in words:
        assert word in str(caught.value)


def test_settings_from_memory_name_no_file(folder):
    content = {'robot': {'urdf': 'robots/arm.urdf', 'effort_kind': 'volts'}}
    with pytest.raises(SettingsError) as caught:
        experiment_from(content, folder, check_data=False)
    assert str(caught.value).startswith("'robot.effort_kind' is 'volts'")
    for content in ([], 'text', 5):
        with pytest.raises(SettingsError, match='expected a mapping'):
            experiment_from(content, folder)


def test_robot_warnings_come_when_it_is_used(folder):
    change = ('  locked: {joint_3: 0.5}\n', '')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        experiment = load(folder, change)
    with pytest.warns(IdentificationWarning, match='joint_3'):
        experiment.build_robot()


def test_urdf_as_text_and_package(folder):
    text = RobotSettings(urdf=URDF.read_text(), effort_kind='joint_torque')
    assert text.build('/nowhere').name == 'szabo_3r'
    package = replace(text, urdf='package://robot_identification/urdf/szabo_3r.urdf')
    assert package.build('/nowhere').name == 'szabo_3r'
    absolute = replace(text, urdf=str(URDF))
    assert absolute.build('/nowhere').path == URDF


def test_xacro_arguments(tmp_path):
    pytest.importorskip('xacro')
    document = URDF.read_text().replace(
        '<robot name="szabo_3r"',
        '<robot name="szabo_3r" xmlns:xacro="http://www.ros.org/wiki/xacro"',
    )
    assert 'xmlns:xacro' in document
    document = document.replace('name="joint_1"', 'name="$(arg prefix)joint_1"')
    (tmp_path / 'arm.xacro').write_text(document)
    settings = RobotSettings(
        urdf='arm.xacro', effort_kind='joint_torque', xacro_arguments={'prefix': 'left_'}
    )
    assert settings.build(tmp_path).joints[0] == 'left_joint_1'


def test_sections_are_declared_with_units_and_documents():
    from robot_identification.options.fields import walk

    for key, info in walk(Experiment):
        assert info.doc, key


@pytest.mark.parametrize(
    ('key', 'value'),
    [
        ('signals.trim', 1e308),
        ('signals.trim', 1e15),
        ('signals.cutoff', 1e308),
        ('signals.sample_rate', 1e300),
        ('signals.decimate_to', 10**400),
        ('signals.order', 2**70),
        ('robot.gravity', [0.0, 0.0, 1e308]),
    ],
)
def test_numbers_beyond_all_use_are_refused(key, value):
    section, name = key.split('.')
    content = {'robot': {'urdf': 'x', 'effort_kind': 'joint_torque'}}
    content.setdefault(section, {})[name] = value
    with pytest.raises(SettingsError, match=f"'{key}") as caught:
        experiment_from(content)
    assert len(str(caught.value)) < 500
