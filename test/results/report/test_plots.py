# SPDX-License-Identifier: Apache-2.0
"""The figures show what they are given; looked at through matplotlib's own objects."""

from dataclasses import replace
import io
import threading

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
import numpy as np
import pytest
from robot_identification.base_parameters import BaseStructure
from robot_identification.estimation import (
    Estimate,
    FitTrace,
    JointFit,
)
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.results.report import plots
from robot_identification.results.report.html import image


def trace(samples=500, joints=2, segments=(0,)):
    random = np.random.default_rng(5)
    time = np.linspace(100.0, 110.0, samples)
    segment = np.repeat(segments, -(-samples // len(segments)))[:samples]
    measured = np.sin(time)[:, None] * np.arange(1, joints + 1)
    predicted = measured + 0.1 * random.standard_normal(measured.shape)
    return FitTrace(time, segment, measured, predicted, np.ones(measured.shape, dtype=bool))


def fits(joints=2):
    return [JointFit(f'joint_{j}', 500, 0.1, 5.0, 9.0, 0.0) for j in range(1, joints + 1)]


def estimate(units):
    names = tuple(f'link_{i}.p' for i in range(len(units)))
    layout = ParameterLayout(names, tuple(units))
    b = len(units)
    values = np.linspace(-1.03, 2.0, b)
    std = np.full(b, 0.05)
    return Estimate(
        base=ParameterSet(layout, values),
        expressions=names,
        covariance=np.diag(std**2),
        std=std,
        relative_std=100.0 * std / np.abs(values),
        joints=tuple(fits()),
        relative_error=5.0,
        raw_relative_error=9.0,
        rank=b,
        condition_number=10.0,
        raw_condition_number=100.0,
        excited=np.ones(b, dtype=bool),
        reasons=('',) * b,
        weights=np.ones(2),
        method='ols',
        rows=1000,
        residual_std=0.1,
    )


def drawn(figure):
    """Draw a figure; nothing may be outside of it or fail."""
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    return figure


def test_effort_figure_shows_the_traces():
    given = trace()
    figure = drawn(plots.effort_figure(given, fits(), ['N m', 'N']))
    axes = np.array(figure.axes).reshape(2, 2)
    for j in range(2):
        measured, predicted = axes[j, 0].lines
        np.testing.assert_allclose(measured.get_xdata(), given.time - given.time[0])
        np.testing.assert_allclose(measured.get_ydata(), given.measured[:, j])
        np.testing.assert_allclose(predicted.get_ydata(), given.predicted[:, j])
        (residual,) = axes[j, 1].lines
        np.testing.assert_allclose(residual.get_ydata(), given.residual[:, j])
    assert axes[1, 0].get_ylabel() == 'joint_2\n[N]'


def test_effort_figure_marks_rows_left_out():
    given = trace()
    keep = np.array(given.keep)
    keep[100:200, 0] = False
    measured = np.array(given.measured)
    measured[150, 0] = 1e3
    given = replace(given, keep=keep, measured=measured)
    figure = drawn(plots.effort_figure(given, fits(), ['N m'] * 2))
    axes = np.array(figure.axes).reshape(2, 2)
    whole, used = axes[0, 1].lines
    assert np.isfinite(whole.get_ydata()).all()
    np.testing.assert_array_equal(np.isnan(used.get_ydata()), ~given.keep[:, 0])
    assert len(axes[1, 1].lines) == 1
    # the scale is that of the rows that count
    assert axes[0, 1].get_ylim()[1] < 1.0
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert 'residual of rows left out' in labels


def test_lines_are_interrupted_between_segments():
    given = trace(segments=(0, 1, 2))
    (line, *_) = plots.effort_figure(given, fits(), ['N m'] * 2).axes[0].lines
    assert np.isnan(line.get_ydata()).sum() == 2


def test_recordings_one_after_the_other_do_not_overlap():
    """Each starts at its own time zero, or years apart: the axis goes on."""
    first = trace()
    for shift in (0.0, -100.0, 1e9):
        time = np.concatenate([first.time, first.time + shift])
        segment = np.repeat([0, 1], len(first))
        both = FitTrace(time, segment, *(
            np.concatenate([a, a]) for a in (first.measured, first.predicted, first.keep)
        ))  # fmt: skip
        (line, *_) = plots.effort_figure(both, fits(), ['N m'] * 2).axes[0].lines
        x = line.get_xdata()
        x = x[np.isfinite(x)]
        assert (np.diff(x) > 0.0).all()
        assert 20.0 <= x[-1] < 21.0


def test_a_thinned_trace_reaches_as_far_as_all_of_it():
    random = np.random.default_rng(3)
    given = trace(20_000, segments=(0, 1))
    measured = np.array(given.measured)
    peaks = random.choice(len(given), 40, replace=False)
    measured[peaks, 0] += random.choice([-5.0, 5.0], 40)
    keep = np.array(given.keep)
    keep[9_000:9_500] = False
    given = replace(given, measured=measured, keep=keep)
    figure = plots.effort_figure(given, fits(), ['N m'] * 2)
    effort, residual = figure.axes[0].lines[0], figure.axes[1].lines[1]
    for line, values in (
        (effort, given.measured[:, 0]),
        (residual, given.residual[given.keep[:, 0], 0]),
    ):
        shown = line.get_ydata()
        assert np.nanmin(shown) == values.min()
        assert np.nanmax(shown) == values.max()
        assert shown.size <= 2001
    seen = given.measured[np.setdiff1d(peaks, np.flatnonzero(~keep[:, 0])), 0]
    assert np.isin(seen, effort.get_ydata()).mean() > 0.9
    assert np.isnan(effort.get_ydata()).sum() == 1
    assert (np.diff(effort.get_xdata()[np.isfinite(effort.get_xdata())]) > 0.0).all()


def test_long_traces_are_thinned_and_short_ones_drawn():
    (line, *_) = plots.effort_figure(trace(10_000), fits(), ['N m'] * 2).axes[0].lines
    assert 1000 <= line.get_xdata().size <= 2000
    for samples in (1, 2):
        drawn(plots.effort_figure(trace(samples), fits(), ['N m'] * 2))
        drawn(plots.residual_figure(trace(samples), fits(), ['N m'] * 2))


@pytest.mark.parametrize('joints', [1, 3, 7])
def test_residual_figure_has_an_axis_a_joint(joints):
    figure = drawn(plots.residual_figure(trace(joints=joints), fits(joints), ['N m'] * joints))
    visible = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title() for ax in visible] == [f.joint for f in fits(joints)]
    for ax in visible:
        (bars,) = ax.patches
        density, edges, _ = bars.get_data()
        assert density @ np.diff(edges) == pytest.approx(1.0)


def test_deviation_figure():
    given = estimate(['kg'] * 30)
    essential = given.relative_std < 8.0
    figure = drawn(plots.deviation_figure(given, essential, 8.0))
    bars = [patch for ax in figure.axes for patch in ax.patches]
    np.testing.assert_allclose([bar.get_width() for bar in bars], given.relative_std)
    names = [text.get_text() for ax in figure.axes for text in ax.get_yticklabels()]
    assert names == list(given.base.layout.names)
    colours = [bar.get_facecolor() for bar in bars]
    assert len({c for c, e in zip(colours, essential, strict=True) if e}) == 1
    assert {c for c, e in zip(colours, essential, strict=True) if e}.isdisjoint(
        {c for c, e in zip(colours, essential, strict=True) if not e}
    )


def test_prior_figure_groups_by_unit():
    units = ['kg m^2'] * 9 + ['kg m'] * 3 + ['N m'] * 4
    given = estimate(units)
    before = ParameterSet(given.base.layout, given.base.values + 0.3)
    figure = drawn(plots.prior_figure(given, before))
    labels = [ax.get_xlabel() for ax in figure.axes]
    assert sorted(labels) == ['[N m]', '[kg m]', '[kg m²]']
    ax = figure.axes[labels.index('[kg m]')]
    diamonds = next(line for line in ax.lines if line.get_marker() == 'D')
    np.testing.assert_allclose(diamonds.get_xdata(), before.values[9:12])
    dots = next(line for line in ax.lines if line.get_marker() == 'o')
    np.testing.assert_allclose(dots.get_xdata(), given.base.values[9:12])


def test_prior_figure_of_zeros():
    given = estimate(['kg m'])
    zeros = ParameterSet(given.base.layout, np.zeros(1))
    drawn(plots.prior_figure(given, zeros))


def test_singular_values():
    values = np.array([3.0, 2.0, 1.0, 1e-15, 0.0])
    structure = BaseStructure(
        layout=ParameterLayout(tuple('abcde'), ('kg',) * 5),
        independent=np.arange(3),
        dependent=np.array([3, 4]),
        unidentifiable=np.array([], dtype=int),
        regrouping=np.eye(3, 5),
        singular_values=values,
        gap=1e15,
        expressions=tuple('abc'),
    )
    figure = drawn(plots.singular_value_figure(structure))
    counting, rest, _ = figure.axes[0].lines
    np.testing.assert_array_equal(counting.get_ydata(), values[:3])
    assert rest.get_xdata().tolist() == [4, 5]
    assert 'rank 3, gap 1e15' in figure.axes[0].texts[0].get_text()


def test_any_thread_may_draw():
    done = []
    thread = threading.Thread(
        target=lambda: done.append(drawn(plots.effort_figure(trace(), fits(), ['N m'] * 2)))
    )
    thread.start()
    thread.join()
    assert done


def written(figure, monkeypatch):
    """Draw a figure; return where it has which text [pixels]."""
    found = []
    draw = Text.draw

    def noted(self, renderer):
        if self.get_text() and self.get_visible():
            found.append((self.get_text(), self.get_window_extent(renderer)))
        draw(self, renderer)

    with monkeypatch.context() as patch:
        patch.setattr(Text, 'draw', noted)
        figure.draw(RendererAgg(*figure.bbox.size, figure.dpi))
    return found


@pytest.mark.parametrize('scale', [1e-7, 1e-3, 0.02, 1.0, 950.0, 3e8])
@pytest.mark.parametrize('joints', [1, 4])
def test_nothing_is_cut_off_or_overlaps(monkeypatch, scale, joints):
    given = trace(joints=joints)
    given = replace(given, measured=scale * given.measured, predicted=scale * given.predicted)
    named = [replace(f, joint=f'left_arm/a_joint_of_a_long_name_{f.joint}') for f in fits(joints)]
    units = ['N m'] * joints
    for figure in (
        plots.effort_figure(given, named, units),
        plots.residual_figure(given, named, units),
    ):
        texts = written(figure, monkeypatch)
        assert_apart(figure, texts)
        assert any('residual' in text for text, _ in texts)


def test_values_over_many_decades_or_close_together(monkeypatch):
    given = estimate(['kg'] * 6 + ['kg m'] * 6 + ['N m'] * 6)
    random = np.random.default_rng(1)
    for values in (
        random.uniform(-1.0, 1.0, 18) * 10.0 ** random.uniform(-6.0, 3.0, 18),
        random.uniform(5.0, 5.5, 18),
        -random.uniform(1e-4, 2e-4, 18),
    ):
        base = ParameterSet(given.base.layout, values)
        figure = plots.prior_figure(replace(given, base=base, std=0.01 * np.abs(values)), base)
        assert_apart(figure, written(figure, monkeypatch))
        for ax in figure.axes:
            low, high = ax.get_xlim()
            places = ax.xaxis.get_majorticklocs()
            assert ((places >= low) & (places <= high)).sum() >= 2


def assert_apart(figure, texts):
    for i, (text, box) in enumerate(texts):
        inside = figure.bbox
        assert box.x0 >= inside.x0 and box.x1 <= inside.x1, text
        assert box.y0 >= inside.y0 and box.y1 <= inside.y1, text
        for other, place in texts[:i]:
            # boxes of text have some room around it
            assert not box.padded(-1.5).overlaps(place.padded(-1.5)), (text, other)


def test_the_same_figure_is_the_same_image():
    first, second = (image(plots.effort_figure(trace(), fits(), ['N m'] * 2)) for _ in range(2))
    assert first == second
    assert first.startswith('data:image/svg+xml')


def test_large_drawings_are_bitmaps_drawn_once(monkeypatch):
    figure = plots.effort_figure(trace(5_000, joints=12), fits(12), ['N m'] * 12)
    kinds = []
    save = figure.savefig

    def noted(stream, format, **more):
        assert isinstance(stream, io.BytesIO)
        kinds.append(format)
        save(stream, format=format, **more)

    monkeypatch.setattr(figure, 'savefig', noted)
    assert image(figure).startswith('data:image/png')
    assert kinds == ['png']
