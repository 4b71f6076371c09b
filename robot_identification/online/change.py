# SPDX-License-Identifier: Apache-2.0
"""A change of the robot, and what is remembered of earlier ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .change_statistics import change_of, Scores

PAYLOAD, FRICTION, COLLISION, UNEXPLAINED = 'payload', 'friction', 'collision', 'unexplained'
"""Kinds of change; the last lasts, but neither payload nor friction explains it."""


@dataclass(frozen=True)
class Change:
    """
    A change of the robot.

    Attributes
    ----------
    kind:
        `PAYLOAD`, `FRICTION`, `COLLISION` or `UNEXPLAINED`.
    name:
        The link that carries the payload, else the joint.
    since:
        When it began, to within a quarter of a window [s].
    stamp:
        Moment of the newest residual that is taken into account [s].
    size, std:
        Mass [kg], change of the friction [N m or N] at the joint's RMS speed, or largest residual
        [N m or N], and its standard deviation; NaN where there is none.
    parameters:
        Names of the k parameters that have changed.
    values:
        (k,) by how much.
    covariance:
        (k, k) of the values.

    """

    kind: str
    name: str
    since: float
    stamp: float
    size: float
    std: float
    parameters: tuple[str, ...]
    values: np.ndarray
    covariance: np.ndarray


@dataclass
class Spike:
    """The largest residual beyond its level, in multiples of that."""

    ratio: float
    stamp: float
    joint: int
    size: float


@dataclass
class Carried:
    """
    A payload that has become normal, and goes on being estimated.

    Attributes
    ----------
    before:
        (k,) what was normal before it.
    whole, right:
        (k, k) M and (k,) S of the residuals without it.

    """

    before: np.ndarray
    whole: np.ndarray
    right: np.ndarray

    def add(self, batch: Scores, normal: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Take in residuals that were left by ``normal``; return (k,) the new normal."""
        whole, right = batch.weighed_payload(precision)
        self.whole = self.whole + whole
        self.right = self.right + right + whole @ (normal - self.before)
        return self.before + change_of(self.whole, self.right)[0]
