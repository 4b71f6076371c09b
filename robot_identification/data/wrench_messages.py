# SPDX-License-Identifier: Apache-2.0
"""Wrenches of a force-torque sensor from the messages of a bag."""

from __future__ import annotations

from pathlib import Path
import struct

import numpy as np

from .bag import bag_messages
from .controller_states import CdrReader
from .recording import recording_error

WRENCH_STAMPED = 'geometry_msgs/msg/WrenchStamped'


def wrench_frame(bag: Path, topic: str) -> str:
    """Return ``frame_id`` of the first wrench of a topic; empty where there is none to read."""
    for messages in bag_messages(bag, topic, (WRENCH_STAMPED,)):
        for data in messages:
            try:
                reader = CdrReader(data)
                reader.numbers('iI', 1)
                return reader.text()
            except (struct.error, ValueError, UnicodeDecodeError):
                return ''
    return ''


def read_wrenches(bag: Path, topic: str) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the (n,) increasing stamps [ns] and (n, 6) forces and torques [N, N m] of a topic.

    Raises RecordingError for a damaged bag, a missing topic, fewer than two messages, and one that
    cannot be read; of several messages with one stamp the last one counts.
    """
    rows: dict[int, np.ndarray] = {}
    for messages in bag_messages(bag, topic, (WRENCH_STAMPED,)):
        for data in messages:
            try:
                reader = CdrReader(data)
                seconds, nanoseconds = reader.numbers('iI', 1)[0]
                reader.text()
                rows[seconds * 1_000_000_000 + nanoseconds] = reader.values(6)
            except (struct.error, ValueError, UnicodeDecodeError) as error:
                raise recording_error(
                    bag, f'a wrench cannot be read ({error})', 'record it again'
                ) from error
    if len(rows) < 2:
        text = f"topic '{topic}' has fewer than two wrenches"
        raise recording_error(bag, text, 'record it while the robot moves')
    stamps = np.array(sorted(rows))
    return stamps, np.array([rows[stamp] for stamp in stamps.tolist()])
