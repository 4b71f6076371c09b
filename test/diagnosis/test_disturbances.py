# SPDX-License-Identifier: Apache-2.0
"""Times whose efforts are not the robot's are found where they are, and nothing is without."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.data.parts import in_memory
from robot_identification.data.recording import Recording
from robot_identification.data.sampling import clock_of
from robot_identification.diagnosis.diagnose import diagnose
from robot_identification.diagnosis.disturbances import disturbances
from robot_identification.diagnosis.time_windows import FreeFit
from robot_identification.identification.choose import choose
from robot_identification.identification.pipeline import identify
from robot_identification.identification.prepare import prepare
from robot_identification.identification.screen import screen
from robot_identification.options.document import plain
from robot_identification.pages.report import html
from robot_identification.regressor.settings import ModelSettings
from robot_identification.signals import process, SignalSettings
import yaml

from benchmarks.faulty_arms import Arm, arm

PLAIN = ModelSettings()
BEGIN, END = 9.0, 14.0
THREE_JOINTS = 215


def found_in(made: Arm, *recordings: Recording):
    return disturbances(made.robot, recordings, PLAIN)


def within(recording: Recording, begin=BEGIN, end=END):
    return (recording.time >= begin) & (recording.time <= end)


def pushed(made: Arm) -> Recording:
    """Return the recording with a constant force on the last link for some time."""
    recording, model = made.recording, made.robot.model
    data = model.createData()
    rows = np.flatnonzero(within(recording))
    force = np.array([0.6, -0.5, 0.6])
    torque = np.zeros_like(recording.effort)
    for i in rows:
        jacobian = pin.computeFrameJacobian(
            model, data, recording.position[i], model.nframes - 1, pin.LOCAL_WORLD_ALIGNED
        )
        torque[i] = jacobian[:3].T @ force
    size = np.abs(torque).max(axis=0) / recording.effort.std(axis=0)
    return replace(recording, effort=recording.effort + torque / size.max())


def without_efforts(made: Arm) -> Recording:
    effort = made.recording.effort.copy()
    effort[within(made.recording)] = 0.0
    return replace(made.recording, effort=effort)


def held(made: Arm) -> Recording:
    effort, rows = made.recording.effort.copy(), np.flatnonzero(within(made.recording))
    effort[rows, 1] = effort[rows[0], 1]
    return replace(made.recording, effort=effort)


def loaded_from(made: Arm, begin: float) -> Recording:
    """Return the recording with four times the last link's mass more from a time on."""
    samples = process(made.recording, SignalSettings(cutoff=8.0, decimate_to=None, trim=0.0))
    link = made.robot.joint_ids[-1]
    heavy = made.truth.copy()
    mass = 4.0 * made.truth.inertias[link].mass
    heavy.inertias[link] += pin.Inertia(mass, np.array([0.02, 0.02, 0.1]), 1e-3 * mass * np.eye(3))
    states = list(zip(samples.position, samples.velocity, samples.acceleration, strict=True))
    more = [
        pin.rnea(heavy, heavy.createData(), *each)
        - pin.rnea(made.truth, made.truth.createData(), *each)
        for each in states
    ]
    columns = np.array(more).T
    added = np.stack([np.interp(made.recording.time, samples.time, c) for c in columns], axis=1)
    added[made.recording.time < begin] = 0.0
    return replace(made.recording, effort=made.recording.effort + added)


@pytest.mark.parametrize('seed', range(3))
def test_nothing_is_disturbed_in_good_recordings(seed):
    made = arm(200 + seed)
    assert found_in(made, made.recording) == ()


@pytest.mark.parametrize('spoil', [pushed, without_efforts, held])
@pytest.mark.parametrize('seed', [210, 214])
def test_a_disturbed_time_is_found_where_it_is(spoil, seed):
    made = arm(seed)
    (found,) = found_in(made, spoil(made))
    assert found.kind == ('no_effort' if spoil is without_efforts else 'disturbed')
    assert found.begin == pytest.approx(BEGIN, abs=0.8)
    assert found.end == pytest.approx(END, abs=0.8)
    if spoil is held:
        assert found.joints[0] == made.robot.joints[1]
    assert f'from {found.begin:.10g} to {found.end:.10g} s' in found.fault.evidence


def test_drives_that_are_off_at_rest_are_found():
    # gravity acts on an arm that brakes hold, though no effort shows
    made = arm(212)
    recording = made.recording
    stop = int(np.searchsorted(recording.time, 16.0))
    position, effort = recording.position.copy(), recording.effort.copy()
    position[stop:], effort[stop:] = position[stop], 0.0
    (found,) = found_in(made, replace(recording, position=position, effort=effort))
    assert found.kind == 'no_effort'
    assert found.begin == pytest.approx(16.0, abs=0.6)
    assert found.end >= recording.time[-1]


