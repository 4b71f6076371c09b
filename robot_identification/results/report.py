# SPDX-License-Identifier: Apache-2.0
"""
The report: one HTML file that needs nothing beside it, and no network.

It opens with the verdict and the links before and after; the figures of merit follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
import math
import os
from pathlib import Path
import platform
from typing import Any
import warnings

from markupsafe import Markup
import numpy as np
import yaml

from ..errors import IdentificationError, IdentificationWarning, SettingsError, unique_texts
from ..estimation import JointFit
from ..estimation.estimate import NOT_COVERED
from ..estimators import ESTIMATORS
from ..options.fields import to_mapping
from ..untrusted.writing import write_whole
from ..version import __version__
from . import fit_plots, parameter_plots
from .figure import Figure, FigureStore, library, raised, resource, templates
from .result import Result
from .static_figures import StaticFigureStore
from .verdict import USES, verdict

MOST_POINTS = 100_000
"""Points of all joints and recordings on a page, some 2.7 MB; lines of many joints get fewer."""

_LIBRARIES = ('numpy', 'scipy', 'pin')


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
    return render(
        'report.html',
        result=result,
        not_covered=NOT_COVERED,
        method=ESTIMATORS[result.estimate.method].title,
        verdict=verdict(result),
        uses=USES,
        bodies=result.link_table(),
        knowledge=[known.sentence for known in result.link_knowledge()],
        tiles=list(_tiles(result)),
        notes=unique_texts(
            *(each.notes for each in (result.estimate, result.essential) if each is not None)
        ),
        warnings=unique_texts(collect_warnings(result), failures),
        units=result.units,
        parameters=list(_parameters(result)),
        standard=result.standard_rows(),
        links=result.consistency.links,
        figures=figures,
        drawn=drawn,
        settings=settings_text(result),
    )


def render(name: str, **values: Any) -> str:
    """
    Fill in a template of this room.

    ``values`` come beside style, versions and scripts; ``figures`` is the store of the page's
    figures, if there are any.
    """
    figures = values.get('figures')
    # it keeps the templates that it has compiled
    environment = templates()
    filters = (number, percent, seconds, signed, spread)
    environment.filters.update({each.__name__: each for each in filters}, unit=raised)
    return environment.get_template(name).render(
        style=Markup(resource('style.css')),
        tables_script=Markup(resource('tables.js')),
        figures_script=Markup(resource('figures.js')),
        library=library() if figures is not None and figures.interactive else '',
        libraries=list(_libraries(() if figures is None else (figures.drawn_by,))),
        version=__version__,
        **values,
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


# ---------------------------------------------------------------------------------------- numbers


def number(value: float | None, digits: int = 4) -> str:
    """Return ``value`` with so many significant digits; a dash where there is none."""
    if value is None or math.isnan(value):
        return '–'
    if math.isinf(value):
        return '∞' if value > 0 else '-∞'
    text = f'{value:.{digits}g}'
    return text.replace('e-0', 'e-').replace('e+0', 'e').replace('e+', 'e').replace('-', '−')


def percent(value: float | None) -> str:
    """Return a percentage with two decimals, or three significant digits where it is large."""
    if value is None or math.isnan(value):
        return '–'
    if value >= 1e4:
        return '> 9999'
    return f'{value:.2f}' if value < 100.0 else f'{value:.0f}'


def signed(value: float) -> str:
    """Return a change in per cent with its sign and one decimal."""
    return '–' if math.isnan(value) else f'{round(value, 1) + 0.0:+.1f}'.replace('-', '−')


def spread(std: float) -> str:
    """Return a standard deviation with its sign; a dash where there is none."""
    return '–' if math.isnan(std) else f'± {number(std, 2)}'


def seconds(value: float) -> str:
    """Return a duration in a unit that suits it."""
    return f'{1e3 * value:.0f} ms' if value < 1.0 else f'{value:.2f} s'


# ------------------------------------------------------------------------------------------ parts


@dataclass(frozen=True)
class Tile:
    """A figure of merit at the head of the report; ``state`` is good, poor or plain."""

    label: str
    value: str
    note: str = ''
    state: str = 'plain'


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


def figure_store() -> tuple[FigureStore | StaticFigureStore | None, tuple[str, ...]]:
    """
    Return the store for a page's figures.

    By plotly; without it static figures by matplotlib; without both None, and the reason.
    """
    try:
        library()
        return FigureStore(), ()
    except IdentificationError as error:
        reason = str(error)
    try:
        return StaticFigureStore(), ()
    except ImportError:
        return None, (reason,)


def write_figures(
    path: str | os.PathLike,
    title: str,
    text: str,
    figures: Sequence[Figure],
    summary: str = '',
) -> Path:
    """
    Write a page of figures, below a summary if there is one; return its path, ``.html``.

    Raises
    ------
    SettingsError
        if the file is not named as a page, or cannot be written.
    IdentificationError
        if neither plotly nor matplotlib is installed.

    """
    path = Path(path)
    if path.suffix != '.html':
        raise SettingsError(
            f"'{path}' is no page",
            file=str(path),
            remedy='end it in .html; a figure on the page has a button that saves it as SVG',
        )
    store, missing = figure_store()
    if store is None:
        raise IdentificationError(*missing)
    page = render(
        'figures.html',
        title=title,
        text=text,
        summary=summary,
        drawn=list(figures),
        figures=store,
    )
    try:
        write_whole(path, page)
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}", file=str(path)) from error
    return path


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

    figures = {
        'links': drawn(
            'links', parameter_plots.link_figure, result.robot, result.prior, result.standard
        ),
        'identification': efforts('identification', 0),
        'residuals': drawn(
            'residuals', fit_plots.residual_figures, trace, fitted, units(fitted)
        ) if len(trace) else None,
        'validations': [efforts('validation', i) for i in range(1, len(seen))],
        'prior': drawn('prior', parameter_plots.prior_figure, estimate, prior),
        'deviations': drawn(
            'deviations', parameter_plots.deviation_figure, estimate, limit
        ),
        'singular_values': drawn(
            'singular_values', parameter_plots.singular_value_figure, result.structure
        ),
    }  # fmt: skip
    return figures, tuple(failures)


def _libraries(drawing: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    yield 'Python', platform.python_version()
    for name in (*_LIBRARIES, *drawing):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
