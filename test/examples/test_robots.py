# SPDX-License-Identifier: Apache-2.0
"""The examples for robots of the market, each on a recording such as its driver would make."""

from __future__ import annotations

from dataclasses import dataclass, replace
import json
import os
from pathlib import Path
import subprocess
import sys

import numpy as np
import pytest
from robot_identification.cli import main
from robot_identification.config.experiment_file import experiment_from
from robot_identification.config.problem import IdentificationProblem
from robot_identification.excitation import plan, PlannerSettings
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.parameters import ParameterSet
from robot_identification.options.document import read_document
from robot_identification.regressor import build
from robot_identification.regressor.base_search import structure
from robot_identification.results.stored_result import read_result
from robot_identification.simulation import simulate, SimulationSettings, truth, Waypoints
from scipy.interpolate import CubicSpline
from scipy.signal import lfilter
import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / 'examples'

pytestmark = pytest.mark.filterwarnings(
    'ignore::robot_identification.errors.IdentificationWarning'
)


@dataclass(frozen=True)
class Driver:
    """
    Publisher of joint states as a driver's.

    Attributes
    ----------
    folder:
        Of the example.
    rate:
        Messages per second.
    order:
        Order in which it names the joints.
    gains:
        What its efforts are divided by [N m per unit of theirs].
    geared:
        Whether efforts hold the motors' inertia.
    friction:
        Coulomb friction, and viscous friction at 1 rad/s, relative to the effort limit.
    duration:
        Of the recordings [s].
    position_unit:
        What its positions are in [rad].
    speed:
        Of the recorded motions, at most [rad/s].

    """

    folder: str
    rate: float
    order: tuple[int, ...]
    gains: tuple[float, ...]
    geared: bool
    friction: float
    duration: float = 8.0
    position_unit: float = 1.0
    speed: float = 0.8


DRIVERS = (
    # joint_state_broadcaster names a UR's joints in this order, not that of the arm
    Driver('ur', 500.0, (1, 2, 3, 4, 5, 0), (12.0, 12.0, 12.0, 9.0, 9.0, 9.0), True, 0.03),
    Driver('franka', 1000.0, tuple(range(7)), (1.0,) * 7, False, 0.002),
    Driver('kuka_lbr', 100.0, tuple(range(7)), (1.0,) * 7, False, 0.002, 16.0),
    Driver('xarm', 100.0, tuple(range(7)), (1.0,) * 7, True, 0.005, 16.0, speed=1.5),
    Driver('kinova', 1000.0, tuple(range(7)), (-1.0,) * 7, False, 0.002),
    Driver('doosan', 250.0, tuple(range(6)), (1.0,) * 6, True, 0.01, 8.0, np.pi / 180.0),
    Driver('openarm', 100.0, tuple(range(7)), (1.0,) * 7, True, 0.002, 16.0),
    Driver('ros2_control', 250.0, (5, 3, 1, 0, 2, 4), (1.0,) * 6, True, 0.01),
)
NOISE = (0.05,)  # N m
NAMES = [driver.folder for driver in DRIVERS]
LIMITED = ('velocity', 'acceleration', 'lower', 'upper')


def experiment_of(folder, stand_in, tmp_path):
    """Return an example's experiment, with a robot that stands in for the driver's."""
    document = read_document(EXAMPLES / folder / 'experiment.yaml')
    urdf = stand_in(folder)
    if urdf is not None:
        (tmp_path / 'robot.urdf').write_text(urdf, encoding='utf-8')
        document.content['robot']['urdf'] = str(tmp_path / 'robot.urdf')
    return experiment_from(document, EXAMPLES / folder, check_data=False)


def sines(robot, duration, seed, speed):
    """Return a motion from rest to rest, around the middle of the ranges, as waypoints."""
    random = np.random.default_rng(seed)
    lower, upper = np.maximum(robot.limits.lower, -2.0), np.minimum(robot.limits.upper, 2.0)
    time = np.arange(0.0, duration + 1e-9, 0.01)
    ramp = np.sin(np.pi * np.clip(time, 0.0, duration) / duration)[:, None] ** 2
    wave = np.zeros((time.size, robot.n_joints))
    for frequency in (0.1, 0.2, 0.3, 0.5):
        phase = random.uniform(0.0, 2.0 * np.pi, robot.n_joints)
        size = random.uniform(0.4, 1.0, robot.n_joints) / frequency
        wave += size * np.sin(2.0 * np.pi * frequency * time[:, None] + phase)
    shape = ramp * wave
    shape /= np.abs(np.gradient(shape, time, axis=0)).max(axis=0)
    reach = np.minimum(speed, 0.45 * (upper - lower) / np.abs(shape).max(axis=0))
    # with accelerations that do not jump: ripple at 100 Hz would turn up in slow joint states
    path = CubicSpline(time, 0.5 * (lower + upper) + reach * shape, bc_type='clamped')
    return Waypoints(robot.joints, time, path(time), path(time, 1), path(time, 2))


