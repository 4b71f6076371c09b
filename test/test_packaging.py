# SPDX-License-Identifier: Apache-2.0
"""Statements about the package in several places agree and are complete."""

import ast
import contextlib
import functools
from importlib import import_module
import importlib.metadata
import importlib.util
import os
from pathlib import Path
import re
import runpy
import shutil
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree

import pytest
from robot_identification.support.compiled import MODULES

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / 'robot_identification'

KEYS = {
    'jinja2': 'python3-jinja2',
    'lxml': 'python3-lxml',
    'markupsafe': 'python3-jinja2',
    'h5py': 'python3-h5py',
    'matplotlib': 'python3-matplotlib',
    'mpl_toolkits': 'python3-matplotlib',
    'numba': 'python3-numba',
    'numpy': 'python3-numpy',
    'pandas': 'python3-pandas',
    'scipy': 'python3-scipy',
    'tqdm': 'python3-tqdm',
    'yaml': 'python3-yaml',
}
"""The rosdep keys of modules; of a module that is not here, its own name."""

WHEELS = {
    'backports': 'rosbags',
    'compression': 'rosbags',
    'lz4': 'mcap',
    'markupsafe': 'jinja2',
    'pinocchio': 'pin',
    'rosidl_adapter': 'rosidl-default-generators',
    'yaml': 'pyyaml',
}
"""
The wheels of modules; of a module that is not here, its own name.

Compressed bags are read with what rosbags and mcap themselves decompress with.
"""

OPTIONAL = {
    'backports',
    'compression',
    'dask',
    'distributed',
    'fastapi',
    'h5py',
    'lz4',
    'matplotlib',
    'mcap',
    'mpl_toolkits',
    'nicegui',
    'numba',
    'pandas',
    'plotly',
    'pyarrow',
    'rosbags',
    'threadpoolctl',
    'uvicorn',
}
"""
Imported where it is needed.

Where one is missing there is another way (the regressor without Numba, a fleet without Dask, a
report with figures of the other library, the caller's threads), or an error that names what to
install.
"""

BY_PIP = OPTIONAL - {'h5py', 'matplotlib', 'mpl_toolkits', 'numba', 'pandas'} | {'mujoco'}
"""
Without a package of Ubuntu or ROS.

Their rosdep keys, where they have one, install by pip, which Ubuntu 24.04 refuses beside its own
packages: package.xml names none of them, and docs/install.md says how they are installed.
"""

USERS = {
    'fastapi': {'access'},
    'mcap': {'bag_recorder', 'bag_writer', 'mcap_storage'},
    'nicegui': {'recordings_view', 'robot_views', 'stage_views', 'window_page'},
    'numba': {module.split('.')[-1] for module in MODULES},
}
"""Modules that need a library for all that they do: they count as the library itself."""

COMPLETION = {'argcomplete'}
"""Imported if the shell asks for completions, which it does only where this is installed."""

UNIMPORTED = {'action_msgs', 'ros2bag', 'rosbag2_storage_mcap'}
"""Depended on without an import: part of every action's messages, and playing a bag."""

WITHOUT_WHEELS = {
    'control_msgs',
    'controller_manager_msgs',
    'launch',
    'launch_ros',
    'matplotlib',
    'mpl_toolkits',
    'rosbag2_interfaces',
}
"""
There with ROS alone, where matplotlib draws in place of plotly.

Set-up builds the first two from ``interfaces/``; launch files alone need launch, and who plays a
bag with rosbag2 has its interfaces.
"""


@functools.cache
def imported_modules(folder):
    """Return the top-level names that the modules in a folder import from elsewhere."""
    names = set()
    for path in folder.rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split('.')[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module.split('.')[0])
    own = {'robot_identification'}
    return frozenset(names - set(sys.stdlib_module_names) - own - COMPLETION)


