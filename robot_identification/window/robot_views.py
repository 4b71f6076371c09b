# SPDX-License-Identifier: Apache-2.0
"""Stages of a window's page that need ROS 2: the robot as it is, and its motion."""

from __future__ import annotations

import os
from typing import Any

from nicegui import ui

from ..nodes.status_words import observer_words, online_words, parameter_lines, recorder_words
from .stage_views import alert, soft, Stage

UNITS = {'position': 'rad or m', 'velocity': 'rad/s or m/s', 'effort': 'as published'}

DRAWN = 8
"""Joints that are drawn unless others are chosen."""


class RosStage(Stage):
    """A stage whose requests go to the nodes."""

    def ask(self, label: str, verb: str, fields: Any = dict) -> None:
        """Make a button that calls a service by its verb; ``fields`` returns the request's."""
        ros = self.session.ros

        def send() -> None:
            ros.start(self.name, lambda: ros.ask(verb, **fields()))

        ui.button(label, on_click=send).props('outline')

    def show(self) -> None:
        """Show the last answer, and a button that takes the last recording into the window."""
        ros = self.session.ros
        line, path = ros.lines.get(self.name, ''), ros.recorded
        if line:
            (alert if line.startswith('error: ') else ui.label)(line)
        if path:
            ui.button(f'Identify from {path}', on_click=lambda: self._take(path)).props('outline')

    def _take(self, path: str) -> None:
        self.session.add(path)
        self.go('recordings')


class LiveStage(RosStage):
    """Joint states as they come, the recorder, the online estimate, the observer."""

    name, following = 'live', 'arm'

    def fields(self) -> None:
        """Make fields, buttons and the chart."""
        ros = self.session.ros
        with ui.row().classes('w-full items-end') as self._closed:
            self.field('namespace of the nodes', ros, 'namespace', 'empty: none')
            title = f'Join ROS 2, domain {os.environ.get("ROS_DOMAIN_ID", "0")}'
            ui.button(title, on_click=lambda: ros.start('live', ros.join))
            soft('Opens the sockets of DDS, by which other programs are found.')
        with ui.column().classes('w-full') as self._open:
            self._head = ui.label()
            with ui.row().classes('w-full items-end'):
                self._signal = ui.toggle(list(UNITS), value='position').props('no-caps')
                self._joints = ui.select([], multiple=True, label='joints')
                self._joints.classes('grow')
            self._chart = ui.echart(_chart()).classes('w-full').style('height: 300px')
            self._recorder = self._section('Recorder')
            recording = {'name': ''}
            with ui.row().classes('items-end'):
                self.field('name of the recording', recording, 'name', 'empty: by the time')
                self.ask('Record', 'record', lambda: dict(recording))
                self.ask('End the recording', 'end')
            self._online = self._section('Online estimate')
            with ui.row():
                for label, verb, value in (
                    ('On', 'online', True), ('Off', 'online', False),
                    ('Freeze', 'freeze', True), ('Go on', 'freeze', False),
                ):  # fmt: skip
                    self.ask(label, verb, lambda value=value: {'data': value})
                self.ask('Save', 'save')
            with ui.expansion('its parameters').classes('w-full'), ui.element('pre'):
                self._parameters = ui.label().style('white-space: inherit')
            self._observer = self._section('Observer')

    def _section(self, title: str) -> ui.label:
        ui.label(title).classes('text-lg')
        return soft('')

    def refresh(self) -> None:
        """Show what is open."""
        joined = self.session.ros.link is not None
        self._closed.set_visibility(not joined)
        self._open.set_visibility(joined)
        super().refresh()

    def tick(self) -> None:
        """Show what has come meanwhile."""
        link = self.session.ros.link
        if link is None:
            return
        latest, states = link.latest, link.states()
        self._recorder.set_text(recorder_words(latest.get('recorder')))
        self._online.set_text(online_words(latest.get('online')))
        self._parameters.set_text(parameter_lines(latest.get('parameters')))
        self._observer.set_text(observer_words(latest))
        if states is None:
            self._head.set_text("no joint states come on 'joint_states'")
            return
        signal = self._signal.value
        self._head.set_text(f'{len(states.joints)} joints at {states.rate:.0f} Hz')
        if self._joints.options != list(states.joints):
            self._joints.set_options(list(states.joints), value=list(states.joints[:DRAWN]))
        time = states.time.round(2).tolist()
        self._chart.options['yAxis']['name'] = UNITS[signal]
        self._chart.options['series'] = [
            {
                'type': 'line', 'name': joint, 'showSymbol': False,
                # not a number is null in JSON, a gap
                'data': list(zip(time, column.round(5).tolist(), strict=True)),
            }
            for joint, column in zip(states.joints, states.signals[signal].T, strict=True)
            if joint in self._joints.value
        ]  # fmt: skip
        self._chart.update()


class ArmStage(RosStage):
    """A plan: dry run, two confirmations, the motion, its recording."""

    name = 'arm'

    def fields(self) -> None:
        """Make fields and buttons."""
        ros = self.session.ros
        ui.label(
            'The robot moves here. Have the emergency stop at hand: Cancel asks the excitation '
            'node, which asks the controller, and replaces no emergency stop. A motion goes on '
            'when this page is closed, and can be canceled on any page of this address; Ctrl-C '
            'in the terminal cancels it.'
        )
        with ui.row().classes('w-full items-end'):
            self.field(
                'plan.yaml, or plan of the excitation node', ros.motion, 'source', 'plan_1'
            ).classes('grow')
            self._plan_button = ui.button('Take the plan of stage 3', on_click=self._take_plan)
            self._plan_button.props('outline')
        with ui.element('div').classes('fields'):
            self.field('share of the planned speed', ros.motion, 'speed', 'slow at first')
            self.field('name of the recording', ros.motion, 'recording', 'empty: none is made')
        with ui.row():
            title = 'Dry run: every check, nothing moves'
            ui.button(title, on_click=lambda: ros.start('arm', ros.dry_run))
            self._move = ui.button(on_click=ros.confirm, color='negative')

    def _plan(self) -> str:
        """Return the path of the plan of stage 3; empty where there is none."""
        planned = self.session.found.planned
        files = () if planned is None else planned.files
        return next((file for file in files if file.endswith('plan.yaml')), '')

    def _take_plan(self) -> None:
        self.session.ros.motion['source'] = self._plan()
        self.session.ros.version += 1

    def refresh(self) -> None:
        """Show what is known of the motion."""
        self._plan_button.set_visibility(bool(self._plan()))
        super().refresh()

    def tick(self) -> None:
        """Show whether the motion may be confirmed, once or again."""
        ros = self.session.ros
        ready = ros.may_move and ros.link is not None and ros.link.moving is None
        self._move.set_enabled(ready)
        self._move.set_text(
            'Press again: the robot moves' if ros.confirming
            else 'Move the robot: press twice' if ready
            else 'Move the robot: after the dry run'
        )  # fmt: skip


def _chart() -> dict[str, Any]:
    # axes at the border, wherever 0 is
    axis = {'type': 'value', 'axisLine': {'onZero': False}}
    return {
        'animation': False, 'tooltip': {'trigger': 'axis'},
        # grey is seen on white and on black
        'legend': {'type': 'scroll', 'top': 0, 'textStyle': {'color': '#777'}}, 'series': [],
        'grid': {'left': 50, 'right': 20, 'top': 55, 'bottom': 45},
        'xAxis': {**axis, 'min': -30, 'max': 0, 'name': 's', 'nameLocation': 'middle',
                  'nameGap': 25},
        'yAxis': {**axis, 'scale': True},
    }  # fmt: skip
