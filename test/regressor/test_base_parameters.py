# SPDX-License-Identifier: Apache-2.0
"""Base parameters against published tables, closed forms and the law that defines them."""

from __future__ import annotations

from pathlib import Path
import warnings

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import (
    IdentifiabilityError,
    IdentificationError,
    IdentificationWarning,
    SettingsError,
)
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ElasticJoints,
    ModelSettings,
)
from robot_identification.regressor.base_parameters import expression
from robot_identification.regressor.base_search import (
    coefficients,
    greedy_basis,
    left_to_right,
    structure,
)
from robot_identification.regressor.settings import GROUPINGS

RIGID = ModelSettings(friction=(), rotor_inertia=False)
PI = np.pi

# Modified DH rows (alpha, d, theta offset, r)
GAUTIER_KHALIL = [(0, 0, 0, 0), (-PI / 2, 0, 0, 0), (0, 0.5, 0, 0.2)]
TX40 = [
    (0, 0, 0, 0),
    (-PI / 2, 0, -PI / 2, 0),
    (0, 0.225, PI / 2, 0.035),
    (PI / 2, 0, 0, 0.225),
    (-PI / 2, 0, 0, 0),
    (PI / 2, 0, PI, 0),
]


def placement(alpha, d, theta, r):
    """URDF origin of a modified DH row: Rot(x, alpha) Trans(x, d) Rot(z, theta) Trans(z, r)."""
    rotation = pin.rpy.rpyToMatrix(alpha, 0, 0) @ pin.rpy.rpyToMatrix(0, 0, theta)
    return (d, -np.sin(alpha) * r, np.cos(alpha) * r), pin.rpy.matrixToRpy(rotation)


def urdf(joints, names=None):
    """URDF of (parent link number, kind, xyz, rpy, axis) a joint, link 0 being the base."""
    order = names or range(1, len(joints) + 1)
    inertial = (
        '<inertial><mass value="1"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
    )
    text = '<robot name="r"><link name="link_0"/>'
    for number in range(1, len(joints) + 1):
        text += f'<link name="link_{number}">{inertial}</link>'
    for number in order:
        parent, kind, xyz, rpy, axis = joints[number - 1]
        xyz, rpy, axis = (' '.join(repr(float(x)) for x in v) for v in (xyz, rpy, axis))
        text += (
            f'<joint name="joint_{number}" type="{kind}"><parent link="link_{parent}"/>'
            f'<child link="link_{number}"/><origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>'
            '<limit lower="-1" upper="1" velocity="1" effort="1"/></joint>'
        )
    return text + '</robot>'


def mdh_robot(table, **arguments):
    rows = [(i, 'revolute', *placement(*row), (0, 0, 1)) for i, row in enumerate(table)]
    return Robot.from_urdf(urdf(rows), **arguments)


def structure_of(robot, model=RIGID, **arguments):
    return structure(build(robot, model), robot, **arguments)


def random_motion(n_joints, n_samples=40, seed=7):
    random = np.random.default_rng(seed)
    return Motion(*random.uniform(-2.0, 2.0, (3, n_samples, n_joints)))


def assert_regrouping(found, expected):
    """Compare with coefficients by name, for each base parameter."""
    assert set(found.names) == set(expected)
    for row, name in zip(found.regrouping, found.names, strict=True):
        places = np.flatnonzero(row)
        coefficients = {found.layout.names[i]: row[i] for i in places}
        assert coefficients == pytest.approx(expected[name], rel=1e-10, abs=1e-12), name


def test_groupings_of_gautier_and_khalil():
    # Gautier & Khalil (1992), table 1: fifteen base parameters, in their notation
    d3, r3 = 0.5, 0.2
    own = ('link_2.Ixy', 'link_2.Iyz', 'link_2.my', 'link_3.Ixy', 'link_3.Ixz', 'link_3.Iyz')
    own += ('link_3.Izz', 'link_3.mx', 'link_3.my')
    expected = {name: {name: 1.0} for name in own} | {
        'link_1.Izz': {
            'link_1.Izz': 1.0,
            'link_2.Iyy': 1.0,
            'link_3.Iyy': 1.0,
            'link_3.mz': 2 * r3,
            'link_3.m': d3**2 + r3**2,
        },
        'link_2.Ixx': {'link_2.Ixx': 1.0, 'link_2.Iyy': -1.0, 'link_3.m': -(d3**2)},
        'link_2.Ixz': {'link_2.Ixz': 1.0, 'link_3.mz': -d3, 'link_3.m': -d3 * r3},
        'link_2.Izz': {'link_2.Izz': 1.0, 'link_3.m': d3**2},
        'link_2.mx': {'link_2.mx': 1.0, 'link_3.m': d3},
        'link_3.Ixx': {'link_3.Ixx': 1.0, 'link_3.Iyy': -1.0},
    }
    found = structure_of(mdh_robot(GAUTIER_KHALIL))
    assert found.n_base == 15
    assert_regrouping(found, expected)


