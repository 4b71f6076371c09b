# SPDX-License-Identifier: Apache-2.0
"""
Identified loads as calls of robots' controllers.

Each format is for one vendor, in its units and frames; the body is that of the flange's load as a
whole.  Signatures are those of

- Universal Robots: URScript manual, ``set_target_payload(m, cog, inertia)``: metres from the tool
  flange, inertia about the centre of mass as Ixx, Iyy, Izz, Ixy, Ixz, Iyz;
- Franka: ``franka_msgs/srv/SetLoad`` and ``franka::Robot::setLoad``: metres in the flange frame F,
  inertia about the centre of mass, 3 x 3 by columns; ``endeffector-config.json``, which Desk
  imports, as the maker's external_gripper_example has it: the same, and ``transformation``, the
  end effector's frame in the flange's, 4 x 4 by columns;
- UFACTORY: ``XArmAPI.set_tcp_load(weight, center_of_gravity)`` of xArm-Python-SDK: kilograms and
  millimetres, no inertia;
- KUKA: ``LOAD_DATA[n]`` of ``$config.dat``: millimetres from the flange, principal moments in
  kg m^2, and their axes as A, B, C in degrees: turns about Z, the new Y and the new X;
- ros2_control: ``gravity_compensation_filter_parameters.yaml`` of control_toolbox, whose ``CoG``
  became ``tool``, and ``gravity_compensation`` of admittance_controller;
- mujoco_ros2_control: ``FtsGravCompPlugin`` of mujoco_ros2_control_plugins, by its source of
  August 2026: for a sensor, ``frame_id``, a site of the MJCF, ``CoG.pos`` [m] in it and
  ``CoG.mass`` [kg].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import json
from typing import Any
import warnings

import numpy as np
import pinocchio as pin

from ..errors import IdentificationWarning, ModelError, SettingsError
from ..model.consistency import inertia_at_com
from ..model.link_inertias import moved_inertia

_MILLI = 1e3


@dataclass(frozen=True)
class FlangeLoad:
    """
    A load as a body in the frame that stands for the vendor's flange.

    Attributes
    ----------
    mass:
        [kg].
    center_of_mass:
        (3,) [m].
    inertia:
        (3, 3) about the centre of mass, along the frame's axes [kg m^2].
    frame, base:
        Names of that frame's link and of the robot's first one.
    gravity:
        (3,) in the frame of the first link [m/s^2].
    remarks:
        What is assumed, and what the recordings do not determine.

    """

    mass: float
    center_of_mass: np.ndarray
    inertia: np.ndarray
    frame: str
    base: str
    gravity: np.ndarray
    remarks: tuple[str, ...] = ()

    @classmethod
    def from_result(cls, result: Any, frame: str | None = None) -> FlangeLoad:
        """
        Return the load of a result, in the frame of a link; None for that it was identified in.

        Raises
        ------
        SettingsError
            if the result has no load, or the link is not fixed to the one that carries it.
        ModelError
            if the load is no physical body, or the URDF has no such link.

        """
        found = result.to_document().get('payload')
        if found is None:
            raise SettingsError(
                'the result has no load that a controller could be given',
                key='data.payload',
                remedy='identify with data.payload, or a tool',
            )
        flange = frame or found['frame']
        vector = np.array([entry['value'] for entry in found['standard_parameters']], dtype=float)
        if not (found['physical'] and vector[0] > 0.0):
            raise ModelError(
                f"the load on '{found['link']}' is no physical body",
                link=found['link'],
                remedy='record longer or faster motions with and without it',
            )
        vector = moved_inertia(vector, _pose(result.robot, found['frame'], flange))
        remarks = [
            f"load of {result.robot.name}; the frame of link '{flange}' is taken for the flange "
            'frame of the controller'
        ]
        open_ones = [
            entry['name']
            for entry in found['standard_parameters']
            if not entry.get('determined', entry.get('told'))
        ]
        if open_ones:
            remarks.append(f'not determined, assumed: {", ".join(open_ones)}')
        judged = result.to_document().get('tool')
        if judged is not None and judged['level'] != 'good':
            remarks.append(f'verdict: {judged.get("headline", judged["sentence"])}')
        centre = vector[1:4] / vector[0]
        contents = result.robot.contents
        children = {joint.child for joint in contents.joints.values()}
        return cls(
            mass=float(vector[0]),
            center_of_mass=centre,
            inertia=inertia_at_com(vector),
            frame=flange,
            base=next(link for link in contents.links if link not in children),
            gravity=result.robot.gravity,
            remarks=tuple(remarks),
        )

    def text(self, comment: str, *lines: str) -> str:
        """Return the lines below the remarks as comments."""
        return '\n'.join([*(f'{comment} {remark}' for remark in self.remarks), *lines, ''])


def _pose(robot: Any, frame: str, flange: str) -> pin.SE3:
    """Return the pose of a link in another one, both fixed to the same identified link."""
    (link, placement), (carrier, seat) = robot.attachment(frame), robot.attachment(flange)
    if link != carrier:
        raise SettingsError(
            f"link '{flange}' moves with '{carrier}', and the load with '{link}'",
            key='frame',
            value=flange,
            remedy=f"name a link that is fixed to '{link}'",
        )
    return seat.inverse() * placement


def _list(values: Sequence[float] | np.ndarray) -> str:
    return '[' + ', '.join(f'{float(value) + 0.0:.9g}' for value in values) + ']'


def ur(load: FlangeLoad) -> str:
    """Return a line of URScript."""
    entries = load.inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    centre = _list(load.center_of_mass)
    return load.text(
        '#',
        f'set_target_payload({load.mass:.9g}, {centre}, {_list(entries)})',
        f'# without inertia: set_payload({load.mass:.9g}, {centre})',
    )


def franka(load: FlangeLoad) -> str:
    """Return a call of franka_ros2's service, and that of libfranka as a comment."""
    entries = load.inertia.flatten(order='F')
    centre = _list(load.center_of_mass)
    braces = [text.replace('[', '{').replace(']', '}') for text in (centre, _list(entries))]
    return load.text(
        '#',
        '# beside the end effector that is set in Desk; not while the robot moves',
        'ros2 service call /service_server/set_load franka_msgs/srv/SetLoad \\',
        f'  "{{mass: {load.mass:.9g}, center_of_mass: {centre}, load_inertia: {_list(entries)}}}"',
        f'# libfranka: robot.setLoad({load.mass:.9g}, {braces[0]}, {braces[1]});',
    )


