# SPDX-License-Identifier: Apache-2.0
"""The example notebooks run from start to end, and their stored outputs are those of the code."""

from __future__ import annotations

import json
from pathlib import Path
import re

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / 'examples' / 'notebooks').glob('*.ipynb'))
TIME_TAKEN = re.compile(r'(,| in) [\d.]+ s$', re.MULTILINE)
SEARCHED = ('2_design_an_experiment',)
"""Whose outputs follow a search: its path, and so each number, depends on the processor."""
NUMBER = re.compile(r'[-+]?\d+\.?\d*(?:e[-+]?\d+)?')


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_with_outputs(path):
    cells = json.loads(path.read_text(encoding='utf-8'))['cells']
    code = [cell for cell in cells if cell['cell_type'] == 'code']
    assert [cell['execution_count'] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell['outputs']]
    told = [''.join(output.get('data', {}).get('text/plain', '')) for output in outputs]
    assert len(told) > 3 and any(text.startswith('Figure of') for text in told)
    assert path.stat().st_size < 100_000


def same(stored, found):
    """Return True if texts are the same but for rounding, and for the time taken."""
    stored, found = (TIME_TAKEN.sub('', text) for text in (stored, found))
    words = NUMBER.sub('', stored).split() == NUMBER.sub('', found).split()
    old, new = (np.array(NUMBER.findall(text), dtype=float) for text in (stored, found))
    return words and old.size == new.size and np.allclose(old, new, rtol=0.02, atol=2e-3)


def test_texts_are_the_same_but_for_rounding():
    assert same('mass 3.142 kg, 5 % off', 'mass 3.141  kg, 5 % off')
    assert same('35 rollouts, 14.6 s\n4 kg', '35 rollouts, 3 s\n4 kg')
    assert not same('mass 3.142 kg', 'mass 3.642 kg')
    assert not same('mass 3.142 kg', 'weight 3.142 kg')
    assert not same('2 of 3', '2 of 3 4')


@pytest.mark.slow
@pytest.mark.parametrize(
    'path',
    # the first of them in `make test`, the others in `make soak`
    [pytest.param(p, marks=[pytest.mark.soak] if i else []) for i, p in enumerate(NOTEBOOKS)],
    ids=lambda path: path.stem,
)
def test_notebooks_run_to_their_stored_outputs(path, tmp_path):
    pytest.importorskip('nbclient', reason='needs nbclient: run `make setup`')
    pytest.importorskip('ipykernel', reason='needs ipykernel: run `make setup`')
    pytest.importorskip('pandas', reason='needs pandas: run `make setup`')
    import nbformat
    from store_outputs import executed, FIGURE, stored

    notebook = executed(path, tmp_path)
    outputs = [output for cell in notebook.cells for output in cell.get('outputs', ())]
    assert any(FIGURE in output.get('data', {}) for output in outputs)
    shown = [output.get('data', {}).get('text/html', '') for output in outputs]
    words = 'armature, found' if path.name.startswith('4_') else 'base parameters of 6 joints'
    assert any(words in page for page in shown)
    assert not [o for o in outputs if o.get('name') == 'stderr' and 'Traceback' in o['text']]
    folder = tmp_path / 'examples' / 'notebooks'
    assert any(file.name == 'identified.urdf' for file in folder.rglob('*')) or '2_' in path.name
    for kept, cell in zip(nbformat.read(path, as_version=4).cells, notebook.cells, strict=True):
        if cell.cell_type == 'code':
            pairs = zip(map(texts, kept.outputs), map(texts, stored(cell.outputs)), strict=True)
            for old, new in pairs:
                assert path.stem in SEARCHED or same(old, new), (
                    f'{cell.source}\nstored: {old}\nfound: {new}'
                )


def texts(output):
    """Return all texts of an output."""
    data = output.get('data', {})
    return '\n'.join([output.get('text', ''), *(data[kind] for kind in sorted(data))])
