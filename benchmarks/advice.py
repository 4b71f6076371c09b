# SPDX-License-Identifier: Apache-2.0
"""
Advice of the diagnosis, followed: whether the robot is identified worse with it than without.

The first finding that says what to change is followed, as its words say: factors, signs, orders,
offsets, delays, rates, the direction of gravity, times to leave out.  The robot is fitted to the
recording so changed, and to the recording as it is.  Both fits predict the efforts of the
recording without the fault, by its positions and with gravity as it is.  Advice is harmful where
the error of the whole robot, the geometric mean over joints, is larger by a tenth and more with it
than without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from robot_identification.data.recording import Motion, Recording
from robot_identification.diagnosis.diagnose import HypothesisComparison
from robot_identification.diagnosis.disturbance import KINDS
from robot_identification.diagnosis.hypotheses import Correction, nearest_axis
from robot_identification.diagnosis.recording_faults import diagnosis_samples, RecordingFault
from robot_identification.model.robot import Robot
from robot_identification.regressor.settings import ModelSettings

from .faulty_arms import Arm

HARMFUL = 1.1
"""Error with advice by that without it above which it is harmful: a fit differs by less."""


def followed(
    robot: Robot, recording: Recording, finding: RecordingFault
) -> tuple[Robot, Recording] | None:
    """Return robot and recording with advice followed; None where there is nothing to change."""
    if finding.code in KINDS and KINDS[finding.code].left_out:
        times = tuple(each[1:] for each in finding.times)
        return robot, recording.without(times)
    change = finding.correction
    if change is None:
        return None
    if change.gravity is not None or change.weight:
        gravity = np.zeros(3) if change.weight else nearest_axis(np.array(change.gravity))
        robot = robot.with_gravity(gravity.tolist())
    return robot, _changed(recording, change)


def _changed(recording: Recording, change: Correction) -> Recording:
    """Return a recording with a change of positions, efforts or stamps."""
    still = np.zeros_like(recording.position)
    position = change.motion(Motion(recording.position, still, still)).position
    time, effort = recording.time, recording.effort
    if change.code == 'effort_delay':
        columns = [np.interp(time + change.size, time, column) for column in effort.T]
        effort = np.stack(columns, axis=1)
    if change.effort is not None:
        effort = effort @ change.effort.T
    return replace(
        recording, time=time / change.rate, position=position, velocity=None, effort=effort
    )


def error(robot: Robot, recording: Recording, clean: Arm, model: ModelSettings) -> float:
    """
    Return the error of the whole robot on the recording without the fault.

    Parameters
    ----------
    robot, recording:
        What is fitted: the robot as it is said to be, and its recording.
    clean:
        The robot as it is, and its recording.
    model:
        Terms of the dynamics, of which coupled drives count.

    """
    settings = ModelSettings(coupled_drives=model.coupled_drives)
    fitted, judged = diagnosis_samples([recording]), diagnosis_samples([clean.recording])
    if fitted is None or judged is None:
        return np.inf
    chi = HypothesisComparison(robot, fitted, settings).base.chi
    rows = HypothesisComparison(clean.robot, judged, settings).rows
    effort = judged.effort / clean.gains
    missed = np.sqrt(((rows @ chi - effort) ** 2).mean(axis=0))
    return float(np.exp(np.log(missed / effort.std(axis=0)).mean()))


def advice_errors(
    robot: Robot,
    recording: Recording,
    found: Sequence[RecordingFault],
    clean: Arm,
    model: ModelSettings | None = None,
) -> tuple[float, float] | None:
    """Return the errors without and with the advice of findings; None where there is none."""
    model = model or ModelSettings()
    changed = next(filter(None, (followed(robot, recording, each) for each in found)), None)
    if changed is None:
        return None
    before = error(robot, recording, clean, model)
    return before, error(*changed, clean, model)
