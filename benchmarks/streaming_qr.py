# SPDX-License-Identifier: Apache-2.0
"""
Streaming QR against least squares on all rows at once: time and accuracy.

Run ``python benchmarks/streaming_qr.py``; figures depend on the machine, so nothing is asserted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
import time

import numpy as np
from robot_identification.estimation.least_squares import solve
from robot_identification.estimation.triangle import append_rows, BLOCK_ROWS, GrowingTriangle


def streamed(matrix: np.ndarray, effort: np.ndarray, block: int = 512) -> np.ndarray:
    """Least squares by folding blocks of rows into R."""
    k = matrix.shape[1]
    factor = GrowingTriangle(k + 1)
    for start in range(0, len(effort), block):
        part = slice(start, start + block)
        factor.push(np.column_stack([matrix[part], effort[part]]))
    return solve(factor.result(), np.ones(k, dtype=bool), np.zeros(k), len(effort)).base


def at_once(matrix: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Least squares by the singular value decomposition of all rows."""
    return np.linalg.lstsq(matrix, effort, rcond=None)[0]


def normal_equations(matrix: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Least squares the way that loses half of the digits."""
    return np.linalg.solve(matrix.T @ matrix, matrix.T @ effort)


METHODS: dict[str, Callable] = {
    'streaming QR': streamed,
    'numpy lstsq': at_once,
    'normal equations': normal_equations,
}


def rows_of(count: int, columns: int, condition: float, seed: int = 0):
    """Rows with a given condition number, and effort without noise of parameters that are 1."""
    rng = np.random.default_rng(seed)
    right, _ = np.linalg.qr(rng.normal(size=(columns, columns)))
    matrix = rng.normal(size=(count, columns)) * np.geomspace(1.0, 1.0 / condition, columns)
    matrix = matrix @ right.T
    return matrix, matrix @ np.ones(columns)


def measure(method: Callable, matrix: np.ndarray, effort: np.ndarray):
    """Return the solution and how many seconds it took."""
    start = time.perf_counter()
    solution = method(matrix, effort)
    return solution, time.perf_counter() - start


def block_sizes(matrix: np.ndarray, effort: np.ndarray) -> None:
    """Print how long a row takes for several sizes of the blocks that are folded into R."""
    rows = np.column_stack([matrix, effort])
    print(f'\n{"rows folded at a time":>24}{"us per row":>12}')
    for size in (64, 256, 1024, 4096):
        factor = np.zeros((rows.shape[1],) * 2)
        start = time.perf_counter()
        for first in range(0, len(rows), size):
            factor = append_rows(factor, rows[first : first + size])
        print(f'{size:24}{1e6 * (time.perf_counter() - start) / len(rows):12.3f}')


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument('--rows', type=int, default=100_000)
    parser.add_argument('--columns', type=int, default=61)
    options = parser.parse_args()
    columns = options.columns + 1
    held = 8e-6 * columns * (columns + BLOCK_ROWS)
    print(
        f'{options.rows} rows, {options.columns} columns: {8e-6 * options.rows * columns:.1f} MB;'
    )
    print(
        f'R and the rows that wait to be folded in take {held:.2f} MB, however many rows there are'
    )
    print(f'\n{"condition":>10}  {"method":<18}{"time s":>9}{"error":>11}')
    for condition in (1e2, 1e5, 1e8):
        matrix, effort = rows_of(options.rows, options.columns, condition)
        for name, method in METHODS.items():
            solution, seconds = measure(method, matrix, effort)
            error = np.abs(solution - 1.0).max()
            print(f'{condition:10.0e}  {name:<18}{seconds:9.3f}{error:11.1e}')
    block_sizes(matrix, effort)


if __name__ == '__main__':
    main()
