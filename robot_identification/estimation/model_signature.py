# SPDX-License-Identifier: Apache-2.0
"""
Signature of the model and the signal settings behind a QR factor.

Names are compared as they are, numbers that come from arithmetic to rounding: a structure that was
found on another machine differs in its last digits.  Matrices are held as their product with one
fixed vector, which is small and different for different matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base_parameters import BaseStructure
from ..data.recording import Motion
from ..errors import IdentificationError, ModelError, one_of, SettingsError
from ..regressor import Regressor
from .plot_samples import read_only

ROUNDING = 1e-7
"""Largest difference of numbers from arithmetic, relative to the largest of them."""

_MISSING = object()


@dataclass(frozen=True, eq=False)
class ModelSignature:
    """
    Identifies a problem: robot, model and settings.

    Attributes
    ----------
    joints:
        What the n rows of a sample are called: the joints' names, or that of the energy.
    parameters:
        Names of the standard parameters, the columns of the regressor.
    base:
        (b,) names of the base parameters.
    regrouping:
        (b,) the structure's regrouping times a fixed vector.
    rows:
        (n, s) the regressor's rows of s fixed motions times a fixed vector, for geometry and
        gravity; (n, 0) where that is not known.
    settings:
        All settings that the rows depend on, nested, as plain values.

    """

    joints: tuple[str, ...]
    parameters: tuple[str, ...]
    base: tuple[str, ...]
    regrouping: np.ndarray
    rows: np.ndarray
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def of(
        cls,
        structure: BaseStructure,
        joints: Sequence[str],
        *,
        regressor: Regressor | None = None,
        motion: Motion | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> ModelSignature:
        """
        Return the fingerprint of a problem.

        Parameters
        ----------
        structure:
            The base parameters.
        joints:
            What the rows of a sample are called.
        regressor, motion:
            The regressor and the fixed motions; None for base parameters and joints alone.
        settings:
            As the attribute; None for none.

        """
        rows = np.empty((len(joints), 0))
        if regressor is not None and motion is not None:
            flat = regressor.rows(motion) @ probe(structure.n_standard)
            rows = flat.reshape(-1, regressor.n_joints).T
            if len(rows) != len(joints):
                # one row for all joints together
                rows = rows.sum(axis=0, keepdims=True)
        return cls(
            joints=tuple(joints),
            parameters=structure.layout.names,
            base=structure.names,
            regrouping=structure.regrouping @ probe(structure.n_standard),
            rows=rows,
            settings={} if settings is None else settings,
        )

    def difference(self, other: ModelSignature) -> IdentificationError | None:
        """
        Say in what two problems differ.

        Returns
        -------
        IdentificationError or None
            The first difference, as an error that names it: `SettingsError` with the key of a
            setting, else `ModelError`.  None where there is none.

        """
        if self is other:
            return None
        for what, mine, others in (
            ('joints', self.joints, other.joints),
            ('parameters', self.parameters, other.parameters),
            ('base parameters', self.base, other.base),
        ):
            if mine != others:
                return _other_names(what, mine, others)
        for key, mine, others in _differing(self.settings, other.settings):
            return SettingsError(
                f"'{key}' is {_shown(mine)} here and {_shown(others)} there",
                key=key,
                value=mine,
                remedy='reduce the recordings again, all with the same settings',
            )
        return self._other_numbers(other)

    def _other_numbers(self, other: ModelSignature) -> ModelError | None:
        name = _apart(self.base, self.regrouping, other.regrouping)
        if name is not None:
            return ModelError(
                f"base parameter '{name}' is another combination of standard parameters here than "
                'there: the robots differ in their geometry',
                value=name,
                remedy='keep robots of different geometry apart',
            )
        joint = _apart(self.joints, self.rows, other.rows)
        if joint is not None:
            return ModelError(
                f"the same motion gives joint '{joint}' other rows here than there: the robots "
                'differ in geometry, gravity or friction',
                joint=joint,
                remedy='keep robots of different geometry or mounting apart',
            )
        return None


def probe(size: int) -> np.ndarray:
    """Return the fixed vector that matrices are multiplied with, (size,) between 0.5 and 1.5."""
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    return 0.5 + np.mod(golden * np.arange(1, size + 1), 1.0)


def _other_names(what: str, mine: tuple[str, ...], others: tuple[str, ...]) -> ModelError:
    """Return the error for names that are not the same."""
    here = [name for name in mine if name not in others]
    there = [name for name in others if name not in mine]
    if not here and not there:
        text = f'the {what} are in another order: {one_of(mine)} here, {one_of(others)} there'
    else:
        parts = [
            f'{one_of(names, 4)} {"is" if len(names) == 1 else "are"} {place} only'
            for names, place in ((here, 'here'), (there, 'there'))
            if names
        ]
        text = f'the {what} are not the same: {", ".join(parts)}'
    return ModelError(
        text, value=tuple(here or there or mine), remedy='keep different models apart'
    )


def _differing(
    mine: Mapping[str, Any], others: Mapping[str, Any], path: str = ''
) -> Iterator[tuple[str, Any, Any]]:
    """Iterate over key paths with different values."""
    for key in dict.fromkeys((*mine, *others)):
        place = f'{path}.{key}' if path else str(key)
        one, two = mine.get(key, _MISSING), others.get(key, _MISSING)
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            yield from _differing(one, two, place)
        elif one is not two and one != two:
            yield place, one, two


def _apart(names: tuple[str, ...], mine: np.ndarray, others: np.ndarray) -> str | None:
    """Name the first of the numbers that differ by more than rounding."""
    if mine.shape != others.shape:
        return names[0] if names else ''
    scale = max(np.abs(mine).max(initial=0.0), np.abs(others).max(initial=0.0))
    far = np.argwhere(~(np.abs(mine - others) <= ROUNDING * scale))
    return names[far[0, 0]] if far.size else None


def _shown(value: Any) -> str:
    return 'missing' if value is _MISSING else repr(value)
