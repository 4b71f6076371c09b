# SPDX-License-Identifier: Apache-2.0
"""Changes of the robot, told from residuals: payload, friction, collision, and nothing at all."""

from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import ModelError
from robot_identification.online import ChangeDetector, ChangeSettings, identifier_of, Update
from robot_identification.regressor.inverse_dynamics import entries, predict
from robot_identification.signals.settings import PolynomialApproximation
from scipy.signal import lfilter
from scipy.stats import poisson

RATE, LEARNING, AT = 125.0, 12.0, 15.0
SETTINGS = ChangeSettings(false_alarms=1.0, learning=LEARNING, accept_after=None)
MASS, PLACE = 2.0, np.array([0.03, -0.02, 0.1])


def motion_of(time, n):
    """Return sines of 0.2 and 0.4 Hz and more, so that the motion repeats after 5 s."""
    rng = np.random.default_rng(4)
    size, angle = rng.uniform(0.2, 0.5, (n, 3)), rng.uniform(0.0, 6.0, (n, 3))
    omega = 2.0 * np.pi * rng.choice([0.2, 0.4, 0.6, 0.8], (n, 3))
    phase = omega * time[:, None, None] + angle
    return Motion(
        np.sum(size * np.sin(phase), axis=2),
        np.sum(size * omega * np.cos(phase), axis=2),
        -np.sum(size * omega**2 * np.sin(phase), axis=2),
    )


