# SPDX-License-Identifier: Apache-2.0
"""Stages of a window's page: fields that stay, and what is shown again when it has changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from nicegui import events, ui
from nicegui.elements.mixins.value_element import ValueElement

from .session import Session
from .values import PROGRAM

Run = Callable[[Callable[[], Awaitable[None]]], None]

ui.button.default_props('no-caps')
for field in (ui.input, ui.select, ui.checkbox):
    field.default_props('dense')


class Stage(ABC):
    """A stage: `build` makes its fields, `refresh` what depends on the state of the window."""

    name = following = ''

    def __init__(self, session: Session, base: str, run: Run, go: Callable[[str], None]) -> None:
        self.session, self.base, self.run, self.go = session, base, run, go

    def build(self) -> None:
        """Make the stage within the present element."""
        self.fields()
        self._area = ui.column().classes('w-full')

    def fields(self) -> None:  # noqa: B027 - not every stage has some
        """Make what stays: files and facts that are given."""

    def refresh(self) -> None:
        """Show the state of the window."""
        self._area.clear()
        with self._area:
            if self.name in self.session.errors:
                alert(f'error: {self.session.errors[self.name]}')
            if self.following and self.session.is_open(self.following):
                title = f'Go on: {self.following.capitalize()}'
                ui.button(title, on_click=lambda: self.go(self.following)).props('outline')
            self.show()

    @abstractmethod
    def show(self) -> None:
        """Make what depends on the state."""

    def tick(self) -> None:  # noqa: B027 - only what is live has something
        """Show what changes all the time."""

    def kept(self, element: ValueElement, target: Any, name: str) -> ValueElement:
        """Keep the value of a field in an object or a dictionary, and show what others set."""
        if isinstance(target, dict):
            target.setdefault(name, element.value)
        return element.bind_value(target, name)

    def field(self, label: str, target: Any, name: str, hint: str = '') -> ValueElement:
        """Make a field for a text."""
        made = ui.input(label)
        if hint:
            made.props['hint'] = hint
        return self.kept(made, target, name)

    def lines(self, label: str, target: Any, name: str, rows: int = 4) -> None:
        """Make a field for lines of text."""
        made = ui.textarea(label).props(f'outlined spellcheck=false rows={rows}').classes('w-full')
        self.kept(made, target, name)

    def button(
        self, text: str, work: Callable[[], Awaitable[None]], *, plain: bool = False
    ) -> ui.button:
        """Make a button that carries out work of the session."""
        made = ui.button(text, on_click=lambda: self.run(work))
        return made.props('outline') if plain else made

    def frame(self, name: str, title: str, height: str) -> None:
        """Show one of the window's pages within this one."""
        source = f'{self.base}/files/{name}?{self.session.versions[self.name]}'
        with ui.element('iframe').style(f'height: {height}') as frame:
            frame.props['src'], frame.props['title'] = source, title

    def dropped(self, label: str, *, multiple: bool) -> None:
        """Make a place for files; the server keeps them in the window's folder."""
        # not NiceGUI's own, each of which leaves a route behind that FastAPI remembers
        place = ui.element('q-uploader').classes('w-full')
        place.props('flat bordered auto-upload' + (' multiple' if multiple else ''))
        place.props['label'], place.props['url'] = label, f'{self.base}/dropped/{self.name}'
        place.on('finish', lambda: place.run_method('reset'))


def soft(content: str) -> ui.label:
    """Show a remark."""
    return ui.label(content).classes('soft')


def alert(content: str) -> None:
    """Show what is wrong; it is announced."""
    ui.label(content).classes('error').props('role=alert')


def text(content: str, classes: str = '') -> None:
    """Show lines of text: sentences are wrapped, and tables, with columns, can be scrolled."""
    with ui.element('div').classes(f'w-full {classes}'):
        for columns, lines in groupby(content.splitlines(), lambda line: '  ' in line.strip()):
            with ui.element('pre').classes('columned' if columns else ''):
                ui.label('\n'.join(lines)).style('white-space: inherit')


class RobotStage(Stage):
    """The robot's file, the robot in 3D, findings of the check."""

    name, following = 'robot', 'recordings'

    def fields(self) -> None:
        """Make fields and buttons."""
        with ui.row().classes('w-full items-end'):
            self.field('URDF or xacro file on this computer', self.session.given, 'urdf').classes(
                'grow'
            ).on('keydown.enter', lambda: self.run(self.session.open_robot))
            self.field('arguments for xacro', self.session.given, 'xacro', 'name:=value ...')
            self.button('Open', self.session.open_robot)
        label = 'or drop it here (meshes are found beside files opened by path)'
        self.dropped(label, multiple=False)

    def show(self) -> None:
        """Show what was found."""
        robot = self.session.found.robot
        if robot is None:
            return
        found = len(robot.findings)
        ui.label(
            f'robot {robot.name}: {len(robot.joints)} joints; '
            + (f'{found} findings of the check' if found else 'physical and plausible')
        )
        for note in robot.notes:
            soft(f'warning: {note}')
        self.frame('robot.html', f'{robot.name} in 3D, with sliders', 'min(82vh, 900px)')


