# SPDX-License-Identifier: Apache-2.0
"""Words on servos: errors over whole motions, and play that no file has a place for."""

from dataclasses import replace

from made_up_loads import servos
import numpy as np
import pytest
from robot_identification.errors import IdentificationWarning
from robot_identification.exports.servo_exports import isaaclab, servo_mjcf
from robot_identification.pages.servo_text import servo_facts
from robot_identification.servo.parameters import FreeParameters, PLAY
from robot_identification.verdicts.verdict import verdict


def with_play():
    """Return servos whose second joint has a play of 20 mrad."""
    sound = servos()
    play = np.array([0.0, 0.02, 0.0])
    known = replace(sound.parameters, play=play, play_damping=2.0 * play)
    old = sound.fit.free
    free = FreeParameters(old.kinds + PLAY, known, old.joints, old.bus, (1,))
    vector = free.vector(known.values)
    fit = replace(
        sound.fit,
        free=free,
        vector=vector,
        std=np.full(vector.size, 1e-3),
        at_bound=np.zeros(vector.size, bool),
        correlation=np.eye(vector.size),
    )
    return replace(sound, fit=fit, errors={**sound.errors, 'without_play': np.full(3, 5e-3)})


def test_play_is_said_with_what_files_miss():
    result = with_play()
    joint = result.robot.joints[1]
    texts = [reason.text for reason in verdict(result).reasons]
    assert any(f'play of {joint}' in text and '5 mrad remain' in text for text in texts)
    assert f'{joint} 20 +- 1 mrad' in servo_facts(result).replace('\n', ' ')


def test_uses_are_judged_by_what_files_hold():
    result = with_play()
    bad = replace(result, errors={**result.errors, 'without_play': np.full(3, 0.2)})
    assert 'simulation' in verdict(result).uses
    assert 'simulation' not in verdict(bad).uses


def test_files_say_what_they_leave_out():
    result = with_play()
    with pytest.warns(IdentificationWarning, match='measures behind a play'):
        assert 'play of 0.02 rad' in servo_mjcf(result)
    with pytest.warns(IdentificationWarning, match='no place for play'):
        assert '# Left out: play.' in isaaclab(result)


def test_an_error_over_whole_motions_is_told_from_one_that_begins_anew():
    result = replace(servos(), anew=np.full(3, 5e-4), starts=7)
    texts = [reason.text for reason in verdict(result).reasons]
    assert any('those that begin anew at 7 places 0.5' in text for text in texts)
    assert '0.50 in 7 rollouts that begin anew' in servo_facts(result).replace('\n', ' ')
