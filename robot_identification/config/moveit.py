# SPDX-License-Identifier: Apache-2.0
"""
MoveIt's files for a plan: groups and allowed pairs of an SRDF, obstacles of a scene.

A scene is the text that MoveIt's RViz panel exports (``.scene``), in either of its two forms: with
one pose a shape, or with a pose of the object, poses of its shapes in that, and subframes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
import os
from pathlib import Path

from lxml import etree
import numpy as np
import pinocchio as pin

from ..errors import ModelError, one_of, SettingsError
from ..excitation.settings import Obstacle
from ..model.urdf import parse_tree, parse_urdf, Urdf
from ..model.urdf_files import read_urdf
from ..untrusted.files import read_text
from .problem import PlanningSettings

_SIZES = {'box': 3, 'cylinder': 2, 'cone': 2, 'sphere': 1, 'plane': 4}
"""Numbers that a shape has in a scene."""

MOST_CORNERS = 1_000_000
"""Corners and triangles of a mesh in a scene."""


@dataclass(frozen=True)
class Srdf:
    """
    Part of an SRDF that a plan takes.

    Attributes
    ----------
    allowed:
        Pairs of links whose collisions are disabled, two names with a blank between.
    groups:
        Planning groups by name.

    """

    allowed: tuple[str, ...]
    groups: Mapping[str, etree._Element]

    def joints(self, group: str, urdf: Urdf) -> tuple[str, ...]:
        """
        Return the moving joints of a planning group, in the order of the SRDF.

        Joints that mimic others follow them and are not among these.

        Raises
        ------
        SettingsError
            for a group that there is not, or that has no moving joint.
        ModelError
            for a chain that the URDF has not.

        """
        found = [
            joint
            for joint in dict.fromkeys(self._joints(group, urdf, ()))
            if joint in urdf.moving and urdf.moving[joint].mimic is None
        ]
        if not found:
            raise SettingsError(
                f"planning group '{group}' has no moving joint of the URDF",
                key='group',
                value=group,
                remedy=f'take one of {one_of(self.groups)}',
            )
        return tuple(found)

    def _joints(self, group: str, urdf: Urdf, above: tuple[str, ...]) -> Iterator[str]:
        if group not in self.groups or group in above:
            raise SettingsError(
                f"there is no planning group '{group}' in the SRDF"
                if group not in self.groups
                else f"planning group '{group}' is part of itself",
                key='group',
                value=group,
                remedy=f'its groups are {one_of(self.groups)}',
            )
        carriers = {joint.child: joint for joint in urdf.joints.values()}
        for part in self.groups[group]:
            if part.tag == 'joint':
                yield part.get('name', '')
            elif part.tag == 'link' and part.get('name') in carriers:
                yield carriers[part.get('name')].name
            elif part.tag == 'group':
                yield from self._joints(part.get('name', ''), urdf, (*above, group))
            elif part.tag == 'chain':
                base, tip = part.get('base_link', ''), part.get('tip_link', '')
                chain: list[str] = []
                link = tip
                while link != base:
                    if link not in carriers or len(chain) == len(carriers):  # or in a circle
                        raise ModelError(
                            f"planning group '{group}': link '{tip}' does not hang on '{base}'",
                            link=tip,
                            remedy='give the SRDF that belongs to the URDF',
                        )
                    chain.append(carriers[link].name)
                    link = carriers[link].parent
                yield from reversed(chain)


def with_moveit(
    planning: PlanningSettings,
    srdf: Path | None = None,
    scene: Path | None = None,
    group: str | None = None,
    urdf: str | os.PathLike | None = None,
) -> PlanningSettings:
    """
    Return settings of a plan with what MoveIt's files add.

    Parameters
    ----------
    planning:
        Settings; pairs and obstacles are added to theirs.
    srdf, scene:
        Files to read.
    group:
        Planning group of the SRDF whose joints move.
    urdf:
        The robot's file, for a group.

    Raises
    ------
    SettingsError, ModelError
        as `read_srdf`, `Srdf.joints` and `read_scene`.

    """
    planner, joints = planning.planner, planning.joints
    if group is not None and srdf is None:
        remedy = 'name the SRDF that has it with --srdf'
        raise SettingsError("'--group' is given without an SRDF", key='group', remedy=remedy)
    if srdf is not None:
        found = read_srdf(srdf)
        planner = replace(planner, allowed_pairs=(*planner.allowed_pairs, *found.allowed))
        if group is not None and urdf is not None:
            if Path(urdf).suffix in ('.yaml', '.yml'):
                raise SettingsError(
                    f"'--group' is given beside the experiment file '{urdf}'",
                    key='group',
                    remedy='name the joints in its robot.joints, or give the URDF',
                )
            text, path = read_urdf(urdf)
            joints = found.joints(group, parse_urdf(text, str(path or 'URDF')))
    if scene is not None:
        planner = replace(planner, obstacles=(*planner.obstacles, *read_scene(scene)))
    return replace(planning, planner=planner, joints=joints)


def read_srdf(path: Path) -> Srdf:
    """
    Read an SRDF.

    Raises
    ------
    SettingsError
        for a file that cannot be read.
    ModelError
        for one that is no SRDF.

    """
    root = parse_tree(_read(path, 'srdf'), str(path))
    pairs = (
        (each.get('link1', ''), each.get('link2', '')) for each in root.iter('disable_collisions')
    )
    groups = {each.get('name', ''): each for each in root.findall('group')}
    return Srdf(tuple(' '.join(pair) for pair in pairs if all(pair)), groups)


def read_scene(path: Path) -> tuple[Obstacle, ...]:
    """
    Read the obstacles of a planning scene; those with several shapes are numbered.

    A mesh is taken for the box around it, along its own axes, a cone for a cylinder, and a plane
    for the end of all that is on the side away from its normal.

    Raises
    ------
    SettingsError
        naming file and line of what cannot be read.

    """
    return tuple(_Scene(path, _read(path, 'scene')).obstacles())


def _read(path: Path, key: str) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, 'strerror', None) or 'is no text'
        remedy = 'correct the path'
        raise SettingsError(f"'{path}': {why}", file=str(path), key=key, remedy=remedy) from error


class _Scene:
    """Lines of a scene that are read one after the other."""

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
        size = corners = np.empty(0)
        if kind == 'mesh':
            corners = self._mesh()
        elif kind in _SIZES:
            size = self._numbers(self._line().split(), _SIZES[kind])
        else:
            raise self._wrong(f"'{kind[:40]}' is no shape that is known here")
        pose = pose * self._pose(self._line().split())
        self._line()  # its colour
        if kind == 'plane':
            normal = pose.rotation @ size[:3]
            length = float(np.linalg.norm(size[:3])) or 1.0
            offset = float(normal @ pose.translation - size[3]) / length
            return Obstacle(name, 'plane', normal=tuple(normal.tolist()), offset=offset)
        if kind == 'mesh':
            low, high = corners.min(axis=0), corners.max(axis=0)
            pose = pose * pin.SE3(np.eye(3), 0.5 * (low + high))
            kind, size = 'box', np.maximum(high - low, 1e-4)
        return Obstacle(
            name,
            'cylinder' if kind == 'cone' else kind,
            size=tuple(size.tolist()),
            position=tuple(pose.translation.tolist()),
            orientation=tuple(pin.rpy.matrixToRpy(pose.rotation).tolist()),
        )

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
