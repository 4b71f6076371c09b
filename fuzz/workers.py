# SPDX-License-Identifier: Apache-2.0
"""Worker processes that run inputs within limits of time and memory, and report each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
import faulthandler
import json
import os
from pathlib import Path
from random import Random
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings

from .seeds import Case
from .targets import Target, TARGETS

CPU_LIMIT = 10.0
"""Time of computing after which an input counts as a hang [s]."""

WALL_LIMIT = 60.0
"""Time after which an input counts as a hang however busy the machine is [s]."""

MEMORY = 2 << 30
"""Memory that an input may take [bytes]."""

BATCH = 250
"""Inputs that a worker runs before another one takes its place."""

_AGAIN = 17
_TICKS = os.sysconf('SC_CLK_TCK')
_PAGE = os.sysconf('SC_PAGE_SIZE')


@dataclass(frozen=True)
class Outcome:
    """
    Outcome of one input.

    Attributes
    ----------
    target, number:
        The input.
    kind:
        ``used``, ``refused``, or a finding: ``traceback``, ``hang``, ``memory`` or ``crash``.
    text:
        The error, in one line where it is of the package; else the traceback.

    """

    target: str
    number: int
    kind: str
    text: str = ''

    @property
    def is_finding(self) -> bool:
        """True if the input is neither used nor refused."""
        return self.kind not in ('used', 'refused')


class _Worker:
    """A forked process with the inputs that are left to it."""

    def __init__(self, target: Target, numbers: list[int], log: Path) -> None:
        self.target, self.numbers = target, numbers
        self.folder = Path(tempfile.mkdtemp(prefix='fuzz_'))
        self.current: int | None = None
        self.begun = time.monotonic()
        self._cpu = 0.0
        self._rest = b''
        reader, writer = os.pipe()
        sys.stdout.flush()
        self.process = os.fork()
        if self.process == 0:
            os.close(reader)
            _serve(target, numbers, self.folder, writer, log)
        os.close(writer)
        self.pipe = reader

    def read(self) -> Iterator[Outcome]:
        """Take what the process has written; yields outcomes."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b'\n')
        for line in lines:
            number, *outcome = json.loads(line)
            if not outcome:
                self.current = number
                self.begun, self._cpu = time.monotonic(), self._used()
                continue
            self.numbers.remove(number)
            self.current = None
            self.begun = time.monotonic()
            yield Outcome(self.target.name, number, *outcome)
        if not data:
            os.close(self.pipe)
            self.pipe = -1

    def late(self) -> bool:
        """Return whether the present input takes too long."""
        if time.monotonic() - self.begun > WALL_LIMIT:
            return True
        return self.current is not None and self._used() - self._cpu > CPU_LIMIT

    def end(self) -> Outcome | None:
        """Kill the process where it still runs; return the finding where it died of an input."""
        hung = self.pipe >= 0
        if hung:
            os.kill(self.process, signal.SIGKILL)
            os.close(self.pipe)
        _, status = os.waitpid(self.process, 0)
        for path in self.folder.parent.glob(f'{self.folder.name}*'):
            shutil.rmtree(path, ignore_errors=True)
        code = os.waitstatus_to_exitcode(status)
        if not self.numbers or code == _AGAIN:
            return None
        number = self.numbers[0] if self.current is None else self.current
        self.numbers.remove(number)
        if hung:
            return Outcome(self.target.name, number, 'hang')
        text = signal.Signals(-code).name if code < 0 else f'exit code {code}'
        return Outcome(self.target.name, number, 'crash', text)

    def _used(self) -> float:
        try:
            fields = Path(f'/proc/{self.process}/stat').read_text().rpartition(')')[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS


def run(numbers: dict[str, list[int]], jobs: int, log: Path, until: float) -> Iterator[Outcome]:
    """
    Run inputs.

    Parameters
    ----------
    numbers:
        Those of each target.
    jobs:
        Processes at a time.
    log:
        File that gets what the workers print.
    until:
        Time of the monotonic clock after which no further input is begun [s].

    Yields
    ------
    The outcomes as they come.

    """
    waiting = [
        (TARGETS[name], some[i : i + BATCH])
        for name, some in numbers.items()
        for i in range(0, len(some), BATCH)
    ]
    waiting.reverse()
    workers: list[_Worker] = []
    while workers or (waiting and time.monotonic() < until):
        while waiting and len(workers) < jobs and time.monotonic() < until:
            workers.append(_Worker(*waiting.pop(), log))
        ready, *_ = select.select([worker.pipe for worker in workers], [], [], 0.5)
        for worker in list(workers):
            if worker.pipe in ready:
                yield from worker.read()
            if worker.pipe >= 0 and not worker.late() and time.monotonic() < until + WALL_LIMIT:
                continue
            workers.remove(worker)
            finding = worker.end()
            if finding is not None:
                yield finding
            if worker.numbers:
                waiting.append((worker.target, worker.numbers))


def run_here(target: Target, number: int, folder: Path) -> Outcome:
    """Run one input in this process."""
    clear(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            text = target.run_input(number, folder)
    except BaseException as error:  # every other kind than the package's own is a finding
        kind = 'memory' if isinstance(error, MemoryError) else 'traceback'
        return Outcome(target.name, number, kind, _traceback(error))
    return Outcome(target.name, number, 'used' if text is None else 'refused', text or '')


def clear(folder: Path) -> None:
    """Remove everything in a folder."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _traceback(error: BaseException) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return ''.join(lines)[-6000:]


def _serve(target: Target, numbers: list[int], folder: Path, writer: int, log: Path) -> None:
    """Run inputs in the forked process, and end it."""
    code = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.enable(2)
        limit = _pages() * _PAGE + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        elsewhere: list[str] = []
        threading.excepthook = lambda failure: elsewhere.append(
            _traceback(failure.exc_value or failure.exc_type())
        )
        os.chdir(folder)
        target.prepare(folder)
        for number in list(numbers):
            _write(writer, [number])
            _forget_peak()
            outcome = run_here(target, number, folder)
            if elsewhere:
                outcome = Outcome(target.name, number, 'traceback', elsewhere.pop())
            peak = _peak()
            if peak > MEMORY:
                outcome = Outcome(target.name, number, 'memory', f'{peak >> 20} MB')
            _write(writer, [number, outcome.kind, outcome.text])
            if outcome.is_finding:
                code = _AGAIN  # nobody knows in what state it has left the process
                return
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _write(writer: int, message: list) -> None:
    os.write(writer, json.dumps(message).encode() + b'\n')


def _pages() -> int:
    return int(Path('/proc/self/statm').read_text().split()[0])


def _forget_peak() -> None:
    Path('/proc/self/clear_refs').write_text('5')


def _peak() -> int:
    """Return the largest resident size since it was forgotten [bytes]."""
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith('VmHWM:'):
            return int(line.split()[1]) << 10
    return 0


def warm_up(target: Target, case: Case, folder: Path) -> None:
    """Run a sound input, which has to be used; compiles what it needs."""
    case.write(folder)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        target.run(folder, Random(0))
