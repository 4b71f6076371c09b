# SPDX-License-Identifier: Apache-2.0
"""
Conversions to messages and back: times, joint states, trajectories, parameters, fits, regressors.

A trajectory or joint state may name its joints in any order; arrays are in the order that the
caller gives.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
import math
from typing import Any, TYPE_CHECKING

from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
import numpy as np
from rclpy.node import Node
from robot_identification_msgs import msg as messages
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ...errors import ExcitationError, IdentificationError, one_of, RecordingError, SettingsError
from ...model.parameters import ParameterLayout, ParameterSet

if TYPE_CHECKING:  # processes that only need times start quicker
    from ...base_parameters import BaseStructure
    from ...estimation.estimate import Estimate
    from ...excitation.trajectories import PointTrajectory

MOST_PARAMETERS = 10_000
"""Parameters that a request may bring."""

_NANOSECONDS = 1_000_000_000


# ------------------------------------------------------------------------------------------ time


def nanoseconds(time: Time | Duration) -> int:
    """Return a stamp or duration as whole nanoseconds."""
    return time.sec * _NANOSECONDS + time.nanosec


def seconds(time: Time | Duration) -> float:
    """Return a stamp or duration as seconds; a stamp of today keeps some 0.2 microseconds."""
    return time.sec + 1e-9 * time.nanosec


def time_message(nanoseconds: int) -> Time:
    """Return a stamp made of nanoseconds."""
    sec, nanosec = divmod(int(nanoseconds), _NANOSECONDS)
    return Time(sec=sec, nanosec=nanosec)


def duration_message(seconds: float) -> Duration:
    """Return a duration made of seconds, rounded to a nanosecond."""
    sec, nanosec = divmod(round(seconds * _NANOSECONDS), _NANOSECONDS)
    return Duration(sec=sec, nanosec=nanosec)


# ---------------------------------------------------------------------------------- joint states


@dataclass(frozen=True)
class JointSample:
    """A joint state: stamp [ns] and (n_joints,) values, None for fields that are not there."""

    stamp: int
    position: np.ndarray
    velocity: np.ndarray | None
    effort: np.ndarray | None


def joint_sample(message: JointState, joints: Sequence[str]) -> JointSample:
    """
    Return the state of some joints of a message.

    Raises
    ------
    RecordingError
        naming a joint that is missing, or a field that is missing or of the wrong length.

    """
    names = list(message.name)
    places = {name: i for i, name in enumerate(names)}
    for joint in joints:
        if names.count(joint) > 1:
            raise RecordingError(
                f"joint '{joint}' is named twice in the joint states",
                joint=joint,
                remedy='repair the driver, or see who else publishes on the topic',
            )
        if joint not in places:
            raise RecordingError(
                f"joint '{joint}' is not in the joint states",
                joint=joint,
                remedy=f'they have {one_of(places)}',
            )
    index = [places[joint] for joint in joints]
    fields: dict[str, Any] = {}
    for name in ('position', 'velocity', 'effort'):
        values = np.asarray(getattr(message, name), dtype=float)
        if values.size not in (0, len(names)):
            raise RecordingError(
                f'the joint states have {len(names)} names but {values.size} values of {name}',
                value=values.size,
                remedy='repair the driver: one value a name, or none',
            )
        fields[name] = values[index] if values.size else None
    if fields['position'] is None:
        raise RecordingError('the joint states have no positions', remedy='repair the driver')
    return JointSample(nanoseconds(message.header.stamp), **fields)


def require_finite(position: np.ndarray, joints: Sequence[str]) -> None:
    """Raise `RecordingError` naming a joint whose position, of (n_joints,), is not finite."""
    if not np.isfinite(position).all():
        place = int(np.flatnonzero(~np.isfinite(position))[0])
        raise RecordingError(
            f"position of joint '{joints[place]}' is {position[place]}",
            joint=joints[place],
            value=float(position[place]),
            remedy='see what the driver reports',
        )


# ---------------------------------------------------------------------------------- trajectories


@dataclass(frozen=True)
class TrajectoryPoints:
    """
    Points of a trajectory, in the order of the identified joints.

    The time is (n_points,) from the start, increasing [s], the others are (n_points, n_joints);
    velocity and acceleration are None where the points have none.
    """

    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray | None
    acceleration: np.ndarray | None


def trajectory_message(
    joints: Sequence[str],
    time: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray | None = None,
    acceleration: np.ndarray | None = None,
    stamp: Time | None = None,
) -> JointTrajectory:
    """
    Return a trajectory; without a stamp of its start it starts when it arrives.

    The time is (n_points,) from the start [s], the others (n_points, n_joints).
    """
    given = {'positions': position, 'velocities': velocity, 'accelerations': acceleration}
    columns = {k: np.asarray(v, dtype=float) for k, v in given.items() if v is not None}
    points = []
    for i, moment in enumerate(np.asarray(time, dtype=float)):
        values = {name: array('d', rows[i].tobytes()) for name, rows in columns.items()}
        points.append(JointTrajectoryPoint(time_from_start=duration_message(moment), **values))
    header = Header() if stamp is None else Header(stamp=stamp)
    return JointTrajectory(header=header, joint_names=list(joints), points=points)


def message_of(trajectory: PointTrajectory) -> JointTrajectory:
    """Return a trajectory as a message that starts when it arrives."""
    t = trajectory
    return trajectory_message(t.joints, t.time, t.position, t.velocity, t.acceleration)


def trajectory_points(message: JointTrajectory, joints: Sequence[str]) -> TrajectoryPoints:
    """
    Return the points of a trajectory in the order of ``joints``.

    Raises
    ------
    ExcitationError
        where it has no points, other joints, rows of the wrong length, values that are not
        finite, or times that do not increase.

    """
    index = _trajectory_columns(message, joints)
    if not message.points:
        raise ExcitationError('the trajectory has no points', remedy='plan one first')
    time = np.array([seconds(point.time_from_start) for point in message.points])
    if time[0] < 0.0 or (np.diff(time) <= 0.0).any():
        late = int(np.argmax(np.diff(time) <= 0.0)) + 1 if time.size > 1 else 0
        raise ExcitationError(
            f'time_from_start of point {late} is {time[late]:.6g} s',
            value=float(time[late]),
            remedy='let it increase from point to point',
        )
    values = {
        name: _trajectory_values(message, name, index)
        for name in ('positions', 'velocities', 'accelerations')
    }
    if values['positions'] is None:
        raise ExcitationError('the trajectory has no positions', remedy='give every point some')
    return TrajectoryPoints(
        time, values['positions'], values['velocities'], values['accelerations']
    )


def _trajectory_columns(message: JointTrajectory, joints: Sequence[str]) -> list[int]:
    names = list(message.joint_names)
    for fault, wrong in (
        ('does not have', [joint for joint in joints if joint not in names]),
        ('has the unknown', [joint for joint in names if joint not in joints]),
        ('names twice', [joint for joint in dict.fromkeys(names) if names.count(joint) > 1]),
    ):
        if wrong:
            raise ExcitationError(
                f'the trajectory {fault} joints {one_of(wrong)}',
                joint=wrong[0],
                remedy=f'the robot has {one_of(joints)}',
            )
    return [names.index(joint) for joint in joints]


def _trajectory_values(
    message: JointTrajectory, name: str, index: Sequence[int]
) -> np.ndarray | None:
    rows = [getattr(point, name) for point in message.points]
    if not any(len(row) for row in rows):
        return None
    for i, row in enumerate(rows):
        if len(row) != len(index):
            raise ExcitationError(
                f'point {i} of the trajectory has {len(row)} {name}, expected {len(index)}',
                value=len(row),
                remedy='give one value a joint in every point, or none in any',
            )
    values = np.array(rows, dtype=float)[:, index]
    if not np.isfinite(values).all():
        point = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise ExcitationError(
            f'point {point} of the trajectory has {name} that are not finite numbers',
            remedy='send finite numbers only',
        )
    return values


# --------------------------------------------------------------- action of trajectory controllers


def follow_joint_trajectory() -> Any | None:
    """Return the type of the action; None where ``control_msgs`` is not installed."""
    try:
        from control_msgs.action import FollowJointTrajectory
    except ImportError:
        return None
    return FollowJointTrajectory


def require_follow_joint_trajectory() -> Any:
    """Return the type of the action; raise `SettingsError` where there is none."""
    kind = follow_joint_trajectory()
    if kind is None:
        raise SettingsError(
            'the package control_msgs is not installed, and motions are goals of its action '
            'FollowJointTrajectory',
            key='control_msgs',
            remedy='sudo apt install ros-${ROS_DISTRO}-control-msgs; in an environment of wheels, '
            'run make setup in the sources',
        )
    return kind


# ------------------------------------------------------------------------------------ parameters


def parameter_set_message(
    layout: ParameterLayout,
    values: np.ndarray,
    std: np.ndarray,
    states: Iterable[int],
    *,
    stamp: Time,
    robot: str,
    expressions: Sequence[str] | None = None,
    covariance: np.ndarray | None = None,
) -> messages.ParameterSet:
    """
    Return p parameters with (p,) values, standard deviations and states of `messages.Parameter`.

    The expressions are the names if they are not given; the covariance is (p, p).
    """
    with np.errstate(divide='ignore', invalid='ignore'):
        relative = 100.0 * std / np.abs(values)
    rows = zip(
        layout.names,
        layout.names if expressions is None else expressions,
        layout.units,
        values.tolist(),
        std.tolist(),
        relative.tolist(),
        states,
        strict=True,
    )
    fields = 'name', 'expression', 'unit', 'value', 'std', 'relative_std', 'state'
    return messages.ParameterSet(
        header=Header(stamp=stamp),
        robot=robot,
        parameters=[messages.Parameter(**dict(zip(fields, row, strict=True))) for row in rows],
        covariance=array('d', b'' if covariance is None else covariance.tobytes()),
    )


def base_parameters_message(estimate: Estimate, stamp: Time) -> messages.ParameterSet:
    """Return the base parameters of ``estimate`` with their uncertainty."""
    kinds = messages.Parameter
    return parameter_set_message(
        estimate.base.layout,
        estimate.base.values,
        estimate.std,
        [kinds.IDENTIFIED if known else kinds.NOT_EXCITED for known in estimate.excited],
        stamp=stamp,
        robot=estimate.robot,
        expressions=estimate.expressions,
        covariance=estimate.covariance,
    )


def standard_parameters_message(
    parameters: ParameterSet, stamp: Time, robot: str, std: np.ndarray, structure: BaseStructure
) -> messages.ParameterSet:
    """
    Return the p standard parameters of a robot at the time of the estimate.

    The standard deviations, (p,), are NaN where the data do not determine them.  Those that stand
    alone in the structure's base parameters are identified.
    """

    def state(name: str, known: bool) -> int:
        if structure.category(name) != 'alone':
            return int(messages.Parameter.DEPENDENT)
        return int(messages.Parameter.IDENTIFIED if known else messages.Parameter.NOT_EXCITED)

    states = map(state, parameters.layout.names, np.isfinite(std))
    return parameter_set_message(
        parameters.layout, parameters.values, std, states, stamp=stamp, robot=robot
    )


def parameters_from_message(message: messages.ParameterSet) -> ParameterSet:
    """
    Return names, units and values of a message.

    Raises
    ------
    IdentificationError
        where a name occurs twice or a value is not finite.

    """
    if len(message.parameters) > MOST_PARAMETERS:
        raise IdentificationError(
            f'{len(message.parameters)} parameters are more than any robot has',
            remedy=f'give at most {MOST_PARAMETERS}',
        )
    names = [parameter.name for parameter in message.parameters]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise IdentificationError(
            f'parameters occur twice: {one_of(twice)}', remedy='give each parameter once'
        )
    for parameter in message.parameters:
        if not math.isfinite(parameter.value):
            raise IdentificationError(
                f"parameter '{parameter.name}' is {parameter.value}",
                key=parameter.name,
                value=parameter.value,
                remedy='give a finite number',
            )
    layout = ParameterLayout(tuple(names), tuple(p.unit for p in message.parameters))
    return ParameterSet(layout, np.array([p.value for p in message.parameters], dtype=float))


# ------------------------------------------------------------------------------ fit, consistency


def fit_message(estimate: Estimate, stamp: Time) -> messages.Fit:
    """Return how well ``estimate`` explains the recording that it comes from."""
    return messages.Fit(
        header=Header(stamp=stamp),
        method=estimate.method,
        joints=messages_of(messages.JointFit, estimate.joints),
        relative_error=float(estimate.relative_error),
        raw_relative_error=float(estimate.raw_relative_error),
        condition_number=float(estimate.condition_number),
        rank=int(estimate.rank),
    )


def messages_of(kind: Any, sources: Iterable[Any]) -> list[Any]:
    """Return messages whose fields are attributes of objects, which may be NumPy's numbers."""
    names = kind.get_fields_and_field_types()
    rows = [{name: getattr(source, name) for name in names} for source in sources]
    return [
        kind(**{k: v.item() if isinstance(v, np.generic) else v for k, v in row.items()})
        for row in rows
    ]


