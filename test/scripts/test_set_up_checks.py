# SPDX-License-Identifier: Apache-2.0
import ast
from pathlib import Path
import sys

import pytest
import set_up_checks as checks

SCRIPTS = Path(checks.__file__).parent
GOOD = {
    'version': [3, 12, 1],
    'executable': '/python',
    'include': '/include',
    'machine': 'x86_64',
    'venv': True,
}


def pythons(**versions):
    """Stand in for ``ask_python`` on a machine with these Pythons."""
    known = {name.replace('_', '.'): version for name, version in versions.items()}

    def ask(name):
        return dict(GOOD, version=known[name], executable=name) if name in known else None

    return ask


@pytest.mark.parametrize('name', sorted(path.name for path in SCRIPTS.glob('set_up*.py')))
def test_an_old_python_can_read_the_scripts(name):
    ast.parse((SCRIPTS / name).read_text(), feature_version=(3, 6))


@pytest.mark.parametrize(
    ('version', 'good'),
    [((3, 9, 18), False), ((3, 10, 0), True), ((3, 13, 9), True), ((3, 14, 0), False)],
)
def test_versions_that_fit(version, good):
    assert checks.fits(version) is good


def test_ask_python_that_runs_this_test():
    found = checks.ask_python(sys.executable)
    assert tuple(found['version']) == sys.version_info[:3]
    assert found['venv'] is True
    # Never the interpreter of an environment: that one may be about to be removed.
    assert found['executable'] == sys._base_executable


@pytest.mark.parametrize('script', ['exit 3', 'echo no json'])
def test_ask_python_that_does_not_work(tmp_path, script):
    broken = tmp_path / 'python'
    broken.write_text(f'#!/bin/sh\n{script}\n')
    broken.chmod(0o755)
    assert checks.ask_python(str(broken)) is None
    assert checks.ask_python(str(tmp_path / 'absent')) is None


def test_the_running_python_is_preferred():
    ask = pythons(own=(3, 11, 2), python3_12=(3, 12, 1))
    assert checks.choose_python(None, ask, own='own')['executable'] == 'own'


def test_another_python_is_found_where_the_running_one_is_too_old():
    ask = pythons(own=(3, 8, 1), python3=(3, 8, 1), python3_10=(3, 10, 4), python3_13=(3, 13, 0))
    assert checks.choose_python(None, ask, own='own')['executable'] == 'python3.13'


@pytest.mark.parametrize('version', [(3, 9, 18), (3, 14, 0)])
def test_no_python_fits(version):
    with pytest.raises(checks.Trouble, match='own is 3.') as error:
        checks.choose_python(None, pythons(own=version), own='own')
    assert '3.10 to 3.13' in str(error.value)
    assert 'apt install' in error.value.remedy


def test_a_requested_python_is_taken_or_refused_but_never_replaced():
    ask = pythons(own=(3, 12, 1), python3_10=(3, 10, 4), python3_14=(3, 14, 0))
    assert checks.choose_python('python3.10', ask, own='own')['executable'] == 'python3.10'
    with pytest.raises(checks.Trouble, match="'python3.14' is Python 3.14.0"):
        checks.choose_python('python3.14', ask, own='own')
    with pytest.raises(checks.Trouble, match="'nonsense' is not a Python that runs"):
        checks.choose_python('nonsense', ask, own='own')


@pytest.fixture
def no_compilers_named(monkeypatch):
    monkeypatch.delenv('CC', raising=False)
    monkeypatch.delenv('CXX', raising=False)


def check_machine(tools, *, headers=True, venv=True):
    checks.check_tools(
        dict(GOOD, venv=venv), which=lambda name: name in tools, exists=lambda path: headers
    )


@pytest.mark.usefixtures('no_compilers_named')
@pytest.mark.parametrize(
    ('tools', 'keywords', 'lacks', 'package'),
    [
        (('gcc', 'make'), {}, r'C\+\+ compiler', 'g++'),
        (('g++', 'make'), {}, 'a C compiler', 'gcc'),
        (('gcc', 'g++'), {}, 'make', 'make'),
        (('gcc', 'g++', 'make'), {'headers': False}, 'Python.h', 'python3.12-dev'),
        (('gcc', 'g++', 'make'), {'venv': False}, 'venv and ensurepip', 'python3.12-venv'),
    ],
)
def test_what_the_machine_lacks_is_named_with_its_package(tools, keywords, lacks, package):
    with pytest.raises(checks.Trouble, match=lacks) as error:
        check_machine(tools, **keywords)
    assert error.value.remedy.endswith(f'apt install {package}')


@pytest.mark.usefixtures('no_compilers_named')
def test_all_that_is_missing_is_said_at_once():
    with pytest.raises(checks.Trouble) as error:
        check_machine((), headers=False, venv=False)
    packages = 'g++ gcc make python3.12-dev python3.12-venv'
    assert error.value.remedy.endswith(packages)


@pytest.mark.usefixtures('no_compilers_named')
def test_a_complete_machine_passes(monkeypatch):
    check_machine(('clang', 'clang++', 'gmake'))
    monkeypatch.setenv('CC', '/compiler')
    monkeypatch.setenv('CXX', '/compiler')
    check_machine(('make',))


@pytest.mark.parametrize(
    ('text', 'version'),
    [
        ('cmake version 3.25.1\n', (3, 25)),
        ('cmake3 version\ncmake version 4.0.2-rc1', (4, 0)),
        ('', (0,)),
    ],
)
def test_cmake_version(text, version):
    assert checks.cmake_version(text) == version


@pytest.mark.parametrize(
    ('script', 'there'),
    [
        ('echo cmake version 3.20.0', True),
        ('echo cmake version 3.16.3', False),
        ('echo broken; exit 1', False),
        (None, False),
    ],
)
def test_has_cmake(tmp_path, script, there):
    if script:
        cmake = tmp_path / 'cmake'
        cmake.write_text(f'#!/bin/sh\n{script}\n')
        cmake.chmod(0o755)
    assert checks.has_cmake({'PATH': str(tmp_path)}) is there


@pytest.mark.parametrize(
    ('output', 'remedy'),
    [
        ('OSError: [Errno 28] No space left on device', 'disk is full'),
        ('NewConnectionError(...): Temporary failure in name resolution', 'could not be reached'),
        (
            'ERROR: No matching distribution found for ros-jazzy-rclpy==7.1.6',
            'ros-jazzy-rclpy==7.1.6 was',
        ),
        ('ERROR: Cannot install coal==3.0.3 because these package', 'coal==3.0.3 was found'),
        ('error: something else', 'read the whole log'),
    ],
)
def test_explain(output, remedy):
    trouble = checks.explain('Building', 2, 'first\n' * 40 + output + '\n', 'log/set-up.log')
    assert remedy in trouble.remedy
    shown = str(trouble).splitlines()
    assert shown[0].startswith('Building failed (exit code 2)')
    assert 'log/set-up.log' in shown[0]
    assert shown[-1].strip() == output
    assert len(shown) == 16


def test_clean_environment_leaves_a_sourced_ros_out():
    kept = {'PATH': '/bin', 'HOME': '/home/me', 'ROS_DOMAIN_ID': '7'}
    foreign = {'PYTHONPATH': '/opt/ros', 'AMENT_PREFIX_PATH': '/opt/ros', 'VIRTUAL_ENV': '/x'}
    assert checks.clean_environment({**kept, **foreign}) == kept
