# SPDX-License-Identifier: Apache-2.0
"""
Formats of exports: the table that the library, the command line and pages read.

Writers are imported when they are used: the names alone are read by each start of a command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TYPE_CHECKING

from ..errors import one_of, SettingsError, suggestion
from ..results.exported_files import (
    file_sentences,
    ISAACLAB,
    JointDynamics,
    MJCF,
    MODEL,
    URDF,
    URDF_TILTED,
)

if TYPE_CHECKING:
    from ..model.robot import Robot
    from ..regressor import ModelSettings
    from ..regressor.kinds import RobotKind


@dataclass(frozen=True)
class Format:
    """
    A format of exports.

    Attributes
    ----------
    doc:
        What it is, in a few words.
    write:
        Returns the text of a `Result` or `StoredResult`; None where only servos have it.
    write_servos:
        Returns the text of servos that were identified from commands; None where they have none.
    write_load:
        Returns the text of the load of a result, in the frame of a link, or of that it was
        identified in; None for formats of robots.
    suffix:
        Of its files; empty for that of its name.
    file:
        Which of `results.exported_files.FILES` says what such a file predicts alone; empty where
        it predicts nothing.
    write_tilted:
        Returns the text with the tilt of the base in its joints; None where a file holds gravity
        itself, or none.
    lacking:
        Names of the kinds of robots that it cannot express, see
        `robot_identification.regressor.kinds`.
    write_sets, write_servo_sets:
        Return the text, or the bytes, of so many sets of parameters of a result, or of servos,
        for domain randomisation; None where there is no such file.

    """

    doc: str
    write: Callable[[Any], str] | None = None
    write_servos: Callable[[Any], str] | None = None
    write_load: Callable[[Any, str | None], str] | None = None
    suffix: str = ''
    file: str = ''
    write_tilted: Callable[[Any], str] | None = None
    lacking: tuple[str, ...] = ()
    write_sets: Callable[[Any, int], str | bytes] | None = None
    write_servo_sets: Callable[[Any, int], str | bytes] | None = None


def _urdf(result: Any, *, tilted: bool = False) -> str:
    from .urdf_export import identified_urdf

    return identified_urdf(
        result.robot,
        result.standard,
        result.settings.model,
        dynamics=dynamics_of(result, URDF),
        tilt=_tilt(result) if tilted else (0.0, 0.0, 0.0),
    )


def _sdf(result: Any, *, tilted: bool = False) -> str:
    from .sdf_export import sdf

    return sdf(_urdf(result, tilted=tilted))


def dynamics_of(result: Any, file: str) -> JointDynamics | None:
    """Return the friction that was fitted for a file; None where none was."""
    return None if result.files is None else result.files.dynamics_of(file)


def _tilt(result: Any) -> tuple[float, float, float]:
    """Return the tilt of the base; raises SettingsError where none was found."""
    tilt = (0.0, 0.0, 0.0) if result.files is None else result.files.tilt
    if not any(tilt):
        raise SettingsError(
            'the result has no tilt of the base to write',
            key='tilt_in_base',
            remedy='leave the option out',
        )
    return tilt


def _yaml(result: Any) -> str:
    from .robot_export import parameters_yaml

    return parameters_yaml(result.to_document())


def _csv(result: Any) -> str:
    from .robot_export import parameters_csv

    return parameters_csv(result.to_document())


def _plotjuggler(result: Any) -> str:
    from .robot_export import plotjuggler_layout

    return plotjuggler_layout(result.robot.joints)


def _writer(module: str, name: str) -> Callable[..., str]:
    def write(*arguments: Any) -> str:
        text: str = getattr(import_module(f'.{module}', __package__), name)(*arguments)
        return text

    return write


_servo = partial(_writer, 'servo_exports')


def _load(name: str) -> Callable[[Any, str | None], str]:
    def write(result: Any, frame: str | None) -> str:
        from .load_exports import FlangeLoad, WRITERS

        return WRITERS[name](FlangeLoad.from_result(result, frame))

    return write


def _sets(name: str) -> Callable[[Any, int], str | bytes]:
    def write(result: Any, count: int) -> str | bytes:
        from . import parameter_sets

        text: str | bytes = getattr(parameter_sets, name)(
            parameter_sets.ArmSets.drawn(result, count)
        )
        return text

    return write


_OTHER_THAN_TREES = ('elastic', 'loops', 'delta', 'floating')

FORMATS = {
    'urdf': Format(
        "the robot's URDF with its <inertial> and <dynamics> elements replaced; all else stays "
        'as it is, comments included',
        _urdf,
        _servo('servo_urdf'),
        file=URDF,
        write_tilted=partial(_urdf, tilted=True),
    ),
    'mjcf': Format(
        'a model for MuJoCo: armature, damping, frictionloss, coupled drives, loops; of servos, '
        'with actuators',
        _writer('mjcf_export', 'result_mjcf'),  # MuJoCo is an extra
        _servo('servo_mjcf'),
        suffix='xml',
        file=MJCF,
        lacking=('delta',),
    ),
    'sdf': Format(
        'a model for Gazebo',
        _sdf,
        file=URDF,
        write_tilted=partial(_sdf, tilted=True),
        lacking=('floating',),
    ),
    'c': Format(
        'inverse dynamics, gravity and friction as C functions for a controller',
        _writer('c_export', 'result_c'),
        file=MODEL,
        lacking=('loops', 'delta', 'floating'),
    ),
    'yaml': Format(
        'a table of the parameters; with --samples, sets of them',
        _yaml,
        write_sets=_sets('sets_yaml'),
        write_servo_sets=_servo('sets_document'),
    ),
    'npz': Format('with --samples, sets of parameters as arrays', write_sets=_sets('sets_npz')),
    'csv': Format('a table of the parameters', _csv),
    'plotjuggler': Format(
        'a layout for PlotJuggler that shows what the nodes publish of the robot',
        _plotjuggler,
        lacking=('floating',),
    ),
    'moveit': Format(
        "MoveIt's joint_limits.yaml, with accelerations that efforts allow over the workspace",
        _writer('joint_limits', 'moveit_limits'),
        lacking=_OTHER_THAN_TREES,
    ),
    'isaaclab': Format(
        'joints as actuators of Isaac Lab; with --samples, an event that gives each environment '
        'one of the sets',
        _writer('actuators', 'result_isaaclab'),
        _servo('isaaclab'),
        file=ISAACLAB,
        lacking=('elastic', 'loops', 'delta'),
        write_sets=_sets('isaaclab_sets'),
    ),
    'mjlab': Format(
        'servos as actuators of mjlab; with --samples of an arm, an event as for Isaac Lab',
        write_servos=_servo('mjlab'),
        write_sets=_sets('mjlab_sets'),
    ),
    'ur': Format('a load as set_target_payload of URScript, with inertia', write_load=_load('ur')),
    'franka': Format(
        "a load as a call of franka_ros2's set_load, and of libfranka", write_load=_load('franka')
    ),
    'franka_desk': Format(
        "a load as Franka Desk's endeffector-config.json", write_load=_load('franka_desk')
    ),
    'xarm': Format('a load as set_tcp_load of xArm-Python-SDK', write_load=_load('xarm')),
    'kuka': Format('a load as LOAD_DATA of KRL', write_load=_load('kuka')),
    'gravity': Format(
        "a tool as parameters of ros2_control's gravity compensation filter and "
        'admittance_controller',
        write_load=_load('gravity'),
    ),
    'mujoco_ros2_control': Format(
        "a tool as parameters of mujoco_ros2_control's gravity compensation of a sensor",
        write_load=_load('mujoco_ros2_control'),
    ),
    'urdf_link': Format('a load as a link of the URDF', write_load=_load('urdf_link')),
}
"""Formats by their names."""


def export(
    result: Any, format: str = 'urdf', frame: str | None = None, *, tilt_in_base: bool = False
) -> str:
    """
    Return an identified robot as text for simulators, controllers and other programs.

    Parameters
    ----------
    result:
        Of `identify` or `read_result`; or of servos that were identified from commands.
    format:
        One of `FORMATS`.
    frame:
        Of a load: link of the URDF whose frame is the flange's; None for the one that the load
        was identified in.
    tilt_in_base:
        Whether the tilt of the base that was identified goes into the joints on the root link, so
        that the robot is used with the gravity that it had without; for URDF and SDF.

    Raises
    ------
    SettingsError
        if such results have no such format, or there is no load, or no tilt.
    IdentificationError
        if the format cannot express the robot or the load.

    """
    servos = hasattr(result, 'servo')  # their classes need MuJoCo, an extra
    known = FORMATS.get(format)
    if tilt_in_base:
        return _tilted(result, format)
    if known is not None and known.write_load is not None and not servos:
        return known.write_load(result, frame)
    if hasattr(result, 'tool'):
        loads = [name for name, each in FORMATS.items() if each.write_load]
        raise SettingsError(
            f"'{format}' is no format of an export of a tool",
            key='format',
            value=format,
            remedy=f'{suggestion(format, loads)}give one of {one_of(loads)}',
        )
    if frame is not None:
        loads = [name for name, each in FORMATS.items() if each.write_load]
        raise SettingsError(
            f"'{format}' is no format of a load",
            key='frame',
            value=frame,
            remedy=f'leave the frame out, or give one of {one_of(loads)}',
        )
    writers = {name: each.write_servos if servos else each.write for name, each in FORMATS.items()}
    write = writers.get(format)
    if write is None:
        of = ' of servos that were identified from commands' if servos else ''
        valid = [name for name, each in writers.items() if each]
        hint = suggestion(format, valid)
        if known is not None and known.write_sets is not None and not servos:
            hint = 'say how many sets with --samples, or '
        raise SettingsError(
            f"'{format}' is no format of an export{of}",
            key='format',
            value=format,
            remedy=f'{hint}give one of {one_of(valid)}',
        )
    if FORMATS[format].lacking and not servos:
        require_kind(format, result.robot, result.settings.model)
    return write(result)


def require_kind(format: str, robot: Robot, model: ModelSettings) -> None:
    """Raise SettingsError where a format cannot express a robot of its kind."""
    from ..regressor.kinds import kind_of

    kind = kind_of(robot, model)
    if kind.name in FORMATS[format].lacking:
        raise SettingsError(
            f"'{format}' is no format of a robot with {kind.text}",
            key='format',
            value=format,
            remedy=f'give one of {one_of(_formats_for(kind))}',
        )


def export_sets(result: Any, count: int, format: str = 'yaml') -> str | bytes:
    """
    Return sets of parameters for domain randomisation, the same ones in every run.

    Parameters
    ----------
    result:
        As of `export`.
    count:
        Number of sets.
    format:
        One of `FORMATS` that has sets; ``npz`` is bytes.

    Raises
    ------
    SettingsError
        if such results have no such sets.
    IdentificationError
        if there is no covariance to draw from, or the estimate is no physical robot.

    """
    servos = hasattr(result, 'servo')
    writers = {
        name: write
        for name, each in FORMATS.items()
        if (write := each.write_servo_sets if servos else each.write_sets)
    }
    if format not in writers or hasattr(result, 'tool'):
        raise SettingsError(
            f"sets of parameters are not written as '{format}' of this result",
            key='samples',
            value=format,
            remedy='leave the samples out'
            if hasattr(result, 'tool')
            else f'give {one_of(writers)} as format',
        )
    return writers[format](result, count)


def predictions_of(result: Any, format: str, *, tilted: bool = False) -> tuple[str, ...]:
    """Say what a file of a format predicts alone; nothing of loads and tables."""
    file = FORMATS[format].file
    if not file or not hasattr(result, 'files'):
        return ()
    return file_sentences(result.files, URDF_TILTED if tilted else file)


def formats_of(result: Any) -> tuple[str, ...]:
    """Return the formats that `export` has for a result, those of its load behind the others."""
    from ..regressor.kinds import kind_of

    if hasattr(result, 'servo'):
        return tuple(name for name, each in FORMATS.items() if each.write_servos)
    loads = tuple(name for name, each in FORMATS.items() if each.write_load)
    if hasattr(result, 'tool'):
        return loads
    stored = getattr(result, 'document', {})
    loaded = stored.get('payload') if stored else result.payload
    robots = _formats_for(kind_of(result.robot, result.settings.model))
    return robots if loaded is None else robots + loads


def sets_of(result: Any) -> tuple[str, ...]:
    """Return the formats that `export_sets` has for a result."""
    if hasattr(result, 'tool'):
        return ()
    kind = 'write_servo_sets' if hasattr(result, 'servo') else 'write_sets'
    return tuple(name for name, each in FORMATS.items() if getattr(each, kind))


def _formats_for(kind: RobotKind) -> tuple[str, ...]:
    return tuple(n for n, each in FORMATS.items() if each.write and kind.name not in each.lacking)


def _tilted(result: Any, format: str) -> str:
    """Return the text with the tilt in the base."""
    tilted = {name: each.write_tilted for name, each in FORMATS.items() if each.write_tilted}
    write = tilted.get(format)
    if write is None or not hasattr(result, 'files'):
        raise SettingsError(
            f"the tilt of a base is not written to '{format}' of this result",
            key='tilt_in_base',
            value=format,
            remedy=f'leave the option out, or give {one_of(tilted)} of a robot with efforts',
        )
    return write(result)


def format_of(suffix: str) -> str | None:
    """Return the format whose files have a suffix without its dot, or None."""
    names = (name for name, each in FORMATS.items() if suffix in (name, each.suffix or name))
    return next(names, None)
