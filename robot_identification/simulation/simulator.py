# SPDX-License-Identifier: Apache-2.0
"""A simulated robot with its servo and its sensors, period by period, and its recordings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
import io
from pathlib import Path

import numpy as np

from ..config.sources import open_recording, Source
from ..data.recording import Recording
from ..data.recording_config import RecordingEntry
from ..errors import ExcitationError, ModelError, SettingsError
from ..excitation.trajectories import PointTrajectory
from ..model.parameters import ParameterSet
from ..model.robot import Robot, tilted_gravity
from ..regressor import ModelSettings, prior
from ..regressor.joint_terms import slopes_of
from ..regressor.rigid import tree_of
from ..untrusted.writing import reported_failures, write_whole
from .elastic import ElasticPlant, ElasticServo, require_rotors
from .plant import Plant
from .servo import Servo, TrajectoryFollower, Waypoints
from .truth import finite_effort, given, per_joint, SimulationSettings, true_model, truth

RUNAWAY = 1e6
"""Velocity that no robot has [rad/s or m/s]; MuJoCo would go on for a while and then reset."""

RAMP = 1.0
"""How fast the speed of trajectories changes: nothing that moves can do so at once [1/s]."""

FILE = 'recording.npz'
RECORDING = RecordingEntry(
    file=FILE, time='time', position='position', velocity='velocity', effort='effort'
)
"""File of a recording in its motion's folder, and the arrays in it."""


@dataclass(frozen=True)
class SimulatedSample:
    """
    Measurement at one ``time`` [s] since the simulator was made, (n_joints,) each.

    The effort is that of the drives, before friction, averaged over one servo period around the
    time, so that it belongs to position, velocity and acceleration of that instant.  The motors of
    elastic joints are reduced to the joints.
    """

    time: float
    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    motor_position: np.ndarray | None = None
    motor_velocity: np.ndarray | None = None


