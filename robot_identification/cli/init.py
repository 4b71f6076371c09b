# SPDX-License-Identifier: Apache-2.0
"""Command that drafts an experiment file from a robot and recordings."""

from __future__ import annotations

import argparse
from dataclasses import replace
import os
from pathlib import Path
import sys
from typing import Any, TYPE_CHECKING

from ..errors import IdentificationError, SettingsError
from ..untrusted.writing import encoded
from .command import (
    argument,
    command,
    EXIT_OK,
    flag,
    positive,
    write,
    XACRO,
)
from .servo import COMMANDS, gains_of_bam

if TYPE_CHECKING:
    from ..drafting.proposal import Proposal
    from ..drafting.settings import DraftSettings

KINDS = ('joint_torque', 'motor_torque', 'motor_current')


@command(
    argument('urdf', 'the URDF, xacro or MJCF file of the robot', Path),
    argument('recordings', 'files or rosbag2 folders', Path, 'RECORDING', nargs='+'),
    argument('--effort-kind', 'kind of the recorded efforts (default: asked for)', choices=KINDS),
    argument(
        '--gains',
        'effort at the joint by recorded effort [N m/A], one a joint; without them the gains '
        'of motor currents are found from the recordings',
        float,
        'K',
        nargs='+',
    ),
    argument(
        '--gear-ratios',
        'of data recorded at the motors: motor turns by joint turn, one a joint; for one that '
        'slides, recorded positions by metre (1000: positions in mm)',
        float,
        'N',
        nargs='+',
    ),
    argument(
        '--position-offsets',
        'positions of the joints in the URDF where the recorded ones are 0 [rad or m]',
        float,
        'Q',
        nargs='+',
    ),
    flag('--degrees', 'positions of joints that turn are in degrees'),
    argument('--ticks', 'positions are in ticks of encoders with N ticks a turn', positive, 'N'),
    argument('--rate', 'sampling rate of tables without time stamps', positive, 'HZ'),
    argument(
        '--gravity',
        'free fall in the base frame [m/s^2] (default: 0 0 -9.81)',
        float,
        'G',
        nargs=3,
    ),
    XACRO,
    flag(
        '--floating',
        'the robot stands on its feet, and the recordings have its IMU (default: by what is '
        'recognised)',
    ),
    flag('--tool', 'the recordings have wrenches of a force-torque sensor at the wrist'),
    *COMMANDS,
    argument('-o --out', 'file to write', Path, 'FILE', default=Path('experiment.yaml')),
    flag('--force', 'replace the file if it exists'),
)
def init(options: argparse.Namespace) -> int:
    r"""
    Write an experiment file from a URDF and recordings.

    Look at recordings (bags, tables, arrays), find the columns of time, positions, velocities
    and efforts of the URDF's joints, the unit and rate of the stamps, and write an
    experiment file with comments, from which 'identify' runs. Of several recordings the
    last one is kept for validation. What the effort is (joint torque, motor torque, motor
    current) no recording shows for certain: it is asked for, with what suggests which.

    Recordings of position servos have commands in place of efforts (tables, arrays, or a
    bag with the states of a trajectory controller or a topic of commands): give the
    servos' gains.

    A robot on its feet is recognised by the IMU in its recordings and by its feet (--floating
    where it is not): contacts, IMU and base are written, too.

    With --tool, recordings of joint states and wrenches make the experiment of 'tool'.

    Examples
    --------
    robot-identification init robot.urdf run1.csv run2.csv
    robot-identification init robot.urdf recordings/first recordings/second \
        --effort-kind joint_torque
    robot-identification init ur.urdf run.csv --effort-kind motor_current \
        --gains 14.9 13.3 11.1 10.6 11.0 11.5
    robot-identification init arm.urdf swing.csv --tool
    robot-identification init go2.xml go2.npz --kp 20 --kd 1.5 --for mjcf
    """
    from ..drafting.any_draft import draft_of, lacks_effort_kind, tool_remarks
    from ..drafting.draft import Draft
    from ..drafting.requirements import require_order
    from ..exports.saving import require_writable

    _require_names(options)
    require_order(options.urdf, options.recordings)
    require_writable(options.out.parent)
    remarks = gains_of_bam(options)
    settings = _settings(options)
    try:
        found = draft_of(options.urdf, options.recordings, settings)
    except IdentificationError:
        if not options.tool:
            for remark in tool_remarks(options.recordings):
                print(f'remark: {remark}')
        raise
    print('\n'.join([found.summary(), *map('remark: {}'.format, remarks)]))
    proposal = found.proposal if isinstance(found, Draft) else None
    if proposal is not None and _accepted(proposal, settings.effort_kind):
        found = draft_of(options.urdf, options.recordings, replace(settings, **proposal.changes))
    elif lacks_effort_kind(found):
        found = replace(found, settings=replace(found.settings, effort_kind=_asked()))
    return _written(options.out, found.text(options.urdf, options.out.parent))


