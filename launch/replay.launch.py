# SPDX-License-Identifier: Apache-2.0
"""
Play a bag for the regressor and the identification.

The nodes see the recorded joint states at the recorded times, from the first one on: the bag is
played when the identification says that it is ready.  To identify, call the service
``identification/identify`` with the bag as ``source``; it reads the file itself, at full speed.
To identify while the bag plays, give ``online:=true``.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction
from launch_ros.substitutions import ExecutableInPackage
from robot_identification.nodes.launching import argument, full_namespace, grace, own_nodes, SWITCH

CLOCK_RATE = '250'  # Hz; its default of 40 Hz is coarse for joint states at 1 kHz
PATIENCE = '60'  # s, in which the identification has to be ready
ACKNOWLEDGED = '10000'  # ms, in which the last messages have to be received

NODES = {
    'identification': {
        'robot_description': '{robot}',
        'experiment': '{experiment}',
        'output': '{results}',
        'recordings': '{bag}',
        'online.enabled': '{online}',
    },
    'regressor': {'robot_description': '{robot}'},
}
"""The nodes, and the parameters that arguments set."""

ARGUMENTS = [
    DeclareLaunchArgument('bag', description='Folder of the rosbag2 recording'),
    DeclareLaunchArgument(
        'robot',
        default_value='',
        description='URDF or xacro file of the robot, a path or package://; empty: what the topic '
        'robot_description brings',
    ),
    DeclareLaunchArgument(
        'topic',
        default_value='',
        description="Topic of the joint states in the bag; empty: this namespace's joint_states",
    ),
    DeclareLaunchArgument(
        'config',
        default_value='',
        description='YAML file of parameters that go before those of config/identification.yaml; '
        'empty: none',
    ),
    DeclareLaunchArgument(
        'namespace',
        default_value='',
        description='Namespace of all nodes and of what is played, /clock included',
    ),
    DeclareLaunchArgument(
        'use_sim_time',
        default_value='true',
        choices=['true', 'false'],
        description="Whether the nodes take their time from the bag's /clock",
    ),
    DeclareLaunchArgument('rate', default_value='1.0', description='Speed of the replay'),
    DeclareLaunchArgument(
        'player',
        default_value='own',
        choices=['own', 'rosbag2'],
        description="What plays the bag: this package's robot-identification play, which begins "
        'when the identification hears it, or ros2 bag play',
    ),
    DeclareLaunchArgument(
        'regressor',
        default_value='true',
        choices=['true', 'false'],
        description='Whether the regressor node is started, too',
    ),
    DeclareLaunchArgument(
        'online',
        default_value='',
        choices=SWITCH,
        description='Whether the robot is identified while the bag plays; empty: as in the '
        'configuration, where it is not',
    ),
    DeclareLaunchArgument(
        'experiment',
        default_value='',
        description='Experiment file that tells how to identify this robot; empty: none',
    ),
    DeclareLaunchArgument(
        'results',
        default_value='',
        description='Folder of the results; empty: as in the configuration, results',
    ),
]


def start(context):
    """Start the nodes with what the arguments say, and the player."""
    nodes = dict(NODES)
    if argument(context, 'regressor') == 'false':
        del nodes['regressor']
    return [
        # in a namespace the clock is there too, so that two replays keep their own time
        *own_nodes(context, nodes, 'identification.yaml', remappings=[('/clock', 'clock')]),
        ExecuteProcess(cmd=command(context), name='player', output='screen', **grace()),
    ]


def command(context):
    """Return the words of the command that plays the bag into the namespace."""
    here = full_namespace(context).rstrip('/')
    bag, rate = argument(context, 'bag'), argument(context, 'rate')
    states, clock = f'{here}/joint_states', f'{here}/clock'
    recorded = argument(context, 'topic') or states
    identification = f'{here}/identification'
    program = ExecutableInPackage('robot-identification', 'robot_identification')
    if argument(context, 'player') == 'rosbag2':
        words = [program, 'wait', '--timeout', PATIENCE, identification, '--']
        words += ['ros2', 'bag', 'play', bag, '--clock', CLOCK_RATE, '--rate', rate]
        words += ['--start-paused', '--wait-for-all-acked', ACKNOWLEDGED]
        moved = [
            f'{old}:={new}' for old, new in ((recorded, states), ('/clock', clock)) if old != new
        ]
        return [*words, '--remap', *moved] if moved else words
    words = [program, 'play', bag, '--clock', CLOCK_RATE, '--rate', rate]
    words += ['--topic', recorded, '--to', states, '--clock-topic', clock]
    words += ['--follower', identification, '--wait', PATIENCE]
    return words


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
