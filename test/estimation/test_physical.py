# SPDX-License-Identifier: Apache-2.0
"""Physically consistent fit: the stated objective, the truth, its uncertainty, constraints."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from lxml import etree
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.estimation import table
from robot_identification.estimation.estimators import (
    EstimationSettings,
    EstimationTask,
    run_estimator,
)
from robot_identification.estimation.least_squares import wls
from robot_identification.estimation.link_constraints import PhysicalSettings
from robot_identification.estimation.physical import (
    choose_strength,
    Folds,
    PHYSICAL,
    physical,
    STRENGTHS,
)
from robot_identification.estimation.physical_fit import reference_bodies
from robot_identification.estimation.prior import standard
from robot_identification.estimation.system import from_rows
from robot_identification.estimation.time_blocks import JointRows, TimeBlocks
from robot_identification.model.consistency import (
    check,
    from_pseudo_inertia,
    pseudo_inertia,
)
from robot_identification.model.link_geometry import link_points
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ModelSettings,
)
from robot_identification.regressor import prior as urdf_prior
from robot_identification.regressor.base_search import structure
from scipy.spatial import ConvexHull

URDF = Path(__file__).parents[2] / 'urdf'


def perturbed(prior, robot, rng, spread):
    """Return parameters of physical bodies around the prior, with drives."""
    values = prior.values.copy()
    for body in reference_bodies(robot, prior):
        root = np.linalg.cholesky(body.pseudo_inertia)
        change = np.eye(4) + spread * rng.normal(size=(4, 4))
        moved = root @ change @ change.T @ root.T
        values[prior.layout.slice_of(body.link)] = from_pseudo_inertia(moved)
    drives = {
        f'{joint}.{symbol}': rng.uniform(*limits)
        for joint in robot.joints
        for symbol, limits in (('Ia', (0.02, 0.1)), ('fv', (0.1, 1.0)), ('fc', (0.1, 1.0)))
    }
    known = {name: value for name, value in drives.items() if name in prior.layout}
    return ParameterSet(prior.layout, values).updated(known)


class Case:
    """A robot with known parameters, and rows of a motion of it."""

    def __init__(
        self, name, *, seed=0, noise=0.1, spread=0.3, samples=800, model=None, changes=()
    ):
        rng = np.random.default_rng(seed)
        self.robot = Robot.from_urdf(URDF / f'{name}.urdf')
        self.model = model or ModelSettings()
        regressor = build(self.robot, self.model)
        self.structure = structure(regressor, self.robot)
        self.prior = urdf_prior(self.robot, self.model)
        self.truth = perturbed(self.prior, self.robot, rng, spread).updated(dict(changes))
        n, time = self.robot.n_joints, np.linspace(0.0, 10.0, samples)[:, None]
        q, v, a = np.zeros((3, samples, n))
        for k in range(1, 6):
            w, size, phase = 0.2 * np.pi * k, rng.uniform(0.1, 0.5, n), rng.uniform(0.0, 6.0, n)
            q += size * np.sin(w * time + phase)
            v += size * w * np.cos(w * time + phase)
            a -= size * w * w * np.sin(w * time + phase)
        rows = regressor.rows(Motion(q, v, a))
        effort = (rows @ self.truth.values).reshape(samples, n)
        effort += noise * np.sqrt(np.mean(effort**2, axis=0)) * rng.normal(size=effort.shape)
        base = rows[:, self.structure.independent].reshape(samples, n, -1)
        self.system = from_rows(self.structure, self.robot.joints, base, effort)

    def physical(self, **settings):
        return physical(
            self.system,
            self.robot,
            self.prior,
            PhysicalSettings(**settings),
            model=self.model,
        )


@pytest.fixture(scope='module')
def szabo():
    # so much noise that the unconstrained parameters are not physical even as base parameters
    return Case('szabo_3r', noise=1.0, seed=3, samples=200)


@pytest.fixture(scope='module')
def arm():
    return Case('demo_arm', noise=0.1)


BARRIER = 1e-3
"""Weight of the logarithms, as docs/explanation/physical.md states it."""


def objective(case, estimate, weight):
    """Return what docs/explanation/physical.md minimises, of the standard parameters."""
    factor = case.system.stacked(estimate.rows.weights) / estimate.rows.residual_std
    layout = case.prior.layout
    inverses = {
        body.link: np.linalg.inv(body.pseudo_inertia)
        for body in reference_bodies(case.robot, case.prior)
    }
    signs = [i for i, name in enumerate(layout) if name.rpartition('.')[2] in ('Ia', 'fv', 'fc')]
    prior = [case.prior[f'{link}.m'] for link in case.robot.links]
    masses = [
        (layout.index(f'{link}.m'), mass, max(0.3 * mass, 0.1 * np.mean(prior)))
        for link, mass in zip(case.robot.links, prior)
    ]
    efforts = np.sqrt(np.mean(case.system.trace.effort**2, axis=0))
    friction = [
        (layout.index(f'{joint}.{symbol}'), share * effort)
        for joint, effort in zip(case.robot.joints, efforts)
        for symbol, share in (('fc', 1.0), ('off', 0.3))
        if f'{joint}.{symbol}' in layout
    ]

    def value(chi):
        residual = factor @ np.append(case.structure.regrouping @ chi, -1.0)
        divergence = 0.0
        for link, inverse in inverses.items():
            ratio = inverse @ pseudo_inertia(chi[layout.slice_of(link)])
            divergence += np.trace(ratio) - np.linalg.slogdet(ratio)[1] - 4.0
        spread = sum(
            max(0.0, 1.0 / std**2 - 2.0 * weight / mass**2) * (chi[place] - mass) ** 2
            for place, mass, std in masses
        )
        spread += sum((chi[place] / std) ** 2 for place, std in friction)
        logarithms = np.sum(np.log(chi[signs]))
        return residual @ residual + weight * divergence + spread - 2.0 * BARRIER * logarithms

    return value


@pytest.mark.parametrize('weight', [0.1, 30.0])
def test_no_small_move_lowers_the_stated_objective(arm, weight):
    estimate = arm.physical(weight=weight)
    value = objective(arm, estimate, weight)
    chi = estimate.standard.values
    std = np.nan_to_num(estimate.standard_std)  # masses that no motion shows are held
    least, rng = value(chi), np.random.default_rng(0)
    for _ in range(100):
        move = 1e-3 * std * rng.normal(size=chi.size)
        for trial in (chi + move, chi - move):
            assert value(trial) > least - 1e-6


def test_everything_is_physical_where_plain_parameters_are_not(szabo, arm):
    for case in (szabo, arm):
        assert not check(standard(wls(case.system), case.structure, case.prior)).physical
        for weight in (1e-3, None, 1e3):
            estimate = case.physical(weight=weight)
            assert check(estimate.standard).physical
            np.testing.assert_allclose(
                estimate.base.values, case.structure.project(estimate.standard).values
            )
            assert estimate.method == 'physical'


def test_a_strong_prior_keeps_its_bodies_and_a_weak_one_leaves_the_data_alone():
    case = Case('demo_arm', noise=0.001, spread=0.05)
    stiff = case.physical(weight=1e8).standard
    for link in case.robot.links:
        np.testing.assert_allclose(stiff.inertial(link), case.prior.inertial(link), rtol=1e-2,
                                   atol=1e-4)  # fmt: skip
    free, loose = wls(case.system), case.physical(weight=1e-3)
    moved = (loose.base.values - free.base.values) / free.std
    assert np.sqrt(np.mean(moved**2)) < 0.3


def test_the_truth_is_nearer_than_without_prior(arm):
    free = wls(arm.system, prior=arm.prior)
    factor = arm.system.stacked(free.rows.weights)[:, :-1] / free.rows.residual_std
    true = arm.structure.project(arm.truth).values
    plain, found = (
        np.linalg.norm(factor @ (estimate.base.values - true))
        for estimate in (free, arm.physical(weight=5.0))
    )
    assert found < plain


def test_masses_lie_within_their_intervals():
    """Priors 30 % off, and a weight that says so: 1/sqrt(2 weight)."""
    inside, seeds = [], range(8)
    for seed in seeds:
        case = Case('demo_arm', noise=0.1, seed=seed, samples=400)
        estimate = case.physical(weight=5.0)
        for link in case.robot.links:
            place = case.prior.layout.index(f'{link}.m')
            error = estimate.standard.values[place] - case.truth.values[place]
            if np.isfinite(estimate.standard_std[place]):  # else no motion shows it
                inside.append(abs(error) < 2.0 * estimate.standard_std[place])
    assert np.mean(inside) > 0.85


def test_a_rotor_is_not_put_on_its_link():
    """With the inertia of a geared drive a hundred times the wrist's own, masses stay."""
    rotors = {f'joint_{i}.Ia': 2.0 for i in range(1, 7)}
    case = Case('tx40', noise=0.05, spread=0.1, changes=rotors)
    found = case.physical(weight=10.0).standard
    for link in case.robot.links:
        assert found[f'{link}.m'] == pytest.approx(case.truth[f'{link}.m'], rel=0.5)
    for joint in case.robot.joints[2:]:
        assert found[f'{joint}.Ia'] == pytest.approx(2.0, rel=0.1)


