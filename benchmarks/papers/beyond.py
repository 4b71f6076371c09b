# SPDX-License-Identifier: Apache-2.0
"""Methods beyond the papers: physical parameters, outliers, payloads, drive gains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
import time

import numpy as np
import pinocchio as pin
from robot_identification.config.experiment import PayloadRecordings
from robot_identification.config.experiment_file import load_experiment
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.estimation.link_constraints import PhysicalSettings
from robot_identification.estimation.physical import physical
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.identification.pipeline import identify, identify_sources
from robot_identification.results.result import Result
from robot_identification.signals import SignalSettings

from . import gains_table, robust_table
from .beyond_robots import Known, known, least_eigenvalues, rotor_matrix, vector
from .page import figure, Page, Row, Table

ROOT = Path(__file__).resolve().parents[2]
TX40 = ROOT / 'examples' / 'tx40' / 'experiment.yaml'
SIGNALS = SignalSettings(cutoff=15.0, decimate_to=50.0, dead_zone=0.05)
LOAD = pin.Inertia(2.0, np.array([0.02, -0.01, 0.08]), np.diag([0.008, 0.009, 0.005]))


def by(robot: Known, method: str, **settings: object) -> Known:
    """Return the robot with another estimation method."""
    estimation = EstimationSettings(method=method, essential=None, **settings)  # type: ignore[arg-type]
    return replace(robot, problem=replace(robot.problem, signals=SIGNALS, estimation=estimation))


# ----------------------------------------------------------------------------------- physical


def tx40() -> tuple[Result, Result]:
    """Identify the real recording of a TX-40 with and without the constraints."""
    free, found = (
        identify(load_experiment(TX40, {'estimation.method': method}))
        for method in ('wls', 'physical')
    )
    return free, found


def processor_time(found: Result) -> float:
    """Estimate once more from the folded rows of a result by physical; return the seconds."""
    start = time.process_time()
    physical(
        found.system,
        found.robot,
        found.prior,
        found.settings.estimation.physical,
        model=found.settings.model,
    )
    return time.process_time() - start


def simulated(name: str, *, duration: float = 20.0, **settings: object) -> dict[str, float]:
    """
    Identify a simulated robot with and without the constraints.

    Returns
    -------
    dict
        ``links``; ``time``, the processor's, of the estimation with the constraints [s];
        ``ratio`` of the relative errors; ``unphysical`` links without and ``left`` with the
        constraints; ``error_free`` and ``error``, the distance from the true base parameters in
        standard deviations, root of the mean square.

    """
    robot = known(name)
    recording = robot.recording(7, duration=duration, noise=0.3)
    options = PhysicalSettings(**settings)  # type: ignore[arg-type]
    free, found = (
        identify_sources(by(robot, method, physical=options).problem, [recording])
        for method in ('wls', 'physical')
    )
    truth = free.structure.project(robot.truth).values
    inverse = np.linalg.inv(free.estimate.uncertainty.covariance)

    def away(result: Result) -> float:
        error = result.estimate.base.values - truth
        return float(np.sqrt(error @ inverse @ error / error.size))

    return {
        'links': robot.robot.n_joints,
        'time': processor_time(found),
        'ratio': found.estimate.fit.relative_error / free.estimate.fit.relative_error,
        'unphysical': sum(not link.physical for link in free.consistency.links),
        'left': sum(not link.physical for link in found.consistency.links),
        'error_free': away(free),
        'error': away(found),
    }


def _tx40_rows() -> list[Row]:
    free, found = tx40()
    before, after = free.estimate.fit.relative_error, found.estimate.fit.relative_error
    urdf = identified_urdf(found.robot, found.standard)
    bare, whole, apart = least_eigenvalues(urdf, rotor_matrix(found))
    smallest = 'smallest eigenvalue of the inertia matrix in 10,000 postures'
    return [
        figure('TX-40: relative error over that of WLS', None, after / before, at_most=1.05),
        figure('TX-40: processor time [s]', None, processor_time(found)),
        figure(
            'TX-40: links that are no bodies, WLS and physical',
            None,
            f'{_unphysical(free)} and {_unphysical(found)}',
        ),
        figure(f'TX-40: minus the {smallest} [kg m²]', None, -bare, at_most=0.0),
        figure('TX-40: the same with the rotors', None, -whole, at_most=0.0),
        figure('TX-40: MuJoCo against Pinocchio', None, apart, at_most=1e-6),
    ]


def _unphysical(result: Result) -> int:
    return sum(not link.physical for link in result.consistency.links)


def _simulated_rows() -> list[Row]:
    rows = []
    for name, title in (('panda', 'Panda'), ('talos', 'Talos')):
        found = simulated(name)
        head = f'{title} ({found["links"]:.0f} joints)'
        rows += [
            figure(f'{head}: processor time [s]', None, found['time']),
            figure(f'{head}: relative error over that of WLS', None, found['ratio'], at_most=1.02),
            figure(f'{head}: links that are no bodies by WLS', None, found['unphysical']),
            figure(f'{head}: the same by physical', None, found['left'], equal=0.0),
            figure(f'{head}: distance from the truth by WLS [std]', None, found['error_free']),
            figure(f'{head}: the same by physical', None, found['error']),
        ]
    return rows


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


def page() -> Page:
    """Reproduce the figures."""
    return Page(
        title='Beyond the papers',
        citation='Physically consistent parameters, outliers, payloads and drive gains.',
        text='The recording of the TX-40 is real. The others are simulated, with noise of the '
        'effort of 0.3 (Panda, Talos) and 0.05 (payload) of its root mean square, and go through '
        'the whole pipeline.',
        tables=[
            Table('Parameters that are physical for certain', [*_tx40_rows(), *_simulated_rows()]),
            Table('A payload of 2 kg, over 20 pairs of runs', _payload_rows()),
            robust_table.table(),
            gains_table.table(),
        ],
    )
