# SPDX-License-Identifier: Apache-2.0
"""The start of a motion: a controller that is ready, and a robot at rest where both say it is."""

from __future__ import annotations

from dataclasses import dataclass
import time

import numpy as np

from ...diagnosis.locked_joints import APART
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

SLOWER = 0.99
"""Rate of a controller's time below which that is said."""

CONTEST_SECONDS = 1.0
"""Time over which positions are compared where there are several publishers [s]."""


@dataclass(frozen=True)
class StartCheck:
    """Check of a robot before a motion; what does not hold raises `MotionError` that names it."""

    controller: Controller
    states: StateWatch
    options: ExecutionOptions
    tick: Tick

    async def start(self, robot: Robot) -> Start:
        """
        Require a controller that is ready and a robot at rest; return where it rests.

        The position is the one that the controller holds: a motion that begins there does so
        without a step.
        """
        controller = self.controller
        found = await controller.prepare(robot, self.tick)
        await self.resting_position(robot)
        controller.note(controller.clocks(self.states.sample().stamp))
        state = await self._resting_state(robot.joints)
        self._require_agreement(state)
        if found.deceleration is not None:
            self._require_velocities(state)
        if found.shows_speed:
            self._require_speed(state)
        return Start(state.reference, found.deceleration, found.hold, found.period)

    async def resting_position(self, robot: Robot) -> np.ndarray:
        """Wait for fresh joint states of a robot at rest; return its position (n_joints,)."""
        position = await self._rested()
        places = self.states.everywhere() if robot.locked else {}
        for joint, place in robot.locked.items():
            unit = robot.contents.joints[joint].unit
            if not abs(places.get(joint, place) - place) <= APART[unit]:
                raise MotionError(
                    Code.NOT_AT_START,
                    f"joint '{joint}' is at {places[joint]:.4g} {unit} by the joint states, and "
                    f'every check has it at {place:.4g}: move it there, or correct locked_joints '
                    'and locked_positions',
                )
        unknown = ', '.join(sorted(robot.locked.keys() - places.keys()))
        self.controller.note(
            unknown
            and f'not in the joint states, so not known to be where they are locked: {unknown}'
        )
        return position

    async def _rested(self) -> np.ndarray:
        """Wait for fresh joint states of a robot at rest; return its position (n_joints,)."""
        states, timeout = self.states, self.options.stale_timeout
        states.forget()
        begin = time.monotonic()
        while not states.count or states.is_silent(timeout):
            if time.monotonic() - begin > STATE_SECONDS:
                raise self._missing()
            await self.tick()
        # other publishers may be slow: whether they have the same joints shows after a while
        rest = CONTEST_SECONDS if states.contested else LATEST.rest_seconds
        wait_limit = self._wait_limit(rest)
        while not wait_limit.over:
            await self.tick()
            waited = time.monotonic() - begin
            if waited >= rest and states.at_rest(self.options.rest_tolerance):
                return states.sample().position
        if states.is_silent(timeout):
            raise self._missing()
        text = 'the robot is moving: wait until it is at rest'
        if states.contested:
            text += f', or see why {states.publishers} publish joint states'
        raise MotionError(Code.NOT_AT_START, text)

    async def _resting_state(self, joints: tuple[str, ...]) -> ControllerState:
        """Return the state of a controller that holds the robot."""
        begin, name = time.monotonic(), self.controller.name
        rest = ControllerRest(lambda: self.controller.state(joints))
        fresh = wait_limit = None
        while True:
            seen = rest.seen(self.options.rest_tolerance)
            state, heard = self.controller.state(joints), begin
            if state is not None and state.received >= begin:
                if seen:
                    return state
                fresh, heard = fresh or state, state.received
                wait_limit = wait_limit or self._wait_limit(LATEST.rest_seconds)
                if wait_limit.over:
                    raise self._unrested(fresh, state)
            if time.monotonic() - heard > APPEARS_SECONDS:
                raise MotionError(
                    Code.NO_CONTROLLER,
                    f"'{name}/controller_state' has had no state of all joints for "
                    f'{APPEARS_SECONDS:g} s, so where the robot is held is not known: see whether '
                    'the controller runs, and publishes that',
                )
            await self.tick()

    def _wait_limit(self, rest: float) -> WaitLimit:
        """Return the bound on a wait for rest, which shows after the time ``rest``."""
        longest = max(self.options.settle_time, 2.0 * rest)
        return WaitLimit(self.states, longest, STATE_SECONDS)

    def _unrested(self, fresh: ControllerState, state: ControllerState) -> MotionError:
        """Return the error for a controller's state that ends, shows no rest, or stands still."""
        if self.states.is_silent(self.options.stale_timeout):
            return self._missing()
        topic = f"'{self.controller.name}/controller_state'"
        silence = time.monotonic() - state.received
        if silence > STATE_SECONDS:
            return MotionError(
                Code.NO_CONTROLLER,
                f'{topic} has had no state for {silence:.2g} s: see whether the controller is '
                'still active',
            )
        if state.stamp == fresh.stamp:
            return MotionError(
                Code.NO_CONTROLLER,
                f'the stamps of {topic} stand still, and a motion would with them: see whether '
                'anything publishes the clock of the controller (use_sim_time)',
            )
        return MotionError(
            Code.NOT_AT_START,
            f'by {topic} the robot is moving, though not by the joint states: see who publishes '
            'them, or wait until it is at rest',
        )

    def _require_agreement(self, state: ControllerState) -> None:
        """Require that controller and joint states have the same positions."""
        states, name, tolerance = self.states, self.controller.name, self.options.start_tolerance
        position = states.sample().position
        away = np.abs(position - state.measured)
        worst = int(away.argmax())
        if away[worst] > tolerance:
            raise MotionError(
                Code.UNTRUSTED_STATE,
                f"the joint states have joint '{states.joints[worst]}' at {position[worst]:.4g}, "
                f"and '{name}/controller_state' at {state.measured[worst]:.4g}: see who publishes "
                f'them; they come from {states.publishers}',
            )
        away = np.abs(state.reference - state.measured)
        worst = int(away.argmax())
        if away[worst] > tolerance:
            raise MotionError(
                Code.NOT_AT_START,
                f"'{name}' wants joint '{states.joints[worst]}' at {state.reference[worst]:.4g} "
                f'and measures it at {state.measured[worst]:.4g}: see whether its drives are on, '
                'tune it, or raise start_tolerance',
            )

    def _require_velocities(self, state: ControllerState) -> None:
        """Require that the controller knows what to brake from: by NaN it would command NaN."""
        unknown = ~np.isfinite(state.velocity)
        if unknown.any():
            joint = self.states.joints[int(unknown.argmax())]
            raise MotionError(
                Code.NO_CONTROLLER,
                f"'{self.controller.name}' measures no velocity of joint '{joint}', from which it "
                'would decelerate: see the driver, or set constraints.decelerate_on_cancel to '
                'false',
            )

    def _require_speed(self, state: ControllerState) -> None:
        """Require that the controller lets time pass; say so where it is slower than planned."""
        words = f"'{self.controller.name}' lets time pass at {state.speed:.0%} of its rate"
        if state.speed <= 0.0:
            raise MotionError(
                Code.NO_CONTROLLER,
                f'{words} (speed_scaling_factor), so nothing would move: release the protective '
                "stop, or raise the robot's slider",
            )
        self.controller.note(
            f'{words} (speed_scaling_factor): the motion takes longer, and shows less of the '
            'inertias'
            if state.speed < SLOWER
            else ''
        )

    def _missing(self) -> MotionError:
        """Return the error for joint states that do not come, or no longer."""
        try:
            self.states.sample()
        except RecordingError as error:
            return MotionError(Code.STALE_STATE, str(error))
        return MotionError(
            Code.STALE_STATE,
            f'the latest joint states are {self.states.age:.2f} s old: '
            f'{self.states.fault or "see whether the driver runs"}',
        )
