# SPDX-License-Identifier: Apache-2.0
"""
Lomakin and Deutscher 2020: a delta robot identified by polynomial approximation and MRLS.

The paper's data are not published.  Its Table I is taken as the truth of a simulated delta robot,
which is identified as the paper identifies its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.estimators import (
    EstimationSettings,
    EstimationTask,
    ESTIMATORS,
)
from robot_identification.estimation.recursive.rls import RecursiveSettings
from robot_identification.estimation.rows import row_blocks
from robot_identification.estimation.system import system_of
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, DeltaSettings, ModelSettings, Regressor
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.delta import ARMS, delta_robot
from robot_identification.signals import SignalSettings, stretches
from robot_identification.signals.polynomial_approximation import (
    admissible_delays,
    apply,
    orthonormal,
    PolynomialOperator,
    product,
    weighted,
)
from robot_identification.signals.settings import PolynomialApproximation
from robot_identification.simulation.delta import DeltaPlant, multisine, track
from scipy.signal import savgol_filter

from . import recursive_table
from .page import figure, Page, Row, Table

PERIOD = 0.004
GEOMETRY = DeltaSettings(
    base_radius=0.14, platform_radius=0.04, arm_length=0.2, forearm_length=0.46
)

# Table I: OLS with filtered signals, OLS with PA; MRLS with PA is equal in all printed digits
TABLE_1 = {
    'fc': ((2.1006, 2.2885, 2.2406), (2.2910, 2.4565, 2.4722)),
    'fv': ((1.1139, 1.2097, 1.0165), (0.9937, 1.0965, 0.8747)),
    'J': ((0.0691, 0.0711, 0.0690), (0.0716, 0.0732, 0.0712)),
    'mr': ((0.0526, 0.0442, 0.0567), (0.0526, 0.0446, 0.0552)),
    'm4': ((0.4586,), (0.4802,)),
}

_STEADIER = 0.5

LENGTHS = (7, 9, 11, 15, 19, 25)
"""Windows in samples: of Savitzky-Golay filters, and T in periods."""


# ------------------------------------------------------------------------------------- the robot


@lru_cache
def model() -> tuple[Robot, Regressor, BaseStructure]:
    """Return the robot, its thirteen-parameter model, and which of them can be told: all."""
    robot = delta_robot(GEOMETRY)
    settings = ModelSettings(friction=('viscous', 'coulomb'), delta=GEOMETRY)
    regressor = build(robot, settings)
    return robot, regressor, structure(regressor, robot)


def table_1(column: int = 1) -> ParameterSet:
    """Return a column of Table I: 0 with filtered signals, 1 with PA."""
    values = {}
    for symbol, columns in TABLE_1.items():
        owners = ('platform',) if symbol == 'm4' else ARMS
        for owner, value in zip(owners, columns[column], strict=True):
            values[f'{owner}.{symbol}'] = value
    layout = model()[1].layout
    return ParameterSet(layout, np.array([values[name] for name in layout]))


def clean_recording(samples: int = 20_000, seed: int = 1) -> tuple[Recording, ...]:
    """Return positions and the efforts that belong to them at the same instant, exactly."""
    motion = multisine(np.random.default_rng(seed), samples, PERIOD)
    effort = (model()[1].rows(motion) @ table_1().values).reshape(-1, 3)
    return (Recording(PERIOD * np.arange(samples), motion.position, effort, ARMS, source='clean'),)


def held_recordings(
    runs: int = 40, samples: int = 500, noise: tuple[float, float] = (1e-4, 0.1), seed: int = 2
) -> tuple[Recording, ...]:
    """
    Return recordings of the simulated robot under efforts that its drives hold for a period.

    ``noise`` is the standard deviation of position [rad] and effort [N m].
    """
    random = np.random.default_rng(seed)
    references = [multisine(random, samples, PERIOD) for _ in range(runs)]
    plant = DeltaPlant.from_settings(GEOMETRY, ARMS, table_1())
    return track(
        plant, references, PERIOD, ARMS, position_noise=noise[0], effort_noise=noise[1], seed=seed
    )


# -------------------------------------------------------------------------------- identification


def savitzky_golay(
    recordings: Sequence[Recording], window: int = 11, order: int = 2, *, effort: bool = False
) -> np.ndarray:
    """
    Identify by ordinary least squares with zero-phase Savitzky-Golay filters.

    ``effort`` tells whether the effort is filtered, too, which the paper does not say.
    """
    rows, right = [], []
    for recording in recordings:
        options = {'window_length': window, 'polyorder': order, 'delta': PERIOD, 'axis': 0}
        states = (savgol_filter(recording.position, deriv=k, **options) for k in range(3))
        given = savgol_filter(recording.effort, **options) if effort else recording.effort
        inner = slice(window, len(recording) - window)
        rows.append(model()[1].rows(Motion(*states).rows(inner.start, inner.stop)))
        right.append(given[inner].ravel())
    return np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]


def signals(**changes: object) -> SignalSettings:
    """Return the settings of the polynomial approximation; the paper's are the defaults."""
    parameters = PolynomialApproximation(**changes)  # type: ignore[arg-type]
    return SignalSettings(
        method='polynomial_approximation',
        decimate_to=None,
        trim=0.0,
        polynomial_approximation=parameters,
    )


