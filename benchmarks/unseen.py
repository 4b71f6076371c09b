# SPDX-License-Identifier: Apache-2.0
"""
Intervals and predicted errors against recordings that were not identified from.

Two recordings of a robot are identified with the same settings, those chosen on the first one.
Their base parameters should differ by no more than their deviations say, which are inflated by
what halves of a recording, and joints, differ more.  The first one's errors to expect should hold
for the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
import tempfile
from typing import Any

import numpy as np
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.estimation.least_squares import evaluate
from robot_identification.estimation.predicted_errors import MOTIONS
from robot_identification.identification.pipeline import identify, identify_sources
from robot_identification.results.result import Result
from robot_identification.selection.model_selection import choose_model
import yaml

from . import honesty
from .harness import Figure, Section, Table
from .real_recordings import kr300, lwr, med7, panda, RealRobot, tx40, ur10e, xmate7

METHODS = ('physical', 'wls')
FAST = (0.5, 1.2)
"""Speeds of a joint by those that its stated error holds to, between which it is judged."""

NORMAL = 1.96
"""Half the width of a 95 % interval [standard deviations]."""

SEEDS = 3
"""Robots of each simulated arm."""


@dataclass(frozen=True)
class Pair:
    """
    A pair of disjoint recordings of one robot.

    Attributes
    ----------
    robot:
        What it is called.
    distances:
        By method, differences of base parameters by their inflated deviations.
    plain:
        The same by deviations that are not inflated.
    stated, found:
        Errors to expect of each joint, and of all last, and those on the other recording [%].
    speeds:
        Highest speed of each joint there by that which the errors are stated for.
    stated_size, found_size:
        The errors of the joints in N m or N.

    """

    robot: str
    distances: Mapping[str, np.ndarray]
    plain: Mapping[str, np.ndarray]
    stated: np.ndarray
    found: np.ndarray
    speeds: np.ndarray
    stated_size: np.ndarray
    found_size: np.ndarray

    @property
    def held(self) -> np.ndarray:
        """Return which stated figures hold, bool: none counts where any joint is faster."""
        slow, fast = FAST
        if (self.speeds > fast).any():
            return np.empty(0, dtype=bool)
        alike = self.speeds >= slow
        counted = np.isfinite(self.found) & np.append(alike, alike.all())
        return np.asarray((self.found <= self.stated)[counted])

    @property
    def held_size(self) -> np.ndarray:
        """Return which errors hold in N m, of the joints of `held`, bool."""
        if (self.speeds > FAST[1]).any():
            return np.empty(0, dtype=bool)
        return np.asarray((self.found_size <= self.stated_size)[self.speeds >= FAST[0]])


def compared(robot: str, first: Mapping[str, Result], second: Mapping[str, Result]) -> Pair:
    """Return a pair of results of two recordings, by method; of the default one first."""
    distances, plain = {}, {}
    for method in METHODS:
        one, other = first[method], second[method]
        difference = one.estimate.base.values - other.estimate.base.values
        seen = one.estimate.identifiability.excited & other.estimate.identifiability.excited
        for inflated, kept in ((True, distances), (False, plain)):
            square = _variances(one, inflated=inflated) + _variances(other, inflated=inflated)
            known = seen & (square > 0.0)
            kept[method] = np.abs(difference[known]) / np.sqrt(square[known])
    return Pair(robot, distances, plain, *errors(first[METHODS[0]], second[METHODS[0]]))


def _variances(result: Result, *, inflated: bool) -> np.ndarray:
    """Return the variances of base parameters; 0 where none is known."""
    assert result.files is not None and result.files.spread is not None
    if not inflated:
        return np.nan_to_num(np.diag(result.estimate.uncertainty.covariance))
    regrouping, covariance = result.structure.regrouping, result.files.spread.covariance
    return np.asarray(np.einsum('bi,ij,bj->b', regrouping, covariance, regrouping))


def errors(result: Result, other: Result) -> tuple[np.ndarray, ...]:
    """Return what `Pair` has of the errors that a result states, on the rows of another one."""
    predicted = result.predicted
    assert predicted is not None
    ratio = np.asarray(other.system.factor.highest_speed) / np.asarray(predicted.speeds)
    fit = evaluate(other.system, np.asarray(result.estimate.base.values))
    found = [*(joint.relative_error for joint in fit.joints), fit.relative_error]
    stated = [*predicted.relative, predicted.relative_error]
    size = MOTIONS.wide / MOTIONS.contact * np.array(predicted.contact)
    found_size = np.array([joint.rmse for joint in fit.joints])
    return np.array(stated), np.array(found), ratio, size, found_size


# ------------------------------------------------------------------------------ real robots


def real_runs() -> Iterator[tuple[RealRobot, Sequence[Mapping[str, Any]]]]:
    """Iterate over the real robots that are here, and their disjoint recordings."""
    halves = {'TX-40': ((0.06, 3.9), (3.9, 7.7)), 'Panda': ((0.2, 10.3), (10.3, 20.5))}
    for robot in (tx40(), med7(), kr300(), panda(), lwr(), xmate7(), ur10e()):
        if robot.missing:
            continue
        cut = halves.get(robot.name)
        runs: Sequence[Mapping[str, Any]] = (
            robot.identification,
            *robot.further,
            *robot.held_out.values(),
        )
        if cut:
            runs = [{**robot.identification, 'time_range': list(part)} for part in cut]
        yield robot, runs


def real_pairs() -> Iterator[Pair]:
    """Iterate over the pairs of recordings of real robots."""
    for robot, runs in real_runs():
        results = _by_run(replace(robot, further=(), held_out={}), runs)
        yield from (compared(robot.name, a, b) for a, b in combinations(results, 2))


def _by_run(robot: RealRobot, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Result]]:
    """Identify each run by each method, with the settings that are chosen on the first one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'experiment.yaml'

        def identified(content: Mapping[str, Any]) -> Result:
            path.write_text(yaml.safe_dump(dict(content)), encoding='utf-8')
            return identify(load_experiment(path))

        chosen = identified(robot.document({}, runs[0])).experiment
        assert chosen is not None
        estimation = chosen.get('estimation') or {}
        return [
            {
                method: identified(
                    {
                        **chosen,
                        'auto': False,
                        'data': robot.document({}, run)['data'],
                        'estimation': {**estimation, 'method': method},
                    }
                )
                for method in METHODS
            }
            for run in runs
        ]


