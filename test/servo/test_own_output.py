# SPDX-License-Identifier: Apache-2.0
"""Recorded efforts that are the servo's own output, and those that are a feed-forward."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.errors import IdentificationWarning
from robot_identification.servo.own_output import is_own_output, without_own_output
from robot_identification.servo.settings import ServoSettings

from benchmarks.two_legs import KD, KP, recorded

SERVO = ServoSettings(stiffness=KP, damping=KD)


@pytest.fixture(scope='module')
def recording():
    return recorded(4.0)


@pytest.fixture(scope='module')
def output(recording):
    velocity = np.gradient(recording.position, recording.time, axis=0)
    return KP * (recording.command - recording.position) - KD * velocity


@pytest.mark.parametrize(
    ('changed', 'limit'),
    [
        (lambda effort: effort, None),
        (lambda effort: np.clip(effort, -2.0, 2.0), 2.0),
        (lambda effort: np.roll(effort, 1, axis=0), None),
        (lambda effort: 1.2 * effort, None),  # gains that are known badly
        (lambda effort: effort * [1, 1, 0, 1], None),
    ],
)
def test_the_output_of_the_controller_is_recognised(recording, output, changed, limit):
    logged = replace(recording, feedforward=changed(output))
    assert is_own_output(logged, replace(SERVO, limit=limit))


@pytest.mark.parametrize('share', [0.3, 0.5, 1.0])
def test_a_feed_forward_is_kept(recording, share):
    """Efforts against a load by the position do not follow the error of the servo."""
    weight = share * np.sin(recording.position) * [4.0, 1.0, 4.0, 1.0]
    assert not is_own_output(replace(recording, feedforward=weight), SERVO)
    friction = share * np.sign(np.gradient(recording.command, axis=0))
    assert not is_own_output(replace(recording, feedforward=friction), SERVO)


def test_what_is_left_out_is_said(recording, output):
    logged = replace(recording, feedforward=output)
    with pytest.warns(IdentificationWarning, match="legs.*the servo's own output"):
        kept, same = without_own_output([logged, recording], SERVO)
    assert kept.feedforward is None
    assert same is recording
