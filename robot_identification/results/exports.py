# SPDX-License-Identifier: Apache-2.0
"""
Exports for other programs: SDF for Gazebo, C for controllers, tables, a layout for PlotJuggler.

Gazebo reads URDF too, but lumps links that hang on fixed joints and scales nothing back.  In the
SDF every link with a mass stays one; a link without, that hangs on a fixed joint, becomes a frame
(SDFormat 1.9: poses are ``relative_to`` frames, as URDF's origins are).

The C file has the recursive Newton-Euler algorithm (Luh, Walker and Paul 1980) of the template
beside this module, with the model's numbers as constants.  It needs nothing but ``math.h``.

PlotJuggler shows a curve by its full name only, and names those of joint states after the joints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
import csv
from dataclasses import dataclass
import io
import re
from typing import Any
import warnings

from lxml import etree
import numpy as np

from ..errors import IdentificationWarning, ModelError
from ..model.friction import FRICTION, SLOPES
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..model.urdf import parse_tree
from ..options.document import dump
from ..regressor import ModelSettings
from ..regressor.joint_terms import slopes_of
from ..regressor.rigid import tree_of
from ..regressor.settings import CoupledDrive
from ..untrusted.names import csv_cell
from ..version import __version__
from .figure import templates

VERSION = '1.9'

SMALLEST = 1e-9
"""Mass and inertia of a moving link that has none, which Gazebo refuses [kg, kg m^2]."""

_SHAPES = {'box': ('size',), 'cylinder': ('radius', 'length'), 'sphere': ('radius',)}
_AXIS = {'dynamics': ('damping', 'friction'), 'limit': ('lower', 'upper', 'effort', 'velocity')}
_KINDS = ('revolute', 'continuous', 'prismatic', 'fixed')
_COLUMNS = {
    'standard_parameters': ('name', 'unit', 'value', 'std', 'prior'),
    'parameters': ('name', 'unit', 'value', 'std', 'expression'),
}
"""Columns of the two tables of a result's file that are written."""

_SHOWN = 8  # parameters, the first ones


def sdf(urdf: str) -> str:
    """
    Return the SDF of a URDF.

    Links keep their inertias, visuals and collisions, joints their axes, limits, damping and
    friction; the base is fixed to the world.  Comments of the robot, such as those on parameters
    without an element, come along; rotor inertia has no element in SDF.

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
        naming joints that are renamed, as SDF requires other names for links than for joints.

    """
    robot = parse_tree(urdf)
    document = etree.Element('sdf', version=VERSION)
    model = etree.SubElement(document, 'model', name=robot.get('name'))
    model.extend(deepcopy(comment) for comment in robot.iterchildren(etree.Comment))
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
    for tag, names in _AXIS.items():
        values = source.find(tag)
        known = () if values is None else [n for n in names if values.get(n) is not None]
        element = etree.SubElement(axis, tag) if known else None
        for attribute in known:
            _add(element, attribute, values.get(attribute))


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


# ---------------------------------------------------------------------------------------------- C

_TERMS = {
    'Ia': 'Rotor inertia.',
    **{term.symbol: f'{term.title[:1].upper()}{term.title[1:]}.' for term in FRICTION.values()},
    'kc': 'Springs: coefficient of the cosine.',
    'ks': 'Springs: coefficient of the sine.',
}
_SIGNED = {term.symbol for term in FRICTION.values() if term.signed}


