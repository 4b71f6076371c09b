# SPDX-License-Identifier: Apache-2.0
"""MoveIt's files for a plan: groups and allowed pairs of an SRDF, obstacles of a scene."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
import os
from pathlib import Path

from lxml import etree

from ..errors import ModelError, one_of, SettingsError
from ..model.urdf import parse_tree, parse_urdf, Urdf
from ..model.urdf_files import package_folders, read_urdf
from ..untrusted.files import read_text, readable
from ..untrusted.xacro_process import expand_xacro
from .planning_scene import read_scene
from .planning_settings import PlanningSettings


@dataclass(frozen=True)
class Srdf:
    """Part of an SRDF that a plan takes."""

    allowed: tuple[str, ...]
    """Pairs of links whose collisions are disabled, two names with a blank between."""
    groups: Mapping[str, etree._Element]
    """Planning groups by name."""
    virtual: tuple[str, ...] = ()
    """Names of the virtual joints."""

    def joints(self, group: str, urdf: Urdf) -> tuple[str, ...]:
        """
        Return the moving joints of a planning group, in the order of the SRDF.

        Joints that mimic others follow them, and virtual joints move no link of the URDF: they
        are not among these.

        Raises `SettingsError` for a group that there is not, or that has no moving joint;
        `ModelError` for a joint, a link or a chain that the URDF has not.
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
                remedy=f'its groups are {one_of(self.groups)}',
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
                remedy=f'its groups are {one_of(self.groups) or "none"}',
            )
        carriers = {joint.child: joint for joint in urdf.joints.values()}
        known = {'joint': {*urdf.joints, *self.virtual}, 'link': urdf.links}
        for part in self.groups[group]:
            if part.tag in known and part.get('name') not in known[part.tag]:
                raise ModelError(
                    f"planning group '{group}': the URDF has no {part.tag} '{part.get('name')}'",
                    remedy='give the SRDF that belongs to the URDF',
                )
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
    Read an SRDF, or a xacro file of one.

    Raises `SettingsError` for a file that cannot be read; `ModelError` for one that is no SRDF, or
    that xacro does not expand.
    """
    with readable(path, 'correct the path', key='srdf'):
        text = read_text(path)
    if path.suffix == '.xacro':
        text = expand_xacro(path, {}, package_folders())
    root = parse_tree(text, str(path))
    pairs = (
        (each.get('link1', ''), each.get('link2', '')) for each in root.iter('disable_collisions')
    )
    groups = {each.get('name', ''): each for each in root.findall('group')}
    virtual = tuple(each.get('name', '') for each in root.findall('virtual_joint'))
    allowed = tuple(' '.join(pair) for pair in pairs if all(pair))
    if not (groups or allowed):
        raise ModelError(
            f"'{path}' is no SRDF: it has neither groups nor disabled pairs of links",
            file=str(path),
            remedy="give the .srdf of the robot's MoveIt configuration",
        )
    return Srdf(allowed, groups, virtual)
