# SPDX-License-Identifier: Apache-2.0
"""Identification from factors gives what identification from the recordings gives."""

from dataclasses import replace
from pathlib import Path
import shutil

import numpy as np
import pytest
from robot_identification.cli import main
from robot_identification.config.experiment_file import load_experiment
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.recording import Recording
from robot_identification.errors import IdentificationError, ModelError, SettingsError
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.estimation.factor_file import (
    merge_stored,
    pack,
    read_factor,
    unpack,
    write_factor,
)
from robot_identification.excitation.criteria import covariance
from robot_identification.identification.pipeline import (
    identify,
    identify_factors,
    identify_sources,
)
from robot_identification.identification.reduction import (
    earlier_information,
    FactorBuilder,
    problem_of,
    with_factors,
)

ROOT = Path(__file__).parents[2]

CLASSICAL = '--set estimation.bootstrap=null'

EXACT = 1e-9
"""Relative difference of what differs by rounding, after solving."""


def same(one, two, path='', rtol=EXACT):
    """Hold two result documents together; say where they differ."""
    if isinstance(one, dict):
        assert list(one) == list(two), path
        for key in one:
            # factors have neither stamps nor rows over time
            if key not in ('timing', 'file', 'clock', 'effort_delay', 'residuals'):
                same(one[key], two[key], f'{path}.{key}', rtol)
    elif isinstance(one, list):
        if one and all(isinstance(value, float) for value in one):
            assert np.allclose(one, two, rtol=rtol, atol=rtol * np.abs(one).max()), path
            return
        assert len(one) == len(two), path
        for i, pair in enumerate(zip(one, two, strict=True)):
            same(*pair, f'{path}[{i}]', rtol)
    elif isinstance(one, float):
        assert one == pytest.approx(two, rel=rtol, abs=rtol), path
    else:
        assert one == two, path


@pytest.fixture
def reduced(workspace):
    """Return the reducer of the workspace's experiment, and its first recording's factor."""
    # files have the bootstrap's stretches in single precision
    workspace.edit('method: wls', 'method: wls\n  bootstrap: null')
    experiment = load_experiment(workspace.experiment)
    reducer = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment))
    return experiment, reducer, reducer.reduce(experiment.sources()[0])


def test_factor_gives_the_recordings_result(workspace, reduced):
    experiment, _, stored = reduced
    path = workspace.folder / 'first.factor'
    write_factor(stored, path)
    workspace.edit(
        'file: first.csv, time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]',
        'file: first.factor',
    )
    documents = [
        identify(chosen).to_document()
        for chosen in (experiment, load_experiment(workspace.experiment))
    ]
    for document in documents:
        # it names the files
        del document['experiment']
    # files have the stretches in single precision
    spreads = [document['predicted_errors'].pop('spread') for document in documents]
    assert spreads[0] == pytest.approx(spreads[1], rel=1e-3)
    same(*documents)


@pytest.mark.parametrize('method', ['wls', 'physical'])
def test_standard_deviations_do_not_depend_on_the_way(workspace, tmp_path, method):
    """Files have the stretches that the bootstrap takes, in single precision."""
    workspace.edit('method: wls', f'method: {method}')
    experiment = load_experiment(workspace.experiment)
    reducer = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment))
    write_factor(reducer.reduce(experiment.sources()[0]), tmp_path / 'run.factor')
    estimates = [
        identify_factors([read_factor(tmp_path / 'run.factor')], experiment.estimation).estimate,
        identify(experiment).estimate,
    ]
    assert all(estimate.uncertainty.bootstrap is not None for estimate in estimates)
    # residuals are small beside the efforts that are rounded, and make the spread of the estimates
    direct = estimates[1]
    rtol = (
        100.0 * np.finfo(np.float32).eps * direct.rows.condition_number / direct.fit.relative_error
    )
    assert rtol < 1e-3
    np.testing.assert_allclose(*(estimate.std for estimate in estimates), rtol=rtol)


def test_combinations_have_all_digits(workspace):
    """Base parameters are the prior's, summed up by them."""
    result = identify(load_experiment(workspace.experiment))
    rows = result.to_document()['parameters']
    prior = result.prior.as_dict()
    found = [sum(c * prior[name] for name, c in row['combination'].items()) for row in rows]
    expected = result.structure.regrouping @ result.prior.values
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    digits = [len(f'{c:.17g}') for row in rows for c in row['combination'].values()]
    assert max(digits) > 10


