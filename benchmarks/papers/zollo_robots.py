# SPDX-License-Identifier: Apache-2.0
"""
The robots of Zollo et al. (2014), section 6: the planar one and the PUMA 560, on elastic joints.

They are simulated by `elastic_robot`, which shares nothing with the regressor, and identified by
the same functions as any recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from robot_identification.data.recording import Motion
from robot_identification.estimation.estimators import (
    EstimationSettings,
    EstimationTask,
    ESTIMATORS,
)
from robot_identification.estimation.system import system_of
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ElasticJoints, ElasticRegressor, ModelSettings
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.regressor.base_search import structure
from robot_identification.signals import SignalSettings
from scipy.signal import butter, filtfilt

from .elastic_robot import (
    Control,
    ElasticRobot,
    quantised,
    random_spline,
    Run,
    simulate,
    smooth_sign,
)

URDF = Path(__file__).resolve().parents[2] / 'urdf'

# ------------------------------------------------------------------------------- the planar robot

# Table 1: the combinations in the order of the paper, their true values and the paper's estimates
TABLE_1 = {
    'K1': (3000.00, 3000.79),
    'K2': (1800.00, 1799.79),
    'm1 - 4 Izz1 + 4 Izz2': (-30.8333, -30.8352),
    'm2 - 4 Izz2': (6.5667, 6.5670),
    'cx1 + 2 Izz1': (22.6333, 22.6345),
    'cy1': (0.0, -1.04e-5),
    'cx2 + 2 Izz2': (-0.7833, -0.7835),
    'cy2': (0.0, 3.18e-6),
    'Upsilon1': (21.18, 21.1446),
    'Upsilon2': (12.10, 12.1036),
    'fs1': (0.3302, 0.1016),
    'fs2': (0.3576, 0.1249),
    'fv1': (0.1434, 0.1288),
    'fv2': (0.1391, 0.1389),
}
STATIC = (10, 11)
"""Places of the static friction in Table 1."""

GEARS = np.array([0.1, 0.1])
ROTORS = np.array([21.18, 12.10])
STIFFNESS = np.array([3000.0, 1800.0])
# (43), (44): constants of the friction
F1 = np.array([0.1434, 0.1391])
F2 = np.array([0.3302, 0.3576])
F3 = np.array([0.2499, 0.2451])
F4 = np.array([0.0537, 0.1073])
F5 = np.array([0.2991, 0.3389])
F6 = np.array([16.624, 10.097])
ENCODER = 1_250_000
DEAD_ZONE = 0.5
DURATION = 8.9
SIGNALS = SignalSettings(cutoff=100.0, order=5, decimate_to=50.0, dead_zone=DEAD_ZONE)
"""Hardly a filter on the positions; one and the same on every column and the torque."""


def stribeck(speed: np.ndarray) -> np.ndarray:
    """Friction (43), whose second exponent is read as -1 / (f6 |speed|)."""
    size = np.abs(speed) + 1e-12
    dry = F2 - F3 * np.exp(-size / F4) - F5 * np.exp(-1.0 / (F6 * size))
    return F1 * speed + smooth_sign(speed) * dry


@dataclass(frozen=True)
class Model:
    """A robot with elastic joints and what can be identified of it."""

    robot: Robot
    settings: ModelSettings
    regressor: ElasticRegressor
    structure: BaseStructure

    @classmethod
    def build(cls, robot: Robot, settings: ModelSettings) -> Model:
        """Make the regressor and find its base parameters."""
        regressor = build(robot, settings)
        assert isinstance(regressor, ElasticRegressor)
        return cls(robot, settings, regressor, structure(regressor, robot))

    def true(self, values: dict[str, float]) -> ParameterSet:
        """Return the base parameters of the URDF's bodies and the other ``values``."""
        known = {**self.robot.prior.as_dict(), **values}
        layout = self.regressor.layout
        standard = ParameterSet(layout, np.array([known[name] for name in layout]))
        return self.structure.project(standard)


def planar_model(friction: Sequence[str] = ('viscous', 'coulomb'), **slopes: object) -> Model:
    """Return the planar robot with these terms of its motors' friction."""
    robot = Robot.from_urdf(URDF / 'zollo_planar_2r.urdf')
    elastic = ElasticJoints(gear_ratios=tuple(GEARS))
    return Model.build(robot, ModelSettings(friction=tuple(friction), elastic=elastic, **slopes))


