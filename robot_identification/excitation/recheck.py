# SPDX-License-Identifier: Apache-2.0
"""The check of a stored plan against a URDF, as before a motion, with nothing of it trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ExcitationError
from ..model.robot import Robot
from .collisions import planned_collisions
from .constraints import check_trajectory
from .limits import motion_limits
from .plan_file import as_points, read_plan, StoredPlan
from .plan_page import MotionPage
from .settings import PlannerSettings
from .stops import check_stops


@dataclass(frozen=True)
class Recheck:
    """A stored plan as another URDF finds it."""

    plan: StoredPlan
    """As it was read."""
    page: MotionPage
    """Contents of the page of its motion."""
    refusal: ExcitationError | None
    """Why it is refused; None where it passes."""
    remarks: tuple[str, ...]
    """For the user."""

    def summary(self) -> str:
        """Say in lines what moves, what is held, and what was found."""
        robot, findings = self.page.robot, self.page.findings
        lines = [
            f'{self.page.trajectory.duration:.4g} s of {", ".join(robot.joints)}; '
            f'gravity {list(self.plan.robot.gravity)}',
            *(f'held: {joint} at {position:g}' for joint, position in robot.locked.items()),
        ]
        return '\n'.join(lines if findings is None else [*lines, findings.summary()])


def recheck(path: Path, urdf: str, settings: PlannerSettings, speed: float = 1.0) -> Recheck:
    """
    Check a plan.yaml again: limits, efforts and distances are those of another URDF.

    Parameters
    ----------
    path:
        The plan, whose joints, locked positions, gravity and obstacles are taken.
    urdf:
        A URDF or xacro file.
    settings:
        Further obstacles; tracking tolerance and stop decelerations where the plan has none.
    speed:
        Share of the planned speed, above 0 and at most 1.

    Raises
    ------
    IdentificationError
        where a file cannot be read, or the robot has no such joints; a motion that breaks a rule
        is no error, see `Recheck.refusal`.

    """
    plan = read_plan(path)
    made_for = plan.robot
    robot = Robot.from_urdf(
        urdf, made_for.joints, locked=made_for.locked, gravity=made_for.gravity
    )
    settings = _in_force(settings, plan)
    trajectory = as_points(plan.trajectory).slower(speed)
    limits = motion_limits(robot, settings, margin=0.0)
    collisions = planned_collisions(robot, settings)
    findings, refusal = None, None
    try:
        findings = check_trajectory(
            robot, trajectory, limits, rate=settings.check_rate, collisions=collisions
        )
        if settings.stop_deceleration:
            deceleration = settings.stop_deceleration
            stopping = check_stops(robot, trajectory, limits, deceleration, collisions)
            findings = replace(findings, stopping=stopping)
    except ExcitationError as error:
        refusal = error
    other = () if plan.is_of(robot) else (
        f"'{path}' was made with another URDF: everything here is by '{urdf}'",
    )  # fmt: skip
    page = MotionPage(
        robot,
        trajectory,
        limits,
        findings,
        refusal='' if refusal is None else str(refusal),
        refusal_time=getattr(refusal, 'time', None),
        collisions=collisions,
        obstacles=settings.all_obstacles,
        warnings=(*(() if collisions is None else collisions.warnings), *other),
    )
    return Recheck(plan, page, refusal, other)


def _in_force(settings: PlannerSettings, plan: StoredPlan) -> PlannerSettings:
    """Return settings with the plan's obstacles, tolerance and decelerations."""
    own = {obstacle.name for obstacle in settings.all_obstacles}
    added = tuple(obstacle for obstacle in plan.obstacles if obstacle.name not in own)
    return replace(
        settings,
        obstacles=(*settings.obstacles, *added),
        tracking_tolerance=plan.tracking_tolerance or settings.tracking_tolerance,
        stop_deceleration=plan.stop_deceleration or settings.stop_deceleration,
    )
