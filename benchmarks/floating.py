# SPDX-License-Identifier: Apache-2.0
"""
Robots on their feet, made up and simulated, identified from joints, efforts and IMU.

Each stands for a minute and is judged by a motion that it was not identified from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
import time

import numpy as np
from robot_identification.config.problem import IdentificationProblem
from robot_identification.data.commands import CommandRecording
from robot_identification.data.floating_recording import FloatingRecording
from robot_identification.estimation.estimators import Estimate
from robot_identification.estimation.least_squares import evaluate, wls
from robot_identification.estimation.row_noise import with_row_noise
from robot_identification.estimation.system import LinearSystem, system_of
from robot_identification.excitation.standing import StandingMotion
from robot_identification.identification.pipeline import identify_sources
from robot_identification.model.mechanisms import ContactSettings
from robot_identification.model.parameters import ParameterSet
from robot_identification.regressor import build, FloatingRegressor
from robot_identification.regressor.kinds import FLOATING
from robot_identification.results.result import Result
from robot_identification.servo.servo_effort import with_servo_efforts
from robot_identification.servo.settings import ServoSettings
from robot_identification.signals import SignalSettings
from robot_identification.simulation.legged import servo_gains
from robot_identification.verdicts.verdict import DO_NOT_USE, verdict

from .harness import Figure, Section, Table
from .standing_robots import g1, go2, LOAD, SECONDS, Standing

TRUTHS, HUMANOIDS = 5, 1
"""Robots of each kind: a humanoid takes as long as several quadrupeds."""

SIGNALS = SignalSettings(**FLOATING.signals)
JUDGED = replace(SIGNALS, cutoff=15.0)
"""Signals of the unseen motion: steps of a trot are faster than a sway."""

NORMAL = 1.96
"""Half the width of a 95 % interval [standard deviations]."""

BASE = 6
"""Rows of force and moment on the base, before those of the joints."""


@dataclass(frozen=True)
class Judged:
    """
    An identified robot against the one that was simulated.

    Attributes
    ----------
    mass, nominal_mass, found_mass:
        True total mass, and that of the URDF and of the identification [kg].
    trunk:
        Distance between the trunk's centre of mass in the identified URDF and the true one [m].
    moments:
        The same where all masses that the motion cannot tell from the trunk's are as they are
        in truth: error of the first moments among the base parameters, by the trunk's mass [m].
    covered:
        Share of base parameters within their 95 % intervals, by method.
    fit:
        Relative error of the fit [%].
    errors, nominal_errors:
        Root mean square errors of the unseen motion's efforts and base wrench, by the identified
        bodies and by those of the URDF, friction and rotors as identified.
    level, reason:
        Of the verdict.
    seconds:
        Processor time of the identification.

    """

    mass: float
    nominal_mass: float
    found_mass: float
    trunk: float
    moments: float
    covered: dict[str, float]
    fit: float
    errors: tuple[float, float]
    nominal_errors: tuple[float, float]
    level: str
    reason: str
    seconds: float

    @property
    def mass_error(self) -> float:
        """Error of the total mass [%]."""
        return 100.0 * (self.found_mass / self.mass - 1.0)

    @property
    def shares(self) -> tuple[float, float]:
        """Errors of efforts and base wrench by those of the URDF's bodies."""
        return (
            self.errors[0] / self.nominal_errors[0],
            self.errors[1] / self.nominal_errors[1],
        )


def identified(
    standing: Standing, recording: FloatingRecording, unseen: FloatingRecording | None
) -> tuple[Result, float]:
    """Identify by default settings; return the result and the processor time that it took [s]."""
    problem = IdentificationProblem(standing.robot, model=standing.model, signals=SIGNALS)
    start = time.process_time()
    result = identify_sources(problem, [recording], [] if unseen is None else [unseen])
    return result, time.process_time() - start


def judged(
    standing: Standing, seed: int, recording: FloatingRecording, unseen: FloatingRecording
) -> Judged:
    """Identify a robot from one recording and hold it against the truth and another recording."""
    result, seconds = identified(standing, recording, unseen)
    truth, nominal = standing.truth(seed), standing.robot.prior
    found = result.standard
    found_verdict = verdict(result)
    against = found_verdict.against
    links = standing.robot.layout.links
    regressor = with_row_noise([recording], standing.regressor, result.structure, SIGNALS)
    rows = system_of([unseen], regressor, result.structure, JUDGED)
    return Judged(
        mass=_total(truth, links),
        nominal_mass=_total(nominal, links),
        found_mass=_total(found, links),
        trunk=float(
            np.linalg.norm(_centre(found, standing.trunk) - _centre(truth, standing.trunk))
        ),
        moments=_moments(standing, result, truth),
        covered=dict(_covered(result, truth)),
        fit=result.estimate.fit.relative_error,
        errors=_errors(rows, found),
        nominal_errors=_errors(rows, _with_bodies(found, nominal, links)),
        level=found_verdict.level,
        reason=against[0].text if against else '',
        seconds=seconds,
    )


def _total(parameters: ParameterSet, links: Sequence[str]) -> float:
    return sum(float(parameters[f'{link}.m']) for link in links)


