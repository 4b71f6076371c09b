# SPDX-License-Identifier: Apache-2.0
"""Edits of a URDF's elements, and the rigid bodies that are written into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import re

from lxml import etree
import numpy as np

Attributes = Mapping[str, str]


def document_text(root: etree._Element, original: str) -> str:
    """Return an edited document, with the XML declaration of the original text."""
    before = [*root.itersiblings(preceding=True)]
    nodes = [*reversed(before), root, *root.itersiblings()]
    lines = [etree.tostring(node, encoding='unicode', with_tail=False) for node in nodes]
    if original.startswith('<?xml'):
        lines.insert(0, original[: original.index('?>') + 2])
    return '\n'.join(lines) + '\n'


def insert_child(
    parent: etree._Element,
    tag: str,
    content: Attributes | Mapping[str, Attributes],
    *,
    first: bool = False,
) -> None:
    """
    Add a child element, indented as its siblings are.

    Parameters
    ----------
    parent:
        Element to add it to.
    tag:
        Its name.
    content:
        Its attributes, or its own children with their attributes.
    first:
        Before the other children instead of after them.

    """
    child = etree.Element(tag)
    _place(parent, child, first)
    for name, value in content.items():
        if isinstance(value, str):
            child.set(name, value)
        else:
            insert_child(child, name, value)


def set_comment(root: etree._Element, mark: str, lines: list[str]) -> None:
    """
    Write a comment at the beginning of the root element, in place of an earlier one.

    Parameters
    ----------
    root:
        The element.
    mark:
        First line of the comment, by which an earlier one is found.
    lines:
        The others; no comment is written if there are none.

    """
    for earlier in root.iterchildren(etree.Comment):
        if earlier.text.strip().startswith(mark):
            root.remove(earlier)
    if lines:
        body = '\n'.join([mark, *(f'    {line}' for line in lines)])
        # XML allows no two hyphens in a row within a comment
        _place(root, etree.Comment(f' {re.sub("-(?=-)", "- ", body)}\n  '), first=True)


def _place(parent: etree._Element, child: etree._Element, first: bool) -> None:
    """Insert a child with the white space that its siblings have."""
    if len(parent) == 0:
        margin = _margin(parent)
        if margin:
            unit = _margin(parent.getroottree().getroot()[0]).strip('\n') or '  '
            parent.text, child.tail = margin + unit, margin
    elif first:
        child.tail = parent.text
    else:
        child.tail, parent[-1].tail = parent[-1].tail, _margin(parent[0])
    parent.insert(0 if first else len(parent), child)


def _margin(element: etree._Element) -> str:
    """Return the line break and the indentation before an element; empty without a line break."""
    before = element.getprevious()
    space = (element.getparent().text if before is None else before.tail) or ''
    return str(space[space.rfind('\n') :]) if '\n' in space else ''


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
