# SPDX-License-Identifier: Apache-2.0
"""The quadruped of boxes, for tests of floating bases."""

from pathlib import Path

import numpy as np

FEET = tuple(f'{leg}_foot' for leg in ('FL', 'FR', 'RL', 'RR'))
STANDING = (0.0, 0.8, -1.55) * 4
"""Positions of hip, thigh and calf of each leg in which it stands [rad]."""

URDF = Path(__file__).resolve().parents[1] / 'urdf' / 'quadruped.urdf'


def walker():
    """Return its URDF: a trunk of 7 kg, and four legs of three links each."""
    return URDF.read_text(encoding='utf-8')


def write_bag(path, joints, signals, contacts='bool', *, frame='trunk', orientation=True):
    """
    Write joint states, IMU and contacts of signals into a bag by rosbags, and return its path.

    Parameters
    ----------
    path, joints:
        The bag, and names of the joints.
    signals:
        Arrays ``time``, ``q``, ``tau``, ``gyro``, ``acc``, ``turn``, ``stance`` and, for forces,
        ``wrench``.
    contacts:
        ``bool``, on change alone; ``array`` of Float64MultiArray; ``wrench``.
    frame:
        Of the IMU.
    orientation:
        Whether the IMU estimates it.

    """
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import get_typestore, Stores

    store = get_typestore(Stores.ROS2_JAZZY)
    types, late = store.types, 3_600_000_000_000
    make = {kind.rpartition('/')[2]: types[kind] for kind in types}
    kinds = {
        'bool': 'std_msgs/msg/Bool',
        'array': 'std_msgs/msg/Float64MultiArray',
        'wrench': 'geometry_msgs/msg/WrenchStamped',
    }

    def header(at, name):
        stamp = types['builtin_interfaces/msg/Time'](*divmod(at, 1_000_000_000))
        return types['std_msgs/msg/Header'](stamp, name)

    def vector(values):
        return types['geometry_msgs/msg/Vector3'](*map(float, values))

    def flag(k, row, at):
        if contacts == 'bool':
            return make['Bool'](bool(signals['stance'][row, k]))
        if contacts == 'array':
            layout = make['MultiArrayLayout']([make['MultiArrayDimension']('feet', 4, 4)], 0)
            return make['Float64MultiArray'](layout, 80.0 * signals['stance'][row])
        force = vector(signals['wrench'][row, 3 * k : 3 * k + 3])
        wrench = types['geometry_msgs/msg/Wrench'](force, vector([0.0, 0.0, 0.0]))
        return make['WrenchStamped'](header(at, FEET[k]), wrench)

    with Writer(path, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:

        def topic(name, kind):
            return writer.add_connection(name, kind, typestore=store), kind

        states = topic('/joint_states', 'sensor_msgs/msg/JointState')
        imus = topic('/imu/data', 'sensor_msgs/msg/Imu')
        names = ['/feet'] if contacts == 'array' else [f'/{foot}/contact' for foot in FEET]
        feet = [topic(name, kinds[contacts]) for name in names]
        none = np.zeros(9)
        for i, time in enumerate(signals['time']):
            at = 1_700_000_000_000_000_000 + round(1e9 * float(time))

            def write(place, message, at=at):
                # received by another clock than that of the stamps
                writer.write(place[0], at + late, store.serialize_cdr(message, place[1]))

            q, tau = (np.array(signals[name][i], dtype=float) for name in ('q', 'tau'))
            write(states, make['JointState'](header(at, ''), list(joints), q, 0.0 * q, tau))
            turn = signals['turn'][i] if orientation else (0.0, 0.0, 0.0, 1.0)
            message = make['Imu'](
                header(at, frame),
                types['geometry_msgs/msg/Quaternion'](*map(float, turn)),
                none,
                vector(signals['gyro'][i]),
                none,
                vector(signals['acc'][i]),
                none,
            )
            write(imus, message)
            for k, foot in enumerate(feet):
                stance = signals['stance']
                if contacts != 'bool' or not i or stance[i, k] != stance[i - 1, k]:
                    write(foot, flag(k, i, at))
    return path