class Simulator:
    """
    A robot in MuJoCo under a joint servo, with friction, rotor inertia and imperfect sensors.

    The servo works on the state itself, as drives work on encoders at the fast end of the gears;
    quantisation and noise are in what is reported.

    Parameters
    ----------
    robot:
        The nominal robot: that of the URDF, which is the servo's model.
    settings:
        Truth, drive and sensors; None takes the defaults.
    parameters:
        The true parameters; None takes `truth` of ``robot`` and ``settings``.

    Attributes
    ----------
    follower:
        The trajectory that `follow` gives.
    plant:
        The mechanism, with the state that no sensor has touched.
    reference:
        (3, n_joints) position, velocity and acceleration commanded at the latest sample.
    guard:
        Asked in each servo period before a new reference is commanded; where it returns False,
        the one of the period before stays.  None commands any.

    Raises
    ------
    SettingsError, ModelError
        if settings or inertias do not fit the robot.

    """

    def __init__(
        self,
        robot: Robot,
        settings: SimulationSettings | None = None,
        parameters: ParameterSet | None = None,
    ) -> None:
        self.robot = robot
        self.settings = settings = settings or SimulationSettings()
        self.parameters = truth(robot, settings) if parameters is None else parameters
        self.plant, self._servo = _mechanism(robot, settings, self.parameters)
        self._start = _initial_position(robot, settings)
        noise = settings.effort_noise * finite_effort(robot)
        self._noise = given(settings, robot, 'effort_noise_std', noise)
        self._count = _encoder_count(robot, settings)
        self._channel = _EffortChannel.from_settings(robot, settings)
        self.follower = TrajectoryFollower(robot.joints, self._start)
        self._speed = self.follower.speed
        self.guard: Callable[[np.ndarray], bool] | None = None
        self._random = np.random.default_rng([settings.seed, 1])
        self._periods = 0
        self.reset()

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints, in the order of all arrays."""
        return self.robot.joints

    @property
    def periods(self) -> int:
        """Servo periods since the simulator was made; `reset` does not turn time back."""
        return self._periods

    @property
    def time(self) -> float:
        """Time of the next sample [s]."""
        return self._periods / self.settings.servo_rate

    def reset(self) -> None:
        """Put the robot at rest and undisturbed into its initial position; time goes on."""
        self.plant.external = np.zeros(self.robot.n_joints)
        self.plant.set_state(self._start, np.zeros(self.robot.n_joints))
        self.hold(self._start)
        self._servo.restart()
        self.reference = self.follower.advance(self.time)
        effort = self._drive(self.reference)
        # the drives have held the robot there before
        self._channel.restart(effort)

    def follow(self, waypoints: Waypoints, start: float | None = None) -> float:
        """Follow a trajectory from ``start`` [s] (None: now); see `TrajectoryFollower.follow`."""
        state = np.array([self.plant.position, self.plant.velocity])
        return self.follower.follow(waypoints, self.time, start, state)

    def hold(self, position: np.ndarray | None = None) -> None:
        """Hold ``position`` (n_joints,); None holds what is measured now."""
        self.follower.hold(self.plant.position if position is None else position)

    def brake(self, deceleration: np.ndarray) -> None:
        """Bring each joint to rest from what is measured now, by ``deceleration`` (n_joints,)."""
        plant = self.plant
        self.follower.brake(plant.position, plant.velocity, deceleration, self.time)

    def disturb(self, effort: np.ndarray) -> None:
        """
        Let ``effort`` (n_joints,) act on the joints from outside, unmeasured, until the next call.

        Raises ExcitationError unless there is one finite effort a joint; the former goes on then.
        """
        effort = np.array(effort, dtype=float)
        if effort.shape != (len(self.joints),):
            raise ExcitationError(
                f'disturbance refused, it has {effort.size} values for {len(self.joints)} joints',
                value=effort.shape,
                remedy='send one a joint',
            )
        if not np.isfinite(effort).all():
            i = int(np.argmin(np.isfinite(effort)))
            raise ExcitationError(
                f"disturbance refused, that of joint '{self.joints[i]}' is {effort[i]}",
                joint=self.joints[i],
                value=float(effort[i]),
                remedy='send finite numbers only',
            )
        self.plant.external = effort

    def scale_speed(self, speed: float) -> None:
        """Let the time of trajectories pass at a rate ``speed``, which is reached by `RAMP`."""
        self._speed = speed

    def advance(self) -> SimulatedSample:
        """
        Return what is measured now, and move on by one servo period.

        Raises ModelError naming a joint that runs away because the servo is too fast for its rate.
        """
        time = self.time
        position, velocity = self.plant.position, self.plant.velocity
        self._require_stable(velocity)
        motors = self.plant.motor_position, self.plant.motor_velocity
        step = RAMP / self.settings.servo_rate
        self.follower.speed += min(max(self._speed - self.follower.speed, -step), step)
        reference = self.follower.advance(time)
        if self.guard is None or self.guard(reference):
            self.reference = reference
        command = self._drive(self.reference)
        effort = self._channel.push(command)
        if self._noise.any():
            effort += self._noise * self._random.standard_normal(effort.size)
        position, velocity = self._sensed(position, velocity)
        sensed = self._sensed(*motors) if self.settings.elastic is not None else ()
        for _ in range(self.settings.substeps):
            self.plant.step(command)
        self._periods += 1
        return SimulatedSample(time, position, velocity, effort, *sensed)

    def _drive(self, reference: np.ndarray) -> np.ndarray:
        """Return the efforts of the drives."""
        return self._servo.effort(reference, self.plant.motor_position, self.plant.motor_velocity)

    def _sensed(self, position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what encoders make of positions and velocities."""
        if self._count is not None:
            position = np.round(position / self._count) * self._count
        if self.settings.velocity_noise > 0.0:
            noise = self._random.standard_normal(velocity.size)
            velocity = velocity + self.settings.velocity_noise * noise
        return position, velocity

    def _require_stable(self, velocity: np.ndarray) -> None:
        if (np.abs(velocity) < RUNAWAY).all():
            return
        i = int(np.argmax(np.nan_to_num(np.abs(velocity), nan=np.inf)))
        raise ModelError(
            f"the simulation of robot '{self.robot.name}' diverges: joint '{self.joints[i]}' "
            f'has a velocity of {velocity[i]:.3g}',
            joint=self.joints[i],
            value=float(velocity[i]),
            remedy='lower bandwidth, or raise servo_rate or substeps',
        )

    def record(self, duration: float) -> Recording:
        """
        Run for ``duration`` [s] and return the joint states, at ``settings.rate``.

        Of elastic joints there are the links' columns and then the motors', with efforts at the
        motors only.
        """
        periods = round(duration * self.settings.servo_rate)
        rows = [self.advance() for _ in range(periods)][:: self.settings.decimation]
        position, velocity, effort = (
            np.array([getattr(row, name) for row in rows])
            for name in ('position', 'velocity', 'effort')
        )
        joints = self.joints
        if self.settings.elastic is not None:
            joints = self.settings.elastic.columns(joints)
            position = np.hstack([position, [row.motor_position for row in rows]])
            velocity = np.hstack([velocity, [row.motor_velocity for row in rows]])
            effort = np.hstack([np.zeros_like(effort), effort])
        return Recording(
            time=np.array([row.time for row in rows]),
            position=position,
            effort=effort,
            joints=joints,
            velocity=velocity,
            source='simulation',
        )


