# SPDX-License-Identifier: Apache-2.0
"""Parameters from options, start and end of a node, the robot's description, answers."""

from __future__ import annotations

from functools import partial
import importlib
from pathlib import Path
import signal
import sys

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

ROOT = Path(__file__).resolve().parents[3]

PROBE = """
from collections.abc import Mapping
import ctypes
from dataclasses import dataclass
import os
import sys

from rclpy.node import Node
from std_srvs.srv import Trigger

from robot_identification.errors import SettingsError
from robot_identification.nodes.common import (
    declare_options, read_options, run, serve
)
from robot_identification.nodes.common.robot_description import RobotDescription
from robot_identification.options.fields import option


@dataclass(frozen=True)
class Drive:
    motor: str = option(doc='Motor')
    joints: tuple[str, ...] = option((), doc='Joints')
    inertia: str = option('separate', doc='Inertia', choices=('separate', 'tied'))


@dataclass(frozen=True)
class Essential:
    max_relative_std: float = option(30.0, doc='Bound', unit='%', minimum=0.0)


@dataclass(frozen=True)
class Options:
    cutoff: float = option(25.0, doc='Cut-off', unit='Hz', minimum=0.0, maximum=1000.0)
    order: int = option(4, doc='Order', minimum=1, maximum=8, read_only=True)
    rate: float | None = option(None, doc='Rate', unit='Hz', minimum=0.0)
    dead_zone: float | tuple[float, ...] = option(0.0, doc='Dead zone', minimum=0.0)
    friction: tuple[str, ...] = option(('viscous',), doc='Friction', choices=('viscous', 'offset'))
    empty: tuple[float, ...] = option((), doc='Numbers')
    name: str | None = option(None, doc='Name')
    essential: Essential | None = option(Essential(), doc='Essential parameters')
    drives: tuple[Drive, ...] = option((), doc='Drives')
    locked: Mapping[str, float] = option(factory=dict, doc='Not a parameter')
    lower: float = option(0.0, doc='Lower')
    upper: float = option(1.0, doc='Upper')

    def __post_init__(self):
        if self.lower > self.upper:
            raise SettingsError('lower is above upper', key='lower')


class Probe(Node):
    def __init__(self):
        super().__init__('probe')
        print(declare_options(self, Options, 'set'))
        self.description = RobotDescription(self)
        serve(self, Trigger, '~/options', lambda *_: repr(read_options(self, Options, 'set')))
        serve(self, Trigger, '~/robot', lambda *_: ' '.join(self.description.robot().joints))
        serve(self, Trigger, '~/fault', lambda *_: 1 // 0)
        self.create_service(Trigger, '~/crash', lambda *_: 1 // 0)

    async def on_shutdown(self):
        print('resting')

    def destroy_node(self):
        if 'JAMMED' in os.environ:
            mutex, lock = ctypes.create_string_buffer(64), ctypes.PyDLL(None).pthread_mutex_lock
            lock(mutex), lock(mutex)
        super().destroy_node()


if __name__ == '__main__':
    sys.exit(run(Probe))
"""

URDF = """<robot name="pendulum">
  <link name="base"/>
  <link name="arm">
    <inertial>
      <origin xyz="0 0 -0.5"/><mass value="1"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.01"/>
    </inertial>
  </link>
  <joint name="hinge" type="revolute">
    <parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" velocity="1" effort="1"/>
  </joint>
</robot>"""


@pytest.fixture
def probe(ros, tmp_path):
    """Return a function that starts the node above."""
    script = tmp_path / 'probe.py'
    script.write_text(PROBE)

    def start(*arguments, **options):
        return ros.start_command('probe', [sys.executable, str(script)], *arguments, **options)

    return start


@pytest.fixture(scope='module')
def shared(module_ros, tmp_path_factory):
    """Start one node above, in a namespace, for tests that need no parameters of their own."""
    script = tmp_path_factory.mktemp('probe') / 'probe.py'
    script.write_text(PROBE)
    command = [sys.executable, str(script)]
    module_ros.process = module_ros.start_command('probe', command, namespace='/shared')
    return module_ros


def trigger(ros, name, namespace=''):
    kind = importlib.import_module('std_srvs.srv').Trigger
    return ros.call(kind, f'{namespace}/probe/{name}')


