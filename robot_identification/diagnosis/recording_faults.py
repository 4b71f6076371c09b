# SPDX-License-Identifier: Apache-2.0
"""
Faults that show without trying explanations: clock, stillness, clipping, ranges, friction.

Beside them stands the size of gravity in recorded efforts, which tells their kind.  At each joint
the recorded effort is fitted by ``s tau_g + r (tau - tau_g) + fv v + fc sign(v) + c`` with the
URDF's gravity ``tau_g`` and inverse dynamics ``tau``.  Torques at the joint have s near 1, motor
torques and currents s below it by the gear ratio or the gain, and efforts that the driver has
cleared of gravity s near 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any
import warnings

import numpy as np

from ..data.columns import TIME_UNITS
from ..data.parts import head
from ..data.recording import Motion, Recording, RecordingSource, Samples
from ..data.sampling import clock_of, GAP, likely_unit, sample_rate
from ..data.velocity_ratio import velocity_ratio
from ..errors import IdentificationWarning, one_of, RecordingError, SettingsError
from ..estimation.estimate import Estimate
from ..estimation.system import LinearSystem
from ..model.friction import friction_symbols, POSITIVE
from ..model.parameters import body_links, ParameterSet
from ..model.plausibility import PlausibilityBounds
from ..model.robot import Robot
from ..regressor.rigid import tree_of
from ..signals import SignalSettings, stretches
from ..signals.decimation import thinned
from .saturation import Saturation, saturation

DECISIVE = 1.5
"""Times that an explanation fits all efforts together better, above which it vetoes."""


@dataclass(frozen=True)
class RecordingFault:
    """
    A fault that was found.

    Attributes
    ----------
    code:
        Its kind, one of those in docs/how_to/diagnosis.md.
    evidence:
        One sentence, with its number.
    remedy:
        The key of the experiment file, or the change, that mends it.
    joints:
        That it concerns; empty for all.
    change:
        What fits better, in a few words; empty where no fit tells.
    improvement:
        How many times better held-out efforts are fitted with the change; None where no fit tells.
    improvement_of_all:
        The same of all joints together.
    factor, deviation:
        Of one joint's effort, and the standard deviation of it; None for other kinds.
    link:
        That carries a load; empty for other kinds.
    correction:
        Change of the samples or of gravity that undoes it, a `hypotheses.Correction`; None where
        no fit tells.
    times:
        In which it shows: recording, first and last stamp [s]; empty where it shows anywhere.
    alternatives:
        Faults that explain the recordings nearly as well.

    """

    code: str
    evidence: str
    remedy: str
    joints: tuple[str, ...] = ()
    change: str = ''
    improvement: float | None = None
    improvement_of_all: float | None = None
    factor: float | None = None
    deviation: float | None = None
    link: str = ''
    times: tuple[tuple[str, float, float], ...] = ()
    correction: Any = field(default=None, repr=False, compare=False)
    alternatives: tuple[RecordingFault, ...] = ()

    @property
    def minor(self) -> bool:
        """True for a load, a gain hardly off, and where all efforts are fitted hardly better."""
        # what stays as it is, friction above all, fits as before
        if self.code in ('time_scale', 'gravity_compensated'):
            return False
        large, of_all = DECISIVE, self.improvement_of_all
        if self.code == 'payload' or (of_all is not None and of_all < large):
            return True
        return self.factor is not None and 1.0 / large < self.factor < large

    @property
    def statement(self) -> str:
        """The evidence, with what explains the recordings nearly as well."""
        others = ' or '.join(other.change for other in self.alternatives)
        return f'{self.evidence} (or with {others})' if others else self.evidence

    def __str__(self) -> str:
        return f'{self.statement}: {self.remedy}'

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts, without the correction, which these name."""
        alternatives = [each.to_dict() for each in self.alternatives]
        found = asdict(replace(self, correction=None, alternatives=()))
        del found['correction']
        return {**found, 'alternatives': alternatives}


