# SPDX-License-Identifier: Apache-2.0
"""Table II of Gautier and Venture (2013) in our parameters, and the recording of a TX-40."""

from __future__ import annotations

from pathlib import Path
import tempfile

import numpy as np
from robot_identification.config.experiment_file import load_experiment
from robot_identification.identification.pipeline import identify
from robot_identification.model.parameters import INERTIAL_SYMBOLS, ParameterSet
from robot_identification.results.result import Result
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENT = ROOT / 'examples' / 'tx40' / 'experiment.yaml'

COLUMNS = ('chi_ref', 'chi_0b', 'chi_0e')
"""A priori values; the estimates with base columns and with essential columns."""

_PRINTED = """
ZZ1 0.0392 1.24 0.315 | Ia1 0.362 0.362 0.362 | Fv1 7.96 7.96 7.93
Fc1 6.79 6.81 6.86 | off1 0 0.314 0.314 | XX2 0.0163 -0.471 0.0271
XY2 0.000785 0.0103 0.00619 | XZ2 -0.0157 -0.149 -0.0405 | YY2 0.0881 0.0881 0.0881
YZ2 0.000324 0.00556 0.000324 | ZZ2 0.0828 1.08 0.131 | MX2 0.392 2.14 0.0959
MY2 -0.0072 0.105 0.0679 | MZ2 0.162 0.162 0.162 | Ia2 0.507 0.507 0.507
Fv2 5.92 5.93 5.92 | Fc2 7.38 7.47 7.42 | off2 0 0.86 0
XX3 0.0223 0.13 0.0691 | XY3 -0.000195 -0.00697 -0.000195 | XZ3 -0.0116 0.0022 -0.0116
YY3 0.0224 0.0224 0.0224 | YZ3 -0.00222 0.00453 -0.00222 | ZZ3 0.00441 0.108 0.042
MX3 0.0326 0.0841 0.0308 | MY3 0.0244 -0.631 -0.115 | MZ3 0.265 0.265 0.265
M3 4.07 4.07 4.07 | Ia3 0.0829 0.102 0.0914 | Fv3 1.98 1.99 2.01
Fc3 6.43 6.41 6.37 | off3 0 0.448 0 | XX4 0.109 0.0056 0.109
XY4 2.9e-05 -0.00366 2.9e-05 | XZ4 0.00135 -0.0026 0.00135 | YY4 0.108 0.108 0.108
YZ4 -0.00117 -0.00664 -0.00117 | ZZ4 0.00407 0.00378 0.00407 | MX4 0.0145 -0.0326 -0.0127
MY4 -0.00724 -0.00755 -0.00724 | MZ4 -0.586 -0.586 -0.586 | M4 3.62 3.62 3.62
Ia4 0.0341 0.0315 0.0303 | Fv4 1.06 1.07 1.07 | Fc4 2.72 2.6 2.67
off4 0 -0.0606 0 | XX5 0.00101 0.00192 0.00101 | XY5 0 -0.00093 0
XZ5 0 -0.00237 -0.000158 | YY5 0.001 0.001 0.001 | YZ5 -3.06e-06 6.73e-05 -3.06e-06
ZZ5 0.00101 0.00393 0.00101 | MX5 0 0.00824 0 | MY5 -0.00306 -0.0105 0.00239
MZ5 -0.00102 -0.00102 -0.00102 | M5 1.02 1.02 1.02 | Ia5 0.0361 0.0322 0.0346
Fv5 1.24 1.24 1.24 | Fc5 2.62 2.6 2.62 | off5 0 0.105 0
XX6 0.000353 0.000471 0.000353 | XY6 0 0.000846 0 | XZ6 0 0.000353 0
YY6 0.000353 0.000353 0.000353 | YZ6 0 -0.000441 0 | ZZ6 0 0.000704 0
MX6 0 0.00107 0 | MY6 0 -0.00371 0 | MZ6 0.0084 0.0084 0.0084
M6 0.2 0.2 0.2 | Ia6 0.0114 0.011 0.0112 | Fv6 0.694 0.64 0.637
Fc6 0 0.42 0.408 | off6 0 0.188 0.174 | Fvm6 0.592 0.604 0.598
Fcm6 1.88 1.78 1.81
"""

