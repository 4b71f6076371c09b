# SPDX-License-Identifier: Apache-2.0
"""Settings of a plan: joints, planner and regressor, of a file of their own or of the nodes'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
import os
from typing import Any

from ..errors import SettingsError
from ..options.document import Document, override, read_document
from ..options.fields import describe, from_mapping, option, settings_error
from ..regressor import ModelSettings
from .settings import PlannerSettings
from .standing_settings import StandingSettings

NODES = ('/**', '/**/excitation', '/excitation', 'excitation')
"""Names of the node in a parameter file, from the most general on."""


@dataclass(frozen=True)
class PlanningSettings:
    """Joints that move, settings of the planner, and terms of the regressor."""

    joints: tuple[str, ...] = option(
        (), doc='Joints that move, in the order of all lists; empty: every moving one'
    )
    locked: Mapping[str, float] = option(
        factory=dict, doc='Other moving joints and their positions', unit='rad or m'
    )
    planner: PlannerSettings = option(doc='The planner', factory=PlannerSettings)
    robot: ModelSettings = option(doc='The regressor', factory=ModelSettings)
    standing: StandingSettings = option(
        doc='The motion of a robot with a floating base', factory=StandingSettings
    )


def load_planning(
    path: str | os.PathLike | None = None, overrides: Mapping[str, Any] | None = None
) -> PlanningSettings:
    """
    Read settings of a plan.

    Parameters
    ----------
    path:
        YAML with keys of `PlanningSettings`, or a parameter file of nodes, of which the excitation
        node's are taken; None takes the defaults.
    overrides:
        Values by dotted key that replace the file's, for example ``{'planner.floor': 0.0}``; text
        is read as YAML.

    Raises
    ------
    SettingsError
        naming file, line and key.

    """
    document = Document({}) if path is None else read_document(path)
    content = document.content
    if not isinstance(content, dict):
        raise SettingsError(
            f'{document.file}: expected a mapping with the keys planner and robot',
            file=document.file,
            remedy="for example 'planner: {duration: 20.0}'",
        )
    if any(isinstance(part, dict) and 'ros__parameters' in part for part in content.values()):
        content = _of_node(content)
    try:
        override(content, overrides or {})
        return from_mapping(PlanningSettings, content)
    except SettingsError as error:
        where = '' if error.key in (overrides or {}) else document.where(error.key or '')
        message = f'{where}: {error.message}' if where else error.message
        raise settings_error(error, message, file=document.file or None) from error


def _of_node(content: dict[str, Any]) -> dict[str, Any]:
    """Return the excitation node's planning parameters of a parameter file."""
    known = {info.name for info in describe(PlanningSettings)}
    found: dict[str, Any] = {}
    for name in NODES:
        part = content.get(name)
        given = part.get('ros__parameters') if isinstance(part, dict) else None
        for key, value in (given or {}).items():
            if key in known and isinstance(value, dict):
                found[key] = {**found.get(key, {}), **_without_nan(value)}
            elif key in known:
                found[key] = value
    planner = found.get('planner', {})
    group = planner.get('obstacles')
    if isinstance(group, dict):
        names = group.get('names') or ()
        planner['obstacles'] = [{'name': name, **(group.get(name) or {})} for name in names]
    return found


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """Return a group of parameters with None for NaN, by which nodes write it."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in values.items()
    }
