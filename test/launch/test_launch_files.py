# SPDX-License-Identifier: Apache-2.0
"""The launch files: as Python sources, and, where launch_ros is installed, started for real."""

from __future__ import annotations

import ast
import importlib.util
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import time

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / 'launch').glob('*.launch.py'))
COMMON_ARGUMENTS = {'robot', 'config', 'namespace', 'use_sim_time'}
NODES = {
    'simulation': ['excitation', 'identification', 'recorder', 'regressor', 'simulation'],
    'identification': ['excitation', 'identification', 'recorder', 'regressor'],
    'replay': ['identification', 'regressor'],
}


def title(path: Path) -> str:
    return path.name.partition('.')[0]


@pytest.fixture(params=FILES, ids=title)
def file(request):
    return request.param


def calls(path: Path, *functions: str) -> list[ast.Call]:
    tree = ast.parse(path.read_text())
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, 'id', '') in functions
    ]


def declared(path: Path) -> dict[str, dict[str, ast.expr]]:
    return {
        call.args[0].value: {keyword.arg: keyword.value for keyword in call.keywords}
        for call in calls(path, 'DeclareLaunchArgument')
    }


def test_there_is_one_file_for_each_way_of_working():
    assert [title(path) for path in FILES] == sorted(NODES)


def test_the_common_arguments_are_declared(file):
    assert set(declared(file)) >= COMMON_ARGUMENTS


def test_every_argument_has_a_description_and_a_default_or_is_the_bag(file):
    for name, options in declared(file).items():
        assert len(options['description'].value) > 10
        assert ('default_value' in options) != (name == 'bag')
        if isinstance(options.get('default_value'), ast.Constant):
            value = options['default_value'].value
            assert (value in ('true', 'false')) == ('choices' in options)


def test_every_argument_is_used_and_nothing_else_is(file):
    used = {call.args[0].value for call in calls(file, 'LaunchConfiguration')}
    assert used == set(declared(file))


def test_the_nodes_are_ours(file):
    started = sorted(call.args[0].value for call in calls(file, 'node'))
    assert started == NODES[title(file)]
    setup = (ROOT / 'setup.py').read_text()
    for name in started:
        assert importlib.util.find_spec(f'robot_identification.nodes.{name}_node')
        assert f"'{name}'" in setup, 'it has an executable'


def test_the_files_that_are_defaults_exist(file):
    for call in calls(file, 'PathJoinSubstitution'):
        words = [item.value for item in call.args[0].elts if isinstance(item, ast.Constant)]
        assert ROOT.joinpath(*words).is_file()


def test_a_simulation_in_a_namespace_has_a_clock_of_its_own():
    (node,) = calls(ROOT / 'launch' / 'simulation.launch.py', 'Node')
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    assert ast.literal_eval(options['remappings']) == [('/clock', 'clock')]


# ------------------------------------------------------------------- with launch_ros, for real

RUNNER = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

