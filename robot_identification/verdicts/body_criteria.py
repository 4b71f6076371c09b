# SPDX-License-Identifier: Apache-2.0
"""Criteria of an arm's bodies: their existence, plausibility and masses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..diagnosis.recording_faults import revolute
from ..model.plausibility import PlausibilityFinding
from ..results.result import Result
from ..version import page
from .joints_apart import gripper_links
from .reason import and_more, COLLISIONS, CONTROL, MORE, Reason, SIMULATION

MASSES = ('mass', 'total_mass')
"""Quantities of the plausibility that a simulator's motions depend on most."""
OTHER_WEIGHT = 1.5
"""Factor of gravity's efforts by those of the prior that no robot's URDF is off by."""
WEIGHT_DEVIATIONS = 3.0
"""Standard deviations by which it has to differ."""
LARGE_OFFSET = 0.5
"""Share of a slide's effort that a drive makes as a constant beside friction and gravity."""
LARGE_TILT = 0.035
"""Tilt of the base [rad] that no floor has: two degrees move a thirtieth of the weight."""
UNCONFIRMED_SCALE = 0.1
"""Relative deviation of a scale that nothing confirms: makers' gains are off by a tenth."""
KNOWN_GAINS = 0.05
"""Relative deviation of gains up to which nothing is said: masses are not known better."""
POOR_GAIN = 0.3
"""Relative deviation of a joint's gain whose error hides a contact there."""


def weight(result: Result) -> Iterator[Reason]:
    """Iterate over gravity that is another one than the prior's, in all that the motion shows."""
    expected = result.predicted
    size = np.nan if expected is None else expected.gravity_size
    loaded = any(fault.code == 'payload' for fault in result.recorded.diagnosis)
    if not size > 0.0 or loaded or result.robot.bodies_alike:
        return
    assert expected is not None
    deviation = 0.01 * expected.gravity * size
    if abs(np.log(size)) < np.log(OTHER_WEIGHT) or abs(size - 1.0) < WEIGHT_DEVIATIONS * deviation:
        return
    yield Reason(
        text=f'gravity in the efforts is {size:.2g} times that of the prior (standard deviation '
        f'{deviation:.1g}): the efforts are off by that factor, or the masses of the URDF are',
        rules_out=(SIMULATION,),
        value=size,
        threshold=OTHER_WEIGHT,
        next_step='check the unit and the scale of the efforts (robot.effort_kind, '
        'robot.drives.effort), and the masses of the URDF',
    )


def consistency(result: Result) -> Iterator[Reason]:
    """Iterate over bodies that cannot exist, which simulators refuse."""
    report = result.consistency
    if report.physical:
        return
    links = [link.link for link in report.links if not link.pseudo_inertia_positive_definite]
    where = ', '.join(links) if len(links) <= 3 else f'{len(links)} links'
    yield Reason(
        short=f'{len(links)} {"link" if len(links) == 1 else "links"} physically inconsistent'
        if links
        else 'a joint is inconsistent',
        text=f'the parameters of {where or "a joint"} are physically inconsistent',
        rules_out=(CONTROL, SIMULATION),
        next_step='identify physically consistent parameters with estimation.method: physical',
        key='estimation.method',
    )


def plausibility(result: Result) -> Iterator[Reason]:
    """Iterate over masses, centres of mass and radii of gyration beside prior and shapes."""
    # a load that was found explains the mass of its link, and of all
    loads = [fault.link for fault in result.recorded.diagnosis if fault.code == 'payload']
    explained = {*loads, *([''] if loads else [])}
    findings = [each for each in result.plausibility.findings if each.link not in explained]
    fingers = gripper_links(result.robot)
    for finding in findings:
        if finding.link in fingers:
            joints = (fingers[finding.link],)
            yield replace(_implausible(finding, 1), joints=joints, remark=True)
    findings = [finding for finding in findings if finding.link not in fingers]
    masses = [finding for finding in findings if finding.quantity in MASSES]
    shapes = [finding for finding in findings if finding.quantity not in MASSES]
    if result.robot.bodies_alike and result.settings.estimation.physical.total_mass is None:
        total = result.link_table().after
        yield Reason(
            text=f'nothing confirms the masses, {total:.3g} kg together: the URDF has one and the '
            'same placeholder for all links',
            value=total,
            unit='kg',
            next_step="compare with the maker's figure; state it in "
            'estimation.physical.total_mass',
            key='estimation.physical.total_mass',
            short=f'nothing confirms the {total:.3g} kg of all links',
        )
    if masses:
        first = max(masses, key=lambda finding: finding.quantity == 'total_mass')
        yield replace(
            _implausible(first, len(masses)),
            rules_out=(CONTROL, SIMULATION) if first.quantity == 'total_mass' else (SIMULATION,),
            next_step='check the gains of the efforts (robot.effort_kind, data.known_load), or '
            'state masses that are known in estimation.physical.links',
            key='robot.effort_kind',
        )
    if shapes:
        yield replace(_implausible(shapes[0], len(shapes)), next_step=MORE['next_step'])


