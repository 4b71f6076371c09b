# SPDX-License-Identifier: Apache-2.0
"""
Record a simulated delta robot: identification.csv and validation.csv.

    python examples/delta/record.py [folder]

The robot has the geometry of experiment.yaml and the parameters that Lomakin and Deutscher (IROS
2020) found for theirs.  Its drives hold a torque for 4 ms; positions have a noise of 1e-4 rad,
torques one of 0.1 N m.
"""

from __future__ import annotations

from pathlib import Path
import sys

import numpy as np
from robot_identification.config.experiment_file import experiment_from
from robot_identification.model.parameters import ParameterSet
from robot_identification.options.document import read_document
from robot_identification.regressor import build
from robot_identification.simulation.delta import (
    DeltaPlant,
    multisine,
    track,
)

HERE = Path(__file__).resolve().parent
PERIOD = 0.004
PARAMETERS = {
    'fc': (2.2910, 2.4565, 2.4722),
    'fv': (0.9937, 1.0965, 0.8747),
    'J': (0.0716, 0.0732, 0.0712),
    'mr': (0.0526, 0.0446, 0.0552),
}
PLATFORM = 0.4802


def main(folder: Path, seconds: float = 20.0) -> None:
    """Write both recordings into ``folder``."""
    document = read_document(HERE / 'experiment.yaml')
    settings = experiment_from(document, HERE, check_data=False).robot
    robot = settings.build(HERE)
    layout = build(robot, settings.model).layout
    truth = {'platform.m4': PLATFORM}
    for symbol, values in PARAMETERS.items():
        truth |= {f'{joint}.{symbol}': value for joint, value in zip(robot.joints, values)}
    parameters = ParameterSet(layout, np.array([truth[name] for name in layout]))
    plant = DeltaPlant.from_settings(settings.delta, robot.joints, parameters)
    random = np.random.default_rng(0)
    samples = round(seconds / PERIOD)
    references = [multisine(random, samples, PERIOD) for _ in range(2)]
    runs = track(plant, references, PERIOD, robot.joints, position_noise=1e-4, effort_noise=0.1)
    for name, run in zip(('identification', 'validation'), runs):
        table = np.column_stack((run.time, run.position, run.effort))
        path = folder / f'{name}.csv'
        header = 'time,q1,q2,q3,tau1,tau2,tau3'
        np.savetxt(path, table, '%.9g', ',', header=header, comments='')
        print(f'{path}: {len(run)} samples')


if __name__ == '__main__':
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
