# SPDX-License-Identifier: Apache-2.0
"""Goal of a motion: parameters to be known, noise, and what is known of them already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy

from ..base_parameters import structure
from ..data.recording import Motion
from ..errors import ExcitationError, one_of
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor import build, ModelSettings, prior, Regressor
from .criteria import (
    by_information,
    CRITERIA,
    EarlierInformation,
    excess_and_deviations,
    PredictedDeviations,
    ROW_RATE,
)
from .limits import by_joint, Limits
from .objective import Criterion
from .settings import PlannerSettings
from .trajectories import Trajectory

FRICTION = ('fv', 'fc', 'ts', 'tsc', 'fr', 'fl', 'off')
"""Symbols of the parameters that ``friction`` stands for."""

LAST = 4
"""Joints that move for a payload: the last ones, which turn it most for their effort."""

NOISE = 0.01
"""Noise of an effort by its limit, where nothing is known."""


@dataclass(frozen=True)
class Wanted:
    """
    Goal of a motion.

    Attributes
    ----------
    regressor, prior:
        The model, and the parameters that predict efforts.
    columns:
        (b,) columns of the regressor whose parameters are estimated.
    names, units, values:
        Of these: base parameters, or those of the load; their values by the URDF.
    noise:
        (n_joints,) standard deviation of one of `ROW_RATE` efforts a second [N m or N].
    earlier:
        (b, b) information of earlier recordings.
    criterion:
        What is minimised.
    moving:
        Joints that move.

    """

    regressor: Regressor
    prior: ParameterSet
    columns: np.ndarray
    names: tuple[str, ...]
    units: tuple[str, ...]
    values: np.ndarray
    noise: np.ndarray
    earlier: np.ndarray
    criterion: Criterion
    moving: tuple[str, ...]

    def deviations(self, trajectory: Trajectory) -> PredictedDeviations:
        """Return the deviations that a motion leaves, with what is known already."""
        count = max(1, int(ROW_RATE * trajectory.duration))
        # between the ends, where the robot rests and says nothing new
        motion = trajectory.sample((np.arange(count) + 0.5) / ROW_RATE)
        rows = self.regressor.rows(motion).reshape(count, self.noise.size, -1)
        rows = (rows[:, :, self.columns] / self.noise[:, None]).reshape(-1, self.columns.size)
        information = rows.T @ rows + self.earlier
        return PredictedDeviations.of(self.names, self.units, self.values, information)


def wanted_parameters(
    robot: Robot,
    settings: PlannerSettings,
    model: ModelSettings,
    limits: Limits,
    earlier: EarlierInformation | None,
    targets: dict[str, float] | None,
) -> Wanted:
    """
    Return the goal of a motion by the settings.

    Raises
    ------
    ExcitationError
        naming the parameter or joint that there is not, or a noise that does not fit.

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
    chosen = np.arange(len(names))
    if not payload:
        chosen = parameter_places(settings.parameters, names, robot)
    function = CRITERIA[settings.criterion]
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
    return Wanted(
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

    Raises
    ------
    ExcitationError
        naming what is no base parameter and has none.

    """
    if not parameters:
        return np.arange(len(names))
    places: set[int] = set()
    for wanted in parameters:
        if wanted == 'friction':
            found = {i for i, name in enumerate(names) if name.rpartition('.')[2] in FRICTION}
        elif wanted in (*robot.links, *robot.joints):
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
    """Return the columns of the last link's parameters that a motion can tell from each other."""
    link = robot.links[-1]
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
