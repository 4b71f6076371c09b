# SPDX-License-Identifier: Apache-2.0
"""
Goal of a motion, and the planner's objective with its gradient, in unconstrained variables.

`IdentificationGoal` has the parameters to be known, the noise, and what is known of them already.
`Objective` is a criterion of the information along a motion of a family that keeps its limits by
construction, with penalties for what cannot be had so: too large efforts (`effort_penalty`), and
links that come close to each other or to an obstacle (`distance_penalty`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import scipy

from ..data.recording import Motion
from ..errors import ExcitationError, one_of
from ..model.friction import FRICTION_SYMBOLS
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor import build, ModelSettings, predict, prior, Regressor
from ..regressor.base_search import structure
from ..regressor.inverse_dynamics import pull_back
from .bases import Matrices
from .criteria import (
    by_information,
    covariance,
    CRITERIA,
    EarlierInformation,
    excess_and_deviations,
    PredictedDeviations,
    ROW_RATE,
)
from .distance_penalty import DistancePenalty
from .families import MotionFamily
from .limits import by_joint, Limits
from .settings import PlannerSettings
from .trajectories import Trajectory

EFFORT_SHARE = 0.99
"""Share of an effort limit above which the penalty grows."""

EFFORT_WEIGHT = 1000.0
"""Factor of the mean squared excess over the effort limits."""

SIGN_WIDTH = 0.05
"""Share of a velocity limit over which the sign of the velocity is smoothed."""

Criterion = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Turns an information matrix (b, b) into the value to be minimised and its gradient (b, b)."""


LAST = 4
"""Joints that move for a payload: the last ones, which turn it most for their effort."""

NOISE = 0.01
"""Noise of an effort by its limit, where nothing is known."""


