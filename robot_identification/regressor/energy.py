# SPDX-License-Identifier: Apache-2.0
r"""
The energy of a robot as a linear function of its parameters, which takes no accelerations.

Between two instants the efforts' work is what the energy H = E + U (kinetic and potential) grows
by and what friction takes (Gautier and Khalil 1992, equations (1) to (8)):

.. math:: \int \tau^T \dot q \, dt = [h(q, \dot q)]_a^b X + \int \dot q^T W_f(q, \dot q) \, dt X

with h the row of energies of a unit of each parameter and W_f the columns of the inverse dynamics
regressor that do not come from an energy.  Both are over the standard parameters in the layout of
that regressor, so base parameters, priors and results are the same whichever equations they come
from.

With the velocity v of a link's origin, its angular velocity W and the gravity g, all in the link's
frame, and the height ``-g . p`` of the origin, the energy of a link is

    m (v.v / 2 - g.p) + mc . (v x W - g) + W . I W / 2.

Velocities and the unit motions of the joints are those of `rigid.RigidBodies`.  The gradient goes
backwards through these formulas: what an energy gains by a change of v and W is a momentum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..data.recording import Motion
from ..errors import SettingsError
from ..model.parameters import ParameterLayout
from .inverse_dynamics import InverseDynamicsRegressor, Regressor
from .joint_terms import Term
from .rigid import cross_rows, RigidBodies, TreeJoint

_BLOCK = 1024
"""Samples that are worked on at once; the arrays are fewer than those of an effort's rows."""

_RELATIVE_ASYMMETRY = 1e-9
"""Share of the largest inertia by which rounding makes an inertia unsymmetric."""


