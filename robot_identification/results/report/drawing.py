# SPDX-License-Identifier: Apache-2.0
"""
The look of the report's figures, and the room that their parts take.

matplotlib's layout engines, pyplot and rc parameters are left aside: the first take seconds for a
report, the others are global state.  Measures are in inches.
"""

from __future__ import annotations

from collections.abc import Sequence
import io
import re

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.ticker import MaxNLocator

# Okabe and Ito's colours, which people with any colour vision can tell apart
MEASURED, PREDICTED, RESIDUAL = '#3b4252', '#d55e00', '#0072b2'
GOOD, WEAK, NONE, PALE = '#009e73', '#e69f00', '#999999', '#c9ced6'
TEXT, _GRID = '#2b2f36', '#e4e7ec'
WIDTH = 11.0


class ShownFigure(Figure):
    """A figure that notebooks show although pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format='png', dpi=110)
        return stream.getvalue()


def new_figure(
    height: float,
    rows: int,
    columns: int,
    *,
    left: float,
    gap: float = 0.0,
    space: float = 0.0,
    top: float = 0.5,
    bottom: float = 0.45,
) -> tuple[Figure, GridSpec]:
    """
    Make a figure of width `WIDTH`, and the grid for its axes.

    Parameters
    ----------
    height:
        Of the figure.
    rows, columns:
        Of the grid.
    left, top, bottom:
        Margins.
    gap, space:
        Between the columns and between the rows.

    """
    figure = ShownFigure(figsize=(WIDTH, height), facecolor='white')
    FigureCanvasAgg(figure)
    right = 0.12
    width = (WIDTH - left - right - gap * (columns - 1)) / columns
    tall = (height - top - bottom - space * (rows - 1)) / rows
    grid = figure.add_gridspec(
        rows,
        columns,
        left=left / WIDTH,
        right=1.0 - right / WIDTH,
        bottom=bottom / height,
        top=1.0 - top / height,
        wspace=gap / width,
        hspace=space / tall,
    )
    return figure, grid


def name_width(names: Sequence[str]) -> float:
    """Return the room that names take beside an axis [inches]."""
    return 0.3 + 0.055 * max((len(name) for name in names), default=0)


def style(ax: Axes) -> None:
    """Give axes the look of the report."""
    ax.grid(True, color=_GRID, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=7, colors=TEXT, length=2.5)
    for side in ('top', 'right'):
        ax.spines[side].set_visible(False)
    for side in ('left', 'bottom'):
        ax.spines[side].set_color('#9aa1ac')


def panel(
    figure: Figure, place: SubplotSpec, share: Axes | None = None, ticks: tuple[int, int] = (8, 5)
) -> Axes:
    """
    Make axes with the look of the report.

    Parameters
    ----------
    figure, place:
        Where.
    share:
        Axes with the same x axis.
    ticks:
        Most intervals between ticks of x and of y.

    """
    ax = figure.add_subplot(place, sharex=share)
    style(ax)
    for axis, most in zip((ax.xaxis, ax.yaxis), ticks, strict=True):
        axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
    ax.ticklabel_format(scilimits=(-3, 4))
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_offset_text().set(fontsize=7, color=TEXT)
    return ax


def title(ax: Axes, text: str, size: float) -> None:
    """Write above axes."""
    ax.set_title(text, fontsize=size, color=TEXT, y=1.0, parse_math=False)


def corner_text(ax: Axes, text: str) -> None:
    """Write into the upper right corner of axes."""
    box = {'facecolor': 'white', 'edgecolor': 'none', 'alpha': 0.75, 'pad': 1.0}
    ax.text(
        0.995, 0.96, text, transform=ax.transAxes, fontsize=7.5, color=TEXT, ha='right', va='top',
        bbox=box,
    )  # fmt: skip


def legend(figure: Figure, entries: Sequence[Artist]) -> None:
    """Put a legend above all axes of a figure."""
    figure.legend(
        handles=list(entries),
        loc='upper center',
        ncols=len(entries),
        fontsize=8,
        frameon=False,
        labelcolor=TEXT,
    )


def raised(unit: str) -> str:
    """Return a unit with its exponent raised."""
    return unit.replace('^2', '²')


def named_rows(ax: Axes, names: Sequence[str], rows: int) -> None:
    """Name the rows 0, 1, ... of axes that have room for ``rows``, the first one on top."""
    # names are not formulae: matplotlib would parse what stands between dollar signs
    ax.set_yticks(range(len(names)), names, fontsize=6.5, parse_math=False)
    ax.set_ylim(rows - 0.4, -0.6)
    ax.grid(False, axis='y')


def broken(name: str, length: int) -> str:
    """Break a name into lines of at most so many characters, behind marks where it has some."""
    lines = ['']
    for part in re.findall(r'[^_/.-]+[_/.-]*|[_/.-]+', name):
        if lines[-1] and len(lines[-1] + part) > length:
            lines.append('')
        lines[-1] += part
    return '\n'.join(
        line[i : i + length] for line in lines for i in range(0, max(len(line), 1), length)
    )
