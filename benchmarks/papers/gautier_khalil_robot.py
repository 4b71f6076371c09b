# SPDX-License-Identifier: Apache-2.0
"""
The three-joint robot of Gautier and Khalil (1992): its energy equations, searches, noise.

Its limits are not printed.  Those here are one set of the many that give about the random
condition numbers of Table 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
import time

import numpy as np
from robot_identification.data.recording import Recording
from robot_identification.estimation.estimate import Estimate
from robot_identification.estimation.estimators import EstimationSettings, RowBuilder
from robot_identification.estimation.least_squares import ols
from robot_identification.estimation.system import system_of
from robot_identification.excitation import (
    Plan,
    plan,
    PlannerSettings,
    PointTrajectory,
    Trajectory,
)
from robot_identification.excitation.extremes import extremes
from robot_identification.excitation.limits import Limits
from robot_identification.excitation.path import allowed_times, trajectory_through
from robot_identification.excitation.point_cost import equilibrium, PointCost
from robot_identification.excitation.sequence import (
    EnergyEquations,
    Function,
    PointBounds,
    renew_points,
    search,
    WaypointProblem,
    WaypointSet,
)
from robot_identification.excitation.settings import PointSettings
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.energy import energy_of
from robot_identification.signals import SignalSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'gautier_khalil_3r.urdf'
RIGID = ModelSettings(friction=(), rotor_inertia=False)
D3, R3 = 0.5, 0.2

TRUE = {
    'link_1.Izz': 5.0186,
    'link_2.mx': 4.30,
    'link_2.my': 0.60,
    'link_2.Ixx': -2.05,
    'link_2.Ixy': 0.70,
    'link_2.Ixz': -1.07,
    'link_2.Iyz': 0.65,
    'link_2.Izz': 6.55,
    'link_3.mx': 0.528,
    'link_3.my': 1.14,
    'link_3.Ixx': 0.7634,
    'link_3.Ixy': 0.6872,
    'link_3.Ixz': 0.55,
    'link_3.Iyz': -0.60,
    'link_3.Izz': 0.9646,
}
"""Table 6, X_i, under the names of the parameters that each group is called after."""

GROUPS = {
    'link_1.Izz': {
        'link_2.Iyy': 1.0,
        'link_3.Iyy': 1.0,
        'link_3.mz': 2.0 * R3,
        'link_3.m': D3**2 + R3**2,
    },
    'link_2.Ixx': {'link_2.Iyy': -1.0, 'link_3.m': -(D3**2)},
    'link_2.Ixz': {'link_3.mz': -D3, 'link_3.m': -D3 * R3},
    'link_2.Izz': {'link_3.m': D3**2},
    'link_2.mx': {'link_3.m': D3},
    'link_3.Ixx': {'link_3.Iyy': -1.0},
}
"""What is grouped with a parameter: ZZR1, XXR2, XZR2, ZZR2, MXR2 and XXR3 of section 6."""

MATCHED = PointBounds(
    np.deg2rad([-160.0, -136.0, 39.0]),
    np.deg2rad([160.0, -23.0, 172.0]),
    np.array([0.90, 0.62, 4.03]),
)
"""Limits that give about the condition numbers of Table 2; joint 1's range has no effect."""


@cache
def robot() -> Robot:
    """Return the robot."""
    return Robot.from_urdf(URDF)


@cache
def base() -> BaseStructure:
    """Return its base parameters, without rotors and friction."""
    return structure(build(robot(), RIGID), robot())


@cache
def equations() -> EnergyEquations:
    """Return its energy equations, columns in SI units as in the paper."""
    return EnergyEquations(
        energy_of(build(robot(), RIGID)), base().independent, np.ones(base().n_base)
    )


def paper_regrouping() -> np.ndarray:
    """Return the paper's groups as (15, 30) coefficients, in the order of our base parameters."""
    layout = base().layout
    coefficients = np.zeros((len(TRUE), len(layout)))
    for row, name in enumerate(base().names):
        coefficients[row, layout.index(name)] = 1.0
        for other, factor in GROUPS.get(name, {}).items():
            coefficients[row, layout.index(other)] = factor
    return coefficients


