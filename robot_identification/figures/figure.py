# SPDX-License-Identifier: Apache-2.0
"""
Figures as plotly.js has them: their common look, and how a page holds them.

A figure is made without importing plotly: its traces and its layout are plain dictionaries with
NumPy arrays.  A page holds the arrays once, in binary, and plotly.js compressed; ``figures.js``
draws a figure when it comes into view.  Colours are custom properties of ``style.css``, so that
figures follow the page into the dark.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
import json
import re
from typing import Any, TYPE_CHECKING
import zlib

import jinja2
import numpy as np

from ..errors import importing

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

MEASURED, PREDICTED, RESIDUAL = 'var(--measured)', 'var(--predicted)', 'var(--residual)'
GOOD, WEAK, POOR = 'var(--good-bar)', 'var(--weak-bar)', 'var(--poor-bar)'
NONE, PALE = 'var(--none-bar)', 'var(--pale)'
TEXT, SOFT, LINE, CARD = 'var(--text)', 'var(--soft)', 'var(--line)', 'var(--card)'

ROW = 20
"""Height of a row with a name [px]."""

_AXIS = {
    'gridcolor': LINE,
    'zerolinecolor': LINE,
    'linecolor': SOFT,
    'automargin': True,
    'exponentformat': 'power',
    'title': {'font': {'size': 12}, 'standoff': 6},
}

LAYOUT = {
    'font': {'family': 'system-ui, "DejaVu Sans", sans-serif', 'size': 11, 'color': TEXT},
    'paper_bgcolor': 'rgba(0,0,0,0)',
    'plot_bgcolor': 'rgba(0,0,0,0)',
    'margin': {'l': 56, 'r': 12, 't': 34, 'b': 38},
    'hoverlabel': {'bgcolor': CARD, 'bordercolor': LINE, 'font': {'color': TEXT}},
    'legend': {'orientation': 'h', 'x': 0.0, 'y': 1.0, 'yanchor': 'bottom', 'font': {'size': 11}},
    'modebar': {'bgcolor': 'rgba(0,0,0,0)', 'color': SOFT, 'activecolor': TEXT},
    'template': {'layout': {'xaxis': _AXIS, 'yaxis': _AXIS}},
}
"""Look of all figures; a figure's own layout comes on top."""

_TEMPLATES = jinja2.PackageLoader('robot_identification.figures', 'templates')


@dataclass(frozen=True)
class Figure:
    """
    A figure for plotly.

    Attributes
    ----------
    text:
        Description for those who do not see it.
    traces:
        ``data`` of plotly; arrays may be NumPy's.
    layout:
        ``layout`` of plotly, on top of `LAYOUT`.
    time:
        Figures with the same one share their time axis; empty for none.
    joint:
        The joint it is of, by which the page hides it; empty for none.

    """

    text: str
    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any] = field(default_factory=dict)
    time: str = ''
    joint: str = ''

    @property
    def height(self) -> int:
        """[px]."""
        return int(self.layout.get('height', 300))

    def to_plotly(self) -> PlotlyFigure:
        """Return it as a figure of plotly for Python, in the colours of a light page."""
        with importing('plotly'):
            from plotly.graph_objects import Figure as PlotlyFigure

        light = dict(re.findall(r'--([\w-]+): (#\w+)', resource('style.css').split('@media')[0]))

        def coloured(value: Any) -> Any:
            if isinstance(value, str):
                return re.sub(r'var\(--([\w-]+)\)', lambda match: light[match[1]], value)
            if isinstance(value, Mapping):
                return {name: coloured(part) for name, part in value.items()}
            return (
                [coloured(part) for part in value] if isinstance(value, (list, tuple)) else value
            )

        return PlotlyFigure(coloured(self.traces), coloured({**LAYOUT, **self.layout}))


BELOW = {'orientation': 'h', 'x': 0.0, 'y': -0.24, 'yanchor': 'top'}
"""Place of a legend under a headline that leaves it no room above."""


def headline(text: str) -> dict[str, Any]:
    """Return a figure's title, at its upper left corner."""
    return {'text': text, 'x': 0.0, 'xref': 'paper', 'y': 0.99, 'yanchor': 'top',
            'font': {'size': 13, 'color': TEXT}}  # fmt: skip


def escaped(name: str) -> str:
    """Return a user's text for a figure, where it would be taken for markup."""
    return escape(name, quote=False)


def raised(unit: str) -> str:
    """Return a unit with its exponents raised."""
    return unit.replace('^2', '²').replace('^3', '³')


@cache
def templates(**settings: Any) -> jinja2.Environment:
    """Return the environment of the templates; settings as of `jinja2.Environment`."""
    settings = {'autoescape': True, 'undefined': jinja2.StrictUndefined, **settings}
    return jinja2.Environment(loader=_TEMPLATES, trim_blocks=True, lstrip_blocks=True, **settings)


def resource(name: str) -> str:
    """Return the text of a file beside the templates."""
    return _TEMPLATES.get_source(templates(), name)[0]


@cache
def library() -> str:
    """Return plotly.js deflated, as base64; raises IdentificationError if it is not installed."""
    with importing('plotly'):
        from plotly.offline import get_plotlyjs

    return _base64(zlib.compress(get_plotlyjs().encode(), 4))


class FigureStore:
    """
    Figures of a page.

    `add` takes them in the order of the page; `to_json` is what the page's script reads.
    """

    drawn_by, interactive = 'plotly', True

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[int, np.ndarray]] = {}
        self._figures: list[dict[str, Any]] = []

    def add(self, figure: Figure) -> int:
        """Return the number of a figure on the page."""
        self._figures.append({
            'data': self._referring(figure.traces), 'layout': self._referring(figure.layout)
        })  # fmt: skip
        return len(self._figures) - 1

    def markup(self, figure: Figure) -> str:
        """Return the element of the page in which the script draws a figure."""
        return (
            f'<div class="figure" data-figure="{self.add(figure)}" '
            f'data-time="{escape(figure.time)}" data-joint="{escape(figure.joint)}" '
            f'style="min-height: {figure.height}px" role="img" '
            f'aria-label="{escape(figure.text)}"></div>'
        )

    def to_json(self) -> str:
        """Return the figures as JSON in which no text can end the script."""
        arrays = [_binary(array) for _, array in self._arrays.values()]
        document = {'layout': LAYOUT, 'arrays': arrays, 'figures': self._figures}
        return json.dumps(document, separators=(',', ':')).replace('<', '\\u003c')

    def _referring(self, value: Any) -> Any:
        """Return a value with numbers in place of arrays."""
        if isinstance(value, np.ndarray):
            # the array is kept, so that no other one gets its identity
            return {'$': self._arrays.setdefault(id(value), (len(self._arrays), value))[0]}
        if isinstance(value, Mapping):
            return {name: self._referring(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._referring(part) for part in value]
        return value


def _binary(array: np.ndarray) -> dict[str, Any]:
    """Return an array in binary; single precision is more than a screen shows."""
    kind = 'f4' if array.dtype.kind == 'f' else 'u4'
    text = _base64(np.ascontiguousarray(array, dtype=f'<{kind}').tobytes())
    columns = {'columns': array.shape[1]} if array.ndim > 1 else {}
    return {'dtype': kind, 'bdata': text, **columns}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode('ascii')
