# SPDX-License-Identifier: Apache-2.0
"""
Reproduce the tables of the papers behind the methods, and write ``docs/reference/papers.md``.

    .venv/bin/python -m benchmarks.papers [gautier_khalil ...]

Each module beside this one has a function ``page()``; naming some renews their sections alone.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
import re
import sys
import time

from .page import markdown, Page

FOLDER = Path(__file__).resolve().parent
DOCUMENT = FOLDER.parents[1] / 'docs' / 'reference' / 'papers.md'
PAPERS = ('lomakin_deutscher', 'zollo', 'gautier_khalil', 'gautier_venture', 'szabo', 'beyond')
"""In the order of the sections; ``beyond`` is what none of the papers has."""

HEAD = """\
# The papers, table by table

Every figure below is written by `make papers`, which runs each reproduction and fails where ours
does not keep the bound that it is held to.
"""


def main(names: list[str]) -> int:
    """Run the papers called ``names`` or all; return the number of figures that miss a bound."""
    known = [name for name in PAPERS if (FOLDER / f'{name}.py').is_file()]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f'error: no paper {unknown[0]}: there are {", ".join(known)}', file=sys.stderr)
        return 2
    missed = 0
    for name in names or known:
        start = time.perf_counter()
        page: Page = import_module(f'{__package__}.{name}').page()
        _write(name, markdown(page), known)
        print(f'{name}: {time.perf_counter() - start:.0f} s')
        for row in page.missed:
            print(f'  MISSED {row.quantity}: {row.ours}, held to {row.bound}')
        missed += len(page.missed)
    print(f'written to {DOCUMENT.relative_to(FOLDER.parents[1])}')
    return 1 if missed else 0


def _write(name: str, section: str, known: list[str]) -> None:
    sections = _sections()
    sections[name] = section
    parts = [f'<!-- {key} -->\n{sections[key]}' for key in known if key in sections]
    DOCUMENT.write_text('\n'.join([HEAD, *parts]), encoding='utf-8')


def _sections() -> dict[str, str]:
    if not DOCUMENT.is_file():
        return {}
    pieces = re.split(r'^<!-- (\w+) -->\n', DOCUMENT.read_text(encoding='utf-8'), flags=re.M)
    return {
        key: text.rstrip('\n') + '\n' for key, text in zip(pieces[1::2], pieces[2::2], strict=True)
    }


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
