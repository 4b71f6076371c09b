# SPDX-License-Identifier: Apache-2.0
from repair_wheel_paths import repair

TARGETS = """\
set_target_properties(rclpy::_rclpy PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "{}"
)
"""
BUILD = '/opt/python/cp311-cp311'
PYTHON = BUILD + '/include/python3.11'
NUMPY = BUILD + '/lib/python3.11/site-packages/numpy/_core/include'


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_build_machine_folders_become_those_of_the_environment(tmp_path):
    folders = f'${{_IMPORT_PREFIX}}/include/a;{PYTHON};{NUMPY}'
    file = write(tmp_path, 'a/cmake/aExport.cmake', TARGETS.format(folders))
    assert repair(tmp_path, '/new/include', '/new/numpy') == [file]
    expected = '${_IMPORT_PREFIX}/include/a;/new/include;/new/numpy'
    assert file.read_text() == TARGETS.format(expected)


def test_second_run_changes_nothing(tmp_path):
    file = write(tmp_path, 'a.cmake', TARGETS.format(PYTHON))
    repair(tmp_path, '/new/include', '/new/numpy')
    before = file.stat().st_mtime_ns
    assert repair(tmp_path, '/new/include', '/new/numpy') == []
    assert file.stat().st_mtime_ns == before


def test_other_files_and_other_folders_stay(tmp_path):
    other = TARGETS.format(BUILD + '/include/python3.11/deeper;/opt/python/include')
    untouched = [
        write(tmp_path, 'a.cmake', other),
        write(tmp_path, 'a.txt', TARGETS.format(PYTHON)),
    ]
    assert repair(tmp_path, '/new/include', '/new/numpy') == []
    assert [path.read_text() for path in untouched] == [other, TARGETS.format(PYTHON)]


def test_other_python_versions_and_old_numpy_layout(tmp_path):
    old = '/opt/python/cp310-cp310/lib/python3.10/site-packages/numpy/core/include'
    free = '/opt/python/cp313-cp313t/include/python3.13t'
    file = write(tmp_path, 'a.cmake', TARGETS.format(f'{free};{old}'))
    repair(tmp_path, '/new/include', '/new/numpy')
    assert file.read_text() == TARGETS.format('/new/include;/new/numpy')


def test_backslashes_and_bytes_that_are_no_text_survive(tmp_path):
    file = write(tmp_path, 'a.cmake', b'# \xff\n"' + PYTHON.encode() + b'"\n')
    repair(tmp_path, r'/new\1', '/new/numpy')
    assert file.read_bytes() == b'# \xff\n"/new\\1"\n'
