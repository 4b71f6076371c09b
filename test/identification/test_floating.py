# SPDX-License-Identifier: Apache-2.0
"""A robot on its feet, simulated with other masses than its URDF's, from motion to files."""

from dataclasses import replace
from pathlib import Path
import re
import xml.etree.ElementTree as ET

from command_line import run_command
import numpy as np
import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.data.recording import Motion
from robot_identification.diagnosis import floating_faults, floating_fit
from robot_identification.errors import (
    ExcitationError,
    IdentificationError,
    IdentificationWarning,
    ModelError,
)
from robot_identification.excitation.standing import standing_motion, StandingSettings
from robot_identification.exports.formats import export
from robot_identification.exports.urdf_export import identified_urdf
from robot_identification.identification.pipeline import identify
from robot_identification.model.consistency import from_pseudo_inertia, pseudo_inertia
from robot_identification.model.mechanisms import ContactSettings
from robot_identification.model.mjcf import urdf_of_mjcf
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.pages.summary import summary
from robot_identification.regressor import build, ModelSettings, prior
from robot_identification.regressor.floating import floating_motion
from robot_identification.verdicts.verdict import DO_NOT_USE, verdict
from walker import FEET, STANDING, walker

pytest.importorskip('mujoco', reason='MuJoCo is not installed (extra sim)')

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / 'examples' / 'quadruped' / 'experiment.yaml'
ARM = ROOT / 'urdf' / 'demo_arm.urdf'
FAST = 'estimation: {bootstrap: null, essential: null}\n'
LOAD, PLACE = 2.0, np.array([0.05, 0.02, 0.09])
DURATION = 24.0
QUARTER = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def robot_and_regressor():
    robot = Robot.from_urdf(walker(), floating=True)
    feet = tuple(ContactSettings(frame=f, kind='sphere', radius=0.022) for f in FEET)
    return robot, build(robot, ModelSettings(contacts=feet))


def true_parameters(robot, regressor):
    """Return the URDF's bodies, each by up to 15 % heavier or lighter, a load, and friction."""
    random = np.random.default_rng(1)
    start = prior(robot, ModelSettings())
    values = dict(zip(start.layout, start.values, strict=True))
    for link in robot.layout.links:
        body = pseudo_inertia(start.inertial(link)) * random.uniform(0.85, 1.15)
        if link == 'trunk':
            point = np.append(PLACE, 1.0)
            body += LOAD * np.outer(point, point) + np.diag([0.01, 0.01, 0.01, 0.0])
        names = [name for name in start.layout if name.startswith(f'{link}.')]
        values.update(zip(names, from_pseudo_inertia(body), strict=True))
    for joint in robot.driven_joints:
        values.update({f'{joint}.Ia': 0.01, f'{joint}.fv': 0.1, f'{joint}.fc': 0.2})
    return ParameterSet(start.layout, np.array(list(values.values())))


@pytest.fixture(scope='module')
def stood(tmp_path_factory):
    """Folder with the URDF, a recording and its experiment; robot, regressor and truth."""
    from robot_identification.simulation.legged import LeggedSettings, simulate_standing

    folder = tmp_path_factory.mktemp('stood')
    robot, regressor = robot_and_regressor()
    truth = true_parameters(robot, regressor)
    motion = standing_motion(
        robot, regressor, np.array(STANDING), StandingSettings(duration=DURATION, rate=50.0)
    )
    settings = LeggedSettings(timestep=0.002, kp=(120.0,) * 12, kd=(3.0,) * 12)
    recording = simulate_standing(robot, regressor, truth, motion, settings)
    (folder / 'walker.urdf').write_text(walker())
    signals = {
        'time': recording.time,
        'q': recording.position[:, 6:],
        'tau': recording.effort[:, 6:],
        'gyro': recording.gyroscope,
        'acc': recording.accelerometer,
        'turn': recording.orientation,
        'stance': recording.stance.astype(float),
    }
    return folder, signals, robot, regressor, truth


