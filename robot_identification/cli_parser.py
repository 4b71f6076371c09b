# SPDX-License-Identifier: Apache-2.0
"""Parser and help texts of the command ``robot-identification``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import __version__
from .cli_many import add_fleet, add_reduce
from .cli_options import (
    add_command,
    add_overrides,
    add_quiet,
    Parser,
    positive,
    Run,
)
from .cli_play import add_play, add_wait
from .cli_repair import add_repair


def build_parser(run: Mapping[str, Run]) -> argparse.ArgumentParser:
    """
    Return the parser of ``robot-identification``.

    Parameters
    ----------
    run:
        What does each command's work, by its name; the parsed options have it as ``run``.

    """
    parser = Parser(
        prog='robot-identification',
        description="""
            Find out what a robot weighs: identify the dynamic parameters of its model from
            recordings of positions and efforts.
            """,
        epilog="'robot-identification COMMAND --help' explains a command.",
    )
    parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    _add_identify(commands, run['identify'])
    add_reduce(commands, run['reduce'])
    _add_validate(commands, run['validate'])
    _add_check(commands, run['check'])
    _add_export(commands, run['export'])
    _add_structure(commands, run['structure'])
    _add_filters(commands, run['filters'])
    add_fleet(commands, run['fleet'])
    add_play(commands, run['play'])
    add_wait(commands, run['wait'])
    add_repair(commands, run['repair'])
    _add_demo(commands, run['demo'])
    return parser


def _add_identify(commands: Any, run: Run) -> None:
    parser = add_command(
        commands,
        'identify',
        run,
        'identify the parameters from the recordings that an experiment file names',
        description="""
            Identify a robot's dynamic parameters as an experiment file says: read the recordings,
            filter them, build the regressor from the URDF, estimate the base parameters with their
            standard deviations, find the standard parameters nearest to the prior, check whether a
            physical body can have them, and predict the recordings kept for validation.

            Writes into the output folder:
              result.yaml       everything that was found, for programs
              identified.urdf   the robot's URDF with the identified inertials and joint dynamics
              report.html       plots and tables, for people
            """,
        epilog="""
            examples:
              robot-identification identify experiment.yaml
              robot-identification identify experiment.yaml --out results/try \\
                  --set signals.cutoff=20 --set estimation.method=ols
              robot-identification identify experiment.yaml --factors runs/*.factor
              robot-identification identify all.factor --out results
            """,
    )
    parser.add_argument(
        'experiment',
        type=Path,
        help='the experiment file (docs/experiment.md), or a factor, which brings robot and '
        'settings with it (docs/factor_files.md)',
    )
    parser.add_argument(
        '--factors',
        type=Path,
        nargs='+',
        default=[],
        metavar='FILE',
        help='identify from these factors in place of data.identification',
    )
    parser.add_argument(
        '--out', type=Path, metavar='DIR', help="folder for the results (default: the file's own)"
    )
    add_overrides(parser)
    parser.add_argument(
        '--require-physical',
        action='store_true',
        help='exit with code 3 if the parameters are physically inconsistent',
    )
    add_quiet(parser)


def _add_validate(commands: Any, run: Run) -> None:
    parser = add_command(
        commands,
        'validate',
        run,
        'predict the effort of other recordings with identified parameters',
        description="""
            Predict the effort of recordings that the identification has not seen, and print by how
            much the prediction misses what was measured, joint by joint.
            """,
        epilog="""
            examples:
              robot-identification validate results/result.yaml recordings/second_run
              robot-identification validate results/result.yaml experiment.yaml
            """,
    )
    parser.add_argument('result', type=Path, help='a result.yaml')
    parser.add_argument(
        'recordings',
        type=Path,
        help='a rosbag2 folder or file with /joint_states, a factor, or an experiment file, whose '
        'data.validation is taken',
    )
    parser.add_argument(
        '--topic', default='/joint_states', help='topic of the bag (default: %(default)s)'
    )
    parser.add_argument(
        '--motor-topic',
        metavar='TOPIC',
        help="topic with the motors' states where joints are elastic (default: that of --topic)",
    )
    add_overrides(parser)
    add_quiet(parser)


def _add_check(commands: Any, run: Run) -> None:
    parser = add_command(
        commands,
        'check',
        run,
        'check the physical consistency of the parameters',
        description="""
            Check link by link whether a physical body can have the parameters: a positive mass, a
            positive definite inertia at the centre of mass, the triangle inequality of its
            principal moments, a positive definite pseudo-inertia; and joint by joint the signs of
            rotor inertia and friction.
            """,
        epilog="""
            examples:
              robot-identification check results/result.yaml
              robot-identification check my_robot.urdf --require-physical
            """,
    )
    parser.add_argument('file', type=Path, help='a result.yaml, a URDF or a xacro file')
    parser.add_argument(
        '--tolerance',
        type=float,
        default=0.0,
        metavar='T',
        help='an eigenvalue counts as positive above minus this value (default: %(default)s)',
    )
    parser.add_argument(
        '--require-physical',
        action='store_true',
        help='exit with code 3 if the parameters are physically inconsistent',
    )


def _add_export(commands: Any, run: Run) -> None:
    parser = add_command(
        commands,
        'export',
        run,
        'write a URDF with identified parameters',
        description="""
            Write the robot's URDF with its <inertial> and <dynamics> elements replaced by what was
            identified; all else stays as it is, comments included.
            """,
        epilog="""
            examples:
              robot-identification export results/result.yaml --out robot_identified.urdf
              robot-identification export results/result.yaml > robot_identified.urdf
            """,
    )
    parser.add_argument('result', type=Path, help='a result.yaml')
    parser.add_argument(
        '--out', type=Path, metavar='FILE', help='file to write (default: standard output)'
    )


def _add_structure(commands: Any, run: Run) -> None:
    parser = add_command(
        commands,
        'structure',
        run,
        'print which parameters motions can identify',
        description="""
            Print the parameters of the robot and the model that an experiment file describes by
            what can be known of them at best: those that can be identified alone, those that can
            in combination with others, with the combinations, and those that act in no motion.
            No recording is read.
            """,
        epilog="""
            example:
              robot-identification structure experiment.yaml --set robot.gravity='[0, -9.81, 0]'
            """,
    )
    parser.add_argument('experiment', type=Path, help='the experiment file (docs/experiment.md)')
    add_overrides(parser)


def _add_filters(commands: Any, run: Run) -> None:
    parser = add_command(
        commands,
        'filters',
        run,
        "show what an experiment file's filter does to motions and noise",
        description="""
            Print the frequency response of the method that signals.method names: what it makes of
            the position, velocity, acceleration and effort of a sine, as a share of the true ones,
            and how much noise it lets through. docs/filters.md tells how to choose by it.
            """,
        epilog="""
            examples:
              robot-identification filters experiment.yaml
              robot-identification filters experiment.yaml --compare butterworth \\
                  --set signals.method=polynomial_approximation --out filters.png
            """,
    )
    parser.add_argument('experiment', type=Path, help='the experiment file (docs/experiment.md)')
    parser.add_argument(
        '--rate',
        type=positive,
        metavar='HZ',
        help="sampling rate (default: the first recording's)",
    )
    parser.add_argument(
        '--compare',
        action='append',
        default=[],
        metavar='METHOD',
        help='show another signals.method, too; may be given several times',
    )
    parser.add_argument(
        '--out', type=Path, metavar='FILE', help='picture to write, .png, .svg or .pdf'
    )
    add_overrides(parser)


def _add_demo(commands: Any, run: Run) -> None:
    parser = add_command(
        commands,
        'demo',
        run,
        'see the whole way on a simulated arm, over real ROS 2',
        description="""
            Start the suite's nodes against an arm simulated in MuJoCo whose true parameters differ
            from its URDF; plan an excitation, execute and record it, identify the parameters,
            check them, validate them on a second motion, and compare them with the true ones.
            """,
        epilog="""
            The folder afterwards holds:
              recordings/       rosbag2 folders of both motions
              results/          result.yaml, identified.urdf, report.html
              truth.yaml        the simulated robot's true parameters
              logs/             what each node printed
            """,
    )
    parser.add_argument(
        '--out',
        type=Path,
        default=Path('demo_results'),
        metavar='DIR',
        help='folder for recordings, results and logs (default: %(default)s)',
    )
    parser.add_argument(
        '--seed', type=int, default=1, help='of the planner and the noise (default: %(default)s)'
    )
    parser.add_argument(
        '--duration',
        type=float,
        default=20.0,
        metavar='S',
        help='length of each motion in seconds (default: %(default)s)',
    )
