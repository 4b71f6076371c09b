# SPDX-License-Identifier: Apache-2.0
"""Predictions at a recording's own stamps, against Pinocchio's inverse dynamics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Recording
from robot_identification.errors import IdentificationWarning, RecordingError
from robot_identification.estimation.validation import predicted_efforts
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, prior
from robot_identification.regressor.base_search import structure
from robot_identification.regressor.settings import ModelSettings
from robot_identification.signals import SignalSettings

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
SIGNALS = SignalSettings(cutoff=20.0, decimate_to=20.0, dead_zone=0.3, trim=0.5)


@dataclass(frozen=True)
class Arm:
    """An arm, the base parameters of its URDF, and what it takes to predict."""

    robot: Robot

    def effort(self, position, velocity, acceleration):
        model = self.robot.with_parameters(prior(self.robot))
        data = model.createData()
        rows = zip(position, velocity, acceleration, strict=True)
        return np.array([pin.rnea(model, data, *row) for row in rows])

    def recording(self, time):
        """Return a smooth motion at any stamps, with the efforts of Pinocchio."""
        angle = np.outer(time, [1.1, 1.7, 2.3]) + [0.0, 1.0, 2.0]
        rate = np.array([1.1, 1.7, 2.3])
        motion = np.sin(angle), rate * np.cos(angle), -(rate**2) * np.sin(angle)
        return Recording(time, motion[0], self.effort(*motion), self.robot.joints)

    def predict(self, source, signals=SIGNALS):
        settings = ModelSettings(friction=(), rotor_inertia=False)
        regressor = build(self.robot, settings)
        base = structure(regressor, self.robot)
        values = base.regrouping @ prior(self.robot, settings).values
        parameters = ParameterSet(base.base_layout, values)
        return list(predicted_efforts(parameters, source, regressor, base, signals))


@pytest.fixture(scope='module')
def arm():
    return Arm(Robot.from_urdf(URDF))


def concatenated(blocks, name):
    return np.concatenate([getattr(block, name) for block in blocks])


def uneven(n, rate=200.0, seed=0):
    """Stamps that jitter by a fifth of a period."""
    return (np.arange(n) + np.random.default_rng(seed).uniform(-0.2, 0.2, n)) / rate


def largest_error(recording, predicted, inner=slice(None)):
    return np.abs(predicted - recording.effort)[inner].max() / np.abs(recording.effort).max()


def test_every_sample_is_predicted_at_its_own_stamp(arm):
    recording = arm.recording(uneven(1000))
    blocks = arm.predict(recording)
    assert np.array_equal(concatenated(blocks, 'time'), recording.time)
    assert np.array_equal(concatenated(blocks, 'measured'), recording.effort)
    predicted = concatenated(blocks, 'predicted')
    assert largest_error(recording, predicted, slice(40, -40)) < 1e-3
    # where the filter knows one side only
    assert largest_error(recording, predicted) < 0.3


def test_neither_decimation_nor_dead_zone_nor_trim_leave_anything_out(arm):
    recording = arm.recording(uneven(1000))
    bare = replace(SIGNALS, decimate_to=None, dead_zone=0.0, trim=0.0)
    first, second = (concatenated(arm.predict(recording, s), 'predicted') for s in (SIGNALS, bare))
    assert np.array_equal(first, second)


@dataclass(frozen=True)
class Piecemeal:
    """A recording that comes in blocks of another size than is asked for."""

    recording: Recording
    size: int

    @property
    def joints(self):
        return self.recording.joints

    def blocks(self, size):
        return self.recording.blocks(self.size)


@pytest.mark.parametrize('size', [pytest.param(1, marks=pytest.mark.soak), 7, 480])
def test_the_size_of_blocks_makes_no_difference(arm, size):
    """With a gap, at whose ends the grid of one stretch is left for the next one's."""
    time = uneven(4000)
    time[483:] += 1.0
    recording = arm.recording(time)
    whole = concatenated(arm.predict(recording), 'predicted')
    assert np.isfinite(whole).all()
    assert largest_error(recording, whole, slice(523, -40)) < 1e-3
    pieces = concatenated(arm.predict(Piecemeal(recording, size)), 'predicted')
    np.testing.assert_allclose(pieces, whole, atol=1e-9)


def test_a_stretch_that_is_too_short_to_filter_has_no_predictions(arm):
    time = uneven(1000)
    time[500:] += 1.0
    time[510:] += 1.0
    recording = arm.recording(time)
    with pytest.warns(IdentificationWarning, match='left out'):
        blocks = arm.predict(recording)
    empty = np.isnan(concatenated(blocks, 'predicted')).all(axis=1)
    assert np.flatnonzero(empty).tolist() == list(range(500, 510))
    assert len(concatenated(blocks, 'measured')) == 1000


def test_windows_that_do_not_reach_the_ends_leave_them_without_predictions(arm):
    recording = arm.recording(np.arange(1000) / 200.0)
    signals = SignalSettings(method='polynomial_approximation')
    predicted = concatenated(arm.predict(recording, signals), 'predicted')
    known = np.flatnonzero(np.isfinite(predicted).all(axis=1))
    assert 0 < known[0] < 20 and 980 < known[-1] < 999
    assert np.array_equal(known, np.arange(known[0], known[-1] + 1))
    assert largest_error(recording, predicted, slice(known[0], known[-1] + 1)) < 0.01


def test_a_recording_that_is_too_short_is_told(arm):
    with pytest.raises(RecordingError, match='filtering takes'):
        arm.predict(arm.recording(uneven(10)))
