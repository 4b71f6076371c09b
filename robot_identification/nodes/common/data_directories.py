# SPDX-License-Identifier: Apache-2.0
"""
Folders below which requests may name files.

Callers of services read and write files with the rights of the node.  So files that are named
after the start have to lie below folders that were named at the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rclpy.node import Node

from ...errors import one_of, SettingsError
from ...options.fields import option
from . import given_path


@dataclass(frozen=True)
class FileOptions:
    """Parameter of the nodes that open files on request."""

    data_directories: tuple[str, ...] = option(
        (),
        doc='Folders below which requests, and parameters that are changed later, may name files '
        'to read and to write; links and .. are resolved before. Empty: the folder that the node '
        'is started in, unless that is /. The folders of recordings and results, as they are at '
        'the start, belong to them',
        read_only=True,
    )


@dataclass(frozen=True)
class DataDirectories:
    """Absolute paths of the folders, with all links resolved."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, node: Node, options: FileOptions, more: Iterable[Path]) -> DataDirectories:
        """Return the folders of the option and ``more`` of other parameters, and log them."""
        given = [given_path(text, 'data_directories') for text in options.data_directories]
        here = Path.cwd()
        if not given and here != Path(here.anchor):
            given = [here]
        folders = dict.fromkeys(_resolved(path, 'data_directories') for path in (*given, *more))
        node.get_logger().info(
            f'requests may name files below {one_of(folders)} (data_directories)'
        )
        return cls(tuple(folders))

    def resolve(self, path: Path, key: str, *, inside: bool = False) -> Path:
        """
        Return a path without links, of a file or folder that a request may name.

        Parameters
        ----------
        path, key:
            The path, and its name in the request.
        inside:
            Whether links in a folder are checked, too.

        Raises
        ------
        SettingsError
            where it is not below one of the folders; it does not say whether the file exists.

        """
        resolved = _resolved(path, key)
        self._require(resolved, path, key)
        if inside:
            try:
                links = [entry for entry in resolved.iterdir() if entry.is_symlink()]
            except OSError:
                links = []  # no folder, or one whose reading fails with a reason of its own
            for link in links:
                self._require(_resolved(link, key), link, key)
        return resolved

    def _require(self, resolved: Path, path: Path, key: str) -> None:
        if any(resolved.is_relative_to(folder) for folder in self.folders):
            return
        raise SettingsError(
            f"'{key}': '{_shown(path)}' is not below {one_of(self.folders)}",
            key=key,
            remedy='name a file there, or start the node with another data_directories',
        )


def _resolved(path: Path, key: str) -> Path:
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, too long, NUL
        raise SettingsError(
            f"'{key}': '{_shown(path)}' is no path of a file", key=key, remedy='correct the path'
        ) from error


def _shown(path: Path) -> str:
    text = str(path)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 300 else f'{text[:80]}...'
