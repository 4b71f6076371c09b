# SPDX-License-Identifier: Apache-2.0
"""Standard parameters: they fit exactly as well, and no nearer ones to the prior do."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import SettingsError
from robot_identification.estimation.bounds import read_boxes
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.estimation.least_squares import essential, ols
from robot_identification.estimation.prior import (
    body_scale,
    choose_prior,
    standard,
    standard_base_columns,
    standard_covariance,
    standard_essential,
)
from robot_identification.estimation.system import from_rows
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor import prior as urdf_prior
from robot_identification.regressor.base_parameters import BaseStructure
from robot_identification.regressor.base_search import structure
import yaml

TX40 = Path(__file__).parents[2] / 'urdf' / 'tx40.urdf'


@pytest.fixture(scope='module')
def tx40():
    robot = Robot.from_urdf(TX40)
    model = ModelSettings()
    regressor = build(robot, model)
    return structure(regressor, robot), urdf_prior(robot, model)


def small_structure(seed: int, p: int = 9, b: int = 5) -> BaseStructure:
    """Return a structure of random regrouping whose last parameter is unidentifiable."""
    rng = np.random.default_rng(seed)
    regrouping = np.hstack([np.eye(b), rng.normal(size=(b, p - b))])
    regrouping[:, -1] = 0.0
    layout = ParameterLayout(tuple(f'l.p{i}' for i in range(p)), ('',) * p)
    return BaseStructure(
        layout,
        np.arange(b),
        np.arange(b, p - 1),
        [p - 1],
        regrouping,
        np.ones(b),
        np.inf,
        layout.names[:b],
    )


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), with_prior=st.booleans(), scaled=st.booleans())
def test_fits_exactly_and_no_other_is_nearer(seed, with_prior, scaled):
    rng = np.random.default_rng(seed)
    system = small_structure(seed % 1000)
    base = ParameterSet(system.base_layout, rng.normal(size=5))
    prior = ParameterSet(system.layout, rng.normal(size=9)) if with_prior else None
    reference = prior.values if with_prior else np.zeros(9)
    scale = rng.uniform(0.1, 10, 9) if scaled else None
    found = standard(base, system, prior, scale=scale)
    assert np.allclose(system.project(found).values, base.values, rtol=1e-13, atol=1e-13)
    assert found.values[8] == pytest.approx(reference[8], abs=1e-14)
    sizes = np.ones(9) if scale is None else scale
    distance = np.linalg.norm((found.values - reference) / sizes)
    null = np.linalg.svd(system.regrouping)[2][5:]
    for _ in range(5):
        other = found.values + null.T @ rng.normal(size=4)
        assert np.allclose(system.regrouping @ other, base.values)
        assert np.linalg.norm((other - reference) / sizes) > distance


def test_equals_the_papers_formula_on_the_stacked_regressor(tx40):
    """Eq. (30) with the singular value decomposition of W itself."""
    base_structure, prior = tx40
    robot = Robot.from_urdf(TX40)
    from robot_identification.data.recording import Motion

    rng = np.random.default_rng(1)
    motion = Motion(*rng.uniform(-2, 2, (3, 200, 6)))
    W = build(robot, ModelSettings()).rows(motion)
    tau = W @ (prior.values * rng.uniform(0.8, 1.2, prior.values.size)) + rng.normal(size=len(W))
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    rank = base_structure.n_base
    assert s[rank] < 1e-9 * s[rank - 1]
    step = Vt[:rank].T @ ((U[:, :rank].T @ (tau - W @ prior.values)) / s[:rank])
    system = from_rows(
        base_structure,
        robot.joints,
        base_structure.columns(W).reshape(200, 6, -1),
        tau.reshape(200, 6),
    )
    found = standard(ols(system), base_structure, prior)
    assert np.allclose(found.values, prior.values + step, rtol=1e-8, atol=1e-9)


def test_prior_that_fits_is_returned(tx40):
    base_structure, prior = tx40
    found = standard(base_structure.project(prior), base_structure, prior)
    assert np.allclose(found.values, prior.values, rtol=0, atol=1e-13)


def test_other_layout_is_refused(tx40):
    base_structure, prior = tx40
    with pytest.raises(ValueError):
        standard(base_structure.project(prior), base_structure, base_structure.project(prior))


def test_std_is_given_where_the_data_alone_tell(tx40):
    base_structure, prior = tx40
    rng = np.random.default_rng(2)
    b = base_structure.n_base
    matrix = rng.normal(size=(100, 6, b))
    joints = tuple(f'joint_{i}' for i in range(1, 7))
    effort = matrix @ base_structure.project(prior).values + rng.normal(size=(100, 6))
    estimate = ols(from_rows(base_structure, joints, matrix, effort))
    std = np.sqrt(np.diag(standard_covariance(estimate, base_structure)))
    for name, value in zip(base_structure.layout.names, std, strict=True):
        category = base_structure.category(name)
        assert np.isfinite(value) == (category == 'alone'), name
        if category == 'alone':
            expected = estimate.std[base_structure.base_layout.index(name)]
            assert value == pytest.approx(expected, rel=1e-9)


def test_essential_correction_changes_the_essential_entries_alone(tx40):
    """Eq. (32), against its form with the weighted singular value decomposition."""
    base_structure, prior = tx40
    rng = np.random.default_rng(3)
    b = base_structure.n_base
    matrix = rng.normal(size=(60, 6, b))
    truth = base_structure.project(prior).values + 0.3 * rng.normal(size=b)
    effort = matrix @ truth + 2.0 * rng.normal(size=(60, 6))
    system = from_rows(base_structure, tuple('abcdef'), matrix, effort)
    reduced = essential(system, ols(system), 30.0)
    found = standard_essential(system, reduced, base_structure, prior)
    changed = np.flatnonzero(found.values != prior.values)
    assert changed.tolist() == base_structure.independent[reduced.essential].tolist()
    assert 0 < changed.size < b
    W = matrix.reshape(-1, b)
    values = np.where(reduced.essential, reduced.base.values, 0.0)
    U, s, Vt = np.linalg.svd(W * values, full_matrices=False)
    n = changed.size
    rest = effort.ravel() - W @ base_structure.project(prior).values
    step = values * (Vt[:n].T @ ((U[:, :n].T @ rest) / s[:n]))
    expected = prior.values.copy()
    expected[base_structure.independent] += step
    assert np.allclose(found.values, expected, rtol=1e-9, atol=1e-10)
    with pytest.raises(ValueError):
        standard_essential(system, ols(system), base_structure, prior)


URDF = ParameterSet(ParameterLayout(('l.m', 'l.mx', 'j.fv'), ('kg', 'kg m', '')), [1.0, 2.0, 3.0])


def test_choice_of_the_prior(tmp_path):
    assert choose_prior('urdf', URDF) is URDF
    assert not choose_prior('none', URDF).values.any()
    (tmp_path / 'prior.yaml').write_text('l.mx: 5\nj.fv: 0.5\n')
    chosen = choose_prior('prior.yaml', URDF, tmp_path)
    assert chosen.as_dict() == {'l.m': 1.0, 'l.mx': 5.0, 'j.fv': 0.5}
    stored = {'standard_parameters': [{'name': 'l.m', 'value': 9.0, 'std': None}]}
    (tmp_path / 'result.yaml').write_text(yaml.safe_dump(stored))
    assert choose_prior(str(tmp_path / 'result.yaml'), URDF)['l.m'] == 9.0


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('l.mm: 1', "'l.mm' is not a parameter"),
        ('l.m: heavy', "'l.m' is 'heavy'"),
        ('l.m: .nan', "'l.m' is nan"),
        ('l.m: true', "'l.m' is True"),
        ('- 1', 'not a mapping'),
        ('a: [', 'cannot read the prior'),
        (None, 'cannot read the prior'),
    ],
)
def test_wrong_prior_file_is_one_line_that_names_it(tmp_path, text, words):
    path = tmp_path / 'prior.yaml'
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError) as error:
        choose_prior(str(path), URDF)
    message = str(error.value)
    assert words in message and str(path) in message and '\n' not in message
    assert error.value.file == str(path)


def test_body_scale_is_mass_and_radius_of_gyration_of_each_link():
    robot = Robot.from_urdf(TX40)
    base_prior = urdf_prior(robot, ModelSettings())
    scale = ParameterSet(base_prior.layout, body_scale(robot, base_prior.layout))
    mass, *first, xx, _, yy, _, _, zz = base_prior.inertial('link_3')
    centre = np.array(first) / mass
    # trace of the inertia at the centre of mass is twice the sum of m r^2
    moment = 0.5 * (xx + yy + zz) - mass * centre @ centre
    assert scale['link_3.m'] == pytest.approx(mass)
    assert scale['link_3.my'] == pytest.approx(mass * np.sqrt(moment / mass))
    assert scale['link_3.Ixy'] == pytest.approx(moment)
    assert scale['joint_3.Ia'] == pytest.approx(moment)
    assert scale['joint_3.fv'] == 1.0


def test_nearest_in_body_sizes_does_not_depend_on_the_units(tx40):
    """In millimetres and grams the same parameters come out, only with other numbers."""
    base_structure, prior = tx40
    robot = Robot.from_urdf(TX40)
    scale = body_scale(robot, prior.layout)
    unit = {'kg': 1e3, 'kg m': 1e6, 'kg m^2': 1e9}
    factors = np.array([unit.get(u, 1.0) for u in prior.layout.units])
    small = replace(
        base_structure,
        regrouping=factors[base_structure.independent][:, None]
        * base_structure.regrouping
        / factors,
    )
    rng = np.random.default_rng(5)
    base = base_structure.project(prior).values * rng.uniform(0.9, 1.1, base_structure.n_base)
    layout = base_structure.base_layout
    in_si = standard(ParameterSet(layout, base), base_structure, prior, scale=scale)
    in_mm = standard(
        ParameterSet(layout, factors[base_structure.independent] * base),
        small,
        ParameterSet(prior.layout, factors * prior.values),
        scale=factors * scale,
    )
    np.testing.assert_allclose(in_mm.values / factors, in_si.values, rtol=1e-7, atol=1e-12)


def test_base_columns_alone_take_the_estimate(tx40):
    """Eq. (30) with W_b: the printed Table II leaves just the other columns unchanged."""
    structure_, prior = tx40
    truth = prior.values + 0.1 * np.random.default_rng(2).normal(size=len(prior.layout))
    base = structure_.project(ParameterSet(prior.layout, truth))
    found = standard_base_columns(base, structure_, prior)
    np.testing.assert_allclose(structure_.project(found).values, base.values, rtol=1e-10)
    others = np.setdiff1d(np.arange(len(prior.layout)), structure_.independent)
    np.testing.assert_array_equal(found.values[others], prior.values[others])
    # the closest of all that fit is no farther away
    nearest = standard(base, structure_, prior)
    near, far = (np.linalg.norm(p.values - prior.values) for p in (nearest, found))
    assert near < far


@pytest.mark.parametrize(
    ('settings', 'words'),
    [
        ({'standard': 'essential', 'essential': None}, 'give estimation.essential'),
        ({'standard': 'closest'}, 'nearest, base_columns, essential'),
    ],
)
def test_standard_parameters_that_cannot_be_had_are_refused(settings, words):
    with pytest.raises(SettingsError, match=words) as caught:
        from_mapping(EstimationSettings, settings)
    assert caught.value.key == 'standard'


@pytest.mark.parametrize(
    'text',
    ['*hunter2: [\n', '{hunter2', 'a: !hunter2 b\n', 'hunter2: "\n', '&hunter2 a: &hunter2 [\n'],
)
def test_nothing_of_a_damaged_file_is_repeated(tmp_path, text):
    """PyYAML's own words have the line at fault, which may be of any file."""
    path = tmp_path / 'prior.yaml'
    path.write_text(f'link_1.m: 1.0\n{text}')
    layout = ParameterLayout(('link_1.m',), ('kg',))
    with pytest.raises(SettingsError, match='it is not readable as YAML in line') as caught:
        choose_prior(str(path), ParameterSet(layout, np.zeros(1)))
    assert 'hunter2' not in str(caught.value)
    with pytest.raises(SettingsError, match='it is not readable as YAML in line') as caught:
        read_boxes(str(path))
    assert 'hunter2' not in str(caught.value)
