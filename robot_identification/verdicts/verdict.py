# SPDX-License-Identifier: Apache-2.0
"""
Verdict on a result: good, usable for some uses, or not to be used, with reasons and next steps.

`verdict` asks the criteria in the table of `criteria` that apply to the kind of result: arms,
servos, tools, payloads.  Each reason rules out the uses that it speaks against.  A result without
a reason against it is good; one that no use is left for is not to be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import one_of
from ..estimation.tables import rule, wrapped
from ..estimation.validation import Validation
from ..results.exported_files import RecordingErrors
from ..results.result import Result
from ..results.stored_result import StoredResult
from .criteria import kind_of, reasons
from .file_criteria import file_reasons
from .fit_criteria import of_model, validated_speeds, validation_reasons
from .joints_apart import JointsApart
from .reason import Reason, USES
from .use_figures import use_figures, UseFigures, validation_figures

GOOD, USABLE, DO_NOT_USE = LEVELS = ('good', 'usable', 'do_not_use')

_CAUSE = 'diagnosis'
"""Criterion whose reasons the others may follow from."""

_FOLLOWING = (
    'fit',
    'validation',
    'prediction',
    'files',
    'plausibility',
    'residuals',
    'excitation',
)
"""Criteria whose steps are void where a fault of the recordings explains what they look at."""

_VALIDATION = 'data.validation'

_CONTRARY = (('slower', 'faster'), ('slower', 'as fast as'), ('is noise', 'check gains'))
"""Words of steps that contradict each other."""

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
        Those of ``possible`` that it is fit for.
    scope:
        On what it was seen to hold, such as up to which speeds it was validated, in words.
    reasons:
        Those against it first: what rules out all uses, then faults of the recordings, which the
        others may follow from, then the gravest; then remarks.
    omissions:
        What was left out, changed or not judged, in sentences.
    links:
        What is known of each link, in sentences.
    possible:
        All uses of its kind of results, and what they are called.
    locked:
        Number of joints that are held in place.
    figures:
        The error to expect, and a figure of each use, in a few words.

    """

    level: str
    uses: tuple[str, ...]
    scope: str
    reasons: tuple[Reason, ...] = ()
    omissions: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    possible: Mapping[str, str] = field(default_factory=lambda: USES)
    locked: int = 0
    figures: UseFigures = field(default_factory=UseFigures)

    @property
    def against(self) -> tuple[Reason, ...]:
        """The reasons that are no mere remarks."""
        return tuple(reason for reason in self.reasons if not reason.remark)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The statements that speak against nothing, in words."""
        return tuple(reason.text for reason in self.reasons if reason.remark)

    @property
    def excepted(self) -> tuple[str, ...]:
        """Joints for which the uses do not hold."""
        names = (joint for reason in self.reasons if reason.excepted for joint in reason.joints)
        return tuple(dict.fromkeys(names))

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        fit = _listed([self.possible[use] for use in self.uses])
        if self.excepted:
            fit += f' at all joints but {one_of(self.excepted)}'
        if self.level == GOOD:
            return f'Good for {fit}; {self.scope}.'
        if self.level == DO_NOT_USE:
            return f'Do not use, because {self._because}.'
        because = self._because
        out = [name for use, name in self.possible.items() if use not in self.uses]
        if not out:
            return f'Usable for {fit}, with a reservation: {because}; {self.scope}.'
        return f'Usable for {fit}, not for {_listed(out, "or")}, because {because}; {self.scope}.'

    @property
    def headline(self) -> str:
        """The verdict in a short sentence: level, uses and the gravest reason."""
        but = f' at all joints but {one_of(self.excepted)}' if self.excepted else ''
        fit = _listed([self.possible[use] for use in self.uses])
        if self.level == GOOD:
            what = 'all uses' if len(self.uses) > _NAMED else fit
            return f'Good for {what}{but}: nothing speaks against it.'
        because = '' if self.gravest is None else self.gravest.brief(100)
        if self.level == DO_NOT_USE:
            return f'Do not use: {because}.'
        out = [name for use, name in self.possible.items() if use not in self.uses]
        if not out:
            return f'Usable with a reservation{but}: {because}.'
        if len(out) < len(self.uses):
            return f'Usable but for {_listed(out)}{but}: {because}.'
        return f'Usable for {fit} alone{but}: {because}.'

    def against_use(self, use: str) -> Reason | None:
        """Return the gravest reason against a use, or the gravest reservation; None if good."""
        ruling = [reason for reason in self.against if use in reason.rules_out]
        reserved = [reason for reason in self.against if not reason.rules_out]
        return next(iter((*ruling, *reserved)), None)

    @property
    def gravest(self) -> Reason | None:
        """The gravest reason against it: the first that rules out a use, if one does."""
        return next(iter((*(r for r in self.against if r.rules_out), *self.against)), None)

    @property
    def gravest_step(self) -> Reason | None:
        """The reason whose step comes first: that of the gravest reason, where it has one."""
        steps = [reason for reason in self.next_steps if not reason.remark]
        cause = [r for r in steps if r.criterion == _CAUSE and r.value is not None]
        of_gravest = [reason for reason in steps if reason is self.gravest]
        return next(iter((*cause, *of_gravest, *steps)), None)

    @property
    def _named(self) -> tuple[Reason, ...]:
        """The reasons that the sentence names."""
        if self.level == DO_NOT_USE:
            return tuple(reason for reason in self.against if reason.rules_out)[:1]
        chosen = [r for r in self.against if r.rules_out or r.criterion == _CAUSE]
        return tuple((chosen or self.against)[:_NAMED])

    def _useless(self, reason: Reason) -> bool:
        return {*self.possible} <= {*reason.rules_out}

    @property
    def _because(self) -> str:
        texts = [reason.text for reason in self._named]
        more = len(self.against) - len(texts)
        return '; '.join([*texts, *([f'and {more} more, below'] if more else [])])

    @property
    def next_steps(self) -> tuple[Reason, ...]:
        """
        The reasons with a step to take, one for each step.

        Where recordings are at fault altogether, mending them comes first: all else follows, and
        where a fault explains what was missed, so do errors.  No step contradicts a graver one.
        """
        faults = [r for r in self.reasons if r.criterion == _CAUSE and self._useless(r)]
        explained = any(r.criterion == _CAUSE and r.value is not None for r in self.against)
        found: dict[str, Reason] = {}
        for reason in faults or self.reasons:
            step = reason.next_step
            if explained and reason.criterion in _FOLLOWING and reason.key != _VALIDATION:
                continue
            if step and not any(_contrary(step, before) for before in found):
                found.setdefault(step, reason)
        return tuple(found.values())

    def summary(self, title: str = 'Verdict') -> str:
        """Return the sentence, the reasons and the next steps, 100 columns wide."""
        lines = [rule(title, '='), *wrapped(self.sentence, '')]
        more = self.against if len(self.against) > len(self._named) else ()
        for head, texts in (
            ('left out or changed', self.omissions),
            ('because', tuple(reason.text for reason in more)),
            ('remarks', self.remarks),
            ('links', self.links),
        ):
            lines += [head] if texts else []
            lines += [line for text in texts for line in wrapped(text, '  - ')]
        if self.next_steps:
            lines.append('next')
            for number, reason in enumerate(self.next_steps, 1):
                lines += wrapped(reason.next_step, f'  {number}. ')
        return '\n'.join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            'level': self.level,
            'headline': self.headline,
            'sentence': self.sentence,
            'uses': list(self.uses),
            'excepted_joints': list(self.excepted),
            'scope': self.scope,
            'omissions': [str(text) for text in self.omissions],
            'reasons': [asdict(reason) for reason in self.reasons],
            'next_steps': [
                {'criterion': step.criterion, 'text': step.next_step, 'key': step.key or None}
                for step in self.next_steps
            ],
        }


def verdict(result: Any) -> Verdict:
    """Return the verdict on a result: of an arm, of servos, on a tool or a payload."""
    kind = kind_of(result)
    found = verdict_from_reasons(reasons(result), kind.scope(result), kind.uses)
    found = replace(found, figures=use_figures(result, found.excepted))
    if not isinstance(result, Result):
        return found
    links = tuple(map(str, result.link_knowledge()))
    return replace(found, omissions=result.omissions, links=links, locked=len(result.robot.locked))


def verdict_from_reasons(
    found: Iterable[Reason], scope: str, possible: Mapping[str, str] = USES
) -> Verdict:
    """
    Return the verdict that reasons amount to.

    ``scope`` is on what the result was seen to hold, in words, ``possible`` what it may be good
    for.
    """
    found = sorted(found, key=lambda reason: _rank(reason, {*possible} <= {*reason.rules_out}))
    against = [reason for reason in found if not reason.remark]
    out = {use for reason in against for use in reason.rules_out}
    uses = tuple(use for use in possible if use not in out)
    level = GOOD if not against else USABLE if uses else DO_NOT_USE
    return Verdict(level, uses, scope, tuple(found), possible=possible)


def _rank(reason: Reason, useless: bool) -> tuple[bool, bool, bool, int]:
    fault = useless or reason.criterion == _CAUSE
    return reason.remark, not useless, not fault, -len(reason.rules_out)


def validation_verdict(
    stored: StoredResult,
    validations: Sequence[Validation],
    judged: Sequence[RecordingErrors] = (),
) -> Verdict:
    """
    Return what validations of a result file amount to, with nothing else counted.

    They are of its parameters, on recordings that the identification has not seen; ``judged`` are
    the errors of its files on the same ones.
    """
    speeds = stored.highest_speed
    apart = JointsApart.from_fit(stored.robot, stored.identification)
    found = validation_reasons(stored.identification, speeds, validations, apart=apart)
    named = [replace(of_model(reason, judged), criterion='validation') for reason in found]
    pairs = list(zip(judged, validations))
    files = file_reasons(pairs, speeds, validations, apart=apart)
    named += [replace(reason, criterion='files') for reason in files]
    of_arm = map(apart.of_arm, named)
    found_all = verdict_from_reasons(of_arm, validated_speeds(speeds, validations))
    return replace(found_all, figures=validation_figures(validations, judged))


def _contrary(step: str, before: str) -> bool:
    """Return whether two steps contradict each other."""
    return any((a in step and b in before) or (b in step and a in before) for a, b in _CONTRARY)


def _listed(texts: Sequence[str], word: str = 'and') -> str:
    return f' {word} '.join(filter(None, [', '.join(texts[:-1]), *texts[-1:]]))
