# SPDX-License-Identifier: Apache-2.0
"""A robot with elastic joints, simulated in MuJoCo: the whole way from its files to its URDF."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from command_line import run_command
import numpy as np
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.errors import SettingsError
from robot_identification.estimation.estimators import ESTIMATORS
from robot_identification.estimation.factor_file import pack, unpack
from robot_identification.identification.pipeline import identify, identify_factors
from robot_identification.identification.reduction import FactorBuilder
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ElasticJoints
from robot_identification.regressor import prior as urdf_prior
from robot_identification.regressor.base_search import structure
from robot_identification.results.stored_result import read_result
from robot_identification.simulation import simulate, SimulationSettings, truth, Waypoints
from robot_identification.simulation.truth import true_model
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import get_typestore, Stores
from scipy.interpolate import CubicSpline
import yaml

ROOT = Path(__file__).resolve().parents[2]
URDF = ROOT / 'urdf' / 'szabo_3r.urdf'
GEARS = (80.0, 60.0, -50.0)
JOINTS = ('joint_1', 'joint_2', 'joint_3')
MOTORS = ('joint_1_motor', 'joint_2_motor', 'joint_3_motor')
SETTINGS = SimulationSettings(
    elastic=ElasticJoints(gear_ratios=GEARS),
    stiffness=(2500.0, 2500.0, 1500.0),
    rotor_inertia=(0.3, 0.2, 0.1),
    viscous=(1.5, 1.0, 0.5),
    coulomb=(2.0, 1.5, 1.0),
    offset=(0.2, -0.1, 0.1),
    rate=500.0,
    effort_noise_std=(0.05,),
)
EXPERIMENT = """\
robot:
  urdf: {urdf}
  joints: [joint_1, joint_2, joint_3]
  effort_kind: motor_torque
  drives: {{effort: {{matrix: [[80, 0, 0], [0, 60, 0], [0, 0, -50]]}}}}
  elastic: {{gear_ratios: [80, 60, -50], motor_position: motor}}
data:
  identification:
    - file: first.csv
      time: t
      position: [q1, q2, q3]
      effort: [u1, u2, u3]
      motor: {{position: [m1, m2, m3]}}
  validation:
    - {{file: second, motor: {{topic: /motor_states}}}}
signals: {{cutoff: 30.0, decimate_to: 50.0, dead_zone: 0.05, trim: 0.2}}
estimation: {{method: wls}}
output: results
"""


@dataclass(frozen=True)
class Elastic:
    """Files of a robot with elastic joints, and what is true of it."""

    folder: Path
    robot: Robot
    base: dict[str, float]

    @property
    def experiment(self) -> Path:
        return self.folder / 'experiment.yaml'

    def run(self, *arguments, expect=0) -> str:
        done = run_command(self.folder, *arguments, expect=expect)
        return done.stderr if expect else done.stdout


def excite(robot: Robot, seed: int) -> Recording:
    time = np.linspace(0.0, 8.0, 801)
    rng = np.random.default_rng(seed)
    position = np.zeros((time.size, robot.n_joints))
    for k in (1, 2, 3, 5):
        a, b = rng.uniform(-0.25, 0.25, (2, robot.n_joints))
        angle = 2.0 * np.pi * k * time[:, None] / 8.0
        position += a * np.sin(angle) + b * np.cos(angle)
    ramp = np.clip(time, 0.0, 1.0) * np.clip(8.0 - time, 0.0, 1.0)
    position *= (ramp**3 * (10.0 - 15.0 * ramp + 6.0 * ramp**2))[:, None]
    spline = CubicSpline(time, position, bc_type='clamped')
    points = Waypoints(robot.joints, time, position, spline(time, 1), spline(time, 2))
    return simulate(robot, points, SETTINGS)


def write_csv(path: Path, recording: Recording) -> None:
    """Write both sides; the motors' positions and efforts are their own, as the file says."""
    names = [f'{letter}{i}' for letter in 'qmu' for i in (1, 2, 3)]
    table = np.column_stack(
        [
            recording.time,
            recording.position[:, :3],
            recording.position[:, 3:] * GEARS,
            recording.effort[:, 3:] / GEARS,
        ]
    )
    np.savetxt(path, table, '%.12g', ',', header=','.join(['t', *names]), comments='')


