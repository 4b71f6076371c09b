# SPDX-License-Identifier: Apache-2.0
"""URDF documents that a parser takes, or drops in part, and that no robot can be made from."""

from pathlib import Path

import pytest
from robot_identification.errors import ModelError
from robot_identification.model.robot import Robot

TEXT = Path(__file__).resolve().parents[2].joinpath('urdf', 'zollo_planar_2r.urdf').read_text()


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
