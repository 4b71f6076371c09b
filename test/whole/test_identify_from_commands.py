# SPDX-License-Identifier: Apache-2.0
"""From files with commands to servos: experiment, result, exports, and what is refused."""

import ast
from dataclasses import asdict, make_dataclass, replace
import json
import math
from pathlib import Path
import sys
from types import ModuleType, SimpleNamespace

import mujoco
import numpy as np
import pytest
from robot_identification import identify, save
from robot_identification.cli.main import main
from robot_identification.cli.servo import _recordings
from robot_identification.config.commands import read_commands
from robot_identification.config.experiment_file import experiment_from, load_experiment
from robot_identification.errors import IdentificationError, ModelError, SettingsError
from robot_identification.exports.formats import export
from robot_identification.exports.servo_exports import sets_document
from robot_identification.identification.servo_pipeline import identify_servo
from robot_identification.model.robot import Robot
from robot_identification.results.servo_result import read_servo_result
from robot_identification.results.stored_result import read_result
from robot_identification.verdicts.verdict import verdict
import yaml

from benchmarks.two_legs import (
    ARMATURE,
    commands,
    COULOMB,
    JOINTS,
    KD,
    KP,
    mjcf,
    PERIOD,
    recorded,
    urdf,
    VISCOUS,
)

NOMINAL = np.array([0.005, 0.006, 0.007, 0.008])


def written(folder):
    """Write robot, recordings and experiment file; return the latter's content."""
    (folder / 'legs.xml').write_text(
        mjcf(NOMINAL, np.zeros(4), np.zeros(4), shift=(0.0, 0.0), step=0.001)
    )
    for name, seed, duration in (('a', 0, 5.0), ('b', 7, 3.0)):
        r = recorded(duration, seed=seed)
        np.savez(folder / f'{name}.npz', t=r.time, q=r.position, u=r.command)
    entry = {'time': 't', 'position': 'q', 'command': 'u'}
    content = {
        'robot': {
            'urdf': 'legs.xml',
            'effort_kind': 'servo_command',
            'servo': {'stiffness': KP, 'damping': KD},
        },
        'data': {
            'identification': [{'file': 'a.npz', **entry}],
            'validation': [{'file': 'b.npz', **entry}],
        },
        'output': 'results',
    }
    (folder / 'experiment.yaml').write_text(yaml.safe_dump(content))
    return content


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp('commands')
    written(path)
    assert main(['identify', str(path / 'experiment.yaml'), '--quiet']) == 0
    return path


@pytest.fixture(scope='module')
def document(folder):
    return yaml.safe_load((folder / 'results' / 'result.yaml').read_text())


def test_the_result_has_the_true_parameters(document):
    joints = [document['joints'][joint] for joint in JOINTS]
    for kind, true in (('armature', ARMATURE), ('viscous', VISCOUS), ('coulomb', COULOMB)):
        np.testing.assert_allclose([j[kind] for j in joints], true, rtol=0.1, atol=0.01)
    assert document['delay'] == pytest.approx(0.008, abs=4e-4)


def test_step_and_integrator_are_those_of_the_mjcf(document):
    assert document['settings']['simulation'] == {
        'target': None,
        'timestep': 0.001,
        'integrator': 'implicitfast',
    }


def test_unseen_errors_stand_beside_those_of_the_robot_file(document):
    error = document['unseen_error']
    assert error['fit'] < 0.5 * error['start'] < 0.5 * error['nominal']


def test_the_verdict_rules_out_what_commands_cannot_give(document):
    assert document['verdict']['uses'] == ['simulation']
    assert 'masses are those of the robot file' in document['verdict']['sentence']


