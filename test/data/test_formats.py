# SPDX-License-Identifier: Apache-2.0
"""The family of recording formats: numbers as their own writers wrote them, limits, additions."""

from __future__ import annotations

from pathlib import Path
import struct
import sys

import numpy as np
import pytest
from robot_identification.data.formats import described_by_head, FORMATS, mat
from robot_identification.data.readers import read_head, read_tables
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import IdentificationError, RecordingError
import scipy.io
from scipy.io import loadmat, savemat
from scipy.sparse import csc_matrix

PAGE = Path(__file__).resolve().parents[2] / 'docs' / 'how_to' / 'recordings.md'
COUNTS = {'position': 2, 'velocity': 2, 'effort': 2}
ROWS = 1000


@pytest.fixture
def signals():
    rng = np.random.default_rng(3)
    return {
        't': np.arange(ROWS) / 100.0,
        'q': rng.normal(size=(ROWS, 2)),
        'dq': rng.normal(size=(ROWS, 2)).astype(np.float32),
        'tau': rng.integers(-99, 99, size=(ROWS, 2)),
    }


def read(path, size=300, **columns):
    entry = RecordingEntry(file=str(path), **columns)
    tables = list(read_tables(entry, ('a', 'b'), COUNTS, Path('.'), size))
    assert [len(table) for table in tables] == [300, 300, 300, 100]
    return {
        name: np.concatenate([getattr(table, name) for table in tables])
        for name in ('time', 'position', 'effort', 'velocity')
        if getattr(tables[0], name) is not None
    }


def check(found, signals):
    for name, key in (('time', 't'), ('position', 'q'), ('effort', 'tau'), ('velocity', 'dq')):
        np.testing.assert_array_equal(found[name], signals[key])


def refused(path, text, **columns):
    """Require an error in one line that names the file."""
    given = {'time': 't', 'position': 'q', 'effort': 'tau', **columns}
    with pytest.raises(RecordingError, match=text) as error:
        read(path, **given)
    assert path.name in str(error.value) and '\n' not in str(error.value)


WHOLE = {'time': 't', 'position': 'q', 'velocity': 'dq', 'effort': 'tau'}


# --------------------------------------------------------------------------- MATLAB


@pytest.mark.parametrize('compressed', [True, False])
def test_arrays_and_fields_of_matlab(tmp_path, signals, compressed):
    path = tmp_path / 'run.mat'
    log = {'dq': signals['dq'], 'note': 'first try', 'inner': {'x': 1.0}}
    content = {**signals, 'log': log, 'row': signals['t'][None]}
    savemat(path, content, do_compression=compressed, oned_as='column')
    check(read(path, **{**WHOLE, 'velocity': 'log.dq'}), signals)
    check(read(path, **{**WHOLE, 'time': 'row', 'position': ('q[:, 0]', 'q[:, 1]')}), signals)
    assert read_head(path, 1).shapes['log.dq'] == (ROWS, 2)


def test_what_is_no_array_of_numbers_in_matlab_is_named(tmp_path, signals):
    path = tmp_path / 'run.mat'
    structs = np.array([(1.0,), (2.0,)], dtype=[('a', object)])
    cells = np.array([1.0, 'x'], dtype=object)
    others = {'c': cells, 's': structs, 'x': csc_matrix(signals['q']), 'z': signals['q'] * 1j}
    savemat(path, {**signals, **others, 'd': {'e': {'f': 1.0}}, 'text': 'arm'})
    for name, what in (
        ('c', 'a cell array'),
        ('s', 'an array of structs'),
        ('x', 'sparse'),
        ('z', 'complex'),
        ('d.e', 'a struct in a struct'),
        ('text', 'text'),
    ):
        refused(path, f"'{name}' is {what}, not numbers", position=name)
    refused(path, r"no array 'p': its arrays are t, q, dq, tau", position='p')
    refused(path, r"no column 'q\[:, 2\]': its columns are q\[:, 0\] to q\[:, 1\]",
            position=('q[:, 0]', 'q[:, 2]'))  # fmt: skip


