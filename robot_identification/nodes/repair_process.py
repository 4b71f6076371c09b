# SPDX-License-Identifier: Apache-2.0
"""Process of the recorder that completes earlier recordings, and its entry point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import contextlib
import os
from pathlib import Path
import subprocess
import sys
import threading

from ..data.bag_repair import is_complete, recordings_in, repair_bag
from ..errors import RecordingError

REPAIR_SECONDS = 600.0
"""Time after which the completion of earlier recordings is ended [s]."""

UNCHANGED_SECONDS = 600.0
"""Time since which files of other recorders have to be unchanged [s]."""

RESERVE = 1 << 30
"""Room that is left to new recordings [bytes]."""


class RepairProcess:
    """
    Process that completes what an earlier recorder left in a folder, see `main`.

    Its lines go to ``log``, called from a thread.  It can be killed at any moment: what it has not
    completed stays as it was.
    """

    def __init__(self, output: Path, log: Callable[[str], None]) -> None:
        from .common.processes import start_module  # the process itself needs no ROS

        self._process = start_module(
            __name__,
            str(output),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._timer = threading.Timer(REPAIR_SECONDS, self._process.kill)
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


def main(arguments: Sequence[str]) -> None:
    """
    Complete the recordings in the folder that ``arguments`` has; print what is done.

    Has the lowest priority, and leaves room to new recordings and time to other recorders.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # whatever the recorder has
        os.nice(19)
    output = Path(arguments[0])
    for bag in recordings_in(output):
        try:
            if bag == output or is_complete(bag):
                continue
            done = repair_bag(bag, quiet=UNCHANGED_SECONDS, reserve=RESERVE)
            lines = [f'{bag}: {line}' for line in done]
        except (RecordingError, OSError) as error:
            lines = [f'left as it is: {error}']
        sys.stdout.writelines(f'{line}\n' for line in lines)
        sys.stdout.flush()


if __name__ == '__main__':
    main(sys.argv[1:])
