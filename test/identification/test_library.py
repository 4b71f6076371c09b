# SPDX-License-Identifier: Apache-2.0
"""Identification from Python: arrays, data frames and files give what an experiment file does."""

from pathlib import Path
import sys

import numpy as np
import pytest
from robot_identification import (
    export,
    IdentificationError,
    identify,
    load_experiment,
    read_result,
    Recording,
    Robot,
)
from robot_identification.data.recording import Motion
from robot_identification.errors import RecordingError, SettingsError
from robot_identification.regressor import build, ModelSettings, predict, prior
from robot_identification.results.result import write_result

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'gautier_khalil_3r.urdf'
MODEL = ModelSettings(friction=('viscous', 'coulomb'), rotor_inertia=False)
SETTINGS = {
    'robot': {
        'effort_kind': 'joint_torque',
        'friction': MODEL.friction,
        'rotor_inertia': False,
    },
    'signals': {'method': 'butterworth', 'cutoff': 20.0, 'decimate_to': 50.0},
    'estimation': {'method': 'wls', 'bootstrap': None},
    'auto': False,
}


def run(seed):
    """Make a recording of seven seconds: sums of sines, efforts by the model."""
    random = np.random.default_rng(seed)
    robot = Robot.from_urdf(URDF)
    time = np.arange(0.0, 7.0, 0.005)
    q, v, a = np.zeros((3, time.size, robot.n_joints))
    for k in range(1, 6):
        rate, size = 0.9 * k, random.uniform(0.1, 0.4, robot.n_joints)
        angle = rate * time[:, None] + random.uniform(0.0, 6.0, robot.n_joints)
        q += size * np.sin(angle)
        v += size * rate * np.cos(angle)
        a -= size * rate**2 * np.sin(angle)
    truth = prior(robot, MODEL).updated({'joint_1.fv': 2.0, 'joint_2.fc': 3.0})
    effort = predict(build(robot, MODEL), Motion(q, v, a), truth)
    effort += 0.05 * random.standard_normal(effort.shape)
    return {'time': time, 'position': q, 'effort': effort}


@pytest.fixture(scope='module')
def first():
    return run(0)


@pytest.fixture(scope='module')
def by_arrays(first):
    return identify(URDF, first, validation=run(1), settings=SETTINGS)


def columns(data):
    names = {'time': 't', 'position': ['q1', 'q2', 'q3'], 'effort': ['u1', 'u2', 'u3']}
    frame = {'t': data['time']}
    for signal in ('position', 'effort'):
        frame.update(zip(names[signal], data[signal].T, strict=True))
    return frame, names


def assert_same(result, other):
    np.testing.assert_allclose(
        result.estimate.base.values, other.estimate.base.values, rtol=1e-9, atol=1e-9
    )


def test_arrays_are_identified_and_validated(by_arrays):
    assert by_arrays.name == by_arrays.robot.name
    assert by_arrays.recorded.names == ('identification',)
    assert by_arrays.validations[0].sources == ('validation',)
    assert by_arrays.validations[0].relative_error < 2.0
    assert by_arrays.standard['joint_1.fv'] == pytest.approx(2.0, abs=0.1)
    assert by_arrays.standard['joint_2.fc'] == pytest.approx(3.0, abs=0.1)


def test_an_experiment_file_gives_the_same(first, by_arrays, tmp_path):
    frame, names = columns(first)
    table = np.column_stack(list(frame.values()))
    header = ','.join(frame)
    np.savetxt(tmp_path / 'a.csv', table, '%.17g', ',', header=header, comments='')
    entry = {'file': tmp_path / 'a.csv', **names}
    assert_same(identify(str(URDF), entry, settings=SETTINGS), by_arrays)
    (tmp_path / 'e.yaml').write_text(
        f"""
robot: {{urdf: {URDF}, effort_kind: joint_torque, friction: [viscous, coulomb],
  rotor_inertia: false}}
data: {{identification: [{{file: a.csv, time: t, position: [q1, q2, q3],
  effort: [u1, u2, u3]}}]}}
signals: {{method: butterworth, cutoff: 20.0, decimate_to: 50.0}}
estimation: {{method: wls, bootstrap: null}}
auto: false
"""
    )
    assert_same(identify(load_experiment(tmp_path / 'e.yaml')), by_arrays)


