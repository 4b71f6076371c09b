# SPDX-License-Identifier: Apache-2.0
"""Settings that were chosen for recordings, with what each choice gained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..regressor import ModelSettings
from ..signals import SignalSettings


@dataclass(frozen=True)
class Choice:
    """
    A setting that was chosen.

    Attributes
    ----------
    key:
        Of the experiment file.
    value:
        What was taken.
    gain:
        Change of the held-out residual against the candidate that is named in ``reference`` [%];
        negative is better.
    reference:
        What it is compared with, in words.

    """

    key: str
    value: object
    gain: float
    reference: str

    def __str__(self) -> str:
        """Return the choice on one line."""
        return f'{self.key}: {_shown(self.value)} (residual {self.gain:+.1f} % {self.reference})'


@dataclass(frozen=True)
class ModelSelection:
    """
    Settings chosen for recordings.

    Attributes
    ----------
    model, signals:
        With the choices filled in.
    tilt:
        (3,) rotation vector of the base against `Robot.gravity`, perpendicular to it [rad].
    choices:
        What was chosen, in the order of the choices.

    """

    model: ModelSettings
    signals: SignalSettings
    tilt: np.ndarray
    choices: tuple[Choice, ...] = ()

    def settings(self) -> dict[str, Any]:
        """Return all settings that can be chosen, by their keys, so that a run can be repeated."""
        filters = ('method', 'cutoff', 'decimate_to', 'dead_zone')
        keys = (*filters, 'effort_delay', 'effort_low_pass')
        found = {f'signals.{key}': getattr(self.signals, key) for key in keys}
        found['robot.friction'] = self.model.friction
        found['robot.rotor_inertia'] = self.model.rotor_inertia
        found['robot.breakaway'] = self.model.breakaway
        found['robot.joint_springs'] = self.model.joint_springs
        if self.tilt.any():
            found['robot.base_tilt'] = tuple(self.tilt.tolist())
        return found

    def summary(self) -> str:
        """Return the choices, one a line."""
        if not self.choices:
            return 'Chosen from the recordings: the default settings'
        return '\n'.join(['Chosen from the recordings:', *(f'  {c}' for c in self.choices)])

    def to_list(self) -> list[dict[str, Any]]:
        """Return the choices as mappings."""
        return [asdict(choice) for choice in self.choices]


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return '[' + ', '.join(_shown(item) for item in value) + ']'
    return f'{value:.4g}' if isinstance(value, float) else str(value)
