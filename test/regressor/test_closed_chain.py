# SPDX-License-Identifier: Apache-2.0
"""Regressors of robots with closed loops, against MuJoCo's constraints and closed forms."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from robot_identification.data.recording import Motion, Samples
from robot_identification.errors import (
    ModelError,
    RecordingError,
    SettingsError,
)
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    ElasticJoints,
    LoopSettings,
    ModelSettings,
    prior,
)
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.closed_chain import BLOCK, ClosedBodies
from robot_identification.regressor.loops import Loops

BARE = ModelSettings(friction=(), rotor_inertia=False)


def links(text):
    """Spell out ``name: mass; centre; ixx ixy ixz iyy iyz izz`` lines as links."""
    found = []
    for line in text.strip().splitlines():
        name, _, rest = line.strip().partition(': ')
        if not rest:
            found.append(f'<link name="{name}"/>')
            continue
        mass, centre, moments = rest.split(';')
        entries = zip(('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), moments.split(), strict=True)
        inertia = ' '.join(f'{key}="{value}"' for key, value in entries)
        found.append(
            f'<link name="{name}"><inertial><origin xyz="{centre.strip()}"/><mass value="{mass}"/>'
            f'<inertia {inertia}/></inertial></link>'
        )
    return ''.join(found)


def joints(text):
    """Spell out ``name kind parent child; origin; rpy; axis`` lines as joints."""
    found = []
    for line in text.strip().splitlines():
        head, origin, rpy, axis = (part.strip() for part in line.split(';'))
        name, kind, parent, child = head.split()
        limit = (
            '' if kind == 'continuous' else '<limit lower="-9" upper="9" velocity="0" effort="0"/>'
        )
        found.append(
            f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{origin}" rpy="{rpy}"/><axis xyz="{axis}"/>{limit}</joint>'
        )
    return ''.join(found)


# ---------------------------------------------------------------------------- planar linkages

CRANK, COUPLER, ROCKER, GROUND = 0.1, 0.25, 0.2, 0.22

FOUR_BAR = f"""<robot name="four_bar">{
    links('''
    base
    crank: 1.2; 0.04 0.01 0.02; 0.001 0 0 0.002 0 0.003
    coupler: 0.8; 0.12 -0.02 0; 0.001 0 0 0.004 0 0.005
    rocker: 1.5; 0.09 0.03 0.01; 0.001 0 0 0.006 0 0.007
''')
}{
    joints(f'''
    drive continuous base crank; 0 0 0; 0 0 0; 0 0 1
    elbow continuous crank coupler; {CRANK} 0 0; 0 0 0; 0 0 1
    swing continuous base rocker; {GROUND} 0 0; 0 0 0; 0 0 1
''')
}</robot>"""

PIN = LoopSettings(
    name='pin', link_a='coupler', point_a=(COUPLER, 0, 0), link_b='rocker', point_b=(ROCKER, 0, 0)
)
OPEN_BRANCH = {'elbow': 0.7, 'swing': 1.7}


def four_bar(*loops, branch=OPEN_BRANCH, **settings):
    robot = Robot.from_urdf(FOUR_BAR, ['drive'], passive=None, gravity=(0.3, -9.0, 1.0))
    settings = {'friction': (), 'rotor_inertia': False, **settings}
    return robot, ModelSettings(loops=loops or (PIN,), assembly=branch, **settings)


def four_bar_angles(crank):
    """Return absolute angles of coupler and rocker by the intersection of two circles."""
    end = CRANK * np.exp(1j * crank)
    way = GROUND - end
    distance = np.abs(way)
    cosine = (COUPLER**2 + distance**2 - ROCKER**2) / (2 * COUPLER * distance)
    coupler = np.angle(way) + np.arccos(cosine)
    rocker = np.angle(end + COUPLER * np.exp(1j * coupler) - GROUND)
    return coupler, rocker


def four_bar_effort(robot, q, dq, ddq):
    """Lagrange's equation of one degree of freedom: M ddq + M' dq^2 / 2 + V', by closed forms."""
    bodies = inertial_vectors(robot)
    gravity = robot.gravity[0] + 1j * robot.gravity[1]

    def place(link, angles):
        """Complex place of the centre of mass, and the angle of the link."""
        mass, mx, my = bodies[link][:3]
        own = angles[link]
        start = {'crank': 0.0, 'coupler': CRANK * np.exp(1j * angles['crank']), 'rocker': GROUND}
        return mass, start[link] + (mx + 1j * my) / mass * np.exp(1j * own), own

    def angles(q):
        coupler, rocker = four_bar_angles(q)
        return {'crank': q, 'coupler': coupler, 'rocker': rocker}

    def slope(function, q, h=1e-4):
        """Sixth-order difference."""
        at = [function(q + k * h) for k in (-3, -2, -1, 1, 2, 3)]
        return sum(w * f for w, f in zip((-1, 9, -45, 45, -9, 1), at, strict=True)) / (60 * h)

    def inertia(q):
        total = 0.0
        for link, vector in bodies.items():
            mass, mx, my = vector[:3]
            speed = slope(lambda q, link=link: place(link, angles(q))[1], q)
            turn = slope(lambda q, link=link: np.unwrap(np.array(place(link, angles(q))[2])), q)
            central = vector[9] - (mx**2 + my**2) / mass
            total = total + mass * np.abs(speed) ** 2 + central * turn**2
        return total

    def potential(q):
        total = 0.0
        for link in bodies:
            mass, centre, _ = place(link, angles(q))
            total = total - mass * (np.conj(gravity) * centre).real
        return total

    return inertia(q) * ddq + 0.5 * slope(inertia, q, 1e-3) * dq**2 + slope(potential, q)


