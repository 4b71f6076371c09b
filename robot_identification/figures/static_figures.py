# SPDX-License-Identifier: Apache-2.0
"""
Figures of pages as SVG, drawn by matplotlib: for installations without plotly.

A `Figure` describes data and axes as plotly does; here is drawn what the figures of this package
use of that.  Each colour of the style sheet is drawn in a colour of its own, in whose place the
SVG then has the custom property, so that figures follow the page into the dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape, unescape
import io
import math
import re
from typing import Any, TYPE_CHECKING

import numpy as np

from .figure import Figure, LINE, resource, SOFT, TEXT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

WIDTH = 640
"""Width of a figure [px]; the page scales it."""

_DPI = 96
_MARKS = {'diamond': 'D', 'diamond-open': 'D', 'circle': 'o'}
_STYLE = {
    'axes.linewidth': 0.6,
    'font.family': ['DejaVu Sans', 'sans-serif'],
    'font.size': 7.5,
    'svg.fonttype': 'none',  # texts stay texts
    'svg.hashsalt': 'robot_identification',  # equal figures have equal names inside
}


class StaticFigureStore:
    """Figures of a page that runs no script for them."""

    drawn_by, interactive = 'matplotlib', False

    def __init__(self) -> None:
        import matplotlib  # noqa: F401  # the error names it

        self._count = 0

    def markup(self, figure: Figure) -> str:
        """Return a figure as an element of the page."""
        self._count += 1
        picture = _with_own_names(svg(figure), f'f{self._count}-')
        label = escape(figure.text)
        return f'<div class="figure" role="img" aria-label="{label}">{picture}</div>'


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element in the colours of the page's style sheet."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    layout = figure.layout
    with rc_context(_STYLE):
        height = figure.height
        if 'scene' in layout:
            height = round(WIDTH / 1.3)
        canvas = Canvas(figsize=(WIDTH / _DPI, height / _DPI), dpi=2 * _DPI)
        canvas.patch.set_visible(False)
        if 'scene' in layout:
            handles = _draw_scene(canvas, figure)
        else:
            handles = _draw_panels(canvas, figure)
        _write_words(canvas, layout, handles)
        text = io.StringIO()
        FigureCanvasSVG(canvas).print_svg(text)
    return _cleaned(text.getvalue())


# ----------------------------------------------------------------------------------------- colours


def _names() -> list[str]:
    """Return the custom properties of the style sheet."""
    return list(dict.fromkeys(re.findall(r'--([\w-]+): #', resource('style.css'))))


def _colour(value: str) -> str:
    """Return the colour that stands for a custom property in the SVG."""
    name = re.fullmatch(r'var\(--([\w-]+)\)', value)
    return value if name is None else f'#fe01{_names().index(name[1]):02x}'


def _light(value: str) -> str:
    """Return a custom property's colour on a light page, for what is drawn as an image."""
    name = re.fullmatch(r'var\(--([\w-]+)\)', value)
    if name is None:
        return value
    return re.findall(rf'--{name[1]}: (#\w+)', resource('style.css'))[0]


def _cleaned(text: str) -> str:
    """Return an SVG element for a page: no head, no metadata, custom properties as colours."""
    text = re.sub(r'<metadata>.*?</metadata>\s*', '', text[text.index('<svg') :], flags=re.DOTALL)
    text = re.sub(r'\swidth="[\d.]+pt"', ' width="100%"', text, count=1)
    text = re.sub(r'\sheight="[\d.]+pt"', '', text, count=1)
    for number, name in enumerate(_names()):
        text = text.replace(f'#fe01{number:02x}', f'var(--{name})')
    return text


def _with_own_names(text: str, prefix: str) -> str:
    """Return an SVG element whose names inside differ from those of others on the page."""
    return re.sub(r'(\sid="|url\(#|href="#)', lambda match: match[1] + prefix, text)


def _plain(text: str) -> str:
    """Return a text without markup."""
    return unescape(re.sub(r'<[^>]+>', '', text.replace('<br>', '\n')))


