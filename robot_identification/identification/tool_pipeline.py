# SPDX-License-Identifier: Apache-2.0
"""From an experiment file with wrenches to an identified tool and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import os
from pathlib import Path
from typing import Any
import warnings

from ..config.experiment import Experiment
from ..config.wrenches import check_wrench, read_wrench
from ..data.drives import Drives
from ..data.sensor_messages import message_frame, WRENCH_STAMPED
from ..errors import IdentificationError, IdentificationWarning, SettingsError
from ..loads.tool import Tool, tool
from ..model.robot import Robot
from ..model.robot_document import read_robot, robot_document
from ..options.document import dump, plain
from ..results.result import MARK
from ..results.servo_result import is_servo_result, read_servo_result, StoredServoResult
from ..results.stored_result import read_result, StoredResult
from ..support.threads import on_one_thread
from ..untrusted.files import load_yaml, read_text
from ..untrusted.writing import write_named
from ..verdicts.verdict import verdict
from ..version import __version__

KIND = 'tool'


@dataclass(frozen=True)
class ToolResult:
    """
    A tool with its robot, identified or read from a file.

    Attributes
    ----------
    robot:
        The robot.
    document:
        Content of the file.
    tool:
        The tool; None where it was read from a file.

    """

    robot: Robot
    document: Mapping[str, Any]
    tool: Tool | None = None

    @property
    def identified(self) -> Tool:
        """The tool of a result that was not read from a file."""
        assert self.tool is not None
        return self.tool

    def to_document(self) -> Mapping[str, Any]:
        """Return the content of the file."""
        return self.document


@on_one_thread
def identify_tool(experiment: Experiment) -> ToolResult:
    """
    Identify the tool of an experiment file's ``data.tool``.

    Raises
    ------
    SettingsError
        if the file has no such section, or an entry of it does not fit.
    IdentificationError
        as `robot_identification.loads.tool.tool`, and for recordings that cannot be read.

    """
    section = experiment.data.tool
    if section is None:
        raise SettingsError(
            "key 'data.tool' is missing",
            key='data.tool',
            remedy='name recordings with joint states and wrenches there',
        )
    robot, drives = experiment.build_robot(), experiment.robot.drives or Drives()
    recordings = []
    for path, entry in experiment.data.entries('tool'):
        check_wrench(entry, robot.joints, drives, experiment.base, path)
        recordings.append(read_wrench(entry, robot.joints, drives, experiment.base, section.topic))
        if entry.file_format(experiment.base).topics:
            bag = entry.files(experiment.base)['position']
            _compare_frames(bag, section.topic, robot, section.frame)
    signals, turned = experiment.signals, section.rotation
    found = tool(recordings, robot, signals, frame=section.frame, rotation=turned)
    judged = verdict(found)
    document = {
        MARK: {'kind': KIND, 'version': __version__},
        'robot': robot_document(robot),
        'verdict': judged.to_dict(),
        'tool': {
            'level': judged.level,
            'headline': judged.headline,
            'sentence': judged.sentence,
            **found.to_dict(),
        },
        'payload': found.load.to_dict(),
    }
    return ToolResult(robot, plain(document), found)


def _compare_frames(bag: Path, topic: str, robot: Robot, frame: str | None) -> None:
    """Warn of wrenches that name another frame than the one that they are taken in."""
    links, frame = robot.link_frames, frame or robot.tip
    named, taken = links.get(message_frame(bag, topic, WRENCH_STAMPED)), links.get(frame)
    if named is None or taken is None:
        return
    pose = named.placement
    if named.parentJoint != taken.parentJoint or not pose.isApprox(taken.placement, 1e-6):
        warnings.warn(
            f"{bag}: its wrenches are in the frame '{named.name}', and are taken for those in "
            f"'{frame}': see data.tool.frame",
            IdentificationWarning,
            stacklevel=2,
        )


def save_tool(result: ToolResult, folder: Path) -> Path:
    """Write ``tool.yaml`` into a folder, which is made; return its path."""
    path = folder / 'tool.yaml'
    write_named(path, dump(result.document), with_folder=True)
    return path


def read_any_result(path: str | os.PathLike) -> StoredServoResult | ToolResult | StoredResult:
    """Read the file of a result of servos, a tool or a robot; raises IdentificationError."""
    if is_servo_result(path):
        return read_servo_result(path)
    return read_tool_result(path) or read_result(path)


def read_tool_result(path: str | os.PathLike) -> ToolResult | None:
    """
    Read the file of a tool; None for a file of another kind, which its own reader judges.

    Raises IdentificationError naming a file that is damaged.
    """
    try:
        document = load_yaml(read_text(Path(path), 1 << 28))
        kind = document[MARK]['kind']
    except Exception:  # whatever else it is, the reader of results says
        return None
    if kind != KIND:
        return None
    try:
        return ToolResult(read_robot(document['robot']), document)
    except (KeyError, TypeError, ValueError) as error:
        raise IdentificationError(
            f"file '{path}' of a tool is damaged: {error}",
            file=str(path),
            remedy='identify again, or restore the file',
        ) from error
