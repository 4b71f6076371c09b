# SPDX-License-Identifier: Apache-2.0
"""
Run the example notebooks and store their outputs in them.

Usage: ``store_outputs.py [NOTEBOOK ...]``, by default all of ``examples/notebooks``.  Of figures
only their number of lines is stored: their data are large, and drawn by running the cell.
"""

from __future__ import annotations

import os
from pathlib import Path
import sys
import tempfile
from typing import Any

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / 'examples' / 'notebooks').glob('*.ipynb'))
FIGURE = 'application/vnd.plotly.v1+json'


def executed(path: Path, root: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of its run in ``root``, where its files land."""
    (root / 'urdf').symlink_to(ROOT / 'urdf')
    folder = root / 'examples' / 'notebooks'
    folder.mkdir(parents=True)
    for example in (ROOT / 'examples').iterdir():
        if example.name != 'notebooks':
            (folder.parent / example.name).symlink_to(example)
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=1000, record_timing=False, resources={'metadata': {'path': str(folder)}}
    )
    own = {'PYTHONPATH': str(ROOT), 'IPYTHONDIR': str(root / 'ipython')}
    client.execute(env={**os.environ, **own})
    return notebook


def stored(outputs: list[Any]) -> list[Any]:
    """Return the outputs of a cell as they are stored: tables, and texts other than remarks."""
    kept = []
    for output in outputs:
        data = output.get('data', {})
        if FIGURE in data:
            lines = len(data[FIGURE]['data'])
            data = {'text/plain': f'Figure of {lines} lines: run the cell to see it.'}
        elif data:
            data = {kind: text for kind, text in data.items() if kind.startswith('text/')}
        elif output.get('name') == 'stderr':
            continue
        kept.append(nbformat.from_dict({**output, **({'data': data} if data else {})}))
    return kept


def main(paths: list[Path]) -> None:
    """Run notebooks, and write them with their outputs."""
    for path in paths or NOTEBOOKS:
        with tempfile.TemporaryDirectory() as root:
            notebook = executed(path, Path(root))
        notebook.metadata.language_info = {'name': 'python'}
        for cell in notebook.cells:
            if cell.cell_type == 'code':
                cell.outputs = stored(cell.outputs)
        nbformat.write(notebook, path)
        print(f'wrote {path}')


if __name__ == '__main__':
    main([Path(name).resolve() for name in sys.argv[1:]])