# ------------------------------------------------------------------------------------------ panels


def _draw_panels(canvas: Canvas, figure: Figure) -> list[Any]:
    """Draw axes with their traces; return what the legend names."""
    layout = figure.layout
    margin = {'l': 56, 'r': 12, 't': 34, 'b': 38, **layout.get('margin', {})}
    left = max(margin['l'], 14 + 5.4 * max(map(len, _row_names(layout)), default=0)) / WIDTH
    bottom, top = margin['b'] / figure.height, 1.0 - margin['t'] / figure.height
    right = 1.0 - margin['r'] / WIDTH
    panels: dict[str, Axes] = {}
    across: dict[str, Mapping[str, Any]] = {}
    handles = []
    for trace in figure.traces:
        name = trace.get('yaxis', 'y')
        if name not in panels:
            across[name] = layout.get(f'xaxis{trace.get("xaxis", "x")[1:]}', {})
            y = layout.get(f'yaxis{name[1:]}', {})
            low, high = (bottom + part * (top - bottom) for part in y.get('domain', (0.0, 1.0)))
            panels[name] = canvas.add_axes((left, low, right - left, high - low))
        drawn = _draw_trace(canvas, panels[name], trace, layout)
        if drawn is not None and _in_legend(trace, layout):
            drawn.set_label(_plain(trace['name']))
            handles.append(drawn)
    for place, (name, axes) in enumerate(panels.items()):
        last = across[name].get('anchor', 'y') == name
        _style_axes(axes, across[name], layout.get(f'yaxis{name[1:]}', {}), last)
        shapes = layout.get('shapes', ())
        drawn_shapes = [_draw_shape(axes, shape, named=place == 0) for shape in shapes]
        handles += [each for each in drawn_shapes if each is not None]
    return handles


def _row_names(layout: Mapping[str, Any]) -> list[str]:
    """Return the names beside the rows of all axes."""
    axes = [value for name, value in layout.items() if name.startswith('yaxis')]
    return [
        _plain(name)
        for axis in axes
        for name in (*axis.get('ticktext', ()), *axis.get('categoryarray', ()))
    ]


def _in_legend(trace: Mapping[str, Any], layout: Mapping[str, Any]) -> bool:
    return bool(
        layout.get('showlegend', True) and trace.get('showlegend', True) and trace.get('name')
    )


def _places(values: Any, axis: Mapping[str, Any]) -> Any:
    """Return values on an axis; names are counted in its order."""
    order = list(axis.get('categoryarray', ()))
    return [order.index(value) for value in values] if order else values


def _draw_trace(
    canvas: Canvas, axes: Axes, trace: Mapping[str, Any], layout: Mapping[str, Any]
) -> Any:
    """Draw a trace; return what stands for it in a legend."""
    kind = trace.get('type', 'scatter')
    if kind == 'heatmap':
        return _draw_heatmap(canvas, axes, trace)
    x, y = trace['x'], _places(trace['y'], layout.get('yaxis', {}))
    colour = _colour(trace.get('line', trace.get('marker', {})).get('color', TEXT))
    alpha = trace.get('opacity', trace.get('marker', {}).get('opacity'))
    if kind == 'bar':
        if trace.get('orientation') == 'h':
            start = 10.0 ** layout['xaxis']['range'][0]
            return axes.barh(y, np.asarray(x) - start, 0.7, left=start, color=colour, alpha=alpha)
        return axes.bar(x, y, trace['width'], color=colour, alpha=alpha)
    for name in ('error_x', 'error_y'):
        if name in trace:
            bars = trace[name]
            spread = [bars.get('arrayminus', bars['array']), bars['array']]
            axes.errorbar(
                x, y, fmt='none', xerr=spread if name == 'error_x' else None,
                yerr=spread if name == 'error_y' else None,
                ecolor=_colour(bars['color']), elinewidth=bars['thickness'],
            )  # fmt: skip
    if 'lines' in trace['mode']:
        width = trace.get('line', {}).get('width', 2.0)
        return axes.plot(x, y, color=colour, linewidth=0.75 * width, alpha=alpha)[0]
    symbol = trace['marker'].get('symbol', 'circle')
    return axes.plot(
        x, y, _MARKS[symbol], color=colour, markersize=0.6 * trace['marker']['size'],
        markerfacecolor='none' if symbol.endswith('open') else colour,
    )[0]  # fmt: skip