def test_merged_factors_give_the_result_of_both_recordings(workspace, reduced):
    experiment, reducer, first = reduced
    second = reducer.reduce(experiment.sources('validation')[0])
    (entry,), (other,) = experiment.data.identification, experiment.data.validation
    data = replace(experiment.data, identification=(entry, other), validation=())
    recorded = identify(replace(experiment, data=data)).to_document()
    files = [unpack(pack(stored)) for stored in (first, second)]
    estimation = experiment.estimation
    for factors in (files, [merge_stored(files)], [files[0].merge(files[1])]):
        found = identify_factors(factors, estimation).to_document()
        assert found['identification']['recordings'] == ['first.csv', 'second.csv']
        for key in ('identification', 'parameters', 'standard_parameters', 'covariance'):
            same(recorded[key], found[key], key)


def test_recordings_and_factors_go_together(reduced):
    experiment, reducer, first = reduced
    second = experiment.sources('validation')[0]
    mixed = reducer.system([first, second]).factor
    both = first.factor.merge(reducer.reduce(second).factor)
    assert np.allclose(mixed.column_sums, both.column_sums, rtol=1e-12)
    assert np.array_equal(mixed.rows, both.rows)
    assert reducer.system([first, second]).sources == ('second.csv', 'first.csv')


def test_factor_serves_for_validation(reduced):
    experiment, reducer, first = reduced
    second = reducer.reduce(experiment.sources('validation')[0])
    expected = identify(experiment).validations[0]
    found = identify_factors([first], experiment.estimation, validation=[second]).validations[0]
    same(expected.to_dict(), found.to_dict())
    assert len(found.trace) == 0


def test_stored_result_is_validated_on_a_factor(workspace, reduced, command):
    experiment, reducer, _ = reduced
    (source,) = experiment.sources('validation')
    write_factor(reducer.reduce(source), workspace.folder / 'second.factor')
    recorded = command('identify experiment.yaml --verbose').out
    told = command('validate results/result.yaml second.factor --verbose').out
    verdict, figures = told.split('\n\n', 1)
    assert verdict.startswith('== Verdict by the validation alone')
    assert figures.startswith('Validation on second.csv\n') and figures.strip() in recorded
    predicting = 'validate results/result.yaml second.factor --predictions out.csv'
    assert 'has no samples to predict' in command(predicting, expect=2).err
    workspace.edit('cutoff: 20.0', 'cutoff: 25.0')
    other = FactorBuilder.from_problem(
        IdentificationProblem.from_experiment(load_experiment(workspace.experiment))
    ).reduce(source)
    write_factor(other, workspace.folder / 'second.factor')
    told = command('validate results/result.yaml second.factor', expect=2).err
    assert "'signals.cutoff' is 20.0 here and 25.0 there" in told


@pytest.mark.parametrize('settings', ['essential', 'energy', 'ols'])
def test_factor_gives_every_methods_result(workspace, settings):
    edit = {
        'ols': ('method: wls', 'method: ols\n  bootstrap: null\n  standard: base_columns'),
        'essential': (
            'method: wls',
            'method: wls\n  bootstrap: null\n  essential: {max_relative_std: 10.0}',
        ),
        'energy': ('method: wls', 'method: wls\n  bootstrap: null\n  equations: energy'),
    }[settings]
    workspace.edit(*edit)
    experiment = load_experiment(workspace.experiment)
    stored = unpack(
        pack(
            FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment)).reduce(
                experiment.sources()[0]
            )
        )
    )
    found = identify_factors([stored], experiment.estimation)
    expected = identify(experiment)
    assert found.settings.estimation == expected.settings.estimation
    for key in ('identification', 'parameters', 'essential_parameters', 'standard_parameters'):
        same(expected.to_document()[key], found.to_document()[key], key)


