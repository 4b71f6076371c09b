# SPDX-License-Identifier: Apache-2.0
"""
State of one window: what its steps have found, and which stage is open.

It outlives the page that shows it, and several pages may show it.  Files are written to a folder
of its own, under the names that the command line gives them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
import shlex
from tempfile import TemporaryDirectory
from typing import Any, TYPE_CHECKING

from ..errors import IdentificationError, SettingsError
from .robot import Ros
from .worker import STOPPED, Worker

if TYPE_CHECKING:
    from .values import Drafted, Identified, Planned, RobotSeen

STAGES = ('robot', 'recordings', 'motion', 'identify', 'result', 'use', 'live', 'arm')

PLANNER = ('duration', 'floor', 'time_budget', 'seed')
"""Settings of the planner that have a field of their own."""

FACTS = (
    'effort_kind',
    'rate',
    'gear_ratios',
    'position_offsets',
    'gains',
    'degrees',
    'ticks',
    'gravity',
)
"""Facts on recordings, as `init` takes them."""

PROGRAM = 'robot-identification'


@dataclass
class Job:
    """A step that is being carried out: its stage, words, and the share that is done."""

    stage: str
    text: str
    share: float = 0.0


class Session:
    """
    One window.

    Attributes
    ----------
    folder:
        For its files.
    urdf, xacro, recordings:
        Files as their user types them, and arguments for xacro (``name:=value ...``).
    facts:
        Facts on the recordings, as texts but ``degrees``; see `steps.draft_settings`.
    text:
        The experiment file, as it is being edited.
    settings:
        Settings of the experiment that are overruled, ``KEY=VALUE`` by lines.
    planner, planner_settings:
        Texts of `PLANNER`, and other settings of a plan, ``KEY=VALUE`` by lines.
    robot, drafted, signals, planned, identified:
        What the steps have found; None, or empty, where they are still to be done.
    experiment_good:
        Whether the experiment file was written and can be used.
    errors:
        The line of the last failure by stage.
    job:
        The step that is being carried out; None for none.
    versions:
        Counted up by stage whenever there is something new to show.
    pages:
        Pages that show it.
    ros:
        The robot over ROS, which all windows share.

    """

    def __init__(
        self,
        folder: Path,
        urdf: str = '',
        recordings: tuple[str, ...] = (),
        ros: Ros | None = None,
    ) -> None:
        self.ros = ros or Ros()
        self.folder, self.urdf, self.recordings = folder, urdf, list(recordings)
        self.xacro = self.text = self.settings = self.planner_settings = ''
        self.facts: dict[str, Any] = {**dict.fromkeys(FACTS, ''), 'degrees': False}
        self.planner = dict.fromkeys(PLANNER, '')
        self.robot: RobotSeen | None = None
        self.drafted: Drafted | None = None
        self.planned: Planned | None = None
        self.identified: Identified | None = None
        self.signals, self.experiment_good = '', False
        self.exported: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.job: Job | None = None
        self.versions = dict.fromkeys(STAGES, 0)
        self.pages: set[str] = set()
        self.worker = Worker()
        self._drawn = TemporaryDirectory(prefix='robot_identification_window_')
        self._task: asyncio.Task | None = None
        self._begun = False

    @property
    def experiment(self) -> Path:
        """The experiment file."""
        return self.folder / 'experiment.yaml'

    def drawn(self, name: str) -> Path:
        """Return the place of a page that is shown, and kept no longer than the window."""
        return Path(self._drawn.name) / name

    def is_open(self, stage: str) -> bool:
        """Return whether the stages before are good."""
        if stage == 'robot':
            return True
        if stage in ('recordings', 'motion'):
            return self.robot is not None
        if stage in ('live', 'arm'):
            return not self.ros.closed if stage == 'live' else self.ros.link is not None
        return self.experiment_good if stage == 'identify' else self.identified is not None

    def changed(self, *stages: str) -> None:
        """Have pages show stages again; all of them where none is named."""
        for stage in stages or STAGES:
            self.versions[stage] += 1

    def start(self, work: Awaitable[None]) -> None:
        """Carry out work whatever becomes of the page; it is left out while a step is running."""
        if self._task is not None and not self._task.done():
            if asyncio.iscoroutine(work):
                work.close()
            return
        self._task = asyncio.ensure_future(work)

    def add(self, recording: str) -> None:
        """Add a recording to those given."""
        if recording not in self.recordings:
            self.recordings.append(recording)
        self.changed('recordings')

    def take(self, stage: str, path: Path) -> None:
        """Take a file that was dropped on a stage."""
        if stage == 'recordings':
            self.add(str(path))
        else:
            self.urdf = str(path)
            self.start(self.open_robot())

    def begin(self) -> None:
        """Go as far as what was given allows, once."""
        if not self._begun:
            self._begun = True
            self.start(self.open_all())

    async def wait(self) -> None:
        """Wait for the work that was started."""
        if self._task is not None:
            await self._task

    def close(self) -> None:
        """End its process and remove the pages that were drawn."""
        self.worker.close()
        self._drawn.cleanup()

    # ------------------------------------------------------------------------------------ stages

    async def open_all(self) -> None:
        """Go as far as what was given allows."""
        if self.urdf:
            await self.open_robot()
        if self.robot is not None and self.recordings:
            await self.draft()

    async def open_robot(self) -> None:
        """Read the robot, and close what followed from another one."""
        self.robot = self.drafted = self.planned = None
        self._close_experiment()
        self.changed()

        def arguments() -> tuple[Any, ...]:
            return self.urdf, xacro_of(self.xacro), str(self.drawn('robot.html'))

        self.robot = await self._done('robot', 'look_at_robot', arguments)
        self.changed()

    async def draft(self) -> None:
        """Draft the experiment from the recordings and the facts."""
        self.drafted = None
        self._close_experiment()
        self.changed()

        def arguments() -> tuple[Any, ...]:
            if not self.recordings:
                raise SettingsError('there is no recording', remedy='drop one, or name its file')
            xacro, facts = xacro_of(self.xacro), dict(self.facts)
            return self.urdf, list(self.recordings), facts, xacro, str(self.experiment)

        self.drafted = await self._done('recordings', 'draft_experiment', arguments)
        if self.drafted is not None and self.drafted.text:
            self.text = self.drafted.text
            await self._read_signals()
        self.changed()

    async def take_proposal(self) -> None:
        """Take what the recordings speak for, and draft again."""
        if self.drafted is not None:
            self.facts.update(self.drafted.changes)
            await self.draft()

    async def save_text(self) -> None:
        """Check and write the experiment file as it was edited."""
        self._close_experiment()
        arguments = (str(self.experiment), self.text)
        await self._done('recordings', 'save_experiment', lambda: arguments)
        if 'recordings' not in self.errors:
            await self._read_signals()
        self.changed()

    async def _read_signals(self) -> None:
        arguments = (str(self.experiment), str(self.drawn('signals.html')))
        self.experiment_good = True
        self.changed('identify', 'motion')
        self.signals = await self._done('recordings', 'draw_signals', lambda: arguments) or ''
        # the signals need not be drawn to be identified from
        self.experiment_good = self.errors.get('recordings', STOPPED) == STOPPED

    def _close_experiment(self) -> None:
        self.experiment_good, self.signals, self.identified = False, '', None
        self.exported.clear()
        for stage in ('recordings', 'identify', 'use'):
            self.errors.pop(stage, None)

    @property
    def plan_source(self) -> str:
        """The file that a plan is made for: the experiment if there is one, else the URDF."""
        return str(self.experiment) if self.experiment_good else self.urdf

    def plan_overrides(self) -> dict[str, str]:
        """Return the settings of a plan by key."""
        named = {f'planner.{name}': text for name, text in self.planner.items() if text}
        return {**named, **settings_of(self.planner_settings)}

    async def plan(self) -> None:
        """Plan a motion."""
        self.planned = None
        folder = str(self.folder / 'plan')

        def arguments() -> tuple[Any, ...]:
            return self.plan_source, self.plan_overrides(), xacro_of(self.xacro), folder

        self.planned = await self._done('motion', 'plan_motion', arguments)
        self.changed('motion', 'use')

    async def identify(self) -> None:
        """Identify by the experiment file and the settings that were overruled."""
        self.identified = None
        self.exported.clear()
        self.changed('identify', 'result', 'use')

        def arguments() -> tuple[Any, ...]:
            return str(self.experiment), settings_of(self.settings)

        self.identified = await self._done('identify', 'identify_experiment', arguments)
        self.changed()

    def overrule(self, key: str, value: str) -> None:
        """Overrule a setting that was chosen; an empty text leaves it to the choice again."""
        settings = settings_of(self.settings)
        settings.pop(key, None)
        if value:
            settings[key] = value
        self.settings = '\n'.join(f'{name}={text}' for name, text in settings.items())

    async def export(self, format: str, samples: str = '') -> None:
        """Write the result, or so many sets of its parameters, into the window's folder."""
        if self.identified is None:
            return
        arguments = (self.identified.files[0], format, samples, str(self.folder))
        made = await self._done('use', 'export_result', lambda: arguments)
        if made is not None:
            count = f' --samples {samples}' if samples else ''
            self.exported[f'{format}{count}'] = made
        self.changed('use')

    def stop(self) -> None:
        """Stop the step that is being carried out."""
        self.worker.stop()

    async def _done(
        self, stage: str, step: str, arguments: Callable[[], tuple[Any, ...]]
    ) -> Any | None:
        """Carry out a step in the window's process; a failure is one line of its stage."""
        self.errors.pop(stage, None)
        job = self.job = Job(stage, 'starting')

        def progress(share: float, text: str) -> None:
            job.share, job.text = share, text

        try:
            given = arguments()
            return await asyncio.to_thread(self.worker.ask, step, *given, progress=progress)
        except IdentificationError as error:
            self.errors[stage] = str(error)
            return None
        finally:
            self.job = None
            self.changed(stage)

    # ------------------------------------------------------------------------------------- words

    def commands(self) -> list[str]:
        """Return the command lines that do the same, as far as the window has come."""
        lines = []
        xacro = f' --xacro {self.xacro}' if self.xacro else ''
        if self.robot is not None:
            lines.append(f'{PROGRAM} check {shlex.quote(self.urdf)}{xacro}')
        if self.drafted is not None:
            facts = ''.join(
                f' --{name.replace("_", "-")}'
                + (f' {text.replace(",", " ")}' if text is not True else '')
                for name, text in self.facts.items()
                if text
            )
            files = ' '.join(map(shlex.quote, (self.urdf, *self.recordings)))
            lines.append(f'{PROGRAM} init {files}{facts}{xacro} --out {self._quoted()}')
        if self.planned is not None:
            words = f'plan {shlex.quote(self.plan_source)}{_sets(self.plan_overrides())}'
            lines.append(f'{PROGRAM} {words} --out {shlex.quote(str(self.folder / "plan"))}')
        if self.identified is not None:
            chosen = _sets(settings_of(self.settings))
            lines.append(f'{PROGRAM} identify {self._quoted()}{chosen}')
            result = shlex.quote(self.identified.files[0])
            lines += [
                f'{PROGRAM} export {result} --format {format} --out {shlex.quote(path)}'
                for format, path in self.exported.items()  # with its number of sets
            ]
        return lines

    @property
    def edited(self) -> bool:
        """True if the experiment file is no longer the one that `init` writes."""
        return self.drafted is not None and self.text != self.drafted.text

    def _quoted(self) -> str:
        return shlex.quote(str(self.experiment))