class _EffortChannel:
    """
    From the efforts of the drives to those that they report: delay and two low-pass filters.

    The delay is (n_joints,) servo periods, ``cutoff`` (n_joints,) radians a servo period, infinite
    for none.
    """

    def __init__(self, delay: np.ndarray, cutoff: np.ndarray) -> None:
        self._delay, self._joints = delay, np.arange(delay.size)
        # 1/(1 + s/w) by the bilinear transformation, which keeps its group delay at rest
        self._filtered = np.isfinite(cutoff)
        wide = np.where(self._filtered, cutoff, 1.0)
        self._plain = not (self._delay.any() or self._filtered.any())
        self._keep, self._take = (2.0 - wide) / (2.0 + wide), wide / (2.0 + wide)
        self.restart(np.zeros(delay.size))

    @classmethod
    def from_settings(cls, robot: Robot, settings: SimulationSettings) -> _EffortChannel:
        """Make the channel of a robot's joints."""
        delay, low_pass = (
            per_joint(np.atleast_1d(getattr(settings, key)).tolist(), robot, key)
            for key in ('effort_delay', 'effort_low_pass')
        )
        assert delay is not None and low_pass is not None
        cutoff = np.where(low_pass > 0.0, 2.0 * np.pi * low_pass / settings.servo_rate, np.inf)
        return cls(np.rint(delay * settings.servo_rate).astype(int), cutoff)

    def restart(self, effort: np.ndarray) -> None:
        """Begin with an effort (n_joints,) that the drives have had for long."""
        longest = int(self._delay.max(initial=0)) + 2
        self._applied = deque([effort] * longest, maxlen=longest)
        # input and output of both filters at the sample before
        self._stages = np.array([effort] * 3)

    def push(self, effort: np.ndarray) -> np.ndarray:
        """Take the efforts of the next period, (n_joints,), and return those that are reported."""
        self._applied.append(effort)
        if self._plain:
            return 0.5 * (self._applied[-1] + self._applied[-2])
        applied = np.array(self._applied)
        newer, older = (applied[-1 - self._delay - k, self._joints] for k in (0, 1))
        # averaged over a period around the sample
        reported = 0.5 * (newer + older)
        for stage in range(2):
            before, self._stages[stage] = self._stages[stage].copy(), reported
            smooth = self._keep * self._stages[stage + 1] + self._take * (reported + before)
            reported = np.where(self._filtered, smooth, reported)
        self._stages[2] = reported
        return reported