def approximated(
    recordings: Sequence[Recording], method: str = 'ols', **changes: object
) -> np.ndarray:
    """Identify with the projected regressor, as any recording is; the sign is a signal, too."""
    robot, regressor, base = model()
    settings = signals(**changes)
    task = EstimationTask(
        system=system_of(list(recordings), regressor, base, settings),
        robot=robot,
        prior=ParameterSet(regressor.layout, np.zeros(13)),
        settings=EstimationSettings(method=method, mrls=RecursiveSettings(formulation='gram')),
        rows=lambda: (
            block
            for recording in recordings
            for block in row_blocks(recording, regressor, base, settings)
        ),
    )
    return ESTIMATORS[method].run(task).base.values


def composed(recordings: Sequence[Recording], **changes: object) -> np.ndarray:
    """Identify with the regressor at the projected motion alone, friction's sign included (21)."""
    rows, right = [], []
    for recording in recordings:
        for samples in stretches(recording, signals(**changes)):
            motion = Motion(samples.position, samples.velocity, samples.acceleration)
            rows.append(model()[1].rows(motion))
            right.append(samples.effort.ravel())
    return np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]


def errors(values: np.ndarray) -> dict[str, float]:
    """Return mean relative errors: ``all`` without sign, and each kind of parameter with it."""
    relative = values / table_1().values - 1.0
    symbols = np.array([name.rpartition('.')[2] for name in model()[1].layout])
    mean = {symbol: float(relative[symbols == symbol].mean()) for symbol in TABLE_1}
    return {'all': float(np.abs(relative).mean()), **mean}


def spread(several: Sequence[np.ndarray]) -> float:
    """Return how far the parameters move: range over several estimates, relative, mean of all."""
    return float(np.mean(np.ptp(np.array(several), axis=0) / table_1().values))


# --------------------------------------------------------------------------- forward simulation


