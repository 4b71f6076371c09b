# SPDX-License-Identifier: Apache-2.0
"""
Make the pictures of the window for the documentation.

``python scripts/window_pictures.py docs/images``

The command goes through the stages with the shipped recording of the TX-40, in a browser that is
driven as in the tests.  Needs the extra ``window`` and Chromium.
"""

from __future__ import annotations

import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'test'))
from driven_browser import driven_browser  # noqa: E402

FILES = ('tx40.urdf', 'pos_read_data.csv.gz', 'curr_data.csv.gz')
FACTS = {
    'sampling rate [Hz] (--rate)': '5000',
    '--gear-ratios': '32 32 45 -48 45 32',
    '--position-offsets [rad or m]': '0 -1.5708 1.5708 0 0 0',
}
SETTLED = 10.0
"""Seconds that the pages within a page have to draw."""


def go(browser, title):
    """Go on to a stage."""
    browser.tab_to(f'Go on: {title}')
    browser.press('Enter')


def keep(browser, path):
    """Save what is seen once it has been drawn."""
    browser.ask('document.activeElement.blur(), window.scrollTo(0, 0)')
    time.sleep(SETTLED)
    browser.picture(path)
    print(f'wrote {path}')


def walk(browser, address, folder):
    """Go through the stages, and save each."""
    browser.open(address, width=1200, height=860)
    browser.wait_for_text('robot tx40', 90)
    keep(browser, folder / 'window_robot.png')
    browser.wait_for("!document.querySelector('.running').offsetHeight")
    go(browser, 'Recordings')
    browser.tab_to('what the efforts are (--effort-kind)')
    browser.press('Enter')
    browser.wait_for_text('motor_torque: at the motor')
    browser.press('ArrowDown', 2)
    browser.press('Enter')
    for label, text in FACTS.items():
        browser.tab_to(label)
        browser.type(text)
    browser.tab_to('Draft the experiment')
    browser.press('Enter')
    browser.wait_for_text('45000 samples', 90)
    browser.open(browser.ask('location.href'), width=1200, height=1700)
    browser.wait_for_text('Recordings')
    browser.tab_to('Go on: Recordings')
    browser.press('Enter')
    keep(browser, folder / 'window_recordings.png')
    browser.open(browser.ask('location.href'), width=1200, height=860)
    browser.wait_for_text('Recordings')
    go(browser, 'Recordings')
    go(browser, 'Identify')
    browser.tab_to('Identify')
    browser.press('Enter')
    browser.wait_for_text('Usable for prediction of efforts alone', 120)
    keep(browser, folder / 'window_identify.png')
    go(browser, 'Result')
    keep(browser, folder / 'window_result.png')
    go(browser, 'Use')
    keep(browser, folder / 'window_use.png')


def main(folder):
    """Start the command and save the pictures to a folder."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copy(ROOT / 'urdf' / FILES[0], place)
        for name in FILES[1:]:
            shutil.copy(ROOT / 'examples' / 'tx40' / name, place)
        process = subprocess.Popen(
            [sys.executable, '-m', 'robot_identification.cli', 'window', *FILES],
            cwd=place,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                'PYTHONPATH': os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            },
        )
        try:
            with driven_browser() as browser:
                walk(browser, process.stdout.readline().strip(), folder)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


if __name__ == '__main__':
    main(Path(sys.argv[1]))
