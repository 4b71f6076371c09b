# SPDX-License-Identifier: Apache-2.0
"""Faults that show without trying explanations: clock, stillness, clipping, ranges, friction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..data.clock import clock_of, likely_unit
from ..data.recording import Recording, RecordingSource, source_name
from ..data.recording_config import TIME_UNITS
from ..errors import one_of
from ..model.robot import Robot
from ..regressor.kinematics import tree_of
from .estimate import Estimate
from .hypotheses import Finding
from .hypothesis_fit import with_gravity
from .system import LinearSystem

ROWS = 60_000
"""Rows that are looked at, of all recordings together."""

_FEWEST = 2_000
"""Rows that are looked at of each recording, at least."""

BEYOND = 1.1
"""Share of a joint's range of positions that a recording may cover, with limits that are rough."""

_STILL = {True: 0.05, False: 0.01}
"""Movement of a joint below which little is told of it [rad, m]."""

_CLIPPED, _RUN, _LONG, _PLATEAUS = 0.003, 4, 10, 2
"""Share of samples at the largest effort, how many in a row, and how often, that are too many.."""

_MISSING, _LATE = 0.02, 0.2
"""Shares of samples that are too many."""

_OTHER_SPEED = 0.5
"""Relative misfit of recorded velocities to those of the positions that is too large."""

_EARTH = 9.81
_HEAVIER = 1.5


SURE = 3.0
"""Standard deviations below zero from which a friction is taken for negative."""


def beginnings(sources: Sequence[RecordingSource]) -> tuple[Recording, ...]:
    """Read the beginnings of recordings, unless their sources have kept them."""
    rows = beginning_rows(len(sources))
    return tuple(recording for s in sources if (recording := _beginning(s, rows)) is not None)


def beginning_rows(n_sources: int) -> int:
    """Return the rows of each recording that are looked at: `ROWS` of all unless they are many."""
    return max(_FEWEST, ROWS // max(1, n_sources))


def in_seconds(
    recordings: Iterable[Recording],
) -> tuple[tuple[Recording, ...], tuple[Finding, ...]]:
    """Return recordings with stamps in seconds, and what was found on those in another unit."""
    right, found = [], {}
    for recording in recordings:
        step = float(np.median(np.diff(recording.time))) if len(recording) > 1 else 0.0
        name = likely_unit(step)
        unit = TIME_UNITS[name]
        right.append(recording if unit == 1.0 else replace(recording, time=recording.time * unit))
        if unit < 1.0:
            found[name] = Finding(
                code='time_unit',
                evidence=f'time stamps are {step:.4g} s apart in {recording.source}: they seem to '
                f'be in {name}',
                remedy=f'set time_unit: {name} beside the time column',
                change=f'time stamps in {name}',
            )
    return tuple(right), tuple(found.values())


def recording_faults(robot: Robot, recordings: Sequence[Recording]) -> Iterator[Finding]:
    """Iterate over what recordings show without a model."""
    size = float(np.linalg.norm(robot.gravity))
    if with_usual_gravity(robot) is not robot:
        yield Finding(
            code='gravity_unit',
            evidence=f'robot.gravity is {size:.4g} m/s^2 long; 9.81 on earth',
            remedy='give robot.gravity in m/s^2, and lengths of the URDF in m',
            change='gravity of 9.81 m/s^2',
        )
    for recording in recordings:
        yield from _of_clock(recording)
    if recordings:
        yield from _of_stillness(robot, recordings)
        yield from _of_efforts(robot, recordings)
        yield from _of_velocities(robot, recordings)


def estimate_faults(robot: Robot, system: LinearSystem, estimate: Estimate) -> Iterator[Finding]:
    """Iterate over what an estimate shows of its recordings, which may be factors alone."""
    # of elastic joints, behind these, the motors have no limits in the URDF
    yield from _of_ranges(robot, system.position_range[: robot.n_joints])
    joints = tuple(dict.fromkeys((*robot.joints, *system.joints)))
    driving = _driving(joints, estimate)
    if driving:
        yield Finding(
            code='negative_friction',
            joints=driving,
            evidence='friction that drives instead of braking is found at '
            f'{one_of(driving)}: has the effort the sign of the position, and the right column?',
            remedy='see robot.drives, and data.*.effort',
            change='positive friction',
        )


def _driving(joints: tuple[str, ...], estimate: Estimate) -> tuple[str, ...]:
    """Return joints with a friction that is surely negative."""
    sure = {
        name: value < -SURE * std
        for name, value, std in zip(
            estimate.base.layout.names, estimate.base.values, estimate.std, strict=True
        )
        if np.isfinite(std)
    }
    symbols = ('fv', 'fc', 'ts')
    return tuple(j for j in joints if any(sure.get(f'{j}.{symbol}', False) for symbol in symbols))


def _beginning(source: RecordingSource, rows: int) -> Recording | None:
    parts, count = [], 0
    kept = getattr(source, 'beginning', ())
    for block in kept or source.blocks(min(rows, 16384)):
        parts.append(block.rows(0, rows - count))
        count += len(parts[-1])
        if count >= rows:
            break
    if not count:
        return None
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ('time', 'position', 'effort')
    }
    known = parts[0].velocity is not None
    velocity = np.concatenate([part.velocity for part in parts]) if known else None
    return Recording(
        **joined, joints=parts[0].joints, velocity=velocity, source=source_name(source)
    )


