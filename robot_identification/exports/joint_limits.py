# SPDX-License-Identifier: Apache-2.0
"""
Accelerations that a planner may ask for: what a robot's efforts allow over its workspace.

Planners bound the acceleration of each joint by itself, and efforts depend on all of them, on the
position and on the speed.  In random states within the limits of the URDF, efforts suffice for
accelerations a of whatever signs if, for each joint i,

    |h_i(q, v)| + sum_j |M_ij(q)| a_j <= share * limit_i

with h the efforts without acceleration and M the inertia matrix, rotors included.  The limits are
a for which this holds in the asked share of the states; none of them can be raised alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import IdentificationError, one_of
from ..options.document import dump
from ..regressor.kinds import kind_of
from ..results.tables import ResultView
from ..untrusted.files import load_yaml, read_text, readable

STATES = 4000
"""Random states of the workspace: a share of 95 % of them is known to 0.3 %."""

SHARE, PERCENTILE = 80.0, 95.0
"""Share of the efforts' limits that is used, and of the states in which it suffices [%]."""


@dataclass(frozen=True)
class Workspace:
    """
    Efforts of a robot in random states within its limits.

    Attributes
    ----------
    joints:
        Names of the n joints.
    velocity:
        (n,) limits of the URDF, infinite where it has none [rad/s or m/s].
    without:
        (STATES, n) absolute efforts without acceleration [N m or N].
    inertia:
        (STATES, n, n) absolute entries of the inertia matrix.
    limit:
        (n,) limits of the efforts [N m or N].

    """

    joints: tuple[str, ...]
    velocity: np.ndarray
    without: np.ndarray
    inertia: np.ndarray
    limit: np.ndarray

    def acceleration_limits(
        self, share: float = SHARE, percentile: float = PERCENTILE
    ) -> np.ndarray:
        """
        Return the accelerations that efforts allow, (n,) [rad/s^2 or m/s^2].

        Parameters
        ----------
        share:
            Of the efforts' limits [%].
        percentile:
            Share of the states in which they suffice [%].

        Raises
        ------
        IdentificationError
            naming the joint whose effort does not suffice even without acceleration.

        """
        if not (0.0 < share <= 100.0 and 0.0 < percentile <= 100.0):
            raise IdentificationError(
                f'the share {share:g} % and the percentile {percentile:g} % are not both above 0 '
                'and at most 100',
                remedy=f'leave them out for {SHARE:g} and {PERCENTILE:g}',
            )
        room = 0.01 * share * self.limit - self.without
        rank = 1.0 - 0.01 * percentile

        def alone(joint: int, others: np.ndarray) -> float:
            """Return the largest acceleration of a joint while others have theirs."""
            left = room - self.inertia @ others
            own = np.maximum(self.inertia[:, :, joint], 1e-300)
            return float(np.quantile((left / own).min(axis=1), rank))

        n = len(self.joints)
        largest = np.array([alone(j, np.zeros(n)) for j in range(n)])
        if not (largest > 0.0).all():
            short = int(np.quantile(room, rank, axis=0).argmin())
            raise IdentificationError(
                f'in {100.0 * np.mean(room[:, short] <= 0.0):.0f} % of the states, {share:g} % of '
                f"the effort of joint '{self.joints[short]}' does not suffice even without "
                'acceleration',
                remedy="give a larger share, or a lower percentile, or correct the URDF's limits",
            )
        together = (room / (self.inertia @ largest)).min(axis=1)
        found = max(0.0, float(np.quantile(together, rank))) * largest
        for joint in range(n):
            others = np.where(np.arange(n) == joint, 0.0, found)
            found[joint] = max(found[joint], alone(joint, others))
        return found

    def sufficient(self, acceleration: np.ndarray, share: float = SHARE) -> np.ndarray:
        """Return in which states, (STATES, n) bool, efforts suffice for accelerations (n,)."""
        return self.without + self.inertia @ acceleration <= 0.01 * share * self.limit


