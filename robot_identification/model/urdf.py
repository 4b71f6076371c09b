# SPDX-License-Identifier: Apache-2.0
"""
Contents of a URDF, parsed and checked once.

The checks come before any other library builds a model: parsers of URDF recurse along chains of
links until the stack overflows, and drop an ``<inertial>`` that they cannot read.

Choice of the joints that are identified, passive or locked, with their limits and inertias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
import re

from lxml import etree
import numpy as np
import pinocchio as pin

from ..errors import ModelError, one_of
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
"""Absolute limit of a joint from which on it counts as none [rad, m, and their rates; N m, N]."""

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
    """Tell if urdfdom takes what stands between two blanks, or a single number."""
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


MOVING_TYPES = ('revolute', 'continuous', 'prismatic')
"""Types of joints that can be identified."""

MAX_JOINTS = 128
"""Identified joints of a robot; memory grows with their square."""


@dataclass(frozen=True)
class UrdfLimits:
    """
    Limits of the identified joints as the URDF gives them; infinite where it gives none.

    ``lower`` and ``upper`` (n_joints,) bound the position [rad or m], ``velocity`` and ``effort``
    (n_joints,) are the largest absolute ones [rad/s or m/s, N m or N].
    """

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray

    @classmethod
    def of(cls, joints: Sequence[UrdfJoint]) -> UrdfLimits:
        """Return the limits of joints of a URDF."""
        rows = [(j.lower, j.upper, j.velocity, j.effort) for j in joints]
        columns = [column.copy() for column in np.array(rows).reshape(-1, 4).T]
        for column in columns:
            column.setflags(write=False)
        return cls(*columns)


def identified_joints(
    full: pin.Model, urdf: Urdf, joints: Sequence[str] | None, where: str
) -> tuple[str, ...]:
    """Check the joints to identify; None takes all that can be, in the order of the tree."""
    moving = urdf.moving
    if joints is None:
        joints = [n for n in full.names if n in moving and moving[n].type in MOVING_TYPES]
    joints = tuple(joints)
    loose = next((joint for joint in moving if not full.existJointName(joint)), None)
    if loose is not None:
        raise ModelError(
            f"joint '{loose}' in {where} does not hang on the robot's base",
            joint=loose,
            file=where,
            remedy='correct the parents: links and joints have to form one tree',
        )
    if not joints:
        raise ModelError(
            f'{where} has no joint to identify',
            file=where,
            remedy='name at least one moving joint',
        )
    for joint in joints:
        _require_moving(moving, joint, where)
        if moving[joint].type not in MOVING_TYPES:
            raise ModelError(
                f"joint '{joint}' in {where} is of type '{moving[joint].type}'",
                joint=joint,
                file=where,
                remedy=f'identified joints have to be {", ".join(MOVING_TYPES)}',
            )
    if len(joints) > MAX_JOINTS:
        raise ModelError(
            f'{len(joints)} joints of {where} are to be identified',
            file=where,
            value=len(joints),
            remedy=f'name at most {MAX_JOINTS} of them and lock the others',
        )
    if len(set(joints)) != len(joints):
        twice = next(joint for joint in joints if joints.count(joint) > 1)
        raise ModelError(f"joint '{twice}' is listed twice", joint=twice, remedy='name it once')
    return joints


def passive_joints(
    full: pin.Model,
    urdf: Urdf,
    joints: Sequence[str],
    locked: Mapping[str, float],
    passive: Sequence[str] | None,
    where: str,
) -> tuple[str, ...]:
    """Check the passive joints; None takes all that are left, in the order of the tree."""
    if passive is None:
        passive = [
            n for n in full.names if n in urdf.moving and n not in joints and n not in locked
        ]
    for joint in passive:
        _require_apart(joint, joints, 'passive')
    return identified_joints(full, urdf, passive, where) if passive else ()


def locked_joints(
    urdf: Urdf, joints: Sequence[str], locked: Mapping[str, float], where: str
) -> tuple[dict[str, float], list[str]]:
    """Return the other joints' positions [rad or m], and remarks on them for the user."""
    moving = urdf.moving
    for joint in locked:
        _require_moving(moving, joint, where, ' to lock')
        _require_apart(joint, joints, 'locked')
    positions = {
        name: joint.mimic.multiplier * locked[joint.mimic.joint] + joint.mimic.offset
        for name, joint in moving.items()
        if joint.mimic and joint.mimic.joint in locked
    }
    positions.update(locked)
    remarks = []
    silent = [joint for joint in moving if joint not in joints and joint not in positions]
    free = [joint for joint in moving if moving[joint].type in ('floating', 'planar')]
    plain = [joint for joint in silent if joint not in free]
    if plain:
        remarks.append(
            f'held at 0 because they are neither identified nor locked: {one_of(plain)}; name '
            'them in robot.joints, or their positions in robot.locked'
        )
    if free:
        remarks.append(
            f'held still although they are {one_of(dict.fromkeys(moving[j].type for j in free))}: '
            f'{one_of(free)}; the base is taken as fixed, and recordings in which it moves are '
            'not explained'
        )
    mimics = [joint for joint in joints if moving[joint].mimic]
    if mimics:
        remarks.append(
            f'taken for joints with drives of their own although they mimic others: '
            f'{one_of(mimics)}; lock them together with those if they have none'
        )
    held = {joint: float(positions.get(joint, 0.0)) for joint in moving if joint not in joints}
    return held, remarks


