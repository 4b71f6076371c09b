# SPDX-License-Identifier: Apache-2.0
"""Compressed texts are read in pieces, and damaged ones are named."""

import gzip
import lzma
import tracemalloc

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.csv import estimated_rows
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import RecordingError
from robot_identification.untrusted.compressed import MAX_DICTIONARY, open_text_file

COMPRESS = {'.gz': gzip.compress, '.xz': lzma.compress}
LZMA2 = {'id': lzma.FILTER_LZMA2, 'preset': 6}


def read(path):
    entry = RecordingEntry(file=str(path), time='t', position=('q',), effort=('tau',))
    blocks = list(open_recording(entry, ('joint',)).blocks())
    return np.column_stack(
        [np.concatenate([b.time for b in blocks]), *np.concatenate([b.position for b in blocks]).T]
    )


@pytest.mark.parametrize('suffix', COMPRESS)
def test_a_compressed_table_is_the_table(tmp_path, suffix):
    table = np.random.default_rng(0).normal(size=(5000, 3))
    table[:, 0] = np.arange(5000) / 100.0
    text = 't,q,tau\n' + '\n'.join(','.join(map(repr, row)) for row in table.tolist())
    path = tmp_path / f'run.csv{suffix}'
    path.write_bytes(COMPRESS[suffix](text.encode()))
    np.testing.assert_array_equal(read(path), table[:, :2])
    # for telling progress only
    assert 0.3 * 5000 < estimated_rows(path) < 3.0 * 5000


@pytest.mark.parametrize('suffix', COMPRESS)
@pytest.mark.parametrize('damage', [lambda data: data[: len(data) // 2], lambda data: b'no'])
def test_a_damaged_file_is_named(tmp_path, suffix, damage):
    text = b't,q,tau\n' + b'0.0,1.0,2.0\n' * 1000
    path = tmp_path / f'run.csv{suffix}'
    path.write_bytes(damage(COMPRESS[suffix](text)))
    with pytest.raises(RecordingError, match=f'run.csv{suffix}') as caught:
        read(path)
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('suffix', COMPRESS)
def test_a_bomb_is_refused_by_its_first_line_in_little_memory(tmp_path, suffix):
    path = tmp_path / f'run.csv{suffix}'
    path.write_bytes(COMPRESS[suffix](b'1' * (32 << 20)))
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