@lru_cache
def planar_run(seed: int) -> Run:
    """Let the planar robot follow a random fifth-order spline."""
    robot = Robot.from_urdf(URDF / 'zollo_planar_2r.urdf')
    plant = ElasticRobot.with_rotors(robot, GEARS, ROTORS, STIFFNESS, stribeck)
    path = random_spline(np.array([2.0, 2.5]), 11, DURATION, seed, np.array([-np.pi / 2.0, 0.0]))
    control = Control(np.array([400.0, 200.0]), np.array([40.0, 20.0]))
    return simulate(plant, path, control, duration=DURATION)


def table_1_rows(regressor: ElasticRegressor) -> np.ndarray:
    """
    Return the combinations of Table 1 in the regressor's standard parameters, (14, p).

    The paper's bodies are seen from the end of a link, 0.5 m along x from the house's frame.
    """
    columns = {name: i for i, name in enumerate(regressor.layout)}
    unit = np.eye(len(columns))

    def at_end(link: int) -> dict[str, np.ndarray]:
        m, mx, my, inertia = (
            unit[columns[f'link_{link}.{symbol}']] for symbol in ('m', 'mx', 'my', 'Izz')
        )
        return {'m': m, 'cx': mx - 0.5 * m, 'cy': my, 'Izz': inertia - mx + 0.25 * m}

    one, two = at_end(1), at_end(2)
    motors = [f'joint_{i}_motor' for i in (1, 2)]
    rows = [unit[columns[f'joint_{i}.k']] for i in (1, 2)]
    rows += [one['m'] - 4.0 * one['Izz'] + 4.0 * two['Izz'], two['m'] - 4.0 * two['Izz']]
    rows += [one['cx'] + 2.0 * one['Izz'], one['cy'], two['cx'] + 2.0 * two['Izz'], two['cy']]
    rows += [unit[columns[f'{m}.Ia']] / k**2 for m, k in zip(motors, GEARS, strict=True)]
    for symbols in (('fc', 'ts'), ('tsc',), ('fv',)):
        rows += [
            unit[columns[f'{motor}.{symbol}']]
            for symbol in symbols
            for motor in motors
            if f'{motor}.{symbol}' in columns
        ]
    return np.array(rows)


def combinations(model: Model, base: np.ndarray) -> np.ndarray:
    """Return the paper's combinations from the house's base parameters."""
    rows = table_1_rows(model.regressor)
    return rows @ np.linalg.pinv(model.structure.regrouping) @ base


def planar_truth(model: Model) -> np.ndarray:
    """
    Return the true values of the paper's combinations.

    Static friction is f2 of (43), as in Table 1.  Where stiction and Stribeck friction are
    modelled, they are the constants of (43) themselves: stiction f2, Stribeck -f5 (see `SLOPES`).
    """
    values = {}
    for i, motor in enumerate(('joint_1_motor', 'joint_2_motor')):
        values[f'{motor}.Ia'] = GEARS[i] ** 2 * ROTORS[i]
        values[f'{motor}.fv'] = F1[i]
        values[f'{motor}.fc'] = values[f'{motor}.ts'] = F2[i]
        values[f'{motor}.tsc'] = -F5[i]
        values[f'joint_{i + 1}.k'] = STIFFNESS[i]
    return combinations(model, model.true(values).values)


MODELLED = replace(SIGNALS, decimate_to=100.0, dead_zone=0.7)
"""
Where friction has three columns, hardly independent at speed.

Rows at the edge of the dead zone hold samples from inside it, through the filter's window: so the
window is shorter and the zone wider.
"""

SLOPES = {'stiction_slope': 1000.0, 'stribeck_slope': tuple(2.0 * F6 / np.pi)}
"""
Slopes with which arctan columns are the friction (43) at speed.

``2/pi atan(d w) = 1 - 2 / (pi d w) + ...`` and ``exp(-1 / (f6 w)) = 1 - 1 / (f6 w) + ...`` agree
for d = 2 f6 / pi.
"""


def errors(estimated: np.ndarray, true: np.ndarray) -> np.ndarray:
    """
    Return each entry's part of the paper's normalised mean error.

    It is the relative error, and where the true value is 0 the estimate itself: from Table 1 this
    gives the printed 0.103 and 0.0088.
    """
    size = np.abs(true)
    known = size > 1e-9
    return np.where(
        known, np.abs(estimated - true) / np.where(known, size, 1.0), np.abs(estimated)
    )


