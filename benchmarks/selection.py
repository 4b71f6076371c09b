# SPDX-License-Identifier: Apache-2.0
"""
Chosen settings against fixed ones, by what they predict of another motion.

    .venv/bin/python -m benchmarks selection --robots 10

Arms with model errors are those of `honesty`.  There all settings are judged alike: efforts and
predictions at the recording's own stamps, low-passed at `CUTOFF`.  Arms with one defect are those
of `defective_arms`: the terms that are chosen are known to be there or not, and parameters are
judged by the exact effort of another motion.
"""

from __future__ import annotations

from dataclasses import replace
import itertools
import warnings

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.errors import IdentificationWarning
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.estimation.least_squares import wls
from robot_identification.estimation.physical import physical
from robot_identification.estimation.system import system_of
from robot_identification.estimation.validation import predicted_efforts
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings
from robot_identification.regressor.base_search import structure
from robot_identification.selection.model_selection import choose_model
from robot_identification.signals import SignalSettings
from scipy.signal import butter, sosfiltfilt
from scipy.spatial.transform import Rotation

from . import honesty
from .defective_arms import Case, case, DEFECTS, not_there, SOUND
from .harness import Figure, Section, Table

EXACT, RIM = 40.0, 50
"""Cut-off frequency for exact positions [Hz], and rows that are left out at ends."""

CUTOFF = 20.0
"""Of the low-pass that efforts and predictions are judged behind [Hz]."""

PLAIN = ('viscous', 'coulomb', 'offset')
FRICTIONS = (PLAIN, (*PLAIN, 'root'), (*PLAIN, 'load', 'root'))
CUTOFFS = (5.0, 10.0, 25.0)
DEAD_ZONES = (0.0, 0.05)
ROBOTS = 10
"""With each defect."""

DRAWS = 9
"""Recordings of an arm, with other noise, of whose errors the median counts."""

AUTO = 'auto'
WORST, MEDIAN, FALSE_TERMS = 1.05, 0.8, 5.0
"""Error by that of plain least squares, of each arm and in the median of those with defects;
recordings for which terms are chosen that are not there [%]."""


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


def error_by_parameters(
    made: Case, model: ModelSettings, signals: SignalSettings, method: str, robot: Robot
) -> float:
    """Identify, and return the relative error of the exact effort of the other motion [%]."""
    problem = IdentificationProblem(robot, model=model, signals=signals)
    regressor, prior = problem.regressor(), problem.prior()
    base = structure(regressor, robot, grouping=model.grouping)
    system = system_of([made.recording], regressor, base, signals, timed=True)
    if method == 'wls':
        estimate = wls(system, prior=prior)
    else:
        estimate = physical(system, robot, prior, model=model, drawing=None)
    # parameters are those of an effort that comes at once
    exact = replace(signals, cutoff=EXACT, effort_delay=0.0, effort_low_pass=0.0)
    parts = list(predicted_efforts(estimate.base, made.other, regressor, base, exact))
    measured, predicted = (
        np.vstack([getattr(part, key) for part in parts])[RIM:-RIM]
        for key in ('measured', 'predicted')
    )
    return 100.0 * float(np.linalg.norm(measured - predicted) / np.linalg.norm(measured))


def judged(name: str, seed: int, draw: int = 0) -> tuple[tuple[float, float], list[str]]:
    """Return the errors of the choice and of plain least squares, and terms that are not there."""
    made, usual, plain = case(name, seed, draw), ModelSettings(), SignalSettings(decimate_to=50.0)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        start = SignalSettings()
        chosen = choose_model([made.recording], made.robot, usual, start, frozenset())
        gravity = Rotation.from_rotvec(chosen.tilt).apply(made.robot.gravity)
        stands = made.robot.with_gravity(gravity.tolist())
        found = error_by_parameters(made, chosen.model, chosen.signals, 'physical', stands)
        without = error_by_parameters(made, usual, plain, 'wls', made.robot)
    return (found, without), not_there(name, made, chosen)


def defective(robots: int) -> tuple[Table, list[Figure]]:
    """Choose for ``robots`` arms with each defect; tell of false terms, and of errors."""
    rows, every, flawed, wrong = [], [], [], []
    for name in DEFECTS:
        errors, false_terms = np.empty((robots, DRAWS, 2)), []
        for arm, draw in np.ndindex(robots, DRAWS):
            errors[arm, draw], terms = judged(name, arm + 1, draw)
            false_terms += [f'{term} ({arm + 1})' for term in terms]
            wrong.append(bool(terms))
        ratios = errors[:, :, 0] / errors[:, :, 1]
        share = np.median(ratios, axis=1)
        every += share.tolist()
        flawed += [] if name in SOUND else share.tolist()
        cells = (*np.median(errors, axis=(0, 1)), np.median(share), share.max(), ratios.max())
        rows.append([name, *(f'{value:.2f}' for value in cells), ', '.join(false_terms) or '-'])
    heads = [
        'defect',
        'auto %',
        'plain %',
        'median ratio',
        'worst arm',
        'worst recording',
        'terms not there (arm)',
    ]
    text = (
        f'Error of the exact effort of another motion, medians of {robots} arms each: settings '
        'chosen and the physical fit, beside the usual model at 25 Hz and weighted least squares. '
        f'Each arm is recorded {DRAWS} times with other noise, and the median of its ratios '
        'counts: by noise alone those of one arm differ by up to two.'
    )
    middle = float(np.median(flawed))
    figures = [
        Figure(
            'recordings with terms that are not there',
            100.0 * float(np.mean(wrong)),
            '%',
            FALSE_TERMS,
        ),
        Figure('error by plain, worst arm', max(every), '', WORST),
        Figure('error by plain, median of arms with defects', middle, '', MEDIAN),
    ]
    return Table(heads, rows, 'Arms with one defect', text), figures


def section(robots: int = ROBOTS) -> Section:
    """Judge the choice for so many arms with each defect, and a fifth of others."""
    table, figures = defective(robots)
    rows, seeds = [], max(1, robots // 5)
    for name in honesty.arms():
        found = [errors(name, seed) for seed in range(1, seeds + 1)]
        means = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        best = min((key for key in means if key != AUTO), key=means.__getitem__)
        change = 100.0 * (means[AUTO] / means[best] - 1.0)
        each = [100.0 * (one[AUTO] / min(one[k] for k in one if k != AUTO) - 1.0) for one in found]
        cells = (f'{means[AUTO]:.2f}', f'{means[best]:.2f}', f'{change:+.1f}')
        rows.append([name, *cells, f'{np.median(each):+.1f}', f'{max(each):+.1f}', best])
        figures.append(Figure(f'auto above the best fixed setting, {name}', change, '%', 2.0))
    heads = ['arm', 'auto %', 'best fixed %', 'change %', 'median seed %', 'worst seed %', 'best']
    text = (
        f'Error of the effort of another motion, mean of {seeds} seeds; the best of '
        f'{len(fixed())} fixed settings by that mean, and, by seed, of each seed.'
    )
    return Section(
        'Chosen settings', '', [Table(heads, rows, 'Held-out error', text), table], figures
    )
