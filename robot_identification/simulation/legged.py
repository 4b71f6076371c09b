# SPDX-License-Identifier: Apache-2.0
"""
A legged robot on the ground in MuJoCo, with position servos, an IMU and feet that feel contact.

Rigid bodies, contacts and their friction are MuJoCo's.  What is recorded has noise, and the
accelerometer a bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin

from ..data.floating_recording import FloatingRecording
from ..errors import ExcitationError, importing, ModelError
from ..excitation.standing import StandingMotion
from ..model.floating_base import BASE_JOINTS
from ..model.mujoco_model import mujoco_model, wxyz
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..options.fields import option
from ..regressor import ModelSettings, prior
from ..regressor.floating import Contact, FloatingRegressor
from .truth import finite_effort, perturb

with importing('mujoco'):
    import mujoco


@dataclass(frozen=True)
class LeggedSettings:
    """Settings of a simulated legged robot: its servos, its ground, the noise of its sensors."""

    kp: tuple[float, ...] | None = option(
        None,
        doc='Gains of the servos; null for those that take the effort limit at 0.05 rad',
        unit='N m/rad',
        minimum=0.0,
    )
    kd: tuple[float, ...] | None = option(
        None, doc='Damping of the servos; null for kp times 15 ms', unit='N m s/rad', minimum=0.0
    )
    timestep: float = option(0.001, doc='Time between samples', unit='s', minimum=1e-5)
    friction: float = option(0.9, doc='Coefficient of friction of the ground', minimum=0.0)
    torsion: float = option(
        0.0, doc='Torsional friction of contacts; 0 for points that take no moment', minimum=0.0
    )
    position_noise: float = option(2e-4, doc='Of the encoders', unit='rad', minimum=0.0)
    effort_noise: float = option(0.15, doc='Of the efforts', unit='N m', minimum=0.0)
    gyroscope_noise: float = option(0.01, doc='Of the gyroscope', unit='rad/s', minimum=0.0)
    accelerometer_noise: float = option(0.1, doc='Of it', unit='m/s^2', minimum=0.0)
    accelerometer_bias: tuple[float, float, float] = option(
        (0.05, -0.03, 0.06), doc='What it reads too much', unit='m/s^2'
    )
    force_noise: float | None = option(
        None, doc='Of force sensors in the contacts; null for none', unit='N or N m', minimum=0.0
    )
    hung: bool = option(
        False, doc='Whether the robot hangs in the air, by a rope at the origin of its root link'
    )
    seed: int = option(0, doc='Seed of the noise', minimum=0)


_BASE = len(BASE_JOINTS)

_POINT = 0.005
"""Radius of the sphere that stands for a point [m]."""

_HALF_SOLE = 0.005
"""Half the height of the box that stands for a flat foot, above its origin [m]."""

_FAR_BELOW = -5.0
"""Height of the ground below a robot that hangs [m]."""

_SKIN = 0.003
"""By how much the sensor of a foot is thicker than the foot [m]."""

_TOUCH = 1.0
"""Force from which on a foot feels the ground [N]."""

_SLOW = 0.002
"""Speed up to which dry friction grows with the speed [rad/s]."""

_FALLEN = 0.5
"""Height of the base, by that at the start, below which the robot has fallen."""


def _thicker(shape: dict[str, Any]) -> dict[str, Any]:
    """Return the shape of the sensor that covers a foot."""
    return {**shape, 'size': [side + _SKIN if side else 0.0 for side in shape['size']]}


class LeggedPlant:
    """
    A robot that stands on level ground.

    Parameters
    ----------
    robot, regressor:
        With a floating base; its contacts and its IMU.
    truth:
        Parameters of its bodies, friction and rotors.
    settings:
        Servos, ground and noise.

    """

    def __init__(
        self,
        robot: Robot,
        regressor: FloatingRegressor,
        truth: ParameterSet,
        settings: LeggedSettings,
    ) -> None:
        self.robot, self.regressor, self.settings = robot, regressor, settings
        self.model = mujoco_model(robot, truth, self._extend)
        self.model.opt.timestep = settings.timestep
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        joints = [self.model.joint(name) for name in robot.driven_joints]
        self.places = np.array([joint.qposadr[0] for joint in joints])
        self.dofs = np.array([joint.dofadr[0] for joint in joints])
        names = robot.driven_joints
        self.viscous = np.array([truth.get(f'{joint}.fv') for joint in names])
        self.dry = np.array([truth.get(f'{joint}.fc') for joint in names])
        self.data = mujoco.MjData(self.model)
        self.feet = [self.model.geom(f'foot {c.name}').id for c in regressor.contacts]
        self._last_speed = np.zeros(len(names))

    def _extend(self, spec: mujoco.MjSpec) -> None:
        """Add the ground, the feet, the IMU and motors."""
        settings = self.settings
        spec.option.gravity = self.robot.gravity.tolist()
        friction = [settings.friction, settings.torsion, 0.0]
        dimension = 4 if settings.torsion else 3
        shared = {'friction': friction, 'condim': dimension}
        spec.worldbody.add_geom(
            name='floor',
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[20, 20, 0.1],
            pos=[0.0, 0.0, _FAR_BELOW if settings.hung else 0.0],
            **shared,
        )
        root = self.robot.links[_BASE - 1]
        if settings.hung:
            spec.add_equality(
                type=mujoco.mjtEq.mjEQ_CONNECT,
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                name1=root,
                name2='world',
                data=[0.0] * mujoco.mjNEQDATA,
            )
        base = spec.body(root)
        imu = self.regressor.imu
        quaternion = wxyz(pin.Quaternion(imu.rotation))
        base.add_site(name='imu', pos=imu.origin.tolist(), quat=list(quaternion))
        for kind, name in (
            (mujoco.mjtSensor.mjSENS_GYRO, 'gyroscope'),
            (mujoco.mjtSensor.mjSENS_ACCELEROMETER, 'accelerometer'),
            (mujoco.mjtSensor.mjSENS_FRAMEQUAT, 'orientation'),
        ):
            spec.add_sensor(type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname='imu', name=name)
        for contact in self.regressor.contacts:
            foot = spec.body(contact.name)
            radius = contact.radius or _POINT
            shape = {'type': mujoco.mjtGeom.mjGEOM_SPHERE, 'size': [radius, 0.0, 0.0]}
            if contact.flat:
                x, y = contact.sole
                shape = {
                    'type': mujoco.mjtGeom.mjGEOM_BOX,
                    'size': [x, y, _HALF_SOLE],
                    'pos': [0.0, 0.0, _HALF_SOLE],
                }
            foot.add_geom(name=f'foot {contact.name}', **shape, **shared)
            foot.add_site(name=f'skin {contact.name}', **_thicker(shape))
            spec.add_sensor(
                type=mujoco.mjtSensor.mjSENS_TOUCH,
                objtype=mujoco.mjtObj.mjOBJ_SITE,
                objname=f'skin {contact.name}',
                name=f'touch {contact.name}',
            )
        for joint in self.robot.driven_joints:
            spec.add_actuator(
                name=joint,
                target=joint,
                trntype=mujoco.mjtTrn.mjTRN_JOINT,
                gainprm=[1.0] + [0] * 9,
            )

    def place(self, base: np.ndarray, position: np.ndarray) -> None:
        """Let the robot stand, its lowest foot just in the ground, or hang; its base upright."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:7] = [*base, 1.0, 0.0, 0.0, 0.0]
        self.data.qpos[self.places] = position
        mujoco.mj_forward(self.model, self.data)
        if self.settings.hung:
            return
        lowest = min(
            self.data.geom_xpos[foot][2] - self._thickness(contact)
            for foot, contact in zip(self.feet, self.regressor.contacts, strict=True)
        )
        self.data.qpos[2] -= lowest + 1e-4

    @staticmethod
    def _thickness(contact: Contact) -> float:
        return _HALF_SOLE if contact.flat else (contact.radius or _POINT)

    def step(self, torque: np.ndarray) -> None:
        """Take a step with efforts (n,) of the motors [N m]."""
        # MuJoCo's own dry friction fades out at low speeds; damping is integrated implicitly: it
        # acts on the speed at the end of the step, which is foreseen
        speed = self.data.qvel[self.dofs]
        ahead = np.abs(2.0 * speed - self._last_speed)
        self._last_speed = speed.copy()
        self.model.dof_damping[self.dofs] = self.viscous + self.dry / np.maximum(ahead, _SLOW)
        self.data.ctrl[:] = torque
        mujoco.mj_step(self.model, self.data)

    def wrenches(self) -> np.ndarray:
        """
        Return (c, 6) forces and moments of the ground on the feet, along the axes of the world.

        Moments are about where the regressor takes a contact's force to act: its origin, or the
        point in which a sphere touches the ground [N, N m].
        """
        found, force = np.zeros((len(self.feet), 6)), np.zeros(6)
        for i, contact in enumerate(self.data.contact):
            for foot, geom in enumerate(self.feet):
                if geom in (contact.geom1, contact.geom2):
                    mujoco.mj_contactForce(self.model, self.data, i, force)
                    upward = force.reshape(2, 3) @ contact.frame.reshape(3, 3)
                    upward = upward if contact.geom2 == geom else -upward
                    found[foot, :3] += upward[0]
                    arm = contact.pos - self._touching(foot)
                    found[foot, 3:] += upward[1] + np.cross(arm, upward[0])
        return found

    def _touching(self, foot: int) -> np.ndarray:
        """Return (3,) the point at which a contact's force acts, in the world [m]."""
        contact, at = self.regressor.contacts[foot], self.data.geom_xpos[self.feet[foot]]
        if contact.flat:
            upward = self.data.geom_xmat[self.feet[foot]].reshape(3, 3)[:, 2]
            return np.asarray(at - _HALF_SOLE * upward)
        return np.asarray(at - np.array([0.0, 0.0, contact.radius]))

    def measured(self, wrenches: np.ndarray) -> np.ndarray:
        """Return (k,) components of wrenches as sensors in the contacts' frames read them."""
        parts = [np.zeros(0)]
        for foot, contact in enumerate(self.regressor.contacts):
            rotation = self.data.geom_xmat[self.feet[foot]].reshape(3, 3)
            own = (wrenches[foot].reshape(2, 3) @ rotation).ravel()
            about = wrenches[foot, 5:]  # of the ground's normal
            parts.append(own if contact.flat else np.append(own[:3], about[: contact.rows - 3]))
        return np.concatenate(parts)


