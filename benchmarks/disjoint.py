# SPDX-License-Identifier: Apache-2.0
"""
Intervals and predicted errors against recordings that were not identified from.

Two recordings of a robot are identified with the same settings, those chosen on the first one.
Their base parameters should differ by no more than their deviations say, which are inflated by
what halves of a recording differ more.  The first one's errors to expect should hold for the
other.
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
from robot_identification.identification.pipeline import identify, identify_sources
from robot_identification.results.result import Result
import yaml

from .real_recordings import kr300, lwr, med7, panda, RealRobot, tx40, ur10e, xmate7

METHODS = ('physical', 'wls')
SLOW = 1.2
"""Ratio to the identified speeds above which nothing is said of another motion."""


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
        Errors to expect of each joint, and of all last, and those on the other recording [%];
        empty where that is faster.

    """

    robot: str
    distances: Mapping[str, np.ndarray]
    plain: Mapping[str, np.ndarray]
    stated: np.ndarray
    found: np.ndarray

    @property
    def held(self) -> np.ndarray:
        """Which of the stated figures hold, bool."""
        return np.asarray(self.found <= self.stated)


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
    stated, found = errors(first[METHODS[0]], second[METHODS[0]])
    return Pair(robot, distances, plain, stated, found)


def _variances(result: Result, *, inflated: bool) -> np.ndarray:
    """Return the variances of base parameters; 0 where none is known."""
    assert result.files is not None and result.files.spread is not None
    spread = result.files.spread
    regrouping = result.structure.regrouping
    found = np.einsum('bi,ij,bj->b', regrouping, spread.covariance, regrouping)
    return np.asarray(found if inflated else found / spread.inflation**2)


def errors(result: Result, other: Result) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors that a result states, and those on the rows of another one [%]."""
    predicted = result.predicted
    fastest = np.asarray(other.system.factor.highest_speed)
    if predicted is None or (fastest > SLOW * np.asarray(predicted.speeds)).any():
        return np.empty(0), np.empty(0)
    from robot_identification.estimation.least_squares import evaluate

    fit = evaluate(other.system, np.asarray(result.estimate.base.values))
    found = [*(joint.relative_error for joint in fit.joints), fit.relative_error]
    stated = [*predicted.relative, predicted.relative_error]
    known = np.isfinite(found)
    return np.array(stated)[known], np.array(found)[known]


# ------------------------------------------------------------------------------ real robots


def real_runs() -> Iterator[tuple[RealRobot, Sequence[Mapping[str, Any]]]]:
    """Iterate over the real robots that are here, and their disjoint recordings."""
    halves = {'TX-40': ((0.06, 3.9), (3.9, 7.7)), 'Panda': ((0.2, 10.3), (10.3, 20.5))}
    for robot in (ur10e(), tx40(), med7(), kr300(), panda(), lwr(), xmate7()):
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
    from robot_identification.selection.model_selection import choose_model

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
