# SPDX-License-Identifier: Apache-2.0
"""URDFs from files: ``package://`` paths, xacro, and MJCF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
import os
from pathlib import Path
import re

from ..errors import ModelError
from ..untrusted.files import read_text, require_regular, user_path
from ..untrusted.xacro_process import expand_xacro
from .mjcf import is_mjcf, urdf_of_mjcf

URDF_SIZE = 16 << 20
"""Largest size of a URDF or xacro file [bytes]."""

_XACRO = re.compile(r'<(xacro:\w+)')


def read_urdf(
    source: str | os.PathLike, xacro_arguments: Mapping[str, str] | None = None
) -> tuple[str, Path | None]:
    """
    Return the URDF text and its path (None if ``source`` is the text itself).

    A file in MJCF is converted (`urdf_of_mjcf`).

    Raises ModelError if the file or package does not exist, or xacro is needed and missing or
    fails.
    """
    text = os.fspath(source)
    if text.lstrip().startswith('<'):
        return text, None
    path = resolve_package_path(text)
    if not os.path.exists(path):
        raise ModelError(
            f"URDF file '{path}' does not exist", file=str(path), remedy='correct the path'
        )
    if path.suffix != '.xacro':
        text = urdf_text(path)
        if unexpanded := _XACRO.search(re.sub(r'<!--.*?-->', '', text, flags=re.DOTALL)):
            raise ModelError(
                f"'{path}' has xacro elements that are not expanded, first <{unexpanded[1]}>",
                file=str(path),
                remedy=f"rename it to '{path.stem}.xacro', or expand it: "
                f"xacro '{path}' > expanded.urdf",
            )
        return (urdf_of_mjcf(path) if is_mjcf(text, path) else text), path
    with _readable(path):
        require_regular(path, URDF_SIZE)
    return expand_xacro(path, xacro_arguments or {}, package_folders()), path


def urdf_text(path: Path) -> str:
    """Return the text of a URDF or MJCF file; raise ModelError where it cannot be read."""
    with _readable(path):
        return read_text(path, URDF_SIZE)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into a ModelError."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"cannot read URDF file '{path}': {getattr(error, 'strerror', None) or error}",
            file=str(path),
            remedy='give a file in UTF-8 that may be read',
        ) from error


def resolve_package_path(path: str | os.PathLike) -> Path:
    """
    Turn ``package://<package>/<path>`` into a path; return any other path as it is.

    The package is looked for in AMENT_PREFIX_PATH (``share/<package>``), in ROS_PACKAGE_PATH, and,
    for this package itself, in `shared_folder`.
    """
    text = os.fspath(path)
    prefix = 'package://'
    if not text.startswith(prefix):
        return user_path(text)
    package, _, rest = text[len(prefix) :].partition('/')
    for folder in package_folders():
        if (folder / package / 'package.xml').is_file() or (folder / package / rest).exists():
            return folder / package / rest
    own = shared_folder() / rest
    if package == 'robot_identification' and own.exists():
        return own
    raise ModelError(
        f"package '{package}' of '{text}' is not found",
        file=text,
        remedy="source the workspace that has it, or give the file's own path",
    )


def shared_folder() -> Path:
    """Return the folder of this package's examples and robots: its sources, or its ``share``."""
    package = Path(__file__).resolve().parents[1]
    installed = (folder / 'share' / package.name for folder in package.parents)
    folders = (package.parent, *installed)
    found = (folder for folder in folders if (folder / 'package.xml').is_file())
    return next(found, package.parent)


def package_folders() -> list[Path]:
    """Folders in which ROS packages' shared files are looked for."""
    folders = [
        Path(p, 'share') for p in os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep) if p
    ]
    folders += [Path(p) for p in os.environ.get('ROS_PACKAGE_PATH', '').split(os.pathsep) if p]
    return folders


def add_package_path(folders: Sequence[Path]) -> None:
    """
    Let packages be looked for in folders, before those of ROS_PACKAGE_PATH.

    Raises ModelError if one does not exist.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ModelError(
                f"package folder '{folder}' does not exist",
                file=str(folder),
                remedy='give the folder that the package lies in',
            )
    known = os.environ.get('ROS_PACKAGE_PATH')
    added = [str(folder.absolute()) for folder in folders]
    if added:
        os.environ['ROS_PACKAGE_PATH'] = os.pathsep.join([*added, *([known] if known else [])])
