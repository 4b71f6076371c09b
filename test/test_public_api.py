# SPDX-License-Identifier: Apache-2.0
"""What ``from robot_identification import ...`` offers; the import itself costs nothing."""

import ast
from importlib import import_module
from pathlib import Path
import re
import subprocess
import sys

import pytest
import robot_identification

ROOT = Path(__file__).resolve().parents[1]


def imports_for_type_checkers():
    """Map each public name to the module that type checkers are told it comes from."""
    tree = ast.parse((ROOT / 'robot_identification' / '__init__.py').read_text())
    return {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }


@pytest.mark.parametrize('name', robot_identification.__all__)
def test_every_public_name_is_the_one_that_type_checkers_see(name):
    home = import_module(f'robot_identification.{imports_for_type_checkers()[name]}')
    assert getattr(robot_identification, name) is getattr(home, name)


def test_type_checkers_see_no_name_that_is_not_offered():
    assert set(imports_for_type_checkers()) == set(robot_identification.__all__)


def test_all_names_are_listed_before_they_are_used():
    assert set(robot_identification.__all__) <= set(dir(robot_identification))
    assert '__version__' in dir(robot_identification)


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
    heavy = {'numpy', 'scipy', 'pinocchio', 'lxml', 'yaml', 'matplotlib', 'mujoco', 'rclpy'}
    assert not heavy & {name.partition('.')[0] for name in loaded}
    assert not [name for name in loaded if name.startswith('robot_identification.')]


def test_the_readmes_examples_import_public_names():
    examples = re.findall(r'```python\n(.*?)```', (ROOT / 'README.md').read_text(), re.DOTALL)
    names = [
        alias.name
        for example in examples
        for node in ast.walk(ast.parse(example))
        if isinstance(node, ast.ImportFrom) and node.module == 'robot_identification'
        for alias in node.names
    ]
    assert names
    assert set(names) <= set(robot_identification.__all__)
