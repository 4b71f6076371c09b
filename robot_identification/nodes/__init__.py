# SPDX-License-Identifier: Apache-2.0
"""
The ROS nodes: each declares its parameters, makes one core object and translates messages.

Only this room imports rclpy.
"""

import os
import re
import signal
import sys

_NODES = r'(simulation|excitation|recorder|regressor|identification)'
_PROGRAM = re.compile(
    rf'(.*[/\\])?{_NODES}_node(\.exe)?|robot_identification\.nodes\.{_NODES}\.node'
)


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

# Threads of the linear algebra cost more than they give on matrices of this size: on the TX-40's
# recording six times the processor time, taken from the other nodes.  Read when NumPy is loaded.
os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
