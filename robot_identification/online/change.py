# SPDX-License-Identifier: Apache-2.0
"""A change of the robot, a memory of earlier ones, and the settings of their detection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..options.fields import option
from .change_statistics import change_of, Scores


@dataclass(frozen=True)
class ChangeSettings:
    """Settings of the change detection on the residuals of an online identification."""

    false_alarms: float = option(
        0.1,
        doc='How often, at most, a change is to be reported where there is none',
        unit='1/h',
        minimum=1e-6,
        maximum=1e3,
    )
    window: float = option(
        1.0,
        doc='Time over which residuals are explained; a change is reported after about this long, '
        'and smaller ones are found the longer it is',
        unit='s',
        minimum=0.05,
    )
    settle: float | None = option(
        30.0,
        doc='Time in motion after which changes are looked for while the estimate goes on '
        'learning: against the estimate of that moment; null: only while it is frozen',
        unit='s',
        minimum=1.0,
    )
    learning: float = option(
        20.0,
        doc='Time in motion over which the usual residuals are learned, at the start; at least '
        'ten windows, with motions like those to come',
        unit='s',
        minimum=0.5,
    )
    accept_after: float | None = option(
        5.0,
        doc='Time after which a lasting change is taken for the new normal, so that the next one '
        'is found; null leaves that to a request',
        unit='s',
        minimum=0.0,
    )


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
