# SPDX-License-Identifier: Apache-2.0
"""
The simulator or description that an experiment is for: what is left out, what is refused.

Offsets and rotor inertias of recorded efforts are estimated for any target: masses would take
their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import one_of
from ..model.friction import CONSTANT, FRICTION
from ..model.targets import TARGETS
from ..options.fields import key_error
from ..regressor.settings import ModelSettings
from ..servo.settings import SERVO_COMMAND, ServoSettings
from .experiment import RobotSettings

_ABSENT: dict[str, Any] = {'breakaway': 0.0, 'joint_springs': []}
"""Values of keys of ``robot`` for models without their terms."""


def limit_to_target(content: dict[str, Any]) -> None:
    """Set keys of ``robot`` that are left out to what the experiment's target has."""
    simulation, robot = content.get('simulation'), content.get('robot')
    name = simulation.get('target') if isinstance(simulation, dict) else None
    if not isinstance(name, str) or name not in TARGETS or not isinstance(robot, dict):
        return
    if robot.get('effort_kind') == SERVO_COMMAND:
        return
    target = TARGETS[name]
    default_terms = ModelSettings().friction
    lacking = target.lacking(_placed(default_terms))
    robot.setdefault('friction', [term for term in default_terms if term not in lacking])
    for key, value in _ABSENT.items():
        if target.lacking([key]):
            robot.setdefault(key, value)


def check_target(robot: RobotSettings, name: str | None) -> None:
    """Raise SettingsError naming the first term that is chosen, but that a target lacks."""
    if name is None:
        return
    target = TARGETS[name]
    for key, term in _servo_terms(robot.servo) if robot.servo else _effort_terms(robot):
        if target.lacking([term]):
            having = [other for other, each in TARGETS.items() if not each.lacking([term])]
            remedy = f'set simulation.target (--for) to {one_of(having)}' if having else ''
            if key == 'robot.effort_kind':
                text = f'is {SERVO_COMMAND}, but {target.title} has no place for {term} of servos'
            else:
                text = f'asks for {term}, which {target.title} has no place for'
                remedy = f'leave {term} out{", or " if having else ""}{remedy}'
            raise key_error(key, text, remedy)


def _placed(terms: Iterable[str]) -> list[str]:
    """Return the terms of friction without offsets."""
    return [term for term in terms if FRICTION[term].kind != CONSTANT]


def _effort_terms(robot: RobotSettings) -> Iterator[tuple[str, str]]:
    """Iterate over key and term of what a model for efforts has beside rigid bodies."""
    for term in _placed(robot.friction):
        yield 'robot.friction', term
    for key in (*_ABSENT, 'coupled_drives'):
        value = getattr(robot, key)
        if any(value) if isinstance(value, tuple) else value:
            yield f'robot.{key}', key


def _servo_terms(servo: ServoSettings) -> Iterator[tuple[str, str]]:
    """Iterate over key and term of what is estimated of servos."""
    for term in ('armature', 'gains', 'delay'):
        yield 'robot.effort_kind', term
    if servo.offset:
        yield 'robot.servo.offset', 'servo_offset'
    if servo.friction != 'coulomb':
        yield 'robot.servo.friction', servo.friction
