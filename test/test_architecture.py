# SPDX-License-Identifier: Apache-2.0
"""Rules of the package: order of rooms, no circles of imports, where ROS is, who may print."""

import ast
import functools
from graphlib import TopologicalSorter
from pathlib import Path
import re
import runpy

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / 'robot_identification'

ROOMS = (
    'version',
    'errors',
    'untrusted',
    'support',
    'options',
    'model',
    'data',
    'signals',
    'regressor',
    'estimation',
    'figures',
    'excitation',
    'diagnosis',
    'selection',
    'loads',
    'servo',
    'config',
    'drafting',
    'results',
    'verdicts',
    'pages',
    'exports',
    'identification',
    'online',
    'calibration',
    'simulation',
    'fleet',
    'nodes',
    'window',
    'demo',
    'cli',
)
"""In the order in which imports may go: a room imports only from those before it."""

WITH_ROS = {'nodes', 'demo'}
WITH_PRINT = {'cli', 'demo'}
PROGRESS = 'support/progress.py'

ROS = {
    'action_msgs',
    'ament_index_python',
    'builtin_interfaces',
    'diagnostic_msgs',
    'geometry_msgs',
    'launch',
    'launch_ros',
    'rcl_interfaces',
    'rclpy',
    'robot_identification_msgs',
    'rosbag2_py',
    'rosgraph_msgs',
    'rosidl_runtime_py',
    'sensor_msgs',
    'std_msgs',
    'std_srvs',
    'trajectory_msgs',
}

PAGE = (ROOT / 'docs' / 'explanation' / 'architecture.md').read_text(encoding='utf-8')

MODULES = sorted(path for path in PACKAGE.rglob('*.py') if path != PACKAGE / '__init__.py')


def room_of(path):
    return path.relative_to(PACKAGE).with_suffix('').parts[0]


@functools.cache
def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text(encoding='utf-8'))))


@functools.cache
def imports(path):
    """
    List what a module imports, wherever in it.

    Returns
    -------
    list of (int, str)
        The line, and the dotted name; names of the package itself begin with a dot.
    """
    package = path.relative_to(PACKAGE).parent.parts
    found = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                found.append((node.lineno, node.module))
                continue
            base = package[: len(package) - node.level + 1]
            names = [alias.name for alias in node.names]
            if node.module:
                inner = [f'{node.module}.{name}' for name in names]
                names = [node.module, *(x for x in inner if module_file((*base, x)))]
            found += [(node.lineno, '.' + '.'.join((*base, name))) for name in names]
    return found


def module_file(names):
    """Return the file of a module or package of ours, None for other names."""
    path = PACKAGE.joinpath(*'.'.join(names).split('.'))
    choices = (path.with_suffix('.py'), path / '__init__.py')
    return next((choice for choice in choices if choice.exists()), None)


def name(path):
    return path.relative_to(PACKAGE).as_posix()


def test_every_room_has_its_place_in_the_order():
    assert {room_of(path) for path in MODULES} <= set(ROOMS)


def test_imports_go_upward_only():
    wrong = []
    for path in MODULES:
        room = room_of(path)
        allowed = {*ROOMS[: ROOMS.index(room)], room}
        for line, target in imports(path):
            if target.startswith('.') and target.split('.')[1] not in allowed:
                wrong.append(f'{name(path)}:{line} imports {target}')
    assert not wrong


def test_the_table_of_rooms_has_each_once_and_in_order():
    section = PAGE.partition('## The layers')[2].partition('\n## ')[0]
    cells = re.findall(r'^\| (`.*?) \|', section, re.MULTILINE)
    assert re.findall(r'`([a-z_]+)/?`', ' '.join(cells)) == [
        room for room in ROOMS if room != 'version'
    ]


def test_the_picture_of_the_rooms_is_that_of_the_code():
    made = runpy.run_path(str(ROOT / 'scripts' / 'rooms_picture.py'))
    drawn = (ROOT / 'docs' / 'explanation' / 'rooms.svg').read_text(encoding='utf-8')
    assert drawn == made['picture'](made['room_imports']())


