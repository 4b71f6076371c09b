# SPDX-License-Identifier: Apache-2.0
"""Figures of parameters show what they are given; looked at through what plotly is given."""

from dataclasses import replace
from pathlib import Path
import re

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.estimation.estimate import (
    Estimate,
    Fit,
    Identifiability,
    JointFit,
    Uncertainty,
    WeightedRows,
)
from robot_identification.figures import parameter_plots
from robot_identification.figures.parameter_plots import ellipsoid, link_figure
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import ModelSettings, prior
from robot_identification.regressor.base_parameters import BaseStructure


def lines(figure, name):
    return [part for part in figure.traces if part.get('name') == name]


def estimate(units):
    names = tuple(f'link_{i}.p' for i in range(len(units)))
    layout = ParameterLayout(names, tuple(units))
    b = len(units)
    values = np.linspace(-1.03, 2.0, b)
    std = np.full(b, 0.05)
    return Estimate(
        base=ParameterSet(layout, values),
        expressions=names,
        method='ols',
        identifiability=Identifiability(np.ones(b, dtype=bool), ('',) * b),
        uncertainty=Uncertainty(np.diag(std**2), std),
        rows=WeightedRows(1000, np.ones(1), 0.1, 10.0, 100.0),
        fit=Fit((JointFit('joint_1', 500, 0.1, 5.0, 9.0, 0.0),), 5.0, 9.0),
    )


def test_deviations_are_bars_by_their_size():
    given = estimate(['kg'] * 30)
    excited = np.arange(30) > 0
    relative = np.where(excited, given.relative_std, np.nan)
    relative[7] = 969.0
    given = replace(
        given,
        identifiability=replace(given.identifiability, excited=excited),
        uncertainty=replace(given.uncertainty, std=0.01 * relative * np.abs(given.base.values)),
    )
    figure = parameter_plots.deviation_figure(given, 8.0)
    names = given.base.layout.names
    shown = {y: x for part in figure.traces for y, x in zip(part['y'], part['x'], strict=True)}
    assert set(shown) == set(names)
    assert [shown[name] for name in names[1:]] == given.relative_std[1:].tolist()
    (good,), (weak,), (poor,) = (
        lines(figure, name) for name in ('up to 8 %', 'up to 100 %', 'more')
    )
    assert good['y'] == [names[i] for i in np.flatnonzero(relative <= 8.0)]
    between = (relative > 8.0) & (relative <= 100.0)
    assert weak['y'] == [names[i] for i in np.flatnonzero(between)]
    assert names[7] in poor['y']
    assert poor['y'] == [names[i] for i in np.flatnonzero(relative > 100.0)]
    assert lines(figure, 'not excited')[0]['y'] == [names[0]]
    (rule,) = figure.layout['shapes']
    assert rule['x0'] == 8.0 and rule['name'] == 'limit of essential ones' and rule['showlegend']
    assert 10.0 ** figure.layout['xaxis']['range'][0] <= np.nanmin(given.relative_std)


def test_parameters_stand_beside_the_prior_by_unit():
    units = ['kg m^2'] * 9 + ['kg m'] * 3 + ['N m'] * 4
    given = estimate(units)
    before = ParameterSet(given.base.layout, given.base.values + 0.3)
    figure = parameter_plots.prior_figure(given, before)
    titles = [part['title']['text'] for name, part in figure.layout.items() if 'xaxis' in name]
    assert titles == ['[kg m²]', '[kg m]', '[N m]']
    prior, identified = (lines(figure, name)[1] for name in ('prior', 'identified, ± 2 std'))
    np.testing.assert_allclose(prior['x'], before.values[9:12])
    np.testing.assert_allclose(identified['x'], given.base.values[9:12])
    np.testing.assert_allclose(identified['error_x']['array'], 0.1)
    np.testing.assert_allclose(identified['error_x']['arrayminus'], 0.1)
    assert figure.layout['yaxis2']['ticktext'] == list(given.base.layout.names[9:12])


def test_values_over_many_decades_are_apart_and_their_ticks_true():
    given = estimate(['kg'] * 6)
    values = np.array([-3.0, 1e-4, 0.002, 0.02, 0.05, 30.0])
    base = ParameterSet(given.base.layout, values)
    figure = parameter_plots.prior_figure(replace(given, base=base), base)
    axis = figure.layout['xaxis']
    ticks = zip(axis['ticktext'], axis['tickvals'], strict=True)
    told = [(float(text.replace('−', '-')), place) for text, place in ticks if text]
    texts, places = np.array(told).T
    x = lines(figure, 'prior')[0]['x']
    # ticks and values are on one scale, which is monotonic
    np.testing.assert_allclose(np.interp(values, texts, places), x, atol=1.6)
    assert texts[0] <= -3.0 and texts[-1] >= 30.0
    assert np.diff(np.sort(x)).min() > 0.05
    assert '30 ± 0.1' in lines(figure, 'prior')[0]['customdata'][5]