def position_errors(
    recordings: Sequence[Recording], several: Sequence[np.ndarray], seconds: float = 1.0
) -> np.ndarray:
    """
    Run each set of parameters forward under the recorded efforts; RMS of |q - q_m| [rad].

    Every recording starts again each ``seconds`` from what was measured: without any control,
    small errors grow.
    """
    pieces = round(seconds / PERIOD)
    starts, speeds, efforts, wanted = [], [], [], []
    for recording in recordings:
        speed = savgol_filter(recording.position, 11, 4, deriv=1, delta=PERIOD, axis=0)
        place = savgol_filter(recording.position, 11, 4, axis=0)
        for first in range(10, len(recording) - pieces - 9, pieces):
            starts.append(place[first])
            speeds.append(speed[first])
            efforts.append(recording.effort[first : first + pieces])
            wanted.append(recording.position[first : first + pieces])
    layout, runs = model()[1].layout, len(starts)
    sets = [ParameterSet(layout, values) for values in several for _ in range(runs)]
    count = len(several)
    reached = drive(
        DeltaPlant.from_settings(GEOMETRY, ARMS, sets),
        (np.tile(starts, (count, 1)), np.tile(speeds, (count, 1))),
        np.tile(np.stack(efforts, axis=1), (1, count, 1)),
        PERIOD,
    )
    missed = reached - np.tile(np.stack(wanted, axis=1), (1, count, 1))
    squares = (missed**2).sum(axis=2).reshape(pieces, count, runs)
    return np.sqrt(squares.mean(axis=(0, 2)))


def drive(
    plant: DeltaPlant,
    start: tuple[np.ndarray, np.ndarray],
    effort: np.ndarray,
    period: float,
) -> np.ndarray:
    """
    Return the positions of robots under recorded efforts, without any control.

    They start at positions and velocities (n_robots, 3); efforts (n_samples, n_robots, 3) are held
    for a ``period`` [s] each.  Positions (n_samples, n_robots, 3) are NaN where the platform
    is out of reach.
    """
    position, velocity = start
    positions = np.empty((*effort.shape[:1], *position.shape))
    for k, held in enumerate(effort):
        positions[k] = position
        position, velocity = plant.advance(position, velocity, held, period)
    return positions


# ------------------------------------------------------------------------------------ the kernels


def sampled_gain(window: float = 0.044) -> float:
    """Return what a constant of 1 has for a second derivative if the kernel is only sampled."""
    place = 1.0 - 2.0 * float(admissible_delays(1, window)[0]) / window
    s = 1.0 - 2.0 * PERIOD / window * np.arange(round(window / PERIOD) + 1)
    kernel = (1.0 - s**2) * weighted(orthonormal(2, 3.0, 3.0, place), 2, 3.0, 3.0, s)
    trapezoids = np.ones(s.size)
    trapezoids[[0, -1]] = 0.5
    return float((2.0 / window) ** 2 * (2.0 * PERIOD / window) * (trapezoids @ kernel))


def order_of_error(derivative: int, degree: int = 1) -> float:
    """Return the power of T with which the error of a derivative of sin falls."""

    def error(window: float) -> float:
        operator = PolynomialOperator(window, window / 64, degree)
        time = np.arange(0.0, 8.0, operator.period)
        found = apply(operator.derivative(derivative), np.sin(time))
        at = time[operator.taps - 1 :] - operator.instant
        return float(np.abs(found - np.sin(at + 0.5 * np.pi * derivative)).max())

    return float(np.log2(error(0.2) / error(0.1)))


def order_of_product(degree: int, expanded: int) -> float:
    """Return the power of T with which the product rule comes near the product's own P."""

    def error(window: float) -> float:
        operator = PolynomialOperator(window, window / 64, degree)
        time = np.arange(0.0, 8.0, operator.period)
        first, second = np.sin(time), np.cos(1.3 * time + 0.4)
        found = product(operator, first, second, expanded)
        return float(np.abs(found - apply(operator.value(), first * second)).max())

    return float(np.log2(error(0.2) / error(0.1)))


# ---------------------------------------------------------------------------------------- the page


def page() -> Page:
    """Reproduce the paper's section VII."""
    clean, held = clean_recording(), held_recordings()
    return Page(
        title='Lomakin and Deutscher: polynomial approximation and MRLS',
        citation='A. Lomakin and J. Deutscher, "Identification of Dynamic Parameters for Rigid '
        'Robots based on Polynomial Approximation", IROS 2020.',
        text=_TEXT,
        tables=(
            _kernels(),
            recursive_table.table(),
            _accuracy(clean, held),
            _parameters(held),
            _robustness(clean, held),
        ),
    )


