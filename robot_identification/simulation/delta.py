# SPDX-License-Identifier: Apache-2.0
"""
A delta robot to try things on: its thirteen-parameter model run forward, many robots at once.

    M(q) ddq = effort - bias(q, dq) - fv dq - fc sign(dq) - off,    M = diag(J) + m4 Jp^T Jp

in the notation of `regressor.delta`.  Efforts are constant over a period of the drives.  The
period is cut into steps: what is smooth is integrated by the fourth-order Runge-Kutta scheme, with
dry friction constant over a step and such that a joint that comes to rest sticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..data.recording import Motion, Recording
from ..model.mechanisms import DeltaSettings
from ..model.parameters import ParameterSet
from ..regressor.delta import DeltaKinematics, PLATFORM

SWEEPS = 12
"""Rounds over the joints in which dry friction is found; each takes off most of the error."""

BANDWIDTH, DAMPING = 40.0, 1.0
"""Of the position control that `track` closes [rad/s, of critical]."""


@dataclass(frozen=True)
class DeltaPlant:
    """
    One or several delta robots of the same geometry.

    J, mr, fv, fc and off of the arms are (1 or n_robots, 3), m4 of the platform (1 or n_robots,);
    gravity is (3,) in the base frame [m/s^2].
    """

    geometry: DeltaSettings
    inertia: np.ndarray
    moment: np.ndarray
    viscous: np.ndarray
    coulomb: np.ndarray
    offset: np.ndarray
    platform: np.ndarray
    gravity: np.ndarray

    @classmethod
    def from_settings(
        cls,
        geometry: DeltaSettings,
        joints: Sequence[str],
        parameters: ParameterSet | Sequence[ParameterSet],
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
    ) -> DeltaPlant:
        """Make one robot, or one for each set of parameters; what these do not name is 0."""
        sets = [parameters] if isinstance(parameters, ParameterSet) else list(parameters)

        def arms(symbol: str) -> np.ndarray:
            return np.array([[one.get(f'{joint}.{symbol}') for joint in joints] for one in sets])

        return cls(
            geometry=geometry,
            inertia=arms('J'),
            moment=arms('mr'),
            viscous=arms('fv'),
            coulomb=arms('fc'),
            offset=arms('off'),
            platform=np.array([one.get(f'{PLATFORM}.m4') for one in sets]),
            gravity=np.array(gravity, dtype=float),
        )

    def mass(self, position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return inertia matrices (n_robots, 3, 3) and efforts at zero acceleration (n_robots, 3).

        Position and velocity are (n_robots, 3); the efforts are without friction.
        """
        still = Motion(position, velocity, np.zeros_like(position))
        platform = self._kinematics.motion(still)
        turned = platform.jacobian.transpose(0, 2, 1)
        mass = self.platform[:, None, None] * (turned @ platform.jacobian)
        mass[:, range(3), range(3)] += self.inertia
        lifted = platform.acceleration - self.gravity
        bias = self.platform[:, None] * (turned @ lifted[:, :, None])[:, :, 0]
        bias -= self.moment * (platform.arm @ self.gravity) / self.geometry.arm_length
        return mass, bias

    @cached_property
    def _kinematics(self) -> DeltaKinematics:
        return DeltaKinematics(self.geometry)

    def inverse(self, motion: Motion) -> np.ndarray:
        """Efforts of a motion, friction among them, (n_samples, 3)."""
        mass, bias = self.mass(motion.position, motion.velocity)
        smooth = (mass @ motion.acceleration[:, :, None])[:, :, 0] + bias + self.offset
        return smooth + self.viscous * motion.velocity + self.coulomb * np.sign(motion.velocity)

    def advance(
        self,
        position: np.ndarray,
        velocity: np.ndarray,
        effort: np.ndarray,
        duration: float,
        steps: int = 4,
    ) -> tuple[np.ndarray, np.ndarray]:
        """
        Return position and velocity after a ``duration`` [s] under constant efforts.

        All are (n_robots, 3); the duration is cut into ``steps``.
        """
        h = duration / steps
        for _ in range(steps):
            drive = effort - self.offset - self._dry(position, velocity, effort, h)
            position, velocity = self._runge_kutta(position, velocity, drive, h)
        return position, velocity

    def _dry(
        self, position: np.ndarray, velocity: np.ndarray, effort: np.ndarray, h: float
    ) -> np.ndarray:
        """Dry friction over a step: it brakes to rest at most, and holds what rests."""
        mass, bias = self.mass(position, velocity)
        response = h * np.linalg.inv(mass)
        smooth = effort - self.offset - bias - self.viscous * velocity
        after = velocity + (response @ smooth[:, :, None])[:, :, 0]
        dry = np.where(after >= 0.0, 1.0, -1.0) * self.coulomb
        sliding = after - (response @ dry[:, :, None])[:, :, 0]
        if (sliding * dry >= 0.0).all():
            return dry
        for _ in range(SWEEPS):
            for i in range(3):
                left = after[:, i] - np.einsum('rk,rk->r', response[:, i], dry)
                wanted = dry[:, i] + left / response[:, i, i]
                dry[:, i] = np.clip(wanted, -self.coulomb[:, i], self.coulomb[:, i])
        return dry

    def _acceleration(
        self, position: np.ndarray, velocity: np.ndarray, drive: np.ndarray
    ) -> np.ndarray:
        mass, bias = self.mass(position, velocity)
        return np.linalg.solve(mass, (drive - bias - self.viscous * velocity)[:, :, None])[:, :, 0]

    def _runge_kutta(
        self, q: np.ndarray, dq: np.ndarray, drive: np.ndarray, h: float
    ) -> tuple[np.ndarray, np.ndarray]:
        a1 = self._acceleration(q, dq, drive)
        v2 = dq + 0.5 * h * a1
        a2 = self._acceleration(q + 0.5 * h * dq, v2, drive)
        v3 = dq + 0.5 * h * a2
        a3 = self._acceleration(q + 0.5 * h * v2, v3, drive)
        v4 = dq + h * a3
        a4 = self._acceleration(q + h * v3, v4, drive)
        return (
            q + h / 6.0 * (dq + 2.0 * v2 + 2.0 * v3 + v4),
            dq + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4),
        )


