# SPDX-License-Identifier: Apache-2.0
"""
Experiments on recordings of real robots.

UR10e: motor currents with published gains, from the public repository dynamic_calibration, in a
folder ``shared/data`` beside the repository, or the one that ``REAL_RECORDINGS`` names.  TX-40:
see examples/tx40/README.md.  Med 7: joint torques
whose sign is not the URDF's, from the public repository dynamic_parameter_identification of
lbr-stack.  KR 300: motor torques with a load of some 150 kg, half of the rows at rest, from the
public repository JonasWeigand/Robot_Identification.  Panda, LWR 4+ and xMate 7: torque sensors at
the joints, from the public repositories FrankaEmikaPandaDynModel, FloBaRoID and
xMate7p_dyn_ident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import copy
from dataclasses import dataclass, field
import math
import os
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get('REAL_RECORDINGS') or ROOT.parent / 'shared' / 'data')

_TX40 = ROOT / 'examples' / 'tx40' / 'experiment.yaml'
_UR10E_GAINS = (14.87, 13.26, 11.13, 10.62, 11.03, 11.47)


@dataclass(frozen=True)
class RealRobot:
    """
    A robot with recordings.

    Attributes
    ----------
    name, folder:
        What it is called, and where its recordings are.
    robot:
        Section ``robot`` of an experiment file, as far as the robot and its data need it.
    identification:
        The recording to identify from.
    held_out:
        Others, to predict, by name.
    further:
        Others to identify from together with it.
    repeats:
        Excitation runs whose results are compared.
    cutoff:
        At which predictions are judged [Hz].
    plain:
        Signal settings that suit the robot.

    """

    name: str
    folder: Path
    robot: Mapping[str, Any]
    identification: Mapping[str, Any]
    held_out: Mapping[str, Mapping[str, Any]]
    cutoff: float
    plain: Mapping[str, Any]
    fixed: tuple[Mapping[str, Any], ...]
    repeats: tuple[Mapping[str, Any], ...] = field(default=())
    further: tuple[Mapping[str, Any], ...] = ()

    @property
    def missing(self) -> str:
        """Reason why there are no figures; empty where there are."""
        return '' if self.folder.is_dir() else f'{self.folder} is not here'

    def document(
        self, settings: Mapping[str, Any], identification: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the content of an experiment file with these sections and keys."""
        sections = copy.deepcopy(dict(settings))
        return {
            **sections,
            'robot': {**self.robot, **sections.get('robot', {})},
            'data': {
                'identification': [dict(identification), *map(dict, self.further)],
                'validation': [dict(entry) for entry in self.held_out.values()],
            },
        }


def _ur10e_run(name: str) -> dict[str, Any]:
    columns = {
        key: [f'{letter}{i}' for i in range(1, 7)]
        for key, letter in (('position', 'q'), ('velocity', 'v'), ('effort', 'i'))
    }
    file = str(DATA / 'ur10e' / f'{name}.csv')
    return {'file': file, 'format': 'csv', 'time': 't', **columns}


def ur10e() -> RealRobot:
    """Return the UR10e: identified from 30 s of excitation, held against moves through points."""
    runs = ('excite_30s_a', 'excite_50s_a', 'excite_50s_b', 'excite_20s_8harm')
    gains = [[gain if i == j else 0.0 for j in range(6)] for i, gain in enumerate(_UR10E_GAINS)]
    names = ('shoulder_pan', 'shoulder_lift', 'elbow', 'wrist_1', 'wrist_2', 'wrist_3')
    return RealRobot(
        name='UR10e',
        folder=DATA / 'ur10e',
        robot={
            'urdf': str(DATA / 'ur10e' / 'ur10e.urdf'),
            'joints': [f'{name}_joint' for name in names],
            'effort_kind': 'motor_current',
            'drives': {'effort': {'matrix': gains}},
        },
        identification=_ur10e_run(runs[0]),
        held_out={name: _ur10e_run(name) for name in ('point_to_point', *runs[1:])},
        repeats=tuple(map(_ur10e_run, runs)),
        cutoff=7.5,
        plain={'method': 'measured_velocity', 'cutoff': 7.5, 'decimate_to': 20.0},
        fixed=tuple(
            {'method': method, 'cutoff': cutoff, 'decimate_to': rate}
            for method in ('measured_velocity', 'butterworth')
            for cutoff in (5.0, 7.5, 10.0, 15.0, 25.0)
            for rate in (20.0, 50.0)
        ),
    )


def tx40() -> RealRobot:
    """Return the TX-40: identified from the first moves, held against the last ones."""
    document = yaml.safe_load(_TX40.read_text(encoding='utf-8'))
    robot, entry = document['robot'], document['data']['identification'][0]
    robot['urdf'] = str((_TX40.parent / robot['urdf']).resolve())
    for part in ('position', 'effort'):
        entry[part]['file'] = str((_TX40.parent / entry[part]['file']).resolve())
    for key in ('friction', 'rotor_inertia'):
        del robot[key]
    return RealRobot(
        name='TX-40',
        folder=_TX40.parent,
        robot=robot,
        identification={**entry, 'time_range': [0.06, 5.2]},
        held_out={'last moves': {**entry, 'time_range': [5.2, 7.7]}},
        cutoff=20.0,
        plain={'method': 'butterworth', 'cutoff': 100.0, 'decimate_to': 50.0, 'trim': 0.004},
        fixed=tuple(
            {'method': 'butterworth', 'cutoff': cutoff, 'decimate_to': rate}
            for cutoff in (5.0, 7.5, 10.0, 15.0, 25.0, 50.0, 100.0)
            for rate in (20.0, 50.0)
        ),
    )