def true_base() -> np.ndarray:
    """Return the paper's true values in the order of our base parameters."""
    return np.array([TRUE[name] for name in base().names])


# ------------------------------------------------------------------------------------- conditions


def random_conditions(n_equations: int, count: int, seed: int = 0) -> np.ndarray:
    """Return condition numbers of random sequences, (count,)."""
    random = np.random.default_rng(seed)
    return np.array(
        [
            np.linalg.cond(equations().matrix(MATCHED.random(random, n_equations + 1)))
            for _ in range(count)
        ]
    )


def random_sequence(n_equations: int, condition: float, seed: int = 0) -> WaypointSet:
    """Return the random sequence of 300 whose condition number comes nearest to a given one."""
    random = np.random.default_rng(seed)
    drawn = [MATCHED.random(random, n_equations + 1) for _ in range(300)]
    miss = [abs(np.log(np.linalg.cond(equations().matrix(s)) / condition)) for s in drawn]
    return drawn[int(np.argmin(miss))]


@dataclass(frozen=True)
class PointProblem:
    """Problem of the paper: points alone, wherever the path between them leads."""

    equations: EnergyEquations
    bounds: PointBounds
    cost: PointCost
    n_equations: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the variables of a sequence, (2, r + 1, n_joints)."""
        return 2, self.n_equations + 1, self.bounds.lower.size

    def function(self, power: float) -> Function:
        """Return the logarithm of the cost, with its gradient, for a smoothing p."""

        def function(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x = flat.reshape(-1, *self.shape)
            matrix, back = self.equations.linearised(self.bounds.sequence(x))
            values, slope = self.cost.value(matrix, power)
            return values, self.bounds.pull_back(x, *back(slope)).reshape(flat.shape)

        return function

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Return random starts, (count, d)."""
        return random.standard_normal((count, int(np.prod(self.shape))))

    def renew(self, random: np.random.Generator, flat: np.ndarray) -> None:
        """Draw some of the points of sequences (count, d) again, in place."""
        renew_points(random, flat.reshape(-1, *self.shape))


@dataclass(frozen=True)
class Optimum:
    """
    Result of a search.

    Attributes
    ----------
    sequence:
        The points.
    condition, scaled_condition, equilibrium:
        Condition number of W, of W with its columns scaled to norm 1, and S.
    seconds:
        Processor time [s].

    """

    sequence: WaypointSet
    condition: float
    scaled_condition: float
    equilibrium: float
    seconds: float


def optimum(
    n_equations: int,
    *,
    starts: int = 120,
    rounds: int = 30,
    seed: int = 0,
    cost: PointCost | None = None,
) -> Optimum:
    """Search for the best sequence within the matched limits."""
    begin = time.process_time()
    cost = cost or PointCost()
    problem, whole = (
        PointProblem(equations(), MATCHED, c, n_equations) for c in (cost.first, cost)
    )
    then = None if cost == cost.first else whole
    return _optimum(problem, n_equations, starts, rounds, seed, begin, then)


def _optimum(
    problem: WaypointProblem,
    n_equations: int,
    starts: int,
    rounds: int,
    seed: int,
    begin: float,
    then: WaypointProblem | None = None,
) -> Optimum:
    random = np.random.default_rng(seed)
    found = search(problem, random, starts=starts, rounds=rounds, then=then)
    sequence = MATCHED.sequence(found.x[0].reshape(2, n_equations + 1, 3))
    seconds = time.process_time() - begin
    matrix = equations().matrix(sequence)
    return Optimum(
        sequence,
        float(np.linalg.cond(matrix)),
        scaled_condition(matrix),
        float(np.exp(equilibrium(matrix, np.inf)[0])),
        seconds,
    )


def scaled_condition(matrix: np.ndarray) -> float:
    """Return the condition number after scaling columns to norm 1."""
    return float(np.linalg.cond(matrix / np.linalg.norm(matrix, axis=0)))


def condition_seconds(times: int = 4000) -> float:
    """Return the processor time of a condition number of W by NumPy, r = 30 [s]."""
    random = np.random.default_rng(0)
    matrix = equations().matrix(MATCHED.sequence(random.uniform(-1.0, 1.0, (2, 31, 3))))
    begin = time.process_time()
    for _ in range(times):
        np.linalg.cond(matrix)
    return (time.process_time() - begin) / times


