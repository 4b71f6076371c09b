# SPDX-License-Identifier: Apache-2.0
"""MoveIt's files for a plan: groups and pairs of an SRDF, obstacles of a scene."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.cli.main import main
from robot_identification.errors import IdentificationWarning, ModelError, SettingsError
from robot_identification.excitation.collisions import planned_collisions
from robot_identification.excitation.moveit import read_scene, read_srdf, with_moveit
from robot_identification.excitation.planning_settings import PlanningSettings
from robot_identification.model.robot import Robot
from robot_identification.model.urdf import parse_urdf

URDF = Path(__file__).parents[2] / 'urdf' / 'demo_arm.urdf'
SRDF = """\
<robot name="demo_arm">
  <group name="wrist"><joint name="joint_5"/><joint name="joint_6"/></group>
  <group name="arm"><chain base_link="base_link" tip_link="link_4"/><group name="wrist"/></group>
  <group name="shoulder"><link name="link_1"/><link name="link_2"/></group>
  <group name="bare"/>
  <group name="round"><group name="round"/></group>
  <group name="torn"><chain base_link="link_4" tip_link="link_1"/></group>
  <disable_collisions link1="link_1" link2="link_3" reason="Never"/>
  <disable_collisions link1="link_6" link2="link_2" reason="User"/>
  <disable_collisions link1="finger" link2="link_2" reason="User"/>
