# SPDX-License-Identifier: Apache-2.0
"""Optional sections of the experiment file: data.known_load, data.payload and fleet."""

from __future__ import annotations

from dataclasses import dataclass
import re

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
        """The settings of the identification."""
        return PayloadSettings(self.own_friction)


@dataclass(frozen=True)
class FleetSettings:
    """Settings of a fleet: robot and time of each recording, and the confidence of tests."""

    serial: str | None = option(
        None,
        doc="Regular expression that finds the robot's serial number in a recording's path: its "
        'first group, or all that it matches; null takes the name of the folder that the '
        'recording is in',
    )
    serial_key: str | None = option(
        None,
        doc="Key of the bag's custom data that holds the serial number (`ros2 bag record "
        '--custom-data KEY=VALUE`); in place of `serial`',
    )
    stamp: str | None = option(
        None,
        doc="Regular expression that finds the recording's date in its path, in UTC: its groups "
        'one after another, or all that it matches, are YYYYMMDD, hhmm and ss behind it where '
        'they are there, or seconds since 1970; null takes the time of the first message of a '
        "bag, and else the file's last change",
    )
    significance: float = option(
        0.01,
        doc='Probability that a fleet of equal robots has any robot reported as different, and '
        'again that it has any reported as drifting',
        minimum=1e-9,
        maximum=0.5,
    )

    def __post_init__(self) -> None:
        if self.serial is not None and self.serial_key is not None:
            raise SettingsError(
                "'fleet.serial' and 'fleet.serial_key' are both given",
                key='fleet.serial_key',
                remedy='leave one of them out',
            )
        for name in ('serial', 'stamp'):
            pattern = getattr(self, name)
            if pattern is None:
                continue
            try:
                re.compile(pattern)
            except re.error as error:
                raise SettingsError(
                    f"'fleet.{name}' is no regular expression: {error}",
                    key=f'fleet.{name}',
                    value=pattern,
                    remedy="for example 'robots/([^/]+)/' takes the folder below robots",
                ) from error