def franka_desk(load: FlangeLoad) -> str:
    """
    Return the end effector that Franka's Desk imports, ``endeffector-config.json``.

    JSON has no comments: remarks are warnings.  The frame of the end effector is the flange's.
    """
    unknown = "the end effector's frame is that of the flange: set the one of your tool in Desk"
    for remark in (*load.remarks, unknown):
        warnings.warn(remark, IdentificationWarning, stacklevel=2)

    def numbers(values: np.ndarray) -> list[float]:
        return [float(f'{float(value):.9g}') + 0.0 for value in values]

    document = {
        'mass': float(f'{load.mass:.9g}'),
        'centerOfMass': numbers(load.center_of_mass),
        'transformation': np.eye(4).ravel().tolist(),
        'inertia': numbers(load.inertia.flatten(order='F')),
    }
    return json.dumps(document) + '\n'


def xarm(load: FlangeLoad) -> str:
    """Return a call of xArm-Python-SDK."""
    return load.text(
        '#',
        '# kg and mm; the controller takes no inertia; arm.save_conf() keeps it',
        f'arm.set_tcp_load({load.mass:.9g}, {_list(_MILLI * load.center_of_mass)})',
    )


def kuka(load: FlangeLoad) -> str:
    """Return an assignment in KRL."""
    moments, axes = principal_axes(load.inertia)
    a, b, c = krl_angles(axes)
    x, y, z = _MILLI * load.center_of_mass
    values = [f'{float(value) + 0.0:.9g}' for value in (x, y, z, a, b, c, *moments)]
    centre = ','.join(f'{n} {v}' for n, v in zip('XYZABC', values, strict=False))
    about = ','.join(f'{n} {v}' for n, v in zip('XYZ', values[6:], strict=True))
    return load.text(
        ';',
        '; put the number of the tool in place of 1',
        f'LOAD_DATA[1]={{M {load.mass:.9g},CM {{{centre}}},J {{{about}}}}}',
    )


