# SPDX-License-Identifier: Apache-2.0
"""Command ``validate``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from ..progress import progress_bar
from .options import (
    add_command,
    add_overrides,
    add_quiet,
    add_recordings,
    recordings_of,
)
from .output import EXIT_OK, show


def add_parser(commands: Any) -> None:
    """Add ``validate`` to the commands."""
    parser = add_command(
        commands,
        'validate',
        run,
        'predict the effort of other recordings with identified parameters',
        description="""
            Predict the effort of recordings that the identification has not seen, and print by how
            much the prediction misses what was measured, joint by joint, after a verdict by these
            errors, those of the fit and the speeds alone.
            """,
        epilog="""
            examples:
              robot-identification validate results/result.yaml recordings/second_run
              robot-identification validate results/result.yaml experiment.yaml
              robot-identification validate results/result.yaml experiment.yaml \\
                  --predictions predictions.csv
            """,
    )
    add_recordings(parser)
    parser.add_argument(
        '--predictions',
        type=Path,
        metavar='FILE',
        help='write time, <joint>.measured and <joint>.predicted of every sample as CSV; with '
        'several recordings FILE_1.csv, FILE_2.csv, ...',
    )
    add_overrides(parser)
    add_quiet(parser)


def run(options: argparse.Namespace) -> int:
    """Do ``validate`` and return the exit code."""
    from ..results.prediction_file import write_predictions
    from ..results.result import read_result
    from ..results.verdict import validation_verdict
    from ..revalidation import predict_stored, validate_stored

    result = read_result(options.result)
    sources, signals = recordings_of(options, result)
    files = _prediction_files(options, sources)
    with progress_bar(enabled=not options.quiet) as progress:
        validations = validate_stored(result, sources, signals=signals, progress=progress)
    verdict = validation_verdict(result, validations)
    verdict_text = verdict.summary('Verdict by the validation alone')
    show('\n\n'.join([verdict_text, *(validation.summary() for validation in validations)]))
    for file, source in zip(files, sources, strict=False):
        write_predictions(file, predict_stored(result, source))
        print(f'wrote {file}')
    return EXIT_OK


def _prediction_files(options: argparse.Namespace, sources: tuple[Any, ...]) -> tuple[Path, ...]:
    """Return the files for predictions, none of which may be one that is read."""
    from ..results.prediction_file import numbered

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