</robot>"""
OLD = """\
my scene
* table
1
box
0.5 0.6 0.7
1 2 3
0 0 0.7071067811865476 0.7071067811865476
0 0 0 0
* two
2
sphere
0.1
0 0 1
0 0 0 1
0.5 0.5 0.5 1
cylinder
0.05 0.4
0 1 1
0 0 0 1
0 0 0 0
.
"""
NEW = """\
(noname)+
* table
1 2 0
0 0 0.7071067811865476 0.7071067811865476
1
box
0.5 0.6 0.7
0 0 3
0 0 0 1
0 0 0 0
1
corner
0.1 0.1 0.1
0 0 0 1
* rock
0 0 1
0 0 0 1
1
mesh
4 1
0 0 0
2 0 0
0 1 0
0 0 0.5
0 1 2
5 0 0
0 0 0 1
0 0 0 0
0
* wall
0 0 0.2
0 0 0 1
1
plane
0 0 2 -1
0 0 0
0 0 0 1
0 0 0 0
0
.
"""


@pytest.fixture
def srdf(tmp_path):
    path = tmp_path / 'demo_arm.srdf'
    path.write_text(SRDF)
    return path


def test_groups_are_their_moving_joints(srdf):
    found, urdf = read_srdf(srdf), parse_urdf(URDF.read_text())
    assert found.joints('arm', urdf) == tuple(f'joint_{i}' for i in range(1, 7))
    assert found.joints('wrist', urdf) == ('joint_5', 'joint_6')
    assert found.joints('shoulder', urdf) == ('joint_1', 'joint_2')
    for group, kind, words in (
        ('legs', SettingsError, "no planning group 'legs'"),
        ('bare', SettingsError, 'no moving joint'),
        ('round', SettingsError, 'part of itself'),
        ('torn', ModelError, "'link_1' does not hang on 'link_4'"),
    ):
        with pytest.raises(kind, match=words):
            found.joints(group, urdf)


def test_joints_and_links_that_the_urdf_has_not_are_named(srdf):
    urdf, text = parse_urdf(URDF.read_text()), srdf.read_text()
    virtual = (
        '<virtual_joint name="joint_9" type="fixed" parent_frame="w" child_link="base_link"/>'
    )
    for part in ('<joint name="joint_9"/>', '<link name="link_9"/>'):
        group = f'<group name="typo">{part}<joint name="joint_1"/></group></robot>'
        srdf.write_text(text.replace('</robot>', group))
        with pytest.raises(ModelError, match=f'the URDF has no {part[1:6].strip()} .*_9'):
            read_srdf(srdf).joints('typo', urdf)
    srdf.write_text(srdf.read_text().replace('<link name="link_9"/>', '<joint name="joint_9"/>'))
    srdf.write_text(srdf.read_text().replace('</robot>', virtual + '</robot>'))
    assert read_srdf(srdf).joints('typo', urdf) == ('joint_1',)


def test_an_srdf_may_be_a_xacro_file(srdf, tmp_path):
    text = srdf.read_text().replace(
        '<robot ', '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" '
    )
    text = text.replace('name="arm"', 'name="${prefix}arm"')
    text = text.replace('<group', '<xacro:property name="prefix" value="left_"/><group', 1)
    path = tmp_path / 'arm.srdf.xacro'
    path.write_text(text)
    assert 'left_arm' in read_srdf(path).groups


def test_a_file_without_groups_and_pairs_is_refused():
    with pytest.raises(ModelError, match='is no SRDF'):
        read_srdf(URDF)


def test_a_circle_of_joints_ends(srdf):
    urdf = parse_urdf(
        '<robot name="r"><link name="a"/><link name="b"/>'
        '<joint name="p" type="fixed"><parent link="a"/><child link="b"/></joint>'
        '<joint name="q" type="fixed"><parent link="b"/><child link="a"/></joint></robot>'
    )
    path = srdf.with_name('circle.srdf')
    path.write_text(
        '<robot name="r"><group name="g"><chain base_link="c" tip_link="b"/></group></robot>'
    )
    with pytest.raises(ModelError, match='does not hang'):
        read_srdf(path).joints('g', urdf)


def test_pairs_that_are_disabled_are_not_checked_and_counted(srdf):
    robot = Robot.from_urdf(URDF)
    plain = planned_collisions(robot, PlanningSettings().planner)
    planner = with_moveit(PlanningSettings(), srdf).planner
    with pytest.warns(IdentificationWarning, match='links that the robot has not: finger$'):
        model = planned_collisions(robot, planner)
    gone = {frozenset(pair) for pair in plain.pairs} - {frozenset(pair) for pair in model.pairs}
    assert gone == {frozenset(('link_1', 'link_3')), frozenset(('link_2', 'link_6'))}
    assert model.coverage.allowed == len(plain.pairs) - len(model.pairs) > 0
    assert f'{model.coverage.allowed} allowed to touch' in model.coverage.summary()
    assert model.coverage.steady == plain.coverage.steady


@pytest.mark.parametrize('text', [OLD, NEW])
def test_a_box_is_where_the_scene_has_it(text, tmp_path):
    path = tmp_path / 'my.scene'
    path.write_text(text)
    table = read_scene(path)[0]
    assert (table.name, table.kind, table.size) == ('table', 'box', (0.5, 0.6, 0.7))
    np.testing.assert_allclose(table.position, (1.0, 2.0, 3.0), atol=1e-12)
    np.testing.assert_allclose(table.orientation, (0.0, 0.0, np.pi / 2), atol=1e-9)


def test_other_shapes(tmp_path):
    path = tmp_path / 'my.scene'
    path.write_text(OLD)
    _, ball, post = read_scene(path)
    assert (ball.name, ball.kind, ball.size) == ('two_1', 'sphere', (0.1,))
    assert (post.name, post.kind, post.size) == ('two_2', 'cylinder', (0.05, 0.4))
    path.write_text(NEW)
    _, rock, wall = read_scene(path)
    assert rock.kind == 'box' and rock.size == (2.0, 1.0, 0.5)
    np.testing.assert_allclose(rock.position, (6.0, 0.5, 1.25))
    assert wall.kind == 'plane'
    np.testing.assert_allclose(wall.direction, (0.0, 0.0, 1.0))
    assert wall.offset == pytest.approx(0.7)  # 2 z - 1 = 0, raised by 0.2


@pytest.mark.parametrize(
    ('old', 'new', 'words'),
    [
        ('box', 'octree', "line 4: 'octree' is no shape"),
        ('0.5 0.6 0.7', '0.5 0.6', "line 5: '0.5 0.6' in place of 3 numbers"),
        ('0.5 0.6 0.7', '0.5 nan 0.7', 'in place of 3 numbers'),
        ('* two\n2', '* two\n9', 'line 21'),
        ('.\n', '', "ends before '.'"),
        ('* table', 'table', r"line 2: 'table' in place of '\* name'"),
    ],
)
def test_what_is_no_scene_is_named(old, new, words, tmp_path):
    path = tmp_path / 'my.scene'
    path.write_text(OLD.replace(old, new, 1) if old != '.\n' else OLD.removesuffix('.\n'))
    with pytest.raises(SettingsError, match=words):
        read_scene(path)


MESSAGE = """\
scene:
  world:
    collision_objects:
    - header: {frame_id: world}
      id: table
      pose:
        position: {x: 1.0, y: 2.0, z: 0.0}
        orientation: {x: 0.0, y: 0.0, z: 0.7071067811865476, w: 0.7071067811865476}
      primitives:
      - {type: 1, dimensions: [0.5, 0.6, 0.7]}
      primitive_poses:
      - position: {x: 0.0, y: 0.0, z: 3.0}
        orientation: {x: 0.0, y: 0.0, z: 0.0, w: 0.0}
    - header: {frame_id: world}
      id: two
      primitives:
      - {type: 3, dimensions: [0.4, 0.05]}
      meshes:
      - triangles: []
        vertices: [{x: 0, y: 0, z: 0}, {x: 2, y: 0, z: 0}, {x: 0, y: 1, z: 0.5}]
      mesh_poses:
      - position: {x: 5.0, y: 0.0, z: 1.0}
        orientation: {x: 0.0, y: 0.0, z: 0.0, w: 1.0}
    - header: {frame_id: world}
      id: wall
      planes:
      - coef: [0.0, 0.0, 2.0, -1.0]
      plane_poses:
      - position: {x: 0.0, y: 0.0, z: 0.2}
        orientation: {x: 0.0, y: 0.0, z: 0.0, w: 1.0}
  robot_state:
    attached_collision_objects:
    - link_name: link_6
      object:
        header: {frame_id: link_6}
        id: tool
        primitives:
        - {type: 2, dimensions: [0.1]}
        primitive_poses:
        - position: {x: 0.0, y: 0.0, z: 0.15}
          orientation: {x: 0.0, y: 0.0, z: 0.0, w: 1.0}
