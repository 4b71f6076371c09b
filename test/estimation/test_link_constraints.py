# SPDX-License-Identifier: Apache-2.0
"""Constraints of links: kept to rounding, at the minimum that other formulations find."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.estimation.bounds import standard_box
from robot_identification.estimation.estimators import (
    EstimationSettings,
    require_bounds_kept,
    without_unkept_bounds,
)
from robot_identification.estimation.link_constraints import (
    LinkConstraint,
    PhysicalSettings,
    StatedLinks,
    symmetric,
    SYMMETRIES,
    symmetry_of,
)
from robot_identification.estimation.log_det import LogDetProblem, minimise
from robot_identification.estimation.physical import physical
from robot_identification.estimation.system import from_rows
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.model.consistency import check, from_pseudo_inertia, pseudo_inertia
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.regressor import build
from robot_identification.regressor import prior as urdf_prior
from robot_identification.regressor.base_search import structure
from scipy.optimize import minimize

URDF = (Path(__file__).parents[2] / 'urdf' / 'szabo_3r.urdf').read_text()
TOOL = (
    '<link name="tool"><inertial><origin xyz="0.02 0 0.01"/><mass value="{}"/>'
    '<inertia ixx="0.002" iyy="0.003" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    '<joint name="flange" type="fixed"><parent link="link_3"/><child link="tool"/>'
    '<origin xyz="0.25 0 0.02" rpy="0 0.4 0"/></joint></robot>'
)
UNITS = np.array([pseudo_inertia(unit) for unit in np.eye(10)])


class Arm:
    """An arm of known parameters and rows of a motion of it."""

    def __init__(self, text=URDF, changes=(), noise=0.02):
        rng = np.random.default_rng(0)
        self.robot = Robot.from_urdf(text)
        self.prior = urdf_prior(self.robot)
        drives = {
            f'{joint}.{symbol}': value
            for joint in self.robot.joints
            for symbol, value in (('Ia', 0.05), ('fv', 0.5), ('fc', 0.4))
        }
        self.truth = self.prior.updated(drives | dict(changes))
        regressor = build(self.robot)
        base = structure(regressor, self.robot)
        n, time = self.robot.n_joints, np.linspace(0.0, 10.0, 400)[:, None]
        w, phase = rng.uniform(1.0, 4.0, n), rng.uniform(0.0, 6.0, n)
        q = np.sin(w * time + phase) + 0.3 * np.sin(2.7 * w * time)
        v = np.gradient(q, time[:, 0], axis=0)
        a = np.gradient(v, time[:, 0], axis=0)
        rows = regressor.rows(Motion(q, v, a))
        effort = (rows @ self.truth.values).reshape(-1, n)
        effort += noise * np.sqrt(np.mean(effort**2, axis=0)) * rng.normal(size=effort.shape)
        chosen = rows[:, base.independent].reshape(len(time), n, -1)
        self.system = from_rows(base, self.robot.joints, chosen, effort)

    def fit(self, *links, boxes=None, **settings):
        entries = tuple(LinkConstraint(**entry) for entry in links)
        chosen = PhysicalSettings(weight=3.0, links=entries, **settings)
        estimate = physical(self.system, self.robot, self.prior, chosen, boxes=boxes)
        assert check(estimate.standard).physical
        return estimate


def heavier(prior, link, factor):
    return {f'{link}.{s}': factor * prior[f'{link}.{s}'] for s in ('m', 'mx', 'my', 'mz')}


@pytest.fixture(scope='module')
def arm():
    prior = urdf_prior(Robot.from_urdf(URDF))
    return Arm(changes=heavier(prior, 'link_2', 1.6) | heavier(prior, 'link_3', 1.6))


# ------------------------------------------------------------------------------------- masses


def test_masses_keep_their_intervals(arm):
    free = arm.fit().standard
    assert free['link_3.m'] > 1.3 * arm.prior['link_3.m']
    low, high = 0.9 * arm.prior['link_3.m'], 1.1 * arm.prior['link_3.m']
    for estimate in (
        arm.fit({'link': 'link_3', 'mass': (low, high)}),
        arm.fit({'link': 'link_3', 'relative_mass': (0.9, 1.1)}),
        arm.fit(boxes={'link_3.m': (low, high)}),
    ):
        found = estimate.standard['link_3.m']
        # the data pull it to the end, which a logarithm keeps it from
        assert low < 0.99 * high < found < high
        (note,) = (text for text in estimate.notes if 'end of its interval' in text)
        assert note.startswith('link_3.m is at') and 'estimation.' in note
    every = arm.fit(relative_mass=(0.9, 1.1)).standard
    for link in arm.robot.links:
        assert 0.9 < every[f'{link}.m'] / arm.prior[f'{link}.m'] < 1.1


def test_an_interval_of_one_link_goes_before_that_of_all(arm):
    found = arm.fit({'link': 'link_3', 'relative_mass': (1.2, 1.3)}, relative_mass=(0.9, 1.1))
    assert 1.2 < found.standard['link_3.m'] / arm.prior['link_3.m'] < 1.3


def test_intervals_that_hold_anyway_change_nothing(arm):
    free, bounded = arm.fit(), arm.fit({'link': 'link_3', 'mass': (0.0, 100.0)})
    moved = bounded.standard.values - free.standard.values
    moved = moved[1:] / free.standard_std[1:]  # no motion shows the first link's mass
    assert np.abs(moved).max() < 0.01
    assert not any('end of its interval' in text for text in bounded.notes)


def test_a_known_mass_is_held_to_rounding(arm):
    found = arm.fit({'link': 'link_2', 'mass': (3.0, 3.0)})
    assert found.standard['link_2.m'] == pytest.approx(3.0, rel=1e-12)
    place = arm.prior.layout.index('link_2.m')
    assert found.standard_std[place] == pytest.approx(0.0, abs=1e-9)
    assert found.standard_std[place + 1] > 0.0


# ----------------------------------------------------------------------------------- symmetry


@pytest.mark.parametrize('kind', SYMMETRIES)
def test_transformations_are_those_of_the_axes(kind):
    """Bodies of their symmetry are left as they are, others are not."""
    point = (0.1, -0.2, 0.3)
    size = np.array([0.1, 0.2, 0.3])
    if len(kind) == 1:  # round about the axis
        size['xyz'.index(kind) - np.array([1, 2])] = 0.25
    box = pin.Inertia(2.0, np.array(point), np.diag(size @ size - size**2))
    if len(kind) == 2:  # and something off the axes, in the plane
        place = np.array(point) + [0.4 * (letter in kind) for letter in 'xyz']
        box += pin.Inertia(0.5, place, 0.01 * np.eye(3))
    matrix = pseudo_inertia(box.toDynamicParameters())
    change = symmetry_of(kind, point)
    np.testing.assert_allclose(change @ matrix @ change.T, matrix, atol=1e-12)
    np.testing.assert_allclose(symmetric(matrix, change), matrix, atol=1e-12)
    off = box + pin.Inertia(0.3, np.array([1.0, 2.0, 3.0]), 0.01 * np.eye(3))
    other = pseudo_inertia(off.toDynamicParameters())
    assert np.abs(change @ other @ change.T - other).max() > 0.1
    mean = symmetric(other, change)
    np.testing.assert_allclose(change @ mean @ change.T, mean, atol=1e-12)
    assert np.linalg.eigvalsh(mean)[0] > 0.0


def test_a_round_link_stays_round(arm):
    found = arm.fit({'link': 'link_3', 'symmetry': 'x', 'symmetry_point': (0.0, 0.02, 0.0)})
    mass, first, *_ = values = found.standard.inertial('link_3')
    assert first / mass != pytest.approx(arm.prior['link_3.mx'] / arm.prior['link_3.m'], rel=1e-3)
    shift = pin.SE3(np.eye(3), np.array([0.0, -0.02, 0.0]))
    own = shift.act(pin.Inertia.FromDynamicParameters(values)).toDynamicParameters()
    names = dict(zip(('m', 'mx', 'my', 'mz', 'xx', 'xy', 'yy', 'xz', 'yz', 'zz'), own))
    for name in ('my', 'mz', 'xy', 'xz', 'yz'):
        assert names[name] == pytest.approx(0.0, abs=1e-12)
    assert names['yy'] == pytest.approx(names['zz'], rel=1e-9)


def mirrored(theta):
    """Return bodies mirrored by the plane xz from 7 free numbers: factors of two blocks."""
    root = np.zeros((3, 3))
    root[np.tril_indices(3)] = theta[:6]
    matrix = np.zeros((4, 4))
    matrix[np.ix_([0, 2, 3], [0, 2, 3])] = root @ root.T
    matrix[1, 1] = theta[6] ** 2
    return from_pseudo_inertia(matrix)


@pytest.mark.parametrize('seed', range(3))
def test_another_formulation_finds_the_same_symmetric_minimum(seed):
    rng = np.random.default_rng(seed)
    prior = np.diag([0.09, 0.04, 0.06, 2.0]) + 0.01 * np.ones((4, 4))
    root = np.linalg.inv(np.linalg.cholesky(prior))
    layout = ParameterLayout.inertial(('a',))
    stated = StatedLinks((), {}, {}, {'a': symmetry_of('xz', (0.0, 0.0, 0.0))}, {})
    problem = LogDetProblem(
        matrix=rng.normal(size=(14, 10)),
        target=3.0 * rng.normal(size=14),
        places=np.arange(10)[None],
        units=(root @ UNITS @ root.T)[None],
        weight=2.0,
        positive=np.zeros((0, 10)),
        barrier=0.0,
        directions=stated.directions(layout, np.zeros(10, dtype=bool)),
    )
    assert problem.directions.shape == (10, 7)
    found = minimise(problem, from_pseudo_inertia(stated.body('a', prior)), 1e-9)
    start = np.linalg.cholesky(prior[np.ix_([0, 2, 3], [0, 2, 3])])[np.tril_indices(3)]
    other = minimize(
        lambda theta: problem.value(mirrored(theta)), np.append(start, 0.2), method='BFGS',
        options={'gtol': 1e-8, 'maxiter': 5000},
    )  # fmt: skip
    assert problem.value(found.chi) == pytest.approx(other.fun, abs=1e-6)
    np.testing.assert_allclose(found.chi, mirrored(other.x), atol=1e-3)
    # off the plane there is nothing, nor any doubt about it
    assert np.abs(found.chi[[2, 5, 8]]).max() < 1e-12
    covariance = found.covariance(np.zeros((0, 10)))
    assert np.abs(np.diag(covariance)[[2, 5, 8]]).max() < 1e-12
    # elsewhere it is that of the seven others alone
    _, rows = replace(problem, directions=None).derivatives(found.chi)
    others = np.delete(np.arange(10), [2, 5, 8])
    alone = np.linalg.inv(rows[:, others].T @ rows[:, others])
    np.testing.assert_allclose(covariance[np.ix_(others, others)], alone, rtol=1e-6)


# --------------------------------------------------------------------------------- pinned links


def test_a_pinned_link_has_the_parameters_of_the_prior(arm):
    found = arm.fit({'link': 'link_2', 'pinned': True})
    place = arm.prior.layout.slice_of('link_2')
    np.testing.assert_array_equal(found.standard.values[place], arm.prior.values[place])
    np.testing.assert_array_equal(found.standard_std[place], 0.0)
    assert found.standard_std[arm.prior.layout.index('link_3.m')] > 0.0
    # what it weighs less, others weigh more
    assert found.fit.relative_error > arm.fit().fit.relative_error


def test_a_true_link_that_is_pinned_makes_its_neighbours_certain():
    arm = Arm(changes=heavier(urdf_prior(Robot.from_urdf(URDF)), 'link_3', 1.5))
    free, pinned = arm.fit(), arm.fit({'link': 'link_2', 'pinned': True})
    place = arm.prior.layout.index('link_3.m')
    assert pinned.standard_std[place] <= free.standard_std[place] * (1.0 + 1e-9)
    assert pinned.standard.values[place] == pytest.approx(arm.truth.values[place], rel=0.15)


def test_a_pinned_tool_is_kept_by_the_fit_and_by_the_urdf():
    """A tool so heavy that the rest is no body unless the tool is known."""
    text = URDF.replace('</robot>', TOOL.format(0.8))
    arm = Arm(text, changes=heavier(urdf_prior(Robot.from_urdf(text)), 'link_3', 0.45))
    own = pin.Inertia(0.8, np.array([0.02, 0.0, 0.01]), np.diag([0.002, 0.003, 0.002]))
    place = pin.SE3(pin.rpy.rpyToMatrix(0.0, 0.4, 0.0), np.array([0.25, 0.0, 0.02]))
    tool = place.act(own).toDynamicParameters()

    def rest(estimate):
        return np.linalg.eigvalsh(pseudo_inertia(estimate.standard.inertial('link_3') - tool))[0]

    free, pinned = arm.fit(), arm.fit({'link': 'tool', 'pinned': True})
    assert rest(free) < 0.0 < rest(pinned)
    with pytest.warns(match='leaves no room .* tool got .* of their own'):
        identified_urdf(arm.robot, free.standard)
    written = identified_urdf(arm.robot, pinned.standard)
    inertial = TOOL.format(0.8).partition('</link>')[0]
    assert inertial in written
    again = Robot.from_urdf(written).prior
    np.testing.assert_allclose(
        again.inertial('link_3'), pinned.standard.inertial('link_3'), atol=1e-12
    )


def test_symmetry_and_mass_with_a_pinned_tool():
    text = URDF.replace('</robot>', TOOL.format(0.3))
    arm = Arm(text)
    entries = (
        {'link': 'tool', 'pinned': True},
        {'link': 'link_3', 'symmetry': 'xy', 'mass': (1.5, 1.5)},
    )
    found = arm.fit(*entries).standard.inertial('link_3')
    bare = arm.fit({'link': 'tool', 'pinned': True}).standard.inertial('link_3')
    assert found[0] == pytest.approx(1.5, rel=1e-12)
    place = pin.SE3(pin.rpy.rpyToMatrix(0.0, 0.4, 0.0), np.array([0.25, 0.0, 0.02]))
    own = pin.Inertia(0.3, np.array([0.02, 0.0, 0.01]), np.diag([0.002, 0.003, 0.002]))
    own = found - place.act(own).toDynamicParameters()
    np.testing.assert_allclose(own[[3, 7, 8]], 0.0, atol=1e-12)
    assert np.abs(found - bare).max() > 1e-3


# ------------------------------------------------------------------------------ further bounds


def test_bounds_stated_for_mrls_are_kept(arm):
    boxes = {'fv': (0.6, 0.8), 'link_3.mx': (0.1, 0.2), 'joint_1.fc': (0.3, 0.3)}
    found = arm.fit(boxes=boxes).standard
    lower, upper = standard_box(arm.prior.layout, boxes)
    held = lower == upper
    assert (found.values[~held] > lower[~held]).all() and (found.values < upper + 1e-12).all()
    assert found['joint_1.fc'] == 0.3
    free = arm.fit().standard
    assert free['joint_1.fv'] < 0.6 and free['link_3.mx'] > 0.2


def test_centres_of_mass_with_masses_and_symmetry(arm):
    """The axis leads through the shapes' edge; a start inside has to be found."""
    entry = {'link': 'link_2', 'symmetry': 'x', 'symmetry_point': (0.0, 0.0, 0.02)}
    found = arm.fit(entry | {'mass': (1.0, 1.2)}, center_of_mass='box').standard
    assert found['link_2.mz'] / found['link_2.m'] == pytest.approx(0.02)
    assert 1.0 < found['link_2.m'] < 1.2


