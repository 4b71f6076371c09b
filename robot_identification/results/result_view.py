# SPDX-License-Identifier: Apache-2.0
"""Results as short texts, HTML tables and data frames, for interactive sessions and notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ..errors import missing_extra
from ..model.parameters import INERTIAL_SYMBOLS
from .link_table import Body

Row = Mapping[str, Any]

_BODY = ('mass', 'x', 'y', 'z', 'I1', 'I2', 'I3')
_LINKS = {
    'link': 'link',
    'mass_before': 'mass before [kg]',
    'mass': 'mass [kg]',
    **{axis: f'{axis} [m]' for axis in 'xyz'},
    **{moment: f'{moment} [kg m²]' for moment in ('I1', 'I2', 'I3')},
}
_FIT = {
    'joint': 'joint',
    'of': 'recording',
    'rmse': 'rms error [N m or N]',
    'relative_error': 'error [%]',
    'raw_relative_error': 'before filters [%]',
}


class ResultView(ABC):
    """Views of a result, made of the content of its file."""

    @abstractmethod
    def to_document(self) -> Mapping[str, Any]:
        """Return the content of the result's file."""

    def __repr__(self) -> str:
        return f'<{type(self).__name__} {_headline(self.to_document())}>'

    def _repr_html_(self) -> str:
        document = self.to_document()
        tables = _html(link_rows(document), _LINKS) + _html(fit_rows(document), _FIT)
        return f'<p>Result {escape(_headline(document))}</p>{tables}'

    @property
    def links(self) -> Any:
        """
        Data frame of the links, by name.

        Mass [kg], centre of mass x, y, z in the joint's frame [m] and principal moments of inertia
        at it I1, I2, I3 [kg m^2], as identified and, with ``_before``, by the prior.
        """
        return _frame(link_rows(self.to_document()), 'link')

    @property
    def parameters(self) -> Any:
        """Data frame of ``parameters`` of the result's file, the base parameters, by name."""
        return _frame(self.to_document()['parameters'], 'name')

    @property
    def standard_parameters(self) -> Any:
        """Data frame of ``standard_parameters`` of the result's file, by name."""
        return _frame(self.to_document()['standard_parameters'], 'name')

    @property
    def fit(self) -> Any:
        """
        Data frame of the fit of each joint, with rmse, bias [N m or N] and relative errors [%].

        ``of`` is ``identification``, or the recording of a validation.
        """
        return _frame(fit_rows(self.to_document()), 'joint')


def link_rows(document: Mapping[str, Any]) -> list[Row]:
    """Return a row for each link that has all ten inertial parameters."""
    bodies: dict[str, list[tuple[float, float]]] = {}
    for entry in document['standard_parameters']:
        owner, _, symbol = entry['name'].rpartition('.')
        if symbol in INERTIAL_SYMBOLS:
            bodies.setdefault(owner, []).append((entry['value'], entry['prior']))
    rows: list[Row] = []
    for link, pairs in bodies.items():
        if len(pairs) < len(INERTIAL_SYMBOLS):
            continue
        row: dict[str, Any] = {'link': link}
        for suffix, inertial in zip(('', '_before'), np.array(pairs, dtype=float).T, strict=True):
            body = Body.of(inertial)
            values = (body.mass, *body.centre.tolist(), *body.moments.tolist())
            row.update((f'{name}{suffix}', value) for name, value in zip(_BODY, values))
        rows.append(row)
    return rows


def fit_rows(document: Mapping[str, Any]) -> list[Row]:
    """Return a row for each joint of the identification, and of each validation."""
    fits = [('identification', document['identification'])]
    for seen in document.get('validation') or ():
        fits.append((', '.join(seen.get('recordings') or ['validation']), seen))
    return [
        {'joint': joint, 'of': name, **values}
        for name, figures in fits
        for joint, values in figures['joints'].items()
    ]


def _headline(document: Mapping[str, Any]) -> str:
    """Return a result in one line."""
    identification, structure = document['identification'], document['structure']
    error = identification.get('relative_error')
    physical = document['consistency']['physical']
    parts = (
        f'{structure["base"]} base parameters of {len(identification["joints"])} joints',
        'no effort to compare with' if error is None else f'error of the effort {error:.1f} %',
        f'physically {"consistent" if physical else "inconsistent"}',
    )
    return f"of '{document['name']}': {', '.join(parts)}"


def _html(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """Return columns of rows, with their headings, as an HTML table."""
    head = ''.join(f'<th>{heading}</th>' for heading in columns.values())
    body = ''.join(
        f'<tr>{"".join(f"<td>{_cell(row.get(name))}</td>" for name in columns)}</tr>'
        for row in rows
    )
    return f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ''
    return f'{value:.4g}' if isinstance(value, float) else escape(str(value))


def _frame(rows: Sequence[Row], index: str) -> Any:
    """
    Return rows as a data frame of pandas.

    Raises
    ------
    IdentificationError
        if pandas is not installed.

    """
    try:
        import pandas
    except ImportError as error:
        raise missing_extra('pandas', 'notebook') from error
    return pandas.DataFrame.from_records(list(rows)).set_index(index)