def test_the_exported_mjcf_has_the_reported_error_in_plain_mujoco(folder, document):
    model = mujoco.MjModel.from_xml_path(str(folder / 'results' / 'identified.xml'))
    data = mujoco.MjData(model)
    recording = np.load(folder / 'b.npz')
    late = document['delay']
    positions = np.zeros_like(recording['q'])
    data.qpos[:] = recording['q'][0]
    time = recording['t'] - recording['t'][0]
    every = round(PERIOD / model.opt.timestep)
    for k in range(len(time) * every):
        if k % every == 0:
            positions[k // every] = data.qpos
        row = int(np.floor((k * model.opt.timestep - late) / PERIOD + 0.5 / every))
        data.ctrl[:] = recording['u'][np.clip(row, 0, len(time) - 1)]
        mujoco.mj_step(model, data)
    errors = (positions - recording['q'])[time >= 1.0]
    assert np.sqrt((errors**2).mean()) == pytest.approx(document['unseen_error']['fit'], rel=0.15)


def test_the_page_has_the_table_and_draws_every_joint(folder):
    page = (folder / 'results' / 'report.html').read_text()
    assert 'delay of the commands' in page and 'not for prediction of efforts' in page
    assert all(f'simulated position of {joint}' in page for joint in JOINTS)
    assert '>residual<' not in page  # a key of other lines


# fields of the documented classes: isaaclab 2.2's ActuatorBaseCfg and DelayedPDActuatorCfg, which
# isaaclab 3 has beside those of ISAACLAB_3, and mjlab 1.6's BuiltinPositionActuatorCfg with those
# of ActuatorCfg
ISAACLAB_3 = (
    'actuator_effort_limit actuator_velocity_limit joint_effort_limit joint_velocity_limit'
)
FIELDS = {
    'isaaclab': (
        'DelayedPDActuatorCfg',
        'joint_names_expr effort_limit velocity_limit effort_limit_sim velocity_limit_sim '
        'stiffness damping armature friction dynamic_friction viscous_friction min_delay '
        'max_delay',
    ),
    'mjlab': (
        'BuiltinPositionActuatorCfg',
        'target_names_expr stiffness damping effort_limit armature frictionloss viscous_damping '
        'delay_min_lag delay_max_lag delay_hold_prob delay_update_period delay_per_env_phase',
    ),
}


@pytest.mark.parametrize('name', FIELDS)
def test_actuators_for_training_are_python_of_documented_classes(folder, capsys, name):
    assert main(['export', str(folder / 'results/result.yaml'), '--format', name]) == 0
    tree = ast.parse(capsys.readouterr().out)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    kind, known = FIELDS[name]
    assert [call.func.id for call in calls] == [kind] * 4
    viscous = 'viscous_friction' if name == 'isaaclab' else 'viscous_damping'
    for j, call in enumerate(calls):
        values = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        assert set(values) <= set(known.split())
        delays = [value for key, value in values.items() if 'lag' in key or 'delay' in key]
        assert delays == [8, 8]
        assert values['stiffness'] == KP
        assert values['armature'] == pytest.approx(ARMATURE[j], rel=0.1, abs=0.002)
        assert values[viscous] == pytest.approx(VISCOUS[j], rel=0.1, abs=0.01)


@pytest.fixture(scope='module')
def limited(folder):
    stored = read_servo_result(folder / 'results' / 'result.yaml')
    return replace(stored, servo=replace(stored.servo, limit=3.5))


def test_limits_of_servos_are_those_of_the_actuators(limited):
    model = mujoco.MjModel.from_xml_string(export(limited, 'mjcf'))
    np.testing.assert_array_equal(model.actuator_forcerange, [[-3.5, 3.5]] * 4)


@pytest.mark.parametrize(
    ('newer', 'field'), [('', 'effort_limit'), (ISAACLAB_3, 'actuator_effort_limit')]
)
def test_the_limit_is_that_of_the_isaac_lab_that_is_there(limited, monkeypatch, newer, field):
    name, known = FIELDS['isaaclab']
    fields = [(each, object, None) for each in (known + ' ' + newer).split()]
    module = ModuleType('isaaclab.actuators')
    setattr(module, name, make_dataclass(name, fields))
    monkeypatch.setitem(sys.modules, 'isaaclab', ModuleType('isaaclab'))
    monkeypatch.setitem(sys.modules, 'isaaclab.actuators', module)
    scope = {}
    exec(export(limited, 'isaaclab'), scope)
    assert [*scope['ACTUATORS']] == [*JOINTS]
    for actuator in scope['ACTUATORS'].values():
        given = asdict(actuator)
        assert given[field] == 3.5
        others = [each for each in given if each.endswith('effort_limit') and each != field]
        assert all(given[each] is None for each in others)


def test_a_stored_result_exports_like_a_new_one(folder):
    stored = read_servo_result(folder / 'results' / 'result.yaml')
    assert export(stored, 'mjcf') == (folder / 'results' / 'identified.xml').read_text()


def test_delays_of_buses_go_where_the_joints_go(folder, document):
    delays = dict(zip(JOINTS, (0.004, 0.012, 0.004, 0.012), strict=True))
    servo = {**document['settings']['servo'], 'buses': [[*JOINTS[::2]], [*JOINTS[1::2]]]}
    changed = {**document, 'delay': delays, 'settings': {**document['settings'], 'servo': servo}}
    changed['fit'] = {**document['fit'], 'blocks': []}
    (folder / 'buses.yaml').write_text(yaml.safe_dump(changed, sort_keys=False))
    stored = read_servo_result(folder / 'buses.yaml')
    assert [*stored.parameters.delay] == [*delays.values()]
    for joint, delay in delays.items():
        assert f'commands of {joint} act {delay} s later' in export(stored, 'mjcf')
    for name, field in (('mjlab', 'delay_min_lag'), ('isaaclab', 'min_delay')):
        calls = [n for n in ast.walk(ast.parse(export(stored, name))) if isinstance(n, ast.Call)]
        steps = [ast.literal_eval(w.value) for c in calls for w in c.keywords if w.arg == field]
        assert steps == [4, 12, 4, 12]
    assert yaml.safe_load(sets_document(stored, 2))['sets'][0]['delay'] == delays


def test_replay_has_the_errors_of_the_identification_and_draws_them(folder, document, capsys):
    (folder / 'own.yaml').write_text((folder / 'experiment.yaml').read_text())
    result, page = str(folder / 'results' / 'result.yaml'), folder / 'motion.html'
    assert main(['replay', result, str(folder / 'own.yaml'), '--out', str(page)]) == 0
    rows = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines() if line)
    for joint in JOINTS:
        errors = [float(text) for text in rows[joint].split()[1:]]
        each = document['joints'][joint]
        expected = [each['unseen_error_before'], each['unseen_error']]
        np.testing.assert_allclose(errors, expected, rtol=0.01)
    assert all(f'simulated position of {joint}' in page.read_text() for joint in JOINTS)


