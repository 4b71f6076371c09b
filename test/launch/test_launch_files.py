# SPDX-License-Identifier: Apache-2.0
"""The launch files: as Python sources, and, where launch_ros is installed, started for real."""

from __future__ import annotations

import ast
from importlib.metadata import entry_points
import importlib.util
import json
import os
from pathlib import Path
import re
import signal
import subprocess
import sys

from node_interfaces import INTERFACES
import pytest
from robot_identification.nodes import launching
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / 'launch').glob('*.launch.py'))
EXAMPLE = ROOT / 'examples' / 'two_arms' / 'two_arms.launch.py'
COMMON_ARGUMENTS = {'robot', 'config', 'namespace', 'use_sim_time'}
SWITCH = ['true', 'false', '']
NODES = {
    'gazebo': ['excitation', 'identification', 'recorder', 'regressor'],
    'identification': ['excitation', 'identification', 'recorder', 'regressor'],
    'monitor': ['identification', 'observer', 'recorder'],
    'replay': ['identification', 'regressor'],
    'simulation': ['excitation', 'identification', 'recorder', 'regressor', 'simulation'],
}
CONFIG = {
    'gazebo': 'gazebo.yaml',
    'identification': 'identification.yaml',
    'monitor': 'identification.yaml',
    'replay': 'identification.yaml',
    'simulation': 'simulation.yaml',
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


def constant(path: Path, name: str):
    """Return the value of a constant of a module, which is written as a literal."""
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == name:
            return ast.literal_eval(statement.value)
    raise KeyError(name)


def declared(path: Path) -> dict[str, dict[str, ast.expr]]:
    places = [path, *([Path(launching.__file__)] if calls(path, 'common_arguments') else [])]
    return {
        call.args[0].value: {keyword.arg: keyword.value for keyword in call.keywords}
        for place in places
        for call in calls(place, 'DeclareLaunchArgument')
    }


def remappings(path: Path) -> dict[str, str]:
    try:
        return constant(path, 'REMAPPINGS')
    except KeyError:
        return {}


def arguments_in(nodes: dict[str, dict[str, str]]) -> set[str]:
    templates = [text for parameters in nodes.values() for text in parameters.values()]
    return set(re.findall(r'{(\w+)}', ' '.join(templates)))


def parameters_of(node: str) -> set[str]:
    """Return the names of a node's parameters, by its table in docs/reference/nodes.md."""
    page = (ROOT / 'docs' / 'reference' / 'nodes.md').read_text()
    part = page.partition(f'<!-- made from {node} -->')[2].partition(f'<!-- end of {node} -->')[0]
    table, _, keys = part.partition('| parameter | default | meaning |')[2].partition('\n\n')
    rows = re.findall(r'^\| `([^`]+)` \|', table, re.MULTILINE)
    return {*rows, *re.findall('`([^`]+)`', keys)}


def test_the_example_gives_arguments_that_there_are_and_files_that_exist():
    text = EXAMPLE.read_text()
    (given,) = (
        {key.value for key in node.keys}
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Dict)
    )
    assert given <= set(declared(ROOT / 'launch' / 'simulation.launch.py'))
    for call in calls(EXAMPLE, 'arm'):
        (side,) = (word.value for word in call.args)
        path = EXAMPLE.with_name(f'{side}.yaml')
        for pattern, section in yaml.safe_load(path.read_text()).items():
            node = pattern.removeprefix('/**/')
            assert dotted(section['ros__parameters']) <= parameters_of(node)


def dotted(tree: dict, prefix: str = '') -> set[str]:
    names = set()
    for key, value in tree.items():
        name = f'{prefix}{key}'
        names |= dotted(value, f'{name}.') if isinstance(value, dict) else {name}
    return names


def test_there_is_one_file_for_each_way_of_working():
    assert [title(path) for path in FILES] == sorted(NODES)


def test_the_common_arguments_are_declared(file):
    assert set(declared(file)) >= COMMON_ARGUMENTS


def test_every_argument_has_a_description_and_a_default_or_is_the_bag(file):
    for name, options in declared(file).items():
        assert len(options['description'].value) > 10
        assert ('default_value' in options) != (name == 'bag')


