# SPDX-License-Identifier: Apache-2.0
"""The HTML report: self-contained, complete, and safe with whatever names occur in it."""

import csv
from dataclasses import replace
from html.parser import HTMLParser
import json
from pathlib import Path
import re
import sys

from browser import run_in_browser
from markupsafe import escape
import numpy as np
import pytest
from robot_identification.config.experiment import Experiment
from robot_identification.data.drives import Drives, EffortDrive
from robot_identification.data.recording import Motion, Recording
from robot_identification.errors import IdentificationWarning
from robot_identification.estimation.estimate import Identifiability
from robot_identification.estimation.plot_samples import FitTrace
from robot_identification.figures.figure import library
from robot_identification.figures.page import number, percent, seconds
from robot_identification.identification import pipeline
from robot_identification.model.robot import Robot
from robot_identification.options.fields import from_mapping
from robot_identification.pages.report import collect_warnings, html, settings_text
from robot_identification.regressor import (
    build,
    ModelSettings,
    prior,
)
from robot_identification.signals import SignalSettings
from robot_identification.verdicts.verdict import verdict
from robot_identification.version import REPOSITORY
import yaml

URDF = Path(__file__).resolve().parents[2] / 'urdf' / 'szabo_3r.urdf'
SECOND = '../../recordings/of_a_robot_with_a_long_name/run_2.mcap'


def recording(robot, seed, source):
    """Sample a sum of sines; effort by the regressor, with noise."""
    random = np.random.default_rng(seed)
    time = np.arange(2000) / 200.0
    q, v, a = np.zeros((3, time.size, robot.n_joints))
    for j in range(robot.n_joints):
        for k in (1, 2, 3):
            w, phase = 2.0 * np.pi * 0.3 * k, random.uniform(0.0, 6.0)
            q[:, j] += 0.3 * np.sin(w * time + phase)
            v[:, j] += 0.3 * w * np.cos(w * time + phase)
            a[:, j] -= 0.3 * w**2 * np.sin(w * time + phase)
    values = prior(robot, ModelSettings()).values
    tau = build(robot, ModelSettings()).rows(Motion(q, v, a)) @ (1.1 * values + 0.05)
    tau = tau.reshape(time.size, robot.n_joints) + 0.05 * random.standard_normal(q.shape)
    return Recording(time, q, tau, robot.joints, source=source)


@pytest.fixture(scope='module')
def result():
    robot = Robot.from_urdf(URDF)
    problem = pipeline.IdentificationProblem(
        robot, signals=SignalSettings(cutoff=15.0, dead_zone=0.05)
    )
    return pipeline.identify_sources(
        problem, [recording(robot, 1, 'run <1> & more')], [recording(robot, 2, SECOND)]
    )


@pytest.fixture(scope='module')
def page(result):
    return html(result)


class Checker(HTMLParser):
    """Collects the tags, and that they are closed in order."""

    VOID = frozenset({'meta', 'img', 'br', 'link', 'hr', 'input'})

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f'</{tag}> closes {self.open[-3:]}'
        self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope='module')
def checked(page):
    checker = Checker()
    checker.feed(page)
    assert not checker.open
    return checker


def test_needs_nothing_beside_it(page, checked):
    """No network: no source is outside of the page, every link is a place on it."""
    assert checked.tags.count('script') == 4
    assert not {'link', 'img'} & set(checked.tags)
    for _, name, value in checked.attributes:
        assert name != 'src'
        if name == 'href':
            assert ('id', value[1:]) in [(n, v) for _, n, v in checked.attributes]
    # texts name pages of the documentation; an address in a text loads nothing
    own = page.replace(library(), '').replace(REPOSITORY, '')
    own = re.sub('"bdata": ?"[^"]*"', '', own)  # base64 has every short word some day
    assert 'url(' not in own and 'http' not in own and 'import' not in own
    assert len(page) < 3_000_000


