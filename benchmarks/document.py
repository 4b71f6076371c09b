# SPDX-License-Identifier: Apache-2.0
"""Writes what the benchmarks found as ``docs/performance.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
import os
from pathlib import Path
import platform
import textwrap

DOCUMENT = Path(__file__).resolve().parents[1] / 'docs' / 'performance.md'

HEAD = """\
# How fast it is

Every figure on this page is written by `make bench` (`make bench ARGS=regressor` renews one
section), and is in `benchmarks/results.json` with the machine that it was measured on. Ways that
are compared are timed in one run, turn by turn; times are medians unless said otherwise, ratios
are medians of the rounds' ratios. Linear algebra runs on one thread.
"""

PACKAGES = ('numpy', 'scipy', 'numba', 'pin', 'dask')


def machine() -> dict[str, str]:
    """Say what this is measured on."""
    return {
        'processor': _processor(),
        'cores': str(len(os.sched_getaffinity(0))),
        'python': platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    for line in Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.partition(':')[2].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return 'not installed'


def write_document(results: Mapping[str, dict]) -> None:
    """Write the page anew from all that is in ``results``, section by section."""
    parts = [HEAD]
    for found in results.values():
        parts.append(_section(found))
    DOCUMENT.write_text('\n'.join(parts))


def _section(found: dict) -> str:
    parts = [f'## {found["title"]}\n']
    if found['text']:
        parts.append(_wrapped(found['text']))
    for table in found['tables']:
        if table['title']:
            parts.append(f'### {table["title"]}\n')
        if table['text']:
            parts.append(_wrapped(table['text']))
        parts.append(_table(table['columns'], table['rows']))
    held = [figure for figure in found['figures'] if figure['bound']]
    if held:
        rows = [
            [
                figure['name'],
                f'{figure["value"]:.4g} {figure["unit"]}'.strip(),
                figure['bound'],
                'yes' if figure['met'] else '**no**',
            ]
            for figure in held
        ]
        parts.append(_table(['held to a bound', 'found', 'bound', 'met'], rows))
    parts += [f'![{Path(image).stem}]({image})\n' for image in found['images']]
    told = ', '.join(f'{key} {value}' for key, value in found['machine'].items())
    parts.append(_wrapped(f'*Measured on: {told}; the benchmark took {found["seconds"]:.0f} s.*'))
    return '\n'.join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ['| ' + ' | '.join(columns) + ' |', '|---' + '|---:' * (len(columns) - 1) + '|']
    lines += ['| ' + ' | '.join(row) + ' |' for row in rows]
    return '\n'.join(lines) + '\n'


def _wrapped(text: str) -> str:
    paragraphs = text.strip().split('\n\n')
    return (
        '\n\n'.join(
            paragraph if paragraph.startswith(('-', '|', '```')) else textwrap.fill(paragraph, 99)
            for paragraph in paragraphs
        )
        + '\n'
    )
