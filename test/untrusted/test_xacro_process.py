# SPDX-License-Identifier: Apache-2.0
"""Xacro files are expanded within limits of time and memory, or refused in one line."""

import contextlib
import os
from pathlib import Path
import re
import sys
import time

import numpy as np
import pytest
from robot_identification.cli.main import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.errors import ModelError
from robot_identification.model.urdf_files import read_urdf
from robot_identification.untrusted import xacro_process

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf'
xacro = pytest.importorskip('xacro', reason='needs xacro, which pip and ROS have')

TEXT = """\
<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="side" default="left"/>
  <link name="$(arg side)_${VALUE}"/>
</robot>
"""


def write(folder, value):
    path = folder / 'arm.urdf.xacro'
    path.write_text(TEXT.replace('VALUE', value))
    return path


def test_a_file_expands_as_by_the_library(tmp_path):
    path = write(tmp_path, '2 ** 3')
    text, where = read_urdf(path, {'side': 'right'})
    document = xacro.process_file(str(path), mappings={'side': 'right'})
    assert (text, where) == (document.toprettyxml(indent='  '), path)
    assert 'right_8' in text


def test_a_file_expands_where_the_package_is_not_on_the_path(tmp_path, monkeypatch):
    """An editable installation is found by an import hook, which the child does not have."""
    root = Path(xacro_process.__file__).resolve().parents[2]
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != root]
    monkeypatch.setattr(sys, 'path', elsewhere)
    monkeypatch.chdir(tmp_path)
    assert 'left_8' in read_urdf(write(tmp_path, '2 ** 3'))[0]


def refusal(path):
    with pytest.raises(ModelError, match='xacro cannot expand') as caught:
        read_urdf(path)
    assert '\n' not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_program_that_does_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(xacro_process, 'TIME_LIMIT', 1.5)
    begin = time.monotonic()
    # processor time; wall time on a busy machine
    assert re.search('longer than (2|12) s', refusal(write(tmp_path, '9**9**9')))
    assert time.monotonic() - begin < 60.0


@pytest.mark.parametrize('value', ["'x' * 10**10", '[0] * 10**9', '(lambda: [1] * 2**40)()'])
def test_a_program_does_not_take_all_memory(tmp_path, value):
    assert 'memory' in refusal(write(tmp_path, value)).lower()


@pytest.mark.parametrize('value', ['1/0', 'unknown', '().__class__', '1 +'])
def test_what_is_wrong_is_told(tmp_path, value):
    assert 'correct the file' in refusal(write(tmp_path, value))


def test_an_included_pipe_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(xacro_process, 'TIME_LIMIT', 1.5)
    monkeypatch.setattr(xacro_process, 'PATIENCE', 1.0)
    os.mkfifo(tmp_path / 'pipe')
    path = write(tmp_path, '1')
    path.write_text(path.read_text().replace('<link', '<xacro:include filename="pipe"/><link'))
    assert 'longer than' in refusal(path)


SECRET = 'name: nobody_may_read_this\n'
INCLUDED = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="included"/></robot>'


