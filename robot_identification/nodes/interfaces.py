# SPDX-License-Identifier: Apache-2.0
"""Services, actions and topics of the nodes that clients use, by the verbs of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Interface:
    """
    One service, action or topic of a node.

    Attributes
    ----------
    kind, name:
        Type as ROS names it, such as ``robot_identification_msgs/srv/Identify``; name below the
        namespace.
    main:
        Field that needs no name on a command line; empty for none.

    """

    kind: str
    name: str
    main: str = ''

    @property
    def type(self) -> Any:
        """The class of the interface."""
        package, group, name = self.kind.split('/')
        return getattr(import_module(f'{package}.{group}'), name)

    @property
    def request(self) -> Any:
        """The class of its request or goal."""
        return self.type.Goal if '/action/' in self.kind else self.type.Request


_OWN = 'robot_identification_msgs'
REQUESTS: Mapping[str, Interface] = {
    'plan': Interface(f'{_OWN}/action/PlanExcitation', 'excitation/plan'),
    'preview': Interface(f'{_OWN}/srv/Preview', 'excitation/preview', 'plan_id'),
    'excite': Interface(f'{_OWN}/action/Excite', 'excitation/excite', 'plan_id'),
    'calibrate': Interface(f'{_OWN}/action/Calibrate', 'excitation/calibrate', 'folder'),
    'confirm': Interface('std_srvs/srv/SetBool', 'excitation/confirm', 'data'),
    'record': Interface(f'{_OWN}/srv/StartRecording', 'recorder/start', 'name'),
    'end': Interface(f'{_OWN}/srv/StopRecording', 'recorder/stop'),
    'identify': Interface(f'{_OWN}/action/Identify', 'identification/identify', 'source'),
    'tool': Interface(f'{_OWN}/srv/IdentifyTool', 'identification/identify_tool', 'source'),
    'validate': Interface(f'{_OWN}/action/Validate', 'identification/validate', 'source'),
    'check': Interface(f'{_OWN}/srv/CheckConsistency', 'identification/check_consistency'),
    'export': Interface(f'{_OWN}/srv/ExportUrdf', 'identification/export_urdf', 'path'),
    'online': Interface('std_srvs/srv/SetBool', 'identification/online/enable', 'data'),
    'freeze': Interface('std_srvs/srv/SetBool', 'identification/online/freeze', 'data'),
    'save': Interface('std_srvs/srv/Trigger', 'identification/online/save'),
}
"""Requests by the verbs of the command line."""

TOPICS: Mapping[str, Interface] = {
    'joint_states': Interface('sensor_msgs/msg/JointState', 'joint_states'),
    'recorder': Interface(f'{_OWN}/msg/RecorderStatus', 'recorder/status'),
    'online': Interface(f'{_OWN}/msg/OnlineStatus', 'identification/online/status'),
    'parameters': Interface(f'{_OWN}/msg/ParameterSet', 'identification/online/parameters'),
    'contact': Interface('std_msgs/msg/Bool', 'observer/contact'),
    'external_effort': Interface('sensor_msgs/msg/JointState', 'observer/external_effort'),
}
"""Topics that can be watched."""
