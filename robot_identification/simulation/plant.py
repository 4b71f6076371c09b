# SPDX-License-Identifier: Apache-2.0
"""
The simulated mechanism: rigid bodies in MuJoCo, with rotor inertia and friction.

A step takes efforts that are constant over it.  The rigid bodies are integrated by MuJoCo's
fourth-order Runge-Kutta scheme, whose error at a millisecond is far below an encoder's resolution;
its semi-implicit Euler schemes take position and velocity half a step apart, which shifts the
viscous friction and the centrifugal efforts against the recorded samples.  Friction is not
MuJoCo's: its ``frictionloss`` is a soft constraint that fades out below a velocity of several
hundredths of a rad/s, and its ``damping`` is not what the drive's effort is measured before.  Here
viscous friction, that by the root of the speed, static and Dahl's friction act at the step's mean
velocity and Coulomb friction at its end, with sticking.  Friction by load follows the effort of
the URDF's bodies, with the acceleration of the step before; springs act at the step's middle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lxml import etree
import mujoco
import numpy as np
import pinocchio as pin

from ..errors import ModelError
from ..model.consistency import inertia_at_com
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from .friction import coulomb, DahlFriction, over_step, StaticFriction, STEEPEST
from .mjcf import mechanism
from .settings import SimulatedPayload, Wear
from .truth import per_joint

_ENTRIES = ([0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2])
_PLACEHOLDER = {
    'pos': '0.1 0.2 0.3',
    'quat': '0.9 0.1 0.2 0.3',
    'mass': '1',
    'diaginertia': '1 1.1 1.2',
}
"""Off the axes, so that MuJoCo compiles no short cut for bodies whose frames coincide."""

_GEARED = {'fv': 2.0, 'fc': 1.0, 'fr': 4.0 / 3.0, 'fl': 0.0, 'ts': 1.0, 'tsc': 1.0}
"""Friction that wears, and the power of the gear by which it is smaller at the motor."""

_CREEP = 1e-4
"""Speed below which the root of the speed is a straight line [rad/s or m/s]."""


class Plant:
    """
    A robot in MuJoCo, moved by efforts at its joints.

    Parameters
    ----------
    robot:
        Gives kinematics, gravity and position limits (soft stops, at one end where the other is
        not limited).  There are no contacts.
    parameters:
        Inertial parameters of its links; ``Ia``, ``fv``, ``fc``, ``ts``, ``tsc``, ``off``, ``fr``,
        ``fl``, ``kc`` and ``ks`` of its joints; what is missing is 0.
    timestep:
        Length of a step [s].
    slopes:
        (n_joints,) of stiction and Stribeck friction, as `regressor.joint_terms.slopes_of` gives
        them, needed with such friction [s/rad or s/m].
    breakaway:
        (n_joints,) displacement of dry friction by Dahl's model [rad or m]; None for the sign of
        the velocity.

    Attributes
    ----------
    model, data:
        MuJoCo's; its joints may stand in another order than the robot's.
    external:
        (n_joints,) efforts that act on the joints from outside [N m or N].

    """

    def __init__(
        self,
        robot: Robot,
        parameters: ParameterSet,
        timestep: float,
        slopes: Mapping[str, np.ndarray] | None = None,
        breakaway: np.ndarray | None = None,
    ) -> None:
        self.robot = robot
        self.model = self._make(parameters)
        self.model.opt.timestep = timestep
        self.data = mujoco.MjData(self.model)
        self._place, self._dof = self._places(robot.joints)
        self._owners, self._gears = self._drives()
        self._drive_place, self._drive_dof = self._places(self._owners)
        gears = np.abs(self._gears)
        self._offset = self._of_dofs(parameters, 'off', self._gears)
        self._friction = {
            symbol: self._of_dofs(parameters, symbol, gears**power)
            for symbol, power in _GEARED.items()
        }
        self._slopes = None
        if self._friction['ts'].any() or self._friction['tsc'].any():
            if slopes is None:
                raise ValueError('stiction and Stribeck friction need their slopes')
            self._slopes = np.ones((2, self.model.nv))
            for row, term in zip(self._slopes, ('stiction', 'stribeck'), strict=True):
                row[self._drive_dof] = slopes[term] / gears
        self.wear(Wear())
        self._breakaway = np.zeros(self.model.nv)
        if breakaway is not None:
            self._breakaway[self._drive_dof] = breakaway * gears
        self._springs = np.array(
            [[parameters.get(f'{joint}.{s}') for joint in robot.joints] for s in ('kc', 'ks')]
        )
        self._rigid_data = robot.model.createData()
        self._stuck = np.zeros(self.model.nv, dtype=bool)
        self._direction, self._acceleration = np.zeros((2, self.model.nv))
        self.external = np.zeros(robot.n_joints)
        self._unloaded = _inertial(self.model, self.model.body(robot.links[-1]).id)
        self._identity = np.eye(self.model.nv)
        self._inverse = np.empty_like(self._identity)
        self.set_state(np.zeros(robot.n_joints), np.zeros(robot.n_joints))

    def _make(self, parameters: ParameterSet) -> mujoco.MjModel:
        """Make MuJoCo's model."""
        return mujoco_model(self.robot, parameters, self._extend)

    def _extend(self, spec: mujoco.MjSpec) -> None:
        """Add to the mechanism, for subclasses."""

    def _drives(self) -> tuple[tuple[str, ...], np.ndarray]:
        """Names that the drives' parameters and MuJoCo's joints have, and (n_joints,) gears."""
        return self.robot.joints, np.ones(self.robot.n_joints)

    def _places(self, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        joints = [self.model.joint(name) for name in names]
        positions = np.array([joint.qposadr[0] for joint in joints])
        return positions, np.array([joint.dofadr[0] for joint in joints])

    @property
    def position(self) -> np.ndarray:
        """(n_joints,) joint positions [rad or m]."""
        return self.data.qpos[self._place]

    @property
    def velocity(self) -> np.ndarray:
        """(n_joints,) joint velocities [rad/s or m/s]."""
        return self.data.qvel[self._dof]

    @property
    def motor_position(self) -> np.ndarray:
        """(n_joints,) positions of the motors, reduced to the joints [rad or m]."""
        return self.data.qpos[self._drive_place] / self._gears

    @property
    def motor_velocity(self) -> np.ndarray:
        """(n_joints,) velocities of the motors, reduced to the joints [rad/s or m/s]."""
        return self.data.qvel[self._drive_dof] / self._gears

    def set_state(self, position: np.ndarray, velocity: np.ndarray) -> None:
        """Put the robot into a state, (n_joints,) each."""
        self._reset()
        self.data.qpos[self._place] = position
        self.data.qvel[self._dof] = velocity
        mujoco.mj_forward(self.model, self.data)

    def _reset(self) -> None:
        """Forget the state, that of friction included."""
        mujoco.mj_resetData(self.model, self.data)
        self._stuck[:] = False
        self._direction[:] = 0.0
        self._acceleration[:] = 0.0

    def carry(self, payload: SimulatedPayload) -> None:
        """Let the last link carry a payload, in place of the one before."""
        r = np.array(payload.position)
        body = payload.mass * (r @ r * np.eye(3) - np.outer(r, r))
        load = [payload.mass, *(payload.mass * r), *body[_ENTRIES]]
        link = self.model.body(self.robot.links[-1]).id
        set_inertia(self.model, link, self._unloaded + load)
        # of a copy of the state, since this would put the robot into its reference position
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))

    def wear(self, wear: Wear) -> None:
        """
        Multiply the friction that there was at first, but for its offset.

        Raises SettingsError if there is neither one factor nor one a joint.
        """
        scale = np.ones(self.model.nv)
        factors = per_joint(wear.friction, self.robot, 'wear.friction')
        scale[self._drive_dof] = 1.0 if factors is None else factors
        self._viscous, self._coulomb, self._root, self._load, *static = (
            scale * self._friction[symbol] for symbol in _GEARED
        )
        self._static = None if self._slopes is None else StaticFriction(*static, *self._slopes)

    def step(self, effort: np.ndarray) -> None:
        """Move on by one time step under constant efforts of the drives (n_joints,)."""
        model, data = self.model, self.data
        drive = np.zeros(model.nv)
        drive[self._drive_dof] = effort / self._gears
        drive -= self._offset
        drive[self._dof] += self.external
        h, velocity = model.opt.timestep, data.qvel.copy()
        if self._springs.any():
            middle = self.position + 0.5 * h * self.velocity
            drive[self._dof] -= (self._springs * [np.cos(middle), np.sin(middle)]).sum(axis=0)
        viscous, constant = self._smooth_friction(velocity + 0.5 * h * self._acceleration)
        drive -= constant
        mujoco.mj_solveM(model, data, self._inverse, self._identity)
        # (M + h/2 D)^-1: viscous friction at the mean of the velocities before and after
        response = np.linalg.solve(
            self._identity + self._inverse * (0.5 * h * viscous), self._inverse
        )
        acting = drive + data.qfrc_passive - data.qfrc_bias - viscous * velocity
        free = velocity + h * (response @ acting)
        dry = self._dry_friction(h * response, velocity, free)
        after = free - h * (response @ dry)
        self._acceleration = (after - velocity) / h
        data.qfrc_applied[:] = drive - dry - 0.5 * viscous * (velocity + after)
        mujoco.mj_step(model, data)
        mujoco.mj_forward(model, data)  # inertia and bias of the new state, for the next step

    def _smooth_friction(self, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return the tangent at velocities (nv,) of friction that is viscous or by the root.

        It is a viscous friction (nv,) and a constant one (nv,).
        """
        if not self._root.any():
            return self._viscous, np.zeros_like(velocity)
        speed = np.maximum(np.abs(velocity), _CREEP)
        chord = self._root * speed ** (-2.0 / 3.0)
        slope = np.where(speed > _CREEP, chord / 3.0, chord)
        return self._viscous + slope, (chord - slope) * velocity

    def _dry_friction(
        self, mobility: np.ndarray, velocity: np.ndarray, free: np.ndarray
    ) -> np.ndarray:
        """Return the efforts (nv,) of dry friction over a step, and let it follow the motion."""
        limit = self._coulomb
        if self._load.any():
            limit = limit + self._load * np.abs(self._transmitted())
        if self._static is None and not self._breakaway.any():
            dry = coulomb(mobility, free, limit, self._stuck)
            self._stuck = np.abs(dry) < limit
            return dry
        h = self.model.opt.timestep
        kinds: list[StaticFriction | DahlFriction] = [] if self._static is None else [self._static]
        if not limit.any():
            return over_step(kinds, mobility, velocity, free)
        breakaway = np.maximum(self._breakaway, STEEPEST)
        dahl = DahlFriction(limit, breakaway, self._direction, h)
        dry = over_step([*kinds, dahl], mobility, velocity, free)
        self._direction = dahl.after(0.5 * (velocity + free - mobility @ dry))
        return dry

    def _transmitted(self) -> np.ndarray:
        """Efforts (nv,) of the URDF's bodies, with the acceleration of the step before."""
        robot = self.robot
        states = (robot.tangent(x) for x in (self.velocity, self._acceleration[self._dof]))
        position = robot.configuration(self.position)
        efforts = pin.rnea(robot.model, self._rigid_data, position, *states)
        transmitted = np.zeros(self.model.nv)
        transmitted[self._dof] = efforts[robot.columns]
        return transmitted

    def inverse_dynamics(
        self, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray
    ) -> np.ndarray:
        """
        Efforts without friction for a state and its acceleration, by MuJoCo; the state changes.

        All are (n_joints,) in the robot's order; rotor inertia is included.
        """
        self.set_state(position, velocity)
        self.data.qacc[self._dof] = acceleration
        mujoco.mj_inverse(self.model, self.data)
        return self.data.qfrc_inverse[self._dof]

    def _of_dofs(self, parameters: ParameterSet, symbol: str, gears: np.ndarray) -> np.ndarray:
        """Return (nv,) friction as the motors have it, of which the parameters are reduced."""
        values = np.zeros(self.model.nv)
        given = np.array([parameters.get(f'{owner}.{symbol}') for owner in self._owners])
        values[self._drive_dof] = given / gears
        return values


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
    for joint, link in zip(robot.joints, robot.links, strict=True):
        model.dof_armature[model.joint(joint).dofadr[0]] = parameters.get(f'{joint}.Ia')
        set_inertia(model, model.body(link).id, parameters.inertial(link))
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


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
    quaternion = pin.Quaternion(axes).normalized()
    model.body_mass[body] = inertial[0]
    model.body_ipos[body] = inertial[1:4] / inertial[0]
    model.body_inertia[body] = np.maximum(principal, 0.0)
    model.body_iquat[body] = [quaternion.w, quaternion.x, quaternion.y, quaternion.z]


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """Return the (3, 3) rotation of a quaternion of MuJoCo's."""
    return np.asarray(pin.Quaternion(*quaternion).toRotationMatrix())


def _inertial(model: mujoco.MjModel, body: int) -> np.ndarray:
    """(10,) inertial parameters of a body of MuJoCo's model, as `set_inertia` takes them."""
    turned = rotation(model.body_iquat[body])
    mass, centre = float(model.body_mass[body]), model.body_ipos[body]
    inertia = turned @ np.diag(model.body_inertia[body]) @ turned.T
    inertia += mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.array([mass, *(mass * centre), *inertia[_ENTRIES]])
