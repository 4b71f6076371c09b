# SPDX-License-Identifier: Apache-2.0
"""
Time the regressor beside a Python loop over Pinocchio's, in the same run.

    python benchmarks/regressor.py [--samples 20000] [--repeat 5] [urdf ...]

Without a URDF it takes a Panda arm, a UR5 and a Talos from example-robot-data, which has to be
installed beside Pinocchio.  Times are the best of the repetitions, in microseconds per sample.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import time
import warnings

import numpy as np
import pinocchio as pin
from robot_identification.recording import Motion
from robot_identification.regressors import build, ModelSettings
from robot_identification.robot import Robot

PANDA = tuple(f'panda_joint{i}' for i in range(1, 8))
EXAMPLES = {
    'panda_description/urdf/panda.urdf': PANDA,
    'ur_description/urdf/ur5_robot.urdf': None,
    'talos_data/robots/talos_reduced.urdf': None,
}


def main() -> None:
    """Print one line a robot."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument('urdf', nargs='*', help='URDF files; all moving joints are taken')
    parser.add_argument('--samples', type=int, default=20000, help='samples of a motion')
    parser.add_argument('--repeat', type=int, default=5, help='repetitions, the best one counts')
    arguments = parser.parse_args()
    robots = {Path(urdf): None for urdf in arguments.urdf} or example_robots()
    print(f'{"robot":<14}{"joints":>7}{"rigid":>9}{"all":>9}{"Pinocchio loop":>16}   us/sample')
    for path, joints in robots.items():
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            robot = Robot.from_urdf(path, joints)
        print_times(robot, arguments.samples, arguments.repeat)


def example_robots() -> dict[Path, tuple[str, ...] | None]:
    """Robots of example-robot-data and the joints to take."""
    for folder in Path(pin.__file__).parents:
        robots = folder / 'share/example-robot-data/robots'
        if robots.is_dir():
            return {robots / name: joints for name, joints in EXAMPLES.items()}
    raise SystemExit('example-robot-data is not installed: pip install example-robot-data')


def print_times(robot: Robot, samples: int, repeat: int) -> None:
    """Print the times of one robot."""
    random = np.random.default_rng(0)
    motion = Motion(*random.uniform(-2.0, 2.0, (3, samples, robot.n_joints)))
    rigid = build(robot, ModelSettings(friction=(), rotor_inertia=False))
    whole = build(robot, ModelSettings())
    few = motion.rows(0, min(samples, 2000))
    times = [
        best(lambda: rigid.rows(motion), repeat) / samples,
        best(lambda: whole.rows(motion), repeat) / samples,
        best(lambda: pinocchio_loop(robot, few), min(repeat, 3)) / len(few),
    ]
    columns = zip((9, 9, 16), times, strict=True)
    text = ''.join(f'{1e6 * seconds:{width}.2f}' for width, seconds in columns)
    print(f'{robot.name[:13]:<14}{robot.n_joints:>7}{text}')


def best(work, repeat: int) -> float:
    """Shortest time of several runs [s]."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def pinocchio_loop(robot: Robot, motion: Motion) -> np.ndarray:
    """Stack Pinocchio's regressor sample by sample."""
    data = robot.model.createData()
    q = robot.configuration(motion.position)
    v, a = robot.tangent(motion.velocity), robot.tangent(motion.acceleration)
    rows = np.empty((len(motion), robot.n_joints, 10 * robot.n_joints))
    for i in range(len(motion)):
        rows[i] = pin.computeJointTorqueRegressor(robot.model, data, q[i], v[i], a[i])
    return rows.reshape(-1, rows.shape[-1])


if __name__ == '__main__':
    main()