@dataclass(frozen=True)
class EnergyRegressor:
    """
    Energies, and powers of friction, of a unit of each standard parameter; made by `energy_of`.

    Attributes
    ----------
    layout, n_joints:
        As those of the inverse dynamics regressor.
    rigid, terms:
        Columns of the links, and the other terms.

    """

    layout: ParameterLayout
    n_joints: int
    rigid: RigidBodies
    terms: tuple[Term, ...]
    _inertias: np.ndarray = field(init=False, repr=False, compare=False)
    _inert: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        inertias = self._constant_inertias()
        object.__setattr__(self, '_inert', np.flatnonzero(inertias.any(axis=(1, 2))))
        object.__setattr__(self, '_inertias', inertias[self._inert])

    @property
    def _joints(self) -> tuple[TreeJoint, ...]:
        return self.rigid.tree.joints

    @property
    def stored(self) -> np.ndarray:
        """(p,) bool, parameters that have an energy; the others take work for good."""
        stored = np.zeros(len(self.layout), dtype=bool)
        stored[: len(self.rigid.layout)] = True
        stored[self._inert] = True
        return stored

    def rows(self, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """
        Return h (n_samples, p): the energy of a unit of each parameter, in J for SI units.

        Positions and velocities are (n_samples, n_joints) [rad, rad/s; m, m/s].  The energy of
        gravity is 0 at the height of the base's origin; differences of rows do not depend on that.
        """
        return self.linearised(position, velocity)[0]

    def linearised(
        self, position: np.ndarray, velocity: np.ndarray
    ) -> tuple[np.ndarray, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]]:
        """
        Return `rows`, and the function that takes a gradient by the rows back to the states.

        The function turns weights (n_samples, p) into the gradients of ``(weights * rows).sum()``
        by position and velocity, (n_samples, n_joints) each.
        """
        position, velocity = self._checked(position, velocity)
        parts = [slice(start, start + _BLOCK) for start in range(0, len(position), _BLOCK)]
        blocks = [self._links(position[part], velocity[part]) for part in parts]
        columns = [slice(10 * joint.link, 10 * joint.link + 10) for joint in self._joints]
        out = np.zeros((len(position), len(self.layout)))
        for part, links in zip(parts, blocks, strict=True):
            for place, link in zip(columns, links, strict=True):
                out[part, place] = link.energies().T
        momenta = np.tensordot(velocity, self._inertias, axes=(1, 2))
        out[:, self._inert] = 0.5 * (momenta @ velocity[:, :, None])[:, :, 0]

        def pull_back(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            by_velocity = np.einsum('sc,sci->si', weights[:, self._inert], momenta)
            by_position = np.zeros(position.shape)
            for part, links in zip(parts, blocks, strict=True):
                for joint, column, link in zip(self._joints, columns, links, strict=True):
                    by_q, by_dq = link.pull_back(np.ascontiguousarray(weights[part, column].T))
                    for i, ancestor in enumerate(self._joints[k] for k in joint.path):
                        place = part, ancestor.column
                        by_position[place] += ancestor.multiplier * by_q[i]
                        by_velocity[place] += ancestor.multiplier * by_dq[i]
            return by_position, by_velocity

        return out, pull_back

    def powers(self, position: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """
        Return the power (n_samples, p) [W] that a unit of each parameter takes, such as friction.

        It is 0 for parameters that have an energy.
        """
        position, velocity = self._checked(position, velocity)
        out = np.zeros((len(position), len(self.layout)))
        taking = ~self.stored
        for start in range(0, len(position), _BLOCK):
            part = slice(start, start + _BLOCK)
            columns = self._columns(position[part], velocity[part], np.zeros_like(position[part]))
            out[part, taking] = np.einsum('sj,sjc->sc', velocity[part], columns[:, :, taking])
        return out

    def _checked(
        self, position: np.ndarray, velocity: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        position, velocity = np.asarray(position, dtype=float), np.asarray(velocity, dtype=float)
        if position.shape != velocity.shape or position.shape[1:] != (self.n_joints,):
            raise ValueError(
                f'position and velocity have shapes {position.shape} and {velocity.shape}, '
                f'expected (n_samples, {self.n_joints})'
            )
        return position, velocity

    def _columns(self, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
        """Columns of the inverse dynamics that are not the links', (n_samples, n_joints, p)."""
        out = np.zeros((*q.shape, len(self.layout)))
        motion = Motion(q, dq, ddq)
        for term in self.terms:
            term.fill(motion, out)
        return out

    def _constant_inertias(self) -> np.ndarray:
        """(p, n_joints, n_joints) what the other columns do with accelerations, such as rotors."""
        zero = np.zeros((self.n_joints, self.n_joints))
        pushed = self._columns(zero, zero, np.eye(self.n_joints)) - self._columns(zero, zero, zero)
        inertias = np.ascontiguousarray(pushed.transpose(2, 1, 0))
        asymmetry = np.abs(inertias - inertias.transpose(0, 2, 1)).max(initial=0.0)
        if asymmetry > _RELATIVE_ASYMMETRY * np.abs(inertias).max(initial=1.0):
            raise ValueError('a term of the regressor has an inertia that is not symmetric')
        return inertias

    def _links(self, position: np.ndarray, velocity: np.ndarray) -> list[_LinkState]:
        """States of the links of a block, in the order of the tree's joints."""
        q, dq = np.ascontiguousarray(position.T), np.ascontiguousarray(velocity.T)
        upward = -self.rigid.tree.gravity
        # as an angular velocity, a direction goes from frame to frame by the rotation alone
        others = np.concatenate([upward, np.zeros(3)])[:, None]
        motions = self.rigid.motions(q, dq, np.zeros_like(q), others)
        links: list[_LinkState] = []
        base = np.broadcast_to(upward[:, None], (3, len(position)))
        all_q, all_dq = (
            self.rigid.tree.mimics.positions(q.T).T,
            self.rigid.tree.mimics.rates(dq.T).T,
        )
        for joint, motion in zip(self._joints, motions, strict=True):
            parent = links[joint.parent] if joint.parent >= 0 else None
            step = joint.translation[:, None]
            if not joint.revolute:
                step = step + (joint.rotation @ joint.axis)[:, None] * all_q[joint.link]
            axes = base if parent is None else parent.upward
            height = (axes * step).sum(axis=0) + (0.0 if parent is None else parent.height)
            links.append(
                _LinkState(
                    velocity=motion[:, 0],
                    upward=motion[:3, 2],
                    height=height,
                    units=motion[:, 3:],
                    speeds=all_dq[[self._joints[i].link for i in joint.path]],
                )
            )
        return links


@dataclass(frozen=True)
class _LinkState:
    """
    Variables of a link's energy in its frame, samples last.

    ``velocity`` (6, n_samples) is angular velocity and velocity of the origin, ``upward`` (3,
    n_samples) gravity with the sign changed, ``height`` (n_samples,) the potential of the origin,
    ``units`` (6, k, n_samples) and ``speeds`` (k, n_samples) belong to the k joints on the path.
    """

    velocity: np.ndarray
    upward: np.ndarray
    height: np.ndarray
    units: np.ndarray
    speeds: np.ndarray

    def energies(self) -> np.ndarray:
        """(10, n_samples) energies of a unit of each inertial parameter."""
        (wx, wy, wz), (vx, vy, vz) = self.velocity[:3], self.velocity[3:]
        ux, uy, uz = self.upward
        return np.stack(
            [
                0.5 * (vx * vx + vy * vy + vz * vz) + self.height,
                vy * wz - vz * wy + ux,
                vz * wx - vx * wz + uy,
                vx * wy - vy * wx + uz,
                0.5 * wx * wx,
                wx * wy,
                0.5 * wy * wy,
                wx * wz,
                wy * wz,
                0.5 * wz * wz,
            ]
        )

    def pull_back(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Gradient of ``(weights * energies()).sum()`` by the positions and velocities of the path.

        Weights (10, n_samples) are like the inertial parameters of a body: they give it a momentum
        in its motion and a weight in the field of gravity.
        """
        mass, first, (xx, xy, yy, xz, yz, zz) = weights[0], weights[1:4], weights[4:]
        wx, wy, wz = W = self.velocity[:3]
        v = self.velocity[3:]
        turned = np.stack(
            [
                xx * wx + xy * wy + xz * wz,
                xy * wx + yy * wy + yz * wz,
                xz * wx + yz * wy + zz * wz,
            ]
        )
        turning, pushing = turned + cross_rows(first, v), mass * v + cross_rows(W, first)
        by_velocity = np.einsum('ckn,cn->kn', self.units[:3], turning)
        by_velocity += np.einsum('ckn,cn->kn', self.units[3:], pushing)
        # a joint's position changes, in the link's frame, what the joints before it give to the
        # velocity: by its cross product with the unit motion, where the joint's own part is zero;
        # triple products turned round, (a x u) . b = u . (b x a)
        given = np.cumsum(self.units * self.speeds, axis=1)
        turning, pushing, first, weight = (
            vector[:, None] for vector in (turning, pushing, first, mass * self.upward)
        )
        moment = cross_rows(turning, given[:3]) + cross_rows(pushing, given[3:])
        moment += cross_rows(first, self.upward[:, None])
        by_position = np.einsum('ckn,ckn->kn', self.units[:3], moment)
        force = cross_rows(pushing, given[:3]) + weight
        by_position += np.einsum('ckn,ckn->kn', self.units[3:], force)
        return by_position, by_velocity


def energy_of(regressor: Regressor, key: str = 'estimation.equations') -> EnergyRegressor:
    """
    Return the energies that belong to an inverse dynamics regressor.

    Raises SettingsError, naming ``key``, if the model is no tree of rigid links.
    """
    terms = regressor.terms if isinstance(regressor, InverseDynamicsRegressor) else ()
    rigid = [term for term in terms if isinstance(term, RigidBodies)]
    if len(rigid) != 1:
        raise SettingsError(
            f"'{key}' asks for energy equations, which are made for trees of rigid links",
            key=key,
            remedy='robots with loops, elastic joints or a floating base take what needs none',
        )
    others = tuple(term for term in terms if not isinstance(term, RigidBodies))
    return EnergyRegressor(regressor.layout, regressor.n_joints, rigid[0], others)
