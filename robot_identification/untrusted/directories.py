# SPDX-License-Identifier: Apache-2.0
"""
Files that requests may name.

Callers of services read and write files with the rights of the node.  So files that are named
after the start have to lie below folders that were named at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import one_of, SettingsError


def given_path(text: str, key: str, base: Path = Path()) -> Path:
    """
    Return the absolute path under a key of a request or a parameter, from ``base`` on.

    ``~`` is a home folder; raises `SettingsError` where there is no such home.
    """
    try:
        return (base / Path(text).expanduser()).absolute()
    except RuntimeError as error:
        raise SettingsError(
            f"'{key}' is '{text[:80]}', but there is no such user",
            key=key,
            value=text,
            remedy='give a path that does not begin with ~',
        ) from error


@dataclass(frozen=True)
class DataDirectories:
    """Absolute paths of the folders, with all links resolved."""

    folders: tuple[Path, ...]

    @classmethod
    def from_names(cls, named: Sequence[str], more: Iterable[Path]) -> DataDirectories:
        """Return named folders, or without any the present one unless that is /, and ``more``."""
        given = [given_path(text, 'data_directories') for text in named]
        here = Path.cwd()
        if not given and here != Path(here.anchor):
            given = [here]
        folders = dict.fromkeys(_resolved(path, 'data_directories') for path in (*given, *more))
        return cls(tuple(folders))

    def resolve(self, path: Path, key: str, *, inside: bool = False) -> Path:
        """
        Return a path without links, of a file or folder that a request names under a key.

        With ``inside``, links in a folder are checked, too.

        Raises
        ------
        SettingsError
            where it is not below one of the folders; the message does not depend on the file.

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
