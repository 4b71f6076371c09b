# SPDX-License-Identifier: Apache-2.0
"""
The whole way from recordings to identified, checked and validated parameters, on one page.

Each stage takes the value of the one before, which a program may look at, plot, and go on from:

    prepared = prepare(load_experiment('experiment.yaml'))   # problem, opened recordings
    prepared = screen(prepared)                              # disturbed times left out
    chosen = choose(prepared)                                # settings, base parameters
    estimated = estimate(chosen)                             # rows, parameters, deviations
    checked = check(estimated)                               # bodies, other recordings, load
    result = explain(checked)                                # what is wrong with the recordings
"""

from __future__ import annotations

from collections.abc import Sequence

from ..config.experiment import Experiment
from ..config.problem import IdentificationProblem, Recordings
from ..config.sources import Source
from ..estimation.estimators import EstimationSettings
from ..estimation.factor_file import StoredFactor
from ..results.result import Result
from ..support.progress import no_progress, Progress, subrange
from ..support.threads import on_one_thread
from .check import check
from .choose import apply_choice, choose, Chosen
from .estimate import estimate
from .explain import explain
from .prepare import prepare, Prepared
from .reduction import problem_of
from .screen import screen

_GAINS, _CHOICE, _DIAGNOSIS = 0.4, 0.2, 0.7
"""Shares of the work: gains where they are open, then the choice, then all but the diagnosis."""


def identify(experiment: Experiment, *, progress: Progress = no_progress) -> Result:
    """
    Do what an experiment file says, short of writing files; see `saving.save` for that.

    Parameters
    ----------
    experiment:
        See `robot_identification.config.experiment_file.load_experiment`.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        of the kind that fits: a recording that cannot be used, a joint that is not excited, ...

    """
    share = _GAINS if experiment.robot.open_gains else 0.0
    prepared = prepare(experiment, progress=subrange(progress, 0.0, share))
    prepared = screen(prepared)
    progress = subrange(progress, share, 1.0)
    chosen = choose(prepared, progress=subrange(progress, 0.0, _CHOICE))
    return _identified(chosen, subrange(progress, _CHOICE, 1.0))


@on_one_thread
def identify_sources(
    problem: IdentificationProblem,
    sources: Sequence[Source],
    validation: Sequence[Source] = (),
    *,
    loaded: Sequence[Source] = (),
    carrying: Sequence[Source] = (),
    progress: Progress = no_progress,
) -> Result:
    """
    Identify from recordings, check the result, and hold it against other recordings.

    Parameters
    ----------
    problem:
        The robot and the settings.
    sources:
        Recordings to identify from: `Recording` objects or opened files.
    validation:
        Recordings that the identification does not see.
    loaded:
        Recordings with the problem's known load, for the drive gains.
    carrying:
        Recordings with the load that is to be identified.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        as `identify`.

    """
    recordings = Recordings(*map(tuple, (sources, validation, loaded, carrying)))
    return identify_recordings(problem, recordings, progress=progress)


@on_one_thread
def identify_recordings(
    problem: IdentificationProblem, recordings: Recordings, *, progress: Progress = no_progress
) -> Result:
    """Do what `identify_sources` does, with all recordings of a problem."""
    chosen = apply_choice(Prepared(problem, recordings), progress=subrange(progress, 0.0, _CHOICE))
    return _identified(chosen, subrange(progress, _CHOICE, 1.0))


@on_one_thread
def identify_factors(
    factors: Sequence[StoredFactor],
    estimation: EstimationSettings | None = None,
    *,
    validation: Sequence[Source] = (),
    progress: Progress = no_progress,
) -> Result:
    """
    Identify from factors alone; they bring the robot and the settings with them.

    Parameters
    ----------
    factors:
        At least one; all of the same problem.
    estimation:
        How to estimate; a method that needs rows is refused.
    validation, progress:
        As for `identify_sources`; factors will do for the validation, too.

    Raises
    ------
    IdentificationError
        as `identify`, and naming what is not the same in all factors.

    """
    if not factors:
        raise ValueError('there is no factor to identify from')
    problem = problem_of(factors[0], estimation)
    return identify_sources(problem, factors, validation, progress=progress)


def _identified(chosen: Chosen, progress: Progress) -> Result:
    """Go on from the choice to the result."""
    recordings = chosen.prepared.recordings
    total = len(recordings.identification) + len(recordings.validation)
    seen = _DIAGNOSIS * len(recordings.identification) / total
    estimated = estimate(chosen, progress=subrange(progress, 0.0, seen))
    checked = check(estimated, progress=subrange(progress, seen, _DIAGNOSIS))
    return explain(checked, progress=subrange(progress, _DIAGNOSIS, 1.0))
