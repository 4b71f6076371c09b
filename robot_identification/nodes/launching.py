# SPDX-License-Identifier: Apache-2.0
"""
Nodes of the launch files, and their parameters.

A parameter comes from the first of these that has it: an argument of the launch file, the user's
own parameter file (argument ``config``), the launch file's own one in ``config/``, the node.

The wheels do not have `launch` and `launch_ros`, so they are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
import re
from typing import Any

import yaml

from ..errors import SettingsError
from ..model.urdf import parse_urdf
from ..model.urdf_files import read_urdf, resolve_package_path

PACKAGE = 'robot_identification'

SWITCH = ['true', 'false', '']
"""Choices of an argument that sets a parameter; empty leaves it to the parameter file."""

_PROGRAM = 'robot-identification'

GRACE = '20'
"""Time for a process to end after Ctrl-C before launch terminates it; 5 s is usual [s]."""

_EVERYWHERE = {'use_sim_time': '{use_sim_time}'}

_ARGUMENT = re.compile(r'{(\w+)}')


def common_arguments() -> list[Any]:
    """Return declarations of the arguments that mean the same with every robot."""
    from launch.actions import DeclareLaunchArgument

    return [
        DeclareLaunchArgument(
            'preview',
            default_value='false',
            choices=['true', 'false'],
            description='Whether RViz opens, which shows what the service excitation/preview '
            'answers; the ghost that goes through the motion needs the argument robot, unless '
            'the robot is simulated',
        ),
        DeclareLaunchArgument(
            'online',
            default_value='',
            choices=SWITCH,
            description='Whether the robot is identified while it moves; empty: as in the '
            'configuration, where it is not',
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


def own_nodes(
    context: Any,
    nodes: Mapping[str, Mapping[str, str]],
    defaults: str,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **common: Any,
) -> list[Any]:
    """
    Return actions that start nodes of the suite.

    Parameters
    ----------
    context:
        The launch context, with the arguments ``config``, ``namespace`` and ``use_sim_time``.
    nodes:
        By the node's name, the parameters that arguments set: their names, and values with
        arguments in braces.  Where one of these arguments is empty the parameter is left alone.
    defaults:
        Name of the parameter file in ``config/``.
    options, **common:
        Further options of single nodes, by name, and of all, for example ``remappings``.

    Raises
    ------
    SettingsError
        where the user's parameter file does not exist.

    """
    from launch.substitutions import LaunchConfiguration
    from launch_ros.actions import Node

    files = parameter_files(context, defaults)
    return [
        Node(
            package=PACKAGE,
            executable=f'{name}_node',
            name=name,
            namespace=LaunchConfiguration('namespace'),
            parameters=[*files, *given(context, {**_EVERYWHERE, **parameters})],
            output='screen',
            **grace(),
            **{**common, **(options or {}).get(name, {})},
        )
        for name, parameters in nodes.items()
    ]


def grace() -> dict[str, Any]:
    """Return the options of processes that get `GRACE` to end."""
    from launch.substitutions import LaunchConfiguration

    return {'sigterm_timeout': LaunchConfiguration('sigterm_timeout', default=GRACE)}


def parameter_files(context: Any, defaults: str) -> list[str]:
    """Return the launch file's own parameter file and then, where one is given, the user's."""
    files = [shared('config', defaults)]
    if chosen := argument(context, 'config'):
        path = resolve_package_path(chosen)
        if not path.is_file():
            raise SettingsError(
                f"the parameter file '{chosen}' does not exist",
                key='config',
                value=chosen,
                remedy='correct the launch argument config',
            )
        files.append(str(path))
    return files


def given(context: Any, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    """
    Return the parameters whose arguments are given, for `launch_ros.actions.Node`.

    Texts stay texts, whatever they look like; ``true`` and ``false`` are switches.
    """
    values: dict[str, Any] = {}
    for name, text in _filled(context, parameters):
        switch = text in ('true', 'false')
        values[name] = text == 'true' if switch else _text(text)
    return [values] if values else []


def remapped(context: Any, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """
    Return the remappings whose arguments are given, for `launch_ros.actions.Node`.

    ``names`` has, by the name in the node, the other name, with arguments in braces.
    """
    return list(_filled(context, names))


def _filled(context: Any, templates: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Fill in the arguments of templates; omit templates with an empty argument."""
    for name, template in templates.items():
        arguments = {word: argument(context, word) for word in _ARGUMENT.findall(template)}
        if all(arguments.values()):
            yield name, template.format(**arguments)