def inertial_vectors(robot):
    opened = robot.opened
    return {link: opened.prior.inertial(link) for link in opened.links}


def crank_motion(samples, seed=0, reach=np.pi):
    random = np.random.default_rng(seed)
    return Motion(
        position=np.sort(random.uniform(-reach, reach, samples))[:, None],
        velocity=random.uniform(-5, 5, (samples, 1)),
        acceleration=random.uniform(-50, 50, (samples, 1)),
    )


def test_the_four_bar_closes_as_two_circles_do():
    robot, settings = four_bar()
    motion = crank_motion(200)
    whole, _ = ClosedBodies.from_robot(robot, settings).complete(motion)
    coupler, rocker = four_bar_angles(motion.position[:, 0])
    assert robot.passive == ('elbow', 'swing')
    relative = np.angle(np.exp(1j * (coupler - motion.position[:, 0] - whole.position[:, 1])))
    np.testing.assert_allclose(relative, 0.0, atol=1e-12)
    np.testing.assert_allclose(
        np.angle(np.exp(1j * (rocker - whole.position[:, 2]))), 0, atol=1e-12
    )


def test_the_four_bar_takes_the_efforts_of_lagrange():
    robot, settings = four_bar()
    motion = crank_motion(200, seed=1)
    effort = build(robot, settings).rows(motion) @ prior(robot, settings).values
    expected = four_bar_effort(
        robot, motion.position[:, 0], motion.velocity[:, 0], motion.acceleration[:, 0]
    )
    # differences of sixth order, twice in one another
    np.testing.assert_allclose(effort, expected, atol=1e-6 * np.abs(expected).max())


HINGE = LoopSettings(
    name='hinge', kind='revolute', link_a='coupler', point_a=(COUPLER, 0, 0), axis_a=(0, 0, 2),
    link_b='rocker', point_b=(ROCKER, 0, 0), axis_b=(0, 0, -1),
)  # fmt: skip


def test_surplus_equations_change_nothing():
    motion = crank_motion(100)
    rows = [build(*four_bar(loop)).rows(motion) for loop in (PIN, HINGE)]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-12)


def test_a_rod_is_a_coupler_without_mass():
    robot, settings = four_bar()
    bar = Robot.from_urdf(
        FOUR_BAR, ['drive'], locked={'elbow': 0.0}, passive=None, gravity=(0.3, -9.0, 1.0)
    )
    rod = LoopSettings(
        name='rod', kind='rod', length=COUPLER, link_a='crank', point_a=(CRANK, 0, 0),
        link_b='rocker', point_b=(ROCKER, 0, 0),
    )  # fmt: skip
    assert bar.passive == ('swing',)
    motion = crank_motion(100)
    one, other = (
        build(robot, settings),
        build(bar, ModelSettings((), False, loops=(rod,), assembly={'swing': 1.7})),
    )
    # the coupler is lumped with the crank where it is locked; compare the rocker's columns alone
    names = [name for name in one.layout.names if name.startswith('rocker.')]
    np.testing.assert_allclose(
        one.rows(motion)[:, one.layout.indices(names)],
        other.rows(motion)[:, other.layout.indices(names)],
        atol=1e-12,
    )


def test_the_assembly_chooses_the_branch():
    motion = crank_motion(50)
    crossed = ClosedBodies.from_robot(*four_bar(branch={'elbow': -1.5, 'swing': -1.7}))
    opened = ClosedBodies.from_robot(*four_bar())
    for bodies, sign in ((opened, 1.0), (crossed, -1.0)):
        whole, _ = bodies.complete(motion)
        bend = whole.position[:, 2] - whole.position[:, :2].sum(axis=1)
        assert (sign * np.sin(bend) > 0.0).all()


