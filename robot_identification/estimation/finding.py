# SPDX-License-Identifier: Apache-2.0
"""A fault of recordings that was found: what, where, by which number, and what mends it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """
    A fault that was found.

    Attributes
    ----------
    code:
        Its kind, one of those in docs/diagnosis.md.
    evidence:
        One sentence, with its number.
    remedy:
        The key of the experiment file, or the change, that mends it.
    change:
        What fits better, in a few words.
    joints:
        That it concerns; empty for all.
    improvement:
        How many times better held-out efforts are fitted with the change; None where no fit tells.
    alternatives:
        Findings that explain the recordings nearly as well.

    """

    code: str
    evidence: str
    remedy: str
    change: str
    joints: tuple[str, ...] = ()
    improvement: float | None = None
    alternatives: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        changes = [other.change for other in self.alternatives]
        others = f' (or {", or ".join(changes)})' if changes else ''
        return f'{self.evidence}{others}: {self.remedy}'

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts."""
        return asdict(self)
