# SPDX-License-Identifier: Apache-2.0
"""
A quadruped and a humanoid of example-robot-data, made up and simulated on their feet by MuJoCo.

Simulations take most of the time, and are kept in a scratch folder between runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
import hashlib
from pathlib import Path
import tempfile
import warnings

import mujoco
import numpy as np
from robot_identification.data.floating_recording import FloatingRecording
from robot_identification.excitation import standing
from robot_identification.excitation.standing import (
    standing_motion,
    StandingMotion,
    StandingSettings,
)
from robot_identification.model.consistency import from_pseudo_inertia, pseudo_inertia
from robot_identification.model.mechanisms import ContactSettings
from robot_identification.model.parameters import ParameterSet
from robot_identification.model.robot import Robot
from robot_identification.regressor import build, FloatingRegressor, ModelSettings, prior
from robot_identification.simulation import legged
from robot_identification.simulation.legged import LeggedSettings, simulate_standing

from .synthetic import robots_folder

MASS, CENTRE = 0.15, 0.008
"""Largest relative changes of the links' masses, and largest shifts of their centres [m]."""

LOAD = 2.0
"""Mass that the trunk carries [kg]."""

SECONDS, UNSEEN_SECONDS = 60.0, 15.0
"""Durations of the motion to identify from, and of the one to judge by [s]."""

ROTOR, VISCOUS, COULOMB = 0.01, 0.1, 0.2
"""Rotor inertias [kg m^2] and friction [N m s/rad, N m] of the joints, about."""

_SCRATCH = Path(tempfile.gettempdir()) / 'robot_identification_benchmarks' / 'floating'
_ARRAYS = (
    'time',
    'position',
    'effort',
    'gyroscope',
    'accelerometer',
    'orientation',
    'stance',
    'wrench',
)
_CODE = (legged.__file__, standing.__file__)
"""Files that make the simulations: where one has changed, they are made anew."""


@dataclass(frozen=True, eq=False)
class Standing:
    """
    A robot on its feet.

    Attributes
    ----------
    name:
        What it is called.
    robot, model, regressor:
        Its URDF with a floating base, its contacts, and its regressor.
    trunk:
        Link that carries the load.
    place:
        (3,) centre of the load in the frame of that link [m].
    posture:
        (n,) positions of its joints in which it stands [rad].
    motion:
        What it does to be identified.
    kp, kd:
        Gains of the servo of the strongest joint [N m/rad, N m s/rad].
    alike:
        Whether all joints' servos have these gains; else theirs go by their effort limits.
    unseen:
        Makes the motion to judge by, of a seed.

    """

    name: str
    robot: Robot
    model: ModelSettings
    regressor: FloatingRegressor
    trunk: str
    place: np.ndarray
    posture: np.ndarray
    motion: StandingSettings
    kp: float
    kd: float
    alike: bool
    unseen: Callable[[Standing, int], StandingMotion]

    def settings(self, seed: int, **changes: object) -> LeggedSettings:
        """Return those of its simulation."""
        limits = self.robot.limits.effort[6:]
        share = np.ones(len(limits)) if self.alike else limits / limits.max()
        gains = {'kp': tuple(self.kp * share), 'kd': tuple(self.kd * share)}
        return LeggedSettings(**{**gains, 'seed': seed, **changes})

    def truth(self, seed: int) -> ParameterSet:
        """Return parameters of a robot whose bodies are not those of the URDF."""
        random, known = np.random.default_rng(seed), prior(self.robot, self.model)
        values = dict(zip(known.layout, known.values, strict=True))
        for link in self.robot.layout.links:
            shift = np.eye(4)
            shift[:3, 3] = CENTRE * random.uniform(-1.0, 1.0, 3)
            heavier = 1.0 + MASS * random.uniform(-1.0, 1.0)
            body = heavier * shift @ pseudo_inertia(known.inertial(link)) @ shift.T
            if link == self.trunk:
                point = np.append(self.place, 1.0)
                body += LOAD * np.outer(point, point) + np.diag([0.01, 0.01, 0.01, 0.0])
            names = known.layout.names[known.layout.slice_of(link)]
            values.update(zip(names, from_pseudo_inertia(body), strict=True))
        for joint in self.robot.driven_joints:
            values[f'{joint}.Ia'] = ROTOR * random.uniform(0.8, 1.2)
            values[f'{joint}.fv'] = VISCOUS * random.uniform(0.5, 1.5)
            values[f'{joint}.fc'] = COULOMB * random.uniform(0.5, 1.5)
        bias = LeggedSettings().accelerometer_bias
        values.update(zip(('imu.bx', 'imu.by', 'imu.bz'), bias, strict=True))
        return ParameterSet(known.layout, np.array([values[name] for name in known.layout]))

    def sway(self, seed: int) -> StandingMotion:
        """Return a motion to identify it from."""
        changed = {**vars(self.motion), 'seed': seed}
        return standing_motion(
            self.robot, self.regressor, self.posture, StandingSettings(**changed)
        )

    def recording(
        self, seed: int, motion: StandingMotion, settings: LeggedSettings
    ) -> FloatingRecording:
        """Return what its sensors read in a motion; a kept one if nothing has changed."""
        truth = self.truth(seed)
        parts = [self.name, repr(settings), mujoco.__version__, *map(_text, _CODE)]
        key = hashlib.sha256('\0'.join(parts).encode())
        key.update(motion.position.tobytes() + truth.values.tobytes())
        path = _SCRATCH / f'{key.hexdigest()}.npz'
        if not path.is_file():
            made = simulate_standing(self.robot, self.regressor, truth, motion, settings)
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = path.with_name(f'part-{path.name}')
            arrays = {name: getattr(made, name) for name in _ARRAYS}
            np.savez(whole, **{name: a for name, a in arrays.items() if a is not None})
            whole.replace(path)
        with np.load(path) as kept:
            return FloatingRecording(**kept, joints=self.robot.joints, source='simulation')


