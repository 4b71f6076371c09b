# SPDX-License-Identifier: Apache-2.0
"""
The table of criteria, and the kinds of results that they apply to.

Each criterion gives reasons with their figure, the threshold, the uses that are ruled out, and the
next step.  Its thresholds stand beside it, each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..loads.payload import Payload
from ..loads.tool import Tool
from ..results.result import Result
from ..results.servo_result import ServoResult
from .body_criteria import consistency, gains, mounting, offsets, plausibility, weight
from .file_criteria import files
from .fit_criteria import fit, speed, unseen, validated_speeds, validation
from .joints_apart import JointsApart
from .load_criteria import (
    assumed,
    body,
    inertia,
    load_size,
    mass,
    payload_fit,
    payload_gains,
    payload_scope,
    tool_scope,
    wrench,
)
from .prediction_criteria import expected_error, prediction
from .reason import LOAD_USES, Reason, USES
from .recording_criteria import delay, diagnosis, excitation
from .residual_criteria import residuals
from .servo_criteria import (
    bounds,
    centers,
    correlation,
    efforts,
    friction,
    method,
    rollout,
    servo_delay,
    servo_gains,
    servo_scope,
)


@dataclass(frozen=True)
class Kind:
    """
    Kind of results.

    Attributes
    ----------
    name:
        What it is called.
    type:
        The class of its results.
    uses:
        What these can be good for, by name, and what that is called.
    scope:
        Returns on what such a result was seen to hold, in words.

    """

    name: str
    type: type
    uses: Mapping[str, str]
    scope: Callable[[Any], str]


def arm_scope(result: Result) -> str:
    """Return the error to expect, and up to which speeds a result was validated, in words."""
    seen = validated_speeds(result.system.factor.highest_speed, unseen(result))
    return '; '.join(filter(None, (expected_error(result), seen)))


KINDS = (
    Kind('arm', Result, USES, arm_scope),
    Kind('servos', ServoResult, USES, servo_scope),
    Kind('tool', Tool, LOAD_USES, tool_scope),
    Kind('payload', Payload, LOAD_USES, payload_scope),
)
"""All kinds of results that have a verdict."""

ARM, SERVOS, TOOL, PAYLOAD = KINDS


@dataclass(frozen=True)
class Criterion:
    """
    Criterion of the verdict.

    Attributes
    ----------
    name:
        What its reasons are called by in ``verdict.json`` and docs/reference/verdict.md.
    applies_to:
        Kinds of results that it is asked for.
    reasons:
        Iterates over the reasons against a result.

    """

    name: str
    applies_to: tuple[Kind, ...]
    reasons: Callable[[Any], Iterator[Reason]]


CRITERIA = (
    Criterion('diagnosis', (ARM,), diagnosis),
    Criterion('delay', (ARM,), delay),
    Criterion('validation', (ARM,), validation),
    Criterion('fit', (ARM,), fit),
    Criterion('prediction', (ARM,), prediction),
    Criterion('files', (ARM,), files),
    Criterion('excitation', (ARM,), excitation),
    Criterion('consistency', (ARM,), consistency),
    Criterion('plausibility', (ARM,), plausibility),
    Criterion('weight', (ARM,), weight),
    Criterion('speed', (ARM,), speed),
    Criterion('residuals', (ARM,), residuals),
    Criterion('offsets', (ARM,), offsets),
    Criterion('mounting', (ARM,), mounting),
    Criterion('gains', (ARM,), gains),
    Criterion('efforts', (SERVOS,), efforts),
    Criterion('rollout', (SERVOS,), rollout),
    Criterion('method', (SERVOS,), method),
    Criterion('bounds', (SERVOS,), bounds),
    Criterion('correlation', (SERVOS,), correlation),
    Criterion('delay', (SERVOS,), servo_delay),
    Criterion('bodies', (SERVOS,), centers),
    Criterion('gains', (SERVOS,), servo_gains),
    Criterion('friction', (SERVOS,), friction),
    Criterion('mass', (TOOL, PAYLOAD), mass),
    Criterion('size', (TOOL, PAYLOAD), load_size),
    Criterion('body', (TOOL, PAYLOAD), body),
    Criterion('wrench', (TOOL,), wrench),
    Criterion('fit', (PAYLOAD,), payload_fit),
    Criterion('gains', (PAYLOAD,), payload_gains),
    Criterion('inertia', (TOOL, PAYLOAD), inertia),
    Criterion('assumed', (TOOL, PAYLOAD), assumed),
)
"""All criteria; of two reasons that rule out as many uses the earlier one is named first."""


def kind_of(result: Any) -> Kind:
    """Return the kind of a result; raises TypeError for what has no verdict."""
    for kind in KINDS:
        if isinstance(result, kind.type):
            return kind
    names = ', '.join(kind.type.__name__ for kind in KINDS)
    raise TypeError(f'a {type(result).__name__} has no verdict; expected one of {names}')


def reasons(result: Any) -> Iterator[Reason]:
    """Iterate over the reasons of all criteria that apply to a result."""
    kind = kind_of(result)
    apart = JointsApart()
    if kind is ARM:
        apart = JointsApart.from_fit(result.robot, result.estimate.fit)
    for criterion in CRITERIA:
        if kind in criterion.applies_to:
            for reason in criterion.reasons(result):
                yield apart.of_arm(replace(reason, criterion=criterion.name))
