# SPDX-License-Identifier: Apache-2.0
"""Commands as functions with arguments; exit codes and output; what several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
import gc
import inspect
import os
from pathlib import Path
import re
import sys
from typing import Any, TextIO
import warnings

from ..errors import (
    ConsistencyError,
    IdentificationError,
    IdentificationWarning,
    SettingsError,
    suggestion,
)
from ..options.texts import settings_of
from ..untrusted.streams import abandon
from ..untrusted.writing import write_named

EXIT_OK, EXIT_STOPPED, EXIT_BAD_INPUT, EXIT_NOT_PHYSICAL, EXIT_REJECTED = range(5)
EXIT_NOT_WRITTEN, EXIT_INTERRUPTED = 5, 130


def require(demand: str | None, *, physical: bool, plausible: bool) -> int:
    """
    Return the exit code of parameters that meet a demand: physical, plausible or None.

    Raises
    ------
    ConsistencyError
        where they do not.

    """
    if demand is not None and not physical:
        raise ConsistencyError(
            'the parameters are not physically consistent',
            remedy='see the table above for the links and joints concerned; '
            'estimation.method: physical finds parameters that are',
        )
    if demand == 'plausible' and not plausible:
        raise ConsistencyError(
            'the parameters are not plausible',
            remedy='see the findings above; correct the URDF or the recording, or state what is '
            'known of masses in estimation.physical',
        )
    return EXIT_OK


@contextmanager
def without_collection() -> Iterator[None]:
    """Import many modules without the garbage collector, which finds nothing in them."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show our own warnings without the place in the program that they come from."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def plain(message: Any, category: type[Warning], *place: Any, **rest: Any) -> None:
            if issubclass(category, IdentificationWarning):
                warn([str(message)])
            else:
                shown(message, category, *place, **rest)

        warnings.showwarning = plain
        yield


_BOLD, _RED, _GREEN, _YELLOW = '1', '31;1', '32;1', '33;1'
_VERDICTS = {'Good': _GREEN, 'Usable': _YELLOW, 'Do not use': _RED}


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return a text in a style (numbers of ANSI's SGR) for a terminal with colours."""
    plain = os.environ.get('NO_COLOR') or os.environ.get('TERM', '') in ('', 'dumb')
    return f'\033[{style}m{text}\033[0m' if style and stream.isatty() and not plain else text


def show(text: str) -> None:
    """Print tables and verdicts to standard output, with headings and verdict set off."""
    for line in text.split('\n'):
        style = _BOLD if line.startswith(('== ', '-- ')) else ''
        begun = (s for word, s in _VERDICTS.items() if line.startswith((f'{word} ', f'{word}:')))
        style = next(begun, style)
        print(paint(line, style, sys.stdout))


def write(path: Path, text: str | bytes) -> None:
    """Write a file and print its path; raises IdentificationError where that is impossible."""
    write_named(path, text)
    print(f'wrote {path}')


def warn(texts: Iterable[str]) -> None:
    """Print warnings to standard error, one a line."""
    with suppress(OSError):  # the command goes on without them
        for text in texts:
            print(f'{paint("warning:", _YELLOW, sys.stderr)} {text}', file=sys.stderr)


def fail(reason: object, code: int) -> int:
    """Print why the command failed, in one line, and return the exit code."""
    try:
        print(f'{paint("error:", _RED, sys.stderr)} {reason}', file=sys.stderr, flush=True)
    except OSError:  # the exit code is all that can be reported
        abandon(sys.stderr)
    return code


Run = Callable[[argparse.Namespace], int]
"""Carries out a command and returns the exit code."""

Argument = tuple[tuple[str, ...], dict[str, Any]]
"""Names and settings of ``add_argument``."""


_INVALID_CHOICE = re.compile(r"invalid choice: '(?P<name>[^']*)' \(choose from (?P<known>.*)\)")
"""In the messages of argparse, whose versions quote the known names or do not."""


class Parser(argparse.ArgumentParser):
    """Parser that keeps the line breaks of help texts and prints errors in one line."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault('formatter_class', argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings)

    def error(self, message: str) -> Any:
        """End the program."""
        if choice := _INVALID_CHOICE.search(message):
            meant = suggestion(choice['name'], re.findall(r'[\w.-]+', choice['known']))
            message = f'{message}; {meant.strip()}' if meant else message
        raise SystemExit(fail(f"{message} (see '{self.prog} --help')", EXIT_BAD_INPUT))


@dataclass(frozen=True)
class Command:
    """
    Command of the program.

    Attributes
    ----------
    run:
        Its function.  The name is the command's; the docstring is its help: the summary, the
        description and, below ``Examples``, command lines.
    arguments:
        Of the command line.
    words:
        Texts in place of ``{name}`` in the docstring.

    """

    run: Run
    arguments: tuple[Argument, ...]
    words: dict[str, str]

    def add_to(self, commands: Any) -> None:
        """Add the command to the subparsers; the parsed options have ``run``."""
        text = inspect.getdoc(self.run) or ''
        text, _, examples = text.partition('\n\nExamples\n--------\n')
        summary, _, description = text.partition('.\n\n')
        for name, word in self.words.items():
            description = description.replace(f'{{{name}}}', word)
        parser = commands.add_parser(
            self.run.__name__,
            help=summary[:1].lower() + summary[1:],
            description=description,
            epilog='\n  '.join(['examples:', *examples.splitlines()]) if examples else None,
        )
        parser.set_defaults(run=self.run)
        for names, settings in self.arguments:
            parser.add_argument(*names, **settings)


def command(*arguments: Argument, **words: str) -> Callable[[Run], Command]:
    """Return the decorator that makes a `Command` of a function."""
    return lambda run: Command(run, arguments, words)


def argument(
    names: str, help: str, type: Any = None, metavar: str | None = None, **settings: Any
) -> Argument:
    """
    Return an argument for `command`.

    ``names`` are separated by spaces, the other settings are those of ``add_argument``; a default
    that is not empty is added to the help.
    """
    if settings.get('default') and '(default' not in help:
        help += ' (default: %(default)s)'
    if 'action' not in settings:
        settings['type'] = type
    if metavar is not None:
        settings['metavar'] = metavar
    return tuple(names.split()), {'help': help, **settings}


def flag(names: str, help: str) -> Argument:
    """Return an option without a value."""
    return argument(names, help, action='store_true')


def positive(text: str) -> float:
    """Read a number above 0."""
    number = float(text)
    if not number > 0.0:
        raise argparse.ArgumentTypeError(f'{text} is not above 0')
    return number


def not_negative(text: str) -> float:
    """Read a number that is not below 0."""
    number = float(text)
    if not number >= 0.0:
        raise argparse.ArgumentTypeError(f'{text} is below 0')
    return number


def natural(text: str) -> int:
    """Read a whole number from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f'{text} is below 0')
    return number


