# SPDX-License-Identifier: Apache-2.0
"""Texts that once felled a reader: settings, robots, tables, parameters. They are run first."""

from __future__ import annotations

from collections.abc import Sequence

from .seeds import Case, csv_file, DEVICE, ENTRY, experiment, PIPE, SETTINGS, urdf, XACRO

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
        ('trim: 0.05', 'trim: 1e308'),
        ('trim: 0.05', 'trim: 1e15'),
        ('cutoff: 10.0', 'cutoff: 1e300'),
        ('decimate_to: 20.0', 'decimate_to: 1e-300'),
        ('-9.81]', '-1e308]'),
        ('-9.81]', '1e200]'),
        ('decimate_to: 20.0', 'decimate_to: 20.0, sample_rate: 1e300'),
        ('decimate_to: 20.0', 'decimate_to: 20.0, sample_rate: 999999.0'),
        ('prior: urdf', 'prior: ~nouser/prior.yaml'),
        ('prior: urdf', 'prior: "a\\0b"'),
        ('prior: urdf', 'prior: pipe'),
        ('prior: urdf', 'prior: /dev/zero'),
        ('prior: urdf', 'prior: urdf, bootstrap: {block: 1e308}'),
        ('prior: urdf', 'prior: urdf, bootstrap: {replicates: 999999999}'),
        ('method: ols', 'method: mrls, mrls: {bounds_file: pipe}'),
        ('urdf: arm.urdf', 'urdf: ~nouser/arm.urdf'),
        ('urdf: arm.urdf', 'urdf: "a\\0b"'),
        ('urdf: arm.urdf', 'urdf: pipe'),
        ('urdf: arm.urdf', 'urdf: /dev/zero'),
        ('urdf: arm.urdf', 'urdf: ' + 'x' * 300),
        ('urdf: arm.urdf', 'urdf: folder'),
        ('urdf: arm.urdf', 'urdf: package://../../x'),
        ('file: run.csv', 'file: ~nouser/run.csv'),
        ('file: run.csv', 'file: "a\\0b.csv"'),
        ('file: run.csv', 'file: pipe, format: csv'),
        ('file: run.csv', 'file: /dev/zero, format: npz'),
        ('file: run.csv', 'file: pipe, format: npz'),
        ('file: run.csv', 'file: /proc/self/mem, format: csv'),
        ('file: run.csv', "file: run.csv, delimiter: ''"),
        ('file: run.csv', 'file: run.csv, delimiter: "ab"'),
        ('time: t', 'rate: 1e308'),
        ('time: t', 'rate: 1e-300'),
        ('time: t', 'time: ' + '9' * 30),
        ('[q1, q2]', '[q1, ' + '9' * 30 + ']'),
        ('file: run.csv', 'file: run.csv, rows: [0, 99999999999999999999]'),
    ):
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
        text.replace('0 0 1', '0 0 0'),
        text.replace('xyz="0 0 1"', 'xyz="0 0 1e-320"'),
        text.replace('mass value="', 'mass value="1e308" x="'),
        text.replace('ixx="', 'ixx="1e308" x="'),
        text.replace('value="', 'value="nan" x="'),
        text.replace('lower="', 'lower="1e308" x="'),
        text.replace('upper="', 'upper="nan" x="'),
        text.replace('<parent link="', '<parent link="x'),
        text.replace('joint_2', 'joint_1'),
        text.replace('rpy="', 'rpy="1e308 0 0" x="'),
        '<' * 1000,
        '<robot>' * 1000,
        '<robot/>',
    ]
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
    quick = ("'x' * 10**10", '[0] * 10**9', '1/0', '().__class__')
    texts = [XACRO.replace('0.5 * 2', expression) for expression in quick]
    base = '<link name="base"/>'
    again = '<xacro:macro name="again"><xacro:again/></xacro:macro><xacro:again/>'
    texts += [
        XACRO.replace(base, again),
        XACRO.replace('0.5 * 2', '9**9**9'),
        XACRO.replace(base, '<xacro:include filename="pipe"/>'),
    ]
    cases = [Case({'arm.urdf.xacro': text.encode()}, 'arm.urdf.xacro') for text in texts]
    return [*cases, Case({'arm.urdf.xacro': PIPE}, 'arm.urdf.xacro')]


def csvs() -> Sequence[Case]:
    """Return text that is no table."""
    table = csv_file()
    head, rest = table.split(b'\n', 1)
    cell = b'1' * 200_000
    contents = [
        b'"' + cell + b'",0,0,0,0\n' + rest,
        head + b'\n' + cell + b',0,0,0,0\n' + rest,
        head + b'\n"' + cell + b'",0,0,0,0\n' + rest,
        cell * 20,
        b',' * 500_000,
        b'"' * 1000,
        head + b'\n' + b'0,' * 300_000,
        table.replace(b'0.01,', b'1e308,', 1),
        table.replace(b'\n0.01,', b'\n-1e308,', 1),
        table.replace(b'\n3.99,', b'\n1e12,', 1),
        b'',
        b'\n',
        PIPE,
        DEVICE,
        head + b'\n',
        table.replace(b'0.', b'1e307'),
    ]
    return [
        Case(experiment(f'file: run.csv, {ENTRY}', run__csv=data), 'run.csv') for data in contents
    ]


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
