# SPDX-License-Identifier: Apache-2.0
"""Readers that are fed mutated files, and what each is fed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
import gzip
import lzma
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from robot_identification import (
    EstimationSettings,
    IdentificationError,
    identified_urdf,
    identify,
    identify_factors,
    load_experiment,
    ModelSettings,
    ParameterSet,
    read_factor,
    read_result,
    Robot,
)
from robot_identification.data.bag import bag_info
from robot_identification.data.recording import Motion
from robot_identification.estimation.bounds import read_boxes
from robot_identification.estimation.prior import choose_prior
from robot_identification.excitation.collisions import collision_model
from robot_identification.excitation.constraints import check_trajectory
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.plan_file import as_points, read_plan
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.fleet.store import open_store
from robot_identification.model import mjcf
from robot_identification.model.consistency import check
from robot_identification.regressor import build, prior
from robot_identification.regressor.base_search import structure

from . import attacks, bombs, messages
from .mutations import mutate_bytes, mutate_text
from .seeds import (
    BAG,
    bag_folder,
    Case,
    csv_file,
    ENTRY,
    experiment,
    hdf5_file,
    identified,
    json_lines,
    json_mcap,
    mat_file,
    METHODS,
    MJCF,
    npy_file,
    npz_file,
    parquet_file,
    plans,
    robot,
    SETTINGS,
    urdf,
    XACRO,
)

Cases = Callable[[], Sequence[Case]]


@dataclass(frozen=True)
class Target:
    """
    A reader with its inputs.

    Attributes
    ----------
    name:
        What it is called.
    seeds:
        Sound inputs, which are mutated.
    attacks:
        Inputs with which readers were attacked; they have the first numbers.
    run:
        Reads the files in a folder, as far as an identification would use them.
    mutate:
        Makes a mutated file of a sound one.
    share:
        Of all inputs.
    prepare:
        Called once in a worker with its folder.

    """

    name: str
    seeds: Cases
    attacks: Cases
    run: Callable[[Path, Random], None]
    mutate: Callable[[bytes, Random], bytes]
    share: float
    prepare: Callable[[Path], None] = lambda folder: None

    def run_input(self, number: int, folder: Path) -> str | None:
        """Run an input; return the text of the package's error, None where it was used."""
        random = Random(f'{self.name}:{number}')
        attacked = self.attacks()
        if number < len(attacked):
            case = attacked[number]
        else:
            case = random.choice(self.seeds())
            data = self.mutate(case.files[case.main], random)
            case = Case({**case.files, case.main: data}, case.main)
        case.write(folder)
        try:
            self.run(folder, random)
        except IdentificationError as error:
            return self.refused(error)
        return None

    @staticmethod
    def refused(error: IdentificationError) -> str:
        """Return the text of an error, which has to be one line."""
        text = str(error)
        if len(text.splitlines()) > 1:
            raise AssertionError(f'a message of several lines: {text}') from error
        return text


def _read(folder: Path, random: Random, share: float = 0.1) -> None:
    """Read an experiment with its recordings; identify with a share of those that have few."""
    made = load_experiment(folder / 'experiment.yaml')
    robot = made.build_robot()
    count = 0
    for kind in ('identification', 'validation'):
        for source in made.sources(kind, robot.joints):
            count += 1
            _ = source.duration
            for _block in source.blocks():
                pass
    if count < 5 and random.random() < share:
        identify(made)


def _experiment(folder: Path, random: Random) -> None:
    _read(folder, random, 0.5)


def _bag(folder: Path, random: Random) -> None:
    bag = next(path for path in (folder / 'run', *folder.glob('run.*')) if path.exists())
    bag_info(bag)
    _read(folder, random)


