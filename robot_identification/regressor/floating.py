# SPDX-License-Identifier: Apache-2.0
"""
Regressor of a robot whose base is free, and its contacts with the ground.

The equations of motion are ``Y(q, v, a) chi = S' tau + sum_k J_k' f_k``: six rows of the base,
then one a joint.  With all quantities of the base in its own frame, and what an accelerometer at
its origin would read in place of acceleration and gravity, neither orientation nor velocity of the
base appear in Y.

Contact forces that nobody measures are eliminated sample by sample: of a row vector y that is
scaled by the noise of its rows (W is one over it), what the forces of the contacts that hold
explain best is taken away,

    P y = y - J' (J W^2 J')^+ J W^2 y,

so that ``P (Y chi - S' tau) = 0`` has no contact force.  It is the weighted least squares estimate
of chi and of all forces at once, with the forces solved for.  P is no more than of rank
6 + n - rank J, but its rows keep the names of base and joints.

What the accelerometer reads too much, b, acts as if the base were accelerated by it: its columns
are those of the inertia matrix that go with the acceleration of the base, by the URDF's bodies.

A point has three rows in J; a sphere touches the ground at ``centre - r n``, with n the ground's
normal in the frame of the foot; a flat foot has six.  With torsion, a point or sphere has a fourth
row, the moment about n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pinocchio as pin

from ..data.recording import Motion
from ..errors import ModelError, one_of
from ..model.floating_base import BASE_JOINTS, base_rates, UNREAL_LINKS
from ..model.mechanisms import ContactSettings, ImuSettings
from ..model.parameters import ParameterLayout
from ..model.robot import Robot
from .inverse_dynamics import InverseDynamicsRegressor
from .rigid import BLOCK, cross_rows, RigidBodies

RANK_TOLERANCE = 1e-9
"""
Singular values of a contact's rows, relative to the largest, that count as none.

Forces along them do no work on any motion of the robot, as those within a foot do.
"""

BIAS = tuple(f'imu.b{axis}' for axis in 'xyz')
"""Parameters of the accelerometer: what it reads too much along its axes."""

_BASE = len(BASE_JOINTS)


@dataclass(frozen=True, eq=False)
class Contact:
    """
    Contact with the ground on a link of the robot.

    Attributes
    ----------
    name:
        Its frame.
    joint:
        Place in the tree of the joint that moves the link.
    point:
        (3,) point, or centre of the sphere, in the frame of that joint [m].
    rotation:
        (3, 3) axes of its frame in that of the joint.
    radius:
        Of the sphere; 0 for a point [m].
    flat:
        Whether it takes moments, too.
    sole:
        Half length and half width of a flat one [m].
    torsion:
        Whether one that is not flat takes a moment about the ground's normal.

    """

    name: str
    joint: int
    point: np.ndarray
    rotation: np.ndarray
    radius: float = 0.0
    flat: bool = False
    sole: tuple[float, float] = (0.0, 0.0)
    torsion: bool = False

    @property
    def rows(self) -> int:
        """Number of components of its wrench."""
        return 6 if self.flat else 3 + self.torsion

    @property
    def on_ground(self) -> bool:
        """True if its rows depend on the direction of the ground's normal."""
        return self.radius > 0.0 or (self.torsion and not self.flat)


@dataclass(frozen=True, eq=False)
class Imu:
    """Place of the IMU: (3, 3) axes and (3,) origin [m] in the frame of the base."""

    rotation: np.ndarray
    origin: np.ndarray

    def at_base(
        self,
        gyroscope: np.ndarray,
        turning: np.ndarray,
        accelerometer: np.ndarray,
        orientation: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """
        Return what an IMU at the origin of the base would read.

        Parameters
        ----------
        gyroscope, turning, accelerometer:
            (m, 3) angular velocity, its derivative, and proper acceleration, in the IMU's frame
            [rad/s, rad/s^2, m/s^2].
        orientation:
            (m, 4) quaternion x, y, z, w of the IMU in the world; None where it is not known.

        Returns
        -------
        tuple
            Angular velocity, angular acceleration, proper acceleration, and the direction upward
            (by the accelerometer where there is no orientation), (m, 3) each.

        """
        turn, about = gyroscope @ self.rotation.T, turning @ self.rotation.T
        along = accelerometer @ self.rotation.T
        along = along - np.cross(about, self.origin) - np.cross(turn, np.cross(turn, self.origin))
        if orientation is None:
            up = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
        else:
            unit = orientation / np.linalg.norm(orientation, axis=1, keepdims=True)
            x, y, z, w = unit.T
            # the last row of the rotation into the world
            upward = np.column_stack(
                [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)]
            )
            up = upward @ self.rotation.T
        return turn, about, along, up