def test_files_that_matlab_itself_wrote():
    """Those that SciPy is tested with, of all versions and both orders of bytes."""
    files = sorted(Path(scipy.io.__file__).parent.glob('matlab/tests/data/test*[567]*_*.mat'))
    files += sorted(Path(scipy.io.__file__).parent.glob('matlab/tests/data/*_endian.mat'))
    if not files:
        pytest.skip('SciPy is installed without the files of its tests')
    seen = set()
    for file in files:
        if '_4' in file.name or 'hdf5' in file.name:
            continue
        truth = loadmat(file)
        head = read_head(file, 1)
        for name, found in FORMATS['mat'].arrays(file, list(head.shapes)).items():
            name, page, rest = name.partition('[:, ')  # one environment of several
            whole, _, field = name.partition('.')
            expected = truth[whole][0, 0][field] if field else truth[whole]
            expected = expected[:, int(rest.split(',')[0]), :] if page else expected
            np.testing.assert_array_equal(found, np.squeeze(expected))
            seen.add(file.name)
        dense = {n: v for n, v in truth.items() if isinstance(v, np.ndarray)}
        dense = {n: v for n, v in dense.items() if not n.startswith('__')}  # SciPy's own
        assert {n for n, v in dense.items() if v.dtype.kind in 'biuf'} <= {
            name.partition('[')[0] for name in head.shapes
        }
    assert len(seen) > 10


def test_a_file_that_matlab_7_4_wrote_as_hdf5():
    pytest.importorskip('h5py')
    file = Path(scipy.io.__file__).parent / 'matlab' / 'tests' / 'data' / 'testhdf5_7.4_GLNX86.mat'
    if not file.exists():
        pytest.skip('SciPy is installed without the files of its tests')
    values = FORMATS['mat'].arrays(file, ['testdouble'])['testdouble']
    np.testing.assert_allclose(values, np.arange(9) * np.pi / 4, atol=1e-15)


def test_a_file_of_matlab_that_declares_more_than_it_holds_is_refused(tmp_path, signals):
    path = tmp_path / 'run.mat'
    savemat(path, signals)
    data = path.read_bytes()
    extents = struct.pack('<II', ROWS, 2)
    for wrong in (struct.pack('<II', 1 << 15, 1 << 15), struct.pack('<ii', -ROWS, -2)):
        path.write_bytes(data.replace(extents, wrong))
        refused(path, "'q' has another size than it declares")
    type_of_numbers = struct.pack('<II', 9, 16 * ROWS)
    path.write_bytes(data.replace(type_of_numbers, struct.pack('<II', 99, 16 * ROWS)))
    refused(path, "'q' has numbers of the unknown type 99")  # SciPy 1.15 ends the process
    path.write_bytes(data[:-100])
    refused(path, 'it is cut off')
    path.write_bytes(bytes(2000))
    refused(path, 'does not begin as files of version 5 to 7.3 do.*save it with -v7')


def test_what_expands_too_far_in_a_file_of_matlab_is_refused(tmp_path, signals, monkeypatch):
    path = tmp_path / 'run.mat'
    savemat(path, {**signals, 'zeros': np.zeros(100_000)}, do_compression=True)
    read(path, **WHOLE)
    monkeypatch.setattr(mat, 'MAX_MEMBER_RATIO', 100)
    refused(path, 'expands to more than')
    monkeypatch.undo()
    monkeypatch.setattr(mat, 'MAX_EXPANSION', 50_000)
    refused(path, 'expands to more than')


# --------------------------------------------------------------------------- HDF5


@pytest.fixture
def hdf5(tmp_path, signals):
    h5py = pytest.importorskip('h5py')

    def write(name='run.h5', change=None, **settings):
        with h5py.File(tmp_path / name, 'w') as file:
            for key, values in signals.items():
                file.create_dataset(f'arm/{key}', data=values, **settings)
            if change is not None:
                change(file)
        return tmp_path / name

    return write


PATHS = {name: f'arm/{key}' for name, key in WHOLE.items()}


@pytest.mark.parametrize(
    'settings',
    [
        {},
        {'chunks': True, 'compression': 'gzip', 'shuffle': True, 'fletcher32': True},
        {'chunks': True, 'compression': 'lzf'},
    ],
    ids=['plain', 'gzip', 'lzf'],
)
def test_datasets_by_their_paths(hdf5, signals, settings):
    path = hdf5(**settings)
    check(read(path, **PATHS), signals)
    columns = ('arm/q[:, 0]', 'arm/q[:, 1]')
    check(read(path, **{**PATHS, 'position': columns}), signals)


