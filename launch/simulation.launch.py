# SPDX-License-Identifier: Apache-2.0
"""
Start all five nodes with a robot that is simulated in MuJoCo.

Plan, move and record with the actions ``excitation/plan`` and ``excitation/excite``, then call the
service ``identification/identify``.  Where the simulation ends, everything ends.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from robot_identification.nodes.launching import (
    argument,
    common_arguments,
    own_nodes,
    preview,
    remapped,
    shared,
    stopping,
    SWITCH,
)

NODES = {
    'simulation': {'robot_description': '{robot}', 'truth_file': '{truth}'},
    # the others get the robot from the topic robot_description
    'excitation': {'execute': '{execute}'},
    'recorder': {'output': '{recordings}'},
    'regressor': {},
    'identification': {
        'output': '{results}',
        'recordings': '{recordings}',
        'online.enabled': '{online}',
    },
}
"""The nodes, and the parameters that arguments set."""

REMAPPINGS = {'/clock': 'clock', '/tf': 'tf', '/tf_static': 'tf_static'}
"""
In a namespace the clock and the preview's frames are there too.

So two simulations keep their own time, and links of one name are not mixed.
"""

ARGUMENTS = [
    DeclareLaunchArgument(
        'robot',
        default_value='',
        description='URDF or xacro file of the simulated robot, a path or package://; empty: the '
        'demonstration arm',
    ),
    DeclareLaunchArgument(
        'config',
        default_value='',
        description='YAML file of parameters that go before those of config/simulation.yaml; '
        'empty: none',
    ),
    DeclareLaunchArgument(
        'namespace',
        default_value='',
        description='Namespace of all nodes and topics, /clock and /tf included',
    ),
    DeclareLaunchArgument(
        'use_sim_time',
        default_value='true',
        choices=['true', 'false'],
        description='Whether the nodes take their time from the simulation',
    ),
    DeclareLaunchArgument(
        'execute',
        default_value='',
        choices=SWITCH,
        description='Whether the excitation node may move the robot; empty: as in the '
        'configuration, where it may, since nothing but a simulation moves',
    ),
    DeclareLaunchArgument(
        'truth',
        default_value='',
        description="File that gets the simulated robot's true parameters; empty: none",
    ),
    *common_arguments(),
]


def start(context):
    """Start the nodes with what the arguments say."""
    robot = argument(context, 'robot') or shared('urdf', 'demo_arm.urdf')
    names = remapped(context, REMAPPINGS)
    options = {
        'simulation': {'on_exit': Shutdown(reason='the simulation has ended')},
        'excitation': stopping(context, 'simulation.yaml'),
    }
    return [
        *own_nodes(context, NODES, 'simulation.yaml', options, remappings=names),
        *preview(context, robot, robot_too=True, remappings=names),
    ]


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
