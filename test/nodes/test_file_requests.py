# SPDX-License-Identifier: Apache-2.0
"""Files that requests name: where they may be, and that nothing of a foreign file is repeated."""

from pathlib import Path
import shutil

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')

SECRET = 'hunter2'
PASSWD = Path('/etc/passwd')
FOREIGN = {
    'note.txt': f'{SECRET}:x:0\n',
    'table.csv': f'{SECRET},x\n{SECRET},y\n',
    'keys.yaml': f'{SECRET}: {SECRET}\nlist: [{SECRET}]\n',
    'broken.yaml': f'*{SECRET}: [\n',
    'page.urdf': f'<{SECRET}><{SECRET}/></wrong>',
    'macro.xacro': f'<{SECRET}>${{{SECRET}}}</{SECRET}>',
    'entity.urdf': f'<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><{SECRET}>&e;</{SECRET}>',
    'array.npz': f'PK{SECRET}',
    'rows.factor': f'PK{SECRET}',
    'bag.mcap': SECRET,
    'bag.db3': SECRET,
}
"""Files of other kinds, and their content."""


@pytest.fixture(scope='module')
def data(tmp_path_factory, arm):
    """Make a folder that requests may name, with a bag, foreign files and links out of it."""
    folder = tmp_path_factory.mktemp('data')
    shutil.copytree(arm.bags['short'], folder / 'bag')
    for name, content in FOREIGN.items():
        (folder / name).write_text(content)
    (folder / 'metadata').mkdir()
    (folder / 'metadata' / 'metadata.yaml').write_text(f'{SECRET}: [\n')
    (folder / 'prior.yaml').write_text('link_1.m: 3.0\n')
    (folder / 'link').symlink_to(PASSWD)
    (folder / 'linked.yaml').symlink_to(PASSWD)
    (folder / 'etc').symlink_to('/etc')
    shutil.copytree(arm.bags['short'], folder / 'linking')
    (folder / 'linking' / 'more.mcap').symlink_to(PASSWD)
    return folder


@pytest.fixture(scope='module')
def started(module_ros, arm, data):
    """Start a node that may use the folder alone; it has an estimate."""
    parameters = {
        **arm.parameters,
        'data_directories': [str(data)],
        'output': str(data / 'results'),
    }
    return module_ros, module_ros.start('identification', parameters=parameters)


def outside(data):
    """Return names of /etc/passwd."""
    return [
        str(PASSWD),
        f'{data}/../../../../../../../etc/passwd',
        str(data / 'link'),
        str(data / 'linked.yaml'),
        str(data / 'etc' / 'passwd'),
        'package://robot_identification/../../../../../../etc/passwd',
        'package://../../../../../../etc/passwd',
        '/proc/self/../../etc/passwd',
    ]


def require_refused(answer, process, words='not below'):
    """Require a refusal in one line, with nothing of a file in it or in the log."""
    assert not answer.success
    assert words in answer.message, answer.message
    assert '\n' not in answer.message
    assert 'internal error' not in answer.message, answer.message
    for line in PASSWD.read_text().splitlines():
        assert line not in answer.message
        assert not any(line in each for each in process.lines)
    assert SECRET not in answer.message
    assert not any(SECRET in each for each in process.lines)


KEYS = ('estimation.prior', 'estimation.mrls.bounds_file', 'robot.urdf')


@pytest.mark.parametrize('key', KEYS)
def test_files_of_options_outside_are_refused(started, identify, data, key):
    ros, process = started
    section, _, name = key.rpartition('.')
    for path in outside(data):
        answer = identify(ros, data / 'bag', options=[(key, path)])
        require_refused(answer, process)
        # the same as part of its section
        answer = identify(ros, data / 'bag', options=[(section, f'{{{name}: "{path}"}}')])
        require_refused(answer, process)