def simulate_standing(
    robot: Robot,
    regressor: FloatingRegressor,
    truth: ParameterSet,
    motion: StandingMotion,
    settings: LeggedSettings | None = None,
    *,
    source: str = 'simulation',
) -> FloatingRecording:
    """
    Let servos follow a motion on the feet, and record what the sensors of a robot would.

    Parameters
    ----------
    robot, regressor, truth:
        As for `LeggedPlant`.
    motion:
        What the servos follow.
    settings:
        Servos, ground and noise.
    source:
        Name of the recording.

    Raises
    ------
    ExcitationError
        if the robot falls.

    """
    settings = settings or LeggedSettings()
    plant = LeggedPlant(robot, regressor, truth, settings)
    plant.place(np.zeros(3), motion.position[0])
    height = float(plant.data.qpos[2])
    time = np.arange(motion.time[0], motion.time[-1], settings.timestep)
    wanted = np.column_stack([np.interp(time, motion.time, q) for q in motion.position.T])
    rates = np.gradient(wanted, settings.timestep, axis=0)
    log = _Log(len(time), robot, regressor)
    kp, kd = servo_gains(robot, settings)
    data = plant.data
    for i in range(len(time)):
        error, slip = wanted[i] - data.qpos[plant.places], rates[i] - data.qvel[plant.dofs]
        log.position[i, _BASE:] = data.qpos[plant.places]
        # sensors and forces are those of the state before the step
        plant.step(kp * error + kd * slip)
        log.take(i, plant)
        if not settings.hung and data.qpos[2] < _FALLEN * height:
            raise ExcitationError(
                f'the robot falls after {time[i]:.1f} s',
                value=float(time[i]),
                remedy='move it less, or with stronger servos',
            )
    return log.recording(time, robot, settings, source)


