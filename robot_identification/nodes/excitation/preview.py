# SPDX-License-Identifier: Apache-2.0
"""Motions for those who look at them: ``~/preview``, markers and a ghost for RViz, CSV files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
import time
from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Pose, Quaternion, Vector3
import numpy as np
import pinocchio as pin
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from robot_identification_msgs.srv import Preview
from sensor_msgs.msg import JointState
from std_msgs.msg import ColorRGBA, Header
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import Marker, MarkerArray

from ...errors import IdentificationError
from ...excitation.constraints import CollisionError, LimitViolation, Nearest
from ...excitation.plan_file import points_csv
from ...excitation.settings import Obstacle
from ...excitation.trajectories import PointTrajectory, Trajectory
from ...exports.link_paths import link_paths, LinkPaths
from ...untrusted.writing import write_named
from ..common import declare_options, LATCHED, now, read_options, serve, steady_timer
from ..common.messages import message_of
from .motion_checks import MotionCheck
from .options import ExecutionOptions, MotionError, PreviewOptions

PREFIX = 'preview'
"""Begin of the names of its parameters."""

PAUSE = 1.0
"""Rest between two rounds of a motion that is shown again and again [s]."""


class PreviewService:
    """
    The service ``~/preview``: every check on a motion, and the motion for RViz; nothing moves.

    ``check`` carries out the checks; it returns the requested motion, and the error or None.
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
        self._ghost = PreviewPlayback(node, group)
        self.stop = self._ghost.stop
        serve(node, Preview, '~/preview', self._answer, callback_group=group)

    async def _answer(self, request: Preview.Request, response: Preview.Response) -> str:
        response.smallest_distance = float('nan')
        motion, fault = await self._check(request)
        self._show(motion, fault)
        if fault is not None:
            raise fault
        return self._fill(response, motion, request.return_points)

    def _fill(self, response: Preview.Response, motion: MotionCheck, return_points: bool) -> str:
        """Fill the answer for a motion that has passed every check; return its message."""
        found = motion.findings
        assert found is not None
        response.level, response.verdict = found.level, found.verdict()
        points = motion.with_approach
        words = (
            f'a motion of {points.duration:.4g} s',
            found.summary(),
            f'in force are {motion.envelope}',
            motion.remark,
        )
        self._path.publish(message_of(points))
        response.trajectory = points_message(points, return_points)
        for nearest in found.nearest[:1]:
            response.smallest_distance = nearest.distance
            response.nearest = [nearest.first, nearest.second]
        response.joints = list(found.use.joints)
        for name, shares in found.use.quantities.items():
            setattr(response, f'{name}_share', shares.tolist())
        return '; '.join(filter(None, words))

    def _show(self, motion: MotionCheck, fault: MotionError | None) -> None:
        """Publish the lines of the motion, also of one that fails a check, and move the ghost."""
        whole = motion.with_approach
        stamp = now(self._node).to_msg()
        # what fails is the way where there is one, since it is checked last
        cause = None if fault is None else fault.__cause__
        nearest: Sequence[Nearest] = ()
        if isinstance(cause, CollisionError):
            nearest = (cause.nearest,)
        elif fault is None and motion.findings is not None:
            nearest = motion.findings.nearest
        failed = cause if isinstance(cause, (CollisionError, LimitViolation)) else None
        paths, obstacles = link_paths(motion.robot, whole), motion.settings.all_obstacles
        self._markers.publish(marker_array(paths, obstacles, nearest, stamp, failed))
        options = read_options(self._node, PreviewOptions, PREFIX)
        self._ghost.show(whole, motion.robot.locked, options)


class PreviewPlayback:
    """Publisher of joint states that go through a motion, for a second robot_state_publisher."""

    def __init__(self, node: Node, group: CallbackGroup) -> None:
        self._node = node
        self._publisher = node.create_publisher(JointState, '~/preview/joint_states', 10)
        self._trajectory: Trajectory | None = None
        self._locked: Mapping[str, float] = {}
        self._again = False
        self._begin = 0.0
        # steady: it moves while simulated time stands still, too
        self._timer = steady_timer(node, 1.0, self._move, group)
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
                header=Header(stamp=now(self._node).to_msg()),
                name=[*self._trajectory.joints, *self._locked],
                position=[*position.tolist(), *self._locked.values()],
            )
        )
        if elapsed >= end and not self._again:
            self.stop()
        elif elapsed >= end + PAUSE:
            self._begin = time.monotonic()