@pytest.mark.parametrize(('begin', 'kind'), [(12.0, 'other_robot'), (19.0, 'load')])
def test_a_load_that_is_picked_up_parts_the_recording(begin, kind):
    # of two halves nobody knows which one is meant; a short one is left out
    made = arm(213)
    (found,) = found_in(made, loaded_from(made, begin))
    assert found.kind == kind
    assert min(abs(found.begin - begin), abs(found.end - begin)) < 0.6
    assert found.left_out is (kind == 'load')
    # the gains of the drives are off by up to 15 %
    mass = 4.0 * made.truth.inertias[made.robot.joint_ids[-1]].mass
    assert found.change.owner == made.robot.links[-1]
    assert abs(found.change.size) == pytest.approx(mass, rel=0.15)
    assert f'{abs(found.change.size):.3g} +- ' in found.fault.evidence


def test_the_mass_of_a_load_is_right_and_as_certain_as_said():
    # of drives whose gains are right
    made = arm(213, gains=0.0)
    (found,) = found_in(made, loaded_from(made, 19.0))
    mass = 4.0 * made.truth.inertias[made.robot.joint_ids[-1]].mass
    assert found.change.deviation < 0.1 * mass
    assert found.change.size == pytest.approx(mass, abs=3.0 * found.change.deviation)


@pytest.mark.parametrize('begin', [None, 21.0])
def test_less_load_for_a_while_is_no_load(begin):
    # a contact that bears some of the weight, to the end of the recording, too
    made = arm(213)
    recording, loaded = loaded_from(made, 0.0), made.recording.effort
    rows = (within(recording) if begin is None else recording.time > begin)[:, None]
    (found,) = found_in(made, replace(recording, effort=np.where(rows, loaded, recording.effort)))
    assert (found.kind, found.change) == ('disturbed', None)


@pytest.mark.parametrize('seed', [210, 213])
def test_a_brake_that_drags_is_friction_of_one_joint(seed):
    made, rows = arm(seed), within(arm(seed).recording)
    speed = np.gradient(made.recording.position[:, 1], made.recording.time)
    effort = made.recording.effort.copy()
    friction = 0.8 * effort[:, 1].std()
    effort[rows, 1] += friction * np.tanh(speed[rows] / 0.02)
    (found,) = found_in(made, replace(made.recording, effort=effort))
    assert (found.kind, found.joints) == ('brake', made.robot.joints[1:2])
    assert found.begin == pytest.approx(BEGIN, abs=0.8)
    assert found.end == pytest.approx(END, abs=0.8)
    assert found.change.size == pytest.approx(friction, rel=0.15)


def test_a_disturbance_begins_with_its_recording():
    made = arm(212)
    effort = made.recording.effort.copy()
    effort[within(made.recording, 0.0, 4.0)] = 0.0
    (found,) = found_in(made, replace(made.recording, effort=effort))
    assert (found.kind, found.begin) == ('no_effort', 0.0)


def test_recordings_of_two_robots_are_said_to_be_two():
    made = arm(213)
    other = replace(loaded_from(made, -1.0), source='other')
    (found,) = found_in(made, made.recording, other)
    assert found.kind == 'other_robot'
    assert found.share == pytest.approx(0.5, abs=0.02)


def test_one_recording_of_several_is_named_and_not_left_empty():
    # a quarter of all times, but all of its recording
    made = arm(213)
    others = [replace(made.recording, source=f'run {i}') for i in range(3)]
    (found,) = found_in(made, *others, replace(loaded_from(made, -1.0), source='loaded'))
    assert (found.place, found.source, found.kind) == (3, 'loaded', 'other_robot')
    assert found.of_recording > 0.9 and not found.left_out


def test_slow_and_fast_recordings_belong_together():
    made = arm(211)
    stretched = replace(made.recording, time=3.0 * made.recording.time, source='slow')
    samples = process(stretched, SignalSettings(cutoff=5.0, decimate_to=None, trim=0.0))
    data = made.truth.createData()
    states = zip(samples.position, samples.velocity, samples.acceleration, strict=True)
    effort = np.array([pin.rnea(made.truth, data, *each) for each in states])
    spread = effort.std(axis=0)
    effort += 0.15 * spread * np.tanh(samples.velocity / 0.01)
    slow = Recording(samples.time, samples.position, effort, made.robot.joints, source='slow')
    assert not found_in(made, slow)


def test_a_diagnosis_names_the_time_and_explains_the_rest():
    made = arm(210)
    codes = [each.code for each in diagnose(made.robot, [pushed(made)])]
    assert codes == ['disturbed']


