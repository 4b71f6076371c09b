# SPDX-License-Identifier: Apache-2.0
"""
The result of an identification, and its file.

`result_document` gives the plain data that `write_result` puts into ``result.yaml``; `read_result`
gives back what validation, the consistency check and the URDF export need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np

from ..estimation.estimate import Estimate
from ..estimation.settings import EstimationSettings
from ..estimation.system import LinearSystem
from ..parameters import ParameterSet
from ..robot import Robot
from ..validation import Validation

if TYPE_CHECKING:
    from ..base_parameters import BaseStructure
    from ..consistency import ConsistencyReport
    from ..regressors import ModelSettings
    from ..signals import SignalSettings


@dataclass(frozen=True)
class Result:
    """
    Everything that an identification found.

    Attributes
    ----------
    name:
        What the identification is called (the robot's or the experiment's name).
    robot:
        The robot as its URDF says.
    model, signals, estimation:
        The settings that the result comes from.
    prior:
        Standard parameters before the identification, over the regressor's layout.
    structure:
        The base parameters and what they are made of.
    system:
        The rows' sufficient statistics.
    estimate:
        All base parameters.
    essential:
        The same with the parameters that the data hardly tell dropped; None where not asked.
    standard:
        Standard parameters nearest to the prior.
    standard_std:
        (p,) their standard deviations, NaN where the data alone do not tell; or None.
    consistency:
        Whether ``standard`` can belong to a real body.
    validations:
        Held against recordings that were not used.
    recordings:
        Names of the recordings that were used.
    timing:
        Seconds by step.
    warnings:
        In words, what a user should know.

    """

    name: str
    robot: Robot
    model: ModelSettings
    signals: SignalSettings
    estimation: EstimationSettings
    prior: ParameterSet
    structure: BaseStructure
    system: LinearSystem
    estimate: Estimate
    essential: Estimate | None
    standard: ParameterSet
    standard_std: np.ndarray | None
    consistency: ConsistencyReport
    validations: tuple[Validation, ...] = ()
    recordings: tuple[str, ...] = ()
    timing: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredResult:
    """
    What a result file gives back.

    Attributes
    ----------
    name:
        What the identification was called.
    robot:
        The robot, made anew of the URDF, joints, locked joints and gravity that were stored.
    model, signals, estimation:
        The settings.
    base:
        The base parameters of the estimate.
    base_std:
        (b,) their standard deviations; NaN where there are none.
    expressions:
        (b,) combinations of standard parameters that ``base`` stands for.
    prior, standard:
        Standard parameters before and after.
    standard_std:
        (p,) NaN where the data alone do not tell.
    document:
        The file's whole content.
    path:
        The file.

    """

    name: str
    robot: Robot
    model: ModelSettings
    signals: SignalSettings
    estimation: EstimationSettings
    base: ParameterSet
    base_std: np.ndarray
    expressions: tuple[str, ...]
    prior: ParameterSet
    standard: ParameterSet
    standard_std: np.ndarray
    document: Mapping[str, Any] = field(repr=False, default_factory=dict)
    path: Path | None = None
