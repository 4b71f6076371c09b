# SPDX-License-Identifier: Apache-2.0
"""Springs, cables and counterweights at joints: columns, base parameters, priors, export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification import compiled
from robot_identification.base_parameters import structure
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import IdentificationWarning, SettingsError
from robot_identification.estimation import (
    body_scale,
    physical,
    PhysicalSettings,
    standard,
    system_of,
    wls,
)
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import build, ElasticJoints, ModelSettings, predict, prior
from robot_identification.results.urdf_export import identified_urdf
from robot_identification.signals import SignalSettings

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'
SPRINGS = {'joint_1.kc': 6.0, 'joint_1.ks': -3.0, 'joint_2.kc': -9.0, 'joint_2.ks': 12.0}
MODEL = ModelSettings(joint_springs=('joint_1', 'joint_2'))


@pytest.fixture(scope='module')
def arm():
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
def test_columns_are_cosine_and_sine_of_the_joint(arm, compiler, monkeypatch):
    if not compiler:
        monkeypatch.setattr(compiled, 'available', lambda: False)
        monkeypatch.setattr('robot_identification.regressor.inverse_dynamics.available', bool)
    regressor = build(arm, MODEL)
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


def test_springs_and_gravity_are_in_sums_where_they_have_the_same_form(arm):
    """The first axis is upright: no gravity there.  At the second, gravity is such a spring."""
    base = structure(build(arm, MODEL), arm)
    without = structure(build(arm), arm)
    assert base.category('joint_1.kc') == base.category('joint_1.ks') == 'alone'
    assert base.category('joint_2.kc') == base.category('joint_2.ks') == 'combined'
    assert base.n_base == without.n_base + 2
    # the sums keep the names of the bodies
    assert not {'joint_2.kc', 'joint_2.ks'} & set(base.names)
    texts = [text for text in base.expressions if 'joint_2.k' in text]
    assert len(texts) == 2 and all(text.startswith('link_2.m') for text in texts)


def test_gravity_that_tilts_takes_the_sums_apart(arm):
    """On a tilted base, gravity at the second joint depends on the first one, too."""
    tilted = arm.with_gravity((2.0, 1.0, -9.0))
    base = structure(build(tilted, MODEL), tilted)
    assert base.category('joint_2.kc') == 'alone'


@pytest.fixture(scope='module')
def recorded(arm):
    regressor = build(arm, MODEL)
    known = prior(arm, MODEL)
    friction = {name: 1.0 for name in known.layout if name.rpartition('.')[2] in ('fv', 'Ia')}
    truth = known.updated({**friction, **SPRINGS})
    time, motion = _motion(6, 6000)
    rng = np.random.default_rng(3)
    effort = predict(regressor, motion, truth)
    recording = Recording(
        time=time,
        position=motion.position,
        effort=effort + 0.2 * rng.normal(size=effort.shape),
        joints=arm.joints,
    )
    return truth, recording


def _system(arm, recording, model, **keys):
    regressor = build(arm, model)
    base = structure(regressor, arm)
    return system_of(recording, regressor, base, SignalSettings(cutoff=10.0), **keys)


def test_springs_are_recovered_and_without_them_the_fit_is_worse(arm, recorded):
    truth, recording = recorded
    system = _system(arm, recording, MODEL)
    found = wls(system)
    wanted = system.structure.project(truth).values
    assert np.abs((found.base.values - wanted) / found.std)[found.estimated].max() < 5.0
    plain = wls(_system(arm, recording, replace(MODEL, joint_springs=('joint_2',))))
    first = [estimate.joints[0].relative_error for estimate in (found, plain)]
    # at the second joint, gravity takes a spring up without a trace
    assert first[1] > 3.0 * first[0]
    none = wls(_system(arm, recording, replace(MODEL, joint_springs=())))
    assert none.joints[1].relative_error == pytest.approx(plain.joints[1].relative_error, rel=0.05)


@pytest.mark.parametrize('weight', [None, 30.0])
def test_the_prior_of_the_bodies_takes_springs_and_gravity_apart(arm, recorded, weight):
    truth, recording = recorded
    system = _system(arm, recording, MODEL, timed=True)
    estimate = physical(system, arm, prior(arm, MODEL), PhysicalSettings(weight), model=MODEL)
    for name, value in SPRINGS.items():
        std = estimate.standard_std[truth.layout.index(name)]
        assert abs(estimate.standard[name] - value) < max(5.0 * std, 0.1), name
        assert estimate.standard[name] == pytest.approx(value, abs=0.2)
    # joint_1's by the recordings; joint_2's is as uncertain as the first moments of the prior
    std = estimate.standard_std[truth.layout.indices(list(SPRINGS))]
    assert std[:2].max() < 0.2 and (weight is None or std[3] > 1.0)


def test_without_a_prior_of_the_bodies_springs_have_one_of_their_own(arm, recorded):
    """Around zero, with the joint's RMS effort as standard deviation."""
    truth, recording = recorded
    system = _system(arm, recording, MODEL, timed=True)
    estimate = physical(system, arm, prior(arm, MODEL), PhysicalSettings(1e-3), model=MODEL)
    usual = np.sqrt((recording.effort[:, 1] ** 2).mean())
    std = estimate.standard_std[truth.layout.index('joint_2.ks')]
    assert 0.8 * usual < std < 1.05 * usual
    assert abs(estimate.standard['joint_2.ks']) < 0.2 * SPRINGS['joint_2.ks']


def test_nearest_parameters_share_by_the_size_of_the_links(arm):
    base = structure(build(arm, MODEL), arm)
    known = prior(arm, MODEL)
    truth = known.updated({'joint_2.kc': 5.0})
    scale = body_scale(arm, known.layout)
    found = standard(base.project(truth), base, known, scale=scale)
    # efforts stay the same, and some of the spring goes to the body
    np.testing.assert_allclose(base.project(found).values, base.project(truth).values, atol=1e-9)
    assert 1.0 < found['joint_2.kc'] < 4.0


def test_the_urdf_names_springs_in_a_comment_and_a_warning(arm):
    values = prior(arm, MODEL).updated({'joint_2.ks': 12.0})
    with pytest.warns(IdentificationWarning, match='springs of joint_2 are in a comment'):
        text = identified_urdf(arm, values, MODEL)
    assert 'joint_2.ks = 12.0 N m' in text


@pytest.mark.parametrize(
    ('springs', 'words'),
    [(['joint_1', 'joint_1'], 'twice'), (['elbow'], "'elbow' of joint_springs is not identified")],
)
def test_springs_that_cannot_be_are_refused(arm, springs, words):
    with pytest.raises(SettingsError, match=words):
        build(arm, from_mapping(ModelSettings, {'joint_springs': springs}))


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
