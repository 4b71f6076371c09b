# SPDX-License-Identifier: Apache-2.0
"""Result files: what goes in comes out, and what is wrong is said in one line."""

from dataclasses import replace
from pathlib import Path
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
from robot_identification.errors import IdentificationError
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.model.parameters import ParameterSet
from robot_identification.options.document import dump
from robot_identification.regressor import build
from robot_identification.regressor.base_search import structure
from robot_identification.results.result import write_result
from robot_identification.results.stored_result import read_result
from robot_identification.untrusted.writing import write_together
import yaml

URDF = Path(__file__).parents[2] / 'urdf' / 'gautier_khalil_3r.urdf'


def test_what_goes_in_comes_out_to_the_last_digit(result, tmp_path):
    path = tmp_path / 'result.yaml'
    write_result(result, path)
    stored = read_result(path)
    assert stored.name == 'made up' and stored.path == path
    assert np.array_equal(stored.base.values, result.estimate.base.values)
    assert stored.base.layout == result.estimate.base.layout
    assert np.array_equal(stored.base_std, result.estimate.std, equal_nan=True)
    assert stored.expressions == result.estimate.expressions
    assert np.array_equal(stored.standard.values, result.standard.values)
    assert stored.standard.layout == result.standard.layout
    assert np.array_equal(stored.prior.values, result.prior.values)
    assert np.array_equal(stored.standard_std, result.standard_std, equal_nan=True)
    assert stored.settings == result.settings
    assert stored.notes == ('3 outliers: "odd"',)
    assert stored.robot.urdf == result.robot.urdf
    assert stored.robot.joints == result.robot.joints
    assert np.array_equal(stored.robot.gravity, result.robot.gravity)
    assert np.array_equal(stored.robot.prior.values, result.robot.prior.values)


def test_top_level_keys_and_counts(result):
    document = result.to_document()
    for key in (
        'structure',
        'parameters',
        'standard_parameters',
        'identification',
        'validation',
        'consistency',
        'timing',
    ):
        assert key in document
    assert document['structure']['standard'] == len(result.standard.layout)
    assert document['structure']['base'] == result.structure.n_base
    assert document['structure']['essential'] == int(result.essential.essential.sum())
    assert len(document['parameters']) == result.structure.n_base
    first = document['parameters'][0]
    assert {'name', 'expression', 'value', 'std', 'relative_std', 'essential'} <= set(first)
    assert {'name', 'value', 'prior', 'std'} <= set(document['standard_parameters'][0])
    joint = document['identification']['joints'][result.robot.joints[0]]
    assert {'rmse', 'relative_error', 'bias', 'raw_relative_error', 'weight'} <= set(joint)
    assert document['identification']['relative_error'] == result.estimate.fit.relative_error
    assert document['validation'][0]['sources'] == ['b.csv']
    assert document['consistency']['physical'] is result.consistency.physical
    assert len(document['consistency']['links']) == 3
    assert document['timing'] == {'recordings': 0.25}
    assert len(document['essential_parameters']) == document['structure']['essential']
    assert len(document['covariance']) == result.structure.n_base


def test_file_is_plain_yaml_that_people_can_read(result, tmp_path):
    path = tmp_path / 'result.yaml'
    write_result(result, path)
    text = path.read_text()
    assert yaml.safe_load(text) == result.to_document()
    assert '!!' not in text and '&id' not in text and 'nan' not in text.lower()
    entry = next(line for line in text.splitlines() if line.startswith('- {name: '))
    assert entry.endswith('}') and 'expression: ' in entry
    # the document of the robot stands as it is, indented
    assert '\n    <robot name=' in text or '\n    <?xml' in text
    assert list(tmp_path.iterdir()) == [path]


def test_without_essential_parameters(result, tmp_path):
    plain = replace(
        result,
        essential=None,
        standard_covariance=None,
        settings=replace(result.settings, estimation=EstimationSettings(essential=None)),
    )
    write_result(plain, tmp_path / 'r.yaml')
    stored = read_result(tmp_path / 'r.yaml')
    assert stored.settings.estimation.essential is None
    assert stored.document['structure']['essential'] is None
    assert np.isnan(stored.standard_std).all()


