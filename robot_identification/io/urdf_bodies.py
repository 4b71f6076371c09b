# SPDX-License-Identifier: Apache-2.0
"""Rigid bodies of a URDF: the inertias that are lumped with a moving link, and their forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree
import numpy as np
import pinocchio as pin

from ..robot import Robot


@dataclass(frozen=True)
class RigidBody:
    """
    Inertial parameters of a body at the origin of its frame.

    Attributes
    ----------
    mass:
        [kg].
    first_moment:
        (3,) mass times centre of mass [kg m].
    inertia:
        (3, 3) tensor about the origin [kg m^2].

    """

    mass: float
    first_moment: np.ndarray
    inertia: np.ndarray

    @classmethod
    def from_vector(cls, vector: np.ndarray) -> RigidBody:
        """Make a body of ``m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz``."""
        m, mx, my, mz, xx, xy, yy, xz, yz, zz = (float(value) for value in vector)
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return cls(m, np.array([mx, my, mz]), inertia)

    @property
    def centre(self) -> np.ndarray:
        """(3,) centre of mass [m]; the origin where there is no first moment."""
        if not self.first_moment.any():
            return np.zeros(3)
        return self.first_moment / self.mass

    @property
    def central_inertia(self) -> np.ndarray:
        """(3, 3) tensor about the centre of mass [kg m^2]."""
        c = self.centre
        return self.inertia - self.mass * (c @ c * np.eye(3) - np.outer(c, c))

    def central_entries(self) -> Iterator[tuple[str, float]]:
        """Iterate over ``xx, xy, xz, yy, yz, zz`` and their entries of `central_inertia`."""
        tensor = self.central_inertia
        for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
            yield 'xyz'[i] + 'xyz'[j], float(tensor[i, j])

    @property
    def physical(self) -> bool:
        """True if the mass is positive and the principal moments keep the triangle inequality."""
        if self.mass <= 0.0:
            return False
        moments = np.linalg.eigvalsh(self.central_inertia)
        return bool(moments[0] > 0.0 and moments[0] + moments[1] >= moments[2])


def lumped_inertias(robot: Robot, link: str) -> dict[str, np.ndarray]:
    """
    Return the inertial parameters of the links that move rigidly with ``link``.

    Parameters
    ----------
    robot:
        Read from its URDF text.
    link:
        A link that an identified joint carries.

    Returns
    -------
    dict
        By link name, (10,) inertial parameters in the frame of ``link``.  Links without
        ``<inertial>`` are left out.

    """
    document = etree.fromstring(robot.urdf.encode())
    elements = {element.get('name'): element for element in document.iterfind('link')}
    children: dict[str, list[etree._Element]] = {}
    for joint in document.iterfind('joint'):
        if joint.get('name') not in robot.joints:
            children.setdefault(joint.find('parent').get('link'), []).append(joint)
    lumped: dict[str, np.ndarray] = {}
    pending = [(link, pin.SE3.Identity())]
    while pending:
        parent, placement = pending.pop()
        for joint in children.get(parent, ()):
            child = joint.find('child').get('link')
            here = placement * _placement(joint, robot.locked.get(joint.get('name'), 0.0))
            pending.append((child, here))
            inertia = _inertia(elements[child])
            if inertia is not None:
                lumped[child] = here.act(inertia).toDynamicParameters()
    return lumped


def _placement(joint: etree._Element, position: float) -> pin.SE3:
    """Placement of a joint's child link in its parent link at ``position``."""
    origin = _pose(joint.find('origin'))
    axis = _vector(joint.find('axis'), 'xyz', (1.0, 0.0, 0.0))
    kind = joint.get('type')
    if kind in ('revolute', 'continuous'):
        turn = pin.AngleAxis(position, axis / np.linalg.norm(axis)).toRotationMatrix()
        return origin * pin.SE3(turn, np.zeros(3))
    if kind == 'prismatic':
        return origin * pin.SE3(np.eye(3), position * axis / np.linalg.norm(axis))
    return origin


def _inertia(link: etree._Element) -> pin.Inertia | None:
    element = link.find('inertial')
    if element is None:
        return None
    pose = _pose(element.find('origin'))
    mass = float(element.find('mass').get('value'))
    entries = element.find('inertia')
    tensor = np.empty((3, 3))
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        tensor[i, j] = tensor[j, i] = float(entries.get('i' + 'xyz'[i] + 'xyz'[j], 0.0))
    return pose.act(pin.Inertia(mass, np.zeros(3), tensor))


def _pose(origin: etree._Element | None) -> pin.SE3:
    rotation = pin.rpy.rpyToMatrix(_vector(origin, 'rpy', (0.0, 0.0, 0.0)))
    return pin.SE3(rotation, _vector(origin, 'xyz', (0.0, 0.0, 0.0)))


def _vector(element: etree._Element | None, attribute: str, default: tuple) -> np.ndarray:
    text = None if element is None else element.get(attribute)
    return np.array(default if text is None else [float(part) for part in text.split()])