def multisine(random: np.random.Generator, samples: int, period: float) -> Motion:
    """
    Return a motion of seven sines a joint, of 0.25 to 4 Hz, with random sizes and phases.

    It keeps within 0.7 rad of arms that hang by 0.35 rad, and reaches some 4 rad/s and 60 rad/s^2.
    ``period`` is the time between samples [s].
    """
    time = period * np.arange(samples)[:, None]
    rates = 2.0 * np.pi * np.array([0.25, 0.6, 1.1, 1.7, 2.4, 3.2, 4.0])
    motion = np.empty((3, samples, 3))
    for joint, detuned in enumerate((0.94, 1.0, 1.06)):
        rate = detuned * rates
        size = random.uniform(0.5, 1.0, rate.size) / rate**0.7
        size *= 0.7 / size.sum()
        angle = rate * time + random.uniform(0.0, 2.0 * np.pi, rate.size)
        motion[0, :, joint] = 0.35 + np.sin(angle) @ size
        motion[1, :, joint] = np.cos(angle) @ (size * rate)
        motion[2, :, joint] = -np.sin(angle) @ (size * rate**2)
    return Motion(*motion)


def track(
    plant: DeltaPlant,
    reference: Sequence[Motion],
    period: float,
    joints: Sequence[str],
    *,
    position_noise: float = 0.0,
    effort_noise: float = 0.0,
    seed: int = 0,
) -> tuple[Recording, ...]:
    """
    Record robots that follow references under efforts which are held from sample to sample.

    The effort at a sample is the reference's in the middle of the period that it is held for, and
    a position control's; it is recorded beside the position at which its period begins.

    Parameters
    ----------
    plant:
        One robot for all references, or one for each.
    reference:
        Motions of one length, every ``period`` [s] of the drives; robots start in the first state.
    position_noise, effort_noise, seed:
        Standard deviations of what is recorded [rad, N m], and the seed of the noise.

    """
    random = np.random.default_rng(seed)
    wanted, speed, pull = (
        np.stack([getattr(motion, name) for motion in reference], axis=1)
        for name in ('position', 'velocity', 'acceleration')
    )
    stiffness, damping = BANDWIDTH**2, 2.0 * DAMPING * BANDWIDTH
    position, velocity = wanted[0], speed[0]
    seen, given = np.empty_like(wanted), np.empty_like(wanted)
    half = 0.5 * period
    for k in range(len(wanted)):
        correction = stiffness * (wanted[k] - position) + damping * (speed[k] - velocity)
        middle = Motion(
            wanted[k] + half * speed[k] + 0.5 * half**2 * pull[k],
            speed[k] + half * pull[k],
            pull[k] + correction,
        )
        seen[k], given[k] = position, plant.inverse(middle)
        position, velocity = plant.advance(position, velocity, given[k], period)
    seen += position_noise * random.standard_normal(seen.shape)
    given += effort_noise * random.standard_normal(given.shape)
    time = period * np.arange(len(wanted))
    return tuple(
        Recording(time, seen[:, i], given[:, i], tuple(joints), source=f'simulated run {i + 1}')
        for i in range(len(reference))
    )
