# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that a test drives: it opens addresses, types, clicks, and looks."""

import base64
from contextlib import contextmanager, suppress
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from browser import BROWSER
import pytest

_COMMAND = (
    '--headless=new', '--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader',
    '--disable-extensions', '--no-first-run', '--remote-debugging-port=0', '--disable-gpu-vsync',
)  # fmt: skip

KEYS = {'Tab': 9, 'Enter': 13, ' ': 32, 'ArrowRight': 39, 'ArrowLeft': 37, 'ArrowDown': 40}


class DrivenBrowser:
    """One page of a browser, by its DevTools protocol."""

    def __init__(self, connection):
        self._connection, self._numbers = connection, itertools.count(1)
        self.faults = []
        target = self._call('Target.createTarget', url='about:blank')['targetId']
        self._session = None
        self._session = self._call('Target.attachToTarget', targetId=target, flatten=True)[
            'sessionId'
        ]
        for domain in ('Page', 'Runtime', 'Log', 'DOM'):
            self.call(f'{domain}.enable')

    def _call(self, method, session=None, **parameters):
        number = next(self._numbers)
        message = {'id': number, 'method': method, 'params': parameters}
        if session:
            message['sessionId'] = session
        self._connection.send(json.dumps(message))
        while True:
            answer = json.loads(self._connection.recv(timeout=60))
            if answer.get('id') == number:
                if 'error' in answer:
                    raise AssertionError(f'{method}: {answer["error"]}')
                return answer['result']
            self._note(answer)

    def _note(self, event):
        """Keep what the page complained of."""
        content = event.get('params', {})
        if event.get('method') == 'Runtime.exceptionThrown':
            self.faults.append(str(content['exceptionDetails'])[:500])
        if event.get('method') == 'Log.entryAdded' and content['entry']['level'] == 'error':
            self.faults.append(content['entry']['text'] + ' ' + content['entry'].get('url', ''))

    def call(self, method, **parameters):
        """Call the protocol for this page."""
        return self._call(method, self._session, **parameters)

    def open(self, address, width=1200, height=900):
        """Open an address in a window of a size."""
        self.call(
            'Emulation.setDeviceMetricsOverride',
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self.call('Page.navigate', url=address)

    def ask(self, expression):
        """Return the value of an expression of JavaScript."""
        found = self.call(
            'Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True
        )
        if 'exceptionDetails' in found:
            raise AssertionError(f'{expression}: {found["exceptionDetails"]}')
        return found['result'].get('value')

    def wait_for(self, expression, seconds=60.0):
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + seconds
        while True:
            with suppress(AssertionError):
                if value := self.ask(expression):
                    return value
            if time.monotonic() > end:
                raise AssertionError(f'never true: {expression}\n{self.text()[-2000:]}')
            time.sleep(0.05)

    def text(self):
        """Return the text of the page that is seen."""
        return self.ask('document.body.innerText')

    def wait_for_text(self, text, seconds=60.0):
        """Wait until a text is seen."""
        self.wait_for(f'document.body.innerText.includes({json.dumps(text)})', seconds)

    def press(self, key, times=1):
        """Press a key."""
        for _ in range(times):
            about = {'key': key, 'code': key, 'windowsVirtualKeyCode': KEYS[key]}
            if key in ('Enter', ' '):
                about['text'] = '\r' if key == 'Enter' else ' '
            self.call('Input.dispatchKeyEvent', type='keyDown', **about)
            self.call('Input.dispatchKeyEvent', type='keyUp', **about)

    def type(self, text):
        """Type a text into what has the focus."""
        self.call('Input.insertText', text=text)

    def focused(self):
        """Return label or text of what has the focus."""
        return self.ask(
            '(() => { const e = document.activeElement; return e && '
            "(e.getAttribute('aria-label') || e.innerText || e.title || '').trim(); })()"
        )

    def tab_to(self, text, most=80):
        """Press Tab until what has the focus has this label or text."""
        for _ in range(most):
            if self.focused() == text:
                return
            self.press('Tab')
        raise AssertionError(f'Tab never reaches {text}: {self.focused()}')

    def picture(self, path):
        """Save what is seen as PNG."""
        found = self.call('Page.captureScreenshot', format='png')
        path.write_bytes(base64.b64decode(found['data']))


@contextmanager
def driven_browser():
    """Start a browser; skips where there is none, or nothing to drive it by."""
    client = pytest.importorskip('websockets.sync.client', reason='the extra window is missing')
    if BROWSER is None:
        pytest.skip('there is no Chromium on this machine')
    profile = tempfile.mkdtemp()
    process = subprocess.Popen(
        [BROWSER, *_COMMAND, f'--user-data-dir={profile}', 'about:blank'],
        stderr=subprocess.PIPE,
        text=True,
        errors='replace',
        start_new_session=True,
    )
    try:
        for line in process.stderr:
            if match := re.search(r'DevTools listening on (ws://\S+)', line):
                break
        else:
            raise AssertionError('the browser ended')
        with client.connect(match[1], max_size=None) as connection:
            yield DrivenBrowser(connection)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()
        shutil.rmtree(profile, ignore_errors=True)


@contextmanager
def running_window(folder, *arguments, ending=''):
    """Start the command in a folder; give the address that it prints, and hold its last words."""
    process = subprocess.Popen(
        [sys.executable, '-m', 'robot_identification.cli', 'window', *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))},
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[0]
        assert process.returncode == 0, said
        assert re.fullmatch(ending, said), said


def fill(browser, label, text):
    """Go to a field by the keyboard, and type."""
    browser.tab_to(label)
    browser.type(text)


def go(browser, title):
    """Go on to a stage by the keyboard."""
    browser.tab_to(f'Go on: {title}')
    browser.press('Enter')
    wait_for_stage(browser, title)


def wait_for_stage(browser, title):
    """Wait until the focus is on a stage."""
    browser.wait_for(f"document.activeElement.getAttribute('aria-label') === 'stage {title}'")


def choose(browser, label, option, place):
    """
    Choose the option at a place of a box.

    A box that opens while the page is drawn anew may close, so it is opened again.
    """
    for _ in range(3):
        browser.tab_to(label)
        browser.press('Enter')
        with suppress(AssertionError):
            browser.wait_for_text(option, 10)
            break
    browser.press('ArrowDown', place)
    browser.press('Enter')