def test_the_errors_to_expect_are_a_table_by_joint(result, page):
    expected = result.predicted
    assert expected is not None
    table = page.partition('id="expected"')[2].partition('</table>')[0]
    cells = [' '.join(cell.split()) for cell in re.findall(r'<td[^>]*>(.*?)</td>', table, re.S)]
    rows = [cells[at : at + 6] for at in range(0, len(cells), 6)]
    assert rows[:-1] == [
        [
            f'<code>{joint}</code>',
            number(expected.speeds[j], 3),
            percent(expected.relative[j]),
            number(expected.contact[j], 3),
            result.units[joint],
            percent(expected.inertia[j]),
        ]
        for j, joint in enumerate(expected.joints)
    ]
    assert rows[-1][2] == percent(expected.relative_error)
    assert 'id="expected"' not in html(replace(result, predicted=None))


def test_every_parameter_and_joint_is_there(result, checked):
    text = ' '.join(' '.join(checked.text).split())
    for name in result.structure.names + result.standard.layout.names + result.robot.joints:
        assert name in text
    for expression in result.estimate.expressions:
        assert expression in text
    for fit in (*result.estimate.fit.joints, *result.validations[0].joints):
        assert percent(fit.relative_error) in text
    for p in result.estimate:
        assert number(p.value, 5) in text
    assert 'Validation on recordings' in text
    joints = [value for _, name, value in checked.attributes if name == 'data-joint' and value]
    assert joints == 2 * list(result.robot.joints)
    numbers = [value for _, name, value in checked.attributes if name == 'data-figure']
    # the links, a joint's fit, its residuals and its validation, and three of all parameters
    assert numbers == [str(i) for i in range(1 + 3 * 3 + 3)]


def test_long_recordings_fit_into_a_page(result):
    """Lines share the points of a page; peaks stay (`test_fit_plots.py`)."""
    seen = result.validations[0]
    random = np.random.default_rng(0)
    joints = 20_000, 3
    trace = FitTrace(
        np.arange(20_000) / 30.0, np.zeros(20_000, dtype=int), random.normal(size=joints),
        random.normal(size=joints), np.ones(joints, dtype=bool),
    )  # fmt: skip
    page = html(replace(result, validations=(replace(seen, trace=trace),) * 8))
    data = json.loads(re.search(r'id="figure-data">(.*?)</script>', page)[1])
    sizes = [
        len(data['arrays'][part['x']['$']]['bdata']) * 3 // 16
        for figure in data['figures']
        for part in figure['data']
        if part.get('name') == 'measured'
    ]
    assert len(sizes) == 9 * 3
    assert max(sizes) > 2000
    assert sum(sizes) < 100_000
    assert len(page) < 6_000_000


@pytest.fixture
def without_plotly(monkeypatch):
    library.cache_clear()
    monkeypatch.setitem(sys.modules, 'plotly.offline', None)


def test_without_plotly_and_matplotlib_there_are_no_figures(result, without_plotly, monkeypatch):
    monkeypatch.setitem(sys.modules, 'matplotlib', None)
    with pytest.warns(IdentificationWarning, match='pip install plotly'):
        page = html(result)
    assert 'pip install plotly' in page
    assert 'class="figure"' not in page
    assert 'id="validation"' in page and 'Copy as CSV' in page


def test_without_plotly_the_same_figures_are_static(result, page, without_plotly):
    pytest.importorskip('matplotlib', reason='needs matplotlib, which is no requirement')
    labels = re.compile('class="figure".*?aria-label="(.*?)"')
    static = html(result)
    assert labels.findall(static) == labels.findall(page)
    assert static.count('<svg') == len(labels.findall(page)) > 9
    assert 'data-figure' not in static and 'Drag to' not in static
    assert 'matplotlib' in static and len(static) < 3_000_000
    checker = Checker()
    checker.feed(static)
    assert not checker.open
    names = [value for _, name, value in checker.attributes if name == 'id']
    assert len(names) == len(set(names))


