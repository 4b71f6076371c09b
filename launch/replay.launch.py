# SPDX-License-Identifier: Apache-2.0
"""
Play a bag for the regressor and the identification.

The nodes see the recorded joint states at the recorded times.  To identify, call the service
``identification/identify`` with the bag as ``source``; it reads the file itself, at full speed.
To identify while the bag plays, give ``online:=true``.
"""

from importlib.util import find_spec

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, TimerAction
from launch_ros.substitutions import ExecutableInPackage
from robot_identification.launching import argument, full_namespace, own_nodes, SWITCH

CLOCK_RATE = '250'  # Hz; its default of 40 Hz is coarse for joint states at 1 kHz
PATIENCE = '60'  # s, which our own player waits at most until somebody listens

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
        'delay',
        default_value='5.0',
        description='Seconds until the bag is played, in which the nodes start',
    ),
    DeclareLaunchArgument(
        'player',
        default_value='auto',
        choices=['auto', 'rosbag2', 'own'],
        description="What plays the bag: ros2 bag play, or this package's robot-identification "
        'play; auto: the former where it is installed',
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
        TimerAction(
            period=float(argument(context, 'delay')),
            actions=[ExecuteProcess(cmd=command(context), name='player', output='screen')],
        ),
    ]


def command(context):
    """Return the words of the command that plays the bag into the namespace."""
    here = full_namespace(context).rstrip('/')
    bag, rate = argument(context, 'bag'), argument(context, 'rate')
    states, clock = f'{here}/joint_states', f'{here}/clock'
    recorded = argument(context, 'topic') or states
    player = argument(context, 'player')
    if player == 'rosbag2' or (player == 'auto' and find_spec('ros2bag') is not None):
        words = ['ros2', 'bag', 'play', bag, '--clock', CLOCK_RATE, '--rate', rate]
        moved = [
            f'{old}:={new}' for old, new in ((recorded, states), ('/clock', clock)) if old != new
        ]
        return [*words, '--remap', *moved] if moved else words
    program = ExecutableInPackage('robot-identification', 'robot_identification')
    words = [program, 'play', bag, '--clock', CLOCK_RATE, '--rate', rate]
    words += ['--topic', recorded, '--to', states, '--clock-topic', clock, '--wait', PATIENCE]
    return words


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
