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

Coulomb friction sticks truly: there is no velocity below which it fades out.  Static friction
(Szabo and Szadeczky-Kardoss) is a steep but smooth function of the velocity, and so is the mean
over a step of Dahl's friction, whose direction follows the displacement.

Joints that mimic others have no friction of their own: it acts at the joint that they follow, with
the inertia of both.  MuJoCo keeps them together within a step; after it they are put where they
have to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from scipy.linalg import lapack

from ..errors import importing
from ..model.friction import arctan_shape, CONSTANT, FRICTION, FrictionState, SMOOTH
from ..model.mujoco_model import body_inertial, ENTRIES, mujoco_model, set_inertia
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from .truth import per_joint, SimulatedPayload, Wear

with importing('mujoco'):
    import mujoco

_SMOOTH = tuple(term for term in FRICTION.values() if term.kind == SMOOTH)

_CREEP = 1e-4
"""Speed below which smooth friction is a straight line [rad/s or m/s]."""


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
        self._moving_place, self._moving_dof = self._places(robot.carriers.joints)
        self._owners, self._gears = self._drives()
        self._drive_place, self._drive_dof = self._places(self._owners)
        gears = np.abs(self._gears)
        self._offset = self._of_dofs(parameters, 'off', self._gears)
        self._friction = {
            term.symbol: self._of_dofs(parameters, term.symbol, gears**term.gear_power)
            for term in FRICTION.values()
            if term.kind != CONSTANT  # which does not wear
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
        # asked at every step, where a question to an array takes as long as an addition
        self._has_springs, self._creeps = self._springs.any(), self._breakaway.any()
        self._rigid_data = robot.model.createData()
        self._stuck = np.zeros(self.model.nv, dtype=bool)
        self._direction, self._acceleration = np.zeros((2, self.model.nv))
        self.external = np.zeros(robot.n_joints)
        self._unloaded = body_inertial(self.model, self.model.body(robot.tip).id)
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
        self._write_state(position, velocity)
        mujoco.mj_forward(self.model, self.data)

    def _write_state(self, position: np.ndarray, velocity: np.ndarray) -> None:
        mimics = self.robot.mimics
        self.data.qpos[self._moving_place] = mimics.positions(position)
        self.data.qvel[self._moving_dof] = mimics.rates(velocity)

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
        load = [payload.mass, *(payload.mass * r), *body[ENTRIES]]
        link = self.model.body(self.robot.tip).id
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
        worn = {symbol: scale * values for symbol, values in self._friction.items()}
        # viscous friction is its own tangent
        self._viscous = worn['fv']
        smooth = ((term, worn[term.symbol]) for term in _SMOOTH if term.symbol != 'fv')
        self._smooth = [(term, values) for term, values in smooth if values.any()]
        self._coulomb, self._load = worn['fc'], worn['fl']
        self._loaded = self._load.any()
        static = worn['ts'], worn['tsc']
        self._static = None if self._slopes is None else StaticFriction(*static, *self._slopes)

    def step(self, effort: np.ndarray) -> None:
        """Move on by one time step under constant efforts of the drives (n_joints,)."""
        model, data = self.model, self.data
        drive = np.zeros(model.nv)
        drive[self._drive_dof] = effort / self._gears
        drive -= self._offset
        drive[self._dof] += self.external
        h, velocity = model.opt.timestep, data.qvel.copy()
        if self._has_springs:
            middle = self.position + 0.5 * h * self.velocity
            drive[self._dof] -= (self._springs * [np.cos(middle), np.sin(middle)]).sum(axis=0)
        viscous = self._viscous
        if self._smooth:
            viscous, constant = self._smooth_friction(velocity + 0.5 * h * self._acceleration)
            drive -= constant
        self._invert_inertia()
        # (M + h/2 D)^-1: viscous friction at the mean of the velocities before and after
        response = _solved(self._identity + self._inverse * (0.5 * h * viscous), self._inverse)
        passive, bias = (self._at_drives(x) for x in (data.qfrc_passive, data.qfrc_bias))
        acting = drive + passive - bias - viscous * velocity
        free = velocity + h * (response @ acting)
        dry = self._dry_friction(h * response, velocity, free)
        after = free - h * (response @ dry)
        self._acceleration = (after - velocity) / h
        data.qfrc_applied[:] = drive - dry - 0.5 * viscous * (velocity + after)
        mujoco.mj_step(model, data)
        if self.robot.mimics.followed:
            self._write_state(self.position, self.velocity)
        mujoco.mj_forward(model, data)  # inertia and bias of the new state, for the next step

    def _invert_inertia(self) -> None:
        """Write the inverse of the inertia; zeros for joints that mimic others."""
        mujoco.mj_solveM(self.model, self.data, self._inverse, self._identity)
        if not self.robot.mimics.followed:
            return
        reduced = self._at_drives(self._at_drives(np.linalg.inv(self._inverse)).T)
        free = np.setdiff1d(np.arange(self.model.nv), self._moving_dof[self.robot.n_joints :])
        self._inverse[:] = 0.0
        self._inverse[np.ix_(free, free)] = np.linalg.inv(reduced[np.ix_(free, free)])

    def _at_drives(self, efforts: np.ndarray) -> np.ndarray:
        """Return efforts (..., nv) with those of joints that mimic others at their drives."""
        mimics = self.robot.mimics
        if not mimics.followed:
            return efforts
        moved = efforts.copy()
        moved[..., self._moving_dof] = 0.0
        moved[..., self._dof] = mimics.efforts(efforts[..., self._moving_dof])
        return moved

    def _smooth_friction(self, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return the tangent at velocities (nv,) of smooth friction.

        It is a viscous friction (nv,) and a constant one (nv,).
        """
        viscous, constant = self._viscous.copy(), np.zeros(velocity.size)
        way = np.where(velocity < 0.0, -1.0, 1.0)
        speed = np.maximum(np.abs(velocity), _CREEP)
        state = FrictionState(way * speed, way, way)
        for term, values in self._smooth:
            assert term.derivative is not None
            chord = term.function(state) / state.velocity
            slope = np.where(speed > _CREEP, term.derivative(state), chord)
            viscous += values * slope
            constant += values * (chord - slope) * velocity
        return viscous, constant

    def _dry_friction(
        self, mobility: np.ndarray, velocity: np.ndarray, free: np.ndarray
    ) -> np.ndarray:
        """Return the efforts (nv,) of dry friction over a step, and let it follow the motion."""
        limit = self._coulomb
        if self._loaded:
            limit = limit + self._load * np.abs(self._transmitted())
        if self._static is None and not self._creeps:
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
        transmitted[self._dof] = robot.cotangent(efforts)
        return transmitted

    def inverse_dynamics(
        self, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray
    ) -> np.ndarray:
        """
        Efforts without friction for a state and its acceleration, by MuJoCo; the state changes.

        All are (n_joints,) in the robot's order; rotor inertia is included.
        """
        self.set_state(position, velocity)
        self.data.qacc[self._moving_dof] = self.robot.mimics.rates(acceleration)
        mujoco.mj_inverse(self.model, self.data)
        return self._at_drives(self.data.qfrc_inverse)[self._dof]

    def _of_dofs(self, parameters: ParameterSet, symbol: str, gears: np.ndarray) -> np.ndarray:
        """Return (nv,) friction as the motors have it, of which the parameters are reduced."""
        values = np.zeros(self.model.nv)
        given = np.array([parameters.get(f'{owner}.{symbol}') for owner in self._owners])
        values[self._drive_dof] = given / gears
        return values


# ------------------------------------------------------------------------ dry friction over a step


NEWTON, HALVINGS = 60, 30
"""Most steps to a step's static friction, and how often one is halved; a few are the rule."""

SWEEPS = 200
"""Most sweeps of the fallback; it halves the error many times over in that many."""


def coulomb(
    mobility: np.ndarray, free: np.ndarray, limit: np.ndarray, stuck: np.ndarray | None = None
) -> np.ndarray:
    r"""
    Friction efforts (n,) that oppose the velocities at the end of a step.

    With the velocity :math:`v = v_{free} - W f`, each :math:`f_i` is :math:`limit_i \,
    \mathrm{sign}(v_i)` where the joint slides, and lies within :math:`\pm limit_i` where it sticks
    (:math:`v_i = 0`).  As W is positive definite there is exactly one such f.

    Parameters
    ----------
    mobility:
        (n, n) velocity that a unit friction effort takes away over the step, W.
    free:
        (n,) velocity at the end of the step without dry friction.
    limit:
        (n,) Coulomb friction, 0 or more.
    stuck:
        (n,) bool, which joints probably stick, such as those of the step before; it saves time.

    """
    if stuck is not None and stuck.any():
        return _active_set(mobility, free, limit, np.where(free >= 0.0, 1.0, -1.0), stuck)
    effort = np.where(free >= 0.0, limit, -limit)
    velocity = free - mobility @ effort
    if (velocity * effort >= 0.0).all():
        return effort  # all joints slide on as they were: nearly every step
    sign = np.where(effort >= 0.0, 1.0, -1.0)
    return _active_set(mobility, free, limit, sign, velocity * effort < 0.0)


def _active_set(
    mobility: np.ndarray, free: np.ndarray, limit: np.ndarray, sign: np.ndarray, stuck: np.ndarray
) -> np.ndarray:
    """Solve for the joints that stick, correct the guess which do; usually done in two rounds."""
    for _ in range(2 * limit.size + 2):
        if stuck.all():
            effort = _solved(mobility, free)
            broken = np.abs(effort) > limit
            if not broken.any():
                return effort
            reversed_ = ~stuck
        else:
            effort = limit * sign
            rest = free - mobility[:, ~stuck] @ effort[~stuck]
            if stuck.any():
                effort[stuck] = _solved(mobility[stuck][:, stuck], rest[stuck])
            velocity = free - mobility @ effort
            broken = stuck & (np.abs(effort) > limit)
            reversed_ = ~stuck & (limit > 0.0) & (velocity * effort < 0.0)
            if not (broken.any() or reversed_.any()):
                return effort
        sign = np.where(broken, np.where(effort >= 0.0, 1.0, -1.0), sign)
        stuck = (stuck & ~broken) | reversed_
    return _sweeps(mobility, free, limit, effort)


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve by LAPACK itself: of matrices this small, NumPy's checks take most of the time."""
    _, _, solution, info = lapack.dgesv(matrix, right)
    if info > 0:
        raise np.linalg.LinAlgError('singular matrix')
    return np.asarray(solution)


def _sweeps(
    mobility: np.ndarray, free: np.ndarray, limit: np.ndarray, effort: np.ndarray
) -> np.ndarray:
    """Projected Gauss-Seidel, which converges from everywhere."""
    effort = np.clip(effort, -limit, limit)
    diagonal = mobility.diagonal()
    for _ in range(SWEEPS):
        before = effort.copy()
        for i in range(effort.size):
            velocity = free[i] - mobility[i] @ effort
            effort[i] = np.clip(effort[i] + velocity / diagonal[i], -limit[i], limit[i])
        if np.abs(effort - before).max() <= 1e-12 * max(limit.max(), 1.0):
            break
    return effort


@dataclass(frozen=True)
class StaticFriction:
    """
    Stiction and Stribeck friction, equation (9) of Szabo and Szadeczky-Kardoss (2021).

    ts and tsc are (n,) [N m or N], their slopes (n,) [s/rad or s/m].
    """

    stiction: np.ndarray
    stribeck: np.ndarray
    stiction_slope: np.ndarray
    stribeck_slope: np.ndarray

    def effort(self, velocity: np.ndarray) -> np.ndarray:
        """Friction efforts (n,) at velocities (n,)."""
        return self.stiction * arctan_shape(velocity, self.stiction_slope) + (
            self.stribeck * arctan_shape(velocity, self.stribeck_slope)
        )

    def steepness(self, velocity: np.ndarray) -> np.ndarray:
        """Return the derivatives (n,) of the efforts by the velocities."""
        total = np.zeros_like(velocity)
        for size, slope in (
            (self.stiction, self.stiction_slope),
            (self.stribeck, self.stribeck_slope),
        ):
            total += size * slope / (1.0 + (slope * velocity) ** 2)
        return 2.0 / np.pi * total


STEEPEST = 1e-6
"""Breakaway displacement that stands for none beside others [rad or m]."""


@dataclass(frozen=True)
class DahlFriction:
    """
    Dry friction over a step whose direction z follows the displacement, after Dahl.

    ``dz/dt = v/x0 (1 - z sign v)`` (`regressor.joint_terms`) has, for a constant velocity v, the
    solution ``z = sign v + (z_0 - sign v) exp(-|v| t / x0)``; the effort of a step is the limit
    times the mean of z.

    ``limit`` is the (n,) dry friction [N m or N], ``breakaway`` (n,) x0 [rad or m], ``state`` (n,)
    z_0 at the beginning of the step, from -1 to 1, and ``step`` its length [s].
    """

    limit: np.ndarray
    breakaway: np.ndarray
    state: np.ndarray
    step: float

    def effort(self, velocity: np.ndarray) -> np.ndarray:
        """Mean friction efforts (n,) over the step at constant velocities (n,)."""
        sign, u = np.sign(velocity), self._displacement(velocity)
        share = np.divide(-np.expm1(-u), u, out=np.ones_like(u), where=u > 0.0)
        return self.limit * (sign + (self.state - sign) * share)

    def steepness(self, velocity: np.ndarray) -> np.ndarray:
        """Return the derivatives (n,) of the efforts by the velocities."""
        u = self._displacement(velocity)
        wide = np.maximum(u, 1e-3)
        fall = np.where(u < 1e-3, 0.5 - u / 3.0, (1.0 - np.exp(-wide) * (1.0 + wide)) / wide**2)
        rise = 1.0 - np.sign(velocity) * self.state
        return self.limit * rise * fall * self.step / self.breakaway

    def after(self, velocity: np.ndarray) -> np.ndarray:
        """Return the directions (n,) at the end of the step at constant velocities (n,)."""
        sign = np.sign(velocity)
        return sign + (self.state - sign) * np.exp(-self._displacement(velocity))

    def _displacement(self, velocity: np.ndarray) -> np.ndarray:
        """Return displacements of the step in units of the breakaway displacement, (n,)."""
        return np.abs(velocity) * self.step / self.breakaway


def over_step(
    kinds: Sequence[StaticFriction | DahlFriction],
    mobility: np.ndarray,
    before: np.ndarray,
    free: np.ndarray,
) -> np.ndarray:
    """
    Friction efforts (n,) at the mean velocity of a step, which they change themselves.

    Parameters
    ----------
    kinds:
        What the friction is the sum of.
    mobility, free:
        As for `coulomb`.
    before:
        (n,) velocity at the beginning of the step.

    """
    identity = np.eye(before.size)
    mean = 0.5 * (before + free)

    def effort(v: np.ndarray) -> np.ndarray:
        return np.sum([kind.effort(v) for kind in kinds], axis=0)

    def excess(v: np.ndarray) -> np.ndarray:
        return v - mean + 0.5 * (mobility @ effort(v))

    velocity = 0.5 * before + 0.5 * (free - mobility @ effort(before))
    rest = excess(velocity)
    for _ in range(NEWTON):
        size = np.abs(rest).max()
        if size <= 1e-14 * max(1.0, np.abs(mean).max()):
            break
        steepness = np.sum([kind.steepness(velocity) for kind in kinds], axis=0)
        step = np.linalg.solve(identity + 0.5 * mobility * steepness, rest)
        # beyond its knee the friction is far from straight: full steps would overshoot for ever
        for _ in range(HALVINGS):
            trial = velocity - step
            value = excess(trial)
            if np.abs(value).max() < size:
                break
            step = 0.5 * step
        velocity, rest = trial, value
    return effort(velocity)
