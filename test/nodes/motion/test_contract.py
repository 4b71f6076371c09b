# SPDX-License-Identifier: Apache-2.0
"""Requirements of a motion on its controller, and its limits in force, on a driven clock."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')

from action_msgs.msg import GoalStatus
from robot_identification.nodes.common.messages import trajectory_points
from robot_identification.nodes.excitation.remote_nodes import ANSWER_SECONDS
from robot_identification.simulation.controller import Constraints, Outcome
from robot_identification_msgs.action import Excite

URDF = Path(__file__).resolve().parents[3] / 'urdf'
GOAL = np.array([2.0, -1.5])
NAME = "'/joint_trajectory_controller'"
Code = Excite.Result

WEAK = Constraints(decelerate_on_cancel=True, max_deceleration_on_cancel=(0.2,))
NARROW = {'planner.upper_limits': [2.1, 2.1], 'planner.lower_limits': [-2.1, -2.1]}
"""Stops that leave these limits."""


@pytest.fixture
def cell(driven_cell):
    """Give the node and an arm at rest at zero."""
    return driven_cell()


def refused(cell, code, *words, **fields):
    """Require that a motion is refused in one line with these words, and nothing is sent."""
    status, result, _ = cell.excite(**fields)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, code), result.error_msg
    assert all(word in result.error_msg for word in words), result.error_msg
    assert '\n' not in result.error_msg
    assert not cell.controller.goals
    return result


# ------------------------------------------------------------------------------- the parameters


@pytest.mark.parametrize(('seconds', 'lost'), [(0.0, 0), (2.0, 0), (0.01, 5), (2.0, 12)])
def test_stops_are_checked_however_late_the_controller_answers(driven_cell, move, seconds, lost):
    """As on a busy computer, or in a network that loses replies."""
    cell = driven_cell(constraints=WEAK, **NARROW)
    cell.controller.answer_seconds, cell.controller.lost_answers = seconds, lost
    refused(cell, Code.LIMITS_VIOLATED, 'if the motion were canceled', trajectory=move(GOAL))


def test_a_controller_that_does_not_answer_moves_nothing(cell, move):
    cell.controller.lost_answers = 10**6
    begin = cell.world.wall
    words = f'{NAME} has not returned its parameter joints in 15 s', 'see whether it runs'
    refused(cell, Code.NO_CONTROLLER, *words, trajectory=move(GOAL))
    assert ANSWER_SECONDS < cell.world.wall - begin < ANSWER_SECONDS + 5.0
    # a preview says what it could not check, and a plan is made without it
    answer = cell.preview(trajectory=move(GOAL))
    assert answer.success and 'without the way to the start and the stops' in answer.message
    assert cell.plan().error_code == 0
    assert "a plan without the controller's stops" in cell.output


@pytest.mark.parametrize(
    ('changed', 'code', 'words'),
    [
        (
            {'interpolation_method': 'none'},
            'NO_CONTROLLER',
            f'interpolation_method of {NAME} is none',
        ),
        ({'interpolation_method': None}, 'NO_CONTROLLER', 'has no parameter interpolation_method'),
        ({'joints': None}, 'NO_CONTROLLER', 'has no parameter joints'),
        ({'command_interfaces': []}, 'NO_CONTROLLER', 'has no parameter command_interfaces'),
        ({'joints': ['joint_1']}, 'JOINTS_DIFFER', "it does not command 'joint_2'"),
        ({'command_joints': ['joint_1']}, 'JOINTS_DIFFER', "it does not command 'joint_2'"),
        (
            {'command_joints': ['joint_2', 'joint_1']},
            'JOINTS_DIFFER',
            f'command_joints of {NAME} are not in the order of its joints',
        ),
    ],
)
def test_a_controller_that_would_not_follow_is_refused_by_the_parameter(
    cell, move, changed, code, words
):
    for name, value in changed.items():
        if value is None:
            del cell.controller.parameters[name]
        else:
            cell.controller.parameters[name] = value
    for dry_run in (True, False):
        refused(cell, getattr(Code, code), words, trajectory=move(0.2 * GOAL), dry_run=dry_run)


@pytest.mark.parametrize(
    ('name', 'value', 'words'),
    [
        ('state_interfaces', ['position'], 'its state_interfaces have no velocity'),
        ('speed_scaling.initial_scaling_factor', None, 'it is of a version without'),
        ('constraints.decelerate_on_cancel', None, 'decelerate_on_cancel is not true'),
        ('constraints.joint_2.max_deceleration_on_cancel', 0.0, 'is not positive'),
    ],
)
def test_a_controller_that_cannot_decelerate_is_taken_to_hold_at_once(
    driven_cell, move, name, value, words
):
    """As joint_trajectory_controller does, whatever the other parameters say."""
    cell = driven_cell(constraints=WEAK, **NARROW)
    cell.controller.parameters[name] = value
    if value is None:
        del cell.controller.parameters[name]
    answer = cell.preview(trajectory=move(GOAL))
    assert answer.success, answer.message
    assert 'whatever the acceleration limits' in answer.message and words in answer.message
    line = f'{NAME} commands position by splines, and holds its position at once'
    assert cell.output.count(line) == 1
    assert cell.excite(trajectory=move(GOAL))[1].error_code == 0
    assert 'a cancel stops it at once, however fast it is' in cell.output


def test_a_joint_without_a_velocity_limit_in_the_urdf_is_held_at_once(driven_cell, move, tmp_path):
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text(
        (URDF / 'zollo_planar_2r.urdf').read_text().replace('velocity="3"', 'velocity="0"')
    )
    assert 'velocity="0"' in urdf.read_text()
    cell = driven_cell(urdf=urdf, **{'planner.velocity_limits': [3.0, 3.0]})
    for i in (1, 2):
        name = f'constraints.joint_{i}.max_deceleration_on_cancel'
        cell.controller.parameters[name] = 12.0
    answer = cell.preview(trajectory=move(0.2 * GOAL))
    assert "the URDF has no velocity limit of joint 'joint_1'" in answer.message


def test_what_was_found_of_the_controller_is_logged_in_one_line(cell, move):
    for _ in range(2):
        cell.preview(trajectory=move(0.2 * GOAL))
    line = f'{NAME} commands position by splines, and stops by deceleration'
    assert cell.output.count(f'{line} (12 rad/s^2, 12 rad/s^2), 0.25 s at most') == 1


@pytest.mark.parametrize(
    ('changed', 'words'),
    [
        ({}, '0.25 s at most; 200 updates a second; not checked: robot_description'),
        ({'update_rate': 0}, 'at most; not checked: update_rate, robot_description'),
        ({'cmd_timeout': 2.0}, 'a goal ends 2 s after its trajectory (cmd_timeout)'),
        (
            {
                'speed_scaling_interface_name': 'speed_scaling/speed_scaling_factor',
                'speed_scaling.initial_scaling_factor': None,
            },
            'robot_description, its speed by speed_scaling/speed_scaling_factor',
        ),
    ],
)
def test_what_is_not_checked_of_a_controller_is_told_in_that_line(cell, move, changed, words):
    cell.controller.parameters |= {k: v for k, v in changed.items() if v is not None}
    for name in (k for k, v in changed.items() if v is None):
        del cell.controller.parameters[name]
    cell.preview(trajectory=move(0.2 * GOAL))
    assert words in cell.output.split(f'{NAME} commands')[1].splitlines()[0]


def test_a_controller_that_updates_rarely_moves_no_faster_than_the_tolerance_bears(cell, move):
    """A stop may begin an update late."""
    cell.controller.parameters['update_rate'] = 20
    words = 'between two updates of the controller, whose update_rate is 20 Hz'
    refused(cell, Code.INVALID_TRAJECTORY, words, trajectory=move(GOAL))
    assert cell.excite(trajectory=move(GOAL, speed=0.2), dry_run=True)[1].error_code == 0


def test_another_urdf_of_the_controller_is_told_and_its_stops_are_those_by_it(cell, move):
    """Without a velocity limit it holds at once, whatever the node's own URDF has."""
    text = (URDF / 'zollo_planar_2r.urdf').read_text()
    cell.controller.description.data = text
    cell.preview(trajectory=move(0.2 * GOAL))
    assert 'is not this node' not in cell.output
    cell.controller.description.data = text.replace('velocity="3"', 'velocity="0"')
    answer = cell.preview(trajectory=move(0.2 * GOAL))
    assert "the URDF has no velocity limit of joint 'joint_1'" in answer.message
    words = f"the robot_description of {NAME} is not this node's: velocity of joint 'joint_1' is"
    assert cell.output.count(words) == 1
    cell.controller.description.data = text.replace('joint_2', 'elbow')
    cell.preview(trajectory=move(0.2 * GOAL))
    assert "type of joint 'joint_2' is missing there" in cell.output


