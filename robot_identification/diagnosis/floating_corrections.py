# SPDX-License-Identifier: Apache-2.0
"""Changes that undo faults of recordings of robots on their feet, by families."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
import pinocchio as pin

from ..data.floating_recording import FloatingRecording
from ..errors import one_of
from ..model.floating_base import BASE_JOINTS
from ..regressor.floating import FloatingRegressor, Imu
from .floating_fit import Change, FloatingFit

LAGS = (-0.2, -0.1, -0.05, 0.05, 0.1, 0.2)
"""Times by which flags are moved [s]."""

IMU_LAGS = (-0.1, -0.05, -0.02, 0.02, 0.05, 0.1)
"""Times by which the signals of the IMU are moved [s]."""

ORDERS = 4
"""Contacts of which all orders are tried."""


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
        That it concerns; empty for the whole robot.
    whole_sign:
        Whether it changes the sign of all masses.
    shared:
        Of contacts, the change after which all of them hold.
    extent:
        Share of the flags of contacts that it changes.

    """

    code: str
    what: str
    remedy: str
    change: Change
    joints: tuple[str, ...] = ()
    whole_sign: bool = False
    shared: Change | None = None
    extent: float = 0.0


def signs() -> Iterator[FloatingCorrection]:
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


def single_efforts(regressor: FloatingRegressor) -> Iterator[FloatingCorrection]:
    """Iterate over signs of single joints' efforts."""
    for j, joint in enumerate(regressor.joints[len(BASE_JOINTS) :]):
        yield FloatingCorrection(
            'effort_sign',
            f'the effort of {joint} the other way',
            'change its sign (robot.drives)',
            _efforts(len(BASE_JOINTS) + j),
            (joint,),
        )


def leg_orders(regressor: FloatingRegressor) -> Iterator[FloatingCorrection]:
    """Iterate over exchanges of legs, whose joints' columns are then those of other legs."""
    legs = regressor.legs
    if not 1 < len(legs) <= ORDERS or len({len(leg) for leg in legs}) > 1 or not legs[0].size:
        return
    for order in exchanges(len(legs)):
        columns = np.arange(len(regressor.joints))
        columns[np.concatenate(legs)] = np.concatenate([legs[k] for k in order])
        feet = one_of([regressor.contacts[k].name for k in order])
        yield FloatingCorrection(
            'joint_order',
            f'joints of the legs in the order {feet}',
            'name the columns of positions and efforts in the order of the joints (robot.joints)',
            _reordered(columns),
        )


def exchanges(count: int) -> Iterator[tuple[int, ...]]:
    """Iterate over orders that exchange one pair or more of so many things."""
    for order in permutations(range(count)):
        if list(order) != sorted(order) and list(np.argsort(order)) == list(order):
            yield order


def _reordered(columns: np.ndarray) -> Change:
    return lambda recording, regressor: (
        replace(
            recording,
            position=recording.position[:, columns],
            effort=recording.effort[:, columns],
        ),
        regressor,
    )


def axes() -> Iterator[FloatingCorrection]:
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


def _turned(turned: np.ndarray) -> Change:
    def change(
        recording: FloatingRecording, regressor: FloatingRegressor
    ) -> tuple[FloatingRecording, FloatingRegressor]:
        imu = Imu(regressor.imu.rotation @ turned, regressor.imu.origin)
        return recording, replace(regressor, imu=imu)

    return change


def _efforts(column: int | None = None) -> Change:
    def change(
        recording: FloatingRecording, regressor: FloatingRegressor
    ) -> tuple[FloatingRecording, FloatingRegressor]:
        effort = recording.effort.copy()
        effort[:, slice(None) if column is None else column] *= -1.0
        return replace(recording, effort=effort), regressor

    return change


def contacts(
    parts: Sequence[FloatingRecording], regressor: FloatingRegressor
) -> Iterator[FloatingCorrection]:
    """Iterate over flags of contacts that are stuck, late, or of other contacts."""
    names = [contact.name for contact in regressor.contacts]
    lifted = [any(not part.stance[:, i].all() for part in parts) for i in range(len(names))]
    if not any(lifted):
        return

    made: list[tuple[str, str, str, _Stance]] = []
    for i, name in enumerate(names):
        if lifted[i]:
            remedy = 'see its flag in contacts, and contact_threshold'
            made.append(('contact_flags', f'{name} always on the ground', remedy, _always(i)))
    remedy = 'see contacts and contact_threshold'
    made.append(
        (
            'contact_flags',
            'all feet always on the ground',
            remedy,
            _all,
        )
    )
    for lag in LAGS:
        what = f'contacts {abs(lag):g} s {"earlier" if lag > 0.0 else "later"}'
        remedy = 'record contacts with the stamps of the joints'
        made.append(('contact_lag', what, remedy, _late(lag)))
    if len(names) <= ORDERS:
        remedy = 'name the columns of contacts in the order of robot.contacts'
        for order in exchanges(len(names)):
            what = f'contacts in the order {one_of([names[k] for k in order])}'
            made.append(('contact_order', what, remedy, _ordered(order)))
    for code, what, remedy, stance in made:
        changed = [part.stance != stance(part.stance, part.time) for part in parts]
        extent = float(np.concatenate(changed).mean())
        if extent:
            yield FloatingCorrection(
                code, what, remedy, _standing(stance), shared=_standing(_all), extent=extent
            )


