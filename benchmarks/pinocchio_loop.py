# SPDX-License-Identifier: Apache-2.0
"""Pinocchio's regressor called from C++: builds ``pinocchio_loop.cpp`` and calls it."""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path
import shutil
import subprocess
import tempfile

import numpy as np
import pinocchio as pin
from robot_identification.data.recording import Motion
from robot_identification.model.robot import Robot

SOURCE = Path(__file__).with_suffix('.cpp')
BUILD = SOURCE.parents[1] / 'build' / 'benchmarks'
OPTIONS = (
    '-std=c++17',
    '-O3',
    '-march=native',
    '-DNDEBUG',
    # what Pinocchio's own CMake files ask for
    '-DBOOST_MPL_LIMIT_LIST_SIZE=30',
    '-DBOOST_MPL_LIMIT_VECTOR_SIZE=30',
    '-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS',
    '-DBOOST_FUSION_INVOKE_MAX_ARITY=12',
)


class Unavailable(Exception):
    """It cannot be built here; the text says why."""


class PinocchioLoop:
    """
    A robot's regressor, sample by sample in C++.

    Parameters
    ----------
    robot:
        With joints of one coordinate each.

    Raises
    ------
    Unavailable
        where the loop cannot be built.

    """

    def __init__(self, robot: Robot) -> None:
        self._library = ctypes.CDLL(str(library()))
        self._library.open_model.restype = ctypes.c_void_p
        self._robot = robot
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / 'model.txt'
            robot.model.saveToText(str(path))
            self._model = ctypes.c_void_p(self._library.open_model(str(path).encode()))

    def states(self, motion: Motion) -> tuple[np.ndarray, ...]:
        """Return the motion as Pinocchio has it."""
        return (
            np.ascontiguousarray(self._robot.configuration(motion.position)),
            np.ascontiguousarray(self._robot.tangent(motion.velocity)),
            np.ascontiguousarray(self._robot.tangent(motion.acceleration)),
        )

    def __call__(self, states: tuple[np.ndarray, ...], out: np.ndarray) -> None:
        """Fill (samples, nv, 10 nv), contiguous."""
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*states, out)]
        self._library.run(self._model, ctypes.c_long(len(states[0])), *pointers)


def library() -> Path:
    """Return the built library, building it where it is not."""
    prefix = _prefix()
    text = SOURCE.read_bytes() + ' '.join((pin.__version__, *OPTIONS)).encode()
    path = BUILD / f'pinocchio_loop-{hashlib.sha256(text).hexdigest()[:12]}.so'
    if path.is_file():
        return path
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        made = Path(folder) / path.name
        command = ['g++', *OPTIONS, '-shared', '-fPIC', str(SOURCE), '-o', str(made)]
        command += ['-isystem', f'{prefix}/include', '-isystem', f'{prefix}/include/eigen3']
        command += [f'-L{prefix}/lib', '-lboost_serialization', f'-Wl,-rpath,{prefix}/lib']
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            lines = [line for line in built.stderr.splitlines() if 'error' in line]
            raise Unavailable(f'g++ cannot build it: {(lines or ["?"])[0]}')
        made.rename(path)
    return path


def _prefix() -> Path:
    if shutil.which('g++') is None:
        raise Unavailable('g++ is not installed')
    for folder in Path(pin.__file__).parents:
        if (folder / 'include/pinocchio').is_dir():
            if not (folder / 'include/eigen3').is_dir():
                raise Unavailable('the headers of Eigen are not installed (cmeel-eigen)')
            return folder
    raise Unavailable('the headers of Pinocchio are not installed')
