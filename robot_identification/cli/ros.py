# SPDX-License-Identifier: Apache-2.0
"""Commands that need ROS 2: ``node``, ``play``, ``wait``, ``demo``."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
import sys
import textwrap
from typing import Any

from ..errors import SettingsError
from ..support.progress import progress_bar
from .command import (
    argument,
    command,
    EXIT_OK,
    flag,
    needing_ros,
    not_negative,
    Parser,
    positive,
    warn,
)

VERBS = {
    'plan': 'plan a motion that excites the parameters',
    'preview': 'check a planned motion and show it; nothing moves',
    'stop': "cancel the excitation node's goals, also of one that was killed",
    'excite': 'check a planned motion, execute and record it; Ctrl-C brings the robot to rest',
    'calibrate': 'move and identify until the parameters are known well enough',
    'confirm': 'have the motion that a calibration asks about executed, or end it',
    'record': 'start a recording',
    'end': 'end the recording',
    'identify': 'identify the parameters from a recording',
    'tool': 'identify a tool from a force-torque sensor at the wrist',
    'validate': 'predict the efforts of another recording',
    'check': 'check whether the parameters are physical',
    'export': 'write the identified URDF',
    'online': 'switch the identification beside the running robot on or off',
    'freeze': 'keep the estimate of the online identification as it is, or go on',
    'save': "write the online identification's result",
    'watch': 'print the messages of a status topic',
}


@command(
    argument('--namespace', 'namespace of the nodes (default: none)', metavar='NAME', default=''),
    argument('verb', 'see above', choices=VERBS, metavar='VERB'),
    argument('fields', 'fields of the request', nargs=argparse.REMAINDER, metavar='...'),
    verbs='\n'.join(f'  {name:10} {text}' for name, text in VERBS.items()),
)
def node(options: argparse.Namespace) -> int:
    """
    Call the services and actions of the nodes.

    Call a service or an action of running nodes, and print the answer. VERB is one of
    {verbs}
    'robot-identification node VERB --help' lists the fields of a request.

    Examples
    --------
    robot-identification node plan --duration 10 --max-iterations 30
    robot-identification node excite plan_1 --record --recording-name first
    robot-identification node identify recordings/first --method physical
    """
    with needing_ros('calling a node'):  # the messages may be missing, too
        return _call(options)


def _call(options: argparse.Namespace) -> int:
    from ..nodes import client
    from .interfaces import add_fields, REQUESTS, share_of, TOPICS

    parser = Parser(
        prog=f'robot-identification node {options.verb}', description=f'{VERBS[options.verb]}.'
    )
    own = parser.add_argument_group('client')
    own.add_argument(
        '--namespace',
        default=options.namespace,
        metavar='NAME',
        help='namespace of the nodes (default: none)',
    )

    if options.verb == 'stop':
        return _stop(parser, own, options.fields)
    if options.verb == 'watch':
        parser.add_argument('topic', choices=TOPICS)
        own.add_argument('--once', action='store_true', help='end after one message')
        given = parser.parse_args(options.fields)
        topic = TOPICS[given.topic]
        client.watch(
            topic.type, topic.name, _show_message, namespace=given.namespace, once=given.once
        )
        return EXIT_OK
    interface = REQUESTS[options.verb]
    add_fields(parser, interface)
    own.add_argument(
        '--timeout',
        type=positive,
        default=3600.0,
        metavar='S',
        help='seconds to wait for the answer (default: %(default)g)',
    )
    fields = vars(parser.parse_args(options.fields))
    namespace, timeout = fields.pop('namespace'), fields.pop('timeout')

    with ExitStack() as bar:
        progress = bar.enter_context(progress_bar(delay=0.0))

        def show(answer: Any) -> None:
            bar.close()
            _show_message(answer)

        client.request(
            interface.type,
            interface.name,
            fields,
            show,
            namespace=namespace,
            timeout=timeout,
            feedback=lambda message: progress(*share_of(message, fields)),
        )
    return EXIT_OK


def _stop(parser: Parser, own: Any, fields: list[str]) -> int:
    from ..nodes import client

    parser.add_argument(
        '--controller',
        default='',
        metavar='NAME',
        help='name of the controller (default: all of the namespace)',
    )
    parser.add_argument(
        '--node',
        default='excitation',
        metavar='NAME',
        help='name of the node that has sent the goals (default: %(default)s)',
    )
    parser.add_argument(
        '--all', action='store_true', help='cancel all goals, whoever has sent them'
    )
    own.add_argument(
        '--timeout',
        type=positive,
        default=10.0,
        metavar='S',
        help='seconds to wait for the controller, and for the end of its goals (default: '
        '%(default)g)',
    )
    given = parser.parse_args(fields)
    stopped = client.stop(
        given.controller,
        namespace=given.namespace,
        timeout=given.timeout,
        node=given.node,
        everyone=given.all,
    )
    for controller, outcome in stopped.items():
        print(f"'{controller}': {outcome}")
    return EXIT_OK


def _show_message(message: Any) -> None:
    """Print a message as YAML, what is in lists in a line each; an answer is a success."""
    import yaml

    from .interfaces import message_content

    for key, value in message_content(message).items():
        if key in ('success', 'error_code'):
            continue
        text = value
        if not isinstance(value, str):
            text = yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=100)
            text = text.removesuffix('...\n').rstrip()
        block = isinstance(value, dict) or '\n' in text
        print(f'{key}:\n{textwrap.indent(text, "  ")}' if block else f'{key}: {text}')
    sys.stdout.flush()


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
    default_wait = FOLLOWER_WAIT if options.follower else LISTENER_WAIT
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
            wait=default_wait if options.wait is None else options.wait,
            follower=options.follower,
            start_offset=options.start_offset,
            duration=options.playback_duration,
            loop=options.loop,
            progress=progress,
        )
    if played.messages and not played.subscribers:
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
    and then run a command, such as 'ros2 bag play'.  With --start-paused, that is resumed
    when the identification is connected to it, and so misses nothing.

    Examples
    --------
    robot-identification wait /identification -- ros2 bag play recordings/first --start-paused
    """
    with needing_ros('waiting for a node'):
        from ..nodes.player import run_when_ready
    # argparse drops the first -- or not, as its version is
    words = options.command[options.command[:1] == ['--'] :]
    if words and words[0].startswith('-'):
        raise SettingsError(
            f"'{words[0]}' stands behind the node",
            value=words[0],
            remedy='give options before the node and the command after --',
        )
    sys.stdout.flush()
    return run_when_ready(options.node, options.timeout, words)


