# SPDX-License-Identifier: Apache-2.0
"""
Faults of recordings of robots on their feet: IMU, contacts and signs.

What needs no dynamics comes first: gravity in the accelerometer, upward by orientation and by
accelerometer, and feet that stand but move against each other.  Where the fit is poor beside that,
single corrections of the beginning of the recordings are tried, each with a fit of its own; the
best one is a finding if the rows without contact forces are fitted decisively better with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
import warnings

import numpy as np
import pinocchio as pin

from ..data.floating_recording import FloatingRecording
from ..data.recording import RecordingSource
from ..errors import collected_warnings, IdentificationError, IdentificationWarning, one_of
from ..estimation.floating_rows import floating_blocks, floating_stretches
from ..estimation.least_squares import wls
from ..estimation.system import system_of
from ..model.floating_base import BASE_JOINTS
from ..regressor.base_parameters import BaseStructure
from ..regressor.floating import FloatingRegressor, Imu
from ..signals import SignalSettings
from .recording_faults import RecordingFault


@dataclass(frozen=True)
class FloatingCriteria:
    """Constants of the search."""

    poor: float = 3.0
    """Error of the fit above which corrections are tried; sound recordings leave below 1 [%]."""
    decisive: float = 2.0
    """Improvement of the fit above which a correction is a finding."""
    certain: float = 5.0
    """Improvement above which nothing further is tried."""
    seconds: float = 20.0
    """Beginning of each recording that is fitted."""
    gravity: float = 0.2
    """Share by which the accelerometer's mean may differ from gravity."""
    upward: float = np.cos(np.radians(20.0))
    """Mean cosine between upward by orientation and by accelerometer, at least."""
    shift: float = 0.03
    """Change of the distance of two feet that stand, above which one of them does not [m]."""
    lags: tuple[float, ...] = (-0.2, -0.1, -0.05, 0.05, 0.1, 0.2)
    """Times by which flags are moved [s]."""
    orders: int = 4
    """Contacts of which all orders are tried."""


CRITERIA = FloatingCriteria()

_GRAVITY = 9.81  # m/s^2

_Change = Callable[
    [FloatingRecording, FloatingRegressor], tuple[FloatingRecording, FloatingRegressor]
]


@dataclass(frozen=True, eq=False)
class FloatingCorrection:
    """
    A change that undoes a fault.

    Attributes
    ----------
    code:
        Kind of the fault.
    what:
        What fits better with it, after "with".
    remedy:
        What mends it.
    change:
        Returns recording and regressor without the fault.
    joints:
        That it concerns.
    whole_sign:
        Whether it changes the sign of all masses.

    """

    code: str
    what: str
    remedy: str
    change: _Change
    joints: tuple[str, ...] = ()
    whole_sign: bool = False


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
            parts = [_beginning(recording) for recording in recordings]
            if parts and (error > CRITERIA.poor or not np.isfinite(error)):
                found += list(_corrections_that_fit(parts, regressor, structure, signals))
            for part in parts:
                found += list(_moving_feet(part, regressor, signals))
    except IdentificationError as failure:
        # as where a robot stands still at first; what was identified stays
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


def _beginning(recording: FloatingRecording) -> FloatingRecording:
    stop = int(np.searchsorted(recording.time, recording.time[0] + CRITERIA.seconds))
    part = recording.rows(0, stop)
    assert isinstance(part, FloatingRecording)
    return part


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
    upward = Imu(np.eye(3), np.zeros(3)).at_base(
        recording.gyroscope, recording.gyroscope, recording.accelerometer, recording.orientation
    )[3]
    along = recording.accelerometer / np.maximum(
        np.linalg.norm(recording.accelerometer, axis=1, keepdims=True), 1e-9
    )
    agreement = float(np.mean(np.sum(upward * along, axis=1)))
    if agreement < CRITERIA.upward:
        angle = np.degrees(np.arccos(np.clip(agreement, -1.0, 1.0)))
        yield RecordingFault(
            'orientation',
            f'orientation and accelerometer of {recording.source} differ by {angle:.0f} degrees '
            'in what is upward',
            'see the sign of the accelerometer (9.81 upward at rest) and the order of the '
            'quaternion (x, y, z, w)',
        )