_TEXT = """
The paper prints neither geometry nor trajectory nor data. Here the column "OLS with PA" of its
Table I is the truth of a simulated delta robot (base 0.14 m, platform 0.04 m, arms 0.2 m, forearms
0.46 m), excited by seven sines a joint up to 4 Hz; 20,000 samples at 4 ms. *Clean* data are exact
positions with the efforts that belong to them. *Held* data come from a forward simulation whose
drives hold each effort for a period, in 40 runs of 2 s, with noise of 1e-4 rad and 0.1 N m. As the
paper has it: T = 44 ms, N = 1, N* = 2, t_d = 14.7 ms, which alpha = beta = 3 alone give, and
Savitzky-Golay filters over 11 samples.
"""


def _kernels() -> Table:
    first, second = admissible_delays(1, 0.044) * 1e3
    operator = PolynomialOperator(0.044, PERIOD)
    ours = float(np.abs(operator.derivative(2).sum()))
    rows = [
        figure('smallest admissible t_d [ms]', 14.7, first, equal=44 / 3, within=1e-9),
        figure('the other one [ms]', None, second, equal=88 / 3, within=1e-9),
        figure(
            "P'' of a constant of 1, kernel sampled [1/s^2]", None, sampled_gain(),
            equal=-593.0, within=1.0, why='what a naive implementation gets',
        ),
        figure("P'' of a constant of 1, ours [1/s^2]", 0, ours, at_most=1e-8),
    ]  # fmt: skip
    for k, name in enumerate(('value', 'first derivative', 'second derivative')):
        order = order_of_error(k)
        rows.append(
            figure(f'order of the error in T, {name}', 'N + 2 = 3', order, equal=3, within=0.05)
        )
    for N, expanded in ((1, 2), (1, 1), (2, 2)):
        order = order_of_product(N, expanded)
        wanted = 2 * expanded - N + 2
        title = f'order of the product rule, N = {N}, N* = {expanded}'
        rows.append(figure(title, None, order, equal=wanted, within=0.05))
    return Table('The kernels', rows)


def _accuracy(clean: Sequence[Recording], held: Sequence[Recording]) -> Table:
    methods = {
        'OLS, Savitzky-Golay of order 2': lambda data, _: savitzky_golay(data),
        'OLS, Savitzky-Golay of order 2, effort filtered, too': lambda data, _: savitzky_golay(
            data, effort=True
        ),
        'OLS, Savitzky-Golay of order 4': lambda data, _: savitzky_golay(data, order=4),
        "OLS, PA with sign(P'{q})": lambda data, hold: composed(data, effort_hold=hold),
        'OLS, PA with P{sign}': lambda data, hold: approximated(data, effort_hold=hold),
        'OLS, PA with P{sign} and products': lambda data, hold: approximated(
            data, effort_hold=hold, projection='products'
        ),
    }
    rows, sets = [], []
    for name, method in methods.items():
        exact, real = method(clean, False), method(held, True)
        sets.append(real)
        signal = 'P{sign}' in name
        rows.append(_error_row(f'{name}: clean', exact, 5e-3 if signal else None))
        rows.append(_error_row(f'{name}: held', real, 2e-2 if signal else None))
    forgotten = approximated(held)
    rows.append(
        _error_row('OLS, PA with P{sign}: held, taps not integrated over the hold', forgotten)
    )
    for title, data, hold in (('clean', clean, False), ('held', held, True)):
        plain = approximated(data, effort_hold=hold)
        recursive = approximated(data, 'mrls', effort_hold=hold)
        apart = float(np.abs(recursive / plain - 1.0).max())
        rows.append(
            figure(
                f'MRLS against OLS, both with PA, {title}: largest relative difference',
                'equal to all digits', apart, at_most=1e-10,
            )
        )  # fmt: skip
    rows += _forward_rows(held, dict(zip(methods, sets, strict=True)))
    return Table('Thirteen parameters: mean relative error', rows, _ACCURACY)


