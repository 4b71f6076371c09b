# SPDX-License-Identifier: Apache-2.0
"""
Files that leave an identification: what was fitted for them, and what each predicts alone.

A robot description holds less than a model: no friction by load or by the root of the speed, no
offsets, springs or tilt, and not always a rotor inertia.  What is said here is said of the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
import math
from typing import Any

import numpy as np

from ..errors import one_of, SettingsError
from ..estimation.coverage import Coverage, LEVEL

MODEL, ORIGINAL, URDF, URDF_TILTED, MJCF, ISAACLAB = (
    'model',
    'original',
    'urdf',
    'urdf_tilted',
    'mjcf',
    'isaaclab',
)

FILES = {
    MODEL: 'full model',
    ORIGINAL: 'URDF that it came from',
    URDF: 'identified URDF alone',
    URDF_TILTED: 'identified URDF with the tilt in its base',
    MJCF: 'identified MJCF alone',
    ISAACLAB: 'identified URDF and actuators of Isaac Lab',
}
"""What is judged, and what that is called."""


@dataclass(frozen=True)
class JointDynamics:
    """
    Viscous and Coulomb friction that files of a kind have in place of all that they cannot hold.

    Attributes
    ----------
    damping, friction:
        By joint [N m s/rad or N s/m; N m or N]; joints without are as identified.
    one_way:
        Joints that turn one way only, whose friction may have an offset in it.

    """

    damping: Mapping[str, float] = field(default_factory=dict)
    friction: Mapping[str, float] = field(default_factory=dict)
    one_way: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileError:
    """
    Error of the efforts that a file predicts alone.

    Attributes
    ----------
    file:
        One of `FILES`.
    relative_error:
        Of all joints together [%].
    joints:
        Of each joint [%]; NaN where it has no effort.

    """

    file: str
    relative_error: float
    joints: Mapping[str, float]

    @property
    def worst(self) -> str:
        """The joint with the largest error; empty where there is none."""
        known = {joint: error for joint, error in self.joints.items() if math.isfinite(error)}
        return max(known, key=lambda joint: known[joint], default='')


@dataclass(frozen=True)
class ParameterSpread:
    """
    Covariance and noise by which sets of parameters are drawn.

    Attributes
    ----------
    covariance:
        (p, p) of the standard parameters, inflated.
    inflation:
        By how much standard deviations are multiplied in it: what halves of the recordings, and
        joints, differ more than they say, or 1.
    noise:
        Residual of each joint by what sets have of the model, on the identification [N m or N].

    """

    covariance: np.ndarray = field(compare=False)
    inflation: float
    noise: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the covariance as its lower triangle, row by row."""
        rows = [row[: i + 1].tolist() for i, row in enumerate(self.covariance)]
        return {'inflation': self.inflation, 'noise': dict(self.noise), 'covariance': rows}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ParameterSpread:
        """Read what `to_dict` gave; raises SettingsError, KeyError or TypeError for damage."""
        rows = document['covariance']
        if [len(row) for row in rows] != [*range(1, len(rows) + 1)]:
            raise SettingsError('the covariance is no triangle', key='files.spread.covariance')
        lower = np.zeros((len(rows), len(rows)))
        for i, row in enumerate(rows):
            lower[i, : i + 1] = row
        if not np.isfinite(lower).all():
            raise SettingsError('the covariance is not finite', key='files.spread.covariance')
        noise = _values(document['noise'], 'spread.noise', least=0.0)
        return cls(lower + np.tril(lower, -1).T, float(document['inflation']), noise)


@dataclass(frozen=True)
class RecordingErrors:
    """
    Errors of the files on the same rows.

    Attributes
    ----------
    sources:
        Names of the recordings.
    errors:
        Of the files that were judged there, the full model first.
    identified:
        True where the parameters come from these recordings.
    coverage:
        Share of the measured efforts that sets of parameters cover; None where that is not known.
    covered:
        The same by joint, with noise; NaN for joints without an effort.

    """

    sources: tuple[str, ...]
    errors: tuple[FileError, ...]
    identified: bool = False
    coverage: Coverage | None = None
    covered: Mapping[str, float] = field(default_factory=dict)

    def of(self, file: str) -> FileError | None:
        """Return the error of a file; None where it was not judged."""
        return next((error for error in self.errors if error.file == file), None)


