# SPDX-License-Identifier: Apache-2.0
"""
Rows of recordings of robots whose base is free, without the forces of their contacts.

Positions, efforts and the IMU's signals go through one and the same low-pass without phase, so
that they stay one equation.  They hold nothing above its cut-off frequency then, and a few samples
a period are enough; rows are means over the samples between two rows.  Around a change of the
contacts, filters mix what was before with what comes after: samples within `CHANGE_PERIODS` of the
cut-off frequency are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..data.floating_recording import FloatingRecording
from ..data.recording import Motion, RecordingSource, source_name
from ..errors import RecordingError, SettingsError
from ..model.floating_base import BASE_JOINTS
from ..regressor.base_parameters import BaseStructure
from ..regressor.floating import floating_motion, FloatingRegressor
from ..signals import by_joint, decimation_factor, SignalSettings
from ..signals.methods import LocalPolynomial, LowPass
from ..signals.streaming import filter_key, gridded
from ..signals.windows import Windows
from .row_block import BLOCK_SAMPLES, RowBlock

CHANGE_PERIODS = 0.6
"""Periods of the cut-off frequency around a change of the contacts that are left out."""

_NOTHING = 1e-9
"""Share of a row that contacts leave, below which it is rounding."""

_OVERSAMPLING = 8.0
"""Samples a period of the cut-off frequency at which the regressor is evaluated."""

_BASE = len(BASE_JOINTS)


@dataclass(frozen=True)
class FloatingSamples:
    """
    Samples of a stretch without gaps.

    Attributes
    ----------
    time:
        (m,) [s].
    motion:
        As the regressor takes it.
    effort:
        (m, 6 + n) efforts, 0 on the base [N m or N].
    stance:
        (m, c) bool.
    normal:
        (m, 3) upward direction in the frame of the base.
    wrench:
        (m, k) measured wrenches of contacts, NaN where they are not; None for none [N, N m].
    sound:
        (m,) bool, whether contacts stay as they are near the sample.

    """

    time: np.ndarray
    motion: Motion
    effort: np.ndarray
    stance: np.ndarray
    normal: np.ndarray
    wrench: np.ndarray | None
    sound: np.ndarray

    def __len__(self) -> int:
        return self.time.size

    def rows(self, part: slice) -> FloatingSamples:
        """Return a part."""
        return FloatingSamples(
            self.time[part],
            self.motion.rows(part.start, part.stop),
            self.effort[part],
            self.stance[part],
            self.normal[part],
            None if self.wrench is None else self.wrench[part],
            self.sound[part],
        )


def floating_blocks(
    source: RecordingSource,
    regressor: FloatingRegressor,
    structure: BaseStructure,
    signals: SignalSettings,
) -> Iterator[RowBlock]:
    """Iterate over the rows that a recording gives, without what is left; see `projected_rows`."""
    for block, _ in projected_rows(source, regressor, structure, signals):
        yield block


def projected_rows(
    source: RecordingSource,
    regressor: FloatingRegressor,
    structure: BaseStructure,
    signals: SignalSettings,
) -> Iterator[tuple[RowBlock, np.ndarray]]:
    """
    Iterate over the rows that a recording gives, in blocks of a bounded size.

    Parameters
    ----------
    source:
        A `FloatingRecording` with the regressor's joints and contacts.
    regressor:
        Evaluated at the samples.
    structure:
        Its independent columns are the ones that are kept.
    signals:
        Filter, rate of the rows, and dead zone.

    Yields
    ------
    Blocks of rows without contact forces, and (6 + n,) the mean share of the noise of each row
    that is left in it.

    Raises
    ------
    RecordingError
        for a recording without an IMU, or with other contacts than the regressor's.

    """
    recording = _checked(source, regressor)
    driven = recording.joints[_BASE:]
    zones = np.concatenate([np.zeros(_BASE), by_joint(signals, 'dead_zone', driven)])
    for segment, samples in enumerate(floating_stretches(recording, regressor, signals)):
        step = float(np.diff(samples.time[:2])[0]) if len(samples) > 1 else 0.0
        size = decimation_factor(signals, 1.0 / step) if step else 1
        # noise has no frequencies above the cut-off either
        independent = min(1.0, 2.0 * signals.cutoff * step * size) if step else 1.0
        whole = len(samples) // size * size
        piece = max(1, BLOCK_SAMPLES // size) * size
        for start in range(0, whole, piece):
            part = samples.rows(slice(start, min(start + piece, whole)))
            block, share = _rows(part, size, regressor, structure.independent, zones)
            # by row: what contacts take up of its noise is no reason to weigh it more
            yield replace(block, segment=segment, independence=independent * share), share


def floating_stretches(
    recording: FloatingRecording, regressor: FloatingRegressor, signals: SignalSettings
) -> list[FloatingSamples]:
    """Return the filtered stretches of a recording, a few samples a period each."""
    if signals.method not in ('butterworth', 'savitzky_golay'):
        raise SettingsError(
            f"'signals.method' is {signals.method}, which floating bases do not have",
            key='signals.method',
            value=signals.method,
            remedy='take butterworth',
        )
    driven = np.arange(len(recording.joints)) >= _BASE

    def samples() -> Iterator[FloatingSamples]:
        for stretch, method in gridded(recording, signals, driven):
            assert isinstance(stretch, FloatingRecording) and not isinstance(method, Windows)
            yield _samples(stretch, regressor, signals, method)

    return recording.samples((filter_key(signals), regressor.imu), samples)


def _checked(source: RecordingSource, regressor: FloatingRegressor) -> FloatingRecording:
    name = source_name(source)
    if not isinstance(source, FloatingRecording):
        raise RecordingError(
            f'{name} has no IMU, but the base of the robot is free',
            file=name,
            remedy='name its gyroscope and accelerometer in `imu`, or take robot.base: fixed',
        )
    if source.stance.shape[1] != len(regressor.contacts):
        raise RecordingError(
            f'{name} has {source.stance.shape[1]} contacts, the robot {len(regressor.contacts)}',
            file=name,
            remedy='say for each of robot.contacts whether it holds',
        )
    return source


def _samples(
    stretch: FloatingRecording,
    regressor: FloatingRegressor,
    signals: SignalSettings,
    method: LowPass | LocalPolynomial,
) -> FloatingSamples:
    rate = method.rate

    def moved(signal: np.ndarray) -> tuple[np.ndarray, ...]:
        found = [method.motion(column, None) for column in signal.T]
        return tuple(np.array(each).T for each in zip(*found, strict=True))

    q, dq, ddq = moved(stretch.position[:, _BASE:])
    # the sign of a filtered speed jumps, the filtered Coulomb friction does not
    way = method.smoothed(np.sign(dq))
    turn, about, _ = moved(stretch.gyroscope)
    along = method.smoothed(stretch.accelerometer)
    effort = method.smoothed(stretch.effort)
    wrench = stretch.wrench
    if wrench is not None and wrench.size:
        smoothed = method.smoothed(np.nan_to_num(wrench))
        wrench = np.where(np.isnan(wrench), np.nan, smoothed)
    turn, about, along, up = regressor.imu.at_base(turn, about, along, stretch.orientation)
    margin = CHANGE_PERIODS / signals.cutoff
    stride = max(1, round(rate / (_OVERSAMPLING * signals.cutoff)))
    trim = round(signals.ends * rate)
    kept = slice(trim, len(stretch) - trim, stride)
    joints = Motion(q[kept], dq[kept], ddq[kept], friction_state=way[kept])
    motion = floating_motion(joints, turn[kept], about[kept], along[kept])
    return FloatingSamples(
        stretch.time[kept],
        motion,
        effort[kept],
        stretch.stance[kept],
        up[kept],
        None if wrench is None else wrench[kept],
        _steady(stretch.stance, round(margin * rate))[kept],
    )


def _steady(stance: np.ndarray, margin: int) -> np.ndarray:
    """Return (n,) whether no contact changes within some samples of each."""
    changes = np.flatnonzero((np.diff(stance.astype(np.int8), axis=0) != 0).any(axis=1)) + 1
    sound = np.ones(len(stance), dtype=bool)
    for change in changes:
        sound[max(0, change - margin) : change + margin] = False
    return sound


def _rows(
    samples: FloatingSamples,
    size: int,
    regressor: FloatingRegressor,
    columns: np.ndarray,
    zones: np.ndarray,
) -> tuple[RowBlock, np.ndarray]:
    """Return the means of every ``size`` samples, without those near a change of contacts."""
    n = regressor.n_joints
    # contacts mix the rows: friction of one joint that is not known is in all of them
    known = samples.sound & (np.abs(samples.motion.velocity) >= zones).all(axis=1)
    sound = known.reshape(-1, size).all(axis=1)
    rows = regressor.rows(samples.motion).reshape(len(samples), n, -1)[:, :, columns]
    joined = np.concatenate([rows, samples.effort[:, :, None]], axis=2)
    share = np.ones(n)
    if regressor.contacts:
        normal = samples.normal if regressor.on_ground else None
        jacobians = regressor.jacobians(samples.motion, normal)
        stance = samples.stance[:, regressor.contact_rows]
        if samples.wrench is not None:
            measured = ~np.isnan(samples.wrench)
            known = np.where(measured, samples.wrench, 0.0)
            joined[:, :, -1] += np.einsum('skj,sk->sj', jacobians, known)
            stance = stance & ~measured
        projectors = regressor.projectors(jacobians, stance)
        joined = projectors @ joined
        share = np.einsum('sjj->j', projectors) / len(samples)
        joined[:, share < _NOTHING] = 0.0

    def mean(values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, size, *values.shape[1:]).mean(axis=1)[sound]

    averaged = mean(joined)
    velocity, position = mean(samples.motion.velocity), mean(samples.motion.position)
    # of the base, what it is felt to do: a robot that rests shows nothing in these rows
    position[:, :_BASE] = mean(samples.motion.acceleration[:, :_BASE])
    effort = averaged[:, :, -1]
    block = RowBlock.from_matrix(
        averaged[:, :, :-1],
        time=mean(samples.time),
        position=position,
        velocity=velocity,
        effort=effort,
        keep=np.ones_like(effort, dtype=bool),
        raw_effort=effort,
    )
    return block, share
