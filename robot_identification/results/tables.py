# SPDX-License-Identifier: Apache-2.0
"""
Tables of a result: links before and after; links and fits as HTML and data frames.

Masses, centres of mass c = h / m and principal moments of I_c = I - (h'h 1 - h h') / m come from
the parameters m, h, I at the joint's frame, their standard deviations from the covariance of these
to first order: a principal moment with the direction v changes by v' dI_c v.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..data.drives import Drives
from ..data.recording import Motion
from ..errors import importing, one_of, SettingsError
from ..estimation.estimators import EstimationSettings
from ..model.consistency import inertia_at_com
from ..model.parameters import body_links, INERTIAL_SYMBOLS, ParameterSet
from ..model.robot import Robot
from ..regressor import build, ModelSettings, predict
from ..signals import SignalSettings


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
    def from_parameters(cls, inertial: np.ndarray) -> MassProperties:
        """Make it of the ten inertial parameters of a link."""
        inertial = np.asarray(inertial, dtype=float)
        mass = float(inertial[0])
        if not mass > 0.0:
            return cls(mass, np.full(3, np.nan), np.full(3, np.nan))
        return cls(mass, inertial[1:4] / mass, np.linalg.eigvalsh(inertia_at_com(inertial)))


@dataclass(frozen=True)
class LinkChange:
    """
    A link before and after.

    Attributes
    ----------
    link:
        Name of the link.
    before, after:
        By the prior, and as identified.
    std:
        Standard deviations of ``after``; NaN where the recordings do not determine it.
    change:
        Of the mass [%]; NaN where there was none before.

    """

    link: str
    before: MassProperties
    after: MassProperties
    std: MassProperties
    change: float


@dataclass(frozen=True)
class LinkTable:
    """
    The links of a robot before and after.

    Attributes
    ----------
    links:
        Those with all ten inertial parameters.
    before, after, std:
        Their mass together, and its standard deviation, NaN where not determined [kg].

    """

    links: tuple[LinkChange, ...]
    before: float
    after: float
    std: float

    @property
    def change(self) -> float:
        """Change of the total mass [%]."""
        return _change(self.before, self.after)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows and the total as plain numbers."""
        names = ('before', 'after', 'std', 'change')
        return {
            'links': [asdict(link) for link in self.links],
            'total_mass': {name: getattr(self, name) for name in names},
        }


def link_table(
    prior: ParameterSet,
    standard: ParameterSet,
    covariance: np.ndarray | None,
    categories: Sequence[str],
) -> LinkTable:
    """
    Return the links before and after an identification.

    Standard deviations are NaN where no motion determines a value, or the method has none; such
    values are the prior's, or depend on it.  That of the total mass counts the prior's spread, if
    the method does.

    Parameters
    ----------
    prior, standard, covariance:
        As `prior`, `standard` and `standard_covariance` of a result.
    categories:
        (p,) of the parameters, as of `BaseStructure`.

    """
    layout = standard.layout
    links = body_links(layout)
    if covariance is None:
        covariance = np.full((len(layout), len(layout)), np.nan)
    unknown = np.array(categories) == 'unidentifiable'
    known = np.where(unknown | unknown[:, None], np.nan, covariance)
    changes = []
    for link in links:
        part = known[layout.slice_of(link), layout.slice_of(link)]
        before, after = (values.inertial(link) for values in (prior, standard))
        changes.append(
            LinkChange(
                link,
                MassProperties.from_parameters(before),
                MassProperties.from_parameters(after),
                mass_deviations(after, part),
                _change(float(before[0]), float(after[0])),
            )
        )
    masses = layout.indices([f'{link}.m' for link in links])
    return LinkTable(
        links=tuple(changes),
        before=_total(prior, links),
        after=_total(standard, links),
        std=float(np.sqrt(covariance[np.ix_(masses, masses)].sum())),
    )


def mass_deviations(inertial: np.ndarray, covariance: np.ndarray) -> MassProperties:
    """Return first-order standard deviations; NaN where the covariance has NaN."""
    inertial = np.asarray(inertial, dtype=float)
    if not inertial[0] > 0.0:
        return MassProperties(np.nan, np.full(3, np.nan), np.full(3, np.nan))
    mass, first = inertial[0], inertial[1:4]
    centre = np.empty(3)
    for k, lever in enumerate(first / mass):
        part = covariance[np.ix_((0, k + 1), (0, k + 1))]
        centre[k] = _deviation(np.array([-lever, 1.0]) / mass, part)
    moments = [_deviation(row, covariance) for row in _moment_slopes(inertial)]
    return MassProperties(float(np.sqrt(covariance[0, 0])), centre, np.array(moments))


