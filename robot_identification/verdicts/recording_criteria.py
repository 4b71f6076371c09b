# SPDX-License-Identifier: Apache-2.0
"""Criteria of an arm's recordings: their faults, delays, and what their motion determines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..diagnosis.recording_faults import DECISIVE, DELAYS
from ..errors import one_of
from ..estimation.estimate import Estimate, JointFit
from ..estimation.plot_samples import PlotSamples
from ..results.result import Result
from .fit_criteria import unseen
from .reason import ALL, and_more, clause, COLLISIONS, CONTROL, MORE, Reason, SIMULATION, Step

PARTLY: dict[str, tuple[str, ...]] = {
    'locked_joint': (),
    'missing_samples': (),
    'late_samples': (),
    'range': (),
    'velocity': (),
    'contact_moves': (),
    'contact_torsion': (),
    'saturation': (COLLISIONS,),
    'still_joint': (CONTROL, COLLISIONS),
    'modelled_efforts': (CONTROL, COLLISIONS, SIMULATION),
    'disturbed': (CONTROL, COLLISIONS, SIMULATION),
    'no_effort': (CONTROL, COLLISIONS, SIMULATION),
    'brake': (CONTROL, COLLISIONS, SIMULATION),
    'load': (CONTROL, COLLISIONS, SIMULATION),
    'negative_friction': (CONTROL, COLLISIONS, SIMULATION),
}
"""Findings with which the model holds for some uses; all others make it wrong altogether."""
LONG_DELAY = 0.015
"""Delay of most joints [s] that biases parameters: at 2 Hz it turns efforts by 11 degrees."""
DELAYED_SHARE = 0.05
"""Share of a joint's effort that its delay moves; less is lost in the error of the fit."""
SIGNIFICANT_STDS = 3.0
"""Standard deviations above which a delay differs from zero."""
DELAY_IMPROVEMENT = 1.01
"""Ratio of residuals without and with delays above which these count, as terms of `auto`."""
POOR_CONDITION = 1000.0
"""Condition number, column-scaled: relative errors of the effort may grow by as much."""
FAIR_CONDITION = 200.0
"""The same for a remark: planned motions have tens."""
KNOWN_STD = 30.0
"""Relative standard deviation [%] up to which a parameter is known, as of essential ones."""
KNOWN_SHARE = 0.25
"""Share of known base parameters: motions planned for identification reach 40 to 60 %."""


def diagnosis(result: Result) -> Iterator[Reason]:
    """Iterate over faults of the recordings."""
    compensated = np.any(np.asarray(result.settings.signals.effort_delay) > 0.0)
    for code in dict.fromkeys(finding.code for finding in result.recorded.diagnosis):
        alike = [finding for finding in result.recorded.diagnosis if finding.code == code]
        first, mended = alike[0], code == 'effort_delay' and compensated
        note = '; signals.effort_delay makes up for it' if mended else ''
        minor = first.minor
        if code == 'payload':  # the parameters are those of the robot with it
            note = '; the parameters are those of the robot with what it carries'
        elif minor:
            note = (
                f'; all efforts together are fitted {first.improvement_of_all:.3g} times as well, '
                'so that the model may lack something there instead'
            )
        says = (
            'something may be wrong with the recordings'
            if minor
            else 'the recordings are at fault'
        )
        yield Reason(
            text=f'{says} ({code}): {first.statement}{and_more(len(alike))}{note}',
            rules_out=() if mended or minor else PARTLY.get(code, ALL),
            joints=tuple(joint for finding in alike for joint in finding.joints),
            value=first.improvement,
            short=f'{code}: {clause(first.statement)}',
            next_step=first.remedy,
        )