def _robot(folder: Path, random: Random) -> None:
    path = next(folder.glob('arm.*'))
    robot = Robot.from_urdf(path)
    regressor = build(robot, ModelSettings())
    structure(regressor, robot)
    state = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 1, robot.n_joints))
    if not np.isfinite(regressor.rows(Motion(*state))).all():
        raise AssertionError('rows that are not finite')
    check(robot.prior)
    identified_urdf(robot, robot.prior, ModelSettings())
    if random.random() < 0.2:
        collision_model(robot, 0.01)


def _mjcf(folder: Path, random: Random) -> None:
    # here, not in a process of its own, which takes a second to load MuJoCo
    with patch.object(mjcf, 'answer_of', _converted):
        _robot(folder, random)


def _converted(
    convert: Callable[[dict[str, str]], dict[str, Any]], request: dict[str, str], **limits: float
) -> dict[str, Any]:
    try:
        return convert(request)
    except Exception as error:  # as `xacro_process.main`
        return {'error': ' '.join(str(error).split())}


def _json(folder: Path, random: Random) -> None:
    (folder / 'run.mcap').write_bytes(json_mcap((folder / 'run.jsonl').read_bytes()))
    bag_info(folder / 'run.mcap')
    _read(folder, random)


def _factor(folder: Path, random: Random) -> None:
    stored = read_factor(folder / 'run.factor')
    stored.summary()
    stored.build_robot()
    sound = _sound_factor()
    stored.merge(sound)
    if random.random() < 0.2:
        identify_factors([stored], EstimationSettings(method='ols'))


@cache
def _sound_factor() -> object:
    from robot_identification.estimation.factor_file import unpack

    return unpack(identified()['run.factor'])


def _result(folder: Path, random: Random) -> None:
    stored = read_result(folder / 'result.yaml')
    check(stored.standard)
    identified_urdf(stored.robot, stored.standard, stored.settings.model)
    choose_prior('result.yaml', prior(stored.robot, stored.settings.model), folder)


def _plan(folder: Path, random: Random) -> None:
    stored = read_plan(folder / 'plan.yaml')
    moved = robot().from_urdf(robot().urdf, stored.robot.joints, locked=stored.robot.locked)
    points = as_points(stored.trajectory)
    check_trajectory(moved, points, motion_limits(moved, PlannerSettings(), margin=0.0))


def _parameters(folder: Path, random: Random) -> None:
    if (folder / 'prior.yaml').exists():
        choose_prior('prior.yaml', _standard(), folder)
    else:
        read_boxes(str(folder / 'bounds.yaml'))


@cache
def _standard() -> ParameterSet:
    model = ModelSettings(friction=('viscous', 'coulomb'))
    return prior(robot(), model)


def _store(folder: Path, random: Random) -> None:
    with open_store(folder) as store:
        for line in (folder / 'journal.jsonl').read_bytes().split(b'"')[1::2]:
            store.finished(line.decode('utf-8', 'replace'))


def _csv_seeds() -> Sequence[Case]:
    return [
        Case(experiment(f'file: run.csv, {ENTRY}', run__csv=data), 'run.csv')
        for data in (csv_file(), csv_file(' '), csv_file(';'), csv_file('\t', rows=50))
    ] + [
        Case(
            experiment(
                'file: run.csv, rate: 100.0, position: [1, 2], effort: [3, 4]',
                run__csv=csv_file(header=False),
            ),
            'run.csv',
        )
    ]


def _compressed_seeds() -> Sequence[Case]:
    return [
        Case(experiment(f'file: {name}, {ENTRY}', **{name.replace('.', '__'): data}), name)
        for name, data in (
            ('run.csv.gz', gzip.compress(csv_file())),
            ('run.csv.xz', lzma.compress(csv_file())),
        )
    ]


def _npz_seeds() -> Sequence[Case]:
    entry = 'file: run.npz, time: t, position: q, effort: tau'
    return [
        Case(experiment(entry, run__npz=data), 'run.npz')
        for data in (npz_file(), npz_file(np.savez_compressed))
    ]


