# SPDX-License-Identifier: Apache-2.0
"""Every command and format where no optional package is installed."""

from __future__ import annotations

import json
import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest
from robot_identification.cli.main import COMMANDS
from robot_identification.errors import EXTRAS
from robot_identification.exports.formats import FORMATS

ROOT = Path(__file__).resolve().parents[1]
MISSING = (*EXTRAS, 'distributed', 'fastapi', 'matplotlib', 'plotly', 'rclpy', 'threadpoolctl')
EXPERIMENT = 'examples/demo_arm/experiment.yaml'
BAG = 'examples/demo_arm/recordings/validation'
RESULT = 'results/result.yaml'
ROS = 'needs ROS 2'
LOADS = 'the result has no load'

DRIVER = """
import json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
from command_line import run_command
from pathlib import Path
found = []
for words in json.load(sys.stdin):
    try:
        done = run_command(Path.cwd(), *words, expect=None)
        found.append([done.returncode, done.stderr])
    except BaseException as error:
        found.append([1, f'Traceback: {error!r}'])
print(json.dumps(found))
"""


def needs(package: str) -> str:
    """Return the part of the error that names a missing package and what brings it."""
    extra = f"'robot-identification[{EXTRAS[package]}]'" if package in EXTRAS else package
    return f"'{package}' is not installed: pip install {extra} brings it"


CASES: dict[tuple[str, ...], str | None] = {
    ('init', 'urdf/demo_arm.urdf', BAG, '--effort-kind', 'joint_torque'): None,
    ('identify', EXPERIMENT, '--out', 'results'): None,
    ('tool', EXPERIMENT): "key 'data.tool' is missing",
    ('diagnose', EXPERIMENT): None,
    ('reduce', EXPERIMENT, '--out', 'a.factor'): None,
    ('validate', RESULT, BAG): None,
    ('compare', RESULT, RESULT): None,
    ('plot', RESULT, BAG): needs('plotly'),
    ('check', RESULT): None,
    ('replay', RESULT, BAG): needs('mujoco'),
    ('limits', RESULT): None,
    ('structure', EXPERIMENT): None,
    ('filters', EXPERIMENT): None,
    ('fleet', BAG, '--experiment', EXPERIMENT, '--out', 'fleet', '--workers', '1'): None,
    ('fleet', BAG, '--experiment', EXPERIMENT, '--workers', '2'): needs('dask'),
    ('plan', 'urdf/demo_arm.urdf', '--time-budget', '1', '--out', 'plan'): None,
    ('preview', 'plan/plan.yaml', '--urdf', 'urdf/demo_arm.urdf'): None,
    ('feedforward', RESULT, 'plan/trajectory.yaml'): None,
    ('calibrate', 'urdf/demo_arm.urdf', '--simulation'): needs('mujoco'),
    ('node', 'plan'): ROS,
    ('play', BAG): ROS,
    ('wait', 'identification', '--', 'true'): ROS,
    ('window', '--port', '0'): needs('nicegui').replace(': pip', ', which is for the window: pip'),
    ('schema',): None,
    ('examples', 'copies'): None,
    ('demo',): ROS,
    **{('export', RESULT, '--format', name): None for name, each in FORMATS.items() if each.write},
    ('export', RESULT, '--format', 'mjcf'): needs('mujoco'),
    **{
        ('export', RESULT, '--format', name): LOADS for name in FORMATS if FORMATS[name].write_load
    },
}
"""Command lines, in an order in which each finds its files, and what their error says."""


@pytest.fixture(scope='module')
def ends(tmp_path_factory):
    """Run the commands; return the exit code and standard error of each."""
    folder = tmp_path_factory.mktemp('bare')
    for name in ('examples/demo_arm', 'urdf'):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns('results*'))
    done = subprocess.run(
        [sys.executable, '-c', DRIVER, json.dumps(MISSING)], cwd=folder, capture_output=True,
        input=json.dumps([*CASES]), text=True, check=True,
        env={**os.environ, 'PYTHONPATH': f'{ROOT}:{ROOT / "test"}'},
    )  # fmt: skip
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


def test_every_command_and_format_has_a_case():
    assert {words[0] for words in CASES} == {command.run.__name__ for command in COMMANDS}
    assert {words[-1] for words in CASES if words[0] == 'export'} == {
        name for name, each in FORMATS.items() if each.write or each.write_load
    }


@pytest.mark.parametrize('words', CASES, ids=' '.join)
def test_a_command_works_or_names_what_it_lacks_in_one_line(ends, words):
    code, errors = ends[words]
    assert 'Traceback' not in errors
    expected = CASES[words]
    if expected is None:
        assert code == 0, errors
    else:
        last = errors.splitlines()[-1]
        assert code == 2 and last.startswith('error: ') and expected in last, errors
