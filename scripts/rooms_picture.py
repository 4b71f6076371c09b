# SPDX-License-Identifier: Apache-2.0
"""
Draw the rooms of the package and their imports, as SVG.

``python scripts/rooms_picture.py docs/explanation/rooms.svg``

A room stands above those that it imports from.  An arrow is an import; those that follow from
others by way of a third room are left out.
"""

from __future__ import annotations

import ast
import functools
from html import escape
from pathlib import Path
import sys

PACKAGE = Path(__file__).resolve().parents[1] / 'robot_identification'
WIDTH, ROW, BOX = 860, 74, (96, 30)
"""Size of the picture, of a row and of a room [px]."""

STYLE = """
text { font: 13px system-ui, sans-serif; text-anchor: middle; fill: #1a1a1a }
rect { fill: #eef3f8; stroke: #4a6785 }
path { fill: none; stroke: #8a9bab; stroke-width: 1.2; marker-end: url(#end) }
marker path { fill: #8a9bab; stroke: none; marker-end: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e6e6 } rect { fill: #22303d; stroke: #7f9db9 }
}
"""


def room_imports() -> dict[str, set[str]]:
    """Return for each room the rooms that it imports from."""
    rooms: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob('*.py')):
        parts = path.relative_to(PACKAGE).with_suffix('').parts
        if parts == ('__init__',) or parts == ('version',):
            continue
        here = rooms.setdefault(parts[0], set())
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.ImportFrom) and node.level == len(parts):
                names = [node.module] if node.module else [alias.name for alias in node.names]
                here |= {name.split('.')[0] for name in names} - {parts[0], 'version'}
    return rooms


def without_shortcuts(rooms: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports that do not follow from others (transitive reduction)."""

    @functools.cache
    def reached(room: str) -> set[str]:
        return set().union(rooms[room], *(reached(below) for below in rooms[room]))

    return {
        room: below - set().union(*(reached(each) for each in below))
        for room, below in rooms.items()
    }


def rows_of(rooms: dict[str, set[str]]) -> list[list[str]]:
    """Return the rooms by rows, from those that import from no other upwards, few crossings."""
    height: dict[str, int] = {}

    def level(room: str) -> int:
        if room not in height:
            height[room] = 1 + max(map(level, rooms[room]), default=-1)
        return height[room]

    rows: list[list[str]] = [[] for _ in range(1 + max(map(level, rooms)))]
    for room in rooms:
        rows[height[room]].append(room)
    place = {room: (i + 0.5) / len(row) for row in rows for i, room in enumerate(row)}
    for _ in range(20):
        for row in rows[1:]:
            row.sort(key=lambda room: sum(place[b] for b in rooms[room]) / len(rooms[room]))
            place |= {room: (i + 0.5) / len(row) for i, room in enumerate(row)}
    return rows


def picture(rooms: dict[str, set[str]]) -> str:
    """Return the SVG of the rooms."""
    arrows = without_shortcuts(rooms)
    rows = rows_of(arrows)
    height = ROW * len(rows)
    spot = {
        room: (WIDTH * (i + 0.5) / len(row), height - ROW * (level + 0.5))
        for level, row in enumerate(rows)
        for i, room in enumerate(row)
    }
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}">',
        f'<style>{STYLE}</style>',
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    for room, below in arrows.items():
        (x, y), half = spot[room], BOX[1] / 2
        for other in sorted(below):
            u, v = spot[other]
            middle = (y + v) / 2
            lines.append(
                f'<path d="M{x:.0f} {y + half:.0f} C{x:.0f} {middle:.0f} {u:.0f} {middle:.0f} '
                f'{u:.0f} {v - half - 2:.0f}"/>'
            )
    for room, (x, y) in spot.items():
        lines.append(
            f'<rect x="{x - BOX[0] / 2:.0f}" y="{y - BOX[1] / 2:.0f}" width="{BOX[0]}" '
            f'height="{BOX[1]}" rx="6"/><text x="{x:.0f}" y="{y + 5:.0f}">{escape(room)}</text>'
        )
    return '\n'.join([*lines, '</svg>', ''])


if __name__ == '__main__':
    Path(sys.argv[1]).write_text(picture(room_imports()), encoding='utf-8')