def test_datasets_are_read_in_parts(hdf5, monkeypatch):
    import h5py

    largest = []
    plain = h5py.Dataset.__getitem__

    def watched(dataset, at, *others):
        found = plain(dataset, at, *others)
        largest.append(np.shape(found)[0])
        return found

    path = hdf5()
    monkeypatch.setattr(h5py.Dataset, '__getitem__', watched)
    read(path, **PATHS)
    assert max(largest) == 300


def test_nothing_is_followed_out_of_an_hdf5_file(hdf5, tmp_path):
    import h5py

    other = hdf5('other.h5')
    raw = tmp_path / 'raw'
    raw.write_bytes(bytes(16 * ROWS))

    def change(file):
        file['link'] = h5py.SoftLink('/arm/q')
        file['far'] = h5py.ExternalLink(str(other), '/arm/q')
        file.create_dataset('raw', (ROWS, 2), 'f8', external=str(raw))
        layout = h5py.VirtualLayout((ROWS, 2), 'f8')
        layout[:] = h5py.VirtualSource(str(other), 'arm/q', (ROWS, 2))
        file.create_virtual_dataset('virtual', layout)
        file.create_dataset('never', (10**12, 2), 'f8', chunks=(1000, 2))
        plugin = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plugin.set_chunk((100, 2))
        plugin.set_filter(305, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple((ROWS, 2))
        h5py.h5d.create(file.id, b'plugin', h5py.h5t.NATIVE_DOUBLE, space, plugin)
        file['text'] = 'arm'
        file['records'] = np.zeros(ROWS, [('a', 'f8')])

    path = hdf5(change=change)
    for name, what in (
        ('link', 'a link'),
        ('far', 'a link'),
        ('raw', 'in other files'),
        ('virtual', 'in other files'),
        ('never', 'declared to have 16000000000000 bytes and has 0'),
        ('plugin', 'compressed by a plugin'),
        ('text', 'text or references'),
        ('records', 'a table of records'),
    ):
        given = {**PATHS, 'position': name}
        refused(path, f"'{name}' is {what}, not numbers", **given)


def test_groups_in_a_circle_end(hdf5):
    def change(file):
        file['arm/again'] = file['arm']

    refused(hdf5(change=change), 'cannot be read as HDF5.*groups', **PATHS)


def test_a_damaged_hdf5_file_is_named(hdf5):
    path = hdf5()
    path.write_bytes(path.read_bytes()[:5000])
    refused(path, 'cannot be read as HDF5', **PATHS)


def test_matlab_7_3_is_hdf5_with_rows_and_columns_turned_round(tmp_path, signals):
    h5py = pytest.importorskip('h5py')
    path = tmp_path / 'run.mat'
    with h5py.File(path, 'w', userblock_size=512) as file:
        for name in ('q', 'tau'):
            file[name] = signals[name].T
        file['t'], file['log/dq'] = signals['t'][None], signals['dq'].T
        note = file.create_dataset('note', data=np.zeros((4, 1), np.uint16))
        note.attrs['MATLAB_class'] = np.bytes_('char')
        file['a/b/c'] = signals['q'].T
    data = bytearray(path.read_bytes())
    data[:128] = b'MATLAB 7.3 MAT-file, Platform: GLNXA64'.ljust(124) + b'\0\2IM'
    path.write_bytes(data)
    check(read(path, **{**WHOLE, 'velocity': 'log.dq'}), signals)
    check(read(path, **{**WHOLE, 'velocity': ('log.dq[:, 0]', 'log.dq[:, 1]')}), signals)
    refused(path, "'note' is text or empty, not numbers", position='note')
    refused(path, "'a.b.c' is in a struct of a struct", position='a.b.c')


MATLAB_7_3 = b'MATLAB 7.3 MAT-file'.ljust(512) + b'\x89HDF\r\n\x1a\n'


@pytest.mark.parametrize(
    ('name', 'head'), [('run.h5', b'\x89HDF\r\n\x1a\n'), ('run.mat', MATLAB_7_3)]
)
def test_without_the_library_its_extra_is_named(tmp_path, monkeypatch, name, head):
    monkeypatch.setitem(sys.modules, 'h5py', None)
    (tmp_path / name).write_bytes(head.ljust(1000))
    with pytest.raises(IdentificationError, match=r'HDF5.*robot-identification\[hdf5\]') as error:
        read(tmp_path / name, **WHOLE)
    assert '\n' not in str(error.value)


# --------------------------------------------------------------------------- npy


@pytest.mark.parametrize('order', ['C', 'F'])
def test_columns_of_one_array(tmp_path, signals, order):
    path = tmp_path / 'run.npy'
    table = np.column_stack([signals[key] for key in ('t', 'q', 'dq', 'tau')])
    np.save(path, np.asarray(table, order=order))
    names = [f'[:, {k}]' for k in range(7)]
    columns = {'position': (names[1], names[2]), 'velocity': (names[3], names[4])}
    check(read(path, time=names[0], effort=(names[5], names[6]), **columns), signals)
    refused(path, r"no column '\[:, 7\]': its columns are \[:, 0\] to \[:, 6\]", time=names[0],
            position=('[:, 7]', '[:, 1]'), effort=('[:, 5]', '[:, 6]'))  # fmt: skip


def test_fields_of_a_structured_array(tmp_path, signals):
    kinds = [(name, values.dtype, values.shape[1:]) for name, values in signals.items()]
    array = np.zeros(ROWS, kinds)
    for name, values in signals.items():
        array[name] = values
    np.save(tmp_path / 'run.npy', array)
    check(read(tmp_path / 'run.npy', **WHOLE), signals)


def test_each_signal_may_be_an_array_in_a_file_of_its_own(tmp_path, signals):
    from robot_identification.data.columns import SignalColumns

    for name in ('q', 'tau'):
        np.save(tmp_path / f'{name}.npy', signals[name])
    of_files = {
        signal: SignalColumns(str(tmp_path / f'{name}.npy'))
        for signal, name in (('position', 'q'), ('effort', 'tau'))
    }
    entry = RecordingEntry(rate=100.0, **of_files)
    entry.check(('a', 'b'), COUNTS)
    (table,) = read_tables(entry, ('a', 'b'), COUNTS, Path('.'), ROWS)
    np.testing.assert_array_equal(table.position, signals['q'])
    np.testing.assert_array_equal(table.effort, signals['tau'])


@pytest.mark.parametrize(
    ('header', 'text'),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (10**10,), }", 'header'),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000,), }", 'another size'),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (8,), }", 'not an array of numbers'),
        ("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (8,), }", 'not an array'),
    ],
)
def test_an_array_that_declares_more_than_it_holds_is_refused(tmp_path, header, text):
    path = tmp_path / 'run.npy'
    head = header.encode() + b'\n'
    path.write_bytes(b'\x93NUMPY\1\0' + struct.pack('<H', len(head)) + head + bytes(64))
    refused(path, f'cannot be read as npy.*{text}')


