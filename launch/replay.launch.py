# SPDX-License-Identifier: Apache-2.0
"""
Play a bag for the regressor and the identification.

The nodes see the recorded joint states at the recorded times.  To identify, call the service
``identification/identify`` with the bag as ``source``; it reads the file itself, at full speed.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

PACKAGE = 'robot_identification'
CLOCK_RATE = '250'  # Hz; its default of 40 Hz is coarse for joint states at 1 kHz


def generate_launch_description():
    share = FindPackageShare(PACKAGE)
    arguments = [
        DeclareLaunchArgument('bag', description='Folder of the rosbag2 recording'),
        DeclareLaunchArgument(
            'robot',
            default_value='',
            description='URDF or xacro file of the robot; empty: the topic robot_description',
        ),
        DeclareLaunchArgument(
            'config',
            default_value=PathJoinSubstitution([share, 'config', 'identification.yaml']),
            description='YAML file with the parameters of the nodes',
        ),
        DeclareLaunchArgument(
            'namespace',
            default_value='',
            description='Namespace of all nodes; the one in which the bag was recorded',
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='true',
            choices=['true', 'false'],
            description="Whether the nodes take their time from the bag's /clock",
        ),
        DeclareLaunchArgument('rate', default_value='1.0', description='Speed of the replay'),
        DeclareLaunchArgument(
            'regressor',
            default_value='true',
            choices=['true', 'false'],
            description='Whether the regressor node is started, too',
        ),
    ]
    parameters = {
        'use_sim_time': ParameterValue(LaunchConfiguration('use_sim_time'), value_type=bool),
        'robot_description': ParameterValue(LaunchConfiguration('robot'), value_type=str),
    }

    def node(name, **options):
        return Node(
            package=PACKAGE,
            executable=f'{name}_node',
            name=name,
            namespace=LaunchConfiguration('namespace'),
            parameters=[LaunchConfiguration('config'), parameters],
            output='screen',
            **options,
        )

    player = ExecuteProcess(
        cmd=[
            *('ros2', 'bag', 'play', LaunchConfiguration('bag')),
            *('--clock', CLOCK_RATE, '--rate', LaunchConfiguration('rate')),
        ],
        output='screen',
    )
    return LaunchDescription(
        [
            *arguments,
            node('identification'),
            node('regressor', condition=IfCondition(LaunchConfiguration('regressor'))),
            player,
        ]
    )