def test_replay_recognises_a_recording_by_itself_and_names_what_does_not_fit(folder, capsys):
    recording = np.load(folder / 'b.npz')
    names = {'time': recording['t'], 'q': recording['q'], 'q_cmd': recording['u']}
    np.savez(folder / 'named.npz', **names)
    given = [str(folder / 'results' / 'result.yaml'), str(folder / 'named.npz')]
    assert main(['replay', *given, '--commands']) == 0
    assert 'over ' in capsys.readouterr().out
    assert main(['replay', *given, '--horizon', '0.2']) != 0
    assert "'--horizon' is given" in capsys.readouterr().err
    text = (folder / 'results' / 'result.yaml').read_text()
    (folder / 'old.yaml').write_text(text.replace('before:', 'earlier:'))
    assert main(['replay', str(folder / 'old.yaml'), given[1]]) != 0
    assert 'identify again' in capsys.readouterr().err


def test_sets_for_randomisation_scatter_about_the_estimate(folder, document):
    result = str(folder / 'results' / 'result.yaml')
    assert main(['export', result, '--samples', '40', '--out', str(folder / 'sets.yaml')]) == 0
    written = yaml.safe_load((folder / 'sets.yaml').read_text())
    assert len(written['sets']) == 40
    assert set(written['noise']) == set(JOINTS)
    assert written['coverage'] == document['coverage']
    for joint in JOINTS:
        drawn = np.array([each['joints'][joint]['coulomb'] for each in written['sets']])
        assert drawn.std() > 0.0
        assert abs(drawn.mean() - document['joints'][joint]['coulomb']) < drawn.std()


