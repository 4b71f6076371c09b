# SPDX-License-Identifier: Apache-2.0
"""
Options of ``init`` that recordings speak for: kind of the efforts, their signs, gravity.

Gravity in the recorded efforts has a size and a sign by that of the URDF.  Friction and inertia
tell the efforts' sign once more, whatever gravity is: friction takes power from a motion, and
inertia adds none.  Where both agree that a sign is another one, the driver's differs from that of
the URDF; where gravity alone is reversed at all joints, the base hangs from a ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..data.recording import Motion, Recording
from ..diagnosis.recording_faults import diagnosis_samples
from ..errors import one_of
from ..model.robot import Robot
from ..regressor import build, ModelSettings, predict, prior


@dataclass(frozen=True)
class ProposalConstants:
    """Constants of the conclusions."""

    like: tuple[float, float] = (0.5, 2.0)
    """Sizes of gravity in the efforts that speak for torques at the joints."""
    signed: float = 3.0
    """Factor by which sizes may differ from 1 for their sign to be one."""
    thousand: tuple[float, float] = (400.0, 2500.0)
    """Sizes that speak for mN m, with masses of the URDF that are rough."""
    share: float = 0.1
    """Share of an effort from which its friction, or its inertia, has a sign."""
    alone: float = 0.3
    """The same where gravity says nothing."""


PROPOSAL = ProposalConstants()


@dataclass(frozen=True)
class Proposal:
    """
    Conclusion from the beginnings of recordings.

    Attributes
    ----------
    changes:
        Fields of `robot_identification.drafting.settings.DraftSettings` and their values.
    reason:
        In words.
    certain:
        Whether two effects show a sign that differs from what was given.

    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ''
    certain: bool = False

    @property
    def options(self) -> str:
        """The same as options of ``init``."""
        texts = []
        for name, value in self.changes.items():
            values = [value] if isinstance(value, str) else [f'{number:g}' for number in value]
            texts.append(' '.join([f'--{name.replace("_", "-")}', *values]))
        return ' '.join(texts)

    def __str__(self) -> str:
        return f'{self.reason}: {self.options}'

    def among(self, places: Sequence[int], n_joints: int) -> Proposal:
        """Return the same for more joints, ``places`` (k,) being those that it is for."""
        if 'gains' not in self.changes:
            return self
        gains = np.ones(n_joints)
        gains[list(places)] = self.changes['gains']
        return replace(self, changes={**self.changes, 'gains': tuple(gains.tolist())})


def proposal(
    robot: Robot,
    recordings: Sequence[Recording],
    sizes: Mapping[str, float],
    *,
    effort_kind: str | None,
    gains: np.ndarray,
) -> Proposal | None:
    """
    Return what recordings speak for, where they do; None where they speak for what was given.

    Parameters
    ----------
    robot:
        The robot of the recorded joints, without closed loops.
    recordings:
        Positions at the joints and efforts as recorded.
    sizes:
        Gravity in the efforts by that of the URDF, see
        `robot_identification.diagnosis.gravity_sizes.gravity_sizes`.
    effort_kind:
        As given; None if it is not known.
    gains:
        (n_joints,) effort at the joint by recorded effort, as given; 1 for unknown.

    """
    places = {joint: robot.joints.index(joint) for joint, size in sizes.items() if size}
    # where some efforts have no gravity, that of others is chance
    if not places or len(places) < len(sizes) or effort_kind == 'motor_current':
        return None
    seen = {joint: sizes[joint] * gains[place] for joint, place in places.items()}
    middle = float(np.median(np.abs(list(seen.values()))))
    given = (gains != 1.0).any()
    kind, scale = effort_kind, 1.0
    if kind is None and PROPOSAL.like[0] <= middle <= PROPOSAL.like[1]:
        kind = 'motor_torque' if given else 'joint_torque'
    elif kind is None and not given and PROPOSAL.thousand[0] < middle < PROPOSAL.thousand[1]:
        kind, scale = 'motor_torque', 1e-3
    if kind is None:
        return None
    changes: dict[str, Any] = {} if effort_kind else {'effort_kind': kind}
    found = Proposal(reason=_KINDS[kind] if scale == 1.0 else _KINDS['mN m'])
    if 1.0 / PROPOSAL.signed < scale * middle < PROPOSAL.signed:
        by_gravity = np.zeros(robot.n_joints)
        by_gravity[list(places.values())] = np.sign(list(seen.values()))
        shares = np.sign(gains) * effort_shares(robot, recordings)
        least = np.where(by_gravity == 0.0, PROPOSAL.alone, PROPOSAL.share)
        votes = np.where(np.abs(shares) > least, np.sign(shares), 0.0)
        if (by_gravity * votes < 0.0).any() and not _hangs(by_gravity, votes):
            return None  # another cause, such as a zero offset, for `diagnose` to find
        found = _signed(robot, by_gravity, votes) or found
    changes.update(found.changes)
    if scale != 1.0:
        signs = changes.get('gains', np.ones(robot.n_joints))
        changes['gains'] = tuple((scale * np.array(signs)).tolist())
    return replace(found, changes=changes) if changes else None