@dataclass(frozen=True)
class IdentificationGoal:
    """Goal of a motion."""

    regressor: Regressor
    prior: ParameterSet
    """Parameters that predict efforts."""
    columns: np.ndarray
    """(b,) columns of the regressor whose parameters are estimated."""
    names: tuple[str, ...]
    units: tuple[str, ...]
    """Of these, which are base parameters or those of the load."""
    values: np.ndarray
    """(b,) of these by the URDF."""
    noise: np.ndarray
    """(n_joints,) standard deviation of one of `ROW_RATE` efforts a second [N m or N]."""
    earlier: np.ndarray
    """(b, b) information of earlier recordings."""
    criterion: Criterion
    """What is minimised."""
    moving: tuple[str, ...]
    """Joints that move."""

    def effort(self, motion: Motion) -> np.ndarray:
        """Return the efforts (n_samples, n_joints) that are predicted [N m or N]."""
        return predict(self.regressor, motion, self.prior)

    def deviations(self, trajectory: Trajectory) -> PredictedDeviations:
        """Return the deviations that a motion leaves, with what is known already."""
        count = max(1, int(ROW_RATE * trajectory.duration))
        # between the ends, where the robot rests and says nothing new
        motion = trajectory.sample((np.arange(count) + 0.5) / ROW_RATE)
        rows = self.regressor.rows(motion).reshape(count, self.noise.size, -1)
        information, _ = self.information(rows)
        std = np.sqrt(np.diagonal(covariance(information)))
        return PredictedDeviations(self.names, self.units, std, self.values)

    def information(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the information (b, b) of (n, n_joints, p) rows, and the weighed base rows."""
        base = (rows[:, :, self.columns] / self.noise[:, None]).reshape(-1, self.columns.size)
        return base.T @ base + self.earlier, base


def wanted_parameters(
    robot: Robot,
    settings: PlannerSettings,
    model: ModelSettings,
    limits: Limits,
    earlier: EarlierInformation | None,
    targets: dict[str, float] | None,
) -> IdentificationGoal:
    """
    Return the goal of a motion by the settings.

    Raises `ExcitationError` naming the parameter or joint that there is not, or a noise that does
    not fit.
    """
    regressor, values = build(robot, model), prior(robot, model)
    payload = settings.parameters == ('payload',)
    if payload:
        columns = _load_columns(robot, regressor, limits)
        layout = regressor.layout.select(columns)
        nominal = np.zeros(columns.size)
    else:
        base = structure(regressor, robot, grouping=model.grouping)
        columns, layout = base.independent, base.base_layout
        nominal = base.project(values).values
    names = layout.names
    if earlier is not None:
        earlier.require(names)
    chosen = parameter_places(() if payload else settings.parameters, names, robot)
    function = CRITERIA[settings.criterion].function
    if targets:
        for name, target in targets.items():
            if not 0.0 < target < np.inf:
                raise ExcitationError(
                    f"the wanted deviation of '{name}' is {target:g}",
                    key='targets',
                    value=target,
                    remedy='give a positive one',
                )
        function = partial(
            excess_and_deviations,
            places=np.array([_place(name, names, 'targets') for name in targets]),
            targets=np.array([*targets.values()]),
        )
        chosen = np.arange(len(names))
    return IdentificationGoal(
        regressor=regressor,
        prior=values,
        columns=columns,
        names=names,
        units=layout.units,
        values=nominal,
        noise=_noise(robot, settings, earlier),
        earlier=np.zeros((columns.size,) * 2) if earlier is None else earlier.information,
        criterion=partial(by_information, places=chosen, function=function),
        moving=_moving(robot, settings, payload=payload),
    )


def parameter_places(
    parameters: tuple[str, ...], names: tuple[str, ...], robot: Robot
) -> np.ndarray:
    """
    Return the places among ``names`` of the parameters that count.

    ``parameters`` are as `PlannerSettings.parameters`, but for ``payload``; empty for all.

    Raises `ExcitationError` naming what is no base parameter and has none.
    """
    if not parameters:
        return np.arange(len(names))
    places: set[int] = set()
    for wanted in parameters:
        if wanted == 'friction':
            found = {
                i for i, name in enumerate(names) if name.rpartition('.')[2] in FRICTION_SYMBOLS
            }
        elif wanted in (*robot.carriers.links, *robot.joints):
            found = {i for i, name in enumerate(names) if name.rpartition('.')[0] == wanted}
        else:
            found = {_place(wanted, names, 'parameters')}
        if not found:
            raise ExcitationError(
                f"no base parameter belongs to '{wanted}'",
                key='parameters',
                value=wanted,
                remedy=f'take a name out of {one_of(names)}',
            )
        places |= found
    return np.array(sorted(places), dtype=int)


def _place(name: str, names: tuple[str, ...], key: str) -> int:
    if name not in names:
        raise ExcitationError(
            f"there is no base parameter '{name}'",
            key=key,
            value=name,
            remedy="take 'friction', 'payload' (alone), a link, a joint or a name out of "
            f'{one_of(names)}',
        )
    return names.index(name)


def _load_columns(robot: Robot, regressor: Regressor, limits: Limits) -> np.ndarray:
    """Return the columns of the last link's parameters that a motion can distinguish."""
    link = robot.tip
    of_link = [i for i, n in enumerate(regressor.layout.names) if n.rpartition('.')[0] == link]
    rng = np.random.default_rng(19920801)
    states = rng.uniform(-1.0, 1.0, (2, 200, robot.n_joints))
    position = rng.uniform(limits.lower, limits.upper, (200, robot.n_joints))
    motion = Motion(position, states[0] * limits.velocity, states[1] * limits.acceleration)
    rows = regressor.rows(motion)[:, of_link]
    rows /= np.maximum(np.linalg.norm(rows, axis=0), 1e-300)
    _, triangle, order = scipy.linalg.qr(rows, mode='economic', pivoting=True)
    rank = int((np.abs(np.diagonal(triangle)) > 1e-8 * abs(triangle[0, 0])).sum())
    return np.sort(np.array(of_link)[order[:rank]])


def _noise(
    robot: Robot, settings: PlannerSettings, earlier: EarlierInformation | None
) -> np.ndarray:
    if settings.effort_noise:
        if not min(settings.effort_noise) > 0.0:
            raise ExcitationError(
                f"'effort_noise' is {min(settings.effort_noise):g} for one of the joints",
                key='effort_noise',
                value=settings.effort_noise,
                remedy='give positive values',
            )
        return by_joint(robot, settings, 'effort_noise', np.empty(0))
    if earlier is not None:
        return earlier.noise
    limit = np.array(robot.limits.effort, dtype=float)
    # a URDF that leaves the limit open, or has 0 for it, says nothing of the noise
    stated = np.isfinite(limit) & (limit > 0.0)
    return NOISE * np.where(stated, limit, limit[stated].max() if stated.any() else 1.0)


def _moving(robot: Robot, settings: PlannerSettings, *, payload: bool) -> tuple[str, ...]:
    if not settings.moving:
        return robot.joints[-LAST:] if payload else robot.joints
    for name in settings.moving:
        if name not in robot.joints:
            raise ExcitationError(
                f"there is no joint '{name}' to move",
                joint=name,
                key='moving',
                value=name,
                remedy=f'joints are {", ".join(robot.joints)}',
            )
    # named twice it moves once
    return tuple(dict.fromkeys(settings.moving))


@dataclass(frozen=True)
class ObjectiveValue:
    """Value of the objective."""

    criterion: float
    """Without the penalties."""
    penalty: float
    """Of efforts and distances; 0 where all is well."""

    @property
    def total(self) -> float:
        """Sum of both, which is minimised."""
        return self.criterion + self.penalty


@dataclass(frozen=True)
class Objective:
    """The criterion along a motion, with penalties."""

    family: MotionFamily
    """What motions there are."""
    goal: IdentificationGoal
    """Goal of the motions; its noise is that of the efforts of one of ``time``."""
    time: np.ndarray
    """(n_samples,) when the motion is looked at [s]."""
    effort: np.ndarray
    """(n_joints,) limits of the efforts."""
    distances: DistancePenalty | None = None
    """Penalty of links that come close; None leaves distances aside."""
    buffer: float = 0.0
    """Distance above which links count as close [m]."""
    weight: float = 1.0
    """Factor of the penalties."""
    every: int = 2
    """Each so many samples distances are looked at."""
    _matrices: Matrices = field(init=False, repr=False, compare=False)
    _coulomb: tuple[np.ndarray, np.ndarray] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, '_matrices', self.family.basis.matrices(self.time))
        names = [f'{joint}.fc' for joint in self.family.limits.joints]
        layout = self.goal.regressor.layout.names
        places = [(j, layout.index(name)) for j, name in enumerate(names) if name in layout]
        # joints with Coulomb friction, and its columns
        object.__setattr__(self, '_coulomb', tuple(np.array(places, dtype=int).reshape(-1, 2).T))

    def motion(self, x: np.ndarray) -> Motion:
        """Return the motion at `time` for variables x."""
        return Motion(*self.family.motion(x, self._matrices))

    def rows(self, motion: Motion) -> np.ndarray:
        """
        Return the regressor as (n_samples, n_joints, n_parameters).

        Coulomb friction's jump is smoothed: a criterion that jumps has no useful gradient, and a
        drive that hardly moves says little about it.
        """
        regressor = self.goal.regressor
        rows = regressor.rows(motion).reshape(len(motion), -1, len(regressor.layout))
        joints, columns = self._coulomb
        rows[:, joints, columns] = np.tanh(motion.velocity[:, joints] / self._width)
        return rows

    def _effort(self, rows: np.ndarray) -> np.ndarray:
        """
        Return the efforts (n_samples, n_joints), with friction of either sign near a reversal.

        What is missing of the friction where its sign is smoothed is added to the size: within the
        width the sign changes, and the effort is the larger one of both sides.
        """
        effort = rows @ self.goal.prior.values
        joints, columns = self._coulomb
        missing = self.goal.prior.values[columns] * (1.0 - np.abs(rows[:, joints, columns]))
        effort[:, joints] += np.copysign(missing, effort[:, joints])
        return np.asarray(effort)

    @property
    def _width(self) -> np.ndarray:
        """Speeds (k,) of the joints with Coulomb friction over which its sign is smoothed."""
        return SIGN_WIDTH * self.family.limits.velocity[self._coulomb[0]]

    def value(self, x: np.ndarray) -> ObjectiveValue:
        """Return the value for variables x."""
        return self.gradient(x)[0]

    def gradient(self, x: np.ndarray) -> tuple[ObjectiveValue, np.ndarray]:
        """Return the value and its gradient by the variables."""
        goal, motion = self.goal, self.motion(x)
        rows = self.rows(motion)
        information, flat = goal.information(rows)
        criterion, by_information = goal.criterion(information)
        effort, by_effort = effort_penalty(self._effort(rows), self.effort)
        distance, by_position, by_velocity = self._distance(motion)
        by_rows = np.zeros_like(rows)
        if effort > 0.0:
            by_rows += self.weight * by_effort[:, :, None] * goal.prior.values
        by_base = (flat @ (2.0 * by_information)).reshape(len(motion), -1, flat.shape[1])
        by_rows[:, :, goal.columns] += by_base / goal.noise[:, None]
        joints, columns = self._coulomb
        by_sign = by_rows[:, joints, columns]
        by_rows[:, joints, columns] = 0.0
        by_q, by_dq, by_ddq = pull_back(goal.regressor, motion, by_rows)
        by_q += self.weight * by_position
        by_dq += self.weight * by_velocity
        signs = rows[:, joints, columns]
        # the missing friction falls as the smoothed sign grows
        missing = np.sign(signs) * np.sign(by_effort[:, joints])
        missing *= self.weight * by_effort[:, joints] * goal.prior.values[columns]
        by_dq[:, joints] += (by_sign - missing) * ((1.0 - signs**2) / self._width)
        value = ObjectiveValue(criterion, self.weight * (effort + distance))
        return value, self.family.pull_back(x, self._matrices, (by_q, by_dq, by_ddq))

    def _distance(self, motion: Motion) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the penalty of distances at some samples, and its gradients at all."""
        by_position, by_velocity = np.zeros((2, *motion.position.shape))
        value, some = 0.0, slice(None, None, self.every)
        if self.distances is not None:
            states = (motion.position, motion.velocity, motion.acceleration)
            looked_at = Motion(*(values[some] for values in states))
            value, by_position[some], by_velocity[some] = self.distances.of_motion(
                looked_at, self.buffer
            )
        return value, by_position, by_velocity


def effort_penalty(effort: np.ndarray, limit: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean squared excess over the limits, and its gradient (n_samples, n_joints)."""
    excess = np.maximum(np.abs(effort) / limit - EFFORT_SHARE, 0.0)
    factor = EFFORT_WEIGHT / len(effort)
    gradient = np.where(excess > 0.0, 2.0 * factor * excess * np.sign(effort) / limit, 0.0)
    return float(factor * (excess**2).sum()), gradient
