# SPDX-License-Identifier: Apache-2.0
"""Command ``node``."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import Any

from ..progress import progress_bar
from .options import argument, command, needing_ros, Parser, positive
from .output import EXIT_OK

VERBS = {
    'plan': 'plan a motion that excites the parameters',
    'preview': 'check a planned motion and show it; nothing moves',
    'excite': 'check a planned motion, execute and record it; Ctrl-C brings the robot to rest',
    'calibrate': 'move and identify until the parameters are known well enough',
    'confirm': 'have the motion that a calibration asks about executed, or end it',
    'record': 'start a recording',
    'stop': 'end the recording',
    'identify': 'identify the parameters from a recording',
    'validate': 'predict the efforts of another recording',
    'check': 'check whether the parameters are physical',
    'export': 'write the identified URDF',
    'online': 'switch the identification beside the running robot on or off',
    'freeze': 'keep the estimate of the online identification as it is, or go on',
    'save': "write the online identification's result",
    'watch': 'print the messages of a status topic',
}


@command(
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

    parser = Parser(
        prog=f'robot-identification node {options.verb}', description=f'{VERBS[options.verb]}.'
    )
    own = parser.add_argument_group('client')
    own.add_argument(
        '--namespace', default='', metavar='NAME', help='namespace of the nodes (default: none)'
    )

    if options.verb == 'watch':
        parser.add_argument('topic', choices=client.TOPICS)
        own.add_argument('--once', action='store_true', help='end after one message')
        given = parser.parse_args(options.fields)
        client.watch(given.topic, _show, namespace=given.namespace, once=given.once)
        return EXIT_OK
    interface = client.VERBS[options.verb]
    client.add_fields(parser, interface)
    own.add_argument(
        '--timeout',
        type=positive,
        default=3600.0,
        metavar='S',
        help='seconds to wait for the answer (default: %(default)g)',
    )
    fields = vars(parser.parse_args(options.fields))
    namespace, timeout = fields.pop('namespace'), fields.pop('timeout')
    with progress_bar(delay=0.0) as progress:
        answer = client.request(
            interface, fields, namespace=namespace, timeout=timeout, progress=progress
        )
    # one that is no success is an error
    _show({key: value for key, value in answer.items() if key not in ('success', 'error_code')})
    return EXIT_OK


def _show(message: dict[str, Any]) -> None:
    """Print a message as YAML, what is in lists in a line each."""
    import yaml

    for key, value in message.items():
        text = value
        if not isinstance(value, str):
            text = yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=100)
            text = text.removesuffix('...\n').rstrip()
        block = isinstance(value, dict) or '\n' in text
        print(f'{key}:\n{textwrap.indent(text, "  ")}' if block else f'{key}: {text}')
    sys.stdout.flush()