def _require_moving(
    moving: Mapping[str, UrdfJoint], joint: str, where: str, purpose: str = ''
) -> None:
    if joint not in moving:
        raise ModelError(
            f"{where} has no moving joint '{joint}'{purpose}",
            joint=joint,
            file=where,
            remedy=f'its moving joints are {one_of(moving)}',
        )


def _require_apart(joint: str, joints: Sequence[str], kind: str) -> None:
    if joint in joints:
        raise ModelError(
            f"joint '{joint}' is both identified and {kind}",
            joint=joint,
            remedy='take it out of one of the two lists',
        )


def require_inertias(
    urdf: Urdf,
    joints: Sequence[str],
    where: str,
    *,
    massless: Sequence[str] = (),
    required: bool = True,
) -> list[str]:
    """
    Require that every identified joint moves some inertia; return remarks on links without any.

    The joints ``massless`` need not, and their links are not remarked on.  If inertia is not
    ``required``, links without any are remarked on, too.
    """
    bare = []
    for joint in joints:
        if joint in massless:
            continue
        link = urdf.joints[joint].child
        if required and not _has_inertia(urdf, link, stop_at=()):
            raise ModelError(
                f"link '{link}' (moved by joint '{joint}') in {where} has no <inertial>",
                joint=joint,
                link=link,
                file=where,
                remedy='add one, a rough estimate is enough: it is the prior and is written back; '
                'robot-identification check --repair makes one',
            )
        if not _has_inertia(urdf, link, stop_at=joints):
            bare.append(link)
    return [f'no <inertial>, so their prior is zero: {one_of(bare)}'] if bare else []


_SNAPPED = 1e-3
"""Distance of an angle from a multiple of a quarter turn below which it is a rounded one [rad]."""


def remarks_on_numbers(urdf: Urdf, joints: Sequence[str], blanks: Sequence[str]) -> list[str]:
    """Return remarks on numbers that other readers drop, on placeholders and on rounded angles."""
    remarks = []
    if blanks:
        remarks.append(
            f'tabs or blanks behind the numbers of {one_of(blanks)}: they are read here; urdfdom, '
            'which RViz and robot_state_publisher use, leaves such an <inertial> or joint out'
        )
    bodies = {j.child: urdf.links[j.child] for j in urdf.moving.values() if j.name in joints}
    alike: dict[tuple[float, float], list[str]] = {}
    for link, body in bodies.items():
        if body is not None and (body.inertia == body.inertia[0, 0] * np.eye(3)).all():
            alike.setdefault((body.mass, float(body.inertia[0, 0])), []).append(link)
    dummies = [
        link
        for (_, moment), links in alike.items()
        if moment > 0.0 and (len(links) > 1 or _is_power_of_ten(moment))
        for link in links
    ]
    if dummies:
        remarks.append(
            f'a placeholder in <inertial> (equal moments): {one_of(dummies)}; parameters that no '
            'motion shows keep its values'
        )
    rounded = [joint for joint in joints if _is_rounded(urdf.joints[joint].rpy)]
    if rounded:
        remarks.append(
            f'rounded angles (1.5708 for pi/2) in the origins of {one_of(rounded)}: parameters '
            'that nothing but the rounding tells apart are grouped, as for exact angles'
        )
    return remarks


def _is_power_of_ten(value: float) -> bool:
    return bool(abs(np.log10(value) - np.rint(np.log10(value))) < 1e-12)


def _is_rounded(angles: np.ndarray) -> bool:
    """Tell if an angle is nearly, and not to float32, a multiple of a quarter turn."""
    off = np.abs(angles - 0.5 * np.pi * np.rint(angles / (0.5 * np.pi)))
    return bool(((off > 1e-7) & (off < _SNAPPED)).any())


def _has_inertia(urdf: Urdf, link: str, stop_at: Sequence[str]) -> bool:
    """Return whether a link, or one behind it without these joints between, has inertia."""
    pending = [link]
    while pending:
        current = pending.pop()
        if urdf.links[current] is not None:
            return True
        pending += [
            joint.child
            for joint in urdf.joints.values()
            if joint.parent == current and joint.name not in stop_at
        ]
    return False


def build_model(text: str, where: str) -> pin.Model:
    """Return Pinocchio's model of all joints."""
    try:
        return pin.buildModelFromXML(text)
    except (ValueError, RuntimeError, IndexError) as error:  # Boost.Python's of C++ exceptions
        raise ModelError(
            f'{where} cannot be read as a robot: {error}', file=where, remedy='correct the URDF'
        ) from error


def reduced_model(full: pin.Model, held: Mapping[str, float]) -> pin.Model:
    """Return the model with joints held where they are, and what hangs on them lumped."""
    return pin.buildReducedModel(full, *locked_configuration(full, held)) if held else full


def locked_configuration(
    full: pin.Model, held: Mapping[str, float]
) -> tuple[list[int], np.ndarray]:
    """Return Pinocchio's indices of locked joints, and a configuration with them in place."""
    configuration = pin.neutral(full)
    ids = []
    for name, position in held.items():
        index = full.getJointId(name)
        joint = full.joints[index]
        if joint.nq == 1:
            configuration[joint.idx_q] = position
        elif joint.nv == 1:
            configuration[joint.idx_q : joint.idx_q + 2] = np.cos(position), np.sin(position)
        elif position != 0.0:
            raise ModelError(
                f"joint '{name}' has several degrees of freedom and is held at its neutral place",
                joint=name,
                value=position,
                remedy='lock it at 0',
            )
        ids.append(index)
    return ids, configuration
