# SPDX-License-Identifier: Apache-2.0
"""Sound files that are mutated, made by code: a robot of two joints and everything about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
import io
import json
import os
from pathlib import Path
import tempfile
import warnings

import numpy as np
from robot_identification import identify, load_experiment, Robot, write_factor
from robot_identification.excitation.bases import FourierTrajectory, rest_to_rest
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.plan_file import plan_text
from robot_identification.excitation.plans import Plan
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.excitation.trajectories import to_points
from robot_identification.regressor import ModelSettings
from robot_identification.results.result import write_result
from scipy.io import savemat

URDF = Path(__file__).resolve().parents[1] / 'urdf'
JOINTS = ('joint_1', 'joint_2')
ENTRY = 'time: t, position: [q1, q2], effort: [e1, e2]'
BAG = 'file: run.mcap, format: rosbag2'

EXPERIMENT = """\
robot:
  urdf: arm.urdf
  joints: [joint_1, joint_2]
  gravity: [0.0, 0.0, -9.81]
  effort_kind: joint_torque
  friction: [viscous, coulomb]
  rotor_inertia: false
data:
  identification:
    - {{{entry}}}
signals: {{method: butterworth, cutoff: 10.0, order: 4, decimate_to: 20.0, trim: 0.05}}
estimation: {{method: ols, prior: urdf}}
"""

SETTINGS = """\
robot:
  urdf: arm.urdf
  joints: [joint_1, joint_2]
  locked: {}
  gravity: [0.0, 0.0, -9.81]
  effort_kind: motor_torque
  friction: [viscous, coulomb, offset]
  rotor_inertia: true
  coupled_drives:
    - {motor: joint_2, joints: [joint_1, joint_2], inertia: separate}
  drives:
    position: {matrix: [[1.0, 0.0], [0.5, 1.0]], offset: [0.0, 0.1]}
    effort: {matrix: [[1.0, 0.0], [0.0, 1.0]]}
data:
  identification:
    - {file: run.csv, format: csv, time: t, position: [q1, q2], effort: [e1, e2], rows: [0, 380]}
  validation:
    - file: run.csv
      time: 0
      position: [1, 2]
      effort: [3, 4]
      delimiter: ','
      time_range: [0, 3]
signals:
  method: savitzky_golay
  cutoff: 12.0
  order: 4
  sample_rate: 100.0
  decimate_to: 25.0
  dead_zone: [0.01, 0.02]
  trim: 0.1
estimation:
  method: irls
  essential: {max_relative_std: 30.0}
  prior: urdf
output: results
"""

METHODS = (
    (
        'method: polynomial_approximation, polynomial_approximation: {window: 0.1, degree: 2, '
        'alpha: 3.0, beta: 3.0}',
        'method: mrls, mrls: {bounds: {m: [0.0, 50.0]}}',
    ),
    ('method: savitzky_golay, sample_rate: 120.0', 'method: wls, essential: {}'),
    (
        'method: butterworth, dead_zone: 0.01',
        'method: physical, bootstrap: {replicates: 50, block: 0.5, level: 95.0, seed: 0}',
    ),
)
"""Ways to write the methods of `EXPERIMENT` and their settings."""

XACRO = """\
<?xml version="1.0"?>
<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="mass" default="2.0"/>
  <xacro:property name="half" value="${0.5 * 2}"/>
  <xacro:macro name="body" params="name m">
    <link name="${name}">
      <inertial>
        <origin xyz="${half} 0 0" rpy="0 0 0"/>
        <mass value="${m}"/>
        <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.3"/>
      </inertial>
    </link>
  </xacro:macro>
  <link name="base"/>
  <xacro:body name="link_1" m="$(arg mass)"/>
  <xacro:body name="link_2" m="${2 ** 3}"/>
  <joint name="joint_1" type="revolute">
    <parent link="base"/><child link="link_1"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" velocity="2" effort="10"/>
  </joint>
  <xacro:if value="${half == 1.0}">
    <joint name="joint_2" type="continuous">
      <parent link="link_1"/><child link="link_2"/><origin xyz="1 0 0"/><axis xyz="0 1 0"/>
    </joint>
  </xacro:if>
</robot>
"""

MJCF = """\
<mujoco model="arm">
  <compiler angle="radian"/>
  <worldbody>
    <body name="base" pos="0.1 0 0.3" euler="0.2 0 0.1">
      <geom type="box" size="0.1 0.1 0.1" mass="3"/>
      <body name="upper" pos="0 0.1 0.2" quat="0.8 0.2 -0.3 0.1">
        <joint name="pan" axis="0 0 1" range="-2 2" limited="true" damping="0.7" armature="0.1"/>
        <joint name="tilt" axis="1 0.5 0" pos="-0.03 0.04 0.02" ref="0.4" frictionloss="0.3"/>
        <inertial pos="0.1 0.02 0" quat="0.9 0.1 0.2 0" mass="2" diaginertia="0.03 0.02 0.04"/>
        <geom type="capsule" size="0.03 0.1" pos="0 0 0.1"/>
        <body name="slider" pos="0.3 0 0.1">
          <joint name="slide" type="slide" axis="0 1 1" range="-0.5 0.5"/>
          <inertial pos="0 0.1 0.05" mass="1.2" diaginertia="0.01 0.02 0.015"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="pan" gear="50" forcerange="-2 2" forcelimited="true"/></actuator>
