# SPDX-License-Identifier: Apache-2.0
"""Tables of parameters: every number of the result, and nothing where there is none."""

import csv
import io

import numpy as np
import pytest
from robot_identification.results.parameter_table import (
    base_rows,
    parameters_csv,
    parameters_yaml,
    standard_rows,
)
from robot_identification.results.result import read_result, write_result
import yaml


@pytest.fixture(scope='module')
def stored(result, tmp_path_factory):
    path = tmp_path_factory.mktemp('result') / 'result.yaml'
    write_result(result, path)
    return read_result(path)


def test_rows_of_a_result_and_of_its_file_are_the_same(result, stored):
    for rows in (standard_rows, base_rows):
        for ours, theirs in zip(rows(result), rows(stored), strict=True):
            np.testing.assert_equal(ours, theirs)
    assert [row['value'] for row in standard_rows(result)] == result.standard.values.tolist()
    assert base_rows(result)[0]['expression'] == next(iter(result.estimate)).expression


def test_csv_has_all_numbers_and_leaves_out_what_is_not_known(stored):
    rows = list(csv.DictReader(io.StringIO(parameters_csv(stored))))
    assert len(rows) == len(stored.standard.layout) + len(stored.base.layout)
    for row, expected in zip(rows, standard_rows(stored), strict=False):
        assert float(row['value']) == expected['value']
        assert (row['std'] == '') == bool(np.isnan(expected['std']))
    assert {'', *(row['kind'] for row in rows)} == {'', 'standard', 'base'}
    assert any(row['std'] == '' for row in rows)


def test_yaml_has_all_numbers(stored):
    document = yaml.safe_load(parameters_yaml(stored))
    assert [row['value'] for row in document['base_parameters']] == stored.base.values.tolist()
    assert any(row['std'] is None for row in document['standard_parameters'])
