# SPDX-License-Identifier: Apache-2.0
"""Size of a recording's QR factor, cost of its handling, and exactness of merging."""

from __future__ import annotations

from dataclasses import replace
import io
import zipfile

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.estimation.factor import merge_all
from robot_identification.estimation.factor_file import pack, unpack
from robot_identification.estimation.least_squares import wls
from robot_identification.estimation.system import LinearSystem
from robot_identification.identification.reduction import FactorBuilder
from robot_identification.regressor import ModelSettings

from .harness import Figure, interleaved, Section, Table
from .synthetic import panda, recording

SECONDS = 2.0
PARTS = 8
MODELS = {
    'rigid links': ModelSettings(friction=(), rotor_inertia=False),
    'and friction': ModelSettings(rotor_inertia=False),
    'and rotors': ModelSettings(),
}


def section() -> Section:
    """Measure."""
    robot = panda()
    sizes, reducers = [], {}
    for title, model in MODELS.items():
        reducers[title] = FactorBuilder.from_problem(IdentificationProblem(robot, model))
        recorded = recording(robot, SECONDS, model=model)
        data = pack(reducers[title].reduce(recorded))
        sizes.append((title, reducers[title].structure.n_base, len(data), *_shares(data)))
    reducer = reducers['and rotors']
    longer = len(pack(reducer.reduce(recording(robot, 3.0 * SECONDS))))
    parts = [
        reducer.reduce(recording(robot, SECONDS, start=SECONDS * part)) for part in range(PARTS)
    ]
    one, two, data = parts[0], parts[1], pack(parts[0])
    times = interleaved(
        {
            'merge two': lambda: one.factor.merge(two.factor),
            'into bytes': lambda: pack(one),
            'from bytes': lambda: unpack(data),
            'identify (WLS)': lambda: wls(LinearSystem(one.factor, reducer.structure)),
        },
        repeats=31,
        warm=3,
    )
    apart = _largest_difference(parts, reducer)
    tables = [
        Table(
            ('Panda, seven joints', 'base parameters', 'file', 'triangles', 'header'),
            [
                (title, str(b), *(f'{n / 1e3:.1f} kB' for n in (size, triangles, header)))
                for title, b, size, triangles, header in sizes
            ],
            text='The file also holds the products of the samples before decimation (as large as '
            'the triangles), for one of the figures of the fit, and factors of stretches of time '
            'for the bootstrap, which take most of it. The header has settings, '
            f'fingerprint and URDF. A recording three times as long: {longer / 1e3:.1f} kB.',
        ),
        Table(
            ('one factor (with rotors)', 'median', 'best'),
            [
                (name, f'{1e3 * time.median:.2f} ms', f'{1e3 * time.best:.2f} ms')
                for name, time in times.items()
            ],
        ),
    ]
    return Section(
        'Factors',
        f'The factor of a recording as a file; and {PARTS} factors merged in a tree against '
        'merged one by one: their weighted least squares differ by at most '
        f'{apart:.1e} standard deviations.',
        tables,
        [
            Figure('panda file', sizes[-1][2] / 1e3, 'kB', at_most=100.0),
            Figure('panda file, recording three times as long', longer / 1e3, 'kB', at_most=100.0),
            Figure('merge', 1e3 * times['merge two'].median, 'ms'),
            Figure('write', 1e3 * times['into bytes'].median, 'ms'),
            Figure('read', 1e3 * times['from bytes'].median, 'ms'),
            Figure('tree against one by one', apart, 'standard deviations', at_most=1e-9),
        ],
    )


def _shares(data: bytes) -> tuple[int, int]:
    """Bytes of the triangles and of the header."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = ('triangles.npy', 'header.json')
        triangles, header = (archive.getinfo(name).compress_size for name in names)
    return triangles, header


def _largest_difference(parts: list, reducer: FactorBuilder) -> float:
    """Largest difference of parameters between two orders of merging [standard deviations]."""
    total = parts[-1].factor
    for part in reversed(parts[:-1]):
        total = total.merge(part.factor)
    trees = merge_all(part.factor for part in parts), total
    system = LinearSystem(trees[0], reducer.structure)
    one, two = wls(system), wls(replace(system, factor=trees[1]))
    return float(np.nanmax(np.abs(one.base.values - two.base.values) / one.std))
