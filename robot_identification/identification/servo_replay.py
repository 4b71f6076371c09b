# SPDX-License-Identifier: Apache-2.0
"""Recorded commands played to a robot with servos, before and after its identification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..data.commands import CommandRecording, stretches_of, whole_motions
from ..errors import IdentificationError
from ..estimation.tables import number, rule
from ..results.servo_result import MotionTrace, StoredServoResult, total
from ..servo.identification import rollout_errors, whole_errors
from ..servo.model import ServoModel
from ..servo.own_output import without_own_output
from ..servo.parameters import ServoParameters

TRACE_SAMPLES = 3000
"""Samples of the motion that a page shows; of more, every k-th."""


@dataclass(frozen=True)
class CommandReplay:
    """
    Root mean square distances of rollouts from the recorded positions.

    Attributes
    ----------
    joints:
        Names, in the order of the columns.
    sources:
        Names of the recordings.
    motion:
        (n,) root mean squares of the positions about their means [rad or m].
    before, after:
        (n,) errors of the robot file and of the identified robot over whole motions [rad or m].
    anew:
        (n,) those of the identified robot in rollouts that begin anew after each gap [rad or m].
    traces:
        Motion of the first recording.

    """

    joints: tuple[str, ...]
    sources: tuple[str, ...]
    motion: np.ndarray
    before: np.ndarray
    after: np.ndarray
    anew: np.ndarray
    traces: MotionTrace

    def summary(self) -> str:
        """Return a table for people."""
        rows = [*zip(self.joints, self.motion, self.before, self.after, strict=True)]
        mean = [np.sqrt((v**2).mean()) for v in (self.motion, self.before, self.after)]
        rows.append(('all', *mean))
        width = max(len(name) for name, *_ in rows)
        lines = [
            rule('Error of the position by commands alone [rad or m]'),
            f'{"joint":<{width}}' + ''.join(f'{h:>14}' for h in ('motion', 'before', 'after')),
        ]
        lines += [
            f'{name:<{width}}' + ''.join(f'{number(value):>14}' for value in values)
            for name, *values in rows
        ]
        lines.append(f'root mean squares over {", ".join(self.sources)}')
        if (self.anew != self.after).any():
            lines.append(f'in rollouts that begin anew after each gap: {number(total(self.anew))}')
        return '\n'.join(lines)


def replay_commands(
    result: StoredServoResult, recordings: Sequence[CommandRecording]
) -> CommandReplay:
    """
    Play recorded commands to the robot of the file and to the identified one.

    Each motion is one rollout from its first measured state, as long as commands are known.

    Raises
    ------
    IdentificationError
        for a result without the parameters of the robot file, or recordings without a stretch.

    """
    if result.nominal is None:
        raise IdentificationError(
            f"the result '{result.name}' has no parameters of the robot file",
            remedy='identify again: it was written by an older version',
        )
    model = ServoModel(result.robot, result.servo, result.simulator, result.reference)
    recordings = without_own_output(recordings, result.servo)
    stretches = stretches_of(recordings)
    marked = [replace(each, held_out=np.ones(len(each), bool)) for each in recordings]
    motions = whole_motions(marked)
    before, after = (
        whole_errors(model, motions, parameters)
        for parameters in (result.nominal, result.parameters)
    )
    positions = np.concatenate([stretch.position[stretch.counted()] for stretch in stretches])
    return CommandReplay(
        result.robot.joints,
        tuple(recording.source for recording in recordings),
        positions.std(axis=0),
        before,
        after,
        rollout_errors(model, recordings, result.parameters),
        motion_trace(model, stretches[0], result.nominal, result.parameters),
    )


def motion_trace(
    model: ServoModel,
    stretch: CommandRecording,
    nominal: ServoParameters,
    parameters: ServoParameters,
) -> MotionTrace:
    """Return the motion of a stretch, as measured and simulated."""
    before, after = model.rollouts([nominal, parameters], stretch)
    step = slice(None, None, max(1, len(stretch) // TRACE_SAMPLES))
    return MotionTrace(
        stretch.time[step],
        stretch.command[step],
        stretch.position[step],
        before[step],
        after[step],
        None if stretch.held_out is None else stretch.held_out[step],
    )
