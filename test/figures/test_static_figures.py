# SPDX-License-Identifier: Apache-2.0
"""Static figures show the data that plotly would be given."""

from dataclasses import replace
import re
import xml.etree.ElementTree

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.figures.figure import Figure, headline, MEASURED, PREDICTED, RESIDUAL
from robot_identification.figures.signal_plots import Band, envelope, signal_figures
from robot_identification.figures.static_figures import StaticFigureStore, svg

pytest.importorskip('matplotlib')
X = np.array([0.0, 1.0, np.nan, 2.0, 4.0])
LINE = {'x': X, 'y': X**2, 'mode': 'lines', 'name': 'a <b>', 'line': {'color': PREDICTED}}
LAYOUT = {
    'height': 200,
    'title': headline('joint_$1$ &lt;b&gt;'),
    'xaxis': {'title': {'text': 'time [s]'}, 'range': [0.0, 4.0]},
    'yaxis': {'range': [0.0, 16.0]},
}


def path_of(text, colour):
    """Return the points of the path in a colour, with NaN where it is interrupted."""
    path = re.search(rf'<path d="([^"]*)"[^>]*stroke: var\(--{colour}\)', text)[1]
    points = []
    for command, x, y in re.findall(r'([ML]) ([\d.]+) ([\d.]+)', path):
        if command == 'M' and points:
            points.append((np.nan, np.nan))
        points.append((float(x), -float(y)))
    return np.array(points)


def test_a_line_has_its_points_and_its_gap():
    points = path_of(svg(Figure('', [LINE], LAYOUT)), 'predicted')
    assert points.shape == (5, 2)
    assert np.array_equal(np.isnan(points[:, 0]), np.isnan(X))
    for column, values in zip(points.T, (X, X**2), strict=True):
        scale, offset = np.polyfit(values[[0, 1, 3, 4]], column[[0, 1, 3, 4]], 1)
        assert scale > 0.0
        assert column[[0, 1, 3, 4]] == pytest.approx(
            scale * values[[0, 1, 3, 4]] + offset, abs=0.01
        )


def test_colours_follow_the_page_and_texts_stay_texts():
    text = svg(Figure('', [LINE], LAYOUT))
    xml.etree.ElementTree.fromstring(text.replace('xlink:href', 'href'))
    assert '#fe01' not in text and 'var(--text)' in text
    assert 'joint_$1$ &lt;b&gt;' in text and 'time [s]' in text
    assert re.search(r'>a\s*</text>', text)


def test_a_marked_time_is_shaded_where_it_is_and_named_at_its_joints():
    time = np.linspace(5.0, 9.0, 50)
    both = np.stack([np.sin(time), np.cos(time)], axis=1)
    source = Recording(time, both, both, ('one', 'two'), source='run')
    marked = replace(envelope(source), bands=(Band(6.0, 7.0, 'brake', ('two',)),))
    one, two = map(svg, signal_figures([marked], ['rad', 'rad']))
    assert 'brake' not in one and len(re.findall(r'>brake\s*</text>', two)) == 1
    assert re.search(r'fill: var\(--pale\)', one)
    path = re.search(r'<path d="([^"]*)"[^>]*fill: var\(--weak-bar\)', two)[1]
    places = np.array(re.findall(r'[ML] ([\d.]+)', path), dtype=float)
    line = path_of(two, 'measured')[:, 0]
    for place, stamp in ((places.min(), 6.0), (places.max(), 7.0)):
        assert np.interp(place, line, time) == pytest.approx(stamp, abs=0.05)


def test_bars_rows_and_logarithms():
    names = ['link_1.mx', 'link_2.Ixx']
    bars = {'type': 'bar', 'orientation': 'h', 'name': 'up to 30 %', 'y': names,
            'x': np.array([1.0, 100.0]), 'marker': {'color': RESIDUAL}}  # fmt: skip
    layout = {
        'yaxis': {'type': 'category', 'categoryarray': names, 'range': [1.6, -0.6]},
        'xaxis': {'type': 'log', 'range': [-1, 3]},
    }
    text = svg(Figure('', [bars], layout))
    paths = re.findall(r'<path d="([^"]*)"[^>]*fill: var\(--residual\)', text)
    spans = [[float(x) for x in re.findall(r'[ML] ([\d.]+)', path)] for path in paths[:2]]
    lengths = [max(span) - min(span) for span in spans]
    assert lengths[1] / lengths[0] == pytest.approx(3.0, rel=1e-3)  # decades above 0.1
    assert all(name in text for name in (*names, '1000', 'up to 30 %'))


def test_a_store_numbers_its_pictures():
    store = StaticFigureStore()
    figure = Figure('"x" & y', [{**LINE, 'line': {'color': MEASURED}}], LAYOUT)
    first, second = store.markup(figure), store.markup(figure)
    assert 'aria-label="&quot;x&quot; &amp; y"' in first
    ids = [set(re.findall(r' id="([^"]*)"', each)) for each in (first, second)]
    assert ids[0] and not ids[0] & ids[1]