def _implausible(first: PlausibilityFinding, count: int) -> Reason:
    return Reason(
        short=f'implausible {first.quantity.replace("_", " ")}'
        + (f' of {first.link}' if first.link else ''),
        text=f'implausible beside prior and shapes: {first.message}{and_more(count)}',
        value=first.value,
        threshold=first.upper if first.value > first.upper else first.lower,
        unit=first.unit,
    )


def offsets(result: Result) -> Iterator[Reason]:
    """Iterate over constant efforts of slides: they take up a gravity along another direction."""
    standard = result.estimate.standard
    if standard is None:
        return
    # at a joint that turns, gravity is not constant
    turning = dict(zip(result.robot.joints, revolute(result.robot)))
    sizes = np.sqrt((result.system.analysed.effort**2).mean(axis=0))
    for joint, size in zip(result.estimate.fit.joints, sizes):
        share = 100.0 * abs(standard.get(f'{joint.joint}.off')) / max(size, 1e-300)
        if share > 100.0 * LARGE_OFFSET and not turning.get(joint.joint, True):
            yield Reason(
                short=f'constant effort of {joint.joint}: {share:.3g} % of all',
                text=f'a constant effort of {joint.joint} is {share:.4g} % of its effort: gravity '
                'may act along another direction there, or a spring pulls',
                joints=(joint.joint,),
                value=share,
                threshold=100.0 * LARGE_OFFSET,
                unit='%',
                next_step='check robot.gravity, and the mounting of the robot',
                key='robot.gravity',
            )


def mounting(result: Result) -> Iterator[Reason]:
    """Iterate over a tilt of the base that `auto` has found: the gravity of the URDF lacks it."""
    choices = () if result.selection is None else result.selection.choices
    tilts: list[Any] = [choice.value for choice in choices if choice.key == 'robot.base_tilt']
    tilt = float(np.linalg.norm(tilts))
    if tilt > LARGE_TILT:
        yield Reason(
            text=f'the base is tilted by {np.degrees(tilt):.2g} degrees against robot.gravity, by '
            'the recordings themselves; robot.base_tilt makes up for it here, the URDF does not',
            value=tilt,
            threshold=LARGE_TILT,
            unit='rad',
            next_step='check the mounting, and set robot.gravity, mend the base of the URDF, or '
            f'export with --tilt-in-base ({page("how_to/export")})',
            key='robot.gravity',
            remark=True,
        )


def gains(result: Result) -> Iterator[Reason]:
    """Iterate over gains of the drives that are not known well, with what they make of masses."""
    if result.settings.effort_kind != 'motor_current':
        return
    found, mass = result.drive_gains, result.link_table().after
    common, worst, drive = UNCONFIRMED_SCALE, 0.0, ''
    if found is not None:
        # a drive that the load does not determine keeps the gain that was assumed
        spread = np.nan_to_num(found.std / (1.0 if found.reference else found.factors), nan=1.0)
        worst, drive = float(spread.max()), found.drives[int(spread.argmax())]
        scale = found.scale_std if found.reference else float(np.median(spread))
        common = scale if np.isfinite(scale) else UNCONFIRMED_SCALE
    if max(common, worst) <= KNOWN_GAINS:
        return
    text = (
        f'the scale of the gains is known to {100.0 * common:.2g} %, and so are the masses: '
        f'{common * mass:.2g} of {mass:.3g} kg'
    )
    if common == UNCONFIRMED_SCALE:
        text += ", as of makers' gains and masses, since no recording confirms it"
    if worst > max(common, KNOWN_GAINS):
        text += f'; the gain of {drive}, and its efforts, to {100.0 * worst:.2g} %'
    yield Reason(
        short=f'the gain of {drive} is known to {100.0 * worst:.2g} %'
        if worst > POOR_GAIN
        else f'masses known to {100.0 * common:.2g} %, as are the gains',
        text=text,
        rules_out=(COLLISIONS,) if worst > POOR_GAIN else (),
        joints=(drive,) if worst > KNOWN_GAINS else (),
        value=common * mass,
        unit='kg',
        next_step='record the same motion with a known load (data.known_load, '
        f'{page("how_to/currents")})',
        key='data.known_load',
    )