def stopping(context: Any, defaults: str, controller: str = '') -> dict[str, Any]:
    """
    Return an option of the excitation node: its goals are canceled when it has been killed.

    One that may not move the robot has none, and one that ends by itself has canceled them.
    ``defaults`` is the parameter file, as of `own_nodes`, which has the parameters ``execute`` and
    ``controller`` where the launch argument and the argument of this function are empty.
    """
    from launch.actions import ExecuteProcess
    from launch_ros.substitutions import ExecutableInPackage

    files = parameter_files(context, defaults)
    execute = argument(context, 'execute') or _parameter(files, 'excitation', 'execute')
    if execute.lower() != 'true':
        return {}
    name = controller or _parameter(files, 'excitation', 'controller')
    words: list[Any] = [ExecutableInPackage(_PROGRAM, PACKAGE), 'node', 'stop']
    words += ['--namespace', full_namespace(context)]
    if name:
        words += ['--controller', name]

    def on_exit(event: Any, _: Any) -> list[Any]:
        stop = ExecuteProcess(cmd=words, name='stop', output='screen')
        return [stop] if event.returncode else []

    return {'on_exit': on_exit}


def _parameter(files: Sequence[str], node: str, name: str) -> str:
    """Return a parameter of a node from the last parameter file that has it; '' where none has."""
    sections = [
        section.get('ros__parameters') or {}
        for file in reversed(files)
        for pattern, section in (yaml.safe_load(Path(file).read_text()) or {}).items()
        if isinstance(section, dict) and pattern.rpartition('/')[2] in (node, '**', '*')
    ]
    return next((str(values[name]) for values in sections if name in values), '')


def preview(
    context: Any,
    robot: str,
    *,
    robot_too: bool = False,
    remappings: Sequence[tuple[str, str]] = (),
) -> list[Any]:
    """
    Return nodes that show ``excitation/preview`` in RViz, if the argument ``preview`` is true.

    The robot is the URDF, its path or package://; where it is empty, the motion is not shown as a
    robot.  ``robot_too`` publishes the robot's own transforms, too; the remappings are of all
    nodes.
    """
    from launch.substitutions import LaunchConfiguration
    from launch_ros.actions import Node

    if argument(context, 'preview') != 'true':
        return []
    urdf = read_urdf(robot)[0] if robot else ''
    root = parse_urdf(urdf).root_link if urdf else ''
    clock = given(context, _EVERYWHERE)
    common: dict[str, Any] = {'namespace': LaunchConfiguration('namespace'), 'output': 'screen'}

    def node(package: str, program: str, words: Sequence[str], **more: Any) -> Any:
        options = {'parameters': clock, 'remappings': [*remappings], **more}
        return Node(package=package, executable=program, arguments=[*words], **common, **options)

    def states(name: str, prefix: str, topic: str) -> Any:
        # for RViz alone
        own = [('joint_states', topic), ('robot_description', f'{name}/description')]
        return node(
            'robot_state_publisher',
            'robot_state_publisher',
            [],
            name=name,
            parameters=[{'robot_description': _text(urdf), 'frame_prefix': prefix}, *clock],
            remappings=[*remappings, *own],
        )

    view = ['-d', shared('config', 'preview.rviz')]
    if not urdf:
        return [node('rviz2', 'rviz2', view)]
    base = ['--frame-id', root, '--child-frame-id', f'preview/{root}']
    shown = [
        node('rviz2', 'rviz2', [*view, '-f', root]),
        node('tf2_ros', 'static_transform_publisher', base, name='preview_base'),
        states('preview_state_publisher', 'preview/', 'excitation/preview/joint_states'),
    ]
    if robot_too:
        shown.append(states('robot_state_publisher', '', 'joint_states'))
    return shown


def _text(value: str) -> Any:
    """Return a parameter that is a text, whatever it looks like."""
    from launch_ros.parameter_descriptions import ParameterValue

    return ParameterValue(value, value_type=str)


def argument(context: Any, name: str) -> str:
    """Return the value of a launch argument."""
    from launch.substitutions import LaunchConfiguration

    return str(LaunchConfiguration(name).perform(context))


def full_namespace(context: Any) -> str:
    """Return where the nodes are: the argument ``namespace`` below what including files pushed."""
    from launch_ros.utilities import make_namespace_absolute, prefix_namespace

    pushed = context.launch_configurations.get('ros_namespace')
    namespace = prefix_namespace(pushed, argument(context, 'namespace'))
    return str(make_namespace_absolute(namespace or '/')).rstrip('/') or '/'


def shared(*parts: str) -> str:
    """Return the path of a file of this package, installed or beside its sources."""
    return str(resolve_package_path('/'.join((f'package://{PACKAGE}', *parts))))
