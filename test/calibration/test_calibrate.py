# SPDX-License-Identifier: Apache-2.0
"""Calibration in the simulation: until the goal is reached, and what ends it otherwise."""

from dataclasses import replace
from functools import partial
from pathlib import Path
import warnings

import numpy as np
import pytest
from robot_identification.calibration.calibrate import calibrate, next_motion
from robot_identification.calibration.goal import (
    CalibrationSettings,
    DECLINED,
    MET,
    SPENT,
    UNREACHABLE,
)
from robot_identification.config.problem import IdentificationProblem
from robot_identification.errors import (
    ExcitationError,
    IdentificationWarning,
    RecordingError,
)
from robot_identification.estimation.factor_file import read_factor, write_factor
from robot_identification.excitation.plan_file import read_plan
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.exports import saving
from robot_identification.identification.reduction import FactorBuilder
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, ModelSettings
from robot_identification.regressor.base_search import structure
from robot_identification.signals import SignalSettings
from robot_identification.simulation import SimulationSettings, truth
from robot_identification.simulation.simulator import SimulatedExecutor
import yaml

URDF = Path(__file__).resolve().parents[2] / 'urdf'
SIMULATION = SimulationSettings(rate=250.0, perturbation=0.2)
PLANNER = PlannerSettings(duration=3.0, harmonics=4, max_iterations=60)


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF / 'zollo_planar_2r.urdf')


@pytest.fixture(scope='module')
def problem(robot):
    signals = SignalSettings(cutoff=15.0, decimate_to=50.0, dead_zone=0.05)
    return IdentificationProblem(robot, ModelSettings(), signals=signals)


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch):
    """Leave the figures of the report out, most of the time of a calibration this short."""
    monkeypatch.setattr(saving, 'html', lambda result: '')


class Moves:
    """The simulated robot, with the names of the motions that it really made."""

    recorded: dict[bytes, bytes] = {}
    """Recordings by trajectory, of all tests: the first motions are always the same."""

    def __init__(self, robot, failing_at=None):
        self.executor = SimulatedExecutor(robot, SIMULATION)
        self.made, self.failing_at = [], failing_at

    def find(self, folder):
        return self.executor.find(folder)

    def execute(self, trajectory, folder):
        if folder.name == self.failing_at:
            raise KeyboardInterrupt
        self.made.append((folder.name, trajectory))
        key, path = trajectory.position.tobytes(), folder / 'recording.npz'
        if key not in self.recorded:
            self.executor.execute(trajectory, folder)
            self.recorded[key] = path.read_bytes()
        path.write_bytes(self.recorded[key])
        return self.find(folder)


plans = {}
"""First motions by planner's settings and robot, of all tests."""


def planned_motion(problem, settings, factors, targets, **options):
    """Plan as calibrations do by default, first motions once."""
    if factors:
        return next_motion(problem, settings, factors, targets, **options)
    key = settings, problem.robot.urdf
    if key not in plans:
        plans[key] = next_motion(problem, settings, factors, targets, **options)
    return plans[key]


@pytest.fixture
def run(tmp_path, problem, robot):
    def run(moves=None, plan_motion=planned_motion, planner=PLANNER, problem=problem, **settings):
        keywords = {k: settings.pop(k) for k in ('confirm', 'report') if k in settings}
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', IdentificationWarning)
            return calibrate(
                tmp_path / 'calibration',
                problem,
                moves or Moves(robot),
                CalibrationSettings(**settings),
                planner=planner,
                plan_motion=plan_motion,
                **keywords,
            )

    return run


def true_base(robot, names):
    base = structure(build(robot, ModelSettings()), robot)
    real = truth(robot, SIMULATION)
    values = [real.get(name, 0.0) for name in base.layout.names]
    projected = base.project(ParameterSet(base.layout, np.array(values)))
    assert base.names == names
    return projected.values