def expanded(folder, line, name='arm.urdf.xacro'):
    """Return what a file with one line expands to."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f'<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">{line}</robot>'
    path.write_text(text)
    return read_urdf(path)[0]


@pytest.fixture
def outside(tmp_path):
    """Make a folder with a secret, beside that of the robot."""
    folder = tmp_path / 'outside'
    folder.mkdir()
    (folder / 'secret.yaml').write_text(SECRET)
    (folder / 'part.xacro').write_text(INCLUDED)
    return folder


LOADS = '<link name="${xacro.load_yaml(\'%s\').name}"/>'
INCLUDES = '<xacro:include filename="%s"/>'


@pytest.mark.parametrize('way', ['absolute', 'dots', 'link', 'folder link', 'pattern'])
@pytest.mark.parametrize('line', [LOADS, INCLUDES])
def test_files_outside_its_folder_are_not_read(tmp_path, outside, way, line):
    robot = tmp_path / 'robot'
    robot.mkdir()
    target = outside / ('part.xacro' if line == INCLUDES else 'secret.yaml')
    (robot / 'link').symlink_to(target)
    (robot / 'folder').symlink_to(outside)
    path = {
        'absolute': str(target),
        'dots': f'../outside/{target.name}',
        'link': 'link',
        'folder link': f'folder/{target.name}',
        'pattern': f'{outside}/{target.name[:4]}*',
    }[way]
    with pytest.raises(ModelError, match='may not read.*ROS_PACKAGE_PATH') as caught:
        expanded(robot, line % path)
    assert 'nobody_may' not in str(caught.value)
    # a file that is not there gives the same answer
    gone = str(caught.value)
    target.unlink()
    with pytest.raises(ModelError, match='may not read') as caught:
        expanded(robot, line % path)
    assert str(caught.value) == gone


@pytest.mark.parametrize(
    'code',
    [
        "(lambda: [c for c in ().__class__.__base__.__subclasses__() if c.__name__ == 'Popen'])()",
        "(lambda: xacro.load_yaml.__globals__['os'].system('touch MARK'))()",
        "(lambda: xacro.load_yaml.__globals__['os'].remove('MARK'))()",
        "(lambda: xacro.load_yaml.__globals__['__builtins__']['open']('MARK', 'w'))()",
    ],
)
def test_code_that_breaks_out_of_expressions_does_nothing(tmp_path, code):
    mark = tmp_path / 'mark'
    mark.write_text('here')
    (tmp_path / 'arm.urdf.xacro').touch()
    with contextlib.suppress(ModelError):
        expanded(tmp_path, f'<link name="${{{code.replace("MARK", str(mark))}}}"/>')
    assert mark.read_text() == 'here'


def test_files_of_its_folder_and_package_are_read(tmp_path):
    package = tmp_path / 'arm_description'
    (package / 'config').mkdir(parents=True)
    (package / 'package.xml').write_text('<package/>')
    (package / 'config' / 'names.yaml').write_text('name: tool\n')
    (package / 'part.xacro').write_text(INCLUDED)
    line = LOADS % '../config/names.yaml' + INCLUDES % '../part.xacro'
    text = expanded(package, line, 'urdf/arm.urdf.xacro')
    assert 'tool' in text
    assert 'included' in text


def test_packages_of_the_environment_are_read_through_their_links(tmp_path, outside, monkeypatch):
    """Packages that are installed by links (colcon's --symlink-install) consist of them."""
    installed = tmp_path / 'install' / 'parts'
    installed.mkdir(parents=True)
    (installed / 'part.xacro').symlink_to(outside / 'part.xacro')
    line = INCLUDES % (installed / 'part.xacro')
    with pytest.raises(ModelError, match='may not read'):
        expanded(tmp_path / 'robot', line)
    monkeypatch.setenv('ROS_PACKAGE_PATH', str(installed.parent))
    assert 'included' in expanded(tmp_path / 'robot', line)


def test_packages_of_a_clone_are_found_without_a_workspace(tmp_path):
    """The package that the file is in, and one beside it, whose folder has another name."""
    for folder, name in (('arm_description', 'arm'), ('tools', 'tool_description')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'package.xml').write_text(f'<package><name> {name} </name></package>')
        (tmp_path / folder / 'part.xacro').write_text(INCLUDED.replace('included', folder))
    lines = [INCLUDES % f'$(find {name})/part.xacro' for name in ('arm', 'tool_description')]
    text = expanded(tmp_path / 'arm_description', ''.join(lines), 'urdf/arm.urdf.xacro')
    assert 'name="arm_description"' in text and 'name="tools"' in text
    with pytest.raises(ModelError, match="'other' is in no folder .*: set ROS_PACKAGE_PATH"):
        expanded(tmp_path / 'arm_description', INCLUDES % '$(find other)/part.xacro')


def test_a_urdf_with_xacro_in_it_is_refused_by_name(tmp_path):
    with pytest.raises(ModelError, match=r"first <xacro:include>: rename it to 'arm.xacro'"):
        expanded(tmp_path, INCLUDES % 'part.xacro', 'arm.urdf')
    assert expanded(tmp_path, '<!-- <xacro:include/> -->', 'arm.urdf')


def test_arguments_on_the_command_line_reach_the_experiment_file(tmp_path, capsys):
    name_space = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" '
    text = URDF.read_text().replace('<robot ', name_space)
    path, run = tmp_path / 'arm.urdf.xacro', tmp_path / 'run.csv'
    path.write_text(text.replace('"link_2"', '"$(arg side)"'))
    time = np.arange(300) / 50.0
    moved = np.sin(time[:, None] * [1.3, 0.9])
    np.savetxt(run, np.column_stack([time, moved, moved]), delimiter=',', comments='',
               header='t,q1,q2,tau1,tau2')  # fmt: skip
    words = ['init', str(path), str(run), '--effort-kind', 'motor_current', '-o']
    file = tmp_path / 'e.yaml'
    given = ['--xacro', 'side:=left', '--gravity', '0', '0', '9.81']
    assert main([*words, str(file)]) == 2 and 'side' in capsys.readouterr().err
    assert main([*words, str(file), *given]) == 0
    robot = load_experiment(file).build_robot()
    assert 'left' in robot.contents.links and robot.gravity[2] == 9.81
    assert main(['check', str(path), '--xacro', 'side=left']) == 2
    assert 'is not name:=value' in capsys.readouterr().err
