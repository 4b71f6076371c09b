# SPDX-License-Identifier: Apache-2.0
"""Decompressed frames, arrays and texts: as written, within declared sizes and little memory."""

import gzip
import io
from io import BytesIO
import lzma
import struct
import sys
import time
import tracemalloc
import warnings
import zipfile

import lz4.frame
from mcap.data_stream import ReadDataStream
from mcap.records import Chunk
import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.bag import joint_state_messages
from robot_identification.data.formats import FORMATS
from robot_identification.data.mcap_storage import records_of
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import IdentificationError, IdentificationWarning, RecordingError
from robot_identification.estimation.factor_file import unpack
from robot_identification.options.fields import from_mapping
from robot_identification.untrusted.compressed import (
    ArrayArchive,
    DAMAGED,
    decompress,
    decompress_file,
    decompress_message,
    MAX_BLOCK,
    MAX_DICTIONARY,
    open_text_file,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS_FRAME = {'lz4': lz4.frame.compress, 'zstd': zstd.compress}
FRAME_SIZE = 64 << 20


@pytest.fixture(scope='module')
def frames():
    """Return frames that expand to 64 MB of zeros."""
    return {
        name: memoryview(compress(bytes(FRAME_SIZE))) for name, compress in COMPRESS_FRAME.items()
    }


def peak(function, *arguments):
    """Return the largest memory that Python took [bytes]."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match='declare'):
            function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize('name', COMPRESS_FRAME)
def test_what_is_declared_is_given(name):
    data = bytes(range(96)) * 300
    frame = memoryview(COMPRESS_FRAME[name](data))
    assert decompress(name, frame, len(data)) == data
    for wrong in (len(data) - 1, len(data) + 1, 0):
        with pytest.raises(ValueError, match='that it declares'):
            decompress(name, frame, wrong)
    with pytest.raises(ValueError, match='fewer than'):
        decompress(name, frame[: len(frame) // 2], len(data))
    with pytest.raises(ValueError, match="compression 'x' is not known"):
        decompress('x', frame, len(data))


@pytest.mark.parametrize('name', COMPRESS_FRAME)
def test_a_frame_does_not_grow_beyond_its_size(frames, name):
    frame = frames[name]
    assert len(decompress(name, memoryview(COMPRESS_FRAME[name](bytes(9000))), 9000)) == 9000
    assert peak(decompress, name, frame, 1000) < 1 << 20
    assert peak(decompress, name, frame, MAX_BLOCK + 1) < 1 << 20
    assert peak(decompress, name, frame[:100], FRAME_SIZE) < 1 << 20


def chunk(name, data, size):
    body = struct.pack('<QQQII', 0, 0, size, 0, len(name)) + name.encode()
    body += struct.pack('<Q', len(data)) + data
    return b'\x06' + struct.pack('<Q', len(body)) + body


@pytest.mark.parametrize('name', COMPRESS_FRAME)
@pytest.mark.parametrize('end', [b'', b'\x89MCAP0\r\n'])
def test_chunks_that_lie_are_damage(tmp_path, frames, name, end):
    data = chunk(name, frames[name], 1000)
    stored = Chunk.read(ReadDataStream(BytesIO(data[9:])))
    assert peak(records_of, stored) < 1 << 20
    header = b'\x89MCAP0\r\n\x01' + struct.pack('<QI', 12, 4) + b'ros2' + struct.pack('<I', 0)
    path = tmp_path / 'run.mcap'
    path.write_bytes(header + data + data + end)
    with warnings.catch_warnings(), pytest.raises(RecordingError, match='is damaged'):
        warnings.simplefilter('ignore', IdentificationWarning)
        list(joint_state_messages(path, 'joint_states'))


def test_messages_and_files_that_expand_are_refused(tmp_path, frames):
    assert decompress_message(zstd.compress(b'abc')) == b'abc'
    with pytest.raises(ValueError, match='has no end'):
        decompress_message(bytes(frames['zstd']))
    source, target = tmp_path / 'source', tmp_path / 'target'
    source.write_bytes(zstd.compress(b'abc' * 1000))
    decompress_file(source, target)
    assert target.read_bytes() == b'abc' * 1000
    source.write_bytes(frames['zstd'])
    with pytest.raises(ValueError, match='expands to more'):
        decompress_file(source, target)
    assert target.read_bytes() == b'abc' * 1000


ARRAY_SIZE = 32 << 20


@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_arrays_are_those_of_numpy(save):
    rng = np.random.default_rng(0)
    arrays = {
        'vector': rng.normal(size=7),
        'matrix': np.asfortranarray(rng.normal(size=(3, 4))),
        'single': rng.normal(size=5).astype('>f4'),
        'whole': np.arange(6, dtype=np.uint16).reshape(2, 3),
        'flags': np.array([True, False]),
        'scalar': np.array(3.5),
        'text': np.array(['a', 'bc']),
        'empty': np.empty((0, 3)),
    }
    stream = io.BytesIO()
    save(stream, **arrays)
    archive = ArrayArchive(stream)
    assert set(archive.arrays) == set(arrays)
    for name, expected in arrays.items():
        array = archive.array(name)
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)


def npy(shape, data=b'', kind="'<f8'", version=(1, 0)):
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = struct.pack('<H' if version == (1, 0) else '<I', len(header))
    return b'\x93NUMPY' + bytes(version) + size + header + data


def archive_of(data, method=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, 'w', method) as archive:
        archive.writestr('t.npy', data)
    return stream.getvalue()


def declaring(data, size):
    """Change the size of the first member in the archive's directory."""
    at = data.index(b'PK\x01\x02') + 24
    return data[:at] + struct.pack('<I', size) + data[at + 4 :]


def bomb():
    return npy(f'({ARRAY_SIZE // 8},)', bytes(ARRAY_SIZE))


# made by the test: each process that collects it would compress all of them
BAD = {
    'more than the directory tells': lambda: declaring(archive_of(bomb()), 1000),
    'less than the directory tells': lambda: declaring(archive_of(npy('(8,)', bytes(64))), 10**9),
    'bzip2': lambda: archive_of(bomb(), zipfile.ZIP_BZIP2),
    'lzma': lambda: archive_of(npy('(8,)', bytes(64)), zipfile.ZIP_LZMA),
    'shape beyond the data': lambda: archive_of(npy('(10000000000,)', bytes(64))),
    'shape beyond all numbers': lambda: archive_of(npy('(' + '9' * 400 + ',)', bytes(64))),
    'negative shape': lambda: archive_of(npy('(-1, -8)', bytes(64))),
    'shape that is no tuple': lambda: archive_of(npy("'x'", bytes(64))),
    'open bracket': lambda: archive_of(npy('(8', bytes(64))),
    'header that cannot be split': lambda: archive_of(b'\x93NUMPY\x01\x00\x04\x00"""\n'),
    'objects': lambda: archive_of(npy('(8,)', bytes(64), "'|O'")),
    'records': lambda: archive_of(npy('(4,)', bytes(64), "[('a', '<f8'), ('b', '<f8')]")),
    'unknown version': lambda: archive_of(npy('(8,)', bytes(64), version=(7, 7))),
    'not an array': lambda: archive_of(b'text'),
    'not deflate': lambda: archive_of(npy('(8,)', bytes(64))).replace(b'\x08\x00', b'\x08\x01'),
    'nothing': lambda: b'',
}


@pytest.mark.parametrize('kind', BAD)
def test_what_lies_is_refused_without_memory(tmp_path, kind):
    data = BAD[kind]()
    tracemalloc.start()
    try:
        with pytest.raises(DAMAGED):
            archive = ArrayArchive(io.BytesIO(data))
            archive.array('t')
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    path = tmp_path / 'run.npz'
    path.write_bytes(data)
    entry = {'file': 'run.npz', 'time': 't', 'position': 't', 'effort': 't'}
    source = open_recording(from_mapping(RecordingEntry, entry), ('a',), base=tmp_path)
    with pytest.raises(RecordingError, match='cannot be read as npz|shape'):
        next(source.blocks())
    with pytest.raises(IdentificationError, match='not a factor|damaged'):
        unpack(data)


COMPRESS_TEXT = {'.gz': gzip.compress, '.xz': lzma.compress}
LZMA2 = {'id': lzma.FILTER_LZMA2, 'preset': 6}


def read(path):
    entry = RecordingEntry(file=str(path), time='t', position=('q',), effort=('tau',))
    blocks = list(open_recording(entry, ('joint',)).blocks())
    return np.column_stack(
        [np.concatenate([b.time for b in blocks]), *np.concatenate([b.position for b in blocks]).T]
    )


@pytest.mark.parametrize('suffix', COMPRESS_TEXT)
def test_a_compressed_table_is_the_table(tmp_path, suffix):
    table = 0.1 * np.random.default_rng(0).normal(size=(5000, 3))
    table[:, 0] = np.arange(5000) / 100.0
    text = 't,q,tau\n' + '\n'.join(','.join(map(repr, row)) for row in table.tolist())
    path = tmp_path / f'run.csv{suffix}'
    path.write_bytes(COMPRESS_TEXT[suffix](text.encode()))
    np.testing.assert_array_equal(read(path), table[:, :2])
    # for telling progress only
    assert 0.3 * 5000 < FORMATS['csv'].rows(path) < 3.0 * 5000


@pytest.mark.parametrize('suffix', COMPRESS_TEXT)
@pytest.mark.parametrize('damage', [lambda data: data[: len(data) // 2], lambda data: b'no'])
def test_a_damaged_file_is_named(tmp_path, suffix, damage):
    text = b't,q,tau\n' + b'0.0,1.0,2.0\n' * 1000
    path = tmp_path / f'run.csv{suffix}'
    path.write_bytes(damage(COMPRESS_TEXT[suffix](text)))
    with pytest.raises(RecordingError, match=f'run.csv{suffix}') as caught:
        read(path)
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('suffix', COMPRESS_TEXT)
def test_a_bomb_is_refused_by_its_first_line_in_little_memory(tmp_path, suffix):
    path = tmp_path / f'run.csv{suffix}'
    path.write_bytes(COMPRESS_TEXT[suffix](b'1' * (32 << 20)))
    tracemalloc.start()
    with pytest.raises(RecordingError, match='a line of more than'):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 << 20


def test_a_decoder_that_wants_too_much_memory_is_refused(tmp_path):
    path = tmp_path / 'run.csv.xz'
    filters = [{**LZMA2, 'dict_size': 2 * MAX_DICTIONARY}]
    compressor = lzma.LZMACompressor(filters=filters)
    path.write_bytes(compressor.compress(b't,q,tau\n0,1,2\n') + compressor.flush())
    with pytest.raises(RecordingError, match='emory'):
        read(path)


def test_the_file_is_closed(tmp_path, recwarn):
    path = tmp_path / 'run.csv.gz'
    path.write_bytes(gzip.compress(b'1,2\n'))
    with open_text_file(path) as stream:
        assert stream.read() == b'1,2\n'
    del stream
    assert not recwarn.list


ROW = b'0.0,1.0,2.0\n'


@pytest.fixture(scope='module')
def bombs(tmp_path_factory):
    """Make files that expand, or have many members; they are refused long before their ends."""
    folder = tmp_path_factory.mktemp('bombs')
    for suffix, opened in (('gz', gzip.open), ('xz', lzma.open)):
        options = {'compresslevel': 9} if suffix == 'gz' else {'preset': 0}
        with opened(folder / f'blank.csv.{suffix}', 'wb', **options) as stream:
            for _ in range(96):
                stream.write(b'\n' * (1 << 20))
        with opened(folder / f'rows.csv.{suffix}', 'wb', **options) as stream:
            stream.write(b't,q,tau\n')
            for _ in range(96):
                stream.write(ROW * (1 << 16))
    (folder / 'plain.csv').write_bytes(b't,q,tau\n0,1,2\n' + b' \n#\n' * (4 << 20))
    members = gzip.compress(b't,q,tau\n') + gzip.compress(b'0,1,2\n') * 300_000
    (folder / 'members.csv.gz').write_bytes(members)
    empty = gzip.compress(b't,q,tau\n') + gzip.compress(b'') * 300_000
    (folder / 'empty.csv.gz').write_bytes(empty)
    return folder


@pytest.mark.parametrize(
    ('name', 'limit'),
    [
        ('blank.csv.gz', 'more than 100000 lines that are empty'),
        ('blank.csv.xz', 'more than 100000 lines that are empty'),
        ('plain.csv', 'more than 100000 lines that are empty'),
        ('members.csv.gz', 'more than 1000 members'),
        ('empty.csv.gz', 'more than 1000 members'),
    ],
)
def test_lines_and_members_without_rows_are_refused_at_once(bombs, name, limit):
    begin = time.process_time()
    with pytest.raises(RecordingError, match=limit):
        read(bombs / name)
    assert time.process_time() - begin < 5.0


@pytest.mark.parametrize('suffix', COMPRESS_TEXT)
def test_rows_expand_to_no_more_than_a_recording_can(bombs, suffix):
    path = bombs / f'rows.csv{suffix}'
    with open_text_file(path) as stream, pytest.raises(OSError, match='it expands to more than'):
        while stream.read(1 << 16):
            pass


def test_a_table_in_many_members_is_the_table(tmp_path):
    """As tools write that compress in blocks, and `cat` of several files."""
    rows = [f'{time},1,2\n' * 400 for time in range(3000)]
    path = tmp_path / 'run.csv.gz'
    path.write_bytes(b''.join(gzip.compress(row.encode(), 1) for row in ['t,q,tau\n', *rows]))
    path.write_bytes(path.read_bytes() + bytes(1000))  # padding, as of tapes
    with open_text_file(path) as stream:
        assert stream.read() == ('t,q,tau\n' + ''.join(rows)).encode()


def test_an_archive_of_a_million_members_is_refused_at_once():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, 'w') as archive:
        for number in range(30_000):
            archive.writestr(f'{number}.npy', b'')
    begin = time.process_time()
    with pytest.raises(ValueError, match='list of members'):
        ArrayArchive(stream)
    assert time.process_time() - begin < 0.1
    content = stream.getvalue()
    at = content.rindex(b'PK\x05\x06')
    # an end of the large kind counts, whatever the small one says
    size, where = (int.from_bytes(content[at + 12 + k : at + 16 + k], 'little') for k in (0, 4))
    large = struct.pack('<4sQHHIIQQQQ', b'PK\x06\x06', 44, 45, 45, 0, 0, 9, 9, size, where)
    locator = struct.pack('<4sIQI', b'PK\x06\x07', 0, at, 1)
    small = content[at : at + 12] + bytes(4) + content[at + 16 :]
    with pytest.raises(ValueError, match='list of members'):
        ArrayArchive(io.BytesIO(content[:at] + large + locator + small))


@pytest.mark.parametrize('suffix', COMPRESS_TEXT)
def test_a_robot_at_rest_is_no_bomb(tmp_path, suffix):
    stream = io.BytesIO()
    rows = np.zeros((4000, 91))
    rows[:, 0] = np.arange(4000) / 100.0
    np.savetxt(stream, rows, delimiter=',')
    path = tmp_path / f'run.csv{suffix}'
    path.write_bytes(COMPRESS_TEXT[suffix](stream.getvalue()))
    with open_text_file(path) as text:
        assert text.read() == stream.getvalue()
