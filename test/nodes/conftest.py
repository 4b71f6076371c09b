# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the identification node: bags of an arm whose parameters are known."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings, prior

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
RATE, DURATION = 250.0, 12.0
SHORT = 6.0


@dataclass(frozen=True)
class Arm:
    """
    An arm that has not the parameters of its URDF.

    Attributes
    ----------
    urdf, robot:
        As drawn.
    truth:
        Standard parameters, with friction and rotor inertia.
    bags:
        Recordings by name; ``short`` is half as long, ``foreign`` has other joints' names.

    """

    urdf: Path
    robot: Robot
    truth: ParameterSet
    bags: dict[str, Path]

    @property
    def parameters(self) -> dict:
        """Parameters for a node that identifies it."""
        return {
            'robot_description': str(self.urdf),
            'signals.cutoff': 20.0,
            'signals.decimate_to': 50.0,
            'signals.dead_zone': 0.05,
            'signals.trim': 0.3,
        }

    def write(self, path, seed, *, load=None, gains=1.0):
        """Write a bag, with ten more inertial parameters at the last link, efforts over gains."""
        return write_bag(path, self.robot, self.carrying(load), seed, gains=gains)

    def carrying(self, load):
        """Return the parameters with ten more inertial ones at the last link; None for none."""
        if load is None:
            return self.truth
        values = self.truth.values.copy()
        values[self.truth.layout.slice_of(self.robot.links[-1])] += load
        return ParameterSet(self.truth.layout, values)

    def states(self, seed, duration=DURATION, load=None):
        """Return times, positions, velocities and noisy efforts of a motion; load as `write`."""
        time, motion = sines(self.robot, seed, duration)
        tau = efforts(self.robot, self.carrying(load), motion)
        tau += 0.02 * np.random.default_rng(seed + 99).standard_normal(tau.shape)
        return time, motion.position, motion.velocity, tau

    def sines(self, seed):
        """Return the times and the states of a motion."""
        return sines(self.robot, seed)


def make_truth(robot):
    """Return standard parameters that are not the URDF's, with friction and rotor inertia."""
    before = prior(robot, ModelSettings())
    values = before.values.copy()
    symbols = np.array([name.rpartition('.')[2] for name in before.layout])
    for link in robot.links:
        values[before.layout.slice_of(link)] *= 1.2  # a body of 1.2 times the density is physical
    for symbol, value in {'Ia': 0.05, 'fv': 1.5, 'fc': 0.8, 'off': 0.1}.items():
        values[symbols == symbol] = value
    return ParameterSet(before.layout, values)


def efforts(robot, truth, motion):
    """Inverse dynamics by Pinocchio, plus joint terms written out."""
    import pinocchio as pin

    model = robot.with_parameters(truth)
    data = model.createData()
    q = robot.configuration(motion.position)
    v, a = robot.tangent(motion.velocity), robot.tangent(motion.acceleration)
    tau = np.array([pin.rnea(model, data, *row) for row in zip(q, v, a, strict=True)])
    tau = np.ascontiguousarray(tau[:, robot.columns])
    for j, joint in enumerate(robot.joints):
        tau[:, j] += truth[f'{joint}.Ia'] * motion.acceleration[:, j]
        tau[:, j] += truth[f'{joint}.fv'] * motion.velocity[:, j]
        tau[:, j] += truth[f'{joint}.fc'] * np.sign(motion.velocity[:, j]) + truth[f'{joint}.off']
    return tau


def sines(robot, seed, duration=DURATION):
    random = np.random.default_rng(seed)
    time = np.arange(int(RATE * duration)) / RATE
    position, velocity, acceleration = np.zeros((3, time.size, robot.n_joints))
    for j in range(robot.n_joints):
        for k in range(1, 5):
            w = 2.0 * np.pi * 0.25 * k
            amplitude, phase = random.uniform(0.1, 0.35), random.uniform(0.0, 2.0 * np.pi)
            position[:, j] += amplitude * np.sin(w * time + phase)
            velocity[:, j] += amplitude * w * np.cos(w * time + phase)
            acceleration[:, j] -= amplitude * w**2 * np.sin(w * time + phase)
    return time, Motion(position, velocity, acceleration)