def test_the_picture_of_the_two_ways_shows_imports():
    picture = PAGE.partition('## Two ways')[2].split('```')[1].splitlines()
    arrows = [re.match(r'(\S+\.py) → ((?:\S+\.py ?)+)', line) for line in picture if '→' in line]
    assert len(arrows) > 15 and all(arrows)
    missing = [
        f'{importer} → {imported}'
        for importer, words in (arrow.groups() for arrow in arrows)
        for imported in words.split()
        if imported not in imported_files(PACKAGE / importer)
    ]
    assert not missing


def imported_files(path):
    """Return the files that a module imports, directly or by the face of their room."""
    targets = [target[1:].split('.') for _, target in imports(path) if target.startswith('.')]
    direct = {file for file in map(module_file, targets) if file}
    faces = [file for file in direct if file.name == '__init__.py']
    behind = {
        file
        for face in faces
        for _, target in imports(face)
        if target.startswith('.') and (file := module_file(target[1:].split('.')))
    }
    return {name(file) for file in direct | behind}


def test_no_module_imports_itself_by_way_of_others():
    graph = {}
    for path in MODULES:
        targets = {target for _, target in imports(path) if target.startswith('.')}
        graph[path] = {
            file
            for target in targets
            if (file := module_file(target[1:].split('.'))) not in (None, path)
        }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_own_modules_are_imported_relatively():
    assert not foreign_imports({PACKAGE.name}, but_in=set())


def test_the_core_knows_nothing_of_ros():
    assert not foreign_imports(ROS, but_in=WITH_ROS)


def foreign_imports(modules, but_in):
    """List where any of these modules is imported, outside some rooms."""
    return [
        f'{name(path)}:{line} imports {target}'
        for path in MODULES
        if room_of(path) not in but_in
        for line, target in imports(path)
        if target.split('.')[0] in modules
    ]


def test_the_core_prints_nothing():
    printing = [
        f'{name(path)}:{node.lineno}'
        for path in MODULES
        if room_of(path) not in WITH_PRINT and name(path) != PROGRESS
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and getattr(node.func, 'id', None) == 'print'
    ]
    assert not printing


WRITER = 'untrusted/writing.py'
WRITES = {
    *('write_text', 'write_bytes', 'replace', 'rename', 'copyfile', 'copy', 'copy2', 'move'),
    *('savefig', 'to_csv', 'write_html', 'write_table', 'NamedTemporaryFile', 'mkstemp'),
}
"""Calls that write or move files, where they are called on a path or on these modules."""


def test_one_module_writes_files():
    calls = [
        f'{name(path)}:{node.lineno}'
        for path in MODULES
        if name(path) != WRITER
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and writes(node)
    ]
    assert not calls


def writes(call):
    """Return whether a call opens a file for writing, writes to a path, or moves a file."""
    function = getattr(call.func, 'attr', getattr(call.func, 'id', None))
    if function == 'open':
        modes = [
            value.value
            for value in (*call.args, *(word.value for word in call.keywords))
            if isinstance(value, ast.Constant) and isinstance(value.value, str)
        ]
        # a descriptor has its file already
        given = bool(call.args) and isinstance(call.args[0], ast.Call)
        return not given and any(set('wax+') & set(mode) and len(mode) < 4 for mode in modes)
    of_module = getattr(getattr(call.func, 'value', None), 'id', None)
    if function in ('replace', 'rename', 'copy', 'move'):
        return of_module in ('os', 'shutil')
    return function in WRITES


def test_every_module_names_its_licence():
    line = '# SPDX-License-Identifier: Apache-2.0'
    texts = {name(path): path.read_text(encoding='utf-8') for path in MODULES}
    assert not [module for module, text in texts.items() if text.split('\n')[0] != line]


LONGEST = 60
"""Lines of a function, without its docstring."""

LONG = {
    'drafting/servo_draft.py:draft_servo',
    'regressor/kernel.py:evaluate',
    'regressor/kernel.py:pull_back',
    'results/result.py:to_document',
}
"""To be split."""


def test_no_function_is_long():
    long = {
        f'{name(path)}:{node.name}'
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and lines_of(node) > LONGEST
    }
    assert long == LONG


def lines_of(function):
    """Count the lines of a function, without its docstring and decorators."""
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = first.end_lineno - first.lineno + 1 if documented else 0
    return function.end_lineno - function.lineno + 1 - docstring