def test_a_controller_that_lets_time_pass_slowly_is_told_and_watched_as_well(cell, move):
    """As by the slider of a robot; one that lets none pass would move nothing."""
    cell.world.simulator.scale_speed(0.3)
    cell.pass_time(2.0)
    # efforts are others than at full speed, and no contact
    cell.set(effort_tolerance=0.05)
    _, result, _ = cell.excite(trajectory=move(GOAL))
    assert result.error_code == 0, result.error_msg
    assert result.duration > 2.5 * result.planned_duration
    assert f'{NAME} lets time pass at 30% of its rate' in cell.output
    assert f'the motion took {result.duration:.4g} s' in cell.output
    cell.world.simulator.scale_speed(0.0)
    cell.pass_time(2.0)
    del cell.controller.goals[:]
    words = 'at 0% of its rate (speed_scaling_factor)', 'protective stop'
    refused(cell, Code.NO_CONTROLLER, *words, trajectory=move(0.2 * GOAL, start=GOAL))


def test_a_controller_that_calls_half_a_motion_done_is_not_believed(cell, move):
    """As one whose cmd_timeout has passed: it holds, and finds itself at its goal."""

    def end(feedback):
        if feedback and 0.4 < feedback[-1].progress < 1.0:
            cell.controller.goals[-1].goal.outcome = Outcome.SUCCEEDED
            cell.world.simulator.follower.hold(cell.world.simulator.plant.position)

    _, result, _ = cell.excite(end, trajectory=move(GOAL, speed=0.1))
    assert result.error_code == Code.TRACKING_ERROR, result.error_msg
    assert 'the controller says it has reached its goal' in result.error_msg


