# SPDX-License-Identifier: Apache-2.0
"""
Tests of Gazebo's input without Gazebo: expanded xacro, controllers' file, both together.

The names that are held to constants here are those of gz_ros2_control and ros2_control for Jazzy.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from pathlib import Path

from lxml import etree
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.data.recording import Recording
from robot_identification.errors import ModelError
from robot_identification.excitation import plan, PlannerSettings
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.stops import harsh_stops
from robot_identification.model.robot import Robot
from robot_identification.model.urdf_files import read_urdf
from robot_identification.regressor import ModelSettings, prior
from robot_identification.signals import process, SignalSettings
from robot_identification.simulation.plant import Plant
import yaml

pytest.importorskip('xacro', reason='needs xacro, which pip and ROS have')

ROOT = Path(__file__).resolve().parents[2]
XACRO = ROOT / 'urdf' / 'demo_arm.urdf.xacro'
PLAIN = ROOT / 'urdf' / 'demo_arm.urdf'
CONTROLLERS = yaml.safe_load((ROOT / 'config' / 'demo_arm_controllers.yaml').read_text())
JOINTS = tuple(f'joint_{i}' for i in range(1, 7))
CONTROLLER_OF = {
    'position': 'joint_trajectory_controller',
    'effort': 'joint_trajectory_effort_controller',
}
CASES = list(product(('true', 'false'), CONTROLLER_OF, ('/', '/cell')))


def expand(use_gazebo='true', command_interface='position', namespace='/', **more) -> str:
    arguments = {
        'use_gazebo': use_gazebo,
        'command_interface': command_interface,
        'namespace': namespace,
    }
    return read_urdf(XACRO, {**arguments, **more})[0]


def document(*case: str) -> etree._Element:
    return etree.fromstring(expand(*case).encode())


def parameters(node: str) -> dict:
    return CONTROLLERS[f'/**/{node}']['ros__parameters']


@pytest.fixture(params=CASES, ids='-'.join)
def case(request):
    return request.param


# ---------------------------------------------------------------------------------- the same arm


def test_every_element_of_the_plain_arm_is_there_unchanged(case):
    """There is no second copy of a number that could differ: the file itself is included."""
    plain = etree.parse(str(PLAIN)).getroot()
    expanded = document(*case)
    for element in plain.iterchildren(etree.Element):
        path = f'{element.tag}[@name="{element.get("name")}"]'
        (found,) = expanded.findall(path)
        assert signature(found) == signature(element)
    others = {e.get('name') for e in expanded.findall('link') + expanded.findall('joint')}
    others -= {e.get('name') for e in plain.findall('link') + plain.findall('joint')}
    assert others == {'world', 'world_to_base'}


def signature(element: etree._Element) -> tuple:
    """Return what an element says, whatever its white space and the order of its attributes."""
    return (
        element.tag,
        tuple(sorted(element.attrib.items())),
        (element.text or '').strip(),
        tuple(signature(child) for child in element.iterchildren(etree.Element)),
    )


def states(robot: Robot, count: int = 20):
    random = np.random.default_rng(1)
    lower, upper = robot.limits.lower, robot.limits.upper
    for _ in range(count):
        yield random.uniform(lower, upper), *random.standard_normal((2, robot.n_joints))


def test_pinocchio_has_the_same_dynamics(case):
    plain, robot = Robot.from_urdf(PLAIN), Robot.from_urdf(expand(*case))
    assert robot.joints == plain.joints == JOINTS
    assert robot.links == plain.links
    data, other = plain.model.createData(), robot.model.createData()
    for q, v, a in states(plain):
        expected = pin.rnea(plain.model, data, q, v, a)
        np.testing.assert_allclose(pin.rnea(robot.model, other, q, v, a), expected, atol=1e-12)


def test_the_simulation_has_the_same_dynamics():
    robots = [Robot.from_urdf(PLAIN), Robot.from_urdf(expand())]
    plants = [Plant(robot, prior(robot, ModelSettings()), 1e-3) for robot in robots]
    for state in states(robots[0]):
        one, other = (plant.inverse_dynamics(*state) for plant in plants)
        np.testing.assert_allclose(other, one, atol=1e-12)


def test_mujoco_reads_it_itself_with_the_same_dynamics(case):
    """But for the link that means Gazebo's world: MuJoCo has a body of that name already."""
    models = []
    for text in (PLAIN.read_text(), expand(*case).replace('"world"', '"gazebo_world"')):
        models.append(mujoco.MjModel.from_xml_string(text[text.index('<robot') :]))
    results = []
    for model in models:
        data = mujoco.MjData(model)
        efforts = []
        for q, v, a in states(Robot.from_urdf(PLAIN)):
            data.qpos, data.qvel, data.qacc = q, v, a
            mujoco.mj_inverse(model, data)
            efforts.append(data.qfrc_inverse.copy())
        results.append(efforts)
    np.testing.assert_allclose(results[1], results[0], atol=1e-12)


# ---------------------------------------------------------------------- what becomes SDF of it


