# SPDX-License-Identifier: Apache-2.0
"""
Commands on results.

``validate``, ``replay``, ``plot`` and ``compare`` hold them against recordings and each other.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, TYPE_CHECKING

from ..errors import one_of, SettingsError
from ..support.progress import progress_bar, subrange
from .command import (
    argument,
    command,
    EXIT_OK,
    experiment_of,
    OVERRIDES,
    positive,
    QUIET,
    RESULT,
    show,
    TOPIC,
    VERBOSE,
)
from .servo import replay_servo, REPLAYED_COMMANDS

if TYPE_CHECKING:
    from ..results.stored_result import StoredResult

RECORDINGS = (
    RESULT,
    argument(
        'recordings',
        'a rosbag2 folder or file with /joint_states, a factor, or an experiment file, whose '
        'data.validation is taken',
        Path,
    ),
    TOPIC,
    argument(
        '--motor-topic',
        "topic with the motors' states where joints are elastic (default: that of --topic)",
        metavar='TOPIC',
    ),
)


def recordings_of(options: argparse.Namespace, result: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the recordings to validate on, and how to filter them."""
    from ..config.sources import open_recording
    from ..data.recording_config import MotorSide, RecordingEntry

    joints = result.robot.joints
    if options.recordings.suffix in ('.yaml', '.yml') and options.recordings.is_file():
        options.experiment = options.recordings
        experiment = experiment_of(options)
        if experiment.robot.open_gains:  # the result has found them
            robot = replace(experiment.robot, drives=result.settings.drives)
            experiment = replace(experiment, robot=robot)
        sources = experiment.sources('validation', joints)
        if not sources:
            raise SettingsError(
                f"{options.recordings}: 'data.validation' names no recording",
                key='data.validation',
                file=str(options.recordings),
                remedy='add one to the experiment file, or name a bag',
            )
        # what the file leaves out is as in the result
        names = [key.partition('.')[2] for key in experiment.given if key.startswith('signals.')]
        given = {name: getattr(experiment.signals, name) for name in names}
        return sources, replace(result.settings.signals, **given)
    if options.overrides:
        raise SettingsError(
            '--set needs an experiment file', remedy='name one in place of the bag'
        )
    entry = RecordingEntry(file=str(options.recordings))
    if not entry.is_factor:
        motors = getattr(options, 'motor_topic', None)
        entry = RecordingEntry(
            file=entry.file,
            format='rosbag2',
            topic=options.topic,
            motor=None if motors is None else MotorSide(topic=motors),
        )
    source = open_recording(
        entry, joints, result.settings.drives, elastic=result.settings.model.elastic
    )
    return (source,), result.settings.signals


@command(
    *RECORDINGS,
    argument(
        '--predictions',
        'write time, <joint>.measured and <joint>.predicted [N m or N at the joint] of every '
        'sample as CSV; with several recordings FILE_1.csv, FILE_2.csv, ...',
        Path,
        'FILE',
    ),
    OVERRIDES,
    VERBOSE,
    QUIET,
)
def validate(options: argparse.Namespace) -> int:
    r"""
    Predict the effort of other recordings with identified parameters.

    Predict the effort of recordings that the identification has not seen, and print a
    verdict by the errors, those of the fit and the speeds alone, on one screen. With
    --verbose print all reasons, too, and by how much the prediction misses what was
    measured, joint by joint, and by how much each exported file does alone.

    Examples
    --------
    robot-identification validate results/result.yaml recordings/second_run
    robot-identification validate results/result.yaml experiment.yaml
    robot-identification validate results/result.yaml experiment.yaml \
        --predictions predictions.csv
    """
    from ..exports.saving import write_predictions
    from ..identification.revalidation import judge_stored, predict_stored
    from ..pages.estimate_text import validation_summary
    from ..pages.file_text import file_table
    from ..pages.first_screen import first_screen, Places
    from ..results.stored_result import read_result
    from ..verdicts.verdict import validation_verdict

    result = read_result(options.result)
    sources, signals = recordings_of(options, result)
    files = _prediction_files(options, sources)
    with progress_bar(enabled=not options.quiet) as progress:
        held = judge_stored(result, sources, signals=signals, progress=progress)
    validations = tuple(validation for validation, _ in held)
    alone = tuple(errors for _, errors in held if errors is not None)
    judged = validation_verdict(result, validations, alone)
    if options.verbose:
        texts = [judged.summary('Verdict by the validation alone')]
        texts += map(validation_summary, validations)
        show('\n\n'.join([*texts, *map(file_table, alone)]))
    else:
        places = Places(
            experiment=str(getattr(options, 'experiment', '')),
            result=str(options.result),
        )
        show(first_screen(judged, places).text())
    for file, source in zip(files, sources, strict=False):
        write_predictions(file, predict_stored(result, source))
        print(f'wrote {file}: {_channels(result)}')
    return EXIT_OK


