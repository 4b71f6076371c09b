# SPDX-License-Identifier: Apache-2.0
"""
Admission to the window, of those alone who have its address with the token.

The token comes once in the address, and is a cookie of the browser from then on.  Requests of
other pages are refused by their origin, and, on the loopback, other names of the machine by the
name that was asked for: a page elsewhere cannot make a browser ask for it (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from hmac import compare_digest
from typing import Any
from urllib.parse import urlsplit

from fastapi.requests import HTTPConnection
from fastapi.responses import PlainTextResponse, RedirectResponse

from .hosts import is_loopback

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

REFUSED = 'refused: open the address that robot-identification window has printed\n'

_HEADERS = {'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer'}


class Access:
    """
    Application that passes on what comes with the token, and answers nothing else.

    Parameters
    ----------
    app:
        The application behind it.
    token:
        Secret of the address.
    host, port:
        Address that the server listens on.

    """

    def __init__(self, app: ASGIApp, token: str, host: str, port: int) -> None:
        self.app = app
        self._token, self._loopback = token, is_loopback(host)
        self._cookie = f'robot_identification_{port}'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; see ASGI."""
        if scope['type'] == 'lifespan':
            await self.app(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        admitted = self._from_here(asked)
        if admitted and self._known(asked.cookies.get(self._cookie, '')):
            await self._passed_on(scope, receive, send)
        elif scope['type'] == 'websocket':
            await receive()
            await send({'type': 'websocket.close', 'code': 1008})
        elif admitted and self._known(asked.query_params.get('token', '')):
            await self._welcome(asked)(scope, receive, send)
        else:
            await PlainTextResponse(REFUSED, 403, headers=_HEADERS)(scope, receive, send)

    async def _passed_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = False

        async def received() -> Message:
            nonlocal gone
            message = await receive()
            gone = gone or message['type'].endswith('.disconnect')
            return message

        try:
            await self.app(scope, received, send)
        except RuntimeError:
            if not gone:  # nobody waits for the answer of a page that was left
                raise

    def _known(self, token: str) -> bool:
        return compare_digest(token.encode(), self._token.encode())

    def _from_here(self, asked: HTTPConnection) -> bool:
        """Return whether a page of this server asks, by an own name of it."""
        host, origin = asked.headers.get('host', ''), asked.headers.get('origin')
        try:
            name = urlsplit(f'//{host}').hostname or ''
            own = origin is None or urlsplit(origin).netloc == host
        except ValueError:  # no name at all
            return False
        return own and (not self._loopback or is_loopback(name))

    def _welcome(self, asked: HTTPConnection) -> RedirectResponse:
        """Put the token into a cookie, and send the browser to the address without it."""
        rest = asked.url.remove_query_params('token')
        place = f'/{rest.path.lstrip("/")}' + (f'?{rest.query}' if rest.query else '')
        answer = RedirectResponse(place, 303, headers=_HEADERS)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite='strict')
        return answer
