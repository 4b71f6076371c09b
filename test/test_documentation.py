# SPDX-License-Identifier: Apache-2.0
"""Links between the pages lead somewhere, and each page can be found from the README."""

from __future__ import annotations

from pathlib import Path
import re

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *sorted(ROOT.glob('*.md')),
    *sorted((ROOT / 'docs').rglob('*.md')),
    *sorted((ROOT / 'examples').rglob('*.md')),
]


def links(page):
    """Return (file, anchor) of the links to other pages of this repository."""
    text = re.sub(r'```.*?```|`[^`\n]*`', '', page.read_text(encoding='utf-8'), flags=re.DOTALL)
    targets = re.findall(r'\]\(([^)\s]+)\)', text)
    return [target.partition('#')[::2] for target in targets if '://' not in target]


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r'```.*?```', '', page.read_text(encoding='utf-8'), flags=re.DOTALL)
    headings = re.findall(r'^#+ +(.+?) *$', text, flags=re.MULTILINE)
    return [re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings]


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for file, anchor in links(page):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        if anchor:
            found = anchors(target)
            assert found.count(anchor) == 1, f'{file}#{anchor}'


def test_the_readme_leads_to_every_page_of_the_documentation():
    named = {(ROOT / file).resolve() for file, _ in links(ROOT / 'README.md') if file}
    assert set((ROOT / 'docs').rglob('*.md')) - named == set()
