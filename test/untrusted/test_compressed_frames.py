# SPDX-License-Identifier: Apache-2.0
"""Decompression never gives more than was declared, and never takes much more memory."""

from io import BytesIO
import struct
import sys
import tracemalloc
import warnings

import lz4.frame
from mcap.data_stream import ReadDataStream
from mcap.records import Chunk
import pytest
from robot_identification.data.bag import joint_state_messages
from robot_identification.data.mcap_file import records_of
from robot_identification.errors import IdentificationWarning, RecordingError
from robot_identification.untrusted.compressed import (
    decompress,
    decompress_file,
    decompress_message,
    MAX_BLOCK,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS = {'lz4': lz4.frame.compress, 'zstd': zstd.compress}
SIZE = 64 << 20


@pytest.fixture(scope='module')
def frames():
    """Return frames that expand to 64 MB of zeros."""
    return {name: memoryview(compress(bytes(SIZE))) for name, compress in COMPRESS.items()}


def peak(function, *arguments):
    """Return the largest memory that Python took [bytes]."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match='declare'):
            function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize('name', COMPRESS)
def test_what_is_declared_is_given(name):
    data = bytes(range(256)) * 300
    frame = memoryview(COMPRESS[name](data))
    assert decompress(name, frame, len(data)) == data
    for wrong in (len(data) - 1, len(data) + 1, 0):
        with pytest.raises(ValueError, match='that it declares'):
            decompress(name, frame, wrong)
    with pytest.raises(ValueError, match='fewer than'):
        decompress(name, frame[: len(frame) // 2], len(data))
    with pytest.raises(ValueError, match="compression 'x' is not known"):
        decompress('x', frame, len(data))


@pytest.mark.parametrize('name', COMPRESS)
def test_a_frame_does_not_grow_beyond_its_size(frames, name):
    frame = frames[name]
    assert len(decompress(name, memoryview(COMPRESS[name](bytes(9000))), 9000)) == 9000
    assert peak(decompress, name, frame, 1000) < 1 << 20
    assert peak(decompress, name, frame, MAX_BLOCK + 1) < 1 << 20
    assert peak(decompress, name, frame[:100], SIZE) < 1 << 20


def chunk(name, data, size):
    body = struct.pack('<QQQII', 0, 0, size, 0, len(name)) + name.encode()
    body += struct.pack('<Q', len(data)) + data
    return b'\x06' + struct.pack('<Q', len(body)) + body


@pytest.mark.parametrize('name', COMPRESS)
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
    assert target.stat().st_size < SIZE // 2
