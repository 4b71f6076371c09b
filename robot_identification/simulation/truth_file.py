# SPDX-License-Identifier: Apache-2.0
"""File of a simulated robot's true parameters."""

from __future__ import annotations

from pathlib import Path

import yaml

from ..errors import SettingsError
from ..untrusted.writing import write_whole
from .simulator import Simulator


def write_truth(path: Path, simulator: Simulator) -> None:
    """Write the true parameters of a simulator as YAML, as a prior; raises `SettingsError`."""
    text = f'# True parameters of the simulated {simulator.robot.name}, in SI units\n'
    text += yaml.safe_dump(simulator.parameters.as_dict(), sort_keys=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise SettingsError(
            f"cannot write truth_file '{path}': {error.strerror or error}",
            key='truth_file',
            file=str(path),
            remedy='choose a file in a folder that can be written',
        ) from error
