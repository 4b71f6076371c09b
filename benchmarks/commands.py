# SPDX-License-Identifier: Apache-2.0
"""
Servos from commands: errors of unseen motion, repeatability and processor time on four recordings.

    .venv/bin/python -m benchmarks commands

The recordings are looked for in a folder ``shared/data/servo`` beside the repository.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import time
import warnings

import numpy as np
from robot_identification.data.commands import CommandRecording
from robot_identification.errors import IdentificationWarning
from robot_identification.model.mjcf import mjcf_facts
from robot_identification.model.robot import Robot
from robot_identification.model.urdf_repair import robot_with_inertia
from robot_identification.servo.fit import ServoFit
from robot_identification.servo.identification import fit_servo, rollout_errors
from robot_identification.servo.parameters import ServoParameters
from robot_identification.servo.settings import ServoSettings, SimulatorSettings

from . import mujoco_sysid
from .harness import Figure, Section, Table
from .real_recordings import DATA

FOLDER = DATA / 'servo'
SHARE = 0.5
"""Largest share of the processor time of `mujoco.sysid` that an identification takes."""

SIMULATOR = SimulatorSettings(timestep=0.002, integrator='implicitfast')


@dataclass(frozen=True)
class Case:
    """
    A recording and what is to be reached on it.

    Attributes
    ----------
    name, file, robot:
        What it is called, its npz and its MJCF.
    error:
        Largest error of unseen motion [mrad].
    friction:
        As in `ServoSettings`.
    play:
        Whether some joint has play.

    """

    name: str
    file: str
    robot: str
    error: float
    friction: str = 'coulomb'
    play: bool = False


CASES = (
    Case('Aliengo', 'aliengo', 'aliengo', 2.7),
    Case('Go2', 'go2', 'go2', 6.5),
    Case('Go2, friction by position', 'go2', 'go2', 3.5, 'coulomb_by_position'),
    Case('SO-101, simulated', 'so101_sim_tight', 'so101', 0.6),
    Case('SO-101, simulated with 1 degree of play', 'so101_sim_play', 'so101', 1.0, play=True),
)

REPEATABLE = {'coulomb': 3.0, 'armature': 15.0}
"""Largest median differences between even and odd periods [%]."""

COVERED = 1.96
"""
Largest root mean square of differences between even and odd periods by their deviations: that of
one normal difference in nineteen of twenty cases, since all joints share that of the delay.
"""

TEXT = f"""\
Armature, friction, delay and centres of mass of position servos from commands and positions, for a
step of 2 ms with implicitfast. The even periods of a motion are identified (whole rollouts, in
which the positions of the odd periods do not count), and the error of simulated positions is that
on the odd ones. Periods are the triangles of 3.0, 2.8, ... 0.4 s of the quadrupeds' recordings,
and blocks of 2 s of the simulated SO-101's. *Rigid bodies* has neither armature nor friction nor
delay, *robot file* what the MJCF has, *least squares* the start from pseudo-efforts. Processor
time is that of one identification, held to {SHARE:g} of that of `mujoco.sysid`.

MuJoCo's own system identification, `mujoco.sysid`, identifies armature, damping, frictionloss and
one delay from the same rows, with {mujoco_sysid.ITERATIONS} steps of its optimiser from the values
of the MJCF (14 give the Aliengo the same error). Centres of mass and priors are not among its
parameters here, and it perturbs each parameter in a rollout of its own. The errors are those of
the smaller model: with `bodies: given`, in a run of its own, this package had 10.3, 8.1 and 0.76
mrad on Aliengo, Go2 and SO-101, after 13, 13 and 22 rollouts.

