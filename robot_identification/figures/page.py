# SPDX-License-Identifier: Apache-2.0
"""Pages: one HTML file each that needs nothing beside it, and no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
import math
import os
from pathlib import Path
import platform
from typing import Any

from markupsafe import Markup

from ..errors import IdentificationError, SettingsError
from ..untrusted.writing import write_whole
from ..version import __version__
from .figure import Figure, FigureStore, library, raised, resource, templates
from .static_figures import StaticFigureStore

_LIBRARIES = ('numpy', 'scipy', 'pin')


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


@dataclass(frozen=True)
class Tile:
    """A figure of merit at the head of the report; ``state`` is good, poor or plain."""

    label: str
    value: str
    note: str = ''
    state: str = 'plain'


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
    screen: Any = None,
) -> Path:
    """
    Write a page of figures; return its path, ``.html``.

    Above them stand ``screen``, the verdict's first screen, and ``summary``, where there are any.

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
        screen=screen,
        drawn=list(figures),
        figures=store,
    )
    try:
        write_whole(path, page)
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}", file=str(path)) from error
    return path


def _libraries(drawing: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    yield 'Python', platform.python_version()
    for name in (*_LIBRARIES, *drawing):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
