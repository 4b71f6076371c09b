# SPDX-License-Identifier: Apache-2.0
"""The online identifier against the offline method on the same samples; its state in a file."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.errors import IdentificationError, ModelError, SettingsError
from robot_identification.estimation.recursive import rls as recursive
from robot_identification.estimation.recursive.rls import RecursiveSettings
from robot_identification.estimation.rows import row_blocks
from robot_identification.model.robot import Robot
from robot_identification.online import identifier_of, OnlineIdentifier
from robot_identification.signals.settings import PolynomialApproximation


def test_rows_are_those_of_the_offline_method(case):
    online = case.online()
    updates = case.run(online, case.recording)
    blocks = list(row_blocks(case.recording, case.regressor, case.base, case.problem.signals))
    matrix, effort, keep, time = (
        np.concatenate([getattr(b, name) for b in blocks])
        for name in ('matrix', 'effort', 'keep', 'time')
    )
    # the last two samples wait for those after them
    assert len(updates) == len(time) - 2
    found = online.pattern.expand(np.array([u.entries for u in updates]).T)
    np.testing.assert_allclose(found, matrix[:-2], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose([u.effort for u in updates], effort[:-2], rtol=1e-9, atol=1e-11)
    assert (np.array([u.moving for u in updates]) == keep[:-2]).all()
    np.testing.assert_allclose([u.stamp for u in updates], time[:-2], rtol=0, atol=1e-9)
    assert online.delay == pytest.approx(case.recording.time[-1] - updates[-1].stamp, abs=1e-9)


@pytest.fixture
def no_compiler(monkeypatch):
    """Have every step done by NumPy."""
    monkeypatch.setattr(recursive, 'available', lambda: False)


def test_the_estimate_is_that_of_method_mrls(case):
    online = case.online()
    case.run(online, case.recording)
    for _ in range(2):  # the last two samples wait for those after them
        last = online.counts.samples
        online.push(last * 1e-3, case.recording.position[-1], case.recording.effort[-1])
    offline = case.offline()
    found = online.estimate()
    told = found.flags == 1
    assert told.sum() > 45 and online.rows == found.rows
    rounding = 1e-12 * np.abs(online.values).max()
    np.testing.assert_allclose(found.values, online.values, rtol=0.0, atol=rounding)
    np.testing.assert_allclose(online.values, offline.base.values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.std[told], offline.std[told], rtol=1e-6)
    truth = case.base.project(case.truth).values
    assert np.abs((found.values - truth)[told] / found.std[told]).max() < 5.0


@pytest.mark.parametrize('decimate_to', [None, 100.0])
@pytest.mark.parametrize('compiler', [True, False])
def test_every_estimate_is_least_squares_of_the_rows_so_far(case, decimate_to, compiler, request):
    """At moments early and late: with parameters that are not told yet, and with all of them."""
    if not compiler:
        request.getfixturevalue('no_compiler')
    case = case.with_signals(decimate_to=decimate_to, trim=0.05)
    given = (case.recording, case.regressor, case.base, case.problem.signals)
    rows, effort = [], []
    for block in row_blocks(*given):
        rows.append(block.matrix[block.keep])
        effort.append(block.effort[block.keep])
    rows, effort = np.concatenate(rows), np.concatenate(effort)
    online, prior = case.online(), case.base.project(case.problem.prior()).values
    samples = zip(case.recording.time, case.recording.position, case.recording.effort, strict=True)
    partly = 0
    for i, sample in enumerate(samples):
        online.push(*sample)
        if online.rows and (i < 150 or i % 400 == 0):
            told = online.flags == 1
            partly += 0 < told.sum() < told.size
            rest = effort[: online.rows] - rows[: online.rows, ~told] @ prior[~told]
            wanted = prior.copy()
            wanted[told] = np.linalg.lstsq(rows[: online.rows, told], rest, rcond=None)[0]
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(online.values, wanted, rtol=1e-7, atol=1e-8 * scale)
    assert partly >= (5 if decimate_to is None else 1)


def test_compiled_steps_and_numpy_agree(case, request):
    compiled = case.online()
    with_compiler = case.run(compiled, case.recording.rows(0, 1000))
    request.getfixturevalue('no_compiler')
    without = case.run(case.online(), case.recording.rows(0, 1000))
    for one, other in zip(with_compiler[300::150], without[300::150], strict=True):
        for name in ('values', 'residual', 'effort', 'entries'):
            mine, others = getattr(one, name), getattr(other, name)
            np.testing.assert_allclose(mine, others, rtol=1e-9, atol=1e-10 * np.abs(mine).max())
        assert (one.flags == other.flags).all()


def test_the_same_samples_give_the_same_bits(case):
    first, second = (
        case.run(case.online(), case.recording),
        case.run(case.online(), case.recording),
    )
    for one, other in zip(first, second, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_residuals_are_those_of_the_parameters_before(case):
    online = case.online()
    before = online.values
    recording = case.recording.rows(0, 500)
    for sample in zip(recording.time, recording.position, recording.effort, strict=True):
        update = online.push(*sample)
        if update is not None:
            rows = online.pattern.expand(update.entries[:, None])[0]
            expected = update.effort - rows @ before
            np.testing.assert_allclose(update.residual, expected, rtol=0, atol=1e-9)
            before = update.values


def test_frozen_it_keeps_its_parameters_and_tells_residuals(case):
    online = case.online()
    case.run(online, case.recording.rows(0, 1000))
    kept, rows = online.values.copy(), online.rows
    online.freeze()
    later = case.recording.rows(1000, 1500)
    updates = case.run(online, later)
    assert online.frozen and len(updates) == 500
    assert (online.values == kept).all() and online.rows == rows
    assert np.abs(updates[-1].residual).max() > 0.0
    online.resume()
    case.run(online, case.recording.rows(1500, None))
    assert online.rows > rows and (online.values != kept).any()


def test_reset_starts_again_from_the_prior(case):
    online = case.online()
    case.run(online, case.recording.rows(0, 1000))
    online.reset()
    prior = case.base.project(case.problem.prior()).values
    assert online.rows == 0 and (online.values == prior).all() and not (online.flags == 1).any()
    online.reset(case.truth)
    assert (online.values == case.base.project(case.truth).values).all()


def test_rows_fade_with_their_age(case):
    """With a memory of T, a row that is T old counts 1/e: weighted least squares."""
    memory = 0.5
    online = case.online(memory=memory)
    updates = case.run(online, case.recording)
    rows = online.pattern.expand(np.array([u.entries for u in updates]).T)
    effort, keep = (np.array([getattr(u, n) for u in updates]) for n in ('effort', 'moving'))
    # rows fade as others come in: while nothing moves, nothing is forgotten
    age = np.cumsum(keep.any(axis=1)[::-1])[::-1] - keep.any(axis=1)
    root = np.exp(-0.5e-3 * age / memory)[:, None]
    W, y = (rows * root[:, :, None])[keep], (effort * root)[keep]
    told = online.flags == 1
    prior = case.base.project(case.problem.prior()).values
    wanted = np.linalg.lstsq(W[:, told], y - W[:, ~told] @ prior[~told], rcond=None)[0]
    np.testing.assert_allclose(online.values[told], wanted, rtol=1e-7, atol=1e-8)


def test_weights_are_those_of_the_rows(case):
    weights = np.linspace(0.5, 2.0, 6)
    online = case.online(weights=weights)
    updates = case.run(online, case.recording)
    rows = online.pattern.expand(np.array([u.entries for u in updates]).T) * weights[:, None]
    effort = np.array([u.effort for u in updates]) * weights
    keep = np.array([u.moving for u in updates])
    told = online.flags == 1
    prior = case.base.project(case.problem.prior()).values
    rest = effort[keep] - rows[keep][:, ~told] @ prior[~told]
    wanted = np.linalg.lstsq(rows[keep][:, told], rest, rcond=None)[0]
    np.testing.assert_allclose(online.values[told], wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize('bounded', ['clip', 'least_squares'])
def test_bounds_hold_at_every_sample(case, bounded):
    bounds = {'joint_1.fv': (5.0, 20.0), 'fc': (2.9, 3.05), 'joint_3.off': (0.6, 0.6)}
    settings = RecursiveSettings(bounds=bounds, bounded=bounded)
    problem = case.problem
    estimation = replace(problem.estimation, mrls=settings, prior='none')
    case = replace(case, problem=replace(problem, estimation=estimation))
    # the prior has to be within the bounds
    prior = case.truth.updated(
        {'joint_1.fv': 6.0, 'joint_3.off': 0.6}
        | {name: 3.0 for name in case.truth.layout.names if name.endswith('.fc')}
    )
    online = OnlineIdentifier(
        case.regressor,
        case.base,
        problem.robot.joints,
        problem.signals,
        settings,
        period=1e-3,
        prior=prior,
    )
    recording, held = case.recording.rows(0, 500), set()
    samples = zip(recording.time, recording.position, recording.effort, strict=True)
    for i, sample in enumerate(samples):
        if online.push(*sample) is not None and i % 3 == 0:
            wanted = online.estimate()
            scale = np.abs(wanted.values).max()
            np.testing.assert_allclose(online.values, wanted.values, rtol=1e-7, atol=1e-9 * scale)
            held.update(np.flatnonzero(wanted.at_bound))
    assert case.base.names.index('joint_1.fv') in held and len(held) > 4
    assert online.values[case.base.names.index('joint_1.fv')] == 5.0
    assert online.values[case.base.names.index('joint_3.off')] == 0.6


def test_what_cannot_be_had_online_is_refused(case):
    for changes, said in (
        ({'method': 'butterworth'}, 'non-causal'),
        ({'polynomial_approximation': PolynomialApproximation(projection='products')}, 'too long'),
    ):
        with pytest.raises(SettingsError, match=said):
            case.with_signals(**changes).online()


@pytest.mark.parametrize(
    ('key', 'value'),
    [
        ('period', -1e-3),
        ('period', 0.0),
        ('period', float('nan')),
        ('memory', 0.0),
        ('weights', [1.0, 2.0]),
        ('weights', [1.0, -1.0, 1.0]),
    ],
)
def test_times_and_weights_that_make_no_sense_are_named(case, key, value):
    with pytest.raises(SettingsError, match=f"'{key}' is ") as caught:
        identifier_of(case.problem, **{'period': 1e-3, key: value})
    assert caught.value.key == key


@pytest.mark.parametrize('garbage', [1e12, -1e250, np.inf, np.nan])
@pytest.mark.parametrize('column', [2, 8])
def test_numbers_that_no_robot_has_are_left_out(case, garbage, column):
    """A driver's uninitialised memory counts as a lost sample and does no harm."""
    recording = case.recording.rows(0, 600)
    found = []
    for wrong in (False, True):
        online = case.online()
        samples = np.hstack([recording.position, recording.effort])
        if wrong:
            samples[300, column] = garbage
        for k, (time, row) in enumerate(zip(recording.time, samples, strict=True)):
            if wrong or k != 300:
                online.push(time, row[:6], row[6:])
        assert online.counts.invalid == wrong
        found.append(online.values)
    np.testing.assert_array_equal(found[1], found[0])


