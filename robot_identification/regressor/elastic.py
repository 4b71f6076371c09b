# SPDX-License-Identifier: Apache-2.0
r"""
The regressor of a robot with elastic joints.

L. Zollo, E. Lopez, L. Spedaliere, N. Garcia Aracil and E. Guglielmelli, "Identification of dynamic
parameters for robots with elastic joints" (2014).  The state is (q, theta): positions of the links
and of the motors, the latter divided by the gear ratios k (`ElasticJoints`).  With the rigid-body
efforts ``rigid(q, dq, ddq)`` of their section 4, what the joints and the motors feel is

.. math::

    rigid + B_d \ddot\theta + c_d + K (q - \theta) = 0, \qquad
    B_d^T \ddot q + c_m + B_\Upsilon \ddot\theta + F - K (q - \theta) = u

where K is the stiffness, F the friction of the motors and B_d, c_d, c_m the coupling between a
rotor's spin and the link that carries it.  That coupling is written here as what it is in
mechanics: rotor i, of the inertia J about its axis z (fixed in the link that carries its stator,
which has the angular velocity W), has beside the inertia that turns with that link the angular
momentum ``J k dtheta z``.  So the link feels the moment ``J k (ddtheta z + dtheta W x z)`` and the
motor the torque ``J k (z . dW/dt + k ddtheta)``, which are the paper's (8), (22) and (B.20)
without a derivative of a Jacobian: all of it comes from the velocities, accelerations and unit
motions that `rigid` carries from link to link anyway.

The inertia that turns with the link is the link's own: body i is link i, the stators mounted on it
and, as lumps, their rotors (the paper's (A.14)).  The parameter of the spin is the inertia reduced
to the joint, ``Ia = k^2 J`` (the paper's k^2 Upsilon), as it is for rigid joints: numbers of the
size of the links' inertias, whatever the gear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin

from ..data.recording import Motion
from ..errors import one_of, SettingsError
from ..model.mechanisms import ElasticJoints
from ..model.parameters import ParameterLayout
from ..model.robot import Robot
from .joint_terms import friction_term, JointTerm, unit_of
from .rigid import BLOCK, RigidBodies, Tree
from .settings import ModelSettings


@dataclass(frozen=True)
class Rotor:
    """
    A motor's rotor.

    ``joint`` is the place of its joint in all data, ``ratio`` k, turns of the rotor against its
    stator for one turn of theta.  ``carrier`` is the place in `Tree.joints` of the joint that
    moves the link with its stator, -1 for the base; ``axis`` (3,) a unit vector in that joint's
    frame.
    """

    joint: int
    ratio: float
    carrier: int
    axis: np.ndarray


@dataclass(frozen=True)
class ElasticRegressor:
    """
    Regressor of the efforts at the links and at the motors; made by `build_elastic`.

    A sample has 2n rows: those of the n links, whose effort is 0 in free space, then those of the
    n motors, whose effort is the motors' (reduced to the joints, as positions are).

    Attributes
    ----------
    layout:
        Ten parameters a link; ``<motor>.Ia`` of each motor; friction, motor by motor;
        ``<joint>.k``, and ``<joint>.d`` if transmissions are damped, joint by joint.
    joints:
        Names of the 2n columns of a motion: the joints, then the motors.
    rigid, friction:
        Columns of the links, and of the motors' friction.
    rotors:
        In the order of the joints; none without rotor inertia.
    coupled, damped:
        Whether rotors and links act on each other beside the transmission, which may be damped.
    revolute:
        (n,) whether each joint turns.

    """

    layout: ParameterLayout
    joints: tuple[str, ...]
    rigid: RigidBodies
    rotors: tuple[Rotor, ...]
    friction: JointTerm
    coupled: bool
    damped: bool
    revolute: tuple[bool, ...]

    @property
    def n_joints(self) -> int:
        """Number of rows of a sample, 2n."""
        return len(self.joints)

    @property
    def motors(self) -> dict[str, str]:
        """The joint of each motor, by the motor's name."""
        n = len(self.revolute)
        return dict(zip(self.joints[n:], self.joints[:n], strict=True))

    @property
    def driven(self) -> np.ndarray:
        """(2n,) bool, which rows of a sample have an effort: the motors'."""
        return np.arange(self.n_joints) >= len(self.revolute)

    @property
    def breakaway(self) -> np.ndarray | None:
        """(2n,) displacement of the motors' dry friction [rad or m]; None without one."""
        own = self.friction.breakaway
        return None if own is None else np.concatenate((np.zeros_like(own), own))

    def rows(self, motion: Motion) -> np.ndarray:
        """
        Evaluate the regressor, (n_samples * 2n, len(layout)), a sample's rows together.

        States are (n_samples, 2n), and rows in the same order: the links' in the robot's order,
        then the motors' reduced to the joints [rad, rad/s, rad/s^2].
        """
        n_samples, n_columns = motion.position.shape
        if n_columns != self.n_joints:
            raise ValueError(f'the motion has {n_columns} columns, the regressor {self.n_joints}')
        n = n_columns // 2
        out = np.zeros((n_samples, n_columns, len(self.layout)))
        state = motion.friction_state
        motors = Motion(
            *(a[:, n:] for a in _states(motion)),
            friction_state=None if state is None else state[:, n:],
        )
        for start in range(0, n_samples, BLOCK):
            part = slice(start, start + BLOCK)
            states = (np.ascontiguousarray(a[part, :n].T) for a in _states(motion))
            links = self.rigid.motions(*states)
            self.rigid.write(links, out[part])
            self._write_rotors(links, motors.rows(start, start + BLOCK), out[part])
        self.friction.fill(motors, out[:, n:])
        self._fill_transmissions(motion, out)
        return out.reshape(n_samples * n_columns, len(self.layout))

    def random_motion(self, random: np.random.Generator, samples: int) -> Motion:
        """
        Draw states at which every column shows.

        Links and motors move independently; a twist of up to 1 rad shows the stiffness as well as
        a small one, of which it is a multiple.
        """
        n = len(self.revolute)
        reach = np.where(self.revolute, np.pi, 1.0)
        links = random.uniform(-reach, reach, (samples, n))
        return Motion(
            position=np.hstack([links, links + random.uniform(-1.0, 1.0, (samples, n))]),
            velocity=random.uniform(-3.0, 3.0, (samples, 2 * n)),
            acceleration=random.uniform(-10.0, 10.0, (samples, 2 * n)),
        )

    def _write_rotors(self, links: list[np.ndarray], motors: Motion, out: np.ndarray) -> None:
        """Write the columns ``Ia`` of a block, from the motions of its links."""
        n = len(self.revolute)
        for rotor in self.rotors:
            column = len(self.rigid.layout) + rotor.joint
            spin = motors.velocity[:, rotor.joint]
            spin_up = motors.acceleration[:, rotor.joint]
            out[:, n + rotor.joint, column] = spin_up
            if not self.coupled or rotor.carrier < 0:
                continue
            link = links[rotor.carrier][:3]
            velocity, acceleration, units = link[:, 0], link[:, 1], link[:, 2:]
            axis = rotor.axis
            out[:, n + rotor.joint, column] += axis @ acceleration / rotor.ratio
            moment = axis[:, None] * spin_up + np.cross(velocity, axis, axis=0) * spin
            efforts = np.einsum('ckn,cn->nk', units, moment / rotor.ratio)
            tree = self.rigid.tree.joints
            for k, place in enumerate(tree[rotor.carrier].path):
                out[:, tree[place].column, column] += tree[place].multiplier * efforts[:, k]

    def _fill_transmissions(self, motion: Motion, out: np.ndarray) -> None:
        n = len(self.revolute)
        start = self.layout.index(f'{self.joints[0]}.k')
        twists = [motion.position, motion.velocity][: 1 + self.damped]
        for i, state in enumerate(twists):
            twist = state[:, :n] - state[:, n:]
            joints = np.arange(n)
            columns = start + len(twists) * joints + i
            out[:, joints, columns] = twist
            out[:, n + joints, columns] = -twist


