# SPDX-License-Identifier: Apache-2.0
"""Parsers of the commands ``play`` and ``wait``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .cli_options import add_command, not_negative, positive, Run

LISTENER_WAIT, FOLLOWER_WAIT = 5.0, 60.0
"""How long to wait for somebody to listen, and for a live identification to be ready [s]."""


def add_play(commands: Any, run: Run) -> None:
    """Add ``play``."""
    parser = add_command(
        commands,
        'play',
        run,
        "publish a recording's joint states over ROS 2, with /clock",
        description="""
            Publish the joint states of a rosbag2 recording as they were recorded, with their
            spacing, and the recording's time on /clock for nodes with use_sim_time.  Where ROS 2
            is installed with rosbag2, 'ros2 bag play' does the same with options of the same
            names; for --topic and --to it has --topics and --remap.
            """,
    )
    parser.add_argument('recording', type=Path, help='rosbag2 folder, or .mcap or .db3 file')
    parser.add_argument(
        '--rate',
        type=positive,
        default=1.0,
        metavar='X',
        help='seconds of the recording in a second (default: %(default)s)',
    )
    parser.add_argument(
        '--topic',
        default='/joint_states',
        help='topic of the joint states in the recording (default: %(default)s)',
    )
    parser.add_argument(
        '--to', metavar='TOPIC', help='topic to publish them to (default: the same)'
    )
    parser.add_argument(
        '--clock',
        type=float,
        default=250.0,
        metavar='HZ',
        help="rate of /clock in the recording's time, 0 for none (default: %(default)s)",
    )
    parser.add_argument(
        '--clock-topic',
        default='/clock',
        metavar='TOPIC',
        help='topic to publish the time to (default: %(default)s)',
    )
    parser.add_argument(
        '--wait',
        type=float,
        default=None,
        metavar='S',
        help='seconds to wait for a subscriber, and for --follower (default: '
        f'{LISTENER_WAIT:g}, or {FOLLOWER_WAIT:g} with --follower)',
    )
    parser.add_argument(
        '--follower',
        metavar='NODE',
        help='full name of an identification node, such as /identification: the recording begins '
        'when its live identification takes joint states or is switched off, and not at all '
        'where that takes longer than --wait',
    )
    parser.add_argument(
        '--start-offset',
        type=not_negative,
        default=0.0,
        metavar='S',
        help="seconds of the recording's start to leave out (default: %(default)s)",
    )
    parser.add_argument(
        '--playback-duration',
        type=not_negative,
        metavar='S',
        help='seconds of the recording to play from there on (default: all)',
    )
    parser.add_argument(
        '-l',
        '--loop',
        action='store_true',
        help='begin again at the end, until Ctrl-C; the clock goes back then',
    )


def add_wait(commands: Any, run: Run) -> None:
    """Add ``wait``."""
    parser = add_command(
        commands,
        'wait',
        run,
        'run a command when a live identification is ready for joint states',
        description="""
            Wait until the live identification of a node takes joint states, or is switched off,
            and then run a command, such as 'ros2 bag play'.
            """,
        epilog="""
            example:
              robot-identification wait /identification -- ros2 bag play recordings/first --clock
            """,
    )
    parser.add_argument('node', help='full name of the identification node')
    parser.add_argument(
        '--timeout',
        type=positive,
        default=FOLLOWER_WAIT,
        metavar='S',
        help='seconds after which the command is not run (default: %(default)s)',
    )
    parser.add_argument(
        'command', nargs=argparse.REMAINDER, help='the command and its words, after --'
    )
