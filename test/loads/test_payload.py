# SPDX-License-Identifier: Apache-2.0
"""A load on a simulated arm: found within its uncertainty, in the frame that it is wanted in."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import (
    IdentifiabilityError,
    IdentificationWarning,
    ModelError,
)
from robot_identification.estimation.row_block import RowBlock
from robot_identification.estimation.system import from_rows
from robot_identification.estimation.time_blocks import BlockCollector
from robot_identification.loads.payload import payload, PayloadSettings
from robot_identification.model.mechanisms import ElasticJoints
from robot_identification.model.robot import Robot
from robot_identification.pages.summary import summary
from robot_identification.regressor import build
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.settings import ModelSettings
from robot_identification.verdicts.verdict import verdict
from scipy.signal import lfilter

URDF = Path(__file__).parents[2] / 'urdf'
LOAD = pin.Inertia(2.0, np.array([0.02, -0.01, 0.08]), np.diag([0.008, 0.009, 0.005]))
DYNAMIC = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')
TOOL = """
  <link name="flange"/>
  <joint name="to_flange" type="fixed">
    <parent link="link_6"/><child link="flange"/>
    <origin xyz="0.01 0.02 0.1" rpy="0.3 -0.4 0.5"/>
  </joint>
</robot>"""


class Arm:
    """A robot whose efforts come from Pinocchio, with and without a load on one of its links."""

    def __init__(self, text, joints=None):
        self.robot = Robot.from_urdf(text, joints)
        self.regressor = build(self.robot)
        self.structure = structure(self.regressor, self.robot)

    def run(
        self, seed, load=None, *, noise=0.05, memory=0.0, moving=None, friction=1.0, samples=1500
    ):
        """
        Rows of a motion; ``load`` is a link's name and the body at its joint frame.

        With a ``memory`` of errors from sample to sample, they come by parts of time.
        """
        rng = np.random.default_rng(seed)
        n, time = self.robot.n_joints, np.linspace(0.0, 12.0, samples)[:, None]
        q, v, a = np.zeros((3, samples, n))
        for k in range(1, 6):
            w, phase = 2.0 * np.pi * k / 12.0, rng.uniform(0.0, 6.0, n)
            size = rng.uniform(0.1, 0.4, n) * (1.0 if moving is None else np.array(moving))
            q += size * np.sin(w * time + phase)
            v += size * w * np.cos(w * time + phase)
            a -= size * w * w * np.sin(w * time + phase)
        model = self.robot.model.copy()
        if load is not None:
            link, body = load
            model.inertias[self.robot.joint_ids[self.robot.links.index(link)]] += body
        data = model.createData()
        rows = zip(q, v, a, strict=True)
        effort = np.array([pin.rnea(model, data, *row) for row in rows])
        errors = lfilter(
            [np.sqrt(1.0 - memory**2)], [1.0, -memory], rng.normal(size=q.shape), axis=0
        )
        effort += friction * (0.6 * v + 0.8 * np.sign(v)) + noise * errors
        matrix = self.regressor.rows(Motion(q, v, a)).reshape(samples, n, -1)
        columns = self.structure.independent
        matrix = matrix[:, :, columns]
        system = from_rows(self.structure, self.robot.joints, matrix, effort)
        return replace(system, blocks=parts(time[:, 0], matrix, effort)) if memory else system


def parts(time, matrix, effort):
    """Return rows by parts of time."""
    collector = BlockCollector()
    keep = np.ones(effort.shape, dtype=bool)
    signals = {'position': effort, 'velocity': effort, 'effort': effort, 'raw_effort': effort}
    collector.push(RowBlock.from_matrix(matrix, time=time, keep=keep, **signals))
    return collector.blocks()


@pytest.fixture(scope='module')
def arm():
    return Arm((URDF / 'demo_arm.urdf').read_text().replace('</robot>', TOOL))


@pytest.fixture(scope='module')
def without(arm):
    return arm.run(1)


def on_flange(arm, body=LOAD):
    link, placement = arm.robot.attachment('flange')
    return link, placement.act(body)


def test_two_kilograms_are_found_within_three_standard_deviations_and_two_per_cent(arm, without):
    found = payload(without, arm.run(2, on_flange(arm)), arm.robot, frame='flange')
    assert found.determined.all() and (found.link, found.frame) == ('link_6', 'flange')
    assert abs(found.mass - 2.0) < 3.0 * found.mass_std < 0.04
    centre = found.body.center_of_mass - LOAD.lever
    assert (np.abs(centre) < 4.0 * found.center_of_mass_std).all()
    assert (found.center_of_mass_std < 2e-3).all()
    assert found.fit.relative_error < 0.1 * found.fit_without.relative_error
    assert 0.9 < found.residual_std < 1.1


def test_errors_are_as_large_as_the_covariance_says(arm):
    """Weighed with it, their squares have the mean and spread of a chi-squared variable's."""
    truth = LOAD.toDynamicParameters()
    distances = []
    for seed in range(20):
        light = arm.run(100 + seed, samples=300)
        heavy = arm.run(200 + seed, on_flange(arm), samples=300)
        found = payload(light, heavy, arm.robot, frame='flange')
        error = found.base.values - truth[found.base.layout.indices(found.base.layout.names)]
        distances.append(error @ np.linalg.solve(found.covariance, error))
    # mean 10 and variance 20 each: four standard deviations of the mean of twenty
    assert abs(np.mean(distances) - 10.0) < 4.0 * np.sqrt(20.0 / 20.0)