</mujoco>
"""


PIPE, DEVICE = b'\0a pipe', b'\0a device that never ends'
"""Contents that stand for files that are none."""


@dataclass(frozen=True)
class Case:
    """
    Files of an input.

    Attributes
    ----------
    files:
        Contents by name.
    main:
        The file that is mutated; a part of its name says how it is read.

    """

    files: Mapping[str, bytes]
    main: str

    def write(self, folder: Path) -> None:
        """Write the files, `PIPE` and `DEVICE` as what they stand for."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if data == PIPE:
                os.mkfifo(path)
            elif data == DEVICE:
                path.symlink_to('/dev/zero')
            else:
                path.write_bytes(data)
        if b'pipe' in self.files[self.main] and not (folder / 'pipe').exists():
            os.mkfifo(folder / 'pipe')
        (folder / 'folder').mkdir(exist_ok=True)


def samples(rows: int = 400) -> np.ndarray:
    """Return time, positions and efforts of a motion, (rows, 5)."""
    t = np.arange(rows) / 100.0
    q = np.column_stack([np.sin(3 * t) + 0.3 * np.sin(7 * t), np.cos(4 * t)])
    return np.column_stack([t, q, np.sin(5 * t), np.cos(3 * t)])


def csv_file(delimiter: str = ',', header: bool = True, rows: int = 400) -> bytes:
    """Return a recording as text."""
    stream = io.StringIO()
    names = delimiter.join(('t', 'q1', 'q2', 'e1', 'e2')) if header else ''
    np.savetxt(stream, samples(rows), '%.6g', delimiter, header=names, comments='')
    return stream.getvalue().encode()


def npz_file(save: Callable = np.savez, **more: np.ndarray) -> bytes:
    """Return a recording as arrays."""
    table, stream = samples(), io.BytesIO()
    save(stream, t=table[:, 0], q=table[:, 1:3], tau=table[:, 3:], **more)
    return stream.getvalue()


def npy_file() -> bytes:
    """Return a recording as one array."""
    stream = io.BytesIO()
    np.save(stream, samples())
    return stream.getvalue()


def mat_file(compressed: bool = True, **more: object) -> bytes:
    """Return a recording as arrays of MATLAB, the efforts in a struct with a text."""
    table, stream = samples(), io.BytesIO()
    log = {'tau': table[:, 3:], 'name': 'arm', 'inner': {'x': 1.0}}
    content = {'t': table[:, 0], 'q': table[:, 1:3], 'log': log, **more}
    savemat(stream, content, do_compression=compressed)
    return stream.getvalue()


def hdf5_file(matlab: bool = False, **more: Callable) -> bytes:
    """Return a recording as datasets, or as MATLAB 7.3 writes it; ``more`` add to the file."""
    import h5py

    table, stream = samples(), io.BytesIO()
    with h5py.File(stream, 'w', userblock_size=512 if matlab else 0) as file:
        file['t'] = table[:, :1].T if matlab else table[:, 0]
        for name, columns in (('q', table[:, 1:3]), ('log/tau', table[:, 3:])):
            data = columns.T if matlab else columns
            file.create_dataset(name, data=data, chunks=True, compression='gzip')
        for name, change in more.items():
            change(file, name)
    data = stream.getvalue()
    head = b'MATLAB 7.3 MAT-file'.ljust(124) + b'\0\2IM'
    return head + data[len(head) :] if matlab else data


@cache
def parquet_file(fixed: bool = True, compression: str = 'snappy') -> bytes:
    """Return a recording in Parquet, with lists of a fixed length as LeRobot writes, or others."""
    import pyarrow
    from pyarrow import parquet

    table, stream = samples(), io.BytesIO()
    kind = pyarrow.list_(pyarrow.float64(), 2 if fixed else -1)
    columns = {
        't': pyarrow.array(table[:, 0]),
        'q': pyarrow.array(table[:, 1:3].tolist(), kind),
        'tau': pyarrow.array(table[:, 3:].tolist(), kind),
        'task': pyarrow.array(['pick'] * len(table)),
    }
    parquet.write_table(
        pyarrow.table(columns), stream, row_group_size=150, compression=compression
    )
    return stream.getvalue()


