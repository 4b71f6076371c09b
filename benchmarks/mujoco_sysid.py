# SPDX-License-Identifier: Apache-2.0
"""
MuJoCo's own system identification (`mujoco.sysid`) of position servos, to compare with.

It has the robot's MJCF, the same friction constraint, the same gains, and the recording's rows
that count.  Free are armature, damping and frictionloss of each joint and one delay, from the
values of the MJCF.  Commands that are late by a delay make the whole motion late by it, so that
the delay is applied to the simulated positions, as the toolbox applies delays of sensors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
import io
from pathlib import Path
from typing import Any

import mujoco
from mujoco import sysid
import numpy as np
from robot_identification.data.commands import CommandRecording
from robot_identification.servo.model import ServoModel
from robot_identification.servo.parameters import ServoParameters

ITERATIONS = 5
"""Steps of the optimiser."""

BOUNDS = {'armature': 0.2, 'damping': 5.0, 'frictionloss': 5.0}
"""Upper bounds of the parameters of joints; the lower ones are 0."""

AVAILABLE = hasattr(sysid, 'optimize')
"""Whether the packages that the toolbox needs are there."""


def identified(
    path: Path, model: ServoModel, recording: CommandRecording, start: ServoParameters
) -> tuple[ServoParameters, int]:
    """Return the parameters that the toolbox finds, and its number of rollouts."""
    robot, h = model.robot, model.timestep
    spec = _spec(path, model)
    parameters = sysid.ParameterDict()
    starts = {'armature': start.armature, 'damping': start.viscous, 'frictionloss': start.coulomb}
    for kind, bound in BOUNDS.items():
        for joint, value in zip(robot.joints, starts[kind], strict=True):
            entry = sysid.Parameter(
                f'{joint}.{kind}', value, 0.0, bound, modifier=_modifier(joint, kind)
            )
            parameters.add(entry)
    parameters.add(sysid.Parameter('delay', 0.0, -0.05, 0.1))
    # off the bounds, where it would stall
    for entry in parameters.values():
        entry.move_off_bound(0.02)
    compiled = spec.compile()
    stamps = recording.time - recording.time[0]
    rows = recording.counted()
    grid = h * np.arange(model.n_steps(recording) + 1)
    row = np.clip(np.searchsorted(stamps, grid + 1e-9, side='right') - 1, 0, len(stamps) - 1)
    columns = [compiled.joint(joint).qposadr[0] for joint in robot.joints]
    qpos = np.zeros(compiled.nq)
    qpos[columns] = recording.position[0]
    measured = sysid.TimeSeries.from_names(stamps, recording.position, compiled, robot.joints)
    sequence = sysid.ModelSequences(
        'robot',
        spec,
        'recording',
        sysid.create_initial_state(compiled, qpos),
        sysid.TimeSeries(grid, recording.command[row]),
        measured,
    )
    rollouts = 0

    def build(found: Any, free: Any) -> Any:
        nonlocal rollouts
        rollouts += 1
        return sysid.apply_param_modifiers(found, free)

    def residual(found: Any, *_: Any, state: np.ndarray, **__: Any) -> Any:
        late = stamps - float(found['delay'].value[0])
        positions = np.column_stack(
            [np.interp(late, grid, np.append(qpos[c], state[:, 1 + c])) for c in columns]
        )
        return (positions - recording.position)[rows], measured, measured

    errors = sysid.build_residual_fn(
        models_sequences=[sequence],
        build_model=build,
        modify_residual=residual,
        resample_true=False,
    )
    with redirect_stdout(io.StringIO()):
        found, _ = sysid.optimize(parameters, errors, verbose=False, max_iters=ITERATIONS)

    def values(kind: str) -> np.ndarray:
        return np.array([float(found[f'{joint}.{kind}'].value[0]) for joint in robot.joints])

    estimate = ServoParameters.with_neutral(
        robot.n_joints,
        armature=values('armature'),
        viscous=values('damping'),
        coulomb=values('frictionloss'),
        delay=float(found['delay'].value[0]),
    )
    return estimate, rollouts


def _spec(path: Path, model: ServoModel) -> Any:
    """Return the MJCF with servos, sensors of the positions, and the model's step and friction."""
    spec = mujoco.MjSpec.from_file(str(path))
    compiled = model.compiled
    spec.option.timestep = compiled.opt.timestep
    spec.option.integrator = compiled.opt.integrator
    spec.option.disableflags = compiled.opt.disableflags
    for joint, kp, kd in zip(model.robot.joints, model.stiffness, model.damping, strict=True):
        spec.joint(joint).solref_friction = compiled.dof_solref[0]
        spec.joint(joint).limited = mujoco.mjtLimited.mjLIMITED_FALSE
        actuator = spec.add_actuator(
            name=f'{joint}_servo', target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        actuator.set_to_position(kp=kp, kv=kd)
        spec.add_sensor(
            name=joint,
            type=mujoco.mjtSensor.mjSENS_JOINTPOS,
            objtype=mujoco.mjtObj.mjOBJ_JOINT,
            objname=joint,
        )
    return spec


def _modifier(joint: str, kind: str) -> Callable[[Any, Any], None]:
    """Return a function that writes a parameter into a joint of a specification."""

    def modify(spec: Any, parameter: Any) -> None:
        value = float(parameter.value[0])
        if kind == 'damping':
            spec.joint(joint).damping[0] = value
        else:
            setattr(spec.joint(joint), kind, value)

    return modify
