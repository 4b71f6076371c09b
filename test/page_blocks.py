# SPDX-License-Identifier: Apache-2.0
"""The shell blocks of the pages, and what they need beside the installed package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
import re
import shlex

ROOT = Path(__file__).resolve().parents[1]
GUIDES = [
    ROOT / 'README.md',
    ROOT / 'docs' / 'tutorial.md',
    *sorted((ROOT / 'docs' / 'how_to').glob('*.md')),
]
"""Pages whose blocks run as they stand, in their order, in an empty folder."""

PAGES = sorted(
    {*GUIDES, *(ROOT / 'docs').rglob('*.md'), *(ROOT / 'examples').rglob('*.md')},
    key=lambda page: (page not in GUIDES, page),
)
NEEDS = ('a clone', 'ROS 2', 'the extra sim', 'your files')
"""What the first line of a block may name that does not run with the package alone."""

_BLOCK = re.compile(r'^ *```sh\n(?P<text>.*?)^ *```', re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """
    Shell block of a page.

    Attributes
    ----------
    text:
        Its lines.
    needs:
        What its first line, ``# needs ...``, names, or None.

    """

    text: str
    needs: str | None

    @property
    def commands(self) -> list[list[str]]:
        """The words of its lines, without those of comments."""
        lines = self.text.replace('\\\n', ' ').splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(page: Path) -> list[Block]:
    """Return the shell blocks of a page in their order."""
    found = []
    for match in _BLOCK.finditer(page.read_text(encoding='utf-8')):
        named = re.match(r' *# needs (.*)\n', match['text'])
        found.append(Block(match['text'], named and named[1]))
    return found


def script(page: Path) -> str:
    """Return the commands of a page that need nothing but the package, as they stand."""
    return ''.join(block.text for block in blocks(page) if block.needs is None)
