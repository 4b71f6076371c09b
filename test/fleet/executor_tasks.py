# SPDX-License-Identifier: Apache-2.0
"""Tasks that go wrong in the ways that tasks of workers can."""

import os
from pathlib import Path
import resource
import signal
import time
from types import SimpleNamespace

import numpy as np
from robot_identification.fleet.tasks import reduce_recording


def double(payload, item):
    return payload, 2 * item


def fail_first(payload, item):
    """Fail for an odd item as long as its file is not there."""
    mark = Path(payload.decode()) / str(item)
    if item % 2 and not mark.exists():
        mark.touch()
        raise OSError(5, 'the disk is asleep')
    return item


def always_fail(payload, item):
    if item == 3:
        raise ValueError('no, not three')
    return item


def die_once(payload, item):
    """Kill the worker at item 3, the first time."""
    mark = Path(payload.decode()) / 'died'
    if item == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def die_always(payload, item):
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def blamed(payload):
    """Raise what Dask makes of a task during which workers were killed."""
    from distributed.scheduler import KilledWorker

    raise KilledWorker('bytes', SimpleNamespace(address='tls://nobody'), 1)


def take_memory(payload, item):
    """Take 40 MB in arrays, let go of them, and tell how many pages the system had to give."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(2**17) for _ in range(40)]
    del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def wait_for_mark(payload, item):
    """Note that item was begun; wait for the mark with all but the first to come."""
    folder = Path(payload.decode())
    (folder / str(item)).touch()
    try:
        (folder / 'first').touch(exist_ok=False)
    except FileExistsError:
        pass
    else:
        return item
    while not (folder / 'go on').exists():
        time.sleep(0.01)
    return item


def reduce_or_die(payload, path):
    """Reduce a recording, but kill the worker for one whose name says so."""
    if 'deadly' in path:
        os.kill(os.getpid(), signal.SIGKILL)
    return reduce_recording(payload, path)
