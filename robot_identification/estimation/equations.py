# SPDX-License-Identifier: Apache-2.0
"""The equations that parameters are estimated from, by the name in the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..progress import Progress
from ..signals import RecordingSource, SignalSettings
from .energy import energy_blocks, energy_system
from .outliers import Repair
from .rows import row_blocks, RowBlock, system_of
from .settings import EstimationSettings
from .system import LinearSystem

if TYPE_CHECKING:
    from ..base_parameters import BaseStructure
    from ..regressors import Regressor


@dataclass(frozen=True)
class Equations:
    """
    Builder of rows from recordings: inverse dynamics or energy equations.

    Attributes
    ----------
    settings:
        Say which.

    """

    settings: EstimationSettings

    @property
    def by_energy(self) -> bool:
        """True if the rows are energy equations."""
        return self.settings.equations == 'energy'

    def blocks(
        self,
        source: RecordingSource,
        regressor: Regressor,
        structure: BaseStructure,
        signals: SignalSettings,
        repair: Repair | None = None,
    ) -> Iterator[RowBlock]:
        """
        Iterate over the rows of a recording, see `row_blocks` and `energy_blocks`.

        A repair of the efforts sample by sample is for inverse dynamics: over an interval, a spike
        is one part of a sum.
        """
        if self.by_energy:
            return energy_blocks(source, regressor, structure, signals, self.settings.energy)
        return row_blocks(source, regressor, structure, signals, repair=repair)

    def system(
        self,
        sources: RecordingSource | Sequence[RecordingSource],
        regressor: Regressor,
        structure: BaseStructure,
        signals: SignalSettings,
        *,
        progress: Progress | None = None,
        trace_points: int = 2000,
        moving: bool = True,
    ) -> LinearSystem:
        """Return the linear system of recordings, see `system_of` and `energy_system`."""
        timed = self.settings.bootstrap is not None
        if self.by_energy:
            return energy_system(
                sources,
                regressor,
                structure,
                signals,
                self.settings.energy,
                progress=progress,
                trace_points=trace_points,
                timed=timed,
                moving=moving,
            )
        return system_of(
            sources,
            regressor,
            structure,
            signals,
            progress=progress,
            trace_points=trace_points,
            timed=timed,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the figures of the fit."""
        if not self.by_energy:
            return ()
        return (
            f'rows are energy equations over {self.settings.energy.interval:g} s: what the fit '
            'calls effort is the work of all joints [J]',
        )