def experiment(folder, signals, name, more='', **changes):
    """Write a recording and its experiment, and load that."""
    np.savez(folder / f'{name}.npz', **{**signals, **changes})
    feet = ''.join(f'  - {{frame: {f}, kind: sphere, radius: 0.022}}\n' for f in FEET)
    (folder / f'{name}.yaml').write_text(
        f"""robot:
  urdf: walker.urdf
  base: floating
  effort_kind: joint_torque
  contacts:
{feet}data:
  identification:
  - file: {name}.npz
    time: time
    position: q
    effort: tau
    imu: {{gyroscope: gyro, accelerometer: acc, orientation: turn}}
    contacts: stance
{more}"""
    )
    return load_experiment(folder / f'{name}.yaml')


@pytest.fixture(scope='module')
def result(stood):
    folder, signals, *_ = stood
    return identify(experiment(folder, signals, 'sway'))


def test_masses_come_from_joints_efforts_and_imu_alone(stood, result):
    _, _, robot, _, truth = stood

    def total(parameters):
        return sum(parameters[f'{link}.m'] for link in robot.layout.links)

    nominal = prior(robot, ModelSettings())
    assert abs(total(nominal) / total(truth) - 1.0) > 0.08
    assert total(result.standard) == pytest.approx(total(truth), rel=0.01)
    trunk, true = (p.inertial('trunk') for p in (result.standard, truth))
    np.testing.assert_allclose(trunk[1:4] / trunk[0], true[1:4] / true[0], atol=0.01)
    friction = [result.standard[f'{joint}.fc'] for joint in robot.driven_joints]
    np.testing.assert_allclose(friction, 0.2, atol=0.03)


def test_a_recording_that_was_not_identified_from_is_predicted(stood):
    folder, signals, *_ = stood
    later = """  validation:
  - file: held.npz
    time: time
    position: q
    effort: tau
    imu: {gyroscope: gyro, accelerometer: acc, orientation: turn}
    contacts: stance
"""
    half = len(signals['time']) // 2
    np.savez(folder / 'held.npz', **{key: values[half:] for key, values in signals.items()})
    first = {key: values[:half] for key, values in signals.items()}
    result = identify(experiment(folder, first, 'first', later + FAST))
    (validation,) = result.validations
    assert validation.relative_error < 1.5
    assert max(joint.relative_error for joint in validation.joints[:3]) < 10.0


def test_intervals_of_base_parameters_hold(stood, result):
    *_, truth = stood
    bias = [0.05, -0.03, 0.06]
    values = [truth.get(name) for name in result.structure.layout]
    values[-3:] = bias
    base = result.structure.regrouping @ np.array(values)
    within = np.abs(result.estimate.base.values - base) <= 1.96 * result.estimate.std
    assert within.mean() > 0.9


def test_the_urdf_gets_the_bodies_and_no_joint_of_the_base(stood, result):
    _, _, robot, *_ = stood
    text = identified_urdf(robot, result.standard)
    again = Robot.from_urdf(text, floating=True)
    np.testing.assert_allclose(again.prior.values, result.standard.values[:130], atol=1e-9)
    assert {j.get('name') for j in ET.fromstring(text).iter('joint')} == {
        *(name for name in robot.contents.joints if not name.startswith('base_'))
    }


def test_mujoco_has_the_efforts_of_the_model(stood, result):
    import mujoco

    _, _, robot, regressor, _ = stood
    model = mujoco.MjModel.from_xml_string(export(result, 'mjcf'))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    model.dof_damping[:] = model.dof_frictionloss[:] = 0.0
    data = mujoco.MjData(model)
    random = np.random.default_rng(4)
    q, dq, ddq = random.uniform(-0.9, 0.9, (3, 12))
    quaternion = random.normal(size=4)
    turn, about, along = random.normal(size=(3, 3))
    data.qpos[3:7] = quaternion / np.linalg.norm(quaternion)
    dofs = [model.joint(name).dofadr[0] for name in robot.driven_joints]
    data.qpos[[model.joint(name).qposadr[0] for name in robot.driven_joints]] = q
    data.qvel[3:6], data.qvel[dofs], data.qacc[3:6], data.qacc[dofs] = turn, dq, about, ddq
    data.qacc[:3] = along  # along the axes of the world
    mujoco.mj_inverse(model, data)
    to_base = np.zeros(9)
    mujoco.mju_quat2Mat(to_base, data.qpos[3:7])
    to_base = to_base.reshape(3, 3).T
    proper = to_base @ (along - model.opt.gravity)
    motion = floating_motion(
        Motion(q[None], dq[None], ddq[None]), turn[None], about[None], proper[None]
    )
    layout = result.structure.layout
    values = np.where(
        [name.endswith(('.fv', '.fc', '.off')) or name.startswith('imu') for name in layout],
        0.0,
        result.standard.values,
    )
    wanted = build(robot, result.settings.model).rows(motion) @ values
    np.testing.assert_allclose(to_base @ data.qfrc_inverse[:3], wanted[:3], atol=1e-6)
    np.testing.assert_allclose(data.qfrc_inverse[3:6], wanted[3:6], atol=1e-6)
    np.testing.assert_allclose(data.qfrc_inverse[dofs], wanted[6:], atol=1e-6)


