# SPDX-License-Identifier: Apache-2.0
"""Standard deviations of the base parameters that a motion promises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PredictedDeviations:
    """
    Predicted standard deviation of each base parameter after one execution of a motion.

    Attributes
    ----------
    names, units:
        Of the b base parameters.
    std:
        (b,) in these units; infinite where the motion does not excite a parameter.
    values:
        (b,) by the URDF, in these units.

    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    std: np.ndarray
    values: np.ndarray

    def repetitions(self, target: np.ndarray) -> np.ndarray:
        """
        Return how often the motion has to be executed for wanted standard deviations.

        Parameters
        ----------
        target:
            (b,) positive, in the units of the parameters.

        Returns
        -------
        np.ndarray
            (b,) whole numbers from 1 on, infinite where no number suffices.

        """
        return np.asarray(np.maximum(1.0, np.ceil((self.std / target) ** 2 * (1.0 - 1e-12))))