def failing(arm, *links, **settings):
    with pytest.raises(SettingsError) as caught:
        arm.fit(*links, **settings)
    return caught.value


def test_bounds_that_contradict_each_other_are_named(arm):
    entry = {'link': 'link_2', 'symmetry': 'x', 'symmetry_point': (0.0, 0.0, 5.0)}
    error = failing(arm, entry, center_of_mass='box')
    assert error.key == 'estimation.physical.center_of_mass' and 'contradicts' in str(error)
    error = failing(arm, {'link': 'link_2', 'mass': (1.0, 1.1)}, boxes={'link_2.m': (2.0, 3.0)})
    assert error.key in ('estimation.physical.links[0].mass', 'estimation.mrls.bounds')
    error = failing(arm, relative_mass=(0.9, 1.1), total_mass=100.0)
    assert error.key == 'estimation.physical.total_mass' and '100 kg' in str(error)
    error = failing(arm, boxes={'link_2.mx': (0.1, 0.1)})
    assert error.key == 'estimation.mrls.bounds' and 'link_2.mx' in str(error)


def test_links_that_cannot_be_constrained_are_named(arm):
    error = failing(arm, {'link': 'elbow', 'mass': (1.0, 2.0)})
    assert error.key == 'estimation.physical.links[0].link' and 'elbow' in str(error)
    twice = {'link': 'link_2', 'pinned': True}
    assert failing(arm, twice, twice).key == 'estimation.physical.links[1].link'
    with_tool = Arm(URDF.replace('</robot>', TOOL.format(0.3)))
    error = failing(with_tool, {'link': 'tool', 'mass': (0.1, 0.2)})
    assert 'link_3' in str(error) and error.link == 'tool'
    light = {'link': 'link_3', 'mass': (0.1, 0.2)}
    error = failing(with_tool, {'link': 'tool', 'pinned': True}, light)
    assert error.key == 'estimation.physical.links[1].mass' and '0.3 kg are pinned' in str(error)
    hollow = replace_prior(with_tool, {'link_2.Ixx': -1.0})
    assert failing(hollow, twice).key == 'estimation.physical.links[0].pinned'