def test_switches_have_choices_and_their_default_is_one_of_them(file):
    for options in declared(file).values():
        default = getattr(options.get('default_value'), 'value', None)
        choices = options.get('choices')
        if default in ('true', 'false'):
            assert ast.literal_eval(choices) == ['true', 'false']
        if isinstance(choices, ast.Name):
            assert choices.id == 'SWITCH' and default == ''
        elif isinstance(choices, ast.List):
            words = [word.value for word in choices.elts if isinstance(word, ast.Constant)]
            assert default in words


def test_every_argument_is_used_and_nothing_else_is(file):
    used = {call.args[0].value for call in calls(file, 'LaunchConfiguration')}
    used |= {call.args[1].value for call in calls(file, 'argument')}
    used |= arguments_in({**constant(file, 'NODES'), '': remappings(file)})
    # what every node gets, see launching.own_nodes
    used |= {'config', 'namespace', 'use_sim_time'}
    if calls(file, 'preview'):
        used.add('preview')
    assert used == set(declared(file))


def test_an_argument_that_is_not_given_leaves_a_parameter_to_the_files(file):
    """Otherwise what a user writes into his own parameter file would have no effect."""
    for name in arguments_in(constant(file, 'NODES')) - {'bag'}:  # which has to be given
        assert declared(file)[name]['default_value'].value == '', name


def test_the_nodes_are_ours(file):
    started = sorted(constant(file, 'NODES'))
    assert started == NODES[title(file)]
    for name in started:
        assert importlib.util.find_spec(f'robot_identification.nodes.{name}_node')
        assert entry_points(group='console_scripts', name=f'{name}_node'), 'it has an executable'


def test_every_parameter_that_an_argument_sets_is_one_of_the_node(file):
    for node, parameters in constant(file, 'NODES').items():
        known = parameters_of(node)
        assert known, f'docs/reference/nodes.md has no table of {node}'
        assert set(parameters) <= known, node


def test_the_files_that_are_defaults_exist(file):
    parts = [[word.value for word in call.args] for call in calls(file, 'shared')]
    for words in parts:
        assert ROOT.joinpath(*words).is_file()
    (call,) = calls(file, 'own_nodes')
    assert call.args[2].value == CONFIG[title(file)]
    assert (ROOT / 'config' / CONFIG[title(file)]).is_file()


@pytest.mark.parametrize(
    ('name', 'moved'),
    [
        *(('simulation', True), ('replay', True)),
        *(('identification', False), ('gazebo', False), ('monitor', False)),
    ],
)
def test_who_makes_a_clock_has_it_in_the_namespace_and_who_hears_one_leaves_it(name, moved):
    path = ROOT / 'launch' / f'{name}.launch.py'
    tree = ast.parse(path.read_text())
    found = [
        ast.literal_eval(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Tuple) and all(isinstance(e, ast.Constant) for e in node.elts)
    ]
    found += remappings(path).items()
    assert (('/clock', 'clock') in found) == moved
    # frames are the driver's where there is one
    assert (('/tf', 'tf') in found) == (('/tf_static', 'tf_static') in found)
    assert (('/tf', 'tf') in found) == (name == 'simulation')


def test_what_is_renamed_is_a_name_of_the_nodes_and_what_renames_it_an_argument(file):
    for name, template in remappings(file).items():
        used = [
            node
            for node in constant(file, 'NODES')
            if any(line.name == name for line in INTERFACES[node])
        ]
        assert used or name in ('/clock', '/tf', '/tf_static')
        for argument in arguments_in({'': {name: template}}):
            assert declared(file)[argument]['default_value'].value == ''


# ------------------------------------------------------------------- with launch_ros, for real

