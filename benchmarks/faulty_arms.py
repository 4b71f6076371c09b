# SPDX-License-Identifier: Apache-2.0
"""
Simulated arms whose models are wrong, as real ones are, and recordings with faults put in.

Efforts are Pinocchio's inverse dynamics of bodies that the URDF does not have (masses off by up to
two, centres of mass moved, base askew by up to a degree), friction that no column describes, drive
gains off by up to 15 %, coloured noise, and efforts late by up to 5 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Recording
from robot_identification.model.robot import Robot
from robot_identification.signals import process, SignalSettings

from .synthetic import sines

RATE, DURATION, HARMONICS = 125.0, 24.0, 6
_AXES = ('0 0 1', '0 1 0', '0 1 0', '0 0 1', '0 1 0', '0 0 1', '0 1 0')
_ORDERS = {3: (0, 1, 2), 4: (0, 1, 2, 4), 5: (0, 1, 2, 3, 4), 6: (0, 1, 2, 3, 4, 5)}
_SLIDE = (
    '<link name="carriage"><inertial><mass value="30"/>'
    '<inertia ixx="1" iyy="1.2" izz="1.5" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    '<joint name="slide" type="prismatic"><parent link="base"/><child link="carriage"/>'
    '<axis xyz="1 0 0"/><limit lower="-3" upper="3" velocity="4" effort="5000"/></joint>'
)
_STILL_ENOUGH = 0.3
"""Change of a joint's effort, relative to it, below which a fault of positions is none."""


@dataclass(frozen=True)
class Arm:
    """
    An arm, and what it records.

    Attributes
    ----------
    robot:
        As its URDF says.
    truth:
        As it is.
    rigid:
        (k, n) part of the efforts that bodies explain, at some samples [N m].
    recording:
        Positions and efforts.
    random:
        Goes on from here.
    gains:
        (n,) of the recorded efforts by those at the joints.

    """

    robot: Robot
    truth: pin.Model
    rigid: np.ndarray
    recording: Recording
    random: np.random.Generator
    gains: np.ndarray


@dataclass(frozen=True)
class Fault:
    """
    A recording with a fault, and what has to be found.

    Attributes
    ----------
    code, joints:
        Of the finding that is right; None for any joints.
    robot, recording:
        What is diagnosed.
    clean:
        The arm without the fault.
    also:
        Other codes that are as right.

    """

    code: str
    joints: tuple[str, ...] | None
    robot: Robot
    recording: Recording
    clean: Arm
    also: tuple[str, ...] = ()


def arm(seed: int, load: float = 0.0, joints: int | None = None, gains: float = 0.15) -> Arm:
    """
    Make up an arm and its recording.

    Parameters
    ----------
    seed:
        Of all that is random.
    load:
        On the last link, in multiples of what that has in the URDF, which does not have the load.
    joints:
        Number of joints, of more than one arm above seven; three to seven where None.
    gains:
        How far the gains of drives are off at most, as a share.

    """
    random = np.random.default_rng(seed)
    n = joints or 3 + seed % 5
    robot = Robot.from_urdf(arm_urdf(n, random))
    truth = _truth(robot, load, random)
    time = np.arange(0.0, DURATION, 1.0 / RATE)
    position, velocity, acceleration = arm_motion(time, n, random)
    data = truth.createData()
    rigid = np.array(
        [pin.rnea(truth, data, *state) for state in zip(position, velocity, acceleration)]
    )
    inertia = np.array([pin.crba(truth, data, q).diagonal() for q in position[::50]]).mean(axis=0)
    # of the size of the rotors and friction of geared drives
    effort = rigid + random.uniform(0.2, 1.0, n) * inertia * acceleration
    spread = effort.std(axis=0) + 0.05 * effort.std(axis=0).max()
    coulomb = random.uniform(0.05, 0.25, n) * spread
    direction = np.tanh(velocity / 0.01)
    effort += coulomb * direction * (1.0 + 0.3 * np.exp(-((velocity / 0.05) ** 2)))
    effort += random.uniform(0.02, 0.08, n) * np.abs(rigid) * direction
    effort += random.uniform(0.05, 0.25, n) * spread / velocity.std(axis=0) * velocity
    off = random.uniform(1.0 - gains, 1.0 + gains, n)
    effort *= off
    noise = random.standard_normal(effort.shape)
    for i in range(1, len(noise)):  # correlated over 0.1 s
        noise[i] = 0.92 * noise[i - 1] + 0.39 * noise[i]
    effort += 0.03 * spread * noise
    late = random.uniform(0.0, 0.005)
    columns = [np.interp(time - late, time, column) for column in effort.T]
    position = position + 2e-5 * random.standard_normal(position.shape)
    recording = Recording(
        time, position, np.stack(columns, axis=1), robot.joints, source=f'arm {seed}'
    )
    return Arm(robot, truth, rigid, recording, random, off)


