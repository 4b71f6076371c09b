# SPDX-License-Identifier: Apache-2.0
"""Recordings of the robot while it carries a load: ``data.known_load``, ``data.payload``."""

from __future__ import annotations

from dataclasses import dataclass

from ..data.recording_config import RecordingEntry
from ..errors import SettingsError
from ..estimation.drive_gains import METHODS
from ..estimation.payload import PayloadSettings
from ..options.fields import option


@dataclass(frozen=True, kw_only=True)
class LoadRecordings:
    """Recordings with a load, and where on the robot it sits."""

    recordings: tuple[RecordingEntry, ...] = option(
        (),
        doc='Recordings of the same robot carrying the load, with the keys of '
        '`data.identification[i]`; at least one',
    )
    frame: str | None = option(
        None,
        doc='Link of the URDF that the load is fixed to and in whose frame it is given; null for '
        "the last identified joint's link",
    )


@dataclass(frozen=True, kw_only=True)
class KnownLoad(LoadRecordings):
    """
    A load of known mass, from which drive gains are identified.

    What is not given of it is estimated along with the gains.
    """

    mass: float = option(doc='Its mass, weighed', unit='kg', minimum=1e-6)
    center_of_mass: tuple[float, float, float] | None = option(
        None, doc='Its centre of mass in `frame`; null where it is not known', unit='m'
    )
    inertia: tuple[float, float, float, float, float, float] | None = option(
        None,
        doc='Its inertia about the centre of mass along the axes of `frame`: Ixx, Ixy, Iyy, Ixz, '
        'Iyz, Izz; null where it is not known',
        unit='kg m^2',
    )
    method: str = option(
        'total',
        doc='How the gains are estimated: total least squares, in which noise of the efforts '
        'makes no bias (total), or least squares with the load on the right-hand side '
        '(constrained)',
        choices=METHODS,
    )

    def __post_init__(self) -> None:
        if self.inertia is not None and self.center_of_mass is None:
            raise SettingsError(
                "'data.known_load.inertia' is given without 'data.known_load.center_of_mass'",
                key='data.known_load.center_of_mass',
                remedy='give the centre of mass that the inertia is taken about',
            )


@dataclass(frozen=True, kw_only=True)
class PayloadRecordings(LoadRecordings, PayloadSettings):
    """
    A load that is to be identified.

    The fields of `PayloadSettings` belong to it, too.
    """

    @property
    def settings(self) -> PayloadSettings:
        """The part that says how it is identified."""
        return PayloadSettings(self.own_friction)
