# SPDX-License-Identifier: Apache-2.0
"""
Effect of the polynomial approximation's parameters, and cost of filters.

    .venv/bin/python -m benchmarks filters
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
import itertools
from statistics import median
import time

import numpy as np
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.least_squares import ols
from robot_identification.estimation.system import system_of
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, prior
from robot_identification.regressor.base_search import structure
from robot_identification.signals import SignalSettings, stretches
from robot_identification.signals.polynomial_approximation import PolynomialOperator
from robot_identification.signals.responses import frequency_response
from robot_identification.signals.settings import PolynomialApproximation
from robot_identification.signals.windows import OnlineFilter

from .harness import interleaved, Section, Table
from .synthetic import panda
from .synthetic import recording as made_up

PERIOD = 0.004
SAMPLES = 5000
FREQUENCIES = (1.0, 3.0, 8.0)
"""Highest ones of the motions [Hz]."""

ARM = """
<robot name="planar">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.21 0.02 0"/><mass value="4"/>
    <inertia ixx="0.01" iyy="0.12" izz="0.13" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0.18 -0.03 0"/><mass value="2.5"/>
    <inertia ixx="0.01" iyy="0.06" izz="0.07" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/>
    <origin rpy="1.5707963267948966 0 0"/><axis xyz="0 0 1"/>
    <dynamics damping="1.2" friction="2.0"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.45 0 0"/><axis xyz="0 0 1"/>
    <dynamics damping="0.8" friction="1.4"/></joint>