# ----------------------------------------------------------------------------------- diagnostics


def diagnostic_status(
    node: str, part: str, text: str, values: dict[str, Any], *, robot: str, warned: bool
) -> DiagnosticStatus:
    """Return a status of part of a node, with level WARN or OK."""
    return DiagnosticStatus(
        level=DiagnosticStatus.WARN if warned else DiagnosticStatus.OK,
        name=f'{node.lstrip("/")}: {part}',
        message=text,
        hardware_id=robot,
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
    )


def diagnostics(node: Node, *statuses: DiagnosticStatus) -> DiagnosticArray:
    """Return statuses with the present time of a node."""
    return DiagnosticArray(header=Header(stamp=node.get_clock().now().to_msg()), status=statuses)


# ------------------------------------------------------------------------------------- regressor


def regressor_message(
    rows: np.ndarray, layout: ParameterLayout, stamp: Time, effort: np.ndarray | None = None
) -> messages.Regressor:
    """Return a regressor of (n_rows, p) rows, with (n_rows,) measured effort, if any."""
    # an array('d') goes into the message without a check of each number
    return messages.Regressor(
        header=Header(stamp=stamp),
        rows=rows.shape[0],
        cols=rows.shape[1],
        columns=list(layout.names),
        data=array('d', np.ascontiguousarray(rows, dtype=float).tobytes()),
        effort=array('d', b'' if effort is None else np.asarray(effort, dtype=float).tobytes()),
    )
