# SPDX-License-Identifier: Apache-2.0
"""
What workers do: a recording becomes a factor, factors become one.

Robot, base parameters and settings come as bytes and are unpacked once in a process; a recording
costs its own reading and arithmetic and little more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
import json
from pathlib import Path
import pickle
import threading
import time
from typing import Any

from .. import __version__
from ..base_parameters import BaseStructure, structure
from ..errors import collected_warnings, IdentificationError, SettingsError
from ..estimation import Equations, Factor, merge_all, open_slopes
from ..io.bag_about import about_bag, BagAbout
from ..io.entry import RecordingEntry
from ..io.experiment import Experiment
from ..io.keys import to_mapping
from ..io.results_yaml import plain
from ..io.sources import open_recording
from ..problem import Problem
from ..regressors import Regressor
from .recordings import fingerprint_of

FROM_FACTORS = ('ols', 'wls', 'physical')
"""Methods that need no second look at the recordings."""

_one_at_a_time = threading.Lock()
"""In a worker with several threads: warnings and regressors are not made for sharing."""


@dataclass(frozen=True)
class Plan:
    """
    What is done with each recording.

    Attributes
    ----------
    problem:
        The robot and the settings.
    structure:
        The base parameters; found once, so that all workers have the same to the last bit.
    entry:
        How recordings are read; each one's file takes the place of its own.

    """

    problem: Problem
    structure: BaseStructure
    entry: RecordingEntry

    @classmethod
    def of(cls, experiment: Experiment) -> Plan:
        """
        Return the plan that an experiment file states; its first recording shows how to read.

        Raises
        ------
        SettingsError
            where the file asks for something that a fleet's factors cannot give.

        """
        problem = Problem.of(experiment)
        _require_factors(problem)
        entries = experiment.data.identification
        entry = entries[0] if entries else RecordingEntry(format='rosbag2')
        # columns may be in files of their own in one recording, but which are another one's?
        if any(
            getattr(getattr(entry, n), 'file', None) for n in ('position', 'velocity', 'effort')
        ):
            raise SettingsError(
                "'data.identification[0]' names a file for each signal, a fleet's recordings are "
                'one file each',
                key='data.identification[0]',
                remedy='name the columns only',
            )
        base = structure(problem.regressor(), problem.robot, grouping=problem.model.grouping)
        return cls(problem, base, replace(entry, file=None))

    def fingerprint(self) -> str:
        """Return a name that differs where recordings would give other factors."""
        robot, problem = self.problem.robot, self.problem
        settings = {
            'joints': robot.joints,
            'locked': dict(robot.locked),
            'gravity': robot.gravity,
            'passive': robot.passive,
            'model': to_mapping(problem.model),
            'signals': to_mapping(problem.signals),
            'equations': problem.estimation.equations,
            'energy': to_mapping(problem.estimation.energy),
            'drives': to_mapping(problem.drives),
            'entry': to_mapping(self.entry),
        }
        text = json.dumps(plain(settings), sort_keys=True)
        return fingerprint_of((__version__, robot.urdf, text))

    def payload(self) -> bytes:
        """Return it as what workers are given."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)


@dataclass(frozen=True)
class Reduced:
    """
    A recording's factor and what else is known of it.

    Attributes
    ----------
    factor:
        Packed.
    about:
        What the bag says of itself.
    samples:
        Samples that it has.
    seconds:
        Time that it took [s].
    warnings:
        What was said about it.

    """

    factor: bytes
    about: BagAbout = field(default_factory=BagAbout)
    samples: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """A recording that cannot be used, and why."""

    reason: str


def reduce_recording(payload: bytes, path: str) -> Reduced | Refused:
    """
    Make the factor of a recording.

    Parameters
    ----------
    payload:
        Of the plan.
    path:
        Of the recording, absolute.

    Raises
    ------
    OSError, IdentificationError
        where trying again may help.

    """
    began = time.perf_counter()
    with _one_at_a_time:
        plan, regressor = unpacked(payload)
        try:
            with collected_warnings() as notes:
                factor = _factor(plan, regressor, path)
        except IdentificationError as error:
            if _may_pass(error):
                raise
            return Refused(str(error))
    return Reduced(
        factor=pack(factor),
        about=_about(plan, path),
        samples=factor.raw_rows,
        seconds=time.perf_counter() - began,
        warnings=tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True)
class Group:
    """
    Packed factors that a worker is given together.

    Attributes
    ----------
    number:
        Its place among all groups.
    factors:
        In order.
    argument:
        What else the task takes.

    """

    number: int
    factors: tuple[bytes, ...]
    argument: Any = None


def merge_group(payload: bytes, group: Group) -> bytes:
    """Merge the factors of a group in their order."""
    with _one_at_a_time:
        return pack(merge_all(map(unpack, group.factors)))


@lru_cache(maxsize=1)
def unpacked(payload: bytes) -> tuple[Plan, Regressor]:
    """Return a plan and its regressor, which are the same for all recordings."""
    plan: Plan = pickle.loads(payload)
    return plan, plan.problem.regressor()


def pack(factor: Factor) -> bytes:
    """Return a factor as the bytes of its file."""
    return pickle.dumps(factor, pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> Factor:
    """Return the factor of a file's bytes."""
    return pickle.loads(data)


def _factor(plan: Plan, regressor: Regressor, path: str) -> Factor:
    problem = plan.problem
    source = open_recording(
        replace(plan.entry, file=path),
        problem.robot.joints,
        problem.drives,
        Path('/'),
        '',
        problem.model.elastic,
    )
    equations = Equations(problem.estimation)
    return equations.system([source], regressor, plan.structure, problem.signals).factor


def _about(plan: Plan, path: str) -> BagAbout:
    entry = replace(plan.entry, file=path)
    return about_bag(Path(path)) if entry.kind() == 'rosbag2' else BagAbout()


def _may_pass(error: BaseException) -> bool:
    """Tell whether it was the file system that failed, and not what was read."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and not isinstance(
            cause, (FileNotFoundError, IsADirectoryError)
        ):
            return True
        cause = cause.__cause__
    return False


def _require_factors(problem: Problem) -> None:
    method = problem.estimation.method
    if method not in FROM_FACTORS:
        raise SettingsError(
            f"'estimation.method' is {method}, which looks at recordings more than once",
            key='estimation.method',
            value=method,
            remedy=f'a fleet takes {", ".join(FROM_FACTORS)}: --set estimation.method=wls',
        )
    if open_slopes(problem.model):
        raise SettingsError(
            'slopes of friction are left to the recordings, which a fleet has no common ones of',
            key='robot.friction',
            remedy='identify one robot first, and write its slopes into the experiment file',
        )
