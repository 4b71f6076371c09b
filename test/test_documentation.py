# SPDX-License-Identifier: Apache-2.0
"""Links and addresses of pages lead somewhere, each page can be found, and the site builds."""

from __future__ import annotations

import ast
import os
from pathlib import Path
import re
import subprocess
import sys

import pytest
from robot_identification import version
from robot_identification.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / 'docs'
PACKAGE = ROOT / 'robot_identification'
PAGES = [
    *sorted(ROOT.glob('*.md')),
    *sorted(DOCS.rglob('*.md')),
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


def test_the_index_leads_to_every_page_of_the_documentation():
    named = {(DOCS / file).resolve() for file, _ in links(DOCS / 'index.md') if file}
    assert {page for page in DOCS.rglob('*.md') if page.name != 'index.md'} == named


def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    for name in ('furo', 'myst_parser', 'sphinx'):
        pytest.importorskip(name, reason=f'the site needs {name}: `make docs` installs it')
    site = tmp_path / 'site'
    built = subprocess.run(
        [sys.executable, '-m', 'sphinx', '-q', '-W', '--keep-going', str(DOCS), str(site)],
        env={**os.environ, 'PYTHONPATH': str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert '<math' in (site / 'explanation' / 'estimation.html').read_text(encoding='utf-8')
    for page in site.rglob('*.html'):
        assert not re.search(r'(src|href)="(https?:)?//[^"]*\.(js|css)', page.read_text('utf-8'))


def texts_of(path):
    """Return the texts of a module but for its docstrings and those of what it defines."""
    tree = ast.parse(path.read_text(encoding='utf-8'))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [t.value for t in texts if isinstance(t.value, str) and id(t) not in bare]


def test_messages_name_pages_by_their_address():
    """An installation has no ``docs/``."""
    for path in PACKAGE.rglob('*.py'):
        if path.name != 'version.py':
            assert not [text for text in texts_of(path) if 'docs/' in text], path
    for command in COMMANDS:
        assert 'docs/' not in (command.run.__doc__ or ''), command


def test_addresses_of_pages_lead_somewhere():
    code = '\n'.join(path.read_text(encoding='utf-8') for path in PACKAGE.rglob('*.py'))
    names = set(re.findall(r'\bpage\([\'"]([^\'"]+)[\'"]\)', code))
    assert len(names) > 5
    for name in names:
        address = version.page(name).removeprefix(f'{version.REPOSITORY}/blob/main/')
        assert (ROOT / address).is_file(), name
