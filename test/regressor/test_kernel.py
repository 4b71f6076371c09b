# SPDX-License-Identifier: Apache-2.0
"""The compiled kernel against Pinocchio, against NumPy's way, and in all sizes of motions."""

from __future__ import annotations

from pathlib import Path
import pickle
import subprocess
import sys
import warnings

from hypothesis import given, settings, strategies
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import IdentificationWarning
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    kernel_data,
    ModelSettings,
)
from robot_identification.regressor.inverse_dynamics import (
    entries,
    row_pattern,
    RowPattern,
)

pytest.importorskip('numba')
from robot_identification.regressor.kernel import BLOCK

ROOT = Path(__file__).resolve().parents[2]
RIGID = ModelSettings(friction=(), rotor_inertia=False)
LINK = (
    '<link name="{0}"><inertial><mass value="1"/>'
    '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = """
<joint name="j{0}" type="{1}"><parent link="{2}"/><child link="l{0}"/>
<origin xyz="{3}" rpy="{4}"/><axis xyz="{5}"/>
<limit lower="-1" upper="1" velocity="1" effort="1"/></joint>
"""


def loaded(urdf, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        return Robot.from_urdf(urdf, **arguments)


@pytest.fixture(scope='module')
def robot():
    return loaded(ROOT / 'urdf' / 'tx40.urdf')


@pytest.fixture(scope='module')
def regressor(robot):
    """All kinds of columns."""
    five, six = robot.joints[4:6]
    return build(
        robot,
        ModelSettings(
            friction=('viscous', 'stiction', 'stribeck', 'offset'),
            coupled_drives=(
                CoupledDrive(six, (five, six), 'tied', ratios=(0.7, -2.0)),
                CoupledDrive(five, (robot.joints[3], five), ratios=(1.0, 3.0)),
            ),
        ),
    )


def states(n, samples, seed=0):
    return Motion(*np.random.default_rng(seed).uniform(-3.0, 3.0, (3, samples, n)))


def by_numpy(regressor, motion):
    """Evaluate term by term."""
    out = np.zeros((len(motion), regressor.n_joints, len(regressor.layout)))
    for term in regressor.terms:
        term.fill(motion, out)
    return out.reshape(-1, len(regressor.layout))


def by_pinocchio(robot, motion):
    data = robot.model.createData()
    rows = [
        pin.computeJointTorqueRegressor(robot.model, data, q, v, a)
        for q, v, a in zip(
            robot.configuration(motion.position),
            robot.tangent(motion.velocity),
            robot.tangent(motion.acceleration),
            strict=True,
        )
    ]
    links = np.concatenate([10 * (i - 1) + np.arange(10) for i in robot.joint_ids])
    # Pinocchio gives a vector where the robot has one joint
    rows = [row.reshape(robot.model.nv, -1) for row in rows]
    return np.concatenate([row[robot.columns][:, links] for row in rows])


def assert_close(found, expected, tolerance=1e-12):
    assert found.shape == expected.shape
    size = np.abs(expected).max(axis=0)
    # a column that all but cancels is judged by the largest
    size = np.maximum(size, 1e-3 * size.max())
    assert (np.abs(found - expected) <= tolerance * size).all()


numbers = strategies.floats(-1.0, 1.0)
aligned = strategies.sampled_from(
    [(1, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 0, 0), (0, -1, 0), (0, 0, -1)]
)
oblique = strategies.tuples(numbers, numbers, strategies.floats(0.2, 1.0))
turns = strategies.sampled_from([0.0, np.pi / 2, -np.pi / 2, np.pi]) | numbers
joints = strategies.tuples(
    strategies.sampled_from(['revolute', 'prismatic', 'continuous']),
    strategies.integers(0, 100),
    strategies.tuples(numbers, numbers, numbers) | strategies.just((0.0, 0.0, 0.3)),
    strategies.tuples(turns, turns, turns),
    aligned | oblique,
)


@settings(max_examples=25, derandomize=True)
@given(strategies.lists(joints, min_size=1, max_size=7), strategies.sampled_from([1.0, 1e3]))
def test_any_tree_is_as_pinocchio_has_it(tree, reach):
    text = LINK.format('base')
    for i, (kind, parent, *vectors) in enumerate(tree):
        before = 'base' if i == 0 or parent % (i + 1) == i else f'l{parent % (i + 1)}'
        vectors = (' '.join(map(repr, map(float, vector))) for vector in vectors)
        text += LINK.format(f'l{i}') + JOINT.format(i, kind, before, *vectors)
    robot = loaded(f'<robot name="tree">{text}</robot>', gravity=(1.0, -2.0, 9.0))
    motion = states(robot.n_joints, 3)
    motion = Motion(reach * motion.position, motion.velocity, motion.acceleration)
    regressor = build(robot, RIGID)
    rows = regressor.rows(motion)
    assert_close(rows, by_pinocchio(robot, motion), 1e-11)
    assert_close(rows, by_numpy(regressor, motion))


@pytest.mark.parametrize('reach', [1.0, 1e3, 1e5, 1e8])
def test_all_columns_are_as_numpy_has_them(regressor, reach):
    motion = states(6, 50)
    motion = Motion(reach * motion.position, motion.velocity, motion.acceleration)
    assert_close(regressor.rows(motion), by_numpy(regressor, motion))


def test_standstill_has_no_coulomb_friction(robot):
    rows = build(robot).rows(Motion(*np.zeros((3, 1, 6))))
    column = build(robot).layout.index(f'{robot.joints[2]}.fc')
    assert not rows[:, column].any()


@pytest.mark.parametrize('samples', [0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_the_number_of_samples_does_not_show(regressor, samples):
    motion = states(6, 5 * BLOCK + 3)
    whole = regressor.rows(motion)[: 6 * samples]
    part = regressor.rows(motion.rows(0, samples))
    assert np.array_equal(part, whole)
    columns = np.arange(len(regressor.layout))
    pattern = row_pattern(regressor, columns)
    found = entries(regressor, motion.rows(0, samples), columns, pattern)
    assert found.shape == (pattern.width, samples)
    assert np.array_equal(pattern.expand(found).reshape(whole.shape), whole)


def test_inputs_may_lie_and_be_stored_anyhow(regressor):
    motion = states(6, 20)
    arrays = motion.position, motion.velocity, motion.acceleration
    expected = regressor.rows(motion)
    for lay in (np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2], lambda a: a.tolist()):
        assert np.array_equal(regressor.rows(Motion(*map(lay, arrays))), expected)
    single = [a.astype(np.float32) for a in arrays]
    double = Motion(*(a.astype(float) for a in single))
    assert np.array_equal(regressor.rows(Motion(*single)), regressor.rows(double))


def test_results_go_where_they_are_wanted(regressor):
    motion = states(6, 13)
    expected = regressor.rows(motion)
    for offset in range(9):  # places within a line of the cache
        memory = np.full(expected.size + 20, np.nan)
        out = memory[offset : offset + expected.size].reshape(expected.shape)
        assert regressor.rows(motion, out=out) is out
        assert np.array_equal(out, expected)
        assert np.isnan(memory).sum() == 20
    for wrong in (np.empty((1, 1)), np.empty(expected.shape, np.float32), expected.T.copy().T):
        with pytest.raises(ValueError, match='expected float64'):
            regressor.rows(motion, out=wrong)
    columns = np.arange(10)
    pattern = row_pattern(regressor, columns)
    with pytest.raises(ValueError, match='expected float64'):
        entries(regressor, motion, columns, pattern, np.empty((pattern.width, 12)))
    with pytest.raises(ValueError, match='5 joints, the regressor 6'):
        entries(regressor, states(5, 3), columns, pattern)


@pytest.mark.parametrize('offset', [0, 3])
def test_rows_of_several_parts_are_those_of_each(regressor, offset):
    samples = 3 * kernel_data.PART + 10
    motion = states(6, samples)
    shape = samples * 6, len(regressor.layout)
    memory = np.full(shape[0] * shape[1] + 8, np.nan)
    out = memory[offset : offset + shape[0] * shape[1]].reshape(shape)
    regressor.rows(motion, out=out)
    assert np.isnan(memory).sum() == 8
    for start in (0, kernel_data.PART - 4, 2 * kernel_data.PART - 1, samples - 9):
        part = regressor.rows(motion.rows(start, start + 9))
        assert np.array_equal(out[6 * start : 6 * start + part.shape[0]], part)


def test_threads_do_not_show(regressor, monkeypatch):
    monkeypatch.setattr(kernel_data, 'PART', 10)
    motion = states(6, 203)
    columns = np.arange(len(regressor.layout))
    pattern = row_pattern(regressor, columns)
    rows, found = regressor.rows(motion), entries(regressor, motion, columns, pattern)
    for threads in (2, 3, 50):
        assert np.array_equal(regressor.rows(motion, threads=threads), rows)
        shared = entries(regressor, motion, columns, pattern, threads=threads)
        assert np.array_equal(shared, found)


def test_columns_that_are_not_asked_for_are_left_out(regressor):
    motion = states(6, 11)
    dense = regressor.rows(motion).reshape(11, 6, -1)
    random = np.random.default_rng(3)
    for size in (0, 1, 5, 30):
        columns = np.sort(random.choice(dense.shape[2], size, replace=False))
        pattern = row_pattern(regressor, columns)
        found = entries(regressor, motion, columns, pattern)
        assert np.array_equal(pattern.expand(found), dense[:, :, columns])
        assert pattern.width < 6 * size or not size


def test_a_pattern_with_more_entries_has_zeros_there(regressor):
    motion = states(6, 11)
    columns = np.arange(0, len(regressor.layout), 3)
    full = RowPattern((np.arange(columns.size),) * 6, columns.size)
    out = np.full((full.width, 11), np.nan)
    found = entries(regressor, motion, columns, full, out)
    dense = regressor.rows(motion).reshape(11, 6, -1)[:, :, columns]
    assert np.array_equal(full.expand(found), dense)
    # the same pattern for other columns
    found = entries(regressor, motion, columns + 1, full)
    dense = regressor.rows(motion).reshape(11, 6, -1)[:, :, columns + 1]
    assert np.array_equal(full.expand(found), dense)


def test_structure_is_what_is_found_by_trying(regressor):
    columns = np.arange(len(regressor.layout))
    pattern = row_pattern(regressor, columns)
    dense = regressor.rows(states(6, 30)).reshape(30, 6, -1).any(axis=0)
    occupied = np.zeros_like(dense)
    occupied[pattern.rows, pattern.places] = True
    assert not (dense & ~occupied).any()
    # what it has beside is zero for reasons of geometry, such as the first joint's own mass
    assert (occupied & ~dense).sum() < 0.2 * occupied.sum()


def test_used_regressors_can_be_sent(regressor):
    motion = states(6, 4)
    rows = regressor.rows(motion)
    again = pickle.loads(pickle.dumps(regressor))
    assert np.array_equal(again.rows(motion), rows)


def test_numpy_does_the_same_without_numba(regressor, tmp_path):
    motion = states(6, 300)
    columns = np.arange(5, 60)
    pattern = row_pattern(regressor, columns)
    np.savez(
        tmp_path / 'given.npz',
        states=[motion.position, motion.velocity, motion.acceleration],
        rows=regressor.rows(motion),
        entries=entries(regressor, motion, columns, pattern),
    )
    (tmp_path / 'regressor.pickle').write_bytes(pickle.dumps(regressor))
    code = """
import sys
sys.modules['numba'] = None
import numpy as np, pickle
from robot_identification.data.recording import Motion
from robot_identification.regressor.inverse_dynamics import entries, row_pattern
given = np.load('given.npz')
regressor = pickle.load(open('regressor.pickle', 'rb'))
motion, columns = Motion(*given['states']), np.arange(5, 60)
assert regressor.kernel_data is None
rows = regressor.rows(motion, threads=2)
assert np.abs(rows - given['rows']).max() <= 1e-12 * np.abs(rows).max()
found = entries(regressor, motion, columns, row_pattern(regressor, columns), threads=2)
assert np.abs(found - given['entries']).max() <= 1e-12 * np.abs(rows).max()
out = np.full(rows.shape, np.nan)
assert np.array_equal(regressor.rows(motion, out=out), rows)
"""
    subprocess.run(
        [sys.executable, '-c', code], cwd=tmp_path, env={'PYTHONPATH': str(ROOT)}, check=True
    )