@cache
def _text(path: str) -> str:
    return Path(path).read_text(encoding='utf-8')


def go2() -> Standing:
    """Return the quadruped, with four spheres for feet."""
    feet = tuple(
        ContactSettings(frame=f'{leg}_foot', kind='sphere', radius=0.022)
        for leg in ('FL', 'FR', 'RL', 'RR')
    )
    return _standing(
        'Go2',
        'go2_description/urdf/go2.urdf',
        feet,
        trunk='base',
        place=np.array([0.05, 0.02, 0.09]),
        posture=dict.fromkeys(('hip', 'thigh', 'calf'), 0.0) | {'thigh': 0.8, 'calf': -1.55},
        motion=StandingSettings(duration=SECONDS),
        kp=250.0,
        kd=5.0,
        alike=True,
        unseen=trot,
    )


def g1() -> Standing:
    """Return the humanoid, with two soles for feet; it lifts none, for its ankles are narrow."""
    feet = tuple(
        ContactSettings(frame=f'{side}_ankle_roll_link', kind='flat', sole=(0.08, 0.03))
        for side in ('left', 'right')
    )
    return _standing(
        'G1',
        'g1_description/urdf/g1_29dof_rev_1_0.urdf',
        feet,
        trunk='torso_link',
        place=np.array([0.0, 0.02, 0.2]),
        posture={'hip_pitch': -0.35, 'knee': 0.6, 'ankle_pitch': -0.25},
        motion=StandingSettings(
            duration=SECONDS,
            shift=0.015,
            turn=0.05,
            lift=0.0,
            swing=0.3,
            frequency=0.5,
        ),
        kp=3000.0,
        kd=40.0,
        alike=False,
        unseen=lambda standing, seed: _other_sway(standing, seed + 100),
    )


def _standing(
    name: str,
    urdf: str,
    feet: tuple[ContactSettings, ...],
    *,
    posture: dict[str, float],
    **others: object,
) -> Standing:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        robot = Robot.from_urdf(robots_folder() / urdf, floating=True)
    model = ModelSettings(contacts=feet)
    known = prior(robot, model)
    regressor = build(robot, model)
    assert isinstance(regressor, FloatingRegressor) and len(known.values) == len(regressor.layout)
    positions = [
        next((q for part, q in posture.items() if part in joint), 0.0)
        for joint in robot.driven_joints
    ]
    return Standing(
        name=name,
        robot=robot,
        model=model,
        regressor=regressor,
        posture=np.array(positions),
        **others,
    )


def _other_sway(standing: Standing, seed: int) -> StandingMotion:
    """Return a shorter sway with other sines."""
    changed = {**vars(standing.motion), 'seed': seed, 'duration': UNSEEN_SECONDS}
    settings = StandingSettings(**changed)
    return standing_motion(standing.robot, standing.regressor, standing.posture, settings)


PACE, RAISE = 1.5, 0.3
"""Steps of a pair of feet a second, and bend of their knees for it [rad]."""


def trot(standing: Standing, seed: int) -> StandingMotion:
    """Return a trot in place of a quadruped, over a sway on the feet."""
    changed = {**vars(standing.motion), 'seed': seed + 100, 'duration': UNSEEN_SECONDS}
    changed.update(lift=0.0, shift=0.02, turn=0.08)
    sway = standing_motion(
        standing.robot, standing.regressor, standing.posture, StandingSettings(**changed)
    )
    position, begun = sway.position.copy(), np.clip(sway.time - 2.0, 0.0, 1.0)
    for i, joint in enumerate(standing.robot.driven_joints):
        late = 0.0 if joint.startswith(('FL', 'RR')) else 0.5
        phase = (sway.time * PACE + late) % 1.0
        raised = begun * np.where(phase < 0.45, np.sin(np.pi * phase / 0.45) ** 2, 0.0)
        share = {'thigh': RAISE, 'calf': -2.0 * RAISE}
        position[:, i] += raised * next((s for part, s in share.items() if part in joint), 0.0)
    return StandingMotion(sway.time, position, sway.base, sway.stance, sway.margin)
