# SPDX-License-Identifier: Apache-2.0
"""Facts and settings as they are typed."""

import pytest
from robot_identification.drafting.settings import stated
from robot_identification.errors import SettingsError
from robot_identification.options.texts import settings_of, xacro_of


def test_facts_are_read_as_options_are():
    found = stated({'gear_ratios': '32, -48', 'rate': '5e3', 'degrees': True, 'gains': ''})
    assert found.gear_ratios == (32.0, -48.0) and found.rate == 5000.0
    assert found.degrees and found.gains is None and found.gravity == (0.0, 0.0, -9.81)
    for facts in ({'rate': 'fast'}, {'rate': '0'}, {'gains': '1 a'}, {'gravity': '9.81'}):
        (name,) = facts
        with pytest.raises(SettingsError, match=f'^.--{name.replace("_", "-")}'):
            stated(facts)
    assert settings_of(['a.b=1', '', ' c = x=y ']) == {'a.b': '1', 'c': 'x=y'}
    assert xacro_of("name:='a b' n:=2") == {'name': 'a b', 'n': '2'}
    with pytest.raises(SettingsError, match='is not KEY=VALUE'):
        settings_of(['signals.cutoff'])
    with pytest.raises(SettingsError, match='quotation mark'):
        xacro_of("name:='a b")
