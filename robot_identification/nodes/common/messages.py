# SPDX-License-Identifier: Apache-2.0
"""Conversions to messages and back: times, trajectories, parameters, fits, regressors."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
import hashlib
import math
from typing import Any, TYPE_CHECKING

from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Inertia, Vector3, Wrench
import numpy as np
from rclpy.node import Node
from robot_identification_msgs import msg as messages
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ...errors import IdentificationError, one_of
from ...model.parameters import ParameterLayout, ParameterSet
from .clock import now

if TYPE_CHECKING:  # processes that only need times start quicker
    from ...estimation.estimate import Estimate
    from ...excitation.trajectories import PointTrajectory
    from ...loads.tool import Tool
    from ...regressor.base_parameters import BaseStructure
    from ...verdicts.verdict import Verdict

MOST_PARAMETERS = 10_000
"""Parameters that a request may bring."""

_NANOSECONDS = 1_000_000_000  # in a second


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


# ---------------------------------------------------------------------------------- trajectories


def message_of(trajectory: PointTrajectory, stamp: Time | None = None) -> JointTrajectory:
    """Return a trajectory; without a stamp of its start it starts when it arrives."""
    from ...excitation.joint_trajectory import STATES
    from ...excitation.trajectories import POINT_ARRAYS

    arrays = (getattr(trajectory, name) for name in POINT_ARRAYS)
    given = dict(zip(STATES, arrays, strict=True))
    points = []
    for i, moment in enumerate(trajectory.time):
        values = {k: array('d', v[i].tobytes()) for k, v in given.items() if v is not None}
        points.append(JointTrajectoryPoint(time_from_start=duration_message(moment), **values))
    header = Header() if stamp is None else Header(stamp=stamp)
    return JointTrajectory(header=header, joint_names=list(trajectory.joints), points=points)


def trajectory_points(message: JointTrajectory, joints: Sequence[str]) -> PointTrajectory:
    """Return a trajectory, its columns in the order of ``joints``; raises `ExcitationError`."""
    from ...excitation.joint_trajectory import point_trajectory, STATES

    time = [seconds(point.time_from_start) for point in message.points]
    states = {state: [getattr(point, state) for point in message.points] for state in STATES}
    return point_trajectory(message.joint_names, time, states, joints)


# ------------------------------------------------------------------------------------ parameters


def goal_mark(node: str) -> bytes:
    """Return the first half of the ids of all goals that a node of this full name sends."""
    return hashlib.sha256(f'robot_identification {node}'.encode()).digest()[:8]


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
        [
            kinds.IDENTIFIED if known else kinds.NOT_EXCITED
            for known in estimate.identifiability.excited
        ],
        stamp=stamp,
        robot=estimate.robot,
        expressions=estimate.expressions,
        covariance=estimate.uncertainty.covariance,
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

    Raises `IdentificationError` where a name occurs twice or a value is not finite.
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
        joints=messages_of(messages.JointFit, estimate.fit.joints),
        relative_error=float(estimate.fit.relative_error),
        raw_relative_error=float(estimate.fit.raw_relative_error),
        condition_number=float(estimate.rows.condition_number),
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
    return DiagnosticArray(header=Header(stamp=now(node).to_msg()), status=statuses)


# ------------------------------------------------------------------------------------- regressor


def regressor_message(
    rows: np.ndarray,
    joints: Sequence[str],
    layout: ParameterLayout,
    stamp: Time,
    effort: np.ndarray | None = None,
) -> messages.Regressor:
    """Return a regressor of (n_rows, p) rows, with (n_rows,) measured effort, if any."""
    # an array('d') goes into the message without a check of each number
    return messages.Regressor(
        header=Header(stamp=stamp),
        joints=list(joints),
        rows=rows.shape[0],
        cols=rows.shape[1],
        columns=list(layout.names),
        data=array('d', np.ascontiguousarray(rows, dtype=float).tobytes()),
        effort=array('d', b'' if effort is None else np.asarray(effort, dtype=float).tobytes()),
    )


def tool_answer(tool: Tool, judged: Verdict, response: Any) -> None:
    """Fill a tool into the answer of ``identify_tool``; what is not known is NaN."""
    response.level, response.verdict = judged.level, judged.sentence
    response.frame = tool.load.frame
    response.inertia_known, response.mass_std = tool.inertia_known, tool.load.mass_std
    mass, x, y, z, *moments = tool.known_body.tolist()
    names = ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz')
    com = Vector3(x=x, y=y, z=z)
    response.body = Inertia(m=mass, com=com, **dict(zip(names, moments, strict=True)))
    force, torque = (Vector3(x=x, y=y, z=z) for x, y, z in tool.offset.reshape(2, 3).tolist())
    response.offset = Wrench(force=force, torque=torque)
    response.sign, response.relative_error = tool.sign, tool.error
