# SPDX-License-Identifier: Apache-2.0
"""
Parameter files of bam (Better Actuator Models, Rhoban), of which the gains are taken.

bam identifies one actuator on a pendulum: a motor with the constant kt [N m/A] and the resistance
R [ohm], driven by a voltage in proportion to the position error.  Such a servo has the gains

    kp = kt / R volts_per_rad,    kd = kt^2 / R

The voltage by rad is the product of supply voltage, P and a factor of the firmware, none of which
is in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
import json
import math
from pathlib import Path
from typing import Any

from ..errors import one_of, SettingsError
from ..untrusted.files import read_text

DRIVEN_BY_VOLTAGE = ('mx64', 'mx106', 'xl320', 'xl330', 'sts3215')
"""bam's actuators for which the gains hold; others are driven by currents or torques."""

_GAINS = ('kt', 'R', 'error_gain_ratio')
_COMPARED = {
    'armature': 'armature {:.4g} kg m^2',
    'friction_viscous': 'viscous {:.4g} N m s/rad',
    'friction_base': 'Coulomb {:.4g} N m',
    'command_delay': 'delay {:.4g} s',
}
_OF_THE_RIG = ('model', 'actuator', 'q_offset')

SIZE = 1 << 20
"""Largest size of a file [bytes]."""


@dataclass(frozen=True)
class BamServo:
    """
    Servo of a parameter file of bam.

    Attributes
    ----------
    stiffness, damping:
        Gains [N m/rad, N m s/rad].
    remark:
        What else the file has: values to compare with, and names without a place here.

    """

    stiffness: float
    damping: float
    remark: str


def read_bam(path: Path, volts_per_rad: float) -> BamServo:
    """
    Read the gains of a servo.

    Raises
    ------
    SettingsError
        naming the file, and what it lacks, or its actuator, if the gains do not hold for it.

    """
    try:
        content: Any = json.loads(read_text(path, SIZE))
        actuator = str(content['actuator'])
        values = {k: float(v) for k, v in content.items() if k not in ('model', 'actuator')}
        constant, resistance = values['kt'], values['R']
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"'{path}' is no parameter file of bam: {type(error).__name__} {error}",
            file=str(path),
            remedy='give a JSON file with actuator, model, kt, R and friction',
        ) from error
    by_rad = volts_per_rad * values.get('error_gain_ratio', 1.0)
    usable = all(0.0 < value < math.inf for value in (constant, resistance, by_rad))
    if actuator not in DRIVEN_BY_VOLTAGE or not usable:
        raise SettingsError(
            f"'{path}': actuator '{actuator}' of bam has no gains by kt and R",
            file=str(path),
            value=actuator,
            remedy=f'give --kp and --kd; gains are read of {one_of(DRIVEN_BY_VOLTAGE)}',
        )
    known = [text.format(values[name]) for name, text in _COMPARED.items() if name in values]
    others = [n for n in values if n not in (*_GAINS, *_COMPARED, *_OF_THE_RIG)]
    remark = f'{path.name} (model {content.get("model")}), to compare with: {", ".join(known)}'
    if others:
        remark += f'; no place here for {one_of(others)}'
    return BamServo(constant / resistance * by_rad, constant**2 / resistance, remark)