def test_columns_of_a_frame_give_the_same(first, by_arrays):
    frame, names = columns(first)
    assert_same(identify(URDF, {'frame': frame, **names}, settings=SETTINGS), by_arrays)
    pandas = pytest.importorskip('pandas')
    named = {'frame': pandas.DataFrame(frame), **names}
    assert_same(identify(URDF, [named], settings=SETTINGS), by_arrays)


def test_recordings_at_the_joints_need_no_kind_of_effort(first, by_arrays):
    robot = Robot.from_urdf(URDF)
    recording = Recording(first['time'], first['position'], first['effort'], robot.joints)
    section = {key: value for key, value in SETTINGS['robot'].items() if key != 'effort_kind'}
    result = identify(robot, recording, settings={**SETTINGS, 'robot': section})
    assert_same(result, by_arrays)


def test_arrays_at_the_motors_become_those_at_the_joints(first, by_arrays):
    gears = np.diag([50.0, 60.0, -70.0])
    at_motors = {
        'rate': 200.0,
        'position': first['position'] @ gears,
        'effort': first['effort'] @ np.linalg.inv(gears),
    }
    drives = {
        'position': {'matrix': np.linalg.inv(gears)},
        'effort': {'matrix': gears},
    }
    section = {**SETTINGS['robot'], 'effort_kind': 'motor_torque', 'drives': drives}
    result = identify(URDF, at_motors, settings={**SETTINGS, 'robot': section})
    assert_same(result, by_arrays)


def test_settings_that_are_left_out_are_chosen(first):
    result = identify(URDF, first, settings={'robot': {'effort_kind': 'joint_torque'}})
    assert result.selection is not None
    assert result.settings.estimation.method == 'physical'


# --- what is wrong ---------------------------------------------------------------------------


def test_a_frame_whose_columns_can_be_recognised_is_enough(first, by_arrays):
    pandas = pytest.importorskip('pandas')
    frame, _ = columns(first)
    frame = pandas.DataFrame({name.replace('u', 'tau'): v for name, v in frame.items()})
    found = identify(URDF, frame, settings=SETTINGS)
    assert_same(found, by_arrays)
    assert found.warnings[0] == (
        'identification: columns guessed by their names: position q1, q2, q3; effort tau1, tau2, '
        'tau3; time t in s; of joints joint_1, joint_2, joint_3'
    )
    late = frame.assign(t=np.round(1e9 * frame['t']))
    found = identify(URDF, [late], settings=SETTINGS)
    np.testing.assert_allclose(
        found.estimate.base.values, by_arrays.estimate.base.values, rtol=1e-5, atol=1e-5
    )
    assert 'time t in ns' in found.warnings[0]
    parts = frame.drop(columns='t').assign(
        sec=np.floor(frame['t']), nanosec=np.round(1e9 * (frame['t'] % 1.0))
    )
    found = identify(URDF, parts, settings=SETTINGS)
    np.testing.assert_allclose(
        found.estimate.base.values, by_arrays.estimate.base.values, rtol=1e-5, atol=1e-5
    )
    assert 'time sec, nanosec in s' in found.warnings[0]
    for wrong in (frame.assign(t='now'), frame[:0], frame.assign(q2=np.nan)):
        with pytest.raises(RecordingError, match='identification'):
            identify(URDF, wrong, settings=SETTINGS)
    without = {'frame': frame.drop(columns='t'), 'rate': 200.0}
    assert_same(identify(URDF, without, settings=SETTINGS), by_arrays)
    with pytest.raises(RecordingError, match='has no columns of effort that can be recognised'):
        identify(URDF, frame[['t', 'q1', 'q2', 'q3']], settings=SETTINGS)


def test_stamps_may_be_in_another_unit(first, by_arrays):
    data = {**first, 'time': 1e3 * first['time'], 'time_unit': 'ms'}
    assert_same(identify(URDF, data, settings=SETTINGS), by_arrays)


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'time_unit': 'min'}, "has time_unit 'min': give"),
        ({'effort': None}, "recording 'identification' has no 'effort'"),
        ({'time': None}, "needs one of 'time' and 'rate'"),
        ({'efort': 1}, "has 'efort': give"),
        ({'position': 'q1'}, "has 'position' that is no array of numbers"),
        (
            {'position': np.zeros((1400, 2))},
            r"'position' of shape \(1400, 2\): expected \(1400, 3",
        ),
        ({'frame': {}, 'time': 't'}, 'has no column'),
    ],
)
def test_wrong_arrays_are_one_line(first, change, words):
    with pytest.raises(RecordingError, match=words):
        identify(URDF, {**first, **change}, settings=SETTINGS)