</robot>
"""

MODEL = ModelSettings(friction=('viscous', 'coulomb'), rotor_inertia=False)

SAVITZKY_GOLAY = SignalSettings(
    method='savitzky_golay', order=2, cutoff=24.0, decimate_to=None, trim=0.1
)
"""Windows of 11 samples, as in the paper."""


def polynomial(**parameters: object) -> SignalSettings:
    """Return the settings of the polynomial approximation, without decimation."""
    return SignalSettings(
        method='polynomial_approximation',
        decimate_to=None,
        trim=0.1,
        polynomial_approximation=PolynomialApproximation(**parameters),  # type: ignore[arg-type]
    )


METHODS: Mapping[str, SignalSettings] = {
    'Savitzky-Golay, degree 2': SAVITZKY_GOLAY,
    'Savitzky-Golay, degree 4': replace(SAVITZKY_GOLAY, order=4),
    'Butterworth, 24 Hz': replace(SAVITZKY_GOLAY, method='butterworth', order=4),
    'polynomial approximation, composition': polynomial(),
    'polynomial approximation, products': polynomial(projection='products', stride=1),
}


def errors(
    settings: SignalSettings, frequency: float, seed: int = 0, noise: tuple[float, float] = (0, 0)
) -> tuple[float, float, float]:
    """
    Identify the arm once.

    Parameters
    ----------
    settings:
        Of the filter.
    frequency:
        Highest one of the motion [Hz].
    seed:
        Of motion and noise.
    noise:
        Standard deviations of position and effort [rad], [N m].

    Returns
    -------
    Mean relative errors of all base parameters, of the inertial ones, of Coulomb friction.

    """
    robot = Robot.from_urdf(ARM)
    regressor, truth = build(robot, MODEL), prior(robot, MODEL)
    base = structure(regressor, robot)
    recording = record(robot.joints, truth, regressor.rows, frequency, seed, noise)
    estimate = ols(system_of(recording, regressor, base, settings))
    wanted = base.project(truth)
    found = np.abs(estimate.base.values / wanted.values - 1.0)
    symbols = np.array([name.rpartition('.')[2] for name in base.names])
    inertial = ~np.isin(symbols, ['fv', 'fc'])
    return found.mean(), found[inertial].mean(), found[symbols == 'fc'].mean()


def record(
    joints: tuple[str, ...],
    truth: ParameterSet,
    rows: object,
    frequency: float,
    seed: int,
    noise: tuple[float, float],
) -> Recording:
    """Sample sums of five sines, and the efforts that they take."""
    random = np.random.default_rng(seed)
    stamps = PERIOD * np.arange(SAMPLES)
    q, v, a = np.zeros((3, SAMPLES, 2))
    for part in np.linspace(0.2, 1.0, 5):
        omega = 2.0 * np.pi * frequency * part * random.uniform(0.95, 1.0, 2)
        size = random.uniform(0.1, 0.3, 2) / (frequency * part)
        phase = random.uniform(0.0, 2.0 * np.pi, 2)
        angle = omega * stamps[:, None] + phase
        q += size * np.sin(angle)
        v += size * omega * np.cos(angle)
        a -= size * omega**2 * np.sin(angle)
    effort = (rows(Motion(q, v, a)) @ truth.values).reshape(q.shape)  # type: ignore[operator]
    q = q + noise[0] * random.normal(size=q.shape)
    effort = effort + noise[1] * random.normal(size=q.shape)
    return Recording(stamps, q, effort, joints)


def section() -> Section:
    """Measure."""
    accuracy = [_accuracy((0.0, 0.0), None), _accuracy((1e-4, 0.2), 25.0)]
    return Section(
        title='Filters',
        text='What each way from positions to velocities and accelerations costs, what the '
        'parameters of the polynomial approximation do, and how much is wrong in parameters '
        "because of the filter alone. (The filters' meaning: docs/explanation/filters.md.)",
        tables=[_speed(), _windows(), *accuracy],
    )


def _speed() -> Table:
    """Time each method on samples in memory, and the online filter."""
    recording = made_up(panda(), 30.0)
    works = {name: partial(_exhaust, recording, chosen) for name, chosen in METHODS.items()}
    times = {
        name: timing.median / len(recording)
        for name, timing in interleaved(works, repeats=3).items()
    }
    times['polynomial approximation, online'] = online()
    return Table(
        ['', 'us a sample'],
        [[name, f'{1e6 * seconds:.2f}'] for name, seconds in times.items()],
        title='Time',
        text='Seven joints at 1 kHz, positions to samples; the online filter takes one sample at '
        'a time, with windows of 12.',
    )


def _exhaust(recording: Recording, settings: SignalSettings) -> None:
    for _ in stretches(recording, settings):
        pass


def _windows() -> Table:
    """Tell the figures of windows."""
    rate, window = 5000.0, 0.1
    lines = []
    for degree, exponent in itertools.product((0, 1, 2, 3), (2.0, 3.0, 5.0)):
        chosen = polynomial(window=window, degree=degree, alpha=exponent, beta=exponent)
        response = frequency_response(chosen, rate, np.geomspace(0.1, 50.0, 4000))
        off = response.frequency[np.argmax(np.abs(response.share[0] - 1.0) > 0.01)]
        noise = [response.noise[k] * window ** (k + 0.5) * np.sqrt(rate) for k in range(3)]
        delay = chosen.polynomial_approximation.operator(rate).instant / window
        figures = (delay, off * window, response.cutoff[0] * window, *noise)
        lines.append([f'{degree}, {exponent:.0f}', *(f'{figure:.3g}' for figure in figures)])
    return Table(
        ['N, alpha = beta', 't_d / T', 'f T at 1 %', 'f T half', 'position', 'velocity', 'acc.'],
        lines,
        title='Windows of the polynomial approximation',
        text='Delay t_d as a share of the window T; frequencies times T at which the response is '
        'off by 1 % and has half its power; noise of position, velocity and acceleration for '
        'white noise of 1, times T^(k + 1/2) and the square root of the sampling rate.',
    )


def online() -> float:
    """Time a step of the online filter [s]."""
    filtering = OnlineFilter(PolynomialOperator(0.044, PERIOD), 7)
    samples = np.random.default_rng(0).normal(size=(20_000, 7))
    spent = []
    for batch in np.split(samples, 20):
        start = time.perf_counter()
        for sample in batch:
            filtering.push(sample, sample)
        spent.append((time.perf_counter() - start) / len(batch))
    return median(spent)


def _accuracy(noise: tuple[float, float], decimate_to: float | None) -> Table:
    """Identify the arm with each filter."""
    lines = []
    for name, settings in METHODS.items():
        chosen = replace(settings, decimate_to=decimate_to)
        cells = []
        for frequency in FREQUENCIES:
            runs = [errors(chosen, frequency, seed, noise) for seed in range(3)]
            cells.append(' / '.join(f'{value:.1e}' for value in np.mean(runs, axis=0)))
        lines.append([name, *cells])
    rows = 'all samples' if decimate_to is None else f'decimated to {decimate_to:g} Hz'
    return Table(
        ['', *(f'up to {frequency:g} Hz' for frequency in FREQUENCIES)],
        lines,
        title=f'Errors of parameters, noise of {noise[0]:g} rad and {noise[1]:g} N m, {rows}',
        text='A swinging two-joint arm with viscous and Coulomb friction, 20 s at 250 Hz; motions '
        'are sums of sines up to the frequency of the column. Mean relative error of all '
        'parameters / of the inertial ones / of Coulomb friction; without noise it is the '
        "filter's doing alone.",
    )
