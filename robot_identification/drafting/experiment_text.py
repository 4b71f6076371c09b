# SPDX-License-Identifier: Apache-2.0
"""Text of a drafted experiment file, with comments, from its template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
import os
from pathlib import Path
from typing import Any

import yaml

from ..config.experiment_file import MODELINE
from ..data.columns import columns_of, Signal
from ..data.drives import Drives
from ..data.recording_config import RecordingEntry
from ..figures.figure import templates
from ..version import page

_MEANINGS = {
    'position': 'q = matrix @ recorded position + offset',
    'effort': 'effort at the joint = matrix @ recorded effort',
}


def experiment_text(
    kind: str,
    draft: Any,
    urdf: Path,
    folder: Path,
    *,
    signals: Sequence[str],
    drives: Drives | None,
    imus: Sequence[Mapping[str, Any] | None] | None = None,
    **fields: Any,
) -> str:
    """
    Return the experiment file of a draft.

    Parameters
    ----------
    kind:
        ``efforts``, ``floating``, ``commands`` or ``tool``.
    draft:
        A `Draft`, `FloatingDraft`, `ServoDraft` or `ToolDraft`.
    urdf, folder:
        The robot's file, and the folder of the experiment file; paths in it are relative to that.
    signals:
        Keys of a recording that name columns.
    drives:
        From what is recorded to the joints; None for nothing.
    imus:
        Keys of each recording's IMU, with which contacts are written; None for none.
    fields:
        Further names of the template.

    """
    environment = templates(autoescape=False, keep_trailing_newline=True)
    path = partial(relative_path, folder=folder)
    environment.filters.update(flow=flow, columns=_columns, path=path)
    return environment.get_template('experiment.yaml.j2').render(
        kind=kind,
        draft=draft,
        urdf=urdf,
        signals=signals,
        draft_drives=drives,
        meanings=_MEANINGS,
        imus=imus or [None] * len(draft.entries),
        least_threshold=RecordingEntry.contact_threshold,
        modeline=MODELINE,
        reference=page('reference/experiment'),
        currents_page=page('how_to/currents'),
        **fields,
    )


def relative_path(path: str | os.PathLike, folder: Path) -> str:
    """Return a path, or an address, relative to a folder, as YAML."""
    if '://' in str(path):
        return str(path)
    return flow(os.path.relpath(Path(path).absolute(), folder.absolute()))


def flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, tuple):
        value = list(value)
    elif isinstance(value, Mapping):
        value = dict(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix('...\n').strip()


def _columns(signal: Signal) -> Any:
    """Return an array's name, or the columns of a signal."""
    return signal if isinstance(signal, str) else columns_of(signal)
