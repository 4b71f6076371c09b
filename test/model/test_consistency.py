# SPDX-License-Identifier: Apache-2.0
"""Physical consistency against bodies that exist and bodies that cannot."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.model.consistency import (
    check,
    CHOLESKY_TOLERANCES,
    from_pseudo_inertia,
    inertia_at_com,
    inertia_matrix,
    passes_cholesky,
    pseudo_inertia,
)
from robot_identification.model.parameters import ParameterLayout, ParameterSet

laws = settings(max_examples=40, derandomize=True)

# Gautier & Venture (2013), Table II, in Khalil's order XX XY XZ YY YZ ZZ MX MY MZ M: a priori
# values, then those from the base and from the essential parameters.  M2 is not printed; any value
# that leaves the a priori link 2 a body will do, here 10 kg.  Link 1 is printed in part only.
TABLE_II = {
    2: [
        [0.0163, 0.000785, -0.0157, 0.0881, 0.000324, 0.0828, 0.392, -0.0072, 0.162, 10],
        [-0.471, 0.0103, -0.149, 0.0881, 0.00556, 1.08, 2.14, 0.105, 0.162, 10],
        [0.0271, 0.00619, -0.0405, 0.0881, 0.000324, 0.131, 0.0959, 0.0679, 0.162, 10],
    ],
    3: [
        [0.0223, -0.000195, -0.0116, 0.0224, -0.00222, 0.00441, 0.0326, 0.0244, 0.265, 4.07],
        [0.13, -0.00697, 0.0022, 0.0224, 0.00453, 0.108, 0.0841, -0.631, 0.265, 4.07],
        [0.0691, -0.000195, -0.0116, 0.0224, -0.00222, 0.042, 0.0308, -0.115, 0.265, 4.07],
    ],
    4: [
        [0.109, 2.9e-05, 0.00135, 0.108, -0.00117, 0.00407, 0.0145, -0.00724, -0.586, 3.62],
        [0.0056, -0.00366, -0.0026, 0.108, -0.00664, 0.00378, -0.0326, -0.00755, -0.586, 3.62],
        [0.109, 2.9e-05, 0.00135, 0.108, -0.00117, 0.00407, -0.0127, -0.00724, -0.586, 3.62],
    ],
    5: [
        [0.00101, 0, 0, 0.001, -3.06e-06, 0.00101, 0, -0.00306, -0.00102, 1.02],
        [0.00192, -0.00093, -0.00237, 0.001, 6.73e-05, 0.00393, 0.00824, -0.0105, -0.00102, 1.02],
        [0.00101, 0, -0.000158, 0.001, -3.06e-06, 0.00101, 0, 0.00239, -0.00102, 1.02],
    ],
    6: [
        [0.000353, 0, 0, 0.000353, 0, 0, 0, 0, 0.0084, 0.2],
        [0.000471, 0.000846, 0.000353, 0.000353, -0.000441, 0.000704, 0.00107, -0.00371]
        + [0.0084, 0.2],
        [0.000353, 0, 0, 0.000353, 0, 0, 0, 0, 0.0084, 0.2],
    ],
}
A_PRIORI, FROM_BASE, FROM_ESSENTIAL = range(3)


def from_khalil(vector):
    xx, xy, xz, yy, yz, zz, mx, my, mz, m = vector
    return np.array([m, mx, my, mz, xx, xy, yy, xz, yz, zz])


def tx40(column):
    layout = ParameterLayout.inertial(f'link_{i}' for i in TABLE_II)
    return ParameterSet(
        layout, np.concatenate([from_khalil(columns[column]) for columns in TABLE_II.values()])
    )


def cloud(points, masses):
    """Ten parameters of point masses, summed up from their definition."""
    x, y, z = points.T
    inertia = [y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
    return np.array([masses @ column for column in (np.ones_like(x), x, y, z, *inertia)])


def box(mass=3.0, sides=(0.1, 0.2, 0.3), centre=(0.3, -0.2, 0.1), rpy=(0.3, 0.2, -0.5)):
    """Ten parameters of a homogeneous box, by Pinocchio."""
    body = pin.Inertia.FromBox(mass, *sides)
    placement = pin.SE3(pin.rpy.rpyToMatrix(*rpy), np.array(centre))
    return placement.act(body).toDynamicParameters()


def body(vector, **extra):
    layout = ParameterLayout.inertial(['link']) + ParameterLayout(
        tuple(name.replace('__', '.') for name in extra), ('N m',) * len(extra)
    )
    return ParameterSet(layout, np.concatenate([vector, list(extra.values())]))


def test_pseudo_inertia_is_the_integral_of_its_definition():
    random = np.random.default_rng(0)
    points, masses = random.normal(size=(30, 3)), random.uniform(0.1, 1.0, 30)
    homogeneous = np.column_stack([points, np.ones(30)])
    expected = (homogeneous.T * masses) @ homogeneous
    vector = cloud(points, masses)
    assert pseudo_inertia(vector) == pytest.approx(expected, rel=1e-12)
    assert from_pseudo_inertia(expected) == pytest.approx(vector, rel=1e-12)


def test_inertia_at_the_centre_of_mass_is_that_of_pinocchio():
    vector = box()
    inertia = pin.Inertia.FromDynamicParameters(vector)
    assert inertia_at_com(vector) == pytest.approx(inertia.inertia, rel=1e-12)
    assert inertia_matrix(vector) == pytest.approx(inertia.matrix()[3:, 3:], rel=1e-12)
    centred = box(centre=(0, 0, 0), rpy=(0, 0, 0))
    sides = np.array([0.1, 0.2, 0.3]) ** 2
    expected = np.diag(3.0 * (sides.sum() - sides) / 12.0)
    assert inertia_at_com(centred) == pytest.approx(expected, abs=1e-15)
    assert inertia_at_com(np.zeros(10)) == pytest.approx(np.zeros((3, 3)))
    assert np.isnan(inertia_at_com(np.eye(10)[1])).all()


coordinates = st.floats(-2.0, 2.0).map(lambda x: round(x, 3))


@laws
@given(
    points=arrays(float, st.tuples(st.integers(4, 12), st.just(3)), elements=coordinates),
    scale=st.floats(0.01, 100.0),
)
def test_clouds_of_point_masses_are_consistent(points, scale):
    masses = scale * np.linspace(0.5, 1.5, len(points))
    # four points in a plane are flat, which is on the boundary
    spread = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    assume(spread[-1] > 0.05)
    report = check(body(cloud(points, masses)))
    assert report.physical
    assert report.problems == ()
    assert report.links[0].smallest_eigenvalue > 0.0
    assert dict(report.cholesky_counts)[0.0] == 1


@laws
@given(
    points=arrays(float, (6, 3), elements=coordinates),
    eigenvalue=st.integers(0, 3),
    excess=st.floats(1e-6, 1.0),
)
def test_bodies_beyond_the_boundary_are_not(points, eigenvalue, excess):
    # move one eigenvalue of the pseudo-inertia of a real body past zero
    values, vectors = np.linalg.eigh(pseudo_inertia(cloud(points, np.ones(6))))
    values[eigenvalue] = -excess * values[-1]
    link = check(body(from_pseudo_inertia((vectors * values) @ vectors.T))).links[0]
    assert not link.physical
    assert not link.pseudo_inertia_positive_definite
    assert not (link.mass_positive and link.inertia_positive_definite and link.triangle_inequality)
    assert link.smallest_eigenvalue == pytest.approx(values.min(), rel=1e-6)
    assert link.message


@laws
@given(entries=arrays(float, 10, elements=st.floats(-1.0, 1.0)), shift=st.floats(0.0, 1.5))
def test_pseudo_inertia_sums_up_the_three_conditions(entries, shift):
    # any symmetric matrix, positive or not, but those as close to the boundary as rounding is
    matrix = np.zeros((4, 4))
    matrix[np.triu_indices(4)] = entries
    matrix = matrix + matrix.T + shift * np.eye(4)
    vector = from_pseudo_inertia(matrix)
    assume(np.abs(np.linalg.eigvalsh(matrix)).min() > 1e-6 and abs(vector[0]) > 1e-3)
    link = check(body(vector)).links[0]
    separate = link.mass_positive and link.inertia_positive_definite and link.triangle_inequality
    assert link.pseudo_inertia_positive_definite == separate
    if vector[0] > 0.0:
        low, middle, high = np.linalg.eigvalsh(inertia_at_com(vector))
        assert link.inertia_positive_definite == (low > 0.0)
        assert link.triangle_inequality == (low + middle > high)


def test_each_fault_is_said_in_words():
    def link_of(vector):
        return check(body(vector)).links[0]

    link = link_of(-box())
    assert not link.mass_positive
    assert link.message == 'the mass is -3 kg'
    assert not link_of(np.zeros(10)).mass_positive
    assert 'the mass is 0 kg' in link_of(np.zeros(10)).message

    # principal moments 1, 1, 3: positive, but no body has them
    impossible = np.array([1.0, 0, 0, 0, 1.0, 0, 1.0, 0, 0, 3.0])
    link = link_of(impossible)
    assert link.mass_positive
    assert link.inertia_positive_definite
    assert not link.triangle_inequality
    assert not link.pseudo_inertia_positive_definite
    assert link.smallest_eigenvalue == pytest.approx(-0.5)
    assert link.message == (
        'the principal moment 3 kg m^2 exceeds the sum of the other two by 1 kg m^2'
    )

    # the centre of mass lies too far out for the inertia at the joint
    far = box(centre=(0, 0, 0), rpy=(0, 0, 0))
    far[1] = 3.0
    link = link_of(far)
    assert not link.inertia_positive_definite
    assert 'smallest principal moment' in link.message

    flat = np.array([1.0, 0, 0, 0, 1.0, 0, 1.0, 0, 0, 2.0])
    assert link_of(flat).message == (
        'the body has no thickness (one principal moment equals the sum of the other two)'
    )


def test_tolerance_lets_small_faults_pass():
    flat = np.array([1.0, 0, 0, 0, 1.0, 0, 1.0, 0, 0, 2.0])
    assert not check(body(flat)).physical
    assert check(body(flat), 1e-9).physical
    impossible = np.array([1.0, 0, 0, 0, 1.0, 0, 1.0, 0, 0, 3.0])
    assert not check(body(impossible), 0.99).physical
    assert check(body(impossible), 1.01).physical
    with pytest.raises(ValueError, match='tolerance is -0.1'):
        check(body(flat), -0.1)


def test_joints_have_signs():
    good = dict.fromkeys(['j__Ia', 'j__fv', 'j__fc', 'k__Iam', 'k__fvm', 'k__fcm'], 0.0)
    # offsets and parameters about which nothing is known may have any sign
    assert check(body(box(), **good, j__off=-3.0, j__stiffness=-1.0)).physical
    for name in good:
        report = check(body(box(), **{**good, name: -0.25}))
        assert not report.physical
        (problem,) = report.joints
        assert problem.parameter == name.replace('__', '.')
        assert problem.joint == name[0]
        assert problem.value == -0.25
        assert 'is -0.25 N m' in problem.message
        assert check(body(box(), **{**good, name: -0.25}), 0.25).physical


def test_links_without_inertial_parameters_are_passed_over():
    layout = ParameterLayout(('link_1.m', 'link_1.Izz', 'joint_1.fv'), ('kg', 'kg m^2', ''))
    report = check(ParameterSet(layout, np.ones(3)))
    assert report.links == ()
    assert report.physical
    assert dict(report.cholesky_counts) == dict.fromkeys(CHOLESKY_TOLERANCES, 0)
    # any order of the ten is read by name
    vector = box()
    order = np.random.default_rng(0).permutation(10)
    shuffled = ParameterSet(ParameterLayout.inertial(['a']).select(order), vector[order])
    assert check(shuffled).links[0].physical


def test_printed_parameters_of_the_tx40():
    # smallest eigenvalues of the inertia at the centre of mass, computed beside the paper: the a
    # priori link 3 is no body as printed, link 6 is a point mass
    expected = {
        A_PRIORI: [0.0121, -0.0051, 0.0039, 0.0010, 0.0],
        FROM_BASE: [-0.496, -0.033, -0.089, -0.0003, -0.0011],
        FROM_ESSENTIAL: [0.0106, 0.0020, 0.0030, 0.0008, 0.0],
    }
    for column, eigenvalues in expected.items():
        parameters = tx40(column)
        found = [
            np.linalg.eigvalsh(inertia_at_com(parameters.inertial(link)))[0]
            for link in parameters.layout.links
        ]
        assert found == pytest.approx(eigenvalues, rel=0.05, abs=6e-5)
    report = check(tx40(FROM_ESSENTIAL), tolerance=1e-6)
    # positive definite, and yet links 2 and 3 violate the triangle inequality
    assert all(link.inertia_positive_definite for link in report.links)
    assert [link.link for link in report.links if not link.triangle_inequality] == [
        'link_2',
        'link_3',
    ]


def test_cholesky_counts_of_the_tx40():
    # pivots of L D L^T, with link 1 (not printed) counted as passing: 1, 2, 3, 4 of 6
    counts = dict(check(tx40(FROM_BASE)).cholesky_counts)
    assert counts == {0.0: 0, -0.01: 1, -0.02: 2, -0.04: 3}


def test_cholesky_is_that_of_numpy_without_tolerance():
    random = np.random.default_rng(2)
    passed = 0
    for _ in range(200):
        vector = np.concatenate([[1.0], np.zeros(3), random.normal(size=6)])
        vector[[4, 6, 9]] += 2.0
        try:
            np.linalg.cholesky(inertia_matrix(vector))
            expected = True
        except np.linalg.LinAlgError:
            expected = False
        assert passes_cholesky(vector) == expected
        passed += expected
    assert 20 < passed < 180
    assert not passes_cholesky(-box())


def test_summary_of_a_model_without_links_has_no_table():
    layout = ParameterLayout(('arm.fv',), ('N m s/rad',))
    text = check(ParameterSet(layout, [0.1])).summary()
    assert text == 'Physical consistency: consistent (tolerance 0)'


def test_summary_names_what_is_wrong():
    parameters = tx40(FROM_BASE)
    extended = ParameterSet(
        parameters.layout + ParameterLayout(('joint_6.fv',), ('N m s/rad',)),
        [*parameters.values, -0.1],
    )
    report = check(extended)
    text = report.summary()
    assert 'NOT consistent' in text
    assert 'joint_6: the viscous friction fv is -0.1 N m s/rad' in text
    for link in report.links:
        assert f'{link.link}: {link.message}' in text
    assert '1 at -0.01' in text
    assert 'Physical consistency: consistent' in check(body(box())).summary()


@pytest.mark.parametrize('link', ['a', 'a_long_name'])
def test_columns_stand_below_their_heads(link):
    layout = ParameterLayout.inertial((link,))
    head, row = check(ParameterSet(layout, box())).summary().splitlines()[1:3]
    assert row.startswith(link) and head.index('mass') == row.index('ok')
