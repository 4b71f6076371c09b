# SPDX-License-Identifier: Apache-2.0
"""A figure of what signal methods make of sines, to choose their parameters by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...signals.responses import FrequencyResponse, SIGNALS
from .figure import BELOW, Figure, GOOD, headline, MEASURED, PREDICTED, RESIDUAL, TEXT

COLOURS = (PREDICTED, RESIDUAL, GOOD, MEASURED)

POINTS = 400
"""Frequencies that a curve is drawn through."""


def curve_frequencies(rate: float) -> np.ndarray:
    """Return (POINTS,) frequencies from a thousandth of the sampling rate to half of it [Hz]."""
    return np.geomspace(1e-3 * rate, 0.5 * rate, POINTS)


def response_figures(
    responses: Sequence[FrequencyResponse], nyquist: float | None = None
) -> list[Figure]:
    """
    Return a figure for each signal, with a curve for each method.

    Parameters
    ----------
    responses:
        One a curve, at `curve_frequencies`.
    nyquist:
        Highest frequency that decimation leaves, marked by a line; None for none [Hz].

    """
    line = {'type': 'line', 'x0': nyquist, 'x1': nyquist, 'y0': 0, 'y1': 1, 'yref': 'paper',
            'line': {'color': TEXT, 'width': 1, 'dash': 'dot'},
            'label': {'text': 'half the decimated rate', 'font': {'size': 10}}}  # fmt: skip
    figures = []
    for i, name in enumerate(SIGNALS):
        traces: list[dict[str, Any]] = [
            {
                'x': response.frequency, 'y': 100.0 * np.abs(response.share[i]), 'mode': 'lines',
                'name': response.method, 'line': {'color': COLOURS[k % len(COLOURS)]},
                'hovertemplate': '%{y:.1f} %',
            }
            for k, response in enumerate(responses)
        ]  # fmt: skip
        layout = {
            'height': 340, 'hovermode': 'x unified', 'showlegend': True,
            'title': headline(name), 'legend': BELOW,
            'xaxis': {'type': 'log', 'title': {'text': 'frequency [Hz]'}, 'dtick': 1,
                      'tickformat': '~g', 'unifiedhovertitle': {'text': '%{x:.3g} Hz'}},
            'yaxis': {'range': [0.0, 125.0], 'title': {'text': 'share of the true one [%]'}},
            'shapes': [] if nyquist is None else [line],
        }  # fmt: skip
        figures.append(Figure(f'Share of the true {name} over frequency', traces, layout))
    return figures
