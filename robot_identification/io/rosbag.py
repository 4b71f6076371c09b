# SPDX-License-Identifier: Apache-2.0
"""Recordings in rosbag2 files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..drives import Drives
from .entry import RecordingEntry
from .table import Table


def read_rosbag(
    entry: RecordingEntry, joints: tuple[str, ...], drives: Drives, base: Path, size: int
) -> Iterator[Table]:
    """Read a recording from a bag, block by block."""
    raise NotImplementedError
