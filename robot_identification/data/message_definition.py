# SPDX-License-Identifier: Apache-2.0
"""Definitions of ROS message types as text, and their hashes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
import re
import sys

from rosbags.typesys import get_typestore, Stores

from ..model.packages import package_folders

_PRIMITIVE = re.compile(r'(bool|byte|char|w?string|u?int(8|16|32|64)|float(32|64))$')
_FIELD = re.compile(r'^\s*([A-Za-z][\w/]*)(<=\d+)?(\[[^\]]*\])?\s+\w+', re.MULTILINE)


@cache
def message_definition(kind: str) -> str:
    """
    Return the definition of a message type with all that it is made of, as rosbag2 embeds it.

    Taken from the installed ``.msg`` files, which have the comments; without a ROS installation
    from the definitions that the rosbags package carries.

    Parameters
    ----------
    kind:
        ``sensor_msgs/msg/JointState``.

    """
    try:
        return ''.join(_installed(kind.replace('/msg/', '/'), set()))
    except FileNotFoundError:
        return get_typestore(Stores.ROS2_JAZZY).generate_msgdef(kind, ros_version=2)[0]


@cache
def type_hash(kind: str) -> str:
    """Return the hash (REP 2016, ``RIHS01_...``) by which ROS knows a message type."""
    return get_typestore(Stores.ROS2_JAZZY).hash_rihs01(kind)


def _installed(kind: str, seen: set[str]) -> Iterator[str]:
    package, name = kind.split('/')
    folders = [*package_folders(), Path(sys.prefix, 'share')]
    files = (folder / package / 'msg' / f'{name}.msg' for folder in folders)
    file = next((f for f in files if f.is_file()), None)
    if file is None:
        raise FileNotFoundError(kind)
    text = file.read_text(encoding='utf-8')
    yield text
    for match in _FIELD.finditer(text):
        part = match[1]
        if _PRIMITIVE.match(part):
            continue
        part = part if '/' in part else f'{package}/{part}'
        if part not in seen:
            seen.add(part)
            yield f'\n{"=" * 80}\nMSG: {part}\n'
            yield from _installed(part, seen)
