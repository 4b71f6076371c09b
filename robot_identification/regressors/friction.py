# SPDX-License-Identifier: Apache-2.0
"""
Columns that belong to one joint: rotor inertia and friction.

The effort of a joint beside its rigid bodies is ``Ia ddq + fv dq + fc sign(dq) + off``, as in
Gautier and Venture (2013), equation (2); sign(0) is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..parameters import ParameterLayout
from ..recording import Motion
from .settings import ModelSettings

SYMBOLS = {'rotor_inertia': 'Ia', 'viscous': 'fv', 'coulomb': 'fc', 'offset': 'off'}
"""Symbol of each term, in the order of the columns."""

REVOLUTE_UNITS = {'Ia': 'kg m^2', 'fv': 'N m s/rad', 'fc': 'N m', 'off': 'N m'}
PRISMATIC_UNITS = {'Ia': 'kg', 'fv': 'N s/m', 'fc': 'N', 'off': 'N'}


def joint_terms(settings: ModelSettings) -> tuple[str, ...]:
    """Terms of every joint that the settings ask for, in the order of the columns."""
    wanted = {*settings.friction, *(('rotor_inertia',) if settings.rotor_inertia else ())}
    return tuple(term for term in SYMBOLS if term in wanted)


def unit_of(symbol: str, *, revolute: bool) -> str:
    """Return the unit of a joint's parameter."""
    return (REVOLUTE_UNITS if revolute else PRISMATIC_UNITS)[symbol]


@dataclass(frozen=True)
class JointTerms:
    """
    Columns of rotor inertia and friction, joint by joint.

    Attributes
    ----------
    layout:
        ``<joint>.Ia``, ``.fv``, ``.fc``, ``.off``, as far as they are asked for.
    terms:
        Which these are.
    start:
        Place of the first of them in the whole vector.

    """

    layout: ParameterLayout
    terms: tuple[str, ...]
    start: int

    @classmethod
    def of(
        cls,
        joints: tuple[str, ...],
        revolute: tuple[bool, ...],
        settings: ModelSettings,
        start: int,
    ) -> JointTerms:
        """Make the columns for joints of the given kinds."""
        terms = joint_terms(settings)
        pairs = [
            (f'{joint}.{SYMBOLS[term]}', unit_of(SYMBOLS[term], revolute=turns))
            for joint, turns in zip(joints, revolute, strict=True)
            for term in terms
        ]
        names, units = zip(*pairs, strict=True) if pairs else ((), ())
        return cls(ParameterLayout(names, units), terms, start)

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Write the columns of a motion; entries that are zero for every motion are left alone.

        Parameters
        ----------
        motion:
            States of n_samples.
        out:
            (n_samples, n_joints, n_parameters).

        """
        joints = np.arange(out.shape[1])
        for i, term in enumerate(self.terms):
            out[:, joints, self.start + len(self.terms) * joints + i] = _value(term, motion)


def _value(term: str, motion: Motion) -> np.ndarray | float:
    if term == 'rotor_inertia':
        return motion.acceleration
    if term == 'viscous':
        return motion.velocity
    if term == 'coulomb':
        return np.sign(motion.velocity)
    return 1.0
