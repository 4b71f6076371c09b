# SPDX-License-Identifier: Apache-2.0
"""An estimator added as CONTRIBUTING.md describes: a file of its own and the table's file."""

import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]

RIDGE = '''# SPDX-License-Identifier: Apache-2.0
"""Ridge regression on the columns scaled to norm 1 (Hoerl and Kennard 1970)."""

from dataclasses import dataclass

import numpy as np

from ..options.fields import option
from .estimate import Estimate
from .least_squares import assemble, identifiability, joint_weights, solve
from .system import LinearSystem


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
'''

TABLE = (
    (
        'from .rows import',
        'from .ridge import ridge, RidgeSettings\nfrom .rows import',
    ),
    (
        "    'mrls': Estimator(",
        """    'ridge': Estimator(
        'ridge regression',
        'weighted least squares drawn towards zero',
        lambda task: ridge(task.system, task.settings.ridge, task.robot.name),
        from_factors=True,
    ),
    'mrls': Estimator(""",
    ),
    (
        '    mrls: RecursiveSettings = option(',
        """    ridge: RidgeSettings = option(
        factory=RidgeSettings, doc='Of the ridge regression, for method ridge'
    )
    mrls: RecursiveSettings = option(""",
    ),
)

NODE = """
import sys
import rclpy
from robot_identification_msgs.srv import Identify
from robot_identification.nodes.identification_node import IdentificationNode

rclpy.init(args=['--ros-args', '--log-level', 'fatal', '-p', 'experiment:=' + sys.argv[1],
                 '-p', 'output:=' + sys.argv[2]])
node = IdentificationNode()
response = Identify.Response()
print(node._identify(Identify.Request(method='ridge'), response))
node.destroy_node()
rclpy.shutdown()
"""


PAGE = """
import sys
sys.path.insert(0, sys.argv[1])
from experiment_page import key_tables
print(key_tables())
"""


@pytest.fixture(scope='module')
def place(tmp_path_factory, make_workspace):
    """Return a folder with a copy of the package that has the estimator, and an experiment."""
    place = tmp_path_factory.mktemp('ridge')
    package = place / 'robot_identification'
    # with the machine code in __pycache__, which would take ten seconds to make anew
    shutil.copytree(ROOT / 'robot_identification', package)
    (package / 'estimation' / 'ridge.py').write_text(RIDGE)
    table = package / 'estimation' / 'estimators.py'
    text = table.read_text()
    for old, new in TABLE:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    table.write_text(text)
    make_workspace(place)
    return place


@pytest.fixture(scope='module')
def python(place):
    """Give a function that runs Python in that folder and returns what it printed."""
    environment = {
        **os.environ,
        'PYTHONPATH': os.pathsep.join([str(place), os.environ.get('PYTHONPATH', '')]),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'OFF',
        'COLUMNS': '200',
    }

    def run(*words):
        command = [sys.executable, *map(str, words)]
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return ' '.join(done.stdout.split())

    return run


COMMAND = ('-m', 'robot_identification.cli')
COMMANDS = (
    '-c',
    'import shlex, sys\n'
    'from robot_identification.cli import main\n'
    'sys.exit(max(main(shlex.split(words)) for words in sys.argv[1:]))',
)
"""One process for several commands, each a word."""


def document(folder):
    """Return the result file of a folder."""
    return yaml.safe_load((folder / 'result.yaml').read_text())


def test_an_experiment_file_and_the_command_line_name_it(place, python):
    text = (place / 'experiment.yaml').read_text()
    method = 'method: wls\n'
    assert text.count(method) == 1
    named = text.replace(method, 'method: ridge\n  ridge: {weight: 1.0e-4}\n')
    (place / 'ridge.yaml').write_text(named)
    settings = '--set estimation.method=ridge --set estimation.ridge.weight=1e-4'
    printed = python(
        *COMMANDS,
        'identify ridge.yaml --quiet --out by_file',
        f'identify experiment.yaml --verbose --out by_words {settings}',
        'identify experiment.yaml --quiet --out plain',
    )
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


def test_descriptions_and_pages_have_it(python):
    schema = python(*COMMAND, 'schema')
    assert '"ridge"' in schema and 'Weight of the scaled parameters' in schema
    page = python('-c', PAGE, ROOT / 'scripts')
    assert '`estimation.ridge`' in page and 'Weight of the scaled parameters' in page
    assert 'weighted least squares drawn towards zero (ridge)' in page


def test_the_node_identifies_with_it(place, python):
    pytest.importorskip('rclpy')
    answer = python('-c', NODE, place / 'experiment.yaml', place / 'answers')
    assert 'by ridge from first.csv' in answer
    assert document(place / 'answers' / 'first_ridge')['identification']['method'] == 'ridge'