_ACCURACY = """
In brackets the mean signed errors of fc, fv, J, mr and m4. `sign(P'{q})` is the composition (21)
taken literally: P rounds the step of the friction off in the effort but not in the regressor, and
a part of fc is taken for fv. Filtering the sign as a signal of its own removes that. With a
filtered effort, Savitzky-Golay has the same fault, and more of it; from column to column of the
paper's Table I fc grows and fv shrinks in this way. Noise and joints that stick where they turn
back leave about 1 % in the held data.

A window of T = 44 ms of PA is about as long as the filters' 11 samples. Savitzky-Golay filters of
order 4 leave the states alone and do well with clean data; held efforts they do not know.
"""


def _error_row(title: str, values: np.ndarray, at_most: float | None = None) -> Row:
    found = errors(values)
    kinds = ', '.join(f'{found[symbol]:+.1e}' for symbol in TABLE_1)
    row = figure(title, None, found['all'], at_most=at_most)
    return Row(row.quantity, row.paper, f'{row.ours} ({kinds})', row.bound, row.met, row.why)


def _forward_rows(held: Sequence[Recording], sets: dict[str, np.ndarray]) -> list[Row]:
    found = position_errors(held, [table_1().values, *sets.values()]) * 1e3
    rows = [
        figure('forward simulation over 1 s, the truth: RMS position error [mrad]', None, found[0])
    ]
    before = found[1]
    for name, value in zip(sets, found[1:], strict=True):
        bound = float(before) if name.startswith('OLS, PA with P{sign}') else None
        rows.append(
            figure(
                f'forward simulation over 1 s, {name}: RMS position error [mrad]',
                None, float(value), at_most=bound,
            )
        )  # fmt: skip
    return rows


def _parameters(held: Sequence[Recording]) -> Table:
    ours = approximated(held, 'mrls', effort_hold=True)
    layout, truth = model()[1].layout, table_1()
    rows = [
        figure(f'{name} [{unit}]', truth[name], float(value), equal=truth[name],
               within=0.05 * truth[name])
        for name, unit, value in zip(layout.names, layout.units, ours, strict=True)
    ]  # fmt: skip
    text = 'Table I as the truth, and what MRLS with PA makes of the held data.'
    return Table('Table I', rows, text)


def _robustness(clean: Sequence[Recording], held: Sequence[Recording]) -> Table:
    rows = []
    for title, data, hold in (('clean', clean, False), ('held', held, True)):
        filtered = [savitzky_golay(data, length) for length in LENGTHS]
        projected = [
            approximated(data, effort_hold=hold, window=PERIOD * length) for length in LENGTHS
        ]
        for length, one, other in zip(LENGTHS, filtered, projected, strict=True):
            text = f'{errors(one)["all"]:.2g} / {errors(other)["all"]:.2g}'
            window = f'{length} samples, T = {1e3 * PERIOD * length:g} ms'
            rows.append(Row(f'{title}: mean error, {window}: Savitzky-Golay / PA', '', text))
        moved = spread(filtered)
        rows.append(figure(f'{title}: range over the windows, Savitzky-Golay', None, moved))
        rows.append(
            figure(f'{title}: range over the windows, PA', None, spread(projected),
                   at_most=_STEADIER * moved)
        )  # fmt: skip
        shapes = [{'alpha': e, 'beta': e} for e in (2.0, 3.0, 4.0, 6.0)] + [{'degree': 2}]
        others = [approximated(data, effort_hold=hold, **shape) for shape in shapes]
        rows.append(
            figure(f'{title}: range over alpha = beta = 2, 3, 4, 6 and N = 2, PA', None,
                   spread(others), at_most=_STEADIER * moved)
        )  # fmt: skip
    text = (
        'How much the estimates move with the filters: the range of each parameter over the '
        'settings, relative, mean of the thirteen. The paper claims it in words. On held data the '
        'shortest windows are limited by the noise of the positions.'
    )
    return Table('Sensitivity to the filters', rows, text)