def test_defaults_are_declared_with_their_types(shared):
    values = shared.get_parameters('/shared/probe')
    assert values['set.cutoff'] == 25.0
    assert values['set.order'] == 4
    assert values['set.rate'] != values['set.rate'], 'None is NaN'
    assert values['set.dead_zone'] == 0.0
    assert list(values['set.friction']) == ['viscous']
    assert list(values['set.empty']) == []
    assert values['set.name'] == ''
    assert values['set.essential.enabled'] is True
    assert values['set.essential.max_relative_std'] == 30.0
    assert list(values['set.drives.names']) == []
    assert 'set.locked' not in values
    options = trigger(shared, 'options', '/shared').message
    assert 'rate=None' in options and 'name=None' in options and 'locked={}' in options
    assert options == shared.process.lines[0]


def test_descriptors_carry_description_unit_range_and_read_only(shared):
    from rcl_interfaces.msg import ParameterType
    from rcl_interfaces.srv import DescribeParameters

    names = ['set.cutoff', 'set.order', 'set.rate', 'set.friction', 'set.empty', 'set.dead_zone']
    cutoff, order, rate, friction, empty, dead_zone = shared.call(
        DescribeParameters, '/shared/probe/describe_parameters', names=names
    ).descriptors
    assert cutoff.description == 'Cut-off [Hz]'
    assert cutoff.type == ParameterType.PARAMETER_DOUBLE
    assert (
        cutoff.floating_point_range[0].from_value,
        cutoff.floating_point_range[0].to_value,
    ) == (
        0.0,
        1000.0,
    )
    assert order.read_only and order.integer_range[0].to_value == 8
    assert not rate.floating_point_range, 'NaN has to be allowed'
    assert rate.additional_constraints == 'at least 0.0, .nan for none'
    assert friction.type == ParameterType.PARAMETER_STRING_ARRAY
    assert friction.additional_constraints == 'one of viscous, offset'
    assert empty.type == ParameterType.PARAMETER_DOUBLE_ARRAY
    assert dead_zone.dynamic_typing


def test_overrides_of_every_kind(ros, probe):
    probe(
        parameters={
            'set.cutoff': 40,
            'set.rate': 100.0,
            'set.dead_zone': [0.1, 0.2],
            'set.friction': ['offset', 'viscous'],
            'set.empty': [1, 2],
            'set.name': 'x',
            'set.essential.enabled': False,
            'set.drives.names': ['j6'],
            'set.drives.j6.joints': ['j5', 'j6'],
            'set.drives.j6.inertia': 'tied',
        }
    )
    options = trigger(ros, 'options').message
    for part in (
        'cutoff=40.0',
        'rate=100.0',
        'dead_zone=(0.1, 0.2)',
        "friction=('offset', 'viscous')",
        'empty=(1.0, 2.0)',
        "name='x'",
        'essential=None',
        "drives=(Drive(motor='j6', joints=('j5', 'j6'), inertia='tied'),)",
    ):
        assert part in options
    assert isinstance(ros.get_parameters('/probe', 'set.cutoff')['set.cutoff'], float)


WRONG_OVERRIDES = [
    ('set.cutoff', 'fast', "'set.cutoff' is 'fast', expected a number"),
    ('set.cutoff', [], "'set.cutoff' is [], expected a number"),
    ('set.cutoff', 2000.0, "'set.cutoff' is 2000.0: allowed is [0.0, 1000.0] Hz"),
    ('set.friction', ['sticky'], "'set.friction' is 'sticky': it has to be one of viscous"),
    ('set.dead_zone', [0.1, -0.1], "'set.dead_zone' is (0.1, -0.1): allowed is [0.0, inf]"),
    ('set.lower', 2.0, 'lower is above upper'),
    ('set.essential.max_relative_std', -1.0, "'set.essential.max_relative_std' is -1.0"),
    ('set.drives.names', ['j6', 'j6'], "'set.drives.names' has 'j6' twice"),
    ('locked_joints', ['hinge'], '1 locked_joints but 0 locked_positions'),
    ('gravity', [0.0, 1.0], "'gravity' is [0.0, 1.0], expected a list of 3"),
    ('robot_description', '/no/such.urdf', "URDF file '/no/such.urdf' does not exist"),
]


def test_a_wrong_override_is_a_one_line_error_and_exit_code_2(probe):
    # all at once: what takes time is that they load their libraries
    processes = [probe(parameters={name: value}, wait=False) for name, value, _ in WRONG_OVERRIDES]
    for process, (_, _, error) in zip(processes, WRONG_OVERRIDES):
        assert process.wait(60.0) == 2
        errors = [line for line in process.lines if not line.startswith('Options(')]
        assert len(errors) == 1
        assert errors[0].startswith(f'error: {error}')


