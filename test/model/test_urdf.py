# SPDX-License-Identifier: Apache-2.0
"""Robots that no parser should see are refused in one line that names joint or link."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.errors import ModelError, Omission
from robot_identification.model.link_geometry import read_shapes
from robot_identification.model.robot import Robot
from robot_identification.model.urdf import (
    is_urdf_file,
    MAX_LINKS,
    parse_urdf,
    without_blanks,
)

from fuzz.attacks import chain

URDFS = Path(__file__).resolve().parents[2] / 'urdf'
TEXT = (URDFS / 'zollo_planar_2r.urdf').read_text()


def refusal(text, **named):
    with pytest.raises(ModelError) as caught:
        Robot.from_urdf(text, **named)
    assert '\n' not in str(caught.value)
    return caught.value


@pytest.mark.parametrize('links', [MAX_LINKS + 1, 20_000])
def test_more_links_than_parsers_recurse_over(links):
    assert f'{links} links' in str(refusal(chain(links).decode()))


def test_as_many_links_as_are_allowed():
    assert Robot.from_urdf(chain(MAX_LINKS).decode()).n_joints == 1


def test_more_joints_than_can_be_identified():
    assert '299 joints' in str(refusal(chain(300, 'revolute').decode()))
    names = [f'j{i}' for i in range(3)]
    assert Robot.from_urdf(chain(300, 'revolute').decode(), names).n_joints == 3


@pytest.mark.parametrize(
    'declared',
    [
        '<!DOCTYPE robot>',
        '<!DOCTYPE r [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE r SYSTEM "file:///etc/hostname">',
    ],
)
def test_document_types_and_entities(declared):
    start = TEXT.index('<robot')
    assert 'document type' in str(refusal(declared + TEXT[start:]))
    undeclared = TEXT[start:].replace('<link', '&undeclared;<link', 1)
    assert 'undeclared' in str(refusal(declared + undeclared)) or 'document type' in str(
        refusal(declared + undeclared)
    )
    assert 'undeclared' in str(refusal(undeclared))


def replaced(tag, attribute, value):
    """Change an attribute of the first element of a kind inside a joint or link."""
    from lxml import etree

    document = etree.fromstring(TEXT.encode())
    (element, *_) = document.iterfind(f'.//{tag}')
    element.set(attribute, value)
    return etree.tostring(document, encoding='unicode')


@pytest.mark.parametrize(
    ('tag', 'attribute', 'value', 'words'),
    [
        ('joint/axis', 'xyz', '0 0 0', 'axis of joint .* is zero'),
        ('joint/axis', 'xyz', '0 0 1e-320', 'axis of joint .* is zero'),
        ('joint/axis', 'xyz', '0 nan 1', 'xyz of <axis> of joint'),
        ('joint/axis', 'xyz', '1e308 1e308 1e308', 'xyz of <axis> of joint'),
        ('joint/axis', 'xyz', '1 0', 'xyz of <axis> of joint'),
        ('inertial/mass', 'value', '1e308', "value of <mass> of link .* is '1e308'"),
        ('inertial/mass', 'value', 'nan', 'value of <mass> of link'),
        ('inertial/inertia', 'ixx', '-1e300', 'ixx of <inertia> of link'),
        ('inertial/origin', 'xyz', '0 1e308 0', 'xyz of <origin> of link'),
        ('inertial/mass', 'value', '1' * 200_000, 'value of <mass> of link'),
    ],
)
def test_numbers_that_no_link_has(tag, attribute, value, words):
    error = refusal(replaced(tag, attribute, value))
    assert len(str(error)) < 500
    assert error.joint or error.link
    with pytest.raises(ModelError, match=words):
        raise error


@pytest.mark.parametrize('gravity', [(0.0, 0.0, 1e308), (0.0, 0.0, -np.inf), (np.nan, 0.0, 0.0)])
def test_gravities_that_no_place_has(gravity):
    assert 'three finite numbers' in str(refusal(TEXT, gravity=gravity))


def test_huge_limits_count_as_none():
    text = TEXT.replace('upper="', 'upper="1e308" x="').replace('lower="', 'lower="-1e300" y="')
    limits = Robot.from_urdf(text).limits
    assert np.isposinf(limits.upper).all() and np.isneginf(limits.lower).all()


@pytest.mark.parametrize(
    ('old', 'new', 'words'),
    [
        ('<parent link="link_1"', '<parent link="link_2"', "joint 'joint_2' .* one tree"),
        ('mass value="', 'mass value="x', "value of <mass> of link 'link_1' .* is 'x"),
        ('izz="', 'izz="1e400', "izz of <inertia> of link 'link_1'"),
        ('izz="', 'i="', "izz of <inertia> of link 'link_1' .* is ''"),
        ('<mass ', '<weight ', "link 'link_1' .* has no <mass>"),
    ],
)
def test_a_broken_robot_is_refused_with_its_culprit(old, new, words):
    assert old in TEXT
    with pytest.raises(ModelError, match=words):
        Robot.from_urdf(TEXT.replace(old, new))


SMALL = """<?xml version="1.0" encoding="ISO-8859-1"?>
<robot name="small"><link name="tip"/><link name="base"/>
  <link name="arm"><inertial><origin xyz="1 2 3"/><mass value="4"/>
    <inertia ixx="5" ixy="0.1" ixz="0.2" iyy="6" iyz="0.3" izz="7"/></inertial></link>
  <joint name="lift" type="prismatic"><parent link="base"/><child link="arm"/>
    <origin xyz="0 0 1" rpy="0.1 0 0"/><axis xyz="0 0 2"/>
    <limit lower="-1" velocity="0" effort="1e12"/><dynamics damping="3" friction="0.5"/></joint>
  <joint name="turn" type="continuous"><parent link="arm"/><child link="tip"/>
    <limit lower="-1" upper="1" velocity="2" effort="9"/>
    <mimic joint="lift" multiplier="-2"/></joint>
  <ros2_control name="café"><joint name="lift"/></ros2_control>
