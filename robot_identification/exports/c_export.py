# SPDX-License-Identifier: Apache-2.0
"""
C code of the inverse dynamics, for controllers.

The file has the recursive Newton-Euler algorithm (Luh, Walker and Paul 1980) of the template
beside this module, with the model's numbers as constants.  It needs nothing but ``math.h``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
import re
from typing import Any

import numpy as np

from ..figures.figure import templates
from ..model.friction import FRICTION, SLOPES
from ..model.parameters import ParameterSet
from ..model.robot import Robot
from ..regressor import ModelSettings
from ..regressor.joint_terms import slopes_of
from ..regressor.rigid import tree_of
from ..regressor.settings import CoupledDrive
from ..version import __version__
from .formats import require_kind

# ---------------------------------------------------------------------------------------------- C

_TERMS = {
    'Ia': 'Rotor inertia.',
    **{term.symbol: f'{term.title[:1].upper()}{term.title[1:]}.' for term in FRICTION.values()},
    'kc': 'Springs: coefficient of the cosine.',
    'ks': 'Springs: coefficient of the sine.',
}
_SIGNED = {term.symbol for term in FRICTION.values() if term.signed}


def result_c(result: Any) -> str:
    """Return the C file of a result."""
    return c_code(result.robot, result.standard, result.settings.model)


def c_code(robot: Robot, parameters: ParameterSet, model: ModelSettings | None = None) -> str:
    """
    Return a C99 file with the inverse dynamics of an identified robot.

    ``<robot>_inverse_dynamics(q, v, a, tau)`` has all terms of the model, ``_gravity(q, tau)`` the
    efforts at rest and ``_friction(q, v, a, tau)`` friction and offsets, for joints in the robot's
    order.  Friction within a breakaway displacement takes the sign of the velocity, which below
    the reversal speed is in proportion to it; elastic joints are stiff.

    Parameters
    ----------
    robot, parameters, model:
        The robot, its standard parameters, and what these belong to.

    Raises
    ------
    SettingsError
        for robots of kinds that have no such file.

    """
    model = model or ModelSettings()
    require_kind('c', robot, model)
    tree = tree_of(robot)
    owners, remarks = robot.joints, []
    if model.elastic is not None:
        owners = model.elastic.motor_names(robot.joints)
        remarks.append('Its joints are elastic; here they are stiff, and motors turn with them.')
    if np.any(model.breakaway):
        remarks.append("Friction takes the sign of the velocity, not the state of Dahl's model.")
    terms = _terms(parameters, owners, robot.joints, model)
    reversal = np.broadcast_to(model.reversal_speed, robot.n_joints)
    drives = [
        _Drive.from_drive(drive, robot.joints, parameters, reversal)
        for drive in model.coupled_drives
    ]
    links = [robot.carriers.links[joint.link] for joint in tree.joints]
    offsets = np.concatenate([np.zeros(robot.n_joints), robot.mimics.offsets])
    environment = templates(autoescape=False, keep_trailing_newline=True)
    functions = {'number': _number, 'vector': _vector, 'matrix': _matrix, 'row': _row}
    environment.globals.update(functions, table=_table)
    code = environment.get_template('inverse_dynamics.c.j2').render(
        name=identifier(robot.name),
        robot=_comment_text(robot.name),
        version=__version__,
        joints=[_comment_text(joint) for joint in robot.joints],
        revolute=tree.revolute,
        n=robot.n_joints,
        remarks=remarks,
        tree=tree.joints,
        mimics=[_comment_text(str(robot.mimics))] if robot.mimics.followed else [],
        multipliers=[joint.multiplier for joint in tree.joints],
        offsets=[offsets[joint.link] for joint in tree.joints],
        bodies=[parameters.inertial(link) for link in links],
        loads=[robot.prior.inertial(link) for link in links],
        gravity=robot.gravity,
        terms=terms,
        friction=[term.c_code for term in FRICTION.values() if term.symbol in terms],
        drives=drives,
        signs=bool(_SIGNED & {*terms}) or any(drive.viscous or drive.coulomb for drive in drives),
    )
    return code.replace('M_2_PI', repr(2.0 / np.pi))  # it is not C99's


@dataclass(frozen=True)
class _Drive:
    """A coupled drive: places and ratios of its joints, inertia and friction."""

    name: str
    coupled: tuple[tuple[int, float], ...]
    inertia: float
    viscous: float
    coulomb: float
    reversal: float

    @classmethod
    def from_drive(
        cls,
        drive: CoupledDrive,
        joints: tuple[str, ...],
        parameters: ParameterSet,
        reversal: np.ndarray,
    ) -> _Drive:
        own = drive.ratios[drive.joints.index(drive.motor)]
        inertia = parameters.get(f'{drive.motor}.Iam')
        if drive.inertia == 'tied':
            inertia = parameters.get(f'{drive.motor}.Ia') / own**2
        return cls(
            f'coupled drive of {_comment_text(drive.motor)}',
            tuple(zip(map(joints.index, drive.joints), drive.ratios, strict=True)),
            inertia,
            parameters.get(f'{drive.motor}.fvm'),
            parameters.get(f'{drive.motor}.fcm'),
            float(reversal[joints.index(drive.motor)]),
        )

    def sum(self, signal: str) -> str:
        """Return the C expression of a signal of the motor."""
        return ' + '.join(f'{_number(ratio)} * {signal}[{joint}]' for joint, ratio in self.coupled)


def _terms(
    parameters: ParameterSet,
    owners: tuple[str, ...],
    joints: tuple[str, ...],
    model: ModelSettings,
) -> dict[str, tuple[np.ndarray, str]]:
    """Return values of the terms that are not 0, with their comments."""
    terms = {}
    for symbol, comment in _TERMS.items():
        named = joints if symbol in ('kc', 'ks') else owners
        values = np.array([parameters.get(f'{owner}.{symbol}') for owner in named])
        if values.any() or (symbol == 'ks' and 'kc' in terms):
            terms[symbol] = values, comment
    if 'ks' in terms:
        terms.setdefault('kc', (np.zeros(len(joints)), _TERMS['kc']))
    slopes = slopes_of(model, joints)
    for term, key in SLOPES.items():
        if FRICTION[term].symbol in terms:
            terms[key] = slopes[term], 'How steeply it rises with the velocity.'
    if _SIGNED & {*terms}:
        speeds = np.broadcast_to(model.reversal_speed, len(joints))
        terms['reversal_speed'] = speeds, 'Speed below which dry friction is in proportion to it.'
    return terms


def identifier(name: str) -> str:
    """Return a robot's name as an identifier of C."""
    text = re.sub(r'\W+', '_', name, flags=re.ASCII).strip('_').lower()
    return f'robot_{text}' if not text or text[0].isdigit() else text


def _comment_text(name: str) -> str:
    """Return a name that neither begins nor ends a comment."""
    return re.sub(r'[\\\n]', ' ', name.replace('*', ' '))


def _number(value: float) -> str:
    return repr(float(value) + 0.0)


def _vector(values: Iterable[float]) -> str:
    return '{' + ', '.join(_number(value) for value in values) + '}'


def _matrix(rows: Iterable[np.ndarray]) -> str:
    return '{\n  ' + ',\n  '.join(_vector(np.ravel(row)) for row in rows) + '}'


def _row(joints: Iterable[Any], name: str) -> str:
    return '{' + ', '.join(str(int(getattr(joint, name))) for joint in joints) + '}'


def _table(joints: Iterable[Any], name: str) -> str:
    return _matrix(getattr(joint, name) for joint in joints)
