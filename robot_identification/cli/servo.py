# SPDX-License-Identifier: Apache-2.0
"""Identification from commands, as parts of the commands ``init`` and ``identify``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
import warnings

from ..errors import SettingsError
from ..progress import progress_bar
from .command import argument, EXIT_OK, output_folder, positive, show, warn

if TYPE_CHECKING:
    from ..config.experiment import Experiment
    from ..config.servo_draft import ServoDraft

COMMANDS = (
    argument(
        '--kp',
        'proportional gain of the position servos of recordings with commands [N m/rad], one or '
        'one a joint',
        positive,
        'KP',
        nargs='+',
    ),
    argument('--kd', 'their derivative gain [N m s/rad] (default: 0)', float, 'KD', nargs='+'),
    argument(
        '--for',
        'simulator that the parameters are for; of servos, mjcf takes step and integrator of the '
        'robot file; with efforts, no terms are estimated that it lacks',
        choices=('mjcf',),
        dest='target',
    ),
    argument(
        '--timestep',
        "step of that simulator (default: the robot file's, if it is MJCF)",
        positive,
        'S',
    ),
)
"""Arguments of ``init`` for recordings with commands."""


def drafted_commands(options: argparse.Namespace) -> ServoDraft | None:
    """Return the draft of recordings with commands; None for recordings with efforts."""
    from ..config.experiment import RobotSettings
    from ..config.servo_draft import draft_servo, has_commands
    from ..errors import IdentificationWarning
    from ..model.urdf_files import urdf_of_mjcf
    from ..results.urdf_export import robot_with_inertia

    asked = options.kp or options.kd or options.timestep
    if options.effort_kind is not None:
        if asked:
            raise SettingsError(
                "'--effort-kind' is given beside gains of servos",
                remedy='leave one of them out: recordings of servos have commands, no efforts',
            )
        return None
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        path = RobotSettings(urdf=str(options.urdf), effort_kind='joint_torque').mjcf()
        source = str(options.urdf) if path is None else urdf_of_mjcf(path, clamped=True)
        joints = robot_with_inertia(source).joints
    if not asked and not has_commands(options.recordings[0], joints):
        return None
    if options.degrees:
        raise SettingsError(
            "'--degrees' is given, but recordings of commands are taken in rad",
            key='robot.drives.position',
            remedy='write the experiment file without it, and give robot.drives.position there',
        )
    return draft_servo(
        options.urdf,
        options.recordings,
        joints,
        stiffness=options.kp,
        damping=options.kd,
        rate=options.rate,
        timestep=options.timestep,
    )


def identify_commands(options: argparse.Namespace, experiment: Experiment) -> int:
    """Identify servos as an experiment file states, print the result and write its files."""
    from ..identification.servo_pipeline import identify_servo
    from ..results.saving import reported_failures, require_writable
    from ..results.servo_exports import save_servo_result

    if options.factors:
        raise SettingsError(
            "'--factors' is given, but 'robot.effort_kind' is servo_command",
            key='robot.effort_kind',
            remedy='leave it out: recordings of commands have no factors',
        )
    folder = output_folder(options, experiment)
    require_writable(folder)
    with progress_bar(enabled=not options.quiet) as progress:
        result = identify_servo(experiment, progress=progress)
        progress(1.0, 'writing the results')
        with reported_failures(folder):
            written = save_servo_result(result, folder)
    if not options.quiet:
        show(result.summary())
    warn(result.warnings)
    for path in written:
        print(f'wrote {path}')
    return EXIT_OK
