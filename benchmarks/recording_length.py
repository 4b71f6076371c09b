# SPDX-License-Identifier: Apache-2.0
"""
Time and memory of an identification against the recording's length.

    .venv/bin/python benchmarks/recording_length.py [EXPERIMENT] [--repeat 1 20]

The experiment's recordings are played several times over, each time after a pause, and identified
in a fresh process.  The peak resident memory (interpreter and libraries included) has to stay the
same; `loading everything` beside it is what the signals and the regressor would take in memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
import json
from pathlib import Path
import resource
import subprocess
import sys
import time
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAUSE = 1.0  # s between two repetitions: far more than a sample, so a new stretch begins


@dataclass(frozen=True)
class Repeated:
    """A recording played ``times`` times, with a pause in between."""

    original: Any
    times: int

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.original.joints

    @property
    def source(self) -> str:
        """Name for messages."""
        return f'{self.original.source} x {self.times}'

    def blocks(self, size: int = 65536) -> Iterator[Any]:
        """Read it again and again, with later and later stamps."""
        shift = 0.0
        for _ in range(self.times):
            last = shift
            for block in self.original.blocks(size):
                yield replace(block, time=block.time + shift)
                last = block.time[-1] + shift
            shift = last + PAUSE


def measure(experiment_file: Path, times: int) -> dict[str, float]:
    """Identify once in this process; return figures."""
    from robot_identification.io.experiment import load_experiment
    from robot_identification.pipeline import identify_sources, Problem

    began = time.perf_counter()
    experiment = load_experiment(experiment_file)
    problem = Problem.of(experiment)
    sources = experiment.sources('identification', problem.robot.joints)
    result = identify_sources(problem, [Repeated(source, times) for source in sources])
    seconds = time.perf_counter() - began
    samples = result.system.raw_rows
    columns = len(result.structure.layout) + 5
    return {
        'times': times,
        'samples': samples,
        'seconds': seconds,
        'peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        'everything_mb': 8e-6 * samples * problem.robot.n_joints * columns,
        'relative_error': result.estimate.relative_error,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument(
        'experiment', nargs='?', type=Path, default=ROOT / 'examples/tx40/experiment.yaml'
    )
    parser.add_argument('--repeat', nargs='+', type=int, default=[1, 2, 5, 20])
    parser.add_argument('--worker', type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.experiment, options.worker)))
        return
    print(
        f'{"times":>5} {"samples":>9} {"seconds":>8} {"us/sample":>9} {"peak MB":>8} '
        f'{"loading everything, MB":>23} {"relative error %":>17}'
    )
    for times in options.repeat:
        command = [sys.executable, __file__, str(options.experiment), '--worker', str(times)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        row = json.loads(output.splitlines()[-1])
        print(
            f'{row["times"]:5d} {row["samples"]:9d} {row["seconds"]:8.2f} '
            f'{1e6 * row["seconds"] / row["samples"]:9.1f} {row["peak_mb"]:8.0f} '
            f'{row["everything_mb"]:23.0f} {row["relative_error"]:17.2f}',
            flush=True,
        )


if __name__ == '__main__':
    main()
