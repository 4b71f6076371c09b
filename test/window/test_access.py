# SPDX-License-Identifier: Apache-2.0
"""Admission to the window, and its one socket, without a browser."""

import asyncio
from contextlib import contextmanager
import http.client
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

pytest.importorskip('nicegui', reason='the extra window is missing')


@pytest.fixture(scope='module')
def running(tmp_path_factory):
    """Start the command; give its process number, its port and its token."""
    process = subprocess.Popen(
        [sys.executable, '-m', 'robot_identification.cli', 'window'],
        cwd=tmp_path_factory.mktemp('window'),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
    )
    upload = None
    try:
        line = process.stdout.readline()
        port, token = re.fullmatch(r'http://127\.0\.0\.1:(\d+)/\?token=(\S{43})\n', line).groups()
        yield process.pid, int(port), token
        upload = unfinished_upload((process.pid, int(port), token))
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[0]
        assert process.returncode == 0
        if upload is not None:
            upload.close()
            assert 'Traceback' not in said  # a request that the end cuts off is no fault


@contextmanager
def answer(running, path, **headers):
    """Ask for a path without anything but these headers; give the response and its text."""
    _, port, _ = running
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    try:
        connection.request(
            'GET', path, headers={n.replace('_', '-'): v for n, v in headers.items()}
        )
        response = connection.getresponse()
        yield response, response.read().decode()
    finally:
        connection.close()


def cookie(running):
    """Return the cookie of who has come by the address."""
    with answer(running, f'/?token={running[2]}') as (response, text):
        assert response.status == 303 and response.headers['location'] == '/' and not text
        kept = response.headers['set-cookie']
    assert 'HttpOnly' in kept and 'samesite=strict' in kept.lower()
    return kept.partition(';')[0]


def unfinished_upload(running):
    """Begin to drop a file that never ends; return the connection."""
    connection = socket.create_connection(('127.0.0.1', running[1]), 60)
    lines = (
        'POST /window/1/dropped/robot HTTP/1.1', f'Host: 127.0.0.1:{running[1]}',
        f'Cookie: {cookie(running)}', 'Content-Type: multipart/form-data; boundary=x',
        'Content-Length: 1000', 'Expect: 100-continue', '', '',
    )  # fmt: skip
    connection.sendall('\r\n'.join(lines).encode())
    assert connection.recv(12) == b'HTTP/1.1 100'  # it is being read
    return connection


UPGRADE = {
    'Connection': 'Upgrade',
    'Upgrade': 'websocket',
    'Sec_WebSocket_Version': '13',
    'Sec_WebSocket_Key': 'dGhlIHNhbXBsZSBub25jZQ==',
}
SOCKET = '/_nicegui_ws/socket.io/?EIO=4&transport=websocket'


@pytest.mark.parametrize(
    'path', ['/', '/window/1', '/window/1/files/robot.html', '/?token=', '/?token=wrong', '/docs']
)
def test_a_stranger_gets_nothing(running, path):
    with answer(running, path) as (response, text):
        assert response.status == 403
        assert text.startswith('refused: open the address') and running[2] not in text
        assert 'set-cookie' not in response.headers


@pytest.mark.parametrize('path', ['/_nicegui/', '/_nicegui/auto/static/nicegui.css'])
def test_not_even_what_is_no_secret(running, path):
    with answer(running, path) as (response, _):
        assert response.status == 403


def test_nor_by_a_websocket(running):
    with answer(running, SOCKET, **UPGRADE) as (response, _):
        assert response.status == 403


def test_who_has_the_address_gets_in_by_both(running):
    known = cookie(running)
    with answer(running, '/window/1', Cookie=known) as (response, text):
        assert response.status == 200 and 'robot_identification' in text
    own = f'http://127.0.0.1:{running[1]}'
    with socket.create_connection(('127.0.0.1', running[1]), 60) as connection:
        lines = [f'GET {SOCKET} HTTP/1.1', f'Host: 127.0.0.1:{running[1]}', f'Cookie: {known}']
        lines += [f'{name.replace("_", "-")}: {value}' for name, value in UPGRADE.items()]
        connection.sendall('\r\n'.join([*lines, f'Origin: {own}', '', '']).encode())
        assert connection.recv(12) == b'HTTP/1.1 101'