@pytest.mark.parametrize(
    ('method', 'equations'),
    [('wls', 'inverse_dynamics'), ('physical', 'inverse_dynamics'), ('wls', 'energy')],
)
def test_deviations_of_several_recordings_are_those_of_their_factors(workspace, method, equations):
    """Recordings of unequal lengths, with an odd number of parts, by the bootstrap."""
    workspace.edit('method: wls', f'method: {method}\n  equations: {equations}')
    problem = IdentificationProblem.from_experiment(load_experiment(workspace.experiment))
    recordings = []
    for file, last in (('first.csv', 4700), ('second.csv', 2900), ('second.csv', 4100)):
        table = workspace.table(file)[:last]
        recordings.append(
            Recording(table[:, 0], table[:, 1:4], table[:, 4:], problem.robot.joints)
        )
    expected = identify_sources(problem, recordings)
    builder = FactorBuilder.from_problem(problem)
    stored = [unpack(pack(builder.reduce(recording))) for recording in recordings]
    found = identify_factors(stored, problem.estimation)
    assert len(expected.system.blocks) > 128
    for key in ('std', 'classical_std'):
        one, other = (
            getattr(found.estimate.uncertainty, key),
            getattr(expected.estimate.uncertainty, key),
        )
        np.testing.assert_allclose(one, other, rtol=1e-3)
    np.testing.assert_array_equal(found.essential.essential, expected.essential.essential)


def test_physical_fit_of_a_factor_finds_the_strength_of_the_prior(workspace):
    """Files of older versions have no stretches to cross-validate on."""
    workspace.edit('method: wls', 'method: physical')
    experiment = load_experiment(workspace.experiment)
    builder = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment))
    stored = unpack(pack(builder.reduce(experiment.sources()[0])))
    found = identify_factors([stored], experiment.estimation)
    expected = identify(experiment)
    assert found.consistency.physical
    for result in (found, expected):
        assert any('by cross-validation' in note for note in result.estimate.notes)
    errors = [result.estimate.fit.relative_error for result in (found, expected)]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)
    growth = [np.median(result.estimate.uncertainty.growth) for result in (found, expected)]
    assert growth[0] == pytest.approx(growth[1], rel=0.35)
    old = identify_factors([replace(stored, blocks=None)], experiment.estimation)
    assert any('strength of the prior: 30' in note for note in old.estimate.notes)
    assert old.estimate.uncertainty.growth is None and any(
        'classical' in text for text in old.warnings
    )


def test_result_of_factors_is_saved_without_plots_of_samples(workspace, reduced):
    from robot_identification.exports.saving import save

    *_, first = reduced
    saved = save(identify_factors([first]), workspace.folder / 'results')
    report = saved.report.read_text()
    assert 'which hold no samples to plot' in report
    assert 'Measured and predicted effort' not in report
    assert saved.urdf is not None


def test_factor_brings_its_problem_with_it(reduced):
    experiment, reducer, first = reduced
    problem = problem_of(unpack(pack(first)), EstimationSettings(method='ols'))
    again = FactorBuilder.from_problem(problem)
    assert again.fingerprint.difference(reducer.fingerprint) is None
    assert again.settings == reducer.settings
    assert problem.estimation.method == 'ols'
    assert problem.robot.joints == experiment.robot.joints


@pytest.mark.parametrize(
    ('change', 'error', 'words'),
    [
        (('cutoff: 20.0', 'cutoff: 25.0'), SettingsError, "'signals.cutoff' is 25.0 here"),
        (('viscous, coulomb, offset', 'viscous, coulomb'), ModelError, 'offset are there only'),
        (('rotor_inertia: true', 'gravity: [0.0, 0.0, 9.81]\n  rotor_inertia: true'),
         ModelError, "motion gives joint 'joint_2' other rows"),
        (('rotor_inertia: true', 'rotor_inertia: false'), ModelError, 'there only'),
        (('method: wls', 'equations: energy'), ModelError, 'energy is here only'),
    ],
)  # fmt: skip
def test_unlike_factor_is_refused_by_what_differs(workspace, reduced, change, error, words):
    *_, first = reduced
    path = workspace.folder / 'first.factor'
    write_factor(first, path)
    workspace.edit(*change)
    experiment = load_experiment(workspace.experiment)
    with pytest.raises(error) as caught:
        identify(with_factors(experiment, [path]))
    if change[0].startswith('viscous'):
        words = 'joint_1.off, joint_2.off, joint_3.off are there only'
    assert words in str(caught.value)
    assert str(path) in str(caught.value) or caught.value.file


