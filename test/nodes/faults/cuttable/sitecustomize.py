# SPDX-License-Identifier: Apache-2.0
"""
Let the network of a process be cut, by filters in the kernel at its sockets.

Python imports this in every process that has the folder in PYTHONPATH, so in a node's children,
too.  A datagram of JSON to the socket ``$CUTTABLE/<process number>`` tells from which UDP ports
nothing is to come in any more; the answer tells from which ports this process sends.  It takes no
privileges, and whoever is at other ports hears and is heard as before.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
import threading

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
LOAD_HALF, JUMP_EQUAL, RETURN = 0x28, 0x15, 0x06  # classic BPF


def udp_sockets():
    """Yield duplicates of this process's UDP sockets."""
    for name in os.listdir('/proc/self/fd'):
        with contextlib.suppress(FileNotFoundError):
            if not os.readlink(f'/proc/self/fd/{name}').startswith('socket:'):
                continue
            with socket.socket(fileno=os.dup(int(name))) as found:
                if found.family == socket.AF_INET and found.type == socket.SOCK_DGRAM:
                    yield found


def drop(ports):
    """Have the kernel drop what comes from these ports, before any of our sockets gets it."""
    program = [(LOAD_HALF, 0, 0, 0)]  # the source port, which a UDP datagram begins with
    for place, port in enumerate(ports):
        program.append((JUMP_EQUAL, len(ports) - place, 0, port))
    program += [(RETURN, 0, 0, 0xFFFFFFFF), (RETURN, 0, 0, 0)]
    code = b''.join(struct.pack('HBBI', *line) for line in program)
    buffer = ctypes.create_string_buffer(code)
    head = struct.pack('HL', len(program), ctypes.addressof(buffer))
    for each in udp_sockets():
        if ports:
            each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, head)
        else:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def obey(control):
    while True:
        message, sender = control.recvfrom(65536)
        drop(json.loads(message))
        ports = sorted({each.getsockname()[1] for each in udp_sockets()})
        control.sendto(json.dumps(ports).encode(), sender)


def begin(folder):
    path = os.path.join(folder, str(os.getpid()))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(path)
    threading.Thread(target=obey, args=(control,), daemon=True).start()


if 'CUTTABLE' in os.environ:
    begin(os.environ['CUTTABLE'])