def coupled(inertia):
    return ModelSettings(
        coupled_drives=(CoupledDrive('joint_6', ('joint_5', 'joint_6'), inertia),)
    )


def test_tx40_has_61_base_parameters_or_60_where_the_motor_inertia_is_tied():
    # Gautier & Venture (2013): 86 standard parameters, with Iam as one more column 87
    robot = mdh_robot(TX40)
    separate, tied = (structure_of(robot, coupled(kind)) for kind in ('separate', 'tied'))
    assert (separate.n_standard, separate.n_base) == (87, 61)
    assert (tied.n_standard, tied.n_base) == (86, 60)
    assert set(separate.names) - set(tied.names) == {'joint_6.Iam'}
    assert min(separate.gap, tied.gap) > 1e12
    unidentifiable = {f'link_1.{s}' for s in ('m', 'mx', 'my', 'mz', 'Ixx', 'Ixy', 'Iyy')}
    unidentifiable |= {'link_1.Ixz', 'link_1.Iyz', 'link_2.m', 'link_2.mz'}
    for found in (separate, tied):
        names = {found.layout.names[i] for i in found.unidentifiable}
        assert names == unidentifiable


def test_tx40_groupings():
    # Khalil's rules for d3 = r4 = 0.225 m, r3 = 0.035 m; the paper's 16 non-base columns are
    # Ia1 YY2 MZ2 Ia2 YY3 MZ3 M3 YY4 MZ4 M4 YY5 MZ5 M5 YY6 MZ6 M6
    found = structure_of(mdh_robot(TX40), coupled('tied'))
    dependent = {found.layout.names[i] for i in found.dependent}
    expected = {'joint_1.Ia', 'joint_2.Ia', 'link_2.Iyy'}
    expected |= {f'link_{i}.{s}' for i in (3, 4, 5, 6) for s in ('m', 'mz', 'Iyy')}
    assert dependent == expected
    assert found.category('link_2.mz') == 'unidentifiable'
    by_name = dict(zip(found.names, found.regrouping, strict=True))

    def coefficients(name):
        row = by_name[name]
        return {found.layout.names[i]: row[i] for i in np.flatnonzero(row)}

    masses = [f'link_{i}.m' for i in (3, 4, 5, 6)]
    d3 = r4 = 0.225
    r3 = 0.035
    assert coefficients('link_1.Izz') == pytest.approx(
        {'link_1.Izz': 1, 'joint_1.Ia': 1, 'link_2.Iyy': 1, 'link_3.Iyy': 1, 'link_3.mz': 2 * r3}
        | dict.fromkeys(masses, d3**2 + r3**2),
        rel=1e-10,
    )
    assert coefficients('link_2.Izz') == pytest.approx(
        {'link_2.Izz': 1, 'joint_2.Ia': 1} | dict.fromkeys(masses, d3**2), rel=1e-10
    )
    assert coefficients('link_3.Ixx') == pytest.approx(
        {'link_3.Ixx': 1, 'link_3.Iyy': -1, 'link_4.Iyy': 1, 'link_4.mz': 2 * r4}
        | dict.fromkeys(masses[1:], r4**2),
        rel=1e-10,
    )
    assert coefficients('link_6.Ixx') == pytest.approx({'link_6.Ixx': 1, 'link_6.Iyy': -1})
    assert found.expressions[found.names.index('link_2.Ixx')] == (
        'link_2.Ixx - link_2.Iyy - 0.0506 link_3.m - 0.0506 link_4.m - 0.0506 link_5.m '
        '- 0.0506 link_6.m'
    )


