# SPDX-License-Identifier: Apache-2.0
"""Motions of robots on their feet, as a part of the command ``plan``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SettingsError
from .command import argument, EXIT_OK, planning_of, write

if TYPE_CHECKING:
    import numpy as np

    from ..config.experiment import Experiment
    from ..excitation.standing import StandingMotion
    from ..model.robot import Robot
    from ..regressor import FloatingRegressor

SIMULATE = argument(
    '--simulate',
    'for a robot on its feet: let one with other masses, friction and noisy sensors follow the '
    'motion in MuJoCo, and write what it records, .npz',
    Path,
    'FILE',
)


def standing_robot(options: argparse.Namespace) -> Experiment | None:
    """Return the experiment of a robot with a floating base; None for another robot."""
    from ..config.experiment_file import load_experiment

    if Path(options.robot).suffix in ('.yaml', '.yml'):
        experiment = load_experiment(options.robot, check_data=False)
        if experiment.robot.base == 'floating':
            return experiment
    if options.simulate is not None:
        raise SettingsError(
            "'--simulate' is for experiment files with robot.base: floating",
            key='robot.base',
            remedy="'robot-identification calibrate --simulation' moves a simulated arm",
        )
    return None


def plan_standing(options: argparse.Namespace, experiment: Experiment) -> int:
    """Plan a motion on the feet, write its points, and let a simulated robot follow it."""
    from ..excitation.plan_file import points_csv, points_yaml
    from ..excitation.standing import standing_motion
    from ..exports.saving import require_writable
    from ..options.fields import from_mapping, to_mapping
    from ..regressor import build, FloatingRegressor

    settings = planning_of(options).standing
    given = {key: getattr(options, key) for key in ('duration', 'seed')}
    given = {key: value for key, value in given.items() if value is not None}
    settings = from_mapping(type(settings), {**to_mapping(settings), **given})
    robot, model = experiment.build_robot(), experiment.robot.model
    regressor = build(robot, model)
    assert isinstance(regressor, FloatingRegressor)
    motion = standing_motion(robot, regressor, _posture(robot, experiment), settings)
    points = motion.trajectory(robot.driven_joints)
    if not options.quiet:
        print(_summary(robot, motion))
    require_writable(options.out)
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out / 'trajectory.csv', points_csv(points))
    write(options.out / 'trajectory.yaml', points_yaml(points))
    if options.simulate is not None:
        _simulate(options.simulate, robot, regressor, motion, experiment, settings.seed)
    return EXIT_OK


def _posture(robot: Robot, experiment: Experiment) -> np.ndarray:
    """Return positions (n,) of the driven joints in which the robot stands."""
    import numpy as np

    posture = experiment.robot.posture
    for joint in posture:
        if joint not in robot.driven_joints:
            raise SettingsError(
                f"'robot.posture' names '{joint}', which is no driven joint",
                key='robot.posture',
                value=joint,
                remedy=f'the robot has {", ".join(robot.driven_joints)}',
            )
    return np.array([posture.get(joint, 0.0) for joint in robot.driven_joints])


def _summary(robot: Robot, motion: StandingMotion) -> str:
    lifted = int((~motion.stance).any(axis=0).sum())
    return (
        f'{robot.name} on {motion.stance.shape[1]} feet for {motion.time[-1]:.0f} s, '
        f'{lifted} of them lifted; the centre of pressure stays '
        f'{1e3 * motion.margin:.0f} mm inside of the support'
    )


def _simulate(
    path: Path,
    robot: Robot,
    regressor: FloatingRegressor,
    motion: StandingMotion,
    experiment: Experiment,
    seed: int,
) -> None:
    """Write what a simulated robot records, as arrays by the names of the documentation."""
    from io import BytesIO

    import numpy as np

    from ..simulation.legged import legged_truth, LeggedSettings, simulate_standing

    # one robot, whatever its motion
    truth = legged_truth(robot, experiment.robot.model, seed=1)
    recording = simulate_standing(robot, regressor, truth, motion, LeggedSettings(seed=seed))
    assert recording.orientation is not None
    buffer, base = BytesIO(), robot.n_joints - len(robot.driven_joints)
    np.savez(
        buffer,
        time=recording.time,
        q=recording.position[:, base:],
        tau=recording.effort[:, base:],
        gyro=recording.gyroscope,
        acc=recording.accelerometer,
        quaternion=recording.orientation,
        stance=recording.stance.astype(np.uint8),
    )
    write(path, buffer.getvalue())
    masses = (sum(p[f'{link}.m'] for link in robot.layout.links) for p in (truth, robot.prior))
    print('simulated: a robot of {:.2f} kg in place of the {:.2f} kg of the URDF'.format(*masses))
