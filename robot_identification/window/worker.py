# SPDX-License-Identifier: Apache-2.0
"""
Process in which the steps of one window run, and the pipe to it.

The server stays quick meanwhile, windows do not share the state of libraries, and a step that is
stopped takes nothing with it: files are written whole or not at all.
"""

from __future__ import annotations

from multiprocessing import Pipe
from multiprocessing.connection import Connection
import subprocess
import sys
import traceback
from typing import Any

from ..errors import IdentificationError, refusal
from ..support.processes import start_module
from ..support.progress import no_progress, Progress

_PROGRESS, _DONE, _FAILED = 'progress', 'done', 'failed'
_FINISH = 'finish'

STOPPED = 'stopped'
"""Text of the error of a step that was stopped."""


class StepStoppedError(IdentificationError):
    """A step was stopped before it was done."""


class Worker:
    """Process that carries out one step at a time; it is started when it is needed."""

    def __init__(self) -> None:
        self._pipe: Connection | None = None
        self._process: subprocess.Popen | None = None
        self._stopped = False

    def start(self) -> None:
        """Start the process, which loads its libraries at once."""
        if self._process is not None and self._process.poll() is None:
            return
        self._pipe, other = Pipe()
        with other:
            self._process = start_module(
                f'{__package__}.worker', other.fileno(), end_with_parent=False
            )

    def ask(self, name: str, *arguments: Any, progress: Progress = no_progress) -> Any:
        """
        Carry out a step, a function of `steps`, and return what it returns.

        Raises
        ------
        IdentificationError
            whose text is what the command line prints; `StepStoppedError` after `stop`.

        """
        self._stopped = False
        self.start()
        assert self._pipe is not None and self._process is not None
        try:
            self._pipe.send((name, arguments))
            while True:
                kind, *content = self._pipe.recv()
                if kind == _PROGRESS:
                    progress(*content)
                elif kind == _DONE:
                    return content[0]
                else:
                    raise IdentificationError(content[0])
        except (EOFError, OSError) as error:
            self.close()
            if self._stopped:
                raise StepStoppedError(STOPPED) from error
            raise IdentificationError('the process of this step ended unexpectedly') from error

    def finish(self) -> None:
        """Ask the step to end with the best that it has."""
        if self._pipe is not None:
            self._pipe.send(_FINISH)

    def stop(self) -> None:
        """End the step at once."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def serve(pipe: Connection) -> None:
    """Carry out the steps that the other end of a pipe names, until it is closed."""
    from . import steps

    def progress(share: float, text: str) -> None:
        pipe.send((_PROGRESS, share, text))

    asked = False

    def stopped() -> bool:
        nonlocal asked
        asked = asked or (pipe.poll() and pipe.recv() == _FINISH)
        return asked

    while True:
        message = pipe.recv()
        if message == _FINISH:  # too late: the step was done
            continue
        name, arguments = message
        asked = False
        try:
            answer = (_DONE, getattr(steps, name)(steps.Running(progress, stopped), *arguments))
        except IdentificationError as error:
            answer = (_FAILED, str(error))
        except (UnicodeEncodeError, OSError) as error:
            answer = (_FAILED, refusal(error))
        except Exception as error:  # a fault of ours: the window goes on
            traceback.print_exc()
            answer = (_FAILED, f'internal error: {type(error).__name__}: {error}')
        pipe.send(answer)


if __name__ == '__main__':
    try:
        with Connection(int(sys.argv[1])) as connection:
            serve(connection)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # the window has ended