def count(text: str) -> int:
    """Read a whole number from 1 on."""
    if (number := natural(text)) == 0:
        raise argparse.ArgumentTypeError('there has to be one at least')
    return number


EXPERIMENT = argument('experiment', 'the experiment file', Path)
RESULT = argument('result', 'a result.yaml', Path)
VERBOSE = flag('--verbose', 'print all reasons, tables and warnings, too')
QUIET = flag('--quiet', 'no progress bar, no tables')
TOPIC = argument('--topic', 'topic of the bag', default='/joint_states')


def _overrides(summary: str) -> Argument:
    return argument(
        '--set',
        f'replace a setting{summary}; may be given several times',
        dest='overrides',
        action='append',
        default=[],
        metavar='KEY=VALUE',
    )


def _xacro_argument(text: str) -> tuple[str, str]:
    """Read an argument for xacro, as its own command takes it."""
    name, separator, value = text.partition(':=')
    if not separator or not name:
        raise argparse.ArgumentTypeError(f'{text} is not name:=value')
    return name, value


XACRO = argument(
    '--xacro', 'arguments for a xacro file', _xacro_argument, 'NAME:=VALUE', nargs='+', default=()
)

OVERRIDES = _overrides(' of the experiment file, for example signals.cutoff=20')

PLANNING = (
    argument(
        '--settings',
        "YAML with 'planner', 'robot', 'joints' and 'locked', or a parameter file of the "
        'excitation node, which has the same keys',
        Path,
        'FILE',
    ),
    _overrides(', for example planner.floor=0.0'),
    argument(
        '--package-path',
        "folder with ROS packages, in which the URDF's package:// meshes are looked for first",
        Path,
        'DIR',
        nargs='+',
        default=[],
    ),
    argument('--srdf', "MoveIt's SRDF: pairs of links that it disables may touch", Path, 'FILE'),
    argument(
        '--scene',
        "obstacles of a MoveIt planning scene: RViz's .scene, or the message in YAML",
        Path,
        'FILE',
    ),
)
"""Settings of the planner, which `planning_of` reads."""

GROUP = argument('--group', 'planning group of the SRDF: its joints move, others are locked')
"""For commands that plan."""

REQUIREMENTS = (
    argument(
        '--require',
        'exit with code 3 if the parameters are physically inconsistent (physical), or also '
        'if they are implausible beside prior and shapes (plausible)',
        choices=('physical', 'plausible'),
    ),
    argument(
        '--require-physical',
        'the same as --require plausible',
        action='store_const',
        dest='require',
        const='plausible',
    ),
)
"""Demands on parameters (`output.require`); the second is an earlier form."""


def overrides_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values by key that ``--set KEY=VALUE`` gives."""
    return {**settings_of(options.overrides)}


def experiment_of(options: argparse.Namespace, **more: Any) -> Any:
    """Return the experiment that a command names, with its overrides."""
    from ..config.experiment_file import load_experiment

    return load_experiment(options.experiment, overrides_of(options), **more)


def planning_of(
    options: argparse.Namespace,
    names: Sequence[str] = (),
    section: str = 'planner',
    overrides: Mapping[str, Any] | None = None,
) -> Any:
    """
    Return the settings of a plan; options of these names in a section come before the others.

    ``overrides`` are those of ``--set`` that are the plan's; None for all.

    Raises ModelError if a folder of ``--package-path`` does not exist.
    """
    from ..excitation.planning_settings import load_planning
    from ..model.urdf_files import add_package_path

    add_package_path(options.package_path)

    given = {f'{section}.{name}': getattr(options, name) for name in names}
    given = {key: value for key, value in given.items() if value is not None}
    overrides = overrides_of(options) if overrides is None else overrides
    planning = load_planning(options.settings, {**overrides, **given})
    if options.srdf is None and options.scene is None and getattr(options, 'group', None) is None:
        return planning
    from ..excitation.moveit import with_moveit

    group = getattr(options, 'group', None)
    return with_moveit(planning, options.srdf, options.scene, group, group and options.robot)


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


@contextmanager
def needing_ros(
    purpose: str,
    remedy: str = "run 'make setup' in the sources, or source your ROS 2 workspace",
    what: str = 'ROS 2',
) -> Iterator[None]:
    """Raise an error with the remedy where an import within fails."""
    try:
        yield
    except ImportError as error:
        raise IdentificationError(f'{purpose} needs {what} ({error})', remedy=remedy) from error
