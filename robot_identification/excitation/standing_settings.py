# SPDX-License-Identifier: Apache-2.0
"""Settings of a motion on the feet."""

from dataclasses import dataclass

from ..options.fields import option


@dataclass(frozen=True)
class StandingSettings:
    """Settings of a motion on the feet."""

    duration: float = option(
        60.0, doc='Duration of the motion', unit='s', minimum=1.0, maximum=3600.0
    )
    rate: float = option(100.0, doc='Rate of its points', unit='Hz', minimum=1.0, maximum=1e4)
    shift: float = option(
        0.04, doc='Largest shift of the base along each axis', unit='m', minimum=0.0, maximum=1.0
    )
    crouch: float | None = option(
        None,
        doc='Largest shift of the base upward and downward; null for `shift`. Bent knees show the '
        'total mass',
        unit='m',
        minimum=0.0,
        maximum=1.0,
    )
    turn: float = option(
        0.15, doc='Largest turn of the base about each axis', unit='rad', minimum=0.0, maximum=1.0
    )
    lift: float = option(
        0.06,
        doc='Height to which feet are lifted in turn; 0 leaves all on the ground',
        unit='m',
        minimum=0.0,
        maximum=1.0,
    )
    swing: float = option(
        0.3,
        doc='Largest deflection of joints that belong to no leg',
        unit='rad',
        minimum=0.0,
        maximum=3.0,
    )
    frequency: float = option(
        1.3, doc='Highest frequency of the sines', unit='Hz', minimum=0.05, maximum=20.0
    )
    margin: float = option(
        0.02,
        doc='Least distance of the centre of pressure from the edge of the support',
        unit='m',
        minimum=0.0,
        maximum=1.0,
    )
    seed: int = option(0, doc='Seed of the sines', minimum=0)
