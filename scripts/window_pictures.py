# SPDX-License-Identifier: Apache-2.0
"""
Make the pictures of the window for the documentation.

``python scripts/window_pictures.py docs/images``

The command goes through the stages with the shipped recording of the TX-40, then through those of
a simulated arm over ROS 2, in a browser that is driven as in the tests.  Needs the extras
``window`` and ``sim``, ROS 2 and Chromium.
"""

from __future__ import annotations

from contextlib import contextmanager
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
sys.path.insert(0, str(ROOT))
from driven_browser import choose, driven_browser  # noqa: E402
from robot_identification.model.robot import Robot  # noqa: E402
from robot_identification.simulation.controller import STOP_TIME  # noqa: E402
from robot_identification.support.processes import NodeProcesses  # noqa: E402

ARM = ROOT / 'urdf' / 'demo_arm.urdf'

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
    kind = 'what the efforts are (--effort-kind)'
    choose(browser, kind, 'motor_torque: at the motor', 2)
    for label, text in FACTS.items():
        browser.tab_to(label)
        browser.type(text)
    browser.tab_to('Draft the experiment')
    browser.press('Enter')
    browser.wait_for_text('45000 samples', 90)
    browser.open(browser.ask('location.href'), width=1200, height=1700)
    browser.wait_for_text('45000 samples')  # a page shows the stage that was left
    keep(browser, folder / 'window_recordings.png')
    browser.open(browser.ask('location.href'), width=1200, height=860)
    browser.wait_for_text('45000 samples')
    show(browser, 2)
    for label, text in {'duration [s]': '10', 'time for the search [s]': '3'}.items():
        browser.tab_to(label)
        browser.type(text)
    press(browser, 'Plan')
    browser.wait_for_text('condition number', 120)
    browser.open(browser.ask('location.href'), width=1200, height=1700)
    browser.wait_for_text('condition number')
    keep(browser, folder / 'window_motion.png')
    browser.open(browser.ask('location.href'), width=1200, height=860)
    browser.wait_for_text('condition number')
    show(browser, 3)
    browser.tab_to('Identify')
    browser.press('Enter')
    browser.wait_for_text('Usable for prediction of efforts alone', 120)
    keep(browser, folder / 'window_identify.png')
    go(browser, 'Result')
    keep(browser, folder / 'window_result.png')
    go(browser, 'Use')
    keep(browser, folder / 'window_use.png')


def press(browser, label):
    """Press a button once it is there."""
    browser.wait_for_text(label, 60)
    browser.tab_to(label)
    browser.press('Enter')


def show(browser, place):
    """Open a stage by its tab."""
    browser.ask(f"document.querySelectorAll('[role=tab]')[{place}].click()")
    time.sleep(1.0)


def walk_with_robot(browser, address, folder):
    """Go from a plan to its motion, and save the stages that need ROS."""
    browser.open(address, width=1200, height=860)
    browser.wait_for_text('robot demo_arm', 90)
    browser.wait_for("!document.querySelector('.running').offsetHeight")
    show(browser, 2)
    for label, text in {'duration [s]': '20', 'time for the search [s]': '2'}.items():
        browser.tab_to(label)
        browser.type(text)
    browser.tab_to('Expand "Other settings of the planner, obstacles among them"')
    browser.press('Enter')
    browser.tab_to('KEY=VALUE by lines, as --set takes them')
    stops = (Robot.from_urdf(ARM).limits.velocity / STOP_TIME).round(3).tolist()
    browser.type(f'planner.stop_deceleration={stops}')
    browser.ask('document.activeElement.blur()')
    press(browser, 'Plan')
    browser.wait_for_text('condition number', 120)
    show(browser, 6)
    browser.tab_to('namespace of the nodes')
    browser.press('Tab')
    browser.press('Enter')
    browser.wait_for_text('6 joints at', 60)
    press(browser, 'On')
    browser.wait_for_text('learning', 90)
    show(browser, 7)
    press(browser, 'Take the plan of stage 3')
    browser.tab_to('share of the planned speed')
    browser.type('1')
    press(browser, 'Dry run: every check, nothing moves')
    press(browser, 'Move the robot: press twice')
    time.sleep(1.0)
    press(browser, 'Press again: the robot moves')
    browser.wait_for_text('exciting', 60)
    keep(browser, folder / 'window_arm.png')
    show(browser, 6)
    browser.open(browser.ask('location.href'), width=1200, height=1200)
    browser.wait_for_text('6 joints at', 60)
    items = "[...document.querySelectorAll('.q-expansion-item .q-item')]"
    browser.ask(f"{items}.find(each => each.innerText.includes('its parameters')).click()")
    keep(browser, folder / 'window_live.png')


@contextmanager
def running_window(place, *files):
    """Start the command in a folder; give the address that it prints."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, '-m', 'robot_identification.cli', 'window', *map(str, files)],
        cwd=place,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, 'PYTHONPATH': path},
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def main(folder):
    """Start the command and save the pictures to a folder."""
    os.environ['ROS_DOMAIN_ID'] = str(1 + os.getpid() % 100)
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    with tempfile.TemporaryDirectory() as place, driven_browser() as browser:
        shutil.copy(ROOT / 'urdf' / FILES[0], place)
        for name in FILES[1:]:
            shutil.copy(ROOT / 'examples' / 'tx40' / name, place)
        with running_window(place, *FILES) as address:
            walk(browser, address, folder)
        clock = {'use_sim_time': True}
        motion = {'execute': True, 'stale_timeout': 2.0}
        with NodeProcesses(Path(place, 'logs')) as nodes:
            nodes.start('simulation', {'urdf': str(ARM)})
            for name, parameters in {
                'recorder': {'output': place},
                'excitation': {**motion, 'output': place},
                'identification': {'output': place},
            }.items():
                nodes.start(name, {**clock, **parameters})
            with running_window(place, ARM) as address:
                walk_with_robot(browser, address, folder)


if __name__ == '__main__':
    main(Path(sys.argv[1]))