def _signed(robot: Robot, by_gravity: np.ndarray, votes: np.ndarray) -> Proposal | None:
    """
    Return what signs of the efforts speak for, by gravity and by friction or inertia.

    Both are (n_joints,), 0 for unknown.  Of motor torques, gear ratios count beside the gains.
    """
    turned = by_gravity < 0.0
    if _hangs(by_gravity, votes):
        return Proposal(
            {'gravity': tuple((0.0 - robot.gravity).tolist())},
            f'gravity is reversed at {_named(robot, turned)}, friction is not',
            certain=bool((votes[turned] > 0.0).all()),
        )
    flipped = turned | ((votes < 0.0) & (by_gravity == 0.0))
    every = bool(turned.any() and (by_gravity <= 0.0).all())
    if every:
        flipped |= votes == 0.0
    if not flipped.any():
        return None
    return Proposal(
        {'gains': tuple(np.where(flipped, -1.0, 1.0).tolist())},
        f'the efforts have the other sign at {_named(robot, flipped)}',
        certain=bool((turned & (votes < 0.0)).any() or (every and flipped.all() and votes.any())),
    )


def _hangs(by_gravity: np.ndarray, votes: np.ndarray) -> bool:
    """Return whether gravity alone is reversed, at all joints that show it."""
    turned = by_gravity < 0.0
    return bool(turned.any() and (by_gravity <= 0.0).all() and _agree(votes[turned]))


def _agree(votes: np.ndarray) -> bool:
    """Return whether signs are positive, as far as they are known, which at least one is."""
    return bool((votes >= 0.0).all() and (votes > 0.0).any())


def _named(robot: Robot, chosen: np.ndarray) -> str:
    return one_of([robot.joints[j] for j in np.flatnonzero(chosen)])


_KINDS = {
    'joint_torque': 'gravity in the efforts is about that of the URDF',
    'motor_torque': 'gravity in the efforts by the ratios given is about that of the URDF',
    'mN m': 'gravity in the efforts is about a thousand times that of the URDF, as in mN m',
}


def effort_shares(robot: Robot, recordings: Sequence[Recording]) -> np.ndarray:
    """
    Return (n_joints,) shares of the efforts that friction or inertia is, with their signs.

    That is what the motion loses by friction, or what inertia takes, whichever is larger: neither
    depends on gravity.  Negative shares are those of efforts with the other sign; 0 for unknown,
    as where both differ in sign.
    """
    shares = np.zeros(robot.n_joints)
    observed = diagnosis_samples(recordings)
    if observed is None:
        return shares
    motion, plain = observed.motion, ModelSettings(friction=(), rotor_inertia=False)
    regressor, bodies = build(robot, plain), prior(robot, plain)
    still = np.zeros_like(motion.velocity)
    weight = predict(regressor, Motion(motion.position, still, still), bodies)
    inertial = predict(regressor, motion, bodies) - weight
    for j in range(robot.n_joints):
        speed, effort = motion.velocity[:, j], observed.effort[:, j]
        moves = abs(speed) > 0.02 * abs(speed).max()
        friction = [speed, np.sign(speed) * moves]
        rows = np.stack([weight[:, j], inertial[:, j], *friction, np.ones_like(speed)], axis=1)
        found = np.linalg.lstsq(rows, effort, rcond=1e-9)[0]
        lost, size = rows[:, 2:4] @ found[2:4], max(float(np.std(effort)), 1e-300)
        power = float(np.mean(lost * speed)) / max(float(np.sqrt(np.mean(speed**2))), 1e-300)
        moved = float(found[1] * np.std(inertial[:, j]))
        stronger = max(power, moved, key=abs)  # torque sensors behind the gear see no friction
        weaker = min(power, moved, key=abs)
        contrary = power * moved < 0.0 and abs(weaker) > PROPOSAL.share * size
        shares[j] = 0.0 if contrary else stronger / size
    return shares