def _of_clock(recording: Recording) -> Iterator[Finding]:
    clock = clock_of([recording.time], recording.source)
    share = clock.missing / max(1, clock.missing + clock.samples)
    if share > _MISSING:
        yield Finding(
            code='missing_samples',
            evidence=f'{100.0 * share:.2g} % of the samples of {recording.source} are missing, in '
            f'{clock.gaps} gaps of up to {clock.longest:.3g} s',
            remedy='record with less load on the machine, or through a queue that drops nothing',
            change='no missing samples',
        )
    elif clock.late > _LATE and clock.jitter * clock.rate > 0.25:
        yield Finding(
            code='late_samples',
            evidence=f'{100.0 * clock.late:.2g} % of the samples of {recording.source} are late, '
            f'by {1e3 * clock.jitter:.3g} ms (root mean square)',
            remedy="take the driver's stamps in place of those of the arrival",
            change='even stamps',
        )


def _of_ranges(robot: Robot, ranges: np.ndarray) -> Iterator[Finding]:
    room = robot.limits.upper - robot.limits.lower
    turns = revolute(robot)
    for joint, moved, left, turning in zip(robot.joints, ranges, room, turns, strict=True):
        unit = 'rad' if turning else 'm'
        if moved > BEYOND * left > 0.0:
            yield Finding(
                code='range',
                joints=(joint,),
                evidence=f"joint '{joint}' moves over {moved:.4g} {unit} in the recordings, its "
                f'limits in the URDF are {left:.4g} apart: are the positions in rad (or m), and '
                'in the right columns?',
                remedy='mend data.*.position, or map drives to joints with robot.drives.position',
                change='positions within the limits',
            )


def _of_stillness(robot: Robot, recordings: Sequence[Recording]) -> Iterator[Finding]:
    low = np.min([recording.position.min(axis=0) for recording in recordings], axis=0)
    high = np.max([recording.position.max(axis=0) for recording in recordings], axis=0)
    still = np.flatnonzero(still_joints(robot, np.stack([low, high])))
    if still.size:
        joints = tuple(robot.joints[j] for j in still)
        yield Finding(
            code='still_joint',
            joints=joints,
            evidence=f'{one_of(joints)}: no more than {(high - low)[still].max():.3g} rad or m of '
            'motion in the recordings',
            remedy='record a motion in which it moves, or lock it in robot.locked',
            change='a motion of it',
        )


def with_usual_gravity(robot: Robot) -> Robot:
    """Return the robot with a gravity as long as on earth where its own is of another order."""
    size = float(np.linalg.norm(robot.gravity))
    if size == 0.0 or _EARTH / _HEAVIER < size < _EARTH * _HEAVIER:
        return robot
    return with_gravity(robot, robot.gravity * (_EARTH / size))


