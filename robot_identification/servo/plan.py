# SPDX-License-Identifier: Apache-2.0
"""
Commands for position servos whose response is exciting and within limits.

A servo does not follow its commands: it lags, droops under gravity and overshoots.  So a planned
path is commanded at several speeds, and what is held against the limits is the response that
MuJoCo simulates with nominal parameters.  A joint whose response passes a limit gets a smaller
excursion.  Speeds grow as long as the servos follow: fast motion separates delay, viscous friction
and armature, and what is identified on it holds for slow motion, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import json

import numpy as np

from ..data.commands import CommandRecording
from ..errors import ExcitationError
from ..excitation.collisions import CollisionModel
from ..excitation.constraints import check_collisions, CollisionError, LimitUse, Nearest
from ..excitation.limits import Limits
from ..excitation.plans import Planned
from ..excitation.trajectories import PointTrajectory
from .model import ServoModel
from .parameters import ServoParameters


@dataclass(frozen=True)
class CommandPlanConstants:
    """Constants of a plan of commands."""

    speeds: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    """Speeds at which a path is commanded, by that of its plan."""
    followed_share: float = 0.5
    """Least share of the commanded excursion that a joint's response has where it follows."""
    smallest_share: float = 0.05
    """Least share of the planned excursions with which a speed is worth while."""
    hold_time: float = 0.5
    """Time for which commands rest at either end and between speeds [s]."""
    settling_time: float = 4.0
    """Longest time for which the last command is held [s]."""
    rest_share: float = 0.02
    """Share of the speed limits that is rest."""
    response_rate: float = 500.0
    """Rate at which a response is held against the limits, at least [Hz]."""
    point_rate: float = 100.0
    """Rate of the points of a response for distances [Hz]."""
    shrinkings: int = 12
    """Times that excursions are made smaller."""


PLAN = CommandPlanConstants()


@dataclass(frozen=True)
class Response:
    """
    Simulated response to commands.

    Attributes
    ----------
    time:
        (n,) [s].
    position, velocity, effort:
        (n, n_joints) of the joints [rad or m], and of their servos [N m or N].
    gain:
        (n_joints,) scatter of the response by that of the commands.

    """

    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    gain: np.ndarray

    def use(self, limits: Limits) -> LimitUse:
        """Return the shares of the limits that it uses."""
        bounded = np.isfinite(limits.lower) & np.isfinite(limits.upper)
        with np.errstate(invalid='ignore'):
            middle, half = 0.5 * (limits.lower + limits.upper), 0.5 * (limits.upper - limits.lower)
            away = np.abs(self.position - middle).max(axis=0) / half
        shares = {
            'position': np.where(bounded, away, 0.0),
            'velocity': np.abs(self.velocity).max(axis=0) / limits.velocity,
            'effort': np.abs(self.effort).max(axis=0) / limits.effort,
        }
        return LimitUse(limits.joints, shares)


@dataclass(frozen=True)
class CommandPlan:
    """
    Commands for servos, and their simulated response.

    Attributes
    ----------
    joints:
        Names, in the order of the columns.
    rate:
        Of the commands [Hz].
    commands:
        (n, n_joints) commanded positions [rad or m].
    speeds:
        Speeds at which the path is commanded, by that of its plan.
    use:
        Shares of the limits that the response uses.
    nearest:
        Smallest distances along the response; empty where they were not checked.
    gain:
        (n_joints,) of the fastest part: excursion of the response by that of the commands.

    """

    joints: tuple[str, ...]
    rate: float
    commands: np.ndarray
    speeds: tuple[float, ...]
    use: LimitUse
    nearest: tuple[Nearest, ...]
    gain: np.ndarray

    def summary(self) -> str:
        """Return what is commanded and how the robot responds, as text."""
        near = ', '.join(nearest.summary() for nearest in self.nearest)
        slowest = int(self.gain.argmin())
        return '\n'.join(
            [
                f'commands: {len(self.commands) / self.rate:.1f} s at {self.rate:g} Hz, the path '
                f'at {", ".join(f"{speed:g}" for speed in self.speeds)} times its speed',
                f'response as simulated, {self.use.summary()}'
                + (f'; smallest distance {near}' if near else ''),
                f'at the highest speed, {self.joints[slowest]} follows '
                f'{100.0 * self.gain[slowest]:.0f} % of its commands; armature and friction of '
                'the simulation are nominal, those of the robot file',
            ]
        )

    def csv(self) -> str:
        """Return the commands as a table with the columns ``time`` and the joints."""
        lines = [','.join(('time', *self.joints))]
        for k, row in enumerate(self.commands):
            lines.append(','.join(f'{value:.9g}' for value in (k / self.rate, *row)))
        return '\n'.join(lines) + '\n'

    def json(self) -> str:
        """Return the commands as JSON: ``joints``, ``rate`` and ``commands``."""
        rows = np.round(self.commands, 9).tolist()
        return json.dumps({'joints': self.joints, 'rate': self.rate, 'commands': rows}) + '\n'