def test_it_becomes_a_valid_model_of_gazebo(case):
    """Nothing is there that sdformat's conversion of a URDF drops or refuses."""
    expanded = document(*case)
    links = {link.get('name'): link for link in expanded.findall('link')}
    joints = expanded.findall('joint')
    names = [element.get('name') for element in (*links.values(), *joints)]
    assert len(names) == len(set(names))
    assert len(links) == len(expanded.findall('link')) == len(joints) + 1
    (fixed,) = [joint for joint in joints if joint.find('parent').get('link') == 'world']
    assert fixed.get('type') == 'fixed'
    assert not list(links.pop('world')), 'the world is Gazebo, not a body'
    for name, link in links.items():
        # a link without mass is dropped, and all that hangs on it
        assert float(link.find('inertial/mass').get('value')) > 0.0, name
        i = {key: float(text) for key, text in link.find('inertial/inertia').attrib.items()}
        moments = np.linalg.eigvalsh([
            [i['ixx'], i['ixy'], i['ixz']],
            [i['ixy'], i['iyy'], i['iyz']],
            [i['ixz'], i['iyz'], i['izz']],
        ])  # fmt: skip
        assert moments[0] > 0.0 and moments[0] + moments[1] >= moments[2], name
    assert not list(expanded.iter('mesh')), 'a mesh has to be found by Gazebo'
    for joint in joints:
        if joint.get('type') == 'fixed':
            continue
        limit = {key: float(text) for key, text in joint.find('limit').attrib.items()}
        assert limit['lower'] < limit['upper'] and limit['velocity'] > 0.0 < limit['effort']
        axis = [float(word) for word in joint.find('axis').get('xyz').split()]
        assert np.linalg.norm(axis) == pytest.approx(1.0)


def test_gazebo_alone_gets_a_plugin(case):
    use_gazebo, _, namespace = case
    expanded = document(*case)
    if use_gazebo == 'false':
        assert expanded.find('gazebo') is None
        return
    (plugin,) = expanded.findall('gazebo/plugin')
    assert plugin.get('filename') == 'gz_ros2_control-system'
    assert plugin.get('name') == 'gz_ros2_control::GazeboSimROS2ControlPlugin'
    assert plugin.findtext('ros/namespace') == namespace
    path = Path(plugin.findtext('parameters'))
    assert path.is_absolute() and path.is_file()
    assert yaml.safe_load(path.read_text()) == CONTROLLERS


def test_the_controllers_file_may_be_another(tmp_path):
    expanded = etree.fromstring(expand(controllers=str(tmp_path / 'mine.yaml')).encode())
    assert expanded.findtext('gazebo/plugin/parameters') == str(tmp_path / 'mine.yaml')


# ------------------------------------------------------------ hardware and controllers together


def test_the_hardware_is_gazebo_or_a_mock(case):
    plugin = document(*case).findtext('ros2_control/hardware/plugin')
    assert (
        plugin
        == {
            'true': 'gz_ros2_control/GazeboSimSystem',
            'false': 'mock_components/GenericSystem',
        }[case[0]]
    )


def test_mock_hardware_computes_motion_of_joints_that_it_can_move(case):
    """GenericSystem refuses to compute the motion of joints that take efforts alone."""
    system = document(*case).find('ros2_control')
    computes = system.findtext('hardware/param[@name="calculate_dynamics"]') == 'true'
    taken = {one.get('name') for one in system.iterfind('joint/command_interface')}
    assert computes == (case[0] == 'false' and taken <= {'position', 'velocity', 'acceleration'})


def test_controllers_claim_what_the_hardware_offers_for_joints_that_exist(case):
    offered = {
        joint.get('name'): {
            kind: [one.get('name') for one in joint.findall(f'{kind}_interface')]
            for kind in ('command', 'state')
        }
        for joint in document(*case).findall('ros2_control/joint')
    }
    assert tuple(offered) == JOINTS == Robot.from_urdf(PLAIN).joints
    controller = parameters(CONTROLLER_OF[case[1]])
    assert controller['joints'] == list(JOINTS)
    for interfaces in offered.values():
        assert interfaces['command'] == controller['command_interfaces'] == [case[1]]
        assert set(controller['state_interfaces']) <= set(interfaces['state'])
        # what joint_state_broadcaster turns into joint_states
        assert interfaces['state'] == ['position', 'velocity', 'effort']


def test_the_controller_of_the_other_interface_claims_another():
    claims = {parameters(name)['command_interfaces'][0] for name in CONTROLLER_OF.values()}
    assert claims == set(CONTROLLER_OF)