def replace_prior(arm, changes):
    other = Arm.__new__(Arm)
    other.__dict__.update(arm.__dict__)
    other.prior = ParameterSet(arm.prior.layout, arm.prior.values).updated(changes)
    return other


@pytest.mark.parametrize(
    ('settings', 'key'),
    [
        ({'mass': [2.0, 1.0]}, 'links.mass'),
        ({'relative_mass': [0.0, 0.0]}, 'links.relative_mass'),
        ({'mass': [1.0, 2.0], 'relative_mass': [0.5, 2.0]}, 'links.relative_mass'),
        ({'pinned': True, 'symmetry': 'x'}, 'links.pinned'),
        ({'mass': [-1.0, 2.0]}, 'links[0].mass'),
        ({'symmetry': 'w'}, 'links[0].symmetry'),
    ],
)
def test_wrong_entries_are_named(settings, key):
    with pytest.raises(SettingsError) as caught:
        from_mapping(PhysicalSettings, {'links': [{'link': 'a', **settings}]})
    assert caught.value.key == key


def test_other_methods_refuse_by_name_what_they_do_not_keep():
    for physical_settings, key in (
        ({'total_mass': 3.0}, 'total_mass'),
        ({'relative_mass': (0.5, 2.0)}, 'relative_mass'),
        ({'links': (LinkConstraint('a', pinned=True),)}, 'links'),
        ({'center_of_mass': 'box'}, 'center_of_mass'),
    ):
        kept = EstimationSettings(
            method='physical', physical=PhysicalSettings(**physical_settings)
        )
        require_bounds_kept(kept)
        for method in ('ols', 'wls', 'irls', 'mrls'):
            with pytest.raises(SettingsError) as caught:
                require_bounds_kept(replace(kept, method=method))
            assert caught.value.key == f'estimation.physical.{key}' and method in str(caught.value)
    plain = EstimationSettings(method='wls')
    bounded = replace(plain, mrls=replace(plain.mrls, bounds={'m': (0.0, 9.0)}))
    require_bounds_kept(replace(bounded, method='mrls'))
    require_bounds_kept(replace(bounded, method='physical'))
    with pytest.raises(SettingsError) as caught:
        require_bounds_kept(bounded)
    assert caught.value.key == 'estimation.mrls.bounds'
    require_bounds_kept(plain)


def test_bounds_of_settings_for_several_methods_are_left_out_by_name():
    plain = EstimationSettings(method='wls')
    mrls = replace(plain.mrls, bounds={'m': (0.0, 9.0)}, bounds_file='bounds.yaml')
    stated = replace(plain, mrls=mrls, physical=PhysicalSettings(total_mass=3.0))
    settings, remarks = without_unkept_bounds(stated)
    assert settings == plain
    assert [text.split("'")[1] for text in remarks] == [
        'estimation.mrls.bounds',
        'estimation.mrls.bounds_file',
        'estimation.physical.total_mass',
    ]
    kept = replace(stated, method='physical')
    assert without_unkept_bounds(kept) == (kept, ())


@pytest.mark.parametrize(
    'asked', ['estimation.mrls.bounds', 'estimation.mrls', 'estimation.mrls.bounds.m']
)
def test_bounds_that_the_request_states_stay(asked):
    plain = EstimationSettings(method='wls')
    stated = replace(plain, mrls=replace(plain.mrls, bounds={'m': (0.0, 9.0)}))
    assert without_unkept_bounds(stated, [asked]) == (stated, ())
    assert without_unkept_bounds(stated, ['estimation.mrls.bounds_file'])[0] == plain
