"""Energy equations: exact on exact motions, their quadrature's order, all estimators."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import IdentifiabilityError, SettingsError
from robot_identification.estimation.bootstrap import BootstrapSettings, with_bootstrap
from robot_identification.estimation.energy import (
    energy_blocks,
    EnergySettings,
    quadrature_weights,
    require_movers,
)
from robot_identification.estimation.estimators import (
    EstimationSettings,
    EstimationTask,
    ESTIMATORS,
    RowBuilder,
)
from robot_identification.estimation.least_squares import ols, wls
from robot_identification.estimation.system import system_of
from robot_identification.estimation.validation import validate
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ModelSettings,
    predict,
)
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.energy import energy_of
from robot_identification.signals import SignalSettings

URDF = Path(__file__).parents[2] / 'urdf' / 'gautier_khalil_3r.urdf'
MODEL = ModelSettings(
    coupled_drives=(CoupledDrive('joint_3', ('joint_2', 'joint_3'), ratios=(0.5, 1.0)),)
)
RATE = 500.0
# measured velocities as they are, so that what is wrong is the quadrature alone
EXACT = SignalSettings(method='measured_velocity', cutoff=245.0, order=1, decimate_to=None)
ENERGY = EstimationSettings(equations='energy')


class Problem:
    def __init__(self, model=MODEL):
        self.robot = Robot.from_urdf(URDF)
        self.regressor = build(self.robot, model)
        self.base = structure(self.regressor, self.robot)
        values = dict.fromkeys(self.regressor.layout.names, 0.0)
        values.update(self.robot.prior.as_dict())
        for joint, (inertia, viscous, coulomb, offset) in zip(
            self.robot.joints, ((0.9, 5.0, 4.0, 1.0), (1.1, 6.0, 5.0, -2.0), (0.3, 2.0, 1.5, 0.5))
        ):
            own = {'Ia': inertia, 'fv': viscous, 'fc': coulomb, 'off': offset}
            values |= {f'{joint}.{symbol}': value for symbol, value in own.items()}
        values |= {'joint_3.Iam': 0.2, 'joint_3.fvm': 0.7, 'joint_3.fcm': 0.4}
        values = {name: values[name] for name in self.regressor.layout.names}
        self.truth = ParameterSet(self.regressor.layout, list(values.values()))
        self.true_base = self.base.project(self.truth).values

    def recording(self, duration=20.0, rate=RATE, noise=0.0, seed=0):
        time = np.arange(int(duration * rate)) / rate
        random = np.random.default_rng(seed)
        q, dq, ddq = (np.zeros((time.size, 3)) for _ in range(3))
        for joint in range(3):
            for k in range(1, 6):
                w, size, phase = (
                    2 * np.pi * 0.13 * k * (1 + 0.07 * joint),
                    0.5 / k,
                    6.0 * random.random(),
                )
                q[:, joint] += size * np.sin(w * time + phase)
                dq[:, joint] += size * w * np.cos(w * time + phase)
                ddq[:, joint] -= size * w**2 * np.sin(w * time + phase)
        effort = predict(self.regressor, Motion(q, dq, ddq), self.truth)
        effort += noise * random.standard_normal(effort.shape)
        return Recording(time, q, effort, self.robot.joints, velocity=dq)


@pytest.fixture(scope='module')
def problem():
    return Problem()


def rows_of(problem, recording, signals, settings):
    blocks = list(energy_blocks(recording, problem.regressor, problem.base, signals, settings))
    matrix = np.concatenate([block.matrix for block in blocks])[:, 0]
    return matrix, np.concatenate([block.effort for block in blocks])[:, 0], blocks


@pytest.mark.parametrize(('quadrature', 'order'), [('trapezoid', 2), ('simpson', 4)])
def test_the_balance_holds_to_the_quadratures_order(quadrature, order):
    # without Coulomb friction, whose power has corners
    smooth = Problem(ModelSettings(friction=('viscous', 'offset')))
    energy = energy_of(smooth.regressor)
    errors = []
    for rate in (50.0, 100.0):
        recording, steps = smooth.recording(rate=rate), round(0.2 * rate)
        weights = quadrature_weights(quadrature, steps) / rate
        stored = energy.rows(recording.position, recording.velocity)
        power = np.einsum('sj,sj->s', recording.effort, recording.velocity)
        power -= energy.powers(recording.position, recording.velocity) @ smooth.truth.values
        ends = np.arange(0, len(power) - steps, steps)
        work = [weights @ power[i : i + steps + 1] for i in ends]
        gained = (stored[ends + steps] - stored[ends]) @ smooth.truth.values
        errors.append(np.abs(work - gained).max())
    assert errors[0] / errors[1] == pytest.approx(2.0**order, rel=0.2)


def test_a_weights_sum_is_the_interval_and_simpson_takes_even_ones():
    for quadrature in ('trapezoid', 'simpson'):
        assert quadrature_weights(quadrature, 6).sum() == pytest.approx(6.0)
    t = np.linspace(0.0, 1.0, 7)
    assert quadrature_weights('simpson', 6) @ t**3 / 6 == pytest.approx(0.25, abs=1e-15)
    with pytest.raises(ValueError, match='not even'):
        quadrature_weights('simpson', 3)


@pytest.mark.parametrize('quadrature', ['trapezoid', 'simpson'])
def test_the_true_parameters_explain_the_work(problem, quadrature):
    recording = problem.recording()
    matrix, work, _ = rows_of(problem, recording, EXACT, EnergySettings(0.1, quadrature))
    assert len(work) == pytest.approx(198, abs=2)
    np.testing.assert_allclose(matrix @ problem.true_base, work, atol=2e-3 * np.abs(work).max())


def test_blocks_make_no_difference(problem, monkeypatch):
    recording = problem.recording(8.0)
    settings = EnergySettings(0.07)
    whole = rows_of(problem, recording, EXACT, settings)
    monkeypatch.setattr('robot_identification.estimation.energy._PIECE', 37)
    parts = rows_of(problem, recording, EXACT, settings)
    assert len(parts[2]) > 50
    for a, b in zip(whole[:2], parts[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    times = [np.concatenate([block.time for block in run[2]]) for run in (whole, parts)]
    np.testing.assert_array_equal(*times)
    # 0.07 s are 35 samples, 36 of which make parabolas
    np.testing.assert_allclose(np.diff(times[0]), 36 / RATE)


def energy_system(problem, recording, signals, settings=ENERGY):
    read, names = RowBuilder(settings).blocks, RowBuilder(settings).names
    base = problem.base
    return system_of(
        recording, problem.regressor, base, signals, read=read, names=names, timed=True
    )


def test_parameters_are_found_from_energies(problem):
    recording = problem.recording(40.0, noise=2.0)
    system = energy_system(problem, recording, EXACT)
    assert system.factor.joints == ('energy',)
    assert system.factor.position_range.shape == (3,)
    estimate = ols(system)
    assert estimate.rank == problem.base.n_base
    miss = np.abs(estimate.base.values - problem.true_base) / estimate.std
    assert miss.max() < 4.0
    assert 0.5 < np.sqrt((miss**2).mean()) < 1.5
    assert (estimate.fit.joints[0].joint, len(estimate.fit.joints)) == ('energy', 1)
    # held against what was not seen, by inverse dynamics
    fresh = problem.recording(10.0, noise=2.0, seed=1)
    seen = validate(estimate, fresh, problem.regressor, problem.base, EXACT)
    assert [fit.joint for fit in seen.joints] == list(problem.robot.joints)
    assert all(fit.rmse == pytest.approx(2.0, rel=0.2) for fit in seen.joints)


@pytest.mark.parametrize('method', list(ESTIMATORS))
def test_every_estimator_takes_energy_equations(problem, method):
    recording = problem.recording(30.0, noise=0.5)
    settings = EstimationSettings(method=method, equations='energy')
    equations = RowBuilder(settings)
    system = energy_system(problem, recording, EXACT, settings)
    task = EstimationTask(
        system,
        problem.robot,
        problem.truth,
        settings,
        rows=lambda: equations.blocks(recording, problem.regressor, problem.base, EXACT),
        model=MODEL,
    )
    estimate = ESTIMATORS[method].run(task)
    matrix, work, _ = rows_of(problem, recording, EXACT, settings.energy)
    if method == 'physical':
        # the paper's robot is no physical one
        return
    left = np.linalg.norm(matrix @ estimate.base.values - work)
    right = np.linalg.norm(matrix @ problem.true_base - work)
    assert left <= 1.001 * right


def test_intervals_without_motion_are_left_out(problem):
    recording = problem.recording(10.0)
    still = recording.time > 6.0
    held = Recording(
        recording.time,
        np.where(still[:, None], recording.position[3000], recording.position),
        recording.effort,
        recording.joints,
        velocity=np.where(still[:, None], 0.0, recording.velocity),
    )
    signals = replace(EXACT, dead_zone=1e-3)
    blocks = list(energy_blocks(held, problem.regressor, problem.base, signals))
    keep = np.concatenate([block.keep[:, 0] for block in blocks])
    time = np.concatenate([block.time for block in blocks])
    assert keep[time < 5.9].all()
    assert not keep[time > 6.3].any()


def test_what_has_no_energy_equations_is_refused(problem):
    recording = problem.recording(5.0)
    signals = SignalSettings(method='polynomial_approximation')
    with pytest.raises(SettingsError, match='polynomial_approximation') as caught:
        list(energy_blocks(recording, problem.regressor, problem.base, signals))
    assert caught.value.key == 'signals.method'
    resting = replace_column(recording, 1)
    system = energy_system(problem, resting, EXACT)
    with pytest.raises(IdentifiabilityError, match="'joint_2' does not move") as refused:
        require_movers(system, problem.robot.joints)
    assert refused.value.joint == 'joint_2'


def replace_column(recording, column):
    position, velocity = recording.position.copy(), recording.velocity.copy()
    position[:, column], velocity[:, column] = 0.3, 0.0
    return replace(recording, position=position, velocity=velocity)


@pytest.mark.parametrize(('jitter', 'most'), [(0.0, 1.6), (3e-4, 3.0)])
def test_deviations_are_about_the_scatter(problem, jitter, most):
    """Errors of positions cancel between neighbours: that tells of no long stretches."""
    exact = problem.recording(duration=12.0, rate=200.0)
    signals = SignalSettings(cutoff=20.0, decimate_to=None)
    values, stds = [], []
    for seed in range(24):
        random = np.random.default_rng(seed)
        effort = exact.effort + 2.0 * random.standard_normal(exact.effort.shape)
        position = exact.position + jitter * random.standard_normal(exact.position.shape)
        noisy = replace(exact, effort=effort, position=position, velocity=None)
        system = energy_system(problem, noisy, signals)
        settings = BootstrapSettings(replicates=200)
        estimate = with_bootstrap(system, wls(system), settings, drawn=True)
        values.append(estimate.base.values)
        stds.append(estimate.std)
    ratio = np.median(stds, axis=0) / np.std(values, axis=0, ddof=1)
    # a standard deviation of 24 is known to 15 %
    assert 0.85 < np.median(ratio) < most
