# SPDX-License-Identifier: Apache-2.0
"""
Knowledge of each link's mass, by its own standard deviation.

Joints that turn show masses of links in sums alone, so that most masses are known in part, and the
prior decides the rest.  A mass counts as known where its standard deviation is a half of what the
prior's is at most, and as hardly shown where it is nearly that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimation.link_constraints import PhysicalSettings
from .tables import LinkTable

KNOWN, PARTLY, PRIOR = KINDS = ('known', 'partly', 'prior')

_PRIOR_STD = PhysicalSettings().mass_std or 0.0
_KNOWN = 0.5
_HARDLY = 0.8


@dataclass(frozen=True)
class LinkKnowledge:
    """
    Knowledge of a link's mass.

    Attributes
    ----------
    link:
        Name of the link.
    mass, std, prior:
        Mass, its standard deviation, NaN where nothing shows it, and the prior's mass [kg].

    """

    link: str
    mass: float
    std: float
    prior: float

    def __str__(self) -> str:
        return f'{self.link}: {self.sentence}'

    @property
    def _share(self) -> float:
        """Standard deviation by the prior's."""
        return self.std / max(_PRIOR_STD * abs(self.prior), 1e-300)

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        if not np.isfinite(self.std):
            return PRIOR
        return KNOWN if self._share <= _KNOWN else PARTLY

    @property
    def sentence(self) -> str:
        """Sentence on the mass, without the link's name."""
        before = f'prior {self.prior:.3g} kg'
        if self.kind == PRIOR:
            if np.isclose(self.mass, self.prior, rtol=0.005):
                return f'{self.mass:.3g} kg, the mass of the prior: the recordings do not show it'
            return f'{self.mass:.3g} kg, not shown by itself: it follows from the {before}'
        shown = ', hardly shown' if self._share > _HARDLY else ''
        return f'{self.mass:.3g} +- {self.std:.2g} kg{shown} ({before})'


def link_knowledge(table: LinkTable) -> tuple[LinkKnowledge, ...]:
    """Return what is known of the mass of each link."""
    return tuple(
        LinkKnowledge(each.link, each.after.mass, each.std.mass, each.before.mass)
        for each in table.links
    )
