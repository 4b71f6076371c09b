# SPDX-License-Identifier: Apache-2.0
"""Tests of ticks within the limits, and of their short labels."""

import pickle

from matplotlib.axis import Tick
import numpy as np
import pytest
from robot_identification.results.report import scales
from robot_identification.results.report.drawing import (
    broken,
    new_figure,
    panel,
)


def axes():
    figure, grid = new_figure(2.0, 1, 1, left=0.8)
    ax, x, y = panel(figure, grid[0])
    return figure, ax, x, y


def test_ticks_within_the_limits_and_their_names():
    _, ax, x, y = axes()
    ax.set_xlim(0.0, 10.0)
    ax.set_ylim(1.0, -1.0)
    major, names, minor = x.places()
    np.testing.assert_allclose(major, [0, 2, 4, 6, 8, 10])
    assert names == ['0', '2', '4', '6', '8', '10']
    assert not minor.size
    major, names, _ = y.places()
    assert sorted(names) == sorted(['−1.0', '−0.5', '0.0', '0.5', '1.0'])
    scales.name(ax.yaxis, [0.0, 0.5, 3.0], ['a', 'b', 'c'])
    assert y.places()[1] == ['a', 'b']


def test_axes_have_their_lines_at_the_left_and_below():
    figure, ax, _, _ = axes()
    ax.plot([-1.0, 2.0], [-3.0, 1.0])
    figure.canvas.draw()
    edges = {side: ax.spines[side].get_window_extent() for side in ('left', 'bottom')}
    box = ax.bbox
    assert {side for side, spine in ax.spines.items() if spine.get_visible()} == set(edges)
    # on the outer side some versions count room for ticks
    assert edges['left'].x1 == pytest.approx(box.x0, abs=1.5)
    assert edges['bottom'].y1 == pytest.approx(box.y0, abs=1.5)
    assert edges['left'].height == pytest.approx(box.height, abs=2.0)
    paths = [
        ax.spines[side].get_transform().transform_path(ax.spines[side].get_path())
        for side in ('left', 'bottom')
    ]
    np.testing.assert_allclose(paths[0].vertices[:, 0], box.x0)
    np.testing.assert_allclose(paths[1].vertices[:, 1], box.y0)


def test_no_tick_is_made_that_nobody_asks_for(monkeypatch):
    made, make = [], Tick.__init__

    def noted(self, *args, **more):
        made.append(self)
        make(self, *args, **more)

    monkeypatch.setattr(Tick, '__init__', noted)
    figure, ax, _, _ = axes()
    ax.plot([1.0, 2.0], [-3.0, 1.0])
    ax.set_xscale('log')
    figure.canvas.draw()
    assert not made
    assert ax.get_xticklabels()
    assert made


def test_axes_that_make_their_ticks_look_the_same(monkeypatch):
    images = []
    for stand_in in (scales._tickless, dict):
        monkeypatch.setattr(scales, '_tickless', stand_in)
        figure, ax, _, _ = axes()
        ax.plot([1.0, 2.0], [-3.0, 1.0])
        ax.set_xlabel('time')
        figure.canvas.draw()
        images.append(np.asarray(figure.canvas.buffer_rgba()))
    np.testing.assert_array_equal(*images)


def test_axes_are_as_good_as_matplotlibs():
    figure, ax, _, _ = axes()
    pickle.loads(pickle.dumps(figure)).canvas.draw()
    ax.clear()
    ax.tick_params(length=7.0)
    ax.xaxis.set_visible(True)
    figure.canvas.draw()
    assert all(tick.tick1line.get_markersize() == 7.0 for tick in ax.xaxis.get_major_ticks())


def test_matplotlib_may_be_asked_for_ticks():
    figure, ax, x, y = axes()
    ax.set_xlim(0.0, 4.0)
    assert [label.get_text() for label in ax.get_xticklabels()] == x.places()[1]
    ax.xaxis.set_visible(True)
    ax.set_title('a title')
    figure.canvas.draw()
    whole = figure.get_tightbbox(figure.canvas.get_renderer())
    assert whole.width == pytest.approx(figure.get_figwidth())
    assert y.get_window_extent().bounds == figure.bbox.bounds


def test_less_than_a_decade_has_names_too():
    _, ax, x, _ = axes()
    ax.set_xscale('log')
    ax.xaxis.set_major_formatter(scales.PowerFormatter())
    ax.set_xlim(1e-3, 1e2)
    assert x.places()[1] == ['10⁻³', '10⁻²', '10⁻¹', '10⁰', '10¹', '10²']
    ax.set_xlim(0.15, 0.45)
    assert x.places()[1] == ['2·10⁻¹', '3·10⁻¹', '4·10⁻¹']


@pytest.mark.parametrize(
    ('value', 'text'), [(0.0, '0'), (-100.0, '−10²'), (1e-16, '10⁻¹⁶'), (3e12, '3·10¹²')]
)
def test_powers(value, text):
    assert scales.PowerFormatter()(value) == text


@pytest.mark.parametrize(
    ('name', 'lines'),
    [
        ('joint_1', ['joint_1']),
        ('left_arm_shoulder_pitch_joint', ['left_arm_shoulder_', 'pitch_joint']),
        ('a' * 40, ['a' * 18, 'a' * 18, 'a' * 4]),
        ('', ['']),
    ],
)
def test_broken(name, lines):
    assert broken(name, 18).split('\n') == lines
