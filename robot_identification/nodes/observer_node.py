# SPDX-License-Identifier: Apache-2.0
"""
Node ``observer``: effort by an identified model, and external efforts, for each joint state.

The model, its uncertainty and the drives' gains are those of a result file.  For the method and
the threshold see `robot_identification.loads.momentum_observer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
import sys
import time

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from ..data.drives import Drives
from ..data.joint_state_stream import ForeignStateError, JointStateStream, require_numbers
from ..errors import RecordingError
from ..identification.revalidation import observer_of
from ..loads.momentum_observer import EffortWatch, Observation, ObserverSettings
from ..online.filters import BEYOND
from ..online.settings import require_a_value_a_joint
from ..options.fields import option
from ..results.stored_result import read_result
from ..signals.windows import too_sparse
from .common import declare_options, FetchedMessages, JOINT_STATES, LATCHED, run, steady_timer
from .common.joint_states import StateMessages
from .common.messages import diagnostic_status, diagnostics

SILENCE = 2.0
"""Time without observations after which diagnostics warn [s]."""

DEPTH = 500
"""Joint states that may wait; older ones are dropped."""

PERIOD = 0.005
"""Period of fetching joint states [s]: waiting for each one costs more than all the rest."""


@dataclass(frozen=True)
class ObserverOptions:
    """Parameters of the observer node, beside the observer's."""

    result: str = option(
        '',
        doc='The result.yaml of the identified robot, or its folder; empty: nothing is observed',
        read_only=True,
    )
    window: float = option(
        0.08,
        doc='Time of joint states that velocity and acceleration come from; what is published '
        'belongs to its middle',
        unit='s',
        minimum=0.002,
        maximum=1.0,
        read_only=True,
    )


class ObserverNode(Node):
    """Adapter between joint states and `EffortWatch`."""

    def __init__(self) -> None:
        super().__init__('observer')
        self._options = declare_options(self, ObserverOptions)
        self._settings = declare_options(self, ObserverSettings)
        self._watch: EffortWatch | None = None
        self._robot = self._trouble = ''
        self._contacts: tuple[str, ...] | None = None
        self._observed = time.monotonic()
        self._outputs = {
            name: self.create_publisher(JointState, f'~/{name}', JOINT_STATES)
            for name in (
                'predicted_effort',
                'measured_effort',
                'external_effort',
                'external_effort_threshold',
            )
        }
        self._contact_out = self.create_publisher(Bool, '~/contact', LATCHED)
        self._diagnostics_out = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        if self._options.result:
            self._use(Path(self._options.result).expanduser())
        self._show(())
        # best effort matches drivers of any reliability
        self._states = FetchedMessages(self, depth=DEPTH, reliable=False)
        # in wall time: a simulation that stands still is reported, too
        steady_timer(self, PERIOD, self._fetch)
        steady_timer(self, 1.0, self._on_timer)

    def _use(self, path: Path) -> None:
        """Observe with the model of a result file."""
        stored = read_result(path / 'result.yaml' if path.is_dir() else path)
        self._robot, self._joints = stored.robot.name, stored.robot.joints
        require_a_value_a_joint(len(self._joints), stored.settings.drives)
        observer = observer_of(stored, self._settings)
        self._drives = stored.settings.drives or Drives()
        self._stream = JointStateStream(self._joints)
        self._watch = EffortWatch(observer, self._options.window)
        signals = ('effort',), ('position', 'velocity', 'effort')
        self._messages = [StateMessages(self._joints, each) for each in signals]
        self._observed, self._since = time.monotonic(), 0
        self.get_logger().info(f"robot '{self._robot}' with joints {', '.join(self._joints)}")

    def _fetch(self) -> None:
        for message, _ in self._states.taken():
            self._on_joint_state(message)

    def _on_joint_state(self, message: bytes) -> None:
        if self._watch is None:
            return
        try:
            values = self._stream.read(message)
            if values.stamp < 0:
                raise RecordingError('a stamp is negative', remedy='see what the driver reports')
            position = self._drives.joint_position(values.position[None])[0]
            effort = self._drives.joint_effort(values.effort[None])[0]
            require_numbers(position, 'position', self._joints, BEYOND)
            require_numbers(effort, 'effort', self._joints, BEYOND)
        except ForeignStateError:
            return  # a gripper's, for example, on the same topic
        except RecordingError as error:
            self._trouble = str(error)
            return
        self._since += 1
        observation = self._watch.push(values.stamp, position, effort)
        if observation is None:
            return
        self._publish(observation)

    def _publish(self, observation: Observation) -> None:
        self._observed, self._since, self._trouble = time.monotonic(), 0, ''
        state, external = observation.state, observation.external
        motion = {'position': state.position, 'velocity': state.velocity}
        for name, efforts, more in (
            ('predicted_effort', external.predicted, motion),
            ('measured_effort', observation.measured, motion),
            ('external_effort', external.effort, {}),
            ('external_effort_threshold', external.threshold, {}),
        ):
            output, messages = self._outputs[name], self._messages[bool(more)]
            if output.get_subscription_count():
                output.publish(messages.message(state.stamp, effort=efforts, **more))
        self._show(tuple(j for j, x in zip(self._joints, external.contact, strict=True) if x))

    def _show(self, contacts: tuple[str, ...]) -> None:
        """Publish whether there is a contact, if that has changed, and log its joints."""
        if contacts and contacts != self._contacts:
            self.get_logger().warning(
                f'contact at {", ".join(contacts)}', throttle_duration_sec=1.0
            )
        if self._contacts is None or bool(contacts) != bool(self._contacts):
            self._contact_out.publish(Bool(data=bool(contacts)))
        self._contacts = contacts

    def _on_timer(self) -> None:
        idle = time.monotonic() - self._observed
        text, warned = 'no contact', True
        if self._watch is None:
            text = 'no result: start the node with the parameter result'
        elif idle > SILENCE:
            text = self._trouble or self._reason(idle)
            self._show(())
        elif self._contacts:
            text = f'contact at {", ".join(self._contacts)}'
        else:
            warned = False
        node, robot = self.get_fully_qualified_name(), self._robot
        values = {'result': self._options.result}
        status = diagnostic_status(node, 'contact', text, values, robot=robot, warned=warned)
        self._diagnostics_out.publish(diagnostics(self, status))

    def _reason(self, idle: float) -> str:
        """Return why there are no observations."""
        if self._since < 2:
            return f"no joint states for {idle:.0f} s on '{self._states.topic_name}'"
        return too_sparse(self._since / idle, self._options.window)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node ``observer``."""
    return run(ObserverNode, args)


if __name__ == '__main__':
    sys.exit(main())
