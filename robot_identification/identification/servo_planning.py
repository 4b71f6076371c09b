# SPDX-License-Identifier: Apache-2.0
"""Plans of commands for the servos of an experiment."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..config.experiment import Experiment
from ..errors import SettingsError
from ..excitation.collisions import CollisionModel
from ..excitation.plans import Plan
from ..model.robot import Robot
from ..servo.model import ServoModel
from ..servo.plan import CommandPlan, plan_commands
from .servo_pipeline import nominal_servos


@dataclass(frozen=True)
class ServoPlanning:
    """
    Servos that a plan is to be made for.

    Attributes
    ----------
    experiment:
        With ``robot.servo``; its recordings do not count.
    rate:
        Of the controller's commands [Hz].

    """

    experiment: Experiment
    rate: float

    def limited(self, robot: Robot) -> Robot:
        """
        Return the robot with the efforts that its servos reach.

        Raises SettingsError where neither the settings nor the robot's file have a limit.
        """
        servo = self.experiment.robot.servo
        assert servo is not None
        effort = robot.limits.effort
        if servo.limit is not None:
            own = servo.per_joint('limit', robot.joints)
            effort = np.where(effort > 0.0, np.minimum(effort, own), own)
        for joint, limit in zip(robot.joints, effort, strict=True):
            if not 0.0 < limit < np.inf:
                raise SettingsError(
                    f"'robot.servo.limit' is missing, and joint '{joint}' has no effort limit in "
                    "the robot's file",
                    joint=joint,
                    key='robot.servo.limit',
                    remedy='give the largest effort of the servos',
                )
        return replace(robot, opened=None, limits=replace(robot.limits, effort=effort))  # type: ignore[arg-type]

    def plan(self, robot: Robot, path: Plan, collisions: CollisionModel | None) -> CommandPlan:
        """Return the commands along a path; raises as `plan_commands`."""
        servo = self.experiment.robot.servo
        assert servo is not None
        nominal, simulator = nominal_servos(self.experiment, robot)
        # without limits, the response shows by how much they would be passed
        model = ServoModel(robot, replace(servo, limit=None), simulator)
        return plan_commands(model, nominal, path.trajectory, path.limits, self.rate, collisions)