@pytest.mark.parametrize('method', ['irls', 'mrls'])
def test_method_that_needs_rows_is_refused_by_name(reduced, method):
    *_, first = reduced
    with pytest.raises(SettingsError, match=f"'estimation.method' is {method}") as caught:
        identify_factors([first], EstimationSettings(method=method))
    assert caught.value.key == 'estimation.method'
    assert 'wls' in caught.value.remedy


def test_slope_left_to_the_recordings_is_refused(workspace):
    workspace.edit('viscous, coulomb', 'viscous, stiction')
    experiment = load_experiment(workspace.experiment)
    with pytest.raises(SettingsError, match='is null, to be found in the recordings') as caught:
        FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment)).reduce(
            experiment.sources()[0]
        )
    assert caught.value.key.startswith('robot.')


def test_factor_has_no_columns_to_choose(workspace, reduced):
    *_, first = reduced
    write_factor(first, workspace.folder / 'first.factor')
    workspace.edit('file: first.csv, time: t', 'file: first.factor, time: t')
    with pytest.raises(SettingsError, match=r"identification\[0\].time' is given, but 'first.fac"):
        load_experiment(workspace.experiment)
    workspace.edit('first.factor', 'none.factor')
    workspace.edit(
        'time: t, position: [q1, q2, q3], effort: [tau1, tau2, tau3]}\n  val',
        'format: factor}\n  val',
    )
    with pytest.raises(SettingsError, match='none.factor does not exist'):
        load_experiment(workspace.experiment)


@pytest.fixture
def command(workspace, monkeypatch, capsys):
    """Return what runs the command line in the workspace and gives what it printed."""
    monkeypatch.chdir(workspace.folder)

    def run(words, expect=0):
        assert main(words.split()) == expect
        return capsys.readouterr()

    return run


def test_command_reduces_merges_and_identifies(workspace, command):
    command('reduce experiment.yaml --out runs')
    told = command('reduce experiment.yaml second.csv --out runs --quiet').out
    assert 'wrote runs/second.factor: 3 joints' in told
    assert '1 recording of 12 s' in told
    told = command('reduce runs/first.factor runs/second.factor --out all.factor').out
    assert '2 recordings of 24 s' in told
    one = command(
        f'identify all.factor --verbose --out one --set estimation.method=wls {CLASSICAL}'
    ).out
    # the recordings may be gone
    (workspace.folder / 'first.csv').unlink()
    files = 'runs/first.factor runs/second.factor'
    two = command(f'identify experiment.yaml --verbose --factors {files} {CLASSICAL}').out
    assert 'joint_2.fv' in one and one.split('\n\n')[1] in two
    merged = read_factor(workspace.folder / 'all.factor')
    assert [origin.name for origin in merged.origins] == ['first.csv', 'second.csv']


def test_command_merges_what_it_reduces(workspace, command):
    shutil.copy(workspace.folder / 'second.csv', workspace.folder / 'third.csv')
    told = command('reduce experiment.yaml second.csv third.csv --out both.factor --quiet').out
    assert 'both.factor' in told
    assert len(read_factor(workspace.folder / 'both.factor').origins) == 2


@pytest.mark.parametrize(
    ('words', 'reason'),
    [
        ('reduce a.factor --out runs', "'--out runs' does not end in .factor"),
        ('reduce none.factor --out all.factor', "cannot read factor file 'none.factor'"),
        ('reduce first.csv --out all.factor', 'first.csv'),
        ('identify experiment.yaml --factors none.factor', 'none.factor does not exist'),
        ('identify first.factor --out r --set signals.cutoff=3', "'signals.cutoff' cannot be set"),
        ('identify first.factor --out r --set estimation.method=irls', 'irls, which has to see'),
        ('identify first.factor', 'there is no folder for the results'),
    ],
)  # fmt: skip
def test_wrong_command_is_told_in_one_line(workspace, reduced, command, words, reason):
    write_factor(reduced[-1], workspace.folder / 'first.factor')
    told = command(words, expect=2).err
    assert told.startswith('error: ') and reason in told
    assert told.count('\n') == 1


def test_nothing_to_identify_from_is_an_error():
    with pytest.raises(ValueError, match='no factor'):
        identify_factors([])
    with pytest.raises(ValueError, match='no factor'):
        merge_stored([])