def test_parameters_of_zero_have_a_linear_axis():
    given = estimate(['kg m'])
    zeros = ParameterSet(given.base.layout, np.zeros(1))
    assert 'tickvals' not in parameter_plots.prior_figure(given, zeros).layout['xaxis']


def test_singular_values():
    values = np.array([3.0, 2.0, 1.0, 1e-15, 0.0])
    structure = BaseStructure(
        layout=ParameterLayout(tuple('abcde'), ('kg',) * 5),
        independent=np.arange(3),
        dependent=np.array([3, 4]),
        unidentifiable=np.array([], dtype=int),
        regrouping=np.eye(3, 5),
        singular_values=values,
        gap=1e15,
        expressions=tuple('abc'),
    )
    figure = parameter_plots.singular_value_figure(structure)
    counting, rest = figure.traces
    np.testing.assert_array_equal(counting['y'], values[:3])
    assert rest['x'].tolist() == [4, 5]
    assert figure.layout['shapes'][0]['name'] == 'rank 3, gap 1e15'


ARM = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(ARM)


def test_the_ellipsoid_is_that_of_pinocchio():
    """A uniform ellipsoid of known semi-axes and pose comes back from its ten parameters."""
    axes = np.array([0.1, 0.3, 0.2])
    pose = pin.SE3(pin.Quaternion(0.5, 0.5, -0.1, 0.7).normalized().matrix(), np.ones(3))
    inertia = pose.act(pin.Inertia.FromEllipsoid(2.0, *axes))
    inertial = inertia.toDynamicParameters()
    vertices, faces = ellipsoid(inertial)
    local = (vertices - pose.translation) @ pose.rotation
    np.testing.assert_allclose(((local / axes) ** 2).sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(np.ptp(local, axis=0), 2.0 * axes, rtol=0.05)
    assert faces.min() == 0 and faces.max() == len(vertices) - 1


def test_an_inconsistent_inertia_has_none():
    inertial = pin.Inertia.FromEllipsoid(2.0, 0.1, 0.3, 0.2).toDynamicParameters()
    inertial[9] += 1.0
    assert ellipsoid(inertial) is None


def test_centres_of_mass_are_where_pinocchio_has_them(robot):
    before = prior(robot, ModelSettings())
    figure = link_figure(robot, before, before.updated({f'{robot.links[-1]}.m': 0.0}))
    old, new = (part for part in figure.traces if part['type'] == 'scatter3d')
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, pin.neutral(robot.model))
    for k, index in enumerate(robot.joint_ids):
        expected = data.oMi[index].act(robot.model.inertias[index].lever)
        np.testing.assert_allclose([old[axis][k] for axis in 'xyz'], expected, atol=1e-12)
    # everything is within the axes, which have one scale
    scene = figure.layout['scene']
    scales = []
    for axis in 'xyz':
        low, high = scene[f'{axis}axis']['range']
        assert all(low < part[axis].min() and part[axis].max() < high for part in figure.traces)
        scales.append(scene['aspectratio'][axis] / (high - low))
    np.testing.assert_allclose(scales, scales[0])
    # what has no mass has no centre of mass
    assert len(new['x']) == len(old['x']) - 1
    assert f'{before[f"{robot.links[0]}.m"]:.4g} kg' in old['customdata'][0]
    surfaces = [part['name'] for part in figure.traces if part['type'] == 'mesh3d']
    n = robot.n_joints
    assert surfaces == ['shapes', *['inertia before'] * n, *['inertia after'] * (n - 1)]


def test_robots_without_shapes_are_drawn_as_skeletons_with_names():
    bare = re.sub(r'<(visual|collision)>.*?</\1>', '', ARM.read_text(), flags=re.DOTALL)
    robot = Robot.from_urdf(bare)
    before = prior(robot, ModelSettings())
    skeleton = link_figure(robot, before, before).traces[0]
    data = robot.model.createData()
    pin.forwardKinematics(robot.model, data, pin.neutral(robot.model))
    points = np.column_stack([skeleton[axis] for axis in 'xyz'])
    for number, index in enumerate(robot.joint_ids):
        bone = points[3 * number : 3 * number + 2]
        parent = robot.model.parents[index]
        np.testing.assert_allclose(bone, [data.oMi[i].translation for i in (parent, index)])
    named = ', '.join(filter(None, skeleton['text']))
    assert sorted(named.split(', ')) == sorted(robot.links)
