# SPDX-License-Identifier: Apache-2.0
"""The parameters of a result as CSV and YAML."""

from __future__ import annotations

from collections.abc import Mapping
import csv
import io
from typing import Any

from .result_yaml import dump

_COLUMNS = {
    'standard_parameters': ('name', 'unit', 'value', 'std', 'prior'),
    'parameters': ('name', 'unit', 'value', 'std', 'expression'),
}
"""Columns of the two tables of a result's file that are written."""


def parameters_csv(document: Mapping[str, Any]) -> str:
    """
    Return standard and base parameters as one CSV table.

    Parameters
    ----------
    document:
        Content of a result's file.

    Returns
    -------
    str
        The table; ``kind`` is standard or base, and what a row does not have is empty.

    """
    text = io.StringIO()
    columns = dict.fromkeys(('kind', *sum(_COLUMNS.values(), ())))
    writer = csv.DictWriter(text, list(columns), restval='', lineterminator='\n')
    writer.writeheader()
    for table, rows in _tables(document).items():
        kind = 'standard' if table == 'standard_parameters' else 'base'
        writer.writerows({'kind': kind, **row} for row in rows)
    return text.getvalue()


def parameters_yaml(document: Mapping[str, Any]) -> str:
    """Return the two tables as YAML; a standard deviation that is not known is null."""
    return dump({'name': document['name'], **_tables(document)})


def _tables(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [{name: row[name] for name in columns} for row in document[table]]
        for table, columns in _COLUMNS.items()
    }
