# SPDX-License-Identifier: Apache-2.0
"""
Obstacles of MoveIt's planning scenes.

A scene is the text that MoveIt's RViz panel exports (``.scene``), in either of its two forms: with
one pose a shape, or with a pose of the object, poses of its shapes in that, and subframes; or a
``moveit_msgs/PlanningScene`` in YAML, as ``ros2 topic echo`` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from ..errors import one_of, SettingsError
from ..untrusted.files import load_yaml, read_text, readable
from .settings import Obstacle

_SIZES = {'box': 3, 'cylinder': 2, 'cone': 2, 'sphere': 1, 'plane': 4}
"""Numbers that a shape has in a scene."""

_PRIMITIVES = {
    1: ('box', [0, 1, 2]),
    2: ('sphere', [0]),
    3: ('cylinder', [1, 0]),
    4: ('cone', [1, 0]),
}
"""Shapes of ``shape_msgs/SolidPrimitive`` by type, and their sizes among its dimensions."""

MOST_CORNERS = 1_000_000
"""Corners and triangles of a mesh in a scene."""


def read_scene(path: Path) -> tuple[Obstacle, ...]:
    """
    Read the obstacles of a planning scene; those with several shapes are numbered.

    A mesh is taken for the box around it, along its own axes, a cone for a cylinder, and a plane
    for the end of all that is on the side away from its normal.  Objects that a message attaches
    to a link move with it.

    Raises `SettingsError` naming file and line, or object, of what cannot be read.
    """
    with readable(path, 'correct the path, or export the scene again', key='scene'):
        text = read_text(path)
        if path.suffix in ('.yaml', '.yml'):
            # the message ends in a line of its own
            document = load_yaml(text.rstrip().removesuffix('---'))
            return tuple(_Message(path, document).obstacles())
    return tuple(_Text(path, text).obstacles())


def _obstacle(name: str, kind: str, size: np.ndarray, pose: pin.SE3, link: str = '') -> Obstacle:
    """Return a shape as an obstacle; the size of a mesh are its corners (n, 3)."""
    if kind == 'plane':
        normal = pose.rotation @ size[:3]
        length = float(np.linalg.norm(size[:3])) or 1.0
        offset = float(normal @ pose.translation - size[3]) / length
        return Obstacle(name, 'plane', normal=tuple(normal.tolist()), offset=offset, link=link)
    if kind == 'mesh':
        low, high = size.min(axis=0), size.max(axis=0)
        pose = pose * pin.SE3(np.eye(3), 0.5 * (low + high))
        kind, size = 'box', np.maximum(high - low, 1e-4)
    return Obstacle(
        name,
        'cylinder' if kind == 'cone' else kind,
        size=tuple(size.tolist()),
        position=tuple(pose.translation.tolist()),
        orientation=tuple(pin.rpy.matrixToRpy(pose.rotation).tolist()),
        link=link,
    )


class _Message:
    """A scene as a message; what is wrong is reported with the object that it is in."""

    def __init__(self, path: Path, document: Any) -> None:
        self._path, self._name = path, ''
        # the answer of a service has the scene in it
        self._scene = _field(document, 'scene') or document

    def obstacles(self) -> Iterator[Obstacle]:
        if not isinstance(_field(self._scene, 'world'), Mapping):
            raise self._wrong("it is no planning scene: it has no 'world'")
        if _field(self._scene, 'is_diff') is True:
            text = 'it has what changed alone (is_diff: true), not all objects'
            raise self._wrong(text, 'export the whole scene in RViz (.scene)')
        if self._entries(self._scene, 'world', 'octomap', 'octomap', 'data'):
            text = 'it has an octomap, whose obstacles are not read'
            remedy = 'clear it (service clear_octomap), and give what it holds as objects'
            raise self._wrong(text, remedy)
        objects = self._entries(self._scene, 'world', 'collision_objects')
        frames = dict.fromkeys(str(_field(each, 'header', 'frame_id')) for each in objects)
        if len(frames) > 1:
            raise self._wrong(f'its objects are in the frames {one_of(list(frames))}, not in one')
        for each in objects:
            yield from self._object(each, '')
        for attached in self._entries(self._scene, 'robot_state', 'attached_collision_objects'):
            body, link = _field(attached, 'object'), str(_field(attached, 'link_name'))
            frame = _field(body, 'header', 'frame_id')
            if frame != link:
                raise self._wrong(f"an object is attached to link '{link}' in frame '{frame}'")
            yield from self._object(body, link)

    def _object(self, body: Any, link: str) -> Iterator[Obstacle]:
        self._name = str(_field(body, 'id'))
        pose = self._pose(_field(body, 'pose'))
        shapes = []
        for part, read in (('primitive', _primitive), ('mesh', _mesh), ('plane', _plane)):
            places = self._entries(body, f'{part}_poses')
            for i, each in enumerate(
                self._entries(body, 'meshes' if part == 'mesh' else f'{part}s')
            ):
                try:
                    shape = read(each)
                except (IndexError, KeyError, TypeError, ValueError) as error:
                    raise self._wrong(f'{part} {i} cannot be read') from error
                place = self._pose(places[i] if i < len(places) else None)
                shapes.append((*shape, pose * place))
        if not shapes:
            raise self._wrong('it has no shapes')
        for number, (kind, size, place) in enumerate(shapes, 1):
            name = self._name if len(shapes) == 1 else f'{self._name}_{number}'
            yield _obstacle(name, kind, size, place, link)

    def _pose(self, pose: Any) -> pin.SE3:
        """Return a pose; one that is not given, or a quaternion of zeros, stands for none."""
        if pose is None:
            return pin.SE3.Identity()
        try:
            position = _numbers([pose['position'][axis] for axis in 'xyz'])
            turn = pin.Quaternion(*_numbers([pose['orientation'][axis] for axis in 'wxyz']))
        except (KeyError, TypeError, ValueError) as error:
            raise self._wrong('a pose cannot be read') from error
        turn = turn if turn.norm() > 0.0 else pin.Quaternion.Identity()
        return pin.SE3(turn.normalized().matrix(), position)

    def _entries(self, message: Any, *names: str) -> list[Any]:
        """Return the entries of a list, none where there is no such field."""
        found = _field(message, *names)
        if not isinstance(found, (list, type(None))):
            # as `ros2 topic echo --no-arr` prints it: obstacles would be missing
            raise self._wrong(f"'{'.'.join(names)}' is no list of its entries")
        return found or []

    def _wrong(
        self,
        text: str,
        remedy: str = 'write the scene again, with `ros2 topic echo --once --full-length`',
    ) -> SettingsError:
        place = f", object '{self._name}'" if self._name else ''
        return SettingsError(f"'{self._path}'{place}: {text}", file=str(self._path), remedy=remedy)


def _field(message: Any, *names: str) -> Any:
    """Return a field of a message; None where it has none."""
    for name in names:
        message = message.get(name) if isinstance(message, Mapping) else None
    return message


def _numbers(values: Sequence[Any]) -> np.ndarray:
    numbers = np.array(values, dtype=float)
    if not np.isfinite(numbers).all():
        raise ValueError('not finite')
    return numbers


def _primitive(shape: Any) -> tuple[str, np.ndarray]:
    kind, order = _PRIMITIVES[shape['type']]
    return kind, _numbers([shape['dimensions'][i] for i in order])


def _mesh(shape: Any) -> tuple[str, np.ndarray]:
    if not 0 < len(shape['vertices']) <= MOST_CORNERS:
        raise ValueError('corners')
    return 'mesh', _numbers([[corner[axis] for axis in 'xyz'] for corner in shape['vertices']])


def _plane(shape: Any) -> tuple[str, np.ndarray]:
    return 'plane', _numbers([shape['coef'][i] for i in range(4)])


class _Text:
    """Lines of a scene as text, read one after the other."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._lines, self._place = path, text.splitlines(), 0

    def obstacles(self) -> Iterator[Obstacle]:
        self._line()  # the scene's name
        while (line := self._line()) != '.':
            if not line.startswith('*'):
                raise self._wrong(f"'{line[:40]}' in place of '* name' or '.'")
            yield from self._object(line.removeprefix('*').strip())

    def _object(self, name: str) -> Iterator[Obstacle]:
        first = self._line().split()
        posed = len(first) == 3  # the newer form begins with the object's own pose
        pose = self._pose(first) if posed else pin.SE3.Identity()
        count = self._whole(self._line() if posed else ' '.join(first))
        for number in range(1, count + 1):
            yield self._shape(name if count == 1 else f'{name}_{number}', pose)
        for _ in range(self._whole(self._line()) if posed else 0):
            self._line()  # a subframe: its name and pose
            self._pose(self._line().split())

    def _shape(self, name: str, pose: pin.SE3) -> Obstacle:
        kind = self._line()
        if kind == 'mesh':
            size = self._mesh()
        elif kind in _SIZES:
            size = self._numbers(self._line().split(), _SIZES[kind])
        else:
            raise self._wrong(f"'{kind[:40]}' is no shape that is known here")
        pose = pose * self._pose(self._line().split())
        self._line()  # its colour
        return _obstacle(name, kind, size, pose)

    def _mesh(self) -> np.ndarray:
        count, triangles = self._numbers(self._line().split(), 2).astype(int)
        if not (0 < count <= MOST_CORNERS and 0 <= triangles <= MOST_CORNERS):
            raise self._wrong(f'a mesh of {count} corners and {triangles} triangles')
        corners = np.array([self._numbers(self._line().split(), 3) for _ in range(count)])
        for _ in range(triangles):
            self._line()
        return corners

    def _pose(self, words: list[str]) -> pin.SE3:
        """Return the pose whose position is given and whose quaternion is in the next line."""
        position = self._numbers(words, 3)
        x, y, z, w = self._numbers(self._line().split(), 4)
        turn = pin.Quaternion(w, x, y, z)
        if not turn.norm() > 0.0:
            raise self._wrong('a quaternion of zeros')
        return pin.SE3(turn.normalized().matrix(), position)

    def _whole(self, text: str) -> int:
        if not text.strip().isdigit():
            raise self._wrong(f"'{text[:40]}' in place of a count")
        return int(text)

    def _numbers(self, words: list[str], count: int) -> np.ndarray:
        try:
            values = np.array([float(word) for word in words])
        except ValueError:
            values = np.full(1, np.nan)
        if values.size != count or not np.isfinite(values).all():
            raise self._wrong(f"'{' '.join(words)[:40]}' in place of {count} numbers")
        return values

    def _line(self) -> str:
        while self._place < len(self._lines):
            self._place += 1
            if line := self._lines[self._place - 1].strip():
                return line
        raise self._wrong("the file ends before '.'")

    def _wrong(self, text: str) -> SettingsError:
        return SettingsError(
            f"'{self._path}', line {self._place}: {text}",
            file=str(self._path),
            remedy='export the scene again, or give obstacles in planner.obstacles',
        )
