# SPDX-License-Identifier: Apache-2.0
"""Evaluate the entries of base columns block by block, as identification does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import warnings

import numpy as np
from robot_identification.data.recording import Motion
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, InverseDynamicsRegressor, ModelSettings
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.inverse_dynamics import entries, row_pattern, RowPattern

RIGID = ModelSettings(friction=(), rotor_inertia=False)

BLOCK = 1000
"""Samples of a block."""


@dataclass(frozen=True, eq=False)
class Base:
    """A regressor, its base columns, and where these are not zero."""

    regressor: InverseDynamicsRegressor
    columns: np.ndarray
    pattern: RowPattern


def base(robot: Robot, settings: ModelSettings) -> Base:
    """Return a robot's regressor and base columns."""
    regressor = build(robot, settings)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        columns = structure(regressor, robot).independent
    return Base(regressor, columns, row_pattern(regressor, columns))


def base_entries(of: Base, motion: Motion) -> Callable[[], None]:
    """Return what evaluates the entries of a motion block by block."""
    parts = [motion.rows(i, i + BLOCK) for i in range(0, len(motion), BLOCK)]
    memory = {len(part): np.zeros((of.pattern.width, len(part))) for part in parts}

    def work() -> None:
        for part in parts:
            entries(of.regressor, part, of.columns, of.pattern, memory[len(part)])

    return work
