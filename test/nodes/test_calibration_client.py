# SPDX-License-Identifier: Apache-2.0
"""Calibration of the simulated robot over ROS, by the excitation node and the recorder."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest
import yaml

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

ROOT = Path(__file__).resolve().parents[2]
URDF = ROOT / 'urdf' / 'zollo_planar_2r.urdf'


@pytest.fixture
def calibrate(ros, tmp_path):
    """Give the command, with nodes running for it in the test's own domain."""
    clock = {'use_sim_time': True}
    ros.start(
        'simulation',
        parameters={'robot_description': str(URDF), 'rate': 200.0, 'clock_rate': 50.0},
    )
    ros.start('recorder', parameters={**clock, 'output': str(tmp_path / 'bags')})

    def calibrate(*options, **parameters):
        ros.start('excitation', parameters={**clock, 'horizon': 20.0, **parameters})
        command = [
            sys.executable, '-m', 'robot_identification.cli', 'calibrate', str(URDF),
            '--out', str(tmp_path / 'out'), '--duration', '3', '--motions', '1',
            '--set', 'planner.max_iterations=60', *options,
        ]  # fmt: skip
        return subprocess.run(
            command,
            env={**os.environ, 'PYTHONPATH': str(ROOT)},
            capture_output=True,
            text=True,
            timeout=150,
        )

    return calibrate


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_motion_is_executed_recorded_and_identified(calibrate, tmp_path):
    done = calibrate(execute=True)
    assert 'Traceback' not in done.stderr
    assert done.returncode in (0, 4), done.stderr
    assert 'motion_1: executing 3 s' in done.stdout
    entry = yaml.safe_load((tmp_path / 'out' / 'motion_1' / 'recording.yaml').read_text())
    bag = Path(entry['file'])
    assert bag.parent == tmp_path / 'bags' and list(bag.glob('*.mcap'))
    result = yaml.safe_load((tmp_path / 'out' / 'results' / 'result.yaml').read_text())
    assert result['identification']['relative_error'] < 5.0


@pytest.mark.timeout(300)
def test_nothing_moves_where_the_node_may_not(calibrate, tmp_path):
    done = calibrate(execute=False)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith('error: ')]
    assert len(errors) == 1 and 'execute is false' in errors[0]
    assert not (tmp_path / 'bags').exists() or not list((tmp_path / 'bags').iterdir())