# ------------------------------------------------------------------------------ simulated arms


def simulated_pair(name: str, plain: IdentificationProblem, a: Recording, b: Recording) -> Pair:
    """Return the pair of two recordings of a simulated arm; settings are chosen on the first."""
    chosen = choose_model([a], plain.robot, plain.model, plain.signals, frozenset())
    problem = plain.with_selection(chosen)

    def by_method(recorded: Recording) -> dict[str, Result]:
        return {
            method: identify_sources(
                replace(problem, estimation=replace(problem.estimation, method=method)),
                [recorded],
            )
            for method in METHODS
        }

    return compared(name, by_method(a), by_method(b))


def simulated_pairs(seeds: int) -> Iterator[Pair]:
    """Iterate over pairs of recordings of the arms of `honesty`, in motions of their own."""
    for name, robot in honesty.arms().items():
        for seed in range(1, seeds + 1):
            first, _ = honesty.recording(robot, seed)
            rates = np.gradient(first.position, first.time, axis=0)
            second, _ = honesty.recording(robot, seed, motion=1, speeds=np.abs(rates).max(axis=0))
            yield simulated_pair(name, honesty.problem(robot), first, second)


# ----------------------------------------------------------------------------------- section


def section(robots: int = SEEDS) -> Section:
    """Return the shares of intervals and of stated errors that hold."""
    return section_of([*simulated_pairs(robots)], [*real_pairs()])


def section_of(simulated: Sequence[Pair], real: Sequence[Pair]) -> Section:
    """Return the section of these pairs."""
    rows, figures = [], []
    for kind, pairs in (('simulated arms', simulated), ('real robots', real)):
        for name in dict.fromkeys(pair.robot for pair in pairs):
            rows.append(_row(name, [pair for pair in pairs if pair.robot == name]))
        if len(pairs):
            rows.append(_row(f'all {kind}', pairs))
            for method in METHODS:
                value = 100.0 * _within([pair.distances[method] for pair in pairs])
                figures.append(Figure(f'intervals, {kind}, {method}', value, '%', 98.0, 92.0))
    if len(simulated):
        held = 100.0 * float(np.concatenate([pair.held for pair in simulated]).mean())
        figures.append(Figure('stated errors that hold, simulated arms', held, '%', at_least=90.0))
        sizes = 100.0 * float(np.concatenate([pair.held_size for pair in simulated]).mean())
        name = 'stated errors in N m that hold, simulated arms'
        figures.append(Figure(name, sizes, '%', at_least=90.0))
    heads = ['robot', 'pairs', 'differences']
    heads += [f'within 95 %, {method}' for method in METHODS]
    heads += [f'not inflated, {method}' for method in METHODS]
    heads += ['stated errors', 'hold %']
    text = (
        'Pairs of disjoint recordings, identified each with the settings that are chosen on the '
        'first recording of the robot: the share of differences of base parameters within 1.96 '
        'of their deviations, which are inflated by what halves of a recording, and joints, '
        'differ more, and by those that are not. With `physical` both results share the prior, '
        'so that what the prior decides agrees; `wls` has the data alone. *Stated errors* are '
        'those that the first result says to expect, where no joint is more than 1.2 times as '
        'fast in the second recording, of the joints that are at least half as fast. Simulated '
        'arms are those above, with the same errors of their models; TX-40 and Panda are cut in '
        'two. '
        'Without the recordings of the real robots, their rows are missing. The figures below '
        'have the stated errors in N m, too.'
    )
    return Section('Other recordings', text, [Table(heads, rows)], figures)


def _row(name: str, pairs: Sequence[Pair]) -> list[str]:
    distances = [[pair.distances[method] for pair in pairs] for method in METHODS]
    plain = [[pair.plain[method] for pair in pairs] for method in METHODS]
    held = np.concatenate([pair.held for pair in pairs])
    return [
        name,
        str(len(pairs)),
        str(sum(map(len, distances[0]))),
        *(f'{100.0 * _within(each):.1f}' for each in (*distances, *plain)),
        str(len(held)),
        f'{100.0 * held.mean():.0f}' if len(held) else '-',
    ]


def _within(distances: Sequence[np.ndarray]) -> float:
    """Return the share of distances within a 95 % interval."""
    return float(np.mean(np.concatenate(distances) <= NORMAL))