# ------------------------------------------------------------------------------------- the state


def test_a_controller_that_publishes_no_state_moves_nothing(cell, move):
    cell.controller.publishes_state = False
    words = f"{NAME[:-1]}/controller_state' has had no state", 'where the robot is held'
    for dry_run in (True, False):
        refused(cell, Code.NO_CONTROLLER, *words, trajectory=move(0.2 * GOAL), dry_run=dry_run)


def test_a_controller_that_is_deactivated_during_the_checks_is_no_moving_robot(cell, move):
    """Its state ends with it."""
    publish, states = cell.controller.state, []

    def end(joints):
        states.extend([] if len(states) > 2 else [publish(joints)])
        return states[-1]

    cell.controller.state = end
    words = f"{NAME[:-1]}/controller_state' has had no state for", 'still active'
    refused(cell, Code.NO_CONTROLLER, *words, trajectory=move(0.2 * GOAL))


@pytest.mark.parametrize(
    ('place', 'words'),
    [(0.0, ''), (0.7, 'rad by the joint states, and every check has it at 0.7: move it there')],
)
def test_joints_that_do_not_move_have_to_be_where_the_checks_have_them(
    driven_cell, move, place, words
):
    """A part of the joints, by a controller of all of them: collisions depend on the others."""
    cell = driven_cell(joints=['joint_1'], locked_joints=['joint_2'], locked_positions=[place])
    cell.controller.parameters['allow_partial_joints_goal'] = True
    _, result, _ = cell.excite(trajectory=move([0.3]), dry_run=True)
    assert (result.error_code == Code.NOT_AT_START) == bool(words), result.error_msg
    assert words in result.error_msg
    answer = cell.preview(trajectory=move([0.3]))
    assert words in answer.message and ('without the way' in answer.message) == bool(words)