def started_packages():
    """Return the packages whose programs, launch files and plugins the launch files bring in."""
    found = set()
    for path in (*(ROOT / 'launch').glob('*.py'), PACKAGE / 'nodes' / 'launching.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if not isinstance(node, ast.Call):
                continue
            if getattr(node.func, 'id', '') in ('FindPackageShare', 'node'):
                found.add(ast.literal_eval(node.args[0]))
            found |= {
                keyword.value.value
                for keyword in node.keywords
                if keyword.arg == 'package' and isinstance(keyword.value, ast.Constant)
            }
    # a plugin's name begins with its package
    for path in (ROOT / 'urdf').glob('*.xacro'):
        found |= set(re.findall(r'<plugin>(\w+)/\w+</plugin>', path.read_text(encoding='utf-8')))
    for path in (ROOT / 'config').glob('*controllers.yaml'):
        found |= set(re.findall(r'type: (\w+)/\w+', path.read_text(encoding='utf-8')))
    # in ros2_control itself
    return found - {'mock_components', 'robot_identification'}


def manifest(path=ROOT):
    return xml.etree.ElementTree.parse(path / 'package.xml').getroot()


def exec_depends():
    return {element.text for element in manifest().iter('exec_depend')}


@pytest.fixture(scope='module')
def setup_arguments():
    """Return what ``setup.py`` tells setuptools."""
    setuptools = pytest.importorskip('setuptools')
    told = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, 'setup', lambda **arguments: told.update(arguments))
        patch.chdir(ROOT)
        runpy.run_path(str(ROOT / 'setup.py'))
    return told


# --- dependencies ---------------------------------------------------------------------------


def test_package_xml_names_all_that_is_imported():
    modules = imported_modules(PACKAGE) | imported_modules(ROOT / 'launch')
    modules -= BY_PIP
    assert {KEYS.get(module, module) for module in modules} - exec_depends() == set()


def test_package_xml_names_all_that_the_launch_files_start():
    assert {'gz_ros2_control', 'joint_state_broadcaster', 'rviz2'} <= started_packages()
    assert started_packages() - exec_depends() == set()


def test_optional_modules_are_imported_inside_functions_only():
    libraries = {user: library for library, users in USERS.items() for user in users}
    for path in PACKAGE.rglob('*.py'):
        allowed = {libraries.get(path.stem)}
        for node in ast.parse(path.read_text(encoding='utf-8')).body:
            if isinstance(node, ast.Import):
                names = {alias.name.split('.')[0] for alias in node.names}
                assert not names & OPTIONAL - allowed, path
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module.split('.')[0] not in OPTIONAL - allowed, path
            elif isinstance(node, ast.ImportFrom):
                library = libraries.get((node.module or '').split('.')[-1])
                assert library in {None, *allowed} or path.stem == 'recorder_node', path


def test_package_xml_names_nothing_that_is_not_imported():
    modules = imported_modules(PACKAGE) | imported_modules(ROOT / 'launch')
    used = {KEYS.get(module, module) for module in modules} | UNIMPORTED | started_packages()
    assert exec_depends() - used == set()


def pins(name):
    """Read a requirements file into (name, version, marker, reason)."""
    lines = (ROOT / 'requirements' / name).read_text(encoding='utf-8').splitlines()
    pattern = re.compile(r'^([a-z0-9-]+)==([0-9.]+)(?:; ([^#]*[^# ]))? +# (\S.+)$')
    wanted = [line for line in lines if line and not line.startswith('#')]
    found = [pattern.match(line) for line in wanted]
    assert None not in found, wanted[found.index(None)]
    return [match.groups() for match in found]


EXTRAS = ('fast', 'sim', 'fleet', 'notebook', 'parquet', 'hdf5', 'window')
RUNTIME = ('runtime.txt', *(f'{extra}.txt' for extra in EXTRAS))
ROS_WHEELS = ('ros-jazzy-wheels.txt', 'ros-kilted-wheels.txt')


@pytest.mark.parametrize('name', [*RUNTIME, *ROS_WHEELS, 'dev.txt', 'cmake.txt', 'pip.txt'])
def test_every_requirement_is_pinned_with_its_reason(name):
    assert pins(name)


def test_packages_for_pip_are_those_of_the_requirements(setup_arguments):
    def names(items):
        return {re.match('[a-z0-9-]+', item).group() for item in items}

    core = names(setup_arguments['install_requires']) - {'setuptools'}
    assert core == {name for name, *_ in pins('runtime.txt')}
    for extra in EXTRAS:
        assert names(setup_arguments['extras_require'][extra]) == {
            name for name, *_ in pins(f'{extra}.txt')
        }


def test_oldest_versions_are_of_packages_that_are_pinned_and_not_newer(setup_arguments):
    asked = setup_arguments['install_requires'] + sum(
        (setup_arguments['extras_require'][extra] for extra in EXTRAS), []
    )
    oldest = dict(item.split('>=') for item in asked if '>=' in item)
    pinned = {name: version for file in RUNTIME for name, version, *_ in pins(file)}
    for name, version in oldest.items():
        numbers = [[int(part) for part in text.split('.')] for text in (version, pinned[name])]
        assert numbers[0] <= numbers[1], name


