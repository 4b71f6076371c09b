# SPDX-License-Identifier: Apache-2.0
"""
Node ``regressor``: rows of ``effort = regressor * parameters``, on request and for live states.

Live rows are computed only while there are subscribers.  Their motion is that of
`LocalFit`: all signals belong to one moment, half a window ago, and the message's stamp is that
moment.  The velocity that a driver reports is not used: its delay is unknown.  Joint states are
fetched some at a time: waiting for each one costs more than all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
import sys
import time
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node
from rclpy.timer import Timer
from robot_identification_msgs.msg import Regressor as RegressorMessage
from robot_identification_msgs.srv import GetRegressor

from ..data.flat_motion import motion_of, require_size
from ..data.joint_state_stream import JointStateStream, require_numbers
from ..data.recording import Motion
from ..errors import IdentificationError
from ..model.robot import Robot
from ..options.fields import option
from ..regressor import build, ModelSettings, Regressor
from ..signals.windows import LocalFit, LocalState, too_sparse
from .common import (
    declare_options,
    FetchedMessages,
    JOINT_STATES,
    now,
    run,
    serve,
    steady_timer,
)
from .common.messages import regressor_message, time_message
from .common.robot_description import RobotDescription

PERIOD = 0.005
"""Longest period of fetching joint states [s]."""

SILENCE = 2.0
"""Time without live rows after which the reason is logged [s]."""


@dataclass(frozen=True)
class RegressorOptions:
    """Parameters of the regressor node, beside the robot's and the model's."""

    rate: float = option(
        50.0, doc='Rate of live regressors', unit='Hz', minimum=0.1, maximum=1000.0, read_only=True
    )
    window: float = option(
        0.04,
        doc='Time of joint states that a live velocity and acceleration come from',
        unit='s',
        minimum=0.002,
        maximum=1.0,
        read_only=True,
    )


class RegressorNode(Node):
    """Adapter between the node's topics and service and the robot's regressor."""

    def __init__(self) -> None:
        super().__init__('regressor')
        self._options = declare_options(self, RegressorOptions)
        self._settings = declare_options(self, ModelSettings, 'robot')
        self._regressor: Regressor | None = None
        self._stream: JointStateStream | None = None
        self._robot = RobotDescription(self, self._on_robot, model=self._settings)
        self._states: FetchedMessages | None = None
        self._fetching: Timer | None = None
        self._begin()
        # in wall time: a simulation that stands still is reported, too
        steady_timer(self, 0.5, self._on_timer)
        serve(self, GetRegressor, '~/get_regressor', self._get_regressor)
        self._publisher = self.create_publisher(
            RegressorMessage,
            '~/regressor',
            JOINT_STATES,
            event_callbacks=PublisherEventCallbacks(matched=self._on_matched),
        )

    def _on_robot(self, robot: Robot) -> None:
        self._regressor, self._stream = build(robot, self._settings), None

    # ---------------------------------------------------------------------------------- requests

    def _get_regressor(
        self, request: GetRegressor.Request, response: GetRegressor.Response
    ) -> None:
        regressor = self._described_regressor()
        joints = self._joints()
        signals = request.position, request.velocity, request.acceleration
        motion = motion_of(joints, *signals, given=request.joints)
        require_size(len(motion.position), len(joints), len(regressor.layout))
        rows = regressor.rows(motion)
        stamp = now(self).to_msg()
        response.regressor = regressor_message(rows, joints, regressor.layout, stamp)

    def _joints(self) -> tuple[str, ...]:
        """Names of what the regressor's states are of: the joints, and motors of elastic ones."""
        return tuple(getattr(self._regressor, 'joints', self._robot.robot().joints))

    def _described_regressor(self) -> Regressor:
        self._robot.robot()  # raises without one
        assert self._regressor is not None  # `_on_robot` was called with it
        return self._regressor

    # ------------------------------------------------------------------------------- live states

    def _on_matched(self, event: Any) -> None:
        """Subscribe to the joint states as long as there are subscribers of live rows."""
        if event.current_count and self._states is None:
            self._begin()
            # best effort matches drivers of any reliability
            self._states = FetchedMessages(self, reliable=False)
            period = min(PERIOD, 0.5 / self._options.rate)
            # in wall time, as the messages come
            self._fetching = steady_timer(self, period, self._fetch)
        elif not event.current_count and self._states is not None:
            self.destroy_timer(self._fetching)
            self._states.destroy()
            self._states = None

    def _begin(self) -> None:
        self._fit = LocalFit(self._options.window)
        self._due = 0
        self._arrived = self._fitted = time.monotonic()
        self._since_fit = 0

    def _fetch(self) -> None:
        assert self._states is not None
        for message, _ in self._states.taken():
            self._on_joint_state(message)

    def _on_joint_state(self, message: bytes) -> None:
        self._arrived = time.monotonic()
        try:
            joints = self._joints()
            if self._stream is None:
                self._stream = JointStateStream(joints, needs_effort=False)
            sample = self._stream.read(message)
            require_numbers(sample.position, 'position', joints)
            effort = sample.effort if sample.effort.size else None
            self._fit.push(sample.stamp, sample.position, effort)
            self._since_fit += 1
            if sample.stamp < self._due - self._period or sample.stamp >= self._due:
                self._due = sample.stamp + self._period
                self._publish(self._fit.state())
        except IdentificationError as error:
            self.get_logger().warning(str(error), throttle_duration_sec=5.0)

    def _on_timer(self) -> None:
        """Log why there are no live rows, where there are subscribers."""
        if self._states is None:
            return
        silence, idle = time.monotonic() - self._arrived, time.monotonic() - self._fitted
        if silence > SILENCE:
            self.get_logger().warning(
                f"no joint states for {silence:.0f} s on '{self._states.topic_name}': see whether "
                'the driver runs',
                throttle_duration_sec=5.0,
            )
        elif idle > SILENCE and self._since_fit > 1:
            reason = too_sparse(self._since_fit / idle, self._options.window)
            self.get_logger().warning(
                f'no rows for {idle:.0f} s: {reason}', throttle_duration_sec=5.0
            )

    @property
    def _period(self) -> int:
        return round(1e9 / self._options.rate)

    def _publish(self, state: LocalState | None) -> None:
        if state is None:
            return
        self._fitted, self._since_fit = time.monotonic(), 0
        regressor = self._described_regressor()
        rows = regressor.rows(
            Motion(state.position[None], state.velocity[None], state.acceleration[None])
        )
        stamp = time_message(state.stamp)
        joints, layout = self._joints(), regressor.layout
        self._publisher.publish(regressor_message(rows, joints, layout, stamp, state.effort))


def main(args: Sequence[str] | None = None) -> int:
    """Run the node ``regressor``."""
    return run(RegressorNode, args)


if __name__ == '__main__':
    sys.exit(main())
