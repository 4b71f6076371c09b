# SPDX-License-Identifier: Apache-2.0
"""What none of the papers does: physical parameters, outliers, payloads, drive gains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
from robot_identification.estimation import EstimationSettings, PhysicalSettings
from robot_identification.estimation.irls import IrlsSettings
from robot_identification.io.experiment import load_experiment
from robot_identification.io.load import KnownLoad, PayloadRecordings
from robot_identification.io.results import Result
from robot_identification.io.urdf import identified_urdf
from robot_identification.pipeline import identify, identify_sources
from robot_identification.signals import SignalSettings

from .beyond_robots import Known, known, least_eigenvalues, rotor_matrix, vector
from .page import figure, Page, Row, Table

ROOT = Path(__file__).resolve().parents[2]
TX40 = ROOT / 'examples' / 'tx40' / 'experiment.yaml'
DATA = ROOT.parent / 'shared' / 'data' / 'tx40'
SIGNALS = SignalSettings(cutoff=15.0, decimate_to=50.0, dead_zone=0.05)
LOAD = pin.Inertia(2.0, np.array([0.02, -0.01, 0.08]), np.diag([0.008, 0.009, 0.005]))
SIGNIFICANT = 5.0
"""Relative standard deviation up to which a parameter counts as significant [%]."""

GAINS = np.array([1.15, 0.9, 1.04, 1.08, 0.95, 1.1])
"""Of the drives of the demonstration arm, over the assumed ones."""


def by(robot: Known, method: str, **settings: object) -> Known:
    """Return the robot with another estimation method."""
    estimation = EstimationSettings(method=method, essential=None, **settings)  # type: ignore[arg-type]
    return replace(robot, problem=replace(robot.problem, signals=SIGNALS, estimation=estimation))


# ----------------------------------------------------------------------------------- physical


def tx40(divergence: str = 'euclidean') -> tuple[Result, Result]:
    """Identify the real recording of a TX-40 with and without the constraints."""
    override = {'estimation.physical.divergence': divergence}
    free, found = (
        identify(load_experiment(TX40, {**override, 'estimation.method': method}))
        for method in ('wls', 'physical')
    )
    return free, found


def simulated(name: str, *, duration: float = 20.0, **settings: object) -> dict[str, float]:
    """
    Identify a simulated robot with and without the constraints.

    Returns
    -------
    dict
        ``links``; ``time`` of the estimation with the constraints [s]; ``ratio`` of the relative
        errors; ``unphysical`` links without and ``left`` with the constraints; ``error_free`` and
        ``error``, the distance from the true base parameters in standard deviations, root of the
        mean square.

    """
    robot = known(name)
    recording = robot.recording(7, duration=duration, noise=0.3)
    options = PhysicalSettings(**settings)  # type: ignore[arg-type]
    free, found = (
        identify_sources(by(robot, method, physical=options).problem, [recording])
        for method in ('wls', 'physical')
    )
    truth = free.structure.project(robot.truth).values
    inverse = np.linalg.inv(free.estimate.covariance)

    def away(result: Result) -> float:
        error = result.estimate.base.values - truth
        return float(np.sqrt(error @ inverse @ error / error.size))

    return {
        'links': robot.robot.n_joints,
        'time': found.timing['estimation'],
        'ratio': found.estimate.relative_error / free.estimate.relative_error,
        'unphysical': sum(not link.physical for link in free.consistency.links),
        'left': sum(not link.physical for link in found.consistency.links),
        'error_free': away(free),
        'error': away(found),
    }


def _tx40_rows() -> list[Row]:
    if not DATA.is_dir():
        return [figure('TX-40', None, 'its recording is not beside the repository')]
    rows = []
    for divergence in ('euclidean', 'entropic'):
        free, found = tx40(divergence)
        name = f'TX-40, {divergence}'
        before, after = free.estimate.relative_error, found.estimate.relative_error
        rows += [
            figure(f'{name}: relative error over that of WLS', None, after / before, at_most=1.02),
            figure(f'{name}: estimation [s]', None, found.timing['estimation'], at_most=1.0),
            figure(
                f'{name}: links that are no bodies, WLS and physical',
                None,
                f'{_unphysical(free)} and {_unphysical(found)}',
            ),
        ]
        urdf = identified_urdf(found.robot, found.standard)
        bare, whole, apart = least_eigenvalues(urdf, rotor_matrix(found))
        smallest = 'smallest eigenvalue of the inertia matrix in 10,000 postures'
        rows += [
            figure(f'{name}: minus the {smallest} [kg m²]', None, -bare, at_most=0.0),
            figure(f'{name}: the same with the rotors', None, -whole, at_most=0.0),
            figure(f'{name}: MuJoCo against Pinocchio', None, apart, at_most=1e-6),
        ]
    return rows


def _unphysical(result: Result) -> int:
    return sum(not link.physical for link in result.consistency.links)


def _simulated_rows() -> list[Row]:
    rows = []
    for name, title, limit in (('panda', 'Panda', 1.0), ('talos', 'Talos', None)):
        for divergence in ('euclidean', 'entropic'):
            found = simulated(name, divergence=divergence)
            head = f'{title} ({found["links"]:.0f} joints), {divergence}'
            rows += [
                figure(f'{head}: estimation [s]', None, found['time'], at_most=limit),
                figure(
                    f'{head}: relative error over that of WLS', None, found['ratio'], at_most=1.02
                ),
                figure(f'{head}: links that are no bodies by WLS', None, found['unphysical']),
                figure(f'{head}: the same by physical', None, found['left'], equal=0.0),
                figure(f'{head}: distance from the truth by WLS [std]', None, found['error_free']),
                figure(
                    f'{head}: the same by physical', None, found['error'],
                    at_most=1.02 * found['error_free'],
                ),
            ]  # fmt: skip
    return rows


# ----------------------------------------------------------------------------------- outliers


def outliers(loss: str, seeds: int = 5) -> dict[str, float]:
    """
    Identify recordings with 1 % of samples with 50 times the noise, and the same without.

    Returns
    -------
    dict
        ``robust`` and ``wls``: by how much they move the significant parameter that they move
        most, in standard deviations of the clean estimate, the worst of all recordings.

    """
    robot = known('demo_arm')
    shifts: dict[str, list[float]] = {'irls': [], 'wls': []}
    for seed in range(seeds):
        clean, bad = (robot.recording(20 + seed, outliers=share) for share in (0.0, 0.01))
        for method, list_ in shifts.items():
            problem = by(robot, method, irls=IrlsSettings(loss=loss)).problem
            before, after = (identify_sources(problem, [run]).estimate for run in (clean, bad))
            moved = np.abs(after.base.values - before.base.values) / before.std
            list_.append(float(moved[before.relative_std < SIGNIFICANT].max()))
    return {'robust': max(shifts['irls']), 'wls': max(shifts['wls'])}


# ------------------------------------------------------------------------------------ payload


def payloads(seeds: int = 20, *, duration: float = 20.0) -> dict[str, float]:
    """
    Identify 2 kg at the tool of the demonstration arm.

    Returns
    -------
    dict
        ``mass``: largest error of the mass, relative; ``mass_std``: largest error in standard
        deviations; ``square``: mean of the squared error of all ten parameters, weighted with
        their covariance, by its expectation 10; ``centre``: largest error of the centre of mass
        [m]; ``physical``: share of best fits that are physical bodies.

    """
    robot = by(known('demo_arm'), 'wls')
    problem = replace(robot.problem, payload=PayloadRecordings())
    link = robot.robot.links[-1]
    truth = vector(LOAD)
    masses, stds, squares, centres, bodies = [], [], [], [], []
    for seed in range(seeds):
        light = robot.recording(100 + seed, duration=duration, noise=0.05)
        heavy = robot.recording(200 + seed, duration=duration, noise=0.05, load=(link, LOAD))
        found = identify_sources(problem, [light], carrying=[heavy]).payload
        assert found is not None and found.body is not None
        error = found.base.values - [truth[name] for name in found.base.layout.names]
        masses.append(abs(found.mass - LOAD.mass) / LOAD.mass)
        stds.append(abs(found.mass - LOAD.mass) / found.mass_std)
        squares.append(error @ np.linalg.solve(found.covariance, error))
        centres.append(np.abs(found.body.center_of_mass - LOAD.lever).max())
        bodies.append(found.consistency is not None and found.consistency.physical)
    return {
        'mass': max(masses),
        'mass_std': max(stds),
        'square': float(np.mean(squares)) / 10.0,
        'centre': max(centres),
        'physical': float(np.mean(bodies)),
    }


# ---------------------------------------------------------------------------------- drive gains


def drive_gains(method: str, seeds: int = 10) -> dict[str, float]:
    """
    Identify the gains of the demonstration arm's drives with a load of known mass.

    Returns
    -------
    dict
        ``bias``: largest mean error of a gain, relative; ``error``: largest error of all; ``std``:
        root of the mean squared error in standard deviations.

    """
    robot = by(known('demo_arm'), 'wls')
    load = KnownLoad(mass=LOAD.mass, center_of_mass=tuple(LOAD.lever), method=method)
    problem = replace(robot.problem, known_load=load)
    link = robot.robot.links[-1]
    errors, scores = [], []
    for seed in range(seeds):
        light = robot.recording(300 + seed, noise=0.05, gains=GAINS)
        heavy = robot.recording(400 + seed, noise=0.05, gains=GAINS, load=(link, LOAD))
        gains = identify_sources(problem, [light], loaded=[heavy]).drive_gains
        assert gains is not None
        errors.append((gains.factors - GAINS) / GAINS)
        scores.append((gains.factors - GAINS) / gains.std)
    return {
        'bias': float(np.abs(np.nanmean(errors, axis=0)).max()),
        'error': float(np.nanmax(np.abs(errors))),
        'std': float(np.sqrt(np.nanmean(np.square(scores)))),
        'told': float(np.mean(np.isfinite(errors))),
    }


def _outlier_rows() -> list[Row]:
    rows = []
    for loss in ('huber', 'tukey'):
        found = outliers(loss)
        title = f'most that a significant parameter moves, {loss} [std]'
        rows.append(figure(title, None, found['robust'], at_most=1.0))
    rows.append(figure('the same by WLS [std]', None, found['wls']))
    return rows


def _payload_rows() -> list[Row]:
    found = payloads()
    return [
        figure('largest error of the mass of 2 kg [%]', None, 100 * found['mass'], at_most=2.0),
        figure('the same in standard deviations', None, found['mass_std'], at_most=3.0),
        figure(
            'squared error of all ten parameters by what their covariance predicts',
            None,
            found['square'],
            equal=1.0,
            within=0.4,
        ),
        figure('largest error of the centre of mass [m]', None, found['centre'], at_most=0.01),
        figure('best fits that are physical bodies by themselves', None, found['physical']),
    ]


def _gain_rows() -> list[Row]:
    rows = []
    for method in ('total', 'constrained'):
        found = drive_gains(method)
        rows += [
            figure(
                f'{method}: largest mean error of a gain [%]',
                None,
                100 * found['bias'],
                at_most=1.0 if method == 'total' else None,
                why='' if method == 'total' else 'noise in the currents shrinks the gains',
            ),
            figure(f'{method}: largest error [%]', None, 100 * found['error']),
            figure(f'{method}: error in standard deviations, rms', None, found['std']),
            figure(f'{method}: share of gains that are told', None, found['told']),
        ]
    return rows


def page() -> Page:
    """Reproduce the figures."""
    return Page(
        title='Beyond the papers',
        citation='Physical parameters by a conic program, outliers, payloads and drive gains.',
        text='Recordings are simulated with effort noise of a tenth of its root mean square (0.05 '
        'for loads), but for those of the TX-40, and go through the whole pipeline.',
        tables=[
            Table('Parameters that are physical for certain', [*_tx40_rows(), *_simulated_rows()]),
            Table('Outliers: 1 % of the samples with 50 times the noise', _outlier_rows()),
            Table('A payload of 2 kg, over 20 pairs of runs', _payload_rows()),
            Table('Drive gains from a load of 2 kg, over 10 pairs of runs', _gain_rows()),
        ],
    )