def servo_gains(robot: Robot, settings: LeggedSettings) -> tuple[np.ndarray, np.ndarray]:
    """
    Return gains (n,) of the servos and their damping [N m/rad, N m s/rad].

    Raises
    ------
    ModelError
        naming a joint without an effort limit, if the gains are not given.

    """
    limits = robot.limits.effort[_BASE:]
    if settings.kp is None and not (np.isfinite(limits) & (limits > 0.0)).all():
        joint = robot.driven_joints[int(np.argmin(np.isfinite(limits) & (limits > 0.0)))]
        raise ModelError(
            f"joint '{joint}' has no effort limit, by which the simulated servos go",
            joint=joint,
            remedy='give one in the URDF',
        )
    kp = limits / _SAG if settings.kp is None else np.array(settings.kp)
    return kp, _DAMPING * kp if settings.kd is None else np.array(settings.kd)


_SAG = 0.05
"""Deflection at which a servo takes the effort limit [rad]."""

_DAMPING = 0.015
"""Damping of a servo by its gain [s]."""


def legged_truth(robot: Robot, model: ModelSettings, seed: int) -> ParameterSet:
    """
    Return parameters of a robot that is not as its URDF says.

    Masses, centres and inertias are off as far as those of `SimulationSettings` are by default;
    joints have friction and rotors by their effort limits.
    """
    random, known = np.random.default_rng(seed), prior(robot, model)
    values = dict(zip(known.layout, known.values, strict=True))
    for link in robot.layout.links:
        names = known.layout.names[known.layout.slice_of(link)]
        body = perturb(known.inertial(link), _PERTURBATION, random)
        values.update(zip(names, body, strict=True))
    for joint, limit in zip(robot.driven_joints, finite_effort(robot)[_BASE:], strict=True):
        fc, fv = limit * np.array([_COULOMB, _VISCOUS]) * random.uniform(0.5, 1.5, 2)
        values |= {f'{joint}.fc': fc, f'{joint}.fv': fv, f'{joint}.Ia': limit / _ROTOR}
    return ParameterSet(known.layout, np.array([values[name] for name in known.layout]))