---
"""


def test_a_message_has_the_same_obstacles(tmp_path):
    path = tmp_path / 'scene.yaml'
    path.write_text(MESSAGE)
    table, post, rock, wall, tool = read_scene(path)
    (tmp_path / 'my.scene').write_text(NEW)
    as_text = read_scene(tmp_path / 'my.scene')
    assert table == as_text[0]
    assert (post.name, post.kind, post.size) == ('two_1', 'cylinder', (0.05, 0.4))
    assert (rock.name, rock.size, rock.position) == ('two_2', *[
        getattr(as_text[1], name) for name in ('size', 'position')])  # fmt: skip
    assert wall == as_text[2]
    assert (tool.kind, tool.link, tool.position) == ('sphere', 'link_6', (0.0, 0.0, 0.15))


@pytest.mark.parametrize(
    ('old', 'new', 'words'),
    [
        ('world:', 'earth:', "it has no 'world'"),
        ('  world:', '  is_diff: true\n  world:', 'what changed alone'),
        ('  world:', '  world:\n    octomap: {octomap: {data: [1, 2]}}', 'has an octomap'),
        ('frame_id: world', 'frame_id: map', 'in the frames map, world'),
        ('type: 1', 'type: 9', "object 'table': primitive 0 cannot be read"),
        (
            '    collision_objects:',
            '    collision_objects: <2>\n    x:',
            "'world.collision_objects' is",
        ),
        (
            '      primitives:',
            '      primitives: <1>\n      x:',
            "object 'table': 'primitives' is no list",
        ),
        ('      primitives:', '      x:', "object 'table': it has no shapes"),
        ('[0.5, 0.6, 0.7]', '[0.5, 0.6]', "object 'table': primitive 0"),
        ('[0.4, 0.05]', "[0.4, '...']", "object 'two': primitive 0"),
        ('[0.4, 0.05]', '[0.4, .nan]', "object 'two': primitive 0"),
        ('z: 3.0}', 'z: high}', "object 'table': a pose cannot be read"),
        ('frame_id: link_6', 'frame_id: world', "attached to link 'link_6' in frame 'world'"),
        ('scene:', 'scene: {', 'scene.yaml'),
    ],
)
def test_what_is_no_message_of_a_scene_is_named(old, new, words, tmp_path):
    path = tmp_path / 'scene.yaml'
    path.write_text(MESSAGE.replace(old, new, 1))
    with pytest.raises(SettingsError, match=words):
        read_scene(path)


def test_a_plan_moves_the_group_among_the_obstacles(srdf, tmp_path, capsys):
    (tmp_path / 'my.scene').write_text(OLD)
    words = ['plan', str(URDF), '--srdf', str(srdf), '--group', 'wrist', '--duration', '5']
    words += ['--scene', str(tmp_path / 'my.scene'), '--set', 'planner.max_iterations=5']
    assert main([*words, '--out', str(tmp_path / 'plan')]) == 0
    printed = capsys.readouterr().out
    assert 'joint_5' in printed and 'joint_1 ' not in printed and 'allowed to touch' in printed
    text = (tmp_path / 'plan' / 'plan.yaml').read_text()
    assert 'two_2' in text and 'link_6 link_2' in text
    assert main([*words[:2], '--group', 'wrist', '--out', str(tmp_path / 'other')]) != 0
    assert 'without an SRDF' in capsys.readouterr().err
