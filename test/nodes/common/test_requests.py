# SPDX-License-Identifier: Apache-2.0
"""Many requests at once, over DDS: each of them is answered."""

import threading

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')

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
    from robot_identification.nodes.common.requests import MOST_WAITING
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


def test_the_queue_keeps_the_order_and_ends_with_the_node():
    from robot_identification.errors import IdentificationError
    from robot_identification.nodes.common.requests import RequestQueue

    queue, ended, order = RequestQueue(limit=2), threading.Event(), []

    def request(name):
        try:
            with queue.turn(name):
                order.append(name)
                ended.wait(10.0)
        except IdentificationError as error:
            order.append(str(error))

    threads = []
    for waiting, name in enumerate(('a', 'b', 'c'), 0):
        threads.append(threading.Thread(target=request, args=(name,)))
        threads[-1].start()
        while len(queue) != waiting + 1:
            pass
    with pytest.raises(IdentificationError, match='busy with a, 2 waiting'):
        queue.turn('d').__enter__()
    assert order == ['a']
    ended.set()
    for thread in threads:
        thread.join(10.0)
    assert order == ['a', 'b', 'c']
    queue.stop()
    with pytest.raises(IdentificationError, match='shutting down'):
        queue.turn('e').__enter__()