def test_what_the_recordings_do_not_see_stays_at_the_prior():
    """Friction of a joint that stands still."""
    case = Case('demo_arm', noise=0.01)
    still = case.prior.layout.index('joint_1.fv')
    regrouping = case.structure.regrouping.copy()
    column = np.flatnonzero(regrouping[:, still])
    factors = case.system.factor.triangles.copy()
    factors[:, :, column] = 0.0
    factor = replace(case.system.factor, triangles=factors)
    case.system = replace(case.system, factor=factor)
    case.prior = case.prior.updated({'joint_1.fv': 0.7})
    assert case.physical().standard['joint_1.fv'] == pytest.approx(0.7, rel=1e-3)


UPRIGHT = """<robot name="upright"><link name="base"/><link name="link_1"><inertial>
<origin xyz="0.1 0 0"/><mass value="5"/>
<inertia ixx="0.05" iyy="0.05" izz="0.05" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="joint_1" type="revolute"><parent link="base"/><child link="link_1"/>
<axis xyz="0 0 1"/><limit lower="-3" upper="3" velocity="4" effort="100"/></joint></robot>"""


def test_a_mass_that_no_motion_shows_keeps_the_priors_value():
    """The link turns about the vertical, with nine times the inertia of the prior."""
    robot, model = Robot.from_urdf(UPRIGHT), ModelSettings(rotor_inertia=False)
    known = urdf_prior(robot, model)
    truth = known.updated({'link_1.Izz': 9.0 * known['link_1.Izz']})
    time = np.linspace(0.0, 10.0, 800)[:, None]
    states = [np.sin(2.0 * time), 2.0 * np.cos(2.0 * time), -4.0 * np.sin(2.0 * time)]
    regressor, base = build(robot, model), structure(build(robot, model), robot)
    rows = regressor.rows(Motion(*states))
    effort = (rows @ truth.values)[:, None]
    effort += 0.01 * np.random.default_rng(1).normal(size=effort.shape)
    system = from_rows(base, robot.joints, rows[:, base.independent].reshape(800, 1, -1), effort)
    estimate = physical(system, robot, known, PhysicalSettings(weight=30.0), model=model)
    std = dict(zip(known.layout, estimate.standard_std, strict=True))
    assert estimate.standard['link_1.m'] == pytest.approx(5.0, rel=1e-9)
    assert np.isnan(std['link_1.m']) and np.isfinite(std['link_1.Izz'])
    assert estimate.standard['link_1.Izz'] == pytest.approx(truth['link_1.Izz'], rel=0.02)
    assert check(estimate.standard).physical
    weighed = PhysicalSettings(weight=30.0, total_mass=8.0)
    estimate = physical(system, robot, known, weighed, model=model)
    assert estimate.standard['link_1.m'] == pytest.approx(8.0, abs=0.3)


