# SPDX-License-Identifier: Apache-2.0
"""Draft of an experiment of the kind that recordings show, or that is stated of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from ..config.experiment import RobotSettings
from ..config.experiment_file import experiment_from
from ..errors import collected_warnings, IdentificationError, SettingsError
from ..model.mjcf import mjcf_facts, urdf_of_mjcf
from ..model.robot import Robot
from ..model.urdf_repair import robot_with_inertia
from ..options.document import parse_document
from .command_columns import has_commands
from .draft import Draft, draft
from .floating_draft import draft_floating, FloatingDraft
from .servo_draft import draft_servo, ServoDraft
from .settings import DraftSettings
from .tool_draft import draft_tool, has_wrenches, ToolDraft

AnyDraft = Draft | FloatingDraft | ServoDraft | ToolDraft


def draft_of(urdf: Path, files: Sequence[Path], settings: DraftSettings) -> AnyDraft:
    """
    Draft an experiment from files: of efforts, a floating base, servos, or a tool.

    Parameters
    ----------
    urdf:
        URDF, xacro or MJCF file.
    files:
        Recordings; of several, the last one is to validate on.
    settings:
        Facts that the files do not contain.

    Raises
    ------
    IdentificationError
        naming what cannot be read or recognised, or settings that contradict each other.

    """
    if settings.tool:
        return draft_tool(urdf, files, settings)
    servos = _of_servos(urdf, files, settings)
    if servos is not None:
        return servos
    floating = _of_floating(urdf, files, settings)
    if floating is not None:
        return floating
    found = draft(urdf, files, settings)
    return replace(found, remarks=(*found.remarks, *tool_remarks(files)))


def tool_remarks(files: Sequence[Path]) -> tuple[str, ...]:
    """Return a remark on recordings that have wrenches, beside efforts or without them."""
    text = (
        'there are wrenches of a force-torque sensor, too; what hangs behind it is identified by '
        'the experiment that init --tool makes'
    )
    return (text,) if any(map(has_wrenches, files)) else ()


def fixed_robot(source: Path | str, xacro_arguments: Mapping[str, str]) -> Robot:
    """Read a robot of a URDF, xacro or MJCF file, its base held; raises ModelError."""
    path = RobotSettings(urdf=str(source), effort_kind='joint_torque').mjcf()
    text = str(source) if path is None else urdf_of_mjcf(path, clamped=True)
    return robot_with_inertia(text, xacro_arguments=xacro_arguments)


def lacks_effort_kind(found: AnyDraft) -> TypeGuard[Draft | FloatingDraft]:
    """Return whether the kind of the efforts has to be stated before there is an experiment."""
    return isinstance(found, Draft | FloatingDraft) and found.settings.effort_kind is None


def check_text(text: str, path: Path) -> str:
    """
    Check the text of an experiment file; return the command that carries it out.

    Raises SettingsError naming what is wrong.
    """
    document = parse_document(text, str(path))
    content = document.content
    data = content.get('data') if isinstance(content, dict) else None
    of_tool = isinstance(data, dict) and 'tool' in data and 'identification' not in data
    experiment_from(document, path.parent, check_data=not of_tool)
    return 'tool' if of_tool else 'identify'


def _of_servos(urdf: Path, files: Sequence[Path], settings: DraftSettings) -> ServoDraft | None:
    """Return the draft of recordings with commands; None for recordings with efforts."""
    asked = settings.kp or settings.kd or settings.timestep
    if settings.effort_kind is not None:
        if asked:
            raise SettingsError(
                "'--effort-kind' is given beside gains of servos",
                remedy='leave one of them out: recordings of servos have commands, no efforts',
            )
        return None
    with collected_warnings():
        joints = fixed_robot(urdf, settings.xacro_arguments).joints
    if not asked and not has_commands(files[0], joints):
        return None
    return draft_servo(
        urdf,
        files,
        joints,
        stiffness=settings.kp,
        damping=settings.kd,
        rate=settings.rate,
        timestep=settings.timestep,
        target=settings.target,
        units=settings,
    )


def _of_floating(
    urdf: Path, files: Sequence[Path], settings: DraftSettings
) -> FloatingDraft | None:
    """Return the draft for a robot on its feet; None for others."""
    robot = RobotSettings(
        urdf=str(urdf.absolute()),
        xacro_arguments=settings.xacro_arguments,
        effort_kind='joint_torque',
    )
    path = robot.mjcf()
    free = path is not None and mjcf_facts(path).floating
    if path is not None and not free:
        return None
    asked = settings.floating or free
    try:
        with collected_warnings():
            built = replace(robot, base='floating').build()
    except IdentificationError:
        if asked:
            raise
        return None  # an arm may have as many joints as are allowed, without those of a base
    return draft_floating(built, files, settings, asked)
