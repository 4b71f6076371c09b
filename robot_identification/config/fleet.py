# SPDX-License-Identifier: Apache-2.0
"""Section ``fleet`` of the experiment file."""

from __future__ import annotations

from dataclasses import dataclass
import re

from ..errors import SettingsError
from ..options.fields import option


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
        doc='Probability that a fleet of equal robots has any robot told as different, and again '
        'that it has any told as drifting',
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