@pytest.mark.parametrize('name', ['jazzy', 'kilted'])
def test_requirements_name_all_that_the_core_imports(name):
    wheels = {name for file in RUNTIME for name, *_ in pins(file)}
    wheels |= {each.removeprefix(f'ros-{name}-') for each, *_ in pins(f'ros-{name}-wheels.txt')}
    needed = {WHEELS.get(name, name) for name in imported_modules(PACKAGE) - WITHOUT_WHEELS}
    needed = {name.replace('_', '-') for name in needed} - {'robot-identification-msgs'}
    assert needed - wheels == set()


@pytest.mark.parametrize(
    ('constraints', 'wheels'),
    [*zip(('constraints.txt', 'constraints-kilted.txt'), ROS_WHEELS, strict=True)],
)
def test_constraints_agree_with_the_pins(constraints, wheels):
    locked = {}
    for line in (ROOT / 'requirements' / constraints).read_text().splitlines()[1:]:
        name, version = re.match(r'([a-z0-9-]+)==([^;]+)', line).groups()
        locked.setdefault(name, set()).add(version)
    for name in (*RUNTIME, wheels, 'dev.txt', 'cmake.txt'):
        pinned = {}
        for package, version, *_ in pins(name):
            pinned.setdefault(package, set()).add(version)
        assert {package: locked.get(package) for package in pinned} == pinned


def without(module, folder, *command):
    """Run Python where a module is missing; return the exit code and what it says."""
    (folder / 'sitecustomize.py').write_text(f'import sys\nsys.modules[{module!r}] = None\n')
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': f'{folder}:{ROOT}'},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr.splitlines()


def test_a_missing_extra_is_one_line_that_names_it(tmp_path):
    code = 'import robot_identification.simulation'
    _, lines = without('mujoco', tmp_path, '-c', code)
    assert lines[-1].endswith(
        "'mujoco' is not installed: pip install 'robot-identification[sim]' brings it; "
        'beside ROS from packages: PIP_BREAK_SYSTEM_PACKAGES=1 pip install mujoco'
    )


def test_without_mcap_bags_in_sqlite_are_read_and_others_name_it(tmp_path):
    for name, head in (('run.mcap', b'\x89MCAP0\r\n'), ('run.db3', b'')):
        (tmp_path / name).write_bytes(head)
    with contextlib.closing(sqlite3.connect(tmp_path / 'run.db3')) as database:
        database.execute('CREATE TABLE topics (id INTEGER, name, type, serialization_format)')
        database.execute('CREATE TABLE messages (id INTEGER, topic_id, timestamp, data)')
        database.execute("INSERT INTO topics VALUES (1, '/states', 'a/msg/B', 'cdr')")
        database.commit()
    code = (
        'import sys; from pathlib import Path; '
        'from robot_identification.data.bag import bag_topics; '
        'print(*bag_topics(Path("run.db3")), file=sys.stderr); bag_topics(Path("run.mcap"))'
    )
    _, lines = without('mcap', tmp_path, '-c', code)
    assert lines[0] == '/states'
    assert lines[-1].endswith(
        "'mcap' is not installed, which is for reading mcap files: pip install mcap brings it; "
        'beside ROS from packages: PIP_BREAK_SYSTEM_PACKAGES=1 pip install mcap'
    )


def test_nodes_without_ros_say_so_in_one_line(tmp_path):
    code, lines = without('rclpy', tmp_path, '-m', 'robot_identification.nodes.recorder_node')
    assert code == 2
    assert len(lines) == 1 and lines[0].startswith('error: nodes need ROS 2 (rclpy): source')


@pytest.mark.parametrize(
    ('module', 'node', 'problem'),
    [
        ('robot_identification_msgs', 'recorder', 'nodes need their messages'),
        ('control_msgs', 'excitation', "controllers' messages are missing"),
        ('mujoco', 'simulation', 'the simulation needs MuJoCo'),
        ('mcap', 'recorder', 'recordings need a library'),
        ('rosbags', 'recorder', 'recordings need a library'),
    ],
)
def test_nodes_without_their_libraries_say_so_in_one_line(tmp_path, module, node, problem):
    pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')
    program = f'robot_identification.nodes.{node}_node'
    code, lines = without(module, tmp_path, '-m', program)
    assert code == 2
    assert len(lines) == 1 and lines[0].startswith(f'error: {problem} ({module}): ')


def test_calls_without_the_messages_say_so_in_one_line(tmp_path):
    pytest.importorskip('rclpy', reason='needs ROS 2 (rclpy)')
    words = ('-m', 'robot_identification.cli', 'node', 'plan')
    code, lines = without('robot_identification_msgs', tmp_path, *words)
    assert code == 2
    assert len(lines) == 1 and lines[0].startswith('error: calling a node needs ROS 2 (')


