# SPDX-License-Identifier: Apache-2.0
"""
Faults of recordings of robots on their feet: IMU, contacts and signs.

What needs no dynamics comes first: gravity in the accelerometer, upward by orientation and by
accelerometer, and feet that stand but move against each other.  Beside that, single corrections
are tried, each with a fit of its own, on the parts of the recordings that move most.  The best one
is a finding if it fits rows that it has not seen decisively better, by `DECISIVE`, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
import warnings

import numpy as np

from ..data.floating_recording import FloatingRecording
from ..data.recording import Motion, RecordingSource
from ..errors import collected_warnings, IdentificationError, IdentificationWarning, one_of
from ..estimation.floating_rows import floating_stretches
from ..regressor.base_parameters import BaseStructure
from ..regressor.floating import FloatingRegressor
from ..signals import SignalSettings
from .floating_corrections import (
    axes,
    contacts,
    effort_scale,
    FloatingCorrection,
    imu_lags,
    imu_place,
    leg_orders,
    signs,
    single_efforts,
    torsion,
)
from .floating_fit import FloatingFit, Judgement, moving_pieces, thinned
from .recording_faults import DECISIVE, RecordingFault


@dataclass(frozen=True)
class FloatingCriteria:
    """Constants of the search."""

    poor: float = 3.0
    """Error of the fit above which all corrections are tried; sound ones leave below 1 [%]."""
    certain: float = 5.0
    """Improvement above which nothing further is tried."""
    promising: int = 3
    """Corrections of a large family that are tried on all pieces, after two."""
    nearly: float = 0.75
    """Power of the best improvement that a smaller change of the contacts has to have."""
    alike: float = 1.1
    """Share of the best improvement from which on another correction explains as much."""
    seconds: float = 16.0
    """Duration of what is fitted of each recording, the parts with most motion [s]."""
    oversampling: float = 25.0
    """Samples a period of the cut-off frequency that are kept for that."""
    gravity: float = 0.2
    """Share by which the accelerometer's mean may differ from gravity."""
    upward: float = np.cos(np.radians(20.0))
    """Mean cosine between upward by orientation and by averaged accelerometer, at least."""
    slip: float = 0.03
    """Distance over which two feet that stand may slide against each other [m]."""


CRITERIA = FloatingCriteria()

AVERAGED = 1.0
"""Time over which accelerations are averaged for that [s]."""

_GRAVITY = 9.81  # m/s^2


def floating_faults(
    sources: Sequence[RecordingSource],
    regressor: FloatingRegressor,
    structure: BaseStructure,
    signals: SignalSettings,
    error: float,
) -> tuple[RecordingFault, ...]:
    """
    Return what is wrong with recordings of a robot on its feet.

    Parameters
    ----------
    sources:
        Its recordings.
    regressor, structure, signals:
        As they were fitted.
    error:
        Relative error of that fit [%].

    """
    recordings = [source for source in sources if isinstance(source, FloatingRecording)]
    found: list[RecordingFault] = []
    try:
        with collected_warnings():
            rate = CRITERIA.oversampling * signals.cutoff
            pieces = [
                thinned(piece, rate)
                for recording in recordings
                for piece in moving_pieces(recording, CRITERIA.seconds)
            ]
            fit = FloatingFit(pieces, regressor, structure, signals)
            poor = error > CRITERIA.poor or not np.isfinite(error)
            if pieces:
                found += list(_corrections_that_fit(fit, poor, _upside_down(recordings)))
            for recording in recordings:
                found += list(_slipping_feet(recording, regressor, signals))
    except IdentificationError as failure:
        # as where a robot stands still; what was identified stays
        text = f'faults of IMU and contacts were not looked for: {failure.message}'
        warnings.warn(text, IdentificationWarning, stacklevel=2)
    # a fit says which of the two is wrong
    of_imu = any(fault.code in ('accelerometer', 'imu_axes') for fault in found)
    found += [
        fault
        for each in recordings
        for fault in _without_dynamics(each)
        if not (of_imu and fault.code == 'orientation')
    ]
    return tuple({(fault.code, fault.evidence): fault for fault in found}.values())


# --------------------------------------------------------------------------- without dynamics


