# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulated robot's deviation from its URDF."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ModelError, SettingsError
from robot_identification.model.consistency import check
from robot_identification.model.robot import Robot
from robot_identification.regressor import prior
from robot_identification.simulation import perturb, SimulationSettings, truth

FOLDER = Path(__file__).resolve().parents[2] / 'urdf'


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(FOLDER / 'demo_arm.urdf')


def test_without_perturbation_it_is_the_urdf_with_rotors(arm):
    settings = SimulationSettings(perturbation=0.0, friction_perturbation=0.0)
    actual, nominal = truth(arm, settings), prior(arm)
    assert actual.layout == nominal.layout
    for name in nominal.layout:
        expected = nominal[name]
        if name.endswith('.Ia'):
            joint = name.removesuffix('.Ia')
            expected = arm.limits.effort[arm.joint_index(joint)] / 500.0
        assert actual[name] == pytest.approx(expected, rel=1e-12, abs=1e-14), name


def test_the_seed_alone_decides(arm):
    one, again, other = (truth(arm, SimulationSettings(seed=seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.values, again.values)
    moved = one.values != other.values
    assert moved.sum() == 60 + 3 * 6  # all but the rotor inertias


def test_giving_one_list_changes_nothing_else(arm):
    plain = truth(arm)
    given_ = truth(arm, SimulationSettings(viscous=(2.0,), rotor_inertia=tuple(range(1, 7))))
    for name, value in plain.as_dict().items():
        if name.endswith('.fv'):
            assert given_[name] == 2.0
        elif name.endswith('.Ia'):
            assert given_[name] == float(name[len('joint_')])
        else:
            assert given_[name] == value


@pytest.mark.parametrize('key', ['rotor_inertia', 'viscous', 'coulomb', 'offset'])
def test_a_list_of_the_wrong_length_is_named(arm, key):
    with pytest.raises(SettingsError, match=f"'{key}' has 2 values") as caught:
        truth(arm, SimulationSettings(**{key: (1.0, 2.0)}))
    assert caught.value.key == key


@hypothesis_settings(max_examples=50)
@given(st.integers(0, 2**31), st.floats(0.0, 0.5))
def test_physical_bodies_stay_physical(seed, relative):
    arm = Robot.from_urdf(FOLDER / 'demo_arm.urdf')
    settings = SimulationSettings(seed=seed, perturbation=relative)
    assert check(truth(arm, settings)).physical


def test_a_perturbed_body_is_a_deformed_cloud_of_masses():
    random = np.random.default_rng(0)
    points, masses = random.normal(size=(30, 3)) + 0.5, random.uniform(0.1, 1.0, 30)

    def inertial(points, masses):
        total = pin.Inertia.Zero()
        for point, mass in zip(points, masses, strict=True):
            total += pin.Inertia(mass, point, np.zeros((3, 3)))
        return total.toDynamicParameters()

    body = inertial(points, masses)
    draws = 0.1 * np.random.default_rng(7).standard_normal(13)
    centre = masses @ points / masses.sum()
    gyration = np.sqrt(masses @ ((points - centre) ** 2).sum(axis=1) / masses.sum())
    deformed = points @ (np.eye(3) + draws[:9].reshape(3, 3)).T + gyration * draws[9:12]
    expected = inertial(deformed, np.exp(draws[12]) * masses)
    actual = perturb(body, 0.1, np.random.default_rng(7))
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_the_perturbation_is_as_large_as_asked(arm):
    masses = np.array(
        [truth(arm, SimulationSettings(seed=seed))['link_2.m'] for seed in range(300)]
    )
    spread = np.log(masses / prior(arm)['link_2.m']).std()
    assert spread == pytest.approx(0.1, rel=0.15)


def test_a_body_that_cannot_be_is_named():
    urdf = (FOLDER / 'szabo_3r.urdf').read_text().replace('izz="0.0297', 'izz="-0.5297')
    assert 'izz="-0.5297' in urdf
    robot = Robot.from_urdf(urdf)
    with pytest.raises(ModelError, match="link 'link_2' cannot be simulated") as caught:
        truth(robot, SimulationSettings(perturbation=0.0))
    assert caught.value.link == 'link_2'
    massless = urdf.replace('-0.52', '0.02').replace('<mass value="1.4137', '<mass value="-1.4137')
    with pytest.raises(ModelError, match='a mass of -1.41'):
        truth(Robot.from_urdf(massless))
