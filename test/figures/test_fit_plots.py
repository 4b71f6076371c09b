# SPDX-License-Identifier: Apache-2.0
"""Figures of a fit show what they are given; looked at through what plotly is given."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.estimation.estimate import JointFit
from robot_identification.estimation.plot_samples import FitTrace
from robot_identification.figures import fit_plots


def trace(samples=500, joints=2, segments=(0,)):
    random = np.random.default_rng(5)
    time = np.linspace(100.0, 110.0, samples)
    segment = np.repeat(segments, -(-samples // len(segments)))[:samples]
    measured = np.sin(time)[:, None] * np.arange(1, joints + 1)
    predicted = measured + 0.1 * random.standard_normal(measured.shape)
    return FitTrace(time, segment, measured, predicted, np.ones(measured.shape, dtype=bool))


def fits(joints=2):
    return [JointFit(f'joint_{j}', 500, 0.1, 5.0, 9.0, 0.0) for j in range(1, joints + 1)]


def lines(figure, name):
    return [part for part in figure.traces if part.get('name') == name]


def test_effort_figures_show_the_traces():
    given = trace()
    figures = fit_plots.effort_figures(given, fits(), ['N m', 'N'], time='run')
    assert [figure.joint for figure in figures] == ['joint_1', 'joint_2']
    assert {figure.time for figure in figures} == {'run'}
    for j, figure in enumerate(figures):
        for name in ('measured', 'predicted', 'residual'):
            (line,) = lines(figure, name)
            np.testing.assert_allclose(line['x'], given.time - given.time[0])
            np.testing.assert_allclose(line['y'], getattr(given, name)[:, j])
        assert figure.layout['xaxis']['range'] == [0.0, pytest.approx(10.0)]
    assert figures[1].layout['yaxis']['title']['text'] == 'effort<br>[N]'
    assert '5.0 %' in figures[0].layout['annotations'][0]['text']


def test_one_figure_of_all_joints_has_their_panels_below_one_another():
    figure = fit_plots.effort_figure(trace(joints=3), fits(3), ['N m'] * 3)
    axes = [part for name, part in figure.layout.items() if name.startswith('yaxis')]
    borders = [border for axis in axes for border in reversed(axis['domain'])]
    assert len(axes) == 6
    assert borders == sorted(borders, reverse=True)
    assert borders[0] == 1.0
    assert borders[-1] == pytest.approx(0.0)
    assert len(lines(figure, 'measured')) == 3
    assert [part['showlegend'] for part in lines(figure, 'measured')] == [True, False, False]


def test_rows_left_out_are_pale_and_set_no_scale():
    given = trace()
    keep = np.array(given.keep)
    keep[100:200, 0] = False
    measured = np.array(given.measured)
    measured[150, 0] = 1e3
    given = replace(given, keep=keep, measured=measured)
    first, second = fit_plots.effort_figures(given, fits(), ['N m'] * 2)
    (whole,), (used,) = lines(first, 'left out'), lines(first, 'residual')
    assert np.isfinite(whole['y']).all()
    np.testing.assert_array_equal(np.isnan(used['y']), ~given.keep[:, 0])
    assert not lines(second, 'left out')
    assert first.layout['yaxis2']['range'][1] < 1.0


def test_a_spike_at_the_edge_sets_no_scale_and_one_within_does():
    for row, clipped in ((0, True), (497, True), (250, False)):
        given = trace()
        predicted = np.array(given.predicted)
        predicted[row, 0] = 1e3
        first, second = fit_plots.effort_figures(
            replace(given, predicted=predicted), fits(), ['N m'] * 2
        )
        assert lines(first, 'predicted')[0]['y'][row] == 1e3
        for name in ('yaxis', 'yaxis2'):
            assert ('range' in first.layout[name]) == clipped
            assert 'range' not in second.layout[name]
            assert not clipped or first.layout[name]['range'][1] < 100.0


def test_lines_are_interrupted_between_segments():
    figure, _ = fit_plots.effort_figures(trace(segments=(0, 1, 2)), fits(), ['N m'] * 2)
    assert np.isnan(figure.traces[0]['x']).sum() == 2


def test_recordings_one_after_the_other_do_not_overlap():
    """Each starts at its own time zero, or years apart: the axis goes on."""
    first = trace()
    for shift in (0.0, -100.0, 1e9):
        time = np.concatenate([first.time, first.time + shift])
        segment = np.repeat([0, 1], len(first))
        both = FitTrace(time, segment, *(
            np.concatenate([a, a]) for a in (first.measured, first.predicted, first.keep)
        ))  # fmt: skip
        x = fit_plots.effort_figures(both, fits(), ['N m'] * 2)[0].traces[0]['x']
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
    figure, _ = fit_plots.effort_figures(given, fits(), ['N m'] * 2, most=2000)
    (effort,), (residual,) = lines(figure, 'measured'), lines(figure, 'residual')
    for line, values in (
        (effort, given.measured[:, 0]),
        (residual, given.residual[given.keep[:, 0], 0]),
    ):
        assert np.nanmin(line['y']) == values.min()
        assert np.nanmax(line['y']) == values.max()
        assert 1000 <= line['y'].size <= 2001
    seen = given.measured[np.setdiff1d(peaks, np.flatnonzero(~keep[:, 0])), 0]
    assert np.isin(seen, effort['y']).mean() > 0.9
    assert (np.diff(effort['x'][np.isfinite(effort['x'])]) > 0.0).all()


@pytest.mark.parametrize('samples', [1, 2, 100])
def test_residuals_are_histograms_of_area_one(samples):
    figures = fit_plots.residual_figures(trace(samples, joints=3), fits(3), ['N m'] * 3)
    assert [figure.joint for figure in figures] == ['', '', '']
    for figure in figures[: 3 if samples > 1 else 0]:
        bars, bell = figure.traces
        assert bars['y'].sum() * bars['width'] == pytest.approx(1.0)
        assert bell['y'].max() > 0.0


def test_names_are_no_markup():
    odd = [replace(fits(1)[0], joint='<b>&joint')]
    for figure in (
        *fit_plots.effort_figures(trace(joints=1), odd, ['N m']),
        *fit_plots.residual_figures(trace(joints=1), odd, ['N m']),
    ):
        texts = [note['text'] for note in figure.layout.get('annotations', ())]
        texts.append(figure.layout.get('title', {}).get('text', ''))
        assert '&lt;b&gt;&amp;joint' in ''.join(texts)
        assert '<b>&joint' not in ''.join(texts)
