# SPDX-License-Identifier: Apache-2.0
"""
SDF for Gazebo.

Gazebo reads URDF too, but lumps links that hang on fixed joints and scales nothing back.  In the
SDF every link with a mass stays one; a link without, that hangs on a fixed joint, becomes a frame
(SDFormat 1.9: poses are ``relative_to`` frames, as URDF's origins are).
"""

from __future__ import annotations

from copy import deepcopy
import warnings

from lxml import etree

from ..errors import IdentificationWarning, ModelError
from ..model.urdf import parse_tree

VERSION = '1.9'

MIMIC_VERSION = '1.11'
"""The first version with ``<mimic>``."""

MIMIC_NOTE = (
    'joints that mimic others are in SDF 1.11, which Gazebo Harmonic reads; of its physics '
    'engines '
    'Bullet Featherstone lets them follow, DART lets them move freely'
)

SMALLEST = 1e-9
"""Mass and inertia of a moving link that has none, which Gazebo refuses [kg, kg m^2]."""

_SHAPES = {'box': ('size',), 'cylinder': ('radius', 'length'), 'sphere': ('radius',)}
_AXIS = {'dynamics': ('damping', 'friction'), 'limit': ('lower', 'upper', 'effort', 'velocity')}
_KINDS = ('revolute', 'continuous', 'prismatic', 'fixed')


def sdf(urdf: str) -> str:
    """
    Return the SDF of a URDF.

    Links keep their inertias, visuals and collisions, joints their axes, limits, damping, friction
    and the joints that they mimic; the base is fixed to the world.  Comments of the robot, such as
    those on parameters without an element, come along; rotor inertia has no element in SDF.

    Parameters
    ----------
    urdf:
        The document, for example of `identified_urdf`.

    Raises
    ------
    ModelError
        naming a joint of a kind that this cannot write: floating or planar.

    Warns
    -----
    IdentificationWarning
        naming joints that are renamed, as SDF requires other names for links than for joints, and
        what reads joints that mimic others.

    """
    robot = parse_tree(urdf)
    document = etree.Element('sdf', version=VERSION)
    model = etree.SubElement(document, 'model', name=robot.get('name'))
    model.extend(deepcopy(comment) for comment in robot.iterchildren(etree.Comment))
    if any(joint.find('mimic') is not None for joint in robot.iterfind('joint')):
        document.set('version', MIMIC_VERSION)
        warnings.warn(MIMIC_NOTE, IdentificationWarning, stacklevel=2)
    links = {link.get('name'): link for link in robot.iterfind('link')}
    joints = {joint.find('child').get('link'): joint for joint in robot.iterfind('joint')}
    carriers: dict[str, etree._Element] = {}
    for link in _parents_first(links, joints):
        joint = joints.get(link)
        if joint is None and link == 'world':
            continue  # SDF has it already
        parent = '' if joint is None else str(joint.find('parent').get('link'))
        fixed = joint is not None and joint.get('type') == 'fixed'
        if fixed and parent in carriers and not _has_mass(links[link]):
            carriers[link] = carriers[parent]
            _add_pose(etree.SubElement(model, 'frame', name=link, attached_to=parent), joint)
        else:
            carriers[link] = etree.SubElement(model, 'link', name=link)
            _add_joint(model, carriers[link], joint, links)
            _add_inertial(carriers[link], links[link])
        for shape in links[link].iterfind('*'):
            if shape.tag in ('visual', 'collision'):
                _add_shape(carriers[link], link, shape)
    etree.indent(document)
    return str(etree.tostring(document, encoding='unicode')) + '\n'


def _parents_first(
    links: dict[str, etree._Element], joints: dict[str, etree._Element]
) -> list[str]:
    children: dict[str, list[str]] = {}
    for child, joint in joints.items():
        children.setdefault(joint.find('parent').get('link'), []).append(child)
    order = [link for link in links if link not in joints]
    for link in order:
        order.extend(children.get(link, ()))
    return order


