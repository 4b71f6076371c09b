# SPDX-License-Identifier: Apache-2.0
"""Settings, recordings and folders from the options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import SettingsError


def output_folder(options: argparse.Namespace, experiment: Any) -> Path:
    """Return the folder for the results."""
    folder = options.out or (experiment and experiment.output_folder)
    if folder is None:
        raise SettingsError(
            f"{options.experiment}: there is no folder for the results: key 'output' is missing",
            key='output',
            file=str(options.experiment),
            remedy='set it, or give --out DIR',
        )
    return folder


def overrides_of(pairs: Sequence[str]) -> dict[str, str]:
    """Return the values by key that ``--set KEY=VALUE`` gives."""
    overrides = {}
    for pair in pairs:
        key, sign, value = pair.partition('=')
        if not sign or not key:
            raise SettingsError(
                f"'--set {pair}' is not KEY=VALUE", key=key, remedy='for example signals.cutoff=20'
            )
        overrides[key.strip()] = value.strip()
    return overrides


def recordings_of(options: argparse.Namespace, result: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the recordings to validate on, and how to filter them."""
    from .io.columns import MotorSide
    from .io.experiment import load_experiment
    from .io.recording_config import RecordingEntry
    from .io.sources import open_recording

    joints = result.robot.joints
    if options.recordings.suffix in ('.yaml', '.yml') and options.recordings.is_file():
        experiment = load_experiment(options.recordings, overrides_of(options.overrides))
        sources = experiment.sources('validation', joints)
        if not sources:
            raise SettingsError(
                f"{options.recordings}: 'data.validation' names no recording",
                key='data.validation',
                file=str(options.recordings),
                remedy='add one to the experiment file, or name a bag',
            )
        return sources, experiment.signals
    if options.overrides:
        raise SettingsError(
            '--set needs an experiment file', remedy='name one in place of the bag'
        )
    entry = RecordingEntry(file=str(options.recordings))
    if not entry.is_factor:
        entry = RecordingEntry(
            file=entry.file,
            format='rosbag2',
            topic=options.topic,
            motor=None if options.motor_topic is None else MotorSide(topic=options.motor_topic),
        )
    source = open_recording(entry, joints, result.drives, elastic=result.model.elastic)
    return (source,), result.signals
