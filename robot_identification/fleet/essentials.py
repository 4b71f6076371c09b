# SPDX-License-Identifier: Apache-2.0
"""
The fleet's essential parameters, estimated from single factors.

All other parameters are held at the fleet's values, and each joint's rows count with the fleet's
weights: so even a short recording tells something, and what several tell can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimation import QRFactor
from ..estimation.identifiability import identifiability
from ..estimation.least_squares import solve
from ..model.parameters import ParameterLayout
from ..results.factor_file import unpack
from .work import Group


@dataclass(frozen=True)
class Question:
    """
    Input of the elimination for each factor.

    Attributes
    ----------
    layout:
        The b base parameters.
    weights:
        (n,) of the joints' rows [1/(N m) or 1/N].
    essential:
        (b,) bool, which parameters are estimated: e of them.
    fixed:
        (b,) values of the others.

    """

    layout: ParameterLayout
    weights: np.ndarray
    essential: np.ndarray
    fixed: np.ndarray


def estimate_essentials(factor: QRFactor, question: Question) -> np.ndarray:
    """
    Estimate the essential parameters from a factor.

    Parameters
    ----------
    factor:
        Of a recording or a robot.
    question:
        What is estimated.

    Returns
    -------
    np.ndarray
        (2, e) values and standard deviations; NaN where the factor does not tell.

    """
    total, free = factor.stacked(question.weights), question.essential
    effort = total[:, -1] - total[:, :-1][:, ~free] @ question.fixed[~free]
    columns = np.flatnonzero(free)
    reduced = np.asarray(np.linalg.qr(np.column_stack([total[:, columns], effort]), mode='r'))
    answer = np.full((2, columns.size), np.nan)
    if factor.n_independent <= columns.size:
        return answer
    known = identifiability(reduced, factor.n_rows, question.layout.select(columns)).excited
    if known.any():
        solution = solve(reduced, known, question.fixed[columns], factor.n_independent)
        answer[0, known] = solution.base[known]
        answer[1, known] = np.sqrt(np.diag(solution.covariance))[known]
    return answer


def estimate_group(payload: bytes, group: Group) -> np.ndarray:
    """Estimate from each factor of a group, whose argument is a `Question`; (k, 2, e)."""
    return np.array(
        [estimate_essentials(unpack(data).factor, group.argument) for data in group.factors]
    )
