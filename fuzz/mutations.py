# SPDX-License-Identifier: Apache-2.0
"""Mutations of bytes, of text and of the words and numbers in it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
import re
import struct

WORDS = (
    '', '0', '-1', '1e308', '-1e308', '1e-320', '.inf', '-.inf', '.nan', 'nan', 'inf', 'null', '~',
    'true', '9' * 40, '9' * 5000, '0x' + 'f' * 600, '1' + '0' * 400, '2147483648', '-2147483649',
    '18446744073709551616', '1_000', '1:30:00', '2001-99-99', '"', "'", '[]', '{}', '[[[]]]',
    '[' * 70 + ']' * 70, '[' * 5000, '{a: ' * 3000, '- ' * 2000, '&a', '*a', '&a [*a]', '<<: *a',
    '!!python/object/apply:os.system [true]', '!!int x', '!!binary x', '!!timestamp x',
    '!!set {a}', '!!null', '!!float ""', '\0', 'a\0b', '~nouser/file', '~root', '..', '../..',
    '/', '/dev/zero', '/dev/stdin', '/proc/self/mem', 'pipe', 'folder', 'x' * 300, 'x' * 200_000,
    '\ufeff', '\u202e', '\u2028', '\ud800', '\ud83d\ude00', '\x1b[2J', '$\\frac{1$', 'a---b',
    '-->', '<', '>', '&', '&#0;', '&undeclared;', ']]>', '${9**9**9}', '$(env HOME)', '%s%n',
    '\t', '\r', ';', ',', '#', '1,5', '--', '0 0 0', '1e308 1e308 1e308', 'nan nan nan', '1 0',
)  # fmt: skip
"""What takes the place of a word or number: limits, foreign syntax, paths that are no files."""

INTEGERS = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64)

_WORD = re.compile(r'[^\s,:\[\]{}<>="\']+')
_NUMBER = re.compile(r'-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?')


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Return bytes with one to four mutations."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_ON_BYTES)(data, random)
    return data


def mutate_text(data: bytes, random: Random) -> bytes:
    """Return text with one to four mutations, now and then such that it is no text any more."""
    if random.random() < 0.1:
        return mutate_bytes(data, random)
    text = data.decode('utf-8', 'surrogateescape')
    for _ in range(random.choice((1, 1, 1, 1, 2, 3))):
        text = random.choice(_ON_TEXT)(text, random)
    return text.encode('utf-8', 'surrogatepass' if random.random() < 0.5 else 'replace')


def _flip(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 3, 16))):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _number(data: bytes, random: Random) -> bytes:
    size = random.choice((1, 2, 4, 8))
    value = random.choice(INTEGERS) & ((1 << 8 * size) - 1)
    at = random.randrange(max(1, len(data) - size))
    if random.random() < 0.3:
        size, packed = 8, struct.pack('<d', random.choice((0.0, 1e308, float('nan'), -1e9)))
    else:
        packed = value.to_bytes(size, random.choice(('little', 'big')))
    return data[:at] + packed + data[at + size :]


def _step(data: bytes, random: Random) -> bytes:
    """Add a little to a number of four bytes, as for a length that is wrong by one."""
    at = random.randrange(max(1, len(data) - 4))
    value = int.from_bytes(data[at : at + 4], 'little') + random.choice((-1, 1, 8, -8, 256))
    return data[:at] + (value % 2**32).to_bytes(4, 'little') + data[at + 4 :]


def _part(data: bytes, random: Random) -> tuple[int, int]:
    begin = random.randrange(len(data) + 1)
    length = random.choice((1, 4, 16, 64, 512, 4096))
    return begin, min(len(data), begin + random.randrange(length + 1))


def _cut(data: bytes, random: Random) -> bytes:
    begin, end = _part(data, random)
    return data[:begin] + data[end:]


def _double(data: bytes, random: Random) -> bytes:
    begin, end = _part(data, random)
    return data[:end] + random.choice((1, 2, 20)) * data[begin:end] + data[end:]


def _move(data: bytes, random: Random) -> bytes:
    begin, end = _part(data, random)
    at = random.randrange(len(data) + 1)
    return data[:at] + data[begin:end] + data[at + end - begin :]


def _noise(data: bytes, random: Random) -> bytes:
    begin, end = _part(data, random)
    return data[:begin] + random.randbytes(end - begin) + data[end:]


def _zeros(data: bytes, random: Random) -> bytes:
    begin, end = _part(data, random)
    return data[:begin] + bytes(end - begin) + data[end:]


def _end(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


_ON_BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (
    _flip, _flip, _number, _number, _step, _cut, _double, _move, _noise, _zeros, _end,
)  # fmt: skip


def _replace(pattern: re.Pattern, text: str, random: Random) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text + random.choice(WORDS)
    match = random.choice(found)
    return text[: match.start()] + random.choice(WORDS) + text[match.end() :]


def _other_word(text: str, random: Random) -> str:
    return _replace(_WORD, text, random)


def _other_number(text: str, random: Random) -> str:
    return _replace(_NUMBER, text, random)


def _scaled(text: str, random: Random) -> str:
    """Multiply a number by a power of ten, or change its sign."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    match = random.choice(found)
    factor = random.choice((-1.0, 0.0, 1e-9, 1e3, 1e9, 1e15))
    try:
        value = repr(float(match.group()) * factor)
    except ValueError:
        value = '0'
    return text[: match.start()] + value + text[match.end() :]


def _insert(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(WORDS) + text[at:]


def _swap_words(text: str, random: Random) -> str:
    found = list(_WORD.finditer(text))
    if len(found) < 2:
        return text
    first, second = sorted(random.sample(found, 2), key=lambda match: match.start())
    return (
        text[: first.start()] + second.group() + text[first.end() : second.start()]
        + first.group() + text[second.end() :]
    )  # fmt: skip


def _lines(text: str, random: Random) -> str:
    lines = text.split('\n')
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    kind = random.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at:at] = random.choice((1, 2, 100)) * [lines[at]]
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = random.choice(('  ', '    ', '\t', '- ')) + lines[at]
    return '\n'.join(lines)


def _characters(text: str, random: Random) -> str:
    begin = random.randrange(len(text) + 1)
    return text[:begin] + text[begin + random.randrange(12) :]


_ON_TEXT: tuple[Callable[[str, Random], str], ...] = (
    _other_word, _other_word, _other_number, _other_number, _scaled, _scaled, _scaled, _swap_words,
    _insert, _swap_words, _lines, _lines, _characters,
)  # fmt: skip
