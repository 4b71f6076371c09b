# SPDX-License-Identifier: Apache-2.0
"""Stage of the recordings: facts on them, their columns, the experiment file, the signals."""

from __future__ import annotations

from typing import Any

from nicegui import events, ui

from .stage_views import alert, soft, Stage, text
from .values import FileColumns

SIGNALS = ('position', 'velocity', 'effort')

UNITS = {'': 'by their size', **{unit: unit for unit in ('s', 'ms', 'us', 'ns')}}
"""Units of stamps."""

MOST_BOXES = 3_000
"""Joints by columns of a table for which boxes are made."""

OTHERS = (
    'Position servos, whose recordings have commands in place of efforts, need their gains here, '
    'and no kind of efforts. A robot on its feet is recognised by the IMU in its recordings. '
    'For a payload, draft the runs without it, then add those with it to the experiment file, '
    "under data, as their entries: 'payload: {recordings: [{...}], frame: LINK}'."
)

KINDS = {
    '': 'not stated yet',
    'joint_torque': 'joint_torque: at the joint [N m or N]',
    'motor_torque': 'motor_torque: at the motor',
    'motor_current': 'motor_current: of the motor [A]',
}


class RecordingsStage(Stage):
    """Recordings, facts on them, what `init` concludes, the experiment file, the signals."""

    name, following = 'recordings', 'identify'

    def fields(self) -> None:
        """Make fields and buttons."""
        session, facts = self.session, self.session.given.facts
        self._file: dict[str, Any] = {'path': '', 'columns': False}
        with ui.row().classes('w-full items-end'):
            self.field('recording on this computer', self._file, 'path', 'file, or rosbag2 folder'
                  ).classes('grow').on('keydown.enter', self._add_path)  # fmt: skip
            ui.button('Add', on_click=self._add_path).props('outline')
        self.dropped('or drop recordings here', multiple=True)
        self._files = ui.column().classes('w-full gap-1')
        with ui.element('div').classes('fields'):
            kinds = ui.select(KINDS, label='what the efforts are (--effort-kind)', value='')
            self.kept(kinds, facts, 'effort_kind')
            self.field('sampling rate [Hz] (--rate)', facts, 'rate', 'of tables without stamps')
            self.field('--gear-ratios', facts, 'gear_ratios', 'motor turns by joint turn')
            self.field('--position-offsets [rad or m]', facts, 'position_offsets')
            self.field('--gains', facts, 'gains', 'effort at the joint by recorded one')
            self.field('--ticks', facts, 'ticks', 'of the encoders by turn')
            self.field('--gravity [m/s^2]', facts, 'gravity', '0 0 -9.81')
        self._switch('positions are in degrees (--degrees)', 'degrees')
        with ui.expansion('Servos, robots on their feet, tools, payloads').classes('w-full'):
            soft(OTHERS)
            with ui.element('div').classes('fields'):
                self.field('--kp [N m/rad]', facts, 'kp', 'of servos: position gain')
                self.field('--kd [N m s/rad]', facts, 'kd', 'of servos: velocity gain')
                self.field('--timestep [s]', facts, 'timestep', 'of their simulator')
            self._switch('the robot stands on its feet (--floating)', 'floating')
            self._switch('what hangs at a wrist sensor is identified (--tool)', 'tool')
        self.button('Draft the experiment', session.draft)
        with ui.expansion('The experiment file: change what is wrong') as self._editor:
            self._editor.classes('w-full')
            self.lines('experiment.yaml', session.given, 'text', rows=24)
            self.button('Check and save it', session.save_text, plain=True)

    def _switch(self, label: str, name: str) -> None:
        self.kept(ui.checkbox(label), self.session.given.facts, name)

    def _add_path(self) -> None:
        if self._file['path'].strip():
            path, self._file['path'] = self._file['path'].strip(), ''
            self.session.add(path)

    def _remove(self, path: str) -> None:
        self.session.given.recordings.remove(path)
        self.session.changed('recordings')

    def refresh(self) -> None:
        """Show the state of the window, and the files that are given."""
        self._files.clear()
        with self._files:
            for path in self.session.given.recordings:
                with ui.row().classes('items-center no-wrap'):
                    soft(path)
                    ui.button(icon='close', on_click=lambda p=path: self._remove(p)).props(
                        'flat dense round size=sm'
                    ).props['aria-label'] = f'remove {path}'
        super().refresh()

    def show(self) -> None:
        """Show what was found."""
        session = self.session
        self._editor.set_visibility(bool(session.given.text))
        self._conclusions()
        self._columns()
        if session.found.signals:
            soft(session.found.signals)
            self.frame('signals.html', 'recorded signals by joint', 'min(85vh, 1000px)')

    def _columns(self) -> None:
        """Make boxes that say which column of a table is what."""
        session = self.session
        if not session.found.columns:
            return
        with ui.expansion('Columns: what each is, to be corrected').classes('w-full') as area:
            area.set_value(self._file['columns'])
            area.bind_value_to(self._file, 'columns')
            for found in session.found.columns:
                each = session.given.columns.get(found.file, found)
                soft(each.file)
                if len(each.joints) * len(each.choices) > MOST_BOXES:
                    ui.label('too many for boxes: correct them in the experiment file')
                    continue
                columns = {c: str(c) for c in each.choices}
                with ui.element('div').classes('columns'):
                    self._box(each, 'time', '', each.time, columns)
                    self._box(each, 'time_unit', '', each.time_unit, UNITS)
                    for signal in SIGNALS:
                        for joint in each.joints:
                            column = each.columns.get(signal, {}).get(joint)
                            self._box(each, signal, joint, column, columns)
            self.button('Draft again with these columns', session.draft, plain=True)

    def _box(
        self, file: FileColumns, signal: str, joint: str, value: Any, choices: dict[Any, str]
    ) -> None:
        def correct(event: events.ValueChangeEventArguments) -> None:
            none = None if choices is not UNITS else ''
            self.session.correct(file, signal, joint, none if event.value == '' else event.value)

        chosen = '' if value is None else value
        ui.select(
            {'': 'none', chosen: str(chosen) or 'none', **choices},
            value=chosen, on_change=correct,
            label=f'{signal} of {joint}' if joint else signal.replace('_', ' '),
        )  # fmt: skip

    def _conclusions(self) -> None:
        drafted = self.session.found.drafted
        if drafted is None:
            return
        text(drafted.summary)
        if drafted.proposal:
            with ui.row().classes('items-center'):
                ui.label(f'the recordings speak for: {drafted.proposal}').classes('grow')
                self.button('Take that', self.session.take_proposal, plain=True)
        if not drafted.text:
            alert(
                'The kind of the recorded effort is not given: no recording shows it for certain. '
                'See the documentation of the driver, and choose it above.'
            )