def test_other_commands_name_the_kind_of_the_result(folder, capsys):
    with pytest.raises(IdentificationError, match='identification from commands'):
        read_result(folder / 'results' / 'result.yaml')
    given = ['export', str(folder / 'results/result.yaml'), '--format', 'mjcf']
    assert main([*given, '--samples', '2']) != 0
    assert "not written as 'mjcf' of this result: give yaml" in capsys.readouterr().err
    assert main(['export', str(folder / 'results/result.yaml'), '--format', 'sdf']) != 0
    assert "'sdf' is no format of an export of servos" in capsys.readouterr().err
    given = ['identify', str(folder / 'experiment.yaml'), '--require', 'physical']
    assert main(given) != 0
    assert 'leave it out: masses and inertia stay' in capsys.readouterr().err
    assert main(['diagnose', str(folder / 'experiment.yaml')]) != 0
    assert 'the recordings have no efforts' in capsys.readouterr().err


def test_one_recording_alone_is_validated_on_every_second_block(folder):
    experiment = load_experiment(folder / 'experiment.yaml')
    alone = replace(experiment, data=replace(experiment.data, validation=()))
    result = identify_servo(alone)
    assert result.held_out
    assert result.total_error() < 0.5 * result.total_error('nominal')
    assert 'every second block' in verdict(result).sentence


def test_coverage_of_sets_is_measured_on_unseen_motion(document):
    """The noise of positions alone makes what no set of parameters covers."""
    covered = document['coverage']
    assert covered['with_residual'] > max(0.75, covered['sets'])


def changed(folder, section, **values):
    content = yaml.safe_load((folder / 'experiment.yaml').read_text())
    content.setdefault(section, {}).update(values)
    return experiment_from(content, folder)


def test_a_floating_base_is_clamped_where_it_is_asked_for(folder):
    text = (folder / 'legs.xml').read_text()
    bodies = text.split('<worldbody>')[1].split('</worldbody>')[0]
    trunk = (
        '<body name="trunk" pos="0 0 1"><freejoint/><inertial pos="0 0 0" mass="5" '
        f'diaginertia="0.1 0.1 0.1"/>{bodies}</body>'
    )
    (folder / 'floating.xml').write_text(text.replace(bodies, trunk))
    with pytest.raises((ModelError, SettingsError), match='lets its body float'):
        changed(folder, 'robot', urdf='floating.xml')
    experiment = changed(folder, 'robot', urdf='floating.xml', clamped=True)
    with pytest.warns(UserWarning, match='floating base is fixed'):
        assert experiment.build_robot().joints == JOINTS


@pytest.mark.parametrize(
    ('section', 'values', 'message'),
    [
        ('robot', {'servo': None}, "servo_command, but 'robot.servo' is missing"),
        ('robot', {'effort_kind': 'joint_torque'}, "joint_torque, but 'robot.servo' is given"),
        ('robot', {'servo': {'stiffness': [1.0, 2.0]}}, '2 numbers for 4 joints'),
        ('estimation', {'method': 'wls'}, 'wls, but .* servo_command: set it to rollout, ols'),
        (
            'data',
            {'identification': [{'file': 'a.npz', 'time': 't', 'position': 'q', 'effort': 'u'}]},
            r"identification\[0\].effort' is given",
        ),
        (
            'data',
            {'identification': [{'file': 'a.npz', 'time': 't', 'position': 'q'}]},
            r"identification\[0\].command' is missing",
        ),
    ],
)
def test_what_does_not_fit_is_named(folder, section, values, message):
    with pytest.raises(SettingsError, match=message):
        changed(folder, section, **values)


