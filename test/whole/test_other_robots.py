# SPDX-License-Identifier: Apache-2.0
"""The whole way, from a plan to the exported URDF, for robots unlike the demonstration's."""

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.excitation import plan, PlannerSettings
from robot_identification.exports.saving import save
from robot_identification.identification.pipeline import identify
from robot_identification.model.robot import Robot
from robot_identification.simulation import simulate, SimulationSettings, truth, Waypoints

pytestmark = pytest.mark.filterwarnings(
    'ignore::robot_identification.errors.IdentificationWarning'
)


def link(name, mass, centre, moments):
    xx, yy, zz = moments
    return (
        f'<link name="{name}"><inertial><origin xyz="{centre}"/><mass value="{mass}"/>'
        f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def joint(name, kind, parent, child, xyz, axis, limit, dynamics):
    return (
        f'<joint name="{name}" type="{kind}"><origin xyz="{xyz}"/><parent link="{parent}"/>'
        f'<child link="{child}"/><axis xyz="{axis}"/>'
        f'<limit {limit}/><dynamics {dynamics}/></joint>'
    )


SCARA = ''.join([
    '<robot name="scara"><link name="base"/>',
    link('upper', 5, '0.2 0 0', (0.02, 0.1, 0.1)),
    link('lower', 4, '0.15 0 0.02', (0.02, 0.06, 0.06)),
    link('quill', 1.5, '0 0.01 -0.1', (0.02, 0.02, 0.003)),
    link('tool', 0.6, '0.02 0 -0.02', (0.002, 0.002, 0.002)),
    joint('shoulder', 'revolute', 'base', 'upper', '0 0 0.3', '0 0 1',
          'lower="-2.3" upper="2.3" velocity="5" effort="120"', 'damping="0.5" friction="1"'),
    joint('elbow', 'revolute', 'upper', 'lower', '0.4 0 0', '0 0 1',
          'lower="-2.4" upper="2.4" velocity="6" effort="60"', 'damping="0.5" friction="1"'),
    joint('lift', 'prismatic', 'lower', 'quill', '0.3 0 0', '0 0 -1',
          'lower="0" upper="0.2" velocity="1.2" effort="200"', 'damping="20" friction="8"'),
    joint('roll', 'continuous', 'quill', 'tool', '0 0 -0.2', '0 0 1',
          'velocity="10" effort="6"', 'damping="0.05" friction="0.1"'),
    '</robot>',
])  # fmt: skip

# two arms on a turning torso; one elbow is locked and carries a heavy tool
TORSO = ''.join([
    '<robot name="torso"><link name="pedestal"/>',
    link('chest', 9, '0 0 0.2', (0.2, 0.2, 0.1)),
    link('left_arm', 2, '0.1 0.02 0', (0.01, 0.03, 0.03)),
    link('right_arm', 2, '0.1 -0.02 0', (0.01, 0.03, 0.03)),
    link('right_hand', 1, '0.05 0 0.01', (0.002, 0.003, 0.003)),
    link('hammer', 3, '0.1 0.03 0', (0.02, 0.03, 0.02)),
    '<joint name="grip" type="fixed"><origin xyz="0.1 0 0" rpy="0.2 0.4 0"/>'
    '<parent link="right_hand"/><child link="hammer"/></joint>',
    joint('waist', 'revolute', 'pedestal', 'chest', '0 0 0.5', '0 0.6 0.8',
          'lower="-1.5" upper="1.5" velocity="2" effort="150"', 'damping="1" friction="2"'),
    joint('right', 'revolute', 'chest', 'right_arm', '0 -0.2 0.4', '0 1 0',
          'lower="-1.5" upper="1.5" velocity="3" effort="90"', 'damping="0.5" friction="1"'),
    joint('right_elbow', 'revolute', 'right_arm', 'right_hand', '0.2 0 0', '0 0 1',
          'lower="-1" upper="1" velocity="3" effort="30"', 'damping="0.2" friction="0.5"'),
    joint('left', 'continuous', 'chest', 'left_arm', '0 0.2 0.4', '1 0 0',
          'velocity="4" effort="60"', 'damping="0.5" friction="1"'),
    '</robot>',
])  # fmt: skip

EXPERIMENT = """
robot:
  urdf: robot.urdf
  joints: [{joints}]
  locked: {locked}
  gravity: {gravity}
  effort_kind: joint_torque
data:
  identification:
    - {{file: run_0.csv, time: t, position: [{positions}], effort: [{efforts}]}}
  validation:
    - {{file: run_1.csv, time: t, position: [{positions}], effort: [{efforts}]}}
signals: {{cutoff: 20, decimate_to: 50, dead_zone: 0.02}}
output: results
"""


def record(robot, settings, seed, path):
    wanted = PlannerSettings(duration=8.0, max_iterations=5, seed=seed)
    trajectory = plan(robot, wanted).trajectory
    time = np.arange(0.0, trajectory.duration + 1e-9, 0.01)
    motion = trajectory.sample(time)
    points = Waypoints(robot.joints, time, motion.position, motion.velocity, motion.acceleration)
    run = simulate(robot, points, settings)
    header = ','.join(['t', *(f'q_{j}' for j in robot.joints), *(f'c_{j}' for j in robot.joints)])
    table = np.column_stack((run.time, run.position, run.effort))
    np.savetxt(path, table, '%.10g', ',', header=header, comments='')


@pytest.mark.parametrize(
    ('urdf', 'joints', 'locked', 'gravity'),
    [
        (SCARA, ('shoulder', 'elbow', 'lift', 'roll'), {}, (0.0, 0.0, -9.81)),
        (TORSO, ('left', 'waist', 'right'), {'right_elbow': 0.7}, (9.81, 0.0, 0.0)),
    ],
)
def test_true_parameters_are_found(tmp_path, urdf, joints, locked, gravity):
    (tmp_path / 'robot.urdf').write_text(urdf)
    robot = Robot.from_urdf(urdf, joints, locked=locked, gravity=gravity)
    settings = SimulationSettings(rate=500.0, servo_rate=500.0)
    for seed in range(2):
        record(robot, settings, seed, tmp_path / f'run_{seed}.csv')
    (tmp_path / 'experiment.yaml').write_text(
        EXPERIMENT.format(
            joints=', '.join(joints), locked=locked, gravity=list(gravity),
            positions=', '.join(f'q_{j}' for j in joints),
            efforts=', '.join(f'c_{j}' for j in joints),
        )
    )  # fmt: skip
    result = identify(load_experiment(tmp_path / 'experiment.yaml'))

    true = result.structure.project(truth(robot, settings)).values
    off = (result.estimate.base.values - true) / result.estimate.std
    assert np.abs(off).max() < 4.0 and np.sqrt(np.mean(off**2)) < 1.7
    assert all(fit.relative_error < 4.0 for fit in result.validations[0].joints)

    # the exported URDF has the rigid-body parameters that were found, whatever is locked and fixed
    saved = save(result, tmp_path / 'results')
    exported = Robot.from_urdf(saved.urdf, joints, locked=locked, gravity=gravity)
    names = exported.layout.names
    wanted = [result.standard[name] for name in names]
    assert exported.prior.values == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    q, v = np.random.default_rng(0).uniform(-0.1, 0.1, (2, robot.n_joints))
    model = robot.with_parameters(result.standard)
    efforts = [
        pin.rnea(m, m.createData(), r.configuration(q), r.tangent(v), r.tangent(v))
        for m, r in ((model, robot), (exported.model, exported))
    ]
    assert efforts[0] == pytest.approx(efforts[1], rel=1e-9)