def test_planar_arm_in_closed_form():
    # Two joints about the horizontal axis z of a vertical plane, links of 0.5 m (Zollo et al.'s
    # arm): the second link's mass goes to the first link, everything out of the plane is unseen
    links = [(0, 'revolute', (0, 0, 0), (0, 0, 0), (0, 0, 1))]
    links += [(1, 'revolute', (0.5, 0, 0), (0, 0, 0), (0, 0, 1))]
    upright = structure_of(Robot.from_urdf(urdf(links), gravity=(0, -9.81, 0)))
    expected = {
        name: {name: 1.0} for name in ('link_1.my', 'link_2.mx', 'link_2.my', 'link_2.Izz')
    }
    expected['link_1.mx'] = {'link_1.mx': 1.0, 'link_2.m': 0.5}
    expected['link_1.Izz'] = {'link_1.Izz': 1.0, 'link_2.m': 0.25}
    assert_regrouping(upright, expected)
    # lying flat, gravity does no work, and the first link's first moment is not seen either
    flat = structure_of(Robot.from_urdf(urdf(links), gravity=(0, 0, -9.81)))
    assert set(flat.names) == {'link_1.Izz', 'link_2.mx', 'link_2.my', 'link_2.Izz'}
    assert upright.unidentifiable.size == 13
    assert flat.unidentifiable.size == 15
    categories = {name: upright.category(name) for name in ('link_1.mx', 'link_2.my', 'link_2.mz')}
    assert list(categories.values()) == ['combined', 'alone', 'unidentifiable']


def test_slider_in_closed_form():
    # Two vertical sliders, one on the other.  The first feels (ddq_1 + g) m_1, which its rotor
    # inertia (ddq_1) and its offset (1) make up as well; m_2 is felt in both joints at once
    links = [(0, 'prismatic', (0, 0, 0), (0, 0, 0), (0, 0, 1))]
    links += [(1, 'prismatic', (0, 0, 0.1), (0, 0, 0), (0, 0, 1))]
    found = structure_of(Robot.from_urdf(urdf(links)), ModelSettings(friction=('offset',)))
    assert_regrouping(
        found,
        {name: {name: 1.0} for name in ('link_2.m', 'joint_2.Ia', 'joint_2.off')}
        | {
            'joint_1.Ia': {'joint_1.Ia': 1.0, 'link_1.m': 1.0},
            'joint_1.off': {'joint_1.off': 1.0, 'link_1.m': 9.81},
        },
    )
    found = structure_of(Robot.from_urdf(urdf(links)))
    assert found.expressions == ('link_1.m', 'link_2.m')
    assert found.base_layout.units == ('kg', 'kg')


@pytest.mark.parametrize(('gravity', 'count'), [((0, 0, -9.81), 36), ((0, -9.81, 0), 38)])
def test_puma_count_depends_on_the_direction_of_gravity(gravity, count):
    # The rigid part of Zollo et al.'s PUMA 560 model (standard DH, from Corke)
    alpha = (PI / 2, 0, -PI / 2, PI / 2, -PI / 2, 0)
    a, d = (0, 0.4318, 0.0203, 0, 0, 0), (0, 0, 0.15005, 0.4318, 0, 0)
    # standard DH rows are modified DH rows whose alpha and a come one row later
    rows = [(alpha[i - 1] if i else 0, a[i - 1] if i else 0, 0, d[i]) for i in range(6)]
    found = structure_of(mdh_robot(rows, gravity=gravity))
    assert found.n_base == count


@pytest.mark.parametrize(
    ('axis', 'rpy', 'regrouped'),
    [
        ((1, 0, 0), (0, 0, 0), {'m', 'mx', 'Izz'}),
        ((0, -1, 0), (0, 0, 0), {'m', 'my', 'Izz'}),
        ((0, 0, 1), (PI / 2, 0, 0), {'m', 'mz', 'Iyy'}),
    ],
)
def test_axis_decides_what_is_regrouped(axis, rpy, regrouped):
    # Khalil's triple, whatever the URDF calls the axis
    links = [(0, 'revolute', (0, 0, 0), (PI / 2, 0, 0), (0, 0, 1))]
    links += [(1, 'revolute', (0.3, 0.1, 0.2), rpy, axis)]
    links += [(2, 'revolute', (0.2, 0.1, 0.1), (1.0, 0.5, 0), (0, 0, 1))]
    found = structure_of(Robot.from_urdf(urdf(links)))
    dependent = {found.layout.names[i] for i in found.dependent}
    assert {name for name in dependent if name.startswith('link_2')} == {
        f'link_2.{symbol}' for symbol in regrouped
    }