@pytest.fixture(scope='module')
def unnamed(folder, tmp_path_factory):
    """Identify with a URDF, early commands, and no simulator; return the folder."""
    path = tmp_path_factory.mktemp('unnamed')
    content = yaml.safe_load((folder / 'experiment.yaml').read_text())
    content['robot'] |= {'urdf': 'legs.urdf', 'joints': [*JOINTS]}
    (path / 'legs.urdf').write_text(urdf())
    for name, seed in (('a', 0), ('b', 7)):
        r = recorded(5.0, seed=seed, delay=-0.006)
        np.savez(path / f'{name}.npz', t=r.time, q=r.position, u=r.command)
    (path / 'experiment.yaml').write_text(yaml.safe_dump(content))
    assert main(['identify', str(path / 'experiment.yaml'), '--quiet']) == 0
    return path


def test_without_a_simulator_least_squares_are_the_answer(unnamed):
    document = yaml.safe_load((unnamed / 'results' / 'result.yaml').read_text())
    assert document['fit']['method'] == 'ols' and document['fit']['rollouts'] == 0
    found = [document['joints'][joint]['coulomb'] for joint in JOINTS]
    np.testing.assert_allclose(found, COULOMB, rtol=0.15)
    assert document['unseen_error']['fit'] < 0.1 * document['unseen_error']['nominal']
    assert 'at an assumed step of 1 ms with implicitfast' in document['verdict']['sentence']
    steps = {each['key']: each['text'] for each in document['verdict']['next_steps']}
    page = (unnamed / 'results' / 'report.html').read_text()
    assert 'name a simulator' in steps['simulation.timestep'] and 'name a simulator' in page
    played = ['replay', str(unnamed / 'results' / 'result.yaml')]
    assert main([*played, str(unnamed / 'experiment.yaml')]) == 0


def test_early_commands_are_named(unnamed, document):
    result = yaml.safe_load((unnamed / 'results' / 'result.yaml').read_text())
    reasons = {reason['criterion']: reason for reason in result['verdict']['reasons']}
    assert reasons['delay']['text'].startswith('the delay of the commands is -6.0')
    assert 'they act before their stamps' in reasons['delay']['text']
    assert 'delay' not in {reason['criterion'] for reason in document['verdict']['reasons']}


@pytest.mark.parametrize(
    ('slower', 'factor', 'text', 'step'),
    [
        (8, 1.0, 'only together are they known better', 'slow motion confuses'),
        (1, 0.3, 'masses or gains may be wrong', 'gains: scale'),
    ],
)
def test_doubts_are_remarks(unnamed, monkeypatch, slower, factor, text, step):
    monkeypatch.chdir(unnamed)
    r = recorded(command=commands(16.0 / slower, period=PERIOD / slower)[1])
    arrays = {'time': r.time, 'position': r.position, 'command': r.command}
    servo = {'stiffness': factor * KP, 'damping': factor * KD}
    settings = {'robot': {'effort_kind': 'servo_command', 'joints': JOINTS, 'servo': servo}}
    judged = verdict(identify('legs.urdf', arrays, settings=settings))
    found = [reason for reason in judged.reasons if text in reason.text]
    assert len(found) == 1 and step in found[0].next_step


def test_a_result_without_a_simulator_is_no_actuator_with_steps(unnamed, capsys):
    result = str(unnamed / 'results' / 'result.yaml')
    model = mujoco.MjModel.from_xml_path(str(unnamed / 'results' / 'identified.xml'))
    assert model.opt.timestep == 0.001
    assert 'no simulator was named' in (unnamed / 'results' / 'identified.xml').read_text()
    assert main(['export', result, '--format', 'isaaclab']) != 0
    assert 'identify again with its simulation.timestep' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('section', 'values', 'message'),
    [
        ('estimation', {'method': 'rollout'}, "'simulation.timestep' is missing"),
        ('simulation', {'target': 'mjcf'}, "'simulation.timestep' is missing"),
        ('simulation', {'target': 'urdf'}, 'URDF has no place for armature'),
        ('simulation', {'timestep': 0.002}, "'simulation.integrator' is missing"),
        ('robot', {'servo': {'stiffness': KP, 'gains': 'scale'}}, 'factors on gains vanish'),
    ],
)
def test_what_needs_a_simulator_is_refused_without_one(unnamed, section, values, message):
    with pytest.raises(SettingsError, match=message):
        changed(unnamed, section, **values)


