# SPDX-License-Identifier: Apache-2.0
"""Linear systems of known truth, without robots."""

from dataclasses import dataclass

import numpy as np
import pytest
from robot_identification.estimation.system import from_rows, LinearSystem
from robot_identification.model.parameters import ParameterLayout
from robot_identification.regressor.base_parameters import BaseStructure


def plain_structure(b: int) -> BaseStructure:
    """``b`` base parameters that are standard parameters themselves."""
    layout = ParameterLayout(tuple(f'link.p{i}' for i in range(b)), ('kg',) * b)
    return BaseStructure(
        layout=layout,
        independent=np.arange(b),
        dependent=np.empty(0, dtype=int),
        unidentifiable=np.empty(0, dtype=int),
        regrouping=np.eye(b),
        singular_values=np.ones(b),
        gap=np.inf,
        expressions=layout.names,
    )


@dataclass(frozen=True)
class Problem:
    """Rows, the parameters behind them, and their system."""

    matrix: np.ndarray
    effort: np.ndarray
    truth: np.ndarray
    system: LinearSystem

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows, sample-major, and their effort."""
        return self.matrix.reshape(-1, self.matrix.shape[2]), self.effort.ravel()


def make_problem(
    matrix: np.ndarray, truth: np.ndarray, noise: np.ndarray | float = 0.0, seed: int = 0
) -> Problem:
    """Rows ``matrix`` (m, n, b) with effort of ``truth`` (b,) and noise (n,) at the joints."""
    rng = np.random.default_rng(seed + 1000)
    m, n, b = matrix.shape
    effort = matrix @ truth + noise * rng.normal(size=(m, n))
    joints = tuple(f'joint_{j}' for j in range(n))
    return Problem(matrix, effort, truth, from_rows(plain_structure(b), joints, matrix, effort))


@pytest.fixture
def problem():
    """Return a maker of well-conditioned problems."""

    def make(m=300, n=3, b=8, noise=0.1, seed=0, scale=1.0) -> Problem:
        rng = np.random.default_rng(seed)
        matrix = rng.normal(size=(m, n, b)) * scale
        return make_problem(matrix, rng.normal(size=b), noise, seed)

    return make


@pytest.fixture
def problem_of():
    """Return the maker of problems with given rows."""
    return make_problem


@pytest.fixture
def structure_of():
    """Return the maker of structures without regrouping."""
    return plain_structure