@dataclass(frozen=True)
class ExportedFiles:
    """
    Friction of the files of a result, and errors of what each of them predicts alone.

    Attributes
    ----------
    dynamics:
        Friction that was fitted for each of the files.
    recordings:
        Errors on each validation recording; without any, on what was identified from.
    tilt:
        (3,) of the base, a rotation vector of gravity [rad], which a URDF has no place for; zeros
        for none.
    spread:
        By which sets of parameters are drawn; None where none are.

    """

    dynamics: Mapping[str, JointDynamics] = field(default_factory=dict)
    recordings: tuple[RecordingErrors, ...] = ()
    tilt: tuple[float, float, float] = (0.0, 0.0, 0.0)
    spread: ParameterSpread | None = None

    @property
    def tilt_angle(self) -> float:
        """Tilt of the base [degrees]."""
        return math.degrees(math.hypot(*self.tilt))

    def dynamics_of(self, file: str) -> JointDynamics:
        """Return the friction that was fitted for a file; none where all is as identified."""
        return self.dynamics.get(file, JointDynamics())

    def to_dict(self) -> dict[str, Any]:
        """Return the values in the shape of the result file's ``files``."""
        return {
            'tilt': list(self.tilt),
            'dynamics': {file: asdict(each) for file, each in self.dynamics.items()},
            'recordings': [asdict(each) for each in self.recordings],
            'spread': None if self.spread is None else self.spread.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ExportedFiles:
        """Read what `to_dict` gave; raises SettingsError, KeyError or TypeError for damage."""
        spread = document.get('spread')  # files of before have none
        return cls(
            dynamics={
                str(file): JointDynamics(
                    _values(each['damping'], 'damping', least=0.0),
                    _values(each['friction'], 'friction', least=0.0),
                    tuple(map(str, each['one_way'])),
                )
                for file, each in document['dynamics'].items()
            },
            recordings=tuple(map(_recording_errors, document['recordings'])),
            tilt=_vector(document['tilt']),
            spread=None if spread is None else ParameterSpread.from_dict(spread),
        )


def _recording_errors(document: Mapping[str, Any]) -> RecordingErrors:
    coverage = document.get('coverage')
    return RecordingErrors(
        tuple(map(str, document['sources'])),
        tuple(map(_file_error, document['errors'])),
        bool(document['identified']),
        None if coverage is None else Coverage(**coverage),
        _values(document.get('covered', {}), 'covered'),
    )


def _file_error(document: Mapping[str, Any]) -> FileError:
    file = document['file']
    if file not in FILES:
        raise SettingsError(f"file '{file}' is none of {one_of(FILES)}", key='files', value=file)
    error = document['relative_error']
    return FileError(
        file, math.nan if error is None else float(error), _values(document['joints'], 'joints')
    )


def _values(values: Mapping[str, Any], key: str, least: float = -math.inf) -> dict[str, float]:
    """Return numbers by name; None is NaN."""
    found = {str(name): math.nan if v is None else float(v) for name, v in values.items()}
    for name, value in found.items():
        if value < least or math.isinf(value):
            raise SettingsError(f"{key} of '{name}' is {value:g}", key=f'files.{key}', value=value)
    return found


def _vector(values: Any) -> tuple[float, float, float]:
    x, y, z = map(float, values)
    return x, y, z


def file_sentences(
    files: ExportedFiles | None, file: str, name: str = 'this file'
) -> tuple[str, ...]:
    """
    Say what a file predicts alone, beside the model and the URDF that it came from.

    Parameters
    ----------
    files:
        Of a result; None where its files are not judged.
    file:
        One of `FILES`.
    name:
        What it is called.

    Returns
    -------
    tuple of str
        A sentence for each recording, and what else is to be known.

    """
    known = () if files is None else files.recordings
    judged = [(each, error) for each in known if (error := each.of(file)) is not None]
    if files is None or not judged:
        return (f'{name} is not judged alone: no recording shows what it predicts',)
    sentences = [_sentence(each, error, name) for each, error in judged]
    dynamics = files.dynamics_of(URDF if file == URDF_TILTED else file)
    if dynamics.damping or dynamics.friction:
        sentences.append('its damping and friction stand for terms that it cannot hold, too')
    if dynamics.one_way:
        sentences.append(
            f'{one_of(dynamics.one_way)} turned one way only: friction may hold an offset there'
        )
    if any(files.tilt) and file in (URDF, ISAACLAB):
        sentences.append(_tilt_sentence(files))
    return tuple(sentences)


def _sentence(recording: RecordingErrors, error: FileError, name: str) -> str:
    where = one_of(source.rpartition('/')[2] for source in recording.sources)
    if recording.identified:
        where += ', which it was identified from'
    text = f'{name} misses {error.relative_error:.3g} % of the effort on {where}'
    beside = [
        f'{said} {other.relative_error:.3g} %'
        for said, other in (
            ('the full model', recording.of(MODEL)),
            ('the URDF that it came from', recording.of(ORIGINAL)),
        )
        if other is not None and other.file != error.file
    ]
    worst = f'; worst at {error.worst}, {error.joints[error.worst]:.3g} %' if error.worst else ''
    return ', '.join([text, *beside]) + worst


def _tilt_sentence(files: ExportedFiles) -> str:
    """Say what a URDF lacks of the tilt, and what it predicts with it."""
    tilted = [error for each in files.recordings if (error := each.of(URDF_TILTED)) is not None]
    misses = one_of(f'{error.relative_error:.3g} %' for error in tilted)
    then = f': with it, by --tilt-in-base, the URDF misses {misses}' * bool(tilted)
    return f'it lacks the tilt of the base, {files.tilt_angle:.2g} degrees{then}'


def coverage_sentences(files: ExportedFiles) -> tuple[str, ...]:
    """Say what sets of parameters cover of the recordings that the result was validated on."""
    judged = [each for each in files.recordings if each.coverage is not None]
    if not judged:
        return (
            'that they cover other motions was not checked: the result was validated on no '
            'recording (validate with one, or name it in data.validation)',
        )
    said = []
    for each in judged:
        assert each.coverage is not None
        known = {joint: share for joint, share in each.covered.items() if math.isfinite(share)}
        worst = min(known, key=lambda joint: known[joint])
        said.append(
            f'with the noise, {100.0 * LEVEL:g} % of the sets cover '
            f'{100.0 * each.coverage.with_residual:.3g} % of the efforts measured on '
            f'{one_of(each.sources)} ({worst} {100.0 * known[worst]:.3g} %), without it '
            f'{100.0 * each.coverage.sets:.3g} %'
        )
    return tuple(said)