@dataclass(frozen=True)
class FloatingRegressor:
    """
    Regressor of a robot with a free base; made by `build_floating`.

    Attributes
    ----------
    layout:
        Standard parameters: ten a link, rotor inertia and friction of the driven joints, then the
        bias of the accelerometer.
    fixed:
        Regressor of the tree that hangs on the joints of the base.
    columns:
        (p - 3,) columns of it that are parameters.
    bodies:
        (p - 3,) parameters that the URDF gives, for the columns of the bias.
    joints:
        Names of the rows of a sample: `BASE_JOINTS`, then the driven joints.
    contacts:
        All contacts that there may be.
    imu:
        Place of the IMU.
    noise:
        (6 + n,) standard deviation of each row, by which contact forces are found [N, N m].

    """

    layout: ParameterLayout
    fixed: InverseDynamicsRegressor
    columns: np.ndarray
    bodies: np.ndarray
    joints: tuple[str, ...]
    contacts: tuple[Contact, ...]
    imu: Imu
    noise: np.ndarray

    @property
    def n_joints(self) -> int:
        """Number of rows of a sample."""
        return self.fixed.n_joints

    def rows(self, motion: Motion) -> np.ndarray:
        """
        Evaluate the regressor, (n_samples (6 + n), p), a sample's rows together.

        Of the base, velocities are angular ones, and accelerations angular and proper ones, as
        `floating_motion` makes them.  Coulomb friction goes by the motion's ``friction_state``
        where it has one: signs that were filtered like the efforts.
        """
        m, n = len(motion), self.n_joints
        out = np.empty((m * n, len(self.layout)))
        out[:, : self.columns.size] = self.fixed.rows(motion)[:, self.columns]
        if motion.friction_state is not None:
            for joint, column in self._dry:
                out[joint::n, column] = motion.friction_state[:, joint]
        still = np.zeros((m, n))
        for axis, along in enumerate(self.imu.rotation.T):
            pushed = still.copy()
            pushed[:, :3] = along
            rows = self.fixed.rows(Motion(motion.position, still, pushed))
            out[:, self.columns.size + axis] = -rows[:, self.columns] @ self.bodies
        return out

    def random_motion(self, random: np.random.Generator, samples: int) -> Motion:
        """Return random states of a robot that is turned, moved and accelerated in all ways."""
        q, dq, ddq = random.uniform(-1.0, 1.0, (3, samples, self.n_joints - _BASE))
        turn, about, along = random.uniform(-1.0, 1.0, (3, samples, 3))
        return floating_motion(
            Motion(np.pi * q, 3.0 * dq, 10.0 * ddq), 3.0 * turn, 10.0 * about, 10.0 * along
        )

    def jacobians(self, motion: Motion, normal: np.ndarray | None = None) -> np.ndarray:
        """
        Return the rows of all contacts, (n_samples, k, 6 + n).

        Parameters
        ----------
        motion:
            As of `rows`; the base stands at 0.
        normal:
            (n_samples, 3) normal of the ground in the frame of the base, for contacts that are
            `on_ground`; None where there are none.

        """
        count = sum(contact.rows for contact in self.contacts)
        out = np.zeros((len(motion), count, self.n_joints))
        for start in range(0, len(motion), BLOCK):
            part = slice(start, start + BLOCK)
            up = None if normal is None else normal[part]
            self._write_jacobians(motion.position[part], up, out[part])
        return out

    def contact_points(self, motion: Motion) -> np.ndarray:
        """Return the points of contacts, of spheres their centres, (m, c, 3) in the base [m]."""
        jacobians = self.jacobians(motion)
        first = np.concatenate([[0], np.cumsum([contact.rows for contact in self.contacts])[:-1]])
        points = np.empty((len(motion), len(self.contacts), 3))
        for i, row in enumerate(first):
            linear = jacobians[:, row : row + 3, :_BASE]
            # a base that turns by w moves a point p by w x p
            turning = linear[:, :, :3].transpose(0, 2, 1) @ linear[:, :, 3:]
            points[:, i] = np.stack([turning[:, 1, 2], turning[:, 2, 0], turning[:, 0, 1]], axis=1)
        return points

    def _write_jacobians(
        self, position: np.ndarray, normal: np.ndarray | None, out: np.ndarray
    ) -> None:
        rigid = self.fixed.terms[0]
        assert isinstance(rigid, RigidBodies)
        still, upward = np.zeros((2, *position.T.shape))
        if normal is not None:
            # the links' accelerations are the normal in their frames, if the base's is
            upward[:3] = normal.T
        motions = rigid.motions(np.ascontiguousarray(position.T), still, upward)
        row = 0
        for contact in self.contacts:
            link = motions[contact.joint]
            centre = contact.point[:, None]
            arm = centre - contact.radius * link[3:, 1] if contact.radius else centre
            for i, place in enumerate(rigid.tree.joints[contact.joint].path):
                unit, column = link[:, 2 + i], rigid.tree.joints[place].column
                multiplier = rigid.tree.joints[place].multiplier
                linear = unit[3:] + cross_rows(unit[:3], np.broadcast_to(arm, unit[:3].shape))
                parts = [linear, unit[:3]] if contact.flat else [linear]
                for k, part in enumerate(parts):
                    rows = slice(row + 3 * k, row + 3 * k + 3)
                    out[:, rows, column] += multiplier * part.T @ contact.rotation
                if contact.torsion and not contact.flat:
                    # about the normal of the ground
                    about = (unit[:3] * link[3:, 1]).sum(axis=0)
                    out[:, row + 3, column] += multiplier * about
            row += contact.rows

    @cached_property
    def _dry(self) -> list[tuple[int, int]]:
        """Row and column of each joint's Coulomb friction."""
        named = (
            (self.layout.names.index(f'{j}.fc'), i)
            for i, j in enumerate(self.joints)
            if f'{j}.fc' in self.layout
        )
        return [(joint, column) for column, joint in named]

    @property
    def on_ground(self) -> bool:
        """True if rows of a contact depend on the direction of the ground's normal."""
        return any(contact.on_ground for contact in self.contacts)

    @cached_property
    def legs(self) -> tuple[np.ndarray, ...]:
        """Rows of the driven joints that move each contact, and not all of them."""
        rigid = self.fixed.terms[0]
        assert isinstance(rigid, RigidBodies)
        joints = rigid.tree.joints
        columns = [[joints[k].column for k in joints[c.joint].path] for c in self.contacts]
        shared = set.intersection(*map(set, columns)) if len(columns) > 1 else set(range(_BASE))
        return tuple(np.array([k for k in own if k not in shared], dtype=int) for own in columns)

    @cached_property
    def contact_rows(self) -> np.ndarray:
        """(k,) the contact that each row of `jacobians` belongs to."""
        return np.repeat(np.arange(len(self.contacts)), [c.rows for c in self.contacts])

    def projectors(self, jacobians: np.ndarray, stance: np.ndarray) -> np.ndarray:
        """
        Return the matrices P that take the forces of contacts out of rows.

        Parameters
        ----------
        jacobians:
            (n_samples, k, 6 + n) of all contacts.
        stance:
            (n_samples, k) bool, which of these rows hold with a force that is not known.

        Returns
        -------
        np.ndarray
            (n_samples, 6 + n, 6 + n).

        """
        scaled = jacobians * stance[:, :, None] / self.noise
        # rows of a moment beside those of a force: each by its own size
        size = np.linalg.norm(scaled, axis=2, keepdims=True)
        scaled = np.divide(scaled, size, out=np.zeros_like(scaled), where=size > 0.0)
        _, values, basis = np.linalg.svd(scaled, full_matrices=False)
        basis = basis * (values > RANK_TOLERANCE * values[:, :1])[:, :, None]
        projector = np.eye(self.n_joints) - basis.transpose(0, 2, 1) @ basis
        return np.asarray(projector * (self.noise[:, None] / self.noise))


