# SPDX-License-Identifier: Apache-2.0
"""
Columns of springs, cables and counterweights at single joints.

What hangs or pulls at one joint gives it an effort that depends on its own position; the first
harmonic is ``kc cos q + ks sin q``.  A counterweight has that and nothing else.  A spring between
two points beside the axis has it as its leading part, a bundle of cables that is twisted as the
first order of a Fourier series; the constant part is the offset.  The coefficients are of any
sign.

Gravity on the bodies has the same form at a joint that no joint before it tilts.  There kc and ks
are in sums with first moments, which the base parameters show; only a prior takes them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..data.recording import Motion
from ..errors import one_of, SettingsError
from ..model.parameters import ParameterLayout
from .friction import Combination, COSINE, Entry, fill, SINE

SPRING_SYMBOLS = ('kc', 'ks')
"""Symbols of the coefficients of the cosine and the sine of a joint's position [N m]."""

_KEY = 'robot.joint_springs'


@dataclass(frozen=True)
class SpringTerms:
    """
    Columns of the cosine and the sine of joint positions.

    Attributes
    ----------
    layout:
        ``<joint>.kc``, ``<joint>.ks`` for each joint that has a spring.
    places:
        Places of these joints in all data.
    start:
        Place of the first column in the whole vector.

    """

    layout: ParameterLayout
    places: tuple[int, ...]
    start: int

    @classmethod
    def of(
        cls,
        springs: tuple[str, ...],
        joints: tuple[str, ...],
        revolute: tuple[bool, ...],
        start: int,
    ) -> SpringTerms:
        """
        Make the columns for the joints ``springs`` among ``joints`` of the given kinds.

        Raises
        ------
        SettingsError
            if a joint is not identified, or slides.

        """
        for joint in springs:
            if joint not in joints:
                problem, value = f"joint '{joint}' of joint_springs is not identified", joint
                remedy = f'identified are {one_of(joints)}'
            elif not revolute[joints.index(joint)]:
                problem, value = f"joint '{joint}' of joint_springs slides", joint
                remedy = 'leave it out: cosine and sine are of joints that turn'
            else:
                continue
            raise SettingsError(problem, joint=joint, key=_KEY, value=value, remedy=remedy)
        names = tuple(f'{joint}.{symbol}' for joint in springs for symbol in SPRING_SYMBOLS)
        layout = ParameterLayout(names, ('N m',) * len(names))
        return cls(layout, tuple(joints.index(joint) for joint in springs), start)

    @cached_property
    def combination(self) -> Combination:
        """The entries as functions of the state."""
        return Combination(
            tuple(
                Entry(joint, self.start + 2 * i + k, ((kind, joint, 1.0),))
                for i, joint in enumerate(self.places)
                for k, kind in enumerate((COSINE, SINE))
            )
        )

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """Write the columns of a motion to ``out`` (n_samples, n_joints, n_parameters)."""
        fill(self.combination, motion, out)