def json_lines(foxglove: bool) -> bytes:
    """Return joint states as JSON, one a line after their type: Foxglove's, or those of ROS."""
    lines = ['foxglove.JointStates' if foxglove else 'sensor_msgs/msg/JointState']
    for t, *values in samples(150).tolist():
        stamp = {'sec': int(t), 'nsec' if foxglove else 'nanosec': round(1e9 * (t % 1.0))}
        signals = {'position': values[:2], 'effort': values[2:]}
        message: dict[str, object] = {'header': {'stamp': stamp}, 'name': JOINTS, **signals}
        if foxglove:
            each = (dict(zip(signals, pair)) for pair in zip(*signals.values()))
            joints = [{'name': name, **state} for name, state in zip(JOINTS, each)]
            message = {'timestamp': stamp, 'joints': joints}
        lines.append(json.dumps(message))
    return '\n'.join(lines).encode()


def json_mcap(lines: bytes) -> bytes:
    """Return a bag of messages in JSON."""
    from mcap.writer import Writer

    stream = io.BytesIO()
    kind, *messages = lines.split(b'\n')
    writer = Writer(stream)
    writer.start()
    schema = writer.register_schema(kind.decode('utf-8', 'replace'), 'jsonschema', b'{}')
    channel = writer.register_channel('/joint_states', 'json', schema)
    for k, message in enumerate(messages):
        writer.add_message(channel, 10**7 * k, message, 10**7 * k)
    writer.finish()
    return stream.getvalue()


@cache
def bag_folder(plugin: str, compression: str = '') -> dict[str, bytes]:
    """Return the files of a bag of joint states, by name below its folder."""
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
    from rosbags.typesys import get_typestore, Stores

    store = get_typestore(Stores.ROS2_JAZZY)
    kind = 'sensor_msgs/msg/JointState'
    state, time = store.types[kind], store.types['builtin_interfaces/msg/Time']
    header = store.types['std_msgs/msg/Header']
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'run')
        writer = Writer(path, version=9, storage_plugin=StoragePlugin[plugin])
        if compression:
            writer.set_compression(CompressionMode[compression], CompressionFormat.ZSTD)
        with writer:
            connection = writer.add_connection('/joint_states', kind, typestore=store)
            for t, q1, q2, e1, e2 in samples(150):
                stamp = int(round(1e9 * t)) + 10**9
                message = state(
                    header(time(stamp // 10**9, stamp % 10**9), ''),
                    list(JOINTS), np.array([q1, q2]), np.zeros(2), np.array([e1, e2]),
                )  # fmt: skip
                writer.write(connection, stamp, bytes(store.serialize_cdr(message, kind)))
        return {file.name: file.read_bytes() for file in path.iterdir()}


def experiment(entry: str, **files: bytes) -> dict[str, bytes]:
    """Return an experiment of one recording with its robot; ``files`` have ``__`` for a dot."""
    return {
        'arm.urdf': urdf(),
        'experiment.yaml': EXPERIMENT.format(entry=entry).encode(),
        **{name.replace('__', '.'): data for name, data in files.items()},
    }


@cache
def urdf(name: str = 'zollo_planar_2r.urdf') -> bytes:
    """Return the URDF of a robot of the package."""
    return (URDF / name).read_bytes()


@cache
def identified() -> dict[str, bytes]:
    """Return the experiment's files, with ``result.yaml`` and ``run.factor`` made of them."""
    from robot_identification.identification.reduction import reduce_experiment

    files = experiment(f'file: run.csv, {ENTRY}', run__csv=csv_file())
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter('ignore')
        folder = Path(name)
        for file, data in files.items():
            (folder / file).write_bytes(data)
        made = load_experiment(folder / 'experiment.yaml')
        write_result(identify(made), folder / 'result.yaml')
        (stored, *_) = reduce_experiment(made)
        write_factor(stored, folder / 'run.factor')
        return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@cache
def robot() -> Robot:
    """Return the robot of two joints."""
    return Robot.from_urdf(urdf().decode())


@cache
def plans() -> tuple[bytes, bytes]:
    """Return plans of the robot, a Fourier series and points, as files."""
    settings = PlannerSettings(duration=5.0, jerk_time=None)
    limits = motion_limits(robot(), settings)
    free = rest_to_rest(5.0, 0.2, 3)
    coefficients = 0.1 * free @ np.random.default_rng(1).normal(size=(free.shape[1], 2))
    series = FourierTrajectory(robot().joints, 5.0, 0.2, np.zeros(2), coefficients)
    made = (
        Plan(trajectory, limits, 10.0, (), 1.0, settings, 1.0)
        for trajectory in (series, to_points(series, 2.0))
    )
    first, second = (plan_text(plan, robot(), ModelSettings()).encode() for plan in made)
    return first, second