def test_the_order_and_the_blocks_of_samples_do_not_matter():
    robot, settings = four_bar()
    regressor = build(robot, settings)
    motion = crank_motion(2 * BLOCK + 37)
    rows = regressor.rows(motion)
    shuffled = np.random.default_rng(0).permutation(len(motion))
    mixed = regressor.rows(
        Motion(
            *(getattr(motion, name)[shuffled] for name in ('position', 'velocity', 'acceleration'))
        )
    )
    np.testing.assert_allclose(mixed, rows[shuffled], atol=1e-9 * np.abs(rows).max())
    single = regressor.rows(motion.rows(700, 701))
    np.testing.assert_allclose(single, rows[700:701], atol=1e-9 * np.abs(rows).max())


def test_a_crank_may_turn_round_and_round(monkeypatch):
    regressor = build(*four_bar())
    motion = crank_motion(50)
    turned = Motion(motion.position + 400 * np.pi, motion.velocity, motion.acceleration)
    expected = regressor.rows(motion)
    looks, look = [], Loops.jacobian
    monkeypatch.setattr(Loops, 'jacobian', lambda *a: looks.append(None) or look(*a))
    np.testing.assert_allclose(regressor.rows(turned), expected, atol=1e-9)
    assert len(looks) < 300  # turns do not count


def test_friction_of_passive_joints_dissipates_their_power():
    robot, settings = four_bar(passive_viscous=True)
    regressor = build(robot, settings)
    motion = crank_motion(50)
    whole, _ = ClosedBodies.from_robot(robot, settings).complete(motion)
    names = [f'{joint}.fv' for joint in robot.passive]
    rows = regressor.rows(motion)[:, regressor.layout.indices(names)]
    np.testing.assert_allclose(rows * motion.velocity, whole.velocity[:, 1:] ** 2, atol=1e-10)
    assert structure(regressor, robot).category('swing.fv') == 'alone'


def test_drives_have_their_own_columns():
    robot, settings = four_bar(friction=('viscous', 'coulomb'), rotor_inertia=True)
    regressor = build(robot, settings)
    motion = crank_motion(20)
    columns = regressor.layout.indices(['drive.Ia', 'drive.fv', 'drive.fc'])
    expected = [motion.acceleration, motion.velocity, np.sign(motion.velocity)]
    np.testing.assert_allclose(regressor.rows(motion)[:, columns], np.hstack(expected), atol=0)


# ----------------------------------------------------------------------------- spatial joints


TILT = 0.6
SHAFTS = links("""
    base
    input: 1; 0 0 0.1; 0.01 0 0 0.01 0 0.02
    output: 1; 0 0 0.1; 0.01 0 0 0.01 0 0.03
""")
SHAFT_JOINTS = f"""
    in continuous base input; 0 0 0; 0 0 0; 0 0 1
    out continuous base output; 0 0 0; {TILT} 0 0; 0 0 1
"""


def cardan_without_a_cross():
    """Return two shafts whose axes stay at right angles."""
    urdf = f'<robot name="shafts">{SHAFTS}{joints(SHAFT_JOINTS)}</robot>'
    cross = LoopSettings(
        name='cross', kind='universal', link_a='input', axis_a=(1, 0, 0),
        link_b='output', axis_b=(0, 1, 0),
    )  # fmt: skip
    return Robot.from_urdf(urdf, ['in'], passive=None), cross


def cardan_with_a_cross():
    """Return two shafts and a cross, with one of its hinges in the tree and one in a loop."""
    arm = 'arm continuous input cross; 0 0 0; 0 0 0; 1 0 0'
    bodies = SHAFTS + links('cross: 0.1; 0 0 0; 1e-4 0 0 1e-4 0 2e-4')
    urdf = f'<robot name="shafts">{bodies}{joints(SHAFT_JOINTS)}{joints(arm)}</robot>'
    hinge = LoopSettings(
        name='hinge', kind='revolute', link_a='cross', axis_a=(0, 1, 0),
        link_b='output', axis_b=(0, 3, 0),
    )  # fmt: skip
    return Robot.from_urdf(urdf, ['in'], passive=None), hinge


@pytest.mark.parametrize('shafts', [cardan_without_a_cross, cardan_with_a_cross])
def test_two_shafts_turn_as_cardan_found(shafts):
    robot, loop = shafts()
    bodies = ClosedBodies.from_robot(robot, ModelSettings((), False, loops=(loop,)))
    motion = crank_motion(60, reach=1.4)
    whole, _ = bodies.complete(motion)
    q, dq, ddq = (getattr(motion, n)[:, 0] for n in ('position', 'velocity', 'acceleration'))
    out = bodies.joints.index('out')
    np.testing.assert_allclose(
        np.tan(whole.position[:, out]), np.tan(q) * np.cos(TILT), rtol=1e-10
    )
    below = 1.0 - np.sin(TILT) ** 2 * np.sin(q) ** 2
    ratio = np.cos(TILT) / below
    change = np.cos(TILT) * np.sin(TILT) ** 2 * np.sin(2.0 * q) / below**2
    np.testing.assert_allclose(whole.velocity[:, out], ratio * dq, rtol=1e-10)
    expected = ratio * ddq + change * dq**2
    np.testing.assert_allclose(whole.acceleration[:, out], expected, rtol=1e-9, atol=1e-9)


