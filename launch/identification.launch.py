# SPDX-License-Identifier: Apache-2.0
"""
Start excitation, recorder, regressor and identification for a real robot.

The robot's driver and a controller that takes trajectories (ros2_control's
joint_trajectory_controller, for example) have to run.  Without ``execute:=true`` trajectories are
planned and checked, and nothing moves.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
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
            default_value='',
            description='URDF or xacro file of the robot; empty: the topic robot_description',
        ),
        DeclareLaunchArgument(
            'config',
            default_value=PathJoinSubstitution([share, 'config', 'identification.yaml']),
            description='YAML file with the parameters of the nodes',
        ),
        DeclareLaunchArgument(
            'namespace', default_value='', description='Namespace of all nodes and topics'
        ),
        DeclareLaunchArgument(
            'use_sim_time',
            default_value='false',
            choices=['true', 'false'],
            description='Whether the nodes take their time from /clock, as with Gazebo',
        ),
        DeclareLaunchArgument(
            'execute',
            default_value='false',
            choices=['true', 'false'],
            description='Whether the excitation node may move the robot',
        ),
        DeclareLaunchArgument(
            'controller',
            default_value='joint_trajectory_controller',
            description='Name of the controller that takes trajectories',
        ),
    ]
    sim_time = ParameterValue(LaunchConfiguration('use_sim_time'), value_type=bool)
    robot = ParameterValue(LaunchConfiguration('robot'), value_type=str)
    execute = ParameterValue(LaunchConfiguration('execute'), value_type=bool)
    topic = [LaunchConfiguration('controller'), '/joint_trajectory']

    def node(name, parameters=None):
        return Node(
            package=PACKAGE,
            executable=f'{name}_node',
            name=name,
            namespace=LaunchConfiguration('namespace'),
            parameters=[
                LaunchConfiguration('config'),
                {'use_sim_time': sim_time, **(parameters or {})},
            ],
            output='screen',
        )

    return LaunchDescription(
        [
            *arguments,
            node(
                'excitation',
                {'robot_description': robot, 'execute': execute, 'controller_topic': topic},
            ),
            node('recorder'),
            node('regressor', {'robot_description': robot}),
            node('identification', {'robot_description': robot}),
        ]
    )