def _sets(settings: Mapping[str, str]) -> str:
    return ''.join(f' --set {shlex.quote(f"{key}={text}")}' for key, text in settings.items())


def settings_of(lines: str) -> dict[str, str]:
    """Return settings by key of lines ``KEY=VALUE``; raises SettingsError for another one."""
    found = {}
    for line in filter(None, map(str.strip, lines.splitlines())):
        key, sign, value = line.partition('=')
        if not sign or not key.strip():
            raise SettingsError(
                f"'--set {line}' is not KEY=VALUE", key=key, remedy='for example signals.cutoff=20'
            )
        found[key.strip()] = value.strip()
    return found


def xacro_of(text: str) -> dict[str, str]:
    """Return arguments for xacro, ``name:=value`` apart by spaces; raises SettingsError."""
    found = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SettingsError(
            f"'--xacro {text}' has a quotation mark without another: name:=value", value=text
        ) from error
    for word in words:
        name, sign, value = word.partition(':=')
        if not sign or not name:
            raise SettingsError(f"'--xacro {word}' is not name:=value", value=word)
        found[name] = value
    return found


class Sessions:
    """
    The windows of a server.

    Parameters
    ----------
    folder:
        Of the first one; later ones have it with a number.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ros = Ros()
        self.all: dict[int, Session] = {}

    def new(self, urdf: str = '', recordings: tuple[str, ...] = ()) -> int:
        """Make a window with a folder of its own, which holds nothing yet; return its number."""
        taken = {session.folder for session in self.all.values()}
        number, folder = 1, self._folder
        while folder in taken or (folder.exists() and any(folder.iterdir())):
            number += 1
            folder = self._folder.with_name(f'{self._folder.name}_{number}')
        session = Session(folder, urdf, recordings, self.ros)
        self.all[len(self.all) + 1] = session
        session.worker.start()
        return len(self.all)

    def unattended(self) -> int:
        """Return the window that no page shows, or a new one."""
        free = (number for number, session in self.all.items() if not session.pages)
        return next(free, 0) or self.new()

    def close(self, say: Callable[[str], None] = lambda text: None) -> None:
        """Close all windows; what becomes of a motion or a recording is said."""
        self.ros.close(say)
        for session in self.all.values():
            session.close()