def test_the_kind_of_effort_is_never_guessed(first):
    with pytest.raises(SettingsError, match='effort_kind'):
        identify(URDF, first)


def test_an_experiment_stands_alone(first):
    with pytest.raises(SettingsError, match='no recording to identify from'):
        identify(URDF)


# --- showing it ------------------------------------------------------------------------------


def test_results_show_themselves_in_a_line_and_in_tables(by_arrays):
    text = repr(by_arrays)
    assert len(text) < 200 and f"'{by_arrays.name}'" in text and '3 joints' in text
    page = by_arrays._repr_html_()
    assert page.count('<table>') == 2
    assert all(f'<td>{link}</td>' in page for link in by_arrays.robot.links)


def test_tables_are_data_frames(by_arrays):
    pandas = pytest.importorskip('pandas')
    links, fit = by_arrays.links, by_arrays.fit
    assert isinstance(links, pandas.DataFrame)
    link = by_arrays.robot.links[-1]
    assert links.loc[link, 'mass'] == by_arrays.standard[f'{link}.m']
    assert links.loc[link, 'mass_before'] == by_arrays.prior[f'{link}.m']
    assert list(fit['of']) == ['identification'] * 3 + ['validation'] * 3
    assert list(by_arrays.parameters['value']) == by_arrays.estimate.base.values.tolist()
    assert list(by_arrays.standard_parameters.index) == list(by_arrays.standard.layout.names)


def test_without_pandas_one_line_names_the_extra(by_arrays, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pandas', None)
    with pytest.raises(IdentificationError, match=r"'pandas' is not .*\[notebook\]"):
        _ = by_arrays.links


def test_figures_are_plotlys(by_arrays):
    for figure in (by_arrays.plot_fit(), by_arrays.plot_parameters()):
        assert figure.data and figure.to_html(include_plotlyjs=False)


# --- exports ---------------------------------------------------------------------------------


def test_results_and_their_files_export_the_same(by_arrays, tmp_path):
    write_result(by_arrays, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    for name in ('urdf', 'sdf', 'c', 'yaml', 'csv'):
        assert export(stored, name) == export(by_arrays, name)


def test_unknown_formats_are_refused(by_arrays):
    with pytest.raises(SettingsError, match=r"'dae' is no format .* urdf, mjcf, sdf, c, yaml"):
        export(by_arrays, 'dae')


def test_the_path_of_a_table_is_enough(first, by_arrays, tmp_path):
    frame, _ = columns(first)
    path = tmp_path / 'run.csv'
    names = ','.join(name.replace('u', 'tau') for name in frame)
    np.savetxt(
        path, np.column_stack(list(frame.values())), delimiter=',', header=names, comments=''
    )
    found = identify(URDF, path, settings=SETTINGS)
    np.testing.assert_allclose(
        found.estimate.base.values, by_arrays.estimate.base.values, rtol=1e-6, atol=1e-6
    )
    assert found.warnings[0] == (
        f'{path}: columns guessed by their names: position q1, q2, q3; effort tau1, tau2, tau3; '
        'time t in s; of joints joint_1, joint_2, joint_3'
    )
    # the kind of effort is never guessed, whatever the columns are called
    robot = {k: v for k, v in SETTINGS['robot'].items() if k != 'effort_kind'}
    with pytest.raises(SettingsError, match='effort_kind'):
        identify(URDF, path, settings={**SETTINGS, 'robot': robot})


def test_a_table_without_stamps_needs_its_rate_and_other_joints_are_named(first, tmp_path):
    path = tmp_path / 'run.npz'
    np.savez(path, q=first['position'], tau=first['effort'])
    with pytest.raises(SettingsError, match='has no time column'):
        identify(URDF, path, settings=SETTINGS)
    found = identify(URDF, {'file': path, 'rate': 200.0}, settings=SETTINGS)
    assert 'position q' in found.warnings[0]
    other = {**SETTINGS['robot'], 'joints': ['joint_2', 'joint_1', 'joint_3']}
    path = tmp_path / 'run.csv'
    np.savetxt(path, first['position'], delimiter=',', header='joint_1.q,joint_2.q,joint_3.q')
    with pytest.raises(RecordingError, match='has no columns of effort'):
        identify(URDF, {'file': path, 'rate': 200.0}, settings={**SETTINGS, 'robot': other})
