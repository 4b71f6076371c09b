# SPDX-License-Identifier: Apache-2.0
"""The page of the nodes against the nodes."""

from __future__ import annotations

from pathlib import Path
import re
import subprocess
import sys

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_the_nodes_is_up_to_date(ros, tmp_path):
    page = ROOT / 'docs' / 'ros.md'
    fresh = tmp_path / 'ros.md'
    fresh.write_text(page.read_text())
    command = [sys.executable, '-m', 'robot_identification.nodes.reference', str(fresh)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert fresh.read_text() == page.read_text(), f'run: {" ".join(command[1:-1])} docs/ros.md'


def test_descriptions_begin_with_a_capital_and_end_without_a_full_stop():
    rows = re.findall(
        r'^\| `([\w.]+)` \| .* \| (.*?)(?: \[[^\]]*\])? \|$',
        (ROOT / 'docs' / 'ros.md').read_text(),
        re.MULTILINE,
    )
    assert len(rows) > 50
    for name, words in rows:
        assert words[0].isupper(), name
        assert not words.endswith('.'), name