def test_the_types_and_keys_are_those_of_ros2_controllers():
    kinds = {pattern.removeprefix('/**/'): section for pattern, section in CONTROLLERS.items()}
    assert set(kinds) == {'controller_manager', 'joint_state_broadcaster', *CONTROLLER_OF.values()}
    assert parameters('joint_state_broadcaster') == {
        'type': 'joint_state_broadcaster/JointStateBroadcaster'
    }
    # one update a step of the physics: more is an error of the plugin, less makes joints tremble
    assert parameters('controller_manager') == {'update_rate': 1000}
    for name in CONTROLLER_OF.values():
        values = deepcopy(parameters(name))
        assert values.pop('type') == 'joint_trajectory_controller/JointTrajectoryController'
        gains = values.pop('gains', {})
        constraints = values.pop('constraints')
        assert constraints.pop('decelerate_on_cancel') is True
        assert set(constraints) == set(JOINTS)
        assert set(values) == {'joints', 'command_interfaces', 'state_interfaces'}
        assert set(gains) == (set(JOINTS) if 'effort' in name else set())
        for gain in gains.values():
            assert gain.pop('antiwindup_strategy') == 'conditional_integration'
            assert set(gain) == {'p', 'i', 'd', 'u_clamp_max', 'u_clamp_min'}
            assert all(isinstance(value, float) for value in gain.values()), 'a double in ROS'


def test_stops_keep_the_acceleration_limits_and_are_those_of_the_planner():
    limits = motion_limits(Robot.from_urdf(PLAIN), PlannerSettings(), margin=0.0)
    planner = yaml.safe_load((ROOT / 'config' / 'gazebo.yaml').read_text())
    planner = planner['/**/excitation']['ros__parameters']['planner']
    for name in CONTROLLER_OF.values():
        by_joint = parameters(name)['constraints']
        stops = np.array([by_joint[joint]['max_deceleration_on_cancel'] for joint in JOINTS])
        assert harsh_stops(limits, stops) == ''
        assert (stops > 0.3 * limits.acceleration).all()
        assert planner['stop_deceleration'] == stops.tolist()


def test_an_interface_that_no_controller_has_is_refused():
    with pytest.raises(ModelError, match='has to be position or effort'):
        expand(command_interface='velocity')


def test_the_gains_hold_the_arm_on_its_excitation():
    """joint_trajectory_controller's PID at 1 kHz, on the arm with its URDF's friction."""
    robot = Robot.from_urdf(PLAIN)
    plant = Plant(robot, prior(robot, ModelSettings()), 1e-3)
    made = plan(robot, PlannerSettings(duration=6.0, harmonics=4, max_iterations=1, seed=1))
    motion = made.trajectory.sample(np.arange(0.0, 6.0, 1e-3))
    by_joint = parameters(CONTROLLER_OF['effort'])['gains']
    p, i, d, bound = (
        np.array([by_joint[joint][key] for joint in JOINTS])
        for key in ('p', 'i', 'd', 'u_clamp_max')
    )
    np.testing.assert_array_equal(bound, robot.limits.effort)
    integral, largest = np.zeros(6), np.zeros(6)
    plant.set_state(motion.position[0], motion.velocity[0])
    for position, velocity in zip(motion.position, motion.velocity, strict=True):
        error, slip = position - plant.position, velocity - plant.velocity
        largest = np.maximum(largest, np.abs(error))
        effort = p * error + integral + d * slip
        assert (np.abs(effort) < bound).all()  # so the integral never stops
        integral += i * error * 1e-3
        plant.step(effort)
    tolerance = yaml.safe_load((ROOT / 'config' / 'gazebo.yaml').read_text())
    planner = tolerance['/**/excitation']['ros__parameters']['planner']
    (tolerance,) = planner['tracking_tolerance']
    assert largest.max() < 0.03 < tolerance
    assert np.abs(motion.velocity).max() > 1.0, 'the arm does move'


def test_the_signals_bear_the_stamps_of_a_clock_that_comes_late():
    """
    Controllers in Gazebo stamp by /clock, which reaches them by DDS.

    So stamps are late by what that takes, in whole steps of the simulation: some are repeated,
    others are skipped.
    """
    robot = Robot.from_urdf(PLAIN)
    data = robot.model.createData()
    random = np.random.default_rng(1)
    time = np.arange(0.0, 10.0, 1e-3)
    rates = 2 * np.pi * random.uniform(0.1, 0.4, (2, 6))
    sizes, phases = 0.5 / rates, random.uniform(0.0, 2 * np.pi, (2, 6))
    angles = time[:, None, None] * rates + phases
    position = (sizes * np.sin(angles)).sum(1)
    velocity = (sizes * rates * np.cos(angles)).sum(1)
    acceleration = (-sizes * rates**2 * np.sin(angles)).sum(1)
    states = zip(position, velocity, acceleration, strict=True)
    effort = np.array([pin.rnea(robot.model, data, *state) for state in states])
    steps = np.maximum.accumulate(np.arange(time.size) - random.integers(0, 4, time.size))
    kept = np.append(np.diff(steps) > 0, True)  # of equal stamps the last one counts
    recording = Recording(
        1.0 + 1e-3 * steps[kept], position[kept], effort[kept], JOINTS, velocity[kept]
    )
    section = yaml.safe_load((ROOT / 'config' / 'gazebo.yaml').read_text())
    signals = SignalSettings(**section['/**/identification']['ros__parameters']['signals'])
    samples = process(recording, signals)
    states = zip(samples.position, samples.velocity, samples.acceleration, strict=True)
    model = np.array([pin.rnea(robot.model, data, *state) for state in states])
    error = np.linalg.norm(model - samples.effort, axis=0)
    assert (error < 0.03 * np.linalg.norm(samples.effort, axis=0)).all()