def build_elastic(robot: Robot, settings: ModelSettings) -> ElasticRegressor:
    """
    Make the regressor of a robot whose joints are the n links' sides.

    Raises SettingsError naming the key that does not fit the robot.
    """
    elastic = settings.elastic
    if elastic is None:
        raise ValueError('the settings have no elastic joints')
    if settings.coupled_drives:
        raise SettingsError(
            'the model has elastic joints and coupled drives',
            key='robot.coupled_drives',
            value=[drive.motor for drive in settings.coupled_drives],
            remedy='leave one of them out',
        )
    rigid = RigidBodies.from_robot(robot)
    revolute = rigid.tree.revolute
    names = elastic.columns(robot.joints)
    motors = names[robot.n_joints :]
    rotors = _rotors(robot, elastic, rigid.tree) if settings.rotor_inertia else ()
    layout = rigid.layout
    if rotors:
        units = tuple(unit_of('Ia', revolute=turns) for turns in revolute)
        layout = layout + ParameterLayout(tuple(f'{motor}.Ia' for motor in motors), units)
    of_motors = replace(settings, rotor_inertia=False)
    friction = friction_term(motors, revolute, of_motors, len(layout))
    layout = layout + friction.layout + _transmissions(robot.joints, revolute, elastic.damping)
    return ElasticRegressor(
        layout=layout,
        joints=names,
        rigid=rigid,
        rotors=rotors,
        friction=friction,
        coupled=elastic.coupling,
        damped=elastic.damping,
        revolute=revolute,
    )


