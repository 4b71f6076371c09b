# SPDX-License-Identifier: Apache-2.0
"""The pages of the benchmarks, which keep the sections that a run does not renew."""

import pytest

from benchmarks import document
from benchmarks.__main__ import BENCHMARKS

ORDER = ('first', 'second', 'third')


def found(title, text='Words.', page='performance.md'):
    """Return what a benchmark found, without figures."""
    return {
        'title': title,
        'text': text,
        'page': page,
        'tables': [],
        'figures': [],
        'images': [],
        'machine': {'processor': 'a'},
        'seconds': 1.0,
    }


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(document, 'DOCS', tmp_path)
    return tmp_path / 'performance.md'


def test_one_section_is_renewed_and_the_others_stay(page):
    document.write_pages({'first': found('One'), 'third': found('Three', 'Old.')}, ORDER)
    before = page.read_text()
    document.write_pages({'third': found('Three', 'New.')}, ORDER)
    assert before.count('Old.') == 1
    assert page.read_text() == before.replace('Old.', 'New.')


def test_a_new_section_has_its_place_in_the_order(page):
    document.write_pages({'first': found('One'), 'third': found('Three')}, ORDER)
    document.write_pages({'second': found('Two')}, ORDER)
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.startswith('## ')] == ['## One', '## Two', '## Three']


def test_a_page_without_results_stays(page):
    document.write_pages({'first': found('One', page='real_robots.md')}, ORDER)
    assert not page.exists()


@pytest.mark.parametrize('name', document.HEADS)
def test_pages_are_as_they_would_be_written(name):
    text = (document.DOCS / name).read_text()
    sections = document._sections(text)
    assert sections and set(sections) <= set(BENCHMARKS)
    parts = [f'<!-- made by {key} -->\n{part}' for key, part in sections.items()]
    assert text == '\n'.join([document.HEADS[name], *parts])
