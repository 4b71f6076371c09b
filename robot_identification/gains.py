# SPDX-License-Identifier: Apache-2.0
"""
Gains of the drives where an experiment leaves them to its recordings.

Their ratios come from the recordings to identify from (`estimation.gain_ratios`), their common
scale from a known load (`estimation.drive_gains`) or, where there is none, from the masses of the
prior.  What follows is an experiment whose gains are given.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .base_parameters import BaseStructure, structure
from .config.experiment import Experiment
from .config.problem import IdentificationProblem
from .data.drives import Drives, EffortDrive
from .errors import RecordingError, SettingsError
from .estimation import system_of
from .estimation.block_covariance import variance_inflation
from .estimation.drive_gains import identify_gains, NOT_TOLD
from .estimation.drive_gains_result import DriveGains, load_on
from .estimation.gain_ratios import gain_ratios
from .progress import part, Progress, silent
from .reduction import is_factor, recordings_among
from .regressor import Regressor


def with_gains(
    experiment: Experiment, *, progress: Progress = silent
) -> tuple[Experiment, DriveGains]:
    """
    Find the gains of an experiment's drives.

    Parameters
    ----------
    experiment:
        One with open gains, see `RobotSettings.open_gains`.
    progress:
        Told about the progress.

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
    given = _driven_by(experiment, assumed)
    problem = IdentificationProblem.of(given)
    prior = problem.prior()
    if not any(prior[f'{link}.m'] > 0.0 for link in problem.robot.links):
        raise SettingsError(
            "the gains of the drives are not known, and 'estimation.prior' has no masses to find "
            'their scale with',
            key='estimation.prior',
            value=problem.estimation.prior,
            remedy='take urdf, or give robot.drives.effort.matrix',
        )
    sources = given.sources('identification', problem.robot.joints)
    if any(is_factor(source) for source in sources):
        raise RecordingError(
            'the gains of the drives are not known, and a factor was made with other ones',
            remedy='identify from the recording, or give robot.drives.effort.matrix',
        )
    regressor = problem.regressor()
    base = structure(regressor, problem.robot, grouping=problem.model.grouping)
    recordings = recordings_among(sources)
    reading = part(progress, 0.0, 0.8)
    system = system_of(recordings, regressor, base, problem.signals, progress=reading, timed=True)
    progress(0.8, 'finding the gains of the drives')
    found = gain_ratios(system, problem.robot, prior, model=problem.model)
    drives = problem.robot.joints
    gains = DriveGains(
        drives=drives,
        factors=found.factors,
        covariance=found.covariance,
        assumed=assumed,
        method='ratios',
        recordings=system.sources,
        reference=drives[found.reference],
        scale="the prior's masses",
    )
    inflation = variance_inflation(system)
    scaled = _by_load(_driven_by(experiment, gains.matrix), gains, regressor, base, inflation)
    gains = replace(gains, warnings=_untold(gains) + _on_scale()) if scaled is None else scaled
    return _driven_by(experiment, gains.matrix), gains


def _assumed(experiment: Experiment) -> np.ndarray:
    """Return the (n, n) matrix to start from: the one that is given, or ones."""
    drives = experiment.robot.drives
    if drives is not None and drives.effort is not None:
        return np.array(drives.effort.matrix, dtype=float)
    joints = experiment.robot.joints or experiment.build_robot().joints
    return np.eye(len(joints))


def _driven_by(experiment: Experiment, matrix: np.ndarray) -> Experiment:
    """Return the experiment with drives of given gains."""
    effort = EffortDrive(tuple(map(tuple, matrix.tolist())))
    drives = replace(experiment.robot.drives or Drives(), effort=effort)
    return replace(experiment, robot=replace(experiment.robot, drives=drives))


def _by_load(
    experiment: Experiment,
    gains: DriveGains,
    regressor: Regressor,
    base: BaseStructure,
    inflation: float,
) -> DriveGains | None:
    """Return the gains with the scale that a known load tells; None where there is none."""
    problem = IdentificationProblem.of(experiment)
    known, joints = problem.known_load, problem.robot.joints
    if known is None:
        return None
    load = load_on(
        problem.robot, known.mass, known.center_of_mass, known.inertia, frame=known.frame
    )
    found = identify_gains(
        recordings_among(experiment.sources('identification', joints)),
        recordings_among(experiment.sources('known_load', joints)),
        load,
        regressor,
        base,
        problem.signals,
        drives=problem.drives,
        method=known.method,
        inflation=inflation,
    )
    told = np.isfinite(found.factors)
    if not told.any():
        return None
    scale, std = _common(found.factors[told], found.covariance[np.ix_(told, told)])
    return replace(
        gains,
        factors=scale * gains.factors,
        scale=f'the known load of {known.mass:g} kg',
        scale_std=std,
        warnings=_untold(gains),
    )


def _common(factors: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """Return the factor that all drives have in common, and its relative standard deviation."""
    logarithms = np.log(factors)
    weights = np.linalg.inv(covariance / np.outer(factors, factors))
    total = float(weights.sum())
    mean = float(weights.sum(axis=0) @ logarithms) / total
    rest = logarithms - mean
    # drives that differ by more than noise tell how far each may be off
    scatter = float(rest @ weights @ rest) / max(1, factors.size - 1)
    return float(np.exp(mean)), float(np.sqrt(max(1.0, scatter) / total))


def _untold(gains: DriveGains) -> tuple[str, ...]:
    """Return a warning for each drive whose ratio the recordings hardly tell."""
    return tuple(
        f"the recordings hardly determine the gain of drive '{drive}' beside the others' "
        f'(to {100.0 * std:.0f} %), so that it stays near the assumed one: move the links beyond '
        'it faster and through more of their range, or identify with a known load'
        for drive, std in zip(gains.drives, gains.std, strict=True)
        if std > NOT_TOLD
    )


def _on_scale() -> tuple[str, ...]:
    """Return the remark on a scale that no measurement has told."""
    return (
        "the scale of the drives' gains is the one with which the links weigh what the prior "
        'says: if the prior is a few per cent too heavy, so are all efforts, masses and loads; '
        'a load of known mass (data.known_load) settles it',
    )
