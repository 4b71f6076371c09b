# SPDX-License-Identifier: Apache-2.0
"""A result as text, its verdict included: what commands print of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..estimation.estimators import ESTIMATORS
from ..loads.payload import Payload
from ..loads.tool import Tool
from ..results.result import Result
from ..results.servo_result import ServoResult
from ..verdicts.verdict import verdict
from .estimate_text import estimate_summary, validation_summary
from .expected_text import expected_summary
from .file_text import files_summary
from .first_screen import first_screen, FirstScreen, Places
from .link_text import link_summary
from .load_text import payload_table, tool_table
from .servo_text import servo_facts, servo_table


def summary(result: Result | ServoResult | Tool | Payload, *, verbose: bool = False) -> str:
    """
    Return what commands print of a result, 100 columns wide.

    For an arm these are validations, errors to expect, gains, payload, links and the verdict;
    ``verbose`` puts the long tables before them: parameters, fit, consistency, plausibility.
    """
    return '\n\n'.join(text for text in _parts(result, verbose) if text)


def screen(
    result: Result | ServoResult | Tool | Payload, places: Places, *, warnings: int = 0
) -> FirstScreen:
    """Return the first screen of a result; ``warnings`` is how many the details have."""
    payload = result.payload if isinstance(result, Result) else None
    judged = None if payload is None else verdict(payload)
    return first_screen(verdict(result), places, payload=judged, warnings=warnings)


def _parts(result: Any, verbose: bool) -> Iterator[str]:
    if isinstance(result, Result):
        yield from _arm(result, verbose)
    elif isinstance(result, ServoResult):
        yield from (verdict(result).summary(), servo_table(result), servo_facts(result))
    elif isinstance(result, Tool):
        yield from (tool_table(result), verdict(result).summary())
    else:
        yield from (payload_table(result), verdict(result).summary('Verdict on the payload'))


def _arm(result: Result, verbose: bool) -> Iterator[str]:
    if result.selection is not None:
        yield result.selection.summary()
    if verbose:
        estimate = replace(result.estimate, warnings=())
        yield estimate_summary(estimate, ESTIMATORS[estimate.method].title)
        yield result.consistency.summary()
        yield result.plausibility.summary()
    yield from map(validation_summary, result.validations)
    if result.files is not None:
        yield files_summary(result.files)
    yield expected_summary(result)
    if result.drive_gains is not None:
        yield result.drive_gains.summary()
    if result.payload is not None:
        yield summary(result.payload)
    yield link_summary(result.link_table())
    yield verdict(result).summary()
