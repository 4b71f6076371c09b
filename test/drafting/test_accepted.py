# SPDX-License-Identifier: Apache-2.0
"""Experiment files that `init` writes are accepted by what reads them, whatever the recording."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.problem import planned_robot
from robot_identification.data.bag_writer import BagWriter, Topic
from robot_identification.data.joint_state import typestore
from robot_identification.drafting.draft import draft
from robot_identification.drafting.settings import DraftSettings
from robot_identification.errors import IdentificationError, RecordingError
from robot_identification.excitation.planning_settings import PlanningSettings
from robot_identification.identification.choose import choose
from robot_identification.identification.prepare import prepare
from robot_identification.identification.screen import screen
from robot_identification.model.robot import Robot
from robot_identification.signals.streaming import stretches
from scipy.io import savemat

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
KIND = 'sensor_msgs/msg/JointState'
FORMATS = ('csv', 'npz', 'mat', 'h5', 'bag')


@dataclass(frozen=True)
class Made:
    """A recording of some joints, as drivers and loggers write them."""

    joints: tuple[str, ...]
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray | None
    effort: np.ndarray


def made(random):
    """Make a recording: any rate, joints left out or still, gaps, steps, units of efforts."""
    robot = Robot.from_urdf(URDF)
    n, rate = robot.n_joints, float(random.choice([5.0, 20.0, 33.0, 50.0, 125.0, 1000.0]))
    duration = float(random.choice([0.2, 1.0, 4.0, 12.0]))
    time = np.arange(0.0, duration, 1.0 / rate)
    speed, phase = random.uniform(0.3, 3.0, n), random.uniform(0.0, 6.0, n)
    size = np.where(random.random(n) < 0.15, 0.0, random.uniform(0.1, 0.8, n))  # some stand still
    angle = time[:, None] * speed + phase
    states = size * np.sin(angle), size * speed * np.cos(angle), -size * speed**2 * np.sin(angle)
    data = robot.model.createData()
    rigid = [pin.rnea(robot.model, data, *rows) for rows in zip(*states, strict=True)]
    effort = np.reshape(rigid, states[0].shape) + 0.3 * np.sign(states[1])
    effort *= random.choice([1.0, 1.0, 1.0, -1.0, 1e3, 0.02])
    if random.random() < 0.3:
        effort = np.round(effort, 1)
    kept = np.ones(len(time), dtype=bool)
    if random.random() < 0.3:
        kept[len(time) // 3 : len(time) // 2] = False
    columns = np.flatnonzero(random.random(n) < 0.9)  # some are not recorded
    columns = columns if len(columns) else np.arange(n)
    chosen = np.ix_(kept, columns)
    stamps = (time[kept] + random.choice([0.0, 1.7e9])) * random.choice([1.0, 1e3, 1e9])
    return Made(
        tuple(robot.joints[j] for j in columns),
        stamps,
        states[0][chosen],
        states[1][chosen] if random.random() < 0.5 else None,
        effort[chosen],
    )


def written(recording, kind, folder):
    """Write a recording in a format, and return its path."""
    signals = {'position': recording.position, 'effort': recording.effort}
    if recording.velocity is not None:
        signals['velocity'] = recording.velocity
    path = folder / f'run.{kind}'
    if kind == 'csv':
        names = [f'{joint}_{name}' for name in signals for joint in recording.joints]
        rows = np.column_stack([recording.time, *signals.values()])
        np.savetxt(path, rows, '%.12g', ',', header=','.join(['time', *names]), comments='')
    elif kind == 'npz':
        np.savez(path, time=recording.time, **signals)
    elif kind == 'mat':
        savemat(path, {'time': recording.time, **signals})
    elif kind == 'h5':
        with pytest.importorskip('h5py').File(path, 'w') as file:
            for name, values in {'time': recording.time, **signals}.items():
                file[name] = values
    else:
        path = folder / 'bag'
        write_bag(recording, path)
    return path


def write_bag(recording, path):
    store = typestore()
    kinds = store.types
    span = max(float(np.ptp(recording.time)), 1e-9)
    unit = 1.0 if span < 60.0 else 1e3 if span < 6e4 else 1e9
    with BagWriter(path, [Topic('/joint_states', KIND)]) as writer:
        for row, time in enumerate(recording.time / unit):
            stamp = kinds['builtin_interfaces/msg/Time'](int(time), int(1e9 * (time % 1.0)))
            header = kinds['std_msgs/msg/Header'](stamp, '')
            speed = np.array([]) if recording.velocity is None else recording.velocity[row]
            message = kinds[KIND](
                header, list(recording.joints), recording.position[row], speed,
                recording.effort[row],
            )  # fmt: skip
            data = bytes(store.serialize_cdr(message, KIND))
            writer.write(0, int(1e9 * time), data, publish_time=int(1e9 * time))


@pytest.mark.parametrize(
    'seed', [pytest.param(n, marks=[pytest.mark.soak] if n >= 10 else []) for n in range(40)]
)
@pytest.mark.filterwarnings('ignore')
def test_what_init_writes_is_read(tmp_path, seed):
    random = np.random.default_rng(seed)
    path = written(made(random), FORMATS[seed % len(FORMATS)], tmp_path)
    try:
        found = draft(URDF, [path], DraftSettings(effort_kind='joint_torque'))
    except IdentificationError as refused:
        assert refused.remedy, refused  # a refusal says what to do
        return
    file = tmp_path / 'experiment.yaml'
    file.write_text(found.text(URDF, tmp_path))
    experiment = load_experiment(file)
    try:
        chosen = choose(screen(prepare(experiment)))
        for source in chosen.prepared.recordings.identification:
            assert list(stretches(source, chosen.problem.signals))
    except RecordingError as short:
        assert 'longer' in str(short)  # it shows too little, which no file tells before
    robot, _ = planned_robot(file, PlanningSettings())
    assert robot.joints == experiment.robot.joints
