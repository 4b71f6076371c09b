# SPDX-License-Identifier: Apache-2.0
"""The look of axes: ticks at round numbers, short labels, names that are no formulae."""

import pytest
from robot_identification.results.report.drawing import (
    broken,
    named_rows,
    new_figure,
    panel,
)


@pytest.fixture
def ax():
    figure, grid = new_figure(2.0, 1, 1, left=0.8)
    return panel(figure, grid[0])


@pytest.mark.parametrize('largest', [1e-7, 0.3, 1.0, 47.0, 3e8])
def test_ticks_are_few_and_their_labels_short(ax, largest):
    ax.set_xlim(-largest, largest)
    ax.figure.canvas.draw()
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert 3 <= len(labels) <= 11
    assert max(map(len, labels)) <= 5
    assert bool(ax.xaxis.get_offset_text().get_text()) == (largest in (1e-7, 3e8))


def test_names_of_rows_are_no_formulae(ax):
    named_rows(ax, [r'$\frac{1$', 'b'], 3)
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_yticklabels()] == [r'$\frac{1$', 'b']
    assert ax.get_ylim() == (2.6, -0.6)


@pytest.mark.parametrize(
    ('name', 'lines'),
    [
        ('joint_1', ['joint_1']),
        ('left_arm_shoulder_pitch_joint', ['left_arm_shoulder_', 'pitch_joint']),
        ('a' * 40, ['a' * 18, 'a' * 18, 'a' * 4]),
        ('', ['']),
    ],
)
def test_broken(name, lines):
    assert broken(name, 18).split('\n') == lines