def test_friction_by_load_is_a_share_where_a_joint_carries_next_to_nothing():
    """The effort of the last joint is friction, its noise larger than its load."""
    model = ModelSettings(friction=('viscous', 'coulomb', 'offset', 'load'))
    changes = {'joint_6.fc': 200.0, 'joint_6.fl': 0.1, 'joint_2.fl': 0.1, 'joint_2.fc': 1.0}
    case = Case('demo_arm', noise=0.05, seed=3, model=model, changes=changes)
    estimate = case.physical()
    std = dict(zip(case.prior.layout, estimate.standard_std, strict=True))
    assert estimate.standard['joint_6.fl'] < 0.6 and std['joint_6.fl'] <= 0.2
    assert estimate.standard['joint_6.fc'] == pytest.approx(200.0, rel=0.05)
    assert estimate.standard['joint_2.fl'] == pytest.approx(0.1, abs=0.03)
    assert std['joint_2.fl'] < 0.02


def test_total_mass_is_kept_within_its_standard_deviation(arm):
    mass = 1.1 * sum(arm.truth[f'{link}.m'] for link in arm.robot.links)
    for std in (None, 0.001):
        estimate = arm.physical(total_mass=mass, total_mass_std=std)
        found = sum(estimate.standard[f'{link}.m'] for link in arm.robot.links)
        assert abs(found - mass) < 2.0 * (std or 0.01 * mass)
        assert check(estimate.standard).physical
        assert not any('constraints raise' in text for text in estimate.warnings)


