# SPDX-License-Identifier: Apache-2.0
"""
Fixtures of all tests: nodes as processes in a DDS domain of their own, and a client.

Tests take the fixture ``ros`` (see `Ros`); everything that it started is ended with the test.
"""

from __future__ import annotations

import fcntl
import functools
from functools import partial
import gc
import importlib.util
import itertools
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import threading
import time

from hypothesis import settings
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from node_server import COMMAND, ForkedProcess, start_server

# the same examples in every run, however slow the machine
settings.register_profile('fixed', derandomize=True, deadline=None)
settings.load_profile('fixed')

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 60.0
"""Bound on a wait that a busy machine, too, ends long before [s]."""

NO_ROS = 'needs ROS 2 (rclpy): source a ROS installation, or run `make test`'


QUIET = 0.05
"""
Wait before a client leaves, so that no news of others is on its way [s]: Fast DDS can wait for
itself for ever where a callback of discovery runs while a participant is destroyed
(https://github.com/eProsima/Fast-DDS/issues/6513).
"""

DDS_PLACES = ('nodes', 'launch', 'test_fuzz.py')
"""Where `make test` looks for tests over DDS."""

LONG_FILES = (
    'test_demo', 'test_motions_over_dds', 'test_false_states', 'test_online', 'test_partition',
    'test_identification_node',
)  # fmt: skip
"""Files that take longest come first, or one process would be busy with them in the end."""


def pytest_addoption(parser):
    parser.addoption(
        '--instants', type=int, default=20, help='random instants of each fault in `make soak`'
    )


SWEEP = 3600.0
"""Time that a test of `make soak` may take where it names none [s]."""


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.path.stem not in LONG_FILES)
    for item in items:
        place = item.path.relative_to(Path(__file__).parent).parts[0]
        if place == 'nodes' or 'ros' in getattr(item, 'fixturenames', ()):
            item.add_marker('ros')
        if item.get_closest_marker('ros') and place not in DDS_PLACES:
            raise pytest.UsageError(f'{item.nodeid}: tests over DDS belong to {DDS_PLACES}')
        # of a sweep, the timeout tells a hang from a busy machine, and nothing else
        if item.get_closest_marker('soak') and not item.get_closest_marker('timeout'):
            item.add_marker(pytest.mark.timeout(SWEEP))


def pytest_collection_finish():
    # thousands of tests and all that they import stay: without them a collection is ten times as
    # fast
    gc.collect()
    gc.freeze()


def _numbers():
    """Return numbers that no other worker of this run tries, for as long as a hundred last."""
    worker = os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')
    workers = int(os.environ.get('PYTEST_XDIST_WORKER_COUNT', '1'))
    # the parent is the same for all workers
    return itertools.count(os.getppid() * workers + int(worker), workers)


_domains = _numbers()
_clients = itertools.count()


LONG_LEASE = """
      <builtin><discovery_config>
        <leaseDuration><sec>3600</sec></leaseDuration>
      </discovery_config></builtin>
"""
"""
For Fast DDS, which can wait for itself for ever if a process leaves in the instant in which it
checks a lease (https://github.com/eProsima/Fast-DDS/issues/6502); by default, each 20 s.
"""


def fastdds_profile(folder):
    """Write a profile like that of the suite, with long leases; return its path."""
    suite = ROOT / 'robot_identification' / 'nodes' / 'common' / 'fastdds_receiver.xml'
    path = folder / 'profile.xml'
    text = suite.read_text().replace('<rtps>', f'<rtps>{LONG_LEASE}')
    assert LONG_LEASE in text, f'{suite} has no <rtps>'
    path.write_text(text)
    return path


def reserve(domain):
    """Return the open lock of a ROS domain; None where another test run, or user, has it."""
    path = Path(tempfile.gettempdir(), f'ros_test_domain_{domain}.lock')
    try:
        lock = open(path, 'w')  # noqa: SIM115, the fixture closes it
    except PermissionError:  # another user's
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