def test_a_block_slides_along_a_turning_lever_as_in_a_shaper():
    crank, depth = 0.1, 0.25
    urdf = f"""<robot name="shaper">{
        links('''
        base
        crank: 1; 0 0 0; 0.01 0 0 0.01 0 0.01
        lever: 1; 0.1 0 0; 0.01 0 0 0.01 0 0.01
        block: 1; 0 0 0; 0.01 0 0 0.01 0 0.01
    ''')
    }{
        joints(f'''
        drive continuous base crank; 0 0 0; 0 0 0; 0 0 1
        swing continuous base lever; 0 {-depth} 0; 0 0 0; 0 0 1
        slide prismatic lever block; 0 0 0; 0 0 0; 1 0 0
    ''')
    }</robot>"""
    robot = Robot.from_urdf(urdf, ['drive'], passive=None)
    pin = LoopSettings(name='pin', link_a='crank', point_a=(crank, 0, 0), link_b='block')
    assembly = {'swing': 1.5, 'slide': 0.2}
    bodies = ClosedBodies.from_robot(
        robot, ModelSettings((), False, loops=(pin,), assembly=assembly)
    )
    motion = crank_motion(80)
    whole, _ = bodies.complete(motion)
    q, dq, ddq = (getattr(motion, n)[:, 0] for n in ('position', 'velocity', 'acceleration'))
    # the pin in the plane, as a complex number from the lever's axis: s e^(i phi)
    turn = crank * np.exp(1j * q)
    z, dz = turn + 1j * depth, 1j * turn * dq
    ddz = 1j * turn * ddq - turn * dq**2
    unit = z / np.abs(z)
    along, across = (dz / unit).real, (dz / unit).imag
    swing, slide = np.angle(z), np.abs(z)
    omega = across / slide
    np.testing.assert_allclose(whole.position[:, 1:], np.c_[swing, slide], atol=1e-12)
    np.testing.assert_allclose(whole.velocity[:, 1:], np.c_[omega, along], atol=1e-11)
    relative = ddz / unit  # (s'' - s omega^2) + i (s alpha + 2 s' omega)
    alpha = (relative.imag - 2.0 * along * omega) / slide
    expected = np.c_[alpha, relative.real + slide * omega**2]
    np.testing.assert_allclose(whole.acceleration[:, 1:], expected, atol=1e-8)


# --------------------------------------------------------------------------------- MuJoCo

FIVE_BAR = f"""<robot name="five_bar">{
    links('''
    base
    left: 1.0; 0.08 0.01 0; 0.002 0 0 0.006 0 0.007
    left_fore: 0.5; 0.1 0.02 0; 0.001 0 0 0.003 0 0.004
    right: 1.1; 0.07 -0.01 0; 0.002 0 0 0.006 0 0.007
    right_fore: 0.6; 0.12 -0.01 0; 0.001 0 0 0.004 0 0.005
''')
}{
    joints('''
    left revolute base left; -0.1 0 0; 1.5707963267948966 0 0; 0 0 1
    left_elbow revolute left left_fore; 0.2 0 0; 0 0 0; 0 0 1
    right revolute base right; 0.1 0 0; 1.5707963267948966 0 0; 0 0 1
    right_elbow revolute right right_fore; 0.2 0 0; 0 0 0; 0 0 1
''')
}</robot>"""

FIVE_BAR_MJCF = """
<mujoco><option gravity="0 0 -9.81" jacobian="dense"/><worldbody>
 <body name="left" pos="-0.1 0 0" euler="90 0 0"><joint name="left" axis="0 0 1"/>
  <inertial pos="0.08 0.01 0" mass="1.0" diaginertia="0.002 0.006 0.007"/>
  <body name="left_fore" pos="0.2 0 0"><joint name="left_elbow" axis="0 0 1"/>
   <inertial pos="0.1 0.02 0" mass="0.5" diaginertia="0.001 0.003 0.004"/>
   <site name="a1" pos="0.25 0 0"/></body></body>
 <body name="right" pos="0.1 0 0" euler="90 0 0"><joint name="right" axis="0 0 1"/>
  <inertial pos="0.07 -0.01 0" mass="1.1" diaginertia="0.002 0.006 0.007"/>
  <body name="right_fore" pos="0.2 0 0"><joint name="right_elbow" axis="0 0 1"/>
   <inertial pos="0.12 -0.01 0" mass="0.6" diaginertia="0.001 0.004 0.005"/>
   <site name="b1" pos="0.25 0 0"/></body></body>
</worldbody><equality><connect name="tip" site1="a1" site2="b1"/></equality></mujoco>
"""