def write_states(path, joints, time, position, velocity, effort, topic='/joint_states'):
    """Write joint states into a bag and return its path."""
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import get_typestore, Stores

    types = get_typestore(Stores.ROS2_JAZZY)
    kind = types.types['sensor_msgs/msg/JointState']
    stamp_type = types.types['builtin_interfaces/msg/Time']
    header_type = types.types['std_msgs/msg/Header']
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection(topic, kind.__msgtype__, typestore=types)
        for i, t in enumerate(time):
            nanoseconds = 1_000_000_000 + round(t * 1e9)
            stamp = stamp_type(*divmod(nanoseconds, 1_000_000_000))
            message = kind(
                header=header_type(stamp=stamp, frame_id=''),
                name=list(joints),
                position=np.ascontiguousarray(position[i]),
                velocity=np.ascontiguousarray(velocity[i]),
                effort=np.ascontiguousarray(effort[i]),
            )
            writer.write(connection, nanoseconds, types.serialize_cdr(message, kind.__msgtype__))
    return path


def write_bag(path, robot, truth, seed, *, joints=None, duration=DURATION, gains=1.0):
    """Write a motion of the robot, with noise on the efforts, which are divided by ``gains``."""
    time, motion = sines(robot, seed, duration)
    tau = efforts(robot, truth, motion)
    tau += 0.02 * np.random.default_rng(seed + 99).standard_normal(tau.shape)
    names = joints or robot.joints
    return write_states(path, names, time, motion.position, motion.velocity, tau / gains)


@pytest.fixture(scope='session')
def arm(tmp_path_factory):
    """Give the arm with its recordings."""
    pytest.importorskip('rosbags')
    folder = tmp_path_factory.mktemp('bags')
    robot = Robot.from_urdf(URDF)
    truth = make_truth(robot)
    bags = {
        'first': write_bag(folder / 'first', robot, truth, seed=1),
        'second': write_bag(folder / 'second', robot, truth, seed=2),
        'short': write_bag(folder / 'short', robot, truth, seed=3, duration=SHORT),
        'foreign': write_bag(folder / 'foreign', robot, truth, seed=1, joints=['a', 'b', 'c']),
    }
    return Arm(URDF, robot, truth, bags)


@pytest.fixture(scope='session', name='write_states')
def _write_states():
    """Give the function that writes joint states into a bag."""
    return write_states


@pytest.fixture
def bags(arm):
    """Give the arm's recordings by name."""
    return arm.bags


@pytest.fixture(scope='module')
def output(tmp_path_factory):
    """Give the folder into which `running` writes its results."""
    return tmp_path_factory.mktemp('results')


@pytest.fixture(scope='module')
def running(module_ros, output, arm):
    """Start one node for all tests that leave it as they found it, but for its estimate."""
    module_ros.start('identification', parameters={**arm.parameters, 'output': str(output)})
    return module_ros


@pytest.fixture
def node(running):
    """Give the running node without an estimate."""
    from std_srvs.srv import Trigger

    assert running.call(Trigger, 'identification/reset').success
    return running


@pytest.fixture(scope='session')
def identify():
    """Give a function that calls the service of the same name."""

    def call(ros, source='', options=(), namespace='', **method):
        from diagnostic_msgs.msg import KeyValue
        from robot_identification_msgs.srv import Identify

        pairs = [KeyValue(key=key, value=value) for key, value in options]
        return ros.call(
            Identify,
            f'{namespace}/identification/identify',
            timeout=60.0,
            source=str(source),
            **method,
            options=pairs,
        )

    return call


@pytest.fixture
def driven_cell(ros_domain, capfd):
    """Give a function that makes a `DrivenCell`: the excitation node on a clock of the test's."""
    pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')
    from driven_cell import DrivenCell

    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(DrivenCell(capfd, ros_domain, **options))


@pytest.fixture(scope='session')
def move():
    """Give the function that makes the message of a motion."""
    return quintic


def quintic(goal, start=None, speed=1.0):
    """Return the message of a motion from rest to rest, from zero unless said otherwise."""
    from robot_identification.excitation.trajectories import point_to_point, to_points
    from robot_identification.nodes.common.messages import message_of

    joints = tuple(f'joint_{i + 1}' for i in range(len(goal)))
    start = np.zeros(len(goal)) if start is None else start
    limits = np.full(len(goal), 1.5 * speed), np.full(len(goal), 4.0 * speed)
    return message_of(to_points(point_to_point(joints, start, np.asarray(goal), *limits), 50.0))
