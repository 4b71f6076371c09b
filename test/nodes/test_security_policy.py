# SPDX-License-Identifier: Apache-2.0
"""The access policy for SROS 2, and nodes that are told to be secure where that is impossible."""

from pathlib import Path
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip('rclpy')

from access_policy import allowed, POLICY, used

ENCLAVE = '/robot_identification/recorder'
KEY_FILES = (
    'identity_ca.cert.pem',
    'cert.pem',
    'key.pem',
    'permissions_ca.cert.pem',
    'governance.p7s',
    'permissions.p7s',
)
ELEMENTS = {
    'policy': ({'version'}, {'enclaves'}),
    'enclaves': (set(), {'enclave'}),
    'enclave': ({'path'}, {'profiles'}),
    'profiles': (set(), {'profile'}),
    'profile': ({'ns', 'node'}, {'topics', 'services', 'actions'}),
    'topics': ({'publish', 'subscribe'}, {'topic'}),
    'services': ({'request', 'reply'}, {'service'}),
    'actions': ({'call', 'execute'}, {'action'}),
    'topic': (set(), set()),
    'service': (set(), set()),
    'action': (set(), set()),
}
"""Attributes and children of each element in the format of version 0.2.0."""


def test_the_policy_is_up_to_date():
    from security_policy import policy

    command = 'python scripts/security_policy.py security/policy.xml'
    assert POLICY.read_text() == policy(), f'run: {command}'


def test_the_policy_has_the_form_that_the_tools_take():
    root = ElementTree.parse(POLICY).getroot()
    assert root.get('version') == '0.2.0'
    for element in root.iter():
        attributes, children = ELEMENTS[element.tag]
        assert set(element.attrib) <= attributes
        assert {child.tag for child in element} <= children
        assert element.text.strip() or len(element)


def test_only_the_operator_may_move_the_robot_and_identify():
    """And the excitation node itself, whose calibrations do so."""
    rights = allowed()
    for enclave, owned in rights.items():
        node = enclave.rpartition('/')[2]
        moves = ('publish', 'rq/excitation/excite/_action/send_goalRequest') in owned
        assert moves == (node in ('operator', 'excitation')), enclave
        for name in (
            'rq/excitation/set_parametersRequest',
            'rq/identification/identifyRequest',
            'rq/identification/export_urdfRequest',
        ):
            assert (('publish', name) in owned) == (node == 'operator'), (enclave, name)
        # joint states are those of the driver, or of the simulation
        assert (('publish', 'rt/joint_states') in owned) == (node == 'simulation')
        assert (('publish', 'rt/robot_description') in owned) == (node == 'simulation')
    recorder = rights['/robot_identification/excitation']
    assert ('publish', 'rq/recorder/startRequest') in recorder


@pytest.mark.parametrize('keys', [False, True])
def test_a_node_that_has_to_be_secure_and_cannot_does_not_start(ros, tmp_path, keys):
    """Neither without keys, nor with ones that nothing here can read, does it talk in the open."""
    folder = tmp_path / 'enclaves' / ENCLAVE.strip('/')
    if keys:
        folder.mkdir(parents=True)
        for name in KEY_FILES:
            (folder / name).write_text('no key\n')
    process = ros.start(
        'recorder',
        wait=False,
        ROS_SECURITY_ENABLE='true',
        ROS_SECURITY_STRATEGY='Enforce',
        ROS_SECURITY_KEYSTORE=str(tmp_path),
        ROS_SECURITY_ENCLAVE_OVERRIDE=ENCLAVE,
    )
    assert process.wait() != 0
    assert 'secur' in process.output.lower()
    assert not any('recorder' in name for name in ros.node.get_node_names())


def test_nodes_at_work_and_their_operator_do_no_more_than_they_may(ros, tmp_path):
    """
    Compare the policy with what is on the wire from a calibration's first plan to its end.

    Idle nodes are compared in `test_nodes_page`; clients of other nodes exist at work only.
    """
    from controller_manager_msgs.srv import ListControllers
    from robot_identification_msgs.action import Calibrate

    ros.node.create_service(
        ListControllers, '/controller_manager/list_controllers', lambda _, response: response
    )
    robot = {'robot_description': str(POLICY.parents[1] / 'urdf' / 'zollo_planar_2r.urdf')}
    ros.start('simulation', parameters={**robot, 'rate': 100.0, 'clock_rate': 25.0}, wait=False)
    ros.start('recorder', parameters={'output': str(tmp_path / 'bags')}, wait=False)
    moving = {
        'use_sim_time': True, 'execute': True, 'planner.max_iterations': 5,
        'planner.duration': 20.0, 'stale_timeout': 5.0,
        'calibration.output': str(tmp_path / 'calibrations'),
    }  # fmt: skip
    ros.start('excitation', parameters=moving)
    command = [sys.executable, '-m', 'robot_identification.cli', 'node']
    watch = ros.start_command('watch', [*command, 'watch', 'recorder'], wait=False)
    stop, found = [], {}
    enclaves = {
        'excitation': 'excitation', 'calibration_client': 'excitation', 'recorder': 'recorder',
        'simulation': 'simulation', 'robot_identification_client': 'operator',
    }  # fmt: skip
    rights, names = allowed(), ros.node.get_node_names

    def look():
        for node in set(enclaves) & set(names()):
            found.setdefault(node, set()).update(used(ros, node))

    def at_work(feedback):
        look()
        started = ('subscribe', 'rt/recorder/status') in found.get('excitation', ())
        if started and not stop and any('executing' in each.phase for each in feedback):
            stop.append(ros.start_command('stop', [*command, 'stop', '--all'], wait=False))
        return False

    result = ros.act(Calibrate, 'excitation/calibrate', 120.0, at_work, duration=60.0)[1]
    assert 'canceled' in result.error_msg and stop, result.error_msg
    ros.wait_until(lambda: look() or stop[0].returncode is not None, what='the end of the command')
    assert stop[0].returncode == 0, stop[0].output
    watch.stop()
    asked = 'publish', 'rq/controller_manager/list_controllersRequest'
    assert asked in found['excitation'], 'the question to the manager was not seen'
    for node, enclave in enclaves.items():
        denied = found[node] - rights[f'/robot_identification/{enclave}']
        assert not denied, f'security/policy.xml denies {node}: {sorted(denied)}'


def test_the_documentation_has_the_commands_for_every_enclave():
    page = Path(POLICY.parents[1] / 'docs' / 'how_to' / 'security.md').read_text()
    for enclave in allowed():
        assert enclave in page, enclave