@command(
    argument(
        '--out',
        'folder for recordings, results and logs',
        Path,
        'DIR',
        default=Path('demo_results'),
    ),
    argument('--seed', 'of the planner and the noise', int, default=1),
    argument('--duration', 'length of each motion in seconds', float, 'S', default=20.0),
    argument(
        '--max-iterations', 'evaluations of the planner for each motion', int, 'N', default=300
    ),
)
def demo(options: argparse.Namespace) -> int:
    """
    Do all steps on a simulated arm, over ROS 2.

    Start the suite's nodes against an arm simulated in MuJoCo whose true parameters differ
    from its URDF; plan an excitation, execute and record it, identify the parameters,
    check them, validate them on a second motion, and compare them with the true ones.

    The folder afterwards holds:
      recordings/       rosbag2 folders of both motions
      results/          result.yaml, verdict.json, identified.urdf, report.html
      truth.yaml        the simulated robot's true parameters
      logs/             what each node printed
    """
    remedy = "run 'make demo' in the sources, or source your ROS 2 workspace and install mujoco"
    with needing_ros('the demonstration', remedy, 'ROS 2 and MuJoCo'):
        from ..demo import run_demo
    return run_demo(
        options.out,
        seed=options.seed,
        duration=options.duration,
        max_iterations=options.max_iterations,
    )