def spread(sequence: WaypointSet) -> float:
    """Return the root of the summed variances of the parameters for noise of 1 J."""
    values = np.linalg.svd(equations().matrix(sequence), compute_uv=False)
    return float(np.sqrt((values**-2.0).sum()))


def optimum_of_scaled_columns(n_equations: int, **settings: int) -> Optimum:
    """Search as if the condition number of W with columns of norm 1 were what counts."""

    class Scaled(PointCost):
        def value(self, matrix: np.ndarray, power: float = np.inf):
            length = np.linalg.norm(matrix, axis=-2, keepdims=True)
            value, slope = super().value(matrix / length, power)
            along = (slope * matrix).sum(axis=-2, keepdims=True) / length**2
            return value, (slope - along * matrix) / length

    begin = time.process_time()
    problem = PointProblem(equations(), MATCHED, Scaled(), n_equations)
    return _optimum(
        problem,
        n_equations,
        settings.get('starts', 24),
        settings.get('rounds', 2),
        settings.get('seed', 0),
        begin,
    )


# ------------------------------------------------------------------------------------- trajectory


def planned(*, starts: int = 32, rounds: int = 4, seed: int = 0) -> Plan:
    """Plan a trajectory within the matched limits, r = 30, columns in SI units."""
    settings = PlannerSettings(
        method='points',
        points=PointSettings(equations=30, columns='si', starts=starts, rounds=rounds),
        lower_limits=tuple(MATCHED.lower),
        upper_limits=tuple(MATCHED.upper),
        velocity_limits=tuple(MATCHED.velocity),
        margin=0.0,
        seed=seed,
        check_collisions=False,
        time_budget=0.0,
    )
    return plan(robot(), settings, model=RIGID)


def deviation(trajectory: Trajectory, noise: float, seeds: int = 10) -> float:
    """Return the root mean square of errors over standard deviations of `identified`."""
    misses = []
    for seed in range(seeds):
        estimate = identified(trajectory, noise, seed)
        misses.append((estimate.base.values - true_base()) / estimate.std)
    return float(np.sqrt(np.mean(np.square(misses))))


def identified(trajectory: Trajectory, noise: float, seed: int = 0) -> Estimate:
    """Identify from energies along a trajectory, efforts with noise of a share of their rms."""
    rate = 500.0
    time_ = np.arange(int(trajectory.duration * rate)) / rate
    motion = trajectory.sample(time_)
    effort = predict(build(robot(), RIGID), motion, robot().prior)
    random = np.random.default_rng(seed)
    effort = effort + noise * np.sqrt((effort**2).mean(axis=0)) * random.standard_normal(
        effort.shape
    )
    recording = Recording(time_, motion.position, effort, robot().joints, motion.velocity)
    signals = SignalSettings(method='measured_velocity', cutoff=200.0, order=1, decimate_to=None)
    rows = RowBuilder(EstimationSettings(equations='energy'))
    regressor = build(robot(), RIGID)
    return ols(
        system_of(recording, regressor, base(), signals, read=rows.blocks, names=rows.names)
    )


# ------------------------------------------------------------------------------------------ noise


@dataclass(frozen=True)
class Noise:
    """
    Medians over the seeds.

    Attributes
    ----------
    parameter:
        |dX| / |X|.
    work, matrix:
        |dY| / |Y| and |dW| / |W|.
    condition:
        Condition number of W + dW.
    deviation:
        Root mean square of the errors over their predicted standard deviations, all seeds; NaN
        with noise of W, which the prediction leaves out.
    std:
        (15,) predicted standard deviations.

    """

    parameter: float
    work: float
    matrix: float
    condition: float
    deviation: float
    std: np.ndarray