def write_bag(path: Path, recording: Recording) -> None:
    """Write two topics; the motors' states come 0.7 ms after those of the joints."""
    store = get_typestore(Stores.ROS2_JAZZY)
    kind = 'sensor_msgs/msg/JointState'
    n, late = 3, 700_000
    shifted = [
        CubicSpline(recording.time, values)(recording.time + 1e-9 * late)
        for values in (recording.position, recording.velocity, recording.effort)
    ]
    theta, spin, effort = (values[:, n:] for values in shifted)
    sides = (
        ('/joint_states', JOINTS, 0, recording.position[:, :n], recording.velocity[:, :n]),
        ('/motor_states', MOTORS, late, theta * GEARS, spin * GEARS),
    )
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for topic, names, delay, position, velocity in sides:
            connection = writer.add_connection(topic, kind, typestore=store)
            for i, t in enumerate(recording.time):
                stamp = 10**9 + round(1e9 * t) + delay
                seconds, rest = divmod(stamp, 10**9)
                time_of = store.types['builtin_interfaces/msg/Time'](sec=seconds, nanosec=rest)
                message = store.types[kind](
                    header=store.types['std_msgs/msg/Header'](stamp=time_of, frame_id=''),
                    name=list(names),
                    position=np.ascontiguousarray(position[i]),
                    velocity=np.ascontiguousarray(velocity[i]),
                    effort=np.ascontiguousarray(effort[i] / GEARS),
                )
                writer.write(connection, stamp, store.serialize_cdr(message, kind))


@pytest.fixture(scope='module')
def elastic(tmp_path_factory) -> Elastic:
    folder = tmp_path_factory.mktemp('elastic')
    robot = Robot.from_urdf(URDF, JOINTS)
    write_csv(folder / 'first.csv', excite(robot, 1))
    write_bag(folder / 'second', excite(robot, 2))
    (folder / 'experiment.yaml').write_text(EXPERIMENT.format(urdf=URDF))
    model = true_model(robot, SETTINGS)
    base = structure(build(robot, model), robot).project(truth(robot, SETTINGS)).as_dict()
    return Elastic(folder, robot, base)


@pytest.fixture(scope='module')
def identified(elastic) -> str:
    """Run the command `identify` and return what it prints."""
    return elastic.run('identify', 'experiment.yaml', '--verbose')


def check(estimate, base, bound=5.0):
    """Every base parameter is within its uncertainty, and they are known to some per cent."""
    assert list(estimate.base.layout) == list(base)
    errors = [(p.value - base[p.name]) / p.std for p in estimate]
    assert np.abs(errors).max() < bound
    for name, relative in (('.k', 0.005), ('motor.Ia', 0.01), ('.fv', 0.03), ('.fc', 0.03)):
        for p in estimate:
            if p.name.endswith(name):
                assert p.value == pytest.approx(base[p.name], rel=relative), p.name


