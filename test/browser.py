# SPDX-License-Identifier: Apache-2.0
"""Pages in a headless Chromium: what a script found out, and what the console complained of."""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest

BROWSERS = (
    'chromium',
    'chromium-headless-shell',
    'chromium-browser',
    'google-chrome',
    'google-chrome-stable',
)
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)

_BEFORE = """<script>
const faults = [];
addEventListener('error', (e) => faults.push(e.message));
addEventListener('unhandledrejection', (e) => faults.push(String(e.reason)));
for (const kind of ['error', 'warn']) console[kind] = (...words) => faults.push(words.join(' '));
</script>"""

_AFTER = """<script>
(async () => {
  let found;
  try { found = await (async () => { %s })(); } catch (e) { found = {failed: String(e.stack)}; }
  const bytes = new TextEncoder().encode(JSON.stringify({...found, faults}));
  console.log('FOUND ' + btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')));
})();
</script>"""

_FRAME = """<!DOCTYPE html>
<body style="margin: 0">
<iframe src="page.html" style="border: 0; width: %dpx; height: 1200px"></iframe>"""

_COMMAND = (
    '--headless=new', '--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader',
    '--disable-extensions', '--no-first-run', '--window-size=2100,1300', '--enable-logging=stderr',
    '--remote-debugging-port=0',
)  # fmt: skip

# the second is for the headless shell, which has no mode of its own
_DARK = ('--force-dark-mode', '--blink-settings=preferredColorScheme=0')

_LONGEST = 150.0


def run_in_browser(page, script, folder, cases):
    """
    Run a script at the end of a page, once for each case, all at the same time.

    Parameters
    ----------
    page:
        The HTML document.
    script:
        Body of an asynchronous function; returns an object.
    folder:
        For files.
    cases:
        Name and pair of width [px] and colour scheme, ``light`` or ``dark``.

    Returns
    -------
    dict
        Of each case what the script returned, with ``faults``: errors and warnings.

    """
    if BROWSER is None:
        pytest.skip('there is no Chromium on this machine')
    text = page.replace('<head>', f'<head>{_BEFORE}')
    (folder / 'page.html').write_text(text.replace('</body>', f'{_AFTER % script}</body>'))
    running = {}
    for name, (width, scheme) in cases.items():
        frame = folder / f'{name}.html'
        frame.write_text(_FRAME % width)
        dark = _DARK if scheme == 'dark' else ()
        profile = f'--user-data-dir={folder / name}'
        running[name] = subprocess.Popen(
            [BROWSER, *_COMMAND, *dark, profile, frame.as_uri()],
            stderr=subprocess.PIPE,
            text=True,
            errors='replace',
            start_new_session=True,
        )
    return {name: _found(name, process) for name, process in running.items()}


def _end(process):
    """Kill a browser with all that its command, often a script, has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _found(name, process):
    """Return what a page wrote to the console, and end its browser."""
    last = threading.Timer(_LONGEST, _end, [process])
    last.start()
    lines = []
    try:
        for line in process.stderr:
            lines.append(line)
            if match := re.search(r'"FOUND ([\w+/=]+)"', line):
                return json.loads(base64.b64decode(match[1]))
    finally:
        last.cancel()
        _end(process)
        process.wait()
        process.stderr.close()
    raise AssertionError(f'{name}: {"".join(lines[-20:])}')
