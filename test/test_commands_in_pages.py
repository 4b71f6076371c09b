# SPDX-License-Identifier: Apache-2.0
"""
The commands of the pages, run in a bare clone.

Blocks ``sh`` of a page are run in their order, as far as they are commands of this package and
need no ROS.  A block behind the line ``<!-- your own files -->`` names files of the reader; it is
only parsed, like commands that need ROS.
"""

from __future__ import annotations

import argparse
import functools
import glob
import importlib.util
import os
from pathlib import Path
import re
import shlex
import shutil
import subprocess
import sys

from command_line import run_command
import pytest
from robot_identification.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / 'README.md',
    *sorted((ROOT / 'docs').rglob('*.md')),
    *sorted((ROOT / 'examples').rglob('*.md')),
]
# test/examples/test_delta.py runs these on a shorter recording
ELSEWHERE = {ROOT / 'examples' / 'delta' / 'README.md'}
# identifications, one after the other: in `make soak`
LONG = {
    ROOT / name
    for name in (
        'docs/tutorial.md',
        'docs/how_to/fleet.md',
        'docs/explanation/estimation.md',
        'docs/reference/experiment.md',
        'examples/demo_arm/README.md',
        'examples/tx40/README.md',
    )
}
YOURS = '<!-- your own files -->'
NEED_ROS = {'demo', 'node', 'play', 'wait'}
_BLOCK = re.compile(rf'(?P<yours>{YOURS}\n)?```sh\n(?P<text>.*?)^```', re.DOTALL | re.MULTILINE)


def commands(page):
    """Return (words, whether they run here) of the commands of this package in a page."""
    found = []
    for block in _BLOCK.finditer(page.read_text(encoding='utf-8')):
        for line in block['text'].replace('\\\n', ' ').splitlines():
            words = shlex.split(line, comments=True)
            name = Path(words[0]).name if words else ''
            if name == 'robot-identification':
                found.append((words, not block['yours'] and words[1] not in NEED_ROS))
            elif name == 'python' and words[1].startswith('examples/'):
                found.append((words, True))
    return found


def own_files():
    """Return the files of examples and robots that belong to the repository."""
    listed = subprocess.run(
        ['git', 'ls-files', '-zco', '--exclude-standard', 'examples', 'urdf'], cwd=ROOT,
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip('this is no clone')
    return [name for name in listed.stdout.split('\0') if name and (ROOT / name).exists()]


@pytest.fixture(scope='module')
def clone(tmp_path_factory):
    """Make a folder with the files of a bare clone, and without anything that was run in it."""
    folder = tmp_path_factory.mktemp('clone')
    for name in own_files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return folder


@functools.cache
def run(folder, *words):
    """Run a command once, however many pages have it."""
    arguments = [
        name for word in words[1:] for name in (sorted(glob.glob(word, root_dir=folder)) or [word])
    ]
    if Path(words[0]).name == 'robot-identification':
        return run_command(folder, *arguments, expect=None)
    paths = [str(ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)},
    )  # fmt: skip


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


WITH_COMMANDS = [page for page in PAGES if commands(page)]


@pytest.mark.parametrize('page', WITH_COMMANDS, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_of_a_page_exist_with_their_options(page):
    for words, _ in commands(page):
        if Path(words[0]).name == 'robot-identification':
            require_parsed(words[1:])


@pytest.mark.parametrize(
    'page',
    [pytest.param(p, marks=[pytest.mark.soak] if p in LONG else []) for p in WITH_COMMANDS],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_commands_of_a_page_run_in_a_bare_clone(page, clone):
    for words, runs in commands(page):
        if runs and page not in ELSEWHERE:
            done = run(clone, *words)
            assert done.returncode == 0, f'{shlex.join(words)}\n{done.stderr}'
            assert 'Traceback' not in done.stderr


def test_no_command_hides_in_a_block_of_another_kind():
    """A block without a language would not be run."""
    for page in PAGES:
        text = page.read_text(encoding='utf-8')
        for kind, block in re.findall(r'^```(\w*)\n(.*?)^```', text, re.DOTALL | re.MULTILINE):
            starts = re.match(r'(\S*/)?robot-identification ', block)
            assert kind in ('sh', 'yaml', 'python') or not starts, f'{page.name}: {block}'
