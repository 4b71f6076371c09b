# SPDX-License-Identifier: Apache-2.0
"""The keys of ``signals`` in the experiment file."""

import numpy as np
import pytest
from robot_identification.errors import SettingsError
from robot_identification.options.fields import from_mapping
from robot_identification.signals import (
    by_joint,
    decimation_factor,
    SignalSettings,
)
from robot_identification.signals.methods import METHODS
from robot_identification.signals.settings import METHODS as NAMES

JOINTS = ('a', 'b', 'c')


def test_every_method_offered_exists():
    assert tuple(METHODS) == NAMES


def test_reads_the_design_s_example():
    settings = from_mapping(
        SignalSettings,
        {
            'method': 'butterworth',
            'cutoff': 25.0,
            'order': 4,
            'sample_rate': None,
            'decimate_to': 50.0,
            'dead_zone': 0.05,
            'trim': 0.05,
        },
        'signals',
    )
    assert settings == SignalSettings(dead_zone=0.05, trim=0.05)


@pytest.mark.parametrize(
    ('key', 'value'),
    [('method', 'fourier'), ('cutoff', -1.0), ('order', 0), ('trim', -0.1), ('dead_zone', 'x')],
)
def test_refuses_what_makes_no_sense(key, value):
    with pytest.raises(SettingsError) as error:
        from_mapping(SignalSettings, {key: value}, 'signals')
    assert error.value.key == f'signals.{key}'


def test_dead_zone_is_spread_over_the_joints():
    np.testing.assert_array_equal(
        by_joint(SignalSettings(dead_zone=0.1), 'dead_zone', JOINTS), [0.1] * 3
    )
    listed = from_mapping(SignalSettings, {'dead_zone': [0.1, 0.2, 0.3]})
    np.testing.assert_array_equal(by_joint(listed, 'dead_zone', JOINTS), [0.1, 0.2, 0.3])


@pytest.mark.parametrize('zones', [(0.1,), (0.1, 0.2), ()])
def test_dead_zone_of_another_length_is_refused(zones):
    with pytest.raises(SettingsError, match='signals.dead_zone') as error:
        by_joint(SignalSettings(dead_zone=zones), 'dead_zone', JOINTS)
    assert error.value.key == 'signals.dead_zone'


@pytest.mark.parametrize(
    ('rate', 'wanted', 'factor'),
    [(5000.0, 50.0, 100), (1000.0, 300.0, 3), (40.0, 50.0, 1), (1000.0, None, 1), (999.9, 50, 20)],
)
def test_decimation_takes_the_nearest_whole_factor(rate, wanted, factor):
    assert decimation_factor(SignalSettings(decimate_to=wanted), rate) == factor
