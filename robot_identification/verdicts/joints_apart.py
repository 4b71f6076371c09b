# SPDX-License-Identifier: Apache-2.0
"""
Joints that cost an arm no use: those of grippers, and last ones with hardly any effort.

What is wrong at such a joint is wrong there alone: behind it there is no body of the arm, or
hardly any.  The uses hold for the other joints, and the verdict excepts these by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..diagnosis.recording_faults import revolute
from ..errors import one_of
from ..estimation.estimate import Fit
from ..model.robot import Robot
from .reason import Reason

SMALL_SHARE = 0.01
"""Share of the largest effort below which a last joint's misses move no other joint."""

_BY_ERROR = ('fit', 'validation', 'files')
"""Criteria of which a last joint with hardly any effort is excepted: faults count anywhere."""
_OVER_ALL = ('prediction',)
"""Criteria of all joints together, whose reasons name the worst one."""


@dataclass(frozen=True)
class JointsApart:
    """
    Joints that cost an arm no use.

    Attributes
    ----------
    grippers:
        Those that move bodies of a gripper alone.
    small:
        Other last joints whose effort is small.

    """

    grippers: tuple[str, ...] = ()
    small: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return self.grippers + self.small

    @classmethod
    def from_fit(cls, robot: Robot, fitted: Fit) -> JointsApart:
        """Return those of a robot, with the efforts of a fit."""
        grippers = robot.gripper_joints
        ends = robot.end_joints
        turning = dict(zip(robot.joints, revolute(robot), strict=True))
        sizes = {
            joint.joint: 100.0 * joint.rmse / joint.relative_error
            for joint in fitted.joints
            if turning.get(joint.joint) and joint.relative_error > 0.0
        }
        least = SMALL_SHARE * max(sizes.values(), default=0.0)
        small = tuple(
            joint
            for joint in robot.joints
            if joint in ends and joint not in grippers and sizes.get(joint, least) < least
        )
        return cls(grippers, small)

    def groups(self, joints: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Return joints of the arm and those apart, as groups that are judged each by itself."""
        apart = tuple(joint for joint in joints if joint in self.names)
        return tuple(joint for joint in joints if joint not in apart), apart

    def of_arm(self, reason: Reason) -> Reason:
        """Return a reason as a remark that rules out nothing if it is about these joints alone."""
        names = self.names if reason.criterion in _BY_ERROR else self.grippers
        about = {*reason.joints}
        if reason.remark or not about or not about <= {*names} or reason.criterion in _OVER_ALL:
            return reason
        why = (
            'of the gripper, behind all bodies of the arm'
            if about <= {*self.grippers}
            else f'at the end, with less than {100.0 * SMALL_SHARE:g} % of the largest effort'
        )
        text = f'{one_of(reason.joints)} excepted ({why}): {reason.text}'
        return replace(reason, text=text, rules_out=(), remark=True, excepted=True)


def gripper_links(robot: Robot) -> dict[str, str]:
    """Return the joint whose drive moves each link of a gripper, by link."""
    drives = dict(zip(robot.joints, robot.links, strict=True))
    found = {drives[joint]: joint for joint in robot.gripper_joints}
    for name, mimic in robot.mimics.followed.items():
        if mimic.joint in found.values():
            found[robot.contents.joints[name].child] = mimic.joint
    return found