def test_unlike_files_are_named_when_merged(workspace, reduced):
    *_, first = reduced
    workspace.edit('dead_zone: 0.05', 'dead_zone: 0.06')
    experiment = load_experiment(workspace.experiment)
    second = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment)).reduce(
        experiment.sources('validation')[0]
    )
    with pytest.raises(IdentificationError) as caught:
        merge_stored([first, second])
    text = str(caught.value)
    assert "first.csv ('here') and second.csv ('there')" in text
    assert "'signals.dead_zone' is 0.05 here and 0.06 there" in text
    assert caught.value.key == 'signals.dead_zone'


def test_real_recording_and_its_factors_give_the_same_result(tmp_path):
    overrides = {
        'data.identification[0].rows': '[0, 30000]',
        'data.validation': '[]',
        'estimation.bootstrap': 'null',
    }
    file = ROOT / 'examples' / 'tx40' / 'experiment.yaml'
    experiment = load_experiment(file, overrides)
    (first,) = experiment.data.identification
    # the rest of the same recording, as another one
    parts = first, replace(first, rows=(30000, None))
    experiment = replace(experiment, data=replace(experiment.data, identification=parts))
    reducer = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment))
    files = []
    for number, source in enumerate(experiment.sources()):
        files.append(tmp_path / f'{number}.factor')
        write_factor(reducer.reduce(source), files[-1])
    expected, found = identify(experiment), identify(with_factors(experiment, files))
    assert np.allclose(
        found.estimate.base.values,
        expected.estimate.base.values,
        rtol=0.0,
        atol=1e-9 * np.nanmax(expected.estimate.std),
    )
    one, two = expected.to_document(), found.to_document()
    for key in ('identification', 'standard_parameters', 'parameters'):
        same(one[key], two[key], key, rtol=1e-8)


def test_energies_of_joints_that_move_one_at_a_time_go_together(workspace):
    workspace.edit('method: wls', 'equations: energy')
    table = workspace.table()
    still = table.copy()
    still[:, 3] = 0.3
    workspace.write(still, 'second.csv')
    experiment = load_experiment(workspace.experiment)
    reducer = FactorBuilder.from_problem(IdentificationProblem.from_experiment(experiment))
    both = [reducer.reduce(source) for kind in ('identification', 'validation')
            for source in experiment.sources(kind)]  # fmt: skip
    with pytest.raises(IdentificationError, match="joint 'joint_3' does not move"):
        reducer.system([both[1]])
    expected = reducer.system([both[0]]).factor.n_rows + both[1].factor.n_rows
    assert reducer.system(both).factor.n_rows == expected
    (still_recording,) = experiment.sources('validation')
    assert reducer.system([both[0], still_recording]).factor.n_rows == expected


def test_factors_have_what_the_bootstrap_and_the_folds_need(reduced, tmp_path):
    *_, first = reduced
    assert first.blocks is not None and len(first.blocks) <= 128
    write_factor(first, tmp_path / 'run.factor')
    result = identify_factors([read_factor(tmp_path / 'run.factor')], EstimationSettings())
    assert (
        result.estimate.method == 'physical' and result.estimate.uncertainty.bootstrap is not None
    )


def test_a_few_lines_of_python_will_do(workspace, tmp_path):
    import robot_identification as ri

    experiment = ri.load_experiment(workspace.experiment)
    stored = ri.FactorBuilder.from_problem(
        ri.IdentificationProblem.from_experiment(experiment)
    ).reduce(experiment.sources()[0])
    ri.write_factor(stored, tmp_path / 'run.factor')
    result = ri.identify_factors([ri.read_factor(tmp_path / 'run.factor')])
    assert result.recorded.names == ('first.csv',)


def test_a_plan_complements_the_recordings_of_a_factor(workspace, reduced):
    _, reducer, stored = reduced
    known = earlier_information([stored])
    result = identify_factors([stored], EstimationSettings(method='wls', bootstrap=None))
    # deviations by the factor alone are those of the estimate
    std = np.sqrt(np.diagonal(covariance(known.information)))
    assert known.names == result.structure.names
    np.testing.assert_allclose(std, [p.std for p in result.estimate], rtol=0.05)
    path = workspace.folder / 'first.factor'
    write_factor(stored, path)
    words = ('--set', 'planner.max_iterations=60', '--set', 'planner.duration=5')
    done = workspace.run('plan', workspace.experiment, '--earlier', path, *words)
    assert 'predicted deviations' in done.stdout