def test_least_squares_may_be_chosen_beside_a_simulator(folder):
    experiment = changed(folder, 'estimation', method='ols')
    assert experiment.servo_method == 'ols'
    with pytest.raises(SettingsError, match='set estimation.method to rollout'):
        servo = {**experiment.content['robot']['servo'], 'gains': 'scale'}
        content = {**experiment.content, 'robot': {**experiment.content['robot'], 'servo': servo}}
        experiment_from(content, folder)


def test_constant_commands_are_named(folder):
    r = np.load(folder / 'a.npz')
    np.savez(folder / 'still.npz', t=r['t'], q=r['q'], u=0.0 * r['u'])
    entry = {'file': 'still.npz', 'time': 't', 'position': 'q', 'command': 'u'}
    with pytest.raises(IdentificationError, match=r'still\.npz: all commands are constant'):
        identify_servo(changed(folder, 'data', identification=[entry]))
    entry['command'] = 'q'
    with pytest.raises(IdentificationError, match='all commands are the positions themselves'):
        identify_servo(changed(folder, 'data', identification=[entry]))


def test_rollout_is_no_method_for_efforts(folder):
    content = yaml.safe_load((folder / 'experiment.yaml').read_text())
    content['robot'] = {'urdf': 'legs.xml', 'effort_kind': 'joint_torque'}
    content['estimation'] = {'method': 'rollout'}
    with pytest.raises(SettingsError, match='is for servos of a robot whose base is fixed'):
        experiment_from(content, folder)


def test_the_result_is_strict_yaml_for_json(document):
    json.dumps(document, allow_nan=False)


