# SPDX-License-Identifier: Apache-2.0
"""
The linear system of recordings: the factor of their rows, and what to call its columns.

Ordinary and weighted least squares, their residuals per joint and the elimination of columns all
come from the factor, after one pass over the recordings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..base_parameters import BaseStructure
from .factor import merge_all, QRFactor
from .plot_samples import (
    ANALYSED_ROWS,
    EMPTY_TRACE,
    PlotSamples,
    TRACE_ROWS,
    TraceCollector,
)
from .time_blocks import TimeBlocks


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """
    A factor with the base parameters that its columns stand for.

    Attributes
    ----------
    factor:
        Sufficient statistics of the rows; its attributes are the system's too.
    structure:
        The base parameters.
    trace:
        A bounded number of rows, thinned evenly, for plots; empty where there are factors alone.
    sources:
        Names of the recordings.
    blocks:
        The rows by parts of the recordings, for the bootstrap; None where they were not asked for.

    """

    factor: QRFactor
    structure: BaseStructure
    trace: PlotSamples = EMPTY_TRACE
    sources: tuple[str, ...] = ()
    blocks: TimeBlocks | None = None

    @property
    def analysed(self) -> PlotSamples:
        """The rows of `trace` that delays and the residuals' colour are found from."""
        return self.trace.thinned(ANALYSED_ROWS * max(1, len(self.sources)))

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the n joints, see `QRFactor`."""
        return self.factor.joints

    @property
    def factors(self) -> np.ndarray:
        """(n, b + 1, b + 1) R of each joint's rows, see `QRFactor.triangles`."""
        return self.factor.triangles

    @property
    def rows(self) -> np.ndarray:
        """(n,) int, see `QRFactor`."""
        return self.factor.rows

    @property
    def independent_rows(self) -> np.ndarray:
        """(n,), see `QRFactor`."""
        return self.factor.independent_rows

    @property
    def available_rows(self) -> np.ndarray:
        """(n,) int, see `QRFactor`."""
        return self.factor.available_rows

    @property
    def column_sums(self) -> np.ndarray:
        """(n, b), see `QRFactor`."""
        return self.factor.column_sums

    @property
    def effort_sums(self) -> np.ndarray:
        """(n,), see `QRFactor`."""
        return self.factor.effort_sums

    @property
    def raw_gram(self) -> np.ndarray:
        """(n, b + 1, b + 1), see `QRFactor`."""
        return self.factor.raw_gram

    @property
    def raw_rows(self) -> int:
        """Samples before decimation, see `QRFactor`."""
        return self.factor.raw_rows

    @property
    def position_range(self) -> np.ndarray:
        """Of each joint of the robot [rad or m], see `QRFactor`."""
        return self.factor.position_range

    @property
    def highest_speed(self) -> np.ndarray:
        """Of each joint of the robot [rad/s or m/s], see `QRFactor`."""
        return self.factor.highest_speed

    @property
    def driven(self) -> np.ndarray:
        """(n,) bool, see `QRFactor`."""
        return self.factor.driven

    @property
    def n_joints(self) -> int:
        """Number of joints."""
        return self.factor.n_joints

    @property
    def n_base(self) -> int:
        """Number of base parameters."""
        return self.factor.n_base

    @property
    def n_rows(self) -> int:
        """Rows of all joints together."""
        return self.factor.n_rows

    @property
    def n_independent(self) -> float:
        """Independent rows of all joints together."""
        return self.factor.n_independent

    def stacked(self, weights: np.ndarray | None = None) -> np.ndarray:
        """R of the rows of all joints, each joint's times its weight, see `QRFactor.stacked`."""
        return self.factor.stacked(weights)


def combine(systems: Iterable[LinearSystem]) -> LinearSystem:
    """
    Merge the systems of several recordings of the same robot.

    Parameters
    ----------
    systems:
        At least one; all with the same joints and base parameters.  Taken one by one, so that
        about log2(N) of their factors and `TRACE_ROWS` rows are in memory at a time.

    Raises
    ------
    SettingsError, ModelError
        naming what is not the same, as `QRFactor.merge`.

    """
    trace = TraceCollector(TRACE_ROWS)
    sources: list[str] = []
    structure: BaseStructure | None = None
    blocks: TimeBlocks | None = None

    def factors() -> Iterator[QRFactor]:
        nonlocal structure, blocks
        for system in systems:
            if structure is None:
                structure, blocks = system.structure, system.blocks
            else:
                blocks = TimeBlocks.joined([blocks, system.blocks])
            yield system.factor
            trace.follow(system.trace)
            sources.extend(system.sources)

    factor = merge_all(factors())
    assert structure is not None
    return LinearSystem(factor, structure, trace.trace(), tuple(sources), blocks)
