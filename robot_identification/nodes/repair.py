# SPDX-License-Identifier: Apache-2.0
"""
Completion of recordings that an earlier recorder left, in a process beside the recorder.

It has the lowest priority and bounded time, and can be killed at any moment: what it has not
completed stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import os
from pathlib import Path
import subprocess
import sys
import threading

from ..data.bag_repair import is_complete, recordings_in, repair_bag
from ..errors import RecordingError

LIMIT = 600.0
"""Time after which it is ended [s]."""

QUIET = 600.0
"""Time since which files of other recorders have to be unchanged [s]."""

RESERVE = 1 << 30
"""Room that is left to new recordings [bytes]."""


class RepairProcess:
    """Process for a folder of recordings, whose lines go to ``log``, called from a thread."""

    def __init__(self, output: Path, log: Callable[[str], None]) -> None:
        from .common.processes import die_with_parent  # the process itself needs no ROS

        command = [sys.executable, '-m', __name__, str(output)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        self._timer = threading.Timer(LIMIT, self._process.kill)
        self._timer.daemon = True
        self._timer.start()
        self._reader = threading.Thread(target=self._read, args=(log,), daemon=True)
        self._reader.start()

    def end(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._reader.join(2.0)

    def _read(self, log: Callable[[str], None]) -> None:
        for line in self._process.stdout or ():
            log(line.rstrip('\n'))
        self._process.wait()
        self._timer.cancel()


def main(arguments: list[str]) -> None:
    """Complete the recordings in the folder that ``arguments`` has; print what is done."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # whatever the recorder has
        os.nice(19)
    output = Path(arguments[0])
    for bag in recordings_in(output):
        try:
            if bag == output or is_complete(bag):
                continue
            for line in repair_bag(bag, quiet=QUIET, reserve=RESERVE):
                _print(f'{bag}: {line}')
        except (RecordingError, OSError) as error:
            _print(f'left as it is: {error}')


def _print(line: str) -> None:
    sys.stdout.write(f'{line}\n')
    sys.stdout.flush()


if __name__ == '__main__':
    main(sys.argv[1:])