def _total(parameters: ParameterSet, links: Sequence[str]) -> float:
    return float(sum(parameters[f'{link}.m'] for link in links))


def _moment_slopes(inertial: np.ndarray) -> np.ndarray:
    """Return the derivatives of the principal moments by the ten parameters, (3, 10)."""
    mass, first = inertial[0], inertial[1:4]
    directions = np.linalg.eigh(inertia_at_com(inertial))[1].T
    slopes, entries = np.zeros((3, 10)), tuple(zip((0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)))
    for row, v in zip(slopes, directions, strict=True):
        along = first @ v
        # v' I_c v = v' I v - (h'h - (h'v)^2) / m
        row[0] = (first @ first - along**2) / mass**2
        row[1:4] = -2.0 * (first - along * v) / mass
        row[4:] = [v[i] * v[j] * (1.0 if i == j else 2.0) for i, j in entries]
    return slopes


def _deviation(slopes: np.ndarray, covariance: np.ndarray) -> float:
    """Return a standard deviation to first order; NaN where the covariance has NaN."""
    return float(np.sqrt(np.maximum(slopes @ covariance @ slopes, 0.0)))


def _change(before: float, after: float) -> float:
    return 100.0 * (after / before - 1.0) if before > 0.0 else float('nan')


# --------------------------------------------------------------------------- notebooks


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
class ResultSettings:
    """
    Settings that a result comes from.

    Attributes
    ----------
    model, signals, estimation:
        Those of the regressor, of the filters and of the estimator.
    effort_kind:
        What the recorded efforts are.
    drives:
        How recorded signals became those at the joints; None if they were recorded there.

    """

    model: ModelSettings
    signals: SignalSettings
    estimation: EstimationSettings
    effort_kind: str = 'joint_torque'
    drives: Drives | None = None


class ResultView(ABC):
    """
    Inverse dynamics of a result, and its text, HTML tables and data frames.

    Attributes
    ----------
    robot:
        The robot.
    settings:
        What the result comes from.
    standard:
        Standard parameters of the result.

    """

    robot: Robot
    settings: ResultSettings
    standard: ParameterSet

    @abstractmethod
    def to_document(self) -> Mapping[str, Any]:
        """Return the content of the result's file."""

    def inverse_dynamics(
        self, position: ArrayLike, velocity: ArrayLike, acceleration: ArrayLike
    ) -> np.ndarray:
        """
        Return the efforts that motions take, of bodies, rotors, springs, friction and offsets.

        Parameters
        ----------
        position, velocity, acceleration:
            (n_samples, n_joints), or (n_joints,) of one sample, of ``robot.joints`` and, where
            joints are elastic, of their motors behind them [rad, rad/s, rad/s^2; m, m/s, m/s^2
            for prismatic joints].

        Returns
        -------
        ndarray
            Efforts of the same shape [N m; N for prismatic joints].

        Raises
        ------
        SettingsError
            for other shapes.

        """
        regressor = build(self.robot, self.settings.model)
        states = [np.asarray(each, dtype=float) for each in (position, velocity, acceleration)]
        n_joints, shape = regressor.n_joints, states[0].shape
        for name, state in zip(('position', 'velocity', 'acceleration'), states, strict=True):
            if state.shape != shape or state.ndim not in (1, 2) or shape[-1] != n_joints:
                locked = ', '.join(self.robot.locked) or 'none'
                raise SettingsError(
                    f'{name} has shape {state.shape}, position {shape}; expected '
                    f'(n_samples, {n_joints}), or ({n_joints},)',
                    key=name,
                    remedy=f'give columns for {one_of(self.robot.joints)}; locked are {locked}',
                )
        motion = Motion(*(np.atleast_2d(state) for state in states))
        return predict(regressor, motion, self.standard).reshape(shape)

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
                body = MassProperties.from_parameters(inertial)
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
    with importing('pandas'):
        import pandas
    return pandas.DataFrame.from_records(list(rows)).set_index(index)