def test_joints_whose_place_nobody_publishes_are_told(driven_cell, move):
    cell = driven_cell(joints=['joint_1'], locked_joints=['joint_2'], locked_positions=[0.0])
    cell.controller.parameters['allow_partial_joints_goal'] = True
    cell.world.spoil = lambda message: [(first_joint(message), 0)]
    assert cell.excite(trajectory=move([0.3]), dry_run=True)[1].error_code == 0
    assert 'not known to be where they are locked: joint_2' in cell.output


def first_joint(message):
    one = {name: getattr(message, name)[:1] for name in ('name', 'position', 'velocity', 'effort')}
    return type(message)(header=message.header, **one)


def test_a_motion_begins_at_the_reference_whatever_the_steady_error(cell, move):
    """An arm that hangs 10 mrad below what its controller wants."""
    cell.world.simulator.disturb(np.array([0.0, -120.0]))
    cell.pass_time(2.0)
    reference, measured = cell.world.simulator.reference[0].copy(), cell.positions()[-1]
    assert 5e-3 < np.abs(reference - measured).max() < 0.02
    del cell.world.track[:]
    cell.set(effort_tolerance=0.0, effort_share=0.0)
    _, result, _ = cell.excite(trajectory=move(measured + 0.2, start=measured, speed=0.2))
    assert result.error_code == 0, result.error_msg
    np.testing.assert_array_equal(cell.sent[0].position[0], reference)
    assert cell.sent[0].time[0] == 0.0
    velocity = np.array([each for _, each in cell.world.track])
    rate = cell.world.simulator.settings.servo_rate
    assert np.abs(np.diff(velocity, axis=0)).max() * rate < 6.0


def test_a_robot_that_is_not_where_its_controller_wants_it_is_not_moved(cell, move):
    cell.world.simulator.disturb(np.array([0.0, -120.0]))
    cell.pass_time(2.0)
    cell.set(start_tolerance=2e-3, effort_tolerance=0.0)
    words = f"{NAME} wants joint 'joint_2' at 0 and measures it at -0.0", 'its drives are on'
    refused(cell, Code.NOT_AT_START, *words, trajectory=move(0.2 * GOAL))


def test_a_reference_that_has_moved_since_the_checks_sends_nothing(cell, move):
    start = cell.node._require_still

    def move_it(robot):
        start(robot)
        cell.world.simulator.follower.hold(cell.world.simulator.reference[0] + [0.002, 0.0])
        cell.world.pass_time(0.01)

    cell.node._require_still = move_it
    _, result, _ = cell.excite(trajectory=move(0.2 * GOAL, speed=0.5))
    assert result.error_code == Code.NOT_AT_START, result.error_msg
    assert "by the controller's reference" in result.error_msg
    assert not cell.controller.goals


# ------------------------------------------------------------------------------- its velocities


def test_a_controller_without_velocities_to_brake_from_moves_nothing(cell, move):
    """joint_trajectory_controller would command NaN where a goal is canceled."""
    cell.controller.velocity_factor = np.nan
    words = f"{NAME} measures no velocity of joint 'joint_1'", 'see the driver'
    for dry_run in (True, False):
        refused(cell, Code.NO_CONTROLLER, *words, trajectory=move(0.2 * GOAL), dry_run=dry_run)
    # without a deceleration it does not need them
    cell.controller.parameters['constraints.decelerate_on_cancel'] = False
    assert cell.excite(trajectory=move(0.2 * GOAL), dry_run=True)[1].error_code == 0


@pytest.mark.parametrize('factor', [0.0, -1.0, 180.0 / np.pi])
def test_a_controller_that_measures_other_velocities_is_stopped_without_a_leap(cell, move, factor):
    """As drivers that send zeros or degrees: where that is much, the stop waits for the start."""
    cell.controller.velocity_factor = factor
    cell.set(move_speed=0.2)
    _, result, _ = cell.excite(trajectory=move(GOAL, start=0.5 * GOAL))
    assert result.error_code == Code.CONTROLLER_FAILED, result.error_msg
    words = 'the controller measures joint', 'and would begin a stop with that: see the driver'
    assert all(each in result.error_msg for each in words), result.error_msg
    position, velocity = (np.array(each) for each in zip(*cell.world.track, strict=True))
    assert np.abs(velocity).max() < 0.25 * 3.0
    assert (np.abs(position) < np.abs(0.5 * GOAL) + 0.03).all()
    # a controller that holds at once does not look at them
    cell.controller.parameters['constraints.decelerate_on_cancel'] = False
    assert cell.excite(trajectory=move(GOAL))[1].error_code == 0