Repeatability compares the identifications of even and odd periods: the median over the joints of
the difference by the mean, and the root mean square of differences by their standard deviations,
held to {COVERED:g}. A delay that is longer by 1 ms takes (kd + fv) 1 ms from the armature; where
friction depends on the position, the delay of the Go2 is so open that armature does not repeat,
as its deviation says. Play is estimated where it pays (`play: auto`), with the error that remains
without it in a column of its own; a play where the simulated robot has none is an error.
With `bodies: given` and `offset: true`, in runs of their own, constant efforts of the quadrupeds
repeated to 0.9 and 1.5 %."""


def section() -> Section:
    """Identify each recording on even and on odd periods."""
    if not FOLDER.is_dir():
        return Section('Servos from commands', f'No figures: there is no {FOLDER.name} folder.')
    rows, repeats, others, figures = [], [], [], []
    for case in CASES:
        even, seconds = _identified(case, odd=True)
        odd, _ = _identified(case, odd=False)
        robot, recording, _ = _loaded(case)
        unseen = replace(recording, held_out=_odd_periods(case, recording))
        known = {
            'rigid bodies': ServoParameters.with_neutral(robot.n_joints),
            'robot file': _of_file(case, robot),
            'least squares': even.free.base,
            'without play': even.parameters.without_play(),
            'identified': even.parameters,
        }
        errors = {name: _error(even, unseen, each) for name, each in known.items()}
        versus: list[Figure] = []
        if case.friction == 'coulomb' and mujoco_sysid.AVAILABLE:
            began = time.process_time()
            found, count = mujoco_sysid.identified(
                FOLDER / f'{case.robot}.xml', even.model, unseen, known['robot file']
            )
            used = time.process_time() - began
            other = _error(even, unseen, found)
            name = f'{case.name} processor time by that of mujoco.sysid'
            versus = [Figure(name, seconds / used, at_most=SHARE)]
            others += [
                (case.name, tool, f'{error:.2f}', str(rollouts), f'{seconds_:.1f}')
                for tool, error, rollouts, seconds_ in (
                    ('this package', errors['identified'], even.rollouts, seconds),
                    ('mujoco.sysid', other, count, used),
                )
            ]
        rows.append(
            (
                case.name,
                *(f'{error:.2f}' for error in errors.values()),
                f'{case.error:g}',
                f'{1e3 * even.parameters.play.max():.1f}',
                f'{1e3 * even.parameters.delay[0]:.2f}',
                str(even.rollouts),
                f'{seconds:.1f}',
            )
        )
        figures += [
            Figure(f'{case.name} error', errors['identified'], 'mrad', at_most=case.error),
            Figure(f'{case.name} processor time', seconds, 's'),
            *_false_plays(case, even, odd),
            *versus,
        ]
        compared = [case.name]
        for kind, bound in REPEATABLE.items():
            share, covered = _difference(even, odd, kind)
            name = f'{case.name} repeatability of {kind}'
            figures += [
                Figure(name, share, '%', at_most=bound),
                Figure(f'{name} by deviations', covered, '', at_most=COVERED),
            ]
            compared += [f'{share:.1f} %', f'{covered:.2f}']
        delays = [f'{1e3 * fit.parameters.delay[0]:.2f}' for fit in (even, odd)]
        repeats.append((*compared, ' / '.join(delays)))
    columns = ('error [mrad]', 'rigid bodies', 'robot file', 'least squares', 'without play')
    heads = ('recording', 'tool', 'error of unseen motion [mrad]', 'rollouts')
    heads += ('processor time [s]',)
    columns += (
        'identified',
        'to reach',
        'play [mrad]',
        'delay [ms]',
        'rollouts',
        'processor time [s]',
    )
    return Section(
        title='Servos from commands',
        text=TEXT if others else f'{TEXT}\n\n`mujoco.sysid` could not be imported.',
        tables=(
            Table(columns, rows),
            *([Table(heads, others)] if others else []),
            Table(
                (
                    *('even and odd periods', 'Coulomb', 'by deviations'),
                    *('armature', 'by deviations', 'delays [ms]'),
                ),
                repeats,
            ),
        ),
        figures=figures,
    )


def _false_plays(case: Case, *fits: ServoFit) -> list[Figure]:
    """Return the number of joints with play, which is 0, of a robot without any."""
    if case.play:
        return []
    count = sum(len(fit.parameters.playing) for fit in fits)
    return [Figure(f'{case.name} joints with play', count, '', at_most=0.0)]


def _loaded(case: Case) -> tuple[Robot, CommandRecording, ServoSettings]:
    data = np.load(FOLDER / f'{case.file}.npz')
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)
        robot = robot_with_inertia(str(FOLDER / f'{case.robot}.xml'))
    recording = CommandRecording(
        data['time'], data['dof_pos'], data['des_dof_pos'], robot.joints, source=case.file
    )
    gains = {'stiffness': tuple(data['kp']), 'damping': tuple(data['kd'])}
    return robot, recording, ServoSettings(**gains, friction=case.friction)


def _odd_periods(case: Case, recording: CommandRecording) -> np.ndarray:
    """Return (n_samples,) True in the second, fourth, ... period."""
    since = recording.time - recording.time[0]
    if case.robot == 'so101':
        ends = np.arange(2.0, since[-1] + 2.0, 2.0)
    else:
        ends = np.cumsum(np.arange(3.0, 0.3, -0.2))
    return np.asarray(np.searchsorted(ends, since, side='right') % 2 == 1)


def _identified(case: Case, *, odd: bool) -> tuple[ServoFit, float]:
    """Identify without the odd periods, or without the even ones; return processor time [s]."""
    robot, recording, settings = _loaded(case)
    out = _odd_periods(case, recording)
    recording = replace(recording, held_out=out if odd else ~out)
    begin = time.process_time()
    found = fit_servo(robot, [recording], settings, SIMULATOR)
    return found, time.process_time() - begin


def _error(fit: ServoFit, unseen: CommandRecording, parameters: ServoParameters) -> float:
    """Return the error of positions that are held out, over all joints [mrad]."""
    errors = rollout_errors(fit.model, [unseen], parameters, held_out=True)
    return float(1e3 * np.sqrt((errors**2).mean()))


def _of_file(case: Case, robot: Robot) -> ServoParameters:
    """Return the parameters of the robot's MJCF."""
    facts = mjcf_facts(FOLDER / f'{case.robot}.xml')
    drawn = [robot.contents.joints[joint] for joint in robot.joints]
    return ServoParameters.with_neutral(
        robot.n_joints,
        armature=np.array([facts.armature[joint] for joint in robot.joints]),
        viscous=np.array([joint.damping for joint in drawn]),
        coulomb=np.array([joint.friction for joint in drawn]),
    )


def _difference(one: ServoFit, other: ServoFit, kind: str) -> tuple[float, float]:
    """Return the median difference by the mean [%], and its root mean square by deviations."""
    places = one.free.places[kind]
    a, b = (fit.vector[places] for fit in (one, other))
    std = np.hypot(one.std[places], other.std[places])
    share = 100.0 * np.median(2.0 * np.abs(a - b) / np.maximum(a + b, 1e-12))
    return float(share), float(np.sqrt(np.mean(((a - b) / np.maximum(std, 1e-12)) ** 2)))
