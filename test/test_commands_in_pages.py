# SPDX-License-Identifier: Apache-2.0
"""
The commands of the pages exist with their options, and blocks say what they need.

`test_installed` runs those that need nothing but the package.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
import re

from page_blocks import blocks, GUIDES, NEEDS, PAGES, ROOT, script
import pytest
from robot_identification.cli.main import build_parser


def commands(page):
    """Return the words behind the name of this package's command, command by command."""
    lines = [words for block in blocks(page) for words in block.commands]
    return [words[1:] for words in lines if Path(words[0]).name == 'robot-identification']


def require_parsed(words):
    """Require that a command and its options exist, those of the nodes where ROS is."""
    parsed = build_parser().parse_args(words)
    if (
        words[0] == 'node'
        and words[1] not in ('stop', 'watch')
        and importlib.util.find_spec('rclpy')
    ):
        from robot_identification.cli.interfaces import add_fields, REQUESTS

        parser = argparse.ArgumentParser()
        add_fields(parser, REQUESTS[parsed.verb])
        parser.parse_args(parsed.fields)


@pytest.mark.parametrize(
    'page', [p for p in PAGES if commands(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_commands_of_a_page_exist_with_their_options(page):
    for words in commands(page):
        require_parsed(words)


@pytest.mark.parametrize('page', PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_block_needs_is_one_of_few_words(page):
    for block in blocks(page):
        assert block.needs in (None, *NEEDS), block.text


@pytest.mark.parametrize('page', GUIDES, ids=lambda p: p.name)
def test_commands_on_examples_come_after_that_which_copies_them(page):
    text = script(page)
    if re.search(r'\b(examples|urdf)/', text):
        first = re.search(r'^.*\b(examples|urdf)\b', text, re.MULTILINE)[0]
        assert first == 'robot-identification examples'


def test_no_command_hides_in_a_block_of_another_kind():
    """A block without a language would not be run."""
    for page in PAGES:
        text = page.read_text(encoding='utf-8')
        for kind, block in re.findall(r'^ *```(\w*)\n(.*?)^ *```', text, re.DOTALL | re.MULTILINE):
            starts = re.match(r'(\S*/)?robot-identification ', block)
            assert kind in ('sh', 'yaml', 'python') or not starts, f'{page.name}: {block}'
