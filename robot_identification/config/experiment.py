# SPDX-License-Identifier: Apache-2.0
"""The experiment: sections on the robot, the recordings, signals and estimation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
import os
from pathlib import Path
import re
from typing import Any
import warnings

import numpy as np

from ..data.drives import Drives, EFFORT_KINDS, EffortDrive
from ..data.recording_config import RecordingEntry
from ..errors import SettingsError
from ..estimation.drive_gains import METHODS
from ..estimation.estimators import EstimationSettings, SERVO_METHODS
from ..loads.payload import PayloadSettings
from ..model.mjcf import is_mjcf, urdf_of_mjcf
from ..model.robot import Robot, tilted_gravity
from ..model.urdf_files import urdf_text
from ..model.urdf_repair import robot_with_inertia
from ..options.fields import key_error, option
from ..regressor.delta import delta_robot
from ..regressor.settings import ModelSettings
from ..servo.settings import SERVO_COMMAND, ServoSettings, SimulatorSettings
from ..signals.settings import SignalSettings
from ..untrusted.files import user_path
from ..version import page
from .floating_sources import ESTIMATED, FloatingReader, with_estimated_stance
from .sources import ArrayEntry, open_recording


@dataclass(frozen=True, kw_only=True)
class RobotSettings(ModelSettings):
    """
    Settings of the robot: its URDF, the terms of its model, and the meaning of its data.

    The fields of `ModelSettings` (friction, rotor inertia, coupled drives) belong to it, too.
    """

    urdf: str = option(
        '',
        doc='URDF, xacro or MJCF file, relative to the experiment file, or '
        'package://<package>/<path>; '
        'has to be given but for a delta robot, whose geometry stands in delta',
        read_only=True,
    )
    xacro_arguments: Mapping[str, str] = option(
        factory=dict, doc='Arguments for a xacro file, by name', read_only=True
    )
    joints: tuple[str, ...] | None = option(
        None,
        doc="Identified joints, in the order of the data's columns; null takes every moving joint "
        "in the URDF's order. Joints that mimic others follow them, unless they are named here",
        read_only=True,
    )
    locked: Mapping[str, float] = option(
        factory=dict,
        doc='Other moving joints and the position that they are held at; those that are named '
        'nowhere are held at 0 with a warning, but joints that mimic others, which follow them',
        unit='rad or m',
        read_only=True,
    )
    gravity: tuple[float, float, float] = option(
        (0.0, 0.0, -9.81),
        doc='Acceleration of free fall in the base frame',
        unit='m/s^2',
        read_only=True,
    )
    base_tilt: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0),
        doc='Rotation vector by which the base stands askew: gravity is turned by it; left out, '
        'it is estimated (see `auto`)',
        unit='rad',
        minimum=-3.2,
        maximum=3.2,
        read_only=True,
    )
    effort_kind: str = option(
        doc='What the recorded effort is: joint_torque, motor_torque or motor_current; never '
        'guessed, since drivers differ; motor_torque needs drives.effort, and with motor_current '
        'the gains are found where it is left out '
        f'({page("how_to/currents")}); servo_command, if there is none, but commanded '
        f'positions ({page("how_to/commands")})',
        choices=(*EFFORT_KINDS, SERVO_COMMAND),
        read_only=True,
    )
    drives: Drives | None = option(
        None,
        doc='How motor-side signals become joint-side ones; null where the data are at the joints',
        read_only=True,
    )
    servo: ServoSettings | None = option(
        None,
        doc='The position servos, where effort_kind is servo_command',
        read_only=True,
    )
    clamped: bool = option(
        False,
        doc='Whether a floating base of an MJCF is fixed where the file places it, as of a robot '
        'on a stand; false refuses it',
        read_only=True,
    )

    posture: Mapping[str, float] = option(
        factory=dict,
        doc='Joints of a robot with a floating base that are not at 0 where it stands on its '
        'contacts with its base upright; `plan` begins there',
        unit='rad or m',
        read_only=True,
    )

    @property
    def by_commands(self) -> bool:
        """
        True if servos are identified from commands alone.

        With a floating base, the efforts that commands and gains imply take the place of measured
        ones, and all else is as of a robot with efforts.
        """
        return self.servo is not None and self.base != 'floating'

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.servo is not None) != (self.effort_kind == SERVO_COMMAND):
            text = f"is {self.effort_kind}, but 'robot.servo' is "
            text += 'missing' if self.servo is None else 'given'
            remedy = f"give the servos' gains in robot.servo with {SERVO_COMMAND}, and only there"
            raise key_error('robot.effort_kind', text, remedy, value=self.effort_kind)
        if not self.urdf and self.delta is None:
            raise SettingsError(
                "key 'robot.urdf' is missing",
                key='robot.urdf',
                remedy='name the URDF or xacro file of the robot',
            )
        for key in ('urdf', 'locked'):
            if self.delta is not None and getattr(self, key):
                remedy = 'leave one of them out: delta makes a URDF of its own'
                raise key_error(f'robot.{key}', "is given beside 'robot.delta'", remedy)

    @property
    def model(self) -> ModelSettings:
        """The settings of the dynamic model's terms."""
        return ModelSettings(**{f.name: getattr(self, f.name) for f in fields(ModelSettings)})

    @property
    def open_gains(self) -> bool:
        """True if the gains of the drives are to be found from the recordings."""
        effort = None if self.drives is None else self.drives.effort
        if effort is None:
            return self.effort_kind == 'motor_current'
        return effort.gains == 'ratios'

    def require_gains(self) -> None:
        """Require that the gains of the drives are known; raises SettingsError."""
        if self.open_gains:
            raise SettingsError(
                "the gains of the drives are not known: 'robot.drives.effort' leaves them to the "
                'recordings',
                key='robot.drives.effort',
                value=None,
                remedy='robot-identification identify finds them: put the matrix under '
                'drive_gains of its result.yaml into robot.drives.effort.matrix',
            )

    def mjcf(self, base: str | os.PathLike = '.') -> Path | None:
        """Return the robot's file if it is in MJCF, else None."""
        if not self.urdf or self.urdf.lstrip().startswith('<') or '://' in self.urdf:
            return None
        path = Path(base) / user_path(self.urdf)
        if path.suffix == '.xacro' or not path.is_file():
            return None
        return path if is_mjcf(urdf_text(path), path) else None

    def build(self, base: str | os.PathLike = '.') -> Robot:
        """
        Read the robot; a relative path starts at ``base``.

        Raises
        ------
        ModelError
            naming the file, joint or link that is wrong.

        """
        gravity = tilted_gravity(self.gravity, self.base_tilt)
        if self.delta is not None:
            return delta_robot(self.delta, self.joints, gravity=gravity)
        source = self.urdf
        if not source.lstrip().startswith('<') and '://' not in source:
            source = str(Path(base) / user_path(source))
        floating = self.base == 'floating'
        if (self.clamped or floating) and (path := self.mjcf(base)) is not None:
            source = urdf_of_mjcf(path, clamped=self.clamped, floating=floating)
        return robot_with_inertia(
            source,
            self.joints,
            locked=self.locked,
            passive=None if self.loops else (),
            gravity=gravity,
            xacro_arguments=self.xacro_arguments,
            floating=floating,
        )


