# SPDX-License-Identifier: Apache-2.0
"""
Receive buffers of this process, for messages that wait while the machine is busy.

The shared memory of Fast DDS takes 512 messages, half a second at 1 kHz, and the limit is the
sender's.  The receive buffer of a UDP socket is the receiver's: with 4 MiB it takes some 6,500.
So a process that must not lose messages calls `prefer_sockets` before ``rclpy.init`` and
`enlarge_receive_buffers` when its node exists.  Elsewhere than on Linux this does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
import contextlib
import os
from pathlib import Path
import socket
import stat

BUFFER_SIZE = 4 << 20
"""Requested size of receive buffers [bytes]; a message of seven joints takes about 650."""

SHARED_MEMORY_SIZE = 512 * 650
"""Size of a socket's buffer that takes as many messages as shared memory [bytes]."""

PROFILE = Path(__file__).with_name('fastdds_receiver.xml')

_LIMIT = Path('/proc/sys/net/core/rmem_max')
_VARIABLES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')
_OLD = ('humble', 'iron', 'jazzy')
_DEFAULT_PROFILES = ('DEFAULT_FASTRTPS_PROFILES.xml', 'DEFAULT_FASTDDS_PROFILES.xml')


def profile_variables() -> tuple[str, ...]:
    """Return the variables that name a profile; later distributions warn of the old one."""
    return _VARIABLES if os.environ.get('ROS_DISTRO', 'jazzy') in _OLD else _VARIABLES[1:]


def prefer_sockets() -> bool:
    """
    Have Fast DDS receive by UDP also from this machine, if that buffers more; return if so.

    Nothing is changed if the user has a profile of his own, or if the system's limit for receive
    buffers, ``net.core.rmem_max``, is too low.  Other middleware ignores it.
    """
    chosen = any(os.environ.get(name) for name in _VARIABLES)
    if chosen or any(Path(name).exists() for name in _DEFAULT_PROFILES):
        return False
    try:
        limit = int(_LIMIT.read_text())
    except (OSError, ValueError):
        return False
    if limit <= 2 * SHARED_MEMORY_SIZE:
        return False
    os.environ.update(dict.fromkeys(profile_variables(), str(PROFILE)))
    return True


def enlarge_receive_buffers(size: int = BUFFER_SIZE) -> str:
    """
    Ask for receive buffers of ``size`` bytes of this process's UDP sockets.

    Returns a note with the remedy where the system grants less; otherwise an empty text.
    """
    granted = size
    for each in _udp_sockets():
        with contextlib.suppress(OSError):
            # Linux sets, and returns, twice the requested size
            if each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < 2 * size:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
            granted = min(granted, each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2)
    if granted >= size:
        return ''
    return (
        f'the receive buffers have {granted // 1024} KiB instead of {size // 1024} KiB: messages '
        'that arrive while the machine is busy can get lost; allow more by '
        f'`sudo sysctl -w net.core.rmem_max={size}`'
    )


def overflowed_packets() -> int:
    """Return how many packets found a receive buffer of this process full so far."""
    own = {str(os.fstat(each.fileno()).st_ino) for each in _udp_sockets()}
    count = 0
    for name in ('udp', 'udp6'):
        with contextlib.suppress(OSError):
            for line in Path('/proc/self/net', name).read_text().splitlines()[1:]:
                fields = line.split()
                count += int(fields[-1]) if fields[9] in own else 0
    return count


def _udp_sockets() -> Iterator[socket.socket]:
    """Iterate over duplicates of this process's UDP sockets; each is closed after its turn."""
    with contextlib.suppress(OSError):
        for name in os.listdir('/proc/self/fd'):
            # the middleware's threads open and close files meanwhile
            with contextlib.suppress(OSError):
                if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    continue
                with socket.socket(fileno=os.dup(int(name))) as each:
                    is_internet = each.family in (socket.AF_INET, socket.AF_INET6)
                    if is_internet and each.type == socket.SOCK_DGRAM:
                        yield each