def test_an_mjcf_with_a_freejoint_is_such_a_robot(stood, result, tmp_path):
    _, _, robot, *_ = stood
    tree = ET.fromstring(export(result, 'mjcf'))
    world = tree.find('worldbody')
    ET.SubElement(world, 'geom', type='plane', size='5 5 1')
    ET.SubElement(world, 'body', name='table', pos='2 0 0')
    trunk = world.find("body[@name='trunk']")
    trunk.set('pos', '0 0 0.4')
    ET.SubElement(trunk, 'site', name='imu_site', pos='0.1 0 0', euler='0 0 1.57')
    foot = tree.find(".//body[@name='FL_foot']")
    ET.SubElement(
        foot, 'geom', name='FL_ball', type='sphere', size='0.03', mass='0', pos='0 0 -0.01'
    )
    file = tmp_path / 'walker.xml'
    file.write_text(ET.tostring(tree, encoding='unicode'))
    text = urdf_of_mjcf(file, floating=True)
    again = Robot.from_urdf(text, robot.driven_joints, floating=True)
    names = [name for name in again.prior.layout if name in result.standard.layout]
    assert len(names) == 130
    wanted = [result.standard[name] for name in names]
    np.testing.assert_allclose([again.prior[name] for name in names], wanted, atol=1e-6)
    np.testing.assert_allclose(again.link_frames['imu_site'].placement.translation, [0.1, 0, 0])
    assert 'FL_ball' in again.link_frames
    assert 'table' not in again.link_frames
    with pytest.raises(ModelError, match='robot.base: floating'):
        urdf_of_mjcf(file)


def test_formats_without_a_floating_base_are_refused(result):
    with pytest.raises(IdentificationError, match="'c' is no format of a robot with"):
        export(result, 'c')


def test_isaac_lab_gets_the_drives_and_no_joint_of_the_base(stood, result):
    _, _, robot, *_ = stood
    text = export(result, 'isaaclab')
    assert re.findall(r"^    '(\w+)': ImplicitActuatorCfg", text, re.M) == [*robot.driven_joints]
    armature = float(re.search(r'armature=([\d.e-]+)', text)[1])
    assert armature == pytest.approx(result.standard['FL_hip_joint.Ia'], rel=1e-3)


def test_the_verdict_is_usable_on_what_it_has_seen(result):
    assert not result.recorded.diagnosis
    found = verdict(result)
    assert found.level != DO_NOT_USE
    assert any('floating base' in reason.text for reason in found.reasons)
    apart = next(r.text for r in found.reasons if r.text.startswith('force and moment on'))
    figures = [float(figure) for figure in re.findall(r'([\d.]+) (?:and|%)', apart)]
    assert len(figures) == 3
    assert max(figures) < 5.0


def test_the_report_shows_feet_in_the_air_and_names_rows_of_the_base(result):
    (recorded,) = result.recorded.signals
    assert recorded.joints == result.robot.driven_joints
    for band in recorded.bands:
        leg = band.joints[0][:2]
        assert band.text in ('', f'{leg}_foot in the air')  # none where they are many
        assert band.joints == tuple(f'{leg}_{part}_joint' for part in ('hip', 'thigh', 'calf'))
    assert {band.joints[0][:2] for band in recorded.bands} == {'FL', 'FR', 'RL', 'RR'}
    text = summary(result, verbose=True)
    assert re.search(r'^row +rows +rmse', text, re.M)
    assert re.search(r'^base moment z +\d', text, re.M)