def write_bag(path, topic, driver, recording):
    """Write joint states as the driver does: its order of joints, its rate, its efforts."""
    rosbag2 = pytest.importorskip('rosbags.rosbag2')
    typesys = pytest.importorskip('rosbags.typesys')
    types = typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
    kinds = types.types
    state = kinds['sensor_msgs/msg/JointState']
    order = list(driver.order)
    names = [recording.joints[i] for i in order]
    efforts = recording.effort / np.array(driver.gains)
    with rosbag2.Writer(path, version=9, storage_plugin=rosbag2.StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(topic, state.__msgtype__, typestore=types)
        for i, moment in enumerate(recording.time):
            now = 10**18 + round(moment * 1e9)
            stamp = kinds['builtin_interfaces/msg/Time'](*divmod(now, 10**9))
            message = state(
                header=kinds['std_msgs/msg/Header'](stamp=stamp, frame_id=''),
                name=names,
                position=recording.position[i, order],
                velocity=recording.velocity[i, order],
                effort=efforts[i, order],
            )
            writer.write(connection, now, types.serialize_cdr(message, state.__msgtype__))


def write_csv(path, entry, driver, recording):
    """Write a table of the entry's columns, in the driver's units."""
    columns = [recording.time, recording.position / driver.position_unit, recording.effort]
    names = [entry.time, *entry.position, *entry.effort]
    table = np.column_stack(columns)
    np.savetxt(path, table, delimiter=',', header=','.join(names), comments='', fmt='%.9g')


@pytest.fixture(
    scope='module',
    ids=NAMES,
    # one of each kind for every run: a bag with currents in another order, a table
    params=[
        pytest.param(d, marks=[] if d.folder == 'ur' else [pytest.mark.soak]) for d in DRIVERS
    ],
)
def identified(request, stand_in, tmp_path_factory):
    """Identify a simulated robot with the example's command; give all that is known of it."""
    driver = request.param
    folder = tmp_path_factory.mktemp(driver.folder)
    experiment = experiment_of(driver.folder, stand_in, folder)
    robot = experiment.build_robot()
    friction = tuple((driver.friction * robot.limits.effort).tolist())
    settings = SimulationSettings(
        rate=driver.rate, effort_noise_std=NOISE, viscous=friction, coulomb=friction, seed=3
    )
    if not driver.geared:
        settings = replace(settings, rotor_inertia=(0.0,) * robot.n_joints)
    replaced = []
    for seed, role in enumerate(('identification', 'validation')):
        # what is predicted may be shorter
        duration = driver.duration if role == 'identification' else 0.5 * driver.duration
        run = simulate(robot, sines(robot, duration, seed, driver.speed), settings)
        (entry,) = getattr(experiment.data, role)
        if entry.format == 'rosbag2':
            write_bag(folder / role, entry.topic, driver, run)
        else:
            write_csv(folder / role, entry, driver, run)
        replaced += ['--set', f'data.{role}[0].file={folder / role}']
    urdf = folder / 'robot.urdf'
    if urdf.exists():
        replaced += ['--set', f'robot.urdf={urdf}']
    path = EXAMPLES / driver.folder / 'experiment.yaml'
    command = ['identify', str(path), '--quiet', '--out', str(folder / 'results'), *replaced]
    assert main(command) == 0
    return driver, experiment, settings, folder / 'results'


def test_the_example_finds_a_simulated_robot(identified):
    driver, experiment, settings, folder = identified
    robot = experiment.build_robot()
    result = read_result(folder / 'result.yaml')
    base, values = structure(build(robot, experiment.robot.model), robot), truth(robot, settings)
    true = base.project(ParameterSet(base.layout, np.array([values[n] for n in base.layout])))
    assert result.base.layout.names == true.layout.names
    off = (result.base.values - true.values) / result.base_std
    known = result.base_std < 0.05 * np.abs(result.base.values)
    assert known.sum() >= 20
    assert np.abs(off[known]).max() < 4.0 and np.sqrt(np.mean(off[known] ** 2)) < 1.5
    (validation,) = result.document['validation']
    assert validation['relative_error'] < 2.0
    assert (folder / 'report.html').is_file() and (folder / 'identified.urdf').is_file()


MAKE = """
import json, sys, rclpy
from importlib import import_module
taken, package = {}, sys.argv[1]
for path in sys.argv[2:]:
    # as identification.launch.py does: the example's go before those of the package
    files = ['--params-file', package, '--params-file', path]
    rclpy.init(args=['--ros-args', '--log-level', 'fatal', *files])
    taken[path] = {}
    for name in ('excitation', 'recorder', 'regressor', 'identification'):
        module = import_module(f'robot_identification.nodes.{name}_node')
        node = getattr(module, f'{name.title()}Node')()
        values = node.get_parameters_by_prefix('').items()
        taken[path][name] = {key: parameter.value for key, parameter in values}
        node.destroy_node()
    rclpy.shutdown()
print(json.dumps(taken, default=list))
"""


@pytest.fixture(scope='module')
def taken():
    """Return the parameters of the nodes, by the file of each example that they were given."""
    pytest.importorskip('rclpy')
    environment = {**os.environ, 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'OFF'}
    files = [EXAMPLES.parent / 'config' / 'identification.yaml']
    files += [EXAMPLES / name / 'nodes.yaml' for name in NAMES]
    command = [sys.executable, '-c', MAKE, *map(str, files)]
    run = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def flat(tree, prefix=''):
    """Return a parameter file's section with dotted names."""
    values = {}
    for key, value in tree.items():
        name = f'{prefix}{key}'
        values.update(flat(value, f'{name}.') if isinstance(value, dict) else {name: value})
    return values


@pytest.mark.parametrize('folder', NAMES)
def test_the_nodes_take_the_parameters_of_the_example(folder, taken, stand_in, tmp_path):
    path = EXAMPLES / folder / 'nodes.yaml'
    told = taken[str(path)]
    for pattern, section in yaml.safe_load(path.read_text()).items():
        node = pattern.removeprefix('/**').removeprefix('/')
        for name, value in flat(section['ros__parameters']).items():
            for taken in [told[node]] if node else [told[n] for n in told if name in told[n]]:
                assert taken.get(name) == value, f'{node}: {name}'
    robot = experiment_of(folder, stand_in, tmp_path).build_robot()
    for node in ('excitation', 'regressor', 'identification'):
        assert told[node]['joints'] == list(robot.joints)
    assert_a_plan_fits(robot, {k: v for k, v in told['excitation'].items() if 'planner.' in k})


def assert_a_plan_fits(robot, parameters):
    """Check that the planner's settings, which the node took, leave a motion."""
    trees = {}
    for name, value in parameters.items():
        *parts, last = name.removeprefix('planner.').split('.')
        tree = trees
        for part in parts:
            tree = tree.setdefault(part, {})
        tree[last] = value
    names = ('velocity_scale', 'margin', *(f'{n}_limits' for n in LIMITED))
    settings = PlannerSettings(
        **{n: tuple(trees[n]) if isinstance(trees[n], list) else trees[n] for n in names},
        duration=10.0, harmonics=3, max_iterations=3, check_collisions=False,
    )  # fmt: skip
    made = plan(robot, settings)
    position = made.trajectory.sample(np.linspace(0.0, 10.0, 200)).position
    lower = trees['lower_limits'] or robot.limits.lower
    upper = trees['upper_limits'] or robot.limits.upper
    assert (position >= lower).all() and (position <= upper).all()


def driver_filter(efforts, cutoff, period):
    """Filter efforts (n, joints) as lbr_fri_ros2 does, by its exponential filter."""
    c = np.cos(2.0 * np.pi * period * cutoff)
    share = c - 1.0 + np.sqrt(c * c - 4.0 * c + 3.0)
    start = (1.0 - share) * efforts[:1]
    return lfilter([share], [1.0, share - 1.0], efforts, axis=0, zi=start)[0], share


@pytest.mark.soak
def test_the_filter_of_the_lbr_driver_shows_as_a_delay(stand_in, tmp_path):
    """The driver's default of 10 Hz spoils friction, half the rate does not."""
    driver = next(d for d in DRIVERS if d.folder == 'kuka_lbr')
    experiment = experiment_of('kuka_lbr', stand_in, tmp_path)
    robot = experiment.build_robot()
    friction = tuple((driver.friction * robot.limits.effort).tolist())
    settings = SimulationSettings(
        rate=driver.rate, effort_noise_std=NOISE, viscous=friction, coulomb=friction,
        rotor_inertia=(0.0,) * robot.n_joints, seed=3,
    )  # fmt: skip
    run = simulate(robot, sines(robot, 16.0, 0, 0.8), settings)
    told, friction_off = {}, {}
    for cutoff in (10.0, 50.0):
        efforts, share = driver_filter(run.effort, cutoff, 0.01)
        late = (1.0 - share) / share * 0.01  # of slow signals
        result = identify_sources(
            IdentificationProblem.from_experiment(experiment), [replace(run, effort=efforts)]
        )
        delay = result.recorded.effort_delay
        assert delay is not None
        sure = delay.std < 5e-4
        assert sure.sum() >= 2
        np.testing.assert_allclose(delay.delay[sure], late, atol=1e-3)
        told[cutoff] = late
        values = result.estimate.base
        found = np.array([values[f'{joint}.fv'] for joint in robot.joints])
        friction_off[cutoff] = np.abs(found / np.array(friction) - 1.0).max()
    assert told[10.0] > 0.010 and told[50.0] < 0.003
    assert friction_off[10.0] > 1.0 and friction_off[50.0] < 0.5
