# SPDX-License-Identifier: Apache-2.0
"""
Simulators and descriptions that parameters are identified for, and where each has which of them.

`TARGETS` is the only place: what is estimated for a target, what is refused, and the table in
``docs/how_to/commands.md`` come from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

TERMS = {
    'armature': 'armature (rotor inertia)',
    'viscous': 'viscous friction',
    'coulomb': 'Coulomb friction',
    'center': 'centre of mass',
    'gains': 'kp, kd, limit',
    'delay': 'delay',
    'servo_offset': 'offset of a servo',
    'coulomb_by_position': '`coulomb_by_position`',
    'play': 'play',
    'coupled_drives': 'coupled drives',
}
"""Terms that some target has, or that servos may have, and their titles."""


@dataclass(frozen=True)
class Target:
    """
    A simulator or description.

    Attributes
    ----------
    title:
        Its name in words.
    places:
        Element or field of each of the terms that it has.
    remarks:
        What becomes of terms that it lacks, where that is not nothing.
    mjcf:
        Whether it takes step and integrator from an MJCF.

    """

    title: str
    places: Mapping[str, str]
    remarks: Mapping[str, str] = field(default_factory=dict)
    mjcf: bool = False

    def lacking(self, terms: Iterable[str]) -> tuple[str, ...]:
        """Return those of the terms that it lacks."""
        return tuple(term for term in terms if term not in self.places)


_LEFT_OUT = 'left out, in a comment'

TARGETS = {
    'urdf': Target(
        'URDF',
        {
            'viscous': '`<dynamics damping>`',
            'coulomb': '`<dynamics friction>`',
            'center': '`<inertial><origin>`',
        },
        {'gains': 'nowhere; `<limit effort>`'},
    ),
    'sdf': Target(
        'Gazebo (SDF)',
        {
            'viscous': '`<dynamics><damping>`',
            'coulomb': '`<dynamics><friction>`',
            'center': '`<inertial><pose>`',
        },
        {'gains': 'of the controller', 'delay': 'of the controller'},
    ),
    'mjcf': Target(
        'MJCF',
        {
            'armature': '`<joint armature>`',
            'viscous': '`<joint damping>`',
            'coulomb': '`<joint frictionloss>` with `solreffriction`',
            'center': '`<inertial pos>`',
            'gains': '`<position kp kv forcerange>`',
            'delay': 'in a comment: hold commands back, or give the actuators `delay` and '
            '`nsample`',
            'servo_offset': '`biasprm` of a general actuator',
            'coupled_drives': '`<tendon><fixed>`',
        },
        dict.fromkeys(('coulomb_by_position', 'play'), 'in a comment'),
        mjcf=True,
    ),
    'isaaclab': Target(
        'Isaac Lab',
        {
            'armature': '`armature`',
            'viscous': '`viscous_friction`',
            'coulomb': '`friction`, `dynamic_friction`',
            'center': 'of the imported robot',
            'gains': '`stiffness`, `damping`, `actuator_effort_limit` (before 3: `effort_limit`)',
            'delay': '`min_delay`, `max_delay` in steps',
        },
        dict.fromkeys(('servo_offset', 'coulomb_by_position', 'play'), _LEFT_OUT),
    ),
    'mjlab': Target(
        'mjlab',
        {
            'armature': '`armature`',
            'viscous': '`viscous_damping`',
            'coulomb': '`frictionloss`',
            'center': 'of the MJCF',
            'gains': '`stiffness`, `damping`, `effort_limit`',
            'delay': '`delay_min_lag`, `delay_max_lag` in steps',
            'coupled_drives': 'of the MJCF',
        },
        dict.fromkeys(('servo_offset', 'coulomb_by_position', 'play'), _LEFT_OUT),
    ),
}
"""Targets by their names."""