def _settings(options: argparse.Namespace) -> DraftSettings:
    """Return the facts on recordings that are given."""
    from ..drafting.settings import DraftSettings, EARTH_GRAVITY

    lists = ('gear_ratios', 'position_offsets', 'gains', 'kp', 'kd')
    plain = ('effort_kind', 'rate', 'degrees', 'ticks', 'target', 'timestep', 'floating', 'tool')
    stated: dict[str, Any] = {name: getattr(options, name) for name in plain}
    stated.update((name, tuple(getattr(options, name) or ()) or None) for name in lists)
    return DraftSettings(
        **stated,
        gravity=tuple(options.gravity or EARTH_GRAVITY),
        xacro_arguments=dict(options.xacro),
    )


def _require_names(options: argparse.Namespace) -> None:
    """Require a file that may be written, and paths that it can name; raises SettingsError."""
    if options.out.exists() and not options.force:
        raise SettingsError(
            f"'{options.out}' exists already",
            file=str(options.out),
            remedy='name another file with --out, or give --force',
        )
    for path in map(str, (options.urdf, *options.recordings)):
        if encoded(path) != os.fsencode(path):
            raise SettingsError(
                f"'{path}' is not text in UTF-8, and no experiment file can name it",
                file=path,
                remedy='rename it',
            )


def _written(path: Path, text: str) -> int:
    """Check and write an experiment file."""
    from ..drafting.any_draft import check_text

    following = check_text(text, path)
    print()
    write(path, text)
    print(f'next: robot-identification {following} {path}')
    return EXIT_OK


def _accepted(found: Proposal, effort_kind: str | None) -> bool:
    """
    Ask on a terminal whether to take what the recordings speak for.

    Raises SettingsError elsewhere where nothing else is known, or where it is certain.
    """
    if sys.stdin.isatty():
        print(f'\n{found}\nTake that (y/n)? ', end='', flush=True)
        return sys.stdin.readline().strip().lower() in ('y', 'yes')
    if effort_kind is None:
        raise SettingsError(
            'the kind of the recorded effort is not given',
            key='robot.effort_kind',
            remedy=f"see the driver's documentation; the recordings suggest {found.options} "
            f'({found.reason})',
        )
    if found.certain:
        raise SettingsError(
            found.reason,
            key='robot.drives',
            remedy=f'give {found.options}, or --gains of 1 each to keep the signs',
        )
    print(f'remark: {found}')
    return False


def _asked() -> str:
    """Ask for the kind of effort on a terminal."""
    if sys.stdin.isatty():
        print('\nWhat is the effort in the recordings?')
        for number, kind in enumerate(KINDS, 1):
            print(f'  {number}  {kind}')
        print('number: ', end='', flush=True)
        answer = sys.stdin.readline().strip()
        chosen = {**dict(zip('123', KINDS, strict=True)), **dict(zip(KINDS, KINDS, strict=True))}
        if answer in chosen:
            return chosen[answer]
    raise SettingsError(
        'the kind of the recorded effort is not given',
        key='robot.effort_kind',
        remedy='see the documentation of the driver, and give --effort-kind '
        'joint_torque, motor_torque or motor_current',
    )
