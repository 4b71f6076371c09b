# SPDX-License-Identifier: Apache-2.0
"""
Recordings to factors, and factors to the linear system of the identification.

    problem = IdentificationProblem.from_experiment(experiment)
    factor = FactorBuilder.from_problem(problem).reduce(source)
    result = identify_factors([factor, read_factor('yesterday.factor')])    # in `pipeline`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
import os
from pathlib import Path
from typing import cast, TypeGuard

import numpy as np

from ..config.experiment import Experiment
from ..config.problem import IdentificationProblem
from ..config.sources import FactorSource, Source
from ..data.formats import FACTOR
from ..data.recording_config import RecordingEntry
from ..errors import SettingsError
from ..estimation.energy import ENERGY, require_movers
from ..estimation.estimators import EstimationSettings, ESTIMATORS, RowBuilder
from ..estimation.factor import ModelSignature
from ..estimation.factor_file import (
    FactorSettings,
    merge_error,
    merge_stored,
    Origin,
    StoredFactor,
    warn_repeated,
)
from ..estimation.plot_samples import TRACE_ROWS
from ..estimation.system import combine, LinearSystem, systems_of
from ..excitation.criteria import EarlierInformation, ROW_RATE
from ..model.friction import SLOPES
from ..model.robot_document import robot_document
from ..regressor import Regressor
from ..regressor.base_parameters import BaseStructure
from ..regressor.base_search import drawn_states, structure
from ..selection.friction_slopes import open_slopes
from ..signals import recording_clock, RecordingSource, source_name
from ..support.progress import no_progress, Progress, subrange

_MOTIONS = 4
"""Fixed motions at which regressors are held together."""


@dataclass(frozen=True)
class FactorBuilder:
    """
    Builder of the factors of recordings of one problem; made by `FactorBuilder.from_problem`.

    Attributes
    ----------
    problem:
        The robot and the settings.
    regressor, structure:
        Regressor of the problem, and its base parameters.
    fingerprint, settings:
        Signature of its factors, and the settings that factors depend on.

    """

    problem: IdentificationProblem
    regressor: Regressor
    structure: BaseStructure
    fingerprint: ModelSignature
    settings: FactorSettings

    @classmethod
    def from_problem(
        cls,
        problem: IdentificationProblem,
        regressor: Regressor | None = None,
        base: BaseStructure | None = None,
    ) -> FactorBuilder:
        """Prepare the reduction; an existing regressor and base structure may be given."""
        regressor = problem.regressor() if regressor is None else regressor
        if base is None:
            base = structure(regressor, problem.robot, grouping=problem.model.grouping)
        settings = settings_of(problem)
        names = getattr(regressor, 'joints', problem.robot.joints)
        # of all generators, this one's numbers are promised never to change
        random = np.random.RandomState(20)
        fingerprint = ModelSignature.from_structure(
            base,
            (ENERGY,) if problem.estimation.equations == 'energy' else names,
            regressor=regressor,
            motion=drawn_states(problem.robot, regressor, random, _MOTIONS),
            settings=settings.to_mapping(),
        )
        return cls(problem, regressor, base, fingerprint, settings)

    def reduce(self, source: Source, *, progress: Progress | None = None) -> StoredFactor:
        """
        Make the factor of a recording, in one pass and constant memory.

        Raises
        ------
        RecordingError
            if the recording cannot be used.
        SettingsError
            for a problem that has to find more in the recordings than a factor holds.

        """
        require_slopes(self.problem)
        recording = cast(RecordingSource, source)
        (system,) = self._recorded([recording], progress, trace_points=2)
        return StoredFactor(
            factor=replace(system.factor, fingerprint=self.fingerprint),
            settings=self.settings,
            robot=robot_document(self.problem.robot),
            origins=(_origin(recording),),
            name=self.problem.name or self.problem.robot.name,
            blocks=system.blocks,
        )

    def system(
        self, sources: Sequence[Source], *, progress: Progress | None = None
    ) -> LinearSystem:
        """
        Return the linear system of recordings, stored factors, and opened files of either.

        Raises
        ------
        SettingsError, ModelError
            naming a difference between a factor and the problem.
        RecordingError
            if a recording cannot be used.

        """
        system = combine(self._systems(sources, progress))
        if RowBuilder(self.problem.estimation).by_energy:
            require_movers(system, self.problem.robot.joints)
        return system

    def _systems(
        self, sources: Sequence[Source], progress: Progress | None
    ) -> Iterator[LinearSystem]:
        """Iterate over the systems of the recordings, then of the factors."""
        for recorded in self._recorded(recordings_among(sources), progress):
            factor = replace(recorded.factor, fingerprint=self.fingerprint)
            yield replace(recorded, factor=factor)
        origins: list[Origin] = []
        for source in filter(is_factor, sources):
            stored = source.read() if isinstance(source, FactorSource) else source
            origins += stored.origins
            yield self._stored(stored, source)
        warn_repeated(origins)

    def _recorded(
        self,
        recordings: Sequence[RecordingSource],
        progress: Progress | None,
        trace_points: int = TRACE_ROWS,
    ) -> Iterator[LinearSystem]:
        """Iterate over the systems of recordings."""
        rows = RowBuilder(self.problem.estimation)
        return systems_of(
            recordings,
            self.regressor,
            self.structure,
            self.problem.signals,
            progress=progress,
            trace_points=trace_points,
            read=rows.blocks,
            names=rows.names,
            timed=True,
        )

    def _stored(self, stored: StoredFactor, source: FactorSource | StoredFactor) -> LinearSystem:
        """Return the linear system of a factor that is one of this problem."""
        names = tuple(origin.name for origin in stored.origins)
        difference = self.fingerprint.difference(stored.factor.fingerprint)
        if difference is not None:
            name = source.source if isinstance(source, FactorSource) else ', '.join(names[:2])
            raise merge_error(difference, 'this problem', name)
        return LinearSystem(stored.factor, self.structure, sources=names, blocks=stored.blocks)


def reduce_experiment(
    experiment: Experiment,
    recordings: Sequence[str | os.PathLike] = (),
    *,
    progress: Progress = no_progress,
) -> Iterator[StoredFactor]:
    """
    Iterate over the factors of an experiment's recordings.

    Files or bags in ``recordings`` are read as the first one of ``data.identification``; without
    any, the recordings that are listed there are reduced.

    Raises
    ------
    IdentificationError
        as `FactorBuilder.reduce`, and without any recording.

    """
    if recordings:
        listed = experiment.data.identification
        pattern = listed[0] if listed else RecordingEntry()
        # called as in the file, whose folder relative paths start at
        names = [os.path.relpath(path, experiment.base) for path in recordings]
        entries = [replace(pattern, file=name) for name in names]
        data = replace(experiment.data, identification=tuple(entries))
        experiment = replace(experiment, data=data)
    if not experiment.data.identification:
        raise SettingsError(
            "'data.identification' lists no recording to reduce",
            key='data.identification',
            remedy='give at least one there or as an argument',
        )
    reducer = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment))
    sources = experiment.sources('identification', reducer.problem.robot.joints)
    for number, source in enumerate(sources):
        its_progress = subrange(progress, number / len(sources), (number + 1) / len(sources))
        its_progress(0.0, f'reducing {source.source}')
        yield reducer.reduce(source, progress=its_progress)


def with_factors(experiment: Experiment, files: Sequence[str | os.PathLike]) -> Experiment:
    """
    Return an experiment with factor files, if any, in place of its identification recordings.

    Raises
    ------
    RecordingError
        naming a file that does not exist.

    """
    if not files:
        return experiment
    paths = map(os.path.abspath, files)
    entries = tuple(RecordingEntry(file=path, format=FACTOR.name) for path in paths)
    for entry in entries:
        entry.check_factor()
    return replace(experiment, data=replace(experiment.data, identification=entries))


def is_factor(source: Source) -> TypeGuard[FactorSource | StoredFactor]:
    """Return true for a factor."""
    return isinstance(source, (FactorSource, StoredFactor))


def recordings_among(sources: Iterable[Source]) -> list[RecordingSource]:
    """Return the sources that are no factors."""
    return [cast(RecordingSource, source) for source in sources if not is_factor(source)]


def settings_of(problem: IdentificationProblem) -> FactorSettings:
    """Return the settings of a problem that its factors depend on."""
    return FactorSettings(
        model=problem.model,
        signals=problem.signals,
        equations=problem.estimation.equations,
        energy=problem.estimation.energy,
        effort_kind=problem.effort_kind,
        drives=problem.drives,
    )


def problem_of(
    stored: StoredFactor, estimation: EstimationSettings | None = None
) -> IdentificationProblem:
    """
    Return the problem that a factor was made for; reads its URDF.

    The settings of the estimation are taken as given, except for the equations.
    """
    chosen = EstimationSettings() if estimation is None else estimation
    settings = stored.settings
    return IdentificationProblem(
        robot=stored.build_robot(),
        model=settings.model,
        signals=settings.signals,
        estimation=replace(chosen, equations=settings.equations, energy=settings.energy),
        name=stored.name,
        effort_kind=settings.effort_kind,
        drives=settings.drives,
    )


def require_factors(problem: IdentificationProblem) -> None:
    """
    Require a problem that can be solved from factors alone.

    Raises
    ------
    SettingsError
        naming the method or setting that needs the recordings' rows.

    """
    require_slopes(problem)
    method = problem.estimation.method
    enough = [name for name, each in ESTIMATORS.items() if each.from_factors]
    if method not in enough:
        raise SettingsError(
            f"'estimation.method' is {method}, which has to see the rows of the recordings one by "
            'one; factors do not have them',
            key='estimation.method',
            value=method,
            remedy=f'take {", ".join(enough)}, or identify from the recordings',
        )
    if problem.known_load is not None:
        raise SettingsError(
            "'data.known_load' needs the rows of recordings without the load, which factors do "
            'not have',
            key='data.known_load',
            remedy='leave it out, or identify from the recordings',
        )


def require_slopes(problem: IdentificationProblem) -> None:
    """
    Require a friction model without slopes to be found in the recordings.

    Raises
    ------
    SettingsError
        naming the slopes' key.

    """
    terms = open_slopes(problem.model)
    if terms:
        key = f'robot.{SLOPES[terms[0]]}'
        raise SettingsError(
            f"'{key}' is null, to be found in the recordings, so that their factors would not "
            'merge',
            key=key,
            remedy='identify one recording, and give the slope that its result has',
        )


def _origin(source: RecordingSource) -> Origin:
    """Return the origin of a recording that has been read."""
    return Origin(source_name(source), _start(source), recording_clock(source).duration)


def _start(source: RecordingSource) -> float | None:
    """Return the start of a bag [s since 1970]; None for other files, whose clock is unknown."""
    entry = getattr(source, 'entry', None)
    base = getattr(source, 'base', Path())
    if entry is None:
        return None
    start: float | None
    start, _ = entry.file_format(base).origin(entry.files(base)['position'])
    return start


def earlier_information(factors: Sequence[StoredFactor]) -> EarlierInformation:
    """
    Return what earlier recordings determine, for a plan that is to complement them.

    Parameters
    ----------
    factors:
        At least one, of the same problem.

    Raises
    ------
    IdentificationError
        where the factors are of different problems.

    """
    merged = merge_stored(factors)
    factor = merged.factor
    seconds = sum(origin.duration or 0.0 for origin in merged.origins)
    return EarlierInformation.from_triangles(
        factor.fingerprint.base,
        factor.triangles,
        factor.rows,
        factor.independent_rows,
        # of unknown length, the rows count as they are
        seconds or float(factor.independent_rows.max()) / ROW_RATE,
    )
