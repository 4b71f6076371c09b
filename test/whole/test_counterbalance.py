# SPDX-License-Identifier: Apache-2.0
"""A counterbalance at a joint whose gravity has the same form: only the links' prior tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from robot_identification.config.experiment_file import load_experiment
from robot_identification.data.recording import Motion
from robot_identification.identification.pipeline import identify
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict, prior
import yaml

URDF = Path(__file__).parents[2] / 'urdf' / 'demo_arm.urdf'
RATE = 100.0


def _identified(folder, pull):
    """Identify the URDF's own bodies from 20 s, with a pull of the second joint's angle."""
    robot = Robot.from_urdf(URDF)
    n, random = robot.n_joints, np.random.default_rng(4)
    time = np.arange(0.0, 20.0, 1.0 / RATE)
    states = np.zeros((3, time.size, n))
    for k in range(1, 6):
        w, size, phase = 0.6 * k, random.uniform(0.2, 0.6, n) / k, random.uniform(0.0, 6.0, n)
        angle = w * time[:, None] + phase
        states += size * np.array([np.sin(angle), w * np.cos(angle), -w * w * np.sin(angle)])
    model = ModelSettings()
    drives = {'Ia': 0.05, 'fv': 0.5, 'fc': 0.8}
    known = prior(robot, model)
    values = {f'{joint}.{s}': v for joint in robot.joints for s, v in drives.items()}
    effort = predict(build(robot, model), Motion(*states), known.updated(values))
    effort[:, 1] += pull(states[0][:, 1])
    effort += 0.01 * effort.std(axis=0) * random.standard_normal(effort.shape)
    heads = ['time', *(f'{s}{j}' for s in ('q', 'tau') for j in range(n))]
    table = np.column_stack([time, states[0], effort])
    np.savetxt(folder / 'run.csv', table, delimiter=',', header=','.join(heads), comments='')
    entry = {'file': 'run.csv', 'time': 'time', 'position': heads[1 : n + 1]}
    document = {
        'robot': {'urdf': str(URDF), 'joints': list(robot.joints), 'effort_kind': 'joint_torque'},
        'data': {'identification': [{**entry, 'effort': heads[n + 1 :]}]},
    }
    file = folder / 'experiment.yaml'
    file.write_text(yaml.safe_dump(document))
    return identify(load_experiment(file))


def test_a_counterbalance_is_found_where_bodies_would_be_implausible(tmp_path):
    result = _identified(tmp_path, lambda q: 60.0 * np.sin(q))
    assert result.settings.model.joint_springs == ('joint_2',)
    makers = result.prior.inertial
    for link in result.robot.links:
        assert 0.5 < result.standard[f'{link}.m'] / makers(link)[0] < 2.0
    chosen = [choice for choice in result.selection.choices if 'springs' in choice.key]
    assert [choice.value for choice in chosen] == [('joint_2',)]


def test_an_arm_as_its_urdf_says_has_no_spring(tmp_path):
    result = _identified(tmp_path, lambda q: 0.0 * q)
    assert result.settings.model.joint_springs == ()
    assert not any('counterbalance' in text for text in result.warnings)