def test_clocks_and_delays_are_told(result, checked):
    assert [clock.source for clock in result.recorded.clocks] == ['run <1> & more', SECOND]
    assert [clock.samples for clock in result.recorded.clocks] == [2000, 2000]
    assert result.recorded.clocks[0].rate == pytest.approx(200.0)
    late = result.recorded.effort_delay
    assert late.joints == result.robot.joints
    told = np.isfinite(late.delay)
    assert told.any()
    assert (np.abs(late.delay[told]) < 5.0 * late.std[told]).all(), 'there is no delay'
    text = ' '.join(checked.text)
    assert '200 Hz' in text
    assert 'Delay of efforts behind positions' in text


def test_names_are_escaped(page, checked):
    assert 'run &lt;1&gt; &amp; more' in page
    assert 'run <1>' not in page
    assert any('run <1> & more' in text for text in checked.text)


def test_warnings_come_first(result, checked):
    page = html(replace(result, warnings=('mind <this>', 'mind that')))
    assert 0 < page.index('mind &lt;this&gt;') < page.index('id="fit"')
    # two words: the base64 of figures has every short word some day
    assert not any('mind that' in text for text in checked.text)


def test_not_excited_and_no_validation(result):
    """Parameters without excitation have no std; a page without validation has no section."""
    b = len(result.estimate)
    excited, std = np.ones(b, dtype=bool), np.array(result.estimate.std)
    excited[0], std[0] = False, np.nan
    reasons = ('joint_1 stands still', *result.estimate.identifiability.reasons[1:])
    estimate = replace(
        result.estimate,
        identifiability=Identifiability(excited, reasons),
        uncertainty=replace(result.estimate.uncertainty, std=std),
    )
    estimation = replace(result.settings.estimation, essential=None)
    changed = replace(
        result, estimate=estimate, essential=None, validations=(), standard_covariance=None,
        settings=replace(result.settings, estimation=estimation), timing={},
    )  # fmt: skip
    page = html(changed)
    assert 'joint_1 stands still' in page
    assert 'not excited' in page
    assert 'id="validation"' not in page


def test_not_physical_is_said(result):
    from robot_identification.model.consistency import check
    from robot_identification.model.parameters import ParameterSet

    wrong = ParameterSet(result.standard.layout, -np.abs(result.standard.values) - 0.1)
    page = html(replace(result, standard=wrong, consistency=check(wrong)))
    assert 'physically inconsistent' in page
    assert 'fails' in page


def test_it_opens_with_the_verdict_then_the_links_then_the_figures(result, page):
    judged = verdict(result)
    assert escape(judged.sentence) in page
    for step in judged.next_steps:
        assert escape(step.next_step) in page
    places = [page.index(f'id="{name}"') for name in ('verdict', 'links', 'figures', 'fit')]
    assert places == sorted(places)
    links = page[places[1] : places[2]]
    for row in result.link_table().links:
        assert f'<code>{row.link}</code>' in links
        assert number(row.after.mass) in links


def test_colours_are_those_of_the_deviation_that_is_shown(result):
    """A parameter that is kept as essential may still be poorly known by the estimate shown."""
    std = np.array(result.estimate.std)
    kept = int(np.flatnonzero(result.essential.essential)[0])
    std[kept] = 9.69 * abs(result.estimate.base.values[kept])
    uncertainty = replace(result.estimate.uncertainty, std=std)
    page = html(replace(result, estimate=replace(result.estimate, uncertainty=uncertainty)))
    name = result.structure.names[kept]
    (row,) = re.findall(rf'<tr><td><code>{re.escape(name)}</code></td>.*?</tr>', page, re.DOTALL)[
        :1
    ]
    assert '<td class="n poor">969</td>' in row and '<td class="state">essential</td>' in row


def test_each_link_has_its_sentence(result, page):
    for known in result.link_knowledge():
        head = f'<tr><td><code>{known.link}</code></td><td class="soft">'
        (row,) = re.findall(f'{re.escape(head)}.*?</tr>', page, re.DOTALL)
        assert known.sentence in row


