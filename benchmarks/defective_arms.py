# SPDX-License-Identifier: Apache-2.0
"""
Simulated arms with one known defect, or none: what `auto` has to choose, and what it must not.

Bodies differ from the URDF's, noise is coloured, friction is viscous and dry, rotors have inertia.
Beside that there is the defect alone: every other term that is chosen is one that is not there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Motion, Recording
from robot_identification.model.parameters import INERTIAL_SYMBOLS
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict, prior
from robot_identification.selection.model_selection import ModelSelection
from scipy.interpolate import CubicSpline
from scipy.signal import lfilter

from .faulty_arms import arm_motion, arm_urdf, RATE

SECONDS = 30.0
PERTURBATION = 0.4
"""Largest logarithm of a mass by the URDF's."""

NOISE, MEMORY = 0.02, 0.05
"""Standard deviation of the noise by a joint's effort, and how long it stays alike [s]."""

_TILTED = 0.3
"""Tilt above which it is a term that is not there [degrees]."""

_USUAL = ModelSettings()
_MODEL = ModelSettings(friction=('viscous', 'coulomb', 'offset', 'root', 'load'))


@dataclass(frozen=True)
class Defect:
    """
    Difference of an arm from its URDF and the usual model.

    Attributes
    ----------
    there:
        Keys of the experiment file that may be chosen for it.
    joints:
        Number of joints; four to seven where None.
    slide:
        Whether the arm stands on a linear axis.
    tilt:
        Of the base [degrees].
    late, one_late:
        Delay of all efforts, and of those of one joint [s].
    spring:
        Of one joint, relative to its effort.
    deflection:
        Of the drives at the root mean square effort [rad]; recorded are the motors.
    load, root:
        Friction by load, and by the cube root of the speed in Coulomb frictions.

    """

    there: tuple[str, ...] = ()
    joints: int | None = None
    slide: bool = False
    tilt: float = 0.0
    late: float = 0.0
    one_late: float = 0.0
    spring: float = 0.0
    deflection: float = 0.0
    load: float = 0.0
    root: float = 0.0


_CHANNEL = ('signals.effort_delay', 'signals.effort_low_pass')

DEFECTS: dict[str, Defect] = {
    'none': Defect(),
    'on a slide': Defect(slide=True),
    '14 joints': Defect(joints=14),
    'all efforts 40 ms late': Defect(_CHANNEL[:1], late=0.04),
    'one effort 45 ms late': Defect(_CHANNEL, one_late=0.045),
    'base tilted by 2 degrees': Defect(('robot.base_tilt',), tilt=2.0),
    'base tilted by 8 degrees': Defect(('robot.base_tilt',), tilt=8.0),
    'flexible joints': Defect(deflection=1.5e-3),
    'spring at a joint': Defect(('robot.joint_springs',), spring=0.4),
    'friction by load': Defect(('load',), load=0.1),
    'friction by the cube root': Defect(('root',), root=1.0),
    '14 joints, 40 ms late': Defect(_CHANNEL[:1], joints=14, late=0.04),
}
"""By what they are called."""

SOUND = ('none', 'on a slide', '14 joints')
"""Those whose usual model is right."""


@dataclass(frozen=True)
class Case:
    """
    An arm with a defect.

    Attributes
    ----------
    robot:
        As its URDF says.
    recording:
        To identify from.
    other:
        Exact positions of another motion, and efforts without delay and noise.
    joint:
        With the defect, where it has one joint.

    """

    robot: Robot
    recording: Recording
    other: Recording
    joint: str