def test_other_pages_are_refused_whatever_cookies_their_browser_has(running):
    known = cookie(running)
    for origin in ('http://evil.example', 'null', f'http://localhost:{running[1]}'):
        for path, more in (('/window/1', {}), (SOCKET, UPGRADE)):
            with answer(running, path, Cookie=known, Origin=origin, **more) as (response, _):
                assert response.status == 403, (origin, path)


def test_other_names_of_this_machine_are_refused(running):
    known = cookie(running)
    with answer(running, '/window/1', Cookie=known, Host='evil.example') as (response, _):
        assert response.status == 403
    with answer(running, '/window/1', Cookie=known, Host=f'localhost:{running[1]}') as (found, _):
        assert found.status == 200


def test_no_file_but_those_of_the_window(running):
    known = cookie(running)
    for name in ('..%2f..%2fetc%2fpasswd', '%2fetc%2fpasswd', 'experiment.yaml', 'result.yaml'):
        with answer(running, f'/window/1/files/{name}', Cookie=known) as (response, text):
            assert response.status == 404 and 'root' not in text


def test_one_socket_listens_on_the_loopback_alone(running):
    number, port, _ = running
    family = [number, *descendants(number)]
    assert len(family) > 1  # the process of the window is there, too
    listening = {entry for each in family for entry in listening_sockets(each)}
    assert listening == {('127.0.0.1', port)}


@pytest.mark.parametrize('left', [True, False])
def test_a_page_that_is_left_while_it_is_made_is_no_fault(left):
    from robot_identification.window.access import Access

    async def app(scope, receive, send):
        await receive()
        raise RuntimeError('No response returned.')  # as Starlette does

    async def receive():
        return {'type': 'http.disconnect' if left else 'http.request'}

    headers = [(b'host', b'localhost'), (b'cookie', b'robot_identification_80=secret')]
    scope = {'type': 'http', 'path': '/', 'query_string': b'', 'headers': headers}
    asked = Access(app, 'secret', '127.0.0.1', 80)(scope, receive, None)
    if left:
        asyncio.run(asked)
    else:
        with pytest.raises(RuntimeError):
            asyncio.run(asked)


def descendants(number):
    """Return the numbers of the processes that a process has started, and theirs."""
    found = []
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/stat') as file:
                parent = int(file.read().rpartition(')')[2].split()[1])
        except OSError:
            continue
        if parent == number:
            found += [int(name), *descendants(int(name))]
    return found


def listening_sockets(number):
    """Return address and port of the TCP and UDP sockets of a process that anyone can reach."""
    inodes = set()
    for name in os.listdir(f'/proc/{number}/fd'):
        try:
            target = os.readlink(f'/proc/{number}/fd/{name}')
        except OSError:
            continue
        if match := re.fullmatch(r'socket:\[(\d+)\]', target):
            inodes.add(match[1])
    found = set()
    for kind, state in (('tcp', '0A'), ('tcp6', '0A'), ('udp', '07'), ('udp6', '07')):
        with open(f'/proc/{number}/net/{kind}') as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[9] in inodes and words[3] == state:
                    host, port = words[1].split(':')
                    found.add((address(host), int(port, 16)))
    return found


def address(text):
    """Return an address of ``/proc/net`` in words."""
    parts = bytes.fromhex(text)
    if len(parts) == 4:
        return socket.inet_ntoa(parts[::-1])
    return text


def test_a_port_that_is_taken_is_one_line(running, tmp_path):
    done = subprocess.run(
        [sys.executable, '-m', 'robot_identification.cli', 'window', '--port', str(running[1])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot listen on '127.0.0.1', port {running[1]}: ")
    assert len(done.stderr.splitlines()) == 1
