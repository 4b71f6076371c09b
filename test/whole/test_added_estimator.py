# SPDX-License-Identifier: Apache-2.0
"""An estimator added as CONTRIBUTING.md describes: a file of its own, an entry of the table."""

import os
from pathlib import Path
import subprocess
import sys

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]

RIDGE = '''# SPDX-License-Identifier: Apache-2.0
"""Ridge regression on the columns scaled to norm 1 (Hoerl and Kennard 1970)."""

from dataclasses import dataclass

import numpy as np

from robot_identification.estimation.estimate import Estimate
from robot_identification.estimation.least_squares import (
    assemble, identifiability, joint_weights, solve,
)
from robot_identification.estimation.system import LinearSystem
from robot_identification.estimation.table import Estimator, ESTIMATORS
from robot_identification.options.fields import option


@dataclass(frozen=True)
class RidgeSettings:
    """Settings of the ridge regression."""

    weight: float = option(1e-6, doc='Weight of the scaled parameters', minimum=0.0)


def ridge(system: LinearSystem, settings: RidgeSettings, robot: str) -> Estimate:
    """Return the ridge regression of a system."""
    weights = joint_weights(system)
    factor = system.stacked(weights)
    known = identifiability(factor, system.factor.n_rows, system.structure.base_layout)
    norms = np.append(np.linalg.norm(factor[:, :-1], axis=0), 0.0)
    longer = np.vstack([factor, np.sqrt(settings.weight) * np.diag(norms)])
    fixed = np.zeros(system.factor.n_base)
    solution = solve(
        np.linalg.qr(longer, mode='r'), known.excited, fixed, system.factor.n_independent
    )
    return assemble(system, solution, known, weights=weights, method='ridge', robot=robot)


ESTIMATORS['ridge'] = Estimator(
    'ridge regression',
    'weighted least squares drawn towards zero',
    lambda task: ridge(task.system, task.section('ridge'), task.robot.name),
    settings=RidgeSettings,
    from_factors=True,
)
'''

PROGRAM = """
import importlib.util, shlex, sys
import ridge
from robot_identification.cli import main

failed = max(main(shlex.split(words)) for words in sys.argv[2:])
sys.path.insert(0, sys.argv[1])
from experiment_page import key_tables
print(key_tables())
if not failed and importlib.util.find_spec('rclpy'):
    import rclpy
    from robot_identification_msgs.srv import Identify
    from robot_identification.nodes.identification_node import IdentificationNode

    rclpy.init(args=['--ros-args', '--log-level', 'fatal', '-p', 'experiment:=experiment.yaml',
                     '-p', 'output:=answers'])
    node = IdentificationNode()
    print(node._identify(Identify.Request(method='ridge'), Identify.Response()))
    node.destroy_node()
    rclpy.shutdown()
sys.exit(failed)
"""
"""Enters the estimator, then does all that the tests look at: a process is most of the time."""


@pytest.fixture(scope='module')
def place(tmp_path_factory, make_workspace):
    """Return a folder with the estimator's file, and two experiments."""
    place = tmp_path_factory.mktemp('ridge')
    (place / 'ridge.py').write_text(RIDGE)
    make_workspace(place)
    text = (place / 'experiment.yaml').read_text()
    method = 'method: wls\n'
    assert text.count(method) == 1
    named = text.replace(method, 'method: ridge\n  ridge: {weight: 1.0e-4}\n')
    (place / 'ridge.yaml').write_text(named)
    return place


@pytest.fixture(scope='module')
def printed(place):
    """Run the program in that folder, and return what it printed."""
    environment = {
        **os.environ,
        'PYTHONPATH': os.pathsep.join([str(place), str(ROOT), os.environ.get('PYTHONPATH', '')]),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'OFF',
        'COLUMNS': '200',
    }
    settings = '--set estimation.method=ridge --set estimation.ridge.weight=1e-4'
    commands = (
        'identify ridge.yaml --quiet --out by_file',
        f'identify experiment.yaml --verbose --out by_words {settings}',
        'identify experiment.yaml --quiet --out plain',
        'schema',
    )
    done = subprocess.run(
        [sys.executable, '-c', PROGRAM, str(ROOT / 'scripts'), *commands],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return ' '.join(done.stdout.split())


def document(folder):
    """Return the result file of a folder."""
    return yaml.safe_load((folder / 'result.yaml').read_text())


def test_an_experiment_file_and_the_command_line_name_it(place, printed):
    assert 'method ridge regression' in printed
    by_file, by_words, plain = (
        document(place / name) for name in ('by_file', 'by_words', 'plain')
    )
    assert by_file['identification'] == by_words['identification']
    assert by_file['settings']['estimation']['ridge'] == {'weight': 1e-4}
    ridge, wls = by_file['identification'], plain['identification']
    assert (ridge['method'], wls['method']) == ('ridge', 'wls')
    assert wls['relative_error'] < ridge['relative_error'] < 1.1 * wls['relative_error']
    # its deviations have grown by the bootstrap as those of every other method
    assert any(p['std'] != p['classical_std'] for p in by_file['parameters'] if p['std'])
    assert 'ridge regression' in (place / 'by_file' / 'report.html').read_text()


def test_descriptions_and_pages_have_it(printed):
    assert '"ridge"' in printed and '"description": "Weight of the scaled parameters"' in printed
    assert '`estimation.ridge`' in printed
    assert 'weighted least squares drawn towards zero (ridge)' in printed


def test_the_node_identifies_with_it(place, printed):
    pytest.importorskip('rclpy')
    assert 'by ridge from first.csv' in printed
    assert document(place / 'answers' / 'first_ridge')['identification']['method'] == 'ridge'
