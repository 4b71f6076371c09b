# SPDX-License-Identifier: Apache-2.0
"""A checked motion as markers for RViz: lines coloured by speed, obstacles, the nearest pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Pose, Quaternion, Vector3
import numpy as np
import pinocchio as pin
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from ...excitation.collision_check import Nearest
from ...excitation.obstacles import Obstacle
from ...excitation.preview_path import Outline

LINE_WIDTH = 0.004
TIP_WIDTH = 0.01
END_DIAMETER = 0.04
TEXT_HEIGHT = 0.05
PLANE_WIDTH = 3.0
"""Edge of the square that stands for an endless plane [m]."""

_PLANE_THICKNESS = 0.002
_STILL = 1e-3
_SLOW, _MEDIUM, _FAST = (0.1, 0.3, 1.0), (0.2, 0.8, 0.3), (1.0, 0.2, 0.1)
_START, _END = (0.1, 0.8, 0.2, 0.7), (0.9, 0.1, 0.1, 0.7)
_SOLID = (0.55, 0.55, 0.6, 0.45)
_NEAREST = (1.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Fault:
    """Time of a failed check [s], and its message."""

    time: float
    words: str


def marker_array(
    outline: Outline,
    obstacles: Sequence[Obstacle],
    nearest: Sequence[Nearest],
    stamp: Time,
    fault: Fault | None = None,
) -> MarkerArray:
    """
    Return everything there is to see, after what takes earlier markers away.

    The same motion gives the same markers, each with the same namespace and id.

    Parameters
    ----------
    outline:
        Lines of the links.
    obstacles:
        Floor, planes and bodies.
    nearest:
        The pairs that come closest.
    stamp:
        Time of the message.
    fault:
        Where a check fails; None where all hold.

    """
    header = Header(stamp=stamp, frame_id=outline.base)
    markers = [
        Marker(header=header, action=Marker.DELETEALL),
        *_lines(header, outline),
        *_ends(header, outline),
        *_obstacles(header, obstacles),
    ]
    for i, pair in enumerate(nearest):
        markers += _nearest(header, 2 * i, pair)
    if fault is not None:
        place = outline.at(fault.time)
        ball = (END_DIAMETER,) * 3
        markers.append(
            _solid(header, 'fault', 0, Marker.SPHERE, pin.SE3(np.eye(3), place), ball, _NEAREST)
        )
        markers.append(_text(header, 'fault', 1, place, fault.words, _NEAREST))
    return MarkerArray(markers=markers)


def _lines(header: Header, outline: Outline) -> Iterable[Marker]:
    """Iterate over the path of each link that leaves its place, coloured by its speed."""
    fastest = max(float(outline.speed.max()), 1e-9)
    first_tip = len(outline.links) - outline.tips
    for i in range(len(outline.links)):
        place = outline.place[:, i]
        if np.ptp(place, axis=0).max() < _STILL:
            continue
        width = TIP_WIDTH if i >= first_tip else LINE_WIDTH
        colors = _colors(outline.speed[:, i] / fastest)
        yield Marker(
            header=header,
            ns='path',
            id=i,
            type=Marker.LINE_STRIP,
            pose=_pose(pin.SE3.Identity()),
            scale=Vector3(x=width),
            points=[_point(p) for p in place],
            color=colors[0],
            colors=colors,
        )


def _ends(header: Header, outline: Outline) -> Iterable[Marker]:
    """Iterate over balls at the start and at the end of each tip."""
    for i in range(len(outline.links) - outline.tips, len(outline.links)):
        for ns, row, color, share in (('start', 0, _START, 1.0), ('end', -1, _END, 0.7)):
            size = share * END_DIAMETER
            pose = pin.SE3(np.eye(3), outline.place[row, i])
            yield _solid(header, ns, i, Marker.SPHERE, pose, (size, size, size), color)


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
        marker = _solid(frame, 'obstacles', i, kind, pose, size, _SOLID)
        marker.frame_locked = bool(obstacle.link)
        marker.text = obstacle.name
        yield marker


def _plane_pose(obstacle: Obstacle) -> pin.SE3:
    """Pose of a thin plate whose upper side is the plane."""
    normal = obstacle.direction
    turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), normal).matrix()
    return pin.SE3(turn, (obstacle.offset - 0.5 * _PLANE_THICKNESS) * normal)


def _nearest(header: Header, first_id: int, nearest: Nearest) -> list[Marker]:
    first, second = nearest.points
    line = Marker(
        header=header,
        ns='nearest',
        id=first_id,
        type=Marker.LINE_LIST,
        pose=_pose(pin.SE3.Identity()),
        scale=Vector3(x=LINE_WIDTH),
        points=[_point(first), _point(second)],
        color=_color(_NEAREST),
    )
    words = f'{1000.0 * nearest.distance:.0f} mm: {nearest.first}, {nearest.second}'
    return [line, _text(header, 'nearest', first_id + 1, 0.5 * (first + second), words, _NEAREST)]


def _text(
    header: Header, ns: str, id_: int, place: np.ndarray, words: str, color: Sequence[float]
) -> Marker:
    pose = _pose(pin.SE3(np.eye(3), place + np.array([0.0, 0.0, TEXT_HEIGHT])))
    return Marker(
        header=header,
        ns=ns,
        id=id_,
        type=Marker.TEXT_VIEW_FACING,
        pose=pose,
        scale=Vector3(z=TEXT_HEIGHT),
        color=_color(color),
        text=words,
    )


def _solid(
    header: Header,
    ns: str,
    id_: int,
    kind: int,
    pose: pin.SE3,
    size: Sequence[float],
    color: Sequence[float],
) -> Marker:
    x, y, z = size
    return Marker(
        header=header,
        ns=ns,
        id=id_,
        type=kind,
        pose=_pose(pose),
        scale=Vector3(x=x, y=y, z=z),
        color=_color(color),
    )


def _colors(shares: np.ndarray) -> list[ColorRGBA]:
    """Return colours from blue at rest over green to red at 1."""
    stops = np.array([_SLOW, _MEDIUM, _FAST])
    rgb = np.stack([np.interp(shares, (0.0, 0.5, 1.0), stops[:, i]) for i in range(3)], axis=1)
    return [_color((*row, 1.0)) for row in rgb.tolist()]


def _color(rgba: Sequence[float]) -> ColorRGBA:
    red, green, blue, alpha = (float(value) for value in rgba)
    return ColorRGBA(r=red, g=green, b=blue, a=alpha)


def _point(place: np.ndarray) -> Point:
    x, y, z = (float(value) for value in place)
    return Point(x=x, y=y, z=z)


def _pose(pose: pin.SE3) -> Pose:
    x, y, z, w = (float(value) for value in pin.Quaternion(pose.rotation).coeffs())
    return Pose(position=_point(pose.translation), orientation=Quaternion(x=x, y=y, z=z, w=w))
