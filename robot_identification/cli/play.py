# SPDX-License-Identifier: Apache-2.0
"""Commands ``play`` and ``wait``: recordings for live nodes."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
import sys

from ..errors import IdentificationError, SettingsError
from ..progress import progress_bar
from .options import argument, command, flag, needing_ros, not_negative, positive
from .output import EXIT_OK, warn

LISTENER_WAIT, FOLLOWER_WAIT = 5.0, 60.0
"""How long to wait for a subscriber, and for a live identification to be ready [s]."""


@command(
    argument('recording', 'rosbag2 folder, or .mcap or .db3 file', Path),
    argument('--rate', 'seconds of the recording in a second', positive, 'X', default=1.0),
    argument('--topic', 'topic of the joint states in the recording', default='/joint_states'),
    argument('--to', 'topic to publish them to (default: the same)', metavar='TOPIC'),
    argument(
        '--clock',
        "rate of /clock in the recording's time, 0 for none (default: %(default)s)",
        float,
        'HZ',
        default=250.0,
    ),
    argument('--clock-topic', 'topic to publish the time to', default='/clock', metavar='TOPIC'),
    argument(
        '--wait',
        'seconds to wait for a subscriber, and for --follower (default: '
        f'{LISTENER_WAIT:g}, or {FOLLOWER_WAIT:g} with --follower)',
        float,
        'S',
    ),
    argument(
        '--follower',
        'full name of an identification node, such as /identification: the recording begins '
        'when its live identification takes joint states or is switched off, and not at all '
        'where that takes longer than --wait',
        metavar='NODE',
    ),
    argument(
        '--start-offset',
        "seconds of the recording's start to leave out (default: %(default)s)",
        not_negative,
        'S',
        default=0.0,
    ),
    argument(
        '--playback-duration',
        'seconds of the recording to play from there on (default: all)',
        not_negative,
        'S',
    ),
    flag('-l --loop', 'begin again at the end, until Ctrl-C; the clock goes back then'),
)
def play(options: argparse.Namespace) -> int:
    """
    Publish a recording's joint states over ROS 2, with /clock.

    Publish the joint states of a rosbag2 recording as they were recorded, with their
    spacing, and the recording's time on /clock for nodes with use_sim_time.  Where ROS 2
    is installed with rosbag2, 'ros2 bag play' does the same with options of the same
    names; for --topic and --to it has --topics and --remap.
    """
    usual = FOLLOWER_WAIT if options.follower else LISTENER_WAIT
    with needing_ros('playing a recording'):
        from ..nodes.player import play
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


@command(
    argument('node', 'full name of the identification node'),
    argument(
        '--timeout',
        'seconds after which the command is not run',
        positive,
        'S',
        default=FOLLOWER_WAIT,
    ),
    argument('command', 'the command and its words, after --', nargs=argparse.REMAINDER),
)
def wait(options: argparse.Namespace) -> int:
    """
    Run a command when a live identification is ready for joint states.

    Wait until the live identification of a node takes joint states, or is switched off,
    and then run a command, such as 'ros2 bag play'.

    Examples
    --------
    robot-identification wait /identification -- ros2 bag play recordings/first --clock
    """
    with needing_ros('waiting for a node'):
        from ..nodes.player import wait_for_identification
    # argparse drops the first -- or not, as its version is
    words = options.command[options.command[:1] == ['--'] :]
    if words and words[0].startswith('-'):
        raise SettingsError(
            f"'{words[0]}' stands behind the node",
            value=words[0],
            remedy='give options before the node and the command after --',
        )
    wait_for_identification(options.node, options.timeout)
    if words:
        sys.stdout.flush()
        try:
            os.execvp(words[0], words)
        except OSError as error:
            raise IdentificationError(
                f"cannot run '{words[0]}': {error.strerror}",
                value=words[0],
                remedy='name a program that is installed and on PATH',
            ) from error
    return EXIT_OK