def _without_dynamics(recording: FloatingRecording) -> Iterator[RecordingFault]:
    """Iterate over faults of the IMU that its own signals show."""
    size = float(np.median(np.linalg.norm(recording.accelerometer, axis=1)))
    if abs(size / _GRAVITY - 1.0) > CRITERIA.gravity:
        in_g = abs(size - 1.0) < CRITERIA.gravity
        yield RecordingFault(
            'accelerometer',
            f'the accelerometer of {recording.source} reads {size:.3g} m/s^2 on the whole and '
            'gravity is 9.81',
            'multiply it by 9.81: it is in units of gravity'
            if in_g
            else 'give it in m/s^2, with gravity in it',
        )
    if recording.orientation is None:
        return
    # speeds of a robot that stays where it is are bounded: what it does averages out
    whole = _in_the_world(recording.accelerometer, recording.orientation)
    starts = np.flatnonzero(np.diff((recording.time - recording.time[0]) // AVERAGED, prepend=-1))
    mean = np.add.reduceat(whole, starts) / np.diff(np.append(starts, len(whole)))[:, None]
    upward = mean[:, 2] / np.maximum(np.linalg.norm(mean, axis=1), 1e-9)
    agreement = float(np.mean(upward))
    if agreement < CRITERIA.upward:
        angle = np.degrees(np.arccos(np.clip(agreement, -1.0, 1.0)))
        yield RecordingFault(
            'orientation',
            f'orientation and accelerometer of {recording.source} differ by {angle:.0f} degrees '
            'in what is upward',
            'see the sign of the accelerometer (9.81 upward at rest) and the order of the '
            'quaternion (x, y, z, w)',
        )


def _in_the_world(vectors: np.ndarray, orientation: np.ndarray) -> np.ndarray:
    """Return vectors along axes of the world, (m, 3), by (m, 4) quaternions x, y, z, w."""
    unit = orientation / np.linalg.norm(orientation, axis=1, keepdims=True)
    axis, half = unit[:, :3], unit[:, 3:]
    return vectors + 2.0 * np.cross(axis, np.cross(axis, vectors) + half * vectors)


def _slipping_feet(
    recording: FloatingRecording, regressor: FloatingRegressor, signals: SignalSettings
) -> Iterator[RecordingFault]:
    """Iterate over feet that slide against all others while they are said to stand."""
    count = len(regressor.contacts)
    if count < 2:
        return
    worst = np.zeros((count, count))
    for samples in floating_stretches(recording, regressor, signals):
        points = regressor.contact_points(samples.motion)
        speed = _contact_speeds(samples.motion, samples.normal, regressor)
        step = np.diff(samples.time, prepend=samples.time[:1])
        for i, j in combinations(range(count), 2):
            # flags near a change may be those of a foot that is lifted already
            both = samples.stance[:, i] & samples.stance[:, j] & samples.sound
            along = points[:, i] - points[:, j]
            along = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
            # of balls that roll, the points that touch the ground stand
            apart = np.cumsum(np.sum((speed[:, i] - speed[:, j]) * along, axis=1) * step)
            # each time that both stand is one of its own
            runs = np.flatnonzero(np.diff(np.concatenate([[0], both.astype(int), [0]])))
            for first, last in runs.reshape(-1, 2):
                worst[i, j] = worst[j, i] = max(worst[i, j], float(np.ptp(apart[first:last])))
    # a foot that stays has a partner that stays, too
    least = np.where(np.eye(count, dtype=bool), np.inf, worst).min(axis=1)
    for i in np.flatnonzero(least > CRITERIA.slip).tolist():
        if count == 2 and i:
            return
        names = [contact.name for contact in regressor.contacts]
        who = names[i] if count > 2 else one_of(names)
        yield RecordingFault(
            'contact_moves',
            f'{who} slides by {100.0 * least[i]:.2g} cm against the other feet while it is said '
            f'to stand in {recording.source}',
            'see its flag (stuck, late, or of another foot); a foot that slips does no harm',
        )


def _contact_speeds(
    motion: Motion, normal: np.ndarray, regressor: FloatingRegressor
) -> np.ndarray:
    """Return (m, c, 3) speeds of contacts against the origin of the base, along its axes [m/s]."""
    jacobians = regressor.jacobians(motion, normal if regressor.on_ground else None)
    first = np.concatenate([[0], np.cumsum([c.rows for c in regressor.contacts])[:-1]])
    speeds = np.empty((len(motion), len(regressor.contacts), 3))
    for i, row in enumerate(first):
        rows = jacobians[:, row : row + 3]
        own = np.einsum('mkj,mj->mk', rows, motion.velocity)
        # the first columns are the axes of the contact's frame
        speeds[:, i] = np.einsum('mkj,mk->mj', rows[:, :, :3], own)
    return speeds


# ------------------------------------------------------------------------------- by their fits


def _upside_down(recordings: Sequence[FloatingRecording]) -> bool:
    """Return whether accelerometers read downward by the orientation, in any recording."""
    faults = (fault for recording in recordings for fault in _without_dynamics(recording))
    return any(fault.code == 'orientation' for fault in faults)


def _corrections_that_fit(
    fit: FloatingFit, poor: bool, upside_down: bool
) -> Iterator[RecordingFault]:
    """
    Yield the correction that fits rows that it has not seen best, if it does so decisively.

    Efforts the other way are nearly the same as an accelerometer that is; where the orientation
    says that it is the accelerometer, ``upside_down``, they are not tried.
    """
    first = fit.first
    found: dict[FloatingCorrection, tuple[Judgement, Judgement]] = {}
    gains: dict[FloatingCorrection, float] = {}
    for group, coarse in _groups(fit, poor):
        for each in _promising(fit, group) if coarse else group:
            if upside_down and each.whole_sign and each.code == 'effort_sign':
                continue
            try:
                before, after = fit.compared(each.change, each.shared)
            except IdentificationError:  # with other contacts, too little may be left to fit
                continue
            if after.agreement > 0.0:
                found[each], gains[each] = (before, after), before.gain(after)
        certain = bool(gains) and max(gains.values()) > CRITERIA.certain
        # a sign is that of all, or the IMU is upside down
        mirrored = first.agreement < 0.0 and any(each.code == 'imu_axes' for each in gains)
        if certain or mirrored:
            break
    if not found:
        return
    best = _best(gains)
    before, after = found[best]
    own = before.gain(after, _rows_of(best, fit.regressor))
    if max(gains[best], own) < DECISIVE:
        # efforts or gravity the other way make all masses negative, which fits nearly as well
        if first.agreement < 0.0 and best.whole_sign:
            text = f'by the bodies of the URDF, efforts have their sign with {best.what}'
            yield RecordingFault(best.code, text, best.remedy, change=best.what)
        return
    alike = [
        _fault(each, gains[each], gains[each])
        for each in gains
        if each.code != best.code and gains[each] * CRITERIA.alike > gains[best]
    ]
    yield _fault(best, own, gains[best], alike[:2])


def _best(gains: Mapping[FloatingCorrection, float]) -> FloatingCorrection:
    """Return the best correction; of those of contacts, the least that does nearly as much."""
    best = max(gains, key=lambda each: gains[each])
    if not best.extent:
        return best
    enough = gains[best] ** CRITERIA.nearly
    return min(
        (each for each in gains if each.extent and gains[each] >= enough),
        key=lambda each: each.extent,
    )


def _groups(fit: FloatingFit, poor: bool) -> Iterator[tuple[Iterable[FloatingCorrection], bool]]:
    """
    Iterate over families of corrections; of a good fit over those that leave little alone.

    With each goes whether it is large, and what it changes shows everywhere.
    """
    regressor = fit.regressor
    tried = (torsion(regressor), imu_place(fit), effort_scale(fit))
    yield [each for each in tried if each is not None], False
    if poor:
        yield signs(), False
        yield axes(), True
        yield contacts(fit.pieces, regressor), False
        yield imu_lags(), False
        yield leg_orders(regressor), True
        yield single_efforts(regressor), True


def _promising(
    fit: FloatingFit, group: Iterable[FloatingCorrection]
) -> Iterator[FloatingCorrection]:
    """Iterate over the corrections of a large family that two pieces alone speak for."""
    few = replace(fit, pieces=fit.pieces[:2])
    gains: dict[FloatingCorrection, float] = {}
    for each in group:
        with suppress(IdentificationError):
            gains[each] = few.first.gain(few.judged(few.rows(each.change)))
    yield from sorted(gains, key=lambda each: -gains[each])[: CRITERIA.promising]


def _rows_of(correction: FloatingCorrection, regressor: FloatingRegressor) -> list[int]:
    return [regressor.joints.index(joint) for joint in correction.joints]


def _fault(
    correction: FloatingCorrection,
    improvement: float,
    of_all: float,
    others: Sequence[RecordingFault] = (),
) -> RecordingFault:
    return RecordingFault(
        correction.code,
        f'rows without contact forces that were not fitted are predicted {improvement:.2g} times '
        f'as well with {correction.what}',
        correction.remedy,
        joints=correction.joints,
        change=correction.what,
        improvement=improvement,
        improvement_of_all=of_all,
        alternatives=tuple(others),
    )
