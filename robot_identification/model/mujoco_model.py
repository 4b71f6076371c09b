# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's model of a robot: its mechanism as MJCF, and the compiled model with its inertias."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lxml import etree
import numpy as np
import pinocchio as pin

from ..errors import importing, ModelError
from .consistency import inertia_at_com
from .floating_base import BASE_JOINTS
from .link_inertias import joint_placement
from .parameters import ParameterSet
from .robot import Robot
from .urdf import UrdfJoint

with importing('mujoco'):
    import mujoco

ENTRIES = ([0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2])
"""Places in a (3, 3) inertia of its six entries, in the order of the inertial parameters."""

_PLACEHOLDER = {
    'pos': '0.1 0.2 0.3',
    'quat': '0.9 0.1 0.2 0.3',
    'mass': '1',
    'diaginertia': '1 1.1 1.2',
}
"""Off the axes, so that MuJoCo compiles no short cut for bodies whose frames coincide."""


_STIFF = {'solref': '0.005 1', 'solimp': '0.95 0.99 0.001'}
"""Fingers that are coupled by gears or belts, stiffer than MuJoCo's constraints are by default."""


def mechanism(robot: Robot) -> etree._Element:
    """
    Return MJCF of the links and joints of a robot's URDF.

    Every link is a body, fixed ones and the base included (a root link ``world`` is MuJoCo's own,
    but that of a floating base).
    Passive joints move, those that mimic others follow them by equality constraints, the other
    joints that are not identified are locked as in ``robot``.  Numbers have all their digits.
    """
    document = etree.Element('mujoco', model=robot.name)
    etree.SubElement(document, 'compiler', angle='radian')
    etree.SubElement(document, 'option', gravity=numbers(robot.gravity))
    children: dict[str, list[UrdfJoint]] = {}
    for joint in robot.contents.joints.values():
        children.setdefault(joint.parent, []).append(joint)
    world = etree.SubElement(document, 'worldbody')
    root = robot.links[len(BASE_JOINTS) - 1] if robot.floating else robot.contents.root_link
    # MuJoCo's own base is called so, and many URDFs' root link is
    base = (
        world
        if root == 'world' and not robot.floating
        else etree.SubElement(world, 'body', name=root)
    )
    if robot.floating:
        etree.SubElement(base, 'freejoint')
    # a stack, not a recursion: chains of links may be long
    waiting = [(root, base)]
    while waiting:
        name, parent = waiting.pop()
        for joint in children.get(name, ()):
            waiting.append((joint.child, _body(parent, joint, robot)))
    if robot.mimics.followed:
        equalities = etree.SubElement(document, 'equality')
        for name, mimic in robot.mimics.followed.items():
            coefficients = numbers((mimic.offset, mimic.multiplier, 0.0, 0.0, 0.0))
            pair = {'joint1': name, 'joint2': mimic.joint, 'polycoef': coefficients}
            etree.SubElement(equalities, 'joint', pair | _STIFF)
    return document


def _body(parent: etree._Element, joint: UrdfJoint, robot: Robot) -> etree._Element:
    """Add the body that a joint carries."""
    placement = joint_placement(joint, robot.locked.get(joint.name, 0.0))
    body = etree.SubElement(
        parent,
        'body',
        name=joint.child,
        pos=numbers(placement.translation),
        quat=numbers(wxyz(pin.Quaternion(placement.rotation).normalized())),
    )
    if joint.name not in robot.opened.joints:
        return body
    attributes = {'type': 'slide' if joint.type == 'prismatic' else 'hinge'}
    if joint.lower < joint.upper and np.isfinite([joint.lower, joint.upper]).any():
        attributes |= {'limited': 'true', 'range': numbers((joint.lower, joint.upper))}
    etree.SubElement(body, 'joint', name=joint.name, axis=numbers(joint.axis), **attributes)
    return body


def numbers(values: Iterable[float]) -> str:
    """Return numbers as text that reads back as the same numbers."""
    return ' '.join(repr(float(value) + 0.0) for value in values)


def mujoco_model(
    robot: Robot,
    parameters: ParameterSet,
    extend: Callable[[mujoco.MjSpec], None] = lambda spec: None,
) -> mujoco.MjModel:
    """
    Make MuJoCo's model of a robot from its URDF, with the inertias of ``parameters``.

    Other moving joints are locked as in ``robot``, fixed links are lumped with what carries them;
    shapes, and tags that are not URDF's own, are left out.  ``extend`` may add to it.
    Raises ModelError if MuJoCo refuses the robot.
    """
    try:
        spec = mujoco.MjSpec.from_string(_with_placeholders(robot))
        extend(spec)
        spec.compiler.fusestatic = True
        model = spec.compile()
    except ValueError as error:
        raise ModelError(
            f"MuJoCo cannot simulate robot '{robot.name}': {error}", remedy='correct the URDF'
        ) from error
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    stiffen(model)
    for joint in robot.driven_joints:
        model.dof_armature[model.joint(joint).dofadr[0]] = parameters.get(f'{joint}.Ia')
    for link in robot.layout.links:
        set_inertia(model, model.body(link).id, parameters.inertial(link))
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def stiffen(model: mujoco.MjModel) -> None:
    """Let equality constraints be as stiff as MuJoCo lets them be."""
    model.eq_solimp[:, :2] = mujoco.mjMAXIMP


def _with_placeholders(robot: Robot) -> str:
    """Return MJCF of a robot's mechanism; MuJoCo insists on some inertias and refuses others."""
    document = mechanism(robot)
    for body in document.iter('body'):
        etree.SubElement(body, 'inertial', _PLACEHOLDER)
    return str(etree.tostring(document, encoding='unicode'))


def set_inertia(model: mujoco.MjModel, body: int, inertial: np.ndarray) -> None:
    """Give a body of MuJoCo's model the (10,) inertial parameters of a link."""
    if not inertial.any():
        model.body_mass[body] = 0.0
        model.body_inertia[body] = 0.0
        return
    principal, axes = np.linalg.eigh(inertia_at_com(inertial))
    if np.linalg.det(axes) < 0.0:
        axes[:, 0] = -axes[:, 0]
    model.body_mass[body] = inertial[0]
    model.body_ipos[body] = inertial[1:4] / inertial[0]
    model.body_inertia[body] = np.maximum(principal, 0.0)
    model.body_iquat[body] = wxyz(pin.Quaternion(axes).normalized())


def wxyz(quaternion: pin.Quaternion) -> tuple[float, float, float, float]:
    """Return a quaternion in the order of MuJoCo's."""
    return quaternion.w, quaternion.x, quaternion.y, quaternion.z


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """Return the (3, 3) rotation of a quaternion of MuJoCo's."""
    return np.asarray(pin.Quaternion(*quaternion).toRotationMatrix())


def body_inertial(model: mujoco.MjModel, body: int) -> np.ndarray:
    """Return the (10,) inertial parameters of a body, as `set_inertia` takes them."""
    turned = rotation(model.body_iquat[body])
    mass, centre = float(model.body_mass[body]), model.body_ipos[body]
    inertia = turned @ np.diag(model.body_inertia[body]) @ turned.T
    inertia += mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.array([mass, *(mass * centre), *inertia[ENTRIES]])
