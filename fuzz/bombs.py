# SPDX-License-Identifier: Apache-2.0
"""Archives, bags, factors and results that once felled a reader. They are run first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
import gzip
import io
import lzma
from pathlib import Path
import sqlite3
import struct
import tempfile
import zipfile

import numpy as np

from .attacks import DEEP, YAMLS
from .seeds import (
    BAG,
    bag_folder,
    Case,
    csv_file,
    DEVICE,
    ENTRY,
    experiment,
    hdf5_file,
    identified,
    mat_file,
    npz_file,
    PIPE,
)
from .seeds import plans as sound_plans

LARGE = 400 << 20
"""Size that frames of lz4 and zstd expand to [bytes]."""

DEFLATED = 20 << 20
"""Size that members of archives expand to [bytes]: making larger ones takes long."""


def npy(header: bytes, data: bytes = b'', version: tuple[int, int] = (1, 0)) -> bytes:
    """Return an array with a header as given."""
    size = struct.pack('<H' if version == (1, 0) else '<I', len(header))
    return b'\x93NUMPY' + bytes(version) + size + header + data


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a ZIP archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, 'w', method) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return stream.getvalue()


def lying(data: bytes, size: int) -> bytes:
    """Return an archive whose directory declares another size of the first member."""
    at = data.index(b'PK\x01\x02') + 24
    return data[:at] + struct.pack('<I', size) + data[at + 4 :]


def shape(text: str) -> bytes:
    """Return an array's header."""
    return f"{{'descr': '<f8', 'fortran_order': False, 'shape': {text}, }}\n".encode()


@cache
def archives() -> tuple[bytes, ...]:
    """Return archives that expand, or whose headers say what is not there."""
    bomb = npy(shape(f'({DEFLATED // 8},)'), bytes(DEFLATED))
    headers = (
        shape('(10**10,)'),
        shape('(10000000000,)'),
        shape('(-1,)'),
        shape('(1, 2'),
        shape('(' * 900),
        shape("('a',)"),
        b'\\\n',
        b'"""',
        shape('(0, 10000000000)'),
        b"{'descr': '|O'}",
        shape('(2.0,)'),
        b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }\n",
        b'\xff' * 9,
    )
    made = [archive({'t.npy': npy(header, bytes(64))}) for header in headers]
    made += [
        archive({'t.npy': bomb, 'q.npy': bomb}),
        archive({'t.npy': bomb}, zipfile.ZIP_BZIP2),
        archive({'t.npy': bomb}, zipfile.ZIP_LZMA),
        lying(archive({'t.npy': bomb}), 1000),
        lying(archive({'t.npy': npy(shape('(8,)'), bytes(64))}), 2**32 - 2),
        archive({'t.npy': npy(shape('(8,)'), bytes(64), (3, 0))}),
        archive({'t.npy': npy(shape('(8,)'), bytes(64), (9, 9))}),
    ]
    return tuple(made)


def npzs() -> Sequence[Case]:
    """Return arrays that are too large."""
    entry = 'file: run.npz, time: t, position: q, effort: tau'
    strange = npz_file(q2=np.array(['text']))
    return [
        Case(experiment(entry, run__npz=data), 'run.npz')
        for data in (*archives(), strange, b'PK\x05\x06' + bytes(18), b'', PIPE, DEVICE)
    ]


def npys() -> Sequence[Case]:
    """Return arrays whose headers say what is not there."""
    columns = 'position: ["[:, 1]", "[:, 2]"], effort: ["[:, 3]", "[:, 4]"]'
    entry = f'file: run.npy, time: "[:, 0]", {columns}'
    headers = ('(10**10,)', '(10000000000,)', '(-1, 5)', '(0, 10000000000)', '(' * 900)
    contents = [npy(shape(header), bytes(64)) for header in headers]
    return [Case(experiment(entry, run__npy=data), 'run.npy') for data in (*contents, b'', PIPE)]