def delay(result: Result) -> Iterator[Reason]:
    """Iterate over delays of efforts behind positions that are left, or that were chosen."""
    yield from _chosen_delay(result)
    late = result.recorded.effort_delay
    if late is None or any(
        finding.code == 'effort_delay' for finding in result.recorded.diagnosis
    ):
        return
    if not late.gain > DELAY_IMPROVEMENT:  # with these delays nothing fits better
        return
    with np.errstate(invalid='ignore'):
        significant = np.abs(late.delay) > SIGNIFICANT_STDS * late.std
        # what lags longer than any effort is another error of the model
        significant &= (late.delay > min(DELAYS)) & (late.delay < max(DELAYS))
    lag = np.where(significant, np.abs(late.delay), 0.0)
    moved = lag * _effort_rates(result.system.analysed, result.estimate)
    typical, largest = float(np.median(lag)) if lag.size else 0.0, float(lag.max(initial=0.0))
    joints = tuple(j for j, share in zip(late.joints, moved) if share > DELAYED_SHARE)
    remedy = 'record efforts and positions with the same stamps'
    if result.selection is None:
        remedy += ', or let `auto` choose signals.effort_delay'
    step = Step(next_step=remedy, key='signals.effort_delay')
    falls = f'corrected, the residual falls by {100.0 * (1.0 - 1.0 / late.gain):.2g} %'
    if typical > LONG_DELAY:
        minor = late.gain < DECISIVE
        effect = falls if minor else 'inertia and friction are biased'
        yield Reason(
            short=f'efforts are {_milliseconds(typical)} off the positions',
            text=f'efforts and positions are {_milliseconds(typical)} apart (median of the '
            f'joints): {effect}',
            rules_out=() if minor else ALL,
            value=typical,
            threshold=LONG_DELAY,
            unit='s',
            **step,
        )
    elif joints:
        yield Reason(
            short=f'efforts are {_milliseconds(largest)} off the positions',
            text=f'efforts and positions are up to {_milliseconds(largest)} apart at '
            f'{one_of(joints)}: {falls}',
            joints=joints,
            value=largest,
            unit='s',
            **step,
        )


def _chosen_delay(result: Result) -> Iterator[Reason]:
    """Delay of efforts that `auto` has found and makes up for: recordings are not as they seem."""
    choices = () if result.selection is None else result.selection.choices
    largest = float(np.max(result.settings.signals.effort_delay))
    if largest > LONG_DELAY and 'signals.effort_delay' in {c.key for c in choices}:
        yield Reason(
            text=f'the recorded efforts are up to {1e3 * largest:.3g} ms later than the '
            'positions, by the recordings themselves; signals.effort_delay makes up for it',
            value=largest,
            threshold=LONG_DELAY,
            unit='s',
            key='signals.effort_delay',
            remark=True,
        )


def _milliseconds(time: float) -> str:
    """Return a time [s] in words, with two digits and no exponent."""
    return f'{1e3 * time:.0f} ms' if time >= 0.01 else f'{1e3 * time:.2g} ms'


def _effort_rates(trace: PlotSamples, estimate: Estimate) -> np.ndarray:
    """Return (n,) root mean square rate of change of the predicted effort by the effort [1/s]."""
    fitted = trace.fit(estimate.base.values)
    within = np.diff(trace.segment) == 0
    steps = np.diff(trace.time)[within]
    rates = np.diff(fitted.predicted, axis=0)[within] / steps[:, None]
    size = np.sqrt((fitted.measured**2).mean(axis=0))
    rate = np.sqrt((rates**2).mean(axis=0))
    return np.asarray(np.divide(rate, size, out=np.zeros_like(rate), where=size > 0.0))


def excitation(result: Result) -> Iterator[Reason]:
    """Iterate over what the motion does not determine of the parameters."""
    estimate = result.estimate
    count, known = len(estimate), known_parameters(estimate)
    condition = estimate.rows.condition_number
    poor = condition > POOR_CONDITION
    if result.robot.floating:
        yield from _floating_base(result)
    elif poor or known < KNOWN_SHARE * count:
        yield Reason(
            short=f'{known} of {count} base parameters are known',
            text=f'the motion determines {known} of {count} base parameters to {KNOWN_STD:g} % '
            f'(condition number {condition:.3g})',
            rules_out=() if unseen(result) else ALL,
            value=condition if poor else known / max(count, 1),
            threshold=POOR_CONDITION if poor else KNOWN_SHARE,
            **MORE,
        )
    elif condition > FAIR_CONDITION:
        yield Reason(
            text=f'the condition number is {condition:.3g}: a planned motion has tens',
            value=condition,
            threshold=FAIR_CONDITION,
            remark=True,
            **MORE,
        )
    if missing := count - int(np.count_nonzero(estimate.identifiability.excited)):
        yield Reason(
            text=f'{missing} of {count} base parameters are not excited and keep the value of the '
            'prior',
            value=float(missing),
            threshold=0.0,
            remark=True,
            **MORE,
        )


