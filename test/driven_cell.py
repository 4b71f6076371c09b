# SPDX-License-Identifier: Apache-2.0
"""
The excitation node in this process, moving a simulated robot on a clock that the test drives.

Nothing waits for the machine: the node's timer, its coroutines, joint states and goals all pass
in the time of `benchmarks.driven_world.World`, so a busy machine is slower and nothing else.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
import contextlib
from functools import partial
import os
from pathlib import Path
import tempfile
import time
from unittest import mock

from action_msgs.msg import GoalStatus
import numpy as np
import rclpy
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from robot_identification.model.robot import Robot
from robot_identification.nodes import excitation_node
from robot_identification.nodes.common.messages import seconds
from robot_identification.nodes.common.requests import end_goal
from robot_identification.simulation import SimulationSettings
from robot_identification.simulation.controller import Constraints
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.srv import Preview
import yaml

from benchmarks.driven_world import driven_time, DrivenController, World

PLANAR = Path(__file__).resolve().parents[1] / 'urdf' / 'zollo_planar_2r.urdf'

PARAMETERS = {
    'execute': True,
    'move_speed': 0.8,
    'planner.duration': 4.0,
    'planner.harmonics': 4,
    'planner.max_iterations': 3,
}
"""Of the node, unless a test says otherwise."""

SERVO_RATE = 200.0
"""Of the robot's servos at least, which a lower one leaves at the edge of stability [Hz]."""

DECELERATION = 12.0
"""Of each joint where a goal is canceled [rad/s^2]."""

LONGEST = 120.0
"""World's time in which whatever a test waits for has happened [s]."""


class Goal:
    """A goal of an action, in place of rclpy's handle."""

    def __init__(self, request):
        self.request = request
        self.feedback = []
        self.status = GoalStatus.STATUS_EXECUTING
        self.is_cancel_requested = False

    def publish_feedback(self, message):
        self.feedback.append(message)

    def succeed(self):
        self.status = GoalStatus.STATUS_SUCCEEDED

    def abort(self):
        self.status = GoalStatus.STATUS_ABORTED

    def canceled(self):
        self.status = GoalStatus.STATUS_CANCELED


class Resumed:
    """
    A coroutine of the node that the cell resumes at each of its ticks.

    Attributes
    ----------
    done, result:
        Whether it has ended, and what it has returned.

    """

    def __init__(self, coroutine):
        self._coroutine = coroutine
        self.done, self.result = False, None

    def resume(self):
        if self.done:
            return  # what a test does within a step may have ended it
        try:
            self._coroutine.send(None)
        except StopIteration as stop:
            self.done, self.result = True, stop.value


class Workers(ThreadPoolExecutor):
    """Threads for the node's computing; the world stands still meanwhile where ``waits``."""

    waits = True

    def submit(self, function):
        future = super().submit(function)
        if self.waits:
            wait_for([future])
        return future


