# SPDX-License-Identifier: Apache-2.0
"""
Elements of a URDF that are written in place.

Comments, foreign elements (ros2_control, gazebo, transmissions), the order of attributes and the
white space between tags stay as they are.  Tags get one form: on one line, in double quotes.

Bodies are vectors ``m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz`` at the origin of their frame.
"""

from __future__ import annotations

from collections.abc import Mapping
import re

from lxml import etree
import numpy as np

from .consistency import inertia_at_com

Attributes = Mapping[str, str]


def centre_of_mass(body: np.ndarray) -> np.ndarray:
    """Return the centre of mass (3,) [m]; the origin where there is no first moment."""
    return body[1:4] / body[0] if body[1:4].any() else np.zeros(3)


def write_inertial(link: etree._Element, body: np.ndarray) -> None:
    """Write a body in its link's frame into the ``<inertial>`` of a link."""
    tensor = inertia_at_com(body)
    values = {
        'origin': {'xyz': ' '.join(map(number_text, centre_of_mass(body))), 'rpy': '0 0 0'},
        'mass': {'value': number_text(body[0])},
        'inertia': {
            f'i{"xyz"[i]}{"xyz"[j]}': number_text(tensor[i, j])
            for i in range(3)
            for j in range(i, 3)
        },
    }
    inertial = link.find('inertial')
    if inertial is None:
        insert_child(link, 'inertial', values, first=True)
        return
    for tag, attributes in values.items():
        element = inertial.find(tag)
        if element is None:
            insert_child(inertial, tag, attributes, first=tag == 'origin')
        else:
            element.attrib.update(attributes)


def number_text(value: float) -> str:
    """Return the shortest text that reads back as the same number."""
    return repr(float(value) + 0.0)


def document_text(root: etree._Element, original: str) -> str:
    """Return an edited document, with the XML declaration of the original text."""
    before = [*root.itersiblings(preceding=True)]
    nodes = [*reversed(before), root, *root.itersiblings()]
    lines = [etree.tostring(node, encoding='unicode', with_tail=False) for node in nodes]
    if original.startswith('<?xml'):
        lines.insert(0, original[: original.index('?>') + 2])
    return '\n'.join(lines) + '\n'


def remove_repeated(root: etree._Element) -> tuple[str, ...]:
    """
    Remove children that URDF has once and a document repeats: the first one counts.

    MuJoCo, for example, refuses a joint with two ``<origin>``.

    Returns
    -------
    tuple of str
        Names of the joints and links that had them.

    """
    found = root.xpath('joint/* | link/inertial | link/inertial/*')
    repeated = [e for e in found if [*e.itersiblings(e.tag, preceding=True)]]
    owners = [next(each.iterancestors('joint', 'link')).get('name') for each in repeated]
    for each in repeated:
        each.getparent().remove(each)
    return tuple(dict.fromkeys(owners))


def insert_child(
    parent: etree._Element,
    tag: str,
    content: Attributes | Mapping[str, Attributes],
    *,
    first: bool = False,
) -> None:
    """
    Add a child element, the first or the last one, indented as its siblings are.

    Its content is its attributes, or its own children with theirs.
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
    Write a comment at the beginning of an element, in place of one with the same first line.

    ``mark`` is its first line, ``lines`` are the others; there is no comment without them.
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
