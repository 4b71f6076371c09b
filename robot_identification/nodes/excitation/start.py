# SPDX-License-Identifier: Apache-2.0
"""The start of a motion: a controller that is ready, and a robot at rest where both say it is."""

from __future__ import annotations

import time

import numpy as np

from ...errors import RecordingError
from ...model.robot import Robot
from ...online.latest_states import LATEST, WaitLimit
from .controller import Controller
from .controller_state import ControllerRest, ControllerState
from .joint_state_watch import StateWatch
from .motion_checks import Start
from .options import Code, ExecutionOptions, MotionError, Tick
from .remote_nodes import APPEARS_SECONDS

STATE_SECONDS = 1.0
"""How long a fresh state may take before a motion [s]."""

CONTEST_SECONDS = 1.0
"""Time over which positions are compared where there are several publishers [s]."""


async def find_start(
    controller: Controller,
    states: StateWatch,
    options: ExecutionOptions,
    tick: Tick,
    robot: Robot,
) -> Start:
    """
    Require a controller that is ready and a robot at rest; return where it rests.

    The position is the one that the controller holds: a motion that begins there does so without
    a step.

    Raises
    ------
    MotionError
        naming what does not hold.

    """
    found = await controller.prepare(robot, tick)
    await require_state(states, options, tick)
    controller.note(controller.clocks(states.sample().stamp))
    state = await _resting_state(controller, states, robot.joints, options, tick)
    _require_agreement(controller, states, state, options.start_tolerance)
    return Start(state.reference, found.deceleration, found.hold)


async def _resting_state(
    controller: Controller,
    states: StateWatch,
    joints: tuple[str, ...],
    options: ExecutionOptions,
    tick: Tick,
) -> ControllerState:
    """Return the state of a controller that holds the robot."""
    begin = time.monotonic()
    rest = ControllerRest(lambda: controller.state(joints))
    fresh = wait_limit = None
    while True:
        seen = rest.seen(options.rest_tolerance)
        state, heard = controller.state(joints), begin
        if state is not None and state.received >= begin:
            if seen:
                return state
            fresh, heard = fresh or state, state.received
            wait_limit = wait_limit or _patience(states, options)
            if wait_limit.over:
                raise _unrested(controller.name, states, options, state.time == fresh.time)
        if time.monotonic() - heard > APPEARS_SECONDS:
            raise MotionError(
                Code.NO_CONTROLLER,
                f"'{controller.name}/controller_state' has had no state of all joints for "
                f'{APPEARS_SECONDS:g} s, so where the robot is held is not known: see whether the '
                'controller runs, and publishes that',
            )
        await tick()


def _patience(
    states: StateWatch, options: ExecutionOptions, rest: float = LATEST.rest_seconds
) -> WaitLimit:
    """Return the bound on a wait for rest, which shows after the time ``rest``."""
    return WaitLimit(states, max(options.settle_time, 2.0 * rest), STATE_SECONDS)


def _unrested(
    name: str, states: StateWatch, options: ExecutionOptions, stands: bool
) -> MotionError:
    """Return the error for a controller's state that shows no rest, or whose time stands still."""
    if states.is_silent(options.stale_timeout):
        return _missing(states)
    if stands:
        return MotionError(
            Code.NO_CONTROLLER,
            f"the stamps of '{name}/controller_state' stand still, and a motion would with them: "
            'see whether anything publishes the clock of the controller (use_sim_time)',
        )
    return MotionError(
        Code.NOT_AT_START,
        f"by '{name}/controller_state' the robot is moving, though not by the joint states: see "
        'who publishes them, or wait until it is at rest',
    )


def _require_agreement(
    controller: Controller, states: StateWatch, state: ControllerState, tolerance: float
) -> None:
    """Require that controller and joint states have the same positions."""
    position = states.sample().position
    away = np.abs(position - state.measured)
    worst = int(away.argmax())
    if away[worst] > tolerance:
        raise MotionError(
            Code.UNTRUSTED_STATE,
            f"the joint states have joint '{states.joints[worst]}' at {position[worst]:.4g}, and "
            f"'{controller.name}/controller_state' at {state.measured[worst]:.4g}: see who "
            f'publishes them; they come from {states.publishers}',
        )
    away = np.abs(state.reference - state.measured)
    worst = int(away.argmax())
    if away[worst] > tolerance:
        raise MotionError(
            Code.NOT_AT_START,
            f"'{controller.name}' wants joint '{states.joints[worst]}' at "
            f'{state.reference[worst]:.4g} and measures it at {state.measured[worst]:.4g}: see '
            'whether its drives are on, tune it, or raise start_tolerance',
        )


async def require_state(states: StateWatch, options: ExecutionOptions, tick: Tick) -> np.ndarray:
    """
    Wait for fresh joint states of a robot at rest; return its position (n_joints,).

    Raises
    ------
    MotionError
        where there are none, or the robot moves.

    """
    states.forget()
    begin = time.monotonic()
    while not states.count or states.is_silent(options.stale_timeout):
        if time.monotonic() - begin > STATE_SECONDS:
            raise _missing(states)
        await tick()
    # other publishers may be slow: whether they have the same joints shows after a while
    rest = CONTEST_SECONDS if states.contested else LATEST.rest_seconds
    wait_limit = _patience(states, options, rest)
    while not wait_limit.over:
        await tick()
        waited = time.monotonic() - begin
        if waited >= rest and states.at_rest(options.rest_tolerance):
            return states.sample().position
    if states.is_silent(options.stale_timeout):
        raise _missing(states)
    several = f', or see why {states.publishers} publish joint states' if states.contested else ''
    raise MotionError(Code.NOT_AT_START, f'the robot is moving: wait until it is at rest{several}')


def _missing(states: StateWatch) -> MotionError:
    """Return the error for joint states that do not come, or no longer."""
    try:
        states.sample()
    except RecordingError as error:
        return MotionError(Code.STALE_STATE, str(error))
    return MotionError(
        Code.STALE_STATE,
        f'the latest joint states are {states.age:.2f} s old: '
        f'{states.fault or "see whether the driver runs"}',
    )
