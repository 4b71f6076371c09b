# SPDX-License-Identifier: Apache-2.0
"""Both ROS packages are found where the pages look for them, and what a release needs agrees."""

import datetime
import os
from pathlib import Path
import re
import runpy
import subprocess
import sys
import xml.etree.ElementTree

import pytest
from robot_identification.version import REPOSITORY
import yaml

ROOT = Path(__file__).resolve().parents[1]
BOTH = {'robot_identification', 'robot_identification_msgs'}
PAGES = ('docs/install.md', 'docs/how_to/gazebo.md', 'CONTRIBUTING.md', 'README.md')
FILES = (
    '.github/workflows/test.yml',
    'packaging/Dockerfile.jazzy',
)

catkin_pkg = pytest.importorskip('catkin_pkg', reason='needs catkin_pkg: run `make test`')


def colcon(folder, *arguments):
    """Run colcon in a folder as this environment has it; return its output."""
    done = subprocess.run(
        [sys.executable, '-m', 'colcon', '--log-base', folder / 'log', *arguments],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if key != 'PYTHONPATH'},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(folder, *arguments):
    return set(colcon(folder, 'list', '--names-only', *arguments).split())


def found(folder, paths):
    """Return the packages that catkin_pkg, by which rosdep and bloom search, finds."""
    from catkin_pkg.packages import find_packages

    return {each.name for path in paths for each in find_packages(folder / path).values()}


@pytest.fixture
def workspace(tmp_path):
    """Return a workspace with this repository in ``src``."""
    place = tmp_path / 'src' / 'robot_identification'
    for name in ('package.xml', 'setup.py', 'setup.cfg', 'robot_identification_msgs/package.xml'):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes((ROOT / name).read_bytes())
    messages = ROOT / 'robot_identification_msgs' / 'CMakeLists.txt'
    (place / 'robot_identification_msgs' / 'CMakeLists.txt').write_bytes(messages.read_bytes())
    return tmp_path


def commands():
    """Return the lines of pages and files that look for packages in a workspace."""
    texts = {name: (ROOT / name).read_text(encoding='utf-8') for name in (*PAGES, *FILES)}
    lines = []
    for name, text in texts.items():
        variable = re.search(r'PACKAGES: (.*)', text)
        text = text.replace('$PACKAGES', variable[1] if variable else '')
        for option in ('--from-paths', '--base-paths'):
            lines += [
                (name, option, match) for match in re.findall(rf'{option} ([^-\n`\\)]+)', text)
            ]
    return lines


def test_pages_name_paths_where_both_packages_are_found(workspace):
    plain = [line for line in commands() if line[2] != 'src']
    assert {option for _, option, _ in plain} == {'--from-paths', '--base-paths'}
    assert {name for name, *_ in plain} >= {'docs/install.md', *FILES}
    for paths in {paths for *_, paths in plain}:
        assert listed(workspace, '--base-paths', *paths.split()) == BOTH
        assert found(workspace, paths.split()) == BOTH
    assert listed(workspace) == found(workspace, ['src']) == {'robot_identification'}


def test_a_link_does_the_same_for_plain_commands(workspace):
    text = (ROOT / 'docs/install.md').read_text(encoding='utf-8')
    subprocess.run(re.search(r'`(ln -s .*?)`', text)[1].split(), cwd=workspace, check=True)
    assert listed(workspace) == found(workspace, ['src']) == BOTH


@pytest.fixture(scope='module')
def released(tmp_path_factory):
    if not (ROOT / '.git').exists():
        pytest.skip('needs a git checkout')
    folder = tmp_path_factory.mktemp('release')
    subprocess.run(['make', '-s', 'ros-release', f'DIR={folder}'], cwd=ROOT, check=True)
    return folder


def test_a_release_has_both_packages_side_by_side(released):
    from catkin_pkg.changelog import get_changelog_from_path
    from catkin_pkg.package import parse_package

    assert listed(released) == found(released, ['.']) == BOTH
    for name in BOTH:
        notes = []
        package = parse_package(released / name, warnings=notes)
        assert not notes
        assert {url.type for url in package.urls} == {'website', 'repository', 'bugtracker'}
        assert 'Apache License' in (released / name / 'LICENSE').read_text(encoding='utf-8')
        versions = [
            v for v, *_ in get_changelog_from_path(released / name, name).foreach_version()
        ]
        text = (released / name / 'CHANGELOG.rst').read_text(encoding='utf-8')
        assert package.version in versions or '\nForthcoming\n-' in text
    again = subprocess.run(
        ['make', '-s', 'ros-release', f'DIR={released}'], cwd=ROOT, capture_output=True, text=True
    )
    assert again.returncode and 'has content' in again.stderr


