# SPDX-License-Identifier: Apache-2.0
"""
Two arms in one graph, identified at the same time: a launch file of one's own.

It includes the package's launch file once for each arm, below a namespace.  Here both arms are
simulated; for real ones take identification.launch.py, with their drivers in the same namespaces::

    ros2 launch two_arms.launch.py recordings:=/data/today

Then all is as with one arm, with /left or /right before each name.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import PushRosNamespace
from launch_ros.substitutions import FindPackageShare

HERE = Path(__file__).resolve().parent
FILE = [FindPackageShare('robot_identification'), 'launch', 'simulation.launch.py']


def arm(side):
    """Return all nodes of one arm."""
    source = PythonLaunchDescriptionSource(PathJoinSubstitution(FILE))
    arguments = {
        # not ThisLaunchFileDir, which is the included file's folder for what it is given
        'config': str(HERE / f'{side}.yaml'),
        'recordings': PathJoinSubstitution([LaunchConfiguration('recordings'), side]),
        'results': PathJoinSubstitution([LaunchConfiguration('results'), side]),
    }
    included = IncludeLaunchDescription(source, launch_arguments=arguments.items())
    # in a group, what is pushed and given for the one arm does not reach the other
    return GroupAction([PushRosNamespace(side), included])


def generate_launch_description():
    """Describe what is launched."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'recordings',
                default_value='recordings',
                description='Folder with a folder of recordings for each arm',
            ),
            DeclareLaunchArgument(
                'results',
                default_value='results',
                description='Folder with a folder of results for each arm',
            ),
            arm('left'),
            arm('right'),
        ]
    )
