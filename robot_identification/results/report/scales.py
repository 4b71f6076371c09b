# SPDX-License-Identifier: Apache-2.0
"""
Grid lines, ticks and labels of axes, drawn at once.

matplotlib makes five artists of every tick and measures each label to place the next thing; that
is most of what a figure costs.  Here an axis is three paths and one text that moves, and labels
stand where the margins leave room for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FixedLocator, Formatter, MaxNLocator, ScalarFormatter
from matplotlib.transforms import Bbox, IdentityTransform
import numpy as np

_SUPERSCRIPTS = str.maketrans('−0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹')

_LENGTH, _PAD = 2.5, 3.5
"""Of ticks, and between them and their labels [points]."""


class Panel(Axes):
    """
    Axes that make no tick before somebody asks for one; their scales draw without.

    Making axes makes ticks only to set them up; empty lists in the place of those that matplotlib
    fills on demand keep it from that.  Where a version does not look there, it makes its ticks.
    """

    _made = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for spine in self.spines.values():
            # the first tick would do this
            spine.set_position(('outward', 0.0))
        self._made = True
        for axis in (self.xaxis, self.yaxis):
            for part in _tickless():
                vars(axis).pop(part, None)

    def clear(self) -> None:
        """Empty the axes; the first thing done to new ones, too."""
        if not self._made:
            for axis in (self.xaxis, self.yaxis):
                vars(axis).update(_tickless())
        super().clear()


def _tickless() -> dict[str, Any]:
    """Return what stands in for an axis' ticks, and for the method that would make them anew."""
    return {'majorTicks': [], 'minorTicks': [], 'reset_ticks': lambda: None}


