# SPDX-License-Identifier: Apache-2.0
"""The file of what an online identification has learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import IdentificationError, ModelError, SettingsError
from ..estimation.factor import ModelSignature
from ..estimation.recursive.rls import RecursiveState
from ..untrusted.compressed import ArrayArchive, DAMAGED
from ..untrusted.files import open_regular
from ..untrusted.writing import whole_file

_FORMAT = 'robot_identification online 1'


def save_state(
    path: Path, state: RecursiveState, signature: ModelSignature, weights: np.ndarray
) -> None:
    """Write the state of a model with (n,) weights of the joints; the file is replaced at once."""
    try:
        with whole_file(path) as file:
            np.savez(
                file,
                format=_FORMAT,
                joints=signature.joints,
                parameters=signature.parameters,
                base=signature.base,
                regrouping=signature.regrouping,
                fixed=signature.rows,
                weights=weights,
                accumulated=state.accumulated,
                initial=state.initial,
                rows=state.rows,
                independent=state.independent,
            )
    except OSError as error:
        raise IdentificationError(
            f"cannot write '{path}': {error.strerror or error}",
            file=str(path),
            remedy='choose another file, or make room',
        ) from error


def load_state(path: str | Path, signature: ModelSignature, weights: np.ndarray) -> RecursiveState:
    """Read a state that was written for the same model and weights."""
    try:
        with open_regular(path) as stream:
            archive = ArrayArchive(stream)
            held = {name: archive.array(name) for name in archive.arrays}
        if str(held['format']) != _FORMAT:
            raise ValueError(f"its format is '{held['format']}'")
        joints, parameters, base = (
            tuple(held[key].tolist()) for key in ('joints', 'parameters', 'base')
        )
        found = ModelSignature(joints, parameters, base, held['regrouping'], held['fixed'])
        state = RecursiveState(
            held['accumulated'], held['initial'], int(held['rows']), float(held['independent'])
        )
    except DAMAGED as error:
        reason = getattr(error, 'strerror', None) or str(error)
        raise IdentificationError(
            f"cannot read '{path}' as the state of an online identification: {reason}",
            file=str(path),
            remedy='name a file that the online identification has saved',
        ) from error
    other = signature.difference(found)
    if other is not None:
        raise ModelError(f"'{path}' is of another model: {other.message}", file=str(path))
    if not np.array_equal(held['weights'], weights):
        raise SettingsError(
            f"the rows in '{path}' were weighted differently",
            file=str(path),
            value=held['weights'].tolist(),
            remedy='use these weights, or start again',
        )
    return state