def test_a_mass_that_the_recording_contradicts_is_warned_of(arm):
    mass = 0.1 * sum(arm.truth[f'{link}.m'] for link in arm.robot.links)
    estimate = arm.physical(total_mass=mass, total_mass_std=1e-4)
    text = next(text for text in estimate.warnings if 'constraints raise' in text)
    assert f'to {estimate.fit.relative_error:.3g} %' in text and 'total_mass' in text
    assert 'what the model lacks does so' in text  # often nothing is wrong with the efforts


@pytest.mark.parametrize('choice', ['box', 'hull'])
def test_centres_of_mass_stay_inside_of_the_shapes(arm, choice):
    points = link_points(arm.robot)
    outside = arm.prior.updated({'link_3.mx': 5.0 * arm.prior['link_3.m']})
    for prior in (arm.prior, outside):  # a prior beyond the shapes is moved inside
        settings = PhysicalSettings(center_of_mass=choice, weight=1.0)
        estimate = physical(arm.system, arm.robot, prior, settings)
        for link, corners in points.items():
            inertial = estimate.standard.inertial(link)
            centre = inertial[1:4] / inertial[0]
            if choice == 'box':
                assert (centre > corners.min(axis=0)).all()
                assert (centre < corners.max(axis=0)).all()
            else:
                faces = ConvexHull(corners).equations
                assert (faces[:, :3] @ centre + faces[:, 3] < 1e-9).all()


def test_a_prior_without_bodies_is_replaced_with_a_note(arm):
    nothing = ParameterSet(arm.prior.layout, np.zeros(len(arm.prior.layout)))
    estimate = physical(arm.system, arm.robot, nothing, PhysicalSettings())
    assert check(estimate.standard).physical
    assert any('no physical body' in note for note in estimate.notes)