def plan_commands(
    model: ServoModel,
    nominal: ServoParameters,
    path: Planned,
    limits: Limits,
    rate: float,
    collisions: CollisionModel | None = None,
) -> CommandPlan:
    """
    Return commands along a planned path whose response keeps limits and distances.

    Parameters
    ----------
    model, nominal:
        The servos, without limits of efforts, and the parameters that the response is simulated
        with.
    path:
        From rest to rest.
    limits:
        Of positions, velocities and the servos' efforts.
    rate:
        Of the commands [Hz].
    collisions:
        The robot's collision model; None leaves distances aside.

    Raises
    ------
    ExcitationError
        where no excursion from the start is within the limits; `CollisionError` where none is free
        of collision.

    """
    speeds: list[float] = []
    shares: list[np.ndarray] = []
    for speed in PLAN.speeds:
        share = _largest_shares(model, nominal, path, limits, rate, speed)
        response = respond(model, nominal, _pass(path, speed, share, rate), rate)
        slowest = int(response.gain.argmin())
        behind = response.gain[slowest] < PLAN.followed_share
        if speeds and (behind or (share < PLAN.smallest_share).all()):
            break
        if behind:
            raise _left_behind(response, model.robot.joints[slowest], slowest)
        speeds.append(speed)
        shares.append(share)
    part = 1.0
    for _ in range(PLAN.shrinkings):
        commands = _consecutive_passes(path, speeds, [part * share for share in shares], rate)
        response = respond(model, nominal, commands, rate)
        moves = np.abs(response.velocity) > PLAN.rest_share * limits.velocity
        fast = np.flatnonzero(moves.any(axis=1))
        rest = response.time[fast[-1]] if fast.size else 0.0
        commands = commands[: max(int(np.ceil(rest * rate)) + 1, 2)]
        use = response.use(limits)
        try:
            moved = _points(response, model)
            nearest = () if collisions is None else check_collisions(moved, collisions)
        except CollisionError as error:
            failure: ExcitationError = error
        else:
            if _excess(use).max() <= 1.0:
                fastest = respond(model, nominal, _pass(path, speeds[-1], shares[-1], rate), rate)
                joints, parts = model.robot.joints, tuple(speeds)
                return CommandPlan(joints, rate, commands, parts, use, nearest, fastest.gain)
            failure = _beyond(use)
        part *= 0.85
    raise failure


def respond(
    model: ServoModel, parameters: ServoParameters, commands: np.ndarray, rate: float
) -> Response:
    """Return the response to commands (n, n_joints) at a rate [Hz] from rest at the first one."""
    times = int(np.ceil(PLAN.response_rate / rate))
    fine = np.repeat(commands, times, axis=0)
    step = 1.0 / (rate * times)
    recording = CommandRecording(
        step * np.arange(len(fine)),
        np.broadcast_to(commands[0], fine.shape),
        fine,
        model.robot.joints,
        velocity=np.zeros_like(fine),
    )
    position = next(iter(model.rollouts([parameters], recording)))
    velocity = np.gradient(position, step, axis=0)
    kp, kd = model.stiffness * parameters.stiffness, model.damping * parameters.damping
    effort = kp * (fine - position) - kd * velocity
    held = int(PLAN.hold_time / step)
    moving = slice(held, -held)
    excursion = np.maximum(fine[moving].std(axis=0), 1e-12)
    gain = position[moving].std(axis=0) / excursion
    return Response(recording.time, position, velocity, effort, gain)


