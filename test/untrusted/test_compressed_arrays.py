# SPDX-License-Identifier: Apache-2.0
"""Arrays in archives: those of NumPy, to the last bit, and none larger than the archive tells."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from robot_identification.config.sources import open_recording
from robot_identification.data.recording_config import RecordingEntry
from robot_identification.errors import IdentificationError, RecordingError
from robot_identification.options.fields import from_mapping
from robot_identification.results.factor_file import unpack
from robot_identification.untrusted.compressed import DAMAGED, open_archive

SIZE = 32 << 20


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
    with open_archive(stream) as archive:
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


BOMB = npy(f'({SIZE // 8},)', bytes(SIZE))
BAD = {
    'more than the directory tells': declaring(archive_of(BOMB), 1000),
    'less than the directory tells': declaring(archive_of(npy('(8,)', bytes(64))), 10**9),
    'bzip2': archive_of(BOMB, zipfile.ZIP_BZIP2),
    'lzma': archive_of(npy('(8,)', bytes(64)), zipfile.ZIP_LZMA),
    'shape beyond the data': archive_of(npy('(10000000000,)', bytes(64))),
    'shape beyond all numbers': archive_of(npy('(' + '9' * 400 + ',)', bytes(64))),
    'negative shape': archive_of(npy('(-1, -8)', bytes(64))),
    'shape that is no tuple': archive_of(npy("'x'", bytes(64))),
    'open bracket': archive_of(npy('(8', bytes(64))),
    'header that cannot be split': archive_of(b'\x93NUMPY\x01\x00\x04\x00"""\n'),
    'objects': archive_of(npy('(8,)', bytes(64), "'|O'")),
    'records': archive_of(npy('(4,)', bytes(64), "[('a', '<f8'), ('b', '<f8')]")),
    'unknown version': archive_of(npy('(8,)', bytes(64), version=(7, 7))),
    'not an array': archive_of(b'text'),
    'not deflate': archive_of(npy('(8,)', bytes(64))).replace(b'\x08\x00', b'\x08\x01'),
    'nothing': b'',
}


@pytest.mark.parametrize('data', BAD.values(), ids=BAD)
def test_what_lies_is_refused_without_memory(tmp_path, data):
    tracemalloc.start()
    try:
        with pytest.raises(DAMAGED), open_archive(io.BytesIO(data)) as archive:
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