def with_payload(truth, link='link_6'):
    values = truth.values.copy()
    body = MASS * (PLACE @ PLACE * np.eye(3) - np.outer(PLACE, PLACE)) + 0.004 * np.eye(3)
    six = body[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    values[truth.layout.slice_of(link)] += [MASS, *(MASS * PLACE), *six]
    return replace(truth, values=values)


def with_friction(truth, joint='joint_3', times=1.5):
    values = truth.values.copy()
    values[truth.layout.index(f'{joint}.fc')] *= times
    return replace(truth, values=values)


@dataclass(frozen=True)
class Stream:
    """Motion and noise, and what turns a change into updates."""

    case: object
    motion: Motion
    position: np.ndarray
    noise: np.ndarray

    def watch(self, parts, *, hit=None, settings=SETTINGS, link=None, frozen=True, memory=None):
        """Return the detector, and changes with when they were found."""
        case, step = self.case, 1.0 / RATE
        online = identifier_of(case.problem, step, base=case.base, memory=memory)
        online.reset(case.truth)
        if frozen:
            online.freeze()
        detector = ChangeDetector(online, settings, link=link)
        effort = self.noise.copy()
        for (start, truth), (stop, _) in zip(parts, [*parts[1:], (1e9, None)], strict=True):
            rows = slice(round(start * RATE), min(round(stop * RATE), len(effort)))
            effort[rows] += predict(case.regressor, self.motion.rows(rows.start, rows.stop), truth)
        if hit is not None:
            first = round(AT * RATE)
            effort[first : first + 8] += np.outer(np.sin(np.pi * np.arange(8) / 8), hit)
        found = []
        for k in range(len(effort)):
            update = online.push(k * step, self.position[k], effort[k])
            change = None if update is None else detector.push(update)
            if change is not None:
                found.append((k * step, change))
        return detector, found


@pytest.fixture(scope='module')
def stream(case):
    case = case.with_signals(polynomial_approximation=PolynomialApproximation(window=0.08))
    case = replace(case, problem=replace(case.problem))
    time = np.arange(round(23.0 * RATE)) / RATE
    motion = motion_of(time, 6)
    rng = np.random.default_rng(8)
    position = motion.position + 2e-6 * rng.normal(size=motion.position.shape)
    return Stream(case, motion, position, 0.3 * rng.normal(size=position.shape))


def test_a_payload_is_noticed_and_weighed(stream):
    truth = stream.case.truth
    detector, found = stream.watch([(0.0, truth), (AT, with_payload(truth))])
    ((when, change),) = found
    assert change.kind == 'payload' and change.name == 'link_6'
    assert when - AT < 2.0 and abs(change.since - AT) < 0.5
    assert change.size == pytest.approx(MASS, rel=0.05)
    last = detector.change
    assert last.size == pytest.approx(MASS, rel=0.01) and last.std < change.std
    assert abs(last.size - MASS) < 5.0 * last.std
    assert last.parameters[0] == 'link_6.m'
    np.testing.assert_allclose(last.values[1:4], MASS * PLACE, atol=0.01)


def test_the_payload_is_what_pinocchio_takes_it_for(stream):
    """The effort that it adds in these tests is that of a body in Pinocchio's recursion."""
    robot, few = stream.case.problem.robot, stream.motion.rows(0, 50)
    loaded = robot.model.copy()
    loaded.inertias[loaded.njoints - 1] += pin.Inertia(MASS, PLACE, 0.004 * np.eye(3))
    states = zip(
        robot.configuration(few.position),
        robot.tangent(few.velocity),
        robot.tangent(few.acceleration),
        strict=True,
    )
    added = [
        pin.rnea(loaded, loaded.createData(), *state)
        - pin.rnea(robot.model, robot.model.createData(), *state)
        for state in states
    ]
    truth, regressor = stream.case.truth, stream.case.regressor
    ours = predict(regressor, few, with_payload(truth)) - predict(regressor, few, truth)
    np.testing.assert_allclose(robot.tangent(ours), added, atol=1e-9)


def test_friction_that_grows_is_told_from_a_payload(stream):
    truth = stream.case.truth
    detector, found = stream.watch([(0.0, truth), (AT, with_friction(truth))])
    ((when, change),) = found
    assert (change.kind, change.name) == ('friction', 'joint_3')
    assert when - AT < 2.0
    last = detector.change
    assert last.values[last.parameters.index('joint_3.fc')] == pytest.approx(1.5, abs=0.1)
    assert last.size == pytest.approx(1.5, abs=0.15) and last.std < 0.1


def test_a_collision_is_short_and_passes(stream):
    hit = np.array([2.0, 9.0, 6.0, 2.0, 0.0, 0.0])
    detector, found = stream.watch([(0.0, stream.case.truth)], hit=hit)
    ((when, change),) = found
    assert change.kind == 'collision' and change.name in ('joint_2', 'joint_3')
    assert when - AT < 2.0 and abs(change.since - AT) < 0.2
    assert 4.0 < change.size < 10.0
    assert detector.change is None


def test_what_lasts_and_is_explained_by_nothing_is_said(stream):
    """A ripple of the effort over the position is neither payload nor friction."""
    ripple = stream.noise.copy()
    late = slice(round(AT * RATE), None)
    ripple[late, 1] += 4.0 * np.sin(40.0 * stream.motion.position[late, 1])
    _, found = replace(stream, noise=ripple).watch([(0.0, stream.case.truth)])
    assert [change.kind for _, change in found] == ['unexplained']
    assert found[0][1].name == 'joint_2'


@pytest.mark.parametrize('memory', [None, 2.0])
def test_a_payload_is_noticed_while_the_estimate_goes_on_learning(stream, memory):
    """Also where the estimate forgets, and so follows the payload within seconds."""
    truth = stream.case.truth
    settings = replace(SETTINGS, settle=4.0, learning=8.0)
    parts = [(0.0, truth), (AT, with_payload(truth))]
    detector, found = stream.watch(parts, settings=settings, frozen=False, memory=memory)
    ((when, change),) = found
    assert (change.kind, change.name) == ('payload', 'link_6')
    assert when - AT < 2.0
    assert change.size == pytest.approx(MASS, rel=0.05)
    assert not detector.settling


def test_the_estimate_settles_first_in_motion_unless_it_is_frozen(stream):
    truth = stream.case.truth
    never = replace(SETTINGS, settle=None)
    detector, found = stream.watch([(0.0, truth)], settings=never, frozen=False)
    assert detector.settling and detector.baseline is None and not found
    still = replace(stream, position=np.zeros_like(stream.position), noise=0.0 * stream.noise)
    early = replace(SETTINGS, settle=4.0)
    detector, _ = still.watch([(0.0, truth)], settings=early, frozen=False)
    assert detector.settling  # what rests tells nothing


def test_what_is_accepted_is_normal_and_its_end_is_a_change(stream):
    truth = stream.case.truth
    settings = replace(SETTINGS, accept_after=2.5)
    parts = [(0.0, truth), (AT, with_payload(truth)), (AT + 5.0, truth)]
    _, found = stream.watch(parts, settings=settings)
    assert [change.kind for _, change in found] == ['payload', 'payload']
    assert found[1][1].size == pytest.approx(-MASS, rel=0.05)
    assert found[1][0] - AT - 5.0 < 2.0


def test_friction_that_is_accepted_is_normal(stream):
    truth = stream.case.truth
    settings = replace(SETTINGS, accept_after=2.0)
    _, found = stream.watch([(0.0, truth), (AT, with_friction(truth))], settings=settings)
    assert [change.kind for _, change in found] == ['friction']


def test_without_a_change_nothing_is_found(stream):
    detector, found = stream.watch([(0.0, stream.case.truth)])
    assert not found and detector.baseline is not None and detector.learning == 1.0
    detector.relearn()
    assert detector.baseline is None and detector.learning == 0.0


def test_a_link_that_is_not_there_is_refused(stream):
    online = identifier_of(stream.case.problem, 1.0 / RATE, base=stream.case.base)
    with pytest.raises(ModelError, match='elbow'):
        ChangeDetector(online, link='elbow')


class Synthetic:
    """Stand-in of an identifier for a detector, without its filter."""

    def __init__(self, case, pattern):
        self.pattern, self.structure, self.frozen = pattern, case.base, True
        self.joints, self.step, self.taps, self.lag = case.problem.robot.joints, 0.01, 16, 0.05


def test_turning_points_do_not_count(case):
    """Peaks in the windows of turning points, as of friction, raise no level."""
    time = np.arange(4000) * 0.01
    velocity = motion_of(time[:1000], 6).velocity
    rng = np.random.default_rng(4)
    pattern = case.online().pattern
    detector = ChangeDetector(
        Synthetic(case, pattern), ChangeSettings(false_alarms=1.0, learning=20.0)
    )
    some = rng.normal(size=(50, pattern.width))
    for k, stamp in enumerate(time):
        now = velocity[k % 1000]
        turned = (now > 0.0) != (velocity[(k - 3) % 1000] > 0.0)
        residual = rng.normal(size=6) + 80.0 * turned
        update = Update(
            stamp,
            np.empty(0),
            np.empty(0),
            residual,
            residual,
            now,
            np.ones(6, bool),
            some[k % 50],
        )
        assert detector.push(update) is None
    level = detector.baseline.level
    assert (level[np.isfinite(level)] < 20.0).all()
    assert np.isfinite(level).any()


@pytest.mark.parametrize('pole', [pytest.param(0.8, marks=pytest.mark.soak), 0.97])
def test_false_alarms_are_as_rare_as_asked_for(case, pole):
    """Coloured residuals with correlation times of 45 ms and 330 ms, and no change."""
    rate, learning, duration = 90.0, 30.0, 330.0
    time = np.arange(round(duration / 0.01)) * 0.01
    pattern = case.online().pattern
    one = motion_of(time[:1000], 6)
    given = (case.base.independent, pattern)
    rows = np.concatenate(
        [entries(case.regressor, one.rows(i, i + 500), *given).T for i in (0, 500)]
    )
    rng = np.random.default_rng(3)
    white = rng.normal(size=(len(time), 6)) * np.linspace(0.2, 2.0, 6)
    residual = lfilter([np.sqrt(1.0 - pole**2)], [1.0, -pole], white, axis=0)
    settings = ChangeSettings(false_alarms=rate, learning=learning)
    detector = ChangeDetector(Synthetic(case, pattern), settings)
    moving = np.abs(one.velocity) > 0.05
    count = 0
    for k, stamp in enumerate(time):
        i = k % 1000
        update = Update(
            stamp,
            np.empty(0),
            np.empty(0),
            residual[k],
            residual[k],
            one.velocity[i],
            moving[i],
            np.ascontiguousarray(rows[i]),
        )
        count += detector.push(update) is not None
    assert count <= poisson.ppf(0.999, rate * (duration - learning) / 3600.0)
    assert (detector.baseline.inflation > 2.0).all()
