# SPDX-License-Identifier: Apache-2.0
"""Figures of the drive gains from runs with and without a load of known mass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from robot_identification.estimation.drive_gains import drive_gains, DriveGains, load_on
from robot_identification.estimation.rows import row_blocks
from robot_identification.regressor import build
from robot_identification.regressor.base_search import structure
from robot_identification.signals import SignalSettings

from . import simulated_arm
from .page import figure, Table

TRUE = np.array([1.15, 0.9, 1.05])
"""Gains over the assumed ones."""

MASS, CENTRE, INERTIA = 3.0, (0.05, 0.02, 0.1), (0.01, 0.0, 0.012, 0.0, 0.0, 0.009)

KNOWN = {
    'mass': (),
    'mass and centre of mass': (CENTRE,),
    'mass, centre of mass and inertia': (CENTRE, INERTIA),
}


def table(seeds: int = 10) -> Table:
    """
    Return the figures as a table.

    Parameters
    ----------
    seeds:
        Pairs of recordings to take the worst of.

    """
    rows = []
    for known in KNOWN:
        for method, name in (('total', 'total least squares'), ('constrained', 'constrained fit')):
            found = [gains(seed, known, method, 0.05) for seed in range(seeds)]
            error = np.array([g.factors - TRUE for g in found]) / TRUE
            std = np.array([g.std for g in found]) / TRUE
            worst = float(100.0 * np.abs(error).max())
            rows.append(figure(f'largest error [%], {name}, {known}', None, worst, at_most=1.0))
            if method == 'total':
                score = float(np.abs(error / std).max())
                text = f'the same in standard deviations, {name}, {known}'
                rows.append(figure(text, None, score, at_most=4.0))
    for method, name in (('total', 'total least squares'), ('constrained', 'constrained fit')):
        error = np.mean([gains(s, 'mass', method, 0.5).factors / TRUE - 1.0 for s in range(seeds)])
        why = 'noise in the columns of unknowns shrinks them' if method == 'constrained' else ''
        text = f'mean error with ten times the noise [%], {name}'
        limit = {'equal': 0.0, 'within': 0.5} if method == 'total' else {}
        rows.append(figure(text, None, float(100.0 * error), why=why, **limit))
    return Table(
        'Drive gains of a three-joint arm, by what is known of the load',
        rows,
        f'A simulated arm of three joints whose gains are off by +15, -10 and +5 %, with and '
        f'without a load of {MASS:g} kg, over {seeds} pairs of recordings of 12 s; noise of 0.05 '
        'N m in the currents.',
    )


def gains(seed: int, known: str, method: str, noise: float) -> DriveGains:
    """
    Identify the gains of the simulated arm.

    Parameters
    ----------
    seed:
        Of motion and noise.
    known:
        What is known of the load, a key of `KNOWN`.
    method:
        As in `drive_gains`.
    noise:
        Of the currents, in joint effort by the assumed gains [N m].

    """
    robot, truth = simulated_arm.arm()
    regressor = build(robot)
    heavy = simulated_arm.loaded(truth, load_on(robot, MASS, CENTRE, INERTIA))
    runs = []
    for number, parameters in enumerate((truth, heavy)):
        made = simulated_arm.recording(robot, parameters, 2 * seed + number, 0.0)
        rng = np.random.default_rng([seed, number])
        effort = made.effort / TRUE + noise * rng.normal(size=made.effort.shape)
        runs.append(replace(made, effort=effort))
    base, assumed = structure(regressor, robot), np.eye(robot.n_joints)
    signals = SignalSettings(cutoff=20.0, decimate_to=50.0, dead_zone=0.05)
    rows = (row_blocks(run, regressor, base, signals) for run in runs)
    load = load_on(robot, MASS, *KNOWN[known])
    return drive_gains(*rows, load, base, robot.joints, assumed, method=method)
