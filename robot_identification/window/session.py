# SPDX-License-Identifier: Apache-2.0
"""
State of one window: what its steps have found, and which stage is open.

It outlives the page that shows it, and several pages may show it.  Files are written to a folder
of its own, under the names that the command line gives them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
import shlex
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import IdentificationError
from .robot import Ros
from .values import FileColumns, Found, Given, PROGRAM
from .worker import STOPPED, Worker

STAGES = ('robot', 'recordings', 'motion', 'identify', 'result', 'use', 'live', 'arm')

REFRESH = 0.2
"""Time between looks of a page at the state of its window [s]."""


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
    given, found:
        What its user has given, and what its steps have found.
    ros:
        The robot over ROS, which all windows share.
    errors:
        The line of the last failure by stage.
    job:
        The step that is being carried out; None for none.
    versions:
        Counted up by stage whenever there is something new to show.
    pages, stage:
        Pages that show it, and the stage that was shown last.

    """

    def __init__(self, folder: Path, given: Given, ros: Ros | None = None) -> None:
        self.folder, self.given, self.found, self.ros = folder, given, Found(), ros or Ros()
        self.errors: dict[str, str] = {}
        self.job: Job | None = None
        self.versions = dict.fromkeys(STAGES, 0)
        self.pages: set[str] = set()
        self.stage = 'robot'
        self.worker = Worker()
        self._drawn = TemporaryDirectory(prefix='robot_identification_window_')
        self._task: asyncio.Task | None = None

    @property
    def experiment(self) -> Path:
        """The experiment file."""
        return self.folder / 'experiment.yaml'

    def drawn(self, name: str) -> Path:
        """Return the place of a page that is shown, and kept no longer than the window."""
        return Path(self._drawn.name) / name

    def is_open(self, stage: str) -> bool:
        """Return whether the stages before are good."""
        found, ros = self.found, self.ros
        opened = {
            'robot': True, 'recordings': found.robot, 'motion': found.robot,
            'identify': found.usable, 'result': found.identified, 'use': found.identified,
            'live': not ros.closed, 'arm': ros.link,
        }  # fmt: skip
        return bool(opened[stage])

    def changed(self, *stages: str) -> None:
        """Have pages show stages again; all of them where none is named."""
        for stage in stages or STAGES:
            self.versions[stage] += 1

    def start(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Carry out work whatever becomes of the page; return False while other work is done."""
        if self._task is not None and not self._task.done():
            return False
        self._task = asyncio.ensure_future(work())
        return True

    def add(self, recording: str) -> None:
        """Add a recording to those given."""
        if recording not in self.given.recordings:
            self.given.recordings.append(recording)
        self.changed('recordings')

    def take(self, stage: str, path: Path) -> None:
        """Take a file that was dropped on a stage."""
        if stage == 'recordings':
            self.add(str(path))
            return
        self.given.urdf = str(path)
        if not self.start(self.open_robot):
            self.errors[stage] = f"a step is running: then open '{path}'"
            self.changed(stage)

    def begin(self) -> None:
        """Go as far as what was given allows, once."""
        if self._task is None:
            self.start(self.open_all)

    def close(self) -> None:
        """End its process and remove the pages that were drawn."""
        self.worker.close()
        self._drawn.cleanup()

    # ------------------------------------------------------------------------------------ stages

    async def open_all(self) -> None:
        """Go as far as what was given allows."""
        if self.given.urdf:
            await self.open_robot()
        if self.found.robot is not None and self.given.recordings:
            await self.draft()

    async def open_robot(self) -> None:
        """Read the robot, and close what followed from another one."""
        found, self.given.urdf = self.found, self.given.urdf.strip()
        found.robot = found.drafted = found.planned = None
        found.columns = ()
        self._close_experiment()
        self.changed()
        page = str(self.drawn('robot.html'))
        found.robot = await self._done('robot', 'look_at_robot', self.given, page)
        self.changed()

    async def draft(self) -> None:
        """Draft the experiment from the recordings, their columns and the facts."""
        given, found = self.given, self.found
        found.drafted, found.columns = None, ()
        self._close_experiment()
        found.columns = await self._done('recordings', 'look_at_columns', given) or ()
        if 'recordings' not in self.errors:
            out = str(self.experiment)
            found.drafted = await self._done('recordings', 'draft_experiment', given, out)
        if found.drafted is not None and found.drafted.text:
            given.text = found.drafted.text
            await self._read_signals()

    def correct(self, columns: FileColumns, signal: str, joint: str, column: Any) -> None:
        """Give the column of a joint's signal, or a file's ``time`` or ``time_unit``."""
        kept = self.given.columns.get(columns.file, columns)
        if joint:
            of = {**kept.columns.get(signal, {}), joint: column}
            kept = replace(kept, columns={**kept.columns, signal: of})
        else:
            kept = replace(kept, **{signal: column})
        self.given.columns[columns.file] = kept

    async def take_proposal(self) -> None:
        """Take what the recordings speak for, and draft again."""
        if self.found.drafted is not None:
            self.given.facts.update(self.found.drafted.changes)
            await self.draft()

    async def save_text(self) -> None:
        """Check and write the experiment file as it was edited."""
        self._close_experiment()
        text = self.given.text
        await self._done('recordings', 'save_experiment', str(self.experiment), text)
        if 'recordings' not in self.errors:
            await self._read_signals()

    async def _read_signals(self) -> None:
        self.found.usable = True
        await self._draw_signals()
        # the signals need not be drawn to be identified from
        self.found.usable = self.errors.get('recordings', STOPPED) == STOPPED

    async def _draw_signals(self) -> None:
        found = self.found
        bands = None if found.identified is None else found.identified.bands
        drawn = str(self.experiment), str(self.drawn('signals.html')), bands
        found.signals = await self._done('recordings', 'draw_signals', *drawn) or ''

    def _close_experiment(self) -> None:
        self.found.usable, self.found.signals, self.found.identified = False, '', None
        self.found.exported.clear()
        for stage in ('recordings', 'identify', 'use'):
            self.errors.pop(stage, None)
        self.changed('recordings', 'identify', 'result', 'use')

    async def plan(self) -> None:
        """Plan a motion for the experiment, or for the URDF where there is none."""
        self.found.planned = None
        source = str(self.experiment) if self.found.usable else self.given.urdf
        of = self.given, source, str(self.folder / 'plan')
        self.found.planned = await self._done('motion', 'plan_motion', *of)
        self.changed('motion', 'use', 'arm')

    async def identify(self) -> None:
        """Identify by the experiment file and the settings that were overruled."""
        found, of = self.found, (self.given, str(self.experiment))
        found.identified = None
        found.exported.clear()
        self.changed('identify', 'result', 'use')
        found.identified = await self._done('identify', 'identify_experiment', *of)
        self.changed('result', 'use')
        if found.identified is not None and found.identified.bands:
            await self._draw_signals()

    def overrule(self, key: str, value: str) -> None:
        """Overrule a setting that was chosen; an empty text leaves it to the choice again."""
        lines = self.given.settings.splitlines()
        kept = [line for line in lines if line.partition('=')[0].strip() != key]
        self.given.settings = '\n'.join([*kept, *([f'{key}={value}'] if value else [])])

    async def export(self, format: str, samples: str = '') -> None:
        """Write the result, or so many sets of its parameters, into the window's folder."""
        if self.found.identified is None:
            return
        of = self.found.identified.files[0], format, samples, str(self.folder)
        made = await self._done('use', 'export_result', *of)
        if made is not None:
            self.found.exported[made.file] = made
        self.changed('use')

    def stop(self) -> None:
        """Stop the step that is being carried out."""
        self.worker.stop()

    async def _done(self, stage: str, step: str, *arguments: Any) -> Any | None:
        """Carry out a step in the window's process; a failure is one line of its stage."""
        self.errors.pop(stage, None)
        job = self.job = Job(stage, 'starting')
        arguments = deepcopy(arguments)  # the page goes on meanwhile

        def progress(share: float, text: str) -> None:
            job.share, job.text = share, text

        try:
            return await asyncio.to_thread(self.worker.ask, step, *arguments, progress=progress)
        except IdentificationError as error:
            self.errors[stage] = str(error)
            return None
        finally:
            self.job = None
            self.changed(stage)

    # ------------------------------------------------------------------------------------- words

    def commands(self) -> list[str]:
        """Return the command lines that do the same, as far as the window has come."""
        found = self.found
        steps = found.robot, found.drafted, found.planned, found.identified
        made = (each.command for each in (*steps, *found.exported.values()) if each is not None)
        return [shlex.join([PROGRAM, *words]) for words in made if words]

    @property
    def edited(self) -> bool:
        """True if the experiment file is not the one that `init` writes."""
        drafted, given = self.found.drafted, self.given
        corrected = not given.columns.keys().isdisjoint(given.recordings)
        return drafted is not None and (corrected or given.text != drafted.text)


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
        session = Session(folder, Given(urdf, list(recordings)), self.ros)
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
