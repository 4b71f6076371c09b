# SPDX-License-Identifier: Apache-2.0
"""A quadruped of boxes, for tests of floating bases."""

LEGS = {'FL': (0.2, 0.06), 'FR': (0.2, -0.06), 'RL': (-0.2, 0.06), 'RR': (-0.2, -0.06)}
Y = (0, 1, 0)
FEET = tuple(f'{leg}_foot' for leg in LEGS)
STANDING = (0.0, 0.8, -1.55) * 4
"""Positions of hip, thigh and calf of each leg in which it stands [rad]."""


def walker():
    """Return its URDF: a trunk of 7 kg, and four legs of three links each."""
    parts = [_link('trunk', 7.0, (0.01, 0.0, -0.005), (0.04, 0.1, 0.11))]
    for leg, (x, y) in LEGS.items():
        side = 1.0 if y > 0.0 else -1.0
        parts += [
            _link(f'{leg}_hip', 0.7, (0.0, 0.01 * side, 0.001), (6e-4, 9e-4, 6e-4)),
            _link(f'{leg}_thigh', 1.1, (-0.004, -0.02 * side, -0.03), (5e-3, 5e-3, 1e-3)),
            _link(f'{leg}_calf', 0.25, (0.005, 0.001 * side, -0.12), (3e-3, 3e-3, 4e-5)),
            f'<link name="{leg}_foot"/>',
            _joint(f'{leg}_hip_joint', 'trunk', f'{leg}_hip', (x, y, 0.0), (1, 0, 0), 1.0),
            _joint(
                f'{leg}_thigh_joint',
                f'{leg}_hip',
                f'{leg}_thigh',
                (0, 0.09 * side, 0),
                Y,
                3.0,
            ),
            _joint(f'{leg}_calf_joint', f'{leg}_thigh', f'{leg}_calf', (0, 0, -0.21), Y, 2.8),
            f'<joint name="{leg}_foot_joint" type="fixed"><origin xyz="0 0 -0.21"/>'
            f'<parent link="{leg}_calf"/><child link="{leg}_foot"/></joint>',
        ]
    return f'<robot name="walker">{"".join(parts)}</robot>'


def _link(name, mass, centre, moments):
    x, y, z = moments
    return (
        f'<link name="{name}"><inertial><origin xyz="{_numbers(centre)}"/><mass value="{mass}"/>'
        f'<inertia ixx="{x}" ixy="0" ixz="0" iyy="{y}" iyz="0" izz="{z}"/></inertial></link>'
    )


def _joint(name, parent, child, origin, axis, reach):
    return (
        f'<joint name="{name}" type="revolute"><origin xyz="{_numbers(origin)}"/>'
        f'<parent link="{parent}"/><child link="{child}"/><axis xyz="{_numbers(axis)}"/>'
        f'<limit lower="-{reach}" upper="{reach}" velocity="20" effort="40"/></joint>'
    )


def _numbers(values):
    return ' '.join(map(str, values))