def workspace(result: ResultView) -> Workspace:
    """
    Return the efforts of an identified robot in random states, the same each time.

    Positions and speeds are even over the limits of the URDF; joints that turn without limits
    take a whole turn, and those without a limit of the speed stand still.

    Raises
    ------
    IdentificationError
        for robots with elastic joints or closed loops, joints without a limit of the effort, and a
        prismatic joint without limits of its position.

    """
    robot = result.robot
    limits, n = robot.limits, robot.n_joints
    kind = kind_of(robot, result.settings.model)
    if not kind.stiff_tree:
        raise IdentificationError(
            f'efforts of robots with {kind.text} bound no acceleration by joint',
            remedy='leave out the limits of accelerations',
        )
    effort = np.where(limits.effort > 0.0, limits.effort, np.inf)
    boundless = [robot.joints[i] for i in np.flatnonzero(~np.isfinite(effort))]
    if boundless:
        raise IdentificationError(
            f'the URDF has no limits of the efforts of {one_of(boundless)}',
            remedy='give each joint <limit effort="..."/> above 0, and identify again',
        )
    bounds = [limits.lower.copy(), limits.upper.copy()]
    for bound, turn in zip(bounds, (-np.pi, np.pi), strict=True):
        for i in np.flatnonzero(~np.isfinite(bound)):
            if robot.effort_units[i] == 'N':
                raise IdentificationError(
                    f"the URDF does not say how far the joint '{robot.joints[i]}' goes",
                    remedy='give it <limit lower="..." upper="..."/>',
                )
            bound[i] = turn
    rng = np.random.default_rng(0)
    position = rng.uniform(bounds[0], bounds[1], size=(STATES, n))
    fastest = np.where(np.isfinite(limits.velocity), limits.velocity, 0.0)
    velocity = rng.uniform(-1.0, 1.0, size=(STATES, n)) * fastest
    rest = np.zeros_like(velocity)
    still = result.inverse_dynamics(position, rest, rest)
    columns = [
        result.inverse_dynamics(position, rest, rest + np.eye(n)[j]) - still for j in range(n)
    ]
    return Workspace(
        robot.joints,
        limits.velocity,
        np.abs(result.inverse_dynamics(position, velocity, rest)),
        np.abs(np.stack(columns, axis=2)),
        effort,
    )


def moveit_limits(result: ResultView, share: float = SHARE, percentile: float = PERCENTILE) -> str:
    """
    Return MoveIt's ``joint_limits.yaml`` with accelerations that efforts allow.

    Parameters and errors as of `Workspace.acceleration_limits` and `workspace`.
    """
    space = workspace(result)
    accelerations = space.acceleration_limits(share, percentile)
    fastest = np.where(np.isfinite(space.velocity), space.velocity, 0.0)
    joints = {
        joint: {
            'has_velocity_limits': bool(speed),
            'max_velocity': speed,
            'has_acceleration_limits': True,
            # never above what was found, so that a check of the file agrees
            'max_acceleration': float(f'{0.9995 * acceleration:.4g}'),
            'has_jerk_limits': False,
        }
        for joint, speed, acceleration in zip(
            space.joints, fastest.tolist(), accelerations.tolist(), strict=True
        )
    }
    name = ' '.join(result.robot.name.split())
    return (
        f'# Accelerations of {name} for which {share:g} % of its efforts suffice in '
        f'{percentile:g} %\n'
        f"# of {STATES} random states within the URDF's limits, whatever their signs.\n"
    ) + dump({'joint_limits': joints})


def read_accelerations(path: str | os.PathLike, joints: tuple[str, ...]) -> np.ndarray:
    """
    Read the accelerations of joints, (n,), from a ``joint_limits.yaml`` of MoveIt.

    Raises
    ------
    IdentificationError
        naming the file, or the joint that has none.

    """
    path = Path(path)
    with readable(path, "give MoveIt's joint_limits.yaml"):
        document: Any = load_yaml(read_text(path))
    limits = document.get('joint_limits') if isinstance(document, Mapping) else None
    if not isinstance(limits, Mapping):
        raise IdentificationError(
            f"'{path}' has no joint_limits",
            file=str(path),
            remedy="give MoveIt's joint_limits.yaml",
        )
    found = []
    for joint in joints:
        own = limits.get(joint)
        value = own.get('max_acceleration') if isinstance(own, Mapping) else None
        used = isinstance(own, Mapping) and own.get('has_acceleration_limits') is True
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        given = float(value) if number else np.nan  # type: ignore[arg-type]
        if not used or not 0.0 < given < np.inf:
            raise IdentificationError(
                f"'{path}' has no acceleration of joint '{joint}'",
                file=str(path),
                remedy='give has_acceleration_limits: true and a max_acceleration above 0 of '
                f'{one_of(joints)}',
            )
        found.append(given)
    return np.array(found)


def report_on(
    result: ResultView,
    path: str | os.PathLike,
    share: float = SHARE,
    percentile: float = PERCENTILE,
) -> tuple[str, bool]:
    """
    Return a table on the accelerations of a ``joint_limits.yaml``, and whether efforts suffice.

    Parameters and errors as of `moveit_limits` and `read_accelerations`.
    """
    space = workspace(result)
    allowed = space.acceleration_limits(share, percentile)
    given = read_accelerations(path, space.joints)
    sufficient = space.sufficient(given, share)
    whole = 100.0 * float(sufficient.all(axis=1).mean())
    width = max(len('joint'), *map(len, space.joints))
    lines = [f'{"joint":<{width}}{"given":>10}{"allowed":>10}{"suffices in":>13}']
    for row in zip(space.joints, given, allowed, 100.0 * sufficient.mean(axis=0), strict=True):
        joint, asked, most, states = row
        lines.append(f'{joint:<{width}}{asked:>10.4g}{most:>10.4g}{states:>11.1f} %')
    lines.append(
        f'{share:g} % of the efforts suffice in {whole:.1f} % of {STATES} random states, '
        f'and are to suffice in {percentile:g} %'
    )
    return '\n'.join(lines) + '\n', whole >= percentile
