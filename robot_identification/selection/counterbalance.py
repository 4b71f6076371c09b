# SPDX-License-Identifier: Apache-2.0
"""
Joints at which a spring would keep links near their prior: counterbalances, closed mechanisms.

An effort that no body has, such as that of a gas spring at one joint, is explained by bodies that
there are not: the mass of one link grows alone, or vanishes.  Where gravity at the joint has the
same form, no motion tells, and only the prior of the links does.  In a fit near the prior in which
every joint has a spring, it is the spring there that pulls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..diagnosis.diagnose import HypothesisComparison
from ..diagnosis.recording_faults import diagnosis_samples, read_first_rows, revolute
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor import ModelSettings
from ..signals import RecordingSource

PULLS = 0.1
"""Amplitude of a spring, by the standard deviation of its joint's effort, from which it pulls."""


def sprung_joints(
    sources: Sequence[RecordingSource],
    robot: Robot,
    prior: ParameterSet,
    model: ModelSettings,
    delay: np.ndarray | float | tuple[float, ...] = 0.0,
) -> list[str]:
    """
    Return the joints without a spring at which one would pull, the strongest first.

    Parameters
    ----------
    sources:
        The identification recordings, whose beginnings are read.
    robot, prior, model:
        Of the estimate.
    delay:
        Of the efforts [s]; one number, or (n,).

    """
    observed = diagnosis_samples(read_first_rows(sources), np.asarray(delay))
    if observed is None or robot.passive:
        return []
    turning = tuple(np.array(robot.joints)[list(revolute(robot))].tolist())
    settings = ModelSettings(coupled_drives=model.coupled_drives, joint_springs=turning)
    found = HypothesisComparison(robot, observed, settings, prior).fitted
    sizes = dict(zip(robot.joints, observed.effort.std(axis=0).tolist(), strict=True))
    pulls = {
        joint: float(np.hypot(found[f'{joint}.kc'], found[f'{joint}.ks'])) / sizes[joint]
        for joint in turning
        if joint not in model.joint_springs and sizes[joint] > 0.0
    }
    return sorted((j for j, pull in pulls.items() if pull > PULLS), key=lambda j: -pulls[j])
