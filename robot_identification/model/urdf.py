# SPDX-License-Identifier: Apache-2.0
"""
Contents of a URDF, parsed and checked once.

The checks come before any other library builds a model: parsers of URDF recurse along chains of
links until the stack overflows, and drop an ``<inertial>`` that they cannot read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
import re

from lxml import etree
import numpy as np

from ..errors import ModelError
from ..untrusted.files import open_regular
from ..untrusted.names import has_control, REMEDY

MAX_LINKS = 1000
"""Links of a robot."""

MAX_MASS = 1e9
"""Largest absolute mass of a link [kg]."""

MAX_INERTIA = 1e15
"""Largest absolute moment of inertia of a link [kg m^2]."""

MAX_LENGTH = 1e6
"""Largest absolute coordinate of an origin, and angle of its orientation [m or rad]."""

UNLIMITED = 1e9
"""Absolute limit of a joint above which it counts as none [rad, m, and their rates; N m, N]."""

_BLANK = b'\xef\xbb\xbf \t\r\n'

_WITH_AXIS = ('revolute', 'continuous', 'prismatic', 'planar')


@dataclass(frozen=True, eq=False)
class UrdfInertial:
    """
    Inertial parameters of a link.

    ``mass`` [kg]; ``xyz`` and ``rpy`` (3,), centre of mass [m] and orientation of the tensor's
    axes [rad] in the link's frame; ``inertia`` (3, 3) about the centre of mass [kg m^2].
    """

    mass: float
    xyz: np.ndarray
    rpy: np.ndarray
    inertia: np.ndarray


@dataclass(frozen=True)
class Mimic:
    """Joint that another one follows: position = multiplier * its position + offset."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class UrdfJoint:
    """
    A joint as the URDF describes it.

    ``xyz`` and ``rpy`` (3,) are its origin [m] and orientation [rad] in the parent link, ``axis``
    (3,) a unit vector.  Limits are infinite if there are none [rad or m, rad/s or m/s, N m or N],
    ``damping`` and ``friction`` of ``<dynamics>`` 0 [N m s/rad or N s/m, N m or N]; ``mimic`` is
    the joint that it follows.
    """

    name: str
    type: str
    parent: str
    child: str
    xyz: np.ndarray
    rpy: np.ndarray
    axis: np.ndarray
    lower: float
    upper: float
    velocity: float
    effort: float
    damping: float
    friction: float
    mimic: Mimic | None

    @property
    def unit(self) -> str:
        """Unit of its position, ``rad`` or ``m``."""
        return 'm' if self.type == 'prismatic' else 'rad'


@dataclass(frozen=True, eq=False)
class Urdf:
    """
    Links and joints of a URDF, in its order.

    ``links`` has the inertial parameters by link, None for a link without ``<inertial>``;
    ``joints`` are by name, those of ros2_control, gazebo and transmissions left out.
    """

    name: str
    links: Mapping[str, UrdfInertial | None]
    joints: Mapping[str, UrdfJoint]

    @property
    def moving(self) -> dict[str, UrdfJoint]:
        """The joints that are not fixed."""
        return {name: joint for name, joint in self.joints.items() if joint.type != 'fixed'}

    @property
    def gripper_joints(self) -> tuple[str, ...]:
        """
        Joints that mimic others, and those of fingers, in the order of the URDF.

        A finger's joint is followed by others and carries none that moves by itself, or is one of
        several at the same link that carry none.
        """
        moving = self.moving
        carried: dict[str, list[UrdfJoint]] = {}
        for joint in self.joints.values():
            carried.setdefault(joint.parent, []).append(joint)

        def driven_beyond(link: str) -> bool:
            return any(
                (joint.type != 'fixed' and not joint.mimic) or driven_beyond(joint.child)
                for joint in carried.get(link, ())
            )

        ends = {name for name, joint in moving.items() if not driven_beyond(joint.child)}
        masters = {joint.mimic.joint for joint in moving.values() if joint.mimic}
        parents = [moving[name].parent for name in ends if not moving[name].mimic]
        return tuple(
            name
            for name, joint in moving.items()
            if joint.mimic
            or (name in ends and (name in masters or parents.count(joint.parent) > 1))
        )

    @property
    def root_link(self) -> str:
        """The first link that no joint carries."""
        carried = {joint.child for joint in self.joints.values()}
        return next(link for link in self.links if link not in carried)


MAX_ATTRIBUTES = 100
"""Attributes of an element at most; libraries that read URDFs look for each among all."""


