# SPDX-License-Identifier: Apache-2.0
"""Drive gains from rows of a robot whose gains are known, with noise in the currents."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import IdentifiabilityError, ModelError, SettingsError
from robot_identification.estimation.drive_gains import drive_gains, Load, load_on
from robot_identification.estimation.row_block import RowBlock
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, prior
from robot_identification.regressor.base_search import structure

ROOT = Path(__file__).parents[2]
DIAGONAL = np.diag([10.0, 20.0, 5.0])
COUPLED = np.array([[10.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 6.0, 5.0]])
TRUE = np.array([1.15, 0.9, 1.05])
MASS, CENTRE, INERTIA = 3.0, (0.05, 0.02, 0.1), (0.01, 0.0, 0.012, 0.001, 0.0, 0.009)


@dataclass(frozen=True)
class Arm:
    """An arm at random states, its true parameters, and those with the load."""

    robot: Robot
    structure: object
    matrix: np.ndarray
    truth: np.ndarray
    heavy: np.ndarray

    def rows(self, loaded, seed, noise, assumed=DIAGONAL):
        """Rows with efforts by the assumed gains; (3,) noise of the currents in N m by them."""
        half = len(self.matrix) // 2
        matrix = self.matrix[half:] if loaded else self.matrix[:half]
        effort = matrix @ (self.heavy if loaded else self.truth)
        currents = effort @ np.linalg.inv(assumed * TRUE).T
        rng = np.random.default_rng([seed, loaded])
        currents = currents + np.array(noise) / np.diag(assumed) * rng.normal(size=effort.shape)
        block = RowBlock.from_matrix(
            matrix,
            matrix[:0],
            time=np.arange(half, dtype=float),
            position=np.zeros((half, 3)),
            velocity=np.ones((half, 3)),
            effort=currents @ assumed.T,
            keep=rng.random((half, 3)) < 0.9,
            raw_effort=effort[:0],
        )
        return [block]


@pytest.fixture(scope='module')
def arm():
    robot = Robot.from_urdf(ROOT / 'urdf' / 'szabo_3r.urdf', ('joint_1', 'joint_2', 'joint_3'))
    regressor = build(robot)
    base = structure(regressor, robot)
    rng = np.random.default_rng(0)
    m = 1600
    motion = Motion(*(size * rng.uniform(-1.0, 1.0, (m, 3)) for size in (3.0, 2.0, 5.0)))
    matrix = regressor.rows(motion).reshape(m, 3, -1)[:, :, base.independent]
    truth = prior(robot)
    friction = {f'{j}.{s}': v for j in robot.joints for s, v in (('fv', 0.8), ('fc', 1.2))}
    truth = truth.updated(friction)
    values = truth.values.copy()
    values[truth.layout.slice_of('link_3')] += load_on(robot, MASS, CENTRE, INERTIA).parameters
    heavy = base.project(ParameterSet(truth.layout, values)).values
    return Arm(robot, base, matrix, base.project(truth).values, heavy)


def known(arm, how):
    given = {'mass': (), 'centre': (CENTRE,), 'all': (CENTRE, INERTIA)}[how]
    return load_on(arm.robot, MASS, *given)


def found(
    arm, how='all', seed=0, noise=(0.3, 0.3, 0.3), assumed=DIAGONAL, method='total', heavier=1.0
):
    return drive_gains(
        arm.rows(False, seed, noise, assumed),
        arm.rows(True, seed, heavier * np.array(noise), assumed),
        known(arm, how),
        arm.structure,
        arm.robot.joints,
        assumed,
        method=method,
    )


@pytest.mark.parametrize('method', ['total', 'constrained'])
@pytest.mark.parametrize('assumed', [DIAGONAL, COUPLED])
@pytest.mark.parametrize('how', ['mass', 'centre', 'all'])
def test_without_noise_the_gains_are_exact(arm, how, assumed, method):
    gains = found(arm, how, noise=(0.0, 0.0, 0.0), assumed=assumed, method=method)
    np.testing.assert_allclose(gains.factors, TRUE, rtol=1e-8)
    np.testing.assert_allclose(gains.matrix, assumed * TRUE, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ('how', 'assumed'),
    [
        ('mass', COUPLED),
        pytest.param('centre', DIAGONAL, marks=pytest.mark.soak),
        pytest.param('all', COUPLED, marks=pytest.mark.soak),
    ],
)
def test_total_least_squares_is_unbiased_and_its_standard_deviations_are_true(arm, how, assumed):
    """Over 80 recordings, with another noise in every drive."""
    errors, scores = [], []
    for seed in range(80):
        gains = found(arm, how, seed, (0.2, 0.6, 0.3), assumed)
        errors.append(gains.factors - TRUE)
        scores.append(errors[-1] / gains.std)
    assert np.abs(scores).max() < 5.0
    bias = np.mean(errors, axis=0) / (np.std(errors, axis=0) / np.sqrt(80))
    assert (np.abs(bias) < 3.5).all()
    # 240 squares of normal variables with the variance 2, hardly correlated
    assert abs(np.mean(np.square(scores)) - 1.0) < 4.0 * np.sqrt(2.0 / 240)


@pytest.mark.parametrize('heavier', [0.2, 5.0])
def test_runs_may_differ_in_their_noise(arm, heavier):
    errors, scores = [], []
    for seed in range(40):
        gains = found(arm, 'all', seed, (0.2, 0.4, 0.3), heavier=heavier)
        errors.append(gains.factors - TRUE)
        scores.append(errors[-1] / gains.std)
    bias = np.mean(errors, axis=0) / (np.std(errors, axis=0) / np.sqrt(40))
    assert (np.abs(bias) < 3.5).all()
    assert abs(np.mean(np.square(scores)) - 1.0) < 4.0 * np.sqrt(2.0 / 120)


def test_strong_noise_shrinks_the_constrained_fit_but_not_the_total_one(arm):
    noise = (1.0, 1.0, 1.0)
    total = [found(arm, seed=seed, noise=noise) for seed in range(20)]
    plain = [found(arm, seed=seed, noise=noise, method='constrained') for seed in range(20)]
    error = np.mean([gains.factors - TRUE for gains in total], axis=0)
    spread = np.mean([gains.std for gains in total], axis=0)
    assert (np.abs(error) < 4.0 * spread / np.sqrt(20)).all()
    shrunk = np.mean([gains.factors - TRUE for gains in plain], axis=0)
    assert (shrunk < -3.0 * spread).all()
    # which it says itself, and by how much
    told = [w for w in plain[0].warnings if 'too small in the constrained fit' in w]
    assert len(told) == 3
    about = [float(w.partition('about ')[2].split()[0]) for w in told]
    np.testing.assert_allclose(about, -100.0 * shrunk, rtol=0.5)
    assert not any('too small' in w for w in total[0].warnings)


def test_a_drive_that_the_load_does_not_reach_is_told(arm):
    """A load on link 1, of which only what turns with joint 1 acts, lost in joint 3's noise."""
    parameters = np.zeros(10)
    parameters[4:10] = 0.05
    load = Load('link_1', parameters)
    columns = arm.structure.regrouping[:, arm.structure.layout.slice_of('link_1')]
    heavy = Arm(arm.robot, arm.structure, arm.matrix, arm.truth, arm.truth + columns @ parameters)
    noise = (0.02, 0.02, 100.0)
    without, loaded = heavy.rows(False, 0, noise), heavy.rows(True, 0, noise)
    gains = drive_gains(without, loaded, load, arm.structure, arm.robot.joints, DIAGONAL)
    seen = np.isfinite(gains.factors)
    assert 0 < seen.sum() < 3
    for drive, told in zip(gains.drives, seen, strict=True):
        text = f"does not determine the gain of drive '{drive}'"
        assert any(text in warning for warning in gains.warnings) != told
    np.testing.assert_array_equal(gains.matrix[~seen], DIAGONAL[~seen])
    assert (np.abs(gains.factors - TRUE)[seen] < 4.0 * gains.std[seen]).all()
    assert gains.std[seen].max() < 0.02