def _moving_feet(
    recording: FloatingRecording, regressor: FloatingRegressor, signals: SignalSettings
) -> Iterator[RecordingFault]:
    """Iterate over feet that move against all others while they are said to stand."""
    count = len(regressor.contacts)
    if count < 2:
        return
    worst = np.zeros((count, count))
    for samples in floating_stretches(recording, regressor, signals):
        points = regressor.contact_points(samples.motion)
        for i, j in product(range(count), range(count)):
            both = samples.stance[:, i] & samples.stance[:, j]
            if i >= j or not both.any():
                continue
            distance = np.linalg.norm(points[:, i] - points[:, j], axis=1)
            # each time that both stand is one of its own
            runs = np.flatnonzero(np.diff(np.concatenate([[0], both.astype(int), [0]])))
            for first, last in runs.reshape(-1, 2):
                moved = float(np.ptp(distance[first:last]))
                worst[i, j] = worst[j, i] = max(worst[i, j], moved)
    # a foot that stays has a partner that stays, too
    least = np.where(np.eye(count, dtype=bool), np.inf, worst).min(axis=1)
    for i in np.flatnonzero(least > CRITERIA.shift).tolist():
        if count == 2 and i:
            return
        names = [contact.name for contact in regressor.contacts]
        who = names[i] if count > 2 else one_of(names)
        yield RecordingFault(
            'contact_moves',
            f'{who} moves by {100.0 * least[i]:.2g} cm against the other feet while it is said '
            f'to stand in {recording.source}',
            'see its flag (stuck, late, or of another foot), or keep it from slipping',
        )


# ------------------------------------------------------------------------------- by their fits


def _corrections_that_fit(
    parts: Sequence[FloatingRecording],
    regressor: FloatingRegressor,
    structure: BaseStructure,
    signals: SignalSettings,
) -> Iterator[RecordingFault]:
    """Yield the correction that lets the rows fit best, if it does so decisively."""
    cost = _Cost(parts, regressor, structure, signals)
    before, agreement = cost.of(None)
    fits: dict[FloatingCorrection, float] = {}
    for group in (
        _signs(),
        _axes(),
        _of_contacts(parts, regressor),
        _single_efforts(regressor),
    ):
        for each in group:
            try:
                left, like_the_urdf = cost.of(each)
            except IdentificationError:  # with other contacts, too little may be left to fit
                continue
            if like_the_urdf > 0.0:
                fits[each] = left
        certain = fits and before > CRITERIA.certain * min(fits.values())
        # a sign is that of all, or the IMU is upside down
        if certain or (agreement < 0.0 and any(each.code == 'imu_axes' for each in fits)):
            break
    if not fits:
        return
    best = min(fits, key=lambda each: fits[each])
    improvement = before / max(fits[best], 1e-300)
    # efforts or gravity the other way make all masses negative, which fits nearly as well
    mirrored = agreement < 0.0 and best.whole_sign
    if improvement < CRITERIA.decisive and not mirrored:
        return
    alike = [
        each
        for each, left in fits.items()
        if each is not best and left < 1.1 * fits[best] and each.code != best.code
    ]
    if improvement < CRITERIA.decisive:
        text = f'by the bodies of the URDF, efforts have their sign with {best.what}'
        yield RecordingFault(best.code, text, best.remedy, change=best.what)
        return
    yield _fault(best, improvement, [_fault(each, improvement) for each in alike[:2]])


def _fault(
    correction: FloatingCorrection, improvement: float, others: Sequence[RecordingFault] = ()
) -> RecordingFault:
    return RecordingFault(
        correction.code,
        f'the rows without contact forces are fitted {improvement:.2g} times as well with '
        f'{correction.what}',
        correction.remedy,
        joints=correction.joints,
        change=correction.what,
        improvement=improvement,
        alternatives=tuple(others),
    )


@dataclass(frozen=True)
class _Cost:
    """Misfit of recordings with a correction."""

    parts: Sequence[FloatingRecording]
    regressor: FloatingRegressor
    structure: BaseStructure
    signals: SignalSettings

    def of(self, correction: FloatingCorrection | None) -> tuple[float, float]:
        """
        Return the residual by the noise of the rows, and how like the URDF's the efforts are.

        The latter is the product of efforts without contact forces and those by the URDF's
        bodies, by the square of the first; it is below 0 where all masses would be.
        """
        made = [
            (part, self.regressor)
            if correction is None
            else correction.change(replace(part), self.regressor)
            for part in self.parts
        ]
        regressor = made[0][1]
        system = system_of(
            [recording for recording, _ in made],
            regressor,
            self.structure,
            self.signals,
            read=floating_blocks,
            trace_points=2,
        )
        values = wls(system).base.values

        def squares(base: np.ndarray) -> float:
            return float(np.sum((system.factor.residual_norms(base) / regressor.noise) ** 2))

        bodies = np.zeros(len(regressor.layout))
        bodies[: regressor.bodies.size] = regressor.bodies
        nominal = self.structure.regrouping @ bodies
        product = 0.25 * (squares(-nominal) - squares(nominal))
        whole = max(squares(0.0 * nominal), 1e-300)
        rows = max(float(system.factor.n_rows), 1.0)
        return float(np.sqrt(squares(values) / rows)), product / whole