TOTAL_MASS_STD = 5.0
"""
Relative standard deviation of a floating base's total mass above which it is not known [%].

Of its many base parameters, products of inertia of light legs matter to no effort; the total mass
is what a robot on its feet shows first, and one that hangs or stands still does not.
"""


FLOATING_ERROR = 8.0
"""
Error of the fit of a floating base above which something is not what it is taken for [%].

An IMU that is off by 10 cm leaves 10 %, one that is turned by a quarter 27 to 40.
"""


def _floating_base(result: Result) -> Iterator[Reason]:
    """Iterate over what the motion of a floating base does not determine."""
    estimate = result.estimate
    place = estimate.base.layout.names.index(f'{result.robot.layout.links[0]}.m')
    std = float(estimate.relative_std[place])
    mass = float(estimate.base.values[place])
    seen = bool(estimate.identifiability.excited[place]) and np.isfinite(std)
    if not (seen and std <= TOTAL_MASS_STD and mass > 0.0):
        text = f'the motion determines the total mass to {std:.3g} %, as {mass:.3g} kg'
        yield Reason(
            short='the total mass is not known',
            text=text if seen else 'nothing in the motion depends on the total mass',
            rules_out=ALL,
            value=std if seen else 100.0,
            threshold=TOTAL_MASS_STD,
            unit='%',
            **MORE,
        )
    error = estimate.fit.relative_error
    if error > FLOATING_ERROR:
        yield Reason(
            short='IMU, contacts and efforts do not fit together',
            text=f'the fit leaves {error:.2g} % of the efforts without contact forces',
            rules_out=ALL,
            value=error,
            threshold=FLOATING_ERROR,
            unit='%',
            next_step="check the IMU's axes and place (robot.imu), contacts and signs of efforts",
            key='robot.imu',
        )
    judged, where = estimate.fit.joints, 'the fit'
    if result.validations:
        judged, where = result.validations[-1].joints, one_of(result.validations[-1].sources)
    force, moment, joints = (_pooled(rows) for rows in (judged[:3], judged[3:6], judged[6:]))
    yield Reason(
        text=f'force and moment on the base are fitted to {force:.2g} and {moment:.2g} % of what '
        f'contacts leave of them, efforts of the joints to {joints:.2g} % ({where})',
        value=max(force, moment),
        unit='%',
        remark=True,
    )
    yield from _scale(result, mass)


def _scale(result: Result, mass: float) -> Iterator[Reason]:
    """Iterate over what recordings of joints, IMU and contacts cannot tell."""
    table = result.link_table()
    known = f' +- {table.std:.2g}' if np.isfinite(table.std) else ''
    times = f', {mass / table.before:.3g} times the URDF' if table.before > 0.0 else ''
    if not _measures_wrenches(result):
        yield Reason(
            text="a floating base: masses are in units of the efforts' scale, since efforts that "
            'are all 20 % too large are those of a robot that is 20 % heavier: weigh the robot, '
            f'which has {mass:.4g}{known} kg by its efforts{times}',
            value=0.0,
            threshold=0.0,
            remark=True,
        )
    if any(c.kind != 'flat' and not c.torsion for c in result.settings.model.contacts):
        yield Reason(
            text='feet are taken to carry no moment: torsional friction raises the error of the '
            'fit, and hardly shows otherwise (torsion: true in robot.contacts allows for it); a '
            'foot that slips changes nothing',
            value=0.0,
            threshold=0.0,
            remark=True,
        )


def _measures_wrenches(result: Result) -> bool:
    """Return whether recordings have measured wrenches, which tell the scale of the efforts."""
    data = (result.experiment or {}).get('data') or {}
    return any(entry.get('wrenches') for entry in data.get('identification') or ())


def _pooled(rows: Sequence[JointFit]) -> float:
    """Return the relative error of several rows together [%]."""
    errors = np.array([row.rmse for row in rows])
    relative = np.array([row.relative_error for row in rows])
    sizes = np.divide(100.0 * errors, relative, out=np.zeros_like(errors), where=relative > 0.0)
    return float(100.0 * np.linalg.norm(errors) / max(float(np.linalg.norm(sizes)), 1e-300))


def known_parameters(estimate: Estimate) -> int:
    """Count base parameters that the recording determines."""
    with np.errstate(invalid='ignore'):
        return int(np.count_nonzero(estimate.relative_std <= KNOWN_STD))