def case(name: str, seed: int, draw: int = 0) -> Case:
    """Make up an arm with one of `DEFECTS`, and its recordings with one draw of the noise."""
    defect = DEFECTS[name]
    random = np.random.default_rng([seed, 11])
    urdf = arm_urdf(defect.joints or 4 + seed % 4, random, slide=defect.slide)
    robot = Robot.from_urdf(urdf)
    n, time = robot.n_joints, np.arange(round(RATE * SECONDS)) / RATE
    lean, way = np.radians(defect.tilt), random.uniform(0.0, 2.0 * np.pi)
    gravity = [np.sin(lean) * np.cos(way), np.sin(lean) * np.sin(way), -np.cos(lean)]
    actual = robot.with_gravity([9.81 * part for part in gravity])
    joint, phase = int(random.integers(1, n)), random.uniform(0.0, 2.0 * np.pi)
    bodies = _bodies(actual, random)
    known = prior(actual, _MODEL).updated(bodies)
    regressor = build(actual, _MODEL)
    motions = [Motion(*arm_motion(time, n, random)) for _ in range(2)]
    rigid = predict(regressor, motions[0], known)
    size = rigid.std(axis=0) + 0.05 * rigid.std(axis=0).max()
    speed, rate = (getattr(motions[0], key).std(axis=0) for key in ('velocity', 'acceleration'))
    coulomb = random.uniform(0.05, 0.2, n) * size
    sizes = {
        'Ia': random.uniform(0.1, 0.4, n) * size / rate,
        'fv': random.uniform(0.05, 0.2, n) * size / speed,
        'fc': coulomb,
        'fr': defect.root * coulomb,
        'fl': np.full(n, defect.load),
    }
    drives = {
        f'{owner}.{symbol}': float(value)
        for symbol, values in sizes.items()
        for owner, value in zip(robot.joints, values, strict=True)
    }
    known = known.updated(drives)
    efforts, positions = [], []
    for motion in motions:
        effort, position = predict(regressor, motion, known), motion.position
        if defect.deflection:  # the links move as asked for, the motors ahead of them
            carried = predict(regressor, motion, known.updated(dict.fromkeys(drives, 0.0)))
            position = position + defect.deflection * carried / carried.std(axis=0)
            spline = CubicSpline(time, position)
            states = position, spline(time, 1), spline(time, 2)
            motors = known.updated(dict.fromkeys(bodies, 0.0))
            effort = carried + predict(regressor, Motion(*states), motors)
        effort[:, joint] += defect.spring * size[joint] * np.sin(position[:, joint] + phase)
        efforts.append(effort)
        positions.append(position)
    late = np.full(n, defect.late)
    late[joint] += defect.one_late
    columns = [
        CubicSpline(time, column)(np.maximum(time - delay, 0.0))
        for column, delay in zip(efforts[0].T, late, strict=True)
    ]
    keep = np.exp(-1.0 / (MEMORY * RATE))
    white = np.random.default_rng([seed, 12, draw]).standard_normal(efforts[0].shape)
    noise = NOISE * size * lfilter([np.sqrt(1.0 - keep * keep)], [1.0, -keep], white, axis=0)
    measured = positions[0] + 2e-5 * random.standard_normal(positions[0].shape)
    recording = Recording(
        time, measured, np.stack(columns, axis=1) + noise, robot.joints, source=f'{name} {seed}'
    )
    other = Recording(time, positions[1], efforts[1], robot.joints, source='another motion')
    return Case(robot, recording, other, robot.joints[joint])


def _bodies(robot: Robot, random: np.random.Generator) -> dict[str, float]:
    """Return parameters of bodies that the URDF does not have, by name."""
    values: dict[str, float] = {}
    for link, i in zip(robot.links, robot.joint_ids, strict=True):
        body = robot.model.inertias[i]
        factor = np.exp(random.uniform(-PERTURBATION, PERTURBATION))
        size = np.sqrt(np.trace(body.inertia) / 2.0 / body.mass)
        other = pin.Inertia(
            factor * body.mass,
            body.lever + 0.1 * size * random.standard_normal(3),
            factor * random.uniform(0.9, 1.1) * body.inertia,
        )
        parameters = zip(INERTIAL_SYMBOLS, other.toDynamicParameters(), strict=True)
        values.update({f'{link}.{symbol}': float(value) for symbol, value in parameters})
    return values


def not_there(name: str, made: Case, chosen: ModelSelection) -> list[str]:
    """Return the terms that were chosen, or left out, though the arm is otherwise."""
    there, model, signals = DEFECTS[name].there, chosen.model, chosen.signals
    found = [
        f'friction by {term}' for term in set(model.friction) - set(_USUAL.friction) - set(there)
    ]
    springs = {*model.joint_springs}
    if 'robot.joint_springs' in there:
        springs.discard(made.joint)
    delays = np.broadcast_to(signals.effort_delay, made.robot.n_joints)
    late = np.full(delays.size, DEFECTS[name].late)
    late[made.robot.joints.index(made.joint)] += DEFECTS[name].one_late
    low_passes = np.array(np.broadcast_to(signals.effort_low_pass, delays.size))
    if 'signals.effort_low_pass' in there:
        low_passes[made.robot.joints.index(made.joint)] = 0.0
    tilted = np.degrees(np.linalg.norm(chosen.tilt)) > _TILTED
    others = {
        'spring': bool(springs),
        'delay': bool((np.abs(delays - late) > 0.008).any()),
        'low-pass': bool(low_passes.any()),
        'tilt': bool(tilted) and 'robot.base_tilt' not in there,
        'breakaway': bool(np.any(model.breakaway)),
        'reversal speed': bool(np.any(model.reversal_speed)),
    }
    return found + [term for term, wrong in others.items() if wrong]
