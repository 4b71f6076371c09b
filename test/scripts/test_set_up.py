# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path
import shutil
import subprocess
import sys
import time

import pytest
import set_up
from set_up_checks import Trouble

ROOT = Path(set_up.__file__).resolve().parents[1]
PYTHON = {
    'version': [3, 12, 1],
    'executable': sys.executable,
    'include': '/include',
    'machine': 'x86_64',
    'venv': True,
}


@pytest.fixture
def root(tmp_path):
    """Return a small repository with what set-up reads."""
    for name in ('requirements', 'robot_identification_msgs', 'scripts'):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / 'setup.py', tmp_path)
    shutil.copy(ROOT / 'setup.cfg', tmp_path)
    (tmp_path / 'robot_identification').mkdir()
    (tmp_path / 'robot_identification' / 'version.py').write_text("__version__ = '1.0'\n")
    shutil.copytree(ROOT / 'test' / 'interfaces', tmp_path / 'test' / 'interfaces')
    (tmp_path / 'launch').mkdir()
    (tmp_path / 'launch' / 'simulation.launch.py').touch()
    return tmp_path


# --- what has to be done again --------------------------------------------------------------


@pytest.mark.parametrize(
    ('changed', 'steps'),
    [
        ('requirements/runtime.txt', {'packages'}),
        ('requirements/dev.txt', {'packages'}),
        ('requirements/constraints.txt', {'packages'}),
        ('requirements/ros-jazzy-wheels.txt', {'packages', 'messages', 'interfaces'}),
        ('requirements/cmake.txt', {'messages', 'interfaces'}),
        ('scripts/repair_wheel_paths.py', {'packages', 'messages', 'interfaces'}),
        ('scripts/set_up.py', {'packages', 'messages', 'package', 'interfaces'}),
        ('scripts/set_up_messages.py', {'messages', 'interfaces'}),
        ('scripts/set_up_links.py', {'package'}),
        ('robot_identification_msgs/msg/Fit.msg', {'messages'}),
        ('robot_identification_msgs/msg/New.msg', {'messages'}),
        ('robot_identification/__init__.py', {'package'}),
        ('setup.py', {'package'}),
        ('launch/new.launch.py', {'package'}),
        ('urdf/new.urdf', {'package'}),
        ('launch/simulation.launch.py', set()),
        ('examples/demo_arm/results/result.yaml', set()),
        ('test/interfaces/control_msgs/msg/JointTolerance.msg', {'interfaces'}),
        ('README.md', set()),
    ],
)
def test_a_change_repeats_the_steps_that_it_touches(root, changed, steps):
    before = set_up.fingerprints(root, PYTHON)
    (root / changed).parent.mkdir(parents=True, exist_ok=True)
    with (root / changed).open('a') as file:
        file.write('# changed\n')
    after = set_up.fingerprints(root, PYTHON)
    assert {step for step in before if before[step] != after[step]} == steps
    assert set(before) == set(set_up.STEPS)


def test_another_python_or_place_is_another_environment(root, tmp_path_factory):
    before = set_up.fingerprints(root, PYTHON)
    newer_patch = dict(PYTHON, version=[3, 12, 9])
    assert set_up.fingerprints(root, newer_patch) == before
    other = set_up.fingerprints(root, dict(PYTHON, version=[3, 11, 1]))
    assert other['environment'] != before['environment']
    moved = tmp_path_factory.mktemp('moved') / 'here'
    shutil.copytree(root, moved)
    after = set_up.fingerprints(moved, PYTHON)
    assert [step for step in after if after[step] != before[step]] == ['environment']


WANTED = dict.fromkeys(set_up.STEPS, 'new')


@pytest.mark.parametrize(
    ('stamp', 'steps'),
    [
        (WANTED, ()),
        ({}, set_up.STEPS),
        ({**WANTED, 'environment': 'old'}, set_up.STEPS),
        ({**WANTED, 'packages': 'old'}, ('packages',)),
        ({**WANTED, 'messages': 'old'}, ('messages',)),
        ({'environment': 'new', 'packages': 'new'}, ('messages', 'package', 'interfaces')),
        ({**WANTED, 'interfaces': 'old'}, ('interfaces',)),
        ({**WANTED, 'running': 'environment'}, set_up.STEPS),
        ({**WANTED, 'running': 'packages'}, set_up.STEPS),
        ({**WANTED, 'running': 'messages'}, ('messages',)),
        ({**WANTED, 'running': 'package'}, ('package',)),
    ],
)
def test_due(stamp, steps):
    assert set_up.due(stamp, WANTED) == steps
    assert set_up.due(stamp, WANTED, healthy=False) == set_up.STEPS


# --- the stamp ------------------------------------------------------------------------------


def test_stamp_round_trip_and_damage(tmp_path):
    assert set_up.read_stamp(tmp_path) == {}
    set_up.write_stamp(tmp_path, {'packages': 'a'})
    assert set_up.read_stamp(tmp_path) == {'packages': 'a'}
    for damage in ('{"packages": ', '[]', ''):
        (tmp_path / set_up.STAMP).write_text(damage)
        assert set_up.read_stamp(tmp_path) == {}