def estimate(model: Model, run: Run, position: np.ndarray, signals: SignalSettings, method='ols'):
    """Identify the base parameters from positions and torques, as from any recording."""
    system = system_of(run.recording(position), model.regressor, model.structure, signals)
    nothing = ParameterSet(model.regressor.layout, np.zeros(len(model.regressor.layout)))
    settings = EstimationSettings(method=method)
    return (
        ESTIMATORS[method].run(EstimationTask(system, model.robot, nothing, settings)).base.values
    )


def planar_errors(
    seed: int, signals: SignalSettings = SIGNALS, model: Model | None = None, method: str = 'ols'
) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates of the paper's combinations, and their parts of the error."""
    model = model or planar_model()
    run = planar_run(seed)
    base = estimate(model, run, quantised(run.position, ENCODER), signals, method)
    values = combinations(model, base)
    return values, errors(values, planar_truth(model))


def modelled_errors(seed: int, method: str = 'wls') -> tuple[np.ndarray, np.ndarray]:
    """Return the same with stiction and Stribeck friction in the model, 16 of them."""
    model = planar_model(('viscous', 'stiction', 'stribeck'), **SLOPES)
    return planar_errors(seed, MODELLED, model, method)


def textbook_errors(seed: int, cut: float) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the same from SciPy's own way: filter positions alone, forward and backward, and differ.

    ``cut`` is the time that is left out at both ends [s], where the filter knows one side only.
    """
    model, run = planar_model(), planar_run(seed)
    rate = 1.0 / (run.time[1] - run.time[0])
    b, a = butter(5, 20.0, fs=rate)
    position = filtfilt(b, a, quantised(run.position, ENCODER), axis=0)
    velocity = np.gradient(position, axis=0) * rate
    inside = slice(round(cut * rate), len(position) - round(cut * rate))
    acceleration = np.gradient(velocity, axis=0) * rate
    motion = Motion(position[inside], velocity[inside], acceleration[inside])
    values = combinations(model, direct(model, motion, run.effort[inside]))
    return values, errors(values, planar_truth(model))


# ------------------------------------------------------------------------ the noise study, Table 2

TABLE_2 = {20: 3.84e3, 70: 44.50, 80: 4.73, 100: 0.157, 200: 0.111}
READINGS = ('dB', 'ratio')
"""The ratio SN in decibels, or of the amplitudes; of each signal's standard deviation."""

VARIANTS = ('all three', 'differences', 'our filters')
"""
Noise on position, velocity and acceleration, taken as they are (as the paper says); noise on the
position, differentiated by first-order differences; the same position through our filters.
"""


def noisy(signal: np.ndarray, sn: float, reading: str, random: np.random.Generator) -> np.ndarray:
    """Add Gaussian noise to (m, 2n) signals at the signal-to-noise ratio ``sn``."""
    share = 10.0 ** (-sn / 20.0) if reading == 'dB' else 1.0 / sn
    return signal + share * signal.std(axis=0) * random.standard_normal(signal.shape)


def differences(position: np.ndarray, run: Run) -> Motion:
    """Differentiate the positions of a run by first-order differences; two samples are lost."""
    rate = 1.0 / (run.time[1] - run.time[0])
    velocity = np.diff(position, axis=0) * rate
    acceleration = np.diff(velocity, axis=0) * rate
    return Motion(position[2:], velocity[1:], acceleration)


def direct(model: Model, motion: Motion, effort: np.ndarray) -> np.ndarray:
    """Solve (42) with every sample's rows as they are, motor rows outside the dead zone."""
    n = model.robot.n_joints
    rows = model.regressor.rows(motion)[:, model.structure.independent]
    keep = np.ones((len(motion), 2 * n), dtype=bool)
    keep[:, n:] = np.abs(motion.velocity[:, n:]) > DEAD_ZONE
    torque = np.hstack([np.zeros_like(effort), effort])
    scale = np.linalg.norm(rows, axis=0)
    solution = np.linalg.lstsq(rows[keep.ravel()] / scale, torque[keep], rcond=None)
    return solution[0] / scale


