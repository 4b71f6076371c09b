# SPDX-License-Identifier: Apache-2.0
"""Factors merge like the rows that they stand for, in whatever order and grouping."""

from dataclasses import fields, replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import ModelError, SettingsError
from robot_identification.estimation.factor import (
    append_rows,
    fixed_test_vector,
    GrowingTriangle,
    merge_all,
    ModelSignature,
)
from robot_identification.estimation.least_squares import ols, solve, wls
from robot_identification.estimation.system import from_rows, LinearSystem
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor.base_search import drawn_states, structure

from .conftest import plain_structure

N, B = 3, 6
JOINTS = ('a', 'b', 'c')
STRUCTURE = plain_structure(B)


def rows_of(seed, samples):
    """Rows in which joint j sees all but the first j columns, their effort, and which count."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(samples, N, B)) * 10.0 ** rng.uniform(-1.0, 1.0, B)
    for j in range(N):
        matrix[:, j, :j] = 0.0
    effort = matrix @ (rng.normal(size=B) / np.abs(matrix).max(axis=(0, 1)))
    effort += rng.normal(size=effort.shape) * [0.1, 0.3, 0.02]
    return matrix, effort, rng.random(effort.shape) < 0.8


def factor_of(matrix, effort, keep):
    return from_rows(STRUCTURE, JOINTS, matrix, effort, keep).factor


def split(rows, cuts):
    """Factors of the rows between cuts; some may be of one row."""
    parts = np.split(np.arange(len(rows[0])), cuts)
    return [factor_of(*(array[part] for array in rows)) for part in parts if part.size]


def any_tree(factors, rng):
    """Merge two neighbours, or any two, until one is left."""
    left = list(factors)
    while len(left) > 1:
        one, two = rng.choice(len(left), 2, replace=False)
        merged = left[one].merge(left[two])
        left = [f for i, f in enumerate(left) if i not in (one, two)] + [merged]
    return left[0]


def assert_alike(one, two, rtol=1e-12):
    """Hold two factors together, in the scale of the columns."""
    scale = np.linalg.norm(one.triangles, axis=1)
    scale[scale == 0.0] = 1.0
    # R itself is as sensitive as the columns are dependent; its Gram is not
    gram = [np.swapaxes(f.triangles, 1, 2) @ f.triangles for f in (one, two)]
    square = scale[:, :, None] * scale[:, None, :]
    assert np.allclose(gram[0] / square, gram[1] / square, rtol=0.0, atol=rtol)
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(one.available_rows, two.available_rows)
    assert one.raw_rows == two.raw_rows
    assert np.allclose(one.independent_rows, two.independent_rows, rtol=rtol)
    large = np.sqrt(one.raw_rows) * np.sqrt(np.einsum('jii->ji', one.raw_gram))
    gap = np.abs(one.column_sums - two.column_sums)
    assert (gap <= rtol * large[:, :-1]).all()
    assert (np.abs(one.effort_sums - two.effort_sums) <= rtol * large[:, -1]).all()
    assert np.allclose(one.raw_gram, two.raw_gram, rtol=rtol, atol=rtol * large.max() ** 2)


def assert_same_estimates(one, two, rtol=1e-12):
    """Hold two factors' least squares together, parameters in the scale of their columns."""
    for method in (ols, wls):
        a, b = (method(LinearSystem(factor, STRUCTURE)) for factor in (one, two))
        weighted = one.stacked(a.rows.weights)
        *columns, effort = np.linalg.norm(weighted, axis=0)
        gap = np.abs(a.base.values - b.base.values) * columns
        assert (gap <= rtol * a.rows.condition_number * effort).all()
        # the residual is what is left of the effort
        loose = rtol * a.rows.condition_number * effort / abs(weighted[-1, -1])
        assert np.allclose(a.std, b.std, rtol=loose, equal_nan=True)
        assert a.rows.residual_std == pytest.approx(b.rows.residual_std, rel=loose)
        for mine, other in zip(a.fit.joints, b.fit.joints, strict=True):
            assert mine.rmse == pytest.approx(other.rmse, rel=loose)
            assert mine.relative_error == pytest.approx(other.relative_error, rel=loose)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    samples=st.integers(20, 120),
    cuts=st.lists(st.integers(1, 119), max_size=9, unique=True).map(sorted),
)
def test_any_split_order_and_tree_give_the_factor_of_all_rows(seed, samples, cuts):
    rows = rows_of(seed, samples)
    rng = np.random.default_rng(seed + 1)
    whole = factor_of(*rows)
    merged = any_tree(split(rows, [cut for cut in cuts if cut < samples]), rng)
    assert_alike(whole, merged)
    assert_same_estimates(whole, merged)


