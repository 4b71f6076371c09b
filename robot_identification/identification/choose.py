# SPDX-License-Identifier: Apache-2.0
"""Choice: settings that the experiment leaves out, base parameters, open slopes of friction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..config.problem import IdentificationProblem
from ..errors import collected_warnings, Notes
from ..estimation.estimators import require_bounds_kept, resolve_method_conflict, RowBuilder
from ..estimation.row_noise import with_row_noise
from ..model.parameters import ParameterSet
from ..regressor import FloatingRegressor
from ..regressor.base_search import structure
from ..selection.friction_slopes import find_slopes, open_slopes
from ..selection.model_selection import can_choose, choose_model, ModelSelection
from ..signals import SignalSettings
from ..support.progress import no_progress, Progress
from .prepare import Prepared
from .reduction import FactorBuilder, is_factor, recordings_among, require_factors
from .stopwatch import Stopwatch


@dataclass(frozen=True)
class Chosen:
    """
    Settings of an identification, and the base parameters that they make.

    Attributes
    ----------
    prepared:
        What they were chosen for.
    problem:
        The robot and all settings.
    builder:
        Regressor, base parameters, and what makes rows of recordings.
    prior:
        Standard parameters before the identification, over the regressor's layout.
    selection:
        What was chosen from the recordings; None where nothing was.
    remarks:
        On the slopes that were found in the recordings.
    choosing, notes:
        Warnings while the settings were chosen, and while base parameters and slopes were found.
    seconds:
        Duration by step.

    """

    prepared: Prepared
    problem: IdentificationProblem
    builder: FactorBuilder
    prior: ParameterSet
    selection: ModelSelection | None = None
    remarks: tuple[str, ...] = ()
    choosing: Notes = field(default_factory=Notes)
    notes: Notes = field(default_factory=Notes)
    seconds: Mapping[str, float] = field(default_factory=dict)


def choose(prepared: Prepared, *, progress: Progress = no_progress) -> Chosen:
    """Choose what the experiment leaves to its recordings; errors as of `prepare`."""
    with collected_warnings() as notes:
        selection = _selection(prepared, progress)
    return replace(apply_choice(prepared, selection), choosing=notes)


def apply_choice(
    prepared: Prepared,
    selection: ModelSelection | None = None,
    *,
    progress: Progress = no_progress,
) -> Chosen:
    """
    Find base parameters and open slopes of friction, for given settings.

    Parameters
    ----------
    prepared:
        Problem and recordings.
    selection:
        Settings in place of the problem's; None for none.
    progress:
        Called with the share that is done, and what is being done.

    Raises
    ------
    IdentificationError
        as `prepare`.

    """
    problem = prepared.problem
    if selection is not None:
        problem = problem.with_selection(selection)
    else:
        problem = replace(problem, signals=_default_signals(prepared))
    require_bounds_kept(problem.estimation)
    sources, watch = prepared.recordings.identification, Stopwatch()
    with collected_warnings() as notes:
        progress(0.0, 'finding the base parameters')
        estimation, remarks = resolve_method_conflict(problem.estimation)
        problem = replace(problem, estimation=estimation)
        found: tuple[str, ...] = ()
        regressor, prior = problem.regressor(), problem.prior()
        RowBuilder(estimation).require(regressor)
        base = None if selection is None else selection.structure
        if base is None:
            base = structure(regressor, problem.robot, grouping=problem.model.grouping)
        watch.lap('structure')
        if any(map(is_factor, sources)):
            require_factors(problem)
        if open_slopes(problem.model):
            slopes = find_slopes(
                recordings_among(sources),
                regressor,
                base,
                problem.model,
                problem.signals,
                progress=progress,
            )
            problem, found = replace(problem, model=slopes.settings(problem.model)), slopes.notes
            watch.lap('friction')
        regressor = problem.regressor()
        if isinstance(regressor, FloatingRegressor):
            regressor = with_row_noise(recordings_among(sources), regressor, base, problem.signals)
            watch.lap('contacts')
        builder = FactorBuilder.from_problem(problem, regressor, base)
    notes[:0] = remarks
    return Chosen(
        prepared,
        problem,
        builder,
        prior,
        selection,
        remarks=found,
        notes=notes,
        seconds=watch.laps,
    )


def _default_signals(prepared: Prepared) -> SignalSettings:
    """Return the settings of the signals, with those of the kind of robot if `auto` may choose."""
    experiment, signals = prepared.experiment, prepared.problem.signals
    if experiment is None or not experiment.auto:
        return signals
    left: dict[str, Any] = {
        key: value
        for key, value in prepared.problem.kind.signals.items()
        if f'signals.{key}' not in experiment.given
    }
    return replace(signals, **left)


def _selection(prepared: Prepared, progress: Progress) -> ModelSelection | None:
    """Choose the settings that the file leaves out; None where nothing can be chosen."""
    experiment, problem = prepared.experiment, prepared.problem
    if experiment is None or not experiment.auto:
        return None
    sources = prepared.recordings.identification
    rows = not RowBuilder(problem.estimation).by_energy
    chooses = can_choose(problem.kind, problem.signals, experiment.given)
    if not (rows and chooses) or any(map(is_factor, sources)):
        return None
    return choose_model(
        recordings_among(sources),
        problem.robot,
        problem.model,
        problem.signals,
        experiment.given,
        progress=progress,
    )
