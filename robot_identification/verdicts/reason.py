# SPDX-License-Identifier: Apache-2.0
"""Reasons for and against results, and the uses that they rule out."""

from __future__ import annotations

from dataclasses import dataclass
import re
import textwrap
from typing import TypedDict

from ..version import page

USES = {
    'effort_prediction': 'prediction of efforts',
    'computed_torque': 'computed torque',
    'collision_detection': 'collision detection',
    'simulation': 'simulation',
}
"""Uses of a robot's parameters, and what they are called."""

LOAD_USES = {'gravity_compensation': 'gravity compensation', 'dynamics': 'dynamics'}
"""Uses of a tool or payload, and what they are called."""

PREDICTION, CONTROL, COLLISIONS, SIMULATION = USES
COMPENSATION, DYNAMICS = LOAD_USES
ALL, ALL_OF_LOADS = tuple(USES), tuple(LOAD_USES)


PLAN = 'robot-identification plan {experiment}'
DIAGNOSE = 'robot-identification diagnose {experiment}'


class Step(TypedDict, total=False):
    """Next step, the key of the experiment file that it is about, and the command for it."""

    next_step: str
    key: str
    command: str


MORE = Step(
    next_step='identify from several recordings, or from a faster or longer motion that moves '
    f'every joint ({page("explanation/excitation")})',
    key='data.identification',
    command=PLAN,
)


@dataclass(frozen=True, kw_only=True)
class Reason:
    """
    Statement of a criterion about a result.

    Attributes
    ----------
    criterion:
        Its name, one of those in docs/reference/verdict.md; the table of criteria fills it in.
    text:
        In words, with the figures.
    rules_out:
        Uses, of `USES` or `LOAD_USES`, that it excludes.
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
    excepted:
        True where its joints are left out of the uses, which hold for the others.
    short:
        The statement in a few words with its figure; empty where the text itself begins with it.
    command:
        That takes the step, with ``{experiment}`` and ``{result}`` in place of the files; empty
        where none does.

    """

    criterion: str = ''
    text: str
    rules_out: tuple[str, ...] = ()
    joints: tuple[str, ...] = ()
    value: float | None = None
    threshold: float | None = None
    unit: str = ''
    next_step: str = ''
    key: str = ''
    remark: bool = False
    excepted: bool = False
    short: str = ''
    command: str = ''

    def brief(self, width: int) -> str:
        """Return the statement in one line of so many characters."""
        return shortened(self.short or clause(self.text), width)


def clause(text: str) -> str:
    """Return the first clause of a sentence: what stands before ``;``, ``: `` or a parenthesis."""
    return re.split(r'; |: | \(', text, maxsplit=1)[0]


def shortened(text: str, width: int) -> str:
    """Return a text cut to so many characters, at a space where there is one."""
    cut = textwrap.shorten(text, width, placeholder=' ...')
    return cut if cut != ' ...' and cut != '...' else f'{text[: width - 4]} ...'


def in_times(ratio: float) -> str:
    """Return a ratio in words."""
    return f'{ratio:.1f}' if ratio >= 0.95 else f'{ratio:.2g}'


def and_more(count: int) -> str:
    """Return how many more there are than the first one, as the end of a sentence."""
    return f', and {count - 1} more' if count > 1 else ''
