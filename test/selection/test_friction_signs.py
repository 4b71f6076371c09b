# SPDX-License-Identifier: Apache-2.0
"""Signs of friction in the physical fit, whatever a recording says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_identification.data.recording import Motion, Recording
from robot_identification.estimation.least_squares import wls
from robot_identification.estimation.physical import physical
from robot_identification.estimation.system import system_of
from robot_identification.model.consistency import check
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings, predict, prior
from robot_identification.regressor.base_search import structure
from robot_identification.selection.friction_slopes import find_slopes
from robot_identification.signals import SignalSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
SLOPES = {'stiction_slope': 100.0, 'stribeck_slope': 5.0}
STATIC = ModelSettings(friction=('viscous', 'stiction', 'stribeck', 'offset'), **SLOPES)
TRUE = {'fv': 0.5, 'ts': 2.0, 'tsc': -0.6, 'off': 0.1}


@pytest.fixture(scope='module')
def arm():
    return Robot.from_urdf(URDF)


def _recorded(arm, model, values):
    """Return a recording of friction with these values at each joint, and the true parameters."""
    known = prior(arm, model)
    named = {f'{joint}.{s}': v for joint in arm.joints for s, v in values.items()}
    truth = known.updated(named)
    rng = np.random.default_rng(4)
    time = np.arange(8000) / 500.0
    size, angle = rng.uniform(0.2, 0.6, (3, 4)), rng.uniform(0.0, 6.0, (3, 4))
    omega = 2.0 * np.pi * rng.uniform(0.1, 0.8, (3, 4))
    phase = omega * time[:, None, None] + angle
    motion = Motion(
        np.sum(size * np.sin(phase), axis=2),
        np.sum(size * omega * np.cos(phase), axis=2),
        -np.sum(size * omega**2 * np.sin(phase), axis=2),
    )
    effort = predict(build(arm, model), motion, truth) + 0.05 * rng.normal(size=(8000, 3))
    return truth, Recording(time, motion.position, effort, arm.joints)


def _fits(arm, model, recording):
    """Return the free and the physical standard parameters of friction, by symbol (n_joints,)."""
    base = structure(build(arm, model), arm)
    signals = SignalSettings(cutoff=15.0, dead_zone=0.0)
    system = system_of(recording, build(arm, model), base, signals, timed=True)
    free = wls(system).base.as_dict()
    fit = physical(system, arm, prior(arm, model), model=model).standard
    assert not check(fit).joints
    symbols = {name.rpartition('.')[2] for name in free} & {'fv', 'fc', 'ts', 'tsc', 'off'}
    return tuple(
        {s: np.array([found[f'{joint}.{s}'] for joint in arm.joints]) for s in symbols}
        for found in (free, fit)
    )


def test_friction_with_the_usual_signs_is_as_recorded(arm):
    truth, recording = _recorded(arm, STATIC, TRUE)
    _, found = _fits(arm, STATIC, recording)
    for symbol in TRUE:
        np.testing.assert_allclose(found[symbol], truth[f'joint_1.{symbol}'], atol=0.05)


@pytest.mark.parametrize(
    ('wrong', 'symbol'),
    [
        ({'tsc': 0.6}, 'tsc'),  # grows with the speed
        ({'ts': 0.4, 'tsc': -0.9, 'fv': 1.0}, 'ts + tsc'),  # drives at speed
        ({'fv': -0.1}, 'fv'),
        ({'ts': -0.3, 'tsc': -0.1}, 'ts'),
    ],
)
def test_wrong_signs_in_a_recording_do_not_come_out(arm, wrong, symbol):
    _, recording = _recorded(arm, STATIC, {**TRUE, **wrong})
    free, found = _fits(arm, STATIC, recording)
    for friction in (free, found):
        friction['ts + tsc'] = friction['ts'] + friction['tsc']
    # the free fit follows the recording
    assert (free[symbol] > 0.4).all() if symbol == 'tsc' else (free[symbol] < -0.05).all()
    for name in ('fv', 'ts', 'ts + tsc'):
        assert (found[name] >= 0.0).all(), name
    assert (found['tsc'] <= 0.0).all()


def test_stribeck_falls_from_coulomb_friction_too(arm):
    model = ModelSettings(friction=('viscous', 'coulomb', 'stribeck'), **SLOPES)
    _, recording = _recorded(arm, model, {'fv': 0.5, 'fc': 0.5, 'tsc': -1.0})
    free, found = _fits(arm, model, recording)
    assert (free['fc'] + free['tsc'] < -0.1).all()
    assert (found['fc'] + found['tsc'] >= 0.0).all() and (found['tsc'] <= 0.0).all()


def test_slopes_are_searched_with_the_usual_signs(arm):
    """Friction that grows with the speed is no Stribeck effect of any slope."""
    open_model = replace(STATIC, stiction_slope=None, stribeck_slope=None)
    signals = SignalSettings(cutoff=60.0, dead_zone=0.0, decimate_to=None)
    regressor = build(arm, open_model)
    base = structure(regressor, arm)
    notes = []
    for tsc in (-0.6, 0.6):
        _, recording = _recorded(arm, STATIC, {**TRUE, 'tsc': tsc})
        found = find_slopes([recording], regressor, base, open_model, signals)
        notes.append(found.notes)
        if tsc < 0.0:
            np.testing.assert_allclose(found.slopes['stribeck'], 5.0, rtol=0.3)
    assert not any('hardly' in note for note in notes[0])
    assert all('hardly determine stribeck_slope' in note for note in notes[1])
