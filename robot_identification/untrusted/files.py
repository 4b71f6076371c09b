# SPDX-License-Identifier: Apache-2.0
"""
Paths, regular files and YAML of users.

Errors of files are `OSError` with a text in ``strerror``, as the system's are; readers add the
format.  YAML has limits on nesting, aliases, nodes and the length of numbers: PyYAML's composers
recurse once a level (in C, until the stack overflows), and aliases let a kilobyte stand for
gigabytes.  The composer here counts the nodes before anything is constructed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import errno
import os
from pathlib import Path
import re
import stat
from typing import Any, BinaryIO

import yaml
from yaml.composer import Composer, ComposerError
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.cyaml import CParser
from yaml.events import AliasEvent, NodeEvent
from yaml.resolver import Resolver

from ..errors import reading_failure, SettingsError

DOCUMENT_SIZE = 64 << 20
"""Largest size of settings, results and URDFs [bytes]."""

MAX_DEPTH = 64
"""Levels of mappings and lists in each other."""

MAX_NODES = 5_000_000
"""Scalars, mappings and lists in a document."""

MAX_ALIASED_NODES = 100_000
"""Nodes that the aliases of a document stand for, all together."""

MAX_INTEGER_LENGTH = 40
"""Characters of an integer; one of 64 bits has 20 at most."""

MAX_NAME = 200
"""Bytes of the name of a file or folder that is made; most file systems have 255."""

_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = (
    (stat.S_ISDIR, 'is a folder'),
    (stat.S_ISFIFO, 'is a pipe'),
    (stat.S_ISCHR, 'is a device'),
    (stat.S_ISBLK, 'is a device'),
    (stat.S_ISSOCK, 'is a socket'),
)


def user_path(path: str | os.PathLike) -> Path:
    """Return a path with ``~`` expanded; raises SettingsError for what is no path."""
    text = os.fspath(path)
    try:
        if '\0' in text:
            raise ValueError('it contains a NUL character')
        os.fsencode(text)
        return Path(text).expanduser()
    except (ValueError, RuntimeError) as error:
        reason = 'it is not text' if isinstance(error, UnicodeError) else str(error)
        raise SettingsError(
            f'{text!r} is not a path: {reason}', file=text, remedy='correct the path'
        ) from None


def plain_name(name: str, what: str, key: str | None = None) -> str:
    """
    Return a name for a file or folder, without white space around it.

    A name that the commands of a shell take for an option, a home or a hidden file is refused,
    and so is one that is not printable or leads to another folder.

    Parameters
    ----------
    name:
        The name; empty for that which the caller chooses.
    what, key:
        What it names, for errors, as ``the recording's name``, and its key.

    Raises
    ------
    SettingsError
        for any other name.

    """
    name = name.strip()
    printable = name.isprintable()
    if printable and not re.search(r'^[.~-]|[/\\]', name) and len(name.encode()) <= MAX_NAME:
        return name
    shown = name[:80] if printable else ascii(name[:80])[1:-1]
    raise SettingsError(
        f"{what} is '{shown}'",
        key=key,
        value=name,
        remedy=f'give a plain name of up to {MAX_NAME} bytes, without / and \\, that does not '
        "begin with '.', '-' or '~'",
    )


def require_regular(path: str | os.PathLike, limit: int | None = None) -> None:
    """
    Require a regular file, without opening it, of at most ``limit`` bytes; None for any.

    Raises
    ------
    OSError
        for a file that does not exist, is not regular, or is too large.

    """
    try:
        _check(os.stat(path), path, limit)
    except ValueError as error:  # a NUL character in the path
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from None


def unusable(file: Path) -> str | None:
    """Return why a path is no file or folder, None if it is one: reading a pipe may never end."""
    try:
        mode = file.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 'does not exist'
    except (OSError, ValueError) as error:
        return f'cannot be opened ({getattr(error, "strerror", None) or error})'
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else 'is neither a file nor a folder'


def open_regular(
    path: str | os.PathLike, limit: int | None = None, buffering: int = -1
) -> BinaryIO:
    """Open a file for reading that `require_regular` accepts: a pipe might never end."""
    require_regular(path, limit)
    number = os.open(path, _OPEN_FLAGS)
    try:
        # the path may have got another file since it was looked at
        _check(os.fstat(number), path, limit)
        stream: BinaryIO = os.fdopen(number, 'rb', buffering)
        return stream
    except BaseException:
        os.close(number)
        raise


@contextmanager
def readable(path: str | os.PathLike, remedy: str, key: str | None = None) -> Iterator[None]:
    """Raise `SettingsError` naming a file that the block cannot read as text or as YAML."""
    try:
        yield
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        text = f"'{path}': {reading_failure(error)}"
        raise SettingsError(text, file=str(path), key=key, remedy=remedy) from error


def read_bytes(path: str | os.PathLike, limit: int | None = None) -> bytes:
    """Return the content of a regular file; raises OSError as `require_regular`."""
    with open_regular(path, limit) as stream:
        return stream.read()


def read_text(
    path: str | os.PathLike, limit: int | None = DOCUMENT_SIZE, encoding: str = 'utf-8'
) -> str:
    """
    Return the text of a regular file.

    Raises
    ------
    OSError
        as `require_regular`.
    UnicodeDecodeError
        for what is no text in that encoding.

    """
    return read_bytes(path, limit).decode(encoding)


def _check(status: os.stat_result, path: str | os.PathLike, limit: int | None) -> None:
    name = os.fspath(path)
    if not stat.S_ISREG(status.st_mode):
        kind = next((text for is_kind, text in _KINDS if is_kind(status.st_mode)), 'is special')
        number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
        raise OSError(number, f'it {kind}, not a regular file', name)
    if limit is not None and status.st_size > limit:
        sizes = f'{1e-6 * status.st_size:.0f} MB, more than the {1e-6 * limit:.0f} MB'
        raise OSError(errno.EFBIG, f'it has {sizes} that such a file may have', name)


# --------------------------------------------------------------------------- YAML


class LimitedComposer(Composer):
    """Composer within the limits above, to be put in front of PyYAML's own parts."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._nodes = 0
        self._aliased = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Compose the node that begins with the next event."""
        event: NodeEvent = self.peek_event()
        if isinstance(event, AliasEvent):
            return self._compose_alias(event, parent, index)
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH:
            raise ComposerError(None, None, f'nested deeper than {MAX_DEPTH}', event.start_mark)
        if self._nodes > MAX_NODES:
            raise ComposerError(None, None, f'more than {MAX_NODES} values', event.start_mark)
        before = self._nodes + self._aliased
        node = super().compose_node(parent, index)
        self._depth -= 1
        if event.anchor is not None:
            self._sizes[event.anchor] = self._nodes + self._aliased - before + 1
        return node

    def _compose_alias(self, event: AliasEvent, parent: yaml.Node | None, index: Any) -> yaml.Node:
        if event.anchor in self.anchors and event.anchor not in self._sizes:
            raise ComposerError(None, None, 'a value contains itself', event.start_mark)
        self._aliased += self._sizes.get(event.anchor, 0)
        if self._aliased > MAX_ALIASED_NODES:
            problem = f'aliases stand for more than {MAX_ALIASED_NODES} values'
            raise ComposerError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)


class LimitedConstructor(SafeConstructor):
    """Constructor of plain data; a value that does not fit its tag is an error of YAML."""

    def construct_yaml_int(self, node: yaml.Node) -> int:
        """Return an integer that is not longer than `MAX_INTEGER_LENGTH`."""
        if isinstance(node, yaml.ScalarNode) and len(node.value) > MAX_INTEGER_LENGTH:
            problem = f'an integer of {len(node.value)} characters'
            raise ConstructorError(None, None, problem, node.start_mark)
        return super().construct_yaml_int(node)

    def construct_document(self, node: yaml.Node) -> Any:
        """Return the data of a document."""
        try:
            return super().construct_document(node)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            # of int, float, datetime and binascii, for text that a tag does not fit
            problem = f'a value does not fit its tag ({error})'
            raise ConstructorError(None, None, problem, node.start_mark) from error


LimitedConstructor.add_constructor('tag:yaml.org,2002:int', LimitedConstructor.construct_yaml_int)


class LimitedLoader(LimitedComposer, CParser, LimitedConstructor, Resolver):
    """PyYAML's safe loader within limits, with the parser in C."""

    def __init__(self, stream: Any) -> None:
        CParser.__init__(self, stream)
        LimitedComposer.__init__(self)
        LimitedConstructor.__init__(self)
        Resolver.__init__(self)


def load_yaml(text: str) -> Any:
    """
    Return the data of YAML 1.1, as ``yaml.safe_load`` does.

    Raises
    ------
    yaml.YAMLError
        for what is no YAML, exceeds a limit, contains itself or does not fit its tag.

    """
    loader = LimitedLoader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()
