# SPDX-License-Identifier: Apache-2.0
"""
Start excitation, recorder, regressor and identification for a real robot.

The robot's driver and a controller that takes trajectories (ros2_control's
joint_trajectory_controller, for example) have to run.  Without ``execute:=true`` trajectories are
planned and checked, and nothing moves.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from robot_identification.nodes.launching import (
    argument,
    common_arguments,
    own_nodes,
    preview,
    remapped,
    stopping,
    SWITCH,
)

NODES = {
    'excitation': {
        'robot_description': '{robot}',
        'execute': '{execute}',
        'controller': '{controller}',
    },
    'recorder': {'output': '{recordings}'},
    'regressor': {'robot_description': '{robot}'},
    'identification': {
        'robot_description': '{robot}',
        'experiment': '{experiment}',
        'output': '{results}',
        'recordings': '{recordings}',
        'online.enabled': '{online}',
    },
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
        'execute',
        default_value='',
        choices=SWITCH,
        description='Whether the excitation node may move the robot; empty: as in the '
        'configuration, where it may not',
    ),
    DeclareLaunchArgument(
        'controller',
        default_value='',
        description='Name of the joint_trajectory_controller that executes the motion; empty: as '
        'in the configuration',
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
    *common_arguments(),
]


def start(context):
    """Start the nodes with what the arguments say."""
    options = {
        'excitation': stopping(context, 'identification.yaml', argument(context, 'controller'))
    }
    return [
        *own_nodes(
            context,
            NODES,
            'identification.yaml',
            options,
            remappings=remapped(context, REMAPPINGS),
        ),
        *preview(context, argument(context, 'robot')),
    ]


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
