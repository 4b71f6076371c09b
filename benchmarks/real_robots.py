# SPDX-License-Identifier: Apache-2.0
"""
Real robots: plain least squares, the old defaults and the defaults, judged by what they predict.

    .venv/bin/python -m benchmarks real_robots

The figures are on a page of their own, ``docs/reference/real_robots.md``.  Nothing but files is
judged: the tables of ``validate --predictions``, ``result.yaml`` and ``identified.urdf``; see
`judge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import contextlib
from dataclasses import dataclass, field
import io
from pathlib import Path
import tempfile
import time
from typing import Any
import warnings

import numpy as np
from robot_identification.cli import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.data.recording import Recording
from robot_identification.errors import IdentificationError
from robot_identification.exports.formats import export
from robot_identification.identification.pipeline import identify
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result, StoredResult
from robot_identification.verdicts.verdict import DO_NOT_USE, verdict
import yaml

from . import judge
from .harness import Figure, Section, Table
from .real_recordings import kr300, lwr, med7, panda, RealRobot, tx40, ur10e, xmate7

MODEL = {'friction': ['viscous', 'coulomb', 'offset'], 'rotor_inertia': True}
SIGNALS = {
    'method': 'butterworth',
    'cutoff': 25.0,
    'order': 4,
    'decimate_to': 50.0,
    'dead_zone': 0.0,
    'trim': 0.05,
}
PLAIN, OLD, DEFAULT = 'plain least squares', 'old defaults', 'defaults'

BOUNDS = {
    ('UR10e', 'point_to_point'): 3.4,
    ('TX-40', 'last moves'): 7.0,
    ('Med 7', 'valid'): 3.5,
    ('KR 300', 'run_C'): 12.0,
    ('Panda', 'rest of the run'): 1.25,
    ('LWR 4+', 'run2'): 2.1,
    ('LWR 4+', 'run3_double_speed'): 3.0,
    ('xMate 7, run 1', 'run2'): 2.40,
    ('xMate 7, run 1', 'run3'): 3.24,
    ('xMate 7, run 2', 'run1'): 2.66,
    ('xMate 7, run 2', 'run3'): 2.73,
    ('xMate 7, run 3', 'run1'): 5.32,
    ('xMate 7, run 3', 'run2'): 4.67,
}
"""Largest error of the defaults on a held-out recording [%]."""

URDF_BOUNDS = {('UR10e', 'point_to_point'): 6.0}
"""Largest error of the identified URDF alone, by the defaults [%]."""

_ROWS = 1 << 30
"""Rows of a recording that are read at once: all."""

TOTALS = {
    'Panda': (0.75, 1.33),
    'LWR 4+': (0.75, 1.33),
    **{f'xMate 7, run {number}': (0.75, 1.5) for number in (1, 2, 3)},
}
"""Least and largest total mass by the maker's, where it is not the judge's."""

BELOW_PLAIN = 0.75
"""Largest error of the defaults on the UR10e's other runs, as a share of plain's."""


def section() -> Section:
    """Identify with each kind of settings, and judge."""
    tables: list[Table] = []
    figures: list[Figure] = []
    notes: list[str] = []
    of_runs = (xmate7(number) for number in (1, 2, 3))
    for robot in (ur10e(), tx40(), med7(), kr300(), panda(), lwr(), *of_runs):
        if robot.missing:
            notes.append(f'No figures of the {robot.name}: {robot.missing}.')
            continue
        with tempfile.TemporaryDirectory() as folder, _quietly():
            found_tables, found_figures = _robot(robot, Path(folder))
        tables += found_tables
        figures += found_figures
    if not med7().missing:
        figures.append(_sign_named())
    return Section(
        title='Results',
        text='\n\n'.join(notes),
        tables=tables,
        figures=figures,
        page='real_robots.md',
    )


def _sign_named() -> Figure:
    """Return whether the sign of the Med 7's efforts, as recorded, is named first."""
    with tempfile.TemporaryDirectory() as folder, _quietly():
        robot = med7(sign=1.0)
        experiment = _experiment(robot, {}, robot.identification, Path(folder))
        result = identify(load_experiment(experiment))
    first = result.recorded.diagnosis[0].code if result.recorded.diagnosis else ''
    return Figure(
        'Med 7 as recorded: sign of all efforts named', float(first == 'effort_signs'), at_least=1
    )


