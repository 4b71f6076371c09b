# SPDX-License-Identifier: Apache-2.0
"""A tool behind a force-torque sensor: found within its deviations, with the sensor's offsets."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.cli.main import main
from robot_identification.data.recording import Recording
from robot_identification.errors import IdentifiabilityError, ModelError
from robot_identification.excitation.plan_file import as_points, read_plan
from robot_identification.loads.tool import tool, with_wrench
from robot_identification.model.robot import Robot
from robot_identification.signals import SignalSettings
from robot_identification.verdicts.verdict import verdict
from scipy.signal import lfilter

URDF = Path(__file__).parents[2] / 'urdf' / 'demo_arm.urdf'
SENSOR = """
  <link name="sensor"/>
  <joint name="to_sensor" type="fixed">
    <parent link="link_6"/><child link="sensor"/>
    <origin xyz="0.01 0.02 0.1" rpy="0.3 -0.4 0.5"/>
  </joint>
</robot>"""
TOOL = pin.Inertia(1.2, np.array([0.02, -0.01, 0.08]), np.diag([0.004, 0.005, 0.003]))
OFFSET = np.array([3.0, -2.0, 5.0, 0.2, -0.1, 0.3])
SIGNALS = SignalSettings(cutoff=10.0, decimate_to=50.0)
NOISE = np.array([0.3, 0.3, 0.3, 0.01, 0.01, 0.01])


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF.read_text().replace('</robot>', SENSOR))


def recording(
    robot, seed, *, planned=None, sign=-1.0, turn=None, memory=0.0, noise=1.0, poses=False,
    moving=None, bodies=((1.0, TOOL),),
):  # fmt: skip
    """
    Record a motion, or poses that are held, with wrenches by Newton and Euler.

    ``turn`` takes what is measured into the frame; ``planned`` is a trajectory to follow.
    """
    rng = np.random.default_rng(seed)
    n, rate, duration = robot.n_joints, 200.0, 12.0
    time = np.arange(0.0, duration, 1.0 / rate)
    q, v, a = np.zeros((3, time.size, n))
    size = np.ones(n) if moving is None else np.array(moving)
    if planned is not None:
        time = np.arange(0.0, planned.duration, 1.0 / rate)
        motion = planned.sample(time)
        q, v, a = motion.position, motion.velocity, motion.acceleration
    elif poses:
        held = time.size // 8
        q += np.repeat(rng.uniform(-2.0, 2.0, (8, n)), held, axis=0)
        time = time + np.repeat(np.arange(8.0), held)  # the motions between were not recorded
    else:
        for k in range(1, 6):
            w, phase = 2.0 * np.pi * k / duration, rng.uniform(0.0, 6.0, n)
            share = size * rng.uniform(0.2, 0.6, n)
            q += share * np.sin(w * time[:, None] + phase)
            v += share * w * np.cos(w * time[:, None] + phase)
            a -= share * w * w * np.sin(w * time[:, None] + phase)
    model, data = robot.model, robot.model.createData()
    frame = model.getFrameId('sensor')
    wrench = np.empty((time.size, 6))
    for i, state in enumerate(zip(q, v, a, strict=True)):
        pin.forwardKinematics(model, data, *state)
        pin.updateFramePlacements(model, data)
        speed = pin.getFrameVelocity(model, data, frame, pin.LOCAL)
        change = pin.getFrameAcceleration(model, data, frame, pin.LOCAL)
        change.linear -= data.oMf[frame].rotation.T @ robot.gravity
        wrench[i] = sum(
            share * (body * change + speed.cross(body * speed)).vector for share, body in bodies
        )
    if turn is not None:
        wrench = (wrench.reshape(-1, 2, 3) @ turn).reshape(-1, 6)
    wrench = sign * wrench + OFFSET
    errors = rng.normal(size=wrench.shape)
    errors = lfilter([np.sqrt(1.0 - memory**2)], [1.0, -memory], errors, axis=0)
    q = q + 1e-5 * rng.normal(size=q.shape)
    motion = Recording(time, q, np.zeros_like(q), robot.joints, source=f'run {seed}')
    return with_wrench(motion, wrench + noise * NOISE * errors)


def errors(found):
    values = np.array([found.load.base[f'load.{s}'] for s in SYMBOLS])
    places = found.load.base.layout.indices(f'load.{s}' for s in SYMBOLS)
    return (values - TOOL.toDynamicParameters()) / found.load.std[places]


SYMBOLS = ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy', 'Ixz', 'Iyz', 'Izz')


def test_a_tool_and_the_offsets_are_found(robot):
    found = tool([recording(robot, 1)], robot, SIGNALS, frame='sensor')
    assert found.load.determined.all() and found.sign == -1
    assert abs(found.load.mass - 1.2) < 4.0 * found.load.mass_std < 0.02
    assert (np.abs(errors(found)) < 4.5).all()
    assert (np.abs(found.offset - OFFSET) < 4.0 * found.offset_std).all()
    assert (found.offset_std < [0.1, 0.1, 0.1, 0.01, 0.01, 0.01]).all()
    judged = verdict(found)
    assert judged.level == 'good' and judged.uses == ('gravity_compensation', 'dynamics')
    other = tool([recording(robot, 1, sign=1.0)], robot, SIGNALS, frame='sensor')
    assert other.sign == 1 and other.load.mass == pytest.approx(1.2, rel=0.02)


def test_deviations_cover_errors_that_stay_alike(robot):
    scores = [
        errors(tool([recording(robot, s, memory=0.9)], robot, SIGNALS, frame='sensor'))
        for s in range(10, 14)
    ]
    # the root mean square of forty draws, most of them independent
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.6


def test_static_poses_tell_mass_centre_and_offsets_alone(robot):
    held = recording(robot, 2, poses=True)
    found = tool([held], robot, SIGNALS, frame='sensor')
    assert found.load.determined[:4].all() and not found.inertia_known
    assert found.load.mass == pytest.approx(1.2, abs=4.0 * found.load.mass_std)
    np.testing.assert_allclose(found.load.body.center_of_mass, TOOL.lever, atol=5e-3)
    assert (np.abs(found.offset - OFFSET) < 4.5 * found.offset_std).all()
    judged = verdict(found)
    assert judged.level == 'usable' and judged.uses == ('gravity_compensation',)
    assert 'inertia was not determined' in judged.sentence


def test_a_wrench_without_its_weight_is_doubted(robot):
    run = recording(robot, 1, bodies=())
    found = tool([run], robot, SIGNALS, frame='sensor')
    judged = verdict(found)
    assert judged.level == 'do_not_use' and 'weight was taken off before' in judged.sentence


def test_inertia_that_no_body_has_is_not_believed(robot):
    """Cables and a soft sensor make it negative by many deviations: then none is estimated."""
    large = pin.Inertia(1.2, TOOL.lever, np.diag([0.04, 0.03, 0.03]))
    bodies = ((2.0, TOOL), (-1.0, large))  # moments of -0.032, -0.02 and -0.024 kg m^2
    found = tool([recording(robot, 6, bodies=bodies)], robot, SIGNALS, frame='sensor')
    assert not found.inertia_known and found.load.physical and verdict(found).level != 'good'
    assert found.load.mass == pytest.approx(1.2, rel=0.02)


def test_the_rotation_of_the_sensor_is_found(robot):
    turn = pin.rpy.rpyToMatrix(0.05, -0.1, 2.0)
    runs = [recording(robot, seed, turn=turn) for seed in (3, 4)]
    found = tool(runs, robot, SIGNALS, frame='sensor', rotation=True)
    error = pin.log3(found.rotation @ turn.T)
    assert (np.abs(error) < 4.0 * found.rotation_std).all() and found.sign == -1
    assert (found.rotation_std < 0.01).all()
    assert (np.abs(errors(found)) < 4.5).all()
    assert (np.abs(found.offset - OFFSET) < 4.5 * found.offset_std).all()
    # without it nothing fits
    assert verdict(tool(runs, robot, SIGNALS, frame='sensor')).level == 'do_not_use'


def test_what_cannot_be_is_named(robot):
    with pytest.raises(ModelError, match="no link 'hand'"):
        tool([recording(robot, 5)], robot, SIGNALS, frame='hand')
    for moving in ([0.0] * 6, [1.0, *[0.0] * 5]):  # the first joint turns about gravity
        with pytest.raises(IdentifiabilityError, match='one orientation to gravity'):
            tool([recording(robot, 5, moving=moving)], robot, SIGNALS, frame='sensor')
    still = recording(robot, 5, moving=[0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    with pytest.raises(IdentifiabilityError, match='stays in one plane'):
        tool([still], robot, SIGNALS, frame='sensor', rotation=True)


def test_a_planned_motion_tells_it(robot, tmp_path):
    """`plan --tool` moves the last four joints, and what is measured then is enough."""
    (tmp_path / 'arm.urdf').write_text(robot.urdf)
    words = ['plan', str(tmp_path / 'arm.urdf'), '--tool', '--duration', '8', '--quiet']
    words += ['--set', 'planner.max_iterations=40', '--out', str(tmp_path / 'plan')]
    assert main(words) == 0
    planned = as_points(read_plan(tmp_path / 'plan' / 'plan.yaml').trajectory)
    rest = planned.sample(np.linspace(0.0, planned.duration, 50)).position[:, :2]
    assert np.ptp(rest, axis=0).max() == 0.0
    found = tool([recording(robot, 1, planned=planned)], robot, SIGNALS, frame='sensor')
    assert verdict(found).level == 'good' and found.load.mass == pytest.approx(TOOL.mass, rel=0.01)
    assert np.abs(errors(found)).max() < 5.0


def test_raw_counts_for_newtons_are_no_tool(robot):
    """A thousand counts a newton: a tool of 1200 kg."""
    heavy = pin.Inertia(1000.0 * TOOL.mass, TOOL.lever, 1000.0 * TOOL.inertia)
    run = recording(robot, 3, bodies=((1.0, heavy),), noise=1000.0)
    judged = verdict(tool([run], robot, SIGNALS, frame='sensor'))
    assert judged.level == 'do_not_use'
    assert 'as heavy as all links of the robot' in judged.sentence
    assert 'not in raw counts or mN' in judged.sentence