def test_a_short_run_without_the_load_costs_certainty(arm):
    """The robot's own uncertainty enters: it is not taken for known."""
    heavy = arm.run(2, on_flange(arm))
    short, long = (payload(arm.run(1, samples=m), heavy, arm.robot) for m in (200, 3000))
    assert (short.std > 1.3 * long.std).all()


def test_the_frame_only_changes_how_the_load_is_written(arm, without):
    heavy = arm.run(2, on_flange(arm))
    link, placement = arm.robot.attachment('flange')
    there = payload(without, heavy, arm.robot, frame='flange')
    here = payload(without, heavy, arm.robot)
    assert here.frame == link
    moved = placement.act(pin.Inertia.FromDynamicParameters(there.standard)).toDynamicParameters()
    np.testing.assert_allclose(here.standard, moved, rtol=1e-6, atol=1e-9)


def test_combinations_are_named_where_no_motion_tells_more():
    """In a plane, of mass, first moments and the one inertia that turns, all but two are told."""
    flat = Arm((URDF / 'zollo_planar_2r.urdf').read_text())
    link = flat.robot.links[-1]
    found = payload(flat.run(1), flat.run(2, (link, LOAD)), flat.robot)
    truth = dict(zip([f'load.{s}' for s in SYMBOLS], LOAD.toDynamicParameters(), strict=True))
    assert len(found.base.layout) < 10 and not found.determined.all()
    assert found.consistency is None and found.physical
    for parameter in found:
        expected = sum(factor * truth[name] for factor, name in terms(parameter.expression))
        assert abs(parameter.value - expected) < 4.0 * parameter.std, parameter.expression
    assert any(
        'not determined by these recordings alone' in r.text for r in verdict(found).reasons
    )


SYMBOLS = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')


def terms(expression):
    words = expression.replace('- ', '+ -').replace('-load', '-1 load').split(' + ')
    for word in words:
        factor, _, name = word.strip().rpartition(' ')
        yield float(factor or 1.0), name


def test_a_robot_that_holds_the_load_still_tells_what_it_weighs_on_the_joints(arm, without):
    """Only combinations, and these are named: each has the value that its terms add up to."""
    still = arm.run(2, on_flange(arm), moving=[0.0] * 6)
    found = payload(without, still, arm.robot, frame='flange')
    assert not found.determined.any() and np.isnan(found.mass)
    assert found.consistency is None and found.physical
    names = [f'load.{symbol}' for symbol in SYMBOLS]
    truth = dict(zip(names, LOAD.toDynamicParameters(), strict=True))
    told = [parameter for parameter in found if parameter.state == 'IDENTIFIED']
    assert told
    for parameter in told:
        expected = sum(factor * truth[name] for factor, name in terms(parameter.expression))
        # the coefficients are rounded to three digits
        assert abs(parameter.value - expected) < 4.0 * parameter.std + 5e-3 * abs(expected)
    assert all(found.reasons[4:])