def still_joints(robot: Robot, position: np.ndarray) -> np.ndarray:
    """Tell for each joint whether it hardly moves over (m, n) positions [rad or m]."""
    least = [_STILL[turning] for turning in revolute(robot)]
    return np.asarray(np.ptp(position, axis=0) < least)


def _of_efforts(robot: Robot, recordings: Sequence[Recording]) -> Iterator[Finding]:
    for j, joint in enumerate(robot.joints):
        for sign in (1.0, -1.0):
            most = max(float((sign * r.effort[:, j]).max()) for r in recordings)
            counts = [_plateaus(sign * r.effort[:, j], r.position[:, j], most) for r in recordings]
            clipped, plateaus = (sum(column) for column in zip(*counts, strict=True))
            share = clipped / sum(len(recording) for recording in recordings)
            if plateaus >= _PLATEAUS and share > _CLIPPED:
                yield Finding(
                    code='saturation',
                    joints=(joint,),
                    evidence=f"the effort of joint '{joint}' stays at {sign * most:.4g} in "
                    f'{100.0 * share:.2g} % of the samples while it moves',
                    remedy='record a slower motion, or raise the limit of the drive',
                    change='an effort that is not clipped',
                )
                break


def _plateaus(effort: np.ndarray, position: np.ndarray, most: float) -> tuple[int, int]:
    """Count samples in plateaus at the largest effort during motion, and these plateaus."""
    spread = float(effort.max() - effort.min())
    at = effort >= most - 1e-6 * spread
    edges = np.flatnonzero(np.diff(np.concatenate([[0], at.astype(np.int8), [0]])))
    begins, ends = edges[::2], edges[1::2]
    lengths = ends - begins
    moving = np.array([np.ptp(position[a:b]) > 0.0 for a, b in zip(begins, ends, strict=True)])
    chosen = lengths[moving & (lengths >= _RUN)] if lengths.size else lengths
    # a long one counts for several
    return int(chosen.sum()), int((1 + chosen // _LONG).sum())


def _of_velocities(robot: Robot, recordings: Sequence[Recording]) -> Iterator[Finding]:
    """Compare recorded velocities with what positions change by."""
    pairs = []
    for recording in recordings:
        if recording.velocity is None:
            continue
        # over some steps, so that neither noise nor resolution of the positions counts
        wide = max(1, len(recording) // 500)
        steps = np.diff(recording.time[::wide])
        usual = steps < 3.0 * np.median(steps)
        speed = np.diff(recording.position[::wide], axis=0)[usual] / steps[usual, None]
        mean = np.cumsum(np.vstack([np.zeros(len(robot.joints)), recording.velocity]), axis=0)
        length = len(recording.position[::wide])
        places = np.arange(length) * wide
        means = (np.diff(mean[places], axis=0) / wide)[usual]
        pairs.append((speed, means))
    if not pairs:
        return
    speed, recorded = (np.concatenate(part) for part in zip(*pairs, strict=True))
    size = np.sqrt((speed**2).mean(axis=0))
    still = still_joints(robot, np.concatenate([r.position for r in recordings]))
    for j, joint in enumerate(robot.joints):
        if still[j]:
            continue
        off = np.sqrt(np.mean((recorded[:, j] - speed[:, j]) ** 2)) / size[j]
        if off > _OTHER_SPEED:
            yield Finding(
                code='velocity',
                joints=(joint,),
                evidence=f"recorded velocities of joint '{joint}' are off by {100.0 * off:.3g} % "
                'from those of its positions',
                remedy='mend data.*.velocity, or leave it out: signals.method butterworth does '
                'without',
                change='its velocity from positions',
            )


def revolute(robot: Robot) -> tuple[bool, ...]:
    """Tell for each joint whether it turns."""
    turning = {joint.column: joint.revolute for joint in tree_of(robot.opened).joints}
    return tuple(turning[column] for column in range(robot.n_joints))