_Stance = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Returns flags (m, c) of contacts from those recorded and the stamps (m,) [s]."""


def _standing(stance: _Stance) -> Change:
    return lambda recording, regressor: (
        replace(recording, stance=stance(recording.stance, recording.time)),
        regressor,
    )


def _all(flags: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.ones_like(flags)


def _always(contact: int) -> _Stance:
    return lambda flags, time: flags | (np.arange(flags.shape[1]) == contact)


def _late(lag: float) -> _Stance:
    def moved(flags: np.ndarray, time: np.ndarray) -> np.ndarray:
        rows = np.searchsorted(time, time + lag).clip(0, len(time) - 1)
        return np.asarray(flags[rows])

    return moved


def _ordered(order: Sequence[int]) -> _Stance:
    return lambda flags, time: flags[:, list(order)]


def imu_lags() -> Iterator[FloatingCorrection]:
    """Iterate over times by which the IMU may be late against the joints."""
    for lag in IMU_LAGS:
        way = 'earlier' if lag > 0.0 else 'later'
        yield FloatingCorrection(
            'imu_lag',
            f'signals of the IMU {abs(lag):g} s {way}',
            'record the IMU with the stamps of the joints',
            _imu_moved(lag),
        )


def _imu_moved(lag: float) -> Change:
    def change(
        recording: FloatingRecording, regressor: FloatingRegressor
    ) -> tuple[FloatingRecording, FloatingRegressor]:
        def moved(values: np.ndarray) -> np.ndarray:
            columns = [np.interp(recording.time + lag, recording.time, v) for v in values.T]
            return np.column_stack(columns)

        turned = recording.orientation
        imu = {
            'gyroscope': moved(recording.gyroscope),
            'accelerometer': moved(recording.accelerometer),
            'orientation': None if turned is None else moved(turned),
        }
        return replace(recording, **imu), regressor  # type: ignore[arg-type]

    return change


def imu_place(fit: FloatingFit) -> FloatingCorrection:
    """Return the change of the place of the IMU that fits best."""
    shift = fit.found(_placed, np.full(3, _ARM))
    origin = ', '.join(f'{x:.3f}' for x in fit.regressor.imu.origin + shift)
    away = 100.0 * float(np.linalg.norm(shift))
    return FloatingCorrection(
        'imu_place',
        f'the IMU {away:.2g} cm from where it is said to be, at [{origin}] m of the root link',
        'see robot.imu.frame, or set robot.imu.xyz',
        _placed(shift),
    )


_ARM = 0.1
"""Shift of the IMU from which the slopes of the rows are taken [m]."""


def _placed(shift: np.ndarray) -> Change:
    def change(
        recording: FloatingRecording, regressor: FloatingRegressor
    ) -> tuple[FloatingRecording, FloatingRegressor]:
        imu = Imu(regressor.imu.rotation, regressor.imu.origin + shift)
        return recording, replace(regressor, imu=imu)

    return change


def effort_scale(fit: FloatingFit) -> FloatingCorrection | None:
    """Return the factor of all efforts that fits best; None where no wrench tells it."""
    if all(piece.wrench is None or np.isnan(piece.wrench).all() for piece in fit.pieces):
        return None
    more = fit.found(_scaled, np.array([_SHARE]))
    return FloatingCorrection(
        'effort_scale',
        f'all efforts times {1.0 + more[0]:.3g}',
        'see robot.drives, or the scale of the measured wrenches',
        _scaled(more),
    )


_SHARE = 0.1


def _scaled(more: np.ndarray) -> Change:
    return lambda recording, regressor: (
        replace(recording, effort=(1.0 + float(more[0])) * recording.effort),
        regressor,
    )


def torsion(regressor: FloatingRegressor) -> FloatingCorrection | None:
    """Return moments about the ground's normal at contacts; None where all have them."""
    made = tuple(
        each if each.flat or each.torsion else replace(each, torsion=True)
        for each in regressor.contacts
    )
    if made == regressor.contacts:
        return None
    return FloatingCorrection(
        'contact_torsion',
        'moments about the normal of the ground at the contacts',
        'set torsion: true in robot.contacts: the feet take a moment',
        lambda recording, regressor: (
            _with_room(recording, regressor),
            replace(regressor, contacts=made),
        ),
    )


def _with_room(recording: FloatingRecording, regressor: FloatingRegressor) -> FloatingRecording:
    """Return a recording whose measured wrenches have columns of torsion, which are unknown."""
    wrench = recording.wrench
    if wrench is None or not wrench.size:
        return recording
    parts, first = [], 0
    for contact in regressor.contacts:
        parts.append(wrench[:, first : first + contact.rows])
        first += contact.rows
        if not (contact.flat or contact.torsion):
            parts.append(np.full((len(recording), 1), np.nan))
    return replace(recording, wrench=np.hstack(parts))