def noise_error(sn: float, reading: str, variant: str, seed: int = 0) -> float:
    """Return the normalised mean error over all 14 entries for one noise and one way."""
    model, run = planar_model(), planar_run(0)
    random = np.random.default_rng(seed)
    position = noisy(run.position, sn, reading, random)
    if variant == 'our filters':
        base = estimate(model, run, position, SIGNALS, 'wls')
    elif variant == 'differences':
        base = direct(model, differences(position, run), run.effort[2:])
    else:
        velocity = noisy(run.velocity, sn, reading, random)
        acceleration = noisy(run.acceleration, sn, reading, random)
        base = direct(model, Motion(position, velocity, acceleration), run.effort)
    return float(errors(combinations(model, base), planar_truth(model)).mean())


# ------------------------------------------------------------------------------------ the PUMA 560

PUMA_GEARS = (62.6111, 107.815, 53.7063, 76.0364, 71.923, 76.686)  # from memory, see the URDF
PUMA_ROTORS = np.array([2e-4, 2e-4, 2e-4, 3.3e-5, 3.3e-5, 3.0e-5])
PUMA_STIFFNESS = np.full(6, 2000.0)
PUMA_STATIC = np.array([0.395, 0.126, 0.132, 0.0112, 0.0093, 0.0039])
PUMA_VISCOUS = np.array([0.0014, 0.0008, 0.0014, 7.12e-5, 8.26e-5, 3.67e-5])
PUMA_SIGNALS = SignalSettings(cutoff=200.0, order=5, decimate_to=100.0, dead_zone=DEAD_ZONE)
PUMA_INERTIA = np.array([4.0, 6.0, 1.5, 0.25, 0.2, 0.2])
"""Rough inertia that each motor's control is laid out for [kg m^2]."""

GRAVITIES = {'upright': (0.0, 0.0, -9.81), 'on a wall': (0.0, -9.81, 0.0), 'none': (0.0, 0.0, 0.0)}


def puma_model(gravity: tuple[float, float, float] = GRAVITIES['upright']) -> Model:
    """Return the PUMA 560 with elastic joints under some gravity."""
    robot = Robot.from_urdf(URDF / 'puma560.urdf', gravity=gravity)
    elastic = ElasticJoints(gear_ratios=PUMA_GEARS)
    return Model.build(robot, ModelSettings(friction=('viscous', 'coulomb'), elastic=elastic))


def puma_run(duration: float = DURATION, seed: int = 0) -> Run:
    """Let the upright PUMA 560 follow a random fifth-order spline."""
    robot = Robot.from_urdf(URDF / 'puma560.urdf')
    plant = ElasticRobot.with_rotors(
        robot,
        np.array(PUMA_GEARS),
        PUMA_ROTORS,
        PUMA_STIFFNESS,
        lambda speed: PUMA_VISCOUS * speed + PUMA_STATIC * smooth_sign(speed),
    )
    knots = max(6, round(11 * duration / DURATION))
    amplitude = np.array([1.5, 1.2, 1.2, 2.0, 1.5, 2.0])
    centre = np.array([0.0, -0.8, 0.8, 0.0, 0.0, 0.0])
    path = random_spline(amplitude, knots, duration, seed, centre)
    control = Control(225.0 * PUMA_INERTIA, 21.0 * PUMA_INERTIA)
    # the wrist's springs are twisted by less than a microradian: they have to be right in that
    return simulate(plant, path, control, duration=duration, tolerance=1e-10)


def puma_truth(model: Model) -> ParameterSet:
    """Return the true base parameters of the PUMA 560."""
    values = {}
    for i, joint in enumerate(model.robot.joints):
        values[f'{joint}_motor.Ia'] = PUMA_GEARS[i] ** 2 * PUMA_ROTORS[i]
        values[f'{joint}_motor.fv'] = PUMA_VISCOUS[i]
        values[f'{joint}_motor.fc'] = PUMA_STATIC[i]
        values[f'{joint}.k'] = PUMA_STIFFNESS[i]
    return model.true(values)


def puma_errors(run: Run, method: str = 'ols') -> tuple[ParameterSet, np.ndarray]:
    """Return the true base parameters and the estimate's part of the error in each."""
    model = puma_model()
    true = puma_truth(model)
    base = estimate(model, run, run.position, PUMA_SIGNALS, method)
    return true, errors(base, true.values)