def _add_joint(
    model: etree._Element,
    link: etree._Element,
    source: etree._Element | None,
    links: dict[str, etree._Element],
) -> None:
    """Add the joint that carries a link: at the URDF's origin in the parent, the link in it."""
    given = 'base_to_world' if source is None else source.get('name')
    kind = 'fixed' if source is None else source.get('type')
    if kind not in _KINDS:
        raise ModelError(
            f"joint '{given}' is {kind}, which is not written as SDF",
            joint=given,
            remedy='make it fixed, or convert the URDF by `gz sdf -p`',
        )
    name = given
    if name in links:
        name = f'{given}_joint'
        warnings.warn(
            f"joint '{given}' has the name of a link, which SDF does not allow; it is called "
            f"'{name}'",
            IdentificationWarning,
            stacklevel=4,
        )
    joint = etree.SubElement(model, 'joint', name=name, type=kind)
    parent = 'world' if source is None else source.find('parent').get('link')
    _add(joint, 'parent', parent)
    _add(joint, 'child', link.get('name'))
    if source is None:
        return
    _add_pose(joint, source, '__model__' if parent == 'world' else parent)
    _add(link, 'pose', '0 0 0 0 0 0').set('relative_to', name)
    if kind == 'fixed':
        return
    axis = etree.SubElement(joint, 'axis')
    along = source.find('axis')
    _add(axis, 'xyz', '1 0 0' if along is None else along.get('xyz', '1 0 0'))
    _add_mimic(axis, source.find('mimic'), links)
    for tag, names in _AXIS.items():
        values = source.find(tag)
        known = () if values is None else [n for n in names if values.get(n) is not None]
        element = etree.SubElement(axis, tag) if known else None
        for attribute in known:
            _add(element, attribute, values.get(attribute))


def _add_mimic(
    axis: etree._Element, source: etree._Element | None, links: dict[str, etree._Element]
) -> None:
    """Add the joint that a joint follows."""
    if source is None:
        return
    leader = source.get('joint')
    leader = f'{leader}_joint' if leader in links else leader
    mimic = etree.SubElement(axis, 'mimic', joint=leader, axis='axis')
    _add(mimic, 'multiplier', source.get('multiplier', '1'))
    _add(mimic, 'offset', source.get('offset', '0'))
    _add(mimic, 'reference', '0')


def _has_mass(link: etree._Element) -> bool:
    mass = link.find('inertial/mass')
    return mass is not None and float(mass.get('value')) != 0.0


def _add_inertial(link: etree._Element, source: etree._Element) -> None:
    inertial = etree.SubElement(link, 'inertial')
    if not _has_mass(source):
        _add(inertial, 'mass', repr(SMALLEST))
        values = dict.fromkeys(('ixx', 'iyy', 'izz'), repr(SMALLEST))
    else:
        _add_pose(inertial, source.find('inertial'))
        _add(inertial, 'mass', source.find('inertial/mass').get('value'))
        values = dict(source.find('inertial/inertia').attrib)
    tensor = etree.SubElement(inertial, 'inertia')
    for entry in ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'):
        _add(tensor, entry, values.get(entry, '0'))


def _add_shape(carrier: etree._Element, link: str, source: etree._Element) -> None:
    """Add a visual or a collision."""
    geometry = source.find('geometry')
    kind = (
        next((child for child in geometry.iterfind('*')), None) if geometry is not None else None
    )
    if kind is None or (kind.tag not in _SHAPES and kind.tag != 'mesh'):
        return
    number = sum(1 for _ in carrier.iterfind(source.tag))
    shape = etree.SubElement(carrier, source.tag, name=f'{link}_{source.tag}_{number}')
    _add_pose(shape, source, link if link != carrier.get('name') else None)
    element = etree.SubElement(etree.SubElement(shape, 'geometry'), kind.tag)
    for attribute in _SHAPES.get(kind.tag, ()):
        _add(element, attribute, kind.get(attribute))
    if kind.tag == 'mesh':
        _add(element, 'uri', kind.get('filename'))
        if kind.get('scale'):
            _add(element, 'scale', kind.get('scale'))


def _add_pose(element: etree._Element, source: etree._Element, frame: str | None = None) -> None:
    """Add the pose that the URDF's ``<origin>`` gives."""
    origin = source.find('origin')
    parts = [
        '0 0 0' if origin is None else origin.get(key, '0 0 0').strip() for key in ('xyz', 'rpy')
    ]
    pose = _add(element, 'pose', ' '.join(parts))
    if frame is not None:
        pose.set('relative_to', frame)


def _add(parent: etree._Element, tag: str, text: str) -> etree._Element:
    element = etree.SubElement(parent, tag)
    element.text = text
    return element