def _npy_seeds() -> Sequence[Case]:
    columns = 'position: ["[:, 1]", "[:, 2]"], effort: ["[:, 3]", "[:, 4]"]'
    entry = f'file: run.npy, time: "[:, 0]", {columns}'
    return [Case(experiment(entry, run__npy=npy_file()), 'run.npy')]


@cache
def _mat_seeds() -> Sequence[Case]:
    entry = 'file: run.mat, time: t, position: q, effort: log.tau'
    contents = (mat_file(), mat_file(False), hdf5_file(matlab=True))
    return [Case(experiment(entry, run__mat=data), 'run.mat') for data in contents]


@cache
def _hdf5_seeds() -> Sequence[Case]:
    entry = 'file: run.h5, time: t, position: q, effort: log/tau'
    return [Case(experiment(entry, run__h5=hdf5_file()), 'run.h5')]


@cache
def _parquet_seeds() -> Sequence[Case]:
    entry = 'file: run.parquet, time: t, position: ["q[0]", "q[1]"], effort: ["tau[0]", "tau[1]"]'
    return [
        Case(experiment(entry, run__parquet=data), 'run.parquet')
        for data in (parquet_file(), parquet_file(fixed=False, compression='none'))
    ]


@cache
def _json_seeds() -> Sequence[Case]:
    return [
        Case(experiment(BAG, run__jsonl=json_lines(foxglove)), 'run.jsonl')
        for foxglove in (True, False)
    ]


@cache
def _mcap_seeds() -> Sequence[Case]:
    from robot_identification.untrusted.compressed import decompress_message

    whole = [bag_folder('MCAP')['run.mcap'], bag_folder('MCAP', 'STORAGE')['run.mcap']]
    files = [decompress_message(bag_folder('MCAP', 'FILE')['run.mcap.zstd']), *whole]
    return [
        Case(experiment(BAG, run__mcap=data), 'run.mcap')
        # the last one is read whole when a worker starts
        for data in (whole[0][:-400], whole[0][:-60], *files)
    ]


@cache
def _sqlite_seeds() -> Sequence[Case]:
    return [Case(experiment(BAG.replace('mcap', 'db3'), run__db3=bag_folder('SQLITE3')['run.db3']),
                 'run.db3')]  # fmt: skip


@cache
def _folder_seeds() -> Sequence[Case]:
    cases = []
    for plugin, compression in (
        ('MCAP', ''), ('SQLITE3', ''), ('SQLITE3', 'MESSAGE'), ('MCAP', 'FILE'),
    ):  # fmt: skip
        bag = {f'run/{name}': data for name, data in bag_folder(plugin, compression).items()}
        files = {**experiment('file: run, format: rosbag2'), **bag}
        cases += [Case(files, 'run/metadata.yaml')] * 2
        cases += [Case(files, name) for name in bag if name != 'run/metadata.yaml']
    return cases


def _mutate_folder(data: bytes, random: Random) -> bytes:
    text = data.startswith(b'rosbag2')
    return (mutate_text if text else mutate_bytes)(data, random)


@cache
def _identified_seeds(name: str) -> Sequence[Case]:
    return [Case({name: identified()[name]}, name)]


def _plan_seeds() -> Sequence[Case]:
    return [Case({'plan.yaml': text}, 'plan.yaml') for text in plans()]


def _prior_seeds() -> Sequence[Case]:
    return [
        Case({'prior.yaml': b'joint_1.fv: 1.0\nlink_1.m: 2.5\n'}, 'prior.yaml'),
        Case({'bounds.yaml': b'm: [0.0, 10.0]\nlink_2.Ixx: [null, 3]\n'}, 'bounds.yaml'),
    ]


def _store_seeds() -> Sequence[Case]:
    line = (
        b'{"key": "0123456789abcdef", "path": "run.csv", "digest": "00", "began": 1.5, '
        b'"duration": null, "custom": {"a": "b"}, "samples": 3, "seconds": 1.0, '
        b'"warnings": ["x"]}\n'
    )
    return [Case({'journal.jsonl': 3 * line, 'factors/0123456789abcdef.factor': b'x'},
                 'journal.jsonl')]  # fmt: skip


