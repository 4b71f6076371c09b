# SPDX-License-Identifier: Apache-2.0
"""Results as short texts, HTML tables and data frames, for interactive sessions and notebooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ..errors import missing_extra
from ..model.consistency import inertia_at_com
from ..model.parameters import INERTIAL_SYMBOLS

Row = Mapping[str, Any]

_LINK_COLUMNS = {
    'link': 'link',
    'mass_before': 'mass before [kg]',
    'mass': 'mass [kg]',
    **{axis: f'{axis} [m]' for axis in 'xyz'},
    **{moment: f'{moment} [kg m²]' for moment in ('I1', 'I2', 'I3')},
}
_FIT_COLUMNS = {
    'joint': 'joint',
    'of': 'recording',
    'rmse': 'rms error [N m or N]',
    'relative_error': 'error [%]',
    'raw_relative_error': 'before filters [%]',
}


@dataclass(frozen=True)
class MassProperties:
    """
    Mass, centre of mass and inertia of a link; or their standard deviations.

    Attributes
    ----------
    mass:
        [kg].
    centre_of_mass:
        (3,) in the joint's frame [m]; NaN without a mass.
    principal_inertias:
        (3,) at the centre of mass, ascending [kg m^2]; NaN without a mass.

    """

    mass: float
    centre_of_mass: np.ndarray
    principal_inertias: np.ndarray

    @classmethod
    def of(cls, inertial: np.ndarray) -> MassProperties:
        """Make it of the ten inertial parameters of a link."""
        inertial = np.asarray(inertial, dtype=float)
        mass = float(inertial[0])
        if not mass > 0.0:
            return cls(mass, np.full(3, np.nan), np.full(3, np.nan))
        return cls(mass, inertial[1:4] / mass, np.linalg.eigvalsh(inertia_at_com(inertial)))


class ResultView(ABC):
    """Short text, HTML tables and data frames of a result, made of the content of its file."""

    @abstractmethod
    def to_document(self) -> Mapping[str, Any]:
        """Return the content of the result's file."""

    def __repr__(self) -> str:
        return f'<{type(self).__name__} {self._headline()}>'

    def _repr_html_(self) -> str:
        tables = _html(self._link_rows(), _LINK_COLUMNS) + _html(self._fit_rows(), _FIT_COLUMNS)
        return f'<p>Result {escape(self._headline())}</p>{tables}'

    @property
    def links(self) -> Any:
        """
        Data frame of the links, by name.

        Mass [kg], centre of mass x, y, z in the joint's frame [m] and principal moments of inertia
        at it I1, I2, I3 [kg m^2], as identified and, with ``_before``, by the prior.
        """
        return _frame(self._link_rows(), 'link')

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
        return _frame(self._fit_rows(), 'joint')

    def _headline(self) -> str:
        document = self.to_document()
        identification, structure = document['identification'], document['structure']
        error = identification.get('relative_error')
        physical = document['consistency']['physical']
        parts = (
            f'{structure["base"]} base parameters of {len(identification["joints"])} joints',
            'no effort to compare with' if error is None else f'error of the effort {error:.1f} %',
            f'physically {"consistent" if physical else "inconsistent"}',
        )
        return f"of '{document['name']}': {', '.join(parts)}"

    def _link_rows(self) -> list[Row]:
        """Return a row for each link that has all ten inertial parameters."""
        bodies: dict[str, list[tuple[float, float]]] = {}
        for entry in self.to_document()['standard_parameters']:
            owner, _, symbol = entry['name'].rpartition('.')
            if symbol in INERTIAL_SYMBOLS:
                bodies.setdefault(owner, []).append((entry['value'], entry['prior']))
        rows: list[Row] = []
        for link, pairs in bodies.items():
            if len(pairs) < len(INERTIAL_SYMBOLS):
                continue
            row: dict[str, Any] = {'link': link}
            for suffix, inertial in zip(('', '_before'), np.array(pairs, dtype=float).T):
                body = MassProperties.of(inertial)
                values = [body.mass, *body.centre_of_mass, *body.principal_inertias]
                names = ('mass', 'x', 'y', 'z', 'I1', 'I2', 'I3')
                row.update((f'{name}{suffix}', float(value)) for name, value in zip(names, values))
            rows.append(row)
        return rows

    def _fit_rows(self) -> list[Row]:
        """Return a row for each joint of the identification, and of each validation."""
        document = self.to_document()
        fits = [('identification', document['identification'])]
        for seen in document.get('validation') or ():
            fits.append((', '.join(seen.get('recordings') or ['validation']), seen))
        return [
            {'joint': joint, 'of': name, **values}
            for name, figures in fits
            for joint, values in figures['joints'].items()
        ]


def _html(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """Return columns of rows, with their headings, as an HTML table."""

    def cell(value: Any) -> str:
        if value is None or value != value:
            return ''
        return f'{value:.4g}' if isinstance(value, float) else escape(str(value))

    head = ''.join(f'<th>{heading}</th>' for heading in columns.values())
    body = ''.join(
        f'<tr>{"".join(f"<td>{cell(row.get(name))}</td>" for name in columns)}</tr>'
        for row in rows
    )
    return f'<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _frame(rows: Sequence[Row], index: str) -> Any:
    """Return rows as a data frame; raises IdentificationError if pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        raise missing_extra('pandas', 'notebook') from error
    return pandas.DataFrame.from_records(list(rows)).set_index(index)