def test_a_finished_step_is_noted_at_its_end_only(tmp_path):
    set_up.write_stamp(tmp_path, {'packages': 'old', 'package': 'kept'})
    with set_up.noted('packages', tmp_path, WANTED):
        assert set_up.read_stamp(tmp_path) == {'package': 'kept', 'running': 'packages'}
    assert set_up.read_stamp(tmp_path) == {'package': 'kept', 'packages': 'new'}


def test_a_step_that_fails_is_to_be_done_again_but_nothing_else(tmp_path):
    set_up.write_stamp(tmp_path, WANTED)
    with pytest.raises(Trouble), set_up.noted('packages', tmp_path, WANTED):
        raise Trouble('no network', 'mend it')
    assert set_up.due(set_up.read_stamp(tmp_path), WANTED) == ('packages',)


def test_a_step_that_is_cut_short_stays_noted_as_running(tmp_path):
    set_up.write_stamp(tmp_path, WANTED)
    with pytest.raises(KeyboardInterrupt), set_up.noted('packages', tmp_path, WANTED):
        raise KeyboardInterrupt
    assert set_up.due(set_up.read_stamp(tmp_path), WANTED) == set_up.STEPS


# --- the environment itself -----------------------------------------------------------------


def nothing(*_):
    """Stand in for a runner."""


def test_loops_that_cannot_be_compiled_ahead_do_not_stop_the_set_up(tmp_path):
    ran = []

    def run(command, *_):
        ran.append([str(word) for word in command])
        raise Trouble('no compiler', 'none')

    set_up.compile_loops(tmp_path, tmp_path / '.venv', run)
    assert [words[1:] for words in ran] == [['-m', 'robot_identification.compiled']]


def test_what_stands_in_the_environments_place_is_removed(tmp_path):
    venv = tmp_path / '.venv'
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    (elsewhere / 'precious').touch()
    for occupy in (lambda: venv.symlink_to(elsewhere), venv.touch, venv.mkdir):
        if venv.is_dir():
            shutil.rmtree(venv)
        occupy()
        set_up.make_environment(tmp_path, venv, PYTHON, nothing)
        assert venv.is_dir()
        assert not venv.is_symlink()
        assert set_up.read_stamp(venv) == {'running': 'environment'}
    assert (elsewhere / 'precious').exists()


def test_a_removal_that_is_cut_short_is_seen(tmp_path, monkeypatch):
    venv = tmp_path / '.venv'
    venv.mkdir()
    set_up.write_stamp(venv, WANTED)

    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, 'rmtree', interrupted)
    with pytest.raises(KeyboardInterrupt):
        set_up.make_environment(tmp_path, venv, PYTHON, nothing)
    assert set_up.due(set_up.read_stamp(venv), WANTED) == set_up.STEPS


def test_shared_files_are_linked_to_their_sources(root):
    share = root / '.venv' / 'share' / 'robot_identification'
    set_up.link_shared_files(root, share)
    (share / 'urdf').mkdir()
    (share / 'urdf' / 'gone.urdf').symlink_to(root / 'urdf' / 'gone.urdf')
    set_up.link_shared_files(root, share)
    assert (share / 'launch' / 'simulation.launch.py').resolve() == (
        root / 'launch' / 'simulation.launch.py'
    )
    # `ros2 launch` looks for its file so: links to folders would hide what is in them
    walked = [(folder, files) for folder, _, files in os.walk(share) if files]
    assert walked == [(str(share / 'launch'), ['simulation.launch.py'])]
    index = root / '.venv' / 'share' / 'ament_index' / 'resource_index' / 'packages'
    assert (index / 'robot_identification').is_file()


def test_programs_are_linked_where_ros_looks_for_them(tmp_path):
    packages = tmp_path / 'lib' / 'python3.12' / 'site-packages'
    about = packages / 'robot_identification-1.0.dist-info'
    about.mkdir(parents=True)
    text = '[console_scripts]\nrobot-identification = a:b\nrecorder_node = a.c:main\n'
    (about / 'entry_points.txt').write_text(text)
    (tmp_path / 'lib' / 'robot_identification').mkdir()
    (tmp_path / 'lib' / 'robot_identification' / 'old_node').touch()
    set_up.link_programs(tmp_path, packages)
    links = {path.name: path for path in (tmp_path / 'lib' / 'robot_identification').iterdir()}
    assert set(links) == {'robot-identification', 'recorder_node'}
    for name, link in links.items():
        assert link.readlink() == tmp_path / 'bin' / name


# --- running commands -----------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    with set_up.locked(tmp_path / 'lock', print) as lock:
        yield set_up.Runner(tmp_path / 'log' / 'set-up.log', lock)


def test_output_goes_to_the_log(run, tmp_path, capfd):
    run(['sh', '-c', 'echo hello; echo oh dear >&2'], 'Greeting', tmp_path)
    assert 'hello\noh dear\n' in run.path.read_text()
    assert capfd.readouterr() == ('', '')


