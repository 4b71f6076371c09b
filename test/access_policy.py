# SPDX-License-Identifier: Apache-2.0
"""Names of DDS topics that an SROS 2 policy allows, by the rules of its tools."""

from pathlib import Path
import xml.etree.ElementTree as ElementTree

POLICY = Path(__file__).resolve().parents[1] / 'security' / 'policy.xml'

ACTION_SERVICES = ('send_goal', 'cancel_goal', 'get_result')
ACTION_TOPICS = ('feedback', 'status')


def full_name(name, namespace, node):
    """Return the absolute name of a topic, service or action of a profile."""
    if name.startswith('/'):
        return name
    start = namespace if namespace.endswith('/') else f'{namespace}/'
    return f'{start}{node}{name[1:]}' if name.startswith('~') else f'{start}{name}'


def on_the_wire(kind, rule, name):
    """Return {(publish or subscribe, DDS topic)} that an entry stands for."""
    if kind == 'topics':
        return {(rule, f'rt{name}')}
    if kind == 'services':
        asking, answering = ('publish', 'subscribe')
        if rule == 'reply':
            asking, answering = answering, asking
        return {(asking, f'rq{name}Request'), (answering, f'rr{name}Reply')}
    found = set()
    for service in ACTION_SERVICES:
        side = 'request' if rule == 'call' else 'reply'
        found |= on_the_wire('services', side, f'{name}/_action/{service}')
    side = 'subscribe' if rule == 'call' else 'publish'
    return found | {(side, f'rt{name}/_action/{topic}') for topic in ACTION_TOPICS}


def allowed():
    """Return what each enclave may do, by its path."""
    found = {}
    for enclave in ElementTree.parse(POLICY).iter('enclave'):
        rights = found[enclave.get('path')] = set()
        for profile in enclave.iter('profile'):
            for element in profile:
                for rule, qualifier in element.items():
                    assert qualifier == 'ALLOW'
                    for entry in element:
                        name = full_name(entry.text, profile.get('ns'), profile.get('node'))
                        rights |= on_the_wire(element.tag, rule, name)
    return found


def used(ros, node, namespace='/'):
    """Return what a running node does on the wire, as other processes see it."""
    place = node, namespace, True
    publishes = ros.node.get_publisher_names_and_types_by_node(*place)
    subscribes = ros.node.get_subscriber_names_and_types_by_node(*place)
    return {
        *(('publish', name) for name, _ in publishes),
        *(('subscribe', name) for name, _ in subscribes),
    }
