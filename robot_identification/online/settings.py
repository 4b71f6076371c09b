# SPDX-License-Identifier: Apache-2.0
"""Settings of the live identification, and what cannot be identified live."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..config.problem import IdentificationProblem
from ..data.drives import Drives
from ..errors import SettingsError
from ..options.fields import option
from ..signals import SignalSettings
from . import ChangeSettings


@dataclass(frozen=True)
class OnlineOptions:
    """Parameters ``online.*`` of the identification node."""

    enabled: bool = option(
        False,
        doc='Whether joint_states are followed from the start; the service ~/online/enable '
        'switches that on and off later',
        read_only=True,
    )
    publish_rate: float = option(
        2.0,
        doc='Rate of ~/online/parameters and ~/online/status',
        unit='Hz',
        minimum=0.1,
        maximum=50.0,
        read_only=True,
    )
    state_rate: float | None = option(
        None,
        doc='Rate at which the robot publishes joint_states; null takes it from the stamps of '
        'the first 200',
        unit='Hz',
        minimum=1.0,
        maximum=20000.0,
        read_only=True,
    )
    deadline: float = option(
        0.001,
        doc='An update that takes longer is counted as late',
        unit='s',
        minimum=1e-5,
        read_only=True,
    )
    stale: float = option(
        1.0,
        doc='Time without joint_states after which status and diagnostics warn',
        unit='s',
        minimum=0.01,
        read_only=True,
    )
    memory: float | None = option(
        None,
        doc='Time after which a sample counts 1/e of a new one, so that the estimate follows '
        'slow changes; null for all alike',
        unit='s',
        minimum=0.1,
        read_only=True,
    )
    state: str = option(
        '',
        doc='File state.npz that ~/online/save has written, to go on from; empty: begin with '
        'estimation.prior',
        read_only=True,
    )
    changes: ChangeSettings | None = option(
        None,
        doc='How changes of the robot (payload, friction, collision) are reported on '
        '/diagnostics; null for not at all',
        read_only=True,
    )
    priority: int = option(
        20,
        doc='Real-time priority (SCHED_FIFO) of the process that follows the robot, where the '
        'system allows it; 0 for the usual scheduling',
        minimum=0,
        maximum=99,
        read_only=True,
    )


@dataclass(frozen=True)
class OnlineTask:
    """
    Task of the process of the live identification, with full names; it can be pickled.

    ``system_stamps`` is whether stamps are times of this machine's clock, to be compared with
    it.
    """

    problem: IdentificationProblem
    options: OnlineOptions
    node: str
    joint_states: str
    parameters: str
    status: str
    system_stamps: bool


def online_signals(signals: SignalSettings) -> SignalSettings:
    """
    Return how signals are filtered live: by polynomial approximation, whatever is set for bags.

    Its window, degree and delay, the dead zone and the trim are those of the settings.
    """
    polynomial = replace(signals.polynomial_approximation, projection='composition', stride=None)
    return replace(signals, method='polynomial_approximation', polynomial_approximation=polynomial)


def require_live(problem: IdentificationProblem) -> None:
    """Raise `SettingsError` naming what cannot be identified live."""
    if problem.model.elastic is not None:
        raise SettingsError(
            'elastic joints are not identified live',
            key='robot.elastic',
            remedy='record both sides and call ~/identify',
        )
    require_a_value_a_joint(len(problem.robot.joints), problem.drives)


def require_a_value_a_joint(n: int, drives: Drives | None) -> None:
    """Raise `SettingsError` if the drives of n joints take other than n columns of a signal."""
    for signal, columns in ({} if drives is None else drives.recorded(n)).items():
        if columns != n:
            raise SettingsError(
                f"'robot.drives' takes {columns} columns of {signal} for {n} joints",
                key='robot.drives',
                remedy='live, joint_states have one value a joint',
            )
