# SPDX-License-Identifier: Apache-2.0
"""Tables of predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from robot_identification.errors import IdentificationError
from robot_identification.estimation.validation import PredictedEfforts
from robot_identification.exports.saving import numbered, write_predictions

NAN = float('nan')


def block(*times):
    time = np.array(times)
    measured = np.column_stack((time + 0.1, time / 3.0))
    predicted = np.column_stack((time, np.full(time.size, NAN)))
    return PredictedEfforts(time, measured, predicted, ('a', 'b'))


def test_cells_without_a_prediction_are_empty_and_numbers_keep_their_digits(tmp_path):
    path = tmp_path / 'out.csv'
    write_predictions(path, iter([block(0.0, 0.5), block(1.0)]))
    assert path.read_text().splitlines() == [
        'time,a.measured,a.predicted,b.measured,b.predicted',
        '0.0,0.1,0.0,0.0,',
        '0.5,0.6,0.5,0.16666666666666666,',
        '1.0,1.1,1.0,0.3333333333333333,',
    ]
    assert [file.name for file in tmp_path.iterdir()] == ['out.csv']


def test_the_file_of_before_stays_where_predicting_fails(tmp_path):
    def failing():
        yield block(0.0)
        raise ValueError

    path = tmp_path / 'out.csv'
    path.write_text('before')
    with pytest.raises(ValueError):
        write_predictions(path, failing())
    assert [file.read_text() for file in tmp_path.iterdir()] == ['before']


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(IdentificationError, match='absent'):
        write_predictions(tmp_path / 'absent' / 'out.csv', iter([block(0.0)]))


def test_several_recordings_have_files_of_their_own():
    assert numbered(Path('a/b.csv'), 1) == (Path('a/b.csv'),)
    assert numbered(Path('a/b.csv'), 2) == (Path('a/b_1.csv'), Path('a/b_2.csv'))
