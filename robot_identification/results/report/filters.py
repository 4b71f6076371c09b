# SPDX-License-Identifier: Apache-2.0
"""A figure of what signal methods make of sines, to choose their parameters by."""

from __future__ import annotations

from collections.abc import Sequence
import os
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
import numpy as np

from ...errors import SettingsError
from ...signals.responses import FrequencyResponse, SIGNALS
from .drawing import (
    GOOD,
    legend,
    MEASURED,
    new_figure,
    PREDICTED,
    RESIDUAL,
    style,
    TEXT,
)

COLOURS = (PREDICTED, RESIDUAL, GOOD, MEASURED)

POINTS = 400
"""Frequencies that a curve is drawn through."""

SUFFIXES = ('.png', '.svg', '.pdf')


def curve_frequencies(rate: float) -> np.ndarray:
    """Return (POINTS,) frequencies from a thousandth of the sampling rate to half of it [Hz]."""
    return np.geomspace(1e-3 * rate, 0.5 * rate, POINTS)


def figure(responses: Sequence[FrequencyResponse], nyquist: float | None = None) -> Figure:
    """
    Draw responses into one figure.

    Parameters
    ----------
    responses:
        One a curve, at `curve_frequencies`.
    nyquist:
        Highest frequency that decimation leaves, marked by a line; None for none [Hz].

    """
    drawing, grid = new_figure(2.9, 1, len(SIGNALS), left=0.55, gap=0.3, top=0.6)
    for i, name in enumerate(SIGNALS):
        ax = drawing.add_subplot(grid[0, i])
        style(ax)
        for response, colour in zip(responses, _colours(len(responses)), strict=True):
            share = 100.0 * np.abs(response.share[i])
            ax.semilogx(response.frequency, share, color=colour, linewidth=1.3)
        if nyquist is not None:
            ax.axvline(nyquist, color=TEXT, linewidth=0.8, linestyle=':')
        ax.set_ylim(0.0, 125.0)
        ax.set_title(name, fontsize=8.5, color=TEXT)
        ax.set_xlabel('frequency [Hz]', fontsize=7.5, color=TEXT)
        if i == 0:
            ax.set_ylabel('share of the true one [%]', fontsize=7.5, color=TEXT)
        else:
            ax.set_yticklabels([])
    entries = [
        Line2D([], [], color=colour, label=response.method)
        for response, colour in zip(responses, _colours(len(responses)), strict=True)
    ]
    if nyquist is not None:
        entries.append(Line2D([], [], color=TEXT, linestyle=':', label='half the decimated rate'))
    legend(drawing, entries)
    return drawing


def write_figure(drawing: Figure, path: str | os.PathLike) -> Path:
    """
    Write a figure as the kind of file that its name says.

    Raises
    ------
    SettingsError
        where it is none of `SUFFIXES`, or the file cannot be written.

    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise SettingsError(
            f"'{path}' is no picture", file=str(path), remedy=f'end it in {", ".join(SUFFIXES)}'
        )
    try:
        drawing.savefig(path, dpi=150)
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}", file=str(path)) from error
    return path


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
