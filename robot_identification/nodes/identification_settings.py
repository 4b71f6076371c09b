# SPDX-License-Identifier: Apache-2.0
"""
Settings of the identification node: parameters, experiment file, options of a request.

The parameters have the experiment file's keys.  Their defaults come from the file that the
parameter ``experiment`` names, if any; a request's options override both.  All together are an
`Experiment`, checked as one from a file is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
import os
from pathlib import Path
from typing import Any

from rclpy.node import Node

from ..config.experiment import DataSettings, Experiment, ToolRecordings
from ..config.experiment_file import experiment_from
from ..config.requests import entry_like, experiment_of, named_files, restrict_files
from ..data.drives import EFFORT_KINDS
from ..data.recording_config import MotorSide, RecordingEntry
from ..errors import RecordingError
from ..estimation.estimators import EstimationSettings
from ..model.robot import Robot
from ..options.document import override
from ..options.fields import option, to_mapping
from ..regressor.settings import ModelSettings
from ..signals.settings import SignalSettings
from ..untrusted.directories import given_path
from ..untrusted.files import unusable
from .common import declare_options, read_options
from .common.requests import data_directories
from .common.robot_description import RobotDescription, RobotOptions


@dataclass(frozen=True)
class IdentificationOptions:
    """Parameters of the node that the experiment file has not, or has under another name."""

    experiment: str = option(
        '',
        doc='Experiment file (a path or package://) that gives the defaults of all other '
        'parameters, and what ROS has no parameters for, such as drives and the columns of CSV '
        'files; empty for none',
        read_only=True,
    )
    topic: str = option(
        '',
        doc='Topic of the joint states in bags; empty: that of the experiment file, or else the '
        "full name of this node's joint_states",
    )
    motor_topic: str = option(
        '',
        doc="Topic of the motors' states in bags, where joints are elastic; empty: that of the "
        "experiment file, or else the full name of this node's motor_states",
    )
    wrench_topic: str = option(
        '',
        doc='Topic of the wrenches in bags, for a tool; empty: that of data.tool in the '
        "experiment file, or else the full name of this node's "
        'force_torque_sensor_broadcaster/wrench',
    )
    output: str = option(
        '',
        doc='Folder for the results, each in a folder of its own; empty: that of the experiment '
        'file, or else results',
    )
    recordings: str = option(
        'recordings',
        doc='Folder of the recordings, the output of the recorder, so that requests may name them',
        read_only=True,
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions(ModelSettings):
    """The part of the experiment file's ``robot`` that a node has as parameters."""

    effort_kind: str = option(
        'joint_torque',
        doc='What the effort in joint states is. The message defines it as N m at the joint, but '
        'some drivers publish currents; motor_torque and motor_current need an experiment file '
        'with drives',
        choices=EFFORT_KINDS,
        read_only=True,
    )


