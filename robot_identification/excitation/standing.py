# SPDX-License-Identifier: Apache-2.0
"""
Motions of a legged robot on its feet: sway, turns and crouches, one foot lifted after another.

The base follows sums of sines in all six directions while the feet stay where they are, which
gives the positions of the legs by inverse kinematics; joints of no leg follow sines of their own.
Before a foot is lifted, the base moves until the centre of mass stands over the middle of the
others.  Masses are those of the URDF: a margin between the centre of pressure and the edge of the
support stands for what they are off by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.spatial import ConvexHull, QhullError

from ..errors import ExcitationError
from ..model.floating_base import BASE_JOINTS
from ..model.robot import Robot
from ..regressor.floating import Contact, FloatingRegressor
from ..regressor.loops import Poses, poses, Vector
from ..regressor.rigid import RigidBodies, Tree
from .standing_settings import StandingSettings
from .trajectories import PointTrajectory

_BASE = len(BASE_JOINTS)


@dataclass(frozen=True)
class StandingMotion:
    """
    A motion on the feet.

    Attributes
    ----------
    time:
        (m,) [s].
    position:
        (m, n) of the driven joints [rad or m].
    base:
        (m, 6) place of the base in the world: origin [m], then three turns about x, y and z, one
        after the other [rad].
    stance:
        (m, c) bool, which contacts are on the ground.
    margin:
        Least distance of the centre of pressure from the edge of the support [m].

    """

    time: np.ndarray
    position: np.ndarray
    base: np.ndarray
    stance: np.ndarray
    margin: float

    def trajectory(self, joints: tuple[str, ...]) -> PointTrajectory:
        """Return the positions of these joints with the rates of a spline through them."""
        spline = CubicSpline(self.time, self.position, bc_type='clamped')
        rates = (spline(self.time, order) for order in (1, 2))
        return PointTrajectory(joints, self.time, self.position, *rates)


def standing_motion(
    robot: Robot,
    regressor: FloatingRegressor,
    posture: np.ndarray,
    settings: StandingSettings | None = None,
) -> StandingMotion:
    """
    Plan a motion of a robot on its feet.

    Parameters
    ----------
    robot, regressor:
        With a floating base and its contacts.
    posture:
        (n,) positions of the driven joints in which it stands, its base upright [rad or m].
    settings:
        Of the motion.

    Raises
    ------
    ExcitationError
        naming what does not go: a foot out of reach, a limit, the balance.

    """
    settings = settings or StandingSettings()
    feet = len(regressor.contacts)
    random = np.random.default_rng(settings.seed)
    time = np.arange(0.0, settings.duration, 1.0 / settings.rate)
    legs = _Legs(robot, regressor, np.concatenate([np.zeros(_BASE), posture]))
    free = [j for j in range(_BASE, robot.n_joints) if j not in legs.columns]
    upward = settings.shift if settings.crouch is None else settings.crouch
    reach = [settings.shift] * 2 + [upward] + [settings.turn] * 3 + [settings.swing] * len(free)
    waves = _step(np.minimum(time, time[-1] - time) / _MOVE)[:, None] * np.array(reach)
    waves = waves * _sines(random, time, len(reach), settings.frequency)
    lifted, moved = _lifts(time, feet, settings)
    state = np.tile(legs.start, (len(time), 1))
    # one foot less takes a calmer base
    state[:, :_BASE] += (1.0 - (1.0 - _CALM) * moved.max(axis=1, initial=0.0))[:, None] * waves[
        :, :_BASE
    ]
    state[:, free] += waves[:, _BASE:]
    state = legs.balanced(state, settings.lift * lifted, moved)
    _require_limits(robot, state, time)
    margin = legs.margin(legs.pressure(state, time), lifted <= 0.0)
    if margin < settings.margin:
        raise ExcitationError(
            f'the centre of pressure comes to {1e3 * margin:.0f} mm from the edge of the support, '
            f'{1e3 * settings.margin:.0f} are asked for',
            value=margin,
            remedy='lower frequency, shift and turn, or set lift to 0',
        )
    return StandingMotion(time, state[:, _BASE:], state[:, :_BASE], lifted <= 0.0, margin)


_AIR = 2.0
"""Time that a foot is in the air [s]."""

_MOVE = 1.5
"""Time for the base to come over the other feet, and back; and to begin and end a motion [s]."""

_CALM = 0.4
"""Share of the sway while a foot is in the air."""


def _step(share: np.ndarray) -> np.ndarray:
    """Return smooth steps from 0 to 1 over shares from 0 to 1."""
    share = np.clip(share, 0.0, 1.0)
    return share * share * share * (share * (6.0 * share - 15.0) + 10.0)


def _sines(
    random: np.random.Generator, time: np.ndarray, count: int, highest: float
) -> np.ndarray:
    """Return sums of four sines each, (m, count), nowhere above 1."""
    frequency = random.uniform(0.2, 1.0, (4, count)) * highest
    phase = random.uniform(0.0, 2.0 * np.pi, (4, count))
    waves = np.sin(2.0 * np.pi * frequency * time[:, None, None] + phase).sum(axis=1)
    return np.asarray(waves / np.maximum(np.abs(waves).max(axis=0), 1e-9))


def _lifts(
    time: np.ndarray, feet: int, settings: StandingSettings
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return when feet are lifted, one after the other.

    Both are (m, feet): the height of each in the air, up to 1, and how far the base has moved over
    the others for it, from 0 to 1.
    """
    lifted, moved = np.zeros((2, len(time), feet))
    whole = 2.0 * _MOVE + _AIR
    begins = np.arange(0.25 * settings.duration, settings.duration - whole - _MOVE, whole + 0.5)
    if settings.lift > 0.0 and feet:
        for i, begin in enumerate(begins):
            after = time - begin
            moved[:, i % feet] += _step(after / _MOVE) * _step((whole - after) / _MOVE)
            air = np.clip((after - _MOVE) / _AIR, 0.0, 1.0)
            lifted[:, i % feet] += np.sin(np.pi * air) ** 2
    # sines of multiples of pi are not quite 0
    lifted[lifted < 1e-12] = 0.0
    return lifted, moved


