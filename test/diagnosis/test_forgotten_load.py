# SPDX-License-Identifier: Apache-2.0
"""A load that the URDF does not have is suspected, and none where there is none."""

import numpy as np
import pytest
from robot_identification.config.problem import IdentificationProblem
from robot_identification.diagnosis.diagnose import diagnose
from robot_identification.diagnosis.recording_faults import forgotten_loads, LOAD_FACTOR
from robot_identification.identification.pipeline import identify_sources
from robot_identification.signals import SignalSettings
from robot_identification.verdicts.verdict import DO_NOT_USE, USABLE, verdict

from benchmarks.faulty_arms import arm

SIGNALS = SignalSettings(cutoff=8.0, decimate_to=20.0)


def identified(made):
    """Identify an arm whose masses, friction, gains, base and noise the URDF does not have."""
    return identify_sources(IdentificationProblem(made.robot, signals=SIGNALS), [made.recording])


def heavier(made):
    """Return how many times its URDF's mass the last link has in truth, and that mass [kg]."""
    urdf = made.robot.model.inertias[-1].mass
    return made.truth.inertias[-1].mass / urdf, urdf


def loads(result):
    return [finding for finding in result.recorded.diagnosis if finding.code == 'payload']


@pytest.mark.parametrize(
    'seed', [101, 105, *(pytest.param(s, marks=pytest.mark.soak) for s in (103, 108))]
)
def test_a_load_that_was_forgotten_is_suspected(seed):
    """With it the last link has 2.2 to 2.8 times the mass that the URDF gives it."""
    made = arm(seed, load=1.42)
    times, _ = heavier(made)
    assert times == pytest.approx(2.5, abs=0.35)
    result = identified(made)
    (finding,) = loads(result)
    assert made.robot.links[-1] in finding.evidence and 'URDF' in finding.evidence
    assert str(finding) in result.warnings
    found = verdict(result)
    (reason,) = (each for each in found.against if '(payload)' in each.text)
    assert not reason.rules_out and 'the robot with what it carries' in reason.text
    assert 'load' in reason.next_step and found.level != DO_NOT_USE


@pytest.mark.parametrize(
    'seed', [101, 105, *(pytest.param(s, marks=pytest.mark.soak) for s in (103, 106, 108, 109))]
)
def test_no_load_is_suspected_without_one(seed):
    made = arm(seed)
    assert heavier(made)[0] < 2.0
    assert not loads(identified(made))


def test_what_is_not_sure_or_hardly_counts_is_no_load():
    made = arm(103, load=1.42)
    result = identified(made)
    prior, found = result.prior, result.estimate.standard
    std = np.sqrt(np.diag(result.estimate.standard_covariance))
    link = made.robot.links[-1]
    place = prior.layout.index(f'{link}.m')
    (finding,) = forgotten_loads(made.robot, prior, found, std)
    # no interval, since the mass is the prior's share of a heavier and larger body
    assert f'comes out at {found.values[place]:.3g} kg' in finding.evidence
    # as heavy, by the prior
    known = prior.updated({f'{link}.m': found.values[place] / (LOAD_FACTOR - 0.01)})
    assert not [*forgotten_loads(made.robot, known, found, std)]
    wide = std.copy()
    wide[place] = found.values[place]
    assert not [*forgotten_loads(made.robot, prior, found, wide)]
    heavy = prior.updated({f'{made.robot.links[1]}.m': 100.0 * found.values[place]})
    assert not [*forgotten_loads(made.robot, heavy, found, std)]
    assert verdict(result).level == USABLE


def test_a_heavy_load_is_no_scale_of_all_efforts():
    """Masses of the other links are near the URDF's, and so would not be by another scale."""
    made = arm(64, load=20.0)
    (finding,) = diagnose(made.robot, [made.recording])
    assert finding.code == 'payload'
