# SPDX-License-Identifier: Apache-2.0
"""Systems folded from the entries that joints see, against whole rows and written-down sums."""

from __future__ import annotations

from pathlib import Path
import warnings

import numpy as np
import pytest
from robot_identification.data.recording import Recording
from robot_identification.estimation.row_block import RowBlock
from robot_identification.estimation.rows import driven_rows, row_blocks
from robot_identification.estimation.system import accumulate, system_of
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    DeltaSettings,
    ElasticJoints,
    ModelSettings,
)
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.delta import delta_robot
from robot_identification.regressor.projection import Projection
from robot_identification.signals import (
    PolynomialApproximation,
    SignalSettings,
    stretches,
)
from scipy.signal import firwin

RATE = 250.0
URDF = Path(__file__).resolve().parents[2] / 'urdf'
DELTA = DeltaSettings(base_radius=0.14, platform_radius=0.04, arm_length=0.2, forearm_length=0.46)


def random_robot(seed: int) -> Robot:
    """Make a tree of turning and sliding joints at random places, with random bodies."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 7))
    parts = ['<robot name="random"><link name="base"/>']
    for i in range(n):
        xx, yy, zz = random.uniform(0.1, 0.15, 3)
        place, turn, centre = (
            ' '.join(f'{x:.3f}' for x in random.uniform(-0.5, 0.5, 3)) for _ in range(3)
        )
        axis = ('1 0 0', '0 1 0', '0 0 1', '0.6 0 0.8')[random.integers(4)]
        kind = 'prismatic' if random.random() < 0.25 else 'revolute'
        parent = 'base' if random.random() < 0.2 or not i else f'link_{random.integers(i)}'
        parts.append(
            f'<link name="link_{i}"><inertial><mass value="{random.uniform(1, 5):.3f}"/>'
            f'<origin xyz="{centre}"/><inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0.01" '
            f'ixz="0" iyz="0"/></inertial></link><joint name="joint_{i}" type="{kind}">'
            f'<parent link="{parent}"/><child link="link_{i}"/>'
            f'<origin xyz="{place}" rpy="{turn}"/><axis xyz="{axis}"/>'
            '<limit lower="-3" upper="3" velocity="9" effort="9"/></joint>'
        )
    joints = tuple(f'joint_{i}' for i in random.permutation(n))
    return Robot.from_urdf(''.join([*parts, '</robot>']), joints)


def robot_and_model(name: str) -> tuple[Robot, ModelSettings]:
    if name == 'elastic':
        return Robot.from_urdf(URDF / 'zollo_planar_2r.urdf'), ModelSettings(
            elastic=ElasticJoints()
        )
    if name == 'delta':
        return delta_robot(DELTA), ModelSettings(('viscous', 'coulomb'), delta=DELTA)
    return random_robot(int(name)), ModelSettings(friction=('viscous', 'coulomb', 'stribeck'))


def moved(joints: tuple[str, ...], *, gap: bool, seed: int) -> Recording:
    """Record small oscillations and any efforts: nothing here asks for a law of motion."""
    random = np.random.default_rng(seed)
    time = np.arange(1100) / RATE
    if gap:
        time[400:] += 0.3
    n = len(joints)
    frequency, phase = random.uniform(0.3, 1.5, n), random.uniform(0.0, 6.0, n)
    position = 0.2 * np.sin(2.0 * np.pi * frequency * time[:, None] + phase)
    effort = random.normal(size=(time.size, n)) + position
    return Recording(time, position, effort, joints)


PLAIN = SignalSettings(decimate_to=None, cutoff=20.0, trim=0.1)
SETTINGS = {
    'all': PLAIN,
    'dead zone': SignalSettings(decimate_to=None, cutoff=20.0, trim=0.1, dead_zone=0.3),
    'decimated': SignalSettings(decimate_to=RATE / 7, cutoff=20.0, trim=0.1, dead_zone=0.3),
    'windows': SignalSettings(
        method='polynomial_approximation',
        decimate_to=None,
        dead_zone=0.3,
        polynomial_approximation=PolynomialApproximation(stride=2),
    ),
}


def mean_around(rows: np.ndarray, factor: int) -> np.ndarray:
    """Decimate by weighted means that are written down one by one."""
    if factor == 1:
        return rows
    taps = firwin(24 * factor + 1, 0.8 / factor, window=('kaiser', 6))
    means = []
    for centre in range(0, len(rows), factor):
        at = centre - 12 * factor + np.arange(taps.size)
        inside = (at >= 0) & (at < len(rows))
        weights = taps[inside] / taps[inside].sum()
        means.append(np.tensordot(weights, rows[at[inside]], axes=1))
    return np.array(means)


def expected(recording, regressor, base, signals):
    """Whole rows and raw rows [W | tau] of all stretches, and which rows count."""
    rows, keep, raw = [], [], []
    whole = Projection(regressor, base.independent)
    driven = driven_rows(regressor)
    for stretch in stretches(recording, signals, driven=driven):
        matrix = whole.rows(stretch)
        step = np.diff(stretch.time).mean()
        factor = 1 if signals.decimate_to is None else round(1.0 / step / signals.decimate_to)
        rows.append(mean_around(np.dstack([matrix, stretch.effort]), factor))
        velocity = mean_around(stretch.velocity, factor)
        keep.append(np.abs(velocity) >= signals.dead_zone * driven)
        raw.append(np.dstack([matrix, stretch.measured_effort]))
    return np.concatenate(rows), np.concatenate(keep), np.concatenate(raw)


@pytest.mark.parametrize('kind', [*SETTINGS])
@pytest.mark.parametrize('name', ['0', '1', '2', '3', 'elastic', 'delta'])
def test_sums_are_those_of_whole_rows(name, kind):
    robot, model = robot_and_model(name)
    signals, regressor = SETTINGS[kind], build(robot, model)
    joints = getattr(regressor, 'joints', robot.joints)
    recording = moved(joints, gap=name != 'delta', seed=len(name))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        base = structure(regressor, robot)
    system = system_of(recording, regressor, base, signals)
    rows, keep, raw = expected(recording, regressor, base, signals)
    assert system.factor.available_rows.tolist() == [len(rows)] * len(joints)
    assert system.factor.rows.tolist() == keep.sum(axis=0).tolist()
    assert kind == 'all' or not keep.all()
    for j in range(len(joints)):
        kept = rows[keep[:, j], j]
        size = np.linalg.norm(kept, axis=0) + 1e-300
        R = system.factor.triangles[j]
        np.testing.assert_array_equal(R, np.triu(R))
        unit = np.where(size > 1e-9, size, 1.0)
        np.testing.assert_allclose((R / unit).T @ (R / unit), (kept / unit).T @ (kept / unit),
                                   rtol=0, atol=1e-11)  # fmt: skip
        sums = np.append(system.factor.column_sums[j], system.factor.effort_sums[j])
        np.testing.assert_allclose(sums / unit, kept.sum(axis=0) / unit, rtol=0, atol=1e-9)
        whole = raw[:, j]
        unit = np.linalg.norm(whole, axis=0)
        unit = np.where(unit > 1e-9, unit, 1.0)
        gram = system.factor.raw_gram[j] / np.outer(unit, unit)
        np.testing.assert_allclose(gram, (whole / unit).T @ (whole / unit), rtol=0, atol=1e-11)
    assert system.factor.raw_rows == len(raw)


@pytest.mark.parametrize('kind', ['all', 'dead zone'])
def test_no_joint_carries_what_it_does_not_see(kind):
    robot, model = robot_and_model('1')
    regressor = build(robot, model)
    base = structure(regressor, robot)
    blocks = list(row_blocks(moved(robot.joints, gap=True, seed=1), regressor, base, PLAIN))
    assert blocks[0].pattern.width < 0.8 * robot.n_joints * base.n_base
    for block in blocks:
        # rows that are no others before decimation are held once
        assert block.undecimated or not len(block.raw_effort)
        assert block.entries.flags.c_contiguous


def test_blocks_before_and_after_decimation_may_mix(structure_of):
    random = np.random.default_rng(5)
    matrix, effort = random.normal(size=(30, 2, 3)), random.normal(size=(30, 2))
    others = {
        'position': np.zeros((10, 2)),
        'velocity': np.ones((10, 2)),
        'keep': np.ones((10, 2), dtype=bool),
    }
    first, second, third = (slice(k, k + 10) for k in (0, 10, 20))
    time = np.arange(10.0)
    plain = {**others, 'effort': effort[first], 'raw_effort': effort[first]}
    blocks = [
        RowBlock.from_matrix(matrix[first], time=time, **plain),
        # half of its samples are left out of the rows
        RowBlock.from_matrix(
            matrix[second],
            np.repeat(matrix[second], 2, axis=0),
            time=time,
            effort=effort[second],
            raw_effort=np.repeat(effort[second], 2, axis=0),
            **others,
        ),
        RowBlock.from_matrix(
            matrix[third], time=time, effort=effort[third], raw_effort=effort[third], **others
        ),  # fmt: skip
    ]
    system = accumulate(blocks, structure_of(3), ('a', 'b'))
    W = np.dstack([matrix, effort])
    counts = np.repeat([1.0, 2.0, 1.0], 10)
    for j in range(2):
        np.testing.assert_allclose(
            system.factor.raw_gram[j], (W[:, j].T * counts) @ W[:, j], rtol=1e-12
        )
        R = system.factor.triangles[j]
        np.testing.assert_allclose(R.T @ R, W[:, j].T @ W[:, j], rtol=1e-11)
    assert system.factor.raw_rows == 40


def test_blocks_of_other_patterns_are_refused():
    robot, model = robot_and_model('1')
    regressor = build(robot, model)
    base = structure(regressor, robot)
    recording = moved(robot.joints, gap=False, seed=1)
    block = next(iter(row_blocks(recording, regressor, base, PLAIN)))
    whole = RowBlock.from_matrix(
        block.matrix,
        time=block.time,
        position=block.position,
        velocity=block.velocity,
        effort=block.effort,
        keep=block.keep,
        raw_effort=block.raw_effort,
    )
    with pytest.raises(ValueError, match='patterns'):
        accumulate([block, whole], base, robot.joints)