def _pass(path: Planned, speed: float, share: np.ndarray, rate: float) -> np.ndarray:
    """Return the commands of a path at a speed, held at both ends; fast ones are repeated."""
    rounds = max(1, round(0.5 * speed))
    total, hold = rounds * path.duration, PLAN.hold_time
    count = int(np.ceil((total / speed + 2.0 * hold) * rate))
    along = np.clip(speed * (np.arange(count) / rate - hold), 0.0, total)
    position = path.sample(along % path.duration).position  # it ends where it begins
    start = path.sample(np.zeros(1)).position
    return np.asarray(start + share * (position - start))


def _consecutive_passes(
    path: Planned, speeds: Sequence[float], shares: Sequence[np.ndarray], rate: float
) -> np.ndarray:
    parts = [_pass(path, *each, rate) for each in zip(speeds, shares, strict=True)]
    held = int(PLAN.hold_time * rate)
    settling = np.repeat(parts[0][:1], int(np.ceil(PLAN.settling_time * rate)), axis=0)
    return np.concatenate([parts[0], *(part[held:] for part in parts[1:]), settling])


def _largest_shares(
    model: ServoModel,
    nominal: ServoParameters,
    path: Planned,
    limits: Limits,
    rate: float,
    speed: float,
) -> np.ndarray:
    """Return the shares (n_joints,) of the excursions whose response keeps the limits."""
    share = np.ones(model.robot.n_joints)
    for _ in range(PLAN.shrinkings):
        use = respond(model, nominal, _pass(path, speed, share, rate), rate).use(limits)
        excess = _excess(use)
        if excess.max() <= 1.0:
            return share
        share = share / np.where(excess > 1.0, 1.05 * np.minimum(excess, 4.0), 1.0)
    if speed > 1.0:
        return np.zeros_like(share)
    raise _beyond(use)


def _excess(use: LimitUse) -> np.ndarray:
    """Return (n_joints,) largest shares of a limit."""
    shares = np.array(list(use.quantities.values()))
    return np.asarray(np.where(np.isfinite(shares), shares, np.inf).max(axis=0))


def _beyond(use: LimitUse) -> ExcitationError:
    """Return the error that names the joint whose response passes a limit by most."""
    name = max(use.quantities, key=lambda key: float(use.quantities[key].max()))
    j = int(use.quantities[name].argmax())
    value = float(use.quantities[name][j])
    return ExcitationError(
        f"{name} of joint '{use.joints[j]}' takes {100.0 * value:.0f} % of its limit in the "
        'simulated response, even with small excursions',
        joint=use.joints[j],
        key=name,
        value=value,
        remedy='start elsewhere (planner.start), or correct the gains, limit or inertias',
    )


def _left_behind(response: Response, joint: str, j: int) -> ExcitationError:
    """Return the error for a servo that does not follow the path at its planned speed."""
    share = float(response.gain[j])
    return ExcitationError(
        f"joint '{joint}' follows {100.0 * share:.0f} % of its commands in the simulated response",
        joint=joint,
        key='stiffness',
        value=share,
        remedy='check the gains (robot.servo), or plan a slower motion (planner.duration)',
    )


def _points(response: Response, model: ServoModel) -> PointTrajectory:
    """Return a response as points for the check of distances."""
    stride = max(1, round(1.0 / (PLAN.point_rate * (response.time[1] - response.time[0]))))
    rows = slice(None, None, stride)
    arrays = (response.time[rows], response.position[rows], response.velocity[rows])
    return PointTrajectory(model.robot.joints, *arrays)
