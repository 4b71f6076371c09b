# SPDX-License-Identifier: Apache-2.0
"""
Conversion of MJCF, as MuJoCo reads it, to URDF.

Each body becomes a link, whose frame is the body's moved to the anchor of its last joint; a body
with k joints has k - 1 links without inertia before it.  Reference positions (``ref``) turn into
the joints' origins, so that positions mean the same.  Meshes are left out, and so is what a URDF
has no element for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
import os
from pathlib import Path
import re
from typing import Any
import warnings

from lxml import etree
import numpy as np
import pinocchio as pin

from ..errors import IdentificationWarning, missing, ModelError, one_of
from ..untrusted.files import require_regular
from ..untrusted.xacro_process import answer_of

TIME_LIMIT, MEMORY_LIMIT = 30.0, 8 << 30
"""Time that MuJoCo may take, with meshes [s], and address space [bytes]."""

_ROOT = re.compile(r'<(mujocoinclude|mujoco|sdf|\w+)\b')
_FREE, _BALL, _SLIDE, _HINGE = 0, 1, 2, 3  # mjtJoint
_SHAPES = {2: 'sphere', 3: 'cylinder', 5: 'cylinder', 6: 'box'}  # mjtGeom; 3 is a capsule


def is_mjcf(text: str, path: Path) -> bool:
    """
    Return whether a text is MJCF by its first element.

    Raises ModelError, with what to do, if it is SDF, which is not read.
    """
    found = _ROOT.search(re.sub(r'<!--.*?-->', '', text, flags=re.DOTALL))
    root = '' if found is None else found[1]
    if root == 'sdf':
        raise ModelError(
            f"'{path}' is an SDF file, which is not read",
            file=str(path),
            remedy='give the URDF or xacro file that it was made from, or convert it: '
            "'pysdf' (sdf2urdf) does",
        )
    return root == 'mujoco'


def urdf_of_mjcf(path: Path, *, clamped: bool = False, floating: bool = False) -> str:
    """
    Return the URDF of a file in MJCF; a warning names what it lacks.

    A floating base is refused, or fixed where the file places it if ``clamped``.  If ``floating``,
    its body is the root link, and what stands in the world is left out; sites, and spheres that
    touch the ground, are links, too.

    Raises ModelError if MuJoCo cannot read it, or a URDF cannot express it, IdentificationError if
    MuJoCo is not installed.
    """
    mode = 'floating' if floating else 'clamped' if clamped else 'fixed'
    answer = _answer(path, mode)
    if 'error' in answer:
        raise ModelError(
            f"'{path}' cannot be converted to URDF: {answer['error']}",
            file=str(path),
            remedy='correct the file, or give a URDF',
        )
    for remark in answer['remarks']:
        warnings.warn(f"'{path}': {remark}", IdentificationWarning, stacklevel=2)
    return str(answer['text'])


def _answer(path: Path, wanted: str) -> dict[str, Any]:
    """
    Return one of the answers of `convert_mjcf`.

    Raises IdentificationError if MuJoCo is not installed.
    """
    file = str(path.absolute())
    stamps, answers = _CONVERTED.get(file, ({}, {}))
    same = (stamp is not None and stamp == _stamp(name) for name, stamp in stamps.items())
    if not stamps or not all(same):
        request = {'path': file}
        answers = answer_of(convert_mjcf, request, seconds=TIME_LIMIT, memory=MEMORY_LIMIT)
        if answers.get('missing'):
            raise missing('mujoco')
        _CONVERTED.clear()
        _CONVERTED[file] = answers.get('files', {}), answers
    return dict(answers.get(wanted, answers))


_CONVERTED: dict[str, tuple[dict[str, list[int] | None], dict[str, Any]]] = {}
"""Answers of the last file, and stamps of what it was read from: a start of MuJoCo takes long."""


def _stamp(name: str) -> list[int] | None:
    """Return when a file was written, and its size; None where there is none."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_size]