def written(folder: Path, made: Arm, recording: Recording, **entry) -> Path:
    """Write an experiment of one recording; return its file."""
    (folder / 'arm.urdf').write_text(made.robot.urdf)
    names = [f'{letter}{j}' for letter in 'qt' for j in range(made.robot.n_joints)]
    table = np.column_stack([recording.time, recording.position, recording.effort])
    header = ','.join(['time', *names])
    np.savetxt(folder / 'run.csv', table, delimiter=',', header=header, comments='', fmt='%.9g')
    columns = {'position': names[: made.robot.n_joints], 'effort': names[made.robot.n_joints :]}
    run = {'file': 'run.csv', 'time': 'time', **columns, **entry}
    robot = {'urdf': 'arm.urdf', 'joints': list(made.robot.joints), 'effort_kind': 'joint_torque'}
    path = folder / 'experiment.yaml'
    path.write_text(yaml.safe_dump({'robot': robot, 'data': {'identification': [run]}}))
    return path


def test_identify_leaves_it_out_says_so_and_can_be_repeated(tmp_path):
    made = arm(THREE_JOINTS)
    experiment = load_experiment(written(tmp_path, made, pushed(made)))
    prepared = screen(prepare(experiment))
    (found,) = prepared.disturbances
    (left,) = prepared.recordings.identification
    assert not within(left, found.begin, found.end).any()
    (omission,) = prepared.notes.omissions
    assert omission == found.fault.evidence
    # a gap that was made on purpose is no fault of the recording
    clock = clock_of([left.time], left_out=left.left_out)
    assert clock.missing == clock.gaps == 0
    assert clock.duration == pytest.approx(24.0 - (found.end - found.begin), abs=0.1)
    result = identify(experiment)
    codes = {each.code for each in result.recorded.diagnosis}
    assert not codes & {'disturbed', 'missing_samples'}
    assert found.fault.evidence in result.omissions
    (entry,) = result.experiment['data']['identification']
    assert entry['leave_out'] == [[found.begin, found.end]]
    (named,) = plain(result.to_document())['disturbances']
    assert (named['kind'], named['begin'], named['end']) == (found.kind, found.begin, found.end)
    assert named['joints'] == list(found.joints)
    assert named['left_out'] and named['error'] > named['usual_error']
    # the page shows the whole recording, with the time as a band over it
    (shown,) = result.recorded.signals
    assert shown.rows == len(made.recording)
    (band,) = shown.bands
    assert (band.first, band.last, band.joints) == (found.begin, found.end, found.joints)
    assert band.text == 'contact or cable'
    page = html(result)
    assert page.count('contact or cable') >= len(found.joints)
    assert 'id="signals"' in page


def test_without_auto_it_stays_and_is_named(tmp_path):
    made = arm(THREE_JOINTS)
    experiment = load_experiment(written(tmp_path, made, pushed(made)), {'auto': False})
    assert screen(prepare(experiment)).disturbances is None
    result = identify(experiment)
    assert 'disturbed' in {each.code for each in result.recorded.diagnosis}
    assert 'leave_out' not in result.experiment['data']['identification'][0]
    (shown,) = result.recorded.signals
    assert [band.text for band in shown.bands] == ['contact or cable']


def test_times_that_the_file_leaves_out_are_not_read(tmp_path):
    made = arm(THREE_JOINTS)
    path = written(tmp_path, made, made.recording, leave_out=[[2.0, 3.0], [5.5, 20.0]])
    experiment = load_experiment(path)
    (source,) = experiment.sources('identification', made.robot.joints)
    (block,) = source.blocks(10**6)
    expected = ~(within(made.recording, 2.0, 3.0) | within(made.recording, 5.5, 20.0))
    np.testing.assert_allclose(block.time, made.recording.time[expected])
    assert source.clock.gaps == 0
    assert in_memory(source, 10**9).left_out == ((2.0, 3.0), (5.5, 20.0))
    assert choose(prepare(experiment)).problem.robot.n_joints == 3


@pytest.mark.parametrize('times', [[[3.0, 2.0]], [[1.0, 1.0]]])
def test_times_to_leave_out_go_forward(tmp_path, times):
    made = arm(THREE_JOINTS)
    path = written(tmp_path, made, made.recording, leave_out=times)
    with pytest.raises(Exception, match=r'leave_out\[0\].*the first has to be below the second'):
        load_experiment(path)


def test_where_no_joint_counts_leverage_is_none():
    gram = np.full((2, 4, 4), 1e3)
    with np.errstate(all='raise'):
        fit = FreeFit.of(gram, np.full(2, 10.0), np.zeros(2))
        assert fit.leverage(gram, np.full(2, 10.0)).tolist() == [0.0, 0.0]