def five_bar():
    robot = Robot.from_urdf(FIVE_BAR, ['right', 'left'], passive=None)
    loop = LoopSettings(
        name='tip', link_a='left_fore', point_a=(0.25, 0, 0), link_b='right_fore',
        point_b=(0.25, 0, 0),
    )  # fmt: skip
    assembly = {'left': 2.1, 'right': 1.0, 'left_elbow': -1.3, 'right_elbow': 1.3}
    return robot, ModelSettings((), False, loops=(loop,), assembly=assembly), FIVE_BAR_MJCF


RADIUS, ARM, FOREARM, HALF, TIP = 0.14, 0.2, 0.46, 0.03, 0.04
LEAN = np.arcsin((RADIUS - TIP + ARM) / FOREARM)
HEIGHT = FOREARM * np.cos(LEAN)


def rod_delta():
    """
    Return a delta robot with six rods of their own mass and a platform that is free to tilt.

    Nothing but the rods keeps the platform level.
    """
    link_lines, joint_lines, bodies, loops, equalities = ['base'], [], [], [], []
    sites = []
    for i in range(3):
        angle = 2 * np.pi * i / 3
        c, s = np.cos(angle), np.sin(angle)
        x, y = RADIUS * c, RADIUS * s
        link_lines.append(f'arm_{i}: 0.5; 0.09 0 0.01; 1e-3 0 0 3e-3 0 3e-3')
        joint_lines.append(f'arm_{i} revolute base arm_{i}; {x} {y} 0; 0 0 {angle}; 0 1 0')
        rods = ''
        for side in (-HALF, HALF):
            name = f'rod_{i}_{"ab"[side > 0]}'
            link_lines += [f'{name}_fork', f'{name}: 0.1; 0.01 0 -0.2; 2e-3 0 0 2e-3 0 1e-5']
            joint_lines += [
                f'{name}_lean revolute arm_{i} {name}_fork; {ARM} {side} 0; 0 0 0; 0 1 0',
                f'{name}_sway revolute {name}_fork {name}; 0 0 0; 0 0 0; 1 0 0',
            ]
            tip = (TIP * c - side * s, TIP * s + side * c, 0.0)
            loops.append(
                LoopSettings(
                    name=name,
                    link_a=name,
                    point_a=(0, 0, -FOREARM),
                    link_b='platform',
                    point_b=tip,
                )
            )
            rods += f"""<body pos="{ARM} {side} 0">
                <joint name="{name}_lean" axis="0 1 0"/><joint name="{name}_sway" axis="1 0 0"/>
                <inertial pos="0.01 0 -0.2" mass="0.1" diaginertia="2e-3 2e-3 1e-5"/>
                <site name="{name}" pos="0 0 {-FOREARM}"/></body>"""
            sites.append(f'<site name="{name}_end" pos="{tip[0]} {tip[1]} 0"/>')
            equalities.append(f'<connect site1="{name}" site2="{name}_end"/>')
        bodies.append(
            f"""<body pos="{x} {y} 0" quat="{np.cos(angle / 2)} 0 0 {np.sin(angle / 2)}">
            <joint name="arm_{i}" axis="0 1 0"/>
            <inertial pos="0.09 0 0.01" mass="0.5" diaginertia="1e-3 3e-3 3e-3"/>{rods}</body>"""
        )
    slides = ['base', 'slide_x', 'slide_y', 'slide_z', 'tilt_x', 'tilt_y', 'platform']
    axes = ['1 0 0', '0 1 0', '0 0 1'] * 2
    link_lines += [*slides[1:-1], 'platform: 0.4; 0.01 0.005 0.02; 1e-3 0 0 1e-3 0 2e-3']
    hanging = ''
    for k, (parent, child) in enumerate(zip(slides[:-1], slides[1:], strict=True)):
        kind, start = ('prismatic', 'slide') if k < 3 else ('revolute', 'turn')
        origin = f'0 0 {-HEIGHT}' if k == 0 else '0 0 0'
        joint_lines.append(
            f'{start}_{"xyz"[k % 3]} {kind} {parent} {child}; {origin}; 0 0 0; {axes[k]}'
        )
        hanging += (
            f'<joint name="{start}_{"xyz"[k % 3]}" type="{"slide" if k < 3 else "hinge"}" '
            f'axis="{axes[k]}"/>'
        )
    bodies.append(f"""<body pos="0 0 {-HEIGHT}">{hanging}
        <inertial pos="0.01 0.005 0.02" mass="0.4" diaginertia="1e-3 1e-3 2e-3"/>
        {''.join(sites)}</body>""")
    urdf = (
        f'<robot name="rods">{links(chr(10).join(link_lines))}'
        f'{joints(chr(10).join(joint_lines))}</robot>'
    )
    robot = Robot.from_urdf(urdf, ['arm_0', 'arm_1', 'arm_2'], passive=None)
    assembly = {joint: LEAN for joint in robot.passive if joint.endswith('_lean')}
    mjcf = f"""<mujoco><compiler angle="radian"/><option gravity="0 0 -9.81" jacobian="dense"/>
        <worldbody>{''.join(bodies)}</worldbody>
        <equality>{''.join(equalities)}</equality></mujoco>"""
    return robot, ModelSettings((), False, loops=tuple(loops), assembly=assembly), mjcf


