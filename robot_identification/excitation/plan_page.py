# SPDX-License-Identifier: Apache-2.0
"""
Page of a planned motion: curves against limits, smallest distances, and the robot moving in 3D.

One HTML file that needs nothing beside it; its script is in it and no network is used.  A plan's
folder has it beside the files for programs and controllers (`save_plan`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ExcitationError
from ..figures.page import number, Tile
from ..model.robot import Robot
from ..options.document import dump
from ..options.fields import to_mapping
from ..regressor import ModelSettings
from ..untrusted.writing import reported_failures, write_together
from .collisions import CollisionModel
from .constraints import check_trajectory, Findings, NOT_CHECKED
from .criteria import PredictedDeviations
from .extremes import Effort, nominal_effort
from .limits import Limits, motion_limits
from .plan_file import plan_text, points_csv, points_yaml
from .plans import Plan
from .robot_scene import packed, render_scene, scene
from .settings import Obstacle
from .trajectories import PointTrajectory, to_points, Trajectory

MOST_SAMPLES = 900
"""Samples of the curves and of the motion in 3D."""

RATE = 30.0
"""Samples per second, as far as `MOST_SAMPLES` allows [Hz]."""

DISTANCE_SAMPLES = 400
"""Instants at which distances are measured for the page."""

CSV_RATE = 100.0
"""Points per second of ``trajectory.csv`` [Hz]."""

MESSAGE_RATES = (10.0, 20.0, 50.0, 100.0, 200.0)
"""Points per second of ``trajectory.yaml``, of which the first that will do is taken [Hz]."""

_HEIGHT = 1000  # units of a curve, which the page scales
_JERK_STEP = 1e-4  # s, of the finite difference of accelerations


@dataclass(frozen=True)
class MotionPage:
    """Contents of a page of a motion."""

    robot: Robot
    trajectory: Trajectory
    limits: Limits
    """Limits that the curves are compared with."""
    findings: Findings | None
    """Of the check; None where it refused the motion."""
    refusal: str = ''
    """Why it was refused; empty where it was not."""
    refusal_time: float | None = None
    """When the motion breaks the rule [s]; None where that is not known."""
    collisions: CollisionModel | None = None
    """Model for the distances; None leaves them out."""
    obstacles: tuple[Obstacle, ...] = ()
    """Drawn around the robot."""
    deviations: PredictedDeviations | None = None
    """Predicted standard deviations, where they are known."""
    effort: Effort | None = None
    """Prediction of the efforts; None takes the URDF's parameters."""
    condition_number: float | None = None
    """Of the base regressor along the motion; None where it is not known."""
    warnings: tuple[str, ...] = ()
    settings: str = ''
    """As YAML, for the user."""


def plan_html(page: MotionPage) -> str:
    """Return the page as the text of an HTML document."""
    time = _times(page.trajectory)
    position = page.trajectory.sample(time).position
    distances, lines = _distances(page)
    drawn = scene(page.robot, position, page.trajectory.duration, page.obstacles, lines)
    return render_scene(
        'plan.html',
        {'scene': drawn, 'distances': distances, 'refusal_time': page.refusal_time},
        page=page,
        verdict=_verdict(page),
        tiles=_tiles(page),
        rows=_curves(page, time),
        distances=distances,
        deviations=_deviation_rows(page.deviations),
    )


def _verdict(page: MotionPage) -> tuple[str, str, str]:
    """Return level, headline and sentence on what was checked."""
    if page.refusal:
        return 'poor', 'Refused', page.refusal
    sentence = 'Checked against the limits below; efforts are predicted by the URDF. '
    model, findings = page.collisions, page.findings
    if model is None or findings is None or findings.coverage is None:
        return 'weak', NOT_CHECKED, sentence
    sentence += (
        f'Bodies keep {1e3 * model.clearance:.4g} mm from each other, or what is told here'
        f'{_tolerance_in_words(page)}: {findings.coverage.summary()}.'
    )
    if findings.stopping is not None:
        sentence += (
            ' So they do on the stops that the controller makes on a cancel, from every 50 ms, '
            f'which take {findings.stopping:.2f} s at most.'
        )
    return findings.level, findings.headline, sentence


