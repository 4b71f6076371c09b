# SPDX-License-Identifier: Apache-2.0
"""Conversions of parameters, fits and regressors to messages and back."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
import math

from builtin_interfaces.msg import Time
import numpy as np
from robot_identification_msgs import msg as messages
from std_msgs.msg import Header

from ...base_parameters import BaseStructure
from ...errors import IdentificationError, one_of
from ...estimation.estimate import Estimate, Fit, JointFit
from ...model.consistency import ConsistencyReport
from ...model.parameters import ParameterLayout, ParameterSet

MOST_PARAMETERS = 10_000
"""Parameters that a request may bring."""

# ------------------------------------------------------------------------------------ parameters


def base_parameters_message(estimate: Estimate, stamp: Time) -> messages.ParameterSet:
    """Return the base parameters of ``estimate`` with their uncertainty."""
    states = {
        'IDENTIFIED': messages.Parameter.IDENTIFIED,
        'NOT_EXCITED': messages.Parameter.NOT_EXCITED,
    }
    parameters = [
        messages.Parameter(
            name=p.name,
            expression=p.expression,
            unit=p.unit,
            value=p.value,
            std=p.std,
            relative_std=p.relative_std,
            state=states[p.state],
        )
        for p in estimate
    ]
    return messages.ParameterSet(
        header=Header(stamp=stamp),
        robot=estimate.robot,
        parameters=parameters,
        covariance=array('d', estimate.covariance.tobytes()),
    )


def standard_parameters_message(
    parameters: ParameterSet,
    stamp: Time,
    robot: str = '',
    std: np.ndarray | None = None,
    structure: BaseStructure | None = None,
) -> messages.ParameterSet:
    """
    Return standard parameters.

    Parameters
    ----------
    parameters, stamp, robot:
        The p standard parameters, the time of the estimate, and the robot's name.
    std:
        (p,) standard deviations; NaN, or None for all, where the data do not determine them.
    structure:
        The base parameters: those that stand alone in them are identified.

    """
    values = parameters.values
    std = np.full(values.shape, math.nan) if std is None else np.asarray(std, dtype=float)
    with np.errstate(divide='ignore', invalid='ignore'):
        relative = 100.0 * std / np.abs(values)
    alone = np.ones(values.shape, dtype=bool)
    if structure is not None:
        alone = np.array([structure.category(name) == 'alone' for name in parameters.layout])
    entries = []
    for i, (name, unit) in enumerate(zip(parameters.layout.names, parameters.layout.units)):
        known = messages.Parameter.IDENTIFIED
        if not alone[i]:
            known = messages.Parameter.DEPENDENT
        elif structure is not None and not math.isfinite(std[i]):
            known = messages.Parameter.NOT_EXCITED
        entries.append(
            messages.Parameter(
                name=name,
                expression=name,
                unit=unit,
                value=float(values[i]),
                std=float(std[i]),
                relative_std=float(relative[i]),
                state=known,
            )
        )
    return messages.ParameterSet(header=Header(stamp=stamp), robot=robot, parameters=entries)


def parameters_from_message(message: messages.ParameterSet) -> ParameterSet:
    """
    Return names, units and values of a message.

    Raises
    ------
    IdentificationError
        where a name occurs twice or a value is not finite.

    """
    if len(message.parameters) > MOST_PARAMETERS:
        raise IdentificationError(
            f'{len(message.parameters)} parameters are more than any robot has',
            remedy=f'give at most {MOST_PARAMETERS}',
        )
    names = [parameter.name for parameter in message.parameters]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise IdentificationError(
            f'parameters occur twice: {one_of(twice)}', remedy='give each parameter once'
        )
    for parameter in message.parameters:
        if not math.isfinite(parameter.value):
            raise IdentificationError(
                f"parameter '{parameter.name}' is {parameter.value}",
                key=parameter.name,
                value=parameter.value,
                remedy='give a finite number',
            )
    layout = ParameterLayout(tuple(names), tuple(p.unit for p in message.parameters))
    return ParameterSet(layout, np.array([p.value for p in message.parameters], dtype=float))


# ------------------------------------------------------------------------------ fit, consistency


def joint_fit_messages(joints: Iterable[JointFit]) -> list[messages.JointFit]:
    """Return the fit of each joint."""
    return [
        messages.JointFit(
            joint=fit.joint,
            rmse=float(fit.rmse),
            relative_error=float(fit.relative_error),
            raw_relative_error=float(fit.raw_relative_error),
            bias=float(fit.bias),
        )
        for fit in joints
    ]


def fit_message(estimate: Estimate, stamp: Time) -> messages.Fit:
    """Return how well ``estimate`` explains the recording that it comes from."""
    fit: Fit = estimate.fit
    return messages.Fit(
        header=Header(stamp=stamp),
        method=estimate.method,
        joints=joint_fit_messages(fit.joints),
        relative_error=float(fit.relative_error),
        raw_relative_error=float(fit.raw_relative_error),
        condition_number=float(estimate.condition_number),
        rank=int(estimate.rank),
    )


def link_consistency_messages(report: ConsistencyReport) -> list[messages.LinkConsistency]:
    """Return the checks of each link."""
    return [
        messages.LinkConsistency(
            link=link.link,
            mass_positive=bool(link.mass_positive),
            inertia_positive_definite=bool(link.inertia_positive_definite),
            triangle_inequality=bool(link.triangle_inequality),
            pseudo_inertia_positive_definite=bool(link.pseudo_inertia_positive_definite),
            smallest_eigenvalue=float(link.smallest_eigenvalue),
            message=link.message,
        )
        for link in report.links
    ]


# ------------------------------------------------------------------------------------- regressor


def regressor_message(
    rows: np.ndarray, layout: ParameterLayout, stamp: Time, effort: np.ndarray | None = None
) -> messages.Regressor:
    """Return a regressor of (n_rows, p) rows, with (n_rows,) measured effort, if any."""
    # an array('d') goes into the message without a check of each number
    return messages.Regressor(
        header=Header(stamp=stamp),
        rows=rows.shape[0],
        cols=rows.shape[1],
        columns=list(layout.names),
        data=array('d', np.ascontiguousarray(rows, dtype=float).tobytes()),
        effort=array('d', b'' if effort is None else np.asarray(effort, dtype=float).tobytes()),
    )


def regressor_matrix(message: messages.Regressor) -> np.ndarray:
    """Return the (rows, cols) matrix of a message."""
    return np.asarray(message.data, dtype=float).reshape(message.rows, message.cols)
