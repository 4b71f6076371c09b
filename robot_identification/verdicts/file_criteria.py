# SPDX-License-Identifier: Apache-2.0
"""Criterion of files: what the URDF that leaves predicts alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..estimation.validation import Validation
from ..results.exported_files import (
    FileError,
    FILES,
    ISAACLAB,
    MJCF,
    MODEL,
    ORIGINAL,
    RecordingErrors,
    URDF,
    URDF_TILTED,
)
from ..results.result import Result
from ..version import page
from .fit_criteria import (
    EXTRAPOLATING_SPEED,
    LARGE_ERROR,
    NONE_APART,
    shows_nothing,
    SMALL_ERROR,
    speed_ratios,
    unseen,
    USELESS_ERROR,
)
from .joints_apart import JointsApart
from .reason import CONTROL, Reason, SIMULATION

SIMULATION_ERROR = 30.0
"""Error of a file [%] above which a simulator's robot is another one: wider than usual ranges."""

SHORT_NAMES = {URDF: 'URDF', MJCF: 'MJCF', ISAACLAB: 'Isaac Lab'}
"""Names of the files that are judged, in a word."""

MUCH_LESS = 0.9
"""Ratio of errors below which another file is named in place of one."""

_OPTIONS = {
    URDF_TILTED: '--format urdf --tilt-in-base',
    MJCF: '--format mjcf',
    MODEL: '--format c',
}
"""Options of the command that writes a file."""

_TARGETS = {'mjcf': MJCF, 'mjlab': MJCF, 'isaaclab': ISAACLAB}
"""File that is simulated where the experiment names its target; else the URDF."""


def files(result: Result) -> Iterator[Reason]:
    """Iterate over what errors of files alone rule out: computed torque and simulation."""
    simulated = simulated_file(result)
    speeds = result.system.factor.highest_speed
    apart = JointsApart.from_fit(result.robot, result.estimate.fit)
    yield from file_reasons(list(_recordings(result)), speeds, unseen(result), simulated, apart)


def file_reasons(
    judged: Sequence[tuple[RecordingErrors, Validation | None]],
    speeds: np.ndarray,
    validations: Sequence[Validation],
    simulated: str = URDF,
    apart: JointsApart = NONE_APART,
) -> Iterator[Reason]:
    """
    Iterate over the reasons of files, one for each at most.

    Parameters
    ----------
    judged:
        Errors of the files, with the validations on the same recordings.
    speeds:
        (n,) highest speeds of the identification [rad/s or m/s]; NaN where not known.
    validations:
        All on recordings that the identification has not seen.
    simulated:
        The file that a simulator takes; computed torque is by the URDF.
    apart:
        Joints that count where no others do.

    """

    def extrapolates(seen: Validation) -> bool:
        ratios = np.nan_to_num(speed_ratios(speeds, [seen]))
        return bool(ratios.max(initial=0.0) > EXTRAPOLATING_SPEED)

    # within the speeds of the identification another recording shows that it holds
    within = any(not extrapolates(seen) for seen in validations)
    for file, uses in _uses(simulated).items():
        found = []
        for recording, seen in judged:
            if seen is not None and shows_nothing(seen):
                continue
            error = recording.of(file)
            reason = None if error is None else _reason(recording, error, uses, apart)
            if reason is not None:
                harmless = within and seen is not None and extrapolates(seen)
                found.append(replace(reason, rules_out=()) if harmless else reason)
        if found:
            yield max(
                found, key=lambda one: (len(one.rules_out), not one.remark, one.value or 0.0)
            )


def _uses(simulated: str) -> dict[str, tuple[str, ...]]:
    """Return the uses that are words about a file, by file."""
    if simulated == URDF:
        return {URDF: (CONTROL, SIMULATION)}
    return {URDF: (CONTROL,), simulated: (SIMULATION,)}


def simulated_file(result: Result) -> str:
    """Return the file that is simulated, by the target that the experiment names."""
    simulation = (result.experiment or {}).get('simulation') or {}
    return _TARGETS.get(str(simulation.get('target', '')), URDF)


