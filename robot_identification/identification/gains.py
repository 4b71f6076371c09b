# SPDX-License-Identifier: Apache-2.0
"""
Gains of the drives where an experiment leaves them to its recordings.

Their ratios come from the recordings to identify from (`estimation.gain_ratios`), their common
scale from a known load (`estimation.drive_gains`) or, where there is none, from the masses of the
prior.  What follows is an experiment whose gains are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from ..config.experiment import Experiment
from ..config.problem import IdentificationProblem, Recordings
from ..data.recording import RecordingSource, source_name
from ..errors import RecordingError, SettingsError
from ..estimation.bootstrap import variance_inflation
from ..estimation.drive_gains import drive_gains, DriveGains, GAINS, load_on
from ..estimation.gain_ratios import gain_ratios
from ..estimation.row_block import RowBlock
from ..estimation.rows import row_blocks
from ..estimation.system import LinearSystem, system_of
from ..regressor import Regressor
from ..regressor.base_search import structure
from ..support.progress import no_progress, Progress, subrange
from .reduction import is_factor, recordings_among

_ON_SCALE = (
    "the scale of the drives' gains is the one with which the links weigh what the prior says: if "
    'the prior is a few per cent too heavy, so are all efforts, masses and loads; a load of known '
    'mass (data.known_load) settles it'
)


def with_gains(
    experiment: Experiment, *, progress: Progress = no_progress
) -> tuple[Experiment, DriveGains]:
    """
    Find the gains of an experiment's drives.

    Parameters
    ----------
    experiment:
        One with open gains, see `RobotSettings.open_gains`.
    progress:
        Called with the share that is done, and what is being done.

    Returns
    -------
    tuple
        The experiment with these gains, and what is known of them.

    Raises
    ------
    RecordingError
        where a recording cannot be used, or is a factor.
    SettingsError
        where the prior has no masses.
    IdentifiabilityError
        as `gain_ratios`.

    """
    assumed = _assumed(experiment)
    given = experiment.with_gains(assumed)
    problem = IdentificationProblem.from_experiment(given)
    recordings = Recordings.from_experiment(given, problem.robot.joints)
    prior = problem.prior()
    if not any(prior[f'{link}.m'] > 0.0 for link in problem.robot.links):
        raise SettingsError(
            "the gains of the drives are not known, and 'estimation.prior' has no masses to find "
            'their scale with',
            key='estimation.prior',
            value=problem.estimation.prior,
            remedy='take urdf, or give robot.drives.effort.matrix',
        )
    if any(is_factor(source) for source in recordings.identification):
        raise RecordingError(
            'the gains of the drives are not known, and a factor was made with other ones',
            remedy='identify from the recording, or give robot.drives.effort.matrix',
        )
    regressor = problem.regressor()
    base = structure(regressor, problem.robot, grouping=problem.model.grouping)
    sources = recordings_among(recordings.identification)
    reading = subrange(progress, 0.0, 0.8)
    system = system_of(sources, regressor, base, problem.signals, progress=reading, timed=True)
    progress(0.8, 'finding the gains of the drives')
    gains = gain_ratios(system, problem.robot, prior, assumed, model=problem.model)
    given = experiment.with_gains(gains.matrix)
    problem = IdentificationProblem.from_experiment(given)
    recordings = Recordings.from_experiment(given, problem.robot.joints)
    gains = _with_scale(gains, problem, recordings, regressor, system)
    return experiment.with_gains(gains.matrix), gains


def _assumed(experiment: Experiment) -> np.ndarray:
    """Return the (n, n) matrix to start from: the one that is given, or ones."""
    drives = experiment.robot.drives
    if drives is not None and drives.effort is not None:
        return np.array(drives.effort.matrix, dtype=float)
    joints = experiment.robot.joints or experiment.build_robot().joints
    return np.eye(len(joints))


def gains_by_load(
    problem: IdentificationProblem,
    recordings: Recordings,
    regressor: Regressor,
    system: LinearSystem,
) -> DriveGains | None:
    """
    Identify the gains of the drives by the problem's known load.

    Parameters
    ----------
    problem:
        With assumed gains.
    recordings:
        Those to identify from, and those with the load.
    regressor:
        The problem's.
    system:
        Rows of those to identify from: base parameters, and what rows are worth.

    Returns
    -------
    DriveGains or None
        None where there is no known load, or no recording of it.

    Raises
    ------
    SettingsError
        where there is not one recorded effort for each joint.
    IdentifiabilityError
        where what is known of the load cannot be distinguished from what is not.
    RecordingError
        where a recording cannot be used.

    """
    known = problem.known_load
    if known is None or not recordings.known_load:
        return None
    load = load_on(
        problem.robot, known.mass, known.center_of_mass, known.inertia, frame=known.frame
    )
    carrying = recordings_among(recordings.known_load)
    base, joints = system.structure, carrying[0].joints
    effort = None if problem.drives is None else problem.drives.effort
    assumed = np.eye(len(joints)) if effort is None else np.array(effort.matrix)

    def rows(sources: Sequence[RecordingSource]) -> Iterator[RowBlock]:
        blocks = (row_blocks(each, regressor, base, problem.signals) for each in sources)
        return chain.from_iterable(blocks)

    return drive_gains(
        rows(recordings_among(recordings.identification)),
        rows(carrying),
        load,
        base,
        joints,
        assumed,
        method=known.method,
        recordings=[source_name(each) for each in carrying],
        inflation=variance_inflation(system),
    )


def _with_scale(
    gains: DriveGains,
    problem: IdentificationProblem,
    recordings: Recordings,
    regressor: Regressor,
    system: LinearSystem,
) -> DriveGains:
    """Return the gains with the scale of a known load, or with a remark on the one they have."""
    found = gains_by_load(problem, recordings, regressor, system)
    identified = np.zeros(1, dtype=bool) if found is None else np.isfinite(found.factors)
    if found is None or not identified.any():
        return replace(gains, warnings=(*_not_identified(gains), _ON_SCALE))
    scale, std = _common(
        found.factors[identified], found.covariance[np.ix_(identified, identified)]
    )
    assert problem.known_load is not None
    return replace(
        gains,
        factors=scale * gains.factors,
        scale=f'the known load of {problem.known_load.mass:g} kg',
        scale_std=std,
        warnings=_not_identified(gains),
    )


def _common(factors: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Return the factor that all drives have in common, and its relative standard deviation."""
    logarithms = np.log(factors)
    weights = np.linalg.inv(covariance / np.outer(factors, factors))
    total = float(weights.sum())
    mean = float(weights.sum(axis=0) @ logarithms) / total
    rest = logarithms - mean
    # drives that differ by more than noise show how far each may be off
    scatter = float(rest @ weights @ rest) / max(1, factors.size - 1)
    return float(np.exp(mean)), float(np.sqrt(max(1.0, scatter) / total))


def _not_identified(gains: DriveGains) -> tuple[str, ...]:
    """Return a warning for each drive whose ratio the recordings hardly determine."""
    return tuple(
        f"the recordings hardly determine the gain of drive '{drive}' beside the others' "
        f'(to {100.0 * std:.0f} %), so that it stays near the assumed one: move the links beyond '
        'it faster and through more of their range, or identify with a known load'
        for drive, std in zip(gains.drives, gains.std, strict=True)
        if std > GAINS.unidentified_std
    )