def c_code(robot: Robot, parameters: ParameterSet, model: ModelSettings | None = None) -> str:
    """
    Return a C99 file with the inverse dynamics of an identified robot.

    ``<robot>_inverse_dynamics(q, v, a, tau)`` has all terms of the model, ``_gravity(q, tau)`` the
    efforts at rest and ``_friction(q, v, a, tau)`` friction and offsets, for joints in the robot's
    order.  Friction within a breakaway displacement takes the sign of the velocity, which below
    the reversal speed is in proportion to it; elastic joints are stiff.

    Parameters
    ----------
    robot, parameters, model:
        The robot, its standard parameters, and what these belong to.

    Raises
    ------
    ModelError
        if the robot has closed loops.

    """
    model = model or ModelSettings()
    if model.delta is not None or robot.passive:
        raise ModelError(
            f"robot '{robot.name}' has closed loops, whose inverse dynamics is not written as C",
            remedy='export --format mjcf has them',
        )
    tree = tree_of(robot)
    owners, remarks = robot.joints, []
    if model.elastic is not None:
        owners = model.elastic.motor_names(robot.joints)
        remarks.append('Its joints are elastic; here they are stiff, and motors turn with them.')
    if np.any(model.breakaway):
        remarks.append("Friction takes the sign of the velocity, not the state of Dahl's model.")
    terms = _terms(parameters, owners, robot.joints, model)
    reversal = np.broadcast_to(model.reversal_speed, robot.n_joints)
    drives = [
        _Drive.of(drive, robot.joints, parameters, reversal) for drive in model.coupled_drives
    ]
    links = [robot.links[joint.column] for joint in tree.joints]
    environment = templates(autoescape=False, keep_trailing_newline=True)
    functions = {'number': _number, 'vector': _vector, 'matrix': _matrix, 'row': _row}
    environment.globals.update(functions, table=_table)
    code = environment.get_template('inverse_dynamics.c.j2').render(
        name=identifier(robot.name),
        robot=_plain(robot.name),
        version=__version__,
        joints=[_plain(joint) for joint in robot.joints],
        revolute=tree.revolute,
        n=robot.n_joints,
        remarks=remarks,
        tree=tree.joints,
        bodies=[parameters.inertial(link) for link in links],
        loads=[robot.prior.inertial(link) for link in links],
        gravity=robot.gravity,
        terms=terms,
        friction=[term.c_code for term in FRICTION.values() if term.symbol in terms],
        drives=drives,
        signs=bool(_SIGNED & {*terms}) or any(drive.viscous or drive.coulomb for drive in drives),
    )
    return code.replace('M_2_PI', repr(2.0 / np.pi))  # it is not C99's


@dataclass(frozen=True)
class _Drive:
    """A coupled drive: places and ratios of its joints, inertia and friction."""

    name: str
    coupled: tuple[tuple[int, float], ...]
    inertia: float
    viscous: float
    coulomb: float
    reversal: float

    @classmethod
    def of(
        cls,
        drive: CoupledDrive,
        joints: tuple[str, ...],
        parameters: ParameterSet,
        reversal: np.ndarray,
    ) -> _Drive:
        own = drive.ratios[drive.joints.index(drive.motor)]
        inertia = parameters.get(f'{drive.motor}.Iam')
        if drive.inertia == 'tied':
            inertia = parameters.get(f'{drive.motor}.Ia') / own**2
        return cls(
            f'coupled drive of {_plain(drive.motor)}',
            tuple(zip(map(joints.index, drive.joints), drive.ratios, strict=True)),
            inertia,
            parameters.get(f'{drive.motor}.fvm'),
            parameters.get(f'{drive.motor}.fcm'),
            float(reversal[joints.index(drive.motor)]),
        )

    def sum(self, signal: str) -> str:
        """Return the C expression of a signal of the motor."""
        return ' + '.join(f'{_number(ratio)} * {signal}[{joint}]' for joint, ratio in self.coupled)


def _terms(
    parameters: ParameterSet,
    owners: tuple[str, ...],
    joints: tuple[str, ...],
    model: ModelSettings,
) -> dict[str, tuple[np.ndarray, str]]:
    """Return values of the terms that are not 0, with their comments."""
    terms = {}
    for symbol, comment in _TERMS.items():
        named = joints if symbol in ('kc', 'ks') else owners
        values = np.array([parameters.get(f'{owner}.{symbol}') for owner in named])
        if values.any() or (symbol == 'ks' and 'kc' in terms):
            terms[symbol] = values, comment
    if 'ks' in terms:
        terms.setdefault('kc', (np.zeros(len(joints)), _TERMS['kc']))
    slopes = slopes_of(model, joints)
    for term, key in SLOPES.items():
        if FRICTION[term].symbol in terms:
            terms[key] = slopes[term], 'How steeply it rises with the velocity.'
    if _SIGNED & {*terms}:
        speeds = np.broadcast_to(model.reversal_speed, len(joints))
        terms['reversal_speed'] = speeds, 'Speed below which dry friction is in proportion to it.'
    return terms


def identifier(name: str) -> str:
    """Return a robot's name as an identifier of C."""
    text = re.sub(r'\W+', '_', name, flags=re.ASCII).strip('_').lower()
    return f'robot_{text}' if not text or text[0].isdigit() else text