def test_a_dated_changelog_is_read_with_all_its_groups():
    from catkin_pkg.changelog import Changelog, populate_changelog_from_rst

    made = runpy.run_path(str(ROOT / 'scripts' / 'ros_release.py'))
    text = (ROOT / 'CHANGELOG.md').read_text(encoding='utf-8')
    text = text.replace('(unreleased)', '(2026-12-24)')
    read = Changelog('x')
    populate_changelog_from_rst(read, made['changelog'](text, 'x'))
    version = runpy.run_path(str(ROOT / 'robot_identification' / 'version.py'))['__version__']
    assert read.get_date_of_version(version) >= datetime.datetime(2026, 11, 26)
    content = [str(part) for part in read.get_content_of_version(version)]
    assert [part for part in content if part in ('Added', 'Changed', 'Fixed')]
    entries = text.partition(f'\n## {version}')[2].partition('\n## ')[0].count('\n- ')
    assert sum(part.count('\n* ') + part.startswith('* ') for part in content) == entries


def test_colcon_builds_the_released_package(released):
    """Of the two, that in Python: set-up builds the other one, which takes a minute, likewise."""
    colcon(released, 'build', '--packages-ignore', 'robot_identification_msgs')
    prefix = released / 'install' / 'robot_identification'
    assert (prefix / 'share' / 'robot_identification' / 'examples' / 'demo_arm').is_dir()
    program = prefix / 'lib' / 'robot_identification' / 'robot-identification'
    site = next(prefix.glob('lib/python3*/site-packages'))
    answer = subprocess.run(
        [program, '--version'],
        env={**os.environ, 'PYTHONPATH': str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split()[0] == 'robot-identification'


# --- one address, one list of requirements ----------------------------------------------------


def addresses(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    return {url.get('type'): url.text for url in root.iter('url')}


@pytest.fixture(scope='module')
def arguments():
    setuptools = pytest.importorskip('setuptools')
    told = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, 'setup', lambda **given: told.update(given))
        patch.chdir(ROOT)
        runpy.run_path(str(ROOT / 'setup.py'))
    return told


def test_one_repository_everywhere(arguments):
    ours = addresses(ROOT / 'package.xml')
    assert ours == addresses(ROOT / 'robot_identification_msgs' / 'package.xml')
    citation = yaml.safe_load((ROOT / 'CITATION.cff').read_text(encoding='utf-8'))
    recipe = yaml.safe_load((ROOT / 'packaging' / 'recipe.yaml').read_text(encoding='utf-8'))
    there = (citation['repository-code'], arguments['url'], recipe['about']['repository'])
    assert ours['repository'] == REPOSITORY
    assert {ours['website'], ours['repository'], *there} == {ours['repository']}
    assert recipe['source']['url'].startswith(ours['repository'])
    assert all(url.startswith(ours['repository']) for url in arguments['project_urls'].values())


def test_the_description_has_no_relative_link(arguments):
    text = re.sub(r'```.*?```', '', arguments['long_description'], flags=re.DOTALL)
    targets = re.findall(r'\]\(([^)\s]+)\)', text)
    assert len(targets) > 20
    assert all(re.match('https://|#', target) for target in targets)
    base = arguments['url']
    assert f'({base}/raw/HEAD/docs/images/report_1200_light.png)' in text
    for target in targets:
        if below := re.match(rf'{base}/(?:raw|blob)/HEAD/([^#]*)', target):
            assert (ROOT / below[1]).exists(), target


def test_the_recipe_asks_for_what_setup_asks_for(arguments):
    recipe = yaml.safe_load((ROOT / 'packaging' / 'recipe.yaml').read_text(encoding='utf-8'))
    assert recipe['context']['version'] == arguments['version']
    names = {'pin': 'pinocchio-python', 'coal': 'coal-python', 'backports-zstd': 'backports.zstd'}
    wanted = [re.split('>=', item) for item in arguments['install_requires']]
    wanted = {' >='.join([names.get(name, name), *version]) for name, *version in wanted}
    assert wanted == {item for item in recipe['requirements']['run'] if 'python_min' not in item}


def test_the_matrix_has_the_versions_of_python_that_are_promised(arguments):
    text = (ROOT / '.github' / 'workflows' / 'test.yml').read_text(encoding='utf-8')
    tested = yaml.safe_load(text)['jobs']['versions']['strategy']['matrix']['python']
    promised = [name.split(' :: ')[-1] for name in arguments['classifiers'] if ' 3.' in name]
    assert tested == promised
    extras = ','.join(name for name in arguments['extras_require'] if name != 'test')
    assert f'.[{extras}]' in text
