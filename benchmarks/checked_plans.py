# SPDX-License-Identifier: Apache-2.0
"""
Random plans, held against limits, efforts and collisions by a checker of its own.

    .venv/bin/python -m benchmarks checked_plans

The checker has nothing of the planner's: the points that a controller receives are interpolated
by quintic splines (SciPy) at 2 kHz; limits are the URDF's; efforts come from Pinocchio's RNEA with
the URDF's inertias and friction; distances of the URDF's shapes from Coal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
import math
from multiprocessing import get_context
import os
from pathlib import Path
import warnings

import numpy as np
import pinocchio as pin
from robot_identification.errors import ExcitationError
from robot_identification.excitation import Plan, plan, PlannerSettings
from robot_identification.excitation.distance_search import FINEST
from robot_identification.excitation.trajectories import to_points
from scipy.interpolate import BPoly

from .excitation import Arm, ARMS, FETCHED, robot_of
from .harness import Figure, Section, Table

PACKAGES = FETCHED.parents[1]

PLANS = 10_000
"""Plans that `make bench` checks."""

RATE, COLLISION_RATE = 2000.0, 100.0
"""Instants per second at which limits and efforts, and at which distances are checked."""

POINT_RATE = 100.0
"""Points per second that a controller receives."""

ROUNDING = 1e-6
"""Share of a limit that rounding and the interpolation between points may take."""

ALWAYS_CLOSE, POSES = 0.9, 300
"""Share of random poses in which a pair without room for the clearance is too close; and poses."""

TOUCHING, CONTACT_RATE = 1e-3, 25.0
"""Distance below which links touch that are nowhere kept apart [m]; looks for contacts [Hz]."""

BATCHES = 40
"""Jobs an arm is done in."""

MANY_LINKS, FEW = ('TALOS arm', 'Baxter arm', 'TIAGo arm'), 0.125
"""Arms on robots with many links, of which there are so many plans for one of the others."""

CLEARANCE, DURATIONS = 0.01, (2.0, 6.0)
"""Clearance of the plans [m], and their least and largest duration [s]."""

METHODS = ('fourier', 'fourier', 'fourier', 'spline', 'sweeps', 'poses')
CRITERIA = ('deviations', 'log_det', 'trace', 'largest', 'frobenius')


@dataclass(frozen=True)
class Violation:
    """A quantity that a plan takes beyond its limit, by the share of the limit."""

    quantity: str
    share: float


class IndependentChecker:
    """Checker of plans for one arm, which reads the URDF by Pinocchio alone."""

    def __init__(self, path: Path, joints: tuple[str, ...], clearance: float) -> None:
        whole = pin.buildModelFromUrdf(str(path))
        moving = set(joints)
        locked = [i for i in range(1, whole.njoints) if moving and whole.names[i] not in moving]
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            shapes = pin.buildGeomFromUrdf(
                whole,
                str(path),
                pin.GeometryType.COLLISION,
                package_dirs=[str(FETCHED.parents[1])],
            )
        rest = pin.neutral(whole)
        self.model, self.shapes = pin.buildReducedModel(whole, shapes, locked, rest)
        self.data = self.model.createData()
        self.names = list(self.model.names)[1:]
        self.clearance = clearance

    @cached_property
    def pairs(self) -> pin.GeometryModel:
        """Shapes with the pairs of links that are no neighbours and not always close."""
        parents = self.model.parents
        bodies = [shape.parentJoint for shape in self.shapes.geometryObjects]
        shapes = self._all_pairs()
        close = self._closeness(shapes, self.margin)
        kept = [
            pair
            for pair, each in zip(list(shapes.collisionPairs), close.T, strict=True)
            if each.mean() < ALWAYS_CLOSE
            and parents[bodies[pair.first]] != bodies[pair.second]
            and parents[bodies[pair.second]] != bodies[pair.first]
        ]
        return _with_pairs(shapes, kept)

    @cached_property
    def movable(self) -> pin.GeometryModel:
        """Shapes with all pairs of links that do not touch in every pose, neighbours, too."""
        shapes = self._all_pairs()
        close = self._closeness(shapes, TOUCHING)
        frames, objects = self.model.frames, shapes.geometryObjects
        pairs = list(shapes.collisionPairs)
        names = [
            tuple(frames[objects[i].parentFrame].name for i in (pair.first, pair.second))
            for pair in pairs
        ]
        touching = {
            name: close[:, [other == name for other in names]].any(axis=1).all()
            for name in set(names)
        }
        return _with_pairs(
            shapes, [p for p, n in zip(pairs, names, strict=True) if not touching[n]]
        )

    @property
    def margin(self) -> float:
        """Distance that a plan keeps at least [m]."""
        return (1.0 - FINEST) * self.clearance

    def _all_pairs(self) -> pin.GeometryModel:
        shapes = self.shapes.copy()
        bodies = [shape.parentJoint for shape in shapes.geometryObjects]
        pairs = combinations(range(len(bodies)), 2)
        return _with_pairs(
            shapes, [pin.CollisionPair(a, b) for a, b in pairs if bodies[a] != bodies[b]]
        )

    def _closeness(self, shapes: pin.GeometryModel, margin: float) -> np.ndarray:
        """Return in which random poses the pairs are close, (POSES, n_pairs)."""
        rng = np.random.default_rng(1)
        low = np.maximum(self.model.lowerPositionLimit, -np.pi)
        high = np.minimum(self.model.upperPositionLimit, np.pi)
        return self._close(shapes, margin, rng.uniform(low, high, (POSES, self.model.nq)))

    def _close(
        self, shapes: pin.GeometryModel, margin: float, positions: np.ndarray
    ) -> np.ndarray:
        data = shapes.createData()
        for request in data.collisionRequests:
            request.security_margin = margin
        found = []
        for q in positions:
            pin.computeCollisions(self.model, self.data, shapes, data, q, False)
            found.append([result.isCollision() for result in data.collisionResults])
        return np.array(found, dtype=bool).reshape(len(positions), -1)

    def contacts(self, made: Plan) -> set[tuple[str, str]]:
        """Return the links whose meshes touch along a plan though they need not."""
        shapes, points = self.movable, to_points(made.trajectory, CONTACT_RATE)
        order = [points.joints.index(name) for name in self.names]
        touching = self._close(shapes, 0.0, points.position[:, order]).any(axis=0)
        objects, frames = shapes.geometryObjects, self.model.frames
        return {
            tuple(frames[objects[i].parentFrame].name for i in (pair.first, pair.second))
            for pair, touches in zip(shapes.collisionPairs, touching, strict=True)
            if touches
        }

    def check(self, made: Plan) -> Iterator[Violation]:
        """Yield what a plan takes beyond the URDF's limits less its margins."""
        settings, model = made.settings, self.model
        points = to_points(made.trajectory, POINT_RATE)
        order = [points.joints.index(name) for name in self.names]
        knots = np.stack([points.position, points.velocity, points.acceleration], axis=1)
        # a copy of the frozen time, which SciPy 1.11 refuses
        spline = BPoly.from_derivatives(np.array(points.time), knots[:, :, order])
        time = np.linspace(0.0, points.time[-1], int(RATE * points.time[-1]) + 1)
        q, v, a, jerk = (spline(time, n) for n in range(4))
        free = 1.0 - settings.margin
        middle = 0.5 * (model.lowerPositionLimit + model.upperPositionLimit)
        half = 0.5 * (model.upperPositionLimit - model.lowerPositionLimit)
        speed = free * model.velocityLimit
        largest = speed / settings.acceleration_time
        friction = v * model.damping + np.sign(v) * model.friction
        efforts = np.array(
            [pin.rnea(model, self.data, *state) for state in zip(q, v, a, strict=True)]
        )
        shares = {
            'position': np.where(half < 1e3, (q - middle) / half / free, 0.0),
            'velocity': v / speed / settings.velocity_scale,
            'acceleration': a / largest,
            'jerk': jerk * settings.jerk_time / largest,
            'effort': (efforts + friction)
            / (free * (1.0 - settings.effort_margin) * model.effortLimit),
        }
        for quantity, values in shares.items():
            share = float(np.abs(values).max())
            if share > 1.0 + ROUNDING:
                yield Violation(quantity, share)
        if self._close(self.pairs, self.margin, q[:: int(RATE / COLLISION_RATE)]).any():
            yield Violation('clearance', 1.0)
        if self.contacts(made):
            yield Violation('contact', 1.0)


