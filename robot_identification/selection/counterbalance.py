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
from dataclasses import replace

import numpy as np

from ..diagnosis.recording_faults import revolute
from ..estimation.estimate import Estimate
from ..estimation.link_constraints import PhysicalSettings
from ..estimation.physical_fit import PhysicalFit
from ..estimation.system import system_of
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor import build, ModelSettings
from ..regressor import prior as urdf_prior
from ..regressor.base_search import structure
from ..signals import RecordingSource, SignalSettings

NEAR = 300.0
"""Strength of the prior near which links are: masses within some 4 %."""

PULLS = 0.1
"""Amplitude of a spring, by the root mean square effort of its joint, from which on it pulls."""


def sprung_joints(
    estimate: Estimate,
    sources: Sequence[RecordingSource],
    robot: Robot,
    prior: ParameterSet,
    model: ModelSettings,
    signals: SignalSettings,
    settings: PhysicalSettings,
) -> list[str]:
    """
    Return the joints without a spring at which one would pull, the strongest first.

    Parameters
    ----------
    estimate:
        Gives the noise of the joints.
    sources:
        The identification recordings, which are read once.
    robot, prior, model, signals, settings:
        Of the estimate.

    """
    turning = np.array(robot.joints)[list(revolute(robot))].tolist()
    sprung = replace(model, joint_springs=tuple(turning))
    regressor = build(robot, sprung)
    base = structure(regressor, robot, grouping=sprung.grouping)
    system = system_of(sources, regressor, base, signals)
    bodies = urdf_prior(robot, sprung)
    known = {name: prior[name] for name in bodies.layout if name in prior.layout}
    fit = PhysicalFit.from_system(system, robot, bodies.updated(known), settings, sprung)
    scales = np.asarray(estimate.weights) / estimate.residual_std
    found = ParameterSet(bodies.layout, fit.solve(system.stacked(scales), NEAR).chi)
    efforts = np.linalg.norm(system.factor.triangles[:, :, -1], axis=1) / np.sqrt(
        system.factor.rows
    )
    sizes = dict(zip(system.factor.joints, efforts.tolist(), strict=True))
    pulls = {
        joint: float(np.hypot(found[f'{joint}.kc'], found[f'{joint}.ks'])) / sizes[joint]
        for joint in turning
        if joint not in model.joint_springs and sizes.get(joint, 0.0) > 0.0
    }
    return sorted((j for j, pull in pulls.items() if pull > PULLS), key=lambda j: -pulls[j])
