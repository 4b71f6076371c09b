# SPDX-License-Identifier: Apache-2.0
"""Rates, gears, coupled motors, limits, and efforts that are no measurement, are named as such."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.diagnosis.diagnose import diagnose
from robot_identification.diagnosis.saturation import saturation
from robot_identification.signals import process, SignalSettings

from benchmarks.faulty_arms import Arm, arm, faulty

FOUR_JOINTS, FIVE_JOINTS = 61, 62


def first(made: Arm, **changed):
    """Return the first finding on a recording that was changed."""
    return diagnose(made.robot, [replace(made.recording, **changed)])[0]


@pytest.mark.parametrize('factor', [0.5, 2.0])
def test_stamps_of_another_rate(factor):
    # a factor on all times: weights stay, inertias change by its square
    made = arm(FOUR_JOINTS)
    finding = first(made, time=factor * made.recording.time)
    assert finding.code == 'time_scale'
    assert not finding.joints
    assert float(finding.change.split()[2]) == pytest.approx(factor, rel=0.2)


@pytest.mark.parametrize('factor', [0.5])
def test_the_gear_ratio_of_one_position(factor):
    made = arm(FIVE_JOINTS)
    position = made.recording.position.copy()
    position[:, 1] *= factor
    finding = first(made, position=position)
    assert (finding.code, finding.joints) == ('position_scale', (made.robot.joints[1],))
    assert float(finding.change.split()[-1]) == pytest.approx(1.0 / factor, rel=0.1)


@pytest.fixture(scope='module')
def tx40():
    """Return the problem and the recording of the TX-40, whose wrist is coupled."""
    path = Path(__file__).parents[2] / 'examples' / 'tx40' / 'experiment.yaml'
    experiment = load_experiment(path)
    problem = IdentificationProblem.from_experiment(experiment)
    (source,) = experiment.sources('identification', problem.robot.joints)
    (recording,) = source.blocks(100_000)
    return problem, recording


def test_a_gain_in_a_coupled_wrist_is_no_gear_ratio(tx40):
    """One motor bears part of another joint's effort, and friction makes nearly all of both."""
    problem, recording = tx40
    effort = recording.effort * np.array([1.0, 1.0, 1.0, 1.0, 0.4, 1.0])
    (found,) = diagnose(problem.robot, [replace(recording, effort=effort)], problem.model)
    # what is known is how large one is by the other
    names = {(each.code, each.joints) for each in (found, *found.alternatives)}
    assert names == {('effort_scale', ('joint_5',)), ('effort_scale', ('joint_6',))}
    # the gains of the robot itself are not known better than that
    assert found.factor == pytest.approx(2.5 if found.joints == ('joint_5',) else 0.4, rel=0.2)


def test_nothing_is_guessed_beside_efforts_of_a_joint_that_stands_still(tx40):
    """Positions without motion spoil all fits: another direction of gravity fits a bit better."""
    problem, recording = tx40
    recording = recording.without(((0.0, 0.06), (5.2, 9.0)))
    position = recording.position.copy()
    position[:, 1] = position[0, 1] + 1e-3 * (position[:, 1] - position[0, 1])
    still = replace(recording, position=position, velocity=None)
    found = diagnose(problem.robot, [still], problem.model)
    assert [(each.code, each.joints) for each in found] == [('still_joint', ('joint_2',))]


def test_motors_that_are_coupled():
    # the motor of the second joint turns the third, too: power is the same on both sides
    made = arm(FIVE_JOINTS)
    position, effort = made.recording.position.copy(), made.recording.effort.copy()
    position[:, 2] += position[:, 1]
    effort[:, 1] -= effort[:, 2]
    finding = first(made, position=position, effort=effort)
    assert (finding.code, finding.joints) == ('coupled_drives', made.robot.joints[1:3])
    assert finding.improvement_of_all > 1.5
    assert '1.0' in finding.remedy or ' 1 ' in finding.remedy


def test_a_driver_that_compensates_gravity_by_a_wrong_model():
    # what is left of gravity is neither none nor that of lighter links, or of another rate
    made = arm(FIVE_JOINTS)
    model, data = made.robot.model, made.robot.model.createData()
    weight = [pin.computeGeneralizedGravity(model, data, q) for q in made.recording.position]
    finding = first(made, effort=made.recording.effort - np.array(weight))
    assert (finding.code, finding.joints) == ('gravity_compensated', ())
    assert not finding.minor


