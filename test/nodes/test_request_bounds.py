# SPDX-License-Identifier: Apache-2.0
"""Requests for more time or memory than a node has: refused in one line, before any of it."""

from array import array
from functools import partial
from pathlib import Path

import pytest
from robot_identification.errors import SettingsError
from robot_identification.estimation.estimators import EstimationSettings
from robot_identification.excitation.settings import PlannerSettings
from robot_identification.options.fields import from_mapping
from robot_identification.signals.settings import SignalSettings

pytest.importorskip('rclpy')

PLANAR = str(Path(__file__).resolve().parents[2] / 'urdf' / 'zollo_planar_2r.urdf')


def require_refused(answer, words):
    assert not answer.success
    assert words in answer.message, answer.message
    assert '\n' not in answer.message and 'internal' not in answer.message


@pytest.mark.parametrize(
    ('cls', 'values'),
    [
        (PlannerSettings, {'check_rate': 1e7}),
        (PlannerSettings, {'duration': 1e9}),
        (PlannerSettings, {'duration': 3600.0, 'check_rate': 10_000.0}),
        (PlannerSettings, {'base_frequency': 1e9}),
        (PlannerSettings, {'harmonics': 10**6}),
        (PlannerSettings, {'max_iterations': 2**32 - 1}),
        (PlannerSettings, {'points': {'starts': 10**9}}),
        (PlannerSettings, {'points': {'rounds': 10**9}}),
        (PlannerSettings, {'points': {'equations': 10**9}}),
        (SignalSettings, {'sample_rate': 1e9}),
        (SignalSettings, {'polynomial_approximation': {'window': 1e9}}),
        (EstimationSettings, {'bootstrap': {'replicates': 10**9}}),
        (EstimationSettings, {'irls': {'max_iterations': 10**9}}),
        (EstimationSettings, {'mrls': {'block': 10**12}}),
        (EstimationSettings, {'energy': {'interval': 1e9}}),
    ],
)
def test_settings_that_take_forever_or_all_memory_are_refused(cls, values):
    with pytest.raises(SettingsError):
        from_mapping(cls, values)


def test_a_regressor_of_too_many_samples_is_refused(ros, arm):
    from robot_identification.data.flat_motion import MOST_VALUES
    from robot_identification_msgs.srv import GetRegressor

    ros.start('regressor', parameters={'robot_description': str(arm.urdf)})
    ask = partial(ros.call, GetRegressor, 'regressor/get_regressor')

    def rows(samples):
        zeros = array('d', bytes(8 * 3 * samples))
        return ask(position=zeros, velocity=zeros, acceleration=zeros)

    columns = rows(1).regressor.cols
    most = MOST_VALUES // (3 * columns)
    require_refused(rows(most + 1), f'ask for at most {most} samples at a time')
    require_refused(rows(100_000), f'100000 samples give 300000 rows of {columns} columns')
    assert rows(1000).success


def test_an_identification_and_a_check_of_too_much_is_refused(running, identify, bags):
    from robot_identification_msgs.msg import Parameter, ParameterSet
    from robot_identification_msgs.srv import CheckConsistency

    options = [(f'signals.x{i}', '1') for i in range(2000)]
    answer = identify(running, bags['first'], options=options)
    require_refused(answer, '2000 options of')
    answer = identify(running, bags['first'], options=[('signals.cutoff', '1' * 3_000_000)])
    require_refused(answer, 'are too many')
    answer = identify(running, bags['first'], options=[('signals.sample_rate', '1e9')])
    require_refused(answer, "'signals.sample_rate' is")
    many = ParameterSet(parameters=[Parameter(name=f'a.{i}') for i in range(20_000)])
    answer = running.call(CheckConsistency, 'identification/check_consistency', parameters=many)
    require_refused(answer, '20000 parameters are more than any robot has')


@pytest.fixture(scope='module')
def excitation(module_ros):
    """Start an excitation node whose checks find no joint states, so that nothing moves."""
    module_ros.start('excitation', parameters={'robot_description': PLANAR})
    return module_ros