@pytest.fixture(scope='module')
def ros_domain(tmp_path_factory):
    """
    Reserve a domain that no other test run on this machine uses; return its number.

    Each file of tests has another one: nodes that are killed stay known for twenty seconds, and
    would be counted in the next one's, be it another worker's.
    """
    # 0 to 101 keep clear of the ephemeral ports; 0 is everybody's default
    domains = (1 + number % 100 for number in itertools.islice(_domains, 100))
    found = next(((each, lock) for each in domains if (lock := reserve(each))), None)
    if found is None:
        raise RuntimeError('no free ROS domain')
    domain, lock = found
    with lock, pytest.MonkeyPatch.context() as patch:
        patch.setenv('ROS_DOMAIN_ID', str(domain))
        patch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
        patch.delenv('ROS_LOCALHOST_ONLY', raising=False)
        patch.setenv('ROS_LOG_DIR', str(tmp_path_factory.mktemp('ros_log')))
        patch.setenv('RCUTILS_COLORIZED_OUTPUT', '0')
        profile = fastdds_profile(tmp_path_factory.mktemp('dds'))
        from robot_identification.nodes.common.receive_buffers import profile_variables

        for name in profile_variables():
            patch.setenv(name, str(profile))
        yield domain


@pytest.fixture
def ros(ros_domain):
    """Client node and process starter, see `Ros`."""
    if importlib.util.find_spec('rclpy') is None:
        pytest.skip(NO_ROS)
    suite = Ros()
    try:
        yield suite
    finally:
        suite.close()


@pytest.fixture(scope='module')
def module_ros(ros_domain):
    """Give a client and process starter for nodes that run for all tests of a module."""
    if importlib.util.find_spec('rclpy') is None:
        pytest.skip(NO_ROS)
    suite = Ros()
    try:
        yield suite
    finally:
        suite.close()


def python_path():
    """Return where nodes look for packages: in these sources, and where PYTHONPATH has it."""
    # a sourced ROS names its packages there
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get('PYTHONPATH'))))


