# SPDX-License-Identifier: Apache-2.0
"""Settings of the change detection."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import option

BATCHES = 4
"""Parts of a window; the first one is where a change may begin."""


@dataclass(frozen=True)
class ChangeSettings:
    """Settings of the change detection on the residuals of an online identification."""

    false_alarms: float = option(
        0.1,
        doc='How often, at most, a change is to be reported where there is none',
        unit='1/h',
        minimum=1e-6,
        maximum=1e3,
    )
    window: float = option(
        1.0,
        doc='Time over which residuals are explained; a change is reported after about this long, '
        'and smaller ones are found the longer it is',
        unit='s',
        minimum=0.05,
    )
    settle: float | None = option(
        30.0,
        doc='Time in motion after which changes are looked for while the estimate goes on '
        'learning: against the estimate of that moment; null: only while it is frozen',
        unit='s',
        minimum=1.0,
    )
    learning: float = option(
        20.0,
        doc='Time in motion over which the usual residuals are learned, at the start; at least '
        'ten windows, with motions like those to come',
        unit='s',
        minimum=0.5,
    )
    accept_after: float | None = option(
        5.0,
        doc='Time after which a lasting change is taken for the new normal, so that the next one '
        'is found; null leaves that to a request',
        unit='s',
        minimum=0.0,
    )
