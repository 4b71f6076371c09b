# SPDX-License-Identifier: Apache-2.0
"""Noise of the rows of floating bases, by which the forces of their contacts are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..data.recording import RecordingSource
from ..regressor.base_parameters import BaseStructure
from ..regressor.floating import FloatingRegressor
from ..signals import SignalSettings
from .floating_rows import projected_rows
from .least_squares import wls
from .row_block import RowBlock
from .system import system_of

_PASSES = 2
"""Fits before the noise of the rows is taken for known."""

_LEAST_NOISE = 1e-3
"""Least noise of a row, by the one that was taken for the fit before."""


def with_row_noise(
    sources: Sequence[RecordingSource],
    regressor: FloatingRegressor,
    structure: BaseStructure,
    signals: SignalSettings,
) -> FloatingRegressor:
    """
    Return the regressor with the noise of its rows that recordings show.

    Forces of contacts and parameters are found by weighted least squares, whose weights come from
    the residuals of the fit before.  A contact's forces take up a part of the noise; what is left
    of a row says how much there was.
    """
    for _ in range(_PASSES):
        left = np.zeros(regressor.n_joints)

        def read(
            source: RecordingSource,
            regressor: FloatingRegressor,
            structure: BaseStructure,
            signals: SignalSettings,
            left: np.ndarray = left,
        ) -> Iterator[RowBlock]:
            for block, share in projected_rows(source, regressor, structure, signals):
                left += share * len(block.time)
                yield block

        system = system_of(sources, regressor, structure, signals, read=read, trace_points=2)
        residual = system.factor.residual_norms(wls(system).base.values)
        noise = residual / np.sqrt(np.maximum(left, 1e-12))
        # what a contact takes up wholly shows no noise
        regressor = replace(regressor, noise=np.maximum(noise, _LEAST_NOISE * regressor.noise))
    return regressor
