# SPDX-License-Identifier: Apache-2.0
"""Child process that follows one robot, and the pipe to it."""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
from multiprocessing import Pipe
import subprocess
import time
from typing import Any

from ..errors import IdentificationError
from ..estimation.residuals import EffortDelay
from ..support.processes import start_module
from . import DelayRows
from .settings import OnlineTask

ANSWER_SECONDS = 10.0
"""How long the process may take to answer a command [s]."""

STOP_SECONDS = 3.0
"""How long it may take to end before it is killed [s]."""


class OnlineProcess:
    """
    Process that follows one robot, as the one who starts it sees it; for one thread at a time.

    Parameters
    ----------
    module:
        Module that the process runs; its one argument is the number of a pipe.  The pipe brings it
        the task and then commands, (number, name, argument).  It takes their answers, (number,
        content, error in words), the first of which is that of the task, number 0, and `DelayRows`
        to find the delays of efforts by, which are sent back as the command ``delay``.
    task:
        What it is to do.

    """

    def __init__(self, module: str, task: OnlineTask) -> None:
        self.task, self.ready, self._count = task, False, 0
        self._pipe, other = Pipe()
        with other:
            self._process = start_module(module, other.fileno())
        with self._end_reported():
            self._pipe.send(task)

    def ask(self, name: str, argument: Any = None) -> Any:
        """
        Send a command and return the answer.

        Raises
        ------
        IdentificationError
            where there is none in time, or the process has ended.

        """
        if not self.ready and not self.look(ANSWER_SECONDS):
            raise IdentificationError(
                'the live identification has not started yet', remedy='try again in some seconds'
            )
        self._count += 1
        with self._end_reported():
            self._pipe.send((self._count, name, argument))
            answer = self._answer(self._count, ANSWER_SECONDS)
        if answer is None:
            raise IdentificationError(
                f"no answer to '{name}' within {ANSWER_SECONDS:g} s",
                remedy='switch the live identification off and on: ~/online/enable',
            )
        content, failure = answer
        if failure:
            raise IdentificationError(failure)
        return content

    def look(self, seconds: float = 0.0) -> bool:
        """Return whether it follows the robot, at once or in some time; raise if it has ended."""
        with self._end_reported():
            answer = self._answer(0, seconds)
        if answer is not None and answer[1]:
            raise IdentificationError(answer[1])
        self.ready = self.ready or answer is not None
        return self.ready

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pipe.close()

    def _answer(self, number: int, seconds: float) -> tuple[Any, str] | None:
        """
        Wait for the answer to a command, and find delays of efforts meanwhile.

        Answers to earlier commands come too late.
        """
        end = time.monotonic() + seconds
        while self._pipe.poll(max(0.0, end - time.monotonic())):
            message = self._pipe.recv()
            if isinstance(message, DelayRows):
                self._pipe.send((0, 'delay', _delay(message)))
            elif message[0] == number:
                return message[1:]
        return None

    @contextlib.contextmanager
    def _end_reported(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            raise IdentificationError(
                f'its process ended with code {self._process.wait()}'
            ) from error


def _delay(rows: DelayRows) -> EffortDelay | None:
    """Return the delays of efforts; None where the rows do not determine them."""
    try:
        return rows.delay()
    except (ValueError, ArithmeticError):
        return None