def _channels(result: StoredResult) -> str:
    """Return what predicted and measured efforts are in and have been through, in words."""
    from ..signals.settings import by_joint

    signals, drives = result.settings.signals, result.settings.drives
    units = one_of(dict.fromkeys(result.robot.effort_units))
    cutoff = f' at {signals.cutoff:g} Hz' * (signals.method != 'polynomial_approximation')
    channel = [
        f'{name} {one_of(dict.fromkeys(f"{value:g}" for value in values))} {unit}'
        for name, unit in (('effort_delay', 's'), ('effort_low_pass', 'Hz'))
        if (values := by_joint(signals, name, result.robot.joints)).any()
    ]
    delayed = f' and the channel of the efforts ({", ".join(channel)})' * bool(channel)
    measured = f'recorded {result.settings.effort_kind.replace("_", " ")}'
    if drives is not None and drives.effort is not None:
        found = result.document.get('drive_gains')
        measured += f' times {"the gains that were found" if found else "robot.drives.effort"}'
    return (
        f'predicted from the motion filtered by {signals.method}{cutoff}{delayed}; '
        f'measured is the {measured}, not filtered; both in {units}'
    )


def _prediction_files(options: argparse.Namespace, sources: tuple[Any, ...]) -> tuple[Path, ...]:
    """Return the files for predictions, none of which may be one that is read."""
    from ..exports.saving import numbered

    if options.predictions is None:
        return ()
    files = numbered(options.predictions, len(sources))
    read = [options.result, options.recordings]
    for source in sources:
        read += source.entry.files(source.base).values()
    for file in files:
        if any(file.exists() and path.exists() and file.samefile(path) for path in read):
            raise SettingsError(
                f"'--predictions {options.predictions}' would replace '{file}', which is read",
                value=str(file),
                remedy='choose another file',
            )
    return files


@command(
    *RECORDINGS,
    argument(
        '--horizon',
        'time that the robot moves by efforts alone (default: 0.5)',
        positive,
        'SECONDS',
    ),
    *REPLAYED_COMMANDS,
    OVERRIDES,
)
def replay(options: argparse.Namespace) -> int:
    """
    Play recorded efforts or commands to the robot in MuJoCo, before and after.

    Play the efforts of recordings to the robot in MuJoCo, by its prior and as identified,
    and print how far it ends from the recorded motion. After every horizon the robot is
    put back onto the recording.

    For a result of servos, play the commands, by the robot file and as identified, and
    print how far the motion is from the recorded one; it is put back at gaps alone.

    Examples
    --------
    robot-identification replay results/result.yaml recordings/second_run
    robot-identification replay results/result.yaml experiment.yaml --horizon 0.2
    robot-identification replay results/result.yaml go2.npz --commands --out motion.html
    """
    from ..identification.reduction import recordings_among
    from ..results.servo_result import is_servo_result
    from ..results.stored_result import read_result
    from ..simulation.comparison import replay

    if is_servo_result(options.result):
        return replay_servo(options)
    for name in ('commands', 'out'):
        if getattr(options, name):
            raise SettingsError(
                f"'--{name}' is given, but '{options.result}' is not of servos",
                remedy='leave it out: efforts are played to this robot',
            )
    result = read_result(options.result)
    sources, signals = recordings_of(options, result)
    played = replay(
        result, recordings_among(sources), signals=signals, horizon=options.horizon or 0.5
    )
    print(played.summary())
    return EXIT_OK


