# SPDX-License-Identifier: Apache-2.0
"""The quadruped of boxes, for tests of floating bases."""

from pathlib import Path

FEET = tuple(f'{leg}_foot' for leg in ('FL', 'FR', 'RL', 'RR'))
STANDING = (0.0, 0.8, -1.55) * 4
"""Positions of hip, thigh and calf of each leg in which it stands [rad]."""

URDF = Path(__file__).resolve().parents[1] / 'urdf' / 'quadruped.urdf'


def walker():
    """Return its URDF: a trunk of 7 kg, and four legs of three links each."""
    return URDF.read_text(encoding='utf-8')