</robot>"""


def test_contents_are_typed_and_in_the_order_of_the_document():
    found = parse_urdf(SMALL)
    assert found.name == 'small'
    assert list(found.links) == ['tip', 'base', 'arm']
    assert found.root_link == 'base'
    assert list(found.moving) == list(found.joints) == ['lift', 'turn']
    assert found.links['tip'] is None
    body = found.links['arm']
    assert (body.mass, *body.xyz, *body.rpy) == (4, 1, 2, 3, 0, 0, 0)
    assert body.inertia.tolist() == [[5, 0.1, 0.2], [0.1, 6, 0.3], [0.2, 0.3, 7]]
    lift, turn = found.joints.values()
    assert (lift.type, lift.parent, lift.child) == ('prismatic', 'base', 'arm')
    assert (*lift.xyz, *lift.rpy, *lift.axis) == (0, 0, 1, 0.1, 0, 0, 0, 0, 1)
    assert (lift.damping, lift.friction, lift.mimic) == (3, 0.5, None)
    # a bound that is missing, a velocity of 0 and an effort beyond all are no limits
    assert (lift.lower, lift.upper, lift.velocity, lift.effort) == (-1, *[np.inf] * 3)
    assert (turn.lower, turn.upper, turn.velocity, turn.effort) == (-np.inf, np.inf, 2, 9)
    assert (turn.mimic.joint, turn.mimic.multiplier, turn.mimic.offset) == ('lift', -2, 0)
    assert turn.axis.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ('content', 'is_one'),
    [
        (SMALL.encode('latin-1'), True),
        (b'\xef\xbb\xbf<robot name="r"/>', True),
        (b'<!-- a --><robot xmlns:xacro="x"/>', True),
        (b'<robot><link', True),
        (b'<sdf><robot/></sdf>', False),
        (b'<!-- <robot/> -->', False),
        (b'robot', False),
        (b'', False),
    ],
)
def test_files_are_known_by_their_first_element(tmp_path, content, is_one):
    path = tmp_path / 'file'
    path.write_bytes(content)
    assert is_urdf_file(path) == is_one


@pytest.mark.parametrize(
    ('old', 'words'),
    [
        ('<parent link="base"/>', "joint 'lift' in URDF has no <parent"),
        (' link="arm"/><child', "joint 'turn' in URDF has no <parent"),
        ('<mass value="4"/>', "link 'arm' in URDF has no <mass>"),
    ],
)
def test_what_is_missing_is_named(old, words):
    assert old in SMALL
    with pytest.raises(ModelError, match=words):
        parse_urdf(SMALL.replace(old, '/><child' if 'child' in old else ''))


ONE = """<robot name="one"><link name="base"/><link name="a"><inertial>
<origin xyz="0.1 0 0" rpy="0 0 0"/><mass value="2"/>
<inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="{kind}"><parent link="base"/><child link="a"/>
<origin xyz="0 0 0.5" rpy="0 0 0"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


