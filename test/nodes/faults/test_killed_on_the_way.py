# SPDX-License-Identifier: Apache-2.0
"""
The demonstration with a node killed in the middle of every step.

Each time its client says at once which node it was, and how it ended; the others live.  The node
is started again, the step repeated, and the way goes on: so the nodes find each other again, and
what was recorded and identified before is still there.  That the whole demonstration ends itself,
and leaves no process behind, is tested in `test_demo`.
"""

from __future__ import annotations

from pathlib import Path
import threading
import time

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')

from robot_identification import demo
from robot_identification.model.urdf_files import resolve_package_path
from robot_identification.nodes.client import RequestFailedError
from robot_identification.nodes.common.processes import client_node
from robot_identification.support.processes import NodeProcesses, NodeStoppedError
from robot_identification_msgs.action import Excite
from robot_identification_msgs.srv import StopRecording

pytestmark = pytest.mark.soak

URDF = resolve_package_path('package://robot_identification/urdf/demo_arm.urdf')
NODES = ('simulation', 'recorder', 'regressor', 'identification', 'excitation')


class Demonstration(demo.Demonstration):
    """The steps, with nodes that a busy machine does not hold up."""

    def nodes(self, urdf):
        nodes = super().nodes(urdf)
        nodes['simulation'] |= {'rate': 250.0, 'servo_rate': 250.0, 'substeps': 4}
        nodes['excitation'] |= {
            'stale_timeout': 5.0,
            'settle_time': 20.0,
            'effort_share': 0.0,
            'effort_tolerance': 0.0,
        }
        return nodes

    def excite(self, plan, name):
        """Play it once the motion before, whose recorder may be gone, has ended in good order."""
        end = time.monotonic() + 120.0
        while True:
            try:
                return super().excite(plan, name)
            except RequestFailedError as error:
                if error.value != Excite.Result.BUSY or time.monotonic() > end:
                    raise


class Killing:
    """The steps's steps, each of them done again after a node was killed in it."""

    def __init__(self, folder, environment, node):
        self.processes = NodeProcesses(folder / 'logs', environment)
        self.steps = Demonstration(
            folder, node, self.processes, seed=1, duration=4.0, max_iterations=2
        )
        self.parameters = self.steps.nodes(URDF)

    def killed_while(self, node, step, ready=lambda: True):
        """Kill a node in a step, as soon as ``ready`` holds; the step has to end at once."""
        killed_at, over = [], threading.Event()

        def kill():
            while not ready() and not over.wait(0.02):
                pass
            if over.wait(0.1):
                return
            process = self.processes._processes[node]
            process.kill()
            process.wait()
            killed_at.append(time.monotonic())

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            with pytest.raises(NodeStoppedError, match=rf"'{node}' stopped .*SIGKILL") as error:
                step()
                while not killed_at:
                    time.sleep(0.02)
                self.processes.require_alive()
        finally:
            over.set()
            thread.join()
        assert time.monotonic() - killed_at[0] < 60.0, 'it is told'
        assert error.value.file.endswith(f'{node}.log')

    def runs(self, node):
        return node in self.processes._processes

    def restart(self, node):
        """Start it again, wait until the others know, and check that they have lived."""
        graph, wait = self.steps.caller.node, self.steps.caller.wait_for
        # what is sent to the dead one is lost, as long as its end is not noticed
        self.processes._processes.pop(node)
        wait(lambda: node not in graph.get_node_names(), 30.0, f'end of {node}')
        self.processes.start(node, self.parameters[node])
        wait(lambda: set(NODES) <= set(graph.get_node_names()), 30.0, f'start of {node}')
        self.processes.require_alive()


@pytest.fixture
def killing(ros_domain, attentive, tmp_path):
    with client_node('demo') as node:
        running = Killing(tmp_path, attentive, node)
        with running.processes:
            yield running


@pytest.mark.timeout(600)
def test_a_node_is_killed_in_every_step(killing):
    steps, restart = killing.steps, killing.restart
    # 1 start the nodes
    killing.killed_while('recorder', lambda: steps.start(URDF), lambda: killing.runs('recorder'))
    restart('recorder')
    # 2 plan
    killing.killed_while('excitation', lambda: steps.plan(1))
    restart('excitation')
    plan = steps.plan(1)
    # 3 play and record: each who takes part
    for node in ('recorder', 'simulation', 'excitation'):
        bag = steps.folder / 'recordings' / node
        killing.killed_while(node, lambda n=node: steps.excite(plan, n), lambda b=bag: begun(b))
        restart(node)
        assert begun(bag), 'what was recorded is kept'
    # a recorder records on where the one that asked for it is no more
    stopped = steps.caller.call(StopRecording, 'recorder/stop', mark='excitation was killed')
    assert stopped.messages > 0
    plan = steps.plan(1)
    recording = steps.excite(plan, 'first')
    # 4 identify
    killing.killed_while('identification', lambda: steps.identify(recording))
    restart('identification')
    result = Path(steps.identify(recording))
    # 5 check: one that it does not need is missed all the same
    killing.killed_while('regressor', steps.check)
    restart('regressor')
    steps.check()
    # 6 play and record the second
    bag = steps.folder / 'recordings' / 'second'
    killing.killed_while('simulation', lambda: steps.excite(plan, 'second'), lambda: begun(bag))
    restart('simulation')
    second = steps.excite(plan, 'second')
    # 7 predict
    killing.killed_while('identification', lambda: steps.validate(second))
    assert (result / 'result.yaml').is_file(), 'what was identified is kept'
    restart('identification')
    steps.identify(recording)
    steps.validate(second)
    # 8 write the URDF
    killing.killed_while('excitation', steps.export)
    steps.processes._processes.pop('excitation')
    steps.export()


def begun(bag):
    """Return whether something is in a bag."""
    return any(file.stat().st_size > 20_000 for file in bag.glob('*.mcap'))