_PERTURBATION = 0.1
_COULOMB = 0.005
"""Coulomb friction of a joint by its effort limit."""

_VISCOUS = 0.0025
"""Viscous friction of a joint by its effort limit [s/rad]."""

_ROTOR = 3000.0
"""Acceleration at which a rotor takes the whole effort limit [rad/s^2]."""


class _Log:
    """Record of a simulated robot, sample by sample."""

    def __init__(self, samples: int, robot: Robot, regressor: FloatingRegressor) -> None:
        self.position, self.effort = np.zeros((2, samples, robot.n_joints))
        self.imu = np.zeros((samples, 10))
        self.stance = np.zeros((samples, len(regressor.contacts)), dtype=bool)
        self.wrench = np.zeros((samples, regressor.contact_rows.size))

    def take(self, i: int, plant: LeggedPlant) -> None:
        """Record all but the positions of a sample."""
        data = plant.data
        self.effort[i, _BASE:] = data.actuator_force
        self.imu[i] = data.sensordata[:10]
        self.stance[i] = data.sensordata[10:] > _TOUCH
        if plant.settings.force_noise is not None:
            self.wrench[i] = plant.measured(plant.wrenches())

    def recording(
        self, time: np.ndarray, robot: Robot, settings: LeggedSettings, source: str
    ) -> FloatingRecording:
        """Return the recording, with the noise of the sensors."""
        random = np.random.default_rng(settings.seed)

        def noisy(values: np.ndarray, std: float) -> np.ndarray:
            return np.asarray(values + std * random.standard_normal(values.shape))

        position, effort, force = self.position.copy(), self.effort.copy(), settings.force_noise
        position[:, _BASE:] = noisy(position[:, _BASE:], settings.position_noise)
        effort[:, _BASE:] = noisy(effort[:, _BASE:], settings.effort_noise)
        accelerometer = noisy(self.imu[:, 3:6], settings.accelerometer_noise)
        return FloatingRecording(
            time=time,
            position=position,
            effort=effort,
            joints=robot.joints,
            source=source,
            gyroscope=noisy(self.imu[:, :3], settings.gyroscope_noise),
            accelerometer=accelerometer + np.array(settings.accelerometer_bias),
            orientation=self.imu[:, [7, 8, 9, 6]],
            stance=self.stance,
            wrench=None if force is None else noisy(self.wrench, force),
        )
