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
from http.cookies import CookieError, SimpleCookie
import ipaddress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

Scope = MutableMapping[str, Any]
Application = Callable[
    [Scope, Callable[..., Awaitable], Callable[..., Awaitable]], Awaitable[None]
]

REFUSED = b'refused: open the address that robot-identification window has printed\n'

_HEADERS = [
    (b'content-type', b'text/plain; charset=utf-8'),
    (b'cache-control', b'no-store'),
    (b'referrer-policy', b'no-referrer'),
]


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
        What the server listens on.

    """

    def __init__(self, app: Application, token: str, host: str, port: int) -> None:
        self.app = app
        self._token, self._port = token, port
        self._loopback = is_loopback(host)
        self._cookie = f'robot_identification_{port}'

    async def __call__(
        self, scope: Scope, receive: Callable[..., Awaitable], send: Callable[..., Awaitable]
    ) -> None:
        """Answer a request; see ASGI."""
        if scope['type'] == 'lifespan':
            await self.app(scope, receive, send)
            return
        headers = {name: value.decode('latin-1') for name, value in scope['headers']}
        if self._right_host(headers) and self._right_origin(headers):
            if self._known(self._of_cookie(headers)):
                await self.app(scope, receive, send)
                return
            if scope['type'] == 'http' and scope['method'] == 'GET':
                query = parse_qsl(scope['query_string'].decode('latin-1'))
                if self._known(dict(query).get('token', '')):
                    await self._welcome(scope['path'], query, send)
                    return
        if scope['type'] == 'websocket':
            await receive()
            await send({'type': 'websocket.close', 'code': 1008})
            return
        await send({'type': 'http.response.start', 'status': 403, 'headers': _HEADERS})
        await send({'type': 'http.response.body', 'body': REFUSED})

    def _known(self, token: str) -> bool:
        return compare_digest(token.encode(), self._token.encode())

    def _of_cookie(self, headers: dict[bytes, str]) -> str:
        try:
            cookies = SimpleCookie(headers.get(b'cookie', ''))
        except CookieError:
            return ''
        return cookies[self._cookie].value if self._cookie in cookies else ''

    def _right_host(self, headers: dict[bytes, str]) -> bool:
        if not self._loopback:
            return True
        name = urlsplit(f'//{headers.get(b"host", "")}').hostname or ''
        return name == 'localhost' or is_loopback(name)

    def _right_origin(self, headers: dict[bytes, str]) -> bool:
        origin = headers.get(b'origin')
        return origin is None or urlsplit(origin).netloc == headers.get(b'host', '')

    async def _welcome(
        self, path: str, query: list[tuple[str, str]], send: Callable[..., Awaitable]
    ) -> None:
        """Put the token into a cookie, and send the browser to the address without it."""
        rest = urlencode([pair for pair in query if pair[0] != 'token'])
        place = f'/{path.lstrip("/")}' + (f'?{rest}' if rest else '')
        cookie = f'{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict'
        headers = [*_HEADERS, (b'location', place.encode()), (b'set-cookie', cookie.encode())]
        await send({'type': 'http.response.start', 'status': 303, 'headers': headers})
        await send({'type': 'http.response.body', 'body': b''})


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone."""
    try:
        return host == 'localhost' or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