def test_rotors_of_coupled_drives_have_a_positive_definite_inertia():
    drive = CoupledDrive(motor='joint_6', joints=('joint_5', 'joint_6'), ratios=(1.0, 1.0))
    # more on the coupling than on the joints that it couples: no rotors do that
    wrong = {'joint_6.Iam': 0.5, 'joint_5.Ia': 0.2, 'joint_6.Ia': 0.2}
    case = Case('tx40', changes=wrong, model=ModelSettings(coupled_drives=(drive,)))
    free = standard(wls(case.system), case.structure, case.prior)
    assert free['joint_6.Ia'] < 0.6 * free['joint_6.Iam']
    found = case.physical().standard
    for joint in ('joint_5', 'joint_6'):
        assert found[f'{joint}.Ia'] >= found['joint_6.Iam'] - 1e-6 > 0.05


def test_notes_say_what_the_prior_did(szabo):
    notes = ' '.join(szabo.physical().notes)
    assert 'standard deviations in all' in notes and 'strength of the prior' in notes


def test_friction_at_its_bound_is_named():
    # a viscous friction that no joint has
    case = Case('szabo_3r', changes={'joint_2.fv': -2.0}, model=ModelSettings())
    estimate = case.physical()
    (note,) = [text for text in estimate.notes if text.startswith('held at 0')]
    assert 'joint_2.fv' in note and 'joint_1.fv' not in note and 'joint_3.fv' not in note


@pytest.mark.parametrize('singular', [True, False])
def test_a_singular_fit_is_replaced_and_says_so_and_other_errors_are_not_hidden(
    szabo, monkeypatch, singular
):
    def fails(*_, **__):
        raise np.linalg.LinAlgError('Singular matrix') if singular else ValueError('a mistake')

    monkeypatch.setattr(table, 'physical', fails)
    task = EstimationTask(szabo.system, szabo.robot, szabo.prior, EstimationSettings())
    assert task.settings.method == 'physical'
    if not singular:
        with pytest.raises(ValueError, match='a mistake'):
            run_estimator(task)
        return
    found = run_estimator(task)
    assert found.method == 'wls'
    for texts in (found.notes, found.warnings):
        assert any('the physical fit fails (Singular matrix)' in text for text in texts)


def test_the_divergence_does_not_depend_on_frames():
    """The same robot with another frame at the last link gives the same body."""
    text = (URDF / 'szabo_3r.urdf').read_text()
    plain = Robot.from_urdf(text)
    bodies = reference_bodies(plain, urdf_prior(plain))
    turn = pin.SE3(pin.rpy.rpyToMatrix(0.3, -0.5, 0.7), np.array([0.1, 0.2, -0.3]))
    body = pin.Inertia.FromDynamicParameters(plain.prior.inertial(plain.links[-1]))
    other = pin.Inertia(1.7, np.array([0.1, 0.0, 0.2]), np.diag([0.1, 0.2, 0.15]))
    here = bodies[-1].relative(other.toDynamicParameters())
    moved = turn.act(other).toDynamicParameters()
    reference = pseudo_inertia(turn.act(body).toDynamicParameters())
    there = np.linalg.solve(reference, pseudo_inertia(moved))
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvals(there).real), np.linalg.eigvalsh(here), rtol=1e-6
    )


class Rows:
    """A system of two joints: ridge regression on it has a closed form."""

    def __init__(self, truth, noise, parts=20, rows=12, seed=0, offsets=False, duration=0.1):
        rng = np.random.default_rng(seed)
        self.n_base, self.n_joints, self.joints = len(truth), 2, ('a', 'b')
        names = [f'p{i}' for i in range(self.n_base)]
        if offsets:
            names[:2] = 'a.off', 'b.off'
        self.factor = SimpleNamespace(n_base=len(truth), n_joints=2, joints=('a', 'b'))
        self.structure = SimpleNamespace(base_layout=SimpleNamespace(names=tuple(names)))
        columns = np.arange(self.n_base)
        self.pieces = []
        for _ in range(parts):
            part = []
            for joint in range(2):
                matrix = rng.normal(size=(rows, self.n_base))
                if offsets:
                    matrix[:, :2] = np.eye(2)[joint]
                effort = matrix @ truth + noise * rng.normal(size=rows)
                part.append(JointRows(columns, np.column_stack([matrix, effort])))
            self.pieces.append(tuple(part))
        self.blocks = TimeBlocks(duration, tuple(self.pieces))

    def rows(self, which, joint):
        return np.vstack([self.pieces[i][joint].rows for i in which])


