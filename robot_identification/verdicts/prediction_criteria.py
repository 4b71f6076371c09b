# SPDX-License-Identifier: Apache-2.0
"""Criterion of the errors that are to be expected on other motions than those recorded."""

from __future__ import annotations

from collections.abc import Iterator

from ..results.result import Result
from .reason import CONTROL, MORE, Reason, SIMULATION
from .residual_criteria import fit_step

EXPECTED_ERROR = 10.0
"""Share of the effort [%] that a feedforward may miss: feedback corrects it unnoticed."""
USELESS_PREDICTION = 30.0
"""Share of the effort [%] that feedback does not correct, and a simulator should not miss."""


def prediction(result: Result) -> Iterator[Reason]:
    """Iterate over errors to expect on motions as fast as those of the identification."""
    expected = result.predicted
    if expected is None or expected.relative_error <= EXPECTED_ERROR:
        return
    worst = max(range(len(expected.joints)), key=lambda joint: expected.relative[joint])
    useless = expected.relative_error > USELESS_PREDICTION
    parameters = expected.by_parameters > 0.5 * expected.relative_error
    cause = 'uncertain parameters' if parameters else 'what the model lacks'
    yield Reason(
        short=f'{expected.joints[worst]}: {expected.relative[worst]:.3g} % to expect',
        text=f'errors up to {expected.relative_error:.3g} % of the effort are to be expected on '
        f'other motions as fast, most of all by {cause}; {expected.joints[worst]} is worst with '
        f'{expected.relative[worst]:.3g} %',
        rules_out=(CONTROL, SIMULATION) if useless else (),
        joints=(expected.joints[worst],),
        value=expected.relative_error,
        threshold=USELESS_PREDICTION if useless else EXPECTED_ERROR,
        unit='%',
        **(MORE if parameters else fit_step(result)),
    )


def expected_error(result: Result) -> str:
    """Return the error to expect on other motions, in words; empty where it is not known."""
    expected = result.predicted
    if expected is None:
        return ''
    worst = max(range(len(expected.joints)), key=lambda joint: expected.relative[joint])
    return (
        f'efforts to +-{expected.relative_error:.2g} % on other motions as fast as the '
        f'identification ({expected.joints[worst]} worst, {expected.relative[worst]:.2g} %)'
    )
