# SPDX-License-Identifier: Apache-2.0
"""Execution of planned motions by a simulated robot, with their recordings on disk."""

from __future__ import annotations

from dataclasses import dataclass
import io
from pathlib import Path

import numpy as np

from ..config.sources import open_recording
from ..data.recording_config import RecordingEntry
from ..excitation.points import PointTrajectory
from ..model.robot import Robot
from ..reduction import Source
from ..results.result_yaml import write_whole
from ..results.saving import reported_failures
from .following import Waypoints
from .settings import SimulationSettings
from .simulator import simulate

FILE = 'recording.npz'
RECORDING = RecordingEntry(
    file=FILE, time='time', position='position', velocity='velocity', effort='effort'
)
"""File of a recording in its motion's folder, and the arrays in it."""


@dataclass(frozen=True)
class SimulatedExecutor:
    """
    Executor of motions for `calibration.calibrate`.

    Attributes
    ----------
    robot:
        The nominal robot: the simulated one differs from it by the settings.
    settings:
        Of the simulation.

    """

    robot: Robot
    settings: SimulationSettings

    def find(self, folder: Path) -> Source | None:
        """Return the recording of a motion that was simulated before."""
        if not (folder / FILE).exists():
            return None
        return open_recording(RECORDING, self.robot.joints, base=folder)

    def execute(self, trajectory: PointTrajectory, folder: Path) -> Source:
        """Simulate a motion and return its recording."""
        points = Waypoints(
            trajectory.joints,
            trajectory.time,
            trajectory.position,
            trajectory.velocity,
            trajectory.acceleration,
        )
        recorded = simulate(self.robot, points, self.settings)
        names = ('time', 'position', 'velocity', 'effort')
        stream = io.BytesIO()
        np.savez(stream, **{name: getattr(recorded, name) for name in names})
        with reported_failures(folder):
            write_whole(folder / FILE, stream.getvalue())
        return open_recording(RECORDING, self.robot.joints, base=folder)
