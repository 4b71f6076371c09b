# SPDX-License-Identifier: Apache-2.0
"""A controller that is loaded but not active moves nothing, and its manager tells so."""

import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from controller_manager_msgs.msg import ControllerState as StateMessage
from controller_manager_msgs.srv import ListControllers
from robot_identification.nodes.excitation import remote_nodes
from robot_identification.nodes.excitation.options import Code, ControllerOptions, MotionError
from robot_identification.nodes.excitation.remote_nodes import Controller


class Pause:
    """Wait for the executor's next turn."""

    def __await__(self):
        yield


async def tick():
    await Pause()


class Manager:
    """A controller manager that tells the states of its controllers, as ros2_control's does."""

    def __init__(self, ros, name='/controller_manager', **states):
        self.states, self.asked = states, 0
        ros.node.create_service(ListControllers, f'{name}/list_controllers', self._answer)

    def _answer(self, request, response):
        self.asked += 1
        response.controller = [StateMessage(name=n, state=s) for n, s in self.states.items()]
        return response


def ask(ros, **options):
    """Ask for a controller; return the `MotionError`, or None."""
    question = Controller(ros.node, None, ControllerOptions(**options))

    async def work():
        try:
            await question.require_active(tick)
        except MotionError as error:
            return error

    task = ros.executor.create_task(work)
    ros.wait_until(task.done, 20.0, 'the answer')
    return task.result()


def wait_for(ros, *services):
    """Wait until services of the test itself are known."""

    def known():
        return set(services) <= {name for name, _ in ros.node.get_service_names_and_types()}

    ros.wait_until(known, what='the controller managers')


def test_only_an_active_controller_passes(ros):
    manager = Manager(ros, arm='inactive', hand='active')
    elsewhere = Manager(ros, '/left/manager', arm='unconfigured')
    wait_for(ros, '/controller_manager/list_controllers', '/left/manager/list_controllers')

    error = ask(ros, controller_topic='arm/joint_trajectory')
    assert error.code == Code.NO_CONTROLLER
    assert str(error) == (
        "the controller '/arm' is inactive, so nothing would move: activate it: "
        'ros2 control switch_controllers --activate arm'
    )
    assert (manager.asked, elsewhere.asked) == (1, 0)
    for kind in ('follow_joint_trajectory', 'position_commands', 'velocity_commands'):
        assert ask(ros, controller_kind=kind, controller_topic='arm/x').code == error.code
    assert ask(ros, controller_topic='x', controller_node='arm').code == error.code

    # of another namespace, of another name; the command has to say where
    text = str(ask(ros, controller_topic='/left/arm/joint_trajectory'))
    assert "'/left/arm' is unconfigured" in text
    assert 'set_controller_state arm inactive --controller-manager /left/manager' in text

    # active, or nothing that this manager knows of
    assert ask(ros, controller_topic='hand/joint_trajectory') is None
    assert ask(ros, controller_topic='foot/joint_trajectory') is None
    assert ask(ros, controller_topic='/right/arm/joint_trajectory') is None


def test_a_manager_that_does_not_answer_is_waited_for_a_little_only(ros, monkeypatch, capfd):
    monkeypatch.setattr(remote_nodes, 'ANSWER_SECONDS', 0.2)

    async def never(request, response):
        await ros_future
        return response

    from rclpy.task import Future

    ros_future = Future(executor=ros.executor)
    ros.node.create_service(ListControllers, '/controller_manager/list_controllers', never)
    wait_for(ros, '/controller_manager/list_controllers')
    assert ask(ros, controller_topic='arm/joint_trajectory') is None
    ros_future.set_result(None)
    assert "'/controller_manager' does not answer whether" in capfd.readouterr().err