def _with_pairs(shapes: pin.GeometryModel, pairs: list[pin.CollisionPair]) -> pin.GeometryModel:
    shapes.removeAllCollisionPairs()
    for pair in pairs:
        shapes.addCollisionPair(pair)
    return shapes


def random_settings(rng: np.random.Generator) -> PlannerSettings:
    """Return settings of a short search, drawn at random."""
    return PlannerSettings(
        method=str(rng.choice(METHODS)),
        duration=float(np.exp(rng.uniform(*np.log(DURATIONS)))),
        harmonics=int(rng.integers(0, 12)),
        criterion=str(rng.choice(CRITERIA)),
        margin=float(rng.uniform(0.0, 0.4)),
        velocity_scale=float(rng.uniform(0.2, 1.0)),
        effort_margin=float(rng.uniform(0.0, 0.3)),
        acceleration_time=float(rng.uniform(0.1, 0.5)),
        clearance=CLEARANCE,
        seed=int(rng.integers(1 << 30)),
        max_iterations=int(rng.integers(1, 9)),
        time_budget=0.0,
    )


@dataclass(frozen=True)
class Checked:
    """Outcome of a number of random plans of one arm."""

    arm: str
    plans: int
    refused: int
    violations: tuple[str, ...]


def check_arm(arm: Arm, plans: int, seed: int) -> Checked:
    """Plan at random until there are ``plans`` of an arm, and check them."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        robot = robot_of(arm)
    assert robot is not None and robot.path is not None
    checker = IndependentChecker(robot.path, robot.joints, CLEARANCE)
    rng = np.random.default_rng(seed)
    done, refused, violations = 0, 0, []
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        while done < plans:
            settings = random_settings(rng)
            try:
                made = plan(robot, settings)
            except ExcitationError:
                refused += 1
                continue
            except Exception as error:
                violations.append(f'{type(error).__name__}: {error} by {settings}')
                continue
            done += 1
            violations += [f'{violation} by {settings}' for violation in checker.check(made)]
    return Checked(arm.name, done, refused, tuple(violations))


def check_plans(plans: int) -> Iterator[Checked]:
    """Check at least ``plans`` plans, fewer of arms on robots with many links; yield batches."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        arms = [arm for arm in ARMS if robot_of(arm) is not None]
    weights = [FEW if arm.name in MANY_LINKS else 1.0 for arm in arms]
    jobs = [
        (arm, math.ceil(plans * weight / sum(weights) / BATCHES), seed)
        for seed in range(BATCHES)
        for arm, weight in zip(arms, weights, strict=True)
    ]
    with get_context('spawn').Pool(os.cpu_count()) as pool:
        yield from pool.imap_unordered(_check_job, jobs)