def test_parameters_that_are_changed_name_no_files_outside(started, identify, data):
    ros, process = started
    try:
        for key in ('estimation.prior', 'output'):
            before = ros.get_parameters('identification', key)[key]
            for path in outside(data):
                if ros.set_parameter('identification', key, path)[0]:
                    require_refused(identify(ros, data / 'bag'), process)
            ros.set_parameter('identification', key, before)
        for key in ('experiment', 'data_directories', 'recordings', 'robot_description'):
            value = [str(PASSWD)] if key == 'data_directories' else str(PASSWD)
            assert not ros.set_parameter('identification', key, value)[0]
    finally:
        ros.set_parameter('identification', 'output', str(data / 'results'))


def test_recordings_outside_are_refused(started, identify, arm, data):
    from robot_identification_msgs.srv import Validate

    ros, process = started
    assert identify(ros, data / 'bag').success
    sources = [*outside(data), str(arm.bags['first']), str(data / 'linking')]
    for source in sources[5:]:
        require_refused(identify(ros, source), process)
    for source in sources:
        answer = ros.call(Validate, 'identification/validate', source=source)
        require_refused(answer, process)


def test_urdfs_are_written_below_the_folders_alone(started, identify, data, tmp_path):
    from robot_identification_msgs.srv import ExportUrdf

    ros, process = started
    assert identify(ros, data / 'bag').success
    (data / 'away').symlink_to(tmp_path)
    (data / 'away.urdf').symlink_to(tmp_path / 'arm.urdf')
    for path in (
        tmp_path / 'arm.urdf',
        data / 'away' / 'arm.urdf',
        data / 'away.urdf',
        f'{data}/../arm.urdf',
    ):
        answer = ros.call(ExportUrdf, 'identification/export_urdf', path=str(path))
        require_refused(answer, process)
        assert not (tmp_path / 'arm.urdf').exists()
    answer = ros.call(ExportUrdf, 'identification/export_urdf', path=str(data / 'keys.yaml'))
    require_refused(answer, process, 'does not end in .urdf')
    assert (data / 'keys.yaml').read_text() == FOREIGN['keys.yaml']
    answer = ros.call(ExportUrdf, 'identification/export_urdf', path=str(data / 'new.urdf'))
    assert answer.success and (data / 'new.urdf').read_text() == answer.urdf


def test_nothing_of_a_file_of_another_kind_is_repeated(started, identify, data):
    ros, process = started
    for name in (*FOREIGN, 'metadata'):
        for key in KEYS:
            answer = identify(ros, data / 'bag', options=[(key, str(data / name))])
            require_refused(answer, process, 'is not a' if name != 'metadata' else 'is a folder')
        answer = identify(ros, data / name)
        require_refused(answer, process, str(data / name))


def test_files_below_the_folders_are_read(started, identify, arm, data):
    ros, _ = started
    shutil.copy(arm.urdf, data / 'arm.urdf')
    given = identify(
        ros,
        data / 'bag',
        options=[('estimation.prior', f'{data}/prior.yaml'), ('robot.urdf', f'{data}/arm.urdf')],
    )
    assert given.success, given.message
    result = identify(
        ros, data / 'bag', options=[('estimation.prior', f'{given.result_path}/result.yaml')]
    )
    assert result.success, result.message


def test_the_recorder_writes_below_its_folders_alone(ros, tmp_path):
    from robot_identification_msgs.srv import StartRecording

    inside, outside = tmp_path / 'in', tmp_path / 'out'
    for folder in (inside, outside):
        folder.mkdir()
    (inside / 'link').symlink_to(outside)
    ros.start(
        'recorder', parameters={'data_directories': [str(inside)], 'output': str(inside / 'own')}
    )
    for output in (outside, inside / 'link', f'{inside}/../out', '/'):
        assert ros.set_parameter('recorder', 'output', str(output))[0]
        answer = ros.call(StartRecording, 'recorder/start', name='one')
        assert not answer.success
        assert "'output'" in answer.message and 'not below' in answer.message
    assert not list(outside.iterdir())
    assert ros.set_parameter('recorder', 'output', str(inside / 'other'))[0]
    answer = ros.call(StartRecording, 'recorder/start', name='one')
    assert answer.success, answer.message
    assert answer.path == str(inside / 'other' / 'one')
