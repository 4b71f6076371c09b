# SPDX-License-Identifier: Apache-2.0
"""
Time and memory of an identification against the recording's length.

    .venv/bin/python -m benchmarks recording_length
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
import json
import resource
import subprocess
import sys
import time

from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.parts import PART_POSITIONS
from robot_identification.data.recording import Recording
from robot_identification.identification.pipeline import identify_sources
from robot_identification.signals import SignalSettings

from .harness import Figure, Section, Table
from .synthetic import MODEL, panda, recording, SINES

RATE = 1000.0
PERIOD = 10.0
"""Of the motion, which is a sum of multiples of 0.1 Hz [s]."""

LENGTHS = (10.0, 60.0, 600.0, 1200.0)
"""[s]"""

LIMITS = {600.0: 550.0, 1200.0: 700.0}
"""Peak memory of recordings of so many seconds, interpreter and libraries included [MB]."""

SETTINGS = {
    'all samples': SignalSettings(decimate_to=None),
    'decimated to 50 Hz': SignalSettings(decimate_to=50.0),
}

TEXT = f"""\
A made-up recording of a Panda arm at 1 kHz (seven joints, {SINES} sines each) is given out in
blocks, as a file's would be, and filtered in parts of {PART_POSITIONS:,} positions. It is
identified in a fresh process, so that the peak of the resident memory is that of interpreter,
libraries and identification. *Loading everything* is what the
signals and the dense regressor of all standard parameters would take in memory.
"""


@dataclass(frozen=True)
class Repeated:
    """
    A recording that goes on for ``seconds``: one period of a motion again and again.

    Attributes
    ----------
    period:
        The recording of one period.
    seconds:
        Length of the whole.

    """

    period: Recording
    seconds: float

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.period.joints

    @property
    def source(self) -> str:
        """Name for messages."""
        return 'made up'

    def blocks(self, size: int = 65536) -> Iterator[Recording]:
        """Give out period after period."""
        for count in range(round(self.seconds / PERIOD)):
            for block in self.period.blocks(size):
                yield replace(block, time=block.time + count * PERIOD)


def measure(kind: str, seconds: float) -> dict[str, float]:
    """Identify once in this process; return figures."""
    robot = panda()
    source = Repeated(recording(robot, PERIOD, rate=RATE), seconds)
    problem = IdentificationProblem(robot, MODEL, SETTINGS[kind])
    start = time.perf_counter()
    result = identify_sources(problem, [source])
    spent = time.perf_counter() - start
    columns = len(result.structure.layout) + 5
    samples = result.system.factor.raw_rows
    return {
        'samples': samples,
        'seconds': spent,
        'peak': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6,
        'everything': 8e-6 * samples * robot.n_joints * columns,
        'error': result.estimate.fit.relative_error,
    }


def section() -> Section:
    """Measure each length in a process of its own."""
    lines, found = [], {}
    for kind in SETTINGS:
        for seconds in LENGTHS:
            command = [sys.executable, '-m', __name__, kind, str(seconds)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            row = found[kind, seconds] = json.loads(output.splitlines()[-1])
            lines.append(
                [
                    f'{seconds:g} s, {kind}',
                    f'{row["samples"]:,}',
                    f'{row["seconds"]:.2f}',
                    f'{1e6 * row["seconds"] / row["samples"]:.2f}',
                    f'{row["peak"]:.0f}',
                    f'{row["everything"]:,.0f}',
                    f'{row["error"]:.2f}',
                ]
            )
    heads = ['recording', 'samples', 's', 'us a sample', 'peak MB', 'loading everything, MB']
    figures = []
    for kind in SETTINGS:
        for seconds, limit in LIMITS.items():
            peak = found[kind, seconds]['peak']
            name = f'peak memory of {seconds:g} s, {kind}'
            figures.append(Figure(name, peak, 'MB', at_most=limit))
    return Section(
        title='Recordings of any length',
        text=TEXT,
        tables=[Table([*heads, 'relative error %'], lines)],
        figures=figures,
    )


if __name__ == '__main__':
    print(json.dumps(measure(sys.argv[1], float(sys.argv[2]))))
