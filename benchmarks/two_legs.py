# SPDX-License-Identifier: Apache-2.0
"""
A clamped robot with two legs of two servo joints, simulated in plain MuJoCo.

The simulation shares nothing with the product: an MJCF with position actuators, commands held and
delayed by whole steps, and `mujoco.mj_step`.
"""

import mujoco
import numpy as np
from robot_identification.data.commands import CommandRecording
from robot_identification.model.robot import Robot

JOINTS = ('left_hip', 'left_knee', 'right_hip', 'right_knee')
KP, KD = 25.0, 0.5
STEP = 0.001
PERIOD = 0.005
ARMATURE = np.array([0.012, 0.02, 0.015, 0.025])
VISCOUS = np.array([0.1, 0.15, 0.2, 0.05])
COULOMB = np.array([0.3, 0.5, 0.2, 0.4])
SIDES = {'left': 0.2, 'right': -0.2}
UPPER, LOWER = (1.2, 0.0, 0.01, -0.1), (0.4, 0.0, 0.0, -0.12)
"""Mass and centre of mass of the links [kg, m]."""

SHIFT = (0.01, -0.015)
"""Displacement in x of the true centres of mass of upper and lower links [m]."""


def urdf():
    """Return the nominal robot."""
    text = '<robot name="two_legs"><link name="base"/>'
    for side, y in SIDES.items():
        parts = (
            ('hip', 'base', 'upper', f'0 {y} 0', UPPER),
            ('knee', f'{side}_upper', 'lower', '0 0 -0.25', LOWER),
        )
        for joint, parent, link, origin, (mass, *center) in parts:
            place = ' '.join(map(str, center))
            text += (
                f'<link name="{side}_{link}"><inertial><origin xyz="{place}"/>'
                f'<mass value="{mass}"/><inertia ixx="0.006" iyy="0.005" izz="0.001" ixy="0" '
                f'ixz="0" iyz="0"/></inertial></link><joint name="{side}_{joint}" '
                f'type="revolute"><parent link="{parent}"/><child link="{side}_{link}"/>'
                f'<origin xyz="{origin}"/><axis xyz="0 1 0"/>'
                '<limit lower="-2.5" upper="2.5" effort="50" velocity="20"/></joint>'
            )
    return text + '</robot>'


def mjcf(armature, viscous, coulomb, shift=SHIFT, step=STEP, friction='0.002 1', limit=None):
    """Return the true robot."""
    force = '' if limit is None else f' forcelimited="true" forcerange="-{limit} {limit}"'
    bodies, actuators, k = '', '', 0
    for side, y in SIDES.items():
        opened = ''
        links = (('hip', UPPER, f'0 {y} 0', shift[0]), ('knee', LOWER, '0 0 -0.25', shift[1]))
        for joint, (mass, cx, cy, cz), place, moved in links:
            opened += (
                f'<body name="{side}_{joint}_body" pos="{place}">'
                f'<inertial pos="{cx + moved} {cy} {cz}" mass="{mass}" '
                'diaginertia="0.006 0.005 0.001"/>'
                f'<joint name="{side}_{joint}" axis="0 1 0" armature="{armature[k]}" '
                f'damping="{viscous[k]}" '
                f'frictionloss="{coulomb[k]}" solreffriction="{friction}"/>'
            )
            name = f'name="{side}_{joint}" joint="{side}_{joint}"'
            actuators += f'<position {name} kp="{KP}" kv="{KD}"{force}/>'
            k += 1
        bodies += opened + '</body></body>'
    return (
        f'<mujoco><option timestep="{step}" integrator="implicitfast"/><worldbody>'
        f'{bodies}</worldbody><actuator>{actuators}</actuator></mujoco>'
    )


def commands(duration, seed=0, period=PERIOD):
    """Return (n,) stamps and (n, 4) commands: sums of sines about a bent pose."""
    random = np.random.default_rng(seed)
    time = np.arange(0.0, duration, period)
    frequency = random.uniform(0.2, 1.6, (4, 5))
    phase = random.uniform(0.0, 6.3, (4, 5))
    waves = np.sin(6.2832 * frequency[..., None] * time + phase[..., None])
    return time, 0.18 * waves.sum(axis=1).T + np.array([0.5, -1.0, 0.4, -0.9])


def recorded(duration=8.0, seed=0, delay=0.008, noise=2e-4, command=None, **truth):
    """
    Simulate a recording of commands, random ones or those that are given at `PERIOD`.

    Delays, one or one a joint, are whole numbers of steps and may be negative.
    """
    values = {'armature': ARMATURE, 'viscous': VISCOUS, 'coulomb': COULOMB, **truth}
    step = values.get('step', STEP)
    model = mujoco.MjModel.from_xml_string(mjcf(**values))
    data = mujoco.MjData(model)
    given = command is not None
    if given:
        time = PERIOD * np.arange(len(command))
    else:
        time, command = commands(duration + 1.0, seed)
    data.qpos[:] = command[0]
    every = round(PERIOD / step)
    late = np.round(np.broadcast_to(delay, 4) / step).astype(int)
    positions = np.zeros_like(command)
    for k in range(len(time) * every):
        if k % every == 0:
            positions[k // every] = data.qpos
        data.ctrl[:] = command[np.clip((k - late) // every, 0, len(time) - 1), range(4)]
        mujoco.mj_step(model, data)
    positions += noise * np.random.default_rng(seed + 1).standard_normal(positions.shape)
    used = slice(None) if given else slice(round(0.5 / PERIOD), round((duration + 0.5) / PERIOD))
    return CommandRecording(time[used], positions[used], command[used], JOINTS, source='legs')


def robot():
    """Return the nominal robot."""
    return Robot.from_urdf(urdf(), JOINTS)