def points_message(trajectory: PointTrajectory, return_points: bool) -> JointTrajectory:
    """Return a trajectory as a message; one with the joints alone if its points are not wanted."""
    if return_points:
        return message_of(trajectory)
    return JointTrajectory(joint_names=list(trajectory.joints))


# -------------------------------------------------------------------------------------- CSV files


def save_plan(node: Node, name: str, trajectory: PointTrajectory) -> str:
    """
    Write a plan's points as CSV (`points_csv`) below the parameter ``output``; return the path.

    A file that cannot be written is logged, and the path is empty: the plan is good without it.
    """
    folder = read_options(node, ExecutionOptions).output
    if not folder:
        return ''
    # several robots' nodes may be started in one folder
    place = Path(folder).expanduser().absolute() / node.get_namespace().strip('/')
    path = place / f'{name}_{datetime.now():%Y%m%d_%H%M%S}.csv'
    try:
        write_named(path, points_csv(trajectory), with_folder=True)
    except IdentificationError as error:
        node.get_logger().warning(
            f'{name} is not on disk: {error.message}; correct the parameter output, or leave it '
            'empty'
        )
        return ''
    return str(path)


# ---------------------------------------------------------------------------------------- markers

LINE_WIDTH = 0.004  # m
TIP_WIDTH = 0.01  # m
END_DIAMETER = 0.04  # m
TEXT_HEIGHT = 0.05  # m
PLANE_WIDTH = 3.0
"""Edge of the square that stands for an endless plane [m]."""

_PLANE_THICKNESS = 0.002  # m
_STILL = 1e-3  # m, within which a link stays that has no path
_SLOW, _MEDIUM, _FAST = (0.1, 0.3, 1.0, 1.0), (0.2, 0.8, 0.3, 1.0), (1.0, 0.2, 0.1, 1.0)
_START, _END = (0.1, 0.8, 0.2, 0.7), (0.9, 0.1, 0.1, 0.7)
_SOLID = (0.55, 0.55, 0.6, 0.45)  # of obstacles
_NEAREST = (1.0, 0.0, 1.0, 1.0)  # of what is closest, or wrong


def marker_array(
    paths: LinkPaths,
    obstacles: Sequence[Obstacle],
    nearest: Sequence[Nearest],
    stamp: Time,
    failed: CollisionError | LimitViolation | None = None,
) -> MarkerArray:
    """
    Return the markers of a motion; those of an earlier one are deleted.

    The same motion gives the same markers, each with the same namespace and id.

    They are lines along the links' paths, coloured by speed, balls at start and end, the
    obstacles, the pairs that come nearest, and where the motion fails, if it does.
    """
    header = Header(stamp=stamp, frame_id=paths.base)
    markers = [
        Marker(header=header, action=Marker.DELETEALL),
        *_lines(header, paths),
        *_ends(header, paths),
        *_obstacles(header, obstacles),
    ]
    for i, pair in enumerate(nearest):
        markers += _nearest(header, 2 * i, pair)
    if failed is not None:
        place = paths.place_at(failed.time)
        markers.append(_ball(header, 'fault', 0, place, END_DIAMETER, _NEAREST))
        markers.append(_text(header, 'fault', 1, place, str(failed)))
    return MarkerArray(markers=markers)


def _lines(header: Header, paths: LinkPaths) -> Iterable[Marker]:
    """Iterate over the path of each link that leaves its place, coloured by its speed."""
    fastest = max(float(paths.speed.max()), 1e-9)
    first_tip = len(paths.links) - paths.tips
    for i in range(len(paths.links)):
        place = paths.place[:, i]
        if np.ptp(place, axis=0).max() < _STILL:
            continue
        width = TIP_WIDTH if i >= first_tip else LINE_WIDTH
        colors = _colors(paths.speed[:, i] / fastest)
        yield _marker(
            header, 'path', i, Marker.LINE_STRIP, (width, 0.0, 0.0), _SLOW,
            points=[_point(p) for p in place], colors=colors,
        )  # fmt: skip


