# SPDX-License-Identifier: Apache-2.0
"""The window beside a simulated arm, in a real browser: from the plan to the verdict."""

from pathlib import Path
import time

from driven_browser import choose, driven_browser, fill, go, running_window, wait_for_stage
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy): run `make test`')
pytest.importorskip('nicegui', reason='the extra window is missing')

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'


@pytest.fixture
def robot(ros, tmp_path):
    """Start a simulated arm with its nodes."""
    clock = {'use_sim_time': True}
    ros.start('simulation', parameters={'urdf': str(URDF), 'rate': 250.0}, wait=False)
    ros.start('recorder', parameters={**clock, 'output': str(tmp_path)}, wait=False)
    motion = {'execute': True, 'stale_timeout': 5.0, 'settle_time': 20.0, 'move_speed': 0.9}
    node = ros.start('excitation', parameters={**clock, **motion}, wait=False)
    node.wait_for_output('with joints')
    return ros


MOVE = "[...document.querySelectorAll('button')].find(b => /^Move|^Press/.test(b.innerText))"


def press(browser, label):
    """Press a button by the keyboard once it is there."""
    browser.wait_for_text(label)
    browser.tab_to(label)
    browser.press('Enter')


def show(browser, title):
    """Open a stage by its tab."""
    every = "[...document.querySelectorAll('[role=tab]')]"
    tab = f"{every}.find(each => each.innerText.includes('{title}'))"
    browser.ask(f'{tab}.click()')
    browser.wait_for(f"{tab}.getAttribute('aria-selected') === 'true'")


@pytest.mark.timeout(300)
def test_from_a_plan_over_a_motion_to_the_verdict(robot, tmp_path):
    ending = (
        r'canceling the motion; .*\n.* fails: canceled; the robot is at rest\n'
        rf"the recorder goes on recording '{tmp_path}/beside': robot-identification node end .*\n"
    )
    with (
        driven_browser() as browser,
        running_window(tmp_path, URDF, ending=ending) as address,
    ):
        browser.open(address, width=400, height=800)
        browser.wait_for_text('robot szabo_3r', 90)
        browser.wait_for("!document.querySelector('.running').offsetHeight")
        show(browser, 'Motion')
        for label, text in {'duration [s]': '3', 'time for the search [s]': '0.3'}.items():
            fill(browser, label, text)
        press(browser, 'Plan')
        browser.wait_for_text('condition number', 90)

        show(browser, 'Live')
        browser.tab_to('namespace of the nodes')
        browser.press('Tab')
        browser.press('Enter')
        browser.wait_for_text('3 joints at', 60)
        go(browser, 'Arm')
        press(browser, 'Take the plan of stage 3')
        move(browser, speed='1')
        browser.wait_for_text('executed in', 90)
        browser.wait_for(f'{MOVE}.disabled')  # until the next dry run
        press(browser, f'Identify from {tmp_path}/excitation')
        wait_for_stage(browser, 'Recordings')
        kind = 'what the efforts are (--effort-kind)'
        choose(browser, kind, 'motor_torque: at the motor', 1)
        press(browser, 'Draft the experiment')
        browser.wait_for_text('samples', 90)
        go(browser, 'Identify')
        browser.tab_to('Expand "Settings that are given"')
        browser.press('Enter')
        fill(browser, 'KEY=VALUE by lines, as --set takes them', 'auto=false')
        browser.ask('document.activeElement.blur()')
        press(browser, 'Identify')
        browser.wait_for_text('errors to expect', 120)

        show(browser, 'Arm')
        move(browser, speed='0.2')
        press(browser, 'Cancel')
        browser.wait_for_text('canceled; the robot is at rest', 60)
        show(browser, 'Live')
        fill(browser, 'name of the recording', 'beside')
        press(browser, 'Record')
        browser.wait_for_text(f'recording {tmp_path}/beside', 60)
        show(browser, 'Arm')
        fill(browser, 'name of the recording', '')
        move(browser, speed='0.2')
        assert browser.ask('document.documentElement.scrollWidth') <= 400
        assert not browser.faults
    assert (tmp_path / 'window' / 'results' / 'verdict.json').exists()


def move(browser, speed):
    """Have the motion checked, confirm it twice, and wait until it is under way."""
    fill(browser, 'share of the planned speed', speed)
    browser.wait_for(f'{MOVE}.disabled')
    press(browser, 'Dry run: every check, nothing moves')
    press(browser, 'Move the robot: press twice')
    assert not browser.text().count('exciting')
    time.sleep(0.6)
    press(browser, 'Press again: the robot moves')
    browser.wait_for_text('exciting', 60)
