# SPDX-License-Identifier: Apache-2.0
"""An arm with joints that mimic others: a chain, another branch, before and behind masters."""

import warnings

from robot_identification.errors import IdentificationWarning
from robot_identification.model.robot import Robot

LINK = (
    '<link name="of_{0}"><inertial><origin xyz="{1}"/><mass value="{2}"/><inertia ixx="0.011" '
    'iyy="0.013" izz="0.009" ixy="0.001" ixz="0.002" iyz="-0.001"/></inertial><collision>'
    '<geometry><sphere radius="0.02"/></geometry></collision></link>'
)
JOINT = (
    '<joint name="{0}" type="{1}"><parent link="{2}"/><child link="of_{0}"/><origin xyz="{3}" '
    'rpy="0.1 0.3 -0.2"/><axis xyz="{4}"/><limit lower="-9" upper="9" velocity="2" effort="20"/>'
    '<dynamics damping="0.1" friction="0.2"/>{5}</joint>'
)
MIMIC = '<mimic joint="{}" multiplier="{}" offset="{}"/>'
JOINTS = (
    # name, type, parent, origin, axis, mimic; centre and mass of its link
    ('turn', 'revolute', 'base', '0 0 .1', '0 0 1', '', '.1 0 .02', 2.0),
    ('lift', 'continuous', 'of_turn', '.1 0 .1', '0 1 0', '', '.2 .01 0', 1.5),
    # before its master in the tree and in another branch
    ('lever', 'continuous', 'of_turn', '.3 .1 .1', '0 1 0', ('lift', 2.0, -1.0), '.1 0 0', 0.4),
    ('grip', 'revolute', 'of_lift', '.3 0 .1', '1 0 0', '', '0 .03 .05', 0.3),
    # behind its master, and a chain: a joint that mimics one that mimics
    ('tip', 'revolute', 'of_grip', '0 0 .1', '1 1 0', ('grip', 1.3, 0.2), '.01 .03 .05', 0.2),
    ('slide', 'prismatic', 'of_lift', '.3 .1 .1', '0 1 0', ('tip', -0.5, 0.01), '0 0 .05', 0.35),
    ('end', 'continuous', 'of_slide', '.3 .1 .1', '0 1 0', ('grip', -1.0, 0.0), '0 .1 0', 0.1),
)
FOLLOWED = {  # by hand: master, multiplier, offset
    'lever': ('lift', 2.0, -1.0),
    'tip': ('grip', 1.3, 0.2),
    'slide': ('grip', -0.65, -0.09),
    'end': ('grip', -1.0, 0.0),
}
ORDER = ('grip', 'turn', 'lift')


def urdf(joints=JOINTS):
    text = '<robot name="gripper"><link name="base"/>'
    for name, kind, parent, origin, axis, mimic, centre, mass in joints:
        follows = MIMIC.format(*mimic) if mimic else ''
        text += LINK.format(name, centre, mass)
        text += JOINT.format(name, kind, parent, origin, axis, follows)
    return text + '</robot>'


def gripper(joints=ORDER, text=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        return Robot.from_urdf(text or urdf(), joints, **settings)
