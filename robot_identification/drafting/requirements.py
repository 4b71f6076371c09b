# SPDX-License-Identifier: Apache-2.0
"""Requirements on recordings before an experiment is drafted from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..data.commands import CommandRecording
from ..data.lost_signs import lost_sign
from ..data.recognition import EXPERIMENT, file_title, ROBOT
from ..data.recording import Recording, recording_error
from ..data.sampling import sample_rate
from ..diagnosis.locked_joints import RecordedJoints
from ..diagnosis.recording_faults import RecordingFault, revolute, STILL
from ..errors import SettingsError
from ..model.robot import Robot
from ..selection.model_selection import SEARCH
from ..signals import SignalSettings
from ..signals.streaming import gridded
from .settings import DraftSettings

_FAR = 4.0
"""Times the range of the URDF that positions in its unit do not exceed."""

_UNIT_REMEDIES = {
    'rad': 'give --degrees or --ticks, or --gear-ratios if it is that of the motor',
    'm': 'give --gear-ratios with recorded positions by metre for it, 1 for joints in rad or m',
    'mm': 'give --gear-ratios with 1000 for it, 1 for joints in rad, degrees or m',
}
"""What maps positions in another unit, by the unit of the URDF or the likely one."""


def require_units(
    robot: Robot,
    recordings: Sequence[Recording | CommandRecording],
    remedy: str | None = None,
) -> None:
    """Require positions that are hardly those of motors, in degrees or in mm."""
    room = robot.limits.upper - robot.limits.lower
    turning = np.array(revolute(robot))
    for recording in recordings:
        moved = np.ptp(recording.position, axis=0)
        with np.errstate(invalid='ignore', divide='ignore'):
            times = np.where(np.isfinite(room) & (room > 0.0), moved / room, 0.0)
        texts, ways, joints = [], [], []
        for kind, unit in ((turning, 'rad'), (~turning, 'm')):
            j = int(np.argmax(np.where(kind, times, 0.0)))
            if times[j] > _FAR and kind[j]:
                text = f"position of joint '{robot.joints[j]}' covers {moved[j]:.4g} {unit}, "
                text += f'{times[j]:.3g} times its range in the URDF'
                in_mm = unit == 'm' and moved[j] / 1000.0 <= room[j]
                texts.append(text + (': it seems to be in mm' if in_mm else ''))
                ways.append(_UNIT_REMEDIES['mm' if in_mm else unit])
                joints.append(robot.joints[j])
        if texts:
            way = remedy or ' and '.join(ways)
            raise recording_error(recording.source, '; '.join(texts), way, joint=joints[0])


NORMALISED = 100.0
"""Largest position of joints whose range is normalised, as LeRobot writes without degrees."""
_AT_END = 1e-4
"""Distance from it within which a position is clipped there."""


def require_angles(
    robot: Robot, recordings: Sequence[Recording | CommandRecording], settings: DraftSettings
) -> None:
    """Require positions that are not normalised to +-100 of the joints' ranges."""
    if settings.ticks is not None or settings.gear_ratios or settings.position_offsets:
        return
    turning = np.array(revolute(robot))
    unit = np.degrees(1.0) if settings.degrees else 1.0
    for recording in recordings:
        joints = [robot.joints.index(joint) for joint in recording.joints]
        position = unit * recording.position[:, turning[joints]]
        if not position.size or np.abs(position).max() > NORMALISED + _AT_END:
            continue
        ends = np.stack([position.max(axis=0), -position.min(axis=0)])
        if (ends > NORMALISED - _AT_END).sum() > 1:
            raise recording_error(
                recording.source,
                'positions end at 100 exactly: they seem to be normalised to +-100, as LeRobot '
                'writes them, and are neither degrees nor rad',
                'record with use_degrees, or give --gear-ratios (100 by half of each range in '
                'rad) and --position-offsets (its middle)',
            )


SHORTEST = 0.3
"""Duration below which no recording can be filtered [s]: `identify` refuses it."""