def test_a_failing_command_shows_the_end_of_its_own_output(run, tmp_path):
    run(['echo', 'earlier'], 'Greeting', tmp_path)
    with pytest.raises(Trouble, match='Building failed .exit code 3.') as error:
        run(['sh', '-c', 'seq 100; exit 3'], 'Building', tmp_path)
    assert str(error.value).endswith('\n    100')
    assert 'earlier' not in str(error.value)


def test_commands_see_neither_a_sourced_ros_nor_the_terminal(run, tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', '/opt/ros')
    run(['sh', '-c', 'echo "[$PYTHONPATH]"; cat'], 'Looking', tmp_path)
    assert '[]\n' in run.path.read_text()


HOLD = """
import sys, time
sys.path.insert(0, {scripts!r})
import set_up
from pathlib import Path
with set_up.locked(Path({lock!r}), print) as lock:
    run = set_up.Runner(Path({log!r}), lock)
    print('locked', flush=True)
    run(['sleep', '3'], 'Sleeping', '/')
"""


def test_the_lock_outlives_a_killed_run_while_its_command_goes_on(tmp_path):
    lock = tmp_path / 'lock'
    scripts = str(ROOT / 'scripts')
    program = HOLD.format(scripts=scripts, lock=str(lock), log=str(tmp_path / 'log'))
    holder = subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b'locked\n'
    log = tmp_path / 'log'
    while not (log.exists() and log.read_text().startswith('$ sleep')):
        time.sleep(0.01)
    time.sleep(0.2)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    said = []
    began = time.monotonic()
    with set_up.locked(lock, said.append):
        waited = time.monotonic() - began
    assert 1.0 < waited < 10.0
    assert 'waiting' in said[0]
    said.clear()
    with set_up.locked(lock, said.append):
        assert not said


# --- the whole ------------------------------------------------------------------------------


class Machine:
    """Set-up's steps replaced by notes of their names, and a Python that the last one left."""

    def __init__(self):
        self.done = []
        self.python = None
        self.cut_short = None

    def work(self, step):
        def call(root, venv, python, run):
            if step == 'environment':
                shutil.rmtree(venv, ignore_errors=True)
                venv.mkdir()
                self.python = python
            self.done.append(step)
            if step == self.cut_short:
                raise KeyboardInterrupt

        return call, step


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(set_up, 'WORK', {step: machine.work(step) for step in set_up.STEPS})
    monkeypatch.setattr(set_up, 'check_tools', lambda python: None)
    monkeypatch.setattr(set_up, 'ask_python', lambda executable: machine.python)
    monkeypatch.setattr(
        set_up,
        'choose_python',
        lambda requested: dict(
            PYTHON, version=[3, int(requested[-2:]), 0] if requested else [3, 12, 1]
        ),
    )
    return machine


def steps_done(machine, root, requested=None, tests=True):
    machine.done.clear()
    set_up.set_up(root, requested, nothing, tests)
    return tuple(machine.done)


def test_once_and_again_only_what_changed(machine, root):
    assert steps_done(machine, root) == set_up.STEPS
    assert steps_done(machine, root) == ()
    with (root / 'requirements' / 'runtime.txt').open('a') as file:
        file.write('new==1.0\n')
    assert steps_done(machine, root) == ('packages',)
    assert steps_done(machine, root) == ()


def test_what_only_tests_need_is_not_made_for_users(machine, root):
    assert steps_done(machine, root, tests=False) == set_up.STEPS[:-1]
    assert steps_done(machine, root, tests=False) == ()
    assert steps_done(machine, root) == ('interfaces',)


def test_the_environments_python_is_kept_until_another_is_asked_for(machine, root):
    steps_done(machine, root, 'python3.10')
    assert steps_done(machine, root) == ()
    assert steps_done(machine, root, 'python3.10') == ()
    assert steps_done(machine, root, 'python3.13') == set_up.STEPS
    assert machine.python['version'] == [3, 13, 0]


def test_a_vanished_python_makes_the_environment_anew(machine, root):
    steps_done(machine, root)
    machine.python = None
    assert steps_done(machine, root) == set_up.STEPS


@pytest.mark.parametrize(
    ('cut', 'then'),
    [
        ('environment', set_up.STEPS),
        ('packages', set_up.STEPS),
        ('messages', ('messages', 'package', 'interfaces')),
        ('package', ('package', 'interfaces')),
        ('interfaces', ('interfaces',)),
    ],
)
def test_cut_short(machine, root, cut, then):
    machine.cut_short = cut
    with pytest.raises(KeyboardInterrupt):
        steps_done(machine, root)
    machine.cut_short = None
    assert steps_done(machine, root) == then
    assert steps_done(machine, root) == ()


def test_trouble_is_told_with_its_remedy(monkeypatch, capsys):
    def fail(*_, **__):
        raise Trouble('This machine lacks make', 'sudo apt install make')

    monkeypatch.setattr(set_up, 'set_up', fail)
    assert set_up.main([]) == 1
    assert capsys.readouterr().err == (
        '\nset-up: This machine lacks make\n\nsudo apt install make\n'
    )