def test_failing_write_leaves_the_old_file(result, tmp_path, monkeypatch):
    path = tmp_path / 'result.yaml'
    path.write_text('old')

    def fail(*args):
        raise OSError('disk full')

    monkeypatch.setattr('os.replace', fail)
    with pytest.raises(OSError, match='disk full'):
        write_result(result, path)
    assert path.read_text() == 'old' and list(tmp_path.iterdir()) == [path]


def test_files_that_belong_together_are_all_written_or_none(tmp_path):
    for name in 'ab':
        (tmp_path / name).write_text('old')
    with pytest.raises(FileNotFoundError):
        write_together({tmp_path / 'a': 'new', tmp_path / 'b': b'new', tmp_path / 'no' / 'c': ''})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {'a': 'old', 'b': 'old'}
    write_together({tmp_path / 'a': 'new', tmp_path / 'b': b'new'})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {'a': 'new', 'b': 'new'}


@settings(max_examples=30)
@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**9), 10**9)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(codec='utf-8', exclude_categories=('Cs',)), max_size=30),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.text('abc_', min_size=1, max_size=5), inner, max_size=4)
        ),
        max_leaves=8,
    )
)
@example('\x85')
@example('a\u2028b\n\r')
def test_any_document_reads_back(value):
    assert yaml.safe_load(dump({'key': value})) == {'key': value}


def broken(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (lambda text: 'just: a mapping\n', 'is not the result of an identification'),
        (lambda text: '- 1\n', 'is not the result of an identification'),
        (lambda text: '', 'is not the result of an identification'),
        (lambda text: text[: len(text) // 2], 'is damaged'),
        (lambda text: '{: [', 'not readable as YAML'),
        (lambda text: broken(text, 'format: 1', 'format: 99'), 'format 99, this version reads 1'),
        (lambda text: broken(text, 'settings:', 'sittings:'), "'settings' is missing"),
        (lambda text: broken(text, 'cutoff:', 'cut_off:'), "unknown key 'settings.signals.cut"),
        (
            lambda text: broken(text, '<robot name="', '<robot name="x'),
            'the URDF in it was changed',
        ),
        (lambda text: broken(text, 'kg m^2, value: ', 'kg m^2, value: no'), 'value of'),
        (lambda text: re.sub(r'(kg m, value:) [^,]+,', r'\1 .nan,', text), 'a finite number'),
        (lambda text: re.sub(r'name: \S+\.m,', 'name: null,', text), 'name of a parameter'),
    ],
)
def test_wrong_file_is_one_line_that_names_it(result, tmp_path, change, words):
    path = tmp_path / 'result.yaml'
    write_result(result, path)
    path.write_text(change(path.read_text()))
    with pytest.raises(IdentificationError) as error:
        read_result(path)
    message = str(error.value)
    assert words in message and str(path) in message and '\n' not in message
    assert error.value.file == str(path) and error.value.remedy


def test_missing_file_and_binary_file(tmp_path):
    with pytest.raises(IdentificationError, match='No such file'):
        read_result(tmp_path / 'none.yaml')
    (tmp_path / 'b.yaml').write_bytes(b'\xff\xfe\x00\x80')
    with pytest.raises(IdentificationError, match='damaged'):
        read_result(tmp_path / 'b.yaml')
    with pytest.raises(IdentificationError):
        read_result(tmp_path)


def test_stored_parameters_project_to_the_stored_base(result, tmp_path):
    write_result(result, tmp_path / 'r.yaml')
    stored = read_result(tmp_path / 'r.yaml')
    base = structure(build(stored.robot, stored.settings.model), stored.robot)
    projected = base.project(ParameterSet(base.layout, stored.standard.values))
    assert np.allclose(projected.values, stored.base.values, rtol=1e-12, atol=1e-12)