MECHANISMS = {'five_bar': five_bar, 'rod_delta': rod_delta}
REACH = {'five_bar': 0.3, 'rod_delta': 0.6}


def smooth_motion(robot, settings, time, reach):
    """Return two sines a joint around the assembly, with exact derivatives."""
    random = np.random.default_rng(3)
    n = robot.n_joints
    middle = np.array([settings.assembly.get(joint, 0.0) for joint in robot.joints])
    rate = np.array([4.0, 9.0])[:, None] * random.uniform(0.8, 1.2, (2, n))
    amplitude = reach * np.array([0.7, 0.2])[:, None] * np.sign(random.uniform(-1, 1, (2, n)))
    angle = rate * time[:, None, None]
    # from rest at the assembly: 1 - cos
    return Motion(
        middle + (amplitude * (1 - np.cos(angle))).sum(axis=1) / 2,
        (amplitude * rate * np.sin(angle)).sum(axis=1) / 2,
        (amplitude * rate**2 * np.cos(angle)).sum(axis=1) / 2,
    )


@pytest.mark.parametrize('name', MECHANISMS)
def test_efforts_are_those_that_mujoco_projects(name):
    """
    Hold the efforts against MuJoCo's inertia, bias and constraint Jacobian.

    Its solver, and so the softness of its constraints, has no part in this.  The product of the
    Jacobian's rate and the velocity is a central difference, which MuJoCo has no function for.
    """
    robot, settings, mjcf = MECHANISMS[name]()
    bodies = ClosedBodies.from_robot(robot, settings)
    motion = smooth_motion(robot, settings, np.linspace(0, 1.5, 12), REACH[name])
    whole, _ = bodies.complete(motion)
    effort = (build(robot, settings).rows(motion) @ prior(robot, settings).values).reshape(
        -1, robot.n_joints
    )
    model = mujoco.MjModel.from_xml_string(mjcf)
    data = mujoco.MjData(model)
    order = [model.joint(joint).dofadr[0] for joint in bodies.joints]
    n = robot.n_joints

    def jacobian(position):
        data.qpos[order] = position
        mujoco.mj_fwdPosition(model, data)
        return data.efc_J.reshape(data.nefc, model.nv)[:, order]

    for row in range(len(motion)):
        q, dq, ddq = (getattr(whole, key)[row] for key in ('position', 'velocity', 'acceleration'))
        h = 1e-5
        bias = (jacobian(q + h * dq) - jacobian(q - h * dq)) @ dq / (2 * h)
        J = jacobian(q)
        assert np.abs(data.efc_pos).max() < 1e-12  # closed, says MuJoCo
        data.qvel[order] = dq
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        for row_of, unit in zip(M, np.eye(model.nv), strict=True):
            mujoco.mj_mulM(model, data, row_of, unit)
        M, force = M[np.ix_(order, order)], data.qfrc_bias[order]
        inverse = np.linalg.pinv(J[:, n:], rcond=1e-9)
        ratio = -inverse @ J[:, :n]
        passive = ratio @ ddq[:n] - inverse @ bias
        np.testing.assert_allclose(dq[n:], ratio @ dq[:n], atol=1e-9)
        np.testing.assert_allclose(ddq[n:], passive, atol=1e-7 * max(1, np.abs(passive).max()))
        wanted = M @ np.concatenate([ddq[:n], passive]) + force
        wanted = wanted[:n] + ratio.T @ wanted[n:]
        np.testing.assert_allclose(effort[row], wanted, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize(('name', 'duration'), [('five_bar', 0.4), ('rod_delta', 0.2)])
def test_mujoco_moves_under_the_efforts_as_they_were_made_for(name, duration):
    """
    Drive MuJoCo's constrained model with the efforts of a motion and see it make this motion.

    MuJoCo pulls open constraints together as springs and dampers do, here with a time constant of
    four steps: they stay open by less than 1e-9 m, whatever their impedance.  Efforts are constant
    over a step, which leaves an error of its square, some 1e-8 rad (with twice the step it is four
    times as large); Euler's integrator would add one of 1e-5 rad.
    """
    step = 1e-4
    robot, settings, mjcf = MECHANISMS[name]()
    bodies = ClosedBodies.from_robot(robot, settings)
    n, steps = robot.n_joints, round(duration / step)
    motion = smooth_motion(robot, settings, 0.5 * step * np.arange(2 * steps + 1), REACH[name])
    rows = build(robot, settings).rows(motion)
    effort = (rows @ prior(robot, settings).values).reshape(-1, n)
    model = mujoco.MjModel.from_xml_string(mjcf)
    model.opt.timestep = step
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.tolerance = 1e-14
    model.eq_solref[:] = (4 * step, 1.0)
    model.eq_solimp[:] = (0.9999, 0.9999, 1e-3, 0.5, 2.0)
    data = mujoco.MjData(model)
    order = [model.joint(joint).dofadr[0] for joint in bodies.joints]
    start, _ = bodies.complete(motion.rows(0, 1))
    data.qpos[order] = start.position[0]
    reached = np.empty((steps, n))
    for k in range(steps):
        data.qfrc_applied[order[:n]] = effort[2 * k + 1]  # in the middle of the step
        mujoco.mj_step(model, data)
        reached[k] = data.qpos[order[:n]]
    assert np.abs(data.efc_pos).max() < 1e-9
    assert np.ptp(motion.position, axis=0).min() > 0.1
    np.testing.assert_allclose(reached, motion.position[2::2], rtol=0, atol=5e-8)


def way_round():
    """Return positions of the five-bar's drives around a place where it does not close."""
    corners = np.array([[1.0, 2.1], [3.0, 2.1], [3.0, 4.7], [-0.3, 4.7]])
    parts = [np.linspace(a, b, 300) for a, b in zip(corners[:-1], corners[1:], strict=True)]
    return np.vstack(parts)


def test_places_that_only_the_motion_itself_leads_to_are_reached():
    closure = ClosedBodies.from_robot(*five_bar()[:2]).closure
    wanted = way_round()
    _, straight = closure.solve(wanted, ordered=False)
    assert straight[0] and not straight[-1]
    position, closed = closure.solve(wanted)
    assert closed.all()
    np.testing.assert_array_equal(position[:, :2], wanted)
    assert np.abs(closure.loops.residual(position)).max() < 1e-13
    assert np.abs(np.diff(position, axis=0)).max() < 0.05
    # in parts, as recordings come
    fresh = ClosedBodies.from_robot(*five_bar()[:2]).closure
    assert not fresh.solve(wanted[-50:])[1].any()
    parts = [fresh.solve(part)[0] for part in np.array_split(wanted, 7)]
    np.testing.assert_allclose(np.vstack(parts), position, atol=1e-10)


def test_six_rods_keep_the_platform_level():
    robot, settings, _ = rod_delta()
    bodies = ClosedBodies.from_robot(robot, settings)
    whole, _ = bodies.complete(smooth_motion(robot, settings, np.linspace(0, 3, 100), 0.6))
    turns = [bodies.joints.index(f'turn_{axis}') for axis in 'xyz']
    np.testing.assert_allclose(whole.position[:, turns], 0.0, atol=1e-12)
    np.testing.assert_allclose(whole.acceleration[:, turns], 0.0, atol=1e-8)


def test_links_that_only_part_joints_have_no_parameters():
    robot, settings, _ = rod_delta()
    links = build(robot, settings).layout.links
    assert 'rod_0_a' in links and 'platform' in links
    assert not [link for link in links if link.endswith('_fork') or link.startswith('slide')]


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'link_a': 'forearm'}, ["loop 'pin'", "'forearm'", 'coupler']),
        ({'point_a': (9.0, 0, 0)}, ["loop 'pin'", 'stays open', 'robot.assembly']),
        ({'link_a': 'crank', 'point_a': (0, 0, 0), 'kind': 'rod', 'length': 0.3}, ["'elbow'"]),
        ({'link_a': 'rocker', 'link_b': 'base', 'point_b': (0, 0, 0)}, ["loop 'pin'"]),
    ],
)
def test_loops_that_cannot_be_are_refused(change, words):
    loop = LoopSettings(**{**vars(PIN), **change})
    with pytest.raises(ModelError) as error:
        build(*four_bar(loop))
    assert not [word for word in words if word not in str(error.value)], error.value


