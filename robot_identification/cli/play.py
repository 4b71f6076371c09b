# SPDX-License-Identifier: Apache-2.0
"""Command ``play``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import IdentificationError
from ..progress import progress_bar
from .options import add_command, not_negative, positive
from .output import EXIT_OK, warn

LISTENER_WAIT, FOLLOWER_WAIT = 5.0, 60.0
"""How long to wait for a subscriber, and for a live identification to be ready [s]."""


def add_parser(commands: Any) -> None:
    """Add ``play`` to the commands."""
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


def run(options: argparse.Namespace) -> int:
    """Do ``play`` and return the exit code."""
    usual = FOLLOWER_WAIT if options.follower else LISTENER_WAIT
    try:
        from ..nodes.player import play
    except ImportError as error:
        raise IdentificationError(
            f'playing a recording needs ROS 2 ({error})',
            remedy="run 'make setup' in the sources, or source your ROS 2 workspace",
        ) from error
    with progress_bar() as progress:
        played = play(
            options.recording,
            topic=options.topic,
            to=options.to,
            rate=options.rate,
            clock_rate=options.clock,
            clock_topic=options.clock_topic,
            wait=usual if options.wait is None else options.wait,
            follower=options.follower,
            start_offset=options.start_offset,
            duration=options.playback_duration,
            loop=options.loop,
            progress=progress,
        )
    if not played.subscribers:
        warn(['there was no subscriber when the recording began'])
    print(
        f'played {played.messages} joint states in {played.seconds:.2f} s, '
        f'the latest {1e3 * played.latest:.1f} ms late'
    )
    return EXIT_OK