@pytest.mark.parametrize(
    ('name', 'changed', 'code', 'words'),
    [
        (
            'turned',
            lambda s: {k: s[k] @ [[0, 1, 0], [-1, 0, 0], [0, 0, 1]] for k in ('gyro', 'acc')},
            'imu_axes',
            '90 degrees about its axis -?z',
        ),
        pytest.param(
            'downward',
            lambda s: {'acc': -s['acc']},
            'accelerometer',
            'with the accelerometer the other way',
            marks=pytest.mark.soak,
        ),
        pytest.param(
            'flying',
            lambda s: {'stance': s['stance'] * [1.0, 0.0, 1.0, 1.0]},
            'contact_flags',
            'FR_foot always on the ground',
            marks=pytest.mark.soak,
        ),
    ],
)
def test_wrong_axes_signs_and_contacts_are_named(stood, monkeypatch, name, changed, code, words):
    folder, signals, *_ = stood
    monkeypatch.setattr(
        floating_faults, 'CRITERIA', replace(floating_faults.CRITERIA, seconds=8.0)
    )
    result = identify(experiment(folder, signals, name, FAST, **changed(signals)))
    assert verdict(result).level == DO_NOT_USE
    first = result.recorded.diagnosis[0]
    assert first.code == code
    assert re.search(words, first.evidence)


def test_pieces_that_tell_nothing_cost_no_result(stood, monkeypatch):
    folder, signals, *_ = stood
    monkeypatch.setattr(floating_fit, 'PIECE', 0.05)
    result = identify(experiment(folder, signals, 'still', FAST, acc=-signals['acc']))
    assert [fault.code for fault in result.recorded.diagnosis] == ['orientation']
    assert any('were not looked for: still.npz' in text for text in result.warnings)
    assert verdict(result).level == DO_NOT_USE


def test_a_free_fit_of_negative_masses_is_not_to_be_used(stood):
    folder, signals, *_ = stood
    free = 'estimation: {method: wls, bootstrap: null, essential: null}\n'
    found = verdict(identify(experiment(folder, signals, 'free', free, acc=-signals['acc'])))
    assert found.level == DO_NOT_USE
    assert any('total mass' in reason.text for reason in found.reasons)


def test_without_flags_stance_comes_from_the_efforts(stood):
    folder, signals, robot, _, truth = stood
    loaded = experiment(folder, signals, 'unflagged', FAST)
    (entry,) = loaded.data.identification
    data = replace(loaded.data, identification=(replace(entry, contacts='auto'),))
    with pytest.warns(IdentificationWarning, match='stance is estimated .* FL_foot for 9'):
        (found,) = replace(loaded, data=data).sources()
    flags = signals['stance'] > 0.5
    assert (flags & ~found.stance).mean() < 0.01
    assert 0.02 < (~found.stance).mean() < (~flags).mean()


def test_commands_and_gains_stand_for_efforts(stood):
    folder, signals, robot, *_ = stood
    kp, kd = 120.0, 3.0
    speed = np.gradient(signals['q'], signals['time'], axis=0)
    command = signals['q'] + (signals['tau'] + kd * speed) / kp
    experiment(folder, signals, 'servos', command=command)
    text = (folder / 'servos.yaml').read_text()
    text = text.replace('effort: tau', 'command: command')
    servo = f'servo_command\n  servo: {{stiffness: {kp}, damping: {kd}}}'
    (folder / 'servos.yaml').write_text(text.replace('joint_torque', servo))
    loaded = load_experiment(folder / 'servos.yaml')
    (found,) = loaded.sources()
    np.testing.assert_allclose(found.effort[:, 6:], signals['tau'], atol=1e-9)
    assert not loaded.robot.by_commands


def test_hung_up_there_is_no_total_mass(stood, monkeypatch):
    """A robot that hangs on a rope at its trunk: the rope takes all of its weight."""
    folder, signals, *_ = stood
    loaded = experiment(folder, signals, 'hung', FAST, stance=signals['stance'][:, :1] * 0.0 + 1.0)
    rope = (ContactSettings(frame='trunk', kind='point'),)
    monkeypatch.setattr(
        floating_faults, 'CRITERIA', replace(floating_faults.CRITERIA, seconds=4.0)
    )
    loaded = replace(loaded, robot=replace(loaded.robot, contacts=rope))
    found = verdict(identify(loaded))
    assert found.level == DO_NOT_USE
    assert any('mass' in reason.text for reason in found.reasons)