def test_an_unknown_ros_argument_is_a_one_line_error(probe):
    process = probe('--nonsense', wait=False)
    assert process.wait() == 2
    assert 'Traceback' not in process.output
    assert process.lines[-1] == "error: wrong ROS arguments: ['--nonsense']"


def test_changes_while_running_are_checked(shared):
    """After the tests of the defaults."""
    assert shared.set_parameter('/shared/probe', 'set.cutoff', 30) == (True, '')
    assert shared.set_parameter('/shared/probe', 'set.empty', [1.0]) == (True, '')
    assert shared.set_parameter('/shared/probe', 'set.empty', []) == (True, '')
    assert shared.set_parameter('/shared/probe', 'set.dead_zone', [0.1]) == (True, '')
    assert shared.set_parameter('/shared/probe', 'set.rate', 12.0) == (True, '')
    assert shared.set_parameter('/shared/probe', 'set.rate', float('nan')) == (True, '')
    for name, value, reason in (
        ('set.cutoff', 'x', 'Wrong parameter type'),
        ('set.cutoff', -1.0, 'out of range'),
        ('set.order', 5, 'read-only'),
        ('set.friction', ['sticky'], "'set.friction' is 'sticky'"),
        ('set.dead_zone', 'x', "'set.dead_zone' is 'x'"),
        ('set.dead_zone', None, 'cannot be unset'),
        ('set.lower', 7.0, 'lower is above upper'),
    ):
        successful, text = shared.set_parameter('/shared/probe', name, value)
        assert not successful
        assert reason in text
    options = trigger(shared, 'options', '/shared').message
    assert 'cutoff=30.0' in options and 'dead_zone=(0.1,)' in options and 'rate=None' in options


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_node_cleanly(ros, probe, tmp_path, number):
    path = tmp_path / 'pendulum.urdf'
    path.write_text(URDF)
    process = probe(parameters={'robot_description': str(path)})
    assert trigger(ros, 'robot').message == 'hinge'
    assert process.stop(number) == 0
    assert process.lines[-1] == 'resting'
    assert 'Traceback' not in process.output


def test_a_fault_is_answered_and_logged_and_the_node_goes_on(shared):
    response = trigger(shared, 'fault', '/shared')
    assert not response.success
    assert response.message.startswith('internal error: ZeroDivisionError')
    shared.process.wait_for_output('Traceback')
    assert shared.process.returncode is None


def test_the_description_comes_from_the_latched_topic(shared):
    process = shared.process
    response = trigger(shared, 'robot', '/shared')
    assert not response.success
    assert response.message.startswith(
        "no robot description has arrived on topic '/shared/robot_description'"
    )
    publish = partial(shared.publish_description, topic='/shared/robot_description')
    publish(URDF)
    process.wait_for_output("robot 'pendulum' with joints hinge")
    response = trigger(shared, 'robot', '/shared')
    assert response.success and response.message == 'hinge'
    publish('<robot name="bad">')
    process.wait_for_output("description on topic '/shared/robot_description':")
    response = trigger(shared, 'robot', '/shared')
    assert not response.success and 'not well-formed XML' in response.message
    # a path is for parameters: what comes over the network opens no files here
    publish(str(ROOT / 'urdf' / 'szabo_3r.urdf'))
    process.wait_for_output('is no URDF')
    assert 'publish the URDF itself' in trigger(shared, 'robot', '/shared').message


def test_a_node_that_crashes_says_goodbye_all_the_same(ros, probe):
    process = probe()
    trigger_type = importlib.import_module('std_srvs.srv').Trigger
    client = ros.node.create_client(trigger_type, 'probe/crash')
    ros.wait_until(client.service_is_ready, what='the service')
    client.call_async(trigger_type.Request())
    assert process.wait() == 1
    assert 'resting' in process.lines
    assert 'ZeroDivisionError' in process.output


def test_a_node_that_the_middleware_holds_up_at_its_end_ends_all_the_same(probe):
    process = probe(JAMMED='1')
    assert process.stop(timeout=60.0) == -signal.SIGALRM
    assert 'resting' in process.lines


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='looks into /proc')
def test_a_signal_while_the_node_still_loads_leaves_no_traceback(ros):
    process = ros.start('recorder', wait=False, fresh=True)
    maps = Path(f'/proc/{process.pid}/maps')
    ros.wait_until(lambda: '/numpy/' in maps.read_text(), what='the first libraries')
    assert process.stop() == 0
    assert process.output == ''


def test_a_node_starts_where_there_is_no_home(ros):
    """As under some service managers: rcl finds no folder for its logs then."""
    process = ros.start('recorder', HOME='', ROS_LOG_DIR='')
    assert process.stop() == 0
