# SPDX-License-Identifier: Apache-2.0
"""Drive gains from recordings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..base_parameters import BaseStructure
from ..drives import Drives
from ..estimation import row_blocks
from ..regressors import Regressor
from ..signals import SignalSettings, source_name
from .fit import drive_gains, gain_rows, GainRows
from .load import Load
from .result import DriveGains


def identify_gains(
    without: Sequence[Any],
    loaded: Sequence[Any],
    load: Load,
    regressor: Regressor,
    structure: BaseStructure,
    signals: SignalSettings,
    *,
    drives: Drives | None = None,
    method: str = 'total',
) -> DriveGains:
    """
    Identify drive gains from recordings of a robot without and with a load.

    Parameters
    ----------
    without, loaded:
        Recordings, at the joints by the assumed gains.
    load:
        What is known of the load.
    regressor, structure, signals:
        The model, and how recordings become its rows.
    drives:
        Holds the assumed gains; None where the recorded efforts are taken for the joints'.
    method:
        One of `METHODS`.

    Raises
    ------
    SettingsError
        where there is not one recorded effort for each joint.
    IdentifiabilityError
        where what is known of the load cannot be told from what is not.
    RecordingError
        where a recording cannot be used.

    """
    names = tuple(without[0].joints)
    effort = None if drives is None else drives.effort
    assumed = np.eye(len(names)) if effort is None else np.array(effort.matrix)

    def rows(sources: Sequence[Any]) -> GainRows:
        blocks = (row_blocks(source, regressor, structure, signals) for source in sources)
        return gain_rows(chain.from_iterable(blocks), structure, assumed)

    return drive_gains(
        rows(without),
        rows(loaded),
        load,
        structure,
        names,
        assumed,
        method=method,
        recordings=[source_name(source) for source in loaded],
    )