def convert_mjcf(request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return what is made of the file that a request names.

    These are its facts, its URDF with remarks or the error for each kind of base, and stamps of
    the files that it was read from.
    """
    try:
        import mujoco
    except ImportError:
        return {'missing': True}
    path = request['path']
    read = {str(file): _stamp(str(file)) for file in _files_beside(Path(path))}
    model = mujoco.MjModel.from_xml_path(path)
    for name in model.paths.decode().split('\0'):  # meshes, height fields, textures
        if name:
            file = os.path.join(os.path.dirname(path), name)
            read[file] = _stamp(file)
    return {
        'files': read,
        'facts': {
            'timestep': float(model.opt.timestep),
            'integrator': int(model.opt.integrator),
            'armature': _Conversion(model, clamped=True).armature(),
            'floating': bool((model.jnt_type == _FREE).any()),
        },
        'fixed': _converted(_Conversion(model, clamped=False)),
        'clamped': _converted(_Conversion(model, clamped=True)),
        'floating': _converted(_Conversion(model, clamped=False, floating=True)),
    }


def _converted(conversion: _Conversion) -> dict[str, Any]:
    """Return the URDF and remarks, or the error."""
    try:
        document = conversion.document()
    except Exception as error:  # what one kind of base lacks, the others may have
        return {'error': str(error) or type(error).__name__}
    etree.indent(document)
    text = etree.tostring(document, encoding='unicode')
    return {'text': text + '\n', 'remarks': list(conversion.remarks())}


def _files_beside(path: Path) -> set[Path]:
    """
    Return a file and those that it includes.

    Raises ModelError where one is not in its folder, or below.
    """
    folder = path.parent.resolve()
    waiting, seen = [path], set()
    while waiting:
        file = waiting.pop().resolve()
        if file in seen:
            continue
        seen.add(file)
        if not file.is_relative_to(folder):
            raise ModelError(
                f"it includes '{file}', which is outside of its folder",
                file=str(file),
                remedy=f"put that into '{folder}'",
            )
        try:
            require_regular(file)
            tree = etree.fromstring(
                file.read_bytes(), etree.XMLParser(resolve_entities=False, recover=True)
            )
        except (OSError, etree.XMLSyntaxError):
            continue  # for MuJoCo to say
        if tree is not None:
            # by the folder of the first file, however deep the one is that includes
            waiting += [folder / (each.get('file') or '') for each in tree.iter('include')]
    return seen


@dataclass(frozen=True)
class MjcfFacts:
    """
    Facts of an MJCF that a URDF has no element for.

    Attributes
    ----------
    timestep:
        Step of the simulator [s].
    integrator:
        Number of the integrator in MuJoCo's enumeration.
    armature:
        Rotor inertia by joint [kg m^2 or kg].
    floating:
        Whether the base floats.

    """

    timestep: float
    integrator: int
    armature: Mapping[str, float]
    floating: bool


def mjcf_facts(path: Path) -> MjcfFacts:
    """
    Return facts of a file in MJCF.

    Raises ModelError if MuJoCo cannot read it, IdentificationError if MuJoCo is not installed.
    """
    answer = _answer(path, 'facts')
    if 'error' in answer:
        raise ModelError(
            f"'{path}' cannot be read: {answer['error']}",
            file=str(path),
            remedy='correct the file, or give a URDF',
        )
    return MjcfFacts(**answer)


class _Conversion:
    """
    Conversion of MuJoCo's compiled model ``model`` (`mujoco.MjModel`).

    Free joints are left out if ``clamped``, and begin the tree if ``floating``.
    """

    def __init__(self, model: Any, clamped: bool, floating: bool = False) -> None:
        self._model, self._clamped, self._floating = model, clamped, floating
        # link frames in body frames: the anchor of the last joint
        self._shift = np.zeros((model.nbody, 3))
        self._shift[model.jnt_bodyid] = model.jnt_pos

    def document(self) -> etree._Element:
        model = self._model
        name = model.names[: model.names.index(b'\0')].decode() or 'robot'
        root = etree.Element('robot', name=name)
        if self._floating:
            for body in self._floating_bodies():
                self._add_body(root, body)
            self._add_places(root)
            return root
        etree.SubElement(root, 'link', name=self._body(0))
        for body in range(1, model.nbody):
            self._add_body(root, body)
        return root

    def _floating_bodies(self) -> list[int]:
        """Return the body that floats and those that it carries; raises ValueError for others."""
        model = self._model
        free = np.flatnonzero(model.jnt_type == _FREE)
        roots = model.jnt_bodyid[free]
        if len(roots) != 1 or model.body_parentid[roots[0]]:
            raise ValueError(f'{len(roots)} bodies have a freejoint in the world, not one')
        return [int(body) for body in np.flatnonzero(model.body_rootid == roots[0])]

    def _add_places(self, root: etree._Element) -> None:
        """Add links without inertia at sites, and at spheres that may stand on the ground."""
        model = self._model
        taken = {link.get('name') for link in root.iterfind('link')}
        sphere = next(kind for kind, shape in _SHAPES.items() if shape == 'sphere')
        touching = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        places = [
            (model.site(i).name, model.site_bodyid[i], model.site_pos[i], model.site_quat[i], 0.0)
            for i in range(model.nsite)
        ] + [
            (
                model.geom(i).name,
                model.geom_bodyid[i],
                model.geom_pos[i],
                model.geom_quat[i],
                model.geom_size[i][0],
            )
            for i in np.flatnonzero(touching & (model.geom_type == sphere))
        ]
        for name, body, place, turned, radius in places:
            if not name or name in taken or self._body(int(body)) not in taken:
                continue
            taken.add(name)
            link = etree.SubElement(root, 'link', name=name)
            joint = _joint_element(root, f'{name}_fixed', 'fixed', self._body(int(body)), name)
            _origin(joint, place - self._shift[body], _rotation(turned))
            if radius:
                shape = etree.SubElement(etree.SubElement(link, 'collision'), 'geometry')
                etree.SubElement(shape, 'sphere', radius=_text([radius]))

    def remarks(self) -> Iterator[str]:
        model = self._model
        rotors = [
            self._joint(j) for j in range(model.njnt) if model.dof_armature[model.jnt_dofadr[j]]
        ]
        if rotors:
            yield f'armature of {one_of(rotors)} has no element in a URDF'
        if (model.jnt_type == _FREE).any() and not self._floating:
            yield 'the floating base is fixed where the file places it (robot.clamped)'
        loops = int(np.sum(model.eq_type < 2))  # connect, weld
        if loops:
            yield f'{loops} closed loops are cut open; describe them by robot.loops'
        if model.nmesh:
            yield 'meshes are left out: plans see the other shapes alone'

    def armature(self) -> dict[str, float]:
        """Return the armature of each hinge and slide."""
        model = self._model
        return {
            self._joint(j): float(model.dof_armature[model.jnt_dofadr[j]])
            for j in range(model.njnt)
            if model.jnt_type[j] in (_SLIDE, _HINGE)
        }

    def _joints_of(self, body: int) -> list[int]:
        first, count = self._model.body_jntadr[body], self._model.body_jntnum[body]
        joints = range(first, first + count)
        free = self._model.jnt_type == _FREE
        return [
            joint for joint in joints if not ((self._clamped or self._floating) and free[joint])
        ]

    def _body(self, body: int) -> str:
        return str(self._model.body(body).name) or f'body_{body}'

    def _joint(self, joint: int) -> str:
        return str(self._model.joint(joint).name) or f'joint_{joint}'

    def _add_body(self, root: etree._Element, body: int) -> None:
        model = self._model
        parent, rotation = int(model.body_parentid[body]), _rotation(model.body_quat[body])
        place = model.body_pos[body] - self._shift[parent]
        parent_link, anchor = self._body(parent), np.zeros(3)
        joints = self._joints_of(body)
        for joint in joints:
            kind = int(model.jnt_type[joint])
            if kind not in (_SLIDE, _HINGE):
                what = (
                    'is a ball joint'
                    if kind == _BALL
                    else 'lets its body float (see robot.base: floating)'
                )
                raise ValueError(
                    f"joint '{self._joint(joint)}' of body '{self._body(body)}' {what}; only "
                    'hinges and slides can be converted'
                )
            axis, ref = model.jnt_axis[joint], float(model.qpos0[model.jnt_qposadr[joint]])
            last = joint == joints[-1]
            link = self._body(body) if last else f'{self._body(body)}_{self._joint(joint)}'
            origin, turned = place + rotation @ (model.jnt_pos[joint] - anchor), rotation
            if kind == _SLIDE:
                origin = origin - ref * rotation @ axis
            else:
                turned = rotation @ pin.exp3(-ref * axis)
            limited = bool(model.jnt_limited[joint])
            moves = 'prismatic' if kind == _SLIDE else 'revolute' if limited else 'continuous'
            element = _joint_element(root, self._joint(joint), moves, parent_link, link)
            _origin(element, origin, turned)
            self._describe_joint(element, joint)
            parent_link, anchor = link, model.jnt_pos[joint]
            place, rotation = np.zeros(3), np.eye(3)
            if not last:
                etree.SubElement(root, 'link', name=link)
        if not joints and not (self._floating and not model.body_parentid[body]):
            name, link = f'{self._body(body)}_fixed', self._body(body)
            _origin(_joint_element(root, name, 'fixed', parent_link, link), place, rotation)
        self._add_link(root, body)

    def _describe_joint(self, element: etree._Element, joint: int) -> None:
        """Add axis, limits and friction."""
        model, dof = self._model, int(self._model.jnt_dofadr[joint])
        etree.SubElement(element, 'axis', xyz=_text(model.jnt_axis[joint]))
        # 1e9 and 0 stand for no limit
        limits = {'effort': _text([self._effort(joint)]), 'velocity': '0'}
        if element.get('type') != 'continuous':
            lower, upper = model.jnt_range[joint] if model.jnt_limited[joint] else (-1e9, 1e9)
            limits.update(lower=_text([lower]), upper=_text([upper]))
        etree.SubElement(element, 'limit', limits)
        damping, friction = np.ravel(model.dof_damping[dof])[0], model.dof_frictionloss[dof]
        if damping or friction:
            etree.SubElement(
                element, 'dynamics', damping=_text([damping]), friction=_text([friction])
            )

    def _effort(self, joint: int) -> float:
        """Return the largest effort of a joint; 0 for unknown."""
        model = self._model
        if model.jnt_actfrclimited[joint]:
            return float(np.abs(model.jnt_actfrcrange[joint]).max())
        drives = (model.actuator_trntype == 0) & (model.actuator_trnid[:, 0] == joint)
        if not drives.any() or not model.actuator_forcelimited[drives].all():
            return 0.0
        forces = np.abs(model.actuator_forcerange[drives]).max(axis=1)
        return float(np.sum(forces * np.abs(model.actuator_gear[drives, 0])))

    def _add_link(self, root: etree._Element, body: int) -> None:
        model, link = self._model, etree.SubElement(root, 'link', name=self._body(body))
        if model.body_mass[body] > 0.0:
            inertial = etree.SubElement(link, 'inertial')
            place = model.body_ipos[body] - self._shift[body]
            _origin(inertial, place, _rotation(model.body_iquat[body]))
            etree.SubElement(inertial, 'mass', value=_text([model.body_mass[body]]))
            tensor = dict.fromkeys(('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), '0')
            for axis, value in zip('xyz', model.body_inertia[body], strict=True):
                tensor[f'i{axis}{axis}'] = _text([value])
            etree.SubElement(inertial, 'inertia', tensor)
        for geom in np.flatnonzero(model.geom_bodyid == body):
            self._add_shape(link, int(geom))

    def _add_shape(self, link: etree._Element, geom: int) -> None:
        model = self._model
        shape = _SHAPES.get(int(model.geom_type[geom]))
        if shape is None:
            return
        touches = model.geom_contype[geom] or model.geom_conaffinity[geom]
        element = etree.SubElement(link, 'collision' if touches else 'visual')
        place = model.geom_pos[geom] - self._shift[model.geom_bodyid[geom]]
        _origin(element, place, _rotation(model.geom_quat[geom]))
        first, second, third = (float(value) for value in model.geom_size[geom])
        sizes = {'radius': _text([first])}
        if shape == 'box':
            sizes = {'size': _text(2.0 * np.array([first, second, third]))}
        elif shape == 'cylinder':
            # a capsule as the cylinder around it
            capsule = model.geom_type[geom] == 3
            sizes['length'] = _text([2.0 * (second + (first if capsule else 0.0))])
        etree.SubElement(etree.SubElement(element, 'geometry'), shape, sizes)


def _rotation(quaternion: np.ndarray) -> np.ndarray:
    return np.asarray(pin.Quaternion(*(float(part) for part in quaternion)).matrix())


def _joint_element(
    root: etree._Element, name: str, kind: str, parent: str, child: str
) -> etree._Element:
    element = etree.SubElement(root, 'joint', name=name, type=kind)
    etree.SubElement(element, 'parent', link=parent)
    etree.SubElement(element, 'child', link=child)
    return element


def _origin(element: etree._Element, place: np.ndarray, rotation: np.ndarray) -> None:
    angles = pin.rpy.matrixToRpy(rotation)
    etree.SubElement(element, 'origin', xyz=_text(place), rpy=_text(angles))


def _text(values: Any) -> str:
    return ' '.join(repr(float(value)) for value in values)
