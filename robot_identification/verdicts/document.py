# SPDX-License-Identifier: Apache-2.0
"""The file ``verdict.json``: the verdict on an arm, its figures and links, for programs."""

from __future__ import annotations

from collections.abc import Sequence
import json
from typing import Any

import numpy as np

from ..options.document import plain
from ..results.result import Result
from ..version import __version__
from .fit_criteria import speed_ratios, unseen
from .recording_criteria import known_parameters
from .verdict import verdict

SCHEMA = 1
"""Number of the form of ``verdict.json``; it changes when a key changes its meaning or goes."""


def verdict_document(result: Result) -> dict[str, Any]:
    """Return the content of ``verdict.json``, see docs/reference/verdict.md; not finite: None."""
    table = result.link_table().to_dict()
    for entry, known in zip(table['links'], result.link_knowledge(), strict=True):
        entry |= {'known': known.kind, 'sentence': str(known)}
    document = {
        'schema': SCHEMA,
        'version': __version__,
        'name': result.name,
        'robot': result.robot.name,
        **verdict(result).to_dict(),
        'figures': figures(result),
        **table,
        'payload': None if result.payload is None else verdict(result.payload).to_dict(),
    }
    return dict(plain(document))


def verdict_json(result: Result) -> str:
    """Return the text of ``verdict.json``, strict JSON."""
    return json.dumps(verdict_document(result), indent=2, ensure_ascii=False, allow_nan=False)


def figures(result: Result) -> dict[str, Any]:
    """Return the figures that the criteria look at."""
    estimate, late = result.estimate, result.recorded.effort_delay
    speeds = speed_ratios(result.system.factor.highest_speed, unseen(result))
    return {
        'fit_error': estimate.fit.relative_error,
        'validation_errors': [seen.relative_error for seen in result.validations],
        'predicted_errors': None if result.predicted is None else result.predicted.to_dict(),
        'file_errors': [
            {
                'sources': recording.sources,
                'identified': recording.identified,
                'errors': {error.file: error.relative_error for error in recording.errors},
            }
            for recording in (() if result.files is None else result.files.recordings)
        ],
        'condition_number': estimate.rows.condition_number,
        'base_parameters': len(estimate),
        'excited': int(np.count_nonzero(estimate.identifiability.excited)),
        'known': known_parameters(estimate),
        'physical': result.consistency.physical,
        'plausible': result.plausible,
        'speed_ratio': _by_joint(result.robot.joints, speeds),
        'delay': {} if late is None else _by_joint(late.joints, late.delay),
        'residuals': {}
        if result.recorded.residuals is None
        else result.recorded.residuals.to_dict(),
    }


def _by_joint(joints: Sequence[str], values: np.ndarray) -> dict[str, float]:
    return dict(zip(joints, np.asarray(values, dtype=float).tolist(), strict=False))
