# SPDX-License-Identifier: Apache-2.0
"""Simulated recording of a motion on the feet, as a part of the command ``plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .command import argument, write

if TYPE_CHECKING:
    from ..excitation.standing import StandingMotion
    from ..identification.motion_planning import MotionTask

SIMULATE = argument(
    '--simulate',
    'for a robot on its feet: let one with other masses, friction and noisy sensors follow the '
    'motion in MuJoCo, and write what it records, .npz',
    Path,
    'FILE',
)


def write_simulated(path: Path, task: MotionTask, motion: StandingMotion) -> None:
    """Write what a simulated robot records, as arrays by the names of the documentation."""
    from io import BytesIO

    import numpy as np

    from ..simulation.legged import legged_truth, LeggedSettings, simulate_standing

    robot, seed = task.robot, task.planning.standing.seed
    # one robot, whatever its motion
    truth = legged_truth(robot, task.model, seed=1)
    settings = LeggedSettings(seed=seed)
    recording = simulate_standing(robot, task.regressor(), truth, motion, settings)
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
