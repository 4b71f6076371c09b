# SPDX-License-Identifier: Apache-2.0
"""A tool from files: tables and bags, the command, its file and its exports."""

import importlib.util
from pathlib import Path
import re
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from robot_identification.cli import main
from robot_identification.config.wrenches import _with_wrenches
from robot_identification.data.bag_writer import BagWriter, Topic
from robot_identification.data.recording import Table
from robot_identification.model.robot import Robot
import yaml

PLACE = Path(__file__).parents[1] / 'loads' / 'test_tool.py'
SPEC = importlib.util.spec_from_file_location('tool_wrenches', PLACE)
wrenches = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wrenches)
JOINTS = [f'joint_{i}' for i in range(1, 7)]
FILE = """\
robot: {urdf: arm.urdf, effort_kind: joint_torque}
data:
  tool:
    recordings:
      - %s
    frame: sensor
signals: {cutoff: 10.0, decimate_to: 50.0}
"""
TABLE = (
    '{file: run.csv, time: t, position: [q1, q2, q3, q4, q5, q6], '
    'effort: [fx, fy, fz, tx, ty, tz]}'
)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Give a folder with a URDF and a table of joint states and wrenches."""
    folder = tmp_path_factory.mktemp('tool')
    text = wrenches.URDF.read_text().replace('</robot>', wrenches.SENSOR)
    (folder / 'arm.urdf').write_text(text)
    run = wrenches.recording(Robot.from_urdf(text), 1)
    n = len(JOINTS)
    table = np.column_stack([run.time, run.position[:, :n], run.effort[:, n:]])
    names = ['t', *(f'q{i + 1}' for i in range(n)), 'fx', 'fy', 'fz', 'tx', 'ty', 'tz']
    np.savetxt(folder / 'run.csv', table, delimiter=',', header=','.join(names), comments='')
    (folder / 'experiment.yaml').write_text(FILE % TABLE)
    return folder


def test_the_command_prints_and_writes_it(folder, capsys):
    command = ['tool', str(folder / 'experiment.yaml'), '--out', str(folder)]
    assert main(command) == 0
    brief = capsys.readouterr().out
    assert brief.startswith('Good for gravity compensation and dynamics: ')
    assert len(brief.splitlines()) <= 7 and '--format gravity' in brief
    assert main([*command, '--verbose']) == 0
    printed = capsys.readouterr().out
    assert (
        'offsets of the sensor' in printed
        and 'Good for gravity compensation and dynamics' in printed
    )
    assert f'wrote {folder / "tool.yaml"}' in printed
    document = yaml.safe_load((folder / 'tool.yaml').read_text())
    for key in ('level', 'sentence'):
        assert document['verdict'][key] == document['tool'][key]
    assert document['verdict']['uses'] == ['gravity_compensation', 'dynamics']
    assert document['payload']['body']['mass'] == pytest.approx(1.2, rel=0.01)
    np.testing.assert_allclose(document['tool']['offset'], wrenches.OFFSET, atol=0.1)

    def exported(name, *more):
        assert main(['export', str(folder / 'tool.yaml'), '--format', name, *more]) == 0
        return capsys.readouterr().out

    assert exported('ur', '--frame', 'link_6').splitlines()[1].startswith('set_target_payload(1.')
    parameters = yaml.safe_load(exported('gravity'))
    chain = parameters['sensor_filter_chain']['params']
    mass, centre = 1.2, wrenches.TOOL.lever
    np.testing.assert_allclose(chain['CoG']['force'], [0.0, 0.0, -9.81 * mass], rtol=0.01)
    np.testing.assert_allclose(chain['tool']['pos'], centre, atol=2e-3)
    assert chain['tool']['mass'] == pytest.approx(mass, rel=0.01)
    assert (chain['sensor_frame'], chain['world_frame']) == ('sensor', 'base_link')
    gravity = parameters['gravity_compensation']
    assert gravity['CoG']['force'] == pytest.approx(9.81 * mass, rel=0.01)
    link = exported('urdf_link')
    text = (folder / 'arm.urdf').read_text().replace('</robot>', link + '</robot>')
    ET.fromstring(text)
    lumped, bare = Robot.from_urdf(text), Robot.from_urdf(folder / 'arm.urdf')
    more = lumped.prior['link_6.m'] - bare.prior['link_6.m']
    assert more == pytest.approx(mass, rel=0.01)
    assert main(['export', str(folder / 'tool.yaml'), '--format', 'mjcf']) != 0
    assert "'mjcf' is no format of an export of a tool" in capsys.readouterr().err


def test_the_snippets_of_the_page_run(folder, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / 'docs' / 'how_to' / 'tool.md').read_text()
    settings, python = (
        re.search(rf'```{kind}\n(.*?)```', page, re.DOTALL)[1] for kind in ('yaml', 'python')
    )
    for name in ('arm.urdf', 'run.csv'):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / 'experiment.yaml').write_text(settings)
    monkeypatch.chdir(tmp_path)
    exec(compile(python, 'tool.md', 'exec'), {})
    assert capsys.readouterr().out.startswith('Good for gravity compensation')


def cdr_wrench(stamp, wrench):
    header = struct.pack('<iI', stamp // 10**9, stamp % 10**9) + struct.pack('<I7s', 7, b'sensor')
    return (
        b'\x00\x01\x00\x00' + header + b'\x00' * (-len(header) % 8) + struct.pack('<6d', *wrench)
    )


def cdr_states(stamp, position):
    data = struct.pack('<iI', stamp // 10**9, stamp % 10**9) + struct.pack('<I1s', 1, b'')
    data += b'\x00' * (-len(data) % 4) + struct.pack('<I', len(JOINTS))
    for name in JOINTS:
        data += struct.pack(f'<I{len(name) + 1}s', len(name) + 1, name.encode())
        data += b'\x00' * (-len(data) % 4)
    data += struct.pack('<I', len(position))
    data += b'\x00' * (-len(data) % 8) + struct.pack(f'<{len(position)}d', *position)
    return b'\x00\x01\x00\x00' + data + struct.pack('<II', 0, 0)


def test_bags_have_wrenches_with_stamps_of_their_own(folder, capsys):
    table = np.loadtxt(folder / 'run.csv', delimiter=',', skiprows=1)
    topic = '/wrench'
    topics = [
        Topic('/joint_states', 'sensor_msgs/msg/JointState'),
        Topic(topic, 'geometry_msgs/msg/WrenchStamped'),
    ]
    start = 1_700_000_000_000_000_000
    with BagWriter(folder / 'bag', topics) as writer:
        for row in table:
            stamp = start + int(row[0] * 1e9)
            writer.write(0, stamp, cdr_states(stamp, row[1:7]), publish_time=stamp)
            stamp += 500_000
            writer.write(1, stamp, cdr_wrench(stamp, row[7:]), publish_time=stamp)
    (folder / 'bag.yaml').write_text(FILE % '{file: bag}')
    arguments = ['tool', str(folder / 'bag.yaml'), '--out', str(folder / 'of_bag')]
    assert main([*arguments, '--set', f'data.tool.topic={topic}']) == 0
    document = yaml.safe_load((folder / 'of_bag' / 'tool.yaml').read_text())
    assert document['payload']['body']['mass'] == pytest.approx(1.2, rel=0.02)
    assert 'data.tool.frame' not in capsys.readouterr().err
    assert main(arguments) != 0
    assert 'force_torque_sensor_broadcaster' in capsys.readouterr().err
    other = ['--set', f'data.tool.topic={topic}', '--set', 'data.tool.frame=link_6']
    assert main([*arguments, *other]) == 0
    printed = capsys.readouterr()
    assert "in the frame 'sensor', and are taken for those in 'link_6'" in printed.err
    assert 'another frame (data.tool.frame)' in printed.out
    made = str(folder / 'of_bag' / 'tool.yaml')
    assert main(['export', made, '--format', 'ur']) == 0
    assert '# verdict: Do not use: ' in capsys.readouterr().out
    assert main(['limits', made]) == 2
    assert 'is the file of a tool' in capsys.readouterr().err
    draft = ['init', str(folder / 'arm.urdf'), str(folder / 'bag'), '--tool']
    assert main([*draft, '-o', str(folder / 'draft.yaml')]) == 0
    assert yaml.safe_load((folder / 'draft.yaml').read_text())['data']['tool']['frame'] == 'sensor'


def test_no_wrenches_are_made_up_in_a_gap():
    time = np.linspace(0.0, 1.0, 101)
    stamps = (1e9 * time[(time < 0.3) | (time > 0.7)]).astype(int)
    table = Table(np.arange(101), time, time[:, None], None, np.zeros((101, 0)), {})
    (rows,) = _with_wrenches(table, stamps, np.tile(1e-9 * stamps[:, None], 6))
    assert not ((rows.time > 0.3) & (rows.time < 0.7)).any() and rows.time.size > 55
    np.testing.assert_allclose(rows.effort[:, 0], rows.time)


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        ('tx, ty, tz', 'tx, ty', 'data.tool.recordings[0].effort'),
        ('run.csv', 'absent.csv', 'does not exist'),
        ('frame: sensor', 'frame: hand', "no link 'hand'"),
        ('tool:', 'payload:', "'data.tool' is missing"),
    ],
)
def test_what_is_wrong_is_named(folder, capsys, old, new, message):
    (folder / 'wrong.yaml').write_text((FILE % TABLE).replace(old, new))
    assert main(['tool', str(folder / 'wrong.yaml'), '--out', str(folder / 'wrong')]) != 0
    assert message in capsys.readouterr().err