def _diagonal(values: Sequence[float]) -> list[list[float]]:
    n = len(values)
    return [[values[i] if i == j else 0.0 for j in range(n)] for i in range(n)]


def med7(sign: float = -1.0) -> RealRobot:
    """Return the LBR Med 7: 11 s at 100 Hz, whose efforts are recorded with the other sign."""

    def run(name: str) -> dict[str, Any]:
        columns = {
            key: [f'{head}_{i}' for i in range(7)]
            for key, head in (('position', 'q'), ('effort', 'tau'))
        }
        file = str(DATA / 'med7' / f'{name}.csv')
        return {'file': file, 'format': 'csv', 'rate': 100.0, **columns}

    return RealRobot(
        name='Med 7',
        folder=DATA / 'med7',
        robot={
            'urdf': str(DATA / 'med7' / 'med7.urdf'),
            'joints': [f'A{i}' for i in range(1, 8)],
            'effort_kind': 'joint_torque',
            'drives': {'effort': {'matrix': _diagonal([sign] * 7)}},
        },
        identification=run('ident'),
        held_out={'valid': run('valid')},
        cutoff=5.0,
        plain={'cutoff': 10.0, 'decimate_to': 25.0},
        fixed=tuple(
            {'method': 'butterworth', 'cutoff': cutoff, 'decimate_to': 25.0}
            for cutoff in (5.0, 10.0, 25.0)
        ),
    )


_KR300_GEARS = (256.857, 267.429, 252.333, 221.0, 239.619, 154.323)


def kr300() -> RealRobot:
    """Return the KR 300 R2500: motor torques in two runs of 10 s, held against a third."""

    def run(name: str) -> dict[str, Any]:
        columns = {
            key: [f'{head}{i}' for i in range(1, 7)]
            for key, head in (('position', 'q'), ('velocity', 'dq'), ('effort', 'tau'))
        }
        file = str(DATA / 'kr300' / f'run_{name}.csv.gz')
        return {'file': file, 'format': 'csv', 'time': 'time', **columns}

    return RealRobot(
        name='KR 300',
        folder=DATA / 'kr300',
        robot={
            'urdf': str(DATA / 'kr300' / 'kr300.urdf'),
            'joints': [f'A{i}' for i in range(1, 7)],
            'effort_kind': 'motor_torque',
            'drives': {
                'position': {'matrix': _diagonal([math.pi / 180.0] * 6)},
                'effort': {'matrix': _diagonal(_KR300_GEARS)},
            },
        },
        identification=run('A'),
        further=(run('B'),),
        held_out={'run_C': run('C')},
        cutoff=10.0,
        plain={'cutoff': 25.0, 'decimate_to': 50.0},
        fixed=tuple(
            {'method': 'butterworth', 'cutoff': cutoff, 'decimate_to': 50.0}
            for cutoff in (10.0, 25.0)
        ),
    )


def _sensed(name: str, folder: str, urdf: str, joints: Sequence[str], **others: Any) -> RealRobot:
    """Return a robot with torque sensors at its joints."""
    return RealRobot(
        name=name,
        folder=DATA / folder,
        robot={
            'urdf': str(DATA / folder / urdf),
            'joints': list(joints),
            'effort_kind': 'joint_torque',
        },
        fixed=tuple(
            {'method': 'butterworth', 'cutoff': cutoff, 'decimate_to': 50.0}
            for cutoff in (5.0, 10.0, 25.0)
        ),
        **others,
    )


def _seven(file: Path, speed: str, **others: Any) -> dict[str, Any]:
    """Return the recording of an arm with seven joints; ``speed`` begins the speeds' names."""
    columns = {
        key: [f'{head}{i}' for i in range(1, 8)]
        for key, head in (('position', 'q'), ('velocity', speed), ('effort', 'tau'))
    }
    return {'file': str(file), 'format': 'csv', **columns, **others}


def panda() -> RealRobot:
    """Return the Panda: identified from 14.6 s, held against the 5.6 s that follow."""
    run = _seven(DATA / 'panda' / 'run.csv.gz', 'v', time='t')
    return _sensed(
        'Panda',
        'panda',
        'panda.urdf',
        [f'panda_joint{i}' for i in range(1, 8)],
        identification={**run, 'time_range': [0.2, 14.8]},
        held_out={'rest of the run': {**run, 'time_range': [14.8, 20.5]}},
        cutoff=10.0,
        plain={'cutoff': 10.0},
    )


def lwr() -> RealRobot:
    """Return the LWR 4+: identified from 25 s, held against a second run and a faster one."""
    runs = {
        name: _seven(DATA / 'lwr' / f'{name}.csv.gz', 'v', time='t')
        for name in ('run1', 'run2', 'run3_double_speed')
    }
    return _sensed(
        'LWR 4+',
        'lwr',
        'lwr4.urdf',
        [f'lwr_{i}_joint' for i in range(7)],
        identification=runs.pop('run1'),
        held_out=runs,
        cutoff=8.0,
        plain={'cutoff': 8.0},
    )


def xmate7(number: int = 1) -> RealRobot:
    """Return the xMate 7: identified from one run of 5 s, held against the two others."""
    runs = {
        name: _seven(DATA / 'xmate7' / f'{name}.csv.gz', 'dq', rate=1000.0)
        for name in ('run1', 'run2', 'run3')
    }
    return _sensed(
        f'xMate 7, run {number}',
        'xmate7',
        'xmate7pro.urdf',
        [f'joint{i}' for i in range(1, 8)],
        identification=runs.pop(f'run{number}'),
        held_out=runs,
        cutoff=10.0,
        plain={'cutoff': 10.0},
    )
