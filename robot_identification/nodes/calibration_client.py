# SPDX-License-Identifier: Apache-2.0
"""Execution of planned motions by the excitation node, for `calibration.calibrate`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import rclpy
from rclpy.signals import SignalHandlerOptions
from robot_identification_msgs.action import Excite

from ..config.problem import IdentificationProblem
from ..config.sources import open_recording
from ..data.recording_config import RecordingEntry
from ..excitation.points import PointTrajectory
from ..options.document import read_document
from ..options.fields import from_mapping
from ..reduction import Source
from ..results.result_yaml import dump, write_whole
from ..results.saving import reported_failures
from .common.requests import ServiceCaller
from .excitation.senders import message_of

RECORDING = 'recording.yaml'
"""File in a motion's folder with the path of its bag."""

CLIENT = 'calibration_client'
"""Name of the node that sends the goals."""

PATIENCE = 120.0
"""Time beyond ten times the motion's own after which it is given up [s]."""

REST = 60.0
"""Time for a motion that is canceled to come to rest [s]."""


@dataclass(frozen=True)
class ActionExecutor:
    """
    Executor of motions by the action ``excitation/excite``, with recording.

    Attributes
    ----------
    caller:
        Calls the action.
    problem:
        Joints, drives and elasticity of the recordings.
    speed:
        Share of the planned speed.
    action:
        Name of the action.

    """

    caller: ServiceCaller
    problem: IdentificationProblem
    speed: float
    action: str = 'excitation/excite'

    def find(self, folder: Path) -> Source | None:
        """Return the recording of a motion that was executed before."""
        kept = folder / RECORDING
        if not kept.exists():
            return None
        entry = from_mapping(RecordingEntry, read_document(kept).content)
        problem = self.problem
        return open_recording(
            entry, problem.robot.joints, problem.drives, folder, elastic=problem.model.elastic
        )

    def execute(self, trajectory: PointTrajectory, folder: Path) -> Source:
        """
        Execute a motion and return its recording.

        Raises
        ------
        RequestFailedError
            where the excitation node refuses the motion, or ends it.

        """
        done = self.caller.act(
            Excite,
            self.action,
            PATIENCE + 10.0 * trajectory.duration / self.speed,
            patience=REST,
            plan_id='',
            trajectory=message_of(trajectory),
            speed=self.speed,
            record=True,
            recording_name=f'{folder.name}_{datetime.now():%Y%m%d_%H%M%S}',
        )
        document = {'file': str(Path(done.recording_path).absolute()), 'format': 'rosbag2'}
        with reported_failures(folder):
            write_whole(folder / RECORDING, dump(document))
        found = self.find(folder)
        assert found is not None
        return found


@contextmanager
def executing(
    problem: IdentificationProblem, speed: float, namespace: str = ''
) -> Iterator[ActionExecutor]:
    """Give an `ActionExecutor` with a ROS node of its own, in the namespace of the robot's."""
    # Ctrl-C is to reach the caller, which cancels the goal: the robot comes to rest then
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = rclpy.create_node(CLIENT, namespace=namespace)
        yield ActionExecutor(ServiceCaller(node), problem, speed)
    finally:
        rclpy.try_shutdown()
