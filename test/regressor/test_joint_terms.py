# SPDX-License-Identifier: Apache-2.0
"""
Friction: columns, slopes, dry friction along a motion, and settings that cannot be.

Springs, cables and counterweights at joints: columns, base parameters, priors, export.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import IdentificationWarning, SettingsError
from robot_identification.estimation.least_squares import wls
from robot_identification.estimation.link_constraints import PhysicalSettings
from robot_identification.estimation.physical import physical
from robot_identification.estimation.prior import body_scale, standard
from robot_identification.estimation.system import system_of
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.model.consistency import check
from robot_identification.model.friction import FRICTION, SLOPES
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ElasticJoints,
    ModelSettings,
    predict,
    prior,
)
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.joint_terms import DryFriction, slopes_of
from robot_identification.signals import SignalSettings
from robot_identification.support import compiled
import scipy

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'
STATIC = ('viscous', 'stiction', 'stribeck', 'offset')


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(FOLDER / 'szabo_3r.urdf')


def only_friction(regressor, values):
    vector = np.zeros(len(regressor.layout))
    for name, value in values.items():
        vector[regressor.layout.index(name)] = value
    return ParameterSet(regressor.layout, vector)


def test_columns_are_those_of_the_paper(arm):
    # equation (9), written out for each joint with slopes of its own
    settings = ModelSettings(
        friction=STATIC,
        rotor_inertia=False,
        stiction_slope=(100.0, 50.0, 200.0),
        stribeck_slope=(5.0, 4.0, 3.0),
    )
    regressor = build(arm, settings)
    ts, tsc, tv = (2.0, 1.0, 2.0), (-0.3, -0.2, -0.3), (0.5, 0.277, 0.03)
    values = {}
    for j, joint in enumerate(arm.joints):
        values |= {f'{joint}.ts': ts[j], f'{joint}.tsc': tsc[j], f'{joint}.fv': tv[j]}
        assert regressor.layout.units[regressor.layout.index(f'{joint}.tsc')] == 'N m'
    motion = Motion(*np.random.default_rng(0).uniform(-1.0, 1.0, (3, 50, 3)))
    effort = predict(regressor, motion, only_friction(regressor, values))
    for j, (kv, delta) in enumerate(((100.0, 5.0), (50.0, 4.0), (200.0, 3.0))):
        v = motion.velocity[:, j]
        expected = (
            ts[j] * 2.0 / np.pi * np.arctan(kv * v)
            + tsc[j] * 2.0 / np.pi * np.arctan(delta * v)
            + tv[j] * v
        )
        np.testing.assert_allclose(effort[:, j], expected, rtol=1e-13, atol=1e-14)


def test_stiction_takes_what_the_urdf_says_of_dry_friction(arm):
    values = prior(arm, ModelSettings(friction=STATIC))
    assert [values[f'{joint}.ts'] for joint in arm.joints] == [1.7, 0.8, 1.7]
    assert [values[f'{joint}.tsc'] for joint in arm.joints] == [0.0, 0.0, 0.0]


def test_the_urdf_gets_the_friction_that_stiction_falls_to(arm):
    layout = prior(arm, ModelSettings(friction=STATIC)).layout
    values = prior(arm, ModelSettings(friction=STATIC)).updated(
        {'joint_2.ts': 1.0, 'joint_2.tsc': -0.25}
    )
    model = ModelSettings(friction=STATIC, stiction_slope=(90.0, 80.5, 70.0))
    text = identified_urdf(arm, values, model)
    again = prior(Robot.from_urdf(text), ModelSettings())
    assert again['joint_2.fc'] == 0.75
    assert 'joint_2.tsc = -0.25' in text
    assert 'stiction_slope of joint_2 = 80.5' in text
    assert layout == values.layout


def test_friction_that_drives_at_speed_is_found_out(arm):
    values = prior(arm, ModelSettings(friction=STATIC))
    fine = values.updated({'joint_1.tsc': -1.6, 'joint_2.ts': 0.0})
    assert not check(fine).joints
    (problem,) = check(values.updated({'joint_1.tsc': -1.8})).joints
    assert problem.parameter == 'joint_1.tsc'
    assert problem.value == pytest.approx(-0.1)
    assert 'ts + tsc' in problem.message
    (problem,) = check(values.updated({'joint_3.ts': -0.1, 'joint_3.tsc': 0.3})).joints
    assert problem.parameter == 'joint_3.ts'


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({'friction': ['coulomb', 'stiction']}, 'leave coulomb out'),
        ({'friction': ['stiction'], 'stiction_slope': 0.0}, 'positive'),
        ({'friction': ['stiction'], 'stiction_slope': [100.0, -1.0]}, 'positive'),
        ({'friction': ['stiction'], 'stiction_slope': []}, 'positive'),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(SettingsError, match=words):
        from_mapping(ModelSettings, settings)


def test_slopes_have_to_fit_the_robot(arm):
    with pytest.raises(SettingsError, match='has 2 values, but the robot has 3') as caught:
        build(arm, ModelSettings(friction=STATIC, stiction_slope=(1.0, 2.0)))
    assert caught.value.key == 'stiction_slope'
    wrong = ModelSettings(
        friction=STATIC, stiction_slope=(9.0, 9.0, 9.0), stribeck_slope=(1.0, 9.0, 1.0)
    )
    with pytest.raises(SettingsError, match='more steeply') as caught:
        build(arm, wrong)
    assert (caught.value.joint, caught.value.key) == ('joint_2', 'stribeck_slope')


def test_a_slope_that_is_not_given_keeps_clear_of_the_one_that_is():
    joints = ('a', 'b')
    slopes = slopes_of(ModelSettings(friction=STATIC), joints)
    assert {term: values.tolist() for term, values in slopes.items()} == {
        term: [value] * 2 for term in SLOPES for value in [FRICTION[term].usual_slope]
    }
    steep = slopes_of(ModelSettings(friction=STATIC, stribeck_slope=(90.0, 110.0)), joints)
    assert (steep['stiction'] == 2200.0).all()
    slow = slopes_of(ModelSettings(friction=STATIC, stiction_slope=5.0), joints)
    assert (slow['stribeck'] == 0.25).all()


def test_a_coupled_motor_keeps_coulomb_friction(arm):
    drive = CoupledDrive(motor='joint_3', joints=('joint_2', 'joint_3'))
    settings = ModelSettings(friction=STATIC, coupled_drives=(drive,))
    assert 'joint_3.fcm' in build(arm, settings).layout


def _states(arm, samples=50):
    rng = np.random.default_rng(2)
    return Motion(*rng.uniform(-2.0, 2.0, (3, samples, arm.n_joints)))


def _columns(arm, settings, motion, symbol):
    regressor = build(arm, settings)
    rows = regressor.rows(motion).reshape(len(motion), arm.n_joints, -1)
    places = [regressor.layout.index(f'{joint}.{symbol}') for joint in arm.joints]
    own = np.arange(arm.n_joints)
    others = rows[:, :, places].copy()
    others[:, own, own] = 0.0
    assert not others.any()
    return rows[:, own, places]


def test_friction_by_load_is_in_proportion_to_the_effort_of_the_urdf(arm):
    """Pinocchio's RNEA, sample by sample."""
    motion = _states(arm)
    found = _columns(arm, ModelSettings(friction=('coulomb', 'load')), motion, 'fl')
    model, data = arm.model, arm.model.createData()
    states = zip(motion.position, motion.velocity, motion.acceleration, strict=True)
    efforts = np.array([pin.rnea(model, data, *state) for state in states])[:, arm.columns]
    np.testing.assert_allclose(found, np.sign(motion.velocity) * np.abs(efforts), atol=1e-11)


