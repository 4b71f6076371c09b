# SPDX-License-Identifier: Apache-2.0
"""A fleet of small simulated robots, some of which are not like the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
import importlib
import os
from pathlib import Path
import sys

import numpy as np
import pytest
from robot_identification.config.experiment import Experiment
from robot_identification.config.experiment_file import load_experiment
from robot_identification.data.recording import Motion
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, prior

from benchmarks.synthetic import sines

ROOT = Path(__file__).resolve().parents[2]
JOINTS = ('joint_1', 'joint_2', 'joint_3')
DAY = 86400.0
FIRST_DAY = 1_760_000_000.0
MODEL = ModelSettings(friction=('viscous', 'coulomb', 'offset'))

EXPERIMENT = """\
robot:
  urdf: {urdf}
  joints: [joint_1, joint_2, joint_3]
  friction: [viscous, coulomb, offset]
  effort_kind: joint_torque
data:
  identification:
    - {{file: template.npz, time: t, position: q, effort: tau}}
estimation: {{method: wls, bootstrap: null}}
signals: {{method: butterworth, cutoff: 15.0, decimate_to: 40.0, dead_zone: 0.05}}
fleet: {{significance: 0.01}}
"""


@dataclass(frozen=True)
class Fleet:
    """
    A folder with an experiment file and recordings ``<serial>/run<number>.npz``.

    Attributes
    ----------
    folder:
        Where it is.
    robot, truth:
        What all robots are made after.

    """

    folder: Path
    robot: Robot
    truth: ParameterSet
    changes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The experiment file."""
        return self.folder / 'experiment.yaml'

    @property
    def experiment(self) -> Experiment:
        """Experiment file of the fleet."""
        return load_experiment(self.file)

    @property
    def recordings(self) -> Path:
        """The folder of the recordings."""
        return self.folder / 'recordings'

    def record(
        self,
        serial: str,
        number: int,
        changes: Mapping[str, float] | None = None,
        *,
        seconds: float = 6.0,
        noise: float = 0.1,
        rate: float = 200.0,
    ) -> Path:
        """Write a recording of a robot whose parameters differ by ``changes``."""
        rng = np.random.default_rng([number, *serial.encode()])
        motion = random_motion(rng, seconds, rate)
        values = {name: self.truth[name] + more for name, more in (changes or {}).items()}
        rows = build(self.robot, MODEL).rows(motion)
        effort = (rows @ self.truth.updated(values).values).reshape(-1, 3)
        effort += noise * rng.standard_normal(effort.shape)
        path = self.recordings / serial / f'run{number}.npz'
        path.parent.mkdir(parents=True, exist_ok=True)
        time = np.arange(len(motion)) / rate
        np.savez(path, t=time, q=motion.position, tau=effort)
        stamp = FIRST_DAY + DAY * number
        os.utime(path, (stamp, stamp))
        return path


def random_motion(rng: np.random.Generator, seconds: float, rate: float) -> Motion:
    """Return a Fourier series of each joint."""
    terms = (
        (2.0 * np.pi * k / seconds, rng.uniform(0.1, 0.5, 3), rng.uniform(0.0, 2.0 * np.pi, 3))
        for k in range(1, 6)
    )
    return Motion(*sines(np.arange(0.0, seconds, 1.0 / rate), terms))


@pytest.fixture(scope='session')
def make_fleet():
    """Give the function that makes an empty fleet of a folder."""
    return new_fleet


def new_fleet(folder: Path) -> Fleet:
    """Write an experiment file, and a template of its recordings."""
    urdf = ROOT / 'urdf' / 'szabo_3r.urdf'
    robot = Robot.from_urdf(urdf, JOINTS)
    rng = np.random.default_rng(3)
    truth = prior(robot, MODEL)
    friction = {
        f'{joint}.{symbol}': rng.uniform(0.5, 1.5) for joint in JOINTS for symbol in ('fv', 'fc')
    }
    fleet = Fleet(folder, robot, truth.updated(friction))
    folder.mkdir(parents=True, exist_ok=True)
    fleet.file.write_text(EXPERIMENT.format(urdf=urdf))
    np.savez(folder / 'template.npz', t=np.zeros(1), q=np.zeros((1, 3)), tau=np.zeros((1, 3)))
    return fleet


@pytest.fixture(scope='session')
def tasks():
    """Let workers find the module of tasks that go wrong, as they find ours."""
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    yield importlib.import_module('executor_tasks')
    sys.path.remove(folder)


@pytest.fixture(scope='module')
def cluster(tmp_path_factory) -> Iterator[str]:
    """Give the address of two Dask workers, which the runs of a module share."""
    distributed = pytest.importorskip('distributed')
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        local_directory=tmp_path_factory.mktemp('workers'),
    ) as made:
        yield made.scheduler_address


@pytest.fixture
def fleet(tmp_path) -> Fleet:
    """Give an empty fleet."""
    return new_fleet(tmp_path / 'fleet')


@pytest.fixture(scope='session')
def small(tmp_path_factory) -> Fleet:
    """Give four robots with three recordings each; not to be written to."""
    made = new_fleet(tmp_path_factory.mktemp('small'))
    for serial in ('A1', 'A2', 'B1', 'B2'):
        for number in range(3):
            made.record(serial, number)
    return made