@dataclass(frozen=True, kw_only=True)
class LoadRecordings:
    """Recordings with a load, and where on the robot it sits."""

    recordings: tuple[RecordingEntry, ...] = option(
        (),
        doc='Recordings of the same robot carrying the load, with the keys of '
        '`data.identification[i]`; at least one',
    )
    frame: str | None = option(
        None,
        doc='Link of the URDF that the load is fixed to and in whose frame it is given; null for '
        "the last identified joint's link",
    )


@dataclass(frozen=True, kw_only=True)
class KnownLoad(LoadRecordings):
    """
    A load of known mass, from which drive gains are identified.

    What is not given of it is estimated along with the gains.
    """

    mass: float = option(doc='Its mass, weighed', unit='kg', minimum=1e-6)
    center_of_mass: tuple[float, float, float] | None = option(
        None, doc='Its centre of mass in `frame`; null where it is not known', unit='m'
    )
    inertia: tuple[float, float, float, float, float, float] | None = option(
        None,
        doc='Its inertia about the centre of mass along the axes of `frame`: Ixx, Ixy, Iyy, Ixz, '
        'Iyz, Izz; null where it is not known',
        unit='kg m^2',
    )
    method: str = option(
        'total',
        doc='How the gains are estimated: total least squares, in which noise of the efforts '
        'makes no bias (total), or least squares with the load on the right-hand side '
        '(constrained)',
        choices=METHODS,
    )

    def __post_init__(self) -> None:
        if self.inertia is not None and self.center_of_mass is None:
            text = "is missing, but 'data.known_load.inertia' is given"
            remedy = 'give the centre of mass that the inertia is taken about'
            raise key_error('data.known_load.center_of_mass', text, remedy)


@dataclass(frozen=True, kw_only=True)
class PayloadRecordings(LoadRecordings, PayloadSettings):
    """
    A load that is to be identified.

    The fields of `PayloadSettings` belong to it, too.
    """