def ridge(prior):
    def fit(factor, weight, start):
        matrix, effort = factor[:, :-1], factor[:, -1]
        left = matrix.T @ matrix + weight * np.eye(len(prior))
        found = np.linalg.solve(left, matrix.T @ effort + weight * prior)
        return found, found

    return fit


def test_parts_are_contiguous_and_give_the_rows_back():
    system = Rows(np.ones(4), 0.5, parts=21)
    folds = Folds.from_system(system)
    bounds = np.linspace(0, 21, PHYSICAL.folds + 1).astype(int)
    base, weights = np.arange(4.0), np.array([2.0, 0.5])
    for fold in range(PHYSICAL.folds):
        held = range(bounds[fold], bounds[fold + 1])
        others = [i for i in range(21) if i not in held]
        for joint in range(2):
            rows = system.rows(held, joint)
            residual = rows[:, :-1] @ base - rows[:, -1]
            assert folds.held_out(fold, base)[joint] == pytest.approx(np.linalg.norm(residual))
        stacked = np.vstack([w * system.rows(others, j) for j, w in enumerate(weights)])
        found = folds.training(fold, weights)
        np.testing.assert_allclose(found.T @ found, stacked.T @ stacked, rtol=1e-10)


def test_parts_that_are_short_are_held_out_by_their_means():
    """As the column of an offset tells them from R alone; longer ones by their rows."""
    base = np.array([0.5, -1.0, 2.0, 1.0])
    for duration, means in ((0.2, True), (0.4, False)):
        system = Rows(np.ones(4), 3.0, parts=20, offsets=True, duration=duration)
        reduced = [
            tuple(JointRows(j.columns, np.linalg.qr(j.rows, mode='r')) for j in part)
            for part in system.pieces
        ]
        system.blocks = TimeBlocks(duration, tuple(reduced))
        found = Folds.from_system(system).held_out(0, base)
        for joint in range(2):
            parts = [system.pieces[i][joint].rows for i in range(4)]
            residuals = [rows[:, :-1] @ base - rows[:, -1] for rows in parts]
            sizes = [r.sum() / np.sqrt(r.size) if means else np.linalg.norm(r) for r in residuals]
            assert found[joint] == pytest.approx(np.linalg.norm(sizes))


def test_recordings_without_time_or_too_short_have_no_parts():
    system = Rows(np.ones(3), 0.1, parts=2 * PHYSICAL.folds - 1)
    assert Folds.from_system(system) is None
    system.blocks = None
    assert Folds.from_system(system) is None


def test_a_prior_that_is_right_is_strong_and_a_wrong_one_weak():
    truth = np.array([1.0, -2.0, 0.5, 3.0])
    system = Rows(truth, 1.0)
    folds, weights, driven = Folds.from_system(system), np.ones(2), np.ones(2, dtype=bool)
    right = choose_strength(folds, weights, driven, ridge(truth))
    wrong = choose_strength(folds, weights, driven, ridge(truth + 5.0))
    assert right.weight == STRENGTHS[0]
    assert wrong.weight < 10.0
    assert right.costs.shape == STRENGTHS.shape


def test_the_strongest_of_those_alike_is_taken():
    """Held-out residuals of a fit that does not move are alike: the strongest one wins."""
    system = Rows(np.ones(3), 1.0)
    folds, driven = Folds.from_system(system), np.array([True, False])
    found = choose_strength(folds, np.ones(2), driven, lambda *_: (np.ones(3), np.ones(3)))
    assert found.weight == STRENGTHS[0] and np.ptp(found.costs) == 0.0
    # how far bodies are from their prior is as open as the strength
    assert found.likely == pytest.approx(1.0 / np.mean(1.0 / STRENGTHS))


