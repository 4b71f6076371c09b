# SPDX-License-Identifier: Apache-2.0
"""The judge of the real robots' benchmark, on tables and bodies with known answers."""

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Recording

from benchmarks import judge

RATE = 100.0
TIME = np.arange(3000) / RATE


def write(path, predicted, empty=0):
    slow, fast = np.sin(2.0 * np.pi * 0.5 * TIME), np.sin(2.0 * np.pi * 30.0 * TIME)
    table = np.column_stack([TIME, 10.0 * slow + fast, predicted * slow, slow, slow])
    lines = [','.join(map(repr, row)) for row in table.tolist()]
    for row in range(empty):
        time, *others = lines[row].split(',')
        lines[row] = ','.join([time, others[0], '', others[2], ''])
    path.write_text('time,a.measured,a.predicted,b.measured,b.predicted\n' + '\n'.join(lines))
    return path


def test_errors_are_those_of_the_slow_part(tmp_path):
    errors = judge.prediction_errors(write(tmp_path / 'a.csv', 9.0), cutoff=7.5)
    assert errors.joints == pytest.approx([10.0, 0.0], abs=0.01)
    assert errors.all == pytest.approx(100.0 / np.sqrt(101.0), abs=0.01)


def test_rows_without_a_prediction_do_not_count(tmp_path):
    file = write(tmp_path / 'a.csv', 9.0, empty=30)
    assert judge.prediction_errors(file, cutoff=7.5).joints[0] == pytest.approx(10.0, abs=0.1)


PENDULUM = """<robot name="r"><link name="base"/><link name="a"><inertial>
  <origin xyz="0.5 0 0"/><mass value="2"/>
  <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <joint name="j" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/>
  <dynamics damping="3" friction="0.5"/></joint></robot>"""


def test_a_urdf_alone_predicts_by_its_bodies_and_its_dynamics():
    w = 2.0 * np.pi * 0.5
    q, v, a = np.sin(w * TIME), w * np.cos(w * TIME), -(w**2) * np.sin(w * TIME)
    effort = (0.1 + 0.5) * a - 2.0 * 9.81 * 0.5 * np.cos(q) + 3.0 * v + 0.5 * np.sign(v)
    recording = Recording(TIME, q[:, None], effort[:, None], ('j',))
    found = judge.urdf_errors(PENDULUM, recording, ('j',), cutoff=5.0)
    assert found.all < 0.5
    bare = PENDULUM.replace('damping="3"', 'damping="0"')
    lost = 100.0 * np.linalg.norm(3.0 * v) / np.linalg.norm(effort)
    assert judge.urdf_errors(bare, recording, ('j',), cutoff=5.0).all == pytest.approx(
        lost, rel=0.03
    )


def test_bodies_are_physical_where_their_pseudo_inertia_is_positive():
    body = pin.Inertia(2.0, np.array([0.1, 0.0, 0.2]), np.diag([0.02, 0.03, 0.04]))
    inertial = body.toDynamicParameters()
    assert judge.physical([inertial])
    light = inertial.copy()
    light[0] = -1.0
    # violates the triangle inequality
    thin = pin.Inertia(2.0, np.zeros(3), np.diag([0.02, 0.03, 0.06])).toDynamicParameters()
    assert not judge.physical([inertial, light]) and not judge.physical([thin])


@pytest.mark.parametrize(
    ('masses', 'plausible'), [([1.0, 10.0], True), ([2.6, 9.0], False), ([0.3, 10.0], False),
                              ([1.0, 12.0], False)],
)  # fmt: skip
def test_masses_are_plausible_near_the_makers(masses, plausible):
    assert judge.plausible(np.array(masses), np.array([1.0, 10.0])) is plausible


def test_honest_deviations_have_a_ratio_of_one():
    runs = np.random.default_rng(0).normal(scale=2.0, size=(50, 400))
    assert judge.deviation_ratio(runs, np.full(runs.shape, 2.0)) == pytest.approx(1.0, abs=0.02)
    assert judge.deviation_ratio(runs, np.full(runs.shape, 0.5)) == pytest.approx(4.0, abs=0.1)


def test_documents_with_a_negative_mass_do_not_load():
    urdf = """
        <robot name="r"><link name="world"/><link name="a"><inertial><mass value="{}"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
        <visual><geometry><mesh filename="absent.stl"/></geometry></visual></link>
        <joint name="j" type="revolute"><parent link="world"/><child link="a"/>
        <axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""
    assert judge.loads(urdf.format(1.0)) and not judge.loads(urdf.format(-1.0))