def test_velocities_that_are_missing_mid_way_are_told_at_the_end_since_no_stop_is_safe(cell, move):
    """joint_trajectory_controller would command NaN where such a motion is canceled."""

    def lose(feedback):
        if feedback and feedback[-1].progress > 0.4:
            cell.controller.velocity_factor = np.nan

    _, result, _ = cell.excite(lose, trajectory=move(GOAL, speed=0.5))
    assert result.error_code == Code.CONTROLLER_FAILED, result.error_msg
    assert 'at nan rad/s' in result.error_msg and not cell.controller.cancels
    np.testing.assert_allclose(cell.positions()[-1], GOAL, atol=0.02)


def test_single_velocities_that_are_false_stop_nothing(cell, move):
    """As of mock hardware on a busy computer: the change of a position by a period too short."""
    velocity, random = cell.controller.velocity, np.random.default_rng(0)
    cell.controller.velocity = lambda: velocity() * (1.0 + 4.0 * (random.random() < 0.3))
    assert cell.excite(trajectory=move(GOAL, speed=0.5))[1].error_code == 0


def test_velocities_that_are_nearly_right_stop_nothing(cell, move):
    cell.controller.velocity_factor = 1.3
    assert cell.excite(trajectory=move(GOAL))[1].error_code == 0


# -------------------------------------------------------------------------------------- the goal


def test_a_goal_that_the_controller_takes_late_is_canceled(cell, move):
    """Its process stands still when the goal comes, and takes the cancels first later."""
    request = cell.begin(trajectory=move(GOAL, speed=0.5))
    cell.controller.still = True
    cell.wait_until(lambda: cell.controller.cancels, 'a cancel')
    shutdown = cell.start(cell.node.on_shutdown())
    cell.pass_time(20.0)
    # the node neither gives up nor ends
    assert not request.done and not shutdown.done
    assert cell.node.unfinished
    assert cell.output.count('USE THE EMERGENCY STOP') == 1
    cell.controller.still = False
    del cell.world.track[:]
    cell.controller.resume()
    _, result, _ = cell.finish(request)
    cell.pass_time(2.0)
    assert result.error_code == Code.CONTROLLER_FAILED
    assert 'has not answered within 5 s' in result.error_msg and result.at_rest
    position = np.array([each for each, _ in cell.world.track])
    assert np.abs(position).max() < 0.02
    assert shutdown.done and not cell.node.unfinished


def test_a_goal_that_got_lost_is_given_up_once_the_controller_does_not_know_it(cell, move):
    request = cell.begin(trajectory=move(GOAL))
    cell.controller.receive, receive = (lambda action: None), cell.controller.receive
    cell.wait_until(lambda: cell.controller.goals, 'the goal')
    cell.pass_time(1.0)
    cell.controller.receive = receive
    _, result, _ = cell.finish(request)
    assert result.error_code == Code.CONTROLLER_FAILED and result.at_rest
    assert 'has not answered within 5 s' in result.error_msg
    assert 'the controller does not know the goal' in result.error_msg


def test_a_cancel_that_the_controller_refuses_is_told(cell, move):
    cell.controller.refuses = True
    status, result, _ = cell.excite(
        lambda feedback: feedback and feedback[-1].progress > 0.3,
        trajectory=move(GOAL, speed=0.3),
    )
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Code.CONTROLLER_FAILED)
    assert result.error_msg == (
        'canceled; the controller has refused the cancel, so the motion went to its end; '
        'the robot is at rest'
    )
    assert cell.output.count('THE CONTROLLER REFUSES TO STOP') == 1
    np.testing.assert_allclose(cell.positions()[-1], GOAL, atol=0.02)


def test_a_node_that_may_not_move_is_no_client_of_the_controller(driven_cell, move):
    cell = driven_cell(execute=False)
    assert cell.preview(trajectory=move(0.2 * GOAL)).success
    assert cell.excite(trajectory=move(0.2 * GOAL), dry_run=True)[1].error_code == 0
    assert cell.excite(trajectory=move(0.2 * GOAL))[1].error_code == Code.EXECUTION_DISABLED
    assert not cell.controller.connected
    cell.set(execute=True)
    assert cell.excite(trajectory=move(0.2 * GOAL))[1].error_code == 0
    assert cell.controller.connected