def _ends(header: Header, paths: LinkPaths) -> Iterable[Marker]:
    """Iterate over balls at the start and at the end of each tip."""
    for i in range(len(paths.links) - paths.tips, len(paths.links)):
        yield _ball(header, 'start', i, paths.place[0, i], END_DIAMETER, _START)
        yield _ball(header, 'end', i, paths.place[-1, i], 0.7 * END_DIAMETER, _END)


def _obstacles(header: Header, obstacles: Sequence[Obstacle]) -> Iterable[Marker]:
    for i, obstacle in enumerate(obstacles):
        frame = header
        if obstacle.link:
            frame = Header(stamp=header.stamp, frame_id=obstacle.link)
        kind, size, pose = Marker.CUBE, obstacle.size, obstacle.placement
        if obstacle.kind == 'sphere':
            kind, size = Marker.SPHERE, (2.0 * obstacle.size[0],) * 3
        elif obstacle.kind == 'cylinder':
            radius, length = obstacle.size
            kind, size = Marker.CYLINDER, (2.0 * radius, 2.0 * radius, length)
        elif obstacle.kind == 'plane':
            size = (PLANE_WIDTH, PLANE_WIDTH, _PLANE_THICKNESS)
            pose = _plane_pose(obstacle)
        yield _marker(
            frame, 'obstacles', i, kind, size, _SOLID, pose,
            frame_locked=bool(obstacle.link), text=obstacle.name,
        )  # fmt: skip


def _plane_pose(obstacle: Obstacle) -> pin.SE3:
    """Pose of a thin plate whose upper side is the plane."""
    normal = obstacle.direction
    turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), normal).matrix()
    return pin.SE3(turn, (obstacle.offset - 0.5 * _PLANE_THICKNESS) * normal)


def _nearest(header: Header, first_id: int, nearest: Nearest) -> list[Marker]:
    first, second = nearest.points
    line = _marker(
        header, 'nearest', first_id, Marker.LINE_LIST, (LINE_WIDTH, 0.0, 0.0), _NEAREST,
        points=[_point(first), _point(second)],
    )  # fmt: skip
    words = f'{1000.0 * nearest.planned:.0f} mm'
    if nearest.distance < nearest.planned:
        words += f', {1000.0 * nearest.distance:.0f} mm with tracking errors'
    words += f': {nearest.first}, {nearest.second}'
    return [line, _text(header, 'nearest', first_id + 1, 0.5 * (first + second), words)]


def _text(header: Header, ns: str, id_: int, place: np.ndarray, words: str) -> Marker:
    pose = pin.SE3(np.eye(3), place + np.array([0.0, 0.0, TEXT_HEIGHT]))
    size = (0.0, 0.0, TEXT_HEIGHT)
    return _marker(header, ns, id_, Marker.TEXT_VIEW_FACING, size, _NEAREST, pose, text=words)


def _ball(
    header: Header, ns: str, id_: int, place: np.ndarray, size: float, color: Sequence[float]
) -> Marker:
    pose = pin.SE3(np.eye(3), place)
    return _marker(header, ns, id_, Marker.SPHERE, (size,) * 3, color, pose)


def _marker(
    header: Header,
    ns: str,
    id_: int,
    kind: int,
    size: Sequence[float],
    color: Sequence[float],
    pose: pin.SE3 | None = None,
    **fields: Any,
) -> Marker:
    pose = pin.SE3.Identity() if pose is None else pose
    x, y, z, w = (float(value) for value in pin.Quaternion(pose.rotation).coeffs())
    return Marker(
        header=header,
        ns=ns,
        id=id_,
        type=kind,
        pose=Pose(position=_point(pose.translation), orientation=Quaternion(x=x, y=y, z=z, w=w)),
        scale=Vector3(**dict(zip('xyz', map(float, size), strict=True))),
        color=_color(color),
        **fields,
    )


def _colors(shares: np.ndarray) -> list[ColorRGBA]:
    """Return colours from blue at rest over green to red at 1."""
    stops = np.array([_SLOW, _MEDIUM, _FAST])
    rgba = np.stack([np.interp(shares, (0.0, 0.5, 1.0), part) for part in stops.T], axis=1)
    return [_color(row) for row in rgba]


def _color(rgba: Sequence[float]) -> ColorRGBA:
    return ColorRGBA(**dict(zip('rgba', map(float, rgba), strict=True)))


def _point(place: np.ndarray) -> Point:
    return Point(**dict(zip('xyz', map(float, place), strict=True)))