@dataclass(frozen=True)
class _Verdict:
    """
    Judgement of one kind of settings; errors by the name of the recording.

    ``errors`` are those of the full model, ``alone`` and ``makers_alone`` of the identified URDF
    and of the one it came from; ``stated`` is the error that the result says is to be expected on
    other motions [%].
    """

    name: str
    errors: Mapping[str, judge.Errors]
    masses: np.ndarray
    makers: np.ndarray
    physical: bool
    loads: bool
    usable: bool
    seconds: float
    classical: float = np.nan
    bootstrap: float = np.nan
    stated: float = np.nan
    alone: Mapping[str, judge.Errors] = field(default_factory=dict)
    makers_alone: Mapping[str, judge.Errors] = field(default_factory=dict)

    @property
    def plausible(self) -> bool:
        return self.physical and judge.plausible(self.masses, self.makers)


def _stated_error(stored: StoredResult) -> float:
    """Return the error that the result says is to be expected on other motions [%]."""
    expected = stored.document.get('predicted_errors') or {}
    return float(expected.get('relative_error') or np.nan)


def _kinds(robot: RealRobot) -> dict[str, dict[str, Any]]:
    """Return the sections of an experiment file for each kind of settings."""
    fixed = {'auto': False, 'estimation': {'method': 'wls'}, 'robot': MODEL}
    return {
        PLAIN: {**fixed, 'signals': {**SIGNALS, **robot.plain}},
        OLD: {**fixed, 'signals': SIGNALS},
        DEFAULT: {},
    }


def _robot(robot: RealRobot, folder: Path) -> tuple[list[Table], list[Figure]]:
    verdicts = [_verdict(robot, name, kind, folder) for name, kind in _kinds(robot).items()]
    tables = [_error_table(robot, verdicts), _model_table(robot, verdicts)]
    fixed = [
        (settings, _held_out(robot, {**_kinds(robot)[PLAIN], 'signals': signals}, folder)[1])
        for settings in robot.fixed
        for signals in ({**SIGNALS, **settings},)
    ]
    tables.append(_fixed_table(robot, fixed))
    return tables, list(_figures(robot, verdicts, [errors for _, errors in fixed]))


def _verdict(robot: RealRobot, name: str, settings: Mapping[str, Any], folder: Path) -> _Verdict:
    start = time.perf_counter()
    stored, errors, usable = _held_out(robot, settings, folder)
    seconds = time.perf_counter() - start
    bodies = [stored.standard.inertial(link) for link in stored.robot.links]
    makers = [stored.robot.prior.inertial(link) for link in stored.robot.links]
    alone, makers_alone = _alone(robot, settings, stored, folder)
    classical, bootstrap = _honesty(robot, settings, folder)
    return _Verdict(
        name,
        errors,
        masses=np.array([body[0] for body in bodies]),
        makers=np.array([body[0] for body in makers]),
        physical=judge.physical(bodies),
        loads=_loads(stored),
        usable=usable,
        seconds=seconds,
        classical=classical,
        bootstrap=bootstrap,
        stated=_stated_error(stored),
        alone=alone,
        makers_alone=makers_alone,
    )


def _alone(
    robot: RealRobot, settings: Mapping[str, Any], stored: StoredResult, folder: Path
) -> tuple[dict[str, judge.Errors], dict[str, judge.Errors]]:
    """Return the errors of the identified URDF and of the one it came from, each alone."""
    joints = stored.robot.joints
    experiment = load_experiment(_experiment(robot, settings, robot.identification, folder))
    sources = experiment.sources('validation', joints)
    try:
        texts = (export(stored, 'urdf'), stored.robot.urdf)
    except IdentificationError:
        return {}, {}
    identified, makers = (
        {
            name: judge.urdf_errors(
                text, Recording.concatenate([*source.blocks(_ROWS)]), joints, robot.cutoff
            )
            for name, source in zip(robot.held_out, sources, strict=True)
        }
        for text in texts
    )
    return identified, makers


