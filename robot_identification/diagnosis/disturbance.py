# SPDX-License-Identifier: Apache-2.0
"""Time whose efforts do not belong to the others: its kinds, and what is said of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import one_of
from .recording_faults import RecordingFault
from .run_changes import RunChange

WHOLE = 0.9
"""Share of its recording above which a disturbance leaves nothing worth reading."""


@dataclass(frozen=True)
class DisturbanceKind:
    """
    Kind of a disturbance.

    Attributes
    ----------
    evidence, remedy:
        In words, with ``{when}``, ``{misses}`` and ``{times}``.
    label:
        The same in two or three words, for figures.
    left_out:
        Whether it is known which robot is meant.

    """

    evidence: str
    label: str
    remedy: str = 'set leave_out: {times} beside the recording'
    left_out: bool = True


KINDS = {
    'no_effort': DisturbanceKind(
        '{when} no joint has an effort, as where drives are off and brakes on',
        'drives off',
    ),
    'other_robot': DisturbanceKind(
        'the recordings may be of two robots, or of one with two loads: {when} {misses}',
        'another robot or load',
        'identify each part by itself (time_range, or leave_out), with its own load',
        left_out=False,
    ),
    'disturbed': DisturbanceKind(
        '{when} {misses}, and neither a load nor a brake explains them: a contact or a cable may '
        'act there',
        'contact or cable',
    ),
    'brake': DisturbanceKind('{when} {misses}: a brake may be on there', 'brake'),
    'load': DisturbanceKind('{when} {misses}', 'load'),
}
"""Kinds by their code, of two that are one disturbance the first."""


@dataclass(frozen=True)
class Disturbance:
    """
    Time whose efforts do not belong to the others.

    Attributes
    ----------
    place, source:
        Its recording: number among those that were searched, and name.
    begin, end:
        Stamps of the recording [s].
    joints:
        At which it shows, the worst one first.
    error, usual:
        Residual of the worst one by the fit to the other times, there and at these, by the
        deviation of its effort.
    share, of_recording:
        Of all times, and of those of its recording.
    kind:
        ``no_effort`` where no joint has any; ``other_robot`` for most of a recording, and where
        parameters of their own explain so much that it is not known which of two robots is meant;
        ``brake`` and ``load`` where these explain the efforts; else ``disturbed``.
    change:
        Friction or body more that explains them; None where none does.

    """

    place: int
    source: str
    begin: float
    end: float
    joints: tuple[str, ...]
    error: float
    usual: float
    share: float
    of_recording: float = 0.0
    kind: str = 'disturbed'
    change: RunChange | None = None

    @property
    def left_out(self) -> bool:
        """True where it is known which robot is meant, and something of the recording is left."""
        return KINDS[self.kind].left_out and self.of_recording < WHOLE

    @property
    def fault(self) -> RecordingFault:
        """Fault of the recording, in words."""
        kind, words = KINDS[self.kind], self._explained
        misses = (
            f'the efforts of {one_of(self.joints)} miss what the other times say by '
            f'{100.0 * self.error:.3g} % of their spread (by {100.0 * self.usual:.2g} % there)'
        )
        evidence = kind.evidence.format(
            when=f'from {self.begin:.10g} to {self.end:.10g} s of {self.source}',
            misses=f'{misses}, which {words} explains' if words else misses,
        )
        remedy = kind.remedy.format(times=f'[[{self.begin:.10g}, {self.end:.10g}]]')
        times = ((self.source, self.begin, self.end),)
        return RecordingFault(self.kind, evidence, remedy, self.joints, times=times)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts; mass or friction with its deviation."""
        change = self.change
        return {
            'kind': self.kind,
            'source': self.source,
            'begin': self.begin,
            'end': self.end,
            'joints': list(self.joints),
            'left_out': self.left_out,
            'error': self.error,
            'usual_error': self.usual,
            'change': change
            and {'owner': change.owner, 'size': change.size, 'std': change.deviation},
        }

    @property
    def label(self) -> str:
        """Its kind in a few words, for figures."""
        change, label = self.change, KINDS[self.kind].label
        if self.kind == 'load' and change is not None:
            label = f'{label} {change.size:+.2g} kg'
        return label if self.left_out else f'{label}: left in'

    @property
    def _explained(self) -> str:
        """Change that explains the efforts, in words; empty where none does."""
        change = self.change
        if change is None:
            return ''
        if change.kind == 'brake':
            return f'{change.size:.3g} more Coulomb friction at {change.owner}'
        more = 'more' if change.size > 0.0 else 'less'
        mass = f'{abs(change.size):.3g} +- {1.96 * change.deviation:.1g} kg'
        return f'a load of {mass} {more} at {change.owner} than in the other times'


def times_left_out(found: Sequence[Disturbance], place: int) -> tuple[tuple[float, float], ...]:
    """Return the times to leave out of a recording, by its place, [first, last] each [s]."""
    return tuple((each.begin, each.end) for each in found if each.place == place and each.left_out)
