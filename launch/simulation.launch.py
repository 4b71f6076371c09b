# SPDX-License-Identifier: Apache-2.0
"""
Start all five nodes with a robot that is simulated in MuJoCo.

Plan, move and record with the actions ``excitation/plan`` and ``excitation/excite``, then call the
service ``identification/identify``.  Where the simulation ends, everything ends.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

PACKAGE = 'robot_identification'


def generate_launch_description():
    share = FindPackageShare(PACKAGE)
    arguments = [
        DeclareLaunchArgument(
            'robot',
            default_value=PathJoinSubstitution([share, 'urdf', 'demo_arm.urdf']),
            description='URDF or xacro file of the simulated robot',
        ),
        DeclareLaunchArgument(
            'config',
            default_value=PathJoinSubstitution([share, 'config', 'simulation.yaml']),
            description='YAML file with the parameters of the nodes',
        ),
        DeclareLaunchArgument(
            'namespace', default_value='', description='Namespace of all nodes and topics'
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='true',
            choices=['true', 'false'],
            description='Whether the nodes take their time from the simulation (/clock)',
        ),
    ]
    sim_time = ParameterValue(LaunchConfiguration('use_sim_time'), value_type=bool)
    robot = ParameterValue(LaunchConfiguration('robot'), value_type=str)

    def node(name, parameters=None, **options):
        return Node(
            package=PACKAGE,
            executable=f'{name}_node',
            name=name,
            namespace=LaunchConfiguration('namespace'),
            parameters=[
                LaunchConfiguration('config'),
                {'use_sim_time': sim_time, **(parameters or {})},
            ],
            # in a namespace the clock is there too, so that two simulations keep their own time
            remappings=[('/clock', 'clock')],
            output='screen',
            **options,
        )

    return LaunchDescription(
        [
            *arguments,
            # the others get the robot from the topic robot_description
            node(
                'simulation',
                {'robot_description': robot},
                on_exit=Shutdown(reason='the simulation has ended'),
            ),
            node('excitation'),
            node('recorder'),
            node('regressor'),
            node('identification'),
        ]
    )
