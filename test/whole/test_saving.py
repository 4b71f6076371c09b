# SPDX-License-Identifier: Apache-2.0
"""A finished identification is kept whatever fails in drawing and writing it."""

import xml.etree.ElementTree as ElementTree

import pytest
from robot_identification.config.experiment_file import load_experiment
from robot_identification.errors import IdentificationError
from robot_identification.exports.saving import save
from robot_identification.figures import parameter_plots
from robot_identification.identification.pipeline import identify
from robot_identification.model.robot import Robot
from robot_identification.results.stored_result import read_result

NAMES = {'joint_1': r'$\frac{1$', 'joint_2': 'a---b', 'link_3': '-->--$_{', 'link_2': '<&"%$$'}


@pytest.fixture(scope='module')
def result(make_workspace, tmp_path_factory):
    workspace = make_workspace(tmp_path_factory.mktemp('workspace'))
    return identify(load_experiment(workspace.experiment))


def test_names_of_any_characters_break_neither_figures_nor_the_urdf(make_workspace, tmp_path):
    workspace = make_workspace(tmp_path)
    urdf = workspace.robot.urdf
    for old, new in NAMES.items():
        escaped = new.replace('&', '&amp;').replace('<', '&lt;').replace('"', '&quot;')
        assert f'"{old}"' in urdf
        urdf = urdf.replace(f'"{old}"', f'"{escaped}"')
    (tmp_path / 'robot.urdf').write_text(urdf)
    joints = [NAMES.get(joint, joint) for joint in workspace.robot.joints]
    overrides = {'robot.urdf': str(tmp_path / 'robot.urdf'), 'robot.joints': joints}
    result = identify(load_experiment(workspace.experiment, overrides))
    saved = save(result, tmp_path / 'out')
    assert not [text for text in saved.warnings if 'not drawn' in text or 'not written' in text]
    page = saved.report.read_text()
    assert 'could not be drawn' not in page
    comments = []
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    for element in ElementTree.fromstring(saved.urdf.read_text(), parser).iter():
        if element.tag is ElementTree.Comment:
            comments.append(element.text)
    assert any('Ia' in text for text in comments)
    assert Robot.from_urdf(saved.urdf).joints == result.robot.joints
    assert read_result(saved.result).robot.joints == result.robot.joints


def test_a_figure_that_fails_is_a_remark(result, tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError('no ink')

    monkeypatch.setattr(parameter_plots, 'prior_figure', fail)
    saved = save(result, tmp_path)
    remark = "figure 'prior' is not drawn: ValueError: no ink"
    assert saved.warnings == (remark,)
    assert remark in saved.report.read_text().replace('&#39;', "'")
    assert remark in read_result(saved.result).document['warnings']
    assert saved.urdf.exists()


@pytest.mark.parametrize(
    ('name', 'lost'),
    [('html', 'report.html'), ('export', 'identified.urdf'), ('verdict_json', 'verdict.json')],
)
def test_the_numbers_are_there_whatever_fails_after_them(
    result, tmp_path, monkeypatch, name, lost
):
    save(result, tmp_path)
    assert (tmp_path / lost).exists()

    def fail(*_):
        assert read_result(tmp_path / 'result.yaml').base  # written before
        raise RuntimeError('out of ideas')

    monkeypatch.setattr(f'robot_identification.exports.saving.{name}', fail)
    saved = save(result, tmp_path)
    assert saved.warnings == (f'{lost} is not written: RuntimeError: out of ideas',)
    assert saved.warnings[0] in read_result(saved.result).document['warnings']
    # one of an earlier result would be taken for that of this one
    assert not (tmp_path / lost).exists()


def test_where_the_numbers_cannot_be_written_the_files_of_before_stay(result, tmp_path):
    save(result, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / 'result.yaml').unlink()
    (tmp_path / 'result.yaml').mkdir()
    with pytest.raises(IdentificationError, match='cannot write results'):
        save(result, tmp_path)
    assert (tmp_path / 'report.html').read_bytes() == before['report.html']
