# SPDX-License-Identifier: Apache-2.0
"""
Verdict on a result: good, usable for some uses, or not to be used, with reasons and next steps.

`verdict` collects the reasons of the criteria in `verdict_criteria`.  Each reason rules out the
uses that it speaks against.  A result without a reason against it is good; one that no use is left
for is not to be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
import json
from typing import Any

from ..estimation.tables import rule, wrapped
from ..estimation.validation import Validation
from ..options.document import plain
from ..results.result import Result
from ..results.stored_result import StoredResult
from ..version import __version__
from .criteria import ALL, figures, Reason, reasons, scope, unseen, USES, validation_reasons

SCHEMA = 1
"""Number of the form of ``verdict.json``; it changes when a key changes its meaning or goes."""

GOOD, USABLE, DO_NOT_USE = LEVELS = ('good', 'usable', 'do_not_use')

_CAUSE = 'diagnosis'
"""Criterion whose reasons the others may follow from."""

_NAMED = 2
"""Reasons that a sentence names at most; one where nothing is left."""


@dataclass(frozen=True)
class Verdict:
    """
    Verdict on a result.

    Attributes
    ----------
    level:
        One of `LEVELS`.
    uses:
        Those of `USES` that it is fit for.
    scope:
        Up to which speeds it was validated, in words.
    reasons:
        Those against it first: what rules out all uses, then faults of the recordings, which the
        others may follow from, then the gravest; then remarks.
    omissions:
        What was left out, changed or not judged, in sentences.
    links:
        What is known of each link, in sentences.

    """

    level: str
    uses: tuple[str, ...]
    scope: str
    reasons: tuple[Reason, ...] = ()
    omissions: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    @property
    def against(self) -> tuple[Reason, ...]:
        """The reasons that are no mere remarks."""
        return tuple(reason for reason in self.reasons if not reason.remark)

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        fit = _listed([USES[use] for use in self.uses])
        if self.level == GOOD:
            return f'Good for {fit}; {self.scope}.'
        if self.level == DO_NOT_USE:
            return f'Do not use, because {self._because}.'
        because = self._because
        out = [USES[use] for use in USES if use not in self.uses]
        if not out:
            return f'Usable for {fit}, with a reservation: {because}; {self.scope}.'
        return f'Usable for {fit}, not for {_listed(out, "or")}, because {because}; {self.scope}.'

    @property
    def _named(self) -> tuple[Reason, ...]:
        """The reasons that the sentence names."""
        if self.level == DO_NOT_USE:
            return tuple(reason for reason in self.against if reason.rules_out)[:1]
        chosen = [r for r in self.against if r.rules_out or r.criterion == _CAUSE]
        return tuple((chosen or self.against)[:_NAMED])

    @property
    def _because(self) -> str:
        texts = [reason.text for reason in self._named]
        more = len(self.against) - len(texts)
        return '; '.join([*texts, *([f'and {more} more, below'] if more else [])])

    @property
    def next_steps(self) -> tuple[Reason, ...]:
        """
        The reasons with a step to take, one for each step.

        Where recordings are at fault altogether, mending them comes first: all else follows.
        """
        faults = [r for r in self.reasons if r.criterion == _CAUSE and r.rules_out == ALL]
        chosen = {reason.next_step: reason for reason in reversed(faults or self.reasons)}
        steps = (reason for reason in self.reasons if chosen.get(reason.next_step) is reason)
        return tuple(reason for reason in steps if reason.next_step)

    def summary(self, title: str = 'Verdict') -> str:
        """Return the sentence, the reasons and the next steps, 100 columns wide."""
        lines = [rule(title, '='), *wrapped(self.sentence, '')]
        if self.omissions:
            lines.append('left out or changed')
            lines += [line for text in self.omissions for line in wrapped(text, '  - ')]
        for head, chosen in (
            ('because', self.against if len(self.against) > len(self._named) else ()),
            ('remarks', tuple(reason for reason in self.reasons if reason.remark)),
        ):
            if chosen:
                lines.append(head)
                for reason in chosen:
                    lines += wrapped(reason.text, '  - ')
        if self.links:
            lines.append('links')
            lines += [line for text in self.links for line in wrapped(text, '  - ')]
        if self.next_steps:
            lines.append('next')
            for number, reason in enumerate(self.next_steps, 1):
                lines += wrapped(reason.next_step, f'  {number}. ')
        return '\n'.join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            'level': self.level,
            'sentence': self.sentence,
            'uses': list(self.uses),
            'scope': self.scope,
            'omissions': list(self.omissions),
            'reasons': [asdict(reason) for reason in self.reasons],
            'next_steps': [
                {'criterion': step.criterion, 'text': step.next_step, 'key': step.key or None}
                for step in self.next_steps
            ],
        }


def verdict(result: Result) -> Verdict:
    """Return the verdict on a result."""
    found = verdict_from_reasons(
        reasons(result), scope(result.system.factor.highest_speed, unseen(result))
    )
    links = tuple(map(str, result.link_knowledge()))
    return replace(found, omissions=result.omissions, links=links)


def verdict_from_reasons(found: Iterable[Reason], scope: str) -> Verdict:
    """Return the verdict that reasons amount to, for validated speeds in words (`scope`)."""
    found = sorted(found, key=_rank)
    against = [reason for reason in found if not reason.remark]
    out = {use for reason in against for use in reason.rules_out}
    uses = tuple(use for use in USES if use not in out)
    level = GOOD if not against else USABLE if uses else DO_NOT_USE
    return Verdict(level, uses, scope, tuple(found))


def _rank(reason: Reason) -> tuple[bool, bool, bool, int]:
    some = reason.rules_out != ALL
    return reason.remark, some, some and reason.criterion != _CAUSE, -len(reason.rules_out)


def validation_verdict(stored: StoredResult, validations: Sequence[Validation]) -> Verdict:
    """
    Return what validations of a result file amount to, with nothing else counted.

    They are of its parameters, on recordings that the identification has not seen.
    """
    speeds = stored.highest_speed
    found = validation_reasons(stored.identification, speeds, validations)
    return verdict_from_reasons(found, scope(speeds, validations))


def verdict_document(result: Result) -> dict[str, Any]:
    """Return the content of ``verdict.json``, see docs/reference/verdict.md; not finite: None."""
    table = result.link_table().to_dict()
    for entry, known in zip(table['links'], result.link_knowledge(), strict=True):
        entry |= {'known': known.kind, 'sentence': str(known)}
    document = {
        'schema': SCHEMA,
        'version': __version__,
        'name': result.name,
        'robot': result.robot.name,
        **verdict(result).to_dict(),
        'figures': figures(result),
        **table,
    }
    return dict(plain(document))


def verdict_json(result: Result) -> str:
    """Return the text of ``verdict.json``, strict JSON."""
    return json.dumps(verdict_document(result), indent=2, ensure_ascii=False, allow_nan=False)


def _listed(texts: Sequence[str], word: str = 'and') -> str:
    return f' {word} '.join(filter(None, [', '.join(texts[:-1]), *texts[-1:]]))