def _centre(parameters: ParameterSet, link: str) -> np.ndarray:
    body = parameters.inertial(link)
    return np.asarray(body[1:4] / body[0])


def _with_bodies(found: ParameterSet, bodies: ParameterSet, links: Sequence[str]) -> ParameterSet:
    """Return identified parameters with the bodies of others."""
    names = {f'{link}.' for link in links}
    return found.updated(
        {
            name: bodies[name]
            for name in bodies.layout
            if f'{name.rpartition(".")[0]}.' in names and name in found.layout
        }
    )


def _moments(standing: Standing, result: Result, truth: ParameterSet) -> float:
    """Return the error of the trunk's first moments among base parameters, by its mass [m]."""
    structure = result.structure
    true = structure.regrouping @ truth.values
    names = result.estimate.base.layout.names
    places = [names.index(n) for a in 'xyz' if (n := f'{standing.trunk}.m{a}') in names]
    error = np.asarray(result.estimate.base.values)[places] - true[places]
    return float(np.linalg.norm(error) / truth[f'{standing.trunk}.m'])


def _covered(result: Result, truth: ParameterSet) -> Iterator[tuple[str, float]]:
    """Iterate over methods and the share of base parameters [%] within their intervals."""
    true = result.structure.regrouping @ truth.values
    free: Estimate = wls(result.system)
    for name, estimate in (('physical', result.estimate), ('wls', free)):
        seen = np.isfinite(estimate.std) & estimate.identifiability.excited
        off = np.abs(np.asarray(estimate.base.values) - true)
        yield name, 100.0 * float((off <= NORMAL * estimate.std)[seen].mean())


def _errors(rows: LinearSystem, parameters: ParameterSet) -> tuple[float, float]:
    """Return root mean square errors of efforts and of the base's wrench in rows."""
    fit = evaluate(rows, rows.structure.regrouping @ parameters.values)
    squares = np.array([joint.rmse for joint in fit.joints]) ** 2
    return float(np.sqrt(squares[BASE:].mean())), float(np.sqrt(squares[:BASE].mean()))


# ------------------------------------------------------------------------------ conditions


def conditions() -> Iterator[tuple[str, Judged]]:
    """Iterate over the quadruped under other conditions than the model's."""
    standing, seed = go2(), 1
    sway, unseen = standing.sway(seed), standing.unseen(standing, seed)
    for name, changes in (
        ('force sensors in its feet (noise 1 N)', {'force_noise': 1.0}),
        ('torsional friction of its feet, 20 mm', {'torsion': 0.02}),
        ('slippery ground (friction 0.15)', {'friction': 0.15}),
    ):
        recordings = (
            standing.recording(seed, motion, standing.settings(seed, **changes))
            for motion in (sway, unseen)
        )
        yield name, judged(standing, seed, *recordings)


def from_commands(
    standing: Standing, motion: StandingMotion, recording: FloatingRecording, gains: float
) -> FloatingRecording:
    """Return a recording with the efforts that commands and gains imply, as of a servo file."""
    settings = standing.settings(1)
    kp, kd = servo_gains(standing.robot, settings)
    wanted = np.column_stack(
        [np.interp(recording.time, motion.time, q) for q in motion.position.T]
    )
    commands = CommandRecording(
        time=recording.time,
        position=recording.position[:, BASE:],
        command=wanted,
        command_velocity=np.gradient(wanted, recording.time, axis=0),
        joints=standing.robot.driven_joints,
    )
    servo = ServoSettings(stiffness=tuple(gains * kp), damping=tuple(gains * kd))
    effort = recording.effort.copy()
    effort[:, BASE:] = with_servo_efforts(commands, servo).effort
    return replace(recording, effort=effort)


def servos() -> Iterator[tuple[str, Judged]]:
    """Iterate over the quadruped without recorded efforts, whose servos' gains are known."""
    standing, seed = go2(), 1
    for name, gains in (
        ('no efforts, but commands and gains of the servos', 1.0),
        ('the same with gains 5 % too large', 1.05),
    ):
        pair = []
        for motion in (standing.sway(seed), standing.unseen(standing, seed)):
            recording = standing.recording(seed, motion, standing.settings(seed))
            pair.append(from_commands(standing, motion, recording, gains))
        yield name, judged(standing, seed, *pair)


def hung() -> Result:
    """Return the result of the quadruped that hangs on a rope at its trunk."""
    standing, seed = go2(), 1
    motion = standing.sway(seed)
    recording = standing.recording(seed, motion, standing.settings(seed, hung=True))
    rope = (ContactSettings(frame=standing.trunk, kind='point'),)
    model = replace(standing.model, contacts=rope)
    regressor = build(standing.robot, model)
    assert isinstance(regressor, FloatingRegressor)
    hanging = replace(standing, model=model, regressor=regressor)
    held = np.ones((len(recording), 1), dtype=bool)
    return identified(hanging, replace(recording, stance=held), None)[0]


# ------------------------------------------------------------------------------ section