@cache
def mats() -> Sequence[Case]:
    """Return files of MATLAB that expand, or declare what is not there, also deep in a struct."""
    entry = 'file: run.mat, time: t, position: q, effort: log.tau'
    plain = mat_file(False, cells=np.array([[1.0], ['x']], dtype=object))
    large = struct.pack('<II', 1 << 30, 1 << 30)
    places = [
        plain.index(name) + offset
        for name, offset in ((b'arm', -32), (b'cells', -16), (b'q\0\0\0', -12))
    ]
    contents = [plain[:at] + large + plain[at + 8 :] for at in places]
    numbers = struct.pack('<II', 9, 6400)
    contents.append(plain.replace(numbers, struct.pack('<II', 99, 6400)))
    zeros = mat_file(True, zeros=np.zeros(DEFLATED // 8), more=np.zeros(DEFLATED // 8))
    nested: dict = {'x': 1.0}
    for _ in range(40):
        nested = {'x': nested}
    contents += [zeros, mat_file(False, deep=nested), plain[:128], plain[:3000], b'MATLAB 5.0']
    contents.append(plain[:128] + struct.pack('<II', 15, 100) + bytes(100))
    return [Case(experiment(entry, run__mat=data), 'run.mat') for data in (*contents, PIPE)]


@cache
def hdf5s() -> Sequence[Case]:
    """Return HDF5 files with links and data elsewhere, circles, and data that are not there."""
    import h5py

    changes: tuple[Callable, ...] = (
        lambda file, name: file.create_dataset(name, (10**12,), 'f8', chunks=(1000,)),
        lambda file, name: file.create_dataset(name, (10**9, 2), 'f8'),
        lambda file, name: file.create_dataset(name, (10**6,), 'f8', external='/etc/passwd'),
        lambda file, name: file.__setitem__(name, h5py.ExternalLink('/etc/passwd', '/x')),
        lambda file, name: file.__setitem__(name, h5py.SoftLink('/nowhere')),
        lambda file, name: file['log'].__setitem__(name, file['log']),
    )
    cases = []
    for change in changes:
        data = hdf5_file(q2=change)
        entry = 'file: run.h5, time: t, position: [q2, q2], effort: log/tau'
        cases.append(Case(experiment(entry, run__h5=data), 'run.h5'))
    data = hdf5_file()[:700]
    return [*cases, Case(experiment(entry, run__h5=data), 'run.h5')]


@cache
def texts() -> Sequence[Case]:
    """Return tables that expand to lines without rows, or have a million members."""
    table = csv_file()
    lines = b'\n' * LARGE
    small = [gzip.compress(data) * 1_000_000 for data in (b'\n', b'')]
    files = {
        'gz': [gzip.compress(table) + data for data in (gzip.compress(lines), *small)],
        'xz': [lzma.compress(data, preset=0) for data in (table + lines, lines + table)],
    }
    cases = [
        Case(experiment(f'file: run.csv.{kind}, {ENTRY}', **{f'run__csv__{kind}': data}), name)
        for kind, contents in files.items()
        for data in contents
        for name in [f'run.csv.{kind}']
    ]
    plain = table + b'#\n\n' * (8 << 20)
    return [*cases, Case(experiment(f'file: run.csv, {ENTRY}', run__csv=plain), 'run.csv')]


def chunk(compression: str, data: bytes, size: int) -> bytes:
    """Return a chunk record of mcap that declares a size."""
    name = compression.encode()
    body = struct.pack('<QQQII', 0, 0, size, 0, len(name)) + name
    body += struct.pack('<Q', len(data)) + data
    return b'\x06' + struct.pack('<Q', len(body)) + body


@cache
def mcaps() -> Sequence[Case]:
    """Return files whose chunks expand."""
    from backports import zstd
    import lz4.frame

    header = b'\x89MCAP0\r\n\x01' + struct.pack('<QI', 12, 4) + b'ros2' + struct.pack('<I', 0)
    zeros = bytes(LARGE)
    frames = [('zstd', zstd.compress(zeros)), ('lz4', lz4.frame.compress(zeros))]
    many = ('zstd', zstd.compress(bytes(1000)) * 2000)
    contents = []
    for compression, data in (*frames, many):
        for size in (100, 1000, LARGE, 2**62):
            one = chunk(compression, data, size)
            contents += [header + one, header + one * 20, header + one + b'\x89MCAP0\r\n']
    whole = bag_folder('MCAP')['run.mcap']
    footer = struct.pack('<BQQQI', 2, 20, 8, 0, 0) + b'\x89MCAP0\r\n'
    contents += [whole[:8], whole[:8] + footer, b'', PIPE, DEVICE, whole + whole, header + footer]
    return [Case(experiment(BAG, run__mcap=data), 'run.mcap') for data in contents]


@cache
def sqlites() -> Sequence[Case]:
    """Return databases that compute."""
    endless = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)'
    columns = "SELECT x AS id, 1 AS topic_id, x AS timestamp, x'00' AS data FROM c"
    topics = 'CREATE TABLE topics (id INTEGER, name TEXT, type TEXT, serialization_format TEXT)'
    topic = "INSERT INTO topics VALUES (1, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr')"
    scripts = [
        [topics, topic, f'CREATE VIEW messages AS {endless} {columns}'],
        [
            f"CREATE VIEW topics AS {endless} SELECT x AS id, 'a' AS name, 'b' AS type, 'cdr' AS "
            'serialization_format FROM c',
            'CREATE TABLE messages (id, topic_id, timestamp, data)',
        ],
        [
            topics,
            topic,
            'CREATE TABLE messages (id INTEGER, topic_id INTEGER, timestamp INTEGER, '
            'data BLOB GENERATED ALWAYS AS (zeroblob(900000000)))',
            'INSERT INTO messages (id, topic_id, timestamp) VALUES (1, 1, 1), (2, 1, 2)',
        ],
        [
            topics,
            topic,
            'CREATE TABLE messages (id, topic_id, timestamp, data)',
            "INSERT INTO messages VALUES (1, 1, 'a', 'a'), (2, 1, NULL, NULL), (3, 1, 1.5, 7)",
        ],
        [
            topics,
            topic,
            'CREATE TABLE messages (id, topic_id, timestamp, data)',
            "INSERT INTO messages VALUES (1, 1, 9223372036854775807, x'00'), (2, 1, -1, x'')",
        ],
        [
            topics,
            "INSERT INTO topics VALUES ('a', 1, NULL, 'cdr'), (1, x'ff', 2.5, 'cdr')",
            'CREATE TABLE messages (id, topic_id, timestamp, data)',
        ],
        ['CREATE TABLE topics (a)', 'CREATE TABLE messages (b)'],
    ]
    contents = [PIPE, DEVICE, b'', b'SQLite format 3\0']
    for script in scripts:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, 'run.db3')
            connection = sqlite3.connect(path)
            for statement in script:
                connection.execute(statement)
            connection.commit()
            connection.close()
            contents.append(path.read_bytes())
    entry = BAG.replace('mcap', 'db3')
    return [Case(experiment(entry, run__db3=data), 'run.db3') for data in contents]