def _draw_heatmap(canvas: Canvas, axes: Axes, trace: Mapping[str, Any]) -> None:
    """Draw a table of numbers as colours, in those of a light page."""
    from matplotlib.colors import LinearSegmentedColormap

    steps = [(place, _light(colour)) for place, colour in trace['colorscale']]
    drawn = axes.pcolormesh(
        np.arange(len(trace['x'])), np.arange(len(trace['y'])), np.ma.masked_invalid(trace['z']),
        vmin=trace['zmin'], vmax=trace['zmax'], shading='nearest',
        cmap=LinearSegmentedColormap.from_list('differences', steps),
    )  # fmt: skip
    axes.set_xticks(range(len(trace['x'])), map(_plain, trace['x']), rotation=90)
    axes.set_yticks(range(len(trace['y'])), map(_plain, trace['y']))
    bar = canvas.colorbar(drawn, ax=axes, location='top', shrink=0.6, aspect=40)
    bar.set_label(trace['colorbar']['title']['text'], color=_colour(TEXT))
    bar.ax.tick_params(labelcolor=_colour(TEXT), color=_colour(SOFT))


def _draw_shape(axes: Axes, shape: Mapping[str, Any], *, named: bool) -> Any:
    """Draw a vertical line, or shade a time, ``named`` or not; return what the legend names."""
    if shape['type'] == 'rect':
        _draw_shade(axes, shape, named=named)
        return None
    line = shape['line']
    style = {'dash': '--', 'dot': ':'}.get(line.get('dash', ''), '-')
    drawn = axes.axvline(shape['x0'], color=_colour(line['color']), linestyle=style, linewidth=0.8)
    label = shape.get('name') or shape.get('label', {}).get('text')
    if label:
        drawn.set_label(label)
    return drawn if label else None


def _draw_shade(axes: Axes, shape: Mapping[str, Any], *, named: bool) -> None:
    """Shade a time, with its words at the top where it is named."""
    colour, begin, end = _colour(shape['fillcolor']), shape['x0'], shape['x1']
    axes.axvspan(begin, end, color=colour, alpha=shape['opacity'], linewidth=0)
    if named and 'label' in shape:
        axes.text(
            0.5 * (begin + end),
            0.97,
            shape['label']['text'],
            transform=axes.get_xaxis_transform(),
            ha='center',
            va='top',
            fontsize=7,
            color=_colour(TEXT),
        )


def _style_axes(axes: Axes, x: Mapping[str, Any], y: Mapping[str, Any], last: bool) -> None:
    """Give axes their scales, ranges, ticks and titles."""
    soft, text = _colour(SOFT), _colour(TEXT)
    axes.patch.set_visible(False)
    axes.set_axisbelow(True)
    for side in ('top', 'right', 'left'):
        axes.spines[side].set_visible(False)
    axes.spines['bottom'].set_color(soft)
    axes.tick_params(color=soft, labelcolor=text, width=0.6, length=2.5)
    for name, settings in (('x', x), ('y', y)):
        axis = getattr(axes, f'{name}axis')
        logarithmic = settings.get('type') == 'log'
        if logarithmic:
            axes.set(**{f'{name}scale': 'log'})
            axis.set_major_formatter(lambda value, _: f'{value:g}')
            axis.set_minor_formatter(lambda *_: '')
        if settings.get('range'):
            limits = [10.0**end if logarithmic else end for end in settings['range']]
            axes.set(**{f'{name}lim': limits})
        names = settings.get('categoryarray')
        if 'tickvals' in settings or names:
            places = settings.get('tickvals', range(len(names or ())))
            axis.set_ticks(list(places), [_plain(t) for t in settings.get('ticktext', names)],
                           parse_math=False)  # fmt: skip
        elif 'nticks' in settings:
            axis.get_major_locator().set_params(nbins=settings['nticks'])
        if settings.get('showgrid', True) and not names:
            axis.grid(color=_colour(LINE), linewidth=0.6)
        if 'title' in settings and (name == 'y' or last):
            label = _plain(settings['title']['text'])
            axis.set_label_text(label, color=text, parse_math=False)
    if not last:
        axes.tick_params(labelbottom=False)
    if y.get('visible') is False:
        axes.yaxis.set_visible(False)