@pytest.mark.parametrize('count', [1, 2, 3, 7, 8, 13])
def test_tree_is_balanced(count):
    deepest = 0

    class Depth:
        def __init__(self, depth=0):
            self.depth = depth

        def merge(self, other):
            nonlocal deepest
            deepest = max(deepest, 1 + max(self.depth, other.depth))
            return Depth(1 + max(self.depth, other.depth))

    merge_all(Depth() for _ in range(count))
    assert deepest == int(np.ceil(np.log2(count)))


def test_tree_takes_its_factors_one_by_one():
    factor, alive, most = factor_of(*rows_of(1, 20)), 0, 0

    class Counted:
        def __init__(self):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def merge(self, other):
            nonlocal alive
            alive -= 2
            return Counted()

    merge_all(Counted() for _ in range(1000))
    assert most <= 12
    assert merge_all([factor]) is factor
    with pytest.raises(ValueError, match='no factor'):
        merge_all([])


def test_diagonals_are_not_negative():
    factor = factor_of(*rows_of(2, 30))
    assert (np.diagonal(factor.triangles, axis1=1, axis2=2) >= 0.0).all()
    turned = replace(factor, triangles=-factor.triangles)
    assert np.array_equal(turned.triangles, factor.triangles)
    assert not np.signbit(turned.triangles[turned.triangles == 0.0]).any()


def emptied(factor):
    """Return the factor of no rows of the same problem."""
    kept = ('fingerprint', 'driven')
    numbers = {f.name: 0 * getattr(factor, f.name) for f in fields(factor) if f.name not in kept}
    return replace(factor, **numbers)


def test_empty_factor_changes_no_bit():
    factor = factor_of(*rows_of(3, 30))
    empty = emptied(factor)
    for merged in (factor.merge(empty), empty.merge(factor)):
        assert np.array_equal(merged.triangles, factor.triangles)
        assert np.array_equal(merged.raw_gram, factor.raw_gram)
        assert merged.n_rows == factor.n_rows and merged.raw_rows == factor.raw_rows
        assert np.array_equal(merged.position_range, factor.position_range)
    assert empty.merge(empty).n_rows == 0


def test_one_row_is_enough_for_a_factor():
    rows = rows_of(4, 40)
    keep = np.ones_like(rows[2])
    singles = [factor_of(rows[0][i : i + 1], rows[1][i : i + 1], keep[:1]) for i in range(40)]
    assert_alike(factor_of(rows[0], rows[1], keep), merge_all(singles))


def test_columns_that_a_joint_does_not_see_stay_zero():
    rows = rows_of(5, 40)
    merged = merge_all(split(rows, [10, 11, 25]))
    for j in range(N):
        assert not merged.triangles[j, :, :j].any()
        assert not merged.triangles[j, :j].any()


def test_merging_stays_exact_over_many_factors():
    rows = rows_of(6, 600)
    merged = merge_all(split(rows, np.arange(2, 600, 2)))
    assert_same_estimates(factor_of(*rows), merged)


def test_columns_that_one_recording_leaves_out_are_in_the_merged_factor():
    matrix, effort, keep = rows_of(7, 60)
    matrix[:30, :, 2] = 0.0
    matrix[30:, :, 4] = 0.0
    one, two = split((matrix, effort, keep), [30])
    whole = factor_of(matrix, effort, keep)
    assert_alike(whole, one.merge(two))
    assert_alike(whole, two.merge(one))


def grow(rows: np.ndarray, parts: list[int], block: int) -> np.ndarray:
    factor = GrowingTriangle(rows.shape[1], block)
    for part in np.split(rows, np.cumsum(parts)):
        factor.push(part)
    assert factor.rows == len(rows)
    return factor.result()


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32 - 1),
    columns=st.integers(1, 12),
    count=st.integers(0, 200),
    parts=st.lists(st.integers(0, 60), max_size=5),
    block=st.integers(1, 70),
)
def test_any_blocks_give_the_factor_of_all_rows(seed, columns, count, parts, block):
    rows = np.random.default_rng(seed).normal(size=(count, columns))
    R = grow(rows, parts, block)
    assert np.array_equal(R, np.triu(R))
    assert np.allclose(R.T @ R, rows.T @ rows, rtol=1e-11, atol=1e-11)


