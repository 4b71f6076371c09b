# SPDX-License-Identifier: Apache-2.0
"""Files of a live estimate."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..config.problem import IdentificationProblem
from ..errors import collected_warnings, IdentificationError
from ..estimation.prior import body_scale, standard
from ..estimation.recursive.elimination import ACCEPTED, WEAK
from ..exports.urdf_export import identified_urdf
from ..model.parameters import ParameterSet
from ..options.document import dump, plain
from ..untrusted.writing import reported_failures, write_together
from .follower import Snapshot

_WORDS = {ACCEPTED: 'IDENTIFIED', WEAK: 'NOT_EXCITED'}
_REMEDY = 'choose another folder by the parameter output'


def save_live(snapshot: Snapshot, problem: IdentificationProblem, folder: Path) -> str:
    """
    Write ``online.yaml`` and ``identified.urdf`` into a folder; return a summary.

    ``online.yaml`` names standard parameters, too, so that it can be given as ``estimation.prior``
    to what comes later.  Raises `IdentificationError` naming a folder that cannot be written to.
    """
    base = snapshot.structure
    found = ParameterSet(base.base_layout, snapshot.estimate.values)
    by_bodies = problem.estimation.distance == 'body'
    scale = body_scale(problem.robot, base.layout) if by_bodies else None
    nearest = standard(found, base, problem.prior(), scale=scale)
    files: dict[Path, str] = {}
    failures: list[str] = []
    with collected_warnings() as warnings:
        try:
            files[folder / 'identified.urdf'] = identified_urdf(
                problem.robot, nearest, problem.model
            )
        except IdentificationError as error:
            failures.append(f'identified.urdf is not written: {error}')
    remarks = [*warnings, *failures]
    files[folder / 'online.yaml'] = dump(plain(_document(snapshot, problem, nearest, remarks)))
    with reported_failures(folder, remedy=_REMEDY):
        write_together(files)
    identified = int((snapshot.estimate.flags == ACCEPTED).sum())
    return '; '.join(
        [f'{identified} of {len(found.values)} base parameters identified, written to {folder}']
        + remarks
    )


def fresh_folder(folder: Path) -> Path:
    """Make a folder that did not exist, with a number behind its name where that is taken."""
    number, fresh = 0, folder
    while fresh.exists():
        number += 1
        fresh = folder.with_name(f'{folder.name}_{number}')
    with reported_failures(fresh, remedy=_REMEDY):
        fresh.mkdir(parents=True)
    return fresh


def _document(
    snapshot: Snapshot, problem: IdentificationProblem, nearest: ParameterSet, remarks: list[str]
) -> dict[str, Any]:
    """Return the content of ``online.yaml``."""
    base, estimate = snapshot.structure, snapshot.estimate
    with np.errstate(divide='ignore', invalid='ignore'):
        relative = 100.0 * estimate.std / np.abs(estimate.values)
    return {
        'robot': problem.robot.name,
        'joints': problem.robot.joints,
        'stamp': 1e-9 * snapshot.stamp,
        'period': snapshot.period,
        'rows': estimate.rows,
        'residual_std': estimate.residual_std,
        'joint_states': asdict(snapshot.account),
        'stream': asdict(snapshot.counts),
        'clock': snapshot.clock,
        'effort_delay': None if snapshot.delay is None else snapshot.delay.to_dict(),
        'parameters': [
            {
                'name': name,
                'expression': base.expressions[i],
                'unit': base.base_layout.units[i],
                'value': estimate.values[i],
                'std': estimate.std[i],
                'relative_std': relative[i],
                'state': _WORDS.get(int(estimate.flags[i]), 'DEPENDENT'),
            }
            for i, name in enumerate(base.base_layout.names)
        ],
        'standard_parameters': [
            {'name': name, 'value': value}
            for name, value in zip(nearest.layout.names, nearest.values, strict=True)
        ],
        'covariance': estimate.covariance,
        'warnings': remarks,
    }