class Settings:
    """
    The node's settings; ``files`` are the folders below which requests may name files.

    Raises `SettingsError` or `ModelError` where a parameter or the experiment file is wrong.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        options = declare_options(node, IdentificationOptions)
        self._file = given = experiment_of(options.experiment)
        self._data = DataSettings() if given is None else given.data
        self._base = Path() if given is None else given.base
        self._declare_sections(given)
        self._given = named_files(self._sections())
        folders = (self._output_folder(), given_path(options.recordings, 'recordings'))
        self.files = data_directories(node, folders)
        self._description: RobotDescription | None = None
        if given is None:
            model = read_options(node, ModelOptions, 'robot')
            self._description = RobotDescription(node, model=model)
        else:
            self._robot_options = declare_options(node, RobotOptions, defaults=_robot_of(given))
            self.experiment()  # refuses parameters that contradict the file at once
        kind = read_options(node, ModelOptions, 'robot').effort_kind
        node.get_logger().info(f'effort in joint states is taken as {kind} (robot.effort_kind)')

    def _declare_sections(self, given: Experiment | None) -> None:
        model = signals = estimation = None
        if given is not None:
            names = [f.name for f in fields(ModelOptions)]
            model = ModelOptions(**{name: getattr(given.robot, name) for name in names})
            signals, estimation = given.signals, given.estimation
        declare_options(self._node, ModelOptions, 'robot', defaults=model)
        declare_options(self._node, SignalSettings, 'signals', defaults=signals)
        declare_options(self._node, EstimationSettings, 'estimation', defaults=estimation)

    # ------------------------------------------------------------------------------------- reading

    def experiment(
        self,
        overrides: Mapping[str, str] | None = None,
        entries: Sequence[RecordingEntry] = (),
        model: ModelSettings | None = None,
    ) -> Experiment:
        """
        Return the settings of one request.

        Parameters
        ----------
        overrides:
            Values by dotted key, as YAML text.
        entries:
            The recordings.
        model:
            As a result was identified with, to read other recordings for it; None for the
            settings.

        Raises
        ------
        SettingsError, ModelError
            naming the key that is wrong; where no robot description has arrived yet.

        """
        document = {'robot': self._robot_mapping(), **self._sections()}
        given = {**self._given, 'robot.urdf': document['robot'].get('urdf')}
        override(document, overrides or {})
        restrict_files(document, given, self.files, self._base)
        path = None if self._file is None else self._file.path
        experiment = experiment_from(document, self._base, path=path, check_data=False)
        if model is not None:
            experiment = replace(
                experiment, robot=replace(experiment.robot, elastic=model.elastic)
            )
        if experiment.robot.elastic is not None:
            entries = [self._with_motors(entry) for entry in entries]
        data = replace(self._data, identification=tuple(entries), validation=())
        return replace(experiment, data=data)

    @property
    def has_recordings(self) -> bool:
        """True if the experiment file lists recordings to identify from."""
        return bool(self._data.identification or self._data.tool)

    def _sections(self) -> dict[str, Any]:
        return {
            'signals': to_mapping(read_options(self._node, SignalSettings, 'signals')),
            'estimation': to_mapping(read_options(self._node, EstimationSettings, 'estimation')),
        }

    def _with_motors(self, entry: RecordingEntry) -> RecordingEntry:
        """Add the topic of the motors' states in a bag."""
        if not entry.file_format(self._base).topics:
            return entry
        topic = read_options(self._node, IdentificationOptions).motor_topic
        if entry.motor is not None and not topic:
            return entry
        topic = self._node.resolve_topic_name(topic or 'motor_states')
        return replace(entry, motor=replace(entry.motor or MotorSide(), topic=topic))

    def entries(self, source: str) -> tuple[RecordingEntry, ...]:
        """
        Return how to read the recording ``source``; the experiment file's own where it is empty.

        Raises `RecordingError` where it does not exist, or its columns are not known.
        """
        own = self._data.identification
        if not source:
            if own:
                return own
            raise RecordingError(
                'no recording is known',
                remedy='name a bag or CSV file as source, or record with the recorder node',
            )
        return (self._entry(source, (*own, *self._data.validation)),)

    def tool_experiment(
        self, source: str, frame: str, rotation: bool, overrides: Mapping[str, str]
    ) -> Experiment:
        """
        Return the settings of a request for a tool; the experiment file's where they are empty.

        Raises as `entries` and `experiment`.
        """
        own, named = self._data.tool, read_options(self._node, IdentificationOptions).wrench_topic
        section = own or ToolRecordings()
        recordings, topic = section.recordings, section.topic
        if source:
            recordings = (self._entry(source, (*recordings, *self._data.identification)),)
        elif not recordings:
            raise RecordingError(
                'no recording of wrenches is known',
                remedy='name a bag as source, or record with wrench_topics of the recorder node',
            )
        if named or own is None:  # the usual name, in the node's namespace
            topic = self._node.resolve_topic_name(named or topic.lstrip('/'))
        section = replace(
            section, recordings=recordings, topic=topic, frame=frame or section.frame
        )
        section = replace(section, rotation=rotation or section.rotation)
        experiment = self.experiment(overrides)
        return replace(experiment, data=replace(experiment.data, tool=section))

    def _entry(self, source: str, known: Sequence[RecordingEntry]) -> RecordingEntry:
        """Return how to read a recording, as a known one of its kind is read."""
        given = given_path(source, 'source')
        path = self.files.resolve(given, 'source', inside=True)
        why = unusable(path)
        if why is not None:
            shown = given if len(source) <= 500 else f'{source[:80]}...'
            raise RecordingError(
                f"recording '{shown}' {why}", file=str(given), remedy='correct the path'
            )
        entry, is_alike = entry_like(path, known, self._base)
        topic = read_options(self._node, IdentificationOptions).topic
        if entry.file_format().topics and (topic or not is_alike):
            topic = topic or 'joint_states'
            entry = replace(entry, topic=self._node.resolve_topic_name(topic))
        return entry

    def description(self) -> str | None:
        """Return the URDF that has arrived last; None where the robot is not from a topic."""
        described = self._description
        return described.robot().urdf if described is not None and described.known else None

    def output(self, name: str = '') -> Path:
        """Return the folder for results, or one in it."""
        return self.files.resolve(self._output_folder() / name, 'output')

    def _output_folder(self) -> Path:
        output = read_options(self._node, IdentificationOptions).output
        if output:
            return given_path(output, 'output')
        own = None if self._file is None else self._file.output_folder
        return Path('results' if own is None else own).absolute()

    def _robot_mapping(self) -> dict[str, Any]:
        model = read_options(self._node, ModelOptions, 'robot')
        described = self._description
        options = self._robot_options if described is None else described.options
        robot: dict[str, Any] = {}
        # a delta robot is made of its geometry, whatever is described
        if model.delta is None:
            if described is not None:
                described.wait()  # requests have a thread of their own
            urdf = options.robot_description if described is None else described.robot().urdf
            locked = dict(zip(options.locked_joints, options.locked_positions, strict=True))
            robot = {'urdf': urdf, 'locked': locked}
        drives = None if self._file is None else self._file.robot.drives
        return {
            **robot,
            'joints': list(options.joints) or None,
            'gravity': list(options.gravity),
            'drives': None if drives is None else to_mapping(drives),
            **to_mapping(model),
        }


def _robot_of(experiment: Experiment) -> RobotOptions:
    """Return the file's robot as the parameters that all nodes have."""
    robot: Robot = experiment.build_robot()
    return RobotOptions(
        robot_description=robot.urdf if robot.path is None else os.fspath(robot.path.absolute()),
        joints=robot.joints,
        gravity=tuple(robot.gravity.tolist()),
        locked_joints=tuple(robot.locked),
        locked_positions=tuple(robot.locked.values()),
    )