@cache
def folders() -> Sequence[Case]:
    """Return bags whose metadata or compressed files expand."""
    from backports import zstd

    bag = {f'run/{name}': data for name, data in bag_folder('MCAP').items()}
    files = {**experiment('file: run, format: rosbag2'), **bag}
    packed = {f'run/{name}': data for name, data in bag_folder('MCAP', 'FILE').items()}
    bomb = {**packed, 'run/run.mcap.zstd': zstd.compress(bytes(LARGE))}
    cases = [Case({**experiment('file: run, format: rosbag2'), **bomb}, 'run/metadata.yaml')]
    suspects = [
        b'rosbag2_bagfile_information: ' + text for text in (*DEEP, b'&a [*a]', b'9' * 5000)
    ]
    for data in (*YAMLS, *suspects, PIPE, DEVICE):
        cases.append(Case({**files, 'run/metadata.yaml': data}, 'run/metadata.yaml'))
    return cases


@cache
def factors() -> Sequence[Case]:
    """Return factors that were tampered with."""
    sound = identified()['run.factor']
    with zipfile.ZipFile(io.BytesIO(sound)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    contents = list(archives())
    header = members['header.json']
    for old, new in (
        (b'"format": 1', b'"format": ' + b'9' * 5000),
        (b'"raw_rows": ', b'"raw_rows": 1e400, "x": '),
        (b'"regrouping": [', b'"regrouping": [' + b'9' * 400 + b', '),
        (b'"joints": [', b'"joints": [[], '),
        (b'"settings": {', b'"settings": [' + b'[' * 50_000 + b'{'),
        (b'"robot": {', b'"robot": 1, "y": {'),
        (b'"recordings": [', b'"recordings": [{"name": {}, "start": []}, '),
        (b'{', b'[' * 100_000),
        (b'"trim": 0.05', b'"trim": 1e308'),
        (b'-9.81', b'1e308'),
        (b'"base": [', b'"base": [null, '),
        (b'"name"', b'"x"'),
        (b'"urdf": "', b'"urdf": "x'),
        (b'"rows": [', b'"rows": [[1, 2], '),
    ):
        contents.append(archive({**members, 'header.json': header.replace(old, new, 1)}))
    for name, data in members.items():
        if name.endswith('.npy'):
            number = struct.pack('<d', 1e308)
            contents.append(archive({**members, name: data[:-8] + number}))
            contents.append(archive({**members, name: data[:-8] + struct.pack('<q', -(2**62))}))
            contents.append(archive({k: v for k, v in members.items() if k != name}))
    return [Case({'run.factor': data}, 'run.factor') for data in (*contents, PIPE, DEVICE)]


@cache
def results() -> Sequence[Case]:
    """Return results that were tampered with."""
    text = identified()['result.yaml']
    lines = text.split(b'\n')
    contents = [*YAMLS, *(b'robot_identification: {format: 1}\nname: ' + each for each in DEEP)]
    keys = (b'parameters', b'standard_parameters', b'settings', b'robot', b'identification')
    for key in keys:
        for value in (
            b'[]',
            b'{}',
            b'null',
            b'[null]',
            b'[{name: a, unit: b}]',
            b'1e308',
            b'[[1]]',
        ):
            contents.append(
                text.replace(b'\n' + key + b':', b'\n' + key + b': ' + value + b'\nx:', 1)
            )
    contents += [b'\n'.join(lines[:at]) for at in range(0, len(lines), 12)]
    contents += [text.replace(b'-9.81', b'1e308'), text.replace(b'expression', b'name', 3)]
    return [Case({'result.yaml': data}, 'result.yaml') for data in (*contents, PIPE, DEVICE)]


def plans() -> Sequence[Case]:
    """Return plans that take long to check, or that name what there is not."""
    series, points = sound_plans()
    contents = [*YAMLS, *(b'format: robot_identification plan 1\nrobot: ' + each for each in DEEP)]
    for old, new in (
        (b'frequency: 0.2', b'frequency: 1.0e+90'),
        (b'frequency: 0.2', b'frequency: 1.0e-90'),
        (b'frequency: 0.2', b'frequency: 900.0'),
        (b'duration: 5.0', b'duration: 3600.0'),
        (b'duration: 5.0', b'duration: 1.0e-90'),
        (b'coefficients:', b'coefficients:' + 100_000 * b'\n  - [1.0, 1.0]'),
        (b'coefficients:', b'coefficients:' + 100_000 * b'\n  - []'),
        (b'joint_1', b'joint_9'),
        (b'-9.81', b'1.0e+99'),
    ):
        assert old in series
        contents.append(series.replace(old, new, 1))
    contents += [points.replace(b'time: [0.0, ', b'time: [1.0e-90, '), points[: len(points) // 2]]
    return [Case({'plan.yaml': data}, 'plan.yaml') for data in (*contents, PIPE, DEVICE)]