def _tolerance_in_words(page: MotionPage) -> str:
    assert page.collisions is not None
    tolerance = page.collisions.tolerance
    if not tolerance.any():
        return ' where the robot follows exactly'
    values = [f'{v:.4g} {unit}' for v, unit in zip(tolerance, page.limits.units, strict=True)]
    shown = values[0] if len(set(values)) == 1 else ', '.join(values)
    return f', also where each joint is {shown} off its path'


def _times(trajectory: Trajectory) -> np.ndarray:
    count = int(np.clip(np.ceil(trajectory.duration * RATE) + 1, 2, MOST_SAMPLES))
    return np.linspace(0.0, trajectory.duration, count)


def _tiles(page: MotionPage) -> list[Tile]:
    tiles = [Tile('duration', f'{page.trajectory.duration:.4g} s')]
    if page.condition_number is not None:
        note = 'of the base regressor, columns scaled'
        tiles.append(Tile('condition number', number(page.condition_number, 3), note))
    if page.findings is None:
        return tiles
    for name, shares in page.findings.use.quantities.items():
        joint = int(np.argmax(shares))
        note = f'of the limit, by {page.robot.joints[joint]}'
        tiles.append(Tile(f'largest {name}', f'{100.0 * shares[joint]:.0f} %', note))
    for near in page.findings.nearest[:1]:
        note = f'{near.first} to {near.second} at {near.time:.1f} s'
        if near.planned != near.distance:
            note += f'; {1e3 * near.planned:.0f} mm without tracking errors'
        tiles.append(Tile('smallest distance', f'{1e3 * near.distance:.0f} mm', note))
    return tiles


# ---------------------------------------------------------------------------------------- curves


def _curves(page: MotionPage, time: np.ndarray) -> list[dict[str, Any]]:
    """Return a row for each joint, with a curve and its limits for each quantity."""
    motion = page.trajectory.sample(time)
    # inside of the motion: outside the trajectory rests, a jump that is none
    inner = np.clip(time, _JERK_STEP, page.trajectory.duration - _JERK_STEP)
    after = page.trajectory.sample(inner + _JERK_STEP).acceleration
    before = page.trajectory.sample(inner - _JERK_STEP).acceleration
    limits = page.limits
    series = {
        'position': (motion.position, limits.lower, limits.upper),
        'velocity': (motion.velocity, -limits.velocity, limits.velocity),
        'acceleration': (motion.acceleration, -limits.acceleration, limits.acceleration),
        'jerk': ((after - before) / (2.0 * _JERK_STEP), -limits.jerk, limits.jerk),
        'effort': (
            (page.effort or nominal_effort(page.robot))(motion), -limits.effort, limits.effort,
        ),
    }  # fmt: skip
    return [
        {
            'joint': joint,
            'curves': [
                _curve(values[:, j], low[j], high[j], limits.unit(name, j))
                for name, (values, low, high) in series.items()
            ],
        }
        for j, joint in enumerate(limits.joints)
    ]


def _curve(values: np.ndarray, low: float, high: float, unit: str) -> dict[str, Any]:
    """Return a curve as points of an SVG of height 1000; limits as heights, None if infinite."""
    ends = [end for end in (low, high) if np.isfinite(end)]
    bottom, top = min([*ends, values.min()]), max([*ends, values.max()])
    room = 0.05 * max(top - bottom, 1e-9)
    bottom, top = bottom - room, top + room

    def height(value: Any) -> Any:
        return np.round(_HEIGHT * (top - value) / (top - bottom)).astype(int)

    finite = np.isfinite(low) and np.isfinite(high)
    middle, half = (0.5 * (low + high), 0.5 * (high - low)) if finite else (0.0, np.inf)
    return {
        'points': ' '.join(f'{i},{y}' for i, y in enumerate(height(values))),
        'last': len(values) - 1,
        'limits': [int(height(end)) for end in ends],
        'zero': int(height(0.0)) if bottom < 0.0 < top else None,
        'used': 100.0 * float(np.abs(values - middle).max()) / half if finite else None,
        'low': float(bottom),
        'high': float(top),
        'unit': unit,
    }


