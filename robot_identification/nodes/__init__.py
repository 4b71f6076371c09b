# SPDX-License-Identifier: Apache-2.0
"""
The ROS nodes: each declares its parameters, makes one core object and translates messages.

Only this room imports rclpy.
"""

from importlib import import_module
import os
from pathlib import Path
import re
import signal
import sys

from ..errors import missing

NODES = tuple(sorted(path.stem[:-5] for path in Path(__file__).parent.glob('*_node.py')))
"""Names of the nodes; the module of each is ``<name>_node``, its class ``<Name>Node``."""

_PROGRAM = re.compile(rf'(.*[/\\]|robot_identification\.nodes\.)?({"|".join(NODES)})_node(\.exe)?')


def _is_program() -> bool:
    """Return whether this process is a node; other programs only use a module of this room."""
    return any(_PROGRAM.fullmatch(word) for word in sys.orig_argv[1:4])


def _require_libraries() -> None:
    """End a node's process in one line where ROS, the messages or the simulator are missing."""
    ros = "source your ROS 2 workspace, or run 'make setup' in the sources"
    needed: dict[str, tuple[str, str | None]] = {
        'rclpy': ('nodes need ROS 2', ros),
        'robot_identification_msgs': ('nodes need their messages', ros),
    }
    if any(node in word for word in sys.orig_argv[1:4] for node in ('excitation', 'simulation')):
        packages = 'sudo apt install ros-${ROS_DISTRO}-control-msgs; without ROS from packages, '
        made = f"{packages}run 'make setup' in the sources"
        needed['control_msgs'] = ("controllers' messages are missing", made)
    if any('simulation' in word for word in sys.orig_argv[1:4]):
        needed['mujoco'] = ('the simulation needs MuJoCo', missing('mujoco').remedy)
    if any('recorder' in word for word in sys.orig_argv[1:4]):
        for module in ('mcap', 'rosbags'):
            needed[module] = ('recordings need a library', missing(module).remedy)
    for module, (problem, remedy) in needed.items():
        try:
            import_module(module)
        except ImportError:
            sys.stderr.write(f'error: {problem} ({module}): {remedy}\n')
            raise SystemExit(2) from None


def _leave_quietly_while_loading() -> None:
    """
    Let a node's process end without a traceback while it still loads its libraries.

    That takes a second or two, in which `common.run` has not yet taken over.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))


# Threads of the linear algebra cost more than they give on matrices of this size: on the TX-40's
# recording six times the processor time, taken from the other nodes.  Read when NumPy is loaded.
os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

if _is_program():
    _leave_quietly_while_loading()
    _require_libraries()