def require_length(recordings: Sequence[Recording]) -> None:
    """Require recordings that are fast enough, and long enough between gaps, to be filtered."""
    for recording in recordings:
        duration = float(np.ptp(recording.time)) if len(recording) else 0.0
        if duration < SHORTEST:
            raise recording_error(
                recording.source,
                f'has {len(recording)} samples in {duration:.3g} s, too few for velocity and '
                'acceleration',
                'record a motion for longer at the rate of the driver; poses that were held one '
                'by one are none',
            )
        rate = sample_rate(recording)
        cutoffs = [cutoff for cutoff in SEARCH.cutoffs if cutoff < 0.5 * rate]
        if not cutoffs:
            raise recording_error(
                recording.source,
                f'is of {rate:.3g} Hz, too slow for accelerations',
                'record at the rate of the driver, 50 Hz at least',
            )
        next(gridded(recording, SignalSettings(cutoff=max(cutoffs)), None), None)


def require_signs(recordings: Sequence[Recording]) -> None:
    """Require efforts with their signs."""
    for recording in recordings:
        for joint, effort in zip(recording.joints, recording.effort.T, strict=True):
            if remedy := lost_sign(effort):
                text = f"effort of joint '{joint}' has negative numbers without their sign"
                raise recording_error(recording.source, text, remedy, joint=joint)


def require_rate(
    recordings: Sequence[Recording], rate: float | None, faults: Sequence[RecordingFault]
) -> None:
    """Require that recorded velocities do not contradict a rate that is given."""
    fault = next((each for each in faults if each.code == 'rate'), None)
    if rate is not None and fault is not None:
        remedy = 'give that rate, or none, or a table without the velocities if these are wrong'
        raise recording_error(recordings[0].source, fault.evidence, remedy)


def require_moved(robot: Robot, recordings: Sequence[Recording], settings: DraftSettings) -> None:
    """Require that joints move with the gear ratios that are given, and not only without them."""
    if settings.gear_ratios is None:
        return
    joints = recordings[0].joints
    chosen = [robot.joints.index(joint) for joint in joints]
    room = (robot.limits.upper - robot.limits.lower)[chosen]
    moved = np.max([np.ptp(recording.position, axis=0) for recording in recordings], axis=0)
    plain = moved * np.abs(settings.gear_ratios)
    turning = np.array(revolute(robot))[chosen]
    if (moved < STILL[1]).all() and (plain[turning] > STILL[1]).any() and (plain <= room).all():
        text = (
            f'with the gear ratios given, no joint moves by more than {moved.max():.3g} rad; '
            'without them, all positions lie within the limits of the URDF'
        )
        ratios = ' '.join(f'{ratio:g}' for ratio in settings.gear_ratios)
        remedy = (
            'positions are at the joints: give --gains in place of --gear-ratios, as '
            f'--effort-kind motor_torque --gains {ratios}'
        )
        raise recording_error(recordings[0].source, text, remedy)


def require_held(
    robot: Robot,
    joints: Sequence[str],
    still: Mapping[str, float],
    seen: Sequence[RecordedJoints],
) -> None:
    """Require that no joint without efforts moves which carries joints with efforts."""
    supports, names = robot.opened.model.supports, robot.opened.model.names
    ids = [robot.opened.model.getJointId(joint) for joint in joints]
    carriers = {names[k] for i in ids for k in supports[i]} - {*joints, *still}
    for each in seen:
        for joint, (low, high) in each.positions.items():
            if joint in carriers and high - low > STILL[1]:
                text = (
                    f"joint '{joint}' moves from {low:.4g} to {high:.4g} and has no efforts that "
                    'are recognised, and it carries joints that have'
                )
                remedy = 'name its effort as that of the others, or record it at one place'
                raise recording_error(each.source, text, remedy, joint=joint)


def require_order(robot: Path, recordings: Sequence[Path]) -> None:
    """Raise SettingsError where the files show that the robot does not come first, or alone."""
    titles = {path: file_title(path) for path in (robot, *recordings)}
    robots = [path for path in recordings if titles[path] == ROBOT]
    if titles[robot] in (ROBOT, None) and not robots:
        return
    texts = [f"'{path}' is {title}" for path, title in titles.items() if title]
    first = str(robots[0]) if robots else 'ROBOT.urdf'
    others = [str(path) for path, title in titles.items() if title not in (ROBOT, EXPERIMENT)]
    raise SettingsError(
        ', '.join(texts),
        file=str(robot),
        remedy='the URDF comes first, then recordings: robot-identification init '
        + ' '.join([first, *(others or ['RECORDING'])]),
    )
