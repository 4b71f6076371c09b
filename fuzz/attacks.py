# SPDX-License-Identifier: Apache-2.0
"""Inputs that once felled a reader: they are run first, each time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
import io
from pathlib import Path
import sqlite3
import struct
import tempfile
import zipfile

import numpy as np

from .seeds import (
    BAG,
    bag_folder,
    Case,
    csv_file,
    DEVICE,
    ENTRY,
    experiment,
    identified,
    npz_file,
    PIPE,
    SETTINGS,
    urdf,
    XACRO,
)

LARGE = 400 << 20
"""Size that frames of lz4 and zstd expand to [bytes]."""

DEFLATED = 20 << 20
"""Size that members of archives expand to [bytes]: making larger ones takes long."""

DEEP = (b'[' * 100_000, b'{a: ' * 50_000, b'- ' * 100_000, b'? ' * 50_000)
ALIASES = b'a: &a [x,x,x,x,x,x,x,x,x]\n' + b''.join(
    b'%c: &%c [%s]\n' % (98 + i, 98 + i, b','.join(9 * [b'*%c' % (97 + i)])) for i in range(9)
)
MERGES = b'a: &a {x: 1}\n' + b''.join(
    b'%c: &%c {<<: [%s]}\n' % (98 + i, 98 + i, b','.join(9 * [b'*%c' % (97 + i)]))
    for i in range(9)
)
CIRCLE = b'&a [*a, *a]'
YAMLS = (*DEEP, ALIASES, MERGES, CIRCLE, b'\0', b'!!int x', b'9' * 5000, b'2001-99-99')
"""YAML that overflows the stack or the memory, or does not fit its tags."""


def experiments() -> Sequence[Case]:
    """Return settings out of all bounds."""
    plain = experiment(f'file: run.csv, {ENTRY}', run__csv=csv_file())
    texts = list(YAMLS)
    base = plain['experiment.yaml'].decode()
    for old, new in (
        ('trim: 0.05', 'trim: 1e308'), ('trim: 0.05', 'trim: 1e15'), ('cutoff: 10.0', 'cutoff: 1e300'),
        ('decimate_to: 20.0', 'decimate_to: 1e-300'), ('-9.81]', '-1e308]'), ('-9.81]', '1e200]'),
        ('decimate_to: 20.0', 'decimate_to: 20.0, sample_rate: 1e300'),
        ('decimate_to: 20.0', 'decimate_to: 20.0, sample_rate: 999999.0'),
        ('prior: urdf', 'prior: ~nouser/prior.yaml'), ('prior: urdf', 'prior: "a\\0b"'),
        ('prior: urdf', 'prior: pipe'), ('prior: urdf', 'prior: /dev/zero'),
        ('prior: urdf', 'prior: urdf, blocks: {length: 1e308}'),
        ('prior: urdf', 'prior: urdf, block: 1e308'),
        ('method: ols', 'method: mrls, mrls: {bounds_file: pipe}'),
        ('urdf: arm.urdf', 'urdf: ~nouser/arm.urdf'), ('urdf: arm.urdf', 'urdf: "a\\0b"'),
        ('urdf: arm.urdf', 'urdf: pipe'), ('urdf: arm.urdf', 'urdf: /dev/zero'),
        ('urdf: arm.urdf', 'urdf: ' + 'x' * 300), ('urdf: arm.urdf', 'urdf: folder'),
        ('urdf: arm.urdf', 'urdf: package://../../x'),
        ('file: run.csv', 'file: ~nouser/run.csv'), ('file: run.csv', 'file: "a\\0b.csv"'),
        ('file: run.csv', 'file: pipe, format: csv'), ('file: run.csv', 'file: /dev/zero, format: npz'),
        ('file: run.csv', 'file: pipe, format: npz'), ('file: run.csv', 'file: /proc/self/mem, format: csv'),
        ('file: run.csv', "file: run.csv, delimiter: ''"), ('file: run.csv', 'file: run.csv, delimiter: "ab"'),
        ('time: t', 'rate: 1e308'), ('time: t', 'rate: 1e-300'), ('time: t', 'time: ' + '9' * 30),
        ('[q1, q2]', '[q1, ' + '9' * 30 + ']'), ('file: run.csv', 'file: run.csv, rows: [0, 99999999999999999999]'),
    ):  # fmt: skip
        texts.append(base.replace(old, new).encode())
    texts.append(SETTINGS.replace('1.0, 0.0]', '1e308, 1e308]').encode())
    return [Case({**plain, 'experiment.yaml': text}, 'experiment.yaml') for text in texts] + [
        Case({**plain, 'experiment.yaml': PIPE}, 'experiment.yaml'),
        Case({**plain, 'experiment.yaml': DEVICE}, 'experiment.yaml'),
        Case({**plain, 'arm.urdf': PIPE}, 'experiment.yaml'),
        Case({**plain, 'run.csv': DEVICE}, 'experiment.yaml'),
    ]


def chain(links: int, kind: str = 'fixed') -> bytes:
    """Return a robot that is a chain of links."""
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        '</inertial>'
    )
    parts = [
        '<robot name="chain">',
        *(f'<link name="l{i}">{inertial}</link>' for i in range(links)),
    ]
    parts += [
        f'<joint name="j{i}" type="{kind if i else "revolute"}"><parent link="l{i}"/>'
        f'<child link="l{i + 1}"/><axis xyz="0 0 1"/>'
        '<limit lower="-1" upper="1" velocity="1" effort="1"/></joint>'
        for i in range(links - 1)
    ]
    return ''.join([*parts, '</robot>']).encode()


def urdfs() -> Sequence[Case]:
    """Return robots that no parser should see."""
    text = urdf().decode()
    entities = (
        '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>' + text,
        '<!DOCTYPE r SYSTEM "file:///etc/passwd">' + text,
        text.replace('<robot', '<!DOCTYPE robot><robot', 1).replace(
            '<link', '&undeclared;<link', 1
        ),
        text.replace('<link', '&undeclared;<link', 1),
        text.replace('<link', '<!-- x --><?pi x?><link', 1),
    )
    changed = [
        text.replace('0 0 1', '0 0 0'), text.replace('xyz="0 0 1"', 'xyz="0 0 1e-320"'),
        text.replace('mass value="', 'mass value="1e308" x="'),
        text.replace('ixx="', 'ixx="1e308" x="'), text.replace('value="', 'value="nan" x="'),
        text.replace('lower="', 'lower="1e308" x="'), text.replace('upper="', 'upper="nan" x="'),
        text.replace('<parent link="', '<parent link="x'), text.replace('joint_2', 'joint_1'),
        text.replace('rpy="', 'rpy="1e308 0 0" x="'), '<' * 1000, '<robot>' * 1000, '<robot/>',
    ]  # fmt: skip
    data = [text.encode('utf-8', 'surrogatepass') for text in (*entities, *changed)]
    data += [
        chain(20_000),
        chain(999),
        chain(300, 'revolute'),
        b'\xff\xfe' + text.encode('utf-16-le'),
    ]
    return [Case({'arm.urdf': each}, 'arm.urdf') for each in (*data, PIPE, DEVICE)]


def xacros() -> Sequence[Case]:
    """Return programs that do not end or take all memory."""
    texts = [
        XACRO.replace('0.5 * 2', expression)
        for expression in ('9**9**9', "'x' * 10**10", '[0] * 10**9', '1/0', '().__class__')
    ]
    texts.append(XACRO.replace('<link name="base"/>', '<xacro:include filename="pipe"/>'))
    recursive = '<xacro:macro name="again"><xacro:again/></xacro:macro><xacro:again/>'
    texts.append(XACRO.replace('<link name="base"/>', recursive))
    cases = [Case({'arm.urdf.xacro': text.encode()}, 'arm.urdf.xacro') for text in texts]
    return [*cases, Case({'arm.urdf.xacro': PIPE}, 'arm.urdf.xacro')]


def csvs() -> Sequence[Case]:
    """Return text that is no table."""
    table = csv_file()
    head, rest = table.split(b'\n', 1)
    cell = b'1' * 200_000
    contents = [
        b'"' + cell + b'",0,0,0,0\n' + rest, head + b'\n' + cell + b',0,0,0,0\n' + rest,
        head + b'\n"' + cell + b'",0,0,0,0\n' + rest, cell * 20, b',' * 500_000, b'"' * 1000,
        head + b'\n' + b'0,' * 300_000, table.replace(b'0.01,', b'1e308,', 1),
        table.replace(b'\n0.01,', b'\n-1e308,', 1), table.replace(b'\n3.99,', b'\n1e12,', 1), b'', b'\n',
        PIPE, DEVICE, head + b'\n', table.replace(b'0.', b'1e307'),
    ]  # fmt: skip
    return [
        Case(experiment(f'file: run.csv, {ENTRY}', run__csv=data), 'run.csv') for data in contents
    ]


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
        shape('(10**10,)'), shape('(10000000000,)'), shape('(-1,)'), shape('(1, 2'), shape('(' * 900),
        shape("('a',)"), b'\\\n', b'"""', shape('(0, 10000000000)'), b"{'descr': '|O'}", shape('(2.0,)'),
        b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }\n", b'\xff' * 9,
    )  # fmt: skip
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
        [f"CREATE VIEW topics AS {endless} SELECT x AS id, 'a' AS name, 'b' AS type, 'cdr' AS "
         'serialization_format FROM c', 'CREATE TABLE messages (id, topic_id, timestamp, data)'],
        [topics, topic, 'CREATE TABLE messages (id INTEGER, topic_id INTEGER, timestamp INTEGER, '
         'data BLOB GENERATED ALWAYS AS (zeroblob(900000000)))',
         'INSERT INTO messages (id, topic_id, timestamp) VALUES (1, 1, 1), (2, 1, 2), (3, 1, 3)'],
        [topics, topic, 'CREATE TABLE messages (id, topic_id, timestamp, data)',
         "INSERT INTO messages VALUES (1, 1, 'text', 'text'), (2, 1, NULL, NULL), (3, 1, 1.5, 7)"],
        [topics, topic, 'CREATE TABLE messages (id, topic_id, timestamp, data)',
         "INSERT INTO messages VALUES (1, 1, 9223372036854775807, x'00'), (2, 1, -1, x'')"],
        [topics, "INSERT INTO topics VALUES ('a', 1, NULL, 'cdr'), (1, x'ff', 2.5, 'cdr')",
         'CREATE TABLE messages (id, topic_id, timestamp, data)'],
        ['CREATE TABLE topics (a)', 'CREATE TABLE messages (b)'],
    ]  # fmt: skip
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
    telling = [
        b'rosbag2_bagfile_information: ' + text for text in (*DEEP, b'&a [*a]', b'9' * 5000)
    ]
    for data in (*YAMLS, *telling, PIPE, DEVICE):
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
        (b'"format": 1', b'"format": ' + b'9' * 5000), (b'"raw_rows": ', b'"raw_rows": 1e400, "x": '),
        (b'"regrouping": [', b'"regrouping": [' + b'9' * 400 + b', '), (b'"joints": [', b'"joints": [[], '),
        (b'"settings": {', b'"settings": [' + b'[' * 50_000 + b'{'), (b'"robot": {', b'"robot": 1, "y": {'),
        (b'"recordings": [', b'"recordings": [{"name": {}, "start": []}, '), (b'{', b'[' * 100_000),
        (b'"trim": 0.05', b'"trim": 1e308'), (b'-9.81', b'1e308'), (b'"base": [', b'"base": [null, '),
        (b'"name"', b'"x"'), (b'"urdf": "', b'"urdf": "x'), (b'"rows": [', b'"rows": [[1, 2], '),
    ):  # fmt: skip
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
    for key in (b'parameters', b'standard_parameters', b'settings', b'robot', b'identification'):
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


def priors() -> Sequence[Case]:
    """Return parameters that are none."""
    more = (
        b'm: 1e308\n',
        b'm: [1e308, -1e308]\n',
        b'link_1.m: ' + b'9' * 39 + b'\n',
        b'? [m]\n: 1\n',
    )
    return [Case({'prior.yaml': data}, 'prior.yaml') for data in (*YAMLS, *more, PIPE, DEVICE)]


def stores() -> Sequence[Case]:
    """Return journals that no fleet has written."""
    lines = (
        b'[' * 100_000,
        b'{}',
        b'9' * 5000,
        b'{"key": []}',
        b'null',
        b'"a"',
        b'\xff\n',
        b'{"key": "../../x"}',
    )
    return [
        Case({'journal.jsonl': line + b'\n'}, 'journal.jsonl') for line in (*lines, PIPE, DEVICE)
    ]