def test_other_recordings_are_predicted(stood):
    folder, signals, *_ = stood
    again = """  validation:
  - file: sway.npz
    time: time
    position: q
    effort: tau
    imu: {gyroscope: gyro, accelerometer: acc, orientation: turn}
    contacts: stance
"""
    result = identify(experiment(folder, signals, 'sway', again + FAST))
    (seen,) = result.validations
    fit = [joint.rmse for joint in result.estimate.fit.joints]
    np.testing.assert_allclose([joint.rmse for joint in seen.joints], fit, rtol=1e-6)


def test_what_is_missing_is_named(stood):
    folder, signals, *_ = stood
    with pytest.raises(IdentificationError, match='trees of rigid links'):
        identify(experiment(folder, signals, 'energy', 'estimation: {equations: energy}\n'))
    with pytest.raises(IdentificationError, match='NaN|nan'):
        acc = signals['acc'].copy()
        acc[7, 1] = np.nan
        identify(experiment(folder, signals, 'broken', acc=acc))
    with pytest.raises(IdentificationError, match='expected 4'):
        identify(experiment(folder, signals, 'few', stance=signals['stance'][:, :3]))


def test_a_motion_keeps_feet_in_place_limits_and_balance():
    robot, regressor = robot_and_regressor()
    posture = np.array(STANDING)
    motion = standing_motion(robot, regressor, posture, StandingSettings(duration=30.0, rate=50.0))
    assert motion.margin > 0.02
    assert not motion.stance.all()
    assert (motion.position <= robot.limits.upper[6:]).all()
    with pytest.raises(ExcitationError, match='cannot stay on the ground'):
        standing_motion(robot, regressor, posture, StandingSettings(duration=10.0, shift=0.3))


def test_a_command_plans_a_motion_and_lets_a_robot_follow_it(tmp_path):
    sway, plan = tmp_path / 'sway.npz', ('plan', EXAMPLE, '--duration', '6', '--out', tmp_path)
    done = run_command(tmp_path, *plan, '--set', 'standing.lift=0', '--simulate', sway)
    assert 'simulated: a robot of' in done.stdout
    columns = (tmp_path / 'trajectory.csv').read_text().splitlines()[0].split(',')
    assert columns[:2] == ['time', 'FL_hip_joint.position']
    with np.load(sway) as recorded:
        assert recorded['stance'].all()
        assert recorded['q'].shape == recorded['tau'].shape == (len(recorded['time']), 12)
    done = run_command(tmp_path, *plan, '--set', 'standing.shift=0.5', expect=2)
    assert 'out of reach' in done.stderr
    done = run_command(tmp_path, 'plan', ARM, '--simulate', sway, expect=2)
    assert 'robot.base: floating' in done.stderr


def test_a_robot_that_hangs_carries_nothing_on_its_feet():
    from robot_identification.simulation.legged import LeggedSettings, simulate_standing

    robot, regressor = robot_and_regressor()
    settings = StandingSettings(duration=3.0, lift=0.0)
    motion = standing_motion(robot, regressor, np.array(STANDING), settings)
    truth = true_parameters(robot, regressor)
    hung = simulate_standing(robot, regressor, truth, motion, LeggedSettings(hung=True))
    assert not hung.stance.any()
    assert np.linalg.norm(hung.accelerometer.mean(axis=0)) == pytest.approx(9.81, abs=0.5)


def test_force_sensors_carry_the_weight():
    from robot_identification.simulation.legged import LeggedSettings, simulate_standing

    robot, regressor = robot_and_regressor()
    settings = StandingSettings(duration=4.0, lift=0.0, shift=0.0, turn=0.0)
    motion = standing_motion(robot, regressor, np.array(STANDING), settings)
    truth = true_parameters(robot, regressor)
    measured = simulate_standing(robot, regressor, truth, motion, LeggedSettings(force_noise=0.0))
    forces = measured.wrench.reshape(-1, 4, 3)[-100:]
    weight = 9.81 * sum(truth[f'{link}.m'] for link in robot.layout.links)
    # in the frames of the feet, which stand askew
    assert np.linalg.norm(forces, axis=2).sum(axis=1).mean() == pytest.approx(weight, rel=0.05)
