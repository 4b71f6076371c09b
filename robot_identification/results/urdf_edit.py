# SPDX-License-Identifier: Apache-2.0
"""
Changes in the text of a URDF: bodies to links, and values of elements.

Parsing and writing a document anew would keep its meaning but not its line breaks, quotes and
attribute order, which people care about in a file that they maintain by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
import re
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from lxml import etree
import numpy as np
import pinocchio as pin

from ..errors import ModelError
from ..model.robot import Robot

_ATTRIBUTE = re.compile(rb'([^\s=/>"\']+)\s*=\s*("[^"]*"|\'[^\']*\')')


@dataclass
class Element:
    """
    Byte range of an element in the document.

    Attributes
    ----------
    tag:
        Its name.
    attributes:
        As parsed.
    start, head_end:
        The start tag, or the whole element where that closes itself.
    tail_start, end:
        The end tag; ``tail_start == end == head_end`` where the start tag closes itself.
    elements:
        Its children.

    """

    tag: str
    attributes: dict[str, str]
    start: int
    head_end: int
    tail_start: int = 0
    end: int = 0
    elements: list[Element] = field(default_factory=list)

    def get(self, name: str) -> str | None:
        """Value of an attribute."""
        return self.attributes.get(name)

    def children(self, tag: str) -> Iterator[Element]:
        """Iterate over the children of this name."""
        return (element for element in self.elements if element.tag == tag)

    def child(self, tag: str) -> Element | None:
        """First child of this name."""
        return next(self.children(tag), None)


class UrdfDocument:
    """
    A document with the changes that are to be made to it.

    Parameters
    ----------
    text:
        Well-formed XML.

    """

    def __init__(self, text: str) -> None:
        self._bytes = text.encode()
        self._edits: list[tuple[int, int, bytes]] = []
        self._comments: list[tuple[int, int, str]] = []
        self.root = self._parse()

    def text(self) -> str:
        """Return the document with all changes made."""
        content = self._bytes
        # from the back, so that places before an edit stay valid; insertions keep their order
        ordered = sorted(enumerate(self._edits), key=lambda item: (item[1][0], item[0]))
        for _, (start, end, replacement) in reversed(ordered):
            content = content[:start] + replacement + content[end:]
        return content.decode()

    def set(self, element: Element, attributes: Mapping[str, str]) -> None:
        """Give attributes of an element new values; add those that it does not have."""
        head = self._bytes[element.start : element.head_end]
        spans = {m.group(1).decode(): m.span(2) for m in _ATTRIBUTE.finditer(head)}
        missing = [name for name in attributes if name not in spans]
        close = len(head) - (2 if head.endswith(b'/>') else 1)
        while head[close - 1 : close].isspace():
            close -= 1
        added = ''.join(f' {name}={quoteattr(attributes[name])}' for name in missing)
        head = head[:close] + added.encode() + head[close:]
        for name, (start, end) in sorted(spans.items(), key=lambda item: -item[1][0]):
            if name in attributes:
                head = head[:start] + quoteattr(attributes[name]).encode() + head[end:]
        self._edits.append((element.start, element.head_end, head))

    def insert_child(
        self,
        parent: Element,
        tag: str,
        content: Mapping[str, str] | Mapping[str, Mapping[str, str]],
        *,
        first: bool = False,
    ) -> None:
        """
        Add a child element, indented as its siblings are.

        Parameters
        ----------
        parent:
            Where to add it.
        tag:
            Its name.
        content:
            Its attributes, or its own children with their attributes.
        first:
            Before the other children instead of after them.

        """
        outer = self._indent(parent.start)
        if parent.elements:
            inner = self._indent(parent.elements[0].start)
        else:
            inner = None if outer is None else outer + self._unit()
        new = _written(tag, content, inner, self._unit())
        line = '' if inner is None else '\n' + inner
        if parent.head_end == parent.end:
            self._open(parent, line + new + ('' if outer is None else '\n' + outer))
            return
        after = parent.elements[-1].end if parent.elements and not first else parent.head_end
        closing = '' if parent.elements or outer is None else self._closing(parent, outer)
        self._edits.append((after, after, (line + new + closing).encode()))

    def set_comment(self, mark: str, lines: list[str]) -> None:
        """
        Write a comment at the beginning of the root element, in place of an earlier one.

        Parameters
        ----------
        mark:
            How the comment begins, and an earlier one is known.
        lines:
            What follows; no comment is written where there is nothing.

        """
        body = '\n'.join([mark, *(f'    {line}' for line in lines)])
        # XML allows no two hyphens in a row within a comment
        separate = re.sub(r'-(?=-)', '- ', body)
        comment = f'<!-- {separate}\n  -->'.encode()
        for start, end, text in self._comments:
            if text.strip().startswith(mark):
                self._edits.append((start, end, comment if lines else b''))
                return
        if lines:
            unit = '\n' + (self._unit() or '  ')
            self._edits.insert(
                0, (self.root.head_end, self.root.head_end, unit.encode() + comment)
            )

    def _open(self, element: Element, content: str) -> None:
        """Turn an element that closes itself into one with ``content``."""
        head = self._bytes[element.start : element.head_end]
        opened = head[: head.rindex(b'/')].rstrip() + b'>'
        closed = f'</{element.tag}>'
        self._edits.append(
            (element.start, element.end, opened + content.encode() + closed.encode())
        )

    def _closing(self, parent: Element, outer: str) -> str:
        """Line break before an end tag that stood right behind its start tag."""
        between = self._bytes[parent.head_end : parent.tail_start]
        return '' if b'\n' in between else '\n' + outer

    def _indent(self, place: int) -> str | None:
        """White space before ``place`` on its line; None where other text stands there."""
        line = self._bytes[self._bytes.rfind(b'\n', 0, place) + 1 : place]
        return line.decode() if not line.strip() else None

    def _unit(self) -> str:
        """One level of indentation."""
        first = self._indent(self.root.elements[0].start) if self.root.elements else None
        return first or '  '

    def _parse(self) -> Element:
        # the text is decoded already, whatever encoding its declaration names
        parser = expat.ParserCreate('utf-8')
        stack: list[Element] = []
        roots: list[Element] = []

        def start(tag: str, attributes: dict[str, str]) -> None:
            place = parser.CurrentByteIndex
            element = Element(tag, attributes, place, self._tag_end(place))
            (stack[-1].elements if stack else roots).append(element)
            stack.append(element)

        def end(tag: str) -> None:
            element = stack.pop()
            if self._bytes[element.head_end - 2 : element.head_end] == b'/>':
                element.tail_start = element.end = element.head_end
            else:
                element.tail_start = parser.CurrentByteIndex
                element.end = self._tag_end(element.tail_start)

        def comment(text: str) -> None:
            place = parser.CurrentByteIndex
            self._comments.append((place, self._bytes.index(b'-->', place) + 3, text))

        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.CommentHandler = comment
        try:
            parser.Parse(self._bytes, True)
        except expat.ExpatError as error:
            raise ModelError(f'the URDF is no well-formed XML: {error}') from error
        return roots[0]

    def _tag_end(self, start: int) -> int:
        """Place behind the ``>`` that ends the tag at ``start``; one in quotes does not count."""
        quote = None
        for place in range(start, len(self._bytes)):
            byte = self._bytes[place : place + 1]
            if quote is not None:
                quote = None if byte == quote else quote
            elif byte in (b'"', b"'"):
                quote = byte
            elif byte == b'>':
                return place + 1
        raise ValueError('a tag is not closed')


def _written(tag: str, content: Mapping, indent: str | None, unit: str) -> str:
    if all(isinstance(value, str) for value in content.values()):
        attributes = ''.join(f' {name}={quoteattr(value)}' for name, value in content.items())
        return f'<{tag}{attributes}/>'
    line = '' if indent is None else '\n' + indent
    step = '' if indent is None else unit
    parts = [line + step + _written(name, value, None, unit) for name, value in content.items()]
    return f'<{tag}>{"".join(parts)}{line}</{tag}>'


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
