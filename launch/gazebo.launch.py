# SPDX-License-Identifier: Apache-2.0
"""
Start Gazebo Harmonic with the demonstration arm, its controllers, and the nodes that identify it.

Gazebo moves the arm through gz_ros2_control: joint_state_broadcaster publishes joint_states at
1 kHz, and a joint_trajectory_controller follows the excitation.  docs/how_to/gazebo.md tells what
to type then, and what comes out.  Where Gazebo ends, everything ends.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare
from robot_identification.model.urdf_files import read_urdf, resolve_package_path
from robot_identification.nodes.launching import (
    argument,
    common_arguments,
    full_namespace,
    own_nodes,
    preview,
    shared,
    stopping,
    SWITCH,
)

NODES = {
    # all get the robot from the topic robot_description
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

CONTROLLERS = {
    'position': 'joint_trajectory_controller',
    'effort': 'joint_trajectory_effort_controller',
}
"""What follows trajectories, by what it commands; config/demo_arm_controllers.yaml has both."""

CLOCK = '/clock@rosgraph_msgs/msg/Clock[gz.msgs.Clock'
"""What ros_gz_bridge takes from Gazebo: one clock for all robots in it."""

ARGUMENTS = [
    DeclareLaunchArgument(
        'robot',
        default_value='',
        description='URDF or xacro file with ros2_control and the gz_ros2_control plugin; empty: '
        'the demonstration arm, urdf/demo_arm.urdf.xacro',
    ),
    DeclareLaunchArgument(
        'command_interface',
        default_value='effort',
        choices=list(CONTROLLERS),
        description='What the controller commands: effort, by a PID controller, or position, '
        'whose torques are too rough to identify from',
    ),
    DeclareLaunchArgument(
        'controller',
        default_value='',
        description='Name of the controller that takes trajectories; empty: that of '
        'config/demo_arm_controllers.yaml for the command_interface',
    ),
    DeclareLaunchArgument(
        'controllers',
        default_value='',
        description='YAML file of the controller manager and its controllers; empty: '
        'config/demo_arm_controllers.yaml',
    ),
    DeclareLaunchArgument(
        'gui',
        default_value='true',
        choices=['true', 'false'],
        description="Whether Gazebo's window opens; without, Gazebo runs on machines that have no "
        'screen',
    ),
    DeclareLaunchArgument(
        'world', default_value='empty.sdf', description='World file that Gazebo opens'
    ),
    DeclareLaunchArgument(
        'config',
        default_value='',
        description='YAML file of parameters that go before those of config/gazebo.yaml; empty: '
        'none',
    ),
    DeclareLaunchArgument(
        'namespace',
        default_value='',
        description='Namespace of all nodes, controllers, topics, services and actions; /clock '
        'alone stays outside',
    ),
    DeclareLaunchArgument(
        'use_sim_time',
        default_value='true',
        choices=['true', 'false'],
        description='Whether the nodes take their time from Gazebo',
    ),
    DeclareLaunchArgument(
        'execute',
        default_value='',
        choices=SWITCH,
        description='Whether the excitation node may move the robot; empty: as in the '
        'configuration, where it may, since nothing but a simulation moves',
    ),
    *common_arguments(),
]


def start(context):
    """Start everything with what the arguments say."""
    controllers = argument(context, 'controllers') or shared('config', 'demo_arm_controllers.yaml')
    controllers = str(resolve_package_path(controllers).absolute())  # Gazebo runs elsewhere
    usual = CONTROLLERS[argument(context, 'command_interface')]
    controller = argument(context, 'controller') or usual
    nodes = {**NODES, 'excitation': {**NODES['excitation'], 'controller': controller}}
    options = {'excitation': stopping(context, 'gazebo.yaml', controller)}
    urdf = description(context, controllers)
    return [
        gazebo(context),
        bridge(),
        robot_state_publisher(urdf),
        spawn(),
        spawn_controllers(controller, controllers),
        *own_nodes(context, nodes, 'gazebo.yaml', options),
        *preview(context, urdf),
    ]


def gazebo(context):
    """Return what starts Gazebo, running, with or without a window."""
    window = '' if argument(context, 'gui') == 'true' else ' -s --headless-rendering'
    file = PathJoinSubstitution([FindPackageShare('ros_gz_sim'), 'launch', 'gz_sim.launch.py'])
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource(file),
        launch_arguments={
            'gz_args': f'-r -v 3{window} {argument(context, "world")}',
            'on_exit_shutdown': 'true',
        }.items(),
    )


def bridge():
    """Return what publishes Gazebo's time on /clock."""
    return Node(
        package='ros_gz_bridge',
        executable='parameter_bridge',
        name='clock_bridge',
        arguments=[CLOCK],
        output='screen',
    )


def description(context, controllers):
    """Return the URDF of the robot with all that Gazebo needs."""
    urdf, _ = read_urdf(
        argument(context, 'robot') or shared('urdf', 'demo_arm.urdf.xacro'),
        {
            'use_gazebo': 'true',
            'command_interface': argument(context, 'command_interface'),
            'controllers': controllers,
            'namespace': full_namespace(context),
        },
    )
    return urdf


def robot_state_publisher(urdf):
    """Return what publishes robot_description, for Gazebo and for the nodes."""
    return Node(
        package='robot_state_publisher',
        executable='robot_state_publisher',
        namespace=LaunchConfiguration('namespace'),
        parameters=[
            {'robot_description': ParameterValue(urdf, value_type=str), 'use_sim_time': True}
        ],
        output='screen',
    )


def spawn():
    """Return what puts the robot into Gazebo."""
    return Node(
        package='ros_gz_sim',
        executable='create',
        namespace=LaunchConfiguration('namespace'),
        arguments=['-topic', 'robot_description', '-allow_renaming', 'true'],
        output='screen',
    )


def spawn_controllers(controller, controllers):
    """Return what starts the controllers, once the controller manager in Gazebo is there."""
    return Node(
        package='controller_manager',
        executable='spawner',
        namespace=LaunchConfiguration('namespace'),
        arguments=[
            *('joint_state_broadcaster', controller),
            *('--param-file', controllers),
        ],
        output='screen',
    )


def generate_launch_description():
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=start)])