def simulate(
    robot: Robot,
    waypoints: Waypoints,
    settings: SimulationSettings | None = None,
    parameters: ParameterSet | None = None,
) -> Recording:
    """
    Record a trajectory from its first point to rest at its last.

    The robot starts at rest in the first point.  See `Simulator` for the other arguments.
    """
    settings = settings or SimulationSettings()
    ordered = waypoints.ordered(robot.joints)
    start = tuple(ordered.position[0].tolist())
    simulator = Simulator(robot, replace(settings, initial_position=start), parameters)
    return simulator.record(simulator.follow(ordered))


@dataclass(frozen=True)
class SimulatedExecutor:
    """Executor of motions, with their recordings on disk, for `calibration.calibrate`."""

    robot: Robot
    settings: SimulationSettings

    def find(self, folder: Path) -> Source | None:
        """Return the recording of a motion that was simulated before."""
        if not (folder / FILE).exists():
            return None
        return open_recording(RECORDING, self.robot.joints, base=folder)

    def execute(self, trajectory: PointTrajectory, folder: Path) -> Source:
        """Simulate a motion and return its recording."""
        points = Waypoints(
            trajectory.joints,
            trajectory.time,
            trajectory.position,
            trajectory.velocity,
            trajectory.acceleration,
        )
        recorded = simulate(self.robot, points, self.settings)
        names = ('time', 'position', 'velocity', 'effort')
        stream = io.BytesIO()
        np.savez(stream, **{name: getattr(recorded, name) for name in names})
        with reported_failures(folder):
            write_whole(folder / FILE, stream.getvalue())
        return open_recording(RECORDING, self.robot.joints, base=folder)


def _mechanism(
    robot: Robot, settings: SimulationSettings, parameters: ParameterSet
) -> tuple[Plant, Servo]:
    nominal = prior(robot, ModelSettings())
    elastic = settings.elastic
    owners = robot.joints if elastic is None else elastic.motor_names(robot.joints)
    rotor = {
        f'{joint}.Ia': parameters.get(f'{owner}.Ia')
        for joint, owner in zip(robot.joints, owners, strict=True)
    }
    step = 1.0 / (settings.servo_rate * settings.substeps)
    slopes = slopes_of(true_model(robot, settings), robot.joints)
    breakaway = per_joint(settings.breakaway, robot, 'breakaway')
    known = nominal.updated(rotor)
    real = robot.with_gravity(tilted_gravity(robot.gravity.tolist(), settings.base_tilt))
    if elastic is None:
        servo = Servo(robot, known, settings.bandwidth, settings.damping)
        return Plant(real, parameters, step, slopes, breakaway), servo
    require_rotors(np.array(list(rotor.values())), robot)
    stiffness = np.array([parameters[f'{joint}.k'] for joint in robot.joints])
    slow = ElasticServo(
        robot, known, stiffness, settings.bandwidth, settings.damping, settings.servo_rate
    )
    return ElasticPlant(real, parameters, elastic, step, slopes, breakaway), slow


def _initial_position(robot: Robot, settings: SimulationSettings) -> np.ndarray:
    position = per_joint(settings.initial_position, robot, 'initial_position')
    if position is None:
        return np.clip(np.zeros(robot.n_joints), robot.limits.lower, robot.limits.upper)
    outside = (position < robot.limits.lower) | (position > robot.limits.upper)
    if outside.any():
        i = int(np.flatnonzero(outside)[0])
        raise SettingsError(
            f"'initial_position' of joint '{robot.joints[i]}' is {position[i]:g}",
            key='initial_position',
            joint=robot.joints[i],
            value=float(position[i]),
            remedy=f'allowed is [{robot.limits.lower[i]:g}, {robot.limits.upper[i]:g}]',
        )
    return position


def _encoder_count(robot: Robot, settings: SimulationSettings) -> np.ndarray | None:
    """Length of an encoder count at each joint, (n_joints,) [rad or m]; None for none."""
    if settings.encoder_counts == 0.0:
        return None
    return np.where(tree_of(robot).revolute, 2.0 * np.pi, 1.0) / settings.encoder_counts
