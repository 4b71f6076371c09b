# SPDX-License-Identifier: Apache-2.0
"""
The ROS nodes: each declares its parameters, makes one core object and translates messages.

Only this room imports rclpy.
"""

import os
import re
import signal
import sys

_NODES = r'(simulation|excitation|recorder|regressor|identification)_node'
_PROGRAM = re.compile(rf'(.*[/\\])?{_NODES}(\.exe)?|robot_identification\.nodes\.{_NODES}')


def _leave_quietly_while_loading() -> None:
    """
    Let a node's process end without a traceback while it still loads its libraries.

    That takes a second or two, in which `common.run` has not yet taken over.  Programs that only
    use a module of this room keep their own signal handling.
    """
    if any(_PROGRAM.fullmatch(word) for word in sys.orig_argv[1:4]):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os._exit(0))


_leave_quietly_while_loading()