def test_joints_that_loops_hold_fast_are_refused():
    robot, settings = four_bar()
    end = ClosedBodies.from_robot(robot, settings).closure.assembly
    corner = CRANK + COUPLER * np.array([np.cos(end[1]), np.sin(end[1])])
    nail = LoopSettings(
        name='nail', link_a='coupler', point_a=(COUPLER, 0, 0), link_b='base',
        point_b=(corner[0], corner[1] - CRANK, 0),
    )  # fmt: skip
    with pytest.raises(ModelError, match="does not let joint 'drive' move.*robot.joints"):
        build(*four_bar(PIN, nail))


def test_loops_need_passive_joints_and_passive_joints_loops():
    _, settings = four_bar()
    with pytest.raises(ModelError, match='no passive joint.*robot.joints'):
        build(Robot.from_urdf(FOUR_BAR, ['drive', 'elbow', 'swing']), settings)
    with pytest.raises(ModelError, match='passive joints, but no loops'):
        build(Robot.from_urdf(FOUR_BAR, ['drive'], passive=None), BARE)
    with pytest.raises(ModelError, match="'drive' is both identified and passive"):
        Robot.from_urdf(FOUR_BAR, ['drive'], passive=['drive', 'elbow'])


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'kind': 'rod'}, 'length'),
        ({'length': 0.2}, 'only a rod'),
        ({'kind': 'revolute', 'axis_a': (0, 0, 1)}, 'axis_b'),
        ({'kind': 'universal', 'axis_a': (0, 0, 0), 'axis_b': (0, 0, 1)}, 'axis_a'),
        ({'axis_a': (0, 0, 1)}, 'no axis'),
        ({'kind': 'weld'}, 'ball, universal'),
        ({'link_b': 'coupler'}, 'two different links'),
    ],
)
def test_impossible_loops_are_refused(changes, words):
    with pytest.raises(SettingsError, match=words) as error:
        LoopSettings(**{**vars(PIN), **changes})
    assert "loop 'pin'" in str(error.value)