def test_init_recognises_commands_and_asks_for_gains(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    r = np.load('a.npz')
    np.savez('log.npz', time=r['t'], dof_pos=r['q'], des_dof_pos=r['u'], des_dof_vel=0.0 * r['u'])
    assert main(['init', 'legs.xml', 'log.npz', '--out', 'drafted.yaml']) != 0
    assert 'not the gains of the servos: give --kp' in capsys.readouterr().err
    gains = ['--kp', str(KP), '--kd', str(KD), '--for', 'mjcf']
    assert main(['init', 'legs.xml', 'log.npz', '--out', 'drafted.yaml', *gains]) == 0
    drafted = load_experiment('drafted.yaml')
    assert drafted.robot.servo.stiffness == KP
    assert drafted.simulation.timestep == 0.001
    (entry,) = drafted.data.identification
    assert (entry.position, entry.command) == ('dof_pos', 'des_dof_pos')
    recording = read_commands(entry, JOINTS, None, folder)
    assert recording.command_velocity is None  # zeros command nothing


def test_init_recognises_columns_of_tables_by_joint_and_by_number(folder, monkeypatch):
    monkeypatch.chdir(folder)
    r = np.load('a.npz')
    table = np.column_stack((r['t'], r['u'][:, ::-1], r['q']))[:200]
    names = ['time', *(f'{joint}_cmd' for joint in reversed(JOINTS))]
    names += [f'observation.state_{k}' for k in range(4)]
    np.savetxt('log.csv', table, delimiter=',', header=','.join(names), comments='')
    gains = ['--kp', str(KP), '--kd', str(KD)]
    assert main(['init', 'legs.xml', 'log.csv', '--out', 'table.yaml', *gains]) == 0
    (entry,) = load_experiment('table.yaml').data.identification
    assert entry.command == tuple(f'{joint}_cmd' for joint in JOINTS)
    assert entry.position == tuple(f'observation.state_{k}' for k in range(4))


def test_init_takes_numbered_columns_by_their_numbers_and_stamps_in_their_unit(
    folder, monkeypatch
):
    monkeypatch.chdir(folder)
    r = np.load('a.npz')
    table = np.column_stack((1e3 * r['t'], r['u'][:, ::-1], r['q']))[:200]
    names = ['time', *(f'action[{k}]' for k in (3, 2, 1, 0)), *(f'q_{k}' for k in range(4))]
    np.savetxt('log.csv', table, delimiter=',', header=','.join(names), comments='')
    gains = ['--kp', str(KP), '--kd', str(KD)]
    assert main(['init', 'legs.xml', 'log.csv', '--out', 'ms.yaml', *gains]) == 0
    (entry,) = load_experiment('ms.yaml').data.identification
    assert entry.command == tuple(f'action[{k}]' for k in range(4))
    recording = read_commands(entry, JOINTS, None, folder)
    assert recording.period == pytest.approx(PERIOD)
    np.testing.assert_allclose(recording.command, r['u'][:200])


def test_init_refuses_degrees_of_servos_until_they_are_named(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    r = np.load('a.npz')
    np.savez('deg.npz', time=r['t'], position=np.degrees(r['q']), action=np.degrees(r['u']))
    limited = Path('legs.xml').read_text().replace('<joint ', '<joint range="-114 114" ')
    Path('limited.xml').write_text(limited)
    given = ['init', 'limited.xml', 'deg.npz', '--out', 'deg.yaml', '--kp', str(KP)]
    assert main(given) != 0
    assert 'times its range in the URDF: give --degrees' in capsys.readouterr().err
    assert main([*given, '--degrees']) == 0
    played = SimpleNamespace(recordings=folder / 'deg.npz', overrides=None)
    result = SimpleNamespace(robot=Robot.from_urdf('limited.xml', JOINTS))
    with pytest.raises(IdentificationError, match=r'name an experiment file with its unit'):
        _recordings(played, result)


def test_init_takes_ticks_and_zeros_of_servos(folder, monkeypatch, capsys):
    """A Feetech servo has 4096 ticks a turn, and 2048 where the joint is at -0.1 rad here."""
    monkeypatch.chdir(folder)
    r = np.load('a.npz')
    q, u = (np.round(2048 + (r[name] + 0.1) * 4096 / (2 * np.pi)) for name in ('q', 'u'))
    np.savez('ticks.npz', time=r['t'], position=q, action=u)
    given = ['init', 'legs.xml', 'ticks.npz', '--out', 'ticks.yaml', '--kp', str(KP)]
    zeros = [str(-np.pi - 0.1)] * 4
    units = ['--ticks', '4096', '--position-offsets', *zeros]
    assert main([*given, *units]) == 0
    experiment = load_experiment('ticks.yaml')
    (entry,) = experiment.data.identification
    recording = read_commands(entry, JOINTS, experiment.robot.drives, folder)
    np.testing.assert_allclose(recording.position, r['q'], atol=np.pi / 4096 + 1e-6)
    np.testing.assert_allclose(recording.command, r['u'], atol=np.pi / 4096 + 1e-6)
    assert main([*given, *units, '--degrees', '--force']) != 0
    assert "'--degrees' and '--ticks' are both given" in capsys.readouterr().err


def bam_file(path, **values):
    """Write a parameter file as bam does."""
    content = {'kt': 1.2, 'R': 2.4, 'armature': 0.02, 'friction_base': 0.05}
    content |= {'friction_viscous': 0.06, 'model': 'm1', 'actuator': 'sts3215', **values}
    path.write_text(json.dumps(content))
    r = np.load(path.with_name('a.npz'))
    np.savez(path.with_name('log.npz'), time=r['t'], dof_pos=r['q'], des_dof_pos=r['u'])


def test_init_takes_gains_from_files_of_bam(folder, monkeypatch, capsys):
    """A motor of 1.2 N m/A and 2.4 ohm at 20 V/rad has 10 N m/rad and 0.6 N m s/rad by its EMF."""
    monkeypatch.chdir(folder)
    bam_file(folder / 'm1.json', max_velocity=5.3)
    bam_file(folder / 'm3.json', error_gain_ratio=1.1, load_friction_base=0.1, model='m3')
    given = ['init', 'legs.xml', 'log.npz', '--out', 'bam.yaml', '--bam']
    files = ['m1.json', 'm3.json', 'm1.json', 'm1.json']
    assert main([*given, *files, '--volts-per-rad', '20']) == 0
    out = capsys.readouterr().out
    assert 'm1), to compare with: armature 0.02 kg m^2' in out
    assert 'no place here for max_velocity' in out and 'load_friction_base' in out
    servo = load_experiment('bam.yaml').robot.servo
    np.testing.assert_allclose(servo.stiffness, [10.0, 11.0, 10.0, 10.0])
    np.testing.assert_allclose(servo.per_joint('damping', JOINTS), 0.6)


@pytest.mark.parametrize(
    ('values', 'options', 'message'),
    [
        (
            {'actuator': 'erob80_50'},
            ['--volts-per-rad', '20'],
            "actuator 'erob80_50' of bam has no",
        ),
        ({'kt': None}, ['--volts-per-rad', '20'], 'is no parameter file of bam'),
        ({'error_gain_ratio': math.nan}, ['--volts-per-rad', '20'], 'has no gains by kt and R'),
        ({'kt': math.inf}, ['--volts-per-rad', '20'], 'has no gains by kt and R'),
        ({}, [], "'--bam' needs '--volts-per-rad'"),
        ({}, ['--volts-per-rad', '20', '--kp', '3'], "'--bam' is given beside gains"),
    ],
)
def test_files_of_bam_that_give_no_gains_are_named(
    folder, monkeypatch, capsys, values, options, message
):
    monkeypatch.chdir(folder)
    bam_file(folder / 'wrong.json', **values)
    assert main(
        ['init', 'legs.xml', 'log.npz', '--out', 'w.yaml', '--bam', 'wrong.json', *options]
    )
    assert message in capsys.readouterr().err


def test_init_needs_the_step_of_a_target_beside_a_urdf(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / 'legs.urdf').write_text(urdf())
    r = recorded(3.0)
    np.savez('stepless.npz', time=r.time, dof_pos=r.position, des_dof_pos=r.command)
    gains = ['--kp', str(KP), '--out', 'urdf.yaml']
    given = ['init', 'legs.urdf', 'stepless.npz', *gains]
    assert main([*given, '--for', 'mjcf']) != 0
    assert "'--timestep' is missing" in capsys.readouterr().err
    assert main(given) == 0
    assert 'no simulator is named' in capsys.readouterr().out
    assert load_experiment('urdf.yaml').servo_method == 'ols'
    assert main([*given, '--timestep', '0.005', '--force']) == 0
    assert load_experiment('urdf.yaml').servo_method == 'rollout'


def test_the_library_identifies_from_arrays_and_files(folder, monkeypatch):
    monkeypatch.chdir(folder)
    r = recorded(3.0)
    arrays = {'time': r.time, 'position': r.position, 'command': r.command}
    servo = {'stiffness': KP, 'damping': KD, 'bodies': 'given'}
    settings = {'robot': {'effort_kind': 'servo_command', 'joints': JOINTS, 'servo': servo}}
    entry = {'file': 'b.npz', 'time': 't', 'position': 'q', 'command': 'u'}
    result = identify('legs.xml', arrays, validation=entry, settings=settings)
    assert not result.held_out
    assert result.total_error() < 0.3 * result.total_error('nominal')
    saved = save(result, folder / 'saved')
    assert saved.target.name == 'identified.xml' and saved.report.exists()
    with pytest.raises(IdentificationError, match='has no command'):
        identify('legs.xml', {'time': r.time, 'position': r.position}, settings=settings)
