# SPDX-License-Identifier: Apache-2.0
"""
Errors of files alone, against inverse dynamics of their texts.

The arm has friction by load, offsets and a tilted base; Pinocchio and MuJoCo read the texts and
predict the samples that filters make of a recording.
"""

import ast
from dataclasses import replace
from pathlib import Path
import warnings

from command_line import run_command
from lxml import etree
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from robot_identification import export, identify, read_result, Recording
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Motion
from robot_identification.errors import SettingsError
from robot_identification.exports.joint_dynamics import fitted_dynamics
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.identification.file_errors import exported_files, FileJudge
from robot_identification.identification.reduction import FactorBuilder
from robot_identification.identification.revalidation import add_validation, judge_stored
from robot_identification.model.robot import Robot, tilted_gravity
from robot_identification.regressor import (
    build,
    CoupledDrive,
    ModelSettings,
    predict,
    prior,
)
from robot_identification.results.exported_files import (
    file_sentences,
    FILES,
    ISAACLAB,
    MJCF,
    MODEL,
    ORIGINAL,
    URDF,
    URDF_TILTED,
)
from robot_identification.results.result import write_result
from robot_identification.signals import stretches

PATH = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
LOCKED = {'joint_4': 0.4, 'joint_5': -0.3, 'joint_6': 0.2}
TILT = (0.12, -0.08, 0.0)
DEAD_ZONE = 0.05
"""MuJoCo's dry friction is soft below."""

MODEL_SETTINGS = ModelSettings(friction=('viscous', 'coulomb', 'offset', 'load'))


def robot(tilt=TILT):
    gravity = tilted_gravity((0.0, 0.0, -9.81), tilt)
    return Robot.from_urdf(PATH, ['joint_1', 'joint_2', 'joint_3'], locked=LOCKED, gravity=gravity)


def run(seed, settings=MODEL_SETTINGS, *, one_way=False):
    """Record sums of sines for ten seconds; of the first joint beside a constant speed."""
    arm, random = robot(), np.random.default_rng(seed)
    time = np.arange(0.0, 10.0, 0.01)
    q, v, a = np.zeros((3, time.size, 3))
    for k in range(1, 6):
        rate, size = 0.7 * k, random.uniform(0.1, 0.3, 3)
        angle = rate * time[:, None] + random.uniform(0.0, 6.0, 3)
        q += size * np.sin(angle)
        v += size * rate * np.cos(angle)
        a -= size * rate**2 * np.sin(angle)
    if one_way:
        q[:, 0] += 4.0 * time
        v[:, 0] += 4.0
    true = prior(arm, settings)
    values = {'joint_1.Ia': 3.0, 'joint_2.fc': 2.0, 'joint_3.fv': 4.0, 'link_3.m': 14.0}
    for i, joint in enumerate(arm.joints, 1):
        values.update({f'{joint}.off': 1.0 * i - 1.5, f'{joint}.fl': 0.1 * i})
    true = true.updated({name: value for name, value in values.items() if name in true.layout})
    effort = predict(build(arm, settings), Motion(q, v, a), true)
    effort += 0.5 * random.standard_normal(effort.shape)
    return Recording(time, q, effort, arm.joints, source=f'run_{seed}')


SETTINGS = {
    'robot': {
        'effort_kind': 'joint_torque',
        'friction': MODEL_SETTINGS.friction,
        'joints': ['joint_1', 'joint_2', 'joint_3'],
        'locked': LOCKED,
        'base_tilt': TILT,
    },
    'signals': {
        'method': 'butterworth',
        'cutoff': 10.0,
        'decimate_to': None,
        'dead_zone': DEAD_ZONE,
    },
    'estimation': {'bootstrap': None},
    'auto': False,
}


@pytest.fixture(scope='module')
def result():
    return identify(PATH, run(1), validation=run(2), settings=SETTINGS)


@pytest.fixture(scope='module')
def samples(result):
    (found,) = stretches(run(2), result.settings.signals)
    return found


