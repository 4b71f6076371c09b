# SPDX-License-Identifier: Apache-2.0
"""The page of a motion: self-contained, right in its numbers, and alive in a real browser."""

import base64
from dataclasses import replace
from html.parser import HTMLParser
import json
from pathlib import Path
import re

from browser import run_in_browser
import numpy as np
import pinocchio as pin
import pytest
from robot_identification.excitation.bases import FourierTrajectory, rest_to_rest
from robot_identification.excitation.collisions import collision_model, Coverage
from robot_identification.excitation.constraints import check_trajectory
from robot_identification.excitation.criteria import PredictedDeviations
from robot_identification.excitation.limits import motion_limits
from robot_identification.excitation.plan_page import MotionPage, plan_html
from robot_identification.excitation.settings import Obstacle, PlannerSettings, with_floor
from robot_identification.excitation.trajectories import PointTrajectory
from robot_identification.model.robot import Robot

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'demo_arm.urdf'
OBSTACLES = (
    Obstacle('</script><script>alert(1)', size=(0.3, 0.3, 0.3), position=(1.2, 0.0, 0.2)),
    Obstacle('tool', 'sphere', size=(0.05,), position=(0.0, 0.0, 0.05), link='tool_flange'),
)


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(URDF)


@pytest.fixture(scope='module')
def motion(robot):
    free = rest_to_rest(4.0, 0.25, 3)
    coefficients = free @ np.random.default_rng(3).normal(size=(free.shape[1], 6))
    return FourierTrajectory(robot.joints, 4.0, 0.25, np.full(6, 0.2), 0.4 * coefficients)


@pytest.fixture(scope='module')
def content(robot, motion):
    settings = PlannerSettings(obstacles=OBSTACLES)
    limits = motion_limits(robot, settings, margin=0.0)
    collisions = collision_model(robot, settings.clearance, settings.all_obstacles)
    return MotionPage(
        robot,
        motion,
        limits,
        check_trajectory(robot, motion, limits, collisions=collisions),
        collisions=collisions,
        obstacles=settings.all_obstacles,
        deviations=PredictedDeviations(
            ('link_1.Izz', 'joint_1.fv'),
            ('kg m^2', 'N m s/rad'),
            std=np.array([0.2, 0.5]),
            values=np.array([2.0, 0.0]),
        ),
        warnings=('mind <this>',),
    )


@pytest.fixture(scope='module')
def page(content):
    return plan_html(content)


class Reader(HTMLParser):
    """Collects tags, addresses and the texts of table cells."""

    def __init__(self):
        super().__init__()
        self.tags, self.addresses, self.cells = [], [], []
        self.cell = False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ('src', 'href')]
        self.cell = tag == 'td'
        if self.cell:
            self.cells.append('')

    def handle_endtag(self, tag):
        self.cell = False

    def handle_data(self, data):
        if self.cell:
            self.cells[-1] += data


def test_needs_nothing_beside_it_and_runs_no_text_of_a_user(page):
    reader = Reader()
    reader.feed(page)
    assert reader.tags.count('script') == 2
    assert reader.addresses == []
    assert 'http' not in page and 'url(' not in page and 'import' not in page
    assert 'mind &lt;this&gt;' in page
    assert len(page) < 400_000


def test_deviations_tell_how_often_the_motion_has_to_be_executed(page):
    reader = Reader()
    reader.feed(page)
    cells = [cell.strip() for cell in reader.cells[:12]]
    # 10 % is to become 5 %, and deviations fall with the root of the number
    assert cells[:6] == ['link_1.Izz', '2', '0.2', 'kg m²', '10.00', '4']
    assert cells[6:12] == ['joint_1.fv', '0', '0.5', 'N m s/rad', '–', '–']


def test_curves_are_those_of_the_motion(robot, motion, page):
    """The largest share of the limit at the curve is the one that the check finds."""
    shares = [int(text) for text in re.findall(r'class="used">(\d+) %', page)]
    found = np.array(shares[:30]).reshape(6, 5)
    limits = motion_limits(robot, PlannerSettings(), margin=0.0)
    use = check_trajectory(robot, motion, limits).use.quantities
    for column, name in enumerate(('position', 'velocity', 'acceleration', 'jerk', 'effort')):
        assert found[:, column] == pytest.approx(100.0 * use[name], abs=1.5), name


def test_the_smallest_distance_is_the_one_that_the_check_finds(content, page):
    data = json.loads(re.search(r'^const data = (.*);$', page, re.MULTILINE)[1])
    near = content.findings.nearest[0]
    values = np.frombuffer(base64.b64decode(data['distances']['values']), '<f4')
    assert values.min() == pytest.approx(near.distance, abs=2e-3)
    row = round(near.time / 4.0 * (len(values) - 1))
    assert values[row] == pytest.approx(near.distance, abs=2e-3)
    named = data['distances']['pairs'][data['distances']['nearest'][row]]
    assert near.first in named and near.second in named


# ------------------------------------------------------------------------------------ the browser

