# SPDX-License-Identifier: Apache-2.0
"""The parameters of a result as a table: rows for data frames, CSV and YAML."""

from __future__ import annotations

from collections.abc import Mapping
import csv
import io
import math
from typing import Any

import numpy as np

from ..model.parameters import ParameterSet
from .result import Result, StoredResult
from .result_yaml import dump, plain

Row = Mapping[str, Any]


def standard_rows(result: Result | StoredResult) -> list[Row]:
    """Return name, unit, value, std and prior of each standard parameter; std may be NaN."""
    layout, columns = result.standard.layout, (result.standard_std, result.prior.values)
    return [
        {'name': name, 'unit': unit, 'value': value, 'std': std, 'prior': prior}
        for name, unit, value, std, prior in zip(
            layout.names, layout.units, *_lists(result.standard.values, *columns), strict=True
        )
    ]


def base_rows(result: Result | StoredResult) -> list[Row]:
    """Return name, unit, value, std and expression of each base parameter."""
    base, std, expressions = _base(result)
    return [
        {'name': name, 'unit': unit, 'value': value, 'std': deviation, 'expression': text}
        for name, unit, value, deviation, text in zip(
            base.layout.names,
            base.layout.units,
            *_lists(base.values, std),
            expressions,
            strict=True,
        )
    ]


def parameters_csv(result: Result | StoredResult) -> str:
    """Return both tables as CSV; what a row does not have is empty."""
    text = io.StringIO()
    names = ('kind', 'name', 'unit', 'value', 'std', 'prior', 'expression')
    writer = csv.DictWriter(text, names, restval='', lineterminator='\n')
    writer.writeheader()
    for kind, rows in (('standard', standard_rows(result)), ('base', base_rows(result))):
        for row in rows:
            known = {key: value for key, value in row.items() if not _missing(value)}
            writer.writerow({'kind': kind, **known})
    return text.getvalue()


def parameters_yaml(result: Result | StoredResult) -> str:
    """Return both tables as YAML; a standard deviation that is not known is null."""
    document = {
        'name': result.name,
        'standard_parameters': standard_rows(result),
        'base_parameters': base_rows(result),
    }
    return dump(plain(document))


def _base(result: Result | StoredResult) -> tuple[ParameterSet, np.ndarray, tuple[str, ...]]:
    if isinstance(result, StoredResult):
        return result.base, result.base_std, result.expressions
    expressions = tuple(parameter.expression for parameter in result.estimate)
    return result.estimate.base, result.estimate.std, expressions


def _lists(*columns: np.ndarray) -> tuple[list[float], ...]:
    return tuple(np.asarray(column, dtype=float).tolist() for column in columns)


def _missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