def test_result_may_be_asked_for_in_between():
    rows = np.random.default_rng(1).normal(size=(100, 4))
    factor = GrowingTriangle(4, 16)
    factor.push(rows[:37])
    first = factor.result()
    factor.push(rows[37:])
    assert np.allclose(first.T @ first, rows[:37].T @ rows[:37])
    assert np.allclose(factor.result().T @ factor.result(), rows.T @ rows)


def test_no_rows_change_nothing():
    R = np.triu(np.random.default_rng(2).normal(size=(5, 5)))
    assert np.array_equal(append_rows(R, np.empty((0, 5))), R)


def test_what_was_pushed_is_not_touched():
    rows = np.random.default_rng(3).normal(size=(40, 4))
    before = rows.copy()
    append_rows(np.zeros((4, 4)), rows)
    assert np.array_equal(rows, before)


def badly_conditioned(condition: float, seed: int, rows: int = 400, columns: int = 6):
    """Rows whose entries are exact in binary, with the condition number asked for."""
    rng = np.random.default_rng(seed)
    u, _ = np.linalg.qr(rng.normal(size=(rows, columns)))
    v, _ = np.linalg.qr(rng.normal(size=(columns, columns)))
    matrix = u * np.geomspace(1.0, 1.0 / condition, columns) @ v.T
    truth = rng.normal(size=columns)
    return matrix, matrix @ truth + 1e-3 * rng.normal(size=rows) / np.sqrt(rows)


def exact_least_squares(matrix: np.ndarray, effort: np.ndarray) -> np.ndarray:
    """Solve the normal equations in rational numbers, which is exact."""
    rows = [[Fraction(float(x)) for x in row] for row in np.column_stack([matrix, effort])]
    k = matrix.shape[1]
    system = [[sum(row[i] * row[j] for row in rows) for j in range(k + 1)] for i in range(k)]
    for i in range(k):
        for j in range(i + 1, k):
            ratio = system[j][i] / system[i][i]
            system[j] = [a - ratio * b for a, b in zip(system[j], system[i], strict=True)]
    solution = [Fraction(0)] * k
    for i in reversed(range(k)):
        rest = sum(system[i][j] * solution[j] for j in range(i + 1, k))
        solution[i] = (system[i][k] - rest) / system[i][i]
    return np.array([float(x) for x in solution])


@pytest.mark.parametrize('condition', [1e2, 1e5, 1e8])
def test_as_accurate_as_a_factorisation_of_all_rows(condition):
    matrix, effort = badly_conditioned(condition, 4, rows=120)
    exact = exact_least_squares(matrix, effort)
    k = matrix.shape[1]
    R = grow(np.column_stack([matrix, effort]), [7, 50], 16)
    streamed = solve(R, np.ones(k, dtype=bool), np.zeros(k), len(effort)).base
    direct = np.linalg.lstsq(matrix, effort, rcond=None)[0]
    error = np.linalg.norm(streamed - exact) / np.linalg.norm(exact)
    reference = np.linalg.norm(direct - exact) / np.linalg.norm(exact)
    # theory: cond^2 eps ||residual|| / ||W|| ||x|| at the most; normal equations lose cond^2 eps
    assert error < 20 * max(reference, np.finfo(float).eps)
    if condition == 1e8:
        normal = np.linalg.solve(matrix.T @ matrix, matrix.T @ effort)
        lost = np.linalg.norm(normal - exact) / np.linalg.norm(exact)
        assert error < 1e-3 * lost


ARM = """
<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><mass value="{mass}"/><origin xyz="0.1 0 0.2"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><mass value="1"/><origin xyz="0 0.1 0.1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <origin xyz="0 0 {height}"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" velocity="2" effort="9"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="{length} 0 0.3" rpy="{turn} 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" velocity="2" effort="9"/></joint>
</robot>
"""


def fingerprint(settings=None, gravity=(0.0, 0.0, -9.81), **geometry):
    """Return the fingerprint of an arm."""
    values = {'mass': 2.0, 'height': 0.4, 'length': 0.5, 'turn': 0.3, **geometry}
    robot = Robot.from_urdf(ARM.format(**values), ('shoulder', 'elbow'), gravity=gravity)
    regressor = build(robot, ModelSettings())
    motion = drawn_states(robot, regressor, np.random.RandomState(1), 4)
    return ModelSignature.from_structure(
        structure(regressor, robot),
        robot.joints,
        regressor=regressor,
        motion=motion,
        settings=settings,
    )


@pytest.fixture(scope='module')
def arm():
    return fingerprint()


