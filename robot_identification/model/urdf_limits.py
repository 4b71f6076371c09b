# SPDX-License-Identifier: Apache-2.0
"""Limits on what a URDF may contain, checked before any library builds a model of it."""

from __future__ import annotations

from lxml import etree
import numpy as np

from ..errors import ModelError

MAX_LINKS = 1000
"""Links of a robot; parsers of URDF recurse along chains of them until the stack overflows."""

MAX_JOINTS = 128
"""Identified joints of a robot; memory grows with their square."""

MAX_MASS = 1e9
"""Largest absolute mass of a link [kg]."""

MAX_INERTIA = 1e15
"""Largest absolute moment of inertia of a link [kg m^2]."""

MAX_LENGTH = 1e6
"""Largest absolute coordinate of an origin, and angle of its orientation [m or rad]."""

MAX_GRAVITY = 1e6
"""Largest absolute component of the gravity [m/s^2]."""

UNLIMITED = 1e9
"""Absolute limit of a joint from which on it counts as none [rad, m, and their rates; N m, N]."""

_MOVING_WITH_AXIS = ('revolute', 'continuous', 'prismatic', 'planar')


def check_document(document: etree._Element, where: str) -> None:
    """
    Raise where a URDF contains what no robot has, or what parsers fail on.

    Parameters
    ----------
    document:
        The root element.
    where:
        What to call the URDF in messages.

    Raises
    ------
    ModelError
        naming the joint or link.

    """
    if document.getroottree().docinfo.internalDTD is not None:
        raise ModelError(
            f'{where} declares a document type', file=where, remedy='remove <!DOCTYPE ...>'
        )
    n_links = sum(1 for _ in document.iterfind('link'))
    if n_links > MAX_LINKS:
        raise ModelError(
            f'{where} has {n_links} links',
            file=where,
            value=n_links,
            remedy=f'at most {MAX_LINKS} can be read; join links that are fixed to each other',
        )
    for joint in document.iterfind('joint'):
        _check_joint(joint, where)
    for link in document.iterfind('link'):
        for inertial in link.iterfind('inertial'):
            _check_inertial(inertial, str(link.get('name')), where)


def _check_joint(joint: etree._Element, where: str) -> None:
    name = str(joint.get('name'))
    origin, axis = joint.find('origin'), joint.find('axis')
    mimic, limit = joint.find('mimic'), joint.find('limit')
    for element, attribute, count, largest in (
        (origin, 'xyz', 3, MAX_LENGTH),
        (origin, 'rpy', 3, MAX_LENGTH),
        (axis, 'xyz', 3, MAX_LENGTH),
        (mimic, 'multiplier', 1, MAX_LENGTH),
        (mimic, 'offset', 1, MAX_LENGTH),
        (limit, 'lower', 1, np.inf),
        (limit, 'upper', 1, np.inf),
        (limit, 'velocity', 1, np.inf),
        (limit, 'effort', 1, np.inf),
    ):
        text = None if element is None else element.get(attribute)
        if text is not None and not numbers_within(text, count, largest):
            raise ModelError(
                f"{attribute} of <{element.tag}> of joint '{name}' in {where} is '{text[:60]}'",
                joint=name,
                value=text[:60],
                file=where,
                remedy=f'give {"a number" if count == 1 else f"{count} numbers"}'
                + (f' of at most {largest:g}' if np.isfinite(largest) else ''),
            )
    if joint.get('type') in _MOVING_WITH_AXIS and axis is not None:
        length = np.linalg.norm([float(x) for x in axis.get('xyz', '1 0 0').split()])
        if length < 1e-6:
            raise ModelError(
                f"the axis of joint '{name}' in {where} is zero",
                joint=name,
                file=where,
                remedy='give the direction of the axis',
            )


def _check_inertial(inertial: etree._Element, link: str, where: str) -> None:
    largest = {'mass': MAX_MASS, 'inertia': MAX_INERTIA, 'origin': MAX_LENGTH}
    for element in inertial.iterfind('*'):
        for attribute, text in element.attrib.items():
            if element.tag in largest and not numbers_within(text, None, largest[element.tag]):
                raise ModelError(
                    f"{attribute} of <{element.tag}> of link '{link}' in {where} is '{text[:60]}'",
                    link=link,
                    value=text[:60],
                    file=where,
                    remedy='give finite numbers of a size that a link can have: without them the '
                    'link would have no inertia',
                )


def numbers_within(text: str, count: int | None, largest: float) -> bool:
    """Return whether a text is ``count`` numbers (None: any) up to an absolute value."""
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        return False
    right = len(values) == count if count is not None else len(values) > 0
    # comparisons with NaN are false
    return right and bool((np.abs(values) <= largest).all())