# ---------------------------------------------------------------------------------- the envelope


def test_limits_that_were_lowered_since_hold_for_a_kept_plan(cell):
    made = cell.plan()
    assert made.error_code == 0, made.error_msg
    fine = cell.excite(plan_id=made.plan_id, dry_run=True)[1]
    assert (fine.error_code, fine.limits_in_force) == (0, 'the settings of the plan')
    for key, value, usual, words in (
        ('velocity_scale', 0.1, 1.0, 'limit of 0.3 rad/s'),
        ('velocity_limits', [0.3, 0.3], [30.0, 30.0], 'limit of 0.3 rad/s'),
        ('acceleration_limits', [0.5, 0.5], [50.0, 50.0], 'limit of 0.5 rad/s^2'),
        ('upper_limits', [0.1, 0.1], [3.0, 3.0], 'limit of 0.1 rad'),
        ('effort_margin', 0.95, 0.1, 'effort'),
    ):
        cell.set(**{f'planner.{key}': value})
        for dry_run in (True, False):
            result = refused(
                cell, Code.LIMITS_VIOLATED, words, plan_id=made.plan_id, dry_run=dry_run
            )
            assert result.limits_in_force.startswith('the settings of the plan and the stricter')
            assert key.replace('scale', 'limits') in result.limits_in_force
        # a plan keeps its own where the present ones are wider
        cell.set(**{f'planner.{key}': usual})
        assert cell.excite(plan_id=made.plan_id, dry_run=True)[1].error_code == 0


def test_the_way_to_a_kept_plan_is_within_the_present_limits(cell):
    cell.set(**{'planner.start': [0.9, -0.9], 'move_speed': 1.0})
    made = cell.plan()
    assert made.error_code == 0, made.error_msg
    cell.set(**{'planner.velocity_limits': [0.3, 0.3]})
    answer = cell.preview(plan_id=made.plan_id, speed=0.1, return_points=True)
    assert answer.success, answer.message
    assert 'the settings of the plan and the stricter present velocity_limits' in answer.message
    points = trajectory_points(answer.trajectory, ('joint_1', 'joint_2'))
    assert points.duration > made.planned_duration / 0.1 + 2.0
    assert 0.28 < np.abs(points.velocity).max() < 0.301


def test_a_floor_that_was_raised_since_holds_for_a_kept_plan(driven_cell):
    cell = driven_cell(urdf=URDF / 'demo_arm.urdf')
    made = cell.plan()
    assert made.error_code == 0, made.error_msg
    cell.set(**{'planner.floor': 0.9})
    result = refused(cell, Code.COLLISION, "'floor'", plan_id=made.plan_id)
    assert result.limits_in_force == 'the settings of the plan and the stricter present floor'


def cut(path, other):
    path.write_bytes(path.read_bytes()[:100])


def exchange(path, other):
    path.write_bytes(other.read_bytes())


def swap_by_link(path, other):
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize('harm', [cut, exchange, swap_by_link, lambda path, other: path.unlink()])
def test_what_is_done_to_the_file_of_a_plan_changes_no_motion(driven_cell, tmp_path, harm):
    """It is for the user to read: what was checked is carried out."""
    cell = driven_cell(output=str(tmp_path))
    made, other = (cell.plan(seed=seed, return_points=True) for seed in (1, 2))
    checked = cell.preview(plan_id=made.plan_id, return_points=True)
    assert checked.success, checked.message
    harm(Path(made.path), Path(other.path))
    result = cell.excite(plan_id=made.plan_id)[1]
    assert result.error_code == 0, result.error_msg
    joints = 'joint_1', 'joint_2'
    expected, planned = (
        trajectory_points(each.trajectory, joints).position for each in (checked, made)
    )
    np.testing.assert_allclose(cell.sent[0].position, expected, atol=1e-9)
    np.testing.assert_allclose(cell.sent[0].position[-len(planned) :], planned, atol=1e-9)
