# SPDX-License-Identifier: Apache-2.0
"""
Descriptions of every topic, service and action of the nodes.

Types and QoS are told by the nodes themselves (`reference`), and a test holds this table to them:
what a node has, and has no line here, fails, and so does a line that no node answers to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

__all__ = ['Interface', 'INTERFACES', 'Role']


class Role(str, Enum):
    """Use of a name by a node."""

    SUBSCRIBES = 'subscribes'
    PUBLISHES = 'publishes'
    SERVICE = 'service'
    ACTION = 'action'
    CALLS = 'calls'


@dataclass(frozen=True)
class Interface:
    """
    One topic, service or action of a node.

    Attributes
    ----------
    role, name:
        What the node does with it, and its name as the code has it (``~/`` is the node's own).
    meaning:
        In a line; begins with a capital and ends without a full stop.
    kind, qos:
        Type and QoS of what a node makes on demand only, so that a node that has just been made
        does not show it; empty for all others.

    """

    role: Role
    name: str
    meaning: str
    kind: str = ''
    qos: str = ''


_subscribes = partial(Interface, Role.SUBSCRIBES)
_publishes = partial(Interface, Role.PUBLISHES)
_service: Callable[..., Interface] = partial(Interface, Role.SERVICE)
_action: Callable[..., Interface] = partial(Interface, Role.ACTION)
_calls: Callable[..., Interface] = partial(Interface, Role.CALLS)

_description = _subscribes(
    'robot_description', 'The URDF; only where the parameter robot_description is empty'
)
_diagnostics = '/diagnostics'

INTERFACES: dict[str, tuple[Interface, ...]] = {
    'simulation': (
        _action(
            'joint_trajectory_controller/follow_joint_trajectory',
            'Execute a trajectory, as joint_trajectory_controller does; see controller',
        ),
        _publishes(
            'joint_trajectory_controller/controller_state',
            "The controller's reference, feedback and error, at controller_state_rate",
        ),
        _service(
            'joint_trajectory_controller/get_parameters',
            "The controller's joints, interfaces and constraints",
            kind='rcl_interfaces/srv/GetParameters',
        ),
        _subscribes(
            '~/disturbance',
            'Efforts that act on the named joints from outside, until the next message',
        ),
        _publishes('joint_states', 'What the robot measures, at the parameter rate'),
        _publishes('motor_states', "The motors' side, where elastic.enabled is true"),
        _publishes('robot_description', 'The URDF of the simulated robot'),
        _publishes('/clock', 'Simulated time, at clock_rate'),
        _service('~/reset', 'Put the robot at rest into its initial position'),
    ),
    'excitation': (
        _subscribes(
            'robot_description',
            "The URDF, where the parameter robot_description is empty; and the controller's, with "
            'which limits are compared',
        ),
        _subscribes('joint_states', 'The present state, which every motion is watched by'),
        _subscribes(
            '~/alive',
            "Signs of life of a motion's client: who sends one has to go on; see alive_timeout",
        ),
        _calls(
            'joint_trajectory_controller/follow_joint_trajectory',
            'A motion as one goal, and its cancel, once execute is true; see controller',
            kind='control_msgs/action/FollowJointTrajectory',
        ),
        _subscribes(
            'joint_trajectory_controller/controller_state',
            'What the controller wants and measures; nothing moves without it',
        ),
        _calls(
            'joint_trajectory_controller/get_parameters',
            "The controller's joints and interfaces, how it interpolates and how it stops",
            kind='rcl_interfaces/srv/GetParameters',
        ),
        _calls(
            'controller_manager/list_controllers',
            'Whether the controller is active, where a controller manager of the namespace says',
            kind='controller_manager_msgs/srv/ListControllers',
        ),
        _publishes('~/preview/markers', 'Lines of the previewed motion, obstacles, nearest pair'),
        _publishes('~/preview/trajectory', 'The previewed motion, the way to its start included'),
        _publishes('~/preview/joint_states', 'A ghost that goes through it; see preview.ghost'),
        _service('~/preview', 'Check a motion as for carrying it out, and show it; nothing moves'),
        _action('~/plan', 'Plan a motion that excites the parameters, within the limits'),
        _action('~/excite', 'Check a motion, carry it out where execute is true, and record it'),
        _action('~/calibrate', 'Plan, execute and identify until the parameters are known'),
        _calls(
            '~/excite',
            'The motions of ~/calibrate, from a node calibration_client',
            kind='robot_identification_msgs/action/Excite',
        ),
        _service('~/confirm', 'Execute the motion that ~/calibrate asks about, or end it'),
        _calls(
            'recorder/start',
            'Record a motion, where the goal asks for it; see the parameter recorder',
            kind='robot_identification_msgs/srv/StartRecording',
        ),
        _calls(
            'recorder/stop',
            'End that recording, with a mark where the motion ended early',
            kind='robot_identification_msgs/srv/StopRecording',
        ),
        _subscribes(
            'recorder/status',
            'Whether it goes on; only while a motion is recorded',
            kind='robot_identification_msgs/msg/RecorderStatus',
            qos='reliable, latched, 1',
        ),
    ),
    'recorder': (
        _subscribes('joint_states', 'What is recorded; others by topics, wrench_topics'),
        _publishes('~/status', 'The running or latest recording: messages, rate, gaps, drops'),
        _service('~/start', 'Start a recording'),
        _service('~/stop', 'End the recording and close its bag'),
    ),
    'regressor': (
        _description,
        _subscribes('joint_states', 'Joint states; only while ~/regressor has subscribers'),
        _publishes('~/regressor', 'Regressor and efforts of the robot as it moves, at rate'),
        _service('~/get_regressor', 'Regressor at given positions, velocities, accelerations'),
    ),
    'identification': (
        _description,
        _subscribes('recorder/status', 'Which recording is the latest, for an empty source'),
        _subscribes('joint_states', 'Live states; only where the robot is followed (online)'),
        _publishes('~/parameters', 'Base parameters of the latest recording identified'),
        _publishes('~/fit', 'How well these fit, joint by joint'),
        _publishes('~/online/parameters', 'Base parameters as the robot moves'),
        _publishes('~/online/status', 'The live identification: rate, lost and late, timing'),
        _publishes(_diagnostics, 'State of the estimates, each second'),
        _service('~/identify', 'Identify from a recording'),
        _action('~/identify', 'The same, with progress and cancel'),
        _service('~/identify_tool', 'Identify a tool from a force-torque sensor'),
        _service('~/validate', 'Predict the efforts of another recording'),
        _action('~/validate', 'The same, with progress and cancel'),
        _service('~/check_consistency', 'Whether bodies can have the parameters'),
        _service('~/export_urdf', 'The URDF with identified parameters'),
        _service('~/reset', 'Forget the estimate from recordings'),
        _service('~/online/enable', 'Follow the robot, or leave off (data: true or false)'),
        _service('~/online/freeze', 'Keep the live estimate as it is, or go on (data)'),
        _service('~/online/reset', 'Forget the live estimate and begin again'),
        _service('~/online/save', 'Write the live estimate into a folder below output'),
    ),
    'observer': (
        _subscribes('joint_states', 'Positions and efforts, as those that were identified from'),
        _publishes('~/predicted_effort', 'Motion and effort by the model, per joint state'),
        _publishes('~/measured_effort', 'The same motion with the measured effort at the joints'),
        _publishes('~/external_effort', 'Efforts on the joints from outside, by the observer'),
        _publishes('~/external_effort_threshold', 'Efforts that the model may be off by'),
        _publishes('~/contact', 'Whether an external effort is beyond its threshold, and holds'),
        _publishes(_diagnostics, 'The joints in contact, or why nothing is observed, each second'),
    ),
}
"""Interfaces of each node, by its name, in the order of the page."""
