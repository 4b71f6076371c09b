# SPDX-License-Identifier: Apache-2.0
"""
Columns of motors that turn with several joints (Gautier and Venture 2013, section IV).

A motor whose speed, seen at the joints, is ``w = sum_k r_k dq_k`` has the kinetic energy
``Iam w^2 / 2``, so joint j feels ``r_j (Iam dw/dt + fvm w + fcm sign(w))``.  The part of the
inertia torque that goes with joint j's own acceleration, ``r_j^2 Iam ddq_j``, cannot be told from
the joint's own rotor inertia and belongs to its ``Ia``, as in their equation (35):
``Ia_j = own rotor + r_j^2 Iam``.  What remains is the coupling, ``r_j Iam sum_{k != j} r_k
ddq_k``. For the motor's own joint nothing but this motor is in ``Ia``; ``tied`` uses that it is
the same number and ``separate`` leaves both free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..data.recording import Motion
from ..errors import one_of, SettingsError
from ..model.parameters import ParameterLayout
from .friction import ACCELERATION, Combination, Entry, fill, SPEED_SIGN, unit_of, VELOCITY
from .settings import CoupledDrive, ModelSettings


@dataclass(frozen=True)
class DriveTerms:
    """
    Columns of one coupled drive.

    Attributes
    ----------
    layout:
        ``<motor>.Iam`` (where it is separate), ``<motor>.fvm``, ``<motor>.fcm``.
    places:
        (k,) places of the coupled joints in all data.
    ratios:
        (k,) speed of the motor for a unit speed of each.
    inertia, viscous, coulomb:
        Places of the columns in the whole vector, None for those that are switched off.
        ``inertia`` of a tied drive is the column of its joint's ``Ia``.
    inertia_scale:
        Iam for a unit of the parameter in the column ``inertia``.

    """

    layout: ParameterLayout
    places: np.ndarray
    ratios: np.ndarray
    inertia: int | None
    viscous: int | None
    coulomb: int | None
    inertia_scale: float = 1.0

    @classmethod
    def of(
        cls,
        drive: CoupledDrive,
        joints: tuple[str, ...],
        revolute: tuple[bool, ...],
        settings: ModelSettings,
        before: ParameterLayout,
    ) -> DriveTerms:
        """
        Make the columns of ``drive``, to stand after the parameters ``before``.

        Raises
        ------
        SettingsError
            if a coupled joint is not identified, or joints that turn are coupled with joints
            that slide.

        """
        places = _places(drive, joints)
        kinds = {revolute[i] for i in places}
        if len(kinds) > 1:
            raise SettingsError(
                f"the coupled drive of '{drive.motor}' couples joints that turn and that slide",
                joint=drive.motor,
                key='coupled_drives',
                value=drive.joints,
                remedy='couple joints of one kind',
            )
        own_ratio = drive.ratios[drive.joints.index(drive.motor)]
        separate = settings.rotor_inertia and drive.inertia == 'separate'
        symbols = [
            (symbol, model)
            for symbol, model, on in (
                ('Iam', 'Ia', separate),
                ('fvm', 'fv', 'viscous' in settings.friction),
                ('fcm', 'fc', not {'coulomb', 'stiction'}.isdisjoint(settings.friction)),
            )
            if on
        ]
        turns = kinds.pop()
        names = tuple(f'{drive.motor}.{symbol}' for symbol, _ in symbols)
        units = tuple(unit_of(model, revolute=turns) for _, model in symbols)
        column = {symbol: len(before) + i for i, (symbol, _) in enumerate(symbols)}
        if settings.rotor_inertia and not separate:
            column['Iam'] = before.index(f'{drive.motor}.Ia')
        return cls(
            layout=ParameterLayout(names, units),
            places=places,
            ratios=np.array(drive.ratios),
            inertia=column.get('Iam'),
            viscous=column.get('fvm'),
            coulomb=column.get('fcm'),
            inertia_scale=1.0 if separate else 1.0 / own_ratio**2,
        )

    @cached_property
    def combination(self) -> Combination:
        """The entries as functions of the state."""
        coupled = list(zip(self.places.tolist(), self.ratios.tolist(), strict=True))
        entries = []
        for joint, ratio in coupled:
            if self.inertia is not None:
                scale = self.inertia_scale
                parts = tuple(
                    (ACCELERATION, k, ratio * r * scale) for k, r in coupled if k != joint
                )
                entries.append(Entry(joint, self.inertia, parts))
            if self.viscous is not None:
                parts = tuple((VELOCITY, k, ratio * r) for k, r in coupled)
                entries.append(Entry(joint, self.viscous, parts))
            if self.coulomb is not None:
                entries.append(Entry(joint, self.coulomb, ((SPEED_SIGN, 0, ratio),)))
        return Combination(tuple(entries), () if self.coulomb is None else (tuple(coupled),))

    def fill(self, motion: Motion, out: np.ndarray) -> None:
        """
        Add the columns of a motion to ``out`` (n_samples, n_joints, n_parameters).

        Added rather than written because a tied inertia shares its joint's column.
        """
        fill(self.combination, motion, out)


def _places(drive: CoupledDrive, joints: tuple[str, ...]) -> np.ndarray:
    for joint in drive.joints:
        if joint not in joints:
            raise SettingsError(
                f"joint '{joint}' of the coupled drive of '{drive.motor}' is not identified",
                joint=joint,
                key='coupled_drives',
                value=drive.joints,
                remedy=f'identified are {one_of(joints)}',
            )
    return np.array([joints.index(joint) for joint in drive.joints])
