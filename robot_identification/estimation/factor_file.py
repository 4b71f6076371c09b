# SPDX-License-Identifier: Apache-2.0
"""
Factors in files: what is needed of a recording to identify without it.

`factor_archive` has the bytes, this module what they mean; docs/reference/factor_files.md
describes both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
import json
import os
from pathlib import Path
from typing import Any
import warnings

from ..data.drives import Drives
from ..errors import IdentificationError, IdentificationWarning
from ..model.robot import Robot
from ..model.robot_document import read_robot
from ..options.document import plain
from ..options.fields import from_mapping, to_mapping
from ..regressor import ModelSettings
from ..signals import SignalSettings
from ..untrusted.files import read_bytes
from ..untrusted.writing import write_named
from .energy import EnergySettings
from .estimators import EstimationSettings
from .factor import merge_all, QRFactor
from .factor_archive import factor_of, read_archive, unusable, write_archive
from .time_blocks import PARTS, TimeBlocks

SUFFIX = '.factor'
"""How the names of the files end."""

FACTOR_SIZE = 256 << 20
"""Largest size of a factor's file [bytes]."""


@dataclass(frozen=True)
class Origin:
    """
    A recording that a factor comes from.

    Attributes
    ----------
    name:
        What the recording is called.
    start:
        Time of its first sample [s since 1970]; None where the recording does not have it.
    duration:
        Time from the first to the last sample [s]; None where it is not known.

    """

    name: str
    start: float | None = None
    duration: float | None = None


@dataclass(frozen=True)
class FactorSettings:
    """
    Settings that a factor's rows depend on.

    Attributes
    ----------
    model, signals:
        Terms of the dynamic model, and how recordings became samples.
    equations, energy:
        As in `EstimationSettings`.
    effort_kind, drives:
        What the recorded efforts are, and how recorded signals became those at the joints.

    """

    model: ModelSettings
    signals: SignalSettings
    equations: str = 'inverse_dynamics'
    energy: EnergySettings = field(default_factory=EnergySettings)
    effort_kind: str = 'joint_torque'
    drives: Drives | None = None

    def to_mapping(self) -> dict[str, Any]:
        """Return the settings under the keys of the experiment file, as plain values."""
        estimation: dict[str, Any] = {'equations': self.equations}
        if self.equations == 'energy':
            estimation['energy'] = to_mapping(self.energy)
        return plain(
            {
                'robot': {
                    'effort_kind': self.effort_kind,
                    'drives': to_mapping(self.drives),
                    **to_mapping(self.model),
                },
                'signals': to_mapping(self.signals),
                'estimation': estimation,
            }
        )

    @classmethod
    def from_mapping(cls, stored: Mapping[str, Any]) -> FactorSettings:
        """
        Return what `to_mapping` gave; what a newer version has beside it takes its default.

        Raises
        ------
        SettingsError
            naming a key that is unknown or has a wrong value.

        """
        robot = dict(stored['robot'])
        effort_kind, drives = str(robot.pop('effort_kind')), robot.pop('drives')
        estimation = from_mapping(EstimationSettings, stored['estimation'], 'estimation')
        return cls(
            model=from_mapping(ModelSettings, robot, 'robot'),
            signals=from_mapping(SignalSettings, stored['signals'], 'signals'),
            equations=estimation.equations,
            energy=estimation.energy,
            effort_kind=effort_kind,
            drives=None if drives is None else from_mapping(Drives, drives, 'robot.drives'),
        )


@dataclass(frozen=True, eq=False)
class StoredFactor:
    """
    A factor and all that is needed to identify from it.

    Attributes
    ----------
    factor:
        The sufficient statistics of the rows.
    settings:
        What the rows depend on.
    robot:
        The robot with its URDF, as `robot_document` gives it.
    origins:
        The recordings that the rows come from.
    name:
        What a result is called.
    blocks:
        The rows by stretches of the recordings, `PARTS` at most; None where a file of an
        older version does not have them.

    """

    factor: QRFactor
    settings: FactorSettings
    robot: Mapping[str, Any] = field(repr=False)
    origins: tuple[Origin, ...] = ()
    name: str = ''
    blocks: TimeBlocks | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.blocks is not None:
            object.__setattr__(self, 'blocks', self.blocks.at_most(PARTS))

    def build_robot(self) -> Robot:
        """
        Make the robot again.

        Raises
        ------
        SettingsError, ModelError
            where its URDF was changed, or cannot be read.

        """
        return read_robot(self.robot)

    def summary(self) -> str:
        """Return one line for people."""
        factor, recordings = self.factor, len(self.origins)
        lengths = [origin.duration for origin in self.origins]
        text = f'{factor.n_joints} joints, {factor.n_base} base parameters, {factor.n_rows} rows'
        text += f', {recordings} recording{"" if recordings == 1 else "s"}'
        known = [length for length in lengths if length is not None]
        return f'{text} of {sum(known):.4g} s' if len(known) == recordings else text

    def merge(self, other: StoredFactor) -> StoredFactor:
        """Return the factor of the rows of both, with the robot of the first; see `merge_all`."""
        factor = self.factor.merge(other.factor)
        blocks = TimeBlocks.concatenate([self.blocks, other.blocks])
        return replace(self, factor=factor, origins=self.origins + other.origins, blocks=blocks)