@pytest.mark.parametrize(
    ('plain', 'blank', 'owner'),
    [
        ('value="2"', 'value="2 "', "link 'a'"),
        ('value="2"', "value='2\t'", "link 'a'"),
        ('ixx="0.01"', 'ixx="0.01\n"', "link 'a'"),
        ('xyz="0.1 0 0"', 'xyz="0.1\t0\t0"', "link 'a'"),
        ('xyz="0 0 0.5"', 'xyz="0 0\n0.5"', "joint 'j'"),
        ('lower="-1"', 'lower="-1 "', "joint 'j'"),
    ],
)
def test_blanks_that_urdfdom_does_not_take_are_read_and_told(plain, blank, owner):
    text = ONE.format(kind='revolute')
    assert plain in text
    expected = Robot.from_urdf(text)
    with pytest.warns(Omission, match=f'blanks behind the numbers of {owner}'):
        robot = Robot.from_urdf(text.replace(plain, blank))
    np.testing.assert_array_equal(robot.prior.values, expected.prior.values)
    assert robot.limits.lower[0] == -1.0
    # the parser itself leaves mass or inertia out, or refuses the joint
    try:
        model = pin.buildModelFromXML(text.replace(plain, blank))
        assert not model.inertias[1].isApprox(expected.model.inertias[1])
    except ValueError:
        pass


@pytest.mark.parametrize('given', ['xyz="0.1  0 0"', 'xyz=" 0.1 0 0 "'])
def test_blanks_that_urdfdom_takes_stay_as_they_are(given):
    text = ONE.format(kind='revolute').replace('xyz="0.1 0 0"', given)
    assert without_blanks(text) == (text, ())
    assert pin.buildModelFromXML(text).inertias[1].mass == 2.0


def test_one_ball_for_all_links_says_nothing_of_their_masses():
    text = chain(4, 'revolute').decode()
    names = ['j0', 'j1', 'j2']
    with pytest.warns(Omission, match='keep its values, and no mass is compared with it'):
        assert Robot.from_urdf(text, names).bodies_alike
    assert not Robot.from_urdf(text, names[:2]).bodies_alike
    head, body, rest = text.partition('<link name="l2">')
    other = head + body + rest.replace('<mass value="1"/>', '<mass value="2"/>', 1)
    assert not Robot.from_urdf(other, names).bodies_alike


def test_placeholders_rounded_angles_and_floating_bases_are_told():
    text = ONE.format(kind='revolute')
    dummy = text.replace('ixx="0.01" iyy="0.02" izz="0.02"', 'ixx="0.1" iyy="0.1" izz="0.1"')
    with pytest.warns(Omission, match='placeholder in <inertial> .equal moments.: a;'):
        Robot.from_urdf(dummy)
    rounded = text.replace('xyz="0 0 0.5" rpy="0 0 0"', 'xyz="0 0 0.5" rpy="1.5708 0 0"')
    with pytest.warns(Omission, match='rounded angles .* in the origins of j'):
        Robot.from_urdf(rounded)
    exact = rounded.replace('1.5708', '1.5707963267948966')
    assert not Robot.from_urdf(exact).warnings and not Robot.from_urdf(text).warnings
    floating = text.replace(
        '</robot>',
        '<link name="world"/><joint name="free" type="floating"><parent link="world"/>'
        '<child link="base"/></joint></robot>',
    )
    with pytest.warns(Omission, match='held still although they are floating: free'):
        Robot.from_urdf(floating, ['j'])


def test_attributes_of_an_element_are_bounded():
    """URDF readers search all attributes for each: 100,000 of them took minutes."""
    text = (Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf').read_text()
    many = ' '.join(f'a{i}="1"' for i in range(100_000))
    crowded = text.replace('<link name="base_link"', f'<link name="base_link" {many}', 1)
    with pytest.raises(ModelError, match='has 10000[01] attributes in one <link>'):
        Robot.from_urdf(crowded)


def test_a_joint_is_locked_where_another_ones_link_has_its_name():
    text = (URDFS / 'szabo_3r.urdf').read_text()
    plain = Robot.from_urdf(text, ['joint_1', 'joint_2'], locked={'joint_3': 0.4})
    text = text.replace('"link_1"', '"joint_3"')
    named = Robot.from_urdf(text, ['joint_1', 'joint_2'], locked={'joint_3': 0.4})
    assert named.links == ('joint_3', 'link_2') and set(named.links) < set(named.link_frames)
    np.testing.assert_array_equal(named.prior.values, plain.prior.values)
    assert read_shapes(named).geometry.ngeoms == read_shapes(plain).geometry.ngeoms