pairs = [tuple(word.split(':=', 1)) for word in sys.argv[2:]]
source = PythonLaunchDescriptionSource(sys.argv[1])
service = LaunchService(argv=sys.argv[2:])
service.include_launch_description(
    LaunchDescription([IncludeLaunchDescription(source, launch_arguments=pairs)])
)
sys.exit(service.run())
"""


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """Install the package into a folder of its own, as colcon would."""
    for name in ('launch', 'launch_ros'):
        pytest.importorskip(name, reason='needs ROS 2 with launch_ros, for which no wheels exist')
    share = tmp_path / 'share' / 'robot_identification'
    index = tmp_path / 'share' / 'ament_index' / 'resource_index' / 'packages'
    programs = tmp_path / 'lib' / 'robot_identification'
    for folder in (share, index, programs, tmp_path / 'bin'):
        folder.mkdir(parents=True)
    (index / 'robot_identification').touch()
    for part in ('config', 'launch', 'urdf', 'package.xml'):
        (share / part).symlink_to(ROOT / part)
    for name in NODES['simulation']:
        program = programs / f'{name}_node'
        program.write_text(
            f'#!{sys.executable}\nimport sys\n'
            f'from robot_identification.nodes.{name}_node import main\nsys.exit(main())\n'
        )
        program.chmod(0o755)
    player = tmp_path / 'bin' / 'ros2'
    player.write_text('#!/bin/sh\necho "played with $@"\n')
    player.chmod(0o755)
    for name, first in (
        ('AMENT_PREFIX_PATH', tmp_path),
        ('PATH', tmp_path / 'bin'),
        ('PYTHONPATH', ROOT),
    ):
        monkeypatch.setenv(name, os.pathsep.join(filter(None, (str(first), os.environ.get(name)))))
    (tmp_path / 'runner.py').write_text(RUNNER)
    return tmp_path


@pytest.fixture
def launch(prefix, ros):
    """Return a function that starts a launch file; whatever it started ends with the test."""
    running = []

    def start(name, *arguments):
        log = open(prefix / f'{name}.log', 'w')  # noqa: SIM115
        process = subprocess.Popen(
            [
                sys.executable,
                str(prefix / 'runner.py'),
                str(prefix / 'share' / 'robot_identification' / 'launch' / f'{name}.launch.py'),
                *arguments,
            ],
            cwd=prefix,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def output(prefix, name):
    return (prefix / f'{name}.log').read_text()


def end(process):
    """Press Ctrl-C, which a terminal sends to all processes."""
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(30)


@pytest.mark.slow
def test_the_simulation_starts_and_ends(ros, launch, prefix):
    from sensor_msgs.msg import JointState

    states = ros.subscribe(JointState, '/cell/joint_states', 1000)
    process = launch('simulation', 'namespace:=cell')
    for name in NODES['simulation']:
        ros.wait_for_node(f'/cell/{name}', timeout=60.0)
        node = f'/cell/{name}'
        assert ros.get_parameters(node, 'use_sim_time')['use_sim_time'] is True
    assert ros.get_parameters('/cell/excitation', 'execute')['execute'] is True
    ros.wait_until(lambda: len(states) > 1000, 60.0, 'joint states')
    assert len(states[-1].effort) == 6
    assert process.poll() is None
    assert end(process) == 0
    text = output(prefix, 'simulation')
    assert 'Traceback' not in text and 'died' not in text, text
    assert text.count('process has finished cleanly') == 5


@pytest.mark.slow
def test_everything_ends_with_the_simulation(ros, launch, prefix):
    process = launch('simulation')
    for name in NODES['simulation']:
        ros.wait_for_node(f'/{name}', timeout=60.0)
    found = re.search(r'simulation_node-\d+\]: process started with pid \[(\d+)\]', output(
        prefix, 'simulation'
    ))  # fmt: skip
    os.kill(int(found[1]), signal.SIGKILL)
    assert process.wait(30) is not None
    assert output(prefix, 'simulation').count('process has finished cleanly') == 4


@pytest.mark.slow
def test_a_real_robot_does_not_move_unless_told(ros, launch, prefix):
    urdf = ROOT / 'urdf' / 'tx40.urdf'
    process = launch('identification', f'robot:={urdf}', 'controller:=arm_controller')
    for name in NODES['identification']:
        ros.wait_for_node(f'/{name}', timeout=60.0)
    values = ros.get_parameters('/excitation', 'execute', 'controller_topic', 'use_sim_time')
    assert values == {
        'execute': False,
        'controller_topic': 'arm_controller/joint_trajectory',
        'use_sim_time': False,
    }
    description = 'robot_description'
    for node in ('/excitation', '/regressor', '/identification'):
        assert ros.get_parameters(node, description)[description] == str(urdf)
    assert end(process) == 0
    assert 'Traceback' not in output(prefix, 'identification')


@pytest.mark.slow
def test_a_bag_is_played_with_its_clock(ros, launch, prefix):
    process = launch('replay', 'bag:=/data/run', 'regressor:=false', 'rate:=2.0')
    ros.wait_for_node('/identification', timeout=60.0)
    limit = time.monotonic() + 30.0
    while 'played' not in output(prefix, 'replay') and time.monotonic() < limit:
        ros.spin(0.2)
    assert 'played with bag play /data/run --clock 250 --rate 2.0' in output(prefix, 'replay')
    assert 'regressor' not in ros.node.get_node_names()
    sim_time = ros.get_parameters('/identification', 'use_sim_time')
    assert sim_time == {'use_sim_time': True}
    assert end(process) == 0
