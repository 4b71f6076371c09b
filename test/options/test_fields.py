# SPDX-License-Identifier: Apache-2.0
"""Key paths: taken apart, set, and guessed."""

from hypothesis import given
from hypothesis import strategies as st
import pytest
from robot_identification.config.experiment import Experiment
from robot_identification.errors import SettingsError
from robot_identification.options.document import nearest, override, set_key, steps
from robot_identification.options.fields import from_mapping, to_mapping, walk
from robot_identification.regressor import ModelSettings
from robot_identification.signals.settings import SignalSettings

names = st.text('abcxyz_09', min_size=1, max_size=6)
paths = st.lists(st.one_of(names, st.integers(0, 50)), min_size=1, max_size=5).filter(
    lambda parts: isinstance(parts[0], str)
)


@given(paths)
def test_steps_is_the_inverse_of_writing(parts):
    text = ''.join(f'[{p}]' if isinstance(p, int) else f'.{p}' for p in parts)[1:]
    assert steps(text) == tuple(parts)


@pytest.mark.parametrize('key', ['', '.', 'a.', '.a', 'a..b', '[0]', 'a[', 'a[x]', 'a]', 'a[-1]'])
def test_steps_refuses(key):
    with pytest.raises(SettingsError, match='not a key path'):
        steps(key)


def test_set_key():
    mapping = {'a': {'b': 1}, 'list': [{'c': 2}], 'empty': None}
    set_key(mapping, 'a.b', 5)
    set_key(mapping, 'a.new.deep', 6)
    set_key(mapping, 'list[0].c', 7)
    set_key(mapping, 'empty.d', 8)
    assert mapping == {
        'a': {'b': 5, 'new': {'deep': 6}}, 'list': [{'c': 7}], 'empty': {'d': 8}
    }  # fmt: skip
    for key in ('list[1].c', 'list.c', 'a.b.c', 'nothing[0]', 'list[3]'):
        with pytest.raises(SettingsError) as caught:
            set_key(mapping, key, 0)
        assert caught.value.key == key


def test_override_reads_text_as_yaml():
    mapping = {}
    override(mapping, {'a.b': '2.5', 'a.c': '[1, x]', 'a.d': 'null', 'e': 7})
    assert mapping == {'a': {'b': 2.5, 'c': [1, 'x'], 'd': None}, 'e': 7}


@pytest.mark.parametrize(
    ('wrong', 'meant'),
    [
        ('signals.cutof', 'signals.cutoff'),
        ('signals.Cutoff', 'signals.cutoff'),
        ('cutoff', 'signals.cutoff'),
        ('robot.cutoff', 'signals.cutoff'),
        ('signal', 'signals'),
        ('robot.drives.effort.matirx', 'robot.drives.effort.matrix'),
        ('data.identification[3].fomat', 'data.identification[3].format'),
        ('robot.coupled_drives[0].joint', 'robot.coupled_drives[0].joints'),
        ('data.identification[0].position.colums', 'data.identification[0].position.columns'),
        ('estimation.essential.max_std', 'estimation.essential.max_relative_std'),
        ('nothing.like.it', None),
    ],
)
def test_nearest(wrong, meant):
    assert nearest(Experiment, wrong) == meant


def test_walk_knows_every_section():
    keys = [key for key, _ in walk(Experiment)]
    assert len(keys) == len(set(keys))
    for key in (
        'robot.urdf',
        'robot.friction',
        'robot.drives.position.offset',
        'robot.coupled_drives[].inertia',
        'data.identification[].effort.file',
        'data.validation[].rows',
        'signals.dead_zone',
        'estimation.essential.max_relative_std',
        'output',
    ):
        assert key in keys


@given(st.floats(0.1, 100.0), st.integers(1, 10), st.none() | st.floats(1.0, 1e4))
def test_to_mapping_is_read_back(cutoff, order, rate):
    settings = SignalSettings(cutoff=cutoff, order=order, decimate_to=rate, dead_zone=(0.1, 0.2))
    assert from_mapping(SignalSettings, to_mapping(settings)) == settings


def test_choices_are_taken_in_any_case():
    assert from_mapping(SignalSettings, {'method': 'Butterworth'}).method == 'butterworth'
    with pytest.raises(SettingsError, match="'method' is 'Butter'"):
        from_mapping(SignalSettings, {'method': 'Butter'})
    model = from_mapping(ModelSettings, {'friction': ['Viscous', 'COULOMB']})
    assert model.friction == ('viscous', 'coulomb')
