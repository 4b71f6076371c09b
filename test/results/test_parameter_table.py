# SPDX-License-Identifier: Apache-2.0
"""Tables of parameters: every number of the result, and nothing where there is none."""

import csv
import io

from robot_identification.results.parameter_table import parameters_csv, parameters_yaml
from robot_identification.results.result import read_result, write_result
import yaml


def test_csv_has_all_numbers_and_leaves_out_what_is_not_known(result):
    rows = list(csv.DictReader(io.StringIO(parameters_csv(result.to_document()))))
    standard = [row for row in rows if row['kind'] == 'standard']
    base = [row for row in rows if row['kind'] == 'base']
    assert [float(row['value']) for row in standard] == result.standard.values.tolist()
    assert [float(row['prior']) for row in standard] == result.prior.values.tolist()
    assert [float(row['value']) for row in base] == result.estimate.base.values.tolist()
    assert [row['expression'] for row in base] == [p.expression for p in result.estimate]
    known = [row['std'] != '' for row in base]
    assert known == [value == value for value in result.estimate.std]
    assert not all(known)


def test_yaml_is_that_of_the_file(result, tmp_path):
    write_result(result, tmp_path / 'result.yaml')
    stored = read_result(tmp_path / 'result.yaml')
    text = parameters_yaml(stored.to_document())
    assert text == parameters_yaml(result.to_document())
    document = yaml.safe_load(text)
    assert [row['value'] for row in document['parameters']] == stored.base.values.tolist()
    assert any(row['std'] is None for row in document['standard_parameters'])
