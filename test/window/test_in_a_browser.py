# SPDX-License-Identifier: Apache-2.0
"""The window in a real browser: from the shipped recording of the TX-40 to an exported URDF."""

import os
from pathlib import Path
import re
import shutil
import time

from driven_browser import choose, driven_browser, fill, go, running_window
import pytest
from robot_identification.cli import main
from robot_identification.model.robot import Robot
import yaml

ROOT = Path(__file__).resolve().parents[2]
TX40 = ROOT / 'examples' / 'tx40'
FACTS = {
    'sampling rate [Hz] (--rate)': '5000',
    '--gear-ratios': '32 32 45 -48 45 32',
    '--position-offsets [rad or m]': '0 -1.5708 1.5708 0 0 0',
}

pytest.importorskip('nicegui', reason='the extra window is missing')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Give a folder with the robot and its recording."""
    folder = tmp_path_factory.mktemp('window')
    shutil.copy(ROOT / 'urdf' / 'tx40.urdf', folder)
    for name in ('pos_read_data.csv.gz', 'curr_data.csv.gz'):
        shutil.copy(TX40 / name, folder)
    return folder


@pytest.mark.timeout(300)
def test_from_a_recording_to_a_urdf_by_the_keyboard_alone(folder):
    files = ('tx40.urdf', 'pos_read_data.csv.gz', 'curr_data.csv.gz')
    with running_window(folder, *files) as address, driven_browser() as browser:
        browser.open(address, width=400, height=800)
        browser.wait_for_text('robot tx40: 6 joints', 90)
        assert 'token' not in browser.ask('location.href')
        assert browser.ask('document.documentElement.scrollWidth') <= 400
        browser.wait_for("!document.querySelector('.running').offsetHeight")

        go(browser, 'Recordings')
        # the line of the command line
        browser.wait_for_text('pos_read_data.csv.gz: has no time column: give its sampling rate')
        kind = 'what the efforts are (--effort-kind)'
        choose(browser, kind, 'motor_torque: at the motor', 2)
        for label, text in FACTS.items():
            fill(browser, label, text)
        browser.tab_to('Draft the experiment')
        browser.press('Enter')
        browser.wait_for_text('effort: gravity in the efforts has this times', 90)
        browser.wait_for_text('45000 samples', 90)
        assert browser.ask('document.documentElement.scrollWidth') <= 400

        go(browser, 'Identify')
        browser.tab_to('Identify')
        browser.press('Enter')
        browser.wait_for_text('Usable for prediction of efforts alone', 120)

        go(browser, 'Result')
        go(browser, 'Use')
        browser.tab_to('Export urdf')
        browser.press('Enter')
        browser.wait_for_text('window/robot_urdf.urdf', 60)
        # the button was made anew
        browser.wait_for("document.activeElement.innerText.trim() === 'Export urdf'")
        lines = re.findall(r'^robot-identification .*', browser.text(), re.MULTILINE)
        assert browser.ask('document.documentElement.scrollWidth') <= 400
        assert not browser.faults
    exported = folder / 'window' / 'robot_urdf.urdf'
    assert Robot.from_urdf(exported).joints == Robot.from_urdf(folder / 'tx40.urdf').joints
    repeated(folder, [line.split()[1:] for line in lines], exported.read_text())


def repeated(folder, lines, exported):
    """Require that the command lines that were shown write the same files in another folder."""
    assert [words[0] for words in lines] == ['check', 'init', 'identify', 'export']
    other = folder / 'again'
    other.mkdir()
    (other / 'window').mkdir()
    for name in ('tx40.urdf', 'pos_read_data.csv.gz', 'curr_data.csv.gz'):
        shutil.copy(folder / name, other)
    before = Path.cwd()
    os.chdir(other)
    try:
        for words in lines:
            assert main(words) == 0
    finally:
        os.chdir(before)
    made = other / 'window'
    assert (made / 'experiment.yaml').read_text() == (
        folder / 'window/experiment.yaml'
    ).read_text()
    assert (made / 'robot_urdf.urdf').read_text() == exported
    ours, theirs = ((each / 'window/results/result.yaml').read_text() for each in (folder, other))
    ours, theirs = (
        yaml.load(text, yaml.CSafeLoader)
        for text in (ours, theirs.replace(str(other), str(folder)))
    )
    assert ours.pop('timing').keys() == theirs.pop('timing').keys()
    assert ours == theirs


@pytest.mark.timeout(300)
def test_windows_do_not_disturb_each_other_and_outlive_their_pages(folder):
    with running_window(folder, '--out', 'two') as address, driven_browser() as browser:
        browser.open(address)
        browser.wait_for_text('1 Robot', 90)
        root = browser.ask('location.origin + "/"')
        drop(browser, folder / 'tx40.urdf')
        browser.wait_for_text('robot tx40: 6 joints', 90)
        with driven_browser() as other:
            other.open(address)
            other.wait_for_text('1 Robot', 90)
            assert other.ask('location.pathname') == '/window/2'
            drop(other, folder / 'curr_data.csv.gz')
            other.wait_for_text('error: ', 90)
            assert 'robot tx40' not in other.text() and 'error: ' not in browser.text()
        # the page is left while a step is running
        browser.wait_for("!document.querySelector('.running').offsetHeight")
        browser.ask("document.querySelectorAll('[role=tab]')[2].click()")
        browser.tab_to('time for the search [s]')
        browser.type('1')
        browser.tab_to('Plan')
        browser.press('Enter')
        browser.wait_for("document.querySelector('.running').offsetHeight")
        browser.open('about:blank')
        browser.wait_for("location.href === 'about:blank'")
        wait_for_file(folder / 'two' / 'plan' / 'plan.yaml')
        browser.open(root)
        browser.wait_for_text('condition number', 90)  # at the stage that was left
        assert browser.ask('location.pathname') == '/window/1'
        # pages that were closed, and are still looked at, do not turn this one
        for stage, text in {1: 'Draft the experiment', 2: 'time for the search'}.items():
            browser.ask(f"document.querySelectorAll('[role=tab]')[{stage}].click()")
            browser.wait_for_text(text)
            browser.open(browser.ask('location.href'))
            browser.wait_for_text(text)
        # a page with content of files cannot reach the window
        frame = "[...document.querySelectorAll('iframe')].map(f => f.contentDocument)"
        browser.wait_for(f'{frame}.length')
        # the empty document that a frame begins with is the window's own
        browser.wait_for(f'{frame}.every(d => d === null)')
        assert not browser.faults
    assert (folder / 'two' / 'dropped' / 'tx40.urdf').exists()
    assert (folder / 'two_2' / 'dropped' / 'curr_data.csv.gz').exists()


def drop(browser, path):
    """Give a file to the first place for files."""
    document = browser.call('DOM.getDocument')['root']['nodeId']
    place = browser.call('DOM.querySelector', nodeId=document, selector='input[type=file]')
    browser.call('DOM.setFileInputFiles', nodeId=place['nodeId'], files=[str(path)])


def wait_for_file(path):
    """Wait for a file for a minute."""
    end = time.monotonic() + 60.0
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.1)
