# SPDX-License-Identifier: Apache-2.0
"""A user's folder: an experiment file and recordings of a robot whose parameters are known."""

from __future__ import annotations

from dataclasses import dataclass
import functools
import io
from pathlib import Path
from subprocess import CompletedProcess

from command_line import run_command
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import prior

from benchmarks.synthetic import sines

ROOT = Path(__file__).resolve().parents[2]

EXPERIMENT = """\
robot:
  urdf: {urdf}
  joints: [joint_1, joint_2, joint_3]
  friction: [viscous, coulomb, offset]
  rotor_inertia: true
  effort_kind: joint_torque
data:
  identification:
    - {{file: first.csv, time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]}}
  validation:
    - {{file: second.csv, time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]}}
signals:
  method: butterworth
  cutoff: 20.0
  decimate_to: 50.0
  dead_zone: 0.05
estimation:
  method: wls
auto: false
output: results
"""


@dataclass(frozen=True)
class Workspace:
    """
    A user's folder.

    Attributes
    ----------
    folder:
        Holds experiment.yaml, first.csv and second.csv.
    robot:
        As the URDF says.
    truth:
        True standard parameters, over the regressor's layout.

    """

    folder: Path
    robot: Robot
    truth: ParameterSet

    @property
    def experiment(self) -> Path:
        """The experiment file."""
        return self.folder / 'experiment.yaml'

    def edit(self, old: str, new: str, file: str = 'experiment.yaml') -> None:
        """Replace a text that has to be there."""
        path = self.folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def table(self, file: str = 'first.csv') -> np.ndarray:
        """Read a recording's numbers: time, three positions, three efforts."""
        return np.loadtxt(self.folder / file, delimiter=',', skiprows=1)

    def write(self, table: np.ndarray, file: str = 'first.csv') -> None:
        """Replace a recording."""
        write_table(self.folder / file, table)

    def run(self, *arguments: object, expect: int = 0) -> CompletedProcess:
        """Run ``robot-identification`` in the folder, see `run_command`."""
        return run_command(self.folder, *arguments, expect=expect)


def make_truth(robot: Robot, rng: np.random.Generator) -> ParameterSet:
    """Change every parameter so that the links stay physical bodies."""
    standard = prior(robot)
    values = {}
    for link in robot.links:
        body = pin.Inertia.FromDynamicParameters(standard.inertial(link))
        body += pin.Inertia(rng.uniform(0.2, 0.6), rng.uniform(-0.1, 0.1, 3), np.zeros((3, 3)))
        for symbol, value in zip(
            ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz'),
            body.toDynamicParameters(),
            strict=True,
        ):
            values[f'{link}.{symbol}'] = value
    for joint in robot.joints:
        values[f'{joint}.Ia'] = rng.uniform(0.02, 0.06)
        values[f'{joint}.fv'] = rng.uniform(0.3, 0.9)
        values[f'{joint}.fc'] = rng.uniform(0.5, 1.5)
        values[f'{joint}.off'] = rng.uniform(-0.5, 0.5)
    return standard.updated(values)


def make_recording(robot: Robot, truth: ParameterSet, seed: int, noise: float) -> np.ndarray:
    """Let the robot follow a Fourier series; efforts by Pinocchio's RNEA and closed forms."""
    rng = np.random.default_rng(seed)
    rate, duration, harmonics = 400.0, 12.0, 6
    time = np.arange(0.0, duration, 1.0 / rate)
    terms = (
        (2.0 * np.pi * k / duration, rng.uniform(0.1, 0.6, 3), rng.uniform(0.0, 2.0 * np.pi, 3))
        for k in range(1, harmonics + 1)
    )
    position, velocity, acceleration = sines(time, terms)
    model = robot.with_parameters(truth)
    data = model.createData()
    rows = zip(position, velocity, acceleration, strict=True)
    effort = np.array([pin.rnea(model, data, *row) for row in rows])
    for j, joint in enumerate(robot.joints):
        effort[:, j] += truth[f'{joint}.Ia'] * acceleration[:, j]
        effort[:, j] += truth[f'{joint}.fv'] * velocity[:, j]
        effort[:, j] += truth[f'{joint}.fc'] * np.sign(velocity[:, j]) + truth[f'{joint}.off']
    effort += noise * rng.standard_normal(effort.shape)
    return np.column_stack([time, position, effort])


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    """Give a fresh folder with two different recordings."""
    return new_workspace(tmp_path)


@pytest.fixture(scope='session')
def make_workspace():
    """Give the function that makes such a folder of an empty one."""
    return new_workspace


@functools.cache
def _made() -> tuple[Robot, ParameterSet, dict[str, str]]:
    """Return the robot, its true parameters and the text of its two recordings."""
    robot = Robot.from_urdf(ROOT / 'urdf' / 'szabo_3r.urdf', ('joint_1', 'joint_2', 'joint_3'))
    truth = make_truth(robot, np.random.default_rng(7))
    tables = {}
    for seed, file in enumerate(('first.csv', 'second.csv'), 1):
        table = io.StringIO()
        write_table(table, make_recording(robot, truth, seed, 0.05))
        tables[file] = table.getvalue()
    return robot, truth, tables


def write_table(file: Path | io.StringIO, table: np.ndarray) -> None:
    """Write a recording: time, three positions, three efforts."""
    np.savetxt(file, table, '%.10g', ',', header='t,q1,q2,q3,tau1,tau2,tau3', comments='')


def new_workspace(folder: Path) -> Workspace:
    """Write an experiment file and two different recordings."""
    robot, truth, tables = _made()
    made = Workspace(folder, robot, truth)
    made.experiment.write_text(EXPERIMENT.format(urdf=robot.path))
    for file, text in tables.items():
        (folder / file).write_text(text)
    return made