def test_random_states_do_not_change_the_result():
    robot = mdh_robot(TX40)
    first = structure_of(robot, coupled('separate'), seed=0)
    for seed, samples in ((1, None), (2, 200), (3, 500)):
        other = structure_of(robot, coupled('separate'), seed=seed, samples=samples)
        assert other.names == first.names
        assert other.expressions == first.expressions
        assert np.array_equal(other.regrouping != 0.0, first.regrouping != 0.0)
        assert np.allclose(other.regrouping, first.regrouping, rtol=0.0, atol=1e-12)


def slider_with_arm(**arguments):
    """Return a vertical slider that carries two turning joints."""
    links = [(0, 'prismatic', (0, 0, 0), (0, 0, 0), (0, 0, 1))]
    links += [(1, 'revolute', (0.3, 0, 0), (0, 0, 0), (0, 0, 1))]
    links += [(2, 'revolute', (0.4, 0.1, 0), (PI / 2, 0, 0), (0, 0, 1))]
    return Robot.from_urdf(urdf(links), **arguments)


@pytest.mark.parametrize('make', [lambda **k: mdh_robot(TX40, **k), slider_with_arm])
def test_order_of_joints_does_not_change_the_names(make):
    forward = make()
    backward = make(joints=tuple(reversed(forward.joints)))
    first, second = structure_of(forward), structure_of(backward)
    assert set(first.names) == set(second.names)
    rows = dict(zip(second.names, second.regrouping, strict=True))
    places = second.layout.indices(first.layout.names)
    for name, row in zip(first.names, first.regrouping, strict=True):
        assert rows[name][places] == pytest.approx(row, abs=1e-12)
    # of the masses that a slider cannot tell apart, the first one of the tree stands for all
    assert not {'link_2.m', 'link_3.m'} & set(second.names)


angle = st.sampled_from([0.0, PI / 2, -PI / 2, PI, 0.3, -1.1])
length = st.sampled_from([0.0, 0.0, 0.1, -0.25, 0.4])
axes = st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, -1, 0), (0.6, 0, 0.8)])
kinds = st.sampled_from(['revolute', 'revolute', 'continuous', 'prismatic'])


@st.composite
def trees(draw):
    """URDF of up to five joints, branches included, in any order of definition."""
    n = draw(st.integers(1, 5))
    joints = []
    for number in range(1, n + 1):
        parent = draw(st.integers(max(0, number - 2), number - 1))
        joints.append(
            (
                parent,
                draw(kinds),
                draw(st.tuples(length, length, length)),
                draw(st.tuples(angle, angle, angle)),
                draw(axes),
            )
        )
    order = draw(st.permutations(range(1, n + 1)))
    return urdf(joints, order), draw(st.permutations([f'joint_{i}' for i in order]))


@settings(max_examples=40, derandomize=True)
@given(tree=trees(), tilted=st.booleans(), model=st.sampled_from([RIGID, ModelSettings()]))
def test_base_parameters_carry_all_of_any_robots_dynamics(tree, tilted, model):
    text, joints = tree
    robot = Robot.from_urdf(text, joints, gravity=(3, 4, -8) if tilted else (0, 0, -9.81))
    regressor = build(robot, model)
    with warnings.catch_warnings():
        warnings.simplefilter('error', IdentificationWarning)
        found = structure(regressor, robot)
    standard = np.random.default_rng(3).normal(size=len(regressor.layout))
    W = regressor.rows(random_motion(robot.n_joints))
    effort = W @ standard
    base = found.project(ParameterSet(regressor.layout, standard))
    assert found.columns(W) @ base.values == pytest.approx(
        effort, abs=1e-10 * max(1.0, np.abs(effort).max())
    )
    # independent columns are independent, the three groups share out all columns
    scaled = found.columns(W) / np.linalg.norm(found.columns(W), axis=0)
    assert np.linalg.matrix_rank(scaled, tol=1e-6) == found.n_base
    groups = np.concatenate([found.independent, found.dependent, found.unidentifiable])
    assert sorted(groups) == list(range(found.n_standard))
    assert not found.regrouping[:, found.unidentifiable].any()
    assert found.gap > 1e6
    again = structure(regressor, robot, seed=1)
    assert again.names == found.names
    assert again.expressions == found.expressions


