# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save, written here opcode by opcode, since torch is no dependency."""

from contextlib import suppress
import pickle
import zipfile

import numpy as np
import pytest
from robot_identification.data.formats.npz import FORMAT
from robot_identification.drafting.command_columns import has_commands
from robot_identification.errors import RecordingError

JOINTS = ('a', 'b')
KINDS = {'<f4': 'FloatStorage', '<f8': 'DoubleStorage', '<i8': 'LongStorage'}


class Storage:
    def __init__(self, key, array):
        self.pid = ('storage', Global('torch', KINDS[array.dtype.str]), key, 'cpu', array.size)


class Global:
    def __init__(self, module, name):
        self.line = f'c{module}\n{name}\n'.encode()


class Tensor:
    """A tensor of a storage, with the shape and steps of numbers that are given."""

    def __init__(self, storage, shape, steps):
        self.arguments = (storage, 0, shape, steps, False, None)


def pickled(value):
    """Return the opcodes of protocol 2 that torch writes for a value."""
    if isinstance(value, Global):
        return value.line
    if isinstance(value, Storage):
        return pickled(value.pid) + b'Q'
    if isinstance(value, Tensor):
        return pickled(Global('torch._utils', '_rebuild_tensor_v2')) + tuples(value.arguments)
    if isinstance(value, tuple):
        return b'(' + b''.join(map(pickled, value)) + b't'
    if isinstance(value, dict):
        pairs = b''.join(pickled(key) + pickled(each) for key, each in value.items())
        return b'}(' + pairs + b'u'
    return pickle.dumps(value, 2)[2:-1]


def tuples(arguments):
    return pickled(tuple(arguments)) + b'R'


def archive(path, content, storages):
    with zipfile.ZipFile(path, 'w') as file:
        file.writestr('run/data.pkl', b'\x80\x02' + content + b'.')
        file.writestr('run/byteorder', 'little')
        for key, array in storages.items():
            file.writestr(f'run/data/{key}', array.tobytes())
    return path


def saved(path, signals):
    """Write arrays as ``torch.save`` does a mapping of tensors."""
    storages = {str(k): np.ascontiguousarray(array) for k, array in enumerate(signals.values())}
    content = {
        name: Tensor(
            Storage(key, array), array.shape, tuple(s // array.itemsize for s in array.strides)
        )
        for name, (key, array) in zip(signals, storages.items(), strict=True)
    }
    return archive(path, pickled(content), storages)


@pytest.fixture
def signals():
    random = np.random.default_rng(1)
    return {
        'time': np.arange(40) / 200.0,
        'dof_pos': random.standard_normal((40, 2)).astype(np.float32),
        'des_dof_pos': random.standard_normal((40, 2)).astype(np.float32),
    }


def test_tensors_are_read_by_name(tmp_path, signals):
    path = saved(tmp_path / 'run.pt', signals)
    assert FORMAT.head(path, 1).shapes == {name: array.shape for name, array in signals.items()}
    found = FORMAT.arrays(path, tuple(signals))
    for name, array in signals.items():
        np.testing.assert_array_equal(found[name], array)
    assert has_commands(path, JOINTS)


def test_transposed_tensors_have_their_steps(tmp_path):
    values = np.arange(6, dtype=np.float32)
    path = archive(
        tmp_path / 'run.pt',
        pickled({'x': Tensor(Storage('0', values), (3, 2), (1, 3))}),
        {'0': values},
    )
    np.testing.assert_array_equal(FORMAT.arrays(path, ['x'])['x'], values.reshape(2, 3).T)


NUMBERS = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (b'cos\nsystem\n' + tuples(('touch hurt',)), 'more than tensors of numbers'),
        (b'cbuiltins\neval\n' + tuples(('1',)), 'more than tensors of numbers'),
        (b'(S"touch hurt"\nios\nsystem\n', 'pickle opcode STRING'),
        (b'}r\xff\xff\xff\x7f', 'no place 2147483647'),
        (b'\x96' + b'\xff' * 8, 'BYTEARRAY8|cannot be read'),
        (pickled({'x': Tensor(Storage('0', NUMBERS), (7,), (1,))}), 'another size'),
        (pickled({'x': Tensor(Storage('0', NUMBERS), (10**9,), (0,))}), 'another size'),
        (pickled({'x': Tensor(Storage('0', NUMBERS), (2,), (-1,))}), 'another size'),
        (pickled({'x': Tensor(Storage('9', NUMBERS), (2,), (1,))}), "run/data/9"),
        (pickled({'x': Tensor(3, (2,), (1,))}), 'no storage'),
        (pickled((1, 2)), 'no mapping'),
        (b'RRR', 'cannot be read'),
    ],
)  # fmt: skip
def test_hostile_and_damaged_files_are_refused_in_a_line(tmp_path, content, message):
    path = archive(tmp_path / 'run.pt', content, {'0': NUMBERS})
    with pytest.raises(RecordingError, match=message) as caught:
        FORMAT.head(path, 1)
    assert '\n' not in str(caught.value)
    assert not (tmp_path / 'hurt').exists()


def test_other_files_are_refused(tmp_path):
    path = tmp_path / 'run.pt'
    path.write_bytes(pickle.dumps({'x': 1}))
    with pytest.raises(RecordingError, match='cannot be read as tensors'):
        FORMAT.head(path, 1)
    np.savez(path.with_suffix('.npz'), x=NUMBERS)
    path.with_suffix('.npz').rename(path)
    with pytest.raises(RecordingError, match=r'torch\.save'):
        FORMAT.head(path, 1)


def test_files_with_a_byte_that_is_wrong_are_read_or_refused(tmp_path, signals):
    data = saved(tmp_path / 'run.pt', signals).read_bytes()
    random = np.random.default_rng(2)
    for _ in range(100):
        spoilt = bytearray(data)
        spoilt[random.integers(len(data))] = random.integers(256)
        (tmp_path / 'run.pt').write_bytes(spoilt)
        with suppress(RecordingError):
            FORMAT.head(tmp_path / 'run.pt', 1)
