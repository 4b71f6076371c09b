# SPDX-License-Identifier: Apache-2.0
"""
Default plans of the arms of example-robot-data, as their URDFs are.

    .venv/bin/python -m benchmarks all_arms
"""

from __future__ import annotations

from multiprocessing import get_context
import os
import re
import time
import warnings

import numpy as np
import pinocchio as pin
from robot_identification.errors import IdentificationError
from robot_identification.excitation import plan
from robot_identification.model.robot import Robot

from .excitation import FETCHED
from .harness import Figure, Section, Table

SECONDS = 60.0
"""Processor time that a plan may take [s]."""

_UR = '.*'
_PR2 = '(shoulder_pan|shoulder_lift|upper_arm_roll|elbow_flex|forearm_roll|wrist_flex|wrist_roll)'
_ICUB = '(shoulder_pitch|shoulder_roll|shoulder_yaw|elbow|wrist_prosup|wrist_pitch|wrist_yaw)'
_G1 = '(shoulder_pitch|shoulder_roll|shoulder_yaw|elbow|wrist_roll|wrist_pitch|wrist_yaw)'

ARMS = {
    'UR10': ('ur_description/urdf/ur10_robot.urdf', _UR),
    'UR10, limited': ('ur_description/urdf/ur10_joint_limited_robot.urdf', _UR),
    'UR5': ('ur_description/urdf/ur5_robot.urdf', _UR),
    'UR5, limited': ('ur_description/urdf/ur5_joint_limited_robot.urdf', _UR),
    'UR5 with gripper': ('ur_description/urdf/ur5_gripper.urdf', _UR),
    'UR3': ('ur_description/urdf/ur3_robot.urdf', _UR),
    'UR3, limited': ('ur_description/urdf/ur3_joint_limited_robot.urdf', _UR),
    'UR3 with gripper': ('ur_description/urdf/ur3_gripper.urdf', _UR),
    'Panda': ('panda_description/urdf/panda.urdf', 'panda_joint[1-7]'),
    'Panda, capsules': ('panda_description/urdf/panda_collision.urdf', 'panda_joint[1-7]'),
    'xArm7': ('xarm_description/urdf/xarm7.urdf', 'joint[1-7]'),
    'Kinova j2s6s200': ('kinova_description/robots/kinova.urdf', '.*'),
    'Kinova on ANYmal': (
        'anymal_b_simple_description/robots/anymal-kinova.urdf', 'j2s6s200_joint_.',
    ),
    'Z1': ('z1_description/urdf/z1.urdf', 'joint[1-6]'),
    'Z1 on B1': ('b1_description/urdf/b1-z1.urdf', 'joint[1-6]'),
    'SO-100': ('so_arm_description/urdf/so100.urdf', '.*'),
    'SO-101': ('so_arm_description/urdf/so101.urdf', '.*'),
    'TALOS, arm alone': ('talos_data/robots/talos_left_arm.urdf', 'arm_.*'),
    'TALOS, left': ('talos_data/robots/talos_reduced.urdf', 'arm_left_.*'),
    'TALOS, right': ('talos_data/robots/talos_reduced.urdf', 'arm_right_.*'),
    'TALOS, full model': ('talos_data/robots/talos_full_v2.urdf', 'arm_left_.*'),
    'TIAGo': ('tiago_description/robots/tiago.urdf', 'arm_._joint'),
    'TIAGo without hand': ('tiago_description/robots/tiago_no_hand.urdf', 'arm_._joint'),
    'TIAGo dual, left': ('tiago_description/robots/tiago_dual.urdf', 'arm_left_.*'),
    'TIAGo dual, right': ('tiago_description/robots/tiago_dual.urdf', 'arm_right_.*'),
    'TIAGo Pro, left': ('tiago_pro_description/robots/tiago_pro.urdf', 'arm_left_.*'),
    'TIAGo Pro, right': ('tiago_pro_description/robots/tiago_pro.urdf', 'arm_right_.*'),
    'Baxter, left': ('baxter_description/urdf/baxter.urdf', 'left_[sew].'),
    'Baxter, right': ('baxter_description/urdf/baxter.urdf', 'right_[sew].'),
    'PR2, left': ('pr2_description/urdf/pr2.urdf', f'l_{_PR2}_joint'),
    'PR2, right': ('pr2_description/urdf/pr2.urdf', f'r_{_PR2}_joint'),
    'Romeo': ('romeo_description/urdf/romeo.urdf', 'L(Shoulder|Elbow|Wrist).*'),
    'iCub': ('icub_description/robots/icub.urdf', f'l_{_ICUB}'),
    'iCub, reduced': ('icub_description/robots/icub_reduced.urdf', f'r_{_ICUB}'),
    'Centauro': ('centauro_description/urdf/centauro.urdf', 'j_arm1_.'),
    'Hextilt flying arm': ('hextilt_description/urdf/hextilt_flying_arm_5.urdf', '.*'),
    'G1': ('g1_description/urdf/g1_29dof_rev_1_0.urdf', f'left_{_G1}_joint'),
}  # fmt: skip
"""URDF and names of the joints by the arm's name."""


def planned(name: str) -> list[str]:
    """Plan for an arm by default; return the cells of its row, the last one for what is wrong."""
    path, pattern = ARMS[name]
    names = pin.buildModelFromUrdf(str(FETCHED / path)).names
    joints = [joint for joint in list(names)[1:] if re.fullmatch(pattern, joint)]
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            made = plan(Robot.from_urdf(FETCHED / path, joints=joints))
        except IdentificationError as error:
            seconds = time.process_time() - begin
            return [name, str(len(joints)), '', '', '', f'{seconds:.1f}', str(error)]
    seconds = time.process_time() - begin
    findings, deviations = made.findings, made.deviations
    assert findings is not None and deviations is not None
    use = findings.use.quantities
    used = np.maximum(use['velocity'], use['acceleration'])
    known = (deviations.relative < 1.0)[deviations.values != 0.0]
    return [
        name,
        str(len(joints)),
        f'{100.0 * used.mean():.0f} %',
        f'{100.0 * use["effort"].max():.0f} %',
        f'{known.sum()} of {known.size}',
        f'{seconds:.1f}',
        '' if seconds <= SECONDS else 'late',
    ]


def section() -> Section:
    """Plan for each arm."""
    with get_context('spawn').Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        rows = []
        for row in pool.imap(planned, ARMS):
            print(', '.join(row), flush=True)
            rows.append(row)
    done = sum(not row[-1] for row in rows)
    return Section(
        'Arms of example-robot-data',
        'Default plans of 20 s for arms on robots of all kinds, whose other joints stand at 0. '
        '*limits used*: the larger share of velocity and acceleration limit, mean over the '
        'joints; *effort*: largest share of an effort limit; *known*: base parameters with a '
        'predicted deviation below their value in the URDF; *s*: processor time.',
        tables=[Table(['arm', 'joints', 'limits used', 'effort', 'known', 's', 'refused'], rows)],
        figures=[Figure('arms planned', done, at_least=35)],
    )