def test_motions_follow_until_the_goal_is_reached_and_its_deviations_are_true(
    run, robot, tmp_path
):
    moves, lines = Moves(robot), []
    ended = run(moves, report=lines.append, target=10.0)
    assert ended.outcome == MET
    count = len(ended.standings)
    assert [name for name, _ in moves.made] == [f'motion_{i + 1}' for i in range(count)]
    durations = [trajectory.duration for _, trajectory in moves.made]
    assert ended.duration == pytest.approx(sum(durations)) and durations[0] <= 3.0
    last = ended.standings[-1]
    known = last.essential
    assert known.sum() >= 5 and (last.relative_std[known] <= 10.0).all()
    real = true_base(robot, last.names)[known]
    off = np.abs(last.values[known] - real)
    # 10 % is one standard deviation
    assert (off < 0.3 * np.abs(real)).all() and (off < 4.0 * last.std[known]).all()
    assert lines[-1].startswith(f'motion_{count}: ')
    folder = tmp_path / 'calibration'
    assert (folder / 'results' / 'result.yaml').exists()
    stored = yaml.safe_load((folder / 'calibration.yaml').read_text())
    assert stored['outcome'] == MET and len(stored['motions']) == count
    assert stored['motions'][-1]['open'] == []


def test_an_interrupted_calibration_goes_on_where_it_was(run, robot):
    with pytest.raises(KeyboardInterrupt):
        run(Moves(robot, failing_at='motion_2'), target=0.2, motions=2)
    again = Moves(robot)
    ended = run(again, target=0.2, motions=2)
    assert [name for name, _ in again.made] == ['motion_2']
    third = Moves(robot)
    repeated = run(third, target=0.2, motions=2)
    assert third.made == [] and repeated.outcome == ended.outcome
    assert repeated.standings[-1].values == pytest.approx(ended.standings[-1].values)


def test_a_motion_starts_where_the_one_before_ended_and_is_another(run, robot):
    moves = Moves(robot)
    run(moves, target=0.05, motions=2)
    (_, first), (_, second) = moves.made
    assert second.position[0] == pytest.approx(first.position[-1], abs=1e-6)
    # the first one looks, the second is as long as is needed
    assert first.duration == pytest.approx(1.5) and second.duration > 1.6


def test_the_planner_is_told_what_is_still_uncertain(run):
    calls = []

    def planned(problem, settings, factors, targets):
        calls.append((settings.seed, len(factors), dict(targets)))
        return planned_motion(problem, settings, factors, targets)

    ended = run(plan_motion=planned, target=0.2, motions=2)
    assert calls[0] == (1, 0, {})
    seed, factors, targets = calls[1]
    assert (seed, factors) == (2, 1)
    first = ended.standings[0]
    places = [first.names.index(name) for name in targets]
    assert targets and first.essential[places].all()
    assert (first.std[places] > list(targets.values())).all()
    wanted = 0.002 * np.abs(first.values[places]) / np.maximum(first.inflation[places], 1.0)
    assert list(targets.values()) == pytest.approx(wanted)


def test_the_end_of_the_budget_names_parameters_and_limits(run):
    ended = run(target=0.05, motions=1)
    assert ended.outcome == SPENT
    assert len(ended.reasons) == ended.standings[-1].open.sum() > 0
    assert all(' % of its ' in reason and 'joint_' in reason for reason in ended.reasons)
    assert ended.reasons[0] in ended.summary()


def test_what_cannot_be_reached_ends_it_early(run):
    ended = run(target=0.01, motions=4)
    assert ended.outcome == UNREACHABLE
    assert len(ended.standings) < 4


def test_nothing_moves_without_the_persons_yes(run, robot, tmp_path):
    moves, asked = Moves(robot), []
    ended = run(moves, confirm=lambda folder: asked.append(folder))
    assert ended.outcome == DECLINED and ended.result is None and not moves.made
    assert asked == [tmp_path / 'calibration' / 'motion_1']
    assert (asked[0] / 'plan.html').exists()


def test_a_plan_that_was_changed_on_disk_does_not_move_the_robot(run, robot, tmp_path):
    run(confirm=lambda folder: False)
    path = tmp_path / 'calibration' / 'motion_1' / 'plan.yaml'
    document = yaml.safe_load(path.read_text())
    rows = document['trajectory']['coefficients']
    document['trajectory']['coefficients'] = [[9.0 * x for x in row] for row in rows]
    path.write_text(yaml.safe_dump(document))
    moves = Moves(robot)
    with pytest.raises(ExcitationError, match='beyond its limit'):
        run(moves)
    assert not moves.made


def test_a_recording_that_is_lost_is_told_and_no_reason_to_move(run, robot, tmp_path):
    run(target=0.05, motions=1)
    (tmp_path / 'calibration' / 'motion_1' / 'recording.npz').unlink()
    moves = Moves(robot)
    with pytest.raises(RecordingError, match='not the recording'):
        run(moves, target=0.05, motions=1)
    assert not moves.made