def test_friction_by_the_root_of_the_speed(arm):
    motion = _states(arm)
    found = _columns(arm, ModelSettings(friction=('viscous', 'root')), motion, 'fr')
    wanted = np.sign(motion.velocity) * np.abs(motion.velocity) ** (1.0 / 3.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_dry_friction_solves_dahls_equation():
    """An integration of dz/dt = v/x0 (1 - z sign v) by SciPy."""
    step, breakaway = 1e-3, 0.02
    time = np.arange(0.0, 3.0, step)
    speed = 0.3 * np.sin(2.0 * time + 0.4)
    found = DryFriction(np.array([breakaway]), step).push(speed[:, None])[:, 0]

    def slope(t, z):
        v = 0.3 * np.sin(2.0 * t + 0.4)
        return v / breakaway * (1.0 - z * np.sign(v))

    solved = scipy.integrate.solve_ivp(slope, (0.0, 3.0), [0.0], t_eval=time, max_step=step)
    assert np.abs(found - solved.y[0]).max() < 0.02
    assert np.abs(found).max() <= 1.0


def test_dry_friction_stays_at_rest_and_does_not_depend_on_blocks():
    speed = np.concatenate([np.full(300, 0.1), np.zeros(200), np.full(300, -0.1)])
    speeds = np.column_stack([speed, speed])
    breakaway = np.array([0.01, 0.0])
    whole = DryFriction(breakaway, 1e-3).push(speeds)
    assert np.ptp(whole[299:500, 0]) == 0.0
    assert whole[400, 0] == pytest.approx(1.0 - np.exp(-3.0))
    np.testing.assert_array_equal(whole[:, 1], np.sign(speed))
    pieces = DryFriction(breakaway, 1e-3)
    parts = [pieces.push(speeds[a:b]) for a, b in ((0, 1), (1, 299), (299, 299), (299, 800))]
    np.testing.assert_allclose(np.vstack(parts), whole, atol=1e-12)


def test_columns_of_dry_friction_follow_its_state(arm):
    motion = _states(arm)
    state = np.random.default_rng(3).uniform(-1.0, 1.0, motion.velocity.shape)
    settings = ModelSettings(friction=('coulomb', 'load'), breakaway=0.01)
    with_state = replace(motion, friction_state=state)
    np.testing.assert_array_equal(_columns(arm, settings, with_state, 'fc'), state)
    # states without a history take the sign of the velocity
    np.testing.assert_array_equal(_columns(arm, settings, motion, 'fc'), np.sign(motion.velocity))
    load = np.abs(_columns(arm, settings, motion, 'fl'))
    np.testing.assert_allclose(_columns(arm, settings, with_state, 'fl'), state * load)


def test_breakaway_displacements_have_to_fit_the_robot(arm):
    with pytest.raises(SettingsError, match='has 2 values, but the robot has 3') as caught:
        build(arm, ModelSettings(breakaway=(0.01, 0.02)))
    assert caught.value.key == 'breakaway'


SPRINGS = {'joint_1.kc': 6.0, 'joint_1.ks': -3.0, 'joint_2.kc': -9.0, 'joint_2.ks': 12.0}
MODEL = ModelSettings(joint_springs=('joint_1', 'joint_2'))


@pytest.fixture(scope='module')
def demo():
    return Robot.from_urdf(FOLDER / 'demo_arm.urdf')


def _motion(n, samples, rate=500.0, seed=0):
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / rate
    size, angle = rng.uniform(0.3, 0.8, (n, 4)), rng.uniform(0.0, 6.0, (n, 4))
    omega = 2.0 * np.pi * rng.uniform(0.1, 0.9, (n, 4))
    phase = omega * time[:, None, None] + angle
    return time, Motion(
        np.sum(size * np.sin(phase), axis=2),
        np.sum(size * omega * np.cos(phase), axis=2),
        -np.sum(size * omega**2 * np.sin(phase), axis=2),
    )


@pytest.mark.parametrize('compiler', [True, False])
def test_columns_are_cosine_and_sine_of_the_joint(demo, compiler, monkeypatch):
    if not compiler:
        monkeypatch.setattr(compiled, 'available', lambda: False)
        monkeypatch.setattr('robot_identification.regressor.inverse_dynamics.available', bool)
    regressor = build(demo, MODEL)
    _, motion = _motion(6, 200)
    values = np.zeros(len(regressor.layout))
    values[regressor.layout.indices(list(SPRINGS))] = list(SPRINGS.values())
    found = predict(regressor, motion, ParameterSet(regressor.layout, values))
    q = motion.position
    wanted = np.zeros_like(found)
    wanted[:, 0] = 6.0 * np.cos(q[:, 0]) - 3.0 * np.sin(q[:, 0])
    wanted[:, 1] = -9.0 * np.cos(q[:, 1]) + 12.0 * np.sin(q[:, 1])
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert regressor.layout.units[regressor.layout.index('joint_1.kc')] == 'N m'


def test_springs_and_gravity_are_in_sums_where_they_have_the_same_form(demo):
    """The first axis is upright: no gravity there.  At the second, gravity is such a spring."""
    base = structure(build(demo, MODEL), demo)
    without = structure(build(demo), demo)
    assert base.category('joint_1.kc') == base.category('joint_1.ks') == 'alone'
    assert base.category('joint_2.kc') == base.category('joint_2.ks') == 'combined'
    assert base.n_base == without.n_base + 2
    # the sums keep the names of the bodies
    assert not {'joint_2.kc', 'joint_2.ks'} & set(base.names)
    texts = [text for text in base.expressions if 'joint_2.k' in text]
    assert len(texts) == 2 and all(text.startswith('link_2.m') for text in texts)


def test_gravity_that_tilts_takes_the_sums_apart(demo):
    """On a tilted base, gravity at the second joint depends on the first one, too."""
    tilted = demo.with_gravity((2.0, 1.0, -9.0))
    base = structure(build(tilted, MODEL), tilted)
    assert base.category('joint_2.kc') == 'alone'


@pytest.fixture(scope='module')
def recorded(demo):
    regressor = build(demo, MODEL)
    known = prior(demo, MODEL)
    friction = {name: 1.0 for name in known.layout if name.rpartition('.')[2] in ('fv', 'Ia')}
    truth = known.updated({**friction, **SPRINGS})
    time, motion = _motion(6, 6000)
    rng = np.random.default_rng(3)
    effort = predict(regressor, motion, truth)
    recording = Recording(
        time=time,
        position=motion.position,
        effort=effort + 0.2 * rng.normal(size=effort.shape),
        joints=demo.joints,
    )
    return truth, recording


def _system(demo, recording, model, **keys):
    regressor = build(demo, model)
    base = structure(regressor, demo)
    return system_of(recording, regressor, base, SignalSettings(cutoff=10.0), **keys)


def test_springs_are_recovered_and_without_them_the_fit_is_worse(demo, recorded):
    truth, recording = recorded
    system = _system(demo, recording, MODEL)
    found = wls(system)
    wanted = system.structure.project(truth).values
    assert np.abs((found.base.values - wanted) / found.std)[found.was_free].max() < 5.0
    plain = wls(_system(demo, recording, replace(MODEL, joint_springs=('joint_2',))))
    first = [estimate.fit.joints[0].relative_error for estimate in (found, plain)]
    # at the second joint, gravity takes a spring up without a trace
    assert first[1] > 3.0 * first[0]
    none = wls(_system(demo, recording, replace(MODEL, joint_springs=())))
    assert none.fit.joints[1].relative_error == pytest.approx(
        plain.fit.joints[1].relative_error, rel=0.05
    )


@pytest.mark.parametrize('weight', [None, 30.0])
def test_the_prior_of_the_bodies_takes_springs_and_gravity_apart(demo, recorded, weight):
    truth, recording = recorded
    system = _system(demo, recording, MODEL, timed=True)
    estimate = physical(system, demo, prior(demo, MODEL), PhysicalSettings(weight), model=MODEL)
    for name, value in SPRINGS.items():
        std = estimate.standard_std[truth.layout.index(name)]
        assert abs(estimate.standard[name] - value) < max(5.0 * std, 0.1), name
        assert estimate.standard[name] == pytest.approx(value, abs=0.2)
    # joint_1's by the recordings; joint_2's is as uncertain as the first moments of the prior
    std = estimate.standard_std[truth.layout.indices(list(SPRINGS))]
    assert std[:2].max() < 0.2 and (weight is None or std[3] > 1.0)


def test_without_a_prior_of_the_bodies_springs_have_one_of_their_own(demo, recorded):
    """Around zero, with the joint's RMS effort as standard deviation."""
    truth, recording = recorded
    system = _system(demo, recording, MODEL, timed=True)
    settings = PhysicalSettings(weight=1e-3, mass_std=None)
    estimate = physical(system, demo, prior(demo, MODEL), settings, model=MODEL)
    usual = np.sqrt((recording.effort[:, 1] ** 2).mean())
    std = estimate.standard_std[truth.layout.index('joint_2.ks')]
    assert 0.8 * usual < std < 1.05 * usual
    assert abs(estimate.standard['joint_2.ks']) < 0.2 * SPRINGS['joint_2.ks']


def test_nearest_parameters_share_by_the_size_of_the_links(demo):
    base = structure(build(demo, MODEL), demo)
    known = prior(demo, MODEL)
    truth = known.updated({'joint_2.kc': 5.0})
    scale = body_scale(demo, known.layout)
    found = standard(base.project(truth), base, known, scale=scale)
    # efforts stay the same, and some of the spring goes to the body
    np.testing.assert_allclose(base.project(found).values, base.project(truth).values, atol=1e-9)
    assert 1.0 < found['joint_2.kc'] < 4.0


def test_the_urdf_names_springs_in_a_comment_and_a_warning(demo):
    values = prior(demo, MODEL).updated({'joint_2.ks': 12.0})
    with pytest.warns(IdentificationWarning, match='springs of joint_2 are in a comment'):
        text = identified_urdf(demo, values, MODEL)
    assert 'joint_2.ks = 12.0 N m' in text


@pytest.mark.parametrize(
    ('springs', 'words'),
    [(['joint_1', 'joint_1'], 'twice'), (['elbow'], "'elbow' of joint_springs is not identified")],
)
def test_springs_that_cannot_be_are_refused(demo, springs, words):
    with pytest.raises(SettingsError, match=words):
        build(demo, from_mapping(ModelSettings, {'joint_springs': springs}))


def test_springs_are_of_joints_that_turn():
    robot = Robot.from_urdf(
        """<robot name="slide"><link name="base"/><link name="a"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="j" type="prismatic"><parent link="base"/><child link="a"/>
        <limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""
    )
    with pytest.raises(SettingsError, match='slides') as caught:
        build(robot, ModelSettings(joint_springs=('j',)))
    assert (caught.value.joint, caught.value.key) == ('j', 'robot.joint_springs')


def test_elastic_joints_do_not_take_springs():
    with pytest.raises(SettingsError, match='elastic joints and joint_springs'):
        ModelSettings(elastic=ElasticJoints(), joint_springs=('joint_1',))