MOST_ROWS = 60_000
"""Rows that are looked at, of all recordings together."""
FEWEST_ROWS = 2_000
"""Rows that are looked at of each recording, at least."""


def read_first_rows(sources: Sequence[RecordingSource]) -> tuple[Recording, ...]:
    """Read the beginnings of recordings: `MOST_ROWS` of all, unless they are many."""
    rows = max(FEWEST_ROWS, MOST_ROWS // max(1, len(sources)))
    return tuple(recording for s in sources if (recording := head(s, rows)) is not None)


def in_seconds(
    recordings: Iterable[Recording],
) -> tuple[tuple[Recording, ...], tuple[RecordingFault, ...]]:
    """Return recordings with stamps in seconds, and what was found on those in another unit."""
    right, found = [], {}
    for recording in recordings:
        step = float(np.median(np.diff(recording.time))) if len(recording) > 1 else 0.0
        name = likely_unit(step, float(recording.time[0]) if len(recording) else 0.0)
        unit = TIME_UNITS[name]
        right.append(recording if unit == 1.0 else replace(recording, time=recording.time * unit))
        if unit < 1.0:
            found[name] = RecordingFault(
                code='time_unit',
                evidence=f'time stamps are {step:.4g} s apart in {recording.source}: they seem to '
                f'be in {name}',
                remedy=f'set time_unit: {name} beside the time column',
            )
    return tuple(right), tuple(found.values())


def recording_faults(robot: Robot, recordings: Sequence[Recording]) -> Iterator[RecordingFault]:
    """Iterate over what recordings show without a model."""
    size = float(np.linalg.norm(robot.gravity))
    if with_default_gravity(robot) is not robot:
        yield RecordingFault(
            code='gravity_unit',
            evidence=f'robot.gravity is {size:.4g} m/s^2 long; 9.81 on earth',
            remedy='give robot.gravity in m/s^2, and lengths of the URDF in m',
        )
    for recording in recordings:
        yield from _of_clock(recording)
        yield from _of_speed(robot, recording)
    if recordings:
        yield from _of_stillness(robot, recordings)
        yield from _of_efforts(robot, recordings)
        rates = list(_of_rates(recordings))
        yield from rates or _of_velocities(robot, recordings)


FRICTION_DEVIATIONS = 3.0
"""Standard deviations below zero from which a friction is taken for negative."""


def estimate_faults(
    robot: Robot, system: LinearSystem, estimate: Estimate
) -> Iterator[RecordingFault]:
    """Iterate over what an estimate shows of its recordings, which may be factors alone."""
    # of elastic joints, behind these, the motors have no limits in the URDF
    yield from _of_ranges(robot, system.factor.position_range[: robot.n_joints])
    names = estimate.base.layout.names
    negative = {
        name
        for name, value, std in zip(names, estimate.base.values, estimate.std, strict=True)
        if value < -FRICTION_DEVIATIONS * std
    }
    joints = dict.fromkeys((*robot.joints, *system.factor.joints))
    braking = friction_symbols(sign=POSITIVE)
    driving = tuple(j for j in joints if negative & {f'{j}.{symbol}' for symbol in braking})
    if driving:
        yield RecordingFault(
            code='negative_friction',
            joints=driving,
            evidence='friction that drives instead of braking is found at '
            f'{one_of(driving)}: has the effort the sign of the position, and the right column?',
            remedy='see robot.drives, and data.*.effort',
        )


LOAD_FACTOR = 2.2
"""Times the URDF's mass above which that of a last link is taken for a load."""
LOAD_SHARE = PlausibilityBounds().mass_share
"""Share of all mass by which a last link has to be heavier for that."""
LOAD_DEVIATIONS = 2.0
"""Standard deviations of its mass by which it has to be heavier."""


def forgotten_loads(
    robot: Robot, prior: ParameterSet, found: ParameterSet, std: np.ndarray | float = 0.0
) -> Iterator[RecordingFault]:
    """Iterate over last links that are so heavy that they carry a load; of physical masses."""
    layout, bodies = found.layout, body_links(found.layout)
    deviations = np.broadcast_to(std, len(layout))
    robot = robot.opened
    total = sum(prior[f'{link}.m'] for link in bodies)
    inner = {int(robot.model.parents[i]) for i in robot.joint_ids}
    for joint, link in zip(robot.joint_ids, robot.links, strict=True):
        if joint in inner or link not in bodies or robot.bodies_alike:
            continue
        before, after = prior[f'{link}.m'], found[f'{link}.m']
        deviation = float(np.nan_to_num(deviations[layout.index(f'{link}.m')]))
        least = before + max(LOAD_SHARE * total, LOAD_DEVIATIONS * deviation)
        if after > max(LOAD_FACTOR * before, least):
            yield RecordingFault(
                code='payload',
                link=link,
                # its inertia is bought with mass by the prior, and the load's own mass differs
                evidence=f'the last link, {link}, comes out at {after:.3g} kg, {before:.3g} kg by '
                'the URDF: it carries something, whose mass shows against a recording without it',
                remedy='if it carries a load or a gripper, put that into the URDF, or state it as '
                'data.payload or data.known_load',
            )


MOST_MISSING = 0.02
"""Share of missing samples that is too much."""
LEAST_LEFT = 0.5
"""Share of an unbroken recording's time that gaps have to leave; causes in less are chance."""
MOST_LATE = 0.2
"""Share of late samples that is too much."""


def _of_clock(recording: Recording) -> Iterator[RecordingFault]:
    clock = clock_of([recording.time], recording.source, recording.left_out)
    share = clock.missing / max(1, clock.missing + clock.samples)
    left, unbroken = _settled_times([recording])
    if share > MOST_MISSING or left < LEAST_LEFT * unbroken:
        yield RecordingFault(
            code='missing_samples',
            evidence=f'{100.0 * share:.2g} % of the samples of {recording.source} are missing, in '
            f'{clock.gaps} gaps of up to {clock.longest:.3g} s, which leave {left:.3g} of '
            f'{unbroken:.3g} s to filters that settle after each',
            remedy='record with less load on the machine, or through a queue that drops nothing',
        )
    elif clock.late > MOST_LATE and clock.jitter * clock.rate > 0.25:
        yield RecordingFault(
            code='late_samples',
            evidence=f'{100.0 * clock.late:.2g} % of the samples of {recording.source} are late, '
            f'by {1e3 * clock.jitter:.3g} ms (root mean square)',
            remedy="take the driver's stamps in place of those of the arrival",
        )


def _settled_times(recordings: Sequence[Recording]) -> tuple[float, float]:
    """Return the time that filters, which settle after gaps, have with them and without [s]."""
    left = unbroken = 0.0
    for recording in recordings:
        time, steps = recording.time, np.diff(recording.time)
        gaps = np.zeros(0, dtype=int)
        if len(steps):
            gaps = np.flatnonzero(steps > GAP * np.median(steps)) + 1
        chosen = [
            any(time[i - 1] <= first and time[i] >= last for first, last in recording.left_out)
            for i in gaps
        ]
        left += _settled_time(time, gaps)
        unbroken += _settled_time(time, gaps[np.array(chosen, dtype=bool)])
    return left, unbroken


def _settled_time(time: np.ndarray, cuts: np.ndarray) -> float:
    """Return the time [s] that parts of (n,) stamps, which begin at ``cuts``, leave to filters."""
    parts = np.split(time, cuts)
    return float(sum(max(0.0, np.ptp(part) - 2.0 * TRIM) for part in parts if len(part)))


FASTEST = 1.5
"""Share of the URDF's velocity limits up to which a motion is likely, with rough limits."""
SPEED_SAMPLES = 10
"""Samples over which speeds are taken: fewer would show the resolution of positions."""


def _of_speed(robot: Robot, recording: Recording) -> Iterator[RecordingFault]:
    """Tell a motion that creeps, but is likely with stamps in a smaller unit."""
    if still_joints(robot, [recording.position]).all():
        return  # noise of a robot at rest creeps, too
    moved = np.abs(recording.position[SPEED_SAMPLES:] - recording.position[:-SPEED_SAMPLES])
    passed = recording.time[SPEED_SAMPLES:] - recording.time[:-SPEED_SAMPLES]
    share = float((moved / passed[:, None] / robot.limits.velocity).max(initial=0.0))
    # steps in a still smaller unit are too long for a rate: see `in_seconds`
    if 0.0 < share < FASTEST * TIME_UNITS['ms']:
        yield RecordingFault(
            code='time_unit',
            evidence=f'no joint is faster than {100.0 * share:.2g} % of its velocity limit in '
            f'{recording.source}: the time stamps seem to be in ms',
            remedy='set time_unit: ms beside the time column, or record a faster motion',
        )


RANGE_SHARE = 1.1
"""Share of a joint's range of positions that a recording may cover, with rough limits."""


def _of_ranges(robot: Robot, ranges: np.ndarray) -> Iterator[RecordingFault]:
    room = robot.limits.upper - robot.limits.lower
    units = ['rad' if turns else 'm' for turns in revolute(robot)]
    for joint, moved, left, unit in zip(robot.joints, ranges, room, units, strict=True):
        if moved > RANGE_SHARE * left > 0.0:
            yield RecordingFault(
                code='range',
                joints=(joint,),
                evidence=f"joint '{joint}' moves over {moved:.4g} {unit} in the recordings, its "
                f'limits in the URDF are {left:.4g} apart: are the positions in rad (or m), and '
                'in the right columns?',
                remedy='mend data.*.position, or map drives to joints with robot.drives.position',
            )


def _of_stillness(robot: Robot, recordings: Sequence[Recording]) -> Iterator[RecordingFault]:
    still = np.flatnonzero(still_joints(robot, [r.position for r in recordings]))
    if still.size:
        joints = tuple(robot.joints[j] for j in still)
        moved = max(np.ptp(r.position[:, still], axis=0).max() for r in recordings)
        yield RecordingFault(
            code='still_joint',
            joints=joints,
            evidence=f'{one_of(joints)}: no more than {moved:.3g} rad or m of '
            'motion in a recording',
            remedy='record a motion in which it moves, or lock it in robot.locked',
        )


EARTH = 9.81
"""Gravity [m/s^2]."""
GRAVITY_FACTOR = 1.5
"""Factor by which gravity may be another without a word."""


def with_default_gravity(robot: Robot) -> Robot:
    """Return the robot with a gravity as long as on earth where its own is of another order."""
    size = float(np.linalg.norm(robot.gravity))
    factor = GRAVITY_FACTOR
    if size == 0.0 or EARTH / factor < size < EARTH * factor:
        return robot
    return robot.with_gravity((robot.gravity * (EARTH / size)).tolist())


STILL = (0.01, 0.05)
"""Movement below which little is known of a joint that slides [m] or turns [rad]."""


def still_joints(robot: Robot, positions: Iterable[np.ndarray]) -> np.ndarray:
    """Return for each joint whether it hardly moves over any of (m, n) positions [rad or m]."""
    moved = np.max([np.ptp(position, axis=0) for position in positions], axis=0)
    return np.asarray(moved < [STILL[int(turning)] for turning in revolute(robot)])


def _of_efforts(robot: Robot, recordings: Sequence[Recording]) -> Iterator[RecordingFault]:
    for joint, found in saturated_times(robot, recordings):
        yield saturation_fault(joint, found, recordings)


def saturated_times(
    robot: Robot, recordings: Sequence[Recording]
) -> Iterator[tuple[str, Saturation]]:
    """Iterate over the joints whose efforts are limited for certain, whatever the motion is."""
    for j, joint in enumerate(robot.joints):
        found = saturation(recordings, j)
        if found is not None and found.exact:
            yield joint, found


MOST_TIMES = 20
"""Times at a limit that are named, the longest ones."""
NEAR_TIMES = 0.1
"""Time between two of them up to which they are one [s]."""


def saturation_fault(
    joint: str, found: Saturation, recordings: Sequence[Recording]
) -> RecordingFault:
    """Return the fault of an effort that is limited in recordings."""
    _, first, last = found.longest
    longest = sorted(_joined(found.runs), key=lambda run: run[1] - run[2])[:MOST_TIMES]
    return RecordingFault(
        code='saturation',
        joints=(joint,),
        evidence=f"the effort of joint '{joint}' stays at {found.level:.4g} in "
        f'{100.0 * found.share:.2g} % of the samples, the longest time from {first:.2f} to '
        f'{last:.2f} s',
        remedy='record a slower motion, or raise the limit of the drive',
        times=tuple((recordings[run[0]].source, *run[1:]) for run in sorted(longest)),
    )


def _joined(runs: Iterable[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Return times of recordings, by number, those that nearly touch as one."""
    joined: list[tuple[int, float, float]] = []
    for place, first, last in runs:
        before = joined[-1] if joined else (-1, 0.0, 0.0)
        if before[0] == place and first - before[2] < NEAR_TIMES:
            joined[-1] = (place, before[1], last)
        else:
            joined.append((place, first, last))
    return joined


OTHER_RATE = 0.1
"""Relative difference of the velocities of all joints from those of the positions: no clock's."""
UNITS_OF_SPEED = {
    180.0 / np.pi: 'deg/s, the positions in rad',
    np.pi / 180.0: 'rad/s, the positions in degrees',
    30.0 / np.pi: 'turns a minute, the positions in rad',
}
"""Ratios of velocities to those of the positions that are not the clock's."""


def _of_rates(recordings: Sequence[Recording]) -> Iterator[RecordingFault]:
    """Iterate over ratios of velocities to those of the positions that all joints have."""
    found: dict[float, list[Recording]] = {}
    for recording in recordings:
        if recording.velocity is not None:
            ratio = velocity_ratio(recording.time, recording.position, recording.velocity)
            if ratio is not None and not 1.0 / (1.0 + OTHER_RATE) < ratio < 1.0 + OTHER_RATE:
                found.setdefault(float(f'{ratio:.2g}'), []).append(recording)
    for alike in found.values():
        first = alike[0]
        assert first.velocity is not None
        ratio = velocity_ratio(first.time, first.position, first.velocity) or 1.0
        text = f'recorded velocities are {ratio:.3g} times those of the positions at all joints '
        text += f'in {one_of(recording.source for recording in alike)}'
        unit = next((u for f, u in UNITS_OF_SPEED.items() if abs(ratio / f - 1.0) < 0.03), None)
        if unit is not None:
            yield RecordingFault(
                code='velocity',
                evidence=f'{text}: they are in {unit}',
                remedy='mend data.*.velocity, or leave it out: signals.method butterworth does '
                'without',
            )
            continue
        rate = clock_of([first.time], first.source).rate
        yield RecordingFault(
            code='rate',
            evidence=f'{text}: its rate is {float(f"{ratio * rate:.3g}"):g} Hz, not {rate:.4g} Hz',
            remedy='set data.*.rate (--rate), or the unit of the stamps (data.*.time_unit)',
        )


OTHER_SPEED = 0.5
"""Relative misfit of recorded velocities to those of the positions that is too large."""


def _of_velocities(robot: Robot, recordings: Sequence[Recording]) -> Iterator[RecordingFault]:
    """Compare recorded velocities with what positions change by, behind the same filter."""
    whole = [recording for recording in recordings if recording.velocity is not None]
    found = [
        [part.velocity for each in whole for part in filtered(each, method)]
        for method in ('butterworth', 'measured_velocity')
    ]
    if not all(found):
        return
    speed, recorded = map(np.concatenate, found)
    size = np.sqrt((speed**2).mean(axis=0))
    missed = np.sqrt(((recorded - speed) ** 2).mean(axis=0))
    still = still_joints(robot, [recording.position for recording in recordings])
    for j, joint in enumerate(robot.joints):
        if not still[j] and (off := missed[j] / size[j]) > OTHER_SPEED:
            yield RecordingFault(
                code='velocity',
                joints=(joint,),
                evidence=f"recorded velocities of joint '{joint}' are off by {100.0 * off:.4g} % "
                'from those of its positions',
                remedy='mend data.*.velocity, or leave it out: signals.method butterworth does '
                'without',
            )


def revolute(robot: Robot) -> tuple[bool, ...]:
    """Return for each joint whether it turns."""
    return tree_of(robot.opened).revolute[: robot.n_joints]


@dataclass(frozen=True)
class DiagnosisSamples:
    """
    Samples at the joints, few and evenly spread, low-passed.

    Attributes
    ----------
    motion:
        m samples.
    moved:
        (m, n) efforts so much later, by time [s]; those at the samples under 0 [N m or N].
    fold:
        (m,) int, the stretch of time that each is in, from 0 on.
    weight:
        (m, n) efforts of gravity by the prior; None where no model is at hand [N m or N].

    """

    motion: Motion
    moved: Mapping[float, np.ndarray]
    fold: np.ndarray
    weight: np.ndarray | None = None

    @property
    def effort(self) -> np.ndarray:
        """(m, n) efforts at the samples."""
        return self.moved[0.0]


SAMPLES = 300
"""Samples of all recordings that explanations are fitted to."""
FOLDS = 4
"""Stretches of these that are predicted from the others."""

DELAYS = (
    -0.1, -0.07, -0.05, -0.03, -0.015, 0.015, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2,
)  # fmt: skip
"""By which efforts may be late [s]."""


def diagnosis_samples(
    recordings: Sequence[Recording], known: np.ndarray | float = 0.0
) -> DiagnosisSamples | None:
    """
    Return low-passed samples of recordings; None where gaps leave too little to be filtered.

    Efforts are late by ``known`` [s], one number or (n,).
    """
    left, unbroken = _settled_times(recordings)
    if left < LEAST_LEFT * unbroken:
        return None
    parts = [part for recording in recordings for part in filtered(recording)]
    total = sum(len(part) for part in parts)
    if not total:
        return None
    delays = np.array([0.0, *DELAYS])
    states, efforts = [], []
    for part in parts:
        count = max(2, round(SAMPLES * len(part) / total))
        chosen = np.unique(np.linspace(0, len(part) - 1, count).astype(int))
        states.append([part.position[chosen], part.velocity[chosen], part.acceleration[chosen]])
        wanted = part.time[chosen] + delays[:, None]
        late = np.broadcast_to(known, part.effort.shape[1])
        columns = zip(late, part.effort.T, strict=True)
        moved = [np.interp(wanted + delay, part.time, column) for delay, column in columns]
        efforts.append(np.stack(moved, axis=-1))
    motion = Motion(*(np.concatenate(arrays) for arrays in zip(*states, strict=True)))
    fold = np.arange(len(motion)) * FOLDS // len(motion)
    moved_by = dict(zip(delays.tolist(), np.concatenate(efforts, axis=1), strict=True))
    return DiagnosisSamples(motion, moved_by, fold)


CUTOFF = 8.0
"""Cut-off frequency of the filter of these samples [Hz]."""
TRIM = 0.25
"""Time that is left out at the ends of stretches [s]."""
LEAST_RATE = 200.0
"""Rate that the samples keep at least [Hz]."""


def filtered(recording: RecordingSource, method: str = 'butterworth') -> list[Samples]:
    """Return the low-passed stretches of a recording; none where it cannot be filtered."""
    with suppress(RecordingError, SettingsError), warnings.catch_warnings():
        warnings.simplefilter('ignore', IdentificationWarning)  # of stretches that are too short
        cutoff = min(CUTOFF, 0.2 * sample_rate(recording))
        settings = SignalSettings(method=method, cutoff=cutoff, decimate_to=None, trim=TRIM)
        source = thinned(recording, LEAST_RATE, np.inf)
        return list(stretches(source, settings))
    return []