@dataclass(frozen=True, kw_only=True)
class ToolRecordings:
    """A tool behind a force-torque sensor, for `robot-identification tool`."""

    recordings: tuple[RecordingEntry, ...] = option(
        (),
        doc='Recordings of joint states and wrenches with the keys of `data.identification[i]`; '
        '`effort` names the six columns of the wrench: force x, y, z, torque x, y, z (in a bag it '
        'is left out); at least one',
    )
    frame: str | None = option(
        None,
        doc="Link of the URDF that is the sensor's frame; null for the last identified joint's "
        'link',
    )
    topic: str = option(
        '/force_torque_sensor_broadcaster/wrench',
        doc='Topic with geometry_msgs/msg/WrenchStamped messages (rosbag2)',
    )
    rotation: bool = option(
        False, doc="Whether the rotation of the sensor's axes in `frame` is estimated, too"
    )


@dataclass(frozen=True)
class DataSettings:
    """The recordings to identify from, and those to validate on."""

    identification: tuple[RecordingEntry, ...] = option(
        (), doc='Recordings to identify from; at least one'
    )
    validation: tuple[RecordingEntry, ...] = option(
        (), doc='Recordings that the identification does not see, to validate it on'
    )
    known_load: KnownLoad | None = option(
        None,
        doc='Recordings with a load of known mass, to identify the gains of the drives; null for '
        'none',
    )
    payload: PayloadRecordings | None = option(
        None,
        doc='Recordings with a load that is to be identified, while those of `identification` are '
        'without it; null for none',
    )
    tool: ToolRecordings | None = option(
        None, doc='A tool behind a force-torque sensor that is to be identified; null for none'
    )

    def entries(self, kind: str) -> tuple[tuple[str, RecordingEntry], ...]:
        """Return the recordings of one kind, the name of a field, with their key paths."""
        section = getattr(self, kind)
        path = f'data.{kind}'
        if isinstance(section, (LoadRecordings, ToolRecordings)):
            section, path = section.recordings, f'{path}.recordings'
        return tuple((f'{path}[{i}]', entry) for i, entry in enumerate(section or ()))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(f.name for f in fields(self))


@dataclass(frozen=True)
class FleetSettings:
    """Settings of a fleet: robot and time of each recording, and the confidence of tests."""

    serial: str | None = option(
        None,
        doc="Regular expression that finds the robot's serial number in a recording's path: its "
        'first group, or all that it matches; null takes the name of the folder that the '
        'recording is in',
    )
    serial_key: str | None = option(
        None,
        doc="Key of the bag's custom data that holds the serial number (`ros2 bag record "
        '--custom-data KEY=VALUE`); in place of `serial`',
    )
    stamp: str | None = option(
        None,
        doc="Regular expression that finds the recording's date in its path, in UTC: its groups "
        'one after another, or all that it matches, are YYYYMMDD, hhmm and ss behind it where '
        'they are there, or seconds since 1970; null takes the time of the first message of a '
        "bag, and else the file's last change",
    )
    significance: float = option(
        0.01,
        doc='Probability that a fleet of equal robots has any robot reported as different, and '
        'again that it has any reported as drifting',
        minimum=1e-9,
        maximum=0.5,
    )

    def __post_init__(self) -> None:
        if self.serial is not None and self.serial_key is not None:
            text = "is given beside 'fleet.serial'"
            raise key_error('fleet.serial_key', text, 'leave one of them out')
        for name in ('serial', 'stamp'):
            pattern = getattr(self, name)
            try:
                re.compile(pattern or '')
            except re.error as error:
                text = f'is no regular expression: {error}'
                remedy = "for example 'robots/([^/]+)/' takes the folder below robots"
                raise key_error(f'fleet.{name}', text, remedy, value=pattern) from error