def noise_study(
    sequence: WaypointSet, k: float, *, of_work: bool, of_matrix: bool, seeds: int = 100
) -> Noise:
    """
    Estimate from noisy equations, as Tables 3 to 12 do.

    The noise of Y has the standard deviation k/4 max |Y|, that of W is noise of k/4 of the ranges
    on the positions and of k/4 of the limits on the velocities.
    """
    W, X = equations().matrix(sequence), true_base()
    Y = W @ X
    sigma = k / 4.0 * np.abs(Y).max()
    std = sigma * np.sqrt(np.diag(np.linalg.inv(W.T @ W)))
    results, deviations = [], []
    for noise in _noises(sequence, k, seeds):
        dY = sigma * noise[0] if of_work else 0.0 * Y
        W_seen = equations().matrix(noise[1]) if of_matrix else W
        found = np.linalg.lstsq(W_seen, Y + dY, rcond=None)[0]
        results.append(
            (
                np.linalg.norm(found - X) / np.linalg.norm(X),
                np.linalg.norm(dY) / np.linalg.norm(Y),
                np.linalg.norm(W_seen - W, 2) / np.linalg.norm(W, 2),
                np.linalg.cond(W_seen),
            )
        )
        deviations.append((found - X) / std)
    deviation = np.nan if of_matrix else float(np.sqrt(np.mean(np.square(deviations))))
    return Noise(*(float(m) for m in np.median(results, axis=0)), deviation, std)


def _noises(
    sequence: WaypointSet, k: float, seeds: int
) -> Iterator[tuple[np.ndarray, WaypointSet]]:
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        work = random.standard_normal(len(sequence.position) - 1)
        width = MATCHED.upper - MATCHED.lower
        yield (
            work,
            WaypointSet(
                sequence.position
                + k / 4.0 * width * random.standard_normal(sequence.position.shape),
                sequence.velocity
                + k / 4.0 * MATCHED.velocity * random.standard_normal(sequence.velocity.shape),
            ),
        )


# ---------------------------------------------------------------------------------- interpolation


@dataclass(frozen=True)
class Peaks:
    """
    Shares of random segments.

    Attributes
    ----------
    not_monotone:
        Whose peak acceleration is not a falling function of the time.
    several:
        Whose times within the acceleration limit are more than one interval.
    outside:
        That leave the position limits in the shortest time.

    """

    not_monotone: float
    several: float
    outside: float


def random_segments(count: int = 500, seed: int = 0) -> Peaks:
    """Look at segments of one joint: positions in +-2 rad, speeds in +-1 rad/s, 4 rad/s^2."""
    random = np.random.default_rng(seed)
    x, s = 1.0 / np.geomspace(0.05, 60.0, 400)[:, None], np.linspace(0.0, 1.0, 201)
    counts = np.zeros(3)
    for _ in range(count):
        ends, speeds = random.uniform(-2.0, 2.0, 2), random.uniform(-1.0, 1.0, 2)
        # the parts that do not depend on the time u, and that grow with it
        rest, run = (
            segment(*part, 1.0).sample(s).acceleration[:, 0]
            for part in ((ends, 0.0 * speeds), (0.0 * ends, speeds))
        )
        peaks = np.abs(x**2 * rest + x * run).max(axis=1)
        first, last = np.stack([ends, speeds], axis=1)[:, :, None]
        allowed = allowed_times(first, last, _one_joint(1e6))
        reached = extremes(segment(ends, speeds, allowed[0][0]), 250.0)
        lowest, highest = reached.lowest[0, 0], reached.highest[0, 0]
        counts += (
            bool((np.diff(peaks) > 1e-9 * peaks[:-1]).any()),
            len(allowed) > 1,
            lowest < -2.0 - 1e-9 or highest > 2.0 + 1e-9,
        )
    return Peaks(*(counts / count).tolist())


def segment(ends: np.ndarray, speeds: np.ndarray, time: float) -> PointTrajectory:
    """Return the quintic of one joint between positions (2,) and speeds (2,) in a time [s]."""
    points = WaypointSet(np.reshape(ends, (2, 1)), np.reshape(speeds, (2, 1)))
    return trajectory_through(points, np.array([time]), _one_joint(1e6))


def _one_joint(room: float) -> Limits:
    return Limits(
        joints=('joint',),
        units=('rad',),
        lower=np.array([-room]),
        upper=np.array([room]),
        velocity=np.array([1.0]),
        acceleration=np.array([4.0]),
        effort=np.array([np.inf]),
    )