class _Legs:
    """
    Inverse kinematics of all legs at once, over all samples at once.

    The joints of the base stand for its place in the world here.
    """

    def __init__(self, robot: Robot, regressor: FloatingRegressor, start: np.ndarray) -> None:
        rigid = regressor.fixed.terms[0]
        assert isinstance(rigid, RigidBodies)
        self.tree: Tree = rigid.tree
        self.robot, self.contacts, self.start = robot, regressor.contacts, start
        paths = [self.tree.joints[contact.joint].path for contact in self.contacts]
        common = set.intersection(*map(set, paths)) if len(paths) > 1 else set(range(_BASE))
        joints = sorted({place for path in paths for place in path} - common)
        self.columns = [self.tree.joints[place].column for place in joints]
        masses = np.array([robot.prior[f'{link}.m'] for link in robot.layout.links])
        self.masses = masses / masses.sum()
        self.centres = [
            Vector(
                next(i for i, j in enumerate(self.tree.joints) if robot.links[j.link] == link),
                robot.prior.inertial(link)[1:4] / max(robot.prior[f'{link}.m'], 1e-12),
            )
            for link in robot.layout.links
        ]
        self.placed = self._feet(start[None])

    def _feet(self, state: np.ndarray) -> np.ndarray:
        """Return the contacts' points (m, c, 3) in the world; of spheres the centres."""
        at = poses(self.tree, state)
        return np.stack([Vector(c.joint, c.point).in_base(at) for c in self.contacts], axis=1)

    def centre_of_mass(self, state: np.ndarray) -> np.ndarray:
        """Return (m, 3) where it is, by the URDF's masses [m]."""
        at = poses(self.tree, state)
        total = sum(
            mass * centre.in_base(at)
            for mass, centre in zip(self.masses, self.centres, strict=True)
        )
        return np.asarray(total)

    def pressure(self, state: np.ndarray, time: np.ndarray) -> np.ndarray:
        """
        Return (m, 2) the centre of pressure on the ground of a point mass [m].

        It leads the centre of mass by its height over g, times its acceleration.
        """
        centre = self.centre_of_mass(state)
        acceleration = np.gradient(np.gradient(centre, time, axis=0), time, axis=0)
        ground = self.placed[0, :, 2].min() if len(self.contacts) else 0.0
        gravity = float(np.linalg.norm(self.robot.gravity))
        lever = (centre[:, 2:] - ground) / np.maximum(gravity + acceleration[:, 2:], _FALLING)
        return np.asarray(centre[:, :2] - lever * acceleration[:, :2])

    def balanced(self, state: np.ndarray, heights: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Return states with feet in their places, and the base over those that stay."""
        others = 1.0 - np.eye(len(self.contacts))
        middles = others @ self.placed[0, :, :2] / np.maximum(others.sum(axis=1), 1.0)[:, None]
        for _ in range(3):
            state = self.on_feet(state, heights)
            away = middles - self.centre_of_mass(state)[:, None, :2]
            state[:, :2] += np.einsum('mc,mcd->md', moved, away)
        return self.on_feet(state, heights)

    def on_feet(self, state: np.ndarray, heights: np.ndarray) -> np.ndarray:
        """Return states in which the contacts are in their places, but higher by (m, c) [m]."""
        state = state.copy()
        for _ in range(_ITERATIONS):
            residual, jacobian = self._misplaced(state, heights)
            if np.abs(residual).max() < _PLACED:
                return state
            square = jacobian @ jacobian.transpose(0, 2, 1)
            square += _DAMPING * np.eye(square.shape[1])
            step = np.linalg.solve(square, residual[:, :, None])
            state[:, self.columns] -= (jacobian.transpose(0, 2, 1) @ step)[:, :, 0]
        worst = int(np.abs(residual).max(axis=1).argmax())
        row = int(np.abs(residual[worst]).argmax())
        foot = np.repeat([c.name for c in self.contacts], [c.rows for c in self.contacts])[row]
        raise ExcitationError(
            f"'{foot}' cannot stay on the ground: it is out of reach",
            remedy='lower shift, turn and lift, or stand with bent legs',
        )

    def _misplaced(self, state: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far contacts are from their places, (m, k), and the slopes by the legs."""
        at, first = poses(self.tree, state), poses(self.tree, self.start[None])
        residuals, slopes = [], []
        for i, contact in enumerate(self.contacts):
            point = Vector(contact.joint, contact.point)
            off = point.in_base(at) - self.placed[:, i]
            off[:, 2] -= heights[:, i]
            residuals.append(off)
            slopes.append(point.slopes(self.tree, at))
            if contact.flat:
                turned = at.rotation[contact.joint] @ first.rotation[contact.joint][0].T
                residuals.append(0.5 * _SOLE * _skew_part(turned))
                slopes.append(_SOLE * _turning(self.tree, at, contact))
        jacobian = np.concatenate(slopes, axis=1)[:, :, self.columns]
        return np.concatenate(residuals, axis=1), jacobian

    def margin(self, centre: np.ndarray, stance: np.ndarray) -> float:
        """Return the least distance of points (m, 2) from the edge of the support [m]."""
        least = np.inf
        for held in np.unique(stance, axis=0):
            corners = np.vstack(
                [
                    self.placed[0, i, :2] + _corners(c)
                    for i, c in enumerate(self.contacts)
                    if held[i]
                ]
                or [np.zeros((0, 2))]
            )
            some = centre[(stance == held).all(axis=1)]
            try:
                edges = ConvexHull(corners).equations
            except (QhullError, ValueError):
                return -np.inf
            least = min(least, float(-(some @ edges[:, :2].T + edges[:, 2]).max()))
        return least


_FALLING = 1.0
"""Least share of gravity that is left to feet, where a motion falls [m/s^2]."""
_ITERATIONS = 30
_PLACED = 1e-7
"""Distance of a foot from its place that is none [m]."""
_DAMPING = 1e-10
_SOLE = 0.1
"""Length by which turns of soles are counted as distances [m]."""


def _corners(contact: Contact) -> np.ndarray:
    """Return corners of what a contact stands on, about its point, (k, 2) [m]."""
    x, y = contact.sole
    return np.array([[x, y], [x, -y], [-x, y], [-x, -y]])


def _skew_part(rotation: np.ndarray) -> np.ndarray:
    """Return the vectors (m, 3) of the skew parts of rotations: sine times axis, doubled."""
    r = rotation
    return np.stack([r[:, 2, 1] - r[:, 1, 2], r[:, 0, 2] - r[:, 2, 0], r[:, 1, 0] - r[:, 0, 1]], 1)


def _turning(tree: Tree, at: Poses, contact: Contact) -> np.ndarray:
    """Return the angular velocity of a contact by unit speeds of the joints, (m, 3, n)."""
    slopes = np.zeros((len(at.axis[0]), 3, tree.n_columns))
    for place in tree.joints[contact.joint].path:
        joint = tree.joints[place]
        if joint.revolute:
            slopes[:, :, joint.column] = at.axis[place]
    return slopes


def _require_limits(robot: Robot, state: np.ndarray, time: np.ndarray) -> None:
    """Raise `ExcitationError` for a driven joint beyond the URDF's limits."""
    lower, upper = robot.limits.lower[_BASE:], robot.limits.upper[_BASE:]
    position = state[:, _BASE:]
    speed = np.abs(np.gradient(position, time, axis=0))
    for over, what in (
        (np.maximum(position - upper, lower - position), 'position'),
        (speed - robot.limits.velocity[_BASE:], 'speed'),
    ):
        joint = int(over.max(axis=0).argmax())
        if (most := float(over[:, joint].max())) > 0.0:
            raise ExcitationError(
                f"joint '{robot.driven_joints[joint]}' is {most:.3g} beyond its limit of {what}",
                joint=robot.driven_joints[joint],
                value=most,
                remedy='lower shift, turn, lift or frequency, or stand in another posture',
            )
