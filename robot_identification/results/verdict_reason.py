# SPDX-License-Identifier: Apache-2.0
"""Reasons of a verdict, and the uses of a result that they rule out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

USES = {
    'effort_prediction': 'prediction of efforts',
    'computed_torque': 'computed torque',
    'collision_detection': 'collision detection',
    'simulation': 'simulation',
}
"""Uses of a result, and what they are called."""

PREDICTION, CONTROL, COLLISIONS, SIMULATION = USES
ALL = tuple(USES)

ANOTHER = (
    'record another, faster or longer motion that moves every joint '
    '(docs/explanation/excitation.md)'
)

SEVERAL = (
    'identify from several recordings, or from a longer motion (docs/explanation/excitation.md)'
)


@dataclass(frozen=True)
class Reason:
    """
    Statement of a criterion about a result.

    Attributes
    ----------
    criterion:
        Its name, one of those in docs/reference/verdict.md.
    text:
        In words, with the figures.
    rules_out:
        Uses, of `USES`, that it excludes.
    joints:
        That it concerns; empty for all.
    value, threshold, unit:
        The figure and its bound; None where there is none.
    next_step:
        What to do; empty where nothing.
    key:
        Of the experiment file, that the step is about; empty where none.
    remark:
        True where it excludes none.

    """

    criterion: str
    text: str
    rules_out: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    value: float | None = None
    threshold: float | None = None
    unit: str = ''
    next_step: str = ''
    key: str = ''
    remark: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)
