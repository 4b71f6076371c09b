# SPDX-License-Identifier: Apache-2.0
"""Payloads and tools as text."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ..estimation.estimate import IDENTIFIED
from ..estimation.tables import number, percent
from ..loads.payload import Payload
from ..loads.tool import CHANNELS, Tool, UNITS


def payload_table(payload: Payload) -> str:
    """Return a table of a payload, and the body that it is."""
    lines = [f"Payload in the frame of '{payload.frame}' on '{payload.link}'"]
    width = max(len(p.expression) for p in payload)
    lines.append(f'{"parameter":<{width}}{"value":>14}{"std":>13}{"std %":>9}  unit')
    for p in payload:
        cells = f'{number(p.value):>14}{number(p.std):>13}{percent(p.relative_std):>9}'
        note = '' if p.state == IDENTIFIED else '  not determined'
        lines.append(f'{p.expression:<{width}}{cells}  {p.unit}{note}')
    if payload.body is not None:
        centre = ', '.join(number(float(value)) for value in payload.body.center_of_mass)
        about = ', '.join(number(float(value)) for value in payload.body.to_dict()['inertia'])
        kind = 'body to use' if payload.physical else 'body, which is not physical'
        lines.append(f'{kind}: {payload.body.mass:.5g} kg at ({centre}) m')
        lines.append(f'  inertia about it, Ixx Ixy Iyy Ixz Iyz Izz: {about} kg m^2')
    lines.append(
        f'relative error with the load {percent(payload.fit.relative_error)} %, as if there were '
        f'none {percent(payload.fit_without.relative_error)} %'
    )
    return '\n'.join(lines)


def tool_table(tool: Tool) -> str:
    """Return tables of a tool and of the offsets of the sensor."""
    lines = [payload_table(tool.load).replace('Payload', 'Tool', 1), 'offsets of the sensor']
    for name, value, std, unit in zip(CHANNELS, tool.offset, tool.offset_std, UNITS, strict=True):
        lines.append(f'{name:<10}{number(float(value)):>14}{number(float(std)):>13}  {unit}')
    side = 'it exerts on the tool' if tool.sign > 0 else 'the tool exerts on it'
    lines.append(f'the sensor reports what {side}')
    if tool.rotation_std is not None:
        angles = ', '.join(f'{a:.4g}' for a in np.degrees(pin.rpy.matrixToRpy(tool.rotation)))
        std = ', '.join(f'{a:.2g}' for a in np.degrees(tool.rotation_std))
        lines.append(f"sensor's axes in the frame, roll pitch yaw: {angles} (+- {std}) degrees")
    return '\n'.join(lines)