def floating_motion(
    joints: Motion,
    angular_velocity: np.ndarray,
    angular_acceleration: np.ndarray,
    proper_acceleration: np.ndarray,
) -> Motion:
    """
    Return the motion of base and joints, as `FloatingRegressor.rows` takes it.

    The base's arrays are (n_samples, 3), in its frame and at its origin [rad/s, rad/s^2, m/s^2].
    """
    rates, accelerations = base_rates(angular_velocity, angular_acceleration, proper_acceleration)
    none, dry = np.zeros_like(rates), joints.friction_state
    return Motion(
        np.hstack([none, joints.position]),
        np.hstack([rates, joints.velocity]),
        np.hstack([accelerations, joints.acceleration]),
        friction_state=None if dry is None else np.hstack([none, dry]),
    )


def floating_regressor(
    robot: Robot,
    fixed: InverseDynamicsRegressor,
    contacts: Sequence[ContactSettings],
    imu: ImuSettings,
) -> FloatingRegressor:
    """
    Make the regressor of a robot with a free base from that of its tree, without gravity.

    Raises
    ------
    ModelError
        naming a contact or IMU whose frame the URDF does not have, or an IMU that moves on the
        base.

    """
    kept = [
        i
        for i, name in enumerate(fixed.layout)
        if name.rpartition('.')[0] not in UNREAL_LINKS | {*BASE_JOINTS}
    ]
    layout = fixed.layout.select(kept)
    return FloatingRegressor(
        layout=layout + ParameterLayout(BIAS, ('m/s^2',) * 3),
        fixed=fixed,
        columns=np.array(kept),
        bodies=np.array([robot.prior.get(name) for name in layout]),
        joints=robot.joints,
        contacts=tuple(_contact(robot, fixed, each) for each in contacts),
        imu=_imu(robot, imu),
        noise=_first_noise(robot),
    )


