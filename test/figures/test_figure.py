# SPDX-License-Identifier: Apache-2.0
"""Figures as pages and notebooks take them."""

import base64
import json
import sys
import zlib

import numpy as np
import pytest
from robot_identification.errors import IdentificationError
from robot_identification.figures.figure import Figure, FigureStore, library, PREDICTED
from robot_identification.figures.page import figure_store


def test_a_page_holds_each_array_once_in_binary():
    time, matrix = np.linspace(0.0, 1.0, 5), np.arange(6.0).reshape(3, 2)
    store = FigureStore()
    traces = [{'x': time, 'y': np.array([1, 2, 3])}, {'x': time, 'z': matrix}]
    assert store.add(Figure('</script>', traces, {'title': {'text': '</script>'}})) == 0
    assert store.add(Figure('second', [{'x': time}])) == 1
    text = store.to_json()
    assert '<' not in text
    page = json.loads(text)
    assert [part['x'] for part in page['figures'][0]['data']] == [{'$': 0}, {'$': 0}]
    assert page['figures'][1]['data'][0]['x'] == {'$': 0}
    first, second, third = page['arrays']
    assert np.frombuffer(base64.b64decode(first['bdata']), '<f4').tolist() == time.tolist()
    assert np.frombuffer(base64.b64decode(second['bdata']), '<u4').tolist() == [1, 2, 3]
    assert third['columns'] == 2
    assert page['figures'][0]['layout']['title']['text'] == '</script>'


def test_arrays_of_passing_figures_are_not_mixed_up():
    """An array's identity may be that of one that is gone."""
    store = FigureStore()
    for value in range(50):
        store.add(Figure('', [{'x': np.full(3, float(value))}]))
    assert len(json.loads(store.to_json())['arrays']) == 50


def test_notebooks_get_the_colours_of_a_light_page():
    figure = Figure(
        '', [{'x': [1.0], 'y': np.ones(1), 'line': {'color': PREDICTED}}], {'height': 70}
    )
    shown = figure.to_plotly()
    assert shown.data[0].line.color == '#d55e00'
    assert shown.layout.height == 70
    assert shown.layout.font.color.startswith('#')


def test_the_library_is_plotlys_own():
    from plotly.offline import get_plotlyjs

    assert zlib.decompress(base64.b64decode(library())).decode() == get_plotlyjs()
    assert len(library()) < 2_200_000


def test_without_plotly_and_matplotlib_one_line_names_plotly(monkeypatch):
    library.cache_clear()
    for name in ('matplotlib', 'plotly.offline', 'plotly.graph_objects'):
        monkeypatch.setitem(sys.modules, name, None)
    store, missing = figure_store()
    assert store is None
    assert len(missing) == 1 and "'plotly'" in missing[0] and 'pip install plotly' in missing[0]
    with pytest.raises(IdentificationError, match="'plotly' is not installed"):
        Figure('', []).to_plotly()
