# SPDX-License-Identifier: Apache-2.0
"""
A simulated robot with elastic joints: rotors as bodies, and springs; and its servo.

MuJoCo gets each rotor as a body without mass that turns about its axis in the link that carries
it and has no inertia but the one about that axis; the link, whose parameters have the rotor in
them as a lump, is given without it.  So the gyroscopic coupling of links and rotors comes from
MuJoCo's own mechanics, not from a formula.  The transmission is a spring (and damper) between link
and rotor.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pinocchio as pin

from ..errors import importing, SettingsError
from ..model.consistency import inertia_at_com
from ..model.mujoco_model import ENTRIES, rotation, set_inertia, wxyz
from ..model.parameters import ParameterSet
from ..model.robot import joint_inertia, Robot
from ..regressor import ElasticJoints
from .plant import Plant
from .servo import Servo

with importing('mujoco'):
    import mujoco

LONGEST_STEP = 1.0
"""Longest step, in radians of the fastest oscillation; the integration is stable up to 2.8."""

SERVO_SHARE = 0.25
"""How much of a rotor's speed the servo's damping may take in one period, halved."""


class ElasticPlant(Plant):
    """
    A robot with elastic joints in MuJoCo, moved by efforts of its motors.

    Positions, velocities and efforts of the motors are reduced to the joints (`ElasticJoints`).
    The parameters are inertial ones of the links, ``Ia`` and friction of the motors, stiffness
    ``k`` and damping ``d`` of the joints; all else is as for `Plant`.
    """

    def __init__(
        self,
        robot: Robot,
        parameters: ParameterSet,
        elastic: ElasticJoints,
        timestep: float,
        slopes: Mapping[str, np.ndarray] | None = None,
        breakaway: np.ndarray | None = None,
    ) -> None:
        self._elastic = elastic
        self._ratio = elastic.ratios(robot.joints)
        self._stiffness = np.array([parameters[f'{joint}.k'] for joint in robot.joints])
        self._damping = np.array([parameters.get(f'{joint}.d') for joint in robot.joints])
        super().__init__(robot, parameters, timestep, slopes, breakaway)
        self._require_short_steps()

    def _make(self, parameters: ParameterSet) -> mujoco.MjModel:
        motors = self._elastic.motor_names(self.robot.joints)
        model = super()._make(parameters)
        for joint, motor, ratio in zip(self.robot.joints, motors, self._ratio, strict=True):
            rotor = parameters[f'{motor}.Ia'] / ratio**2
            _set_rotor(model, motor, rotor, self._elastic.coupling)
            tendon = model.tendon(_tendon(joint)).id
            model.tendon_stiffness[tendon] = parameters[f'{joint}.k']
            model.tendon_damping[tendon] = parameters.get(f'{joint}.d')
            model.tendon_lengthspring[tendon] = 0.0
        if self._elastic.coupling:
            self._take_out_rotors(model, parameters)
        mujoco.mj_setConst(model, mujoco.MjData(model))
        return model

    def _take_out_rotors(self, model: mujoco.MjModel, parameters: ParameterSet) -> None:
        """Give the links the inertia that they have without the rotors that they carry."""
        without = {link: parameters.inertial(link).copy() for link in self.robot.carriers.links}
        for motor in self._elastic.motor_names(self.robot.joints):
            body = model.body(motor).id
            link = model.body(model.body_parentid[body]).name
            if link not in without:
                continue  # the base
            turned = rotation(model.body_quat[body])
            axis = turned @ model.jnt_axis[model.joint(motor).id]
            lump = model.body_inertia[body, 2] * np.outer(axis, axis)
            without[link][4:] -= lump[ENTRIES]
            if np.linalg.eigvalsh(inertia_at_com(without[link]))[0] < 0.0:
                raise SettingsError(
                    f"the rotor of '{motor}' has more inertia than link '{link}', which has it "
                    'within',
                    key='elastic.gear_ratios',
                    link=link,
                    remedy='give the gear ratios, a smaller rotor_inertia, or elastic.coupling: '
                    'false',
                )
        for link, inertial in without.items():
            set_inertia(model, model.body(link).id, inertial)

    def _extend(self, spec: mujoco.MjSpec) -> None:
        joints = self.robot.joints
        motors = self._elastic.motor_names(joints)
        for i, (joint, link, motor) in enumerate(
            zip(joints, self.robot.links, motors, strict=True)
        ):
            carried = spec.body(link)
            stator = self._elastic.stator(i, joints)
            axis = self._elastic.rotor_axis(i, joints)
            carrier = carried.parent if stator is None else spec.body(stator)
            if axis is None:
                # the joint's own axis, in the frame of the link before it
                turned = rotation(carried.quat)
                axis = turned @ np.array(spec.joint(joint).axis)
                if stator is not None:
                    axis = _between(self.robot, joint, stator) @ axis
            rotor = carrier.add_body(name=motor)
            rotor.mass, rotor.inertia = 1.0, [1.0, 1.1, 1.2]
            # off the axes, as the placeholders of links are
            rotor.ipos, rotor.iquat = [0.1, 0.2, 0.3], [0.9, 0.1, 0.2, 0.3]
            rotor.explicitinertial = True
            rotor.add_joint(name=motor, type=mujoco.mjtJoint.mjJNT_HINGE, axis=axis)
            tendon = spec.add_tendon(name=_tendon(joint))
            tendon.wrap_joint(joint, 1.0)
            tendon.wrap_joint(motor, -1.0 / self._ratio[i])

    def _require_short_steps(self) -> None:
        """Check that the integration can follow the fastest oscillation of links and rotors."""
        n, h = self.robot.n_joints, self.model.opt.timestep
        mujoco.mj_solveM(self.model, self.data, self._inverse, self._identity)
        couple = np.zeros((n, self.model.nv))
        couple[np.arange(n), self._dof] = 1.0
        couple[np.arange(n), self._drive_dof] = -1.0 / self._ratio
        for stiffness, root in ((self._stiffness, np.sqrt), (self._damping, np.abs)):
            coupling = couple.T @ (stiffness[:, None] * couple)
            rates, shapes = np.linalg.eig(self._inverse @ coupling)
            i = int(np.argmax(rates.real))
            rate = float(root(max(rates[i].real, 0.0)))
            if rate * h > LONGEST_STEP:
                joint = self.robot.joints[int(np.argmax(np.abs(couple @ shapes[:, i].real)))]
                raise SettingsError(
                    f"the transmission of joint '{joint}' moves it within {1.0 / rate:.2g} s, too "
                    f'fast for steps of {h:g} s',
                    joint=joint,
                    key='substeps',
                    value=rate,
                    remedy='lower its stiffness and damping, or raise substeps '
                    f'{rate * h / LONGEST_STEP:.1f} times',
                )

    def _drives(self) -> tuple[tuple[str, ...], np.ndarray]:
        return self._elastic.motor_names(self.robot.joints), self._ratio

    def set_state(self, position: np.ndarray, velocity: np.ndarray) -> None:
        """Put the links into a state, (n_joints,) each, and the motors where they hold them."""
        self.set_states(position, velocity, position, velocity)
        still = np.zeros_like(velocity)
        self.set_states(position, still, position, still)
        weight = self.data.qfrc_bias[self._dof]
        self.set_states(position, velocity, position + weight / self._stiffness, velocity)

    def set_states(
        self, q: np.ndarray, v: np.ndarray, theta: np.ndarray, spin: np.ndarray
    ) -> None:
        """Put links and motors (reduced) into a state: positions and velocities (n_joints,)."""
        self._reset()
        self.data.qpos[self._place], self.data.qvel[self._dof] = q, v
        self.data.qpos[self._drive_place] = theta * self._ratio
        self.data.qvel[self._drive_dof] = spin * self._ratio
        mujoco.mj_forward(self.model, self.data)


class ElasticServo(Servo):
    """
    Efforts of the motors that make a robot with elastic joints follow a reference.

    The inverse dynamics of the nominal robot with stiff joints is fed forward, and the motors are
    held, stiffly and with damping, where the twist under that effort has them.  Feedback of the
    motors' own motion is stable for any stiffness (Tomei 1991); the inertia that it reckons with
    is bounded, so that it stays so at the servo's rate.

    Parameters
    ----------
    stiffness:
        (n_joints,) of the transmissions [N m/rad or N/m].
    rate:
        Of the servo [Hz].
    robot, parameters, bandwidth, damping:
        As for `Servo`, of the motors, by their joints' names.

    """

    def __init__(
        self,
        robot: Robot,
        parameters: ParameterSet,
        stiffness: np.ndarray,
        bandwidth: float,
        damping: float,
        rate: float,
    ) -> None:
        super().__init__(robot, parameters, bandwidth, damping)
        self._spring, self._rate = stiffness, rate
        self._most = SERVO_SHARE * self._rotor * rate / (damping * 2.0 * np.pi * bandwidth)
        self._last: np.ndarray | None = None

    def restart(self) -> None:
        """Forget the reference before, after a jump."""
        self._last = None

    def effort(
        self, reference: np.ndarray, position: np.ndarray, velocity: np.ndarray
    ) -> np.ndarray:
        """Return the efforts of the motors for the next period, as `Servo.effort`."""
        robot = self._robot
        rigid = self._rigid(*reference)
        configuration = robot.configuration(reference[0])
        inertia = joint_inertia(robot, self._data, configuration)
        wanted = reference[0] + rigid / self._spring
        rate = reference[1] if self._last is None else (wanted - self._last) * self._rate
        self._last = wanted
        error = self._stiffness * (wanted - position) + self._damping * (rate - velocity)
        feedback = np.minimum(self._rotor + inertia, self._most) * error
        return self._limited(rigid + self._rotor * reference[2] + self._friction(rate) + feedback)


def require_rotors(rotor: np.ndarray, robot: Robot) -> None:
    """Raise `SettingsError` where a motor behind an elastic transmission has no inertia."""
    if (rotor > 0.0).all():
        return
    joint = robot.joints[int(np.argmin(rotor))]
    raise SettingsError(
        f"'rotor_inertia' of joint '{joint}' is 0, but its transmission is elastic",
        key='rotor_inertia',
        joint=joint,
        remedy='give the rotor of every motor an inertia',
    )


def _tendon(joint: str) -> str:
    return f'{joint} transmission'


def _set_rotor(model: mujoco.MjModel, motor: str, inertia: float, coupled: bool) -> None:
    """Give a rotor its inertia: as a body's, or as armature where it acts on its spin alone."""
    body = model.body(motor).id
    joint = model.joint(motor)
    # a body's principal axes may be turned, so that the third one is the rotor's
    axis = model.jnt_axis[joint.id]
    model.body_mass[body] = 0.0
    model.body_ipos[body] = 0.0
    turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), np.array(axis))
    model.body_iquat[body] = wxyz(turn)
    model.body_inertia[body] = [0.0, 0.0, inertia if coupled else 0.0]
    model.dof_armature[joint.dofadr[0]] = 0.0 if coupled else inertia


def _between(robot: Robot, joint: str, stator: str) -> np.ndarray:
    """Rotation from the frame before ``joint`` to that of link ``stator``, (3, 3), at 0."""
    model, data = robot.model, robot.model.createData()
    pin.framesForwardKinematics(model, data, robot.configuration(np.zeros(robot.n_joints)))
    carried = model.frames[model.getFrameId(joint, pin.FrameType.JOINT)]
    before = data.oMf[carried.parentFrame].rotation
    link = data.oMf[model.getFrameId(stator, pin.FrameType.BODY)].rotation
    return link.T @ before
