# SPDX-License-Identifier: Apache-2.0
"""A load of known mass, as far as it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from ..robot import Robot


@dataclass(frozen=True)
class Load:
    """
    A load on one of the links, as far as it is known.

    Attributes
    ----------
    link:
        The identified link that carries it.
    parameters:
        (10,) its inertial parameters at the link's joint frame, in the order of
        `parameters.INERTIAL_SYMBOLS` [kg, kg m, kg m^2]; NaN for those that are not known.

    """

    link: str
    parameters: np.ndarray

    def __post_init__(self) -> None:
        array = np.array(self.parameters, dtype=float)
        if array.shape != (10,) or not np.isfinite(array).any():
            raise ValueError('a load has ten parameters, one of them known at least')
        array.setflags(write=False)
        object.__setattr__(self, 'parameters', array)

    @property
    def known(self) -> np.ndarray:
        """(10,) bool, which parameters are known."""
        return np.isfinite(self.parameters)


def load_on(
    robot: Robot,
    mass: float,
    center_of_mass: Sequence[float] | None = None,
    inertia: Sequence[float] | None = None,
    frame: str | None = None,
) -> Load:
    """
    Make a `Load` of what is known of it.

    Parameters
    ----------
    robot:
        Carries it.
    mass:
        [kg].
    center_of_mass:
        (3,) in ``frame`` [m]; None where it is not known.
    inertia:
        (6,) Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the centre of mass along the axes of ``frame``
        [kg m^2]; None where it is not known.
    frame:
        A link of the URDF; None for the last identified joint's.

    Raises
    ------
    ModelError
        where the URDF has no such link, or no identified joint moves it.

    """
    link, placement = robot.attachment(frame)
    parameters = np.full(10, np.nan)
    parameters[0] = mass
    if center_of_mass is not None:
        centre = placement.act(np.array(center_of_mass, dtype=float))
        parameters[1:4] = mass * centre
        if inertia is not None:
            xx, xy, yy, xz, yz, zz = inertia
            about = placement.rotation @ [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
            body = pin.Inertia(mass, centre, np.array(about) @ placement.rotation.T)
            parameters = body.toDynamicParameters()
    return Load(link, parameters)