def real(robot: Robot, recording: Recording, seed: int) -> Arm:
    """Return a real arm as if its URDF were true, to spoil its recording."""
    few = process(recording, SignalSettings(cutoff=8.0, decimate_to=None))
    data = robot.model.createData()
    chosen = slice(None, None, max(1, len(few) // 300))
    states = zip(few.position[chosen], few.velocity[chosen], few.acceleration[chosen], strict=True)
    rigid = np.array([pin.rnea(robot.model, data, q, v, a) for q, v, a in states])
    gains = np.ones(robot.n_joints)
    return Arm(robot, robot.model, rigid, recording, np.random.default_rng(seed), gains)


def faulty(kind: str, seed: int) -> Fault:
    """
    Return an arm's recording with a fault of one of `KINDS`.

    Where a fault would change nothing that anyone could see, another one of the kind is drawn.
    """
    return FAULTS[kind](arm(seed, load=5.0 if kind == 'payload' else 0.0))


def visible(made: Arm, position: np.ndarray) -> bool:
    """Return whether other positions make other efforts of the bodies that there are."""
    n = position.shape[1]
    data = made.truth.createData()
    true, time = made.recording.position, made.recording.time
    w = max(4, round(0.03 / float(np.median(np.diff(time)))))
    size = np.ptp(made.rigid, axis=0).max()
    off = np.zeros(n)
    chosen = range(w, len(true) - w, max(1, len(true) // 80))
    for i in chosen:
        states = []
        h = 0.5 * (time[i + w] - time[i - w])
        for q in (true, position):
            v = (q[i + w] - q[i - w]) / (2.0 * h)
            a = (q[i + w] - 2.0 * q[i] + q[i - w]) / h**2
            states.append(pin.rnea(made.truth, data, q[i].copy(), v, a))
        off += (states[1] - states[0]) ** 2
    off = np.sqrt(off / len(chosen))
    spread = made.rigid.std(axis=0)
    return bool((off > _STILL_ENOUGH * np.maximum(spread, 0.02 * size)).any())


def _sign(made: Arm) -> Fault:
    j = int(made.random.integers(made.robot.n_joints))
    effort = made.recording.effort.copy()
    effort[:, j] *= -1.0
    return _fault(made, 'effort_sign', (j,), effort=effort)


def _position_sign(made: Arm) -> Fault:
    j = int(made.random.integers(made.robot.n_joints))
    position = made.recording.position.copy()
    position[:, j] *= -1.0
    return _fault(made, 'position_sign', (j,), position=position)


def _scale(made: Arm) -> Fault:
    # friction and rotors are not known, so that bodies have to make most of the effort
    share = made.rigid.std(axis=0) / made.recording.effort.std(axis=0)
    j = int(made.random.choice(np.flatnonzero(share >= 0.7 * share.max())))
    effort = made.recording.effort.copy()
    effort[:, j] *= made.random.choice([0.01, 0.1, 10.0, 100.0])
    return _fault(made, 'effort_scale', (j,), effort=effort)


def _swap(kind: str) -> Callable[[Arm], Fault]:
    def swap(made: Arm) -> Fault:
        for _ in range(20):
            a, b = sorted(made.random.choice(made.robot.n_joints, 2, replace=False).tolist())
            order = list(range(made.robot.n_joints))
            order[a], order[b] = b, a
            position, effort = made.recording.position, made.recording.effort
            if kind != 'efforts':
                position = position[:, order]
            if kind != 'positions':
                effort = effort[:, order]
            if kind == 'efforts' or visible(made, position):
                break
        return _fault(made, f'{kind}_swapped', (a, b), position=position, effort=effort)

    return swap


def _offset(made: Arm) -> Fault:
    # that of the last joint turns a centre of mass that is unknown, of a vertical axis nothing
    for _ in range(20):
        j = int(made.random.integers(1, made.robot.n_joints - 1))
        position = made.recording.position.copy()
        position[:, j] += np.radians(made.random.choice([-90.0, -45.0, 45.0, 90.0, 180.0]))
        if visible(made, position):
            break
    return _fault(made, 'position_offset', (j,), position=position)


def _degrees(made: Arm) -> Fault:
    return _fault(made, 'degrees', (), position=np.degrees(made.recording.position))


def _milliseconds(made: Arm) -> Fault:
    return _fault(made, 'time_unit', (), time=1e3 * made.recording.time)


def _gravity(made: Arm) -> Fault:
    turns = {
        'ceiling': (0.0, 0.0, 9.81),
        'wall': (9.81, 0.0, 0.0),
        'other wall': (0.0, -9.81, 0.0),
        'askew': (9.81 * np.sin(0.5), 0.0, -9.81 * np.cos(0.5)),
    }
    wrong = turns[str(made.random.choice(list(turns)))]
    robot = made.robot.with_gravity(list(wrong))
    return replace(_fault(made, 'gravity_direction', ()), robot=robot)


def _millimetres(made: Arm) -> Fault:
    robot = made.robot.with_gravity([0.0, 0.0, -9810.0])
    return replace(_fault(made, 'gravity_unit', ()), robot=robot)


def _kind(made: Arm) -> Fault:
    factor = made.random.choice([0.01, 0.02, 0.08, 12.0, 100.0, 1000.0])
    return _fault(made, 'effort_kind', (), effort=factor * made.recording.effort)


def _signs(made: Arm) -> Fault:
    return _fault(made, 'effort_signs', (), effort=-made.recording.effort)


def _delay(made: Arm) -> Fault:
    late = made.random.uniform(0.05, 0.15)
    time = made.recording.time
    columns = [np.interp(time - late, time, column) for column in made.recording.effort.T]
    return _fault(made, 'effort_delay', (), effort=np.stack(columns, axis=1))


def _missing(made: Arm) -> Fault:
    keep = np.ones(len(made.recording), dtype=bool)
    for start in made.random.integers(10, len(keep) - 30, 20):
        keep[start : start + made.random.integers(5, 15)] = False
    signals = {
        name: getattr(made.recording, name) for name in ('time', 'position', 'velocity', 'effort')
    }
    parts = {name: values[keep] for name, values in signals.items() if values is not None}
    return _fault(made, 'missing_samples', (), **parts)


def _compensated(made: Arm) -> Fault:
    data = made.truth.createData()
    weight = np.array(
        [pin.computeGeneralizedGravity(made.truth, data, q) for q in made.recording.position]
    )
    return _fault(made, 'gravity_compensated', (), effort=made.recording.effort - weight)


def _payload(made: Arm) -> Fault:
    return _fault(made, 'payload', ())


def _still(made: Arm) -> Fault:
    j = int(made.random.integers(made.robot.n_joints))
    position = made.recording.position.copy()
    position[:, j] = position[0, j] + 1e-3 * (position[:, j] - position[0, j])
    return _fault(made, 'still_joint', (j,), position=position)


def _saturation(made: Arm) -> Fault:
    j = int(made.random.integers(made.robot.n_joints))
    effort = made.recording.effort.copy()
    limit = made.random.uniform(0.6, 0.85) * np.abs(effort[:, j]).max()
    effort[:, j] = np.clip(effort[:, j], -limit, limit)
    return _fault(made, 'saturation', (j,), effort=effort)


def _noisy_saturation(made: Arm) -> Fault:
    fault = _saturation(made)
    effort, before = fault.recording.effort.copy(), made.recording.effort
    (j,) = (made.robot.joints.index(name) for name in fault.joints)
    noise = 0.01 * np.abs(effort[:, j]).max() * made.random.standard_normal(len(effort))
    effort[:, j] += np.where(effort[:, j] != before[:, j], noise, 0.0)
    return replace(fault, recording=replace(made.recording, effort=effort))


def _rate(made: Arm) -> Fault:
    factor = made.random.choice([0.2, 0.5, 2.0, 5.0])
    return _fault(made, 'time_scale', (), time=factor * made.recording.time)


def _gear(made: Arm) -> Fault:
    for _ in range(20):
        j = int(made.random.integers(1, made.robot.n_joints - 1))
        position = made.recording.position.copy()
        position[:, j] *= made.random.choice([0.1, 0.5, 2.0])
        if visible(made, position):
            break
    return _fault(made, 'position_scale', (j,), position=position)


def _coupled(made: Arm) -> Fault:
    j = int(made.random.integers(made.robot.n_joints - 1))
    position, effort = made.recording.position.copy(), made.recording.effort.copy()
    share = made.random.choice([-1.0, 1.0])
    position[:, j + 1] += share * position[:, j]
    effort[:, j] -= share * effort[:, j + 1]
    return _fault(made, 'coupled_drives', (j, j + 1), position=position, effort=effort)


def _modelled(made: Arm) -> Fault:
    data = made.robot.model.createData()
    samples = process(made.recording, SignalSettings(cutoff=10.0, decimate_to=None))
    states = zip(samples.position, samples.velocity, samples.acceleration, strict=True)
    effort = np.array([pin.rnea(made.robot.model, data, *each) for each in states])
    parts = {
        'time': samples.time,
        'position': samples.position,
        'velocity': None,
        'effort': effort,
    }
    return _fault(made, 'modelled_efforts', (), **parts)


def _external(made: Arm) -> Fault:
    noise = made.random.standard_normal(made.recording.effort.shape)
    for i in range(1, len(noise)):  # correlated over a second, as a momentum observer's
        noise[i] = 0.99 * noise[i - 1] + 0.14 * noise[i]
    effort = 0.03 * made.recording.effort.std(axis=0) * noise
    return _fault(made, 'external_torque', (), effort=effort)


def _other_run(made: Arm) -> Fault:
    other = arm_motion(made.recording.time, made.robot.n_joints, made.random)
    data = made.truth.createData()
    effort = np.array([pin.rnea(made.truth, data, *each) for each in zip(*other, strict=True)])
    return _fault(made, 'unrelated_efforts', (), effort=effort)


def _pushed(made: Arm) -> Fault:
    recording, model = made.recording, made.robot.model
    rows = np.flatnonzero(_during(made, made.random.uniform(0.1, 0.6), (0.12, 0.3)))
    data, force = model.createData(), made.random.standard_normal(3)
    last = model.getFrameId(made.robot.links[-1])
    torque = np.zeros_like(recording.effort)
    for i in rows:
        jacobian = pin.computeFrameJacobian(
            model, data, recording.position[i], last, pin.LOCAL_WORLD_ALIGNED
        )
        torque[i] = jacobian[:3].T @ force
    spread = recording.effort.std(axis=0)
    size = (np.abs(torque).max(axis=0) / np.maximum(spread, 0.05 * spread.max())).max()
    return _for_a_while(made, 'disturbed', recording.effort + torque / size)


def _off(made: Arm) -> Fault:
    during = _during(made, made.random.uniform(0.0, 0.7), (0.1, 0.3))
    return _for_a_while(made, 'no_effort', np.where(during[:, None], 0.0, made.recording.effort))


def _half_loaded(made: Arm) -> Fault:
    samples = process(made.recording, SignalSettings(cutoff=8.0, decimate_to=None, trim=0.0))
    heavy, link = made.truth.copy(), made.robot.joint_ids[-1]
    mass = 4.0 * made.truth.inertias[link].mass
    heavy.inertias[link] += pin.Inertia(mass, np.array([0.02, 0.02, 0.1]), 1e-3 * mass * np.eye(3))
    data = made.truth.createData(), heavy.createData()
    states = list(zip(samples.position, samples.velocity, samples.acceleration, strict=True))
    more = np.array(
        [pin.rnea(heavy, data[1], *s) - pin.rnea(made.truth, data[0], *s) for s in states]
    )
    time = made.recording.time
    added = np.stack([np.interp(time, samples.time, column) for column in more.T], axis=1)
    added[~_during(made, made.random.uniform(0.38, 0.62), (1.0, 1.0))] = 0.0
    # a load where it is known which part is meant
    fault = _for_a_while(made, 'other_robot', made.recording.effort + added)
    return replace(fault, also=('load',))


FAULTS: dict[str, Callable[[Arm], Fault]] = {
    'degrees': _degrees,
    'milliseconds': _milliseconds,
    'sign of an effort': _sign,
    'sign of a position': _position_sign,
    'scale of an effort': _scale,
    'positions exchanged': _swap('positions'),
    'efforts exchanged': _swap('efforts'),
    'joints exchanged': _swap('joints'),
    'zero offset': _offset,
    'direction of gravity': _gravity,
    'gravity in mm/s^2': _millimetres,
    'kind of effort': _kind,
    'signs of all efforts': _signs,
    'delay of efforts': _delay,
    'missing samples': _missing,
    'gravity compensated': _compensated,
    'payload': _payload,
    'joint that hardly moves': _still,
    'saturation': _saturation,
    'saturation with noise': _noisy_saturation,
    'rate of the stamps': _rate,
    'gear ratio of a position': _gear,
    'coupled motors': _coupled,
    'efforts of the URDF': _modelled,
    'external torques': _external,
    'efforts of another run': _other_run,
    'contact for a while': _pushed,
    'drives off for a while': _off,
    'load from half of it on': _half_loaded,
}
"""Ways to spoil an arm's recording, by what they are called."""

KINDS = tuple(FAULTS)


def _fault(made: Arm, code: str, columns: tuple[int, ...], **changed: np.ndarray) -> Fault:
    joints = tuple(made.robot.joints[j] for j in columns)
    return Fault(code, joints, made.robot, replace(made.recording, **changed), made)


def _during(made: Arm, begin: float, lengths: tuple[float, float]) -> np.ndarray:
    """Return which samples are in a time that begins at a share of the recording, so long."""
    share = (made.recording.time - made.recording.time[0]) / made.recording.duration
    return np.asarray((share >= begin) & (share <= begin + made.random.uniform(*lengths)))


def _for_a_while(made: Arm, code: str, effort: np.ndarray) -> Fault:
    """Return a fault of part of the recording; at which joints it shows is not asked for."""
    return Fault(code, None, made.robot, replace(made.recording, effort=effort), made)


def arm_urdf(n: int, random: np.random.Generator, slide: bool = False) -> str:
    """
    Write the URDF of arms of up to seven joints: links taper from shoulder to wrist.

    The ``slide`` is a linear axis that the arm stands on, beside its ``n`` joints.
    """
    axes = [_AXES[i % len(_AXES)] for i in _ORDERS.get(n, range(n))]
    root = 'carriage' if slide else 'base'
    parts = ['<robot name="arm"><link name="base"/>', *([_SLIDE] if slide else [])]
    for i, axis in enumerate(axes, 1):
        place = (i - 1) % len(_AXES) + 1
        if place == 1:
            mass = random.uniform(8.0, 25.0)
            length, parent, origin = 0.0, root, f'0 {0.1 * (i - 1):g} 0'
        length = random.uniform(0.25, 0.45) if place in (2, 3) else random.uniform(0.08, 0.2)
        side = random.uniform(-0.06, 0.06, 2)
        lever = random.uniform(0.3, 0.6) * length
        moments = mass * np.array([*[length**2 / 8] * 2, min(0.004, length**2 / 5)]) + 0.002
        parts.append(
            f'<link name="link_{i}"><inertial>'
            f'<origin xyz="{side[0]:.4f} {side[1]:.4f} {lever:.4f}"/>'
            f'<mass value="{mass:.4f}"/><inertia ixx="{moments[0]:.6f}" iyy="{moments[1]:.6f}" '
            f'izz="{moments[2]:.6f}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="joint_{i}" type="revolute"><parent link="{parent}"/>'
            f'<child link="link_{i}"/><origin xyz="{origin}"/><axis xyz="{axis}"/>'
            '<limit lower="-3.1" upper="3.1" velocity="4" effort="1000"/></joint>'
        )
        offset = random.uniform(-0.08, 0.08)
        parent, origin = f'link_{i}', f'0 {offset:.4f} {length:.4f}'
        mass *= random.uniform(0.4, 0.75)
    return ''.join([*parts, '</robot>'])


def _truth(robot: Robot, load: float, random: np.random.Generator) -> pin.Model:
    """Return bodies that the URDF does not have, on a base that stands askew."""
    model = robot.model.copy()
    for i in robot.joint_ids:
        body = model.inertias[i]
        factor = np.exp(random.uniform(-np.log(2.0), np.log(2.0)))
        size = np.sqrt(np.trace(body.inertia) / 2.0 / body.mass)
        model.inertias[i] = pin.Inertia(
            factor * body.mass,
            body.lever + 0.15 * size * random.standard_normal(3),
            factor * random.uniform(0.8, 1.25) * body.inertia,
        )
    if load:
        mass = load * robot.prior.inertial(robot.links[-1])[0]
        lever = np.array([0.02, 0.02, 0.12])
        model.inertias[robot.joint_ids[-1]] += pin.Inertia(mass, lever, 0.001 * mass * np.eye(3))
    askew = np.radians(random.uniform(-1.0, 1.0, 2))
    model.gravity.linear = 9.81 * np.array([np.sin(askew[0]), np.sin(askew[1]), -1.0])
    return model


def arm_motion(
    time: np.ndarray, n: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions, velocities and accelerations (m, n) of sums of sines."""
    terms = (
        (2.0 * np.pi * k * random.uniform(1.5, 2.5) / DURATION,
         random.uniform(0.2, 1.0, n) / np.sqrt(k), random.uniform(0.0, 2.0 * np.pi, n))
        for k in range(1, HARMONICS + 1)
    )  # fmt: skip
    states = sines(time, terms)
    states *= random.uniform(1.0, 2.2, n) / np.abs(states[0]).max(axis=0)
    states[0] += random.uniform(-0.4, 0.4, n)
    return states[0], states[1], states[2]
