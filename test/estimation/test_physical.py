# SPDX-License-Identifier: Apache-2.0
"""Physically consistent fit: other formulations, stored optima, the truth, consistency."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.base_parameters import structure
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.estimation import (
    body_scale,
    from_rows,
    standard,
    wls,
)
from robot_identification.estimation.interior_point import minimise
from robot_identification.estimation.physical import (
    physical,
    physical_problem,
    PhysicalSettings,
)
from robot_identification.estimation.physical_constraints import body_sizes, reference_bodies
from robot_identification.model.consistency import (
    check,
    from_pseudo_inertia,
    pseudo_inertia,
)
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ModelSettings,
)
from robot_identification.regressor import prior as urdf_prior

URDF = Path(__file__).parents[2] / 'urdf'
DRAWN = 'estimation.physical.'


def perturbed(prior, robot, rng, spread):
    """Return parameters of physical bodies around the prior, with drives."""
    values = prior.values.copy()
    for body in reference_bodies(robot, prior):
        root = np.linalg.cholesky(body.pseudo_inertia)
        change = np.eye(4) + spread * rng.normal(size=(4, 4))
        moved = root @ change @ change.T @ root.T
        values[prior.layout.of(body.link)] = from_pseudo_inertia(moved)
    drives = {
        f'{joint}.{symbol}': rng.uniform(*limits)
        for joint in robot.joints
        for symbol, limits in (('Ia', (0.02, 0.1)), ('fv', (0.1, 1.0)), ('fc', (0.1, 1.0)))
    }
    return ParameterSet(prior.layout, values).updated(drives)


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

    def loss(self, values, free, base=False):
        """Residual of the rows in standard deviations, (b + 1,)."""
        factor = self.system.stacked(free.weights) / free.residual_std
        beta = values if base else self.structure.regrouping @ values
        return factor @ np.append(beta, -1.0)


@pytest.fixture(scope='module')
def szabo():
    # so much noise that the unconstrained parameters are not physical even as base parameters
    return Case('szabo_3r', noise=1.0, seed=3, samples=200)


@pytest.fixture(scope='module')
def arm():
    return Case('demo_arm', noise=0.1)


def barrier_method(case, settings):
    """
    Minimise by Newton's method with logarithmic barriers instead of cones.

    Fiacco and McCormick's way, in the parameters themselves and with nothing but NumPy; with m
    barriers of weight mu, the function is off by m mu at most.
    """
    layout, p = case.prior.layout, len(case.prior.layout)
    bodies = reference_bodies(case.robot, case.prior)
    scale = body_sizes(bodies, case.robot, layout)
    free = wls(case.system, prior=case.prior)
    factor = case.system.stacked(free.weights) / free.residual_std
    entropic = settings.divergence == 'entropic'
    # closeness counts in the null space of G alone
    G = case.structure.regrouping * scale
    away = np.sqrt(settings.weight) * (np.eye(p) - np.linalg.pinv(G) @ G)
    units = np.zeros((len(bodies), p, 4, 4))
    for k, body in enumerate(bodies):
        part = layout.of(body.link)
        units[k, part] = [pseudo_inertia(e) for e in np.eye(10)]
        units[k] *= scale[:, None, None]
    if entropic:
        away[:] = 0.0
    A = np.vstack([factor[:, :-1] @ case.structure.regrouping * scale, away])
    b = np.concatenate([factor[:, -1], away @ (case.prior.values / scale)])
    signs = [i for i, name in enumerate(layout) if name.rpartition('.')[2] in ('Ia', 'fv', 'fc')]
    references = np.array([body.pseudo_inertia for body in bodies])
    inverses = np.linalg.inv(references)

    def terms(z, mu):
        """Value, gradient and Hessian; infinite outside."""
        P = np.einsum('kpij,p->kij', units, z)
        inner = P - settings.margin * references
        if min(np.linalg.eigvalsh(inner).min(), z[signs].min()) <= 0.0:
            return np.inf, None, None
        value = 0.5 * np.sum((A @ z - b) ** 2) - mu * np.sum(np.log(z[signs]))
        gradient, hessian = A.T @ (A @ z - b), A.T @ A
        gradient[signs] -= mu / z[signs]
        hessian[signs, signs] += mu / z[signs] ** 2
        several = [(mu, inner)] + ([(settings.weight, P)] if entropic else [])
        for weight, matrices in several:
            value -= weight * np.sum(np.linalg.slogdet(matrices)[1])
            turned = np.linalg.inv(matrices)[:, None] @ units
            gradient -= weight * np.einsum('kpii->p', turned)
            hessian += weight * np.einsum('kpij,kqji->pq', turned, turned)
        if entropic:
            gradient += settings.weight * np.einsum('kij,kpji->p', inverses, units)
            value += settings.weight * np.einsum('kij,kji', inverses, P)
        return value, gradient, hessian

    z = case.prior.values / scale
    for body in bodies:
        part = layout.of(body.link)
        z[part] = from_pseudo_inertia(body.pseudo_inertia) / scale[part]
    z[signs] = 1.0
    mu = 1.0
    while mu > 1e-9:
        for _ in range(50):
            value, gradient, hessian = terms(z, mu)
            size = 1.0 / np.sqrt(np.diag(hessian))
            step = -size * np.linalg.solve(hessian * size * size[:, None], size * gradient)
            length = 1.0
            while terms(z + length * step, mu)[0] > value + 0.1 * length * (gradient @ step):
                length *= 0.5
                if length < 1e-10:
                    break
            z = z + length * step
            if -gradient @ step < 1e-3 * mu:
                break
        mu *= 0.3
    return z * scale


@pytest.mark.parametrize('divergence', ['euclidean', 'entropic'])
@pytest.mark.parametrize('weight', [1e-4, 1e-2])
def test_another_method_finds_the_same_within_a_thousandth_of_a_standard_deviation(
    szabo, divergence, weight
):
    settings = PhysicalSettings(divergence=divergence, weight=weight)
    estimate = szabo.physical(divergence=divergence, weight=weight)
    free = wls(szabo.system, prior=szabo.prior)
    values = barrier_method(szabo, settings)
    ours, theirs = szabo.loss(estimate.standard.values, free), szabo.loss(values, free)
    assert np.linalg.norm(ours - theirs) < 1e-3
    # as near to each other where the data tell nothing, in the links' own sizes
    scale = body_scale(szabo.robot, szabo.prior.layout)
    assert np.abs((estimate.standard.values - values) / scale).max() < 1e-2
    # and the constraints do hold something back here
    least = szabo.loss(free.base.values, free, True)
    assert ours @ ours > least @ least + 1.0


OPTIMA = [
    ('szabo', {}, 581.4637847963589),
    ('szabo', {'weight': 1e-2}, 582.156050851056),
    ('szabo', {'divergence': 'entropic'}, 581.4989078531938),
    ('szabo', {'divergence': 'entropic', 'weight': 1e-2}, 582.8684655874209),
    ('arm', {}, 4744.89867742802),
    ('arm', {'margin': 0.1}, 4745.008117927541),
    ('arm', {'divergence': 'entropic', 'margin': 0.1}, 4745.009277311137),
]
"""Losses at the optimum by the conic solver Clarabel 0.11.1, to 1e-11 or better."""


@pytest.mark.parametrize(('name', 'changes', 'optimum'), OPTIMA)
def test_loss_is_that_of_a_conic_solver(request, name, changes, optimum):
    case, settings = request.getfixturevalue(name), PhysicalSettings(**changes)
    free = wls(case.system, prior=case.prior)
    problem = physical_problem(
        case.system, free, case.robot, case.prior, settings, case.model, 'body'
    )
    found = minimise(problem.program, settings.tolerance * np.sqrt(settings.weight))
    assert problem.program.loss(found.z) == pytest.approx(optimum, rel=1e-8)
    assert found.error < settings.tolerance
    assert np.linalg.norm(problem.program.zero(found.z)) == 0.0


def test_where_everything_is_physical_anyway_it_is_the_nearest_of_the_best_fits():
    case = Case('demo_arm', noise=0.001, spread=0.05)
    free = wls(case.system)
    case.prior = perturbed(case.truth, case.robot, np.random.default_rng(8), 0.02).updated(
        {name: case.truth[name] for name in case.truth.layout if name.startswith('joint')}
    )
    bodies = reference_bodies(case.robot, case.prior)
    scale = body_sizes(bodies, case.robot, case.prior.layout)
    nearest = standard(free, case.structure, case.prior, scale=scale)
    assert check(nearest).physical
    estimate = case.physical()
    np.testing.assert_allclose(
        (estimate.base.values - free.base.values) / free.std, 0.0, atol=1e-2
    )
    np.testing.assert_allclose((estimate.standard.values - nearest.values) / scale, 0.0, atol=1e-3)


@pytest.mark.parametrize('divergence', ['euclidean', 'entropic'])
def test_everything_is_physical_with_the_margin(arm, divergence):
    free = standard(wls(arm.system), arm.structure, arm.prior)
    assert not check(free).physical
    for margin in (1e-6, 1e-3, 0.1):
        estimate = arm.physical(margin=margin, divergence=divergence)
        assert check(estimate.standard).physical
        for body in reference_bodies(arm.robot, arm.prior):
            relative = body.relative(estimate.standard.inertial(body.link))
            assert np.linalg.eigvalsh(relative)[0] > margin - 1e-6
        np.testing.assert_allclose(
            estimate.base.values, arm.structure.project(estimate.standard).values
        )
        assert estimate.method == 'physical'


def test_the_truth_lies_within_the_uncertainty_as_it_does_without_constraints(arm):
    """The constraints hold for the truth, so that they can only bring the fit nearer to it."""
    free = wls(arm.system, prior=arm.prior)
    factor = arm.system.stacked(free.weights)[:, :-1] / free.residual_std
    true = arm.structure.project(arm.truth).values
    away = [
        np.linalg.norm(factor @ (estimate.base.values - true))
        for estimate in (free, arm.physical(weight=1e-6))
    ]
    assert away[1] <= away[0] + 1e-3
    np.testing.assert_allclose(arm.physical().covariance, free.covariance)


def test_closeness_to_the_prior_costs_a_small_part_of_a_standard_deviation(szabo, arm):
    for case in (szabo, arm):
        free = wls(case.system, prior=case.prior)
        best = case.physical(weight=1e-8, tolerance=1e-5)
        chosen = case.physical()
        moved = case.loss(best.standard.values, free) - case.loss(chosen.standard.values, free)
        assert np.linalg.norm(moved) < 0.1


def test_the_entropic_choice_does_not_depend_on_frames():
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


def test_total_mass_is_kept(arm):
    mass = 1.1 * sum(arm.truth[f'{link}.m'] for link in arm.robot.links)
    estimate = arm.physical(total_mass=mass)
    found = sum(estimate.standard[f'{link}.m'] for link in arm.robot.links)
    assert found == pytest.approx(mass, rel=1e-6)
    assert check(estimate.standard).physical
    assert not any('constraints raise' in text for text in estimate.warnings)


def test_a_mass_that_the_recording_contradicts_is_warned_of(arm):
    mass = 0.1 * sum(arm.truth[f'{link}.m'] for link in arm.robot.links)
    estimate = arm.physical(total_mass=mass)
    text = next(text for text in estimate.warnings if 'constraints raise' in text)
    assert f'to {estimate.relative_error:.3g} %' in text and 'total_mass' in text


@pytest.mark.parametrize(
    ('settings', 'key'),
    [
        ({'total_mass': 1e-4}, 'total_mass'),
        ({'total_mass': 5.0, 'margin': 1.0}, 'total_mass'),
    ],
)
def test_settings_that_nothing_meets_are_named(arm, settings, key):
    with pytest.raises(SettingsError) as caught:
        arm.physical(**settings)
    assert caught.value.key == DRAWN + key
    assert '\n' not in str(caught.value)


def test_a_prior_without_bodies_cannot_measure_entropy(arm):
    nothing = ParameterSet(arm.prior.layout, np.zeros(len(arm.prior.layout)))
    with pytest.raises(SettingsError) as caught:
        physical(arm.system, arm.robot, nothing, PhysicalSettings(divergence='entropic'))
    assert caught.value.key == DRAWN + 'divergence'
    # but closeness to zero can be measured
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


def test_notes_say_what_the_constraints_did(szabo):
    notes = ' '.join(szabo.physical().notes)
    assert 'standard deviations' in notes and 'on the boundary' in notes
    assert 'rounding' not in notes


def test_a_fit_that_rounding_ends_before_the_optimum_is_noted():
    """Without noise, a margin of the whole prior is thousands of standard deviations away."""
    case = Case('demo_arm', noise=1e-6, seed=2)
    notes = ' '.join(case.physical(margin=1.0).notes)
    assert 'rounding ended the iterations' in notes