def _signs() -> Iterator[FloatingCorrection]:
    """Iterate over signs of whole signals."""
    yield FloatingCorrection(
        'accelerometer',
        'the accelerometer the other way',
        'change its sign: it reads 9.81 upward at rest',
        lambda recording, regressor: (
            replace(recording, accelerometer=-recording.accelerometer),
            regressor,
        ),
        whole_sign=True,
    )
    yield FloatingCorrection(
        'effort_sign',
        'all efforts the other way',
        'change their signs (robot.drives)',
        _efforts(),
        whole_sign=True,
    )


def _single_efforts(regressor: FloatingRegressor) -> Iterator[FloatingCorrection]:
    for j, joint in enumerate(regressor.joints[len(BASE_JOINTS) :]):
        yield FloatingCorrection(
            'effort_sign',
            f'the effort of {joint} the other way',
            'change its sign (robot.drives)',
            _efforts(len(BASE_JOINTS) + j),
            (joint,),
        )


def _axes() -> Iterator[FloatingCorrection]:
    """Iterate over the 23 rotations of the IMU by quarters but for none."""
    for places in permutations(range(3)):
        for signs in product((1.0, -1.0), repeat=3):
            turned = np.zeros((3, 3))
            turned[range(3), places] = signs
            if np.linalg.det(turned) < 0.0 or np.array_equal(turned, np.eye(3)):
                continue
            rotation = pin.log3(turned)
            angle = float(np.linalg.norm(rotation))
            along = np.rint(rotation / np.abs(rotation).max())
            axis = ''.join(
                f'{"-" if way < 0 else ""}{name}' for name, way in zip('xyz', along) if way
            )
            rpy = [round(float(part), 4) for part in pin.rpy.matrixToRpy(turned)]
            yield FloatingCorrection(
                'imu_axes',
                f'the IMU turned by {np.degrees(angle):.0f} degrees about its axis {axis}',
                f'set robot.imu.rpy to {rpy} (where it is 0 now), or see robot.imu.frame',
                _turned(turned),
            )


def _turned(turned: np.ndarray) -> _Change:
    def change(
        recording: FloatingRecording, regressor: FloatingRegressor
    ) -> tuple[FloatingRecording, FloatingRegressor]:
        imu = Imu(regressor.imu.rotation @ turned, regressor.imu.origin)
        return recording, replace(regressor, imu=imu)

    return change


def _efforts(column: int | None = None) -> _Change:
    def change(
        recording: FloatingRecording, regressor: FloatingRegressor
    ) -> tuple[FloatingRecording, FloatingRegressor]:
        effort = recording.effort.copy()
        effort[:, slice(None) if column is None else column] *= -1.0
        return replace(recording, effort=effort), regressor

    return change


def _of_contacts(
    parts: Sequence[FloatingRecording], regressor: FloatingRegressor
) -> Iterator[FloatingCorrection]:
    names = [contact.name for contact in regressor.contacts]
    lifted = [any(not part.stance[:, i].all() for part in parts) for i in range(len(names))]
    if not any(lifted):
        return

    def of(make: Callable[[FloatingRecording], np.ndarray]) -> _Change:
        return lambda recording, regressor: (replace(recording, stance=make(recording)), regressor)

    for i, name in enumerate(names):
        if lifted[i]:
            yield FloatingCorrection(
                'contact_flags',
                f'{name} always on the ground',
                'see its flag in contacts, and contact_threshold',
                of(lambda part, i=i: part.stance | (np.arange(len(names)) == i)),  # type: ignore[misc]
            )
    yield FloatingCorrection(
        'contact_flags',
        'all feet always on the ground',
        'see contacts and contact_threshold',
        of(lambda part: np.ones_like(part.stance)),
    )
    for lag in CRITERIA.lags:
        yield FloatingCorrection(
            'contact_lag',
            f'contacts {abs(lag):g} s {"earlier" if lag > 0.0 else "later"}',
            'record contacts with the stamps of the joints',
            of(lambda part, lag=lag: _moved(part, lag)),  # type: ignore[misc]
        )
    if len(names) <= CRITERIA.orders:
        for order in permutations(range(len(names))):
            # exchanges alone, of one pair or of two
            if list(order) != sorted(order) and list(np.argsort(order)) == list(order):
                taken = one_of([names[k] for k in order])
                yield FloatingCorrection(
                    'contact_order',
                    f'contacts in the order {taken}',
                    'name the columns of contacts in the order of robot.contacts',
                    of(lambda part, order=order: part.stance[:, list(order)]),  # type: ignore[misc]
                )


def _moved(part: FloatingRecording, lag: float) -> np.ndarray:
    """Return the stance as it is said to be some time later."""
    rows = np.searchsorted(part.time, part.time + lag).clip(0, len(part) - 1)
    return np.asarray(part.stance[rows])