TABLE_2 = {
    words[0]: dict(zip(COLUMNS, map(float, words[1:]), strict=True))
    for words in (entry.split() for entry in _PRINTED.replace('|', '\n').splitlines() if entry)
}
"""Values by the paper's names; ``Fc`` is printed ``Fs``.  XX1 to YZ1, MX1 to M1, M2 are not."""

MASS_2 = 10.0
"""Mass of link 2 [kg], which has no effect and is not printed; from 3 on it is physical."""

_SYMBOLS = {
    **{2 * axis: f'I{axis.lower() * 2}' for axis in 'XYZ'},
    **{f'{a}{b}': f'I{a.lower()}{b.lower()}' for a, b in ('XY', 'XZ', 'YZ')},
    **{f'M{axis}': f'm{axis.lower()}' for axis in 'XYZ'},
    'M': 'm',
    'Ia': 'Ia',
    'Fv': 'fv',
    'Fc': 'fc',
    'off': 'off',
    'Fvm': 'fvm',
    'Fcm': 'fcm',
}


def our_name(name: str) -> str:
    """Return our name of a parameter of Table II."""
    symbol = _SYMBOLS[name[:-1]]
    owner = 'link' if symbol in INERTIAL_SYMBOLS else 'joint'
    return f'{owner}_{name[-1]}.{symbol}'


def printed(column: str) -> dict[str, float]:
    """
    Return a column of Table II by our names.

    The paper's Fv6 holds Fvm6, too: the printed equation of joint 6 has Fvm6 with the velocity of
    joint 5 alone, ours with the motor's.
    """
    values = {our_name(name): entry[column] for name, entry in TABLE_2.items()}
    values['joint_6.fv'] -= values['joint_6.fvm']
    return values


def as_printed(parameters: ParameterSet) -> np.ndarray:
    """Return standard parameters as a column of Table II, (76,)."""
    values = parameters.as_dict()
    values['joint_6.fv'] += values['joint_6.fvm']
    return np.array([values[our_name(name)] for name in TABLE_2])


def column_of(name: str) -> np.ndarray:
    """Return a column of Table II as it is printed, (76,)."""
    return np.array([entry[name] for entry in TABLE_2.values()])


def run(
    *,
    inertia: str = 'tied',
    dead_zone: bool = True,
    time_range: tuple[float, float] | None = None,
    **estimation: str,
) -> Result:
    """
    Identify the TX-40 from its recording with chi_ref as the a priori values.

    Parameters
    ----------
    inertia:
        Whether motor 6 has one inertia (``tied``) or one more on the coupling (``separate``).
    dead_zone:
        Whether rows of joints that hardly move are left out.
    time_range:
        Part of the recording to take [s]; None takes all.
    **estimation:
        Keys of the experiment file's ``estimation``.

    """
    experiment = EXPERIMENT.with_name(
        'experiment_dead_zone.yaml' if dead_zone else 'experiment.yaml'
    )
    with tempfile.TemporaryDirectory() as folder:
        prior = Path(folder) / 'chi_ref.yaml'
        values = {**printed('chi_ref'), 'link_2.m': MASS_2}
        if inertia == 'separate':
            values['joint_6.Iam'] = values['joint_6.Ia']
        prior.write_text(yaml.safe_dump(values), encoding='utf-8')
        settings = {'method': 'wls', 'distance': 'si', 'prior': str(prior), **estimation}
        overrides = {f'estimation.{key}': value for key, value in settings.items()}
        overrides['robot.coupled_drives[0].inertia'] = inertia
        if time_range is not None:
            overrides['data.identification[0].time_range'] = str(list(time_range))
        return identify(load_experiment(experiment, overrides))
