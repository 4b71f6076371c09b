# SPDX-License-Identifier: Apache-2.0
"""The delta robot's thirteen parameters, against MuJoCo, energy and the general way."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import (
    ModelError,
    RecordingError,
    SettingsError,
)
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    DeltaSettings,
    LoopSettings,
    ModelSettings,
    prior,
)
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.delta import (
    delta_robot,
    delta_urdf,
    DeltaKinematics,
    PLATFORM,
)

GEOMETRY = DeltaSettings(
    base_radius=0.14, platform_radius=0.04, arm_length=0.2, forearm_length=0.46
)
SKEW = DeltaSettings(
    base_radius=0.12,
    platform_radius=0.05,
    arm_length=0.25,
    forearm_length=0.5,
    angles=(0.3, 2.6, -1.9),
)
CLOCKWISE = DeltaSettings(
    base_radius=0.1, arm_length=0.2, forearm_length=0.46, angles=(0.0, -2 * np.pi / 3, 2.2)
)
ALL = pytest.mark.parametrize('geometry', [GEOMETRY, SKEW, CLOCKWISE])
THIRTEEN = ('viscous', 'coulomb')


def rods(geometry, joints):
    """Return the forearms as loops of a general robot: one rod an arm."""
    ends = geometry.platform_radius * np.exp(1j * np.array(geometry.angles))
    return tuple(
        LoopSettings(
            name=f'forearm of {joint}',
            kind='rod',
            link_a=f'{joint}_link',
            point_a=(geometry.arm_length, 0.0, 0.0),
            link_b=PLATFORM,
            point_b=(end.real, end.imag, 0.0),
            length=geometry.forearm_length,
        )
        for joint, end in zip(joints, ends, strict=True)
    )


def models(geometry, gravity=(0.0, 0.0, -9.81)):
    """Return the robot, its thirteen-parameter model and the general one."""
    robot = delta_robot(geometry, gravity=gravity)
    exact = build(robot, ModelSettings(THIRTEEN, delta=geometry))
    loops = rods(geometry, robot.joints)
    return robot, exact, build(robot, ModelSettings(THIRTEEN, False, loops=loops))


def states(regressor, samples=100, seed=0):
    return regressor.random_motion(np.random.default_rng(seed), samples)


@ALL
def test_the_forearms_have_their_length_and_the_platform_hangs(geometry):
    kinematics = DeltaKinematics(geometry)
    _, exact, _ = models(geometry)
    motion = states(exact, 500)
    p = kinematics.platform(motion.position)
    lengths = np.linalg.norm(p[:, None] - kinematics.elbows(motion.position), axis=2)
    np.testing.assert_allclose(lengths, geometry.forearm_length, rtol=1e-14)
    level = kinematics.platform(np.zeros((1, 3)))[0]
    assert level[2] < 0.0


@ALL
def test_velocity_and_acceleration_are_derivatives(geometry):
    kinematics = DeltaKinematics(geometry)
    _, exact, _ = models(geometry)
    now = states(exact)

    def at(t):
        return kinematics.platform(now.position + t * now.velocity + 0.5 * t**2 * now.acceleration)

    h = 1e-3
    places = [at(k * h) for k in range(-3, 4)]
    first = np.array([-1, 9, -45, 0, 45, -9, 1]) / (60 * h)
    second = np.array([2, -27, 270, -490, 270, -27, 2]) / (180 * h**2)
    moving = kinematics.motion(now)
    velocity = np.einsum('k,ksc->sc', first, places)
    acceleration = np.einsum('k,ksc->sc', second, places)
    np.testing.assert_allclose(moving.velocity, velocity, atol=1e-9)
    np.testing.assert_allclose(moving.acceleration, acceleration, atol=2e-6)
    jacobian = (moving.jacobian @ now.velocity[:, :, None])[:, :, 0]
    np.testing.assert_allclose(jacobian, moving.velocity, atol=1e-13)


@ALL
def test_the_thirteen_parameters_are_those_of_the_general_way(geometry):
    robot, exact, general = models(geometry, gravity=(1.0, -2.0, -9.0))
    motion = states(exact)
    pairs = {'platform.m4': 'platform.m'}
    for joint in robot.joints:
        pairs |= {f'{joint}.{symbol}': f'{joint}.{symbol}' for symbol in ('fv', 'fc')}
        pairs |= {f'{joint}.J': f'{joint}_link.Iyy', f'{joint}.mr': f'{joint}_link.mx'}
    assert set(pairs) == set(exact.layout.names) and len(pairs) == 13
    one = exact.rows(motion)[:, exact.layout.indices(list(pairs))]
    other = general.rows(motion)[:, general.layout.indices(list(pairs.values()))]
    np.testing.assert_allclose(one, other, atol=1e-12 * np.abs(other).max())


def test_all_thirteen_can_be_identified():
    robot, exact, general = models(GEOMETRY)
    found = structure(exact, robot)
    assert found.n_base == 13
    assert set(found.categories) == {'alone'}
    singular = found.singular_values
    assert singular[0] / singular[-1] < 20.0
    # the general way adds the arms' first moments across themselves, 0 in the paper
    wider = structure(general, robot)
    assert wider.n_base == 16
    assert {name for name in wider.names if name.endswith('.mz')} == {
        f'{joint}_link.mz' for joint in robot.joints
    }


@ALL
def test_power_is_the_rate_of_the_energy_and_the_loss(geometry):
    robot, exact, _ = models(geometry)
    values = np.linspace(0.05, 1.2, 13)
    names = dict(zip(exact.layout.names, values, strict=True))
    kinematics = DeltaKinematics(geometry)
    now = states(exact)

    def energy(t):
        q = now.position + t * now.velocity + 0.5 * t**2 * now.acceleration
        dq = now.velocity + t * now.acceleration
        platform = kinematics.motion(Motion(q, dq, now.acceleration))
        J = np.array([names[f'{joint}.J'] for joint in robot.joints])
        mr = np.array([names[f'{joint}.mr'] for joint in robot.joints])
        m4 = names['platform.m4']
        kinetic = 0.5 * dq**2 @ J + 0.5 * m4 * (platform.velocity**2).sum(axis=1)
        return kinetic + 9.81 * (m4 * platform.position[:, 2] - np.sin(q) @ mr)

    h = 1e-4
    rate = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
    effort = (exact.rows(now) @ values).reshape(-1, 3)
    fv = np.array([names[f'{joint}.fv'] for joint in robot.joints])
    fc = np.array([names[f'{joint}.fc'] for joint in robot.joints])
    loss = now.velocity**2 @ fv + np.abs(now.velocity) @ fc
    power = (effort * now.velocity).sum(axis=1)
    np.testing.assert_allclose(power, rate + loss, atol=1e-7 * np.abs(power).max())


def mjcf(geometry, inertia, moment, mass):
    """
    Return the delta robot in MuJoCo's terms, its forearms as tendons of fixed length.

    A tendon between two sites has neither mass nor stiffness: with its length held, it is a rod.
    """
    bodies, tendons, equalities, ends = [], [], [], []
    for i, angle in enumerate(geometry.angles):
        c, s = np.cos(angle), np.sin(angle)
        bodies.append(f"""<body pos="{geometry.base_radius * c} {geometry.base_radius * s} 0"
            quat="{np.cos(angle / 2)} 0 0 {np.sin(angle / 2)}">
            <joint name="arm_{i + 1}" axis="0 1 0"/>
            <inertial pos="{moment[i] / 2} 0 0" mass="2"
             diaginertia="1e-2 {inertia[i] - moment[i] ** 2 / 2} {inertia[i]}"/>
            <site name="elbow_{i}" pos="{geometry.arm_length} 0 0"/></body>""")
        r = geometry.platform_radius
        ends.append(f'<site name="end_{i}" pos="{r * c} {r * s} 0"/>')
        tendons.append(f"""<spatial name="rod_{i}"><site site="elbow_{i}"/><site site="end_{i}"/>
            </spatial>""")
        equalities.append(f'<tendon tendon1="rod_{i}"/>')
    height = DeltaKinematics(geometry).platform(np.zeros((1, 3)))[0]
    return f"""<mujoco><compiler angle="radian"/><option gravity="0 0 -9.81" integrator="RK4"/>
        <worldbody>{''.join(bodies)}
        <body name="platform" pos="{height[0]} {height[1]} {height[2]}">
        <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
        <joint name="z" type="slide" axis="0 0 1"/>
        <inertial pos="0 0 0" mass="{mass}" diaginertia="1 1 1"/>{''.join(ends)}</body></worldbody>
        <tendon>{''.join(tendons)}</tendon><equality>{''.join(equalities)}</equality></mujoco>"""


@pytest.mark.parametrize('geometry', [GEOMETRY, SKEW])
def test_mujoco_moves_as_the_efforts_were_made_for(geometry):
    """
    Drive MuJoCo with the efforts of a motion; its rods are held by constraints.

    MuJoCo pulls open constraints together as springs and dampers do.  With a time constant of two
    steps they stay open by 1e-8 m (four times as much with twice the step), and the arms go wrong
    by as much; holding the efforts over a step of this length leaves less.
    """
    inertia, moment, mass = np.array([0.07, 0.08, 0.09]), np.array([0.05, 0.04, 0.06]), 0.48
    step, steps = 5e-5, 8000
    model = mujoco.MjModel.from_xml_string(mjcf(geometry, inertia, moment, mass))
    model.opt.timestep = step
    model.opt.tolerance = 1e-14
    model.eq_solref[:] = (2 * step, 1.0)
    model.eq_solimp[:] = (0.9999, 0.9999, 1e-3, 0.5, 2.0)
    time = 0.5 * step * np.arange(2 * steps + 1)[:, None]
    rate, reach = np.array([9.0, 12.0, 15.0]), np.array([0.3, -0.4, 0.25])
    motion = Motion(
        reach * (1 - np.cos(rate * time)) / 2,
        reach * rate * np.sin(rate * time) / 2,
        reach * rate**2 * np.cos(rate * time) / 2,
    )
    _, exact, _ = models(geometry)
    names = {f'arm_{i + 1}.J': inertia[i] for i in range(3)}
    names |= {f'arm_{i + 1}.mr': moment[i] for i in range(3)} | {'platform.m4': mass}
    values = np.array([names.get(name, 0.0) for name in exact.layout.names])
    effort = (exact.rows(motion) @ values).reshape(-1, 3)
    data = mujoco.MjData(model)
    reached = np.empty((steps, 3))
    for k in range(steps):
        data.qfrc_applied[:3] = effort[2 * k + 1]
        mujoco.mj_step(model, data)
        reached[k] = data.qpos[:3]
    np.testing.assert_allclose(reached, motion.position[2::2], rtol=0, atol=5e-8)
    platform = DeltaKinematics(geometry).platform(reached[-1:])[0]
    np.testing.assert_allclose(data.body('platform').xpos, platform, atol=1e-6)


def test_a_prior_knows_nothing_of_a_delta_robot():
    robot, exact, _ = models(GEOMETRY)
    values = prior(robot, ModelSettings(THIRTEEN, delta=GEOMETRY))
    assert values.layout.names == exact.layout.names and not values.values.any()
    assert set(exact.layout.units) >= {'kg', 'kg m', 'kg m^2', 'N m', 'N m s/rad'}


def test_joints_keep_the_names_and_the_order_they_are_given():
    robot = delta_robot(GEOMETRY, ['c', 'a', 'b'])
    assert robot.joints == ('c', 'a', 'b')
    assert build(robot, ModelSettings((), delta=GEOMETRY)).layout.names == (
        'c.J', 'c.mr', 'a.J', 'a.mr', 'b.J', 'b.mr', 'platform.m4',
    )  # fmt: skip
    text = delta_urdf(GEOMETRY, ('c', 'a', 'b'))
    assert Robot.from_urdf(text, ('c', 'a', 'b'), passive=None).passive == robot.passive


def test_angles_that_cannot_be_are_refused():
    fan = replace(GEOMETRY, forearm_length=0.305, angles=(0.0, np.pi / 2, -np.pi / 2))
    _, exact, general = models(fan)
    position = np.zeros((30, 3))
    position[7] = (1.5, 0.0, 0.0)
    zero = np.zeros_like(position)
    with pytest.raises(RecordingError, match=r'do not reach.*at sample 7 \(arm_1 = 1.5'):
        exact.rows(Motion(position, zero, zero))
    with pytest.raises(RecordingError, match=r'forearm of .*at sample 7 \(arm_1 = 1.5'):
        general.rows(Motion(position, zero, zero))


@pytest.mark.parametrize(
    ('changes', 'key'),
    [
        ({'arm_length': 0.0}, 'delta.arm_length'),
        ({'forearm_length': 0.25}, 'delta.forearm_length'),
        ({'angles': (0.0, 2.0, 2 * np.pi)}, 'delta.angles'),
    ],
)
def test_impossible_geometries_are_refused(changes, key):
    with pytest.raises(SettingsError) as error:
        DeltaSettings(**{**vars(GEOMETRY), **changes})
    assert error.value.key == key


def test_what_does_not_go_with_a_delta_robot_is_refused():
    with pytest.raises(SettingsError, match='three arms'):
        delta_robot(GEOMETRY, ['a', 'b'])
    with pytest.raises(SettingsError, match='coupled drives'):
        ModelSettings(delta=GEOMETRY, coupled_drives=(CoupledDrive('a', ('a', 'b')),))
    with pytest.raises(SettingsError, match="'loops' and 'delta'"):
        ModelSettings(delta=GEOMETRY, loops=(LoopSettings('l', 'a', 'b'),))
    two = Robot.from_urdf(delta_urdf(GEOMETRY), ['arm_1', 'arm_2'], passive=None)
    with pytest.raises(ModelError, match='three arms, but 2'):
        build(two, ModelSettings(delta=GEOMETRY))