def _write_words(canvas: Canvas, layout: Mapping[str, Any], handles: Sequence[Any]) -> None:
    """Write headline, notes and legend."""
    text = _colour(TEXT)
    edge = 1.0 - 6.0 / (canvas.get_figheight() * _DPI)
    if 'title' in layout:
        title = _plain(layout['title']['text'])
        canvas.text(0.02, edge, title, va='top', color=text, fontsize=9, parse_math=False)
    boxes = [axes.get_position() for axes in canvas.axes]
    for note in layout.get('annotations', ()):
        low, high = min(box.y0 for box in boxes), max(box.y1 for box in boxes)
        place = low + note['y'] * (high - low) + 3.0 / (canvas.get_figheight() * _DPI)
        canvas.text(boxes[0].x0, place, _plain(note['text']), va='bottom', color=text,
                    fontsize=8.5, parse_math=False)  # fmt: skip
    if handles and layout.get('showlegend', True):
        canvas.legend(
            handles=list({handle.get_label(): handle for handle in handles}.values()),
            loc='upper right', bbox_to_anchor=(0.99, edge), ncols=4, frameon=False,
            labelcolor=text, borderpad=0, borderaxespad=0, handlelength=1.4,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------- space


def _draw_scene(canvas: Canvas, figure: Figure) -> list[Any]:
    """Draw the traces of a figure in space; return what the legend names."""
    from matplotlib.patches import Patch
    from mpl_toolkits.mplot3d import Axes3D

    scene = figure.layout['scene']
    axes = canvas.add_axes((0.0, 0.0, 1.0, 0.94), projection='3d')
    assert isinstance(axes, Axes3D)
    axes.set_axis_off()
    axes.patch.set_visible(False)
    axes.set(**{f'{name}lim': scene[f'{name}axis']['range'] for name in 'xyz'})
    axes.set_box_aspect([scene['aspectratio'][name] for name in 'xyz'], zoom=1.35)
    eye = scene['camera']['eye']
    height = math.degrees(math.atan2(eye['z'], math.hypot(eye['x'], eye['y'])))
    axes.view_init(elev=height, azim=math.degrees(math.atan2(eye['y'], eye['x'])))
    handles = []
    for trace in figure.traces:
        points = [np.asarray(trace[name]) for name in 'xyz']
        if not points[0].size:
            continue
        if trace['type'] == 'mesh3d':
            colour = _light(trace['color'])
            triangles = np.column_stack([trace[name] for name in 'ijk'])
            # thousands of triangles: an image is smaller
            axes.plot_trisurf(*points[:2], triangles, points[2], color=colour,
                              alpha=trace['opacity'], rasterized=True,
                              linewidth=0, antialiased=False)  # fmt: skip
            drawn = Patch(color=colour, alpha=trace['opacity'])
        else:
            colour = _colour(trace['marker']['color'])
            mark = _MARKS[trace['marker'].get('symbol', 'circle')]
            line = '-' if 'lines' in trace['mode'] else 'none'
            drawn = axes.plot(*points, color=colour, marker=mark, linestyle=line,
                              markersize=0.6 * trace['marker']['size'])[0]  # fmt: skip
            for place in np.flatnonzero([bool(text) for text in trace.get('text', ())]):
                axes.text(*(part[place] for part in points), f'  {_plain(trace["text"][place])}',
                          color=_colour(TEXT), parse_math=False)  # fmt: skip
        if _in_legend(trace, figure.layout):
            drawn.set_label(trace['name'])
            handles.append(drawn)
    return handles
