# SPDX-License-Identifier: Apache-2.0
"""
Start recorder, online identification and observer beside a robot that others move.

Nothing that these nodes do moves or stops a robot: none of them is a client of a controller.  The
observer needs the argument ``result``; without, it says so in ``/diagnostics``.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from robot_identification.nodes.launching import own_nodes, remapped, SWITCH

NODES = {
    'recorder': {'output': '{recordings}'},
    'identification': {
        'robot_description': '{robot}',
        'experiment': '{experiment}',
        'output': '{results}',
        'recordings': '{recordings}',
        'online.enabled': 'true',
    },
    'observer': {'result': '{result}'},
}
"""The nodes, and the parameters that arguments set."""

REMAPPINGS = {'joint_states': '{joint_states}'}
"""Names that all nodes use, and the arguments that change them."""

ARGUMENTS = [
    DeclareLaunchArgument(
        'robot',
        default_value='',
        description='URDF or xacro file of the robot, a path or package://; empty: what the topic '
        'robot_description brings',
    ),
    DeclareLaunchArgument(
        'result',
        default_value='',
        description='The result.yaml of the identified robot, or its folder, for the observer; '
        'empty: as in the configuration, none',
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
        description='Namespace of all nodes, topics, services and actions: that of the robot',
    ),
    DeclareLaunchArgument(
        'use_sim_time',
        default_value='',
        choices=SWITCH,
        description='Whether the nodes take their time from /clock, as with Gazebo; empty: as in '
        'the configuration, where they do not',
    ),
    DeclareLaunchArgument(
        'joint_states',
        default_value='',
        description='Topic of the joint states, where the driver calls it otherwise (Franka: '
        'franka/joint_states); empty: joint_states',
    ),
    DeclareLaunchArgument(
        'experiment',
        default_value='',
        description='Experiment file that tells how to identify this robot; empty: none',
    ),
    DeclareLaunchArgument(
        'recordings',
        default_value='',
        description='Folder of the recordings; empty: as in the configuration, recordings',
    ),
    DeclareLaunchArgument(
        'results',
        default_value='',
        description='Folder of the results; empty: as in the configuration, results',
    ),
]


def start(context):
    """Start the nodes with what the arguments say."""
    return own_nodes(
        context, NODES, 'identification.yaml', remappings=remapped(context, REMAPPINGS)
    )


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