def test_the_body_is_physical_where_the_best_fit_is_not(arm):
    found = payload(
        arm.run(1, noise=1.0), arm.run(2, on_flange(arm), noise=1.0), arm.robot, frame='flange'
    )
    assert not found.consistency.physical and found.physical
    assert any('physically inconsistent' in reason.text for reason in verdict(found).reasons)
    assert found.standard[0] == pytest.approx(found.mass, rel=1e-12)
    # between the fit that is best and the truth: within what the noise allows
    error = found.standard - found.base.values
    assert error @ np.linalg.solve(found.covariance, error) < 30.0


def test_the_body_is_the_nearest_of_the_same_mass(arm):
    """Errors that stay alike do not move the mass, as they once did by eight deviations."""
    light = arm.run(31, noise=0.3, memory=0.9)
    heavy = arm.run(32, on_flange(arm), noise=0.3, memory=0.9)
    found = payload(light, heavy, arm.robot, frame='flange')
    assert not found.consistency.physical and found.physical
    assert found.body.mass == pytest.approx(found.mass, rel=1e-12)
    free = np.array([found.base[f'load.{symbol}'] for symbol in SYMBOLS])
    precision = np.linalg.inv(found.covariance)
    places = found.base.layout.indices(f'load.{symbol}' for symbol in SYMBOLS)
    precision = precision[np.ix_(places, places)]

    def distance(vector):
        return (vector - free) @ precision @ (vector - free)

    # the true body with the mass that was found is consistent, too, and no nearer
    other = LOAD.toDynamicParameters() * found.mass / 2.0
    assert distance(found.standard) < distance(other)


def test_friction_of_another_day(arm, without):
    heavy = arm.run(2, on_flange(arm), friction=1.3)
    shared = payload(without, heavy, arm.robot, frame='flange')
    own = payload(
        without, heavy, arm.robot, frame='flange', settings=PayloadSettings(own_friction=True)
    )
    assert own.residual_std < 1.1 < shared.residual_std
    assert abs(own.mass - 2.0) < 3.0 * own.mass_std


def test_no_load_is_found_where_there_is_none(arm, without):
    found = payload(without, arm.run(2), arm.robot)
    assert (np.abs(found.base.values) < 4.0 * found.std).all()


def test_what_cannot_be_is_told(arm, without):
    heavy = arm.run(2, on_flange(arm))
    with pytest.raises(ModelError, match="no link 'hand'"):
        payload(without, heavy, arm.robot, frame='hand')
    with pytest.warns(IdentificationWarning, match='held at 0'):
        first = Arm((URDF / 'demo_arm.urdf').read_text(), arm.robot.joints[:1])
    # nothing but friction along a vertical axis that stands still
    with pytest.raises(IdentifiabilityError, match='do not determine the load'):
        payload(first.run(1), first.run(2, moving=[0.0]), first.robot)


def test_summary_and_plain_data(arm, without):
    found = payload(without, arm.run(2, on_flange(arm)), arm.robot, frame='flange')
    assert "in the frame of 'flange'" in summary(found) and 'load.Iyz' in summary(found)
    plain = found.to_dict()
    assert plain['body']['mass'] == pytest.approx(2.0, rel=0.02)
    assert len(plain['parameters']) == len(plain['standard_parameters']) == 10
    assert plain['physical'] is True and plain['consistency']['link'] == 'load'


