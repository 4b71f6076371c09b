# SPDX-License-Identifier: Apache-2.0
"""
Base of a legged robot, as six joints without drives between the world and the root link.

Three slide and three turn along the axes of the root link; all of them stay at 0, so that their
efforts are the force and the moment on the base, at its origin and along its axes.  With the
angular velocity w and the angular acceleration A of the base, and with the acceleration of its
origin less gravity (what an accelerometer there reads), their rates are those of `base_rates`.
Neither orientation nor velocity of the base appear in the equations of motion then.
"""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree
import numpy as np

from ..errors import ModelError
from .urdf import parse_tree

BASE_JOINTS = tuple(f'base_{kind}_{axis}' for kind in ('force', 'torque') for axis in 'xyz')
"""Joints of a floating base; they name the rows of force and moment on it."""


def has_floating_base(joints: Sequence[str]) -> bool:
    """Return whether the first ones of joints, or of the rows of a sample, are those of a base."""
    return tuple(joints[: len(BASE_JOINTS)]) == BASE_JOINTS


def row_name(row: str) -> str:
    """Return what people call a row: ``base force x`` for one of a base, else the joint's name."""
    return row.replace('torque', 'moment').replace('_', ' ') if row in BASE_JOINTS else row


def row_titles(rows: Sequence[str]) -> tuple[str, str]:
    """Return headings for the rows of a sample: of their column, and of the line of all."""
    return ('row', 'all rows') if has_floating_base(rows) else ('joint', 'all joints')


_LINKS = tuple(f'floating_base_{i}' for i in range(6))

UNREAL_LINKS = frozenset(_LINKS)
"""Links between the joints of a floating base, which have no bodies."""


def with_floating_base(text: str, where: str = 'URDF') -> str:
    """
    Return a URDF with the joints of a floating base before its root link.

    Raises
    ------
    ModelError
        if it has joints or links of their names already, or no root link.

    """
    root = parse_tree(text, where)
    carried = {child.get('link') for child in root.iterfind('joint/child')}
    links = [link.get('name') for link in root.iterfind('link')]
    own = {joint.get('name') for joint in root.iterfind('joint')} | set(links)
    for name in (*BASE_JOINTS, *_LINKS):
        if name in own:
            raise ModelError(
                f"'{name}' in {where} is the name of a joint or link of a floating base",
                file=where,
                remedy='give it another name, or take robot.base: fixed',
            )
    base = next((link for link in links if link not in carried), None)
    if base is None:
        raise ModelError(
            f'{where} has no root link', file=where, remedy='name a link that no joint carries'
        )
    for i, (joint, parent, child) in enumerate(
        zip(BASE_JOINTS, _LINKS, (*_LINKS[1:], base), strict=True)
    ):
        etree.SubElement(root, 'link', name=parent)
        made = etree.SubElement(
            root, 'joint', name=joint, type='prismatic' if i < 3 else 'revolute'
        )
        etree.SubElement(made, 'parent', link=parent)
        etree.SubElement(made, 'child', link=base if child == base else child)
        etree.SubElement(made, 'axis', xyz=' '.join('1' if k == i % 3 else '0' for k in range(3)))
        etree.SubElement(made, 'limit', lower='0', upper='0', velocity='0', effort='0')
    return str(etree.tostring(root, encoding='unicode'))


def base_rates(
    velocity: np.ndarray, angular_acceleration: np.ndarray, proper_acceleration: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """
    Return velocities and accelerations (n_samples, 6) of the joints of a floating base.

    Parameters
    ----------
    velocity, angular_acceleration:
        (n_samples, 3) of the base in its own frame [rad/s, rad/s^2].
    proper_acceleration:
        (n_samples, 3) acceleration of the base's origin less gravity, in its frame [m/s^2].

    """
    x, y, z = velocity.T
    rates, accelerations = np.zeros((2, len(velocity), 6))
    rates[:, 3:] = velocity
    accelerations[:, :3] = proper_acceleration
    # an axis is turned by the joints before it: w = (x, y, z) turns with x y, x z and y z
    accelerations[:, 3:] = angular_acceleration - np.column_stack([y * z, -x * z, x * y])
    return rates, accelerations
