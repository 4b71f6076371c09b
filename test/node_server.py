# SPDX-License-Identifier: Apache-2.0
"""
Start nodes without loading their libraries each time: a process that has them, and forks.

Most of what a node's start costs is Python loading libraries.  The nodes, commands and scripts
that are started so are processes like any others, with their own environment, session and output;
what depends on the start of Python itself is to be started as users do.  They draw no reports,
unless the variable DRAWS_REPORTS is set, and import ``sitecustomize`` from the folder SITE.

As a program, this is that process: it takes requests from the socket whose number is its argument.
"""

from __future__ import annotations

import atexit
import contextlib
from functools import partial
import gc
import importlib
import inspect
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading

COMMAND = 'robot_identification.cli'
LIBRARIES = (
    'asyncio',
    'control_msgs.action',
    'control_msgs.msg',
    'diagnostic_msgs.msg',
    'geometry_msgs.msg',
    'mcap.writer',
    'multiprocessing.connection',
    'mujoco',
    'rcl_interfaces.srv',
    'robot_identification.calibration.calibrate',
    'robot_identification.data.bag_recorder',
    'robot_identification.excitation.planner',
    'robot_identification.identification.pipeline',
    'robot_identification.exports.saving',
    'robot_identification.online',
    'robot_identification.simulation',
    'robot_identification_msgs.action',
    'robot_identification_msgs.srv',
    'scipy.ndimage',
    'sensor_msgs.msg',
    'std_msgs.msg',
    'std_srvs.srv',
    'trajectory_msgs.msg',
    'visualization_msgs.msg',
    'yaml',
)
"""Without rclpy, whose tracing has threads: they would not be there in a fork, but their locks."""

LARGEST = 1 << 20
"""Of a request, with its environment [bytes]."""


class ForkedProcess:
    """A process that the server has forked; the part of `subprocess.Popen` that tests use."""

    def __init__(self, server, program, arguments, environment, folder):
        reading, writing = os.pipe()
        self._status, status = os.pipe()
        self.returncode = None
        self.stdout = open(reading)  # noqa: SIM115 (closed by who reads it)
        request = {'program': program, 'arguments': arguments, 'folder': folder}
        text = json.dumps({**request, 'environment': environment}).encode()
        try:
            socket.send_fds(server, [text], [writing, status])
            self.pid = int(server.recv(32))
        finally:
            os.close(writing)
            os.close(status)

    def poll(self):
        """Return the exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout=None):
        """Wait for the end and return the exit code."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired('node', timeout)
            self.returncode = int(os.read(self._status, 32) or -signal.SIGKILL)
            os.close(self._status)
        return self.returncode

    def send_signal(self, number):
        """Send a signal where it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self):
        """Send SIGKILL where it still runs."""
        self.send_signal(signal.SIGKILL)


def start_server(environment):
    """Start the server; return the socket that takes its requests, and whose end ends it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        # a session of its own: a Ctrl-C is for the tests, which end their nodes
        subprocess.Popen(
            command, env=environment, pass_fds=[theirs.fileno()], start_new_session=True
        )
    assert ours.recv(32) == b'ready'
    return ours


def serve(requests):
    """Fork for each request; return in the child, its main function, or at the end, None."""
    children = {}
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            reap(children)
        if requests not in ready:
            continue
        text, files, _, _ = socket.recv_fds(requests, LARGEST, 2)
        if not text:
            return None
        output, status = files
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            for file in (woken, waking, status, *children.values()):
                os.close(file)
            return become(json.loads(text), output)
        children[pid] = status
        os.close(output)
        requests.send(str(pid).encode())


def reap(children):
    """Tell of the children that have ended how they did."""
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            file = children.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(file, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(file)


def become(request, output):
    """Be a process as it would have been started; return its main function."""
    os.setsid()
    os.chdir(request['folder'])
    os.environ.clear()
    os.environ.update(request['environment'])
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    # again: those of the server remember that they were files, which pipes are not
    sys.stdout, sys.stderr = (os.fdopen(number, 'w', 1, closefd=False) for number in (1, 2))
    if os.environ.get('SITE'):
        # imported as at the start of Python, by children, too
        os.environ['PYTHONPATH'] = os.pathsep.join([os.environ['SITE'], os.environ['PYTHONPATH']])
        sys.modules.pop('sitecustomize', None)
        sys.path.insert(0, os.environ['SITE'])
        importlib.import_module('sitecustomize')
    if not os.environ.get('DRAWS_REPORTS'):
        # a second for each result, and tested elsewhere
        importlib.import_module('robot_identification.exports.saving').html = lambda _: 'report'
    if request['program'].endswith('.py'):
        sys.argv = [request['program'], *request['arguments']]
        return partial(run_script, request['program'])
    module = importlib.import_module(request['program'])
    sys.argv = [module.__file__, *request['arguments']]
    return module.main


def run_script(path):
    """Run a script as the main program; return its exit code."""
    try:
        runpy.run_path(path, run_name='__main__')
    except SystemExit as end:
        return end.code or 0
    return 0


def load_type_supports(library):
    """Load what a package of messages has in machine code."""
    for kind in vars(library).values():
        if hasattr(type(kind), '__import_type_support__'):
            kind.__import_type_support__()


def main():
    """Load what nodes load, and serve."""
    for library in LIBRARIES:
        load_type_supports(importlib.import_module(library))
    # what the first log of a process asks for: it goes through all that is loaded
    inspect.getmodule(inspect.currentframe())
    gc.freeze()  # what all have is not to be looked through in each
    assert len(os.listdir('/proc/self/task')) == 1, 'a library has started a thread'
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.send(b'ready')
    program = serve(requests)
    if program is None:
        return
    code = program()
    # all of an interpreter's end but that it takes to pieces what it has loaded
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == '__main__':
    main()
