# SPDX-License-Identifier: Apache-2.0
"""
Recursive least squares sample by sample: time of an update and of an estimate.

Run ``python benchmarks/recursive.py``; figures depend on the machine, so nothing is asserted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
import time

import numpy as np
from robot_identification.estimation import RecursiveLeastSquares, RecursiveSettings
from robot_identification.estimation.recursive import FORMULATIONS
from robot_identification.parameters import ParameterLayout


def mean_time(call: Callable[[], object], repeats: int) -> float:
    """Return the seconds that a call takes on average; the best of five rounds."""
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').strip().splitlines()[0])
    parser.add_argument('--joints', type=int, default=7)
    parser.add_argument('--columns', type=int, default=64)
    options = parser.parse_args()
    n, b = options.joints, options.columns
    layout = ParameterLayout(tuple(f'p{i}' for i in range(b)), ('',) * b)
    rng = np.random.default_rng(0)
    rows, effort = rng.normal(size=(1000, n, b)), rng.normal(size=(1000, n))
    print(f'{n} rows a sample, {b} parameters [us]')
    print(f'{"formulation":<12}{"samples so far":>15}{"update":>9}{"estimate":>10}')
    for form in FORMULATIONS:
        learner = RecursiveLeastSquares(layout, settings=RecursiveSettings(formulation=form))
        for rounds in (1, 9):
            for _ in range(rounds):
                for matrix, right in zip(rows, effort, strict=True):
                    learner.update(matrix, right)
            estimate = 1e6 * mean_time(learner.estimate, 20)
            samples = learner.rows // n
            update = 1e6 * mean_time(lambda one=learner: one.update(rows[0], effort[0]), 200)
            print(f'{form:<12}{samples:15}{update:9.1f}{estimate:10.1f}')


if __name__ == '__main__':
    main()