def test_noise_that_drowns_everything_is_told_of_every_drive(arm):
    gains = found(arm, noise=(200.0, 200.0, 200.0))
    assert np.isnan(gains.factors).all() and len(gains.warnings) == 3
    np.testing.assert_array_equal(gains.matrix, DIAGONAL)
    assert '-' in gains.summary() and 'nan' not in gains.summary()


def test_gains_that_differ_are_told(arm):
    warnings = found(arm).warnings
    assert len(warnings) == 3 and all('differs by' in warning for warning in warnings)


def test_a_load_that_cannot_be_told_from_what_is_unknown_of_it_is_an_error(arm):
    """Of a load on the first link, with a vertical axis, motion tells Izz alone."""
    parameters = np.full(10, np.nan)
    parameters[0] = 3.0
    with pytest.raises(IdentifiabilityError, match='center_of_mass') as caught:
        drive_gains(
            arm.rows(False, 0, (0.1, 0.1, 0.1)),
            arm.rows(True, 0, (0.1, 0.1, 0.1)),
            Load('link_1', parameters),
            arm.structure,
            arm.robot.joints,
            DIAGONAL,
        )
    assert caught.value.link == 'link_1'


@pytest.mark.parametrize('matrix', [np.ones((3, 3)), np.ones((3, 4))])
def test_gains_without_inverse_are_named(arm, matrix):
    with pytest.raises(SettingsError, match=r'robot\.drives\.effort\.matrix'):
        drive_gains([], [], known(arm, 'all'), arm.structure, arm.robot.joints, matrix)