def _held_out(
    robot: RealRobot, settings: Mapping[str, Any], folder: Path
) -> tuple[StoredResult, dict[str, judge.Errors], bool]:
    """Identify, predict what was held out, and judge the tables; tell whether it is of use."""
    experiment = _experiment(robot, settings, robot.identification, folder)
    result = identify(load_experiment(experiment))
    saved = folder / 'result.yaml'
    write_result(result, saved)
    stored, usable = read_result(saved), verdict(result).level != DO_NOT_USE
    table = folder / 'predictions.csv'
    words = ['validate', stored.path, experiment, '--predictions', table, '--quiet']
    if main([str(word) for word in words]) != 0:
        raise RuntimeError(f'{robot.name}: predicting failed with {settings}')
    count = len(robot.held_out)
    names = [table.with_stem(f'predictions_{i}') for i in range(1, count + 1)]
    files = [table] if count == 1 else names
    errors = {
        name: judge.prediction_errors(file, robot.cutoff)
        for name, file in zip(robot.held_out, files, strict=True)
    }
    return stored, errors, usable


def _identified(
    robot: RealRobot, settings: Mapping[str, Any], recording: Mapping[str, Any], folder: Path
) -> StoredResult:
    """Identify from a recording; return what the result file says."""
    saved = folder / 'result.yaml'
    write_result(identify(load_experiment(_experiment(robot, settings, recording, folder))), saved)
    return read_result(saved)


def _experiment(
    robot: RealRobot, settings: Mapping[str, Any], recording: Mapping[str, Any], folder: Path
) -> Path:
    experiment = folder / 'experiment.yaml'
    experiment.write_text(yaml.safe_dump(robot.document(settings, recording)), encoding='utf-8')
    return experiment


def _loads(stored: StoredResult) -> bool:
    """Return whether simulators take the URDF with the identified parameters."""
    try:
        return judge.loads(export(stored, 'urdf'))
    except IdentificationError:
        return False


def _honesty(robot: RealRobot, settings: Mapping[str, Any], folder: Path) -> tuple[float, float]:
    """
    Return `judge.deviation_ratio` over the repeats, classical and by the block bootstrap.

    Of the parameters that are essential in all of them: where the prior decides, runs agree since
    they share it.
    """
    if not robot.repeats:
        return np.nan, np.nan
    asked = {**settings, 'estimation': {**settings.get('estimation', {}), 'bootstrap': {}}}
    found = [_identified(robot, asked, run, folder) for run in robot.repeats]
    tables = [
        {entry['name']: entry for entry in stored.document['parameters'] if entry['essential']}
        for stored in found
    ]
    common = set.intersection(*map(set, tables))

    def column(*keys: str) -> np.ndarray:
        """Return (runs, parameters) of the first of the keys that entries have."""
        return np.array(
            [
                [
                    float(next(v for k in keys if (v := table[name].get(k)) is not None))
                    for name in sorted(common)
                ]
                for table in tables
            ]
        )

    values = column('value')
    classical, bootstrap = column('classical_std', 'std'), column('bootstrap_std', 'std')
    return judge.deviation_ratio(values, classical), judge.deviation_ratio(values, bootstrap)


def _error_table(robot: RealRobot, verdicts: Sequence[_Verdict]) -> Table:
    joints = [f'joint {i}' for i in range(1, len(robot.robot['joints']) + 1)]
    rows = [
        [
            f'{name}, {verdict.name}',
            *(f'{e:.1f}' for e in verdict.errors[name].joints),
            f'{verdict.errors[name].all:.2f}',
            _all(verdict.alone, name),
            _all(verdict.makers_alone, name),
        ]
        for name in robot.held_out
        for verdict in verdicts
    ]
    return Table(
        ['recording and settings', *joints, 'all', 'URDF alone', 'URDF it came from'],
        rows,
        title=f'{robot.name}: error of the predicted efforts',
        text=f'In per cent; measured and predicted efforts low-passed at {robot.cutoff:g} Hz. A '
        "URDF alone is Pinocchio's inverse dynamics of its text with its `<dynamics>`, of the "
        'motion low-passed likewise.',
    )


