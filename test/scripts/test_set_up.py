# SPDX-License-Identifier: Apache-2.0
"""Set-up repeats what has changed or was interrupted, and nothing else."""

import ast
import os
from pathlib import Path
import shutil
import subprocess
import sys
import time

import pytest
import set_up
from set_up import SetUp, SetUpError

ROOT = set_up.ROOT
STEPS = ('environment', 'packages', 'messages', 'package')
PYTHON = {
    'version': '3.12',
    'executable': sys.executable,
    'header': __file__,
    'machine': 'x86_64',
    'venv': True,
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return a small repository with the inputs of set-up."""
    for name in ('requirements', 'robot_identification_msgs', 'scripts', 'interfaces'):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ('setup.py', 'setup.cfg'):
        shutil.copy(ROOT / name, tmp_path)
    for name in ('robot_identification/version.py', 'launch/simulation.launch.py'):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.setattr(set_up, 'ROOT', tmp_path)
    return tmp_path


@pytest.fixture
def made(root):
    with (root / '.venv.lock').open('w') as lock:
        yield SetUp(lock)


@pytest.mark.parametrize(
    ('changed', 'steps'),
    [
        ('requirements/ros-kilted-wheels.txt', set()),
        ('requirements/runtime.txt', {'packages'}),
        ('requirements/constraints.txt', {'packages'}),
        ('requirements/pip.txt', {'packages'}),
        ('requirements/ros-jazzy-wheels.txt', {'packages', 'messages'}),
        ('requirements/cmake.txt', {'messages'}),
        ('robot_identification_msgs/msg/New.msg', {'messages'}),
        ('robot_identification/version.py', {'package'}),
        ('launch/new.launch.py', {'package'}),
        ('launch/simulation.launch.py', set()),
        ('examples/demo_arm/results/result.yaml', set()),
        ('interfaces/control_msgs/msg/JointTolerance.msg', {'messages'}),
        ('README.md', set()),
    ],
)
def test_a_change_repeats_the_steps_that_it_touches(root, changed, steps):
    before = set_up.digests(PYTHON, 'jazzy')
    (root / changed).parent.mkdir(parents=True, exist_ok=True)
    with (root / changed).open('a') as file:
        file.write('# changed\n')
    after = set_up.digests(PYTHON, 'jazzy')
    assert {step for step in before if before[step] != after[step]} == steps
    assert tuple(before) == STEPS


def test_another_distribution_has_an_environment_and_wheels_of_its_own(root):
    with (root / '.venv.lock').open('w') as lock:
        assert SetUp(lock, 'kilted').venv == root / '.venv-kilted'
    before = set_up.digests(PYTHON, 'kilted')
    with (root / 'requirements' / 'ros-kilted-wheels.txt').open('a') as file:
        file.write('# changed\n')
    after = set_up.digests(PYTHON, 'kilted')
    assert {step for step in before if before[step] != after[step]} == {'packages', 'messages'}


class Machine:
    """Names of the steps done in place of the steps, and the Python that they left."""

    def __init__(self):
        self.done = []
        self.python = None
        self.interrupt = None


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()

    def step(name):
        def work(made, python):
            """Note the step."""
            if name == 'environment':
                shutil.rmtree(made.venv, ignore_errors=True)
                made.venv.mkdir()
                machine.python = python
            machine.done.append(name)
            if machine.interrupt and machine.interrupt[0] == name:
                raise machine.interrupt[1]

        return work

    for name in STEPS:
        monkeypatch.setattr(SetUp, name, step(name))
    monkeypatch.setattr(set_up, 'require_tools', lambda python: None)
    monkeypatch.setattr(set_up, 'describe_python', lambda executable: machine.python)
    monkeypatch.setattr(
        set_up, 'choose_python', lambda requested: dict(PYTHON, version=requested or '3.12')
    )
    return machine


def steps_done(machine, made, requested=None):
    machine.done.clear()
    made.make(requested)
    return tuple(machine.done)


def test_once_and_again_only_what_changed(machine, made, root):
    assert steps_done(machine, made) == STEPS
    assert steps_done(machine, made) == ()
    with (root / 'requirements' / 'runtime.txt').open('a') as file:
        file.write('new==1.0\n')
    assert steps_done(machine, made) == ('packages',)
    assert steps_done(machine, made) == ()


def test_another_python_and_a_vanished_one_make_the_environment_anew(machine, made):
    steps_done(machine, made, '3.10')
    assert steps_done(machine, made) == ()
    assert steps_done(machine, made, '3.13') == STEPS
    machine.python = None
    assert steps_done(machine, made) == STEPS


def test_a_moved_repository_makes_the_environment_anew(machine, made, monkeypatch):
    steps_done(machine, made)
    moved = made.venv.parent.with_name('moved')
    shutil.copytree(made.venv.parent, moved)
    monkeypatch.setattr(set_up, 'ROOT', moved)
    assert steps_done(machine, SetUp(made.lock)) == STEPS


@pytest.mark.parametrize(
    ('step', 'after_interrupt', 'after_failure'),
    [
        ('environment', STEPS, STEPS),
        ('packages', STEPS, STEPS[1:]),
        ('messages', STEPS[2:], STEPS[2:]),
        ('package', STEPS[3:], STEPS[3:]),
    ],
)
def test_a_step_that_did_not_end_is_repeated(machine, made, step, after_interrupt, after_failure):
    ends = ((KeyboardInterrupt(), after_interrupt), (SetUpError('no network'), after_failure))
    for error, then in ends:
        shutil.rmtree(made.venv, ignore_errors=True)
        machine.python, machine.interrupt = None, (step, error)
        with pytest.raises(type(error)):
            steps_done(machine, made)
        machine.interrupt = None
        assert steps_done(machine, made) == then
        assert steps_done(machine, made) == ()


def test_damage_of_the_stamp_repeats_everything(machine, made):
    for damage in ('{"packages": ', '[]', ''):
        steps_done(machine, made)
        (made.venv / 'set-up.json').write_text(damage)
        assert steps_done(machine, made) == STEPS


def test_what_is_in_the_environments_place_is_removed(made, tmp_path, monkeypatch):
    monkeypatch.setattr(SetUp, 'run', lambda self, *command: self.venv.mkdir())
    (tmp_path / 'elsewhere').mkdir()
    (tmp_path / 'elsewhere' / 'precious').touch()
    for occupy in (lambda: made.venv.symlink_to(tmp_path / 'elsewhere'), made.venv.touch):
        occupy()
        made.environment(PYTHON)
        assert made.venv.is_dir()
        assert not made.venv.is_symlink()
        shutil.rmtree(made.venv)
    assert (tmp_path / 'elsewhere' / 'precious').exists()


@pytest.mark.parametrize('failing', [(), ('uv',)])
def test_wheels_come_by_uv_and_by_pip_where_uv_cannot(made, monkeypatch, failing):
    used = []

    def run(self, program, *arguments, environment=None):
        tool = next((t for t in ('uv', 'pip') if Path(program).name == t or t in arguments), None)
        if 'install' in arguments:
            used.append((tool, 'requirements/runtime.txt' in ' '.join(map(str, arguments))))
            if tool in failing:
                raise SetUpError('no mirror')

    monkeypatch.setattr(SetUp, 'run', run)
    made.packages(PYTHON)
    assert used == [('pip', False), ('uv', True)] + [('pip', True)] * bool(failing)


def test_shared_files_and_programs_are_linked_where_ros_looks_for_them(made, root):
    packages = made.venv / 'lib' / 'python3.12' / 'site-packages'
    info = packages / 'robot_identification-1.0.dist-info'
    info.mkdir(parents=True)
    text = '[console_scripts]\nrobot-identification = a:b\nrecorder_node = a.c:main\n'
    (info / 'entry_points.txt').write_text(text)
    made.link(packages)
    share, programs = (made.venv / name / 'robot_identification' for name in ('share', 'lib'))
    (share / 'gone.urdf').symlink_to(root / 'gone.urdf')
    (programs / 'old_node').touch()
    made.link(packages)
    # `ros2 launch` looks for its file so: links to folders would hide their content
    walked = [(folder, files) for folder, _, files in os.walk(share) if files]
    assert walked == [(str(share / 'launch'), ['simulation.launch.py'])]
    assert (share / 'launch/simulation.launch.py').resolve().parent == root / 'launch'
    assert (share.parent / 'ament_index/resource_index/packages/robot_identification').is_file()
    links = {path.name: path.readlink() for path in programs.iterdir()}
    names = ('robot-identification', 'recorder_node')
    assert links == {name: made.venv / 'bin' / name for name in names}


def test_commands_write_to_the_log_without_a_sourced_ros(made, monkeypatch, capfd):
    monkeypatch.setenv('PYTHONPATH', '/opt/ros')
    made.run('sh', '-c', 'echo "[$PYTHONPATH]"; echo oh dear >&2; cat')
    assert '[]\noh dear\n' in made.log.read_text()
    assert capfd.readouterr() == ('', '')
    with pytest.raises(SetUpError, match='failed with code 3') as error:
        made.run('sh', '-c', 'seq 100; exit 3')
    assert '\n    100\n' in str(error.value)
    assert 'oh dear' not in str(error.value)


HOLD = """
import sys; sys.path.insert(0, {scripts!r})
import set_up
set_up.ROOT = set_up.Path({root!r})
set_up.SetUp.make = lambda self, *_: self.run('sh', '-c', 'echo begun; sleep 3')
set_up.main([])
"""


def test_the_lock_outlives_a_killed_run_whose_command_goes_on(root, monkeypatch):
    program = HOLD.format(scripts=str(ROOT / 'scripts'), root=str(root))
    holder = subprocess.Popen([sys.executable, '-c', program])
    log = root / 'log' / 'set-up.log'
    while not (log.exists() and 'begun\n' in log.read_text()):
        time.sleep(0.01)
    began = time.monotonic()
    holder.kill()
    holder.wait()
    monkeypatch.setattr(SetUp, 'make', lambda *_: None)
    assert set_up.main([]) == 0
    assert time.monotonic() - began > 1.0


def test_interfaces_are_built_unless_there_is_a_wheel(made, root, monkeypatch):
    built = []
    monkeypatch.setattr(SetUp, 'build', lambda self, packages: built.append(packages))
    made.messages(PYTHON)
    names = ('interfaces/control_msgs', 'interfaces/controller_manager_msgs')
    assert built.pop() == [root / name for name in (*names, 'robot_identification_msgs')]
    packages = made.venv / 'lib' / 'python3.12' / 'site-packages'
    (packages / 'ros_control_msgs-5.8.0.dist-info').mkdir(parents=True)
    made.messages(PYTHON)
    assert built.pop() == [root / name for name in (names[1], 'robot_identification_msgs')]


def test_an_old_python_can_read_the_script():
    source = (ROOT / 'scripts' / 'set_up.py').read_text()
    ast.parse(source, feature_version=(3, 6))


def test_the_first_python_that_fits_is_chosen(monkeypatch):
    known = {sys.executable: '3.8', 'python3.10': '3.10', 'python3.13': '3.13', 'new': '3.14'}

    def describe(name):
        return dict(PYTHON, version=known[name], executable=name) if name in known else None

    monkeypatch.setattr(set_up, 'describe_python', describe)
    assert set_up.choose_python(None)['executable'] == 'python3.13'
    assert set_up.choose_python('python3.10')['executable'] == 'python3.10'
    for wrong in ('new', 'nonsense'):
        with pytest.raises(SetUpError, match=f"'{wrong}' is no Python 3.10 to 3.13"):
            set_up.choose_python(wrong)
    known.clear()
    with pytest.raises(SetUpError, match='No Python 3.10 to 3.13 was found.*\n.*apt install'):
        set_up.choose_python(None)


@pytest.mark.parametrize('script', ['exit 3', 'echo no json'])
def test_a_python_is_described_by_itself(tmp_path, script):
    found = set_up.describe_python(sys.executable)
    assert found['version'] == '{}.{}'.format(*sys.version_info)
    # never the interpreter of an environment: that one may be about to be removed
    assert found['executable'] == sys._base_executable
    broken = tmp_path / 'python'
    broken.write_text(f'#!/bin/sh\n{script}\n')
    broken.chmod(0o755)
    assert set_up.describe_python(broken) is None
    assert set_up.describe_python(Path('/absent')) is None


def test_all_missing_tools_are_named_with_their_packages(monkeypatch):
    tools = {'clang', 'clang++', 'gmake'}
    monkeypatch.delenv('CC', raising=False)
    monkeypatch.delenv('CXX', raising=False)
    monkeypatch.setattr(set_up.shutil, 'which', lambda name: name in tools)
    set_up.require_tools(PYTHON)
    tools.clear()
    with pytest.raises(SetUpError) as error:
        set_up.require_tools(dict(PYTHON, header='/absent', venv=False))
    names = ('g++', 'gcc', 'make', 'python3.12-dev', 'python3.12-venv')
    assert str(error.value).endswith(f'apt install {" ".join(names)}')


def test_an_error_is_told_without_a_traceback(root, monkeypatch, capsys):
    def fail(*_):
        raise SetUpError('This machine lacks make')

    monkeypatch.setattr(SetUp, 'make', fail)
    assert set_up.main([]) == 1
    assert capsys.readouterr().err == '\nset-up: This machine lacks make\n'
