# SPDX-License-Identifier: Apache-2.0
"""Names that ``from robot_identification import ...`` offers; the import costs nothing."""

import ast
from importlib import import_module
from pathlib import Path
import re
import subprocess
import sys

import pytest
import robot_identification

ROOT = Path(__file__).resolve().parents[1]


PACKAGES = [f'robot_identification{room}' for room in ('', '.excitation', '.signals')]
NAMES = [(each, name) for each in PACKAGES for name in import_module(each).__all__]


@pytest.mark.parametrize(('package', 'name'), NAMES)
def test_every_public_name_is_there(package, name):
    assert getattr(import_module(package), name)


@pytest.mark.parametrize('package', PACKAGES)
def test_all_names_are_listed_before_they_are_used(package):
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize('package', PACKAGES)
def test_no_module_has_the_name_of_what_another_one_offers(package):
    """Importing the module would put it in the name's place."""
    home = ROOT.joinpath(*package.split('.'))
    modules = {path.stem for path in home.glob('*.py')}
    modules |= {path.parent.name for path in home.glob('*/__init__.py')}
    assert not modules & set(import_module(package).__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'robot_identification' has no attribute 'robbot'"):
        _ = robot_identification.robbot
    with pytest.raises(ImportError, match='robbot'):
        from robot_identification import robbot  # noqa: F401


def test_importing_the_package_loads_nothing_else():
    code = (
        'import sys; before = set(sys.modules); import robot_identification; '
        'print(*sorted(set(sys.modules) - before))'
    )
    loaded = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    heavy = {'numpy', 'scipy', 'pinocchio', 'lxml', 'yaml', 'plotly', 'mujoco', 'rclpy'}
    assert not heavy & {name.partition('.')[0] for name in loaded}
    own = [name for name in loaded if name.startswith('robot_identification.')]
    support = 'robot_identification.support'
    assert own == [support, f'{support}.lazy_names']


@pytest.mark.parametrize(
    'page',
    [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_examples_of_a_page_import_names_that_there_are(page):
    for example in re.findall(r'```python\n(.*?)```', page.read_text('utf-8'), re.DOTALL):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.ImportFrom) and 'robot_identification' in node.module:
                module = import_module(node.module)
                missing = {alias.name for alias in node.names} - set(dir(module))
                assert not missing, node.module


def test_the_page_of_the_api_has_every_public_name():
    page = (ROOT / 'docs' / 'reference' / 'api.md').read_text(encoding='utf-8')
    listed = re.findall(r'^\.\. auto\w+:: (\w+)$', page, re.MULTILINE)
    assert sorted(listed) == sorted(robot_identification.__all__)