def test_settings_of_two_kinds_of_robots_do_not_go_together():
    with pytest.raises(SettingsError, match="'elastic' and 'loops'"):
        ModelSettings(elastic=ElasticJoints(), loops=(PIN,))
    with pytest.raises(SettingsError, match="two loops are called 'pin'"):
        ModelSettings(loops=(PIN, PIN))
    with pytest.raises(SettingsError, match="'passive_viscous' is true, but there are no loops"):
        ModelSettings(passive_viscous=True)


def rocking_bar():
    """Return a four-bar whose drive turns the rocker: it cannot go round."""
    robot = Robot.from_urdf(FOUR_BAR, ['swing'], passive=None, gravity=(0.3, -9.0, 1.0))
    branch = {'swing': 1.7, 'drive': 0.4, 'elbow': 0.4}
    return robot, ModelSettings((), False, loops=(PIN,), assembly=branch)


def rocker_limits():
    """Return the angles of the rocker at which crank and coupler are in line."""
    cosine = [
        (GROUND**2 + ROCKER**2 - (COUPLER + sign * CRANK) ** 2) / (2 * GROUND * ROCKER)
        for sign in (-1, 1)
    ]
    return np.sort(np.pi - np.arccos(cosine))


def test_positions_that_do_not_close_are_refused_by_loop_and_sample():
    robot, settings = rocking_bar()
    regressor = build(robot, settings)
    low, high = rocker_limits()
    inside = np.linspace(low + 0.02, high - 0.02, 40)[:, None]
    zero = np.zeros_like(inside)
    assert np.isfinite(regressor.rows(Motion(inside, zero, zero))).all()
    beyond = inside.copy()
    beyond[17] = high + 0.05
    with pytest.raises(RecordingError, match=r"loop 'pin' cannot be closed at sample 17 \(swing"):
        regressor.rows(Motion(beyond, zero, zero))
    samples = Samples(beyond, zero, zero, 2 + 0.01 * np.arange(40), zero, zero, ('swing',))
    with pytest.raises(RecordingError, match='at 2.17 s'):
        regressor.rows(samples)


def test_singular_positions_are_refused():
    robot, settings = rocking_bar()
    regressor = build(robot, settings)
    _, high = rocker_limits()
    still = np.zeros((1, 1))
    with pytest.raises(RecordingError, match="loop 'pin' is singular at sample 0"):
        regressor.rows(Motion(np.array([[high - 1e-10]]), still, still))


def test_random_states_keep_away_from_where_the_loop_does_not_close():
    robot, settings = rocking_bar()
    found = structure(build(robot, settings), robot)
    motion = build(robot, settings).random_motion(np.random.default_rng(0), 60)
    low, high = rocker_limits()
    assert ((low < motion.position) & (motion.position < high)).all()
    # which joint is driven changes the scale of the rows alone
    assert found.n_base == structure(build(*four_bar()), four_bar()[0]).n_base == 8


def test_a_robot_with_passive_joints_is_not_planned_for():
    robot, _ = four_bar()
    with pytest.raises(ModelError, match='passive joints'):
        robot.configuration(np.zeros(1))