@settings(max_examples=40, derandomize=True)
@given(tree=trees(), tilted=st.booleans(), model=st.sampled_from([RIGID, ModelSettings()]))
def test_echelon_grouping_spans_the_same_as_the_preferred_one(tree, tilted, model):
    text, joints = tree
    robot = Robot.from_urdf(text, joints, gravity=(3, 4, -8) if tilted else (0, 0, -9.81))
    regressor = build(robot, model)
    preferred, echelon = (structure(regressor, robot, grouping=g) for g in GROUPINGS)
    assert echelon.n_base == preferred.n_base
    np.testing.assert_array_equal(echelon.unidentifiable, preferred.unidentifiable)
    assert echelon.categories == preferred.categories
    # each base parameter of one is a combination of those of the other
    change = echelon.regrouping[:, preferred.independent]
    scale = np.abs(echelon.regrouping).max()
    np.testing.assert_allclose(
        change @ preferred.regrouping, echelon.regrouping, atol=1e-9 * scale * len(change)
    )
    back = preferred.regrouping[:, echelon.independent]
    np.testing.assert_allclose(change @ back, np.eye(len(change)), atol=1e-9 * scale * len(change))
    # and a leading column depends on none to its left
    place = left_to_right(echelon.layout)
    for row, leading in zip(echelon.regrouping, echelon.independent, strict=True):
        assert (place[np.flatnonzero(row)] >= place[leading]).all()


def test_echelon_form_is_the_textbooks():
    # worked by hand: the second column is twice the first, the last one 2 of the first and fourth
    matrix = np.array([[1.0, 2, 2, 2, 6], [2, 4, 6, 8, 20], [3, 6, 8, 10, 26], [1, 2, 2, 3, 8]])
    leading = greedy_basis(matrix, range(5), 1e-12)
    assert leading.tolist() == [0, 2, 3]
    np.testing.assert_allclose(
        coefficients(matrix, leading, np.array([1, 4])), [[2, 2], [0, 0], [0, 2]], atol=1e-13
    )


def test_columns_may_be_put_first():
    # masses first, where by themselves they go to the links before
    robot = mdh_robot(GAUTIER_KHALIL)
    masses = [f'{link}.m' for link in robot.links]
    found = structure(build(robot, RIGID), robot, grouping='echelon', order=masses[::-1])
    assert 'link_3.m' in found.names
    assert 'link_3.m' not in structure(build(robot, RIGID), robot).names
    with pytest.raises(IdentificationError, match='link_9'):
        structure(build(robot, RIGID), robot, grouping='echelon', order=['link_9.m'])
    with pytest.raises(SettingsError, match='preferred, echelon') as caught:
        structure(build(robot, RIGID), robot, grouping='rref')
    assert caught.value.key == 'grouping'


def test_parameters_that_stand_alone_are_told_from_combinations():
    # Adding to a parameter that stands alone what any null-space vector holds must be impossible
    robot = mdh_robot(TX40)
    regressor = build(robot)
    found = structure(regressor, robot)
    null_space = np.eye(found.n_standard)
    null_space[found.independent] -= found.regrouping
    for place, category in enumerate(found.categories):
        reach = np.abs(null_space[place]).max()
        assert (reach < 1e-9) == (category == 'alone')


def tilted_tx40(angle):
    """TX-40 whose second and third axis are parallel but for an angle, on a base tilted by it."""
    table = list(TX40)
    table[0] = (angle, *TX40[0][1:])
    table[2] = (angle, *TX40[2][1:])
    return mdh_robot(table)


def test_rounded_angles_are_seen_through():
    # 1.5708 for pi/2: neither a parallel axis nor a vertical one gives up its dependences
    exact, rounded = structure_of(mdh_robot(TX40)), structure_of(tilted_tx40(3.7e-6))
    assert rounded.names == exact.names
    assert np.array_equal(rounded.unidentifiable, exact.unidentifiable)
    assert rounded.gap > 1e3
    assert not rounded.warnings
    assert rounded.regrouping == pytest.approx(exact.regrouping, abs=1e-4)
    # and a tilt that is meant brings the first moments that it lets gravity see
    tilted = structure_of(tilted_tx40(0.3))
    assert set(tilted.names) - set(exact.names) == {'link_1.mx', 'link_1.my'}


def test_doubtful_rank_is_reported():
    # 1.57 for pi/2 is neither one nor the other
    with pytest.warns(IdentificationWarning, match='number of base parameters'):
        found = structure_of(tilted_tx40(7.96e-4))
    assert len(found.warnings) == 1
    # a tolerance that cuts where there is no gap
    with pytest.raises(IdentifiabilityError, match='1.57 for pi/2'):
        structure_of(tilted_tx40(0.01), tolerance=0.1)