def test_summary_and_plain_data(arm):
    gains = found(arm)
    first = next(iter(gains))
    assert first.drive == 'joint_1' and first.assumed == 10.0
    assert first.gain == pytest.approx(11.5, rel=0.01)
    assert first.relative_change == pytest.approx(15.0, abs=1.0)
    lines = gains.summary().splitlines()
    assert len(lines) == 5 and 'joint_3' in lines[4]
    document = gains.to_dict()
    assert document['matrix'] == gains.matrix.tolist()
    assert [entry['drive'] for entry in document['gains']] == list(arm.robot.joints)


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(ROOT / 'urdf' / 'demo_arm.urdf')


def test_a_load_on_a_fixed_link_acts_as_a_body_that_is_added_there(robot):
    """Efforts of the robot with the load's parameters added to the carrier's, by appendBodyTo."""
    mass, centre = 2.5, np.array([0.03, -0.02, 0.08])
    inertia = (0.01, 0.001, 0.012, -0.002, 0.0005, 0.009)
    load = load_on(robot, mass, centre, inertia, frame='tool_flange')
    assert load.link == 'link_6' and load.known.all()
    xx, xy, yy, xz, yz, zz = inertia
    body = pin.Inertia(mass, centre, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    with_body = robot.model.copy()
    frame = with_body.frames[with_body.getFrameId('tool_flange')]
    with_body.appendBodyToJoint(frame.parentJoint, body, frame.placement)
    total = robot.prior.values.copy()
    total[robot.layout.slice_of(load.link)] += load.parameters
    model = robot.with_parameters(type(robot.prior)(robot.layout, total))
    rng = np.random.default_rng(0)
    for _ in range(5):
        q, v, a = rng.normal(size=(3, 6))
        expected = pin.rnea(with_body, with_body.createData(), q, v, a)
        np.testing.assert_allclose(pin.rnea(model, model.createData(), q, v, a), expected)


def test_what_is_not_known_stays_open(robot):
    assert load_on(robot, 2.0).known.tolist() == [True] + [False] * 9
    half = load_on(robot, 2.0, (0.0, 0.0, 0.1))
    assert half.known.tolist() == [True] * 4 + [False] * 6
    np.testing.assert_allclose(half.parameters[:4], [2.0, 0.0, 0.0, 0.2])


def test_a_frame_that_does_not_exist_or_does_not_move_is_named(robot):
    with pytest.raises(ModelError, match="no link 'gripper'") as caught:
        load_on(robot, 1.0, frame='gripper')
    assert caught.value.link == 'gripper'
    with pytest.raises(ModelError, match="no identified joint moves link 'base_link'"):
        load_on(robot, 1.0, frame='base_link')
