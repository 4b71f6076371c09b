# SPDX-License-Identifier: Apache-2.0
"""Tests of the text summary of base parameters."""

from __future__ import annotations

from pathlib import Path

from robot_identification.base_parameters import structure
from robot_identification.model.robot import Robot
from robot_identification.regressor import (
    build,
    ElasticJoints,
    ModelSettings,
)

URDF = Path(__file__).resolve().parents[2] / 'urdf'


def summary_of(name: str, settings: ModelSettings) -> list[str]:
    robot = Robot.from_urdf(URDF / f'{name}.urdf')
    return structure(build(robot, settings), robot).summary().splitlines()


def test_categories_and_combinations_of_the_planar_robot():
    settings = ModelSettings(
        friction=('viscous', 'coulomb'),
        elastic=ElasticJoints(motors=('m1', 'm2'), gear_ratios=(0.1, 0.1)),
    )
    assert summary_of('zollo_planar_2r', settings)[1:] == [
        '14 base parameters of 28 standard ones',
        'alone (12): link_1 my, link_2 mx my Izz, m1 Ia fv fc, m2 Ia fv fc, joint_1 k, joint_2 k',
        'in 2 sums (3): link_1 mx Izz, link_2 m',
        '    link_1.mx + 0.5 link_2.m',
        '    link_1.Izz + 0.25 link_2.m',
        'not at all (13): link_1 m mz Ixx Ixy Iyy Ixz Iyz, link_2 mz Ixx Ixy Iyy Ixz Iyz',
    ]


def test_long_lists_are_wrapped_and_every_parameter_is_in_one_category():
    lines = summary_of('puma560', ModelSettings(elastic=ElasticJoints()))
    assert all(len(line) <= 100 for line in lines)
    text = '\n'.join(lines)
    assert '66 base parameters of 90 standard ones' in text
    assert 'alone (46)' in text
    assert 'in 20 sums (33)' in text
    assert 'not at all (11)' in text
