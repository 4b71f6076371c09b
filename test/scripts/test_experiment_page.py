# SPDX-License-Identifier: Apache-2.0
"""The documentation of the experiment file agrees with its declaration."""

from dataclasses import dataclass
from pathlib import Path
import re

from experiment_page import (
    BEGIN,
    END,
    key_tables,
    main,
    updated,
)
import pytest
from robot_identification.config.experiment import Experiment
from robot_identification.options.fields import from_mapping, option, section_of, walk
import yaml

PAGE = Path(__file__).resolve().parents[2] / 'docs' / 'reference' / 'experiment.md'


def test_page_is_up_to_date():
    assert main([str(PAGE), '--check']) == 0, (
        'run: python scripts/experiment_page.py docs/reference/experiment.md'
    )


def test_page_names_every_key():
    text = PAGE.read_text()
    for key, info in walk(Experiment):
        if section_of(info.type)[0] is None:
            assert f'| `{info.name}` |' in text, key


def test_descriptions_begin_with_a_capital_and_end_without_a_full_stop():
    for key, info in walk(Experiment):
        assert info.doc[0].isupper(), key
        assert not info.doc.endswith('.'), key


def test_a_description_fits_into_a_sentence():
    words = {info.name: info.clause for _, info in walk(Experiment)}
    assert words['urdf'].startswith('URDF, xacro or MJCF file')
    assert words['gravity'].startswith('acceleration of free fall')


def test_examples_on_the_page_have_known_keys():
    whole, *parts = re.findall(r'```yaml\n(.*?)```', PAGE.read_text(), re.DOTALL)
    experiment = from_mapping(Experiment, yaml.safe_load(whole))
    assert len(experiment.data.validation) == 1
    for part in parts:
        from_mapping(Experiment, {**yaml.safe_load(whole), **yaml.safe_load(part)})


def test_links_on_the_page_exist():
    for link in re.findall(r'\]\(([^)#]+)\)', PAGE.read_text()):
        if '://' not in link:
            assert (PAGE.parent / link).exists(), link


def test_an_old_page_is_found_and_repaired(tmp_path):
    page = tmp_path / 'page.md'
    page.write_text(f'before\n{BEGIN}\nold\n{END}\nafter\n')
    assert main([str(page), '--check']) == 1
    assert main([str(page)]) == 0
    assert main([str(page), '--check']) == 0
    assert page.read_text().startswith('before\n')
    assert page.read_text().endswith('\nafter\n')
    with pytest.raises(ValueError, match='no lines'):
        updated('no marks')


@dataclass(frozen=True)
class Inner:
    number: float = option(doc='A number', unit='m', minimum=0.0, maximum=2.0)


@dataclass(frozen=True)
class Outer:
    word: str = option('a', doc='One of two', choices=('a', 'b'))
    parts: tuple[Inner, ...] = option((), doc='The parts')
    flag: bool | None = option(None, doc='A flag')


def test_tables():
    text = key_tables(Outer)
    assert '| `word` | `a`, `b` | `a` | One of two |' in text
    assert '| `flag` | true or false or null | `null` | A flag |' in text
    assert '### `parts[i]`' in text
    assert '| `number` | number from 0 to 2 [m] | **required** | A number |' in text
