# SPDX-License-Identifier: Apache-2.0
"""Server of the window: one socket, pages and the files that they show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
import logging
from pathlib import Path
import secrets
from shutil import copyfileobj
import socket
from typing import Any, BinaryIO

from ..errors import importing, SettingsError
from ..untrusted.writing import whole_file
from .session import REFRESH, Session, Sessions

RECONNECT = 10.0
"""Time that a page is kept without its browser, as where the machine is busy [s]."""

_SECURITY = {
    # what a page holds comes from users' files: it runs apart from the window, without requests
    'Content-Security-Policy': "sandbox allow-scripts allow-downloads; connect-src 'none'",
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
}


def serve(
    sessions: Sessions, host: str, port: int, say: Callable[[str], None] = lambda text: None
) -> None:
    """
    Serve windows until Ctrl-C.

    Parameters
    ----------
    sessions:
        The windows; the first page shows the first one.
    host, port:
        To listen on; port 0 takes a free one.
    say:
        Called with the address, token included, when the socket is open, and at the end with what
        becomes of a motion or a recording.

    Raises
    ------
    IdentificationError
        if the extra is not installed, or the address cannot be listened on.

    """
    with importing('nicegui', 'the window'):
        import fastapi
        from nicegui import app, binding, ui
        import uvicorn

        from .access import Access
    with _listening(host, port) as listening:
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(32)
        outer = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        _add_routes(app, sessions)
        binding.MAX_PROPAGATION_TIME = float('inf')  # a busy machine is no fault
        ui.run_with(
            outer,
            title='robot_identification',
            dark=None,
            binding_refresh_interval=REFRESH,
            show_welcome_message=False,
            reconnect_timeout=RECONNECT,
        )
        config = uvicorn.Config(
            Access(outer, token, host, port),
            log_level='warning',
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        name = f'[{host}]' if ':' in host else host
        say(f'http://{name}:{port}/?token={token}')
        server = uvicorn.Server(config)
        # a request that the end cuts off is no fault
        logging.getLogger('uvicorn.error').addFilter(lambda record: not server.should_exit)
        try:
            server.run(sockets=[listening])
        finally:
            sessions.close(say)


def _listening(host: str, port: int) -> socket.socket:
    """Return the one socket; raises SettingsError where the system refuses it."""
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise SettingsError(
            f"cannot listen on '{host}', port {port}: {reason}",
            value=port,
            remedy='give another --port, or leave it out',
        ) from error


def _add_routes(app: Any, sessions: Sessions) -> None:
    from fastapi.responses import FileResponse, RedirectResponse, Response
    from nicegui import ui

    from .window_page import Page

    @app.get('/')
    async def first() -> Response:
        return RedirectResponse(f'/window/{sessions.unattended()}')

    @app.get('/window/{number}/files/{name}')
    async def file(number: int, name: str) -> Response:
        path = shown_file(sessions.all[number], name) if number in sessions.all else None
        if path is None or not path.is_file():
            return Response('there is no such file\n', 404)
        saved = None if path.suffix == '.html' else path.name
        return FileResponse(path, headers=_SECURITY, filename=saved)

    async def drop(request: Any) -> Response:
        number, stage = request.path_params['number'], request.path_params['stage']
        session = sessions.all.get(number)
        if session is None or stage not in ('robot', 'recordings'):
            return Response('there is no such window\n', 404)
        async with request.form(max_files=1) as form:
            for file in form.values():
                # the browser's name may be a path
                path = session.folder / 'dropped' / Path(file.filename).name
                if path.name:
                    await asyncio.to_thread(_keep, file.file, path)
                    session.take(stage, path)
        return Response(status_code=204)

    app.add_route('/window/{number:int}/dropped/{stage}', drop, methods=['POST'])

    @ui.page('/window/{number}', title='robot_identification')
    async def window(number: int) -> None:
        session = sessions.all.get(number)
        if session is None:
            ui.label('There is no such window any more.')
            ui.link('A new one', '/')
            return
        await Page(session, f'/window/{number}').show()


def _keep(content: BinaryIO, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        copyfileobj(content, file)


def shown_file(session: Session, name: str) -> Path | None:
    """Return a file that a window's page may show or save; None for other names."""
    found = session.found
    steps = (step.files for step in (found.planned, found.identified) if step is not None)
    files = [*found.exported, *(file for each in steps for file in each)]
    paths = [session.drawn('robot.html'), session.drawn('signals.html'), session.experiment]
    return {path.name: path for path in (*paths, *map(Path, files))}.get(name)
