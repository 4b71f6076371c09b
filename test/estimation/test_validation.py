# SPDX-License-Identifier: Apache-2.0
"""Validation of one joint whose model is written by hand."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from robot_identification.base_parameters import BaseStructure
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import RecordingError
from robot_identification.estimation import ols, system_of
from robot_identification.estimation.validation import validate
from robot_identification.model.parameters import ParameterLayout, ParameterSet
from robot_identification.signals import SignalSettings

LAYOUT = ParameterLayout(('joint.Ia', 'joint.fv', 'joint.off'), ('kg m^2', 'N m s/rad', 'N m'))
STRUCTURE = BaseStructure(LAYOUT, [0, 1, 2], [], [], np.eye(3), np.ones(3), np.inf, LAYOUT.names)
TRUTH = np.array([2.0, 0.7, -0.3])
SIGNALS = SignalSettings(cutoff=20.0, decimate_to=None, trim=0.2)


@dataclass(frozen=True)
class Wheel:
    """tau = Ia ddq + fv dq + off."""

    layout: ParameterLayout = LAYOUT
    n_joints: int = 1

    def rows(self, motion: Motion) -> np.ndarray:
        return np.hstack([motion.acceleration, motion.velocity, np.ones((len(motion), 1))])


def recording(frequency: float, noise: float = 0.0, source: str = 'a.csv') -> Recording:
    time = np.arange(2000) / 200.0
    w = 2 * np.pi * frequency
    effort = TRUTH[0] * -(w**2) * np.sin(w * time) + TRUTH[1] * w * np.cos(w * time) + TRUTH[2]
    effort += noise * np.random.default_rng(0).normal(size=time.size)
    return Recording(time, np.sin(w * time)[:, None], effort[:, None], ('joint',), source=source)


@pytest.fixture
def estimate():
    return ols(system_of(recording(0.5), Wheel(), STRUCTURE, SIGNALS))


def test_exact_model_predicts_another_motion(estimate):
    seen = validate(estimate, recording(0.8), Wheel(), STRUCTURE, SIGNALS)
    assert seen.relative_error < 0.02 and seen.raw_relative_error < 0.02
    assert seen.joints[0].joint == 'joint' and seen.sources == ('a.csv',)


def test_highest_speeds_are_those_of_the_motion(estimate):
    pieces = [recording(f, source=f'{f}.csv') for f in (0.4, 0.8, 0.6)]
    seen = validate(estimate, pieces, Wheel(), STRUCTURE, SIGNALS)
    assert seen.highest_speed == pytest.approx([2.0 * np.pi * 0.8], rel=1e-2)
    assert seen.to_dict()['highest_speed'] == list(seen.highest_speed)


def test_figures_are_those_of_the_effort_that_was_measured(estimate):
    off = ParameterSet(LAYOUT, TRUTH + [0.0, 0.0, 0.5])
    seen = validate(off, recording(0.8), Wheel(), STRUCTURE, SIGNALS)
    # the model predicts 0.5 N m too much throughout
    assert seen.joints[0].bias == pytest.approx(-0.5, abs=1e-3)
    assert seen.joints[0].rmse == pytest.approx(0.5, abs=1e-3)
    effort = recording(0.8).effort[40:-40]
    expected = 100 * 0.5 / np.sqrt(np.mean(effort**2))
    assert seen.joints[0].relative_error == pytest.approx(expected, rel=1e-3)


def test_noise_shows_as_it_is(estimate):
    seen = validate(estimate, recording(0.8, noise=0.4), Wheel(), STRUCTURE, SIGNALS)
    assert seen.joints[0].rmse == pytest.approx(0.4, rel=0.05)
    smoothed = replace(SIGNALS, decimate_to=20.0)
    quiet = validate(estimate, recording(0.8, noise=0.4), Wheel(), STRUCTURE, smoothed)
    assert quiet.joints[0].rmse < 0.2
    assert quiet.raw_relative_error == pytest.approx(seen.raw_relative_error, rel=1e-3)


def test_several_recordings_count_together(estimate):
    sources = [recording(0.8, source='a.csv'), recording(1.1, noise=0.4, source='b.csv')]
    seen = validate(estimate, sources, Wheel(), STRUCTURE, SIGNALS)
    alone = [validate(estimate, s, Wheel(), STRUCTURE, SIGNALS) for s in sources]
    assert seen.sources == ('a.csv', 'b.csv')
    assert seen.joints[0].rows == sum(v.joints[0].rows for v in alone)
    squares = sum(v.joints[0].rows * v.joints[0].rmse ** 2 for v in alone)
    assert seen.joints[0].rmse == pytest.approx(np.sqrt(squares / seen.joints[0].rows), rel=1e-9)
    assert np.unique(seen.trace.segment).tolist() == [0, 1]


def test_trace_is_measured_against_predicted(estimate):
    seen = validate(estimate, recording(0.8), Wheel(), STRUCTURE, SIGNALS)
    w = 2 * np.pi * 0.8
    time = seen.trace.time
    expected = -TRUTH[0] * w**2 * np.sin(w * time) + TRUTH[1] * w * np.cos(w * time) + TRUTH[2]
    assert np.allclose(seen.trace.measured[:, 0], expected, atol=1e-9)
    assert np.allclose(seen.trace.predicted[:, 0], expected, atol=0.02)


def test_joint_that_stays_in_the_dead_zone_has_no_figures(estimate):
    slow = replace(SIGNALS, dead_zone=100.0)
    seen = validate(estimate, recording(0.8), Wheel(), STRUCTURE, slow)
    assert seen.joints[0].rows == 0 and np.isnan(seen.joints[0].rmse)
    assert seen.to_dict()['joints']['joint']['rmse'] is None
    assert 'nan' not in seen.summary()


def test_recording_that_is_too_short_is_named(estimate):
    short = recording(0.8, source='short.csv').rows(0, 20)
    with pytest.raises(RecordingError, match='short.csv'):
        validate(estimate, short, Wheel(), STRUCTURE, SIGNALS)


def test_other_base_parameters_are_refused(estimate):
    other = ParameterSet(ParameterLayout(('x.m',), ('kg',)), [1.0])
    with pytest.raises(ValueError):
        validate(other, recording(0.8), Wheel(), STRUCTURE, SIGNALS)


def test_plain_values_have_the_shape_of_the_result_file(estimate):
    seen = validate(estimate, recording(0.8), Wheel(), STRUCTURE, SIGNALS)
    values = seen.to_dict()
    assert values['sources'] == ['a.csv']
    assert values['joints']['joint']['rmse'] == seen.joints[0].rmse
    assert values['relative_error'] == seen.relative_error