@pytest.mark.parametrize(
    'alike', [{}, {'mass': 3.0}, {'height': 5.0}, {'length': 0.5 * (1.0 + 1e-12)}]
)
def test_rows_are_alike_whatever_inertias_the_urdf_has(arm, alike):
    assert arm.difference(fingerprint(**alike)) is None


@pytest.mark.parametrize(
    ('unlike', 'words'),
    [
        ({'length': 0.5001}, 'another combination of standard parameters'),
        ({'turn': 0.301}, 'differ in'),
        ({'gravity': (0.0, 0.0, -9.80)}, "joint 'shoulder' other rows"),
        ({'gravity': (0.0, 0.0, 9.81)}, 'gravity'),
    ],
)
def test_geometry_and_gravity_are_told_apart(arm, unlike, words):
    error = arm.difference(fingerprint(**unlike))
    assert isinstance(error, ModelError)
    assert words in str(error)


def test_joint_or_parameter_is_carried_by_the_error(arm):
    assert arm.difference(fingerprint(gravity=(0.0, 0.0, -9.8))).joint == 'shoulder'
    found = arm.difference(fingerprint(length=0.6)).value
    assert found in arm.base


@pytest.mark.parametrize(
    ('mine', 'others', 'key', 'words'),
    [
        ({'a': {'b': 1.0}}, {'a': {'b': 2.0}}, 'a.b', "'a.b' is 1.0 here and 2.0 there"),
        ({'a': {'b': 1.0}}, {'a': None}, 'a', 'here and None there'),
        ({'a': {}}, {'a': {'c': [1, 2]}}, 'a.c', "'a.c' is missing here and [1, 2] there"),
        ({'b': 1, 'a': {'c': 'x'}}, {'a': {'c': 'y'}, 'b': 1}, 'a.c', "'x' here and 'y' there"),
    ],
)
def test_setting_is_named_by_its_key(arm, mine, others, key, words):
    error = replace(arm, settings=mine).difference(replace(arm, settings=others))
    assert isinstance(error, SettingsError)
    assert error.key == key and words in str(error)


def test_settings_alike_make_no_difference(arm):
    one = replace(arm, settings={'a': 1.0, 'b': {'c': [1.0, 2.0]}})
    assert one.difference(replace(arm, settings={'b': {'c': [1, 2]}, 'a': 1})) is None


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'joints': ('shoulder', 'wrist')}, 'elbow is here only, wrist is there only'),
        ({'joints': ('elbow', 'shoulder')}, 'in another order: shoulder, elbow here'),
        ({'parameters': ('a', 'b')}, 'a, b are there only'),
        ({'base': ('lower.m',)}, 'base parameters are not the same'),
    ],
)
def test_names_are_told(arm, change, words):
    error = arm.difference(replace(arm, **change))
    assert isinstance(error, ModelError)
    assert words in str(error)


def test_unknown_geometry_is_not_taken_for_the_same(arm):
    error = arm.difference(replace(arm, rows=np.empty((2, 0))))
    assert isinstance(error, ModelError)
    nothing = replace(arm, rows=np.empty((2, 0)))
    assert nothing.difference(replace(nothing)) is None


def test_damaged_numbers_are_different(arm):
    assert arm.difference(replace(arm, regrouping=arm.regrouping * np.nan)) is not None


def test_one_row_for_all_joints_has_one_fingerprint(arm):
    robot = Robot.from_urdf(ARM.format(mass=1, height=0, length=0.5, turn=0.3))
    regressor = build(robot, ModelSettings())
    motion = drawn_states(robot, regressor, np.random.RandomState(1), 4)
    base = structure(regressor, robot)
    one = ModelSignature.from_structure(base, ('energy',), regressor=regressor, motion=motion)
    assert one.rows.shape == (1, 4)
    assert np.allclose(one.rows[0], arm.rows.sum(axis=0), rtol=1e-12)


def test_merging_tells_what_differs():
    one = ModelSignature.from_structure(plain_structure(2), ('a', 'b'))
    other = replace(one, settings={'signals': {'cutoff': 5.0}})
    factor = from_rows(plain_structure(2), ('a', 'b'), np.ones((4, 2, 2)), np.ones((4, 2))).factor
    with pytest.raises(SettingsError, match="'signals' is missing here"):
        replace(factor, fingerprint=one).merge(replace(factor, fingerprint=other))


def test_probe_tells_every_column_apart():
    values = fixed_test_vector(1000)
    assert len(np.unique(values)) == 1000
    assert values.min() > 0.5 and values.max() < 1.5
    assert np.array_equal(values[:10], fixed_test_vector(10))
