# SPDX-License-Identifier: Apache-2.0
"""The service ``~/preview``: every check on a motion, and the motion for RViz; nothing moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
import time

import numpy as np
from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from robot_identification_msgs.srv import Preview
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import MarkerArray

from ...excitation.collision_check import CollisionError, Nearest
from ...excitation.constraints import LimitViolation
from ...excitation.points import PointTrajectory, to_points
from ...excitation.preview_path import outline
from ...excitation.trajectories import Trajectory
from ...options.fields import option
from ..common import (
    declare_options,
    explain,
    LATCHED,
    read_options,
)
from ..common.requests import SERVICES
from .motion_checking import MotionCheck
from .motion_errors import MotionError
from .plan_files import points_message, QUANTITIES
from .preview_markers import Fault, marker_array

PREFIX = 'preview'
"""Of the parameters."""

PAUSE = 1.0
"""Rest between two rounds of a motion that is shown again and again [s]."""


@dataclass(frozen=True)
class PreviewOptions:
    """Settings of the preview of a motion."""

    ghost: str = option(
        'once',
        doc='Whether ~/preview/joint_states goes through a motion that is previewed: off, once, '
        'or loop, again and again until the next one',
        choices=('off', 'once', 'loop'),
    )
    rate: float = option(
        30.0, doc='Joint states per second of the ghost', unit='Hz', minimum=1.0, maximum=200.0
    )


class PreviewService:
    """
    Answers ``~/preview`` and publishes what there is to see.

    Parameters
    ----------
    node, group:
        Who offers the service, and the callback group.
    check:
        Makes the motion that is asked for and starts its checks: returns it, and what awaits them.

    """

    def __init__(
        self,
        node: Node,
        group: CallbackGroup,
        check: Callable[[Preview.Request], Awaitable[tuple[MotionCheck, MotionError | None]]],
    ) -> None:
        self._node, self._check = node, check
        declare_options(node, PreviewOptions, PREFIX)
        self._markers = node.create_publisher(MarkerArray, '~/preview/markers', LATCHED)
        self._path = node.create_publisher(JointTrajectory, '~/preview/trajectory', LATCHED)
        self._ghost = Ghost(node, group)
        node.create_service(
            Preview, '~/preview', self._answer, qos_profile=SERVICES, callback_group=group
        )

    async def _answer(
        self, request: Preview.Request, response: Preview.Response
    ) -> Preview.Response:
        response.smallest_distance = float('nan')
        try:
            motion, fault = await self._check(request)
            self._show(motion, fault)
            if fault is not None:
                raise fault
            self._tell(motion, request.return_points, response)
        except MotionError as error:
            response.success, response.message = False, error.message
        except Exception as error:
            response.success, response.message = False, explain(self._node, error)
        return response

    def _tell(self, motion: MotionCheck, return_points: bool, response: Preview.Response) -> None:
        """Fill the answer for a motion that has passed every check."""
        assert motion.findings is not None
        found = motion.findings
        response.success = True
        seconds = motion.whole.duration
        response.message = f'a motion of {seconds:.4g} s; {found.summary()}'
        points = whole_points(motion)
        self._path.publish(points_message(points))
        response.trajectory = points_message(points, return_points)
        for nearest in found.nearest[:1]:
            response.smallest_distance = nearest.distance
            response.nearest = [nearest.first, nearest.second]
        response.joints = list(found.use.joints)
        for name, shares in found.use.quantities.items():
            setattr(response, f'{name}_share', shares.tolist())

    def _show(self, motion: MotionCheck, fault: MotionError | None) -> None:
        """Publish the lines of the motion, also of one that fails a check, and move the ghost."""
        whole = motion.whole
        stamp = self._node.get_clock().now().to_msg()
        lines = outline(motion.robot, whole)
        nearest = () if motion.findings is None else motion.findings.nearest
        where = None
        if fault is not None:
            nearest, where = seen(fault)
        obstacles = motion.settings.all_obstacles
        self._markers.publish(marker_array(lines, obstacles, nearest, stamp, where))
        self._ghost.show(
            whole, motion.robot.locked, read_options(self._node, PreviewOptions, PREFIX)
        )

    def stop(self) -> None:
        """Let the ghost rest where it is, as a motion of the robot begins."""
        self._ghost.stop()


class Ghost:
    """
    Publishes joint states that go through a motion, for a second robot_state_publisher.

    Parameters
    ----------
    node, group:
        Who publishes, and the callback group of the timer.

    """

    def __init__(self, node: Node, group: CallbackGroup) -> None:
        self._node = node
        self._publisher = node.create_publisher(JointState, '~/preview/joint_states', 10)
        self._trajectory: Trajectory | None = None
        self._locked: Mapping[str, float] = {}
        self._again = False
        self._begin = 0.0
        # steady: there is something to see where simulated time rests, too
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(1.0, self._move, group, clock=steady)
        self._timer.cancel()

    def show(
        self, trajectory: Trajectory, locked: Mapping[str, float], options: PreviewOptions
    ) -> None:
        """Go through a trajectory, from its beginning; the other joints stay ``locked``."""
        self.stop()
        self._trajectory, self._locked = trajectory, locked
        self._again, self._begin = options.ghost == 'loop', time.monotonic()
        if options.ghost != 'off':
            self._timer.timer_period_ns = int(1e9 / options.rate)
            self._timer.reset()

    def stop(self) -> None:
        """Stay where it is."""
        self._timer.cancel()

    def _move(self) -> None:
        assert self._trajectory is not None
        elapsed, end = time.monotonic() - self._begin, self._trajectory.duration
        position = self._trajectory.sample(np.array([min(elapsed, end)])).position[0]
        self._publisher.publish(
            JointState(
                header=Header(stamp=self._node.get_clock().now().to_msg()),
                name=[*self._trajectory.joints, *self._locked],
                position=[*position.tolist(), *self._locked.values()],
            )
        )
        if elapsed >= end and not self._again:
            self.stop()
        elif elapsed >= end + PAUSE:
            self._begin = time.monotonic()


def whole_points(motion: MotionCheck) -> PointTrajectory:
    """Return the way to the start and the motion as one trajectory, by points as they are sent."""
    parts = [to_points(part, motion.options.publish_rate) for part in motion.parts]
    if len(parts) == 1:
        return parts[0]
    way, then = parts
    arrays = (
        # the way ends where the motion begins
        np.concatenate([getattr(way, name), getattr(then, name)[1:]])
        for name in QUANTITIES
    )
    time_ = np.concatenate([way.time, way.duration + then.time[1:]])
    return PointTrajectory(way.joints, time_, *arrays)


def seen(fault: MotionError) -> tuple[tuple[Nearest, ...], Fault | None]:
    """Return where a check fails, as far as that is a place, for the markers."""
    cause = fault.__cause__
    if not isinstance(cause, (CollisionError, LimitViolation)):
        return (), None
    # what fails is the way where there is one, since it is looked at last
    when = Fault(cause.time, str(cause))
    return ((cause.nearest,) if isinstance(cause, CollisionError) else ()), when