@command(
    RESULT,
    argument(
        'recordings',
        'a rosbag2 folder or file, or an experiment file, whose data.validation is taken',
        Path,
        'RECORDING',
        nargs='?',
    ),
    argument('--joint', 'joints to draw (default: all)', nargs='+', default=[], metavar='JOINT'),
    TOPIC,
    argument(
        '--out',
        'page to write, .html; several recordings are numbered',
        Path,
        'FILE',
        default=Path('efforts.html'),
    ),
    OVERRIDES,
    QUIET,
)
def plot(options: argparse.Namespace) -> int:
    """
    Draw measured and predicted efforts of chosen joints.

    Predict recordings by a result, and draw the measured and predicted effort of chosen
    joints over time with their difference, on a page to zoom in. Without RECORDING these
    are the result's own: those it was validated on, or else those it was identified from.

    Examples
    --------
    robot-identification plot results/result.yaml --joint joint_2 joint_3
    robot-identification plot results/result.yaml recordings/second --out second.html
    """
    from ..exports.saving import numbered
    from ..figures.fit_plots import effort_figures
    from ..figures.page import write_figures
    from ..identification.revalidation import validate_stored
    from ..results.stored_result import read_result

    result = read_result(options.result)
    joints = result.robot.joints
    for joint in options.joint:
        if joint not in joints:
            raise SettingsError(
                f"'--joint {joint}' is no joint of the result",
                value=joint,
                remedy=f'its joints are {one_of(joints)}',
            )
    sources, signals = (_own if options.recordings is None else recordings_of)(options, result)
    with progress_bar(enabled=not options.quiet) as progress:
        found = validate_stored(result, sources, signals=signals, progress=progress)
    chosen = [joints.index(joint) for joint in options.joint or joints]
    units = result.robot.effort_units
    for file, seen in zip(numbered(options.out, len(found)), found, strict=True):
        trace = replace(
            seen.trace,
            measured=seen.trace.measured[:, chosen],
            predicted=seen.trace.predicted[:, chosen],
            keep=seen.trace.keep[:, chosen],
        )
        figures = effort_figures(
            trace, [seen.joints[j] for j in chosen], [units[j] for j in chosen], time='recording'
        )
        page = write_figures(
            file, f'Efforts of {result.robot.name}', ', '.join(seen.sources), figures
        )
        print(f'wrote {page}')
    return EXIT_OK


def _own(options: argparse.Namespace, result: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the recordings that the result names, and how they are filtered."""
    if not result.document.get('experiment'):
        raise SettingsError(
            f"'{options.result}' names no recordings",
            file=str(options.result),
            remedy='name one behind it',
        )
    options.experiment = options.result
    experiment = experiment_of(options)
    experiment = replace(
        experiment, robot=replace(experiment.robot, drives=result.settings.drives)
    )
    kind = 'validation' if experiment.data.validation else 'identification'
    return experiment.sources(kind, result.robot.joints), result.settings.signals


@command(
    argument('results', 'result.yaml files', Path, 'RESULT', nargs='+'),
    argument(
        '--on',
        'predict these recordings by all results: a rosbag2 folder or file, a factor, or an '
        'experiment file, whose data.validation is taken',
        Path,
        'RECORDING',
        dest='recordings',
    ),
    TOPIC,
    argument(
        '--significance',
        'probability that equal robots show any difference',
        float,
        'P',
        default=0.01,
    ),
    OVERRIDES,
    QUIET,
)
def compare(options: argparse.Namespace) -> int:
    """
    Compare results: parameters that differ significantly, errors on common recordings.

    Print the base parameters of results side by side with their 95 % intervals, mark those
    that differ significantly from the first result's, and print the errors of all results
    on recordings: those given with --on, else those that all of them were validated on.

    Examples
    --------
    robot-identification compare monday/result.yaml tuesday/result.yaml
    robot-identification compare plain/result.yaml other/result.yaml --on experiment.yaml
    """
    from ..identification.revalidation import compare_results
    from ..results.stored_result import read_result

    if len(options.results) < 2:
        raise SettingsError(
            'there is one result only', remedy='name at least two result.yaml files'
        )
    results = [read_result(path) for path in options.results]
    names = [str(path) for path in options.results]
    comparison = compare_results(results, names, _errors(options, results), options.significance)
    show(comparison.summary())
    return EXIT_OK


def _errors(options: argparse.Namespace, results: list[Any]) -> dict[str, Any]:
    """Return the errors on the given recordings, or on those that all results have seen."""
    import numpy as np

    from ..identification.revalidation import validate_stored

    joints = results[0].robot.joints
    by_result: list[dict[str, list[float]]] = []
    with progress_bar(enabled=not options.quiet) as progress:
        for r, result in enumerate(results):
            if options.recordings is None:
                known = result.document.get('validation') or ()
                by_result.append({', '.join(v['sources']): _row(v, joints) for v in known})
                continue
            sources, signals = recordings_of(options, result)
            share = subrange(progress, r / len(results), (r + 1) / len(results))
            found = validate_stored(result, sources, signals=signals, progress=share)
            by_result.append(
                {
                    source.source: _row(validation.to_dict(), joints)
                    for source, validation in zip(sources, found, strict=True)
                }
            )
    common = [name for name in by_result[0] if all(name in each for each in by_result)]
    return {name: np.array([each[name] for each in by_result]) for name in common}


def _row(validation: Any, joints: tuple[str, ...]) -> list[float]:
    """Return the relative errors of the joints and of all in a stored validation [%]."""
    fits = [validation['joints'].get(joint, {}).get('relative_error') for joint in joints]
    return [
        float('nan') if error is None else error for error in (*fits, validation['relative_error'])
    ]
