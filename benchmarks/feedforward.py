# SPDX-License-Identifier: Apache-2.0
"""
Tracking errors with and without feed-forward efforts, before and after the identification.

    .venv/bin/python -m benchmarks feedforward
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import warnings

import numpy as np
from robot_identification.data.recording import Motion
from robot_identification.excitation.plan_file import as_points
from robot_identification.excitation.planner import plan
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import Trajectory
from robot_identification.exports.feedforward import with_efforts
from robot_identification.identification.library import identify
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict, prior
from robot_identification.results.tables import ResultView
from robot_identification.simulation.plant import Plant
from robot_identification.simulation.servo import Waypoints
from robot_identification.simulation.simulator import simulate
from robot_identification.simulation.truth import SimulationSettings, truth

from .harness import Figure, Section, Table

URDF = Path(__file__).resolve().parents[1] / 'urdf' / 'demo_arm.urdf'
STEP = 0.001
"""Period of controller and simulation [s]."""

POINTS = 0.01
"""Time between the points of a trajectory [s]."""

BANDWIDTH, DAMPING = 2.0 * np.pi * 3.0, 0.7
"""Of each joint's feedback by the inertia at the start [rad/s, -]."""


def section() -> Section:
    """Follow an unseen motion by feedback alone and with three feed-forwards."""
    robot = Robot.from_urdf(URDF)
    settings = SimulationSettings()
    true = truth(robot, settings)
    planner = PlannerSettings(duration=10.0, max_iterations=100, floor=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        paths = [plan(robot, each) for each in (planner, replace(planner, seed=1))]
        recorded = simulate(robot, _waypoints(paths[0].trajectory), settings, true)
        run = {
            'time': recorded.time,
            'position': recorded.position,
            'effort': recorded.effort,
        }
        kind = {'robot': {'effort_kind': 'joint_torque'}}
        result = identify(URDF, run, settings=kind)
        model = ModelSettings()
        regressor, nominal = build(robot, model), prior(robot, model)
        weight = ModelSettings(friction=(), rotor_inertia=False)
        bodies = build(robot, weight), prior(robot, weight)
    path = paths[1].trajectory
    time = np.arange(0.0, path.duration + 0.5 * POINTS, POINTS)
    motion = path.sample(np.minimum(time, path.duration))
    still = np.zeros_like(motion.velocity)
    at_rest = Motion(motion.position, still, still)
    efforts = {
        'feedback alone': still,
        'gravity by the URDF': predict(bodies[0], at_rest, bodies[1]),
        'all efforts by the URDF': predict(regressor, motion, nominal),
        'all efforts as identified': _filled(result, motion),
    }
    found = {name: _followed(robot, true, path, time, each) for name, each in efforts.items()}
    lines = [
        [name, *(f'{1e3 * e:.2f}' for e in errors), f'{1e3 * np.sqrt((errors**2).mean()):.2f}']
        for name, errors in found.items()
    ]
    totals = {name: float(np.sqrt((errors**2).mean())) for name, errors in found.items()}
    names = list(efforts)
    return Section(
        title='Tracking with feed-forward efforts',
        text='The demonstration arm in MuJoCo, whose true parameters differ from its URDF, '
        'follows a motion that its identification has not seen, as a joint_trajectory_controller '
        'with effort interfaces would have it: feedback of positions and velocities of 3 Hz at '
        f'1 kHz and the `effort` of points each {1e3 * POINTS:.0f} ms, interpolated. Root mean '
        'squares of the tracking error.',
        tables=[Table(['error [mrad]', *robot.joints, 'all'], lines)],
        figures=[
            Figure(
                'tracking error as identified, by that of feedback alone',
                totals[names[3]] / totals[names[0]],
                at_most=0.1,
            ),
            Figure(
                'tracking error as identified, by that with the URDF',
                totals[names[3]] / totals[names[2]],
                at_most=0.5,
            ),
        ],
    )


def _waypoints(path: Trajectory) -> Waypoints:
    points = as_points(path)
    return Waypoints(points.joints, points.time, points.position, points.velocity)


def _filled(result: ResultView, motion: Motion) -> np.ndarray:
    """Return the efforts that the command ``feedforward`` writes into a trajectory's points."""
    states = (motion.position, motion.velocity, motion.acceleration)
    points = [
        dict(zip(('positions', 'velocities', 'accelerations'), row, strict=True))
        for row in zip(*(state.tolist() for state in states), strict=True)
    ]
    trajectory = {'joint_names': list(result.robot.joints), 'points': points}
    made, _ = with_efforts(result, trajectory)
    return np.array([point['effort'] for point in made['points']])


def _followed(
    robot: Robot, true: ParameterSet, path: Trajectory, time: np.ndarray, effort: np.ndarray
) -> np.ndarray:
    """Return the root mean squares (n_joints,) of the tracking error [rad]."""
    plant = Plant(robot, true, STEP)
    start = path.sample(np.zeros(1))
    inertia = np.diagonal(_mass_matrix(plant, start.position[0]))
    plant.set_state(start.position[0], np.zeros(robot.n_joints))
    kp, kd = inertia * BANDWIDTH**2, 2.0 * DAMPING * inertia * BANDWIDTH
    steps = np.arange(0.0, path.duration, STEP)
    wanted = path.sample(steps)
    ahead = np.stack([np.interp(steps, time, each) for each in effort.T], axis=1)
    errors = np.empty_like(wanted.position)
    for k in range(steps.size):
        errors[k] = wanted.position[k] - plant.position
        plant.step(ahead[k] + kp * errors[k] + kd * (wanted.velocity[k] - plant.velocity))
    return np.asarray(np.sqrt((errors**2).mean(axis=0)))


def _mass_matrix(plant: Plant, position: np.ndarray) -> np.ndarray:
    still = np.zeros(position.size)
    columns = [plant.inverse_dynamics(position, still, row) for row in np.eye(position.size)]
    return np.array(columns) - plant.inverse_dynamics(position, still, still)