def _check_job(job: tuple[Arm, int, int]) -> Checked:
    return check_arm(*job)


def section() -> Section:
    """Check plans of each arm."""
    found = []
    for batch in check_plans(PLANS):
        found.append(batch)
        print(f'{sum(part.plans for part in found)} plans, {batch}', flush=True)
    lines = []
    for name in dict.fromkeys(part.arm for part in found):
        parts = [part for part in found if part.arm == name]
        numbers = (
            sum(part.plans for part in parts),
            sum(len(part.violations) for part in parts),
            sum(part.refused for part in parts),
        )
        lines.append([name, *map(str, numbers)])
    return Section(
        'Checked plans',
        'Plans with settings drawn at random (kind of motion, criterion, 2 to 6 s, margins, '
        'acceleration; one to eight evaluations) against a checker that has nothing of the '
        "planner's: points at 100 Hz, interpolated by quintics at 2 kHz, against the URDF's "
        "limits less the margins, Pinocchio's RNEA with the URDF's friction, and the URDF's "
        'shapes by Coal 100 times a second. *refused*: settings for which there is no motion, '
        'such as poses in too short a time.',
        tables=[Table(['arm', 'plans', 'violations', 'refused'], lines)],
        figures=[
            Figure('plans', sum(part.plans for part in found), at_least=PLANS),
            Figure('violations', sum(len(part.violations) for part in found), at_most=0),
        ],
    )
