# SPDX-License-Identifier: Apache-2.0
"""The command ``window``: the steps from a robot's file to its exports in a browser."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from ..errors import SettingsError
from ..version import page
from .command import argument, command, EXIT_OK, natural, warn


@command(
    argument('urdf', 'the URDF or xacro file of the robot', Path, nargs='?'),
    argument('recordings', 'files or rosbag2 folders', Path, 'RECORDING', nargs='*'),
    argument(
        '--out',
        'folder for files and results; one that has files in it gets a number',
        Path,
        'DIR',
        default=Path('window'),
    ),
    argument('--port', 'port to listen on (default: a free one)', natural, 'PORT', default=0),
    argument(
        '--host',
        'address to listen on; another one than the loopback is reached by other machines',
        default='127.0.0.1',
    ),
    page=page('how_to/window'),
)
def window(options: argparse.Namespace) -> int:
    """
    Go from a robot to the verdict in a browser.

    Serve a page with six stages: robot, recordings, motion, identify, result, use. Each is
    a call of what the other commands do, with the same files and the same messages, and
    shows the command lines that repeat it. With ROS 2 sourced, two more show a robot and
    have its nodes execute a plan. Print the address; its token admits whoever has
    it, and nobody else. Ctrl-C ends it; closing the page does not. How it looks: {page}

    Examples
    --------
    robot-identification window
    robot-identification window robot.urdf run1.csv run2.csv
    robot-identification window robot.urdf --out tries/monday --port 8080
    """
    from ..window.hosts import is_loopback
    from ..window.server import serve
    from ..window.session import Sessions

    if options.port > 65535:
        raise SettingsError(
            f"'--port {options.port}' is no port", value=options.port, remedy='give 1 to 65535'
        )
    if not is_loopback(options.host):
        warn(
            [
                f'other machines can reach {options.host}: whoever has the address with its token '
                'reads files by it with your rights, and nothing is encrypted on the way'
            ]
        )
    _require_files(options.urdf, options.recordings)
    sessions = Sessions(options.out)
    sessions.new(str(options.urdf or ''), tuple(map(str, options.recordings)))
    with suppress(KeyboardInterrupt):
        serve(sessions, options.host, options.port, lambda text: print(text, flush=True))
    return EXIT_OK


def _require_files(urdf: Path | None, recordings: list[Path]) -> None:
    """Raise what `check` and `init` raise where a file does not exist."""
    if urdf is not None and not urdf.expanduser().exists():
        from ..model.urdf_files import read_urdf

        read_urdf(urdf)
    for recording in recordings:
        if not recording.expanduser().exists():
            from ..drafting.entry_guess import guess_entry

            guess_entry(recording, (), 1.0)