def section(robots: int = TRUTHS) -> Section:
    """Identify standing robots."""
    rows, figures = [], []
    others, hanging = [], verdict(hung())
    print('hung', hanging.level, hanging.against[0].text, flush=True)
    for name, each in (*conditions(), *servos()):
        others.append((name, each))
        print(name, each, flush=True)
    for standing, count in ((go2(), robots), (g1(), min(robots, HUMANOIDS))):
        found = []
        for seed in range(1, count + 1):
            found.append(_one(standing, seed))
            print(standing.name, found[-1], flush=True)
        rows += [_row(f'{standing.name} {i + 1}', each) for i, each in enumerate(found)]
        figures += _figures(standing.name, found)
    table = [
        [
            name,
            f'{each.mass_error:+.1f}',
            f'{each.fit:.1f}',
            *(f'{share:.2f}' for share in each.shares),
            each.level,
            each.reason,
        ]
        for name, each in others
    ]
    table.append(['hangs on a rope', '', '', '', '', hanging.level, hanging.against[0].text])
    figures.append(Figure('hung up: do not use', float(hanging.level == DO_NOT_USE), at_least=1.0))
    return Section(
        'Robots on their feet',
        _TEXT,
        [
            Table(_HEADS, rows, 'Masses and errors', _COLUMNS),
            Table(
                [
                    'Go2',
                    'total mass off by %',
                    'fit %',
                    'efforts, by URDF',
                    'base, by URDF',
                    'verdict',
                    'first reason',
                ],
                table,
                'Other conditions',
                'A contact may slip: its force is eliminated where it acts, whatever it does. A '
                'torsional friction, which the model lacks, is not named.',
            ),
        ],
        figures,
        page='floating.md',
    )


_HEADS = (
    'robot',
    'mass, kg',
    'URDF',
    'identified',
    'off by %',
    'trunk mm',
    'moments mm',
    'intervals %',
    'wls %',
    'efforts, by URDF',
    'base, by URDF',
    'time s',
)

_TEXT = (
    f'A quadruped (Go2, 12 joints) and a humanoid (G1, 29 joints) in MuJoCo for {SECONDS:.0f} s: '
    'masses off by up to 15 %, centres by up to 8 mm from those of the URDF, '
    f'{LOAD:g} kg on the trunk, friction, rotors; noise of 0.2 mrad, 0.15 N m, 0.01 rad/s and '
    '0.1 m/s² at 1 kHz, a bias of the accelerometer of some 0.05 m/s². No force is measured. The '
    'quadruped sways and lifts one foot after the other, and is judged by a trot in place; the '
    'humanoid sways on both feet and moves waist and arms, and is judged by other such motions. '
    'Everything is by default.'
)

_COLUMNS = (
    '*trunk*: distance between the centre of the trunk in the identified URDF and the true one; '
    'masses that no motion tells from its own (of a quadruped, those of the hips) are by the '
    'prior. *moments*: the same by what the motion does tell, the first moments among the base '
    'parameters by the mass of the trunk. *intervals*: base parameters within their 95 % '
    'intervals, by default and by `wls`. *by URDF*: errors of joint efforts and of force and '
    'moment on the base, by those of the bodies of the URDF with friction and rotors as '
    'identified, low-passed at 15 Hz. *time*: of a processor, with validation.'
)


def _one(standing: Standing, seed: int) -> Judged:
    sway, unseen = standing.sway(seed), standing.unseen(standing, seed)
    settings = standing.settings(seed)
    return judged(
        standing,
        seed,
        standing.recording(seed, sway, settings),
        standing.recording(seed, unseen, settings),
    )


def _row(name: str, each: Judged) -> list[str]:
    return [
        name,
        f'{each.mass:.2f}',
        f'{each.nominal_mass:.2f}',
        f'{each.found_mass:.2f}',
        f'{each.mass_error:+.2f}',
        f'{1e3 * each.trunk:.1f}',
        f'{1e3 * each.moments:.1f}',
        *(f'{each.covered[method]:.0f}' for method in ('physical', 'wls')),
        *(f'{share:.2f}' for share in each.shares),
        f'{each.seconds:.0f}',
    ]


def _figures(name: str, found: Sequence[Judged]) -> Iterator[Figure]:
    def worst(values: Sequence[float]) -> float:
        return float(np.max(np.abs(values)))

    yield Figure(f'{name} total mass', worst([f.mass_error for f in found]), '%', at_most=1.0)
    trunk = 1e3 * worst([f.trunk for f in found])
    yield Figure(f'{name} centre of the trunk', trunk, 'mm', at_most=5.0)
    moments = 1e3 * worst([f.moments for f in found])
    yield Figure(f'{name} first moments of the trunk', moments, 'mm', at_most=5.0)
    for method in ('physical', 'wls'):
        share = float(np.mean([f.covered[method] for f in found]))
        yield Figure(f'{name} intervals, {method}', share, '%', at_least=92.0, at_most=98.0)
    for i, what in enumerate(('efforts', 'base wrench')):
        share = worst([f.shares[i] for f in found])
        yield Figure(f'{name} {what} of an unseen motion by the URDF', share, at_most=0.5)
    seconds = worst([f.seconds for f in found])
    yield Figure(f'{name} processor time of a minute', seconds, 's', at_most=60.0)