def _states(motion: Motion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return motion.position, motion.velocity, motion.acceleration


def _transmissions(
    joints: tuple[str, ...], revolute: tuple[bool, ...], damping: bool
) -> ParameterLayout:
    """Stiffness, and damping where asked for, joint by joint."""
    symbols = [('k', 'N m/rad', 'N/m'), ('d', 'N m s/rad', 'N s/m')][: 1 + damping]
    pairs = [
        (f'{joint}.{symbol}', turning if turns else sliding)
        for joint, turns in zip(joints, revolute, strict=True)
        for symbol, turning, sliding in symbols
    ]
    names, units = zip(*pairs, strict=True)
    return ParameterLayout(names, units)


def _rotors(robot: Robot, elastic: ElasticJoints, tree: Tree) -> tuple[Rotor, ...]:
    """Rotors in the order of the data, each with what carries it."""
    model = robot.model
    place = {robot.carriers.joint_ids[joint.link]: i for i, joint in enumerate(tree.joints)}
    data = model.createData()
    pin.forwardKinematics(model, data, robot.configuration(np.zeros(robot.n_joints)))
    by_column = {joint.link: joint for joint in tree.joints}
    rotors = []
    for column, (joint, ratio) in enumerate(
        zip(robot.joints, elastic.ratios(robot.joints), strict=True)
    ):
        stator = elastic.stator(column, robot.joints)
        if stator is None:
            index = model.getFrameId(joint, pin.FrameType.JOINT)
            frame = model.frames[model.frames[index].parentFrame]
        elif stator in robot.link_frames:
            frame = robot.link_frames[stator]
        else:
            raise SettingsError(
                f"the motor of joint '{joint}' is mounted on '{stator}', which is no link",
                joint=joint,
                link=stator,
                key='robot.elastic.stators',
                value=stator,
                remedy=f'links are {one_of(robot.link_frames)}',
            )
        axis = elastic.rotor_axis(column, robot.joints)
        if axis is None:
            turned = data.oMi[robot.joint_ids[column]].rotation
            in_base = turned @ by_column[column].axis
            axis = data.oMi[frame.parentJoint].rotation.T @ in_base
        else:
            axis = frame.placement.rotation @ axis
        carrier = place.get(frame.parentJoint, -1)
        rotors.append(Rotor(column, float(ratio), carrier, axis))
    return tuple(rotors)