def gravity(load: FlangeLoad) -> str:
    """Return parameters of ros2_control's filter and of its admittance controller."""
    centre, weight = _list(load.center_of_mass), load.mass * load.gravity
    return load.text(
        '#',
        '# below the name of your controller; the frame has to have the axes of the sensor, whose',
        '# offsets are not in here: take them off, or zero the sensor without the tool',
        'sensor_filter_chain:  # control_filters/GravityCompensationWrench of control_toolbox',
        '  params:',
        f'    world_frame: {load.base}',
        f'    sensor_frame: {load.frame}',
        '    CoG:  # up to 2025',
        f'      pos: {centre}',
        f'      force: {_list(weight)}',
        '    tool:  # later',
        f'      pos: {centre}',
        f'      mass: {load.mass:.9g}',
        f'      gravity_field: {_list(load.gravity)}',
        'gravity_compensation:  # admittance_controller',
        f'  frame: {{id: {load.frame}, external: false}}',
        '  CoG:',
        f'    pos: {centre}',
        f'    force: {float(np.linalg.norm(weight)):.9g}',
    )


def mujoco_ros2_control(load: FlangeLoad) -> str:
    """Return parameters of mujoco_ros2_control's gravity compensation of a sensor."""
    return load.text(
        '#',
        '# put the name of your sensor in place of fts_sensor: the MJCF has fts_sensor_force and',
        f'# fts_sensor_torque, and a site with the axes of the link {load.frame}',
        '/**:',
        '  ros__parameters:',
        '    mujoco_plugins:',
        '      fts_grav_comp_plugin:',
        '        type: mujoco_ros2_control_plugins/FtsGravCompPlugin',
        '        fts_sensor:',
        f'          frame_id: {json.dumps(load.frame)}',
        '          CoG:',
        f'            pos: {_list(load.center_of_mass)}',
        f'            mass: {float(f"{load.mass:.9g}")!r}',
    )


def urdf_link(load: FlangeLoad) -> str:
    """Return a link with the load's inertia, and the joint that fixes it."""
    names = ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')
    entries = load.inertia[[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    inertia = ' '.join(f'{n}="{v:.9g}"' for n, v in zip(names, entries, strict=True))
    centre = _list(load.center_of_mass)[1:-1].replace(',', '')
    remarks = '; '.join(load.remarks).replace('--', '-')
    return '\n'.join(
        [
            f'<!-- {remarks} -->',
            '<link name="identified_load">',
            '  <inertial>',
            f'    <origin xyz="{centre}" rpy="0 0 0"/>',
            f'    <mass value="{load.mass:.9g}"/>',
            f'    <inertia {inertia}/>',
            '  </inertial>',
            '</link>',
            '<joint name="identified_load_fixed" type="fixed">',
            f'  <parent link="{load.frame}"/>',
            '  <child link="identified_load"/>',
            '</joint>',
            '',
        ]
    )


def principal_axes(inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return principal moments (3,) and their axes, (3, 3) columns of a rotation close to 1."""
    moments, axes = np.linalg.eigh(inertia)
    order = [0, 1, 2]
    # the axis that is most along X comes first, then that along Y: small angles are easy to check
    left = list(order)
    for row in range(3):
        order[row] = max(left, key=lambda k, row=row: abs(axes[row, k]))  # type: ignore[misc]
        left.remove(order[row])
    axes = axes[:, order]
    axes = axes * np.where(np.diag(axes) < 0.0, -1.0, 1.0)
    if np.linalg.det(axes) < 0.0:
        axes[:, 2] *= -1.0
    return moments[order], axes


def krl_angles(rotation: np.ndarray) -> np.ndarray:
    """Return A, B and C of a rotation, (3,) [degrees]."""
    roll, pitch, yaw = pin.rpy.matrixToRpy(rotation)
    return np.degrees([yaw, pitch, roll])


WRITERS: dict[str, Callable[[FlangeLoad], str]] = {
    'ur': ur,
    'franka': franka,
    'franka_desk': franka_desk,
    'xarm': xarm,
    'kuka': kuka,
    'gravity': gravity,
    'mujoco_ros2_control': mujoco_ros2_control,
    'urdf_link': urdf_link,
}
"""Writers by the names of their formats."""
