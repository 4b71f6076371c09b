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

from ..errors import one_of, SettingsError

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

    """

    sources: tuple[str, ...]
    errors: tuple[FileError, ...]
    identified: bool = False

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

    """

    dynamics: Mapping[str, JointDynamics] = field(default_factory=dict)
    recordings: tuple[RecordingErrors, ...] = ()
    tilt: tuple[float, float, float] = (0.0, 0.0, 0.0)

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
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ExportedFiles:
        """Read what `to_dict` gave; raises SettingsError, KeyError or TypeError for damage."""
        return cls(
            dynamics={
                str(file): JointDynamics(
                    _values(each['damping'], 'damping', least=0.0),
                    _values(each['friction'], 'friction', least=0.0),
                    tuple(map(str, each['one_way'])),
                )
                for file, each in document['dynamics'].items()
            },
            recordings=tuple(
                RecordingErrors(
                    tuple(map(str, each['sources'])),
                    tuple(map(_file_error, each['errors'])),
                    bool(each['identified']),
                )
                for each in document['recordings']
            ),
            tilt=_vector(document['tilt']),
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