def _contact(robot: Robot, fixed: InverseDynamicsRegressor, settings: ContactSettings) -> Contact:
    """Return a contact at its place in the tree."""
    rigid = fixed.terms[0]
    assert isinstance(rigid, RigidBodies)
    frame = robot.link_frames.get(settings.frame)
    if frame is None:
        raise ModelError(
            f"the URDF has no link '{settings.frame}' for a contact",
            link=settings.frame,
            remedy=f'links are {one_of(robot.link_frames)}',
        )
    carriers = robot.carriers
    link = carriers.joint_ids.index(frame.parentJoint)
    place = next(i for i, joint in enumerate(rigid.tree.joints) if joint.link == link)
    return Contact(
        settings.frame,
        place,
        frame.placement.translation.copy(),
        frame.placement.rotation.copy(),
        settings.radius if settings.kind == 'sphere' else 0.0,
        settings.kind == 'flat',
        settings.sole,
        settings.torsion,
    )


def _imu(robot: Robot, settings: ImuSettings) -> Imu:
    """Return the IMU at its place on the base."""
    frame = settings.frame or robot.links[_BASE - 1]
    body = robot.link_frames.get(frame)
    if body is None or body.parentJoint != robot.joint_ids[_BASE - 1]:
        what = 'the URDF has no link' if body is None else 'joints move the link'
        raise ModelError(
            f"{what} '{frame}' for the IMU",
            link=frame,
            remedy='name a link that is fixed to the root link in robot.imu.frame',
        )
    own = pin.SE3(pin.rpy.rpyToMatrix(*settings.rpy), np.array(settings.xyz))
    pose = body.placement * own
    return Imu(pose.rotation.copy(), pose.translation.copy())


_FIRST_NOISE = 0.01
"""Standard deviation of a row before it is known, by the robot's weight and size."""


def _first_noise(robot: Robot) -> np.ndarray:
    """Return (6 + n,) standard deviations of forces and moments by the URDF's weight and size."""
    masses = [robot.prior[f'{link}.m'] for link in robot.prior.layout.links]
    weight = 9.81 * max(sum(masses), 1e-3)
    placements = [robot.model.jointPlacements[i].translation for i in robot.joint_ids[_BASE:]]
    reach = [float(np.linalg.norm(p)) for p in placements]
    size = max(sum(reach) / max(len(reach), 1), 1e-2)
    return _FIRST_NOISE * weight * np.array([1.0] * 3 + [size] * (robot.n_joints - 3))