def parse_tree(text: str, where: str = 'URDF') -> etree._Element:
    """
    Return the root element of a URDF.

    Raises ModelError, naming ``where``, if the text is not well-formed XML or no URDF.
    """
    # the text is decoded already, whatever encoding its declaration names
    parser = etree.XMLParser(
        encoding='utf-8', resolve_entities=False, no_network=True, strip_cdata=False
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except (etree.XMLSyntaxError, UnicodeEncodeError) as error:
        raise ModelError(
            f'{where} is not well-formed XML: {error}', file=where, remedy='correct this place'
        ) from error
    if root.tag != 'robot':
        raise ModelError(
            f"{where} is not a URDF: its root is '<{root.tag}>', expected '<robot>'", file=where
        )
    if root.getroottree().docinfo.internalDTD is not None:
        raise ModelError(
            f'{where} declares a document type', file=where, remedy='remove <!DOCTYPE ...>'
        )
    for element in root.iter(etree.Element):
        if len(element.attrib) > MAX_ATTRIBUTES:
            raise ModelError(
                f'{where} has {len(element.attrib)} attributes in one <{element.tag}>',
                file=where,
                key=element.tag,
                remedy=f'at most {MAX_ATTRIBUTES} can be read',
            )
    return root


def parse_urdf(text: str, where: str = 'URDF') -> Urdf:
    """
    Return the contents of a URDF, after xacro; ``where`` is its name in errors.

    Raises ModelError, naming the joint or link, if an element is missing or has numbers that no
    robot has.
    """
    root = parse_tree(text, where)
    n_links = len(root.findall('link'))
    if n_links > MAX_LINKS:
        raise ModelError(
            f'{where} has {n_links} links',
            file=where,
            value=n_links,
            remedy=f'at most {MAX_LINKS} can be read; join links that are fixed to each other',
        )
    name = root.get('name', 'robot')
    if has_control(name):
        text = f'the name {name[:80]!a} of the robot in {where} has control characters'
        raise ModelError(text, file=where, remedy=REMEDY)
    joints = [_Reader(e, 'joint', where) for e in root.iterfind('joint[@type]')]
    links = [_Reader(e, 'link', where) for e in root.iterfind('link')]
    return Urdf(
        name,
        {link.owner: _inertial(link) for link in links},
        {joint.owner: _joint(joint) for joint in joints},
    )


def is_xml(path: Path) -> bool:
    """Return whether a file begins as XML does, such as a URDF, an MJCF or an SDF."""
    try:
        with open_regular(path) as stream:
            return bool(stream.read(64).lstrip(_BLANK).startswith(b'<'))
    except OSError:
        return False


def is_urdf_file(path: Path) -> bool:
    """Return whether the first element of a file is ``<robot>``; nothing behind it is read."""
    try:
        with path.open('rb') as stream:
            events = etree.iterparse(
                stream, events=('start',), resolve_entities=False, no_network=True
            )
            return bool(next(events)[1].tag == 'robot')
    except etree.XMLSyntaxError:
        return False


_NUMBERS = re.compile(
    r'\b(?:xyz|rpy|value|i[xyz]{2}|lower|upper|effort|velocity|damping|friction|multiplier|offset'
    r'|radius|length|size|scale)\s*=\s*(?:"(?P<double>[^"<]*)"|\'(?P<single>[^\'<]*)\')'
)
_OWNER = re.compile(r'<(link|joint)\s[^>]*?\bname\s*=\s*["\']([^"\']*)')


def without_blanks(text: str) -> tuple[str, tuple[str, ...]]:
    """
    Return a URDF without blanks and tabs behind its numbers, and the links and joints changed.

    urdfdom parts vectors at blanks alone, and takes no white space behind a number: it leaves out
    an ``<inertial>`` that has some, and refuses a joint.
    """
    owners: dict[str, None] = {}

    def plain(found: re.Match[str]) -> str:
        group = 'single' if found['double'] is None else 'double'
        given = found[group]
        words = given.split()
        pieces = [given] if len(words) == 1 else given.split(' ')
        if not all(map(_is_number, words)) or all(map(_is_for_urdfdom, pieces)):
            return found[0]
        before = [*_OWNER.finditer(text, 0, found.start())]
        if before:
            owners[f"{before[-1][1]} '{before[-1][2]}'"] = None
        start, stop = (place - found.start() for place in found.span(group))
        return found[0][:start] + ' '.join(words) + found[0][stop:]

    return _NUMBERS.sub(plain, text), tuple(owners)


def _is_for_urdfdom(piece: str) -> bool:
    """Return whether urdfdom takes what stands between two blanks, or a single number."""
    return piece == piece.rstrip() and len(piece.split()) < 2


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


class _Reader:
    """Checked reading of the numbers inside a joint or link."""

    def __init__(self, element: etree._Element, kind: str, where: str) -> None:
        self.element, self.kind, self.where = element, kind, where
        self.owner = str(element.get('name'))
        self.name = f"{kind} '{self.owner}' in {where}"
        if has_control(self.owner):
            text = f'the name {self.owner[:80]!a} of a {kind} in {where} has control characters'
            raise self.error(text, REMEDY)

    def error(self, problem: str, remedy: str, value: str | None = None) -> ModelError:
        """Return an error that names the joint or link."""
        named = {self.kind: self.owner}
        return ModelError(problem, file=self.where, value=value, remedy=remedy, **named)

    def link(self, tag: str) -> str:
        """Return the link that ``<parent>`` or ``<child>`` names."""
        child = self.element.find(tag)
        name = None if child is None else child.get('link')
        if name is None:
            raise self.error(
                f'{self.name} has no <{tag} link="...">', 'add it: a joint connects two links'
            )
        return str(name)

    def vector(self, path: str, attribute: str, default: str = '0 0 0') -> np.ndarray:
        """Return the (3,) numbers of an attribute."""
        return np.array(self._numbers(path, attribute, default, 3, MAX_LENGTH))

    def number(self, path: str, attribute: str, default: str | None, largest: float) -> float:
        """Return the number of an attribute; ``default`` None for one that has to be there."""
        return self._numbers(path, attribute, default, 1, largest)[0]

    def limit(self, attribute: str, default: str = 'inf') -> float:
        """Return the number of an attribute of ``<limit>``, infinite if it is no limit."""
        value = self.number('limit', attribute, default, np.inf)
        return value if abs(value) < UNLIMITED else float(np.copysign(np.inf, value))

    def _numbers(
        self, path: str, attribute: str, default: str | None, count: int, largest: float
    ) -> list[float]:
        child = self.element.find(path)
        text = (default if child is None else child.get(attribute, default)) or ''
        try:
            values = [float(word) for word in text.split()]
        except ValueError:
            values = []
        # comparisons with NaN are false
        if len(values) == count and all(abs(value) <= largest for value in values):
            return values
        remedy = f'give {"a number" if count == 1 else f"{count} numbers"}'
        raise self.error(
            f"{attribute} of <{path.rpartition('/')[2]}> of {self.name} is '{text[:60]}'",
            remedy + (f' of at most {largest:g}' if np.isfinite(largest) else ''),
            text[:60],
        )


def _inertial(link: _Reader) -> UrdfInertial | None:
    if link.element.find('inertial') is None:
        return None
    for tag in ('mass', 'inertia'):
        if link.element.find(f'inertial[1]/{tag}') is None:
            raise link.error(
                f'<inertial> of {link.name} has no <{tag}>',
                'add it: without it the link would have no inertia at all',
            )
    inertia = np.empty((3, 3))
    for i, j in zip(*np.triu_indices(3), strict=True):
        name = f'i{"xyz"[i]}{"xyz"[j]}'
        inertia[i, j] = inertia[j, i] = link.number('inertial[1]/inertia', name, None, MAX_INERTIA)
    return UrdfInertial(
        mass=link.number('inertial[1]/mass', 'value', None, MAX_MASS),
        xyz=link.vector('inertial[1]/origin', 'xyz'),
        rpy=link.vector('inertial[1]/origin', 'rpy'),
        inertia=inertia,
    )


def _joint(joint: _Reader) -> UrdfJoint:
    kind = str(joint.element.get('type'))
    # URDF's own default for a missing bound is 0, which is not meant by leaving it out
    lower, upper = joint.limit('lower', '-inf'), joint.limit('upper')
    bounded = kind != 'continuous'
    mimic = joint.element.find('mimic')
    return UrdfJoint(
        name=joint.owner,
        type=kind,
        parent=joint.link('parent'),
        child=joint.link('child'),
        xyz=joint.vector('origin', 'xyz'),
        rpy=joint.vector('origin', 'rpy'),
        axis=_axis(joint, kind),
        lower=lower if bounded else -np.inf,
        upper=upper if bounded else np.inf,
        velocity=joint.limit('velocity') or np.inf,
        effort=joint.limit('effort') or np.inf,
        damping=joint.number('dynamics', 'damping', '0', UNLIMITED),
        friction=joint.number('dynamics', 'friction', '0', UNLIMITED),
        mimic=None
        if mimic is None
        else Mimic(
            joint=str(mimic.get('joint')),
            multiplier=joint.number('mimic', 'multiplier', '1', MAX_LENGTH),
            offset=joint.number('mimic', 'offset', '0', MAX_LENGTH),
        ),
    )


def _axis(joint: _Reader, kind: str) -> np.ndarray:
    axis = joint.vector('axis', 'xyz', '1 0 0')
    length = np.linalg.norm(axis)
    if kind not in _WITH_AXIS:
        return axis
    if length < 1e-6:
        raise joint.error(f'the axis of {joint.name} is zero', 'give the direction of the axis')
    return axis / length
