# SPDX-License-Identifier: Apache-2.0
"""
Tables of parameters for other programs, and a layout for PlotJuggler.

PlotJuggler shows a curve by its full name only, and names those of joint states after the joints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import csv
import io
from typing import Any

from ..figures.figure import templates
from ..options.document import dump
from ..untrusted.names import csv_cell

_COLUMNS = {
    'standard_parameters': ('name', 'unit', 'value', 'std', 'prior'),
    'parameters': ('name', 'unit', 'value', 'std', 'expression'),
}
"""Columns of the two tables of a result's file that are written."""

_SHOWN = 8  # parameters, the first ones


# ------------------------------------------------------------------------------ tables and layout


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
        for row in rows:
            cells = {name: csv_cell(value) for name, value in row.items()}
            writer.writerow({'kind': kind, **cells})
    return text.getvalue()


def parameters_yaml(document: Mapping[str, Any]) -> str:
    """Return the two tables as YAML; a standard deviation that is not known is null."""
    return dump({'name': document['name'], **_tables(document)})


def _tables(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [{name: row[name] for name in columns} for row in document[table]]
        for table, columns in _COLUMNS.items()
    }


def plotjuggler_layout(joints: Sequence[str]) -> str:
    """Return the layout, in XML, that shows what the nodes publish of a robot."""
    tabs = _tabs(joints)
    curves = (name for areas in tabs.values() for _, curves in areas for name in curves)
    topics = list(dict.fromkeys(_topic(name) for name in curves))
    template = templates(keep_trailing_newline=True).get_template('plotjuggler.xml.j2')
    return template.render(tabs=tabs, topics=topics)


def _tabs(joints: Sequence[str]) -> dict[str, list[tuple[str, list[str]]]]:
    """Return titles of plots with the names of their curves, tab by tab."""
    places, shown = range(len(joints)), range(_SHOWN)
    online = '/identification/online'
    return {
        'Efforts from outside': [
            ('External effort', [f'/observer/external_effort/{j}/effort' for j in joints]),
            ('Threshold', [f'/observer/external_effort_threshold/{j}/effort' for j in joints]),
            ('Contact', ['/observer/contact/data']),
        ],
        'Measured and predicted': [
            (j, [f'/observer/{kind}_effort/{j}/effort' for kind in ('measured', 'predicted')])
            for j in joints
        ],
        'Live identification': [
            ('Parameters', [f'{online}/parameters/parameters[{k}]/value' for k in shown]),
            ('Standard deviations', [f'{online}/parameters/parameters[{k}]/std' for k in shown]),
            (
                'Updates',
                [f'{online}/status/{k}' for k in ('rate', 'lost', 'late_updates', 'state')],
            ),
        ],
        'Identification': [
            ('Fit', [f'/identification/fit/joints[{k}]/rmse' for k in places]),
            (
                'Relative standard deviations',
                [f'/identification/parameters/parameters[{k}]/relative_std' for k in shown],
            ),
        ],
        'Recorder': [
            ('Rate', ['/recorder/status/rate']),
            ('Faults', [f'/recorder/status/{name}' for name in ('gaps', 'lost', 'overflowed')]),
            ('Recording', [f'/recorder/status/{name}' for name in ('recording', 'messages')]),
        ],
    }


def _topic(curve: str) -> str:
    """Return the topic of a curve: all topics but those of the live estimate have two names."""
    names = curve.split('/')
    return '/'.join(names[: 4 if names[2] == 'online' else 3])