def modelled(made: Arm) -> Recording:
    """Return a recording whose efforts are the URDF's inverse dynamics."""
    settings = SignalSettings(cutoff=10.0, decimate_to=None)
    samples = process(made.recording, settings)
    data = made.robot.model.createData()
    states = zip(samples.position, samples.velocity, samples.acceleration, strict=True)
    effort = np.array([pin.rnea(made.robot.model, data, *each) for each in states])
    return Recording(samples.time, samples.position, effort, made.robot.joints)


def test_efforts_of_the_urdf_itself_are_no_measurement():
    made = arm(FOUR_JOINTS)
    (finding,) = diagnose(made.robot, [modelled(made)])
    assert finding.code == 'modelled_efforts'
    # a tenth of friction is enough to be a joint's
    plain = modelled(made)
    speed = np.gradient(plain.position, plain.time, axis=0)
    effort = plain.effort + 0.1 * plain.effort.std(axis=0) * np.tanh(speed / 0.01)
    assert 'modelled_efforts' not in {
        each.code for each in diagnose(made.robot, [replace(plain, effort=effort)])
    }


@pytest.mark.parametrize(('size', 'code'), [(0.02, 'external_torque'), (1.0, 'unrelated_efforts')])
def test_efforts_that_the_motion_does_not_make(size, code):
    made, other = arm(FOUR_JOINTS), np.random.default_rng(3)
    time = made.recording.time
    waves = np.sin(2.0 * np.pi * np.outer(time, other.uniform(0.31, 0.77, 4)) + other.random(4))
    effort = size * made.recording.effort.std(axis=0) * waves
    codes = [f.code for f in diagnose(made.robot, [replace(made.recording, effort=effort)])]
    assert codes == [code]


@pytest.mark.parametrize('levels', [7, 15, 40, 243])
def test_efforts_in_steps_are_not_limited(levels):
    made = arm(FIVE_JOINTS)
    step = 2.0 * np.abs(made.recording.effort).max(axis=0) / levels
    stepped = replace(made.recording, effort=step * np.round(made.recording.effort / step))
    assert not any(saturation([stepped], j) for j in range(made.robot.n_joints))


@pytest.mark.parametrize('share', [0.6, 0.8])
def test_a_limit_is_found_with_its_joint_level_and_time(share):
    made = arm(FIVE_JOINTS)
    effort = made.recording.effort.copy()
    limit = share * np.abs(effort[:, 2]).max()
    over = np.abs(effort[:, 2]) > limit
    effort[:, 2] = np.clip(effort[:, 2], -limit, limit)
    limited = replace(made.recording, effort=effort)
    found = saturation([limited], 2)
    assert abs(found.level) == pytest.approx(limit, rel=1e-3)
    _, begin, end = found.longest
    inside = (limited.time >= begin) & (limited.time <= end)
    assert over[inside].all()
    assert all(saturation([limited], j) is None for j in range(made.robot.n_joints) if j != 2)


def test_a_drive_that_hangs_at_its_limit_with_noise():
    # on both sides the same level; the joint hardly moves there
    random = np.random.default_rng(1)
    time = np.arange(0.0, 20.0, 0.01)
    wanted = 30.0 * np.sin(0.9 * time) + 12.0 * np.sin(2.3 * time)
    effort = np.clip(wanted, -10.0, 10.0)
    effort += 0.1 * random.standard_normal(len(time)) * (np.abs(wanted) > 10.0)
    position = 0.3 * np.cumsum(np.abs(wanted) < 10.0) * 0.01
    recording = Recording(time, position[:, None], effort[:, None], ('a',))
    assert abs(saturation([recording], 0).level) == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize('seed', [120006, pytest.param(120019, marks=pytest.mark.soak)])
def test_a_limit_under_noise_is_found_by_what_the_other_joints_ask_for(seed):
    fault = faulty('saturation with noise', seed)
    found = diagnose(fault.robot, [fault.recording])
    assert [each.joints for each in found if each.code == 'saturation'] == [fault.joints]


def test_external_torques_that_are_friction_in_part_are_named():
    made = arm(FOUR_JOINTS)
    random, velocity = np.random.default_rng(1), np.gradient(made.recording.position, axis=0)
    wander = np.cumsum(random.standard_normal(velocity.shape), axis=0)
    wander -= wander.mean(axis=0)
    part = wander / wander.std(axis=0) + 1.3 * np.tanh(velocity / velocity.std(axis=0))
    finding = first(made, effort=0.02 * made.recording.effort.std(axis=0) * part)
    assert finding.code == 'external_torque'
