# SPDX-License-Identifier: Apache-2.0
"""Many requests at once, over DDS: each of them is answered."""

from functools import partial
import threading

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')

from robot_identification.errors import IdentificationError
from robot_identification.nodes.common.requests import MOST_WAITING, RequestQueue

AT_ONCE = 50


def ask_at_once(ros, kind, service, **fields):
    """Send requests at once from several clients; return the answers."""
    from rclpy.qos import QoSProfile

    # the answers to all clients of a service reach each of them: a depth of 10 drops some
    deep = QoSProfile(depth=1000)
    clients = [ros.node.create_client(kind, service, qos_profile=deep) for _ in range(5)]
    ros.wait_until(lambda: all(c.service_is_ready() for c in clients), what=f'service {service}')
    futures = [clients[i % 5].call_async(kind.Request(**fields)) for i in range(AT_ONCE)]

    def answered():
        return all(future.done() for future in futures)

    ros.wait_until(answered, 120.0, f'{AT_ONCE} answers of {service}')
    return [future.result() for future in futures]


def test_each_of_50_identifications_is_done_or_refused_with_the_number_that_waits(node, bags):
    """The first ones are worked on one after the other, the others refused at once."""
    from robot_identification_msgs.srv import Identify

    answers = ask_at_once(node, Identify, 'identification/identify', source=str(bags['short']))
    done = [answer for answer in answers if answer.success]
    refused = [answer.message for answer in answers if not answer.success]
    assert len(done) >= 1 + MOST_WAITING
    assert len(done) + len(refused) == AT_ONCE
    assert refused
    busy = f'busy with identify, {MOST_WAITING} waiting: ask again'
    for message in refused:
        assert message.startswith(busy), message
    assert len({tuple(p.value for p in answer.base.parameters) for answer in done}) == 1


def test_each_of_50_requests_to_other_services_is_answered(ros, arm):
    from robot_identification_msgs.srv import GetRegressor, StartRecording
    from std_srvs.srv import Trigger

    ros.start('regressor', parameters={'robot_description': str(arm.urdf)})
    zeros = [0.0] * len(arm.robot.joints)
    rows = ask_at_once(
        ros, GetRegressor, 'regressor/get_regressor',
        position=zeros, velocity=zeros, acceleration=zeros,
    )  # fmt: skip
    assert all(answer.success for answer in rows)
    ros.start('recorder', parameters={'output': 'recordings'})
    starts = ask_at_once(ros, StartRecording, 'recorder/start', name='one')
    assert sum(answer.success for answer in starts) == 1
    assert len([a for a in starts if 'is being recorded' in a.message]) == AT_ONCE - 1
    ros.start('identification', parameters=arm.parameters)
    saves = ask_at_once(ros, Trigger, 'identification/online/save')
    assert all('joint states are not followed' in answer.message for answer in saves)


class Executor:
    """An executor that has coroutines go on each time that it is woken, as rclpy's does."""

    def __init__(self):
        self.executor, self.woken = self, threading.Event()
        self.outcomes = {}

    def wake(self):
        self.woken.set()

    def resume(self, coroutines):
        """Let all go on; return those that have not ended."""
        left = {}
        for name, coroutine in coroutines.items():
            try:
                coroutine.send(None)
                left[name] = coroutine
            except StopIteration as end:
                self.outcomes[name] = end.value
            except IdentificationError as error:
                self.outcomes[name] = str(error)
        return left

    def spin(self, coroutines):
        """Let all go on until they have ended."""
        while coroutines := self.resume(coroutines):
            assert self.woken.wait(10.0), 'nothing wakes the executor'
            self.woken.clear()


def test_the_queue_keeps_the_order_and_refuses_those_beyond_its_limit():
    executor, order, ended = Executor(), [], threading.Event()
    queue = RequestQueue(executor, limit=2)

    def work(name):
        ended.wait(10.0)
        order.append(name)
        return name.upper()

    requests = {name: queue.work(name, partial(work, name)) for name in 'abcd'}
    left = executor.resume(requests)
    assert executor.outcomes.keys() == {'d'}
    assert executor.outcomes['d'].startswith('busy with a, 2 waiting')
    assert len(queue) == 3
    ended.set()
    executor.spin(left)
    assert order == ['a', 'b', 'c']
    assert [executor.outcomes[name] for name in 'abc'] == ['A', 'B', 'C']
    assert len(queue) == 0


def test_a_stopped_queue_ends_what_it_works_on_and_refuses_the_rest():
    executor, begun, ended = Executor(), threading.Event(), threading.Event()
    queue = RequestQueue(executor)

    def work():
        begun.set()
        ended.wait(10.0)
        return 'done'

    left = executor.resume({'a': queue.work('a', work), 'b': queue.work('b', work)})
    assert begun.wait(10.0)
    left |= executor.resume({'stop': queue.stop(10.0)})
    assert 'stop' in left
    ended.set()
    executor.spin(left)
    assert executor.outcomes['a'] == 'done'
    assert executor.outcomes['b'] == 'the node is shutting down'
    executor.spin({'c': queue.work('c', work)})
    assert executor.outcomes['c'] == 'the node is shutting down'