@pytest.mark.parametrize('tilt', [5e-4, 2.5e-3, 0.01])
def test_a_base_that_leans_puts_no_rank_in_doubt(tilt):
    """Gravity that is given, or found, at an angle shows first moments of the first link."""
    links = [(0, 'revolute', (0, 0, 0), (0, 0, 0), (0, 0, 1))]
    links += [(1, 'revolute', (0, 0, 0.2), (0, 0, 0), (0, 1, 0))]
    links += [(2, 'revolute', (0.3, 0, 0), (0, 0, 0), (0, 1, 0))]
    gravity = 9.81 * np.array([np.sin(tilt), 0.0, -np.cos(tilt)])
    upright, leaning = (
        structure_of(Robot.from_urdf(urdf(links), gravity=tuple(each)))
        for each in ((0.0, 0.0, -9.81), gravity)
    )
    assert {*leaning.names} - {*upright.names} == {'link_1.mx', 'link_1.my'}
    assert not leaning.warnings and leaning.gap > 1e6


def test_links_and_joints_may_share_names():
    # link 'b' hangs on joint 'a', joint 'b' moves link 'c': the axes must not be mixed up
    links = [(0, 'revolute', (0, 0, 0), (PI / 2, 0, 0), (0, 0, 1))]
    links += [(1, 'revolute', (0.3, 0.1, 0.2), (0, 0, 0), (1, 0, 0))]
    links += [(2, 'revolute', (0.2, 0.1, 0.1), (1.0, 0.5, 0), (0, 1, 0))]
    text = urdf(links)
    shared = text.replace('link_1', 'b').replace('link_2', 'c').replace('link_3', 'd')
    for joint, name in (('joint_1', 'a'), ('joint_2', 'b'), ('joint_3', 'c')):
        shared = shared.replace(joint, name)
    plain, clashing = structure_of(Robot.from_urdf(text)), structure_of(Robot.from_urdf(shared))
    assert np.array_equal(plain.independent, clashing.independent)


def test_expressions_are_readable():
    names = ('a.x', 'b.y', 'c.z')
    assert expression(np.array([1.0, 0.0, -0.050625]), names) == 'a.x - 0.0506 c.z'
    assert expression(np.array([-0.5, 1.0, 1 + 1e-12]), names, first=1) == 'b.y - 0.5 a.x + c.z'
    assert expression(np.array([0.0, -1.0, 2.0]), names) == '-b.y + 2 c.z'
    assert expression(np.zeros(3), names) == '0'


def test_unknown_parameter_is_named():
    found = structure_of(mdh_robot(GAUTIER_KHALIL))
    with pytest.raises(IdentificationError, match="'link_9.m'"):
        found.category('link_9.m')
    with pytest.raises(ValueError, match='layout'):
        found.project(ParameterSet(found.base_layout, np.zeros(found.n_base)))


URDF = Path(__file__).resolve().parents[2] / 'urdf'


def summary_of(name: str, settings: ModelSettings) -> list[str]:
    robot = Robot.from_urdf(URDF / f'{name}.urdf')
    return structure(build(robot, settings), robot).summary().splitlines()


def test_categories_and_combinations_of_the_planar_robot():
    settings = ModelSettings(
        friction=('viscous', 'coulomb'),
        elastic=ElasticJoints(motors=('m1', 'm2'), gear_ratios=(0.1, 0.1)),
    )
    assert summary_of('zollo_planar_2r', settings)[1:] == [
        '14 base parameters of 28 standard ones',
        'alone (12): link_1 my, link_2 mx my Izz, m1 Ia fv fc, m2 Ia fv fc, joint_1 k, joint_2 k',
        'in 2 sums (3): link_1 mx Izz, link_2 m',
        '    link_1.mx + 0.5 link_2.m',
        '    link_1.Izz + 0.25 link_2.m',
        'not at all (13): link_1 m mz Ixx Ixy Iyy Ixz Iyz, link_2 mz Ixx Ixy Iyy Ixz Iyz',
    ]


def test_long_lists_are_wrapped_and_every_parameter_is_in_one_category():
    lines = summary_of('puma560', ModelSettings(elastic=ElasticJoints()))
    assert all(len(line) <= 100 for line in lines)
    text = '\n'.join(lines)
    assert '66 base parameters of 90 standard ones' in text
    assert 'alone (46)' in text
    assert 'in 20 sums (33)' in text
    assert 'not at all (11)' in text