def motion(seconds, points=2):
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    message = JointTrajectory(joint_names=['joint_1', 'joint_2'])
    for i in range(points):
        point = JointTrajectoryPoint(positions=[0.0] * 2, velocities=[0.0] * 2)
        nanoseconds = round(1e9 * seconds * i / (points - 1))
        point.time_from_start.sec, point.time_from_start.nanosec = divmod(nanoseconds, 10**9)
        message.points.append(point)
    return message


@pytest.mark.parametrize(
    ('field', 'value'),
    [('duration', 1e9), ('base_frequency', 1e9), ('harmonics', 10**6), ('margin', 5.0)],
)
def test_plans_of_too_much_are_refused(excitation, field, value):
    from robot_identification_msgs.action import PlanExcitation

    _, result, _ = excitation.act(PlanExcitation, 'excitation/plan', **{field: value})
    assert result.error_code == PlanExcitation.Result.INVALID_SETTINGS
    assert f"'{field}' is" in result.error_msg and '\n' not in result.error_msg


def test_motions_with_too_many_instants_or_points_are_refused(excitation):
    from robot_identification_msgs.srv import Preview

    ask = partial(excitation.call, Preview, 'excitation/preview')
    done, reason = excitation.set_parameter('excitation', 'planner.check_rate', 1e7)
    assert not done and 'check_rate' in reason
    answer = ask(trajectory=motion(3000.0))
    require_refused(answer, '1.5e+06 instants to check, 1000000 are the most')
    answer = ask(trajectory=motion(100.0), speed=1e-3)
    require_refused(answer, 'play it faster')
    assert excitation.set_parameter('excitation', 'publish_rate', 1000.0)[0]
    answer = ask(trajectory=motion(1000.0))
    require_refused(answer, '1e+06 points at a publish_rate of 1000 Hz')
    assert excitation.set_parameter('excitation', 'publish_rate', 50.0)[0]


def test_more_plans_than_are_made_at_once_are_refused_as_busy(excitation):
    from rclpy.action import ActionClient
    from robot_identification.nodes.excitation_node import MOST_AT_ONCE
    from robot_identification_msgs.action import PlanExcitation

    client = ActionClient(excitation.node, PlanExcitation, 'excitation/plan')
    excitation.wait_until(client.server_is_ready, what='action plan')
    goal = PlanExcitation.Goal(duration=20.0, max_iterations=100_000)
    sending = [client.send_goal_async(goal) for _ in range(MOST_AT_ONCE + 5)]
    excitation.wait_until(lambda: all(s.done() for s in sending), what='goals accepted')
    goals = [s.result() for s in sending]
    results = [goal.get_result_async() for goal in goals]
    excitation.wait_until(lambda: sum(r.done() for r in results) >= 5, what='five answers')
    refused = [r.result().result for r in results if r.done()]
    assert {result.error_code for result in refused} == {PlanExcitation.Result.BUSY}
    assert {result.error_msg for result in refused} == {
        f'busy, {MOST_AT_ONCE} plans are in the making: ask again when one is done'
    }
    canceling = [g.cancel_goal_async() for g, r in zip(goals, results) if not r.done()]
    excitation.wait_until(lambda: all(c.done() for c in canceling), what='cancellations')
    excitation.wait_until(lambda: all(r.done() for r in results), 30.0, what='canceled plans')


def test_each_of_many_previews_is_answered(excitation):
    from rclpy.qos import QoSProfile
    from robot_identification_msgs.srv import Preview

    client = excitation.node.create_client(
        Preview, 'excitation/preview', qos_profile=QoSProfile(depth=1000)
    )
    excitation.wait_until(client.service_is_ready, what='service preview')
    request = Preview.Request(trajectory=motion(20.0))
    futures = [client.call_async(request) for _ in range(50)]
    excitation.wait_until(lambda: all(f.done() for f in futures), 60.0, what='50 answers')
    answers = [future.result() for future in futures]
    refused = [answer.message for answer in answers if not answer.success]
    assert all('busy, 4 previews are in the making' in text for text in refused), refused
    assert len(refused) < 50