REFUSING = {'BPoly', 'RigidTransform', 'Rotation', 'Slerp', 'expm', 'lfilter_zi', 'sosfilt_zi'}
"""Names of SciPy that refuse read-only arrays in one of the releases that are allowed."""


def test_no_frozen_array_reaches_a_library_that_refuses_it():
    for path in PACKAGE.rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('scipy'):
                assert not {alias.name for alias in node.names} & REFUSING, path
            elif isinstance(node, ast.Attribute):
                assert node.attr not in REFUSING, f'{path}:{node.lineno}'


# --- versions, names, files -----------------------------------------------------------------


def test_one_version_everywhere(setup_arguments):
    text = (PACKAGE / 'version.py').read_text(encoding='utf-8')
    version = re.search("__version__ = '(.*)'", text).group(1)
    assert re.fullmatch(r'\d+\.\d+\.\d+', version)
    assert setup_arguments['version'] == version
    assert manifest().findtext('version') == version
    assert manifest(ROOT / 'robot_identification_msgs').findtext('version') == version
    assert f'\nversion: {version}\n' in (ROOT / 'CITATION.cff').read_text(encoding='utf-8')


def test_installed_version_is_that_of_the_sources(setup_arguments):
    try:
        installed = importlib.metadata.version('robot-identification')
    except importlib.metadata.PackageNotFoundError:
        pytest.skip('robot_identification is not installed: run `make setup`')
    assert installed == setup_arguments['version']


def test_licence_and_maintainer_are_the_same_everywhere(setup_arguments):
    ours, messages = manifest(), manifest(ROOT / 'robot_identification_msgs')
    assert ours.findtext('license') == messages.findtext('license') == setup_arguments['license']
    assert 'Apache License' in (ROOT / 'LICENSE').read_text(encoding='utf-8')
    assert ours.findtext('maintainer') == messages.findtext('maintainer')
    assert ours.find('maintainer').get('email') == setup_arguments['maintainer_email']


def test_console_scripts_exist(setup_arguments):
    if importlib.util.find_spec('rclpy') is None:
        pytest.skip('needs ROS 2 (rclpy)')
    for entry in setup_arguments['entry_points']['console_scripts']:
        module, function = re.fullmatch(r'[\w-]+ = ([\w.]+):(\w+)', entry).groups()
        assert callable(getattr(import_module(module), function)), entry


def test_what_goes_to_share(setup_arguments):
    entries = dict(setup_arguments['data_files'])
    assert entries['share/robot_identification'] == ['package.xml']
    assert entries['share/ament_index/resource_index/packages'] == [
        'resource/robot_identification'
    ]
    assert 'urdf/tx40.urdf' in entries['share/robot_identification/urdf']
    shipped = [file for files in entries.values() for file in files]
    assert len(shipped) == len(set(shipped))
    for folder in ('config', 'launch', 'urdf'):
        expected = [path for path in (ROOT / folder).rglob('*') if path.is_file()]
        expected = {p.relative_to(ROOT).as_posix() for p in expected if p.suffix != '.pyc'}
        assert expected <= set(shipped)


def test_templates_and_the_type_marker_are_packaged(setup_arguments):
    patterns = setup_arguments['package_data']['']
    others = [
        path
        for path in PACKAGE.rglob('*')
        if path.is_file() and path.suffix not in ('.py', '.pyc', '.nbc', '.nbi')
    ]
    missing = [path for path in others if not any(path.match(p) for p in patterns)]
    assert not missing


# --- nothing of one machine -----------------------------------------------------------------

FOREIGN = re.compile(
    '/wor[k]/|/roo[t]/|[.]pyen[v]|pyp[i][.]org|pythonhoste[d][.]org|--(?:extra-)?index-ur[l]'
)


def tracked_files():
    if not (ROOT / '.git').exists() or shutil.which('git') is None:
        pytest.skip('needs a git checkout')
    listed = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode().split('\0') if name]


def test_no_file_names_a_machine_or_a_package_index():
    found = []
    for path in tracked_files():
        if not path.is_file():
            continue
        text = path.read_bytes().decode('utf-8', 'replace')
        for number, line in enumerate(text.splitlines(), 1):
            if FOREIGN.search(line):
                found.append(f'{path.relative_to(ROOT)}:{number}')
    assert not found


@pytest.mark.parametrize('text', ['/wo' + 'rk/x', 'pyp' + 'i.org'])
def test_the_search_finds_what_it_is_for(text):
    assert FOREIGN.search(text)