def _settings_seeds() -> Sequence[Case]:
    plain = experiment(f'file: run.csv, {ENTRY}', run__csv=csv_file())
    base = plain['experiment.yaml'].decode()
    texts = [SETTINGS] + [
        base.replace('method: butterworth', signals).replace('method: ols', estimation)
        for signals, estimation in METHODS
    ]
    return [
        Case(plain, 'experiment.yaml'),
        *(Case({**plain, 'experiment.yaml': text.encode()}, 'experiment.yaml') for text in texts),
    ]


def _urdf_seeds() -> Sequence[Case]:
    names = ('zollo_planar_2r.urdf', 'gautier_khalil_3r.urdf', 'demo_arm.urdf')
    return [Case({'arm.urdf': urdf(name)}, 'arm.urdf') for name in names]


def _mjcf_seeds() -> Sequence[Case]:
    return [Case({'arm.xml': MJCF.encode()}, 'arm.xml')]


def _xacro_seeds() -> Sequence[Case]:
    return [Case({'arm.urdf.xacro': XACRO.encode()}, 'arm.urdf.xacro')]


def _mutate_either(data: bytes, random: Random) -> bytes:
    return random.choice((mutate_bytes, mutate_bytes, mutate_text))(data, random)


TARGETS = {
    target.name: target
    for target in (
        Target('experiment', _settings_seeds, attacks.experiments, _experiment, mutate_text, 0.16),
        Target('urdf', _urdf_seeds, attacks.urdfs, _robot, mutate_text, 0.12),
        Target('xacro', _xacro_seeds, attacks.xacros, _robot, mutate_text, 0.01),
        Target('mjcf', _mjcf_seeds, tuple, _mjcf, mutate_text, 0.02),
        Target('csv', _csv_seeds, attacks.csvs, _read, mutate_text, 0.08),
        Target('compressed', _compressed_seeds, bombs.texts, _read, mutate_bytes, 0.02),
        Target('npz', _npz_seeds, bombs.npzs, _read, mutate_bytes, 0.08),
        Target('npy', _npy_seeds, bombs.npys, _read, mutate_bytes, 0.01),
        Target('mat', _mat_seeds, bombs.mats, _read, mutate_bytes, 0.04),
        Target('hdf5', _hdf5_seeds, bombs.hdf5s, _read, mutate_bytes, 0.04),
        Target('parquet', _parquet_seeds, tuple, _read, mutate_bytes, 0.04),
        Target('json', _json_seeds, tuple, _json, mutate_text, 0.04),
        Target('mcap', _mcap_seeds, bombs.mcaps, _bag, mutate_bytes, 0.12),
        Target('sqlite', _sqlite_seeds, bombs.sqlites, _bag, mutate_bytes, 0.06),
        Target('bag_folder', _folder_seeds, bombs.folders, _bag, _mutate_folder, 0.07),
        Target('factor', lambda: _identified_seeds('run.factor'), bombs.factors, _factor,
               _mutate_either, 0.07),
        Target('result', lambda: _identified_seeds('result.yaml'), bombs.results, _result,
               mutate_text, 0.06),
        Target('plan', _plan_seeds, bombs.plans, _plan, mutate_text, 0.02),
        Target('parameters', _prior_seeds, attacks.priors, _parameters, mutate_text, 0.02),
        Target('requests', messages.no_files, tuple, messages.request_input, mutate_text, 0.06,
               messages.prepare),
        Target('joint_states', messages.no_files, tuple, messages.state_input, mutate_text, 0.03,
               messages.prepare),
        Target('store', _store_seeds, attacks.stores, _store, _mutate_either, 0.02),
    )
}  # fmt: skip
