# SPDX-License-Identifier: Apache-2.0
"""Behaviour on a terminal: colours, progress, Ctrl-C, completion."""

from __future__ import annotations

import os
from pathlib import Path
import pty
import signal
import subprocess
import sys
import time

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, '-m', 'robot_identification.cli']


def environment(**more):
    own = {k: v for k, v in os.environ.items() if k not in ('NO_COLOR', 'TERM')}
    return {**own, 'PYTHONPATH': str(ROOT), 'TERM': 'xterm', **more}


def on_terminal(folder, *arguments, **more):
    """Run a command with standard output and error on a terminal; return what it printed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, stdout=slave, stderr=slave, env=environment(**more)
    )
    os.close(slave)
    printed = b''
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # Linux says so at the end
            break
        if not piece:
            break
        printed += piece
    os.close(master)
    process.wait()
    return printed.decode()


def test_colours_are_those_of_a_terminal_that_has_them(workspace):
    command = (workspace.folder, 'identify', 'experiment.yaml', '--set', 'estimation.method=ols')
    assert '\033[32;1mGood for all uses: ' in on_terminal(*command)
    assert '\033[1m== Verdict ==' in on_terminal(*command, '--verbose')
    for unset in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
        assert on_terminal(workspace.folder, 'identify', 'none.yaml', **unset).startswith(
            'error: '
        )
    assert '\033[' not in workspace.run(*command[1:]).stdout


def test_an_error_is_set_off(workspace):
    printed = on_terminal(workspace.folder, 'identify', 'none.yaml')
    assert printed.startswith('\033[31;1merror:\033[0m settings file')


def wait_until_it_computes(process):
    """Wait until Pinocchio's library is loaded: the command loads it when it starts its work."""
    maps = Path(f'/proc/{process.pid}/maps')
    end = time.monotonic() + 60.0
    while 'libpinocchio' not in maps.read_text():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)


def test_ctrl_c_ends_in_one_line_with_its_own_code(workspace):
    bootstrap = 'estimation.bootstrap={replicates: 100000}'
    process = subprocess.Popen(
        [*COMMAND, 'identify', 'experiment.yaml', '--set', bootstrap],
        cwd=workspace.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
        # also where the tests themselves run in the background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    wait_until_it_computes(process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == 'error: interrupted\n'
    assert not output


def test_completion_knows_commands_and_options(workspace):
    pytest.importorskip('argcomplete')
    line = 'robot-identification identify --fac'
    answer = workspace.folder / 'answer'
    with answer.open('w') as stream:
        subprocess.run(
            [*COMMAND], cwd=workspace.folder, pass_fds=(stream.fileno(),), timeout=60, check=False,
            env=environment(
                _ARGCOMPLETE='1', _ARGCOMPLETE_SHELL='bash', COMP_LINE=line,
                COMP_POINT=str(len(line)), _ARGCOMPLETE_STDOUT_FILENAME=str(answer), COMP_TYPE='9',
            ),
        )  # fmt: skip
    assert '--factors' in answer.read_text()