def rnea(text, samples, armature=0.0):
    """Efforts by Pinocchio's model of a URDF's text and its <dynamics>, with usual gravity."""
    full, root = pin.buildModelFromXML(text), etree.fromstring(text.encode())
    q = pin.neutral(full)
    for joint, value in LOCKED.items():
        q[full.joints[full.getJointId(joint)].idx_q] = value
    model = pin.buildReducedModel(full, [full.getJointId(joint) for joint in LOCKED], q)
    data, names = model.createData(), list(model.names)[1:]
    drawn = {joint.get('name'): joint.find('dynamics') for joint in root.iterfind('joint')}
    damping, friction = (
        np.array([float(drawn[name].get(key)) for name in names])
        for key in ('damping', 'friction')
    )
    states = zip(samples.position, samples.velocity, samples.acceleration)
    bodies = np.array([pin.rnea(model, data, *state) for state in states])
    rest = damping * samples.velocity + friction * np.sign(samples.velocity)
    return bodies + rest + armature * samples.acceleration


def error(samples, predicted):
    """Relative error of rows outside of the dead zone [%]."""
    keep = np.abs(samples.velocity) >= DEAD_ZONE
    rest = np.where(keep, samples.effort - predicted, 0.0)
    return 100.0 * np.linalg.norm(rest) / np.linalg.norm(np.where(keep, samples.effort, 0.0))


def stated(result, file):
    (recording,) = result.files.recordings
    return recording.of(file).relative_error


def quietly(function, *arguments, **keys):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return function(*arguments, **keys)


def test_the_error_of_the_urdf_is_that_of_its_text(result, samples):
    text = quietly(export, result, 'urdf')
    assert stated(result, URDF) == pytest.approx(error(samples, rnea(text, samples)), rel=1e-9)
    original = rnea(PATH.read_text(), samples)
    assert stated(result, ORIGINAL) == pytest.approx(error(samples, original), rel=1e-9)
    assert stated(result, MODEL) < stated(result, URDF_TILTED) < stated(result, URDF)


def test_the_tilt_goes_into_the_base_by_request(result, samples):
    text = quietly(export, result, 'urdf', tilt_in_base=True)
    tilted = error(samples, rnea(text, samples))
    assert stated(result, URDF_TILTED) == pytest.approx(tilted, rel=1e-9)
    document = etree.fromstring(quietly(export, result, 'sdf', tilt_in_base=True).encode())
    pose = document.find("model/joint[@name='joint_1']/pose").text.split()
    turned = pin.rpy.rpyToMatrix(*map(float, pose[3:]))
    np.testing.assert_allclose(turned, pin.exp3(-np.array(TILT)), atol=1e-12)
    with pytest.raises(SettingsError, match="not written to 'mjcf'"):
        export(result, 'mjcf', tilt_in_base=True)


def test_friction_that_is_fitted_beats_what_is_cut_off(result, samples):
    model, standard = result.settings.model, result.standard
    cut = quietly(identified_urdf, result.robot, standard, model, tilt=TILT)
    fitted = quietly(export, result, 'urdf', tilt_in_base=True)
    assert error(samples, rnea(fitted, samples)) < 0.7 * error(samples, rnea(cut, samples))
    # nothing of the model is hidden by that
    comment = fitted[fitted.index('<!-- robot_identification') :]
    for name in ('joint_2.fv', 'joint_2.fc', 'joint_2.Ia', 'joint_2.off', 'joint_2.fl'):
        assert f'{name} = {result.standard[name]}' in comment
    assert 'fitted with these bodies' in comment


def test_the_error_of_the_mjcf_is_that_of_mujocos_inverse(result, samples):
    model = mujoco.MjModel.from_xml_string(quietly(export, result, 'mjcf'))
    data, predicted = mujoco.MjData(model), np.empty((len(samples), 3))
    for row in range(len(samples)):
        data.qpos[:], data.qvel[:] = samples.position[row], samples.velocity[row]
        data.qacc[:] = samples.acceleration[row]
        mujoco.mj_inverse(model, data)
        predicted[row] = data.qfrc_inverse
    assert stated(result, MJCF) == pytest.approx(error(samples, predicted), rel=1e-6)
    assert stated(result, MJCF) < stated(result, URDF_TILTED)