def test_a_recording_without_a_factor_is_used_and_nobody_asked(run, robot, tmp_path):
    run(target=0.05, motions=1)
    (tmp_path / 'calibration' / 'motion_1' / 'motion.factor').unlink()
    moves, asked = Moves(robot), []
    ended = run(moves, target=0.05, motions=1, confirm=asked.append)
    assert ended.outcome == SPENT and not moves.made and not asked


def test_a_folder_of_another_robot_is_refused(run, problem, robot):
    run(confirm=lambda folder: False)
    text = robot.urdf.replace('<robot', '<!-- another --><robot')
    other = replace(problem, robot=Robot.from_urdf(text))
    with pytest.raises(ExcitationError, match='another robot'):
        run(problem=other)


def test_a_prediction_error_is_held_against_a_motion_of_its_own(run, robot, tmp_path):
    moves = Moves(robot)
    ended = run(moves, prediction_error=10.0)
    assert ended.outcome == MET
    assert moves.made[0][0] == 'validation'
    assert 0.0 < ended.standings[-1].prediction_error <= 10.0
    # the validation motion is not one that is identified from
    assert all('validation' not in name for name in ended.result.recorded.names)
    first = read_plan(tmp_path / 'calibration' / 'validation' / 'plan.yaml').trajectory
    assert not np.allclose(first.sample(np.array([1.0])).position, 0.0)


def calibrated_twice(tmp_path, problem, robot, choose):
    """Return the end of two motions, with settings that ``choose`` fills in."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        return calibrate(
            tmp_path / 'calibration',
            problem,
            Moves(robot),
            CalibrationSettings(target=0.05, motions=2),
            planner=PLANNER,
            plan_motion=planned_motion,
            choose=choose,
        )


def test_settings_are_chosen_from_all_recordings_and_kept(run, robot, problem, tmp_path):
    chosen = []

    def choose(problem, sources, present):
        chosen.append((len(sources), present and present.cutoff))
        return replace(problem, signals=replace(problem.signals, cutoff=10.0 - len(sources)))

    ended = calibrated_twice(tmp_path, problem, robot, choose)
    paths = [tmp_path / 'calibration' / f'motion_{k}' / 'motion.factor' for k in (1, 2)]
    assert chosen == [(1, None), (2, 9.0)] and ended.result.settings.signals.cutoff == 8.0
    assert [read_factor(path).settings.signals.cutoff for path in paths] == [8.0, 8.0]
    # an interruption before the first factor was made again
    old = replace(problem, signals=replace(problem.signals, cutoff=9.0))
    source = SimulatedExecutor(robot, SIMULATION).find(paths[1].parent)
    write_factor(FactorBuilder.from_problem(old).reduce(source), paths[1])
    again = calibrated_twice(tmp_path, problem, robot, choose)
    assert len(chosen) == 2 and again.result.settings.signals.cutoff == 8.0
    np.testing.assert_array_equal(
        again.result.estimate.base.values, ended.result.estimate.base.values
    )


def test_a_tilt_that_is_chosen_later_holds_for_all_recordings(robot, problem, tmp_path):
    def choose(problem, sources, present):
        return replace(problem, robot=robot.with_gravity((0.1 * len(sources), 0.0, -9.8)))

    ended = calibrated_twice(tmp_path, problem, robot, choose)
    assert len(ended.standings) == 2
    for k in (1, 2):
        factor = read_factor(tmp_path / 'calibration' / f'motion_{k}' / 'motion.factor')
        assert list(factor.robot['gravity']) == pytest.approx([0.2, 0.0, -9.8])


def test_the_goal_is_about_the_parameters_that_the_planner_is_given(run):
    ended = run(planner=replace(PLANNER, parameters=('link_2', 'joint_2.fc')), target=10.0)
    last = ended.standings[-1]
    assert ended.outcome == MET, ended.reasons
    essential = np.array(last.names)[last.essential].tolist()
    assert essential == ['link_2.mx', 'link_2.my', 'link_2.Izz', 'joint_2.fc']


def test_a_payload_is_refused_before_anything_moves(run, robot):
    moves = Moves(robot)
    with pytest.raises(ExcitationError, match="'payload' is no parameter of a calibration"):
        run(moves, planner=replace(PLANNER, parameters=('payload',)))
    assert not moves.made


def test_progress_goes_to_the_planner(problem):
    told = []
    planned = partial(next_motion, progress=lambda share, text: told.append(share))
    planned(problem, PLANNER, [], {})
    assert told[-1] == 1.0
