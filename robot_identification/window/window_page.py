# SPDX-License-Identifier: Apache-2.0
"""Page of one window: six stages as tabs, and the progress of the running step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from ..nodes.status_words import motion_words
from .recordings_view import RecordingsStage
from .robot_views import ArmStage, LiveStage
from .session import REFRESH, Session, STAGES
from .stage_views import (
    IdentifyStage,
    MotionStage,
    ResultStage,
    RobotStage,
    soft,
    Stage,
    UseStage,
)  # fmt: skip

_STYLE = """
:root { color-scheme: light dark; } .nicegui-content { padding: 0; gap: 0; }
.window { max-width: 1280px; width: 100%; margin: 0 auto; padding: .5rem 1rem 3rem; }
.window pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .82rem; margin: 0;
  font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.window pre.columned { white-space: pre; overflow-x: auto; max-width: 100%; }
.window .screen { border-left: 5px solid; padding: .5rem .8rem; }
.window .good { border-color: #009e73; } .window .usable { border-color: #e69f00; }
.window .do_not_use { border-color: #cc4437; }
.window iframe { width: 100%; border: 1px solid #8886; border-radius: 6px; }
.window .error { color: #b3261e; font-weight: 600; overflow-wrap: anywhere; }
.body--dark .window .error { color: #ff8a80; }
.window .soft { opacity: .75; font-size: .86rem; overflow-wrap: anywhere; }
.window a { color: #0b5c94; } .window a.soft { opacity: 1; }
.body--dark .window .text-primary { --q-primary: #7fbdf0; }
.body--dark .window a { color: #7fbdf0; }
.window .fields { display: grid; gap: .2rem 1rem; width: 100%;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 230px), 1fr)); }
.window .columns { display: grid; gap: 0 1rem; width: 100%;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 150px), 1fr)); }
.window textarea { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .82rem;
  line-height: 1.35; }
.window *:focus-visible { outline: 2px solid #3d8fc9; outline-offset: 2px; }
.window .q-uploader__list { min-height: 0; padding: 0; }
.window .q-uploader__subtitle { display: none; }
.bars { position: sticky; top: 0; z-index: 5; width: 100%; }
.bars > div { padding: .3rem 1rem; }
"""


_FOCUS = """<script>
const titled = (e) => e.getAttribute('aria-label') || e.innerText;
let last;
document.addEventListener('focusin', (event) => last = titled(event.target) || last);
function keepFocus() {  // a button that was made anew is another one
  const shown = [...document.querySelectorAll('button')].filter((e) => e.offsetParent);
  if (document.activeElement === document.body) shown.find((e) => titled(e) === last)?.focus();
}
function focusStage(place) { place.focus({preventScroll: true}); scrollTo(0, 0); }
</script>"""


class Page:
    """
    A page that shows a window.

    Parameters
    ----------
    session:
        The window.
    base:
        Its address on the server.

    """

    def __init__(self, session: Session, base: str) -> None:
        self._session = session
        kinds: tuple[Callable[..., Stage], ...] = (
            RobotStage, RecordingsStage, MotionStage, IdentifyStage, ResultStage, UseStage,
            LiveStage, ArmStage,
        )  # fmt: skip
        made = (kind(session, base, self._run, self._go) for kind in kinds)
        self._stages = {each.name: each for each in made}
        self._columns: dict[str, ui.column] = {}
        self._seen: dict[str, int] = {}

    async def show(self) -> None:
        """Build the page; it goes on as far as the files given allow."""
        session = self._session
        client = ui.context.client
        client.on_connect(lambda: session.pages.add(client.id))
        client.on_disconnect(lambda: session.pages.discard(client.id))
        ui.add_css(_STYLE)
        ui.add_body_html(_FOCUS)
        ui.colors(primary='#0b5c94')
        self._head()
        for name, stage in self._stages.items():
            with ui.column().classes('window').props('role=tabpanel tabindex=-1') as column:
                stage.build()
            column.props['aria-label'] = f'stage {name.capitalize()}'
            self._columns[name] = column
            column.bind_visibility_from(self._tabs, 'value', value=name)
        self._look()
        self._tabs.on_value_change(self._turn)
        ui.timer(REFRESH, self._look)
        session.begin()

    def _go(self, stage: str) -> None:
        self._tabs.set_value(stage)
        ui.run_javascript(f'focusStage(getHtmlElement({self._columns[stage].id}))')

    def _turn(self) -> None:
        """Show another stage, at which pages that are opened later begin."""
        # not at each look: those of a page that was closed go on for a while
        self._session.stage = str(self._tabs.value)
        self._look()

    def _head(self) -> None:
        with (
            ui.tabs(value=self._session.stage)
            .props('no-caps inline-label outside-arrows mobile-arrows align=left')
            .classes('w-full') as self._tabs
        ):
            self._handles = {
                name: ui.tab(name, f'{number} {name.capitalize()}')
                for number, name in enumerate(STAGES, 1)
            }
        ros = self._session.ros
        if ros.closed:
            soft(ros.closed).classes('q-px-md')
        with ui.column().classes('bars gap-0'):
            with ui.row().classes('running w-full items-center bg-primary text-white') as running:
                self._words = ui.label().props('role=status').classes('grow')
                self._share = ui.linear_progress(0.0, show_value=False, color='white')
                stop = ui.button('Stop', on_click=self._session.stop)
                stop.props('dense outline color=white')
            with ui.row().classes('moving w-full items-center bg-negative text-white') as moving:
                self._phase = ui.label().props('role=status').classes('grow')
                ui.button('Cancel', on_click=ros.cancel).props('color=white text-color=negative')
        self._share.classes('w-40')
        self._running, self._moving = running, moving

    def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Carry out work of the session; the page may be closed meanwhile."""
        if not self._session.start(work):
            ui.notify('a step is running: wait for it, or stop it')

    def _look(self) -> None:
        """Show what is new."""
        session = self._session
        for name, handle in self._handles.items():
            handle.set_enabled(session.is_open(name))
        if not session.is_open(str(self._tabs.value)):
            self._tabs.set_value('robot' if session.found.robot is None else 'recordings')
        name = str(self._tabs.value)
        version = session.versions[name] + session.ros.version * (name in ('live', 'arm'))
        if self._seen.get(name) != version:  # the others, when they are shown
            self._seen[name] = version
            self._stages[name].refresh()
            ui.run_javascript('keepFocus()')
        job = session.job
        self._running.set_visibility(job is not None)
        if job is not None:
            self._words.set_text(job.text)
            self._share.set_value(min(max(job.share, 0.0), 1.0))
        self._stages[name].tick()
        self._look_at_motion()

    def _look_at_motion(self) -> None:
        """Show the motion that is under way, on every stage."""
        link = self._session.ros.link
        feedback = None if link is None else link.moving
        self._moving.set_visibility(feedback is not None)
        dry = link is not None and not link.executing
        self._phase.set_text('dry run: nothing moves' if dry else motion_words(feedback))