def test_from_a_table_to_result_report_and_urdf(elastic, identified):
    assert 'joint_1.k' in identified and 'equilibrium' in identified
    stored = read_result(elastic.folder / 'results' / 'result.yaml')
    assert stored.settings.model.elastic.gear_ratios == GEARS
    for name, value, std in zip(
        stored.base.layout, stored.base.values, stored.base_std, strict=True
    ):
        assert abs(value - elastic.base[name]) < 5.0 * std, name
    fit = stored.document['identification']
    assert list(fit['joints']) == [*JOINTS, *MOTORS]
    for joint, figures in fit['joints'].items():
        # links have no effort that an error could be relative to, and no dead zone
        assert (figures['relative_error'] is None) == (joint in JOINTS)
        assert figures['rmse'] < 0.1
        assert (figures['rows'] == fit['joints']['joint_1']['rows']) == (joint in JOINTS)
    assert fit['relative_error'] < 1.0
    (seen,) = stored.document['validation']
    assert seen['relative_error'] < 1.0
    assert 'equilibrium' in stored.notes[0]
    report = (elastic.folder / 'results' / 'report.html').read_text()
    assert 'joint_1.k' in report and '>nan' not in report

    exported = Robot.from_urdf(elastic.run('export', 'results/result.yaml'))
    found = urdf_prior(exported)
    for joint in JOINTS:
        assert found[f'{joint}.fv'] == pytest.approx(elastic.base[f'{joint}_motor.fv'], rel=0.03)
    assert f'joint_1.k = {stored.standard["joint_1.k"]!r} N m/rad' in exported.urdf
    assert 'joint_3_motor.Ia = ' in exported.urdf


def test_a_stored_result_is_validated_on_another_bag(elastic, identified):
    result = 'results/result.yaml'
    text = elastic.run('validate', result, 'second', '--motor-topic', '/motor_states', '--quiet')
    (seen,) = yaml.safe_load((elastic.folder / result).read_text())['validation']
    assert f'{seen["relative_error"]:.2f}' in text
    text = elastic.run('validate', result, 'second', expect=2)
    assert "has no joint 'joint_1_motor'" in text


def test_from_two_topics_of_a_bag(elastic):
    overrides = {
        'data.identification': [{'file': 'second', 'motor': {'topic': '/motor_states'}}],
        'data.validation': [],
    }
    result = identify(load_experiment(elastic.experiment, overrides))
    check(result.estimate, elastic.base)
    # the first stamps of the joints come before the motors'
    assert result.estimate.fit.relative_error < 1.0


def test_a_factor_tells_the_same(elastic):
    experiment = load_experiment(elastic.experiment, {'data.validation': []})
    stored = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment)).reduce(
        experiment.sources()[0]
    )
    found = identify_factors([unpack(pack(stored))], experiment.estimation)
    expected = identify(experiment)
    assert found.system.factor.joints == expected.system.factor.joints
    assert np.array_equal(found.system.factor.driven, expected.system.factor.driven)
    apart = np.abs(found.estimate.base.values - expected.estimate.base.values)
    assert (apart <= 1e-8 * expected.estimate.std).all()


@pytest.mark.parametrize('method', ESTIMATORS)
def test_every_method_knows_rows_without_effort(elastic, method):
    overrides = {'estimation.method': method, 'data.validation': []}
    result = identify(load_experiment(elastic.experiment, overrides))
    assert result.estimate.method == method
    assert result.estimate.fit.relative_error < 1.0
    for p in result.estimate:
        if p.name.endswith('.k'):
            assert p.value == pytest.approx(elastic.base[p.name], rel=0.01)


@pytest.mark.parametrize(
    ('setting', 'words'),
    [
        ('robot.elastic=null', ["data.identification[0].motor'", 'robot.elastic']),
        ('robot.elastic.gear_ratios=[80]', ["'robot.elastic.gear_ratios'", '3 joints']),
        ('robot.elastic.motors=[a, a, b]', ["'robot.elastic.motors'", 'twice']),
        ('robot.elastic.stators=[a, b, c]', ['robot.elastic.stators', "'a'"]),
        (
            'robot.elastic.gear_ratio=3',
            ["'robot.elastic.gear_ratio'", "did you mean 'robot.elastic.gear_r"],
        ),
        ('signals.dead_zone=[0.1, 0.1]', ["'signals.dead_zone'", '3 joints']),
        ('data.identification[0].motor.position=[m1]', ['motor.position', 'has 1 columns']),
    ],
)
def test_wrong_settings_are_named(elastic, setting, words):
    key, _, value = setting.partition('=')
    with pytest.raises(SettingsError) as caught:
        load_experiment(elastic.experiment, {key: value})
    for word in words:
        assert word in str(caught.value)