class MotionStage(Stage):
    """A plan: settings, the motion in 3D, its files."""

    name = 'motion'

    def fields(self) -> None:
        """Make fields and buttons."""
        session = self.session
        soft(
            'Optional: a motion that excites the parameters, within the limits and free of '
            'collision. Of servos, and of robots on their feet, once stage 2 has their experiment '
            'file. Nothing moves here.'
        )
        with ui.element('div').classes('fields'):
            self.field('duration [s]', session.given.planner, 'duration')
            self.field('height of the floor [m]', session.given.planner, 'floor', 'none: no floor')
            self.field('time for the search [s]', session.given.planner, 'time_budget')
            self.field('seed', session.given.planner, 'seed')
            self.field('commands a second (--rate)', session.given.planner, 'rate', 'of servos')
        with ui.expansion('Other settings of the planner, obstacles among them').classes('w-full'):
            self.lines(
                'KEY=VALUE by lines, as --set takes them', session.given, 'planner_settings'
            )
        with ui.row():
            self.button('Plan', session.plan)
            end = 'End the search with the best so far'
            ui.button(end, on_click=session.worker.finish).props('outline')

    def show(self) -> None:
        """Show what was found."""
        planned = self.session.found.planned
        if planned is None:
            return
        text(planned.summary)
        saved_links(self.base, planned.files)
        if any(file.endswith('plan.html') for file in planned.files):  # none of one on the feet
            self.frame('plan.html', 'the motion in 3D, with its curves', 'min(88vh, 1100px)')


class IdentifyStage(Stage):
    """Start and stop, the verdict's first screen, what was chosen and can be overruled."""

    name, following = 'identify', 'result'

    def fields(self) -> None:
        """Make fields and buttons."""
        self.button('Identify', self.session.identify)
        with ui.expansion('Settings that are given').classes('w-full'):
            self.lines('KEY=VALUE by lines, as --set takes them', self.session.given, 'settings')

    def show(self) -> None:
        """Show what was found."""
        found = self.session.found.identified
        if found is None:
            return
        text(found.screen, f'screen {found.level}')
        soft(f'wrote {", ".join(found.files)}')
        if found.warnings:
            with ui.expansion(f'warnings: {len(found.warnings)}').classes('w-full'):
                for warning in found.warnings:
                    soft(warning)
        if found.choices:
            ui.label('Chosen from the recordings; a value of your own overrules the choice:')
            with ui.element('div').classes('fields'):
                for choice in found.choices:
                    self._choice(choice.key, choice.value, choice.reason)
            self.button('Identify again', self.session.identify, plain=True)

    def _choice(self, key: str, value: str, reason: str) -> None:
        def overrule(event: events.ValueChangeEventArguments) -> None:
            given = str(event.value or '').strip()
            self.session.overrule(key, '' if given == value else given)

        made = ui.input(key, value=value, on_change=overrule)
        made.props['hint'] = reason.partition(' (')[2].rstrip(')')


class ResultStage(Stage):
    """The verdict, and the report with measured and predicted efforts, links, friction."""

    name, following = 'result', 'use'

    def show(self) -> None:
        """Show what was found."""
        found = self.session.found.identified
        if found is None:
            return
        if not found.report:
            text(found.details, f'screen {found.level}')
        else:
            self.frame(Path(found.report).name, 'the report', 'min(88vh, 1400px)')


class UseStage(Stage):
    """Exports with their own error, and what repeats everything without the window."""

    name = 'use'

    def fields(self) -> None:
        """Make fields and buttons."""
        self._samples = {'number': '100'}
        label = 'number of sets (--samples)'
        self.field(label, self._samples, 'number', 'where sets are exported')

    def show(self) -> None:
        """Show what was found."""
        session = self.session
        if session.found.identified is None:
            return
        ui.label('Files of the result').classes('text-lg')
        saved_links(self.base, session.found.identified.files)
        ui.label('Exports').classes('text-lg')
        for each in session.found.identified.exports:
            with ui.card().classes('w-full gap-1').props('flat bordered'):
                ui.label(f'{each.name}: {each.doc}')
                for sentence in each.predictions:
                    soft(sentence)
                made = [e for e in session.found.exported.values() if e.format == each.name]
                for note in (note for one in made for note in one.notes):
                    soft(f'warning: {note}')
                with ui.row().classes('items-end'):
                    self._export(each.name, each.sets)
                    saved_links(self.base, tuple(one.file for one in made))
        self._again()

    def _export(self, name: str, sets: bool) -> None:
        def export() -> Awaitable[None]:
            return self.session.export(name, self._samples['number'] if sets else '')

        self.button(f'Export {"sets as " if sets else ""}{name}', export, plain=True)

    def _again(self) -> None:
        session = self.session
        ui.label('The same without the window').classes('text-lg')
        text('\n'.join(session.commands()))
        if session.edited:
            soft('The experiment file was edited after init: take it as it is here.')
        saved_links(self.base, (str(session.experiment),))
        soft(f'Every option: {PROGRAM} COMMAND --help')


def saved_links(base: str, files: tuple[str, ...]) -> None:
    """Show files by their paths; each is a link that saves it where the browser is."""
    with ui.row().classes('gap-4'):
        for path in files:
            link = ui.link(path, f'{base}/files/{Path(path).name}').classes('soft')
            if not path.endswith('.html'):
                link.props['download'] = Path(path).name