def merge_stored(stored: Iterable[StoredFactor]) -> StoredFactor:
    """
    Merge stored factors in a tree that depends on their order alone, see `merge_all`.

    Raises
    ------
    IdentificationError
        naming what is not the same in all of them, and the recordings where it is not.

    """
    first: list[StoredFactor] = []
    origins: list[Origin] = []
    blocks: TimeBlocks | None = None

    def factors() -> Iterable[QRFactor]:
        nonlocal blocks
        for each in stored:
            if not first:
                first.append(each)
                blocks = each.blocks
            else:
                joined = TimeBlocks.concatenate([blocks, each.blocks])
                blocks = joined and joined.at_most(PARTS)
            difference = first[0].factor.fingerprint.difference(each.factor.fingerprint)
            if difference is not None:
                # named are the recordings, since their factors are not those that meet in the tree
                raise merge_error(difference, _names(first[0].origins), _names(each.origins))
            origins.extend(each.origins)
            yield each.factor

    factor = merge_all(factors())
    warn_repeated(origins)
    return replace(first[0], factor=factor, origins=tuple(origins), blocks=blocks)


def warn_repeated(origins: Iterable[Origin]) -> None:
    """
    Warn where a recording is among the origins more than once.

    Recordings are the same where name, start and duration are; one whose start is not known may be
    another of the same name.
    """
    counts = Counter(origin for origin in origins if origin.start is not None)
    repeated = [(origin.name, count) for origin, count in counts.items() if count > 1]
    if repeated:
        name, count = repeated[0]
        more = f' and {len(repeated) - 1} more' if len(repeated) > 1 else ''
        warnings.warn(
            f"recording '{name}'{more} is counted {count} times, so that standard deviations come "
            'out too small: give each factor once, and none that is part of another',
            IdentificationWarning,
            stacklevel=2,
        )


def merge_error(difference: IdentificationError, here: str, there: str) -> IdentificationError:
    """Return the error of two factors' difference with the names of both."""
    return type(difference)(
        f"the factors of {here} ('here') and {there} ('there') do not merge: {difference.message}",
        remedy=difference.remedy,
        joint=difference.joint,
        key=difference.key,
        file=there,
        value=difference.value,
    )


def _names(origins: Sequence[Origin]) -> str:
    names = [origin.name for origin in origins[:2]]
    more = len(origins) - len(names)
    return ', '.join(names) + (f' and {more} more' if more else '') or 'no recording'


def write_factor(stored: StoredFactor, path: str | os.PathLike) -> None:
    """
    Write a factor into a file, which appears whole or not at all.

    Raises
    ------
    IdentificationError
        naming a folder that cannot be written to.

    """
    write_named(Path(path), pack(stored))


def write_factors(
    factors: Iterable[StoredFactor], out: str | os.PathLike
) -> Iterator[tuple[Path, StoredFactor]]:
    """
    Write factors as they come, and yield the files with what is in them.

    They go into files of their own in the folder ``out``, called as their recordings, or merged
    into the file ``out`` that ends in `SUFFIX`.  Raises as `write_factor` and `merge_stored`.
    """
    out = Path(out)
    if out.suffix == SUFFIX:
        merged = merge_stored(factors)
        write_factor(merged, out)
        yield out, merged
        return
    taken: dict[str, int] = {}
    for stored in factors:
        stem = Path(stored.origins[0].name).stem if stored.origins else 'factor'
        taken[stem] = taken.get(stem, 0) + 1
        name = stem if taken[stem] == 1 else f'{stem}-{taken[stem]}'
        path = out / f'{name}{SUFFIX}'
        write_factor(stored, path)
        yield path, stored


def read_factor(path: str | os.PathLike) -> StoredFactor:
    """
    Read a factor that `write_factor` wrote.

    Raises
    ------
    IdentificationError
        naming the file where it does not exist, holds no factor, or is damaged.

    """
    try:
        data = read_bytes(path, FACTOR_SIZE)
    except OSError as error:
        raise IdentificationError(
            f"cannot read factor file '{path}': {error.strerror or error}",
            file=str(path),
            remedy="give a file that 'robot-identification reduce' wrote",
        ) from error
    return unpack(data, str(path))


def _origin(name: Any, start: Any = None, duration: Any = None) -> Origin:
    for value in (start, duration):
        if value is not None and not isinstance(value, (int, float)):
            raise TypeError(f"the time {value!r} of recording '{name}' is not a number")
    return Origin(str(name), start, duration)


@lru_cache(maxsize=16)
def _settings(text: str) -> tuple[FactorSettings, dict[str, Any]]:
    """Read settings, which are the same in thousands of files, once; and as they are now."""
    settings = FactorSettings.from_mapping(json.loads(text))
    return settings, settings.to_mapping()


def pack(stored: StoredFactor) -> bytes:
    """Return a factor as the bytes of its file; the same factor gives the same bytes."""
    about = {
        'name': stored.name,
        'recordings': [asdict(origin) for origin in stored.origins],
        'settings': stored.settings.to_mapping(),
        'robot': plain(stored.robot),
    }
    return write_archive(stored.factor, about, stored.blocks)


def unpack(data: bytes, name: str = 'factor') -> StoredFactor:
    """
    Return the factor of a file's bytes; ``name`` is for messages.

    Raises
    ------
    IdentificationError
        where it is no factor, has another format, or is damaged.

    """
    about, arrays = read_archive(data, name)
    try:
        settings, mapping = _settings(json.dumps(about['settings'], sort_keys=True))
        factor, blocks = factor_of(about, arrays, mapping)
        origins = tuple(_origin(**origin) for origin in about['recordings'])
        robot, title = dict(about['robot']), str(about['name'])
    except IdentificationError as error:
        raise unusable(name, str(error), error.key) from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        reason = f'{error} is missing' if isinstance(error, KeyError) else str(error)
        raise unusable(name, reason) from error
    return StoredFactor(factor, settings, robot, origins, title, blocks)
