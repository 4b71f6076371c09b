# SPDX-License-Identifier: Apache-2.0
"""
Chosen settings against fixed ones, by what they predict of another motion.

    .venv/bin/python -m benchmarks selection

The arms and their model errors are those of `honesty`.  All settings are judged alike: efforts and
predictions at the recording's own stamps, low-passed at `CUTOFF`.
"""

from __future__ import annotations

from dataclasses import replace
import itertools
import warnings

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.errors import IdentificationWarning
from robot_identification.estimation import EstimationSettings
from robot_identification.estimation.model_selection import choose_model
from robot_identification.estimation.validation import predicted_efforts
from robot_identification.pipeline import identify_sources
from robot_identification.regressor import ModelSettings
from robot_identification.signals import SignalSettings
from scipy.signal import butter, sosfiltfilt

from . import honesty
from .harness import Figure, Section, Table

CUTOFF = 20.0
"""Of the low-pass that efforts and predictions are judged behind [Hz]."""

PLAIN = ('viscous', 'coulomb', 'offset')
FRICTIONS = (PLAIN, (*PLAIN, 'root'), (*PLAIN, 'load', 'root'))
CUTOFFS = (5.0, 10.0, 25.0)
DEAD_ZONES = (0.0, 0.05)
SEEDS = 50
AUTO = 'auto'


def fixed() -> dict[str, tuple[ModelSettings, SignalSettings]]:
    """Return the fixed settings, by name."""
    return {
        f'{"+".join(friction[3:]) or "plain"}, {cutoff:g} Hz, dead zone {zone:g}': (
            ModelSettings(friction=friction),
            SignalSettings(cutoff=cutoff, dead_zone=zone, decimate_to=2.5 * cutoff),
        )
        for friction, cutoff, zone in itertools.product(FRICTIONS, CUTOFFS, DEAD_ZONES)
    }


def held_out(problem: IdentificationProblem, recorded: Recording, other: Recording) -> float:
    """Return the relative error of the efforts of another motion [%]."""
    result = identify_sources(problem, [recorded])
    regressor = problem.regressor()
    blocks = predicted_efforts(
        result.estimate.base, other, regressor, result.structure, problem.signals
    )
    parts = list(blocks)
    measured = np.vstack([part.measured for part in parts])
    predicted = np.vstack([part.predicted for part in parts])
    known = np.isfinite(predicted).all(axis=1)
    smooth = butter(4, CUTOFF, fs=honesty.RATE, output='sos')
    columns = (sosfiltfilt(smooth, efforts[known], axis=0) for efforts in (measured, predicted))
    effort, expected = columns
    return 100.0 * float(np.linalg.norm(effort - expected) / np.linalg.norm(effort))


def errors(name: str, seed: int) -> dict[str, float]:
    """Return the error of the choice and of each fixed setting for an arm [%]."""
    robot = honesty.arms()[name]
    recorded, _ = honesty.recording(robot, seed)
    other, _ = honesty.recording(robot, seed, motion=1)
    problem = honesty.problem(robot)
    problem = replace(problem, estimation=EstimationSettings(method='wls', bootstrap=None))
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        chosen = choose_model([recorded], robot, problem.model, problem.signals, frozenset())
        found[AUTO] = held_out(problem.with_selection(chosen), recorded, other)
        for key, (model, signals) in fixed().items():
            settings = replace(problem, model=model, signals=signals)
            found[key] = held_out(settings, recorded, other)
    return found


def section() -> Section:
    """Judge the choice for `SEEDS` seeds of each arm."""
    rows, figures = [], []
    for name in honesty.arms():
        found = [errors(name, seed) for seed in range(1, SEEDS + 1)]
        means = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        best = min((key for key in means if key != AUTO), key=means.__getitem__)
        change = 100.0 * (means[AUTO] / means[best] - 1.0)
        each = [100.0 * (one[AUTO] / min(one[k] for k in one if k != AUTO) - 1.0) for one in found]
        cells = (f'{means[AUTO]:.2f}', f'{means[best]:.2f}', f'{change:+.1f}')
        rows.append([name, *cells, f'{np.median(each):+.1f}', f'{max(each):+.1f}', best])
        figures.append(Figure(f'auto above the best fixed setting, {name}', change, '%', 2.0))
    heads = ['arm', 'auto %', 'best fixed %', 'change %', 'median seed %', 'worst seed %', 'best']
    text = (
        f'Error of the effort of another motion, mean of {SEEDS} seeds; the best of '
        f'{len(fixed())} fixed settings by that mean, and, by seed, of each seed.'
    )
    return Section('Chosen settings', '', [Table(heads, rows, 'Held-out error', text)], figures)