def _all(errors: Mapping[str, judge.Errors], name: str) -> str:
    return f'{errors[name].all:.2f}' if name in errors else '-'


def _model_table(robot: RealRobot, verdicts: Sequence[_Verdict]) -> Table:
    rows = [
        [
            verdict.name,
            ' '.join(f'{share:.2f}' for share in verdict.masses / verdict.makers),
            f'{verdict.masses.sum() / verdict.makers.sum():.2f}',
            *('yes' if fact else 'no' for fact in (verdict.physical, verdict.plausible)),
            'yes' if verdict.loads else 'no',
            _number(verdict.classical),
            _number(verdict.bootstrap),
            _number(verdict.stated),
            f'{verdict.seconds:.0f}',
        ]
        for verdict in verdicts
    ]
    heads = [
        'settings',
        "masses by the maker's",
        'total',
        'physical',
        'plausible',
        'URDF loads',
        'spread by classical std',
        'by bootstrap std',
        'stated error %',
        's',
    ]
    return Table(heads, rows, title=f'{robot.name}: the model and its deviations')


def _number(value: float) -> str:
    return f'{value:.2f}' if np.isfinite(value) else '-'


def _fixed_table(
    robot: RealRobot, fixed: Sequence[tuple[Mapping[str, Any], Mapping[str, judge.Errors]]]
) -> Table:
    rows = [
        [
            f'{settings["method"]}, {settings["cutoff"]:g} Hz, to {settings["decimate_to"]:g} Hz',
            *(f'{errors[name].all:.2f}' for name in robot.held_out),
        ]
        for settings, errors in fixed
    ]
    return Table(
        ['signals', *robot.held_out],
        rows,
        title=f'{robot.name}: weighted least squares at fixed settings',
        text='Error over all joints [%].',
    )


def _figures(
    robot: RealRobot, verdicts: Sequence[_Verdict], fixed: Sequence[Mapping[str, judge.Errors]]
) -> Iterator[Figure]:
    by_name = {verdict.name: verdict for verdict in verdicts}
    plain, found = by_name[PLAIN], by_name[DEFAULT]
    for name, errors in found.errors.items():
        bound = BOUNDS.get((robot.name, name))
        yield Figure(f'{robot.name}, {name}', errors.all, '%', at_most=bound)
        share = errors.all / plain.errors[name].all
        limit = BELOW_PLAIN if bound is None else None
        yield Figure(f'{robot.name}, {name}: by plain', share, at_most=limit)
        if name in found.alone:
            yield Figure(
                f'{robot.name}, {name}: URDF alone',
                found.alone[name].all,
                '%',
                at_most=URDF_BOUNDS.get((robot.name, name)),
            )
        best = min(each[name].all for each in fixed)
        title = f'{robot.name}, {name}: by the best fixed setting'
        yield Figure(title, errors.all / best, at_most=1.02)
    share = found.masses / found.makers
    for title, value in (('least', share.min()), ('largest', share.max())):
        yield Figure(
            f"{robot.name}: {title} mass of a link by the maker's",
            float(value),
            at_least=judge.LIGHTEST,
            at_most=judge.HEAVIEST,
        )
    least, most = TOTALS.get(robot.name, (1.0 - judge.TOTAL, 1.0 + judge.TOTAL))
    yield Figure(
        f"{robot.name}: total mass by the maker's",
        float(found.masses.sum() / found.makers.sum()),
        at_least=least,
        at_most=most,
    )
    yield Figure(
        f'{robot.name}: physical, and its URDF loads', found.physical and found.loads, at_least=1
    )
    yield Figure(f'{robot.name}: no verdict against all uses', found.usable, at_least=1)
    if robot.repeats:
        yield Figure(
            f'{robot.name}: spread over the runs by bootstrap deviations',
            found.bootstrap,
            at_least=0.7,
            at_most=1.5,
        )


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep what the commands print, and their warnings, from the terminal."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter('ignore')
        yield