def test_who_rests_forgets_nothing(case):
    """The memory fades with rows that count, not with time."""
    online = case.online(memory=1.0)
    case.run(online, case.recording)
    still = case.recording.position[-1]
    told = []
    for start in (2.0, 4.0):  # after two seconds, the filters hold no motion any more
        for k in range(2000):
            online.push(start + k * 1e-3, still, case.recording.effort[-1])
        told.append((online.rows, online.estimate().covariance))
    assert told[1][0] == told[0][0]
    assert np.isfinite(told[0][1]).all()
    np.testing.assert_array_equal(told[1][1], told[0][1])


def test_an_identifier_goes_on_where_another_has_stopped(case, tmp_path):
    whole, first, second = case.online(), case.online(), case.online()
    case.run(first, case.recording.rows(0, 900))
    first.save(tmp_path / 'state.npz')
    second.load(tmp_path / 'state.npz')
    assert second.rows == first.rows
    rounding = 1e-12 * np.abs(first.values).max()
    np.testing.assert_allclose(second.values, first.values, rtol=0.0, atol=rounding)
    np.testing.assert_allclose(second.estimate().std, first.estimate().std, rtol=1e-12)
    case.run(whole, case.recording.rows(0, 900))
    whole.restart()
    for online in (whole, second):
        case.run(online, case.recording.rows(900, 1200))
    np.testing.assert_array_equal(second.values, whole.values)
    assert [path.name for path in tmp_path.iterdir()] == ['state.npz']