def test_settings_are_those_of_an_experiment_file(result):
    content = yaml.safe_load(settings_text(result))
    content['robot']['effort_kind'] = 'joint_torque'
    experiment = from_mapping(Experiment, content)
    assert experiment.signals == result.settings.signals
    assert experiment.estimation == result.settings.estimation
    assert experiment.robot.model == result.settings.model
    assert experiment.robot.joints == result.robot.joints


def test_notes_and_the_meaning_of_efforts_are_shown(result):
    noted = replace(result.estimate, notes=('3 <outliers>',))
    drives = Drives(effort=EffortDrive(((12.5, 0.0), (0.0, 12.5))))
    settings = replace(result.settings, effort_kind='motor_current', drives=drives)
    page = html(replace(result, estimate=noted, settings=settings))
    assert '<li>3 &lt;outliers&gt;</li>' in page
    assert 'effort_kind: motor_current' in page
    assert '[12.5, 0.0]' in page
    plain = replace(result, estimate=replace(result.estimate, notes=()))
    assert 'class="notes"' not in html(plain)


def test_warnings_of_all_parts_once(result):
    parts = replace(
        result,
        warnings=('a', 'b'),
        estimate=replace(result.estimate, warnings=('b', 'c')),
        structure=replace(result.structure, warnings=('d',)),
    )
    assert set(collect_warnings(parts)) == {'a', 'b', 'c', 'd'}
    assert len(collect_warnings(parts)) == 4


def test_units_of_sliding_joints():
    urdf = URDF.read_text()
    assert Robot.from_urdf(urdf).effort_units == ('N m',) * 3
    sliding = urdf.replace('name="joint_3" type="revolute"', 'name="joint_3" type="prismatic"')
    assert Robot.from_urdf(sliding).effort_units == ('N m', 'N m', 'N')


@pytest.mark.parametrize(
    ('value', 'text'),
    [
        (1234.5678, '1235'),
        (0.000012345, '1.234e−5'),
        (-0.5, '−0.5'),
        (6.02e23, '6.02e23'),
        (float('nan'), '–'),
        (None, '–'),
        (float('inf'), '∞'),
        (0.0, '0'),
    ],
)
def test_number(value, text):
    assert number(value) == text


def test_percent_and_seconds():
    assert [percent(v) for v in (0.123, 99.999, 123.4, 2e5, None)] == [
        '0.12', '100.00', '123', '> 9999', '–'
    ]  # fmt: skip
    assert [seconds(v) for v in (0.0123, 2.5)] == ['12 ms', '2.50 s']


# ------------------------------------------------------------------------------------ the browser

SCRIPT = """
const root = document.documentElement, report = {};
const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
async function until(holds) {
  for (let i = 0; i < 400 && !holds(); i++) await wait(0.05);
  return Boolean(holds());
}
const all = (selector) => [...document.querySelectorAll(selector)];
report.ready = await until(() => root.dataset.figures === 'ready');
document.querySelectorAll('details').forEach((part) => { part.open = true; });
for (const div of all('[data-figure]')) {
  div.scrollIntoView();
  await until(() => div.querySelector('.main-svg') && div.data);
}
report.drawn = all('[data-figure] .main-svg').length > 0
  && all('[data-figure]').every((div) => div.data && div.querySelector('.main-svg'));
report.lines = all('[data-joint=joint_1] .scatterlayer path.js-line').length;
// nothing is wider than the page but what scrolls
report.width = root.scrollWidth - root.clientWidth;
report.paper = getComputedStyle(all('.figure')[0]).backgroundColor;
report.text = getComputedStyle(all('.xtick text')[0]).fill;

const fits = all('[data-time="identification 0"]');
const ranges = () => fits.map((div) => [...div.layout.xaxis.range]);
fits[0].scrollIntoView({block: 'center'});
await wait(0.5);
report.whole = ranges();
const area = fits[0].querySelector('.nsewdrag'), box = area.getBoundingClientRect();
const mouse = (target, kind, share, buttons) => target.dispatchEvent(new MouseEvent(kind, {
  bubbles: true, cancelable: true, view: window, button: 0, buttons,
  clientX: box.left + share * box.width, clientY: box.top + 0.5 * box.height}));
mouse(area, 'mousedown', 0.25, 1);
for (const share of [0.4, 0.6, 0.75]) mouse(document, 'mousemove', share, 1);
mouse(document, 'mouseup', 0.75, 0);
await until(() => ranges()[2][0] > 1);
report.zoomed = ranges();
await Plotly.relayout(fits[1], {'xaxis.range': report.whole[0]});
await until(() => ranges()[2][0] < 1);
report.back = ranges();

const [everything, first] = all('.joints')[0].querySelectorAll('button');
first.click();
report.hidden = all('[data-joint=joint_1]').map((div) => div.hidden);
report.others = all('[data-joint=joint_2]').map((div) => div.hidden);
everything.click();
report.shown = all('[data-joint=joint_1]').map((div) => div.hidden);

const table = all('#parameters ~ details table')[0];
const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].innerText.trim());
const values = () => [...table.tBodies[0].rows].map((row) =>
  Number(row.cells[2].innerText.replace('\u2212', '-')));
report.names = names();
table.tHead.rows[0].cells[2].querySelector('button').click();
report.ascending = values();
table.tHead.rows[0].cells[2].querySelector('button').click();
report.descending = values();
let copied;
Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (t) => { copied = t; }}});
all('button.copy')[0].click();
await until(() => copied);
report.links = copied;

dispatchEvent(new Event('beforeprint'));
await wait(1);
report.printed = getComputedStyle(all('.xtick text')[0]).fill;
report.paged = Math.max(...all('.figure').map((div) => div.getBoundingClientRect().width));
dispatchEvent(new Event('afterprint'));
return report;
"""

