# SPDX-License-Identifier: Apache-2.0
"""
The command ``robot-identification``.

Exit codes: 0 done; 1 the user stopped it, or a fault of ours; 2 bad input, told in one line; 3 the
parameters are not physically consistent and ``--require-physical`` was given; 4 recordings of a
fleet were set aside.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
import os
import sys
from typing import Any
import warnings

from .cli_inputs import output_folder, overrides_of, recordings_of
from .cli_options import EXIT_BAD_INPUT
from .cli_parser import build_parser
from .errors import (
    ConsistencyError,
    IdentificationError,
    IdentificationWarning,
    one_of,
    SettingsError,
)
from .progress import progress_bar

EXIT_OK, EXIT_STOPPED, EXIT_NOT_PHYSICAL, EXIT_SET_ASIDE = 0, 1, 3, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command line.

    Parameters
    ----------
    arguments:
        Without the program's name; None takes the process's own.

    Returns
    -------
    int
        The exit code.

    """
    options = build_parser(COMMANDS).parse_args(arguments)
    # small matrices: threads of the linear algebra cost more than they give (read by NumPy later)
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    try:
        with _plain_warnings():
            return options.run(options)
    except ConsistencyError as error:
        return _fail(error, EXIT_NOT_PHYSICAL)
    except IdentificationError as error:
        return _fail(error, EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        return _fail('stopped', EXIT_STOPPED)
    except BrokenPipeError:
        # the reader of our output has gone (as `| head` does): nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_STOPPED


# ---------------------------------------------------------------------------------- the commands


def _identify(options: argparse.Namespace) -> int:
    from .estimation import EstimationSettings
    from .io.config_paths import read_section
    from .io.experiment import load_experiment
    from .io.factors import read_factor, SUFFIX
    from .pipeline import identify, identify_factors
    from .reduction import with_factors
    from .saving import require_writable, save

    overrides = overrides_of(options.overrides)
    if options.experiment.suffix == SUFFIX:
        factors = [read_factor(path) for path in (options.experiment, *options.factors)]
        estimation = read_section(EstimationSettings, 'estimation', overrides)
        run = partial(identify_factors, factors, estimation)
        folder = output_folder(options, None)
    else:
        experiment = load_experiment(options.experiment, overrides, check_data=not options.factors)
        experiment = with_factors(experiment, options.factors)
        run = partial(identify, experiment)
        folder = output_folder(options, experiment)
    require_writable(folder)
    with progress_bar(enabled=not options.quiet) as progress:
        result = run(progress=progress)
    saved = save(result, folder)
    if not options.quiet:
        print(result.estimate.summary())
        for validation in result.validations:
            print(f'\n{validation.summary()}')
        print(f'\n{result.consistency.summary()}')
        if result.drive_gains is not None:
            print(f'\n{result.drive_gains.summary()}')
        if result.payload is not None:
            print(f'\n{result.payload.summary()}')
    # the summary has those of the estimate
    shown = () if options.quiet else result.estimate.warnings
    _warn(text for text in result.warnings if text not in shown)
    _warn(saved.warnings)
    for path in (saved.result, saved.urdf, saved.report):
        if path is not None:
            print(f'wrote {path}')
    return _physical(result.consistency, options.require_physical)


def _reduce(options: argparse.Namespace) -> int:
    from .io.experiment import load_experiment
    from .io.factors import read_factor, SUFFIX, write_factors
    from .reduction import reduce_experiment
    from .saving import require_writable

    first, *others = options.inputs
    merging = options.out.suffix == SUFFIX
    if first.suffix == SUFFIX and not merging:
        raise SettingsError(
            f"'--out {options.out}' does not end in {SUFFIX}",
            remedy='name the file for the merged factor',
        )
    require_writable(options.out.parent if merging else options.out)
    with progress_bar(enabled=not options.quiet) as progress:
        if first.suffix == SUFFIX:
            factors: Iterator[Any] = map(read_factor, options.inputs)
        else:
            overrides = overrides_of(options.overrides)
            experiment = load_experiment(first, overrides, check_data=not others)
            factors = reduce_experiment(experiment, others, progress=progress)
        told = [f'wrote {p}: {s.summary()}' for p, s in write_factors(factors, options.out)]
    print('\n'.join(told))
    return EXIT_OK


def _validate(options: argparse.Namespace) -> int:
    from .io.results import read_result
    from .revalidation import validate_stored

    result = read_result(options.result)
    sources, signals = recordings_of(options, result)
    with progress_bar(enabled=not options.quiet) as progress:
        validations = validate_stored(result, sources, signals=signals, progress=progress)
    print('\n\n'.join(validation.summary() for validation in validations))
    return EXIT_OK


def _check(options: argparse.Namespace) -> int:
    from .consistency import check
    from .io.results import read_result
    from .robot import Robot

    if options.file.suffix in ('.urdf', '.xacro', '.xml'):
        parameters = Robot.from_urdf(options.file).prior
    else:
        parameters = read_result(options.file).standard
    report = check(parameters, options.tolerance)
    print(report.summary())
    return _physical(report, options.require_physical)


def _export(options: argparse.Namespace) -> int:
    from .io.results import read_result
    from .io.urdf import identified_urdf

    result = read_result(options.result)
    text = identified_urdf(result.robot, result.standard, result.model)
    if options.out is None:
        sys.stdout.write(text)
        return EXIT_OK
    try:
        options.out.write_text(text, encoding='utf-8')
    except OSError as error:
        raise IdentificationError(
            f"cannot write '{options.out}': {error.strerror}", file=str(options.out)
        ) from error
    print(f'wrote {options.out}')
    return EXIT_OK


def _structure(options: argparse.Namespace) -> int:
    from .base_parameters import structure
    from .io.experiment import load_experiment
    from .problem import IdentificationProblem

    problem = IdentificationProblem.of(
        load_experiment(options.experiment, overrides_of(options.overrides))
    )
    base = structure(problem.regressor(), problem.robot, grouping=problem.model.grouping)
    print(base.summary())
    return EXIT_OK


def _filters(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from .io.experiment import load_experiment
    from .report.filters import curve_frequencies, figure, write_figure
    from .signals import sample_rate
    from .signals.responses import decimated_nyquist, frequency_response
    from .signals.settings import METHODS

    experiment = load_experiment(options.experiment, overrides_of(options.overrides))
    signals = experiment.signals
    rate = options.rate or signals.sample_rate or sample_rate(experiment.sources()[0])
    methods = dict.fromkeys((signals.method, *options.compare))
    for method in methods:
        if method not in METHODS:
            raise SettingsError(
                f"'--compare {method}' is no method", remedy=f'there are {one_of(METHODS)}'
            )
    chosen = [replace(signals, method=method) for method in methods]
    print('\n\n'.join(frequency_response(each, rate).table() for each in chosen))
    if options.out is not None:
        curves = [frequency_response(each, rate, curve_frequencies(rate)) for each in chosen]
        drawing = figure(curves, decimated_nyquist(signals, rate))
        print(f'\nwrote {write_figure(drawing, options.out)}')
    return EXIT_OK


def _fleet(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from .fleet import identify_fleet, save_fleet
    from .io.experiment import load_experiment

    overrides = overrides_of(options.overrides)
    experiment = load_experiment(options.experiment, overrides, check_data=False)
    if options.serial is not None:
        # not by an override: a regular expression is no YAML
        settings = replace(experiment.fleet, serial=options.serial, serial_key=None)
        experiment = replace(experiment, fleet=settings)
    folder = output_folder(options, experiment)
    try:
        with progress_bar(enabled=not options.quiet) as progress:
            result = identify_fleet(
                experiment,
                options.recordings,
                folder,
                scheduler=options.scheduler,
                workers=options.workers,
                retries=options.retries,
                keep_going=options.keep_going,
                progress=progress,
            )
    except KeyboardInterrupt:
        return _fail('stopped; the same command goes on with what is left', EXIT_STOPPED)
    saved = save_fleet(result, folder)
    if options.quiet:
        _warn(result.warnings)
    else:
        print(result.summary())
    for path in saved:
        print(f'wrote {path}')
    if not result.set_aside:
        return EXIT_OK
    count = len(result.set_aside)
    what = '1 recording is' if count == 1 else f'{count} recordings are'
    _warn([f"{what} set aside: see '{folder / 'set-aside.yaml'}'"])
    return EXIT_SET_ASIDE


def _demo(options: argparse.Namespace) -> int:
    try:
        from .demo import run_demo
    except ImportError as error:
        raise IdentificationError(
            f'the demonstration needs ROS 2 and MuJoCo ({error})',
            remedy="run 'make demo' in the sources, or source your ROS 2 workspace and install "
            'mujoco',
        ) from error
    return run_demo(options.out, seed=options.seed, duration=options.duration)


def _play(options: argparse.Namespace) -> int:
    from .cli_play import FOLLOWER_WAIT, LISTENER_WAIT

    usual = FOLLOWER_WAIT if options.follower else LISTENER_WAIT
    try:
        from .nodes.player import play
    except ImportError as error:
        raise IdentificationError(
            f'playing a recording needs ROS 2 ({error})',
            remedy="run 'make setup' in the sources, or source your ROS 2 workspace",
        ) from error
    try:
        with progress_bar() as progress:
            played = play(
                options.recording,
                topic=options.topic,
                to=options.to,
                rate=options.rate,
                clock_rate=options.clock,
                clock_topic=options.clock_topic,
                wait=usual if options.wait is None else options.wait,
                follower=options.follower,
                start_offset=options.start_offset,
                duration=options.playback_duration,
                loop=options.loop,
                progress=progress,
            )
    except KeyboardInterrupt:
        return _fail('stopped', EXIT_STOPPED)
    if not played.subscribers:
        _warn(['there was no subscriber when the recording began'])
    print(
        f'played {played.messages} joint states in {played.seconds:.2f} s, '
        f'the latest {1e3 * played.latest:.1f} ms late'
    )
    return EXIT_OK


def _wait(options: argparse.Namespace) -> int:
    try:
        from .nodes.readiness import wait_for_identification
    except ImportError as error:
        raise IdentificationError(
            f'waiting for a node needs ROS 2 ({error})',
            remedy="run 'make setup' in the sources, or source your ROS 2 workspace",
        ) from error
    # argparse drops the first -- or not, as its version is
    command = options.command[options.command[:1] == ['--'] :]
    if command and command[0].startswith('-'):
        raise SettingsError(
            f"'{command[0]}' stands behind the node",
            value=command[0],
            remedy='give options before the node and the command after --',
        )
    wait_for_identification(options.node, options.timeout)
    if command:
        sys.stdout.flush()
        try:
            os.execvp(command[0], command)
        except OSError as error:
            raise IdentificationError(
                f"cannot run '{command[0]}': {error.strerror}",
                value=command[0],
                remedy='name a program that is installed and on PATH',
            ) from error
    return EXIT_OK


def _repair(options: argparse.Namespace) -> int:
    from .errors import RecordingError
    from .io.bag_repair import recordings_in, repair_bag

    code = EXIT_OK
    for path in options.recordings:
        for bag in recordings_in(path):
            try:
                done = repair_bag(bag).done or ('is complete, nothing to do',)
            except RecordingError as error:
                code = _fail(error, EXIT_BAD_INPUT)
                continue
            for line in done:
                print(f'{bag}: {line}', flush=True)
    return code


COMMANDS = {
    'identify': _identify,
    'reduce': _reduce,
    'validate': _validate,
    'check': _check,
    'export': _export,
    'structure': _structure,
    'filters': _filters,
    'fleet': _fleet,
    'play': _play,
    'wait': _wait,
    'repair': _repair,
    'demo': _demo,
}


# -------------------------------------------------------------------------------------- helpers


def _physical(report: Any, required: bool) -> int:
    if required and not report.physical:
        raise ConsistencyError(
            'the parameters are not physically consistent',
            remedy='see the table above for the links and joints concerned; '
            'estimation.method: physical finds parameters that are',
        )
    return EXIT_OK


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show our own warnings without the place in the program that they come from."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def plain(message: Any, category: type[Warning], *place: Any, **rest: Any) -> None:
            if issubclass(category, IdentificationWarning):
                _warn([str(message)])
            else:
                show(message, category, *place, **rest)

        warnings.showwarning = plain
        yield


def _warn(texts: Iterator[str] | Sequence[str]) -> None:
    for text in texts:
        print(f'warning: {text}', file=sys.stderr)


def _fail(reason: object, code: int) -> int:
    print(f'error: {reason}', file=sys.stderr)
    return code


if __name__ == '__main__':
    sys.exit(main())