class DrivenCell:
    """
    The node, a simulated robot, and their common time; a context.

    Attributes
    ----------
    world:
        See `World`.
    node:
        The `ExcitationNode`.
    controller:
        What the node's goals go to.
    workers:
        See `Workers`.

    Parameters
    ----------
    capture:
        pytest's ``capfd``.
    domain:
        ROS domain, for the node's graph; no message of a motion goes through it.
    urdf, rate:
        The robot, and the rate of its joint states [Hz].
    constraints:
        Of the controller.
    time_factor:
        Rate of the robot's time, relative to the node's.
    described:
        Whether the node has the robot by its parameter, not by the topic.
    silent:
        Whether no joint states arrive at the node, from the first one on.
    parameters:
        Of the node, beside `PARAMETERS`.

    """

    def __init__(self, capture, domain, urdf=PLANAR, rate=200.0, constraints=None,
                 time_factor=1.0, described=True, silent=False, **parameters):  # fmt: skip
        self._capture, self._output = capture, ''
        self._robot = Robot.from_urdf(urdf)
        self._domain = domain
        self._parameters = {**PARAMETERS, **parameters}
        if described:
            self._parameters['robot_description'] = str(urdf)
        constraints = constraints or Constraints(
            decelerate_on_cancel=True, max_deceleration_on_cancel=(DECELERATION,)
        )
        settings = SimulationSettings(rate=rate, servo_rate=max(rate, SERVO_RATE))
        self.world = World(self._robot, settings, constraints, time_factor)
        self.controller = DrivenController(self.world)
        if silent:
            self.world.spoil = lambda message: []
        self._tasks = []
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with self._stack as stack:
            stack.enter_context(driven_time(self.world))
            stack.enter_context(
                mock.patch.object(excitation_node, 'Controller', lambda *_: self.controller)
            )
            stack.enter_context(
                mock.patch.object(excitation_node, 'ThreadPoolExecutor', self._make_workers)
            )
            rclpy.init(
                args=['--ros-args', '--params-file', self._parameter_file()],
                domain_id=self._domain,
                signal_handler_options=SignalHandlerOptions.NO,
            )
            stack.callback(rclpy.try_shutdown)
            self.node = excitation_node.ExcitationNode()
            stack.callback(self.node.destroy_node)
            stack.callback(self._stop_workers)
            self.pass_time(0.3)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        print(self.output)
        return self._stack.__exit__(*error)

    def _parameter_file(self):
        handle, path = tempfile.mkstemp('.yaml', 'parameters_', os.environ['ROS_LOG_DIR'])
        with open(handle, 'w') as file:
            yaml.safe_dump({'/**': {'ros__parameters': self._parameters}}, file)
        return path

    def _make_workers(self, **options):
        self.workers = Workers(**options)
        return self.workers

    def _stop_workers(self):
        for task in self._tasks:
            if isinstance(task, Request):
                task.cancel()
        self.workers.shutdown(wait=True, cancel_futures=True)

    # ---------------------------------------------------------------------------------- the time

    def step(self):
        """Let the node's next tick come: what it does takes no time."""
        self.world.pass_time(excitation_node.TICK)
        for timer in self.node.timers:
            if not timer.is_canceled():
                timer.callback()
        for task in list(self._tasks):
            task.resume()
        self._tasks = [task for task in self._tasks if not task.done]
        if not self.workers.waits:
            time.sleep(0.002)  # for the threads

    def pass_time(self, duration):
        """Let time pass."""
        end = self.world.wall + duration - 1e-9
        while self.world.wall < end:
            self.step()

    def wait_until(self, condition, what='the condition', longest=LONGEST):
        """Let time pass until a condition holds."""
        end = self.world.wall + longest
        while not condition():
            assert self.world.wall < end, f'{what}: not within {longest} s'
            self.step()

    def hold_up(self, duration):
        """Let time pass without the node."""
        self.world.pass_time(duration)

    # --------------------------------------------------------------------------------- the node

    @property
    def output(self):
        """Return what the node has logged."""
        self._output += ''.join(self._capture.readouterr())
        return self._output

    def set(self, **values):
        """Set parameters of the node."""
        parameters = [Parameter(name, value=value) for name, value in values.items()]
        for answer in self.node.set_parameters(parameters):
            assert answer.successful, answer.reason

    def deliver(self, topic, message):
        """Have the node get a message on one of its topics."""
        name = self.node.resolve_topic_name(topic)
        found = [each for each in self.node.subscriptions if each.topic_name == name]
        assert found, f'the node does not listen to {name}'
        for subscription in found:
            subscription.callback(message)

    def start(self, coroutine):
        """Have a coroutine of the node go on from now on; return its `Resumed`."""
        task = coroutine if isinstance(coroutine, Resumed) else Resumed(coroutine)
        self._tasks.append(task)
        task.resume()
        return task

    def begin(self, **fields):
        """Have a motion begin; return its `Request`."""
        return self._begin_goal(Excite, self.node._excite, fields)

    def begin_plan(self, **fields):
        """Have a plan begin; return its `Request`."""
        return self._begin_goal(PlanExcitation, self.node._plan, fields)

    def _begin_goal(self, kind, execute, fields):
        work = partial(end_goal, self.node, kind, execute)
        return self.start(Request(work, kind.Goal(**fields)))

    def excite(self, cancel_when=lambda feedback: False, **fields):
        """
        Have a motion carried out; return status, result and feedback.

        ``cancel_when`` is called at each tick with the feedback so far.
        """
        return self.finish(self.begin(**fields), cancel_when)

    def plan(self, **fields):
        """Return the result of a plan."""
        return self.finish(self.begin_plan(**fields))[1]

    def finish(self, request, cancel_when=lambda feedback: False):
        """Let time pass until a request has ended; return status, result and feedback."""

        def ended():
            if not request.done and cancel_when(request.feedback):
                request.cancel()
            return request.done

        self.wait_until(ended, 'the end of a request')
        return request.goal.status, request.result, request.feedback

    def begin_preview(self, **fields):
        """Have a preview begin; return its `Resumed`."""
        (service,) = (s for s in self.node.services if s.srv_type is Preview)
        return self.start(service.callback(Preview.Request(**fields), Preview.Response()))

    def preview(self, **fields):
        """Return the answer of the service."""
        task = self.begin_preview(**fields)
        self.wait_until(lambda: task.done, 'the preview')
        return task.result

    # -------------------------------------------------------------------------------- the robot

    @property
    def states(self):
        """Joint states so far."""
        return self.world.states

    @property
    def sent(self):
        """Trajectories of the goals so far."""
        return [goal.trajectory for goal in self.controller.goals]

    def at_rest(self):
        """Return whether the robot rests."""
        self.pass_time(0.3)
        since = round(0.25 * self.world.simulator.settings.rate)
        return float(np.ptp(self.positions()[-since:], axis=0).max()) < 2e-3

    def stamps(self):
        """Return the times of the joint states so far [s]."""
        return np.array([seconds(state.header.stamp) for state in self.states])

    def positions(self):
        """Return the positions so far, (n, n_joints)."""
        return np.array([state.position for state in self.states])

    def velocities(self):
        """Return the velocities so far, (n, n_joints)."""
        return np.array([state.velocity for state in self.states])


class Request(Resumed):
    """A goal of one of the node's actions, on its way."""

    def __init__(self, execute, request):
        self.goal = Goal(request)
        super().__init__(execute(self.goal))

    @property
    def feedback(self):
        return self.goal.feedback

    @property
    def progress(self):
        """Share of a motion that has passed."""
        return self.feedback[-1].progress if self.feedback else 0.0

    def cancel(self):
        self.goal.is_cancel_requested = True