CASES = {'narrow': (400, 'dark'), 'usual': (1200, 'light'), 'wide': (2000, 'light')}


@pytest.fixture(scope='module')
def reports(page, tmp_path_factory):
    """Return what the page did in a browser, by case."""
    return run_in_browser(page, SCRIPT, tmp_path_factory.mktemp('browser'), CASES)


@pytest.mark.parametrize('case', CASES)
def test_the_browser_draws_every_figure_without_a_complaint(reports, case):
    report = reports[case]
    assert report['faults'] == []
    assert report['ready'] and report['drawn']
    assert report['lines'] >= 6
    assert report['width'] <= 0
    light = case != 'narrow'
    assert report['paper'] == ('rgb(255, 255, 255)' if light else 'rgb(31, 34, 39)')
    assert report['text'] == ('rgb(34, 38, 44)' if light else 'rgb(228, 231, 236)')
    # on paper everything is light and fits
    assert report['printed'] == 'rgb(34, 38, 44)'
    assert report['paged'] <= 690


@pytest.mark.parametrize('case', CASES)
def test_all_joints_zoom_together(reports, case):
    report = reports[case]
    start, end = report['whole'][0]
    length = end - start
    assert report['whole'] == [[start, end]] * 3
    for low, high in report['zoomed']:
        assert low == pytest.approx(start + 0.25 * length, abs=0.02 * length)
        assert high == pytest.approx(start + 0.75 * length, abs=0.02 * length)
    assert report['back'] == [[start, end]] * 3


def test_joints_are_switched_off_and_on(reports):
    report = reports['usual']
    assert report['hidden'] == [True, True]
    assert report['others'] == report['shown'] == [False, False]


def test_tables_sort_and_copy(reports, result):
    report = reports['usual']
    assert report['names'] == list(result.structure.names)
    values = [float(f'{p.value:.5g}') for p in result.estimate]
    assert report['ascending'] == pytest.approx(sorted(values))
    assert report['descending'] == pytest.approx(sorted(values, reverse=True))
    rows = list(csv.reader(report['links'].splitlines()))
    first = result.link_table().links[0]
    assert rows[0][:4] == ['link', '', 'mass [kg]', 'change [%]']
    assert [row[:2] for row in rows[1:4]] == [[first.link, k] for k in ('before', 'after', 'std')]
    assert float(rows[2][2]) == pytest.approx(first.after.mass, rel=1e-3)
    assert len({len(row) for row in rows}) == 1