def test_the_error_of_actuators_is_that_of_their_fields_and_the_urdf(result, samples):
    tree = ast.parse(quietly(export, result, 'isaaclab'))
    (table,) = (node.value for node in tree.body if isinstance(node, ast.Assign))
    fields = [
        {word.arg: ast.literal_eval(word.value) for word in call.keywords} for call in table.values
    ]
    values = {
        key: np.array([each[key] for each in fields]) for key in fields[0] if key[0] in 'afv'
    }
    root = etree.fromstring(quietly(export, result, 'urdf').encode())
    for joint in root.iterfind('joint/dynamics'):
        joint.set('damping', '0')
        joint.set('friction', '0')
    v = samples.velocity
    bodies = rnea(etree.tostring(root, encoding='unicode'), samples, values['armature'])
    drives = values['viscous_friction'] * v + values['friction'] * np.sign(v)
    assert stated(result, ISAACLAB) == pytest.approx(error(samples, bodies + drives), rel=1e-9)


def test_sdf_has_the_bodies_and_the_friction_of_the_urdf(result):
    urdf = etree.fromstring(quietly(export, result, 'urdf').encode())
    sdf = etree.fromstring(quietly(export, result, 'sdf').encode()).find('model')
    for link in urdf.iterfind('link'):
        own = sdf.find(f"link[@name='{link.get('name')}']/inertial")
        if link.find('inertial') is None:
            continue
        assert own.findtext('mass') == link.find('inertial/mass').get('value')
        for entry, value in link.find('inertial/inertia').attrib.items():
            assert own.findtext(f'inertia/{entry}') == value
        origin = link.find('inertial/origin')
        assert own.findtext('pose') == f'{origin.get("xyz")} {origin.get("rpy", "0 0 0")}'
    for joint in urdf.iterfind('joint'):
        drawn = joint.find('dynamics')
        if drawn is None:
            continue
        own = sdf.find(f"joint[@name='{joint.get('name')}']/axis/dynamics")
        assert {child.tag: child.text for child in own} == dict(drawn.attrib)