# --------------------------------------------------------------------------- the table


def test_names_and_beginnings_belong_to_one_format_each():
    suffixes = [suffix for each in FORMATS.values() for suffix in each.suffixes]
    heads = [head for each in FORMATS.values() for head in each.heads]
    assert len(suffixes) == len(set(suffixes)) and len(heads) == len(set(heads))
    assert [name for name, each in FORMATS.items() if name != each.name] == []
    for each in FORMATS.values():
        assert set(each.common) <= set(each.suffixes)
        assert (each.tables is None) == (each.blocks is not None)
        assert each.topics == (each.head is None)


def test_the_page_has_each_format():
    section = PAGE.read_text(encoding='utf-8').partition('## Formats')[2].partition('\n## ')[0]
    lines = [line for line in section.splitlines() if line.startswith('| ')]
    assert set(FORMATS) <= {line.split('|')[1].split(',')[0].strip() for line in lines}


def test_a_file_under_the_name_of_another_format_is_named(tmp_path, signals):
    savemat(tmp_path / 'a.mat', signals)
    np.save(tmp_path / 'a.npy', signals['q'])
    np.savez(tmp_path / 'a.npz', **signals)
    for name, title, remedy in (
        ('a.mat', 'a file of MATLAB', 'rename it to b.mat'),
        ('a.npy', 'an array of numpy.save', 'rename it to b.npy'),
        ('a.npz', 'a zip archive', 'rename an npz'),
    ):
        for suffix in ('csv', 'h5', 'parquet'):
            path = tmp_path / f'b.{suffix}'
            path.write_bytes((tmp_path / name).read_bytes())
            refused(path, f'{path.name}: is {title}.*{remedy}')
    (tmp_path / 'b.csv').write_text('PAR1,PAR2\n1,2\n')
    assert described_by_head(tmp_path / 'b.csv', FORMATS['csv']) is None