class Scale(Artist):
    """
    Ticks and labels of one axis; matplotlib's own drawing of the axis is switched off.

    Parameters
    ----------
    ax:
        The axes.
    axis:
        One of its two, which keeps locator, formatter and label.
    colour, grid_colour:
        Of ticks and labels, and of the grid.

    Attributes
    ----------
    grid, labelled:
        Whether there are grid lines, and labels at the ticks.
    size:
        Of the labels [points].
    room:
        From the axes to the axis' name [points].

    """

    def __init__(self, ax: Axes, axis: Axis, colour: str, grid_colour: str) -> None:
        super().__init__()
        self._ax = ax
        self.axis, self.colour, self.grid_colour = axis, colour, grid_colour
        self.grid = self.labelled = True
        self.size = 7.0
        self._upright = axis is ax.yaxis
        self.room = 34.0 if self._upright else 18.0
        self.set_zorder(0.5)
        ax.add_artist(self)
        self.set_clip_on(False)
        axis.set_visible(False)
        horizontal, vertical = ('right', 'center_baseline') if self._upright else ('center', 'top')
        # names are not formulae: matplotlib would parse what stands between dollar signs
        self._text = Text(color=colour, ha=horizontal, va=vertical, parse_math=False)
        self._text.set_transform(IdentityTransform())

    def places(self) -> tuple[np.ndarray, list[str], np.ndarray]:
        """Return where ticks are, what they are called, and where the unnamed small ones are."""
        axis = self.axis
        major = np.asarray(axis.get_majorticklocs(), dtype=float)
        names = axis.get_major_formatter().format_ticks(major.tolist())
        seen = self._seen(major)
        minor = np.asarray(axis.get_minorticklocs(), dtype=float)
        minor = minor[self._seen(minor)]
        if seen.sum() < 2 and minor.size:
            # less than a decade: the small ticks have to tell the scale
            return minor, axis.get_major_formatter().format_ticks(minor.tolist()), major[seen]
        return major[seen], [n for n, s in zip(names, seen, strict=True) if s], minor

    def get_window_extent(self, renderer: Any = None) -> Bbox:
        """Return the whole figure: who trims it leaves the labels on it."""
        return Bbox(self._ax.figure.bbox.get_points())

    def draw(self, renderer: Any) -> None:
        """Draw everything; called by matplotlib."""
        ax, axis = self._ax, self.axis
        major, names, minor = self.places()
        point = renderer.points_to_pixels(1.0)
        start, far, outwards = self._ends(major)
        if self.grid:
            self._lines(renderer, start, far, self.grid_colour, 0.6)
        tips = start + point * _LENGTH * outwards
        self._lines(renderer, start, tips, self.colour, 0.8)
        start, _, _ = self._ends(minor)
        self._lines(renderer, start, start + 0.7 * point * _LENGTH * outwards, self.colour, 0.6)
        text = self._text
        text.set_figure(ax.figure)
        text.set_fontsize(self.size)
        if self.labelled:
            for name, place in zip(names, tips + point * _PAD * outwards, strict=True):
                self._write(renderer, name, place)
            self._write_power(renderer, point)
        label = axis.label
        if label.get_text():
            (edge,) = ax.transAxes.transform([(0.0, 0.0)])
            if self._upright:
                label.set_x(edge[0] - point * self.room)
            else:
                label.set_y(edge[1] - point * self.room)
            label.draw(renderer)
        self.stale = False

    def _write(self, renderer: Any, name: str, place: np.ndarray) -> None:
        if name:
            self._text.set_text(name)
            self._text.set_position((place[0], place[1]))
            self._text.draw(renderer)

    def _write_power(self, renderer: Any, point: float) -> None:
        """Write the power of ten, or the shift, that all labels have in common."""
        power = self.axis.get_major_formatter().get_offset()
        if not power:
            return
        usual = self._text.get_horizontalalignment(), self._text.get_verticalalignment()
        if self._upright:
            (place,) = self._ax.transAxes.transform([(0.0, 1.0)])
            place = place + point * np.array([0.0, 2.0])
            self._text.set(ha='center', va='bottom')
        else:
            (place,) = self._ax.transAxes.transform([(1.0, 0.0)])
            place = place - point * np.array([0.0, self.room])
            self._text.set(ha='right', va='top')
        self._write(renderer, power, place)
        self._text.set(ha=usual[0], va=usual[1])

    def _seen(self, places: np.ndarray) -> np.ndarray:
        """Return which places are within the limits."""
        transform = self.axis.get_transform()
        low, high = np.sort(transform.transform(np.asarray(self.axis.get_view_interval())))
        at = transform.transform(places)
        slack = 1e-9 * (high - low)
        return (at >= low - slack) & (at <= high + slack)

    def _ends(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return both ends of grid lines at places, and the direction outwards [pixels]."""
        ax, none, one = self._ax, np.zeros(places.size), np.ones(places.size)
        if self._upright:
            transform = ax.get_yaxis_transform()
            ends = [np.column_stack(p) for p in ((none, places), (one, places))]
        else:
            transform = ax.get_xaxis_transform()
            ends = [np.column_stack(p) for p in ((places, none), (places, one))]
        start, far = (transform.transform(end) for end in ends)
        return start, far, np.array([-1.0, 0.0] if self._upright else [0.0, -1.0])

    def _lines(
        self, renderer: Any, start: np.ndarray, end: np.ndarray, colour: str, width: float
    ) -> None:
        """Draw lines as one path."""
        if not len(start):
            return
        gc = renderer.new_gc()
        gc.set_linewidth(renderer.points_to_pixels(width))
        gc.set_foreground(colour)
        gc.set_snap(True)
        vertices = np.stack([start, end], axis=1).reshape(-1, 2)
        codes = np.tile([Path.MOVETO, Path.LINETO], len(start))
        renderer.draw_path(gc, Path(vertices, codes), IdentityTransform())
        gc.restore()


class PowerFormatter(Formatter):
    """Labels of logarithmic axes as powers of ten, without matplotlib's parser of formulae."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label at ``x``."""
        if x == 0.0:
            return '0'
        mantissa, exponent = f'{abs(x):.0e}'.split('e')
        power = '10' + str(int(exponent)).replace('-', '−').translate(_SUPERSCRIPTS)
        sign = '−' if x < 0.0 else ''
        return sign + (power if mantissa == '1' else f'{mantissa}·{power}')


def count(axis: Axis, most: int) -> None:
    """Give a linear axis no more than so many intervals, of round lengths, and short labels."""
    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
    formatter = ScalarFormatter()
    formatter.set_powerlimits((-3, 4))
    axis.set_major_formatter(formatter)


def name(axis: Axis, places: Sequence[float], names: Sequence[str]) -> None:
    """Put ticks with names at places."""
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter(names))