class ElasticArm:
    """An arm whose springs bend as much as its links need; periodic, so that derivatives are."""

    def __init__(self, robot):
        self.robot = robot
        self.regressor = build(robot, ModelSettings(elastic=ElasticJoints()))
        self.structure = structure(self.regressor, robot)
        self.names = self.regressor.layout.names
        sizes = {'k': 5000.0, 'Ia': 0.3, 'fv': 0.6, 'fc': 0.8}
        self.values = np.array([sizes.get(n.rpartition('.')[2], 0.0) for n in self.names])
        for link, joint in zip(robot.links, robot.joint_ids, strict=True):
            self.add(self.values, link, robot.model.inertias[joint])

    def add(self, values, link, body):
        """Add a body at the frame of a link's joint to ``values``."""
        own = dict(zip(DYNAMIC, body.toDynamicParameters(), strict=True))
        for symbol, value in own.items():
            values[self.names.index(f'{link}.{symbol}')] += value

    def run(self, seed, body=None):
        """Rows of a motion, with noise of 0.05 N m on the motors' torques."""
        rng = np.random.default_rng(seed)
        samples, n, period = 600, self.robot.n_joints, 12.0
        turns = 2j * np.pi * np.fft.rfftfreq(samples, period / samples)[:, None]
        phases = np.arange(samples)[:, None] / samples
        q = np.zeros((samples, n))
        for k in range(1, 6):
            wave = np.sin(2.0 * np.pi * (k * phases + rng.uniform(size=n)))
            q += rng.uniform(0.1, 0.4, n) * wave
        values = self.values.copy()
        if body is not None:
            self.add(values, self.robot.links[-1], body)
        motors = q.copy()
        stiffness = values[[i for i, name in enumerate(self.names) if name.endswith('.k')]]
        for _ in range(30):
            position = np.hstack([q, motors])
            spectrum = np.fft.rfft(position, axis=0)
            derivatives = (np.fft.irfft(turns**k * spectrum, samples, axis=0) for k in (1, 2))
            matrix = self.regressor.rows(Motion(position, *derivatives))
            effort = (matrix @ values).reshape(samples, 2 * n)
            motors = motors + effort[:, :n] / stiffness
        assert np.abs(effort[:, :n]).max() < 1e-8  # the links are in equilibrium
        effort[:, :n] = 0.0
        effort[:, n:] += 0.05 * rng.normal(size=(samples, n))
        matrix = matrix.reshape(samples, 2 * n, -1)[:, :, self.structure.independent]
        joints = (*self.robot.joints, *(f'{joint}_motor' for joint in self.robot.joints))
        driven = self.regressor.driven
        return from_rows(self.structure, joints, matrix, effort, driven=driven)


def test_a_load_on_elastic_joints_is_found_within_its_uncertainty(arm):
    elastic = ElasticArm(arm.robot)
    pairs = [(elastic.run(2 * k), elastic.run(2 * k + 1, LOAD)) for k in range(6)]
    found = [payload(*pair, arm.robot) for pair in pairs]
    assert all(load.determined.all() for load in found)
    errors = np.array([load.mass - 2.0 for load in found])
    assert np.abs(errors).max() < 0.02
    z = errors / [load.mass_std for load in found]
    # the root mean square of six draws lies in between in 999 of 1000 cases
    assert 0.2 < np.sqrt(np.mean(z**2)) < 1.95


def test_deviations_are_honest_where_errors_stay_alike(arm):
    """Errors of the effort last for tenths of a second: classical deviations are too small."""
    truth = LOAD.toDynamicParameters()
    ratios = {'honest': [], 'classical': []}
    for seed in range(12):
        light, heavy = (
            arm.run(300 + seed + add, load, noise=0.3, memory=0.9, samples=1200)
            for add, load in ((0, None), (100, on_flange(arm)))
        )
        found = payload(light, heavy, arm.robot, frame='flange')
        error = found.base.values - truth[found.base.layout.indices(found.base.layout.names)]
        ratios['honest'].append(error / found.std)
        ratios['classical'].append(error / found.classical_std)
    spread = {name: np.sqrt(np.mean(np.square(each))) for name, each in ratios.items()}
    assert 0.7 < spread['honest'] < 1.5 < 2.5 < spread['classical']