@dataclass(frozen=True)
class Experiment:
    """
    An experiment file's content; made by `load_experiment`.

    Attributes
    ----------
    robot, data, signals, estimation, simulation, fleet:
        The file's sections.
    output:
        Folder for the results, relative to `base`, or None.
    auto:
        Whether keys that are not given are chosen from the recordings.
    content:
        The file's content with the overrides, as it was read.
    path:
        The file, or None where the settings came from elsewhere.
    base:
        Folder at which relative paths start.
    arrays:
        Recordings in memory by kind, beside those that `data` names.

    """

    robot: RobotSettings = option(doc='The robot, its model and the meaning of its data')
    data: DataSettings = option(factory=DataSettings, doc='The recordings')
    signals: SignalSettings = option(
        factory=SignalSettings, doc='How recordings become filtered samples with derivatives'
    )
    estimation: EstimationSettings = option(
        factory=EstimationSettings, doc='How the parameters are estimated'
    )
    simulation: SimulatorSettings = option(
        factory=SimulatorSettings,
        doc='The simulator that the parameters are for',
    )
    fleet: FleetSettings = option(
        factory=FleetSettings, doc='Of many recordings of many robots, for the command fleet'
    )
    auto: bool = option(
        True,
        doc='Whether keys of `signals` and friction, springs and tilt of `robot` that are '
        'left out are chosen from the identification recordings; false takes their defaults',
    )
    output: str | None = option(
        None, doc='Folder for result.yaml, verdict.json, identified.urdf and report.html'
    )
    path: Path | None = field(default=None)
    base: Path = field(default=Path())
    arrays: Mapping[str, tuple[ArrayEntry, ...]] = field(default_factory=dict, repr=False)
    content: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def given(self) -> frozenset[str]:
        """Keys of the sections that the file has, for example ``signals.cutoff``."""
        return frozenset(
            f'{name}.{key}'
            for name, section in self.content.items()
            if isinstance(section, Mapping)
            for key in section
        )

    @property
    def servo_method(self) -> str:
        """Method for servos, of `SERVO_METHODS`: as given, or by whether a simulator is named."""
        if 'estimation.method' in self.given:
            return self.estimation.method
        named = self.simulation.named or self.robot.mjcf(self.base) is not None
        return SERVO_METHODS[not named]

    @property
    def name(self) -> str:
        """Name of the results: that of the file, without its ending."""
        return 'experiment' if self.path is None else self.path.stem

    def with_gains(self, matrix: np.ndarray) -> Experiment:
        """Return the experiment with the (n, k) matrix of its drives' efforts."""
        effort = EffortDrive(tuple(map(tuple, matrix.tolist())))
        drives = replace(self.robot.drives or Drives(), effort=effort)
        return replace(self, robot=replace(self.robot, drives=drives))

    def build_robot(self) -> Robot:
        """
        Return the robot, which is read once.

        Each call gives the warnings on it; raises `ModelError` as `Robot.from_urdf` does.
        """
        robot, remarks = self._robot_with_warnings
        for remark in remarks:
            warnings.warn(remark, stacklevel=2)
        return robot

    @cached_property
    def _robot_with_warnings(self) -> tuple[Robot, tuple[Warning | str, ...]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            return self.robot.build(self.base), tuple(each.message for each in caught)

    def sources(
        self, kind: str = 'identification', joints: tuple[str, ...] | None = None
    ) -> tuple:
        """
        Open the recordings of one kind; nothing is read before their blocks are asked for.

        Parameters
        ----------
        kind:
            ``identification``, ``validation``, ``known_load`` or ``payload``.
        joints:
            The identified joints where the caller has built the robot; None: those of the file, or
            the URDF's.

        Returns
        -------
        tuple
            Sources with ``joints`` (and behind them the motors where joints are elastic) and
            ``blocks(size)``.

        Raises
        ------
        RecordingError
            naming the file that cannot be read.

        """
        if self.robot.by_commands:
            raise SettingsError(
                "'robot.effort_kind' is servo_command: the recordings have no efforts",
                key='robot.effort_kind',
                value=SERVO_COMMAND,
                remedy='robot-identification identify is the command for them',
            )
        floating = self.robot.base == 'floating'
        joints = joints or (() if floating else self.robot.joints) or self.build_robot().joints
        arrays = self.arrays.get(kind, ())
        if arrays and self.robot.elastic is not None:
            raise SettingsError(
                f"recording '{arrays[0].name}' is in memory, but the robot has elastic joints",
                key='robot.elastic',
                remedy='give a file, with the columns of the motors',
            )
        drives, elastic = self.robot.drives, self.robot.elastic
        if floating:
            model = self.robot
            reader = FloatingReader(
                joints, model.contacts, model.imu, drives or Drives(), self.base, model.servo
            )
            return tuple(
                with_estimated_stance(recording, self.build_robot(), self.robot.model)
                if entry.contacts == ESTIMATED and model.contacts
                else recording
                for path, entry in self.data.entries(kind)
                for recording in [reader.read(entry, path)]
            )
        opened = (
            open_recording(entry, joints, drives, self.base, path, elastic)
            for path, entry in self.data.entries(kind)
        )
        return (*opened, *(entry.at_joints(joints, drives) for entry in arrays))

    @property
    def output_folder(self) -> Path | None:
        """`output` as a path that starts at the file, or None."""
        return None if self.output is None else self.base / user_path(self.output)
