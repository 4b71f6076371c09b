# SPDX-License-Identifier: Apache-2.0
"""The example notebooks run from start to end, and are kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / 'examples' / 'notebooks').glob('*.ipynb'))


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path):
    cells = json.loads(path.read_text(encoding='utf-8'))['cells']
    code = [cell for cell in cells if cell['cell_type'] == 'code']
    assert code
    assert not any(cell['outputs'] or cell['execution_count'] for cell in code)


@pytest.mark.slow
@pytest.mark.parametrize(
    'path',
    # the first of them in `make test`, the others in `make soak`
    [pytest.param(p, marks=[pytest.mark.soak] if i else []) for i, p in enumerate(NOTEBOOKS)],
    ids=lambda path: path.stem,
)
def test_notebooks_run(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip('nbclient', reason='needs nbclient: run `make setup`')
    pytest.importorskip('ipykernel', reason='needs ipykernel: run `make setup`')
    pytest.importorskip('pandas', reason='needs pandas: run `make setup`')
    import nbformat

    # results land in the test's folder
    (tmp_path / 'urdf').symlink_to(ROOT / 'urdf')
    (tmp_path / 'examples').mkdir()
    for example in (ROOT / 'examples').iterdir():
        if example.name != 'notebooks':
            (tmp_path / 'examples' / example.name).symlink_to(example)
    folder = tmp_path / 'examples' / 'notebooks'
    folder.mkdir()
    monkeypatch.setenv('PYTHONPATH', str(ROOT), prepend=':')
    monkeypatch.setenv('IPYTHONDIR', str(tmp_path / 'ipython'))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=200, resources={'metadata': {'path': str(folder)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get('outputs', ())]
    assert any('application/vnd.plotly.v1+json' in output.get('data', {}) for output in outputs)
    shown = [output.get('data', {}).get('text/html', '') for output in outputs]
    words = 'armature, found' if path.name.startswith('4_') else 'base parameters of 6 joints'
    assert any(words in page for page in shown)
    assert not [o for o in outputs if o.get('name') == 'stderr' and 'Traceback' in o['text']]
    assert any(file.name == 'identified.urdf' for file in folder.rglob('*')) or '2_' in path.name