def _plain(name: str) -> str:
    """Return a name that neither begins nor ends a comment."""
    return re.sub(r'[\\\n]', ' ', name.replace('*', ' '))


def _number(value: float) -> str:
    return repr(float(value) + 0.0)


def _vector(values: Iterable[float]) -> str:
    return '{' + ', '.join(_number(value) for value in values) + '}'


def _matrix(rows: Iterable[np.ndarray]) -> str:
    return '{\n  ' + ',\n  '.join(_vector(np.ravel(row)) for row in rows) + '}'


def _row(joints: Iterable[Any], name: str) -> str:
    return '{' + ', '.join(str(int(getattr(joint, name))) for joint in joints) + '}'


def _table(joints: Iterable[Any], name: str) -> str:
    return _matrix(getattr(joint, name) for joint in joints)


# ------------------------------------------------------------------------------ tables and layout


def parameters_csv(document: Mapping[str, Any]) -> str:
    """
    Return standard and base parameters as one CSV table.

    Parameters
    ----------
    document:
        Content of a result's file.

    Returns
    -------
    str
        The table; ``kind`` is standard or base, and what a row does not have is empty.

    """
    text = io.StringIO()
    columns = dict.fromkeys(('kind', *sum(_COLUMNS.values(), ())))
    writer = csv.DictWriter(text, list(columns), restval='', lineterminator='\n')
    writer.writeheader()
    for table, rows in _tables(document).items():
        kind = 'standard' if table == 'standard_parameters' else 'base'
        for row in rows:
            cells = {name: csv_cell(value) for name, value in row.items()}
            writer.writerow({'kind': kind, **cells})
    return text.getvalue()


def parameters_yaml(document: Mapping[str, Any]) -> str:
    """Return the two tables as YAML; a standard deviation that is not known is null."""
    return dump({'name': document['name'], **_tables(document)})


def _tables(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [{name: row[name] for name in columns} for row in document[table]]
        for table, columns in _COLUMNS.items()
    }


def plotjuggler_layout(joints: Sequence[str]) -> str:
    """Return the layout, in XML, that shows what the nodes publish of a robot."""
    tabs = _tabs(joints)
    curves = (name for areas in tabs.values() for _, curves in areas for name in curves)
    topics = list(dict.fromkeys(_topic(name) for name in curves))
    template = templates(keep_trailing_newline=True).get_template('plotjuggler.xml.j2')
    return template.render(tabs=tabs, topics=topics)


def _tabs(joints: Sequence[str]) -> dict[str, list[tuple[str, list[str]]]]:
    """Return titles of plots with the names of their curves, tab by tab."""
    places, shown = range(len(joints)), range(_SHOWN)
    online = '/identification/online'
    return {
        'Efforts from outside': [
            ('External effort', [f'/observer/external_effort/{j}/effort' for j in joints]),
            ('Threshold', [f'/observer/external_effort_threshold/{j}/effort' for j in joints]),
            ('Contact', ['/observer/contact/data']),
        ],
        'Measured and predicted': [
            (j, [f'/observer/{kind}_effort/{j}/effort' for kind in ('measured', 'predicted')])
            for j in joints
        ],
        'Live identification': [
            ('Parameters', [f'{online}/parameters/parameters[{k}]/value' for k in shown]),
            ('Standard deviations', [f'{online}/parameters/parameters[{k}]/std' for k in shown]),
            (
                'Updates',
                [f'{online}/status/{k}' for k in ('rate', 'lost', 'late_updates', 'state')],
            ),
        ],
        'Identification': [
            ('Fit', [f'/identification/fit/joints[{k}]/rmse' for k in places]),
            (
                'Relative standard deviations',
                [f'/identification/parameters/parameters[{k}]/relative_std' for k in shown],
            ),
        ],
        'Recorder': [
            ('Rate', ['/recorder/status/rate']),
            ('Faults', [f'/recorder/status/{name}' for name in ('gaps', 'lost', 'overflowed')]),
            ('Recording', [f'/recorder/status/{name}' for name in ('recording', 'messages')]),
        ],
    }


def _topic(curve: str) -> str:
    """Return the topic of a curve: all topics but those of the live estimate have two names."""
    names = curve.split('/')
    return '/'.join(names[: 4 if names[2] == 'online' else 3])