def _recordings(result: Result) -> Iterator[tuple[RecordingErrors, Validation | None]]:
    """Iterate over the recordings that count, with their validations."""
    recordings = () if result.files is None else result.files.recordings
    if not result.validations:
        yield from ((recording, None) for recording in recordings)
        return
    counted = unseen(result)
    for seen, recording in zip(result.validations, recordings):
        if any(seen is each for each in counted):
            yield recording, seen


def _reason(
    recording: RecordingErrors, error: FileError, uses: tuple[str, ...], apart: JointsApart
) -> Reason | None:
    """Return what a file misses, and what that speaks against; None where it is not known."""
    original, value = recording.of(ORIGINAL), error.relative_error
    if not np.isfinite(value):
        return None
    out: tuple[str, ...] = ()
    bound, at = LARGE_ERROR, ''
    large = tuple(j for j, missed in error.joints.items() if missed > USELESS_ERROR)
    joints = next(filter(None, apart.groups(large)), ())
    if value > SIMULATION_ERROR:
        out, bound = uses, SIMULATION_ERROR
    elif original is not None and value > max(SMALL_ERROR, original.relative_error):
        out, bound = uses, max(SMALL_ERROR, original.relative_error)
    elif value > LARGE_ERROR:
        out = _without_simulation(uses)
    elif joints:
        # a feedforward that misses more than half of a joint's effort is none for that joint
        out, bound = _without_simulation(uses), USELESS_ERROR
        at = max(joints, key=lambda joint: error.joints[joint])
    return Reason(
        text=_text(recording, error, at),
        rules_out=out,
        joints=joints,
        value=value if not at else error.joints[at],
        threshold=bound,
        unit='%',
        short=f'{SHORT_NAMES[error.file]} alone misses {value:.3g} %'
        if not at
        else f'{SHORT_NAMES[error.file]} misses {error.joints[at]:.3g} % at {at}',
        next_step=_step(recording, error) if out else '',
        command=_command(recording, error, out),
        remark=not out,
    )


def _without_simulation(uses: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(use for use in uses if use != SIMULATION)


def _text(recording: RecordingErrors, error: FileError, joint: str) -> str:
    """Return what a file misses, beside the full model and the URDF that it came from."""

    def missed(of: FileError) -> str:
        return f'{of.relative_error if not joint else of.joints[joint]:.3g} %'

    where = ', '.join(source.rpartition('/')[2] for source in recording.sources)
    where += ', which it was identified from' * recording.identified
    at = '' if not joint else f' of {joint}'
    beside = [
        f'{name} {missed(other)}'
        for name, file in (('the full model', MODEL), ('the URDF that it came from', ORIGINAL))
        if (other := recording.of(file)) is not None
    ]
    said = f' ({", ".join(beside)})' if beside else ''
    return f'the {FILES[error.file]} misses {missed(error)} of the effort{at} on {where}{said}'


def _command(recording: RecordingErrors, error: FileError, uses: tuple[str, ...]) -> str:
    """Return what writes a file that misses less, for all ``uses`` that are ruled out."""
    missed = {file: other.relative_error for file, other in _better(recording, error).items()}
    if SIMULATION in uses:  # no simulator takes the full model
        missed.pop(MODEL, None)
    if not uses or not missed:
        return ''
    best = min(missed, key=missed.__getitem__)
    return f'robot-identification export {{result}} {_OPTIONS[best]}'


def _better(recording: RecordingErrors, error: FileError) -> dict[str, FileError]:
    """Return what misses clearly less than a file, by name."""
    others = {file: recording.of(file) for file in _OPTIONS}
    return {
        file: other
        for file, other in others.items()
        if other is not None and other.relative_error < MUCH_LESS * error.relative_error
    }


def _step(recording: RecordingErrors, error: FileError) -> str:
    """Return which file misses less."""
    names = {URDF_TILTED: '--tilt-in-base', MJCF: _OPTIONS[MJCF]}
    better = [
        f'{names[file]} ({other.relative_error:.3g} %)'
        for file, other in _better(recording, error).items()
        if file in names
    ]
    if (model := recording.of(MODEL)) is not None:
        better.append(f'{_OPTIONS[MODEL]}, which has all terms ({model.relative_error:.3g} %)')
    return f'export with {", or ".join(better)} ({page("how_to/export")})'