def test_results_read_again_say_the_same_and_so_does_the_command(result, tmp_path):
    write_result(result, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    assert stored.files == result.files
    for file in FILES:
        assert file_sentences(stored.files, file) == file_sentences(result.files, file)
    figures = [f'{stated(result, file):.3g} %' for file in (URDF, MODEL, ORIGINAL, URDF_TILTED)]
    said = run_command(tmp_path, 'export', 'result.yaml', '--out', 'a.urdf').stdout
    places = [said.index(figure) for figure in figures]
    assert places == sorted(places) and 'on run_2' in said
    assert 'lacks the tilt of the base, 8.3 degrees' in said
    tilted = run_command(tmp_path, 'export', 'result.yaml', '--tilt-in-base', '--format', 'sdf')
    assert f'misses {figures[3]} of the effort' in tilted.stderr
    assert 'lacks the tilt' not in tilted.stderr and tilted.stdout.startswith('<sdf')


def test_files_of_before_are_not_judged(result, tmp_path):
    write_result(result, tmp_path / 'result.yaml')
    text = (tmp_path / 'result.yaml').read_text()
    start = text.index('\nfiles:')
    (tmp_path / 'old.yaml').write_text(text[:start] + text[text.index('\nconsistency:') :])
    said = run_command(tmp_path, 'export', 'old.yaml', '--out', 'a.urdf').stdout
    assert 'not judged alone' in said
    refused = run_command(tmp_path, 'export', 'old.yaml', '--tilt-in-base', expect=None)
    assert refused.returncode != 0 and 'no tilt' in refused.stderr


def test_a_joint_that_turns_one_way_has_no_friction_that_an_offset_makes(result):
    model = MODEL_SETTINGS
    builder = FactorBuilder.from_problem(IdentificationProblem(robot(), model))
    system = builder.system([run(3, one_way=True)])
    absurd = result.standard.updated({'joint_1.fc': 156.0, 'joint_1.off': -153.0})
    fitted = fitted_dynamics(system, absurd, MJCF)
    assert fitted.one_way == ('joint_1',)
    # friction of 8 N m and an offset of -0.5, which no motion parts; damping is 9
    assert fitted.friction['joint_1'] == pytest.approx(7.5, abs=1.0)
    assert fitted.damping['joint_1'] == pytest.approx(9.0, abs=0.5)


def test_files_have_no_friction_below_zero(result):
    builder = FactorBuilder.from_problem(IdentificationProblem(robot(), MODEL_SETTINGS))
    system = builder.system([run(3)])
    names = [f'joint_{i}.fl' for i in (1, 2, 3)]
    negative = result.standard.updated({**dict.fromkeys(names, 0.0), 'joint_2.fv': -1.0})
    fitted = fitted_dynamics(system, negative, MJCF)
    assert set(fitted.damping) == set(fitted.friction) == {'joint_2'}
    assert fitted.damping['joint_2'] >= 0.0 and fitted.one_way == ()


def test_friction_that_the_model_lacks_counts_in_the_urdf_that_it_came_from(result, samples):
    problem = IdentificationProblem(
        robot((0.0, 0.0, 0.0)), ModelSettings(()), result.settings.signals
    )
    builder, source = FactorBuilder.from_problem(problem), run(2)
    system = builder.system([source])
    standard = problem.prior()
    base = builder.structure.project(standard).values
    files = exported_files(problem, system, standard)
    judged = FileJudge(problem, files, base, standard).errors(system, source)
    expected = error(samples, rnea(PATH.read_text(), samples))
    assert judged.of(ORIGINAL).relative_error == pytest.approx(expected, rel=1e-9)
    assert judged.of(MODEL).relative_error > expected


def test_other_recordings_judge_the_files_likewise(result, tmp_path):
    write_result(result, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    ((_, judged),) = judge_stored(stored, [run(2)])
    (known,) = result.files.recordings
    assert [each.file for each in judged.errors] == [each.file for each in known.errors]
    for one, two in zip(judged.errors, known.errors):
        assert one.relative_error == pytest.approx(two.relative_error, rel=1e-9)
    more = add_validation(result, run(4)).files.recordings
    assert more[0] == known and more[1].sources == ('run_4',)


def test_without_a_validation_files_are_held_against_what_was_identified_from(result):
    bare = replace(result, validations=(), files=replace(result.files, recordings=()))
    assert file_sentences(bare.files, URDF) == (
        'this file is not judged alone: no recording shows what it predicts',
    )
    problem = IdentificationProblem(robot(), MODEL_SETTINGS, result.settings.signals)
    base = np.asarray(result.estimate.base.values)
    judge = FileJudge(problem, bare.files, base, result.standard)
    judged = judge.errors(result.system, identified=True)
    # rows without the tilt would take another pass over the recording
    assert [each.file for each in judged.errors] == [MODEL, URDF_TILTED, MJCF]
    assert judged.of(MODEL).relative_error == result.estimate.fit.relative_error
    files = replace(bare.files, recordings=(judged,))
    assert 'which it was identified from' in file_sentences(files, MJCF)[0]


def test_a_coupled_drive_is_no_friction_of_the_joints_that_it_moves():
    drive = CoupledDrive('joint_3', ('joint_2', 'joint_3'))
    arm, model = robot(), ModelSettings(('viscous', 'coulomb', 'load'), coupled_drives=(drive,))
    builder = FactorBuilder.from_problem(IdentificationProblem(arm, model))
    true = prior(arm, model).updated({'joint_3.fcm': 20.0, 'joint_3.fvm': 5.0})
    quiet = run(1)
    v = np.gradient(quiet.position, quiet.time, axis=0)
    a = np.gradient(v, quiet.time, axis=0)
    effort = predict(build(arm, model), Motion(quiet.position, v, a), true)
    system = builder.system([replace(quiet, effort=effort)])
    found = fitted_dynamics(system, true, URDF)
    # those of the file that it came from
    assert found.friction['joint_2'] == pytest.approx(true['joint_2.fc'], rel=0.1)
    assert found.damping['joint_2'] == pytest.approx(true['joint_2.fv'], rel=0.1)
