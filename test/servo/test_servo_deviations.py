# SPDX-License-Identifier: Apache-2.0
"""Deviations of servo parameters: how long errors last, and what recordings differ by."""

from dataclasses import replace

import numpy as np
import pytest
from robot_identification.servo.fit import correlated_samples
from robot_identification.servo.identification import fit_servo
from robot_identification.servo.settings import ServoSettings, SimulatorSettings
from scipy.signal import lfilter

from benchmarks.two_legs import ARMATURE, COULOMB, JOINTS, KD, KP, recorded, robot, VISCOUS

SERVO = ServoSettings(stiffness=KP, damping=KD, play='none')
SIMULATOR = SimulatorSettings(timestep=0.001, integrator='implicitfast')
TRUE = {'Ia': ARMATURE, 'fv': VISCOUS, 'fc': COULOMB}


@pytest.mark.parametrize('keeps', [0.0, 0.5, 0.9])
def test_errors_are_alike_as_long_as_an_autoregressive_process(keeps):
    """Its mean has (1 + a) / (1 - a) times the variance of independent samples' mean."""
    noise = np.random.default_rng(0).standard_normal((20000, 2))
    errors = lfilter([1.0], [1.0, -keeps], noise, axis=0)
    expected = (1.0 + keeps) / (1.0 - keeps)
    np.testing.assert_allclose(correlated_samples(errors), expected, rtol=0.15)


@pytest.mark.parametrize('bodies', ['first_moments', 'given'])
def test_recordings_differ_by_as_much_as_their_deviations(bodies):
    """With given bodies, whose centres are wrong, the error is what the model lacks."""
    settings = replace(SERVO, bodies=bodies)
    fits = [
        fit_servo(robot(), [recorded(5.0, seed=seed)], settings, SIMULATOR) for seed in range(4)
    ]
    names = fits[0].free.names
    places = [names.index(f'{joint}.{symbol}') for symbol in TRUE for joint in JOINTS]
    values = np.array([found.vector[places] for found in fits])
    std = np.sqrt(np.mean([found.std[places] ** 2 for found in fits], axis=0))
    between = np.sqrt(np.mean(values.var(axis=0, ddof=1) / std**2))
    off = np.sqrt(np.mean(((values - np.concatenate([*TRUE.values()])) / std) ** 2))
    assert 0.35 < between < 1.5
    assert 0.35 < off < 1.6
