# SPDX-License-Identifier: Apache-2.0
"""
The demonstration: a simulated arm, from its first motion to its identified parameters.

All that happens here a user can do with the same nodes, services and actions on a robot of their
own; this program only calls them, from a process that is none of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import json
import os
from pathlib import Path
import signal
import sys
import textwrap
import time
from typing import Any

import numpy as np
from rclpy.node import Node
from robot_identification_msgs.action import Excite, PlanExcitation
from robot_identification_msgs.srv import CheckConsistency, ExportUrdf, Identify, Validate
from trajectory_msgs.msg import JointTrajectory
import yaml

from .errors import IdentificationError
from .model.urdf_files import resolve_package_path
from .nodes.client import ServiceCaller
from .nodes.common.processes import client_node
from .results.stored_result import read_result
from .simulation.comparison import compare, compare_masses, SIGNIFICANT
from .support.processes import NodeProcesses
from .support.progress import progress_bar

EXIT_OK, EXIT_STOPPED, EXIT_INTERRUPTED = 0, 1, 130

VALIDATION_BOUND = 3.0
"""Bound on the relative error of each joint on the second motion [%]."""

PLANNER_STEPS = 12  # of the progress, about as many as the search reports
STEPS = 8  # of the demonstration
WIDTH = 96  # characters of a line


def run_demo(
    folder: Path | str, *, seed: int = 1, duration: float = 20.0, max_iterations: int = 300
) -> int:
    """
    Run the demonstration and print its steps.

    Parameters
    ----------
    folder:
        Receives recordings, results, and the nodes' logs.
    seed:
        Of the planner's start values and of all that is random in the simulation.
    duration:
        Length of each of the two motions [s].
    max_iterations:
        Evaluations of the planner for each motion.

    Returns
    -------
    int
        0 if all steps were done, 1 if something stopped them (printed in one line), 130 after
        Ctrl-C.

    """
    folder = Path(folder).resolve()
    previous = signal.signal(signal.SIGTERM, _interrupt)

    def prepare() -> None:
        (folder / 'logs').mkdir(parents=True, exist_ok=True)
        _isolate(folder)

    def demonstrate() -> None:
        with NodeProcesses(folder / 'logs') as processes:
            Demonstration(folder, node, processes, seed, duration, max_iterations).run()

    try:
        code = _reported(prepare, folder)
        if code == EXIT_OK:
            # what there is to say is said, and the nodes have ended, before this one leaves
            with client_node('demo') as node:
                code = _reported(demonstrate, folder)
        return code
    finally:
        signal.signal(signal.SIGTERM, previous)


def _reported(work: Callable[[], None], folder: Path) -> int:
    """Do some work; return the exit code, after a line on what stopped it."""
    try:
        work()
    except IdentificationError as error:
        return _stopped(str(error), folder)
    except OSError as error:
        return _stopped(f"cannot write to '{folder}': {error.strerror}", folder)
    except KeyboardInterrupt:
        return _stopped('interrupted', folder, EXIT_INTERRUPTED)
    return EXIT_OK


class Demonstration:
    """The steps in order; each prints its title, what came out, and how long it took."""

    def __init__(
        self,
        folder: Path,
        node: Node,
        processes: NodeProcesses,
        seed: int,
        duration: float,
        max_iterations: int,
    ) -> None:
        self.folder = folder
        self.processes = processes
        self.seed = seed
        self.duration = duration
        self.max_iterations = max_iterations
        self.caller = ServiceCaller(node, processes.require_alive)
        self.step = 0
        self.began = time.monotonic()

    def run(self) -> None:
        """Do all steps."""
        urdf = resolve_package_path('package://robot_identification/urdf/demo_arm.urdf')
        _print('A simulated six-joint arm whose true parameters differ from its URDF; every step')
        _print('below is a service or action call to nodes in processes of their own.')
        _print(f'  robot    {urdf}')
        _print(f'  results  {self.folder}')
        _print(f'  ROS_DOMAIN_ID={os.environ["ROS_DOMAIN_ID"]}')
        with self._titled('start the nodes'):
            self.start(urdf)
        with self._titled('plan two exciting motions'):
            plans = [self.plan(seed) for seed in (self.seed, self.seed + 1000)]
        with self._titled('play and record the first'):
            first = self.excite(plans[0], 'identification')
        with self._titled('identify the parameters'):
            result_folder = self.identify(first)
        with self._titled('check their physical consistency'):
            self.check()
        with self._titled('play and record the second'):
            second = self.excite(plans[1], 'validation')
        with self._titled('predict the efforts of the second motion'):
            self.validate(second)
        with self._titled('write the identified URDF'):
            self.export()
        self._compare(result_folder)
        _print(f'\nall steps in {time.monotonic() - self.began:.0f} s; written:')
        for path in (first, second, *sorted(Path(result_folder).iterdir())):
            _print(f'  {path}')

    # ----------------------------------------------------------------------------------- steps

    def nodes(self, urdf: Path) -> dict[str, dict[str, Any]]:
        """Return the parameters of each node, in the order in which they are started."""
        clock = {'use_sim_time': True}
        simulation = {'urdf': str(urdf), 'seed': self.seed, 'truth_file': str(self.truth_file)}
        identification = {
            **clock,
            'output': str(self.folder / 'results'),
            'recordings': str(self.folder / 'recordings'),
            'signals.cutoff': 10.0,
            'signals.decimate_to': 50.0,
            'signals.dead_zone': 0.1,
        }
        return {
            'simulation': simulation,
            'recorder': {**clock, 'output': str(self.folder / 'recordings')},
            'regressor': clock,
            'identification': identification,
            # the arm stands on the ground: no link may touch it
            # no robot can be damaged: a busy machine may hold a node up, and joint states be late
            'excitation': {
                **clock,
                'execute': True,
                'planner.floor': 0.0,
                'stale_timeout': 1.0,
                'output': str(self.folder / 'plans'),
            },
        }

    def start(self, urdf: Path) -> None:
        """Start the nodes, and wait until all are there."""
        nodes = self.nodes(urdf)
        for name, parameters in nodes.items():
            self.processes.start(name, parameters)
        names = tuple(nodes)
        node = self.caller.node
        self.caller.wait_for(
            lambda: set(names) <= set(node.get_node_names()), 30.0, 'start of the nodes'
        )
        _print(', '.join(f'{name} ({self.processes.pid(name)})' for name in names))

    def plan(self, seed: int) -> str:
        """Plan a motion and return the name of the plan."""
        with progress_bar() as progress:
            plan = self.caller.act(
                PlanExcitation,
                'excitation/plan',
                300.0,
                lambda feedback: progress(
                    min(1.0, feedback.iteration / PLANNER_STEPS),
                    f'planning, mean deviation {feedback.criterion:.3g}',
                ),
                seed=seed,
                duration=self.duration,
                max_iterations=self.max_iterations,
            )
        _print(
            f'{plan.plan_id}: {plan.planned_duration:.0f} s, predicted deviations '
            f'{plan.criterion_history[0]:.3g} at first, {plan.criterion_history[-1]:.3g} in the '
            'end (geometric mean)'
        )
        return plan.plan_id

    def excite(self, plan: str, name: str) -> str:
        """Play a plan and return the path of its recording."""
        with progress_bar() as progress:
            done = self.caller.act(
                Excite,
                'excitation/excite',
                300.0,
                lambda feedback: progress(feedback.progress, feedback.phase.replace('_', ' ')),
                plan_id=plan,
                trajectory=JointTrajectory(),
                record=True,
                recording_name=name,
            )
        _print(
            f'checked, played, recorded in {done.recording_path}; '
            f'largest tracking error {done.max_tracking_error:.4f} rad'
        )
        return done.recording_path

    def identify(self, recording: str) -> str:
        """Identify from a recording and return the folder of the result."""
        answer = self.caller.call(
            Identify, 'identification/identify', 120.0, method='physical',
            source=recording,
        )  # fmt: skip
        _print(
            f'{answer.rank} base parameters from the recording, condition number '
            f'{answer.condition_number:.1f}, relative error {answer.relative_error:.2f} %'
        )
        return answer.result_path

    def check(self) -> None:
        """Print if the parameters are physically consistent."""
        answer = self.caller.call(CheckConsistency, 'identification/check_consistency')
        wrong = [link.link for link in answer.links if not link.pseudo_inertia_positive_definite]
        _print('yes' if answer.physical else f'not those of {", ".join(wrong)} (see the report)')

    def validate(self, recording: str) -> None:
        """Predict the efforts of a recording."""
        answer = self.caller.call(Validate, 'identification/validate', 120.0, source=recording)
        for fit in answer.joints:
            mark = '' if fit.relative_error < VALIDATION_BOUND else '  above the bound'
            _print(f'{fit.joint:10} relative error {fit.relative_error:5.2f} %{mark}')
        _print(f'{"all":10} relative error {answer.relative_error:5.2f} %')

    def export(self) -> None:
        """Write the identified URDF."""
        answer = self.caller.call(ExportUrdf, 'identification/export_urdf', path='')
        _print(f'{len(answer.urdf.splitlines())} lines')
        _print(textwrap.fill(answer.message, WIDTH))

    def _compare(self, result_folder: str) -> None:
        truth = yaml.safe_load(self.truth_file.read_text(encoding='utf-8'))
        result = read_result(Path(result_folder) / 'result.yaml')
        judged = json.loads((Path(result_folder) / 'verdict.json').read_text(encoding='utf-8'))
        _print(f'\nVerdict:\n\n{textwrap.fill(judged["sentence"], WIDTH)}')
        masses = compare_masses(result, truth)
        _print('\nTrue and identified masses of the links:\n')
        _print(masses.table())
        _print(
            f'\n{int(masses.within.sum())} of {int(masses.known.sum())} lie within their 95 % '
            'interval. What the motion does not determine of a\nmass is taken from the URDF, with '
            "its uncertainty in the interval; a mass marked by - is all the URDF's."
        )
        comparison = compare(result, truth)
        _print('\nTrue and identified base parameters (m, mx, ... in SI units):\n')
        _print(comparison.table())
        count, outside = int(comparison.significant.sum()), int(comparison.outside.sum())
        known = int(np.isfinite(comparison.deviation).sum())
        _print(
            f'\n* {count} of {len(comparison.true)} are significant (relative standard deviation '
            f'below {SIGNIFICANT:g} %);\n  the 95 % intervals of {known - outside} of {known} '
            'contain the true value.'
        )

    @property
    def truth_file(self) -> Path:
        """Path of the simulation's true parameters."""
        return self.folder / 'truth.yaml'

    @contextmanager
    def _titled(self, title: str) -> Iterator[None]:
        self.step += 1
        began = time.monotonic()
        _print(f'\n[{self.step}/{STEPS}] {title}')
        yield
        _print(f'({time.monotonic() - began:.1f} s)')


def _isolate(folder: Path) -> None:
    """Keep the demonstration's messages on this machine, away from other robots and demos."""
    os.environ.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    os.environ.setdefault('ROS_LOG_DIR', str(folder / 'logs' / 'ros'))


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _stopped(reason: str, folder: Path, code: int = EXIT_STOPPED) -> int:
    _print(f'error: {reason}', sys.stderr)
    recordings = sorted((folder / 'recordings').glob('*')) if folder.is_dir() else []
    if recordings:
        _print(f'kept: {", ".join(map(str, recordings))}', sys.stderr)
    return code


def _print(text: str, stream: Any = None) -> None:
    print(text, file=stream or sys.stdout, flush=True)
