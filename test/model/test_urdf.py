# SPDX-License-Identifier: Apache-2.0
"""Robots that no parser should see are refused in one line that names joint or link."""

from pathlib import Path

import numpy as np
import pytest
from robot_identification.errors import ModelError
from robot_identification.model.robot import Robot
from robot_identification.model.urdf import MAX_LINKS

from fuzz.attacks import chain

TEXT = (Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf').read_text()


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
