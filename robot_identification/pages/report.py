# SPDX-License-Identifier: Apache-2.0
"""
The report: one HTML file that needs nothing beside it, and no network.

It opens with the verdict and the links before and after; the figures of merit follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
import warnings

import numpy as np
import yaml

from ..errors import IdentificationWarning, unique_texts
from ..estimation.estimate import JointFit, NOT_COVERED
from ..estimation.estimators import ESTIMATORS
from ..figures import fit_plots, parameter_plots, signal_plots
from ..figures.page import figure_store, number, percent, render, Tile
from ..model.floating_base import row_name, row_titles
from ..options.fields import to_mapping
from ..results.exported_files import ORIGINAL, URDF
from ..results.result import Result
from ..verdicts.verdict import verdict
from .first_screen import Places
from .summary import screen, summary

MOST_POINTS = 100_000
"""Points of all joints and recordings on a page, some 2.7 MB; lines of many joints get fewer."""


PLACES = Places(
    experiment='experiment.yaml',
    result='result.yaml',
    product='identified.urdf',
    details='the details below',
)
"""Files as the page names them: those of its own folder."""


def html(result: Result) -> str:
    """
    Return the report of ``result`` as the text of an HTML document.

    Warns
    -----
    IdentificationWarning
        naming figures that cannot be drawn; the report has the others.

    """
    figures, missing = figure_store()
    drawn, failures = _figures(result) if figures else (dict[str, Any](), ())
    failures = (*missing, *failures)
    for failure in failures:
        warnings.warn(failure, IdentificationWarning, stacklevel=2)
    shown = unique_texts(collect_warnings(result), failures)
    return render(
        'report.html',
        result=result,
        not_covered=NOT_COVERED,
        method=ESTIMATORS[result.estimate.method].title,
        screen=screen(result, PLACES, warnings=len(shown)),
        verdict=verdict(result),
        text=summary(result, verbose=True),
        payload_verdict=None if result.payload is None else verdict(result.payload),
        bodies=result.link_table(),
        knowledge=[known.sentence for known in result.link_knowledge()],
        tiles=list(_tiles(result)),
        notes=unique_texts(
            *(each.notes for each in (result.estimate, result.essential) if each is not None)
        ),
        warnings=shown,
        units=result.units,
        row_name=row_name,
        row_titles=row_titles,
        parameters=list(_parameters(result)),
        standard=result.standard_rows(),
        links=result.consistency.links,
        figures=figures,
        drawn=drawn,
        settings=settings_text(result),
    )


def collect_warnings(result: Result) -> tuple[str, ...]:
    """Return every warning of the result and of its parts, each once."""
    parts = (result, result.robot, result.structure, result.estimate, result.essential)
    texts = [text for part in parts for text in getattr(part, 'warnings', ())]
    return unique_texts(texts)


def settings_text(result: Result) -> str:
    """Return the settings of the result in the form of an experiment file."""
    robot = result.robot
    model = to_mapping(result.settings.model)
    document = {
        'robot': {
            'urdf': robot.name if robot.path is None else robot.path.name,
            'joints': list(robot.joints),
            'locked': dict(robot.locked),
            'gravity': robot.gravity.tolist(),
            'effort_kind': result.settings.effort_kind,
            'drives': to_mapping(result.settings.drives),
            **model,
        },
        'signals': to_mapping(result.settings.signals),
        'estimation': to_mapping(result.settings.estimation),
    }
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=88)


def _tiles(result: Result) -> Iterator[Tile]:
    estimate, structure = result.estimate, result.structure
    yield Tile(
        'relative error',
        f'{percent(estimate.fit.relative_error)} %',
        f'{percent(estimate.fit.raw_relative_error)} % of the unfiltered effort',
    )
    for i, validation in enumerate(result.validations):
        label = 'validation' if len(result.validations) == 1 else f'validation {i + 1}'
        note = f'{percent(validation.raw_relative_error)} % of the unfiltered effort'
        yield Tile(label, f'{percent(validation.relative_error)} %', note)
    yield from _file_tiles(result)
    note = f'of {structure.n_standard} standard'
    if result.essential is not None and result.essential.essential is not None:
        note += f', {int(result.essential.essential.sum())} essential'
    yield Tile('base parameters', str(structure.n_base), note)
    reached = int(np.count_nonzero(estimate.identifiability.excited))
    if reached < structure.n_base:
        missing = structure.n_base - reached
        yield Tile('excited', str(reached), f'{missing} are not reached by the recording', 'poor')
    note = f'column-scaled; {number(estimate.rows.raw_condition_number, 3)} raw'
    yield Tile('condition number', number(estimate.rows.condition_number, 3), note)


def _file_tiles(result: Result) -> Iterator[Tile]:
    """Iterate over what the URDF alone misses of each recording that it is held against."""
    for recording in () if result.files is None else result.files.recordings:
        error, original = recording.of(URDF), recording.of(ORIGINAL)
        if error is not None:
            note = 'of the recordings it comes from' if recording.identified else ''
            if original is not None:
                note = f'{percent(original.relative_error)} % by the URDF that it came from'
            yield Tile('identified URDF alone', f'{percent(error.relative_error)} %', note)


def _parameters(result: Result) -> Iterator[dict[str, Any]]:
    """Rows of the table of base parameters."""
    estimate, essential = result.estimate, result.essential
    mask = None if essential is None else essential.essential
    settings = result.settings.estimation.essential
    limit = None if settings is None else settings.max_relative_std
    prior = result.structure.project(result.prior).values
    for i, parameter in enumerate(estimate):
        kept = None if mask is None else bool(mask[i])
        word = 'estimated' if kept is None else 'essential' if kept else 'not essential'
        yield {
            'name': parameter.name,
            'expression': '' if parameter.expression == parameter.name else parameter.expression,
            'unit': parameter.unit,
            'prior': float(prior[i]),
            'value': parameter.value,
            'std': parameter.std,
            'relative_std': parameter.relative_std,
            'classical_std': parameter.classical_std,
            'low': parameter.bootstrap_low,
            'high': parameter.bootstrap_high,
            'essential': None if essential is None or not kept else essential.base.values[i],
            'precision': parameter_plots.precision(parameter.relative_std, limit),
            'word': word if estimate.identifiability.excited[i] else 'not excited',
            'reason': estimate.identifiability.reasons[i],
        }


def _figures(result: Result) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the figures by name, and why some of them are missing."""
    estimate, names = result.estimate, result.units
    settings = result.settings.estimation.essential
    limit = None if settings is None else settings.max_relative_std
    prior = result.structure.project(result.prior)
    trace, fitted = result.system.trace.fit(estimate.base.values), estimate.fit.joints
    seen = [(trace, fitted), *((v.trace, v.joints) for v in result.validations)]
    lines = sum(len(joints) for trace, joints in seen if len(trace))
    most = min(fit_plots.MOST_POINTS, max(500, MOST_POINTS // max(1, lines)))
    failures: list[str] = []

    def drawn(name: str, figure: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return figure(*arguments)
        except Exception as error:  # a report without a figure is better than none
            failures.append(f"figure '{name}' is not drawn: {type(error).__name__}: {error}")
            return None

    def units(fits: Sequence[JointFit]) -> tuple[str, ...]:
        return tuple(names[fit.joint] for fit in fits)

    def efforts(name: str, number: int) -> Any:
        trace, fits = seen[number]
        if not len(trace):  # factors have no samples to plot
            return None
        time = f'{name} {number}'
        return drawn(name, fit_plots.effort_figures, trace, fits, units(fits), time, most)

    robot = result.robot
    kinds = robot.effort_units[robot.n_joints - len(robot.driven_joints) :]
    positions = ['rad' if unit == 'N m' else 'm' for unit in kinds]
    figures = {
        'links': drawn(
            'links', parameter_plots.link_figure, result.robot, result.prior, result.standard
        ),
        'identification': efforts('identification', 0),
        'residuals': drawn(
            'residuals', fit_plots.residual_figures, trace, fitted, units(fitted)
        ) if len(trace) else None,
        'validations': [efforts('validation', i) for i in range(1, len(seen))],
        'signals': drawn(
            'signals', signal_plots.signal_figures, result.recorded.signals, positions
        ) if result.recorded.signals else None,
        'prior': drawn('prior', parameter_plots.prior_figure, estimate, prior),
        'deviations': drawn(
            'deviations', parameter_plots.deviation_figure, estimate, limit
        ),
        'singular_values': drawn(
            'singular_values', parameter_plots.singular_value_figure, result.structure
        ),
    }  # fmt: skip
    return figures, tuple(failures)
