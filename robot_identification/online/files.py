# SPDX-License-Identifier: Apache-2.0
"""File of the state of an online identifier."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..errors import (
    IdentificationError,
    ModelError,
    SettingsError,
)
from ..estimation import ModelSignature
from ..estimation.recursive_estimate import RecursiveState
from ..untrusted.compressed import DAMAGED, open_archive
from ..untrusted.files import open_regular

_FORMAT = 'robot_identification online 1'


def save_state(
    path: str | Path, state: RecursiveState, signature: ModelSignature, weights: np.ndarray
) -> None:
    """
    Write the state of a model with (n,) weights of the joints; the file is replaced at once.

    Raises
    ------
    IdentificationError
        where the file cannot be written.

    """
    path = Path(path)
    part = path.with_name(f'.{path.name}.{os.getpid()}')
    try:
        with open(part, 'wb') as file:
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
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise IdentificationError(
            f"cannot write '{path}': {error.strerror or error}",
            file=str(path),
            remedy='choose another file, or make room',
        ) from error


def load_state(path: str | Path, signature: ModelSignature, weights: np.ndarray) -> RecursiveState:
    """
    Read a state that `save_state` wrote for the same model and weights.

    Raises
    ------
    IdentificationError
        where the file cannot be read.
    ModelError
        where it is of another robot or model.
    SettingsError
        where the rows were weighted differently.

    """
    try:
        with open_regular(path) as stream, open_archive(stream) as archive:
            held = {name: archive.array(name) for name in archive.arrays}
        if str(held['format']) != _FORMAT:
            raise ValueError(f"its format is '{held['format']}'")
        joints, parameters, base = (
            tuple(held[key].tolist()) for key in ('joints', 'parameters', 'base')
        )
        found = ModelSignature(joints, parameters, base, held['regrouping'], held['fixed'])
        state = RecursiveState(
            held['accumulated'],
            held['initial'],
            int(held['rows']),
            float(held['independent']),
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
            remedy='use these weights, or start anew',
        )
    return state