@functools.cache
def node_server():
    """Start the server of this test process at the first use; it ends with this process."""
    alone = {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'}
    return start_server({**os.environ, **alone, 'PYTHONPATH': python_path()})


def start_process(command, environment, fresh=False):
    """
    Start a command.

    A node or a command of ours, or a script, is forked off a process that has its libraries,
    unless ``fresh`` or an environment that changes Python asks for the start that users see.
    """
    whole = {
        **os.environ,
        'PYTHONPATH': python_path(),
        'PYTHONUNBUFFERED': '1',
        **environment,
    }
    folder = os.environ['ROS_LOG_DIR']  # nothing that a node writes lands in the sources
    words = list(map(str, command))
    first = 2 if words[1:2] == ['-m'] else 1
    program, arguments = ''.join(words[first : first + 1]), words[first + 1 :]
    is_node = program.startswith('robot_identification.nodes.') and program.endswith('_node')
    loaded = is_node or program == COMMAND or program.endswith('.py')
    if (
        loaded
        and words[0] == sys.executable
        and not fresh
        and not any(name.startswith(('PYTHON', 'LD_')) for name in environment)
    ):
        return ForkedProcess(node_server(), program, arguments, whole, folder)
    return subprocess.Popen(
        command,
        cwd=folder,
        env=whole,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


class NodeProcess:
    """A node's process with what it prints."""

    def __init__(self, name, command, environment, fresh=False):
        self.name = name
        self.lines = []
        self._process = start_process(command, environment, fresh)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.lines.append(line.rstrip('\n'))

    @property
    def pid(self):
        return self._process.pid

    @property
    def output(self):
        """Lines that it has printed, all of them once it has ended."""
        if self.returncode is not None:
            self._reader.join(2.0)
        return '\n'.join(self.lines)

    @property
    def returncode(self):
        """Exit code, or None while it runs."""
        return self._process.poll()

    def wait(self, timeout=LONGEST):
        """Wait for the process to end by itself; return its exit code."""
        code = self._process.wait(timeout)
        self._reader.join(2.0)
        return code

    def wait_for_output(self, text, timeout=LONGEST):
        end = time.monotonic() + timeout
        while text not in self.output:
            assert time.monotonic() < end, f"no '{text}' in {timeout} s; printed:\n{self.output}"
            time.sleep(0.02)

    def stop(self, number=signal.SIGINT, timeout=LONGEST):
        """Send a signal (SIGINT, SIGTERM, SIGKILL), wait for the end, return the exit code."""
        if self.returncode is None:
            self._process.send_signal(number)
        return self.wait(timeout)

    def close(self):
        if self.returncode is None:
            try:
                self._process.wait(15.0)  # a node ends by itself, on a busy machine a little later
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(2.0)
        if not self._reader.is_alive():
            # closing it under the reader's hands would wait for whoever holds the other end
            self._process.stdout.close()
        if self.lines:
            print(f'---- {self.name} (exit code {self.returncode})\n{self.output}')


class Ros:
    """
    A client node in this process, and nodes of the suite in processes of their own.

    Attributes
    ----------
    node:
        The client's `rclpy.node.Node`; spun only inside the methods here.

    """

    def __init__(self):
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        self.context = rclpy.Context()
        rclpy.init(context=self.context, signal_handler_options=SignalHandlerOptions.NO)
        # what of an earlier test's node is not yet freed would be a second one of its name
        name = f'test_client_{next(_clients)}'
        self.node = rclpy.create_node(name, context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.processes = []
        # a client that is destroyed with an answer on its way can bring this process down
        self._clients = {}

    def close(self):
        # in good order: a killed node leaves its shared memory behind, some 0.5 MB each
        for process in self.processes:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGTERM)
        for process in self.processes:
            process.close()
        self.executor.shutdown(timeout_sec=1.0)
        time.sleep(QUIET)
        self.node.destroy_node()
        self.context.try_shutdown()

    # ------------------------------------------------------------------------------- processes

    def start(self, node, *arguments, **options):
        """
        Start ``robot_identification.nodes.<node>_node``.

        Parameters
        ----------
        node:
            'recorder', 'simulation', ...
        *arguments:
            Further words after ``--ros-args``, for example ``'-r', 'joint_states:=states'``.
        **options:
            As for `start_command`.

        """
        module = f'robot_identification.nodes.{node}_node'
        return self.start_command(node, [sys.executable, '-m', module], *arguments, **options)

    def start_command(
        self, node, command, *arguments,
        parameters=None, namespace=None, wait=True, fresh=False, **environment,
    ):  # fmt: skip
        """
        Start any program that makes the node called ``node``.

        Parameters
        ----------
        node, command:
            The node's name, and the words that start it.
        *arguments:
            Further words after ``--ros-args``, for example ``'-r', 'joint_states:=states'``.
        parameters:
            Values by name; written to a parameter file, so types stay as they are in Python.
        namespace:
            The node's namespace, for example '/arm'.
        wait:
            Whether to wait until the node is seen in the graph.
        fresh:
            See `start_process`.
        **environment:
            Variables beside those of this process.

        """
        words = list(arguments)
        if namespace:
            words += ['-r', f'__ns:={namespace}']
        if node in ('identification', 'recorder'):
            # the folders of all tests, not that of the nodes' logs alone
            folders = [str(Path(os.environ['ROS_LOG_DIR']).parent)]
            parameters = {'data_directories': folders, **(parameters or {})}
        if parameters:
            words += ['--params-file', str(self.parameter_file(parameters))]
        if words:
            words = ['--ros-args', *words]
        process = NodeProcess(node, [*command, *words], environment, fresh)
        self.processes.append(process)
        if wait:
            name = f'{(namespace or "").rstrip("/")}/{node}'
            self.wait_for_node(name, process)
        return process

    def parameter_file(self, parameters, name='/**'):
        """Write a ROS parameter file and return its path."""
        import yaml

        handle, path = tempfile.mkstemp('.yaml', 'parameters_', os.environ['ROS_LOG_DIR'])
        with open(handle, 'w') as file:
            yaml.safe_dump({name: {'ros__parameters': parameters}}, file)
        return Path(path)

    def wait_for_node(self, name, process=None, timeout=LONGEST):
        """Wait until the graph has the node with the full name ``name``."""

        def seen():
            if process is not None and process.returncode is not None:
                pytest.fail(f'{process.name} ended ({process.returncode}):\n{process.output}')
            found = self.node.get_node_names_and_namespaces()
            return any(f'{ns.rstrip("/")}/{node}' == name for node, ns in found)

        self.wait_until(seen, timeout, f'node {name}')

    # -------------------------------------------------------------------------------- messages

    def spin(self, seconds):
        """Handle messages for some time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self.executor.spin_once(timeout_sec=min(left, 0.1))

    def wait_until(self, condition, timeout=LONGEST, what='the condition'):
        """
        Handle messages until ``condition()`` holds; fail the test after ``timeout``.

        An ``IndexError`` is that of ``messages[-1]`` before the first one: not yet.
        """
        end = time.monotonic() + timeout

        def holds():
            try:
                return condition()
            except IndexError:
                return False

        while not holds():
            if time.monotonic() > end:
                pytest.fail(f'{what}: not within {timeout} s')
            self.executor.spin_once(timeout_sec=0.02)

    def subscribe(self, kind, topic, qos=10, **options):
        """Subscribe; return the list into which the messages go."""
        messages = []
        self.node.create_subscription(kind, topic, messages.append, qos, **options)
        return messages

    def latched(self, kind, topic):
        """Subscribe to a latched topic; return the list into which the messages go."""
        from robot_identification.nodes.common import LATCHED

        return self.subscribe(kind, topic, LATCHED)

    def publisher(self, kind, topic, qos=10, *, wait_for_subscribers=0, timeout=LONGEST):
        """Make a publisher and wait until it has so many subscribers."""
        publisher = self.node.create_publisher(kind, topic, qos)
        self.wait_until(
            lambda: publisher.get_subscription_count() >= wait_for_subscribers,
            timeout,
            f'subscribers of {topic}',
        )
        return publisher

    def publish_description(self, urdf, topic='robot_description'):
        """Publish a latched robot description."""
        from robot_identification.nodes.common import LATCHED
        from std_msgs.msg import String

        publisher = self.node.create_publisher(String, topic, LATCHED)
        publisher.publish(String(data=urdf))
        return publisher

    # -------------------------------------------------------------------------------- requests

    def call(self, kind, service, /, timeout=LONGEST, **fields):
        """Call a service; return its response."""
        client = self._client(self.node.create_client, kind, service)
        self.wait_until(client.service_is_ready, timeout, f'service {service}')
        future = client.call_async(kind.Request(**fields))
        self.wait_until(future.done, timeout, f'answer of {service}')
        return future.result()

    def _client(self, make, kind, name):
        if (kind, name) not in self._clients:
            self._clients[kind, name] = make(kind, name)
        return self._clients[kind, name]

    def act(self, kind, action, /, timeout=60.0, cancel_when=None, **fields):
        """
        Send a goal, wait for its end.

        Parameters
        ----------
        cancel_when:
            Called with the list of feedback so far; the goal is canceled once it is true.

        Returns
        -------
        status, result, feedback
            `action_msgs.msg.GoalStatus` constant, the action's result, list of its feedback.
            A refused goal gives (None, None, []).

        """
        from rclpy.action import ActionClient

        client = self._client(partial(ActionClient, self.node), kind, action)
        feedback = []
        self.wait_until(client.server_is_ready, timeout, f'action {action}')
        sending = client.send_goal_async(
            kind.Goal(**fields), feedback_callback=lambda m: feedback.append(m.feedback)
        )
        self.wait_until(sending.done, timeout, f'acceptance of {action}')
        goal = sending.result()
        if not goal.accepted:
            return None, None, []
        future = goal.get_result_async()
        if cancel_when is not None:
            self.wait_until(
                lambda: future.done() or cancel_when(feedback), timeout, f'feedback of {action}'
            )
            canceling = goal.cancel_goal_async()
            self.wait_until(canceling.done, timeout, f'cancellation of {action}')
        self.wait_until(future.done, timeout, f'result of {action}')
        return future.result().status, future.result().result, feedback

    def follow(self, trajectory, controller='joint_trajectory_controller', **goal):
        """Send a trajectory to a controller; return the goal's handle, which may be refused."""
        from control_msgs.action import FollowJointTrajectory
        from rclpy.action import ActionClient

        action = f'{controller}/follow_joint_trajectory'
        client = self._client(partial(ActionClient, self.node), FollowJointTrajectory, action)
        self.wait_until(client.server_is_ready, what=f'action {action}')
        sending = client.send_goal_async(FollowJointTrajectory.Goal(trajectory=trajectory, **goal))
        self.wait_until(sending.done, what='the answer to a trajectory')
        return sending.result()

    def get_parameters(self, node, *names):
        """Values of a node's parameters, by name; of all of them without names."""
        from rcl_interfaces.srv import GetParameters, ListParameters
        from rclpy.parameter import parameter_value_to_python

        if not names:
            names = self.call(ListParameters, f'{node}/list_parameters').result.names
        values = self.call(GetParameters, f'{node}/get_parameters', names=list(names)).values
        return {n: parameter_value_to_python(v) for n, v in zip(names, values, strict=True)}

    def set_parameter(self, node, name, value):
        """Set a node's parameter; return (successful, reason)."""
        from rcl_interfaces.srv import SetParameters
        from rclpy.parameter import Parameter

        parameter = Parameter(name, value=value).to_parameter_msg()
        response = self.call(SetParameters, f'{node}/set_parameters', parameters=[parameter])
        return response.results[0].successful, response.results[0].reason