START = 180.0
"""How long the nodes of a launch file may take to start on a busy machine [s]."""

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
    for name in sorted(set().union(*NODES.values())):
        program = programs / f'{name}_node'
        program.write_text(
            f'#!{sys.executable}\nimport sys\n'
            f'from robot_identification.nodes.{name}_node import main\nsys.exit(main())\n'
        )
        program.chmod(0o755)
    for player in (tmp_path / 'bin' / 'ros2', programs / 'robot-identification'):
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

    def start(name, *arguments, folder=prefix / 'share' / 'robot_identification' / 'launch'):
        log = open(prefix / f'{name}.log', 'w')  # noqa: SIM115
        process = subprocess.Popen(
            [
                sys.executable,
                str(prefix / 'runner.py'),
                str(folder / f'{name}.launch.py'),
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
    return process.wait(90)


@pytest.mark.slow
def test_the_simulation_starts_and_ends(ros, launch, prefix):
    from sensor_msgs.msg import JointState

    states = ros.subscribe(JointState, '/cell/joint_states', 1000)
    process = launch('simulation', 'namespace:=cell')
    for name in NODES['simulation']:
        ros.wait_for_node(f'/cell/{name}', timeout=START)
        node = f'/cell/{name}'
        assert ros.get_parameters(node, 'use_sim_time')['use_sim_time'] is True
    assert ros.get_parameters('/cell/excitation', 'execute')['execute'] is True
    ros.wait_until(lambda: len(states) > 1000, START, 'joint states')
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
        ros.wait_for_node(f'/{name}', timeout=START)
    found = re.search(r'simulation_node-\d+\]: process started with pid \[(\d+)\]', output(
        prefix, 'simulation'
    ))  # fmt: skip
    os.kill(int(found[1]), signal.SIGKILL)
    assert process.wait(60) is not None
    assert output(prefix, 'simulation').count('process has finished cleanly') == 4


@pytest.mark.slow
def test_a_real_robot_does_not_move_unless_told(ros, launch, prefix):
    urdf = ROOT / 'urdf' / 'tx40.urdf'
    states = 'joint_states:=franka/joint_states'
    process = launch('identification', f'robot:={urdf}', 'controller:=arm_controller', states)
    for name in NODES['identification']:
        ros.wait_for_node(f'/{name}', timeout=START)
    wanted = {
        'execute': False,
        'controller': 'arm_controller',
        'use_sim_time': False,
    }
    assert ros.get_parameters('/excitation', *wanted) == wanted
    description = 'robot_description'
    for node in ('/excitation', '/regressor', '/identification'):
        assert ros.get_parameters(node, description)[description] == str(urdf)
    for node in ('excitation', 'recorder'):
        heard = dict(ros.node.get_subscriber_names_and_types_by_node(node, '/'))
        assert '/franka/joint_states' in heard and '/joint_states' not in heard
    assert end(process) == 0
    assert 'Traceback' not in output(prefix, 'identification')


@pytest.mark.slow
def test_a_bag_is_played_with_its_clock(ros, launch, prefix):
    process = launch(
        'replay', 'bag:=/data/run', 'regressor:=false', 'rate:=2.0', 'player:=rosbag2'
    )
    ros.wait_for_node('/identification', timeout=START)
    said = output_until(ros, prefix, 'replay', 'played with')
    assert said.endswith(
        'played with wait --timeout 60 /identification -- ros2 bag play /data/run --clock 250 '
        '--rate 2.0 --start-paused --wait-for-all-acked 10000'
    )
    assert 'regressor' not in ros.node.get_node_names()
    sim_time = ros.get_parameters('/identification', 'use_sim_time')
    assert sim_time == {'use_sim_time': True}
    assert end(process) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ('player', 'topic', 'words'),
    [
        (
            'rosbag2',
            '/joint_states',
            '--rate 1.0 --start-paused --wait-for-all-acked 10000 '
            '--remap /joint_states:=/cell/joint_states /clock:=/cell/clock',
        ),
        ('rosbag2', '', '--wait-for-all-acked 10000 --remap /clock:=/cell/clock'),
        (
            'own',
            '/joint_states',
            '--rate 1.0 --topic /joint_states --to /cell/joint_states --clock-topic /cell/clock '
            '--follower /cell/identification --wait 60',
        ),
    ],
)
def test_a_bag_is_played_into_the_namespace(ros, launch, prefix, player, topic, words):
    arguments = [f'topic:={topic}'] if topic else []
    process = launch('replay', 'bag:=run', 'namespace:=cell', f'player:={player}', *arguments)
    said = output_until(ros, prefix, 'replay', 'played with')
    assert said.endswith(words)
    assert end(process) == 0


def output_until(ros, prefix, name, text, seconds=START):
    """Wait until a launch file has said a line with ``text``; return the line."""
    lines = []

    def said():
        lines[:] = [line for line in output(prefix, name).splitlines() if text in line]
        return lines

    ros.wait_until(said, seconds, text)
    return lines[0]


@pytest.mark.slow
def test_two_arms_by_inclusion_each_in_its_namespace_with_parameters_of_its_own(
    ros, launch, prefix
):
    from rosgraph_msgs.msg import Clock
    from sensor_msgs.msg import JointState

    process = launch('two_arms', 'recordings:=/data', folder=EXAMPLE.parent)
    for side in ('left', 'right'):
        for name in NODES['simulation']:
            ros.wait_for_node(f'/{side}/{name}', timeout=START)
        states = ros.subscribe(JointState, f'/{side}/joint_states', 1000)
        clock = ros.subscribe(Clock, f'/{side}/clock', 1000)
        ros.wait_until(lambda s=states, c=clock: s and c, START, f'/{side}/joint_states')
    topics = {name for name, _ in ros.node.get_topic_names_and_types()}
    assert not topics & {'/clock', '/joint_states', '/joint_trajectory', '/robot_description'}

    def value(node, name):
        return ros.get_parameters(node, name)[name]

    # the user's file goes before the package's, whose other lines remain
    assert value('/right/simulation', 'rate') == 500.0
    assert value('/right/simulation', 'encoder_counts') == 1048576.0
    assert value('/right/excitation', 'planner.duration') == 10.0
    assert value('/right/excitation', 'execute') is True
    # nothing of the one arm reaches the other
    assert value('/left/simulation', 'rate') == 1000.0
    assert value('/left/excitation', 'planner.duration') == 20.0
    # arguments go before both files
    for side in ('left', 'right'):
        assert value(f'/{side}/recorder', 'output') == f'/data/{side}'
        assert value(f'/{side}/identification', 'output') == f'results/{side}'
    assert end(process) == 0
    assert 'Traceback' not in output(prefix, 'two_arms')


@pytest.mark.parametrize(
    ('pushed', 'given', 'full'),
    [
        (None, '', '/'),
        (None, 'left', '/left'),
        ('/cell', '', '/cell'),
        ('/cell', 'left', '/cell/left'),
        ('/cell', '/left', '/left'),
    ],
)
def test_the_full_name_of_the_namespace(pushed, given, full):
    pytest.importorskip('launch_ros', reason='needs ROS 2 with launch_ros: no wheels exist')
    from launch import LaunchContext
    from robot_identification.nodes.launching import full_namespace

    context = LaunchContext()
    context.launch_configurations['namespace'] = given
    if pushed:
        context.launch_configurations['ros_namespace'] = pushed
    assert full_namespace(context) == full


@pytest.mark.slow
def test_a_parameter_file_that_is_missing_is_named(ros, launch, prefix):
    process = launch('identification', 'config:=nowhere.yaml')
    assert process.wait(60) == 1
    assert "the parameter file 'nowhere.yaml' does not exist" in output(prefix, 'identification')


@pytest.mark.slow
@pytest.mark.parametrize(
    ('name', 'arguments', 'words'),
    [
        ('simulation', ['namespace:=cell'], '/cell --controller joint_trajectory_controller'),
        ('identification', ['execute:=true', 'controller:=arm'], '/ --controller arm'),
        ('identification', ['config:=own.yaml'], '/ --controller mine'),
    ],
)
def test_the_controller_is_stopped_when_the_excitation_node_dies(
    ros, launch, prefix, name, arguments, words
):
    text = '/**/excitation: {ros__parameters: {controller: mine, execute: true}}'
    (prefix / 'own.yaml').write_text(text)
    process = launch(name, *arguments)
    node = '/cell/excitation' if name == 'simulation' else '/excitation'
    ros.wait_for_node(node, timeout=START)
    kill_excitation(prefix, name)
    said = output_until(ros, prefix, name, 'played with')
    assert said.endswith(f'played with node stop --namespace {words}')
    assert end(process) == 0


def kill_excitation(prefix, name):
    found = re.search(
        r'excitation_node-\d+\]: process started with pid \[(\d+)\]', output(prefix, name)
    )
    os.kill(int(found[1]), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ('arguments', 'killed'),
    [(['execute:=false'], True), ([], False), (['execute:=true'], False)],
)
def test_nobody_is_stopped_by_a_node_that_may_not_move_or_ends_by_itself(
    ros, launch, prefix, arguments, killed
):
    process = launch('identification', *arguments)
    for name in NODES['identification']:
        ros.wait_for_node(f'/{name}', timeout=START)
    if killed:
        kill_excitation(prefix, 'identification')
        output_until(ros, prefix, 'identification', 'process has died')
    assert end(process) == 0
    text = output(prefix, 'identification')
    assert '[stop' not in text and 'emergency' not in text, text


@pytest.mark.slow
def test_a_monitor_follows_and_has_no_client_of_a_controller(ros, launch, prefix):
    from rclpy.action import get_action_client_names_and_types_by_node

    process = launch('monitor')
    for name in NODES['monitor']:
        ros.wait_for_node(f'/{name}', timeout=START)
    parameters = ros.get_parameters('/identification', 'online.enabled')
    assert parameters == {'online.enabled': True}
    for name in NODES['monitor']:
        for found in (
            get_action_client_names_and_types_by_node(ros.node, name, '/'),
            ros.node.get_publisher_names_and_types_by_node(name, '/'),
        ):
            kinds = {kind for _, types in found for kind in types}
            assert not any('Trajectory' in kind for kind in kinds)
    assert end(process) == 0
    assert 'Traceback' not in output(prefix, 'monitor')


# ------------------------------------------ Gazebo and RViz, with other programs in their place

GAZEBO = """
import json
from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration

NAMES = ('gz_args', 'on_exit_shutdown')


def start(context):
    values = {name: LaunchConfiguration(name).perform(context) for name in NAMES}
    Path('gazebo.part').write_text(json.dumps(values))
    Path('gazebo.part').rename('gazebo.json')
    return [ExecuteProcess(cmd=['sleep', '600'], name='gazebo', on_exit=Shutdown())]


def generate_launch_description():
    arguments = [DeclareLaunchArgument(name, default_value='') for name in NAMES]
    return LaunchDescription([*arguments, OpaqueFunction(function=start)])
"""

PROGRAM = """#!{python}
import json
from pathlib import Path
import sys

names = [word.removeprefix('__node:=') for word in sys.argv if word.startswith('__node:=')]
name = (names or ['{name}'])[0]
if '{name}' == 'robot_state_publisher':
    files = [word for word in sys.argv if '/launch_params' in word]
    Path(name + '.yaml').write_text('---'.join(Path(file).read_text() for file in files))
part = Path(name + '.part')
part.write_text(json.dumps(sys.argv[1:]))
part.rename(name + '.json')
"""


@pytest.fixture
def stand_ins(prefix):
    """Install programs that have the names of others' and note what they are asked."""
    for package, program in (
        ('ros_gz_bridge', 'parameter_bridge'),
        ('ros_gz_sim', 'create'),
        ('controller_manager', 'spawner'),
        ('robot_state_publisher', 'robot_state_publisher'),
        ('rviz2', 'rviz2'),
        ('tf2_ros', 'static_transform_publisher'),
    ):
        (prefix / 'share' / 'ament_index' / 'resource_index' / 'packages' / package).touch()
        path = prefix / 'lib' / package / program
        path.parent.mkdir(parents=True)
        path.write_text(PROGRAM.format(python=sys.executable, name=program))
        path.chmod(0o755)
    share = prefix / 'share' / 'ros_gz_sim' / 'launch'
    share.mkdir(parents=True)
    (share / 'gz_sim.launch.py').write_text(GAZEBO)
    return prefix


def asked(prefix, ros, name):
    """Return the words that a stand-in was started with, before and after ``--ros-args``."""
    path = prefix / f'{name}.json'
    ros.wait_until(path.is_file, START, f'start of {name}')
    words = json.loads(path.read_text())
    if isinstance(words, dict):
        return words
    return words[: words.index('--ros-args')], words[words.index('--ros-args') :]


@pytest.mark.slow
def test_gazebo_gets_the_arm_its_controllers_and_a_clock(ros, launch, stand_ins):
    process = launch('gazebo', 'gui:=false')
    gazebo = asked(stand_ins, ros, 'gazebo')
    assert gazebo == {
        'gz_args': '-r -v 3 -s --headless-rendering empty.sdf',
        'on_exit_shutdown': 'true',
    }
    assert asked(stand_ins, ros, 'clock_bridge')[0] == [
        '/clock@rosgraph_msgs/msg/Clock[gz.msgs.Clock'
    ]
    assert asked(stand_ins, ros, 'create')[0][:2] == ['-topic', 'robot_description']
    yaml_file = share(stand_ins) / 'config' / 'demo_arm_controllers.yaml'
    assert asked(stand_ins, ros, 'spawner')[0] == [
        *('joint_state_broadcaster', 'joint_trajectory_effort_controller'),
        *('--param-file', str(yaml_file)),
    ]
    for name in NODES['gazebo']:
        ros.wait_for_node(f'/{name}', timeout=START)
        assert ros.get_parameters(f'/{name}', 'use_sim_time')['use_sim_time'] is True
    values = ros.get_parameters('/excitation', 'execute', 'controller')
    assert values == {
        'execute': True,
        'controller': 'joint_trajectory_effort_controller',
    }
    assert end(process) == 0
    assert 'Traceback' not in output(stand_ins, 'gazebo')


@pytest.mark.slow
def test_gazebo_with_efforts_in_a_namespace(ros, launch, stand_ins):
    process = launch('gazebo', 'namespace:=cell', 'command_interface:=effort')
    assert asked(stand_ins, ros, 'gazebo')['gz_args'] == '-r -v 3 empty.sdf'
    words, ros_words = asked(stand_ins, ros, 'spawner')
    assert words[1] == 'joint_trajectory_effort_controller'
    assert '__ns:=/cell' in ros_words
    asked(stand_ins, ros, 'robot_state_publisher')
    text = (stand_ins / 'robot_state_publisher.yaml').read_text()
    assert '<namespace>/cell</namespace>' in text and 'gz_ros2_control/GazeboSimSystem' in text
    assert 'command_interface name="effort"' in text.replace('\\', '')
    ros.wait_for_node('/cell/excitation', timeout=START)
    values = ros.get_parameters('/cell/excitation', 'controller')
    assert values == {'controller': 'joint_trajectory_effort_controller'}
    assert end(process) == 0


@pytest.mark.slow
def test_everything_ends_with_gazebo(ros, launch, stand_ins):
    process = launch('gazebo')
    ros.wait_for_node('/identification', timeout=START)
    found = re.search(r'gazebo-\d+\]: process started with pid \[(\d+)\]', output(
        stand_ins, 'gazebo'
    ))  # fmt: skip
    os.kill(int(found[1]), signal.SIGKILL)
    assert process.wait(60) is not None


@pytest.mark.slow
def test_a_preview_has_a_robot_and_its_ghost(ros, launch, stand_ins):
    process = launch('simulation', 'preview:=true', 'namespace:=cell')
    words, ros_words = asked(stand_ins, ros, 'rviz2')
    assert words == ['-d', str(share(stand_ins) / 'config' / 'preview.rviz'), '-f', 'base_link']
    assert {'__ns:=/cell', '/clock:=clock'} <= set(ros_words)
    words, _ = asked(stand_ins, ros, 'preview_base')
    assert words == ['--frame-id', 'base_link', '--child-frame-id', 'preview/base_link']
    _, ros_words = asked(stand_ins, ros, 'preview_state_publisher')
    assert 'joint_states:=excitation/preview/joint_states' in ros_words
    assert '/tf:=tf' in ros_words and '/tf_static:=tf_static' in ros_words
    text = (stand_ins / 'preview_state_publisher.yaml').read_text()
    assert 'frame_prefix: preview/' in text and 'demo_arm' in text
    assert 'use_sim_time: true' in text
    _, ros_words = asked(stand_ins, ros, 'robot_state_publisher')
    # the simulation publishes robot_description, and nobody else does
    assert 'robot_description:=robot_state_publisher/description' in ros_words
    ros.wait_for_node('/cell/excitation', timeout=START)
    assert end(process) == 0


@pytest.mark.slow
def test_a_preview_without_a_urdf_has_no_ghost(ros, launch, stand_ins):
    process = launch('identification', 'preview:=true')
    words, _ = asked(stand_ins, ros, 'rviz2')
    assert words == ['-d', str(share(stand_ins) / 'config' / 'preview.rviz')]
    ros.wait_for_node('/excitation', timeout=START)
    assert not (stand_ins / 'preview_state_publisher.json').exists()
    assert end(process) == 0


def share(prefix):
    return prefix / 'share' / 'robot_identification'