def test_a_state_of_another_problem_is_refused(case, tmp_path):
    file = tmp_path / 'state.npz'
    online = case.online()
    case.run(online, case.recording.rows(0, 300))
    online.save(file)
    other = Robot.from_urdf(case.urdf.with_name('szabo_3r.urdf'))
    with pytest.raises(ModelError, match='another model'):
        identifier_of(IdentificationProblem(other, signals=case.problem.signals), 1e-3).load(file)
    with pytest.raises(SettingsError, match='weighted differently'):
        case.online(weights=np.full(6, 2.0)).load(file)
    for change in ({'rotor_inertia': not case.problem.model.rotor_inertia}, {'breakaway': 0.01}):
        model = replace(case.problem.model, **change)
        with pytest.raises(ModelError, match='another model'):
            identifier_of(replace(case.problem, model=model), 1e-3).load(file)


def test_files_that_are_no_states_are_refused(case, tmp_path):
    online = case.online()
    for name, content in (('text', b'hello'), ('empty', b''), ('zip', b'PK\x03\x04 no')):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(IdentificationError, match=f"cannot read '.*{name}'"):
            online.load(file)
    np.savez(tmp_path / 'other.npz', format='other')
    for name in ('other.npz', 'missing'):
        with pytest.raises(IdentificationError, match='cannot read'):
            online.load(tmp_path / name)
    with pytest.raises(IdentificationError, match='cannot write'):
        online.save(tmp_path / 'no' / 'state.npz')
    assert online.rows == 0