SCRIPT = """
const canvas = document.getElementById('scene'), gl = canvas.getContext('webgl2');
function picture() {
  scene.draw();
  const values = new Uint8Array(4 * canvas.width * canvas.height);
  gl.readPixels(0, 0, canvas.width, canvas.height, gl.RGBA, gl.UNSIGNED_BYTE, values);
  return new Uint32Array(values.buffer);
}
const differing = (a, b) => a.reduce((count, value, i) => count + (value !== b[i]), 0);
const finger = (kind, id, x, y) =>
  canvas.dispatchEvent(new PointerEvent(kind, {pointerId: id, clientX: x, clientY: y}));
const report = {};
const first = picture();
report.colours = new Set(first).size;
report.corner = [...new Uint8Array(first.buffer, first.byteLength - 4, 3)];
show(0.5 * duration);
report.moved = differing(first, picture());
report.value = plots[1].value.textContent;
report.poses = scene.poses(0.5 * duration);
let last = picture();
finger('pointerdown', 1, 200, 200); finger('pointermove', 1, 260, 220);
finger('pointerup', 1, 0, 0);
report.turned = differing(last, picture());
last = picture();
canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -200, cancelable: true}));
report.zoomed = differing(last, picture());
last = picture();
finger('pointerdown', 1, 200, 200); finger('pointerdown', 2, 260, 200);
finger('pointermove', 2, 360, 200); finger('pointerup', 1, 0, 0); finger('pointerup', 2, 0, 0);
report.pinched = differing(last, picture());
canvas.dispatchEvent(new MouseEvent('dblclick'));
show(0);
report.reset = differing(first, picture());
document.getElementById('play').click();
const began = Date.now();
while (time < 0.05 && Date.now() - began < 60000)
  await new Promise((done) => setTimeout(done, 20));
report.played = time;
document.getElementById('play').click();
return report;
"""


@pytest.fixture(scope='module')
def reports(page, tmp_path_factory):
    """Return what the page did in a browser, by colour scheme."""
    cases = {scheme: (900, scheme) for scheme in ('light', 'dark')}
    return run_in_browser(page, SCRIPT, tmp_path_factory.mktemp('browser'), cases)


@pytest.mark.parametrize(('scheme', 'sky'), [('light', '#e9edf2'), ('dark', '#22262d')])
def test_the_browser_draws_plays_and_turns_without_an_error(reports, scheme, sky):
    report = reports[scheme]
    assert report['faults'] == []
    assert report['colours'] > 50
    assert bytes(report['corner']).hex() == sky[1:]
    for action in ('moved', 'turned', 'zoomed', 'pinched'):
        assert report[action] > 500, action
    assert report['reset'] == 0
    assert 0.05 <= report['played'] < 4.0


def test_the_browser_places_the_links_as_pinocchio_does(reports, robot, motion):
    model, data = robot.model, robot.model.createData()
    position = motion.sample(np.array([2.0])).position[0]
    pin.forwardKinematics(model, data, robot.configuration(position))
    for index, pose in enumerate(reports['light']['poses'], 1):
        found = np.array(pose).reshape(4, 4).T
        # positions are interpolated between samples
        assert found == pytest.approx(data.oMi[index].homogeneous, abs=2e-3)


def test_the_browser_shows_the_values_at_the_time_of_the_player(reports, motion):
    speed = motion.sample(np.array([2.0])).velocity[0, 0]
    assert reports['light']['value'].endswith(' rad/s')
    assert float(reports['light']['value'].split()[0]) == pytest.approx(speed, abs=0.02)


@pytest.mark.parametrize(
    ('change', 'level', 'words'),
    [
        ({}, 'good', 'Within all limits and free of collision'),
        ({'collisions': None}, 'weak', 'collisions not checked'),
        ({'refusal': 'too fast', 'findings': None}, 'poor', 'too fast'),
    ],
)
def test_the_verdict_and_its_colour_are_those_of_what_was_checked(content, change, level, words):
    text = plan_html(replace(content, **change))
    verdict = re.search(r'<section class="verdict (\w+)".*?</section>', text, re.S)
    assert verdict[1] == level and words in verdict[0]
    counted = re.search(r'(\d+) of (\d+) pairs of shapes checked', verdict[0])
    assert (counted is not None) == (level == 'good')


def test_a_check_of_some_links_alone_is_not_green(content):
    coverage = Coverage(60, 10, 2, ('link_5',), 12)
    partly = replace(content, findings=replace(content.findings, coverage=coverage, stopping=0.31))
    text = plan_html(partly)
    assert '<section class="verdict weak"' in text
    assert 'collisions checked in part' in text and 'without their meshes: link_5' in text
    assert 'which take 0.31 s at most' in text


def test_tracking_errors_and_what_is_held_are_said(content):
    robot = Robot.from_urdf(URDF, content.robot.joints[:5], locked={'joint_6': 0.25})
    rest = np.zeros((2, 5))
    motion = PointTrajectory(robot.joints, np.array([0.0, 2.0]), rest + 0.8, rest, rest)
    limits = motion_limits(robot, PlannerSettings(), margin=0.0)
    collisions = collision_model(robot, 0.01, with_floor((), 0.0), (0.05,))
    findings = check_trajectory(robot, motion, limits, collisions=collisions)
    text = plan_html(MotionPage(robot, motion, limits, findings, collisions=collisions))
    assert 'Held: joint_6 at 0.25' in text
    assert 'also where each joint is 0.05 rad off its path' in text
    assert 'mm without tracking errors' in text