# ------------------------------------------------------------------------------------- distances


def _distances(page: MotionPage) -> tuple[dict[str, Any] | None, np.ndarray | None]:
    """Return the smallest distances over time with their pairs, and the line that joins them."""
    model = page.collisions
    if model is None or not model.pairs:
        return None, None
    count = min(DISTANCE_SAMPLES, int(np.ceil(page.trajectory.duration * RATE)) + 1)
    time = np.linspace(0.0, page.trajectory.duration, max(count, 2))
    pairs = np.arange(len(model.pairs))
    position = np.repeat(page.trajectory.sample(time).position, pairs.size, axis=0)
    measured = model.measured(position, np.tile(pairs, time.size))
    values = measured.distance.reshape(time.size, -1)
    near = values.argmin(axis=1)
    lines = measured.lines.reshape(time.size, -1, 3, 3)[np.arange(time.size), near, :2]
    obstacle = np.array(model.with_obstacle)
    full = model.clearances == model.clearance
    curves = {
        kind: _curve(values[:, mask].min(axis=1), model.clearance, np.inf, 'm')
        for kind, mask in (('links', full & ~obstacle), ('obstacles', full & obstacle))
        if mask.any()
    }
    used = sorted({int(pair) for pair in near})
    return {
        'curves': curves,
        'pairs': [model.in_words(*model.pairs[pair]) for pair in used],
        'nearest': [used.index(int(pair)) for pair in near],
        'values': packed(values.min(axis=1)),
    }, lines


# ------------------------------------------------------------------------------------ deviations


def _deviation_rows(deviations: PredictedDeviations | None) -> list[dict[str, Any]]:
    if deviations is None:
        return []
    wanted = np.maximum(0.05 * np.abs(deviations.values), np.finfo(float).tiny)
    with np.errstate(over='ignore'):
        repetitions = deviations.repetitions(wanted)
        relative = 5.0 * deviations.std / wanted
    rows = zip(deviations.rows(), relative.tolist(), repetitions.tolist(), strict=True)
    return [{**row, 'relative': share, 'repetitions': count} for row, share, count in rows]


# ---------------------------------------------------------------------------------- the folder


def save_plan(
    folder: Path | str,
    plan: Plan,
    robot: Robot,
    model: ModelSettings,
    collisions: CollisionModel | None = None,
) -> tuple[Path, ...]:
    """
    Write ``plan.yaml``, ``trajectory.csv``, ``trajectory.yaml`` and ``plan.html``; return them.

    Parameters
    ----------
    folder:
        Made where it does not exist; files of these names are replaced.
    plan, robot, model:
        The plan, its robot, and the terms of its regressor.
    collisions:
        For the distances on the page; None leaves them out.

    Raises
    ------
    IdentificationError
        naming a folder that cannot be written to.

    """
    folder = Path(folder)
    page = MotionPage(
        robot,
        plan.trajectory,
        plan.limits,
        plan.findings,
        collisions=collisions,
        obstacles=plan.settings.all_obstacles,
        deviations=plan.deviations,
        effort=nominal_effort(robot, model),
        condition_number=plan.condition_number,
        warnings=plan.warnings,
        settings=dump(to_mapping(plan.settings)),
    )
    files: dict[Path, str | bytes] = {
        folder / 'plan.yaml': plan_text(plan, robot, model),
        folder / 'trajectory.csv': points_csv(to_points(plan.trajectory, CSV_RATE)),
        folder / 'trajectory.yaml': points_yaml(_sent(plan, robot, collisions)),
        folder / 'plan.html': plan_html(page),
    }
    with reported_failures(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_together(files)
    return tuple(files)


def _sent(plan: Plan, robot: Robot, collisions: CollisionModel | None) -> PointTrajectory:
    """Return the fewest points between which quintics pass the checks of an execution."""
    limits = motion_limits(robot, plan.settings, margin=0.0)
    for rate in MESSAGE_RATES:
        points = to_points(plan.trajectory, rate)
        try:
            check_trajectory(robot, points, limits, collisions=collisions)
            break
        except ExcitationError:
            continue
    return points