@pytest.mark.parametrize(('spread', 'taken'), [(0.0, 1), (0.02, 0)])
def test_what_the_stretches_tell_apart_is_not_left_to_the_prior(spread, taken):
    """The strongest costs 0.2 % more: in all stretches alike, or in some of them."""

    class Stretches:
        def training(self, fold, weights):
            return np.eye(2)

        def held_out(self, fold, base):
            dearer = 0.002 + spread * (0.5 * fold - 1.0)
            return np.exp([dearer if base[0] == STRENGTHS[0] else 0.0])

    def fit(factor, weight, start):
        return np.array([weight]), np.array([weight])

    found = choose_strength(Stretches(), np.ones(1), np.ones(1, dtype=bool), fit)
    assert found.weight == STRENGTHS[taken]


SZABO = Path(__file__).parents[2] / 'urdf' / 'szabo_3r.urdf'
TOLERANCE = 1e-3
"""What docs/explanation/physical.md promises [standard deviations]."""

POWERS = {'m': 0, 'mx': 1, 'my': 1, 'mz': 1}
"""Of the unit of length, by parameter; all others, moments of inertia and efforts, have 2."""


def described_in(unit):
    """Return the robot with lengths counted in another unit, and efforts in kg unit^2/s^2."""
    document = etree.parse(str(SZABO))
    for element in document.iter():
        for name, power in (
            *(('xyz', 1),) * (element.tag != 'axis'),
            *((entry, 2) for entry in ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')),
            ('damping', 2),
            ('friction', 2),
        ):
            if element.get(name) is not None:
                values = (f'{float(x) / unit**power:.17g}' for x in element.get(name).split())
                element.set(name, ' '.join(values))
    text = etree.tostring(document).decode()
    return Robot.from_urdf(text, gravity=np.array([0.0, 0.0, -9.81 / unit]))


def found_in(unit, noise=1.0, samples=200):
    """Identify from the same motion and the same relative noise."""
    robot, model = described_in(unit), ModelSettings()
    regressor = build(robot, model)
    prior = urdf_prior(robot, model)
    base = structure(regressor, robot)
    rng = np.random.default_rng(3)
    motion = Motion(*rng.normal(size=(3, samples, robot.n_joints)))
    rows = regressor.rows(motion)
    effort = (rows @ prior.values).reshape(samples, -1)
    effort += noise * np.sqrt(np.mean(effort**2, axis=0)) * rng.normal(size=effort.shape)
    columns = rows[:, base.independent].reshape(samples, robot.n_joints, -1)
    system = from_rows(base, robot.joints, columns, effort)
    estimate = physical(system, robot, prior, PhysicalSettings(), model=model)
    powers = [POWERS.get(name.rpartition('.')[2], 2) for name in prior.layout]
    in_metres = estimate.standard.values * unit ** np.array(powers, dtype=float)
    whitened = system.stacked(estimate.rows.weights)[:, :-1] / estimate.rows.residual_std
    base_powers = [POWERS.get(name.rpartition('.')[2], 2) for name in base.base_layout]
    return in_metres, estimate.base.values, whitened, np.array(base_powers, dtype=float)


@pytest.fixture(scope='module')
def metres():
    return found_in(1.0)


@pytest.mark.parametrize('unit', [1e-3, 0.0254, 1e3])
def test_the_unit_of_length_does_not_matter(metres, unit):
    expected, base, whitened, powers = metres
    found, other, *_ = found_in(unit)
    moved = np.linalg.norm(whitened @ (other * unit**powers - base))
    assert moved < TOLERANCE
    # and of what the data leave open, a thousandth of the parameters' own sizes
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max(), rtol=1e-2)


def test_the_prior_matters_in_it(metres):
    """Else it would say nothing of the fit: least squares alone would do."""
    expected, *_ = metres
    assert np.isfinite(expected).all()
    free = found_in(1.0, noise=0.0)[0]
    assert np.linalg.norm(free - expected) > 0.1 * np.linalg.norm(free)
